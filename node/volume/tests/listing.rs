//! Scans of a volume: listings with prefixes and delimiters, parts, all rows, what is pending.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use bytes::Bytes;

use sherd_core::id::{BucketId, Epoch, RegisterKey, Sequence, UploadId};
use sherd_core::message::{
    Control, LIST_PASSED_MAX, ListPage, ListScan, ListedRow, PartsScan, RowScan, Target, UnsettledKind,
    ValueLimit, behind, behind_prefix,
};
use sherd_core::record::row_key::{row_key, unsettled_key};
use sherd_core::register::Refusal;
use sherd_volume::error::Error;
use sherd_volume::index::{Change, Index};
use sherd_volume::lookup::{Lookup, Source};
use sherd_volume::request::Op;
use support::*;

fn scan(prefix: &str, delimiter: Option<&str>) -> ListScan {
    ListScan {
        bucket: BUCKET,
        epoch: Epoch(1),
        deletion: None,
        prefix: Bytes::copy_from_slice(prefix.as_bytes()),
        from: Bytes::new(),
        delimiter: delimiter.map(|text| Bytes::copy_from_slice(text.as_bytes())),
        limit: 100,
        passed_max: sherd_core::message::LIST_PASSED_MAX,
    }
}

fn shown(page: &ListPage) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    page.entries
        .iter()
        .map(|entry| match entry {
            ListedRow::Row(row) => row.key.key.as_str().to_owned(),
            ListedRow::Prefix { prefix, witness } => format!("{} ({})", text(prefix), witness.key.key),
        })
        .collect()
}

fn list(volume: &Driver, scan: &ListScan) -> ListPage {
    volume.reader.list(scan).unwrap().result.unwrap()
}

fn filled() -> Driver {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    for (count, name) in ["a", "b/1", "b/2", "b/c/3", "b0", "c/1", "d", "\u{10ffff}z"].iter().enumerate() {
        let ballot = ballot(count as u64 + 1);
        volume.write(&object(name), ballot, &value(count as u64, 10));
        volume.commit(&object(name), ballot);
    }
    volume.settle();
    volume
}

#[test]
fn a_delimiter_rolls_keys_up_by_seeking_and_names_a_witness() {
    let volume = filled();
    let all = list(&volume, &scan("", Some("/")));
    assert_eq!(shown(&all), ["a", "b/ (b/1)", "b0", "c/ (c/1)", "d", "\u{10ffff}z"]);
    assert_eq!(all.next, None);
    assert_eq!(shown(&list(&volume, &scan("b/", Some("/")))), ["b/1", "b/2", "b/c/ (b/c/3)"]);
    assert_eq!(shown(&list(&volume, &scan("b", None))), ["b/1", "b/2", "b/c/3", "b0"]);
    assert!(list(&volume, &scan("x", Some("/"))).entries.is_empty());
}

#[test]
fn folders_of_few_and_of_many_keys_are_passed_alike() {
    let mut volume = Bench::new(1).reopen();
    let mut shown_all = Vec::new();
    let mut count = 0;
    for folder in 0..90 {
        // Runs of small folders and of large ones, around as many entries as a walk passes singly.
        let size = if folder % 45 < 35 { 7 + folder % 5 } else { 1 + folder % 3 };
        for key in 0..size {
            count += 1;
            volume.write(&object(&format!("{folder:02}/{key:02}")), ballot(count), &value(count, 10));
        }
        shown_all.push(format!("{folder:02}/ ({folder:02}/00)"));
        count += 1;
        volume.write(&object(&format!("{folder:02}x")), ballot(count), &value(count, 10));
        shown_all.push(format!("{folder:02}x"));
        if folder % 4 == 0 {
            volume.settle();
        }
    }
    assert_eq!(shown(&list(&volume, &ListScan { limit: 1000, ..scan("", Some("/")) })), shown_all);
}

/// A page is in memory as a whole, and a value may have some mebibytes.
#[test]
fn a_page_ends_after_enough_bytes_of_values() {
    let mut volume = Bench::new(1).reopen();
    let large = large_value(1);
    let page_rows_count = ((1 << 20) as u64).div_ceil(large.head.len() as u64);
    let rows_count = 2 * page_rows_count + 1;
    for count in 1..=rows_count {
        volume.write(&object(&format!("{count:04}")), ballot(count), &large_value(count));
    }
    let limit = 10_000;
    let (mut keys, mut pages) = (Vec::new(), 0);
    let mut request = ListScan { limit, ..scan("", None) };
    loop {
        let page = list(&volume, &request);
        pages += 1;
        keys.extend(shown(&page));
        let Some(next) = page.next else { break };
        request.from = next;
    }
    let all: Vec<String> = (1..=rows_count).map(|count| format!("{count:04}")).collect();
    assert_eq!((keys, pages), (all.clone(), 3));
    let (mut keys, mut pages, mut after) = (Vec::new(), 0, None);
    loop {
        let page = volume.reader.rows(&RowScan::all(Epoch::FIRST, after, limit)).unwrap();
        pages += 1;
        keys.extend(page.rows.iter().map(|row| row.key.key.as_str().to_owned()));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((keys, pages), (all, 3));
}

#[test]
fn a_page_ends_behind_the_tombstones_that_it_may_pass() {
    let mut volume = Bench::new(1).reopen();
    let (mut count, mut passed) = (0, 0);
    for key in 0..30 {
        count += 1;
        volume.write(&object(&format!("k{key:02}")), ballot(count), &tombstone(count));
        volume.commit(&object(&format!("k{key:02}")), ballot(count));
        // Some are in the index, and some only in the overlay.
        if key == 17 {
            volume.settle();
        }
    }
    volume.write(&object("k07x"), ballot(count + 1), &value(1, 10));
    let mut request = ListScan { passed_max: 5, ..scan("", None) };
    let (mut seen, mut ends) = (Vec::new(), Vec::new());
    loop {
        let page = list(&volume, &request);
        assert!(page.hidden <= 5);
        passed += page.hidden;
        seen.extend(shown(&page));
        let Some(next) = page.next else { break };
        ends.push(String::from_utf8(next.to_vec()).unwrap());
        request.from = next;
    }
    assert_eq!((seen, passed), (vec!["k07x".to_owned()], 30));
    assert_eq!(ends, ["k04\0", "k09\0", "k14\0", "k19\0", "k24\0"], "each behind the last that was passed");
}

/// A walk takes the overlay piece by piece, and a seek may pass pieces.
#[test]
fn a_long_overlay_is_walked_whole() {
    let mut volume = Bench::new(1).reopen();
    let mut names = Vec::new();
    for count in 1..=1300_u64 {
        let name = format!("{:02}/{count:04}", count / 700);
        volume.write(&object(&name), ballot(count), &value(count, 10));
        if count == 40 {
            volume.settle();
        }
        names.push(name);
    }
    let limit = 10_000;
    assert_eq!(shown(&list(&volume, &ListScan { limit, ..scan("", None) })), names);
    let folders = shown(&list(&volume, &ListScan { limit, ..scan("", Some("/")) }));
    assert_eq!(folders, ["00/ (00/0001)", "01/ (01/0700)"]);
}

#[test]
fn pages_follow_each_other_without_gap_or_repetition() {
    let volume = filled();
    for limit in 1..4 {
        let mut request = ListScan { limit, ..scan("", Some("/")) };
        let mut seen = Vec::new();
        loop {
            let page = list(&volume, &request);
            seen.extend(shown(&page));
            let Some(next) = page.next else { break };
            request.from = next;
        }
        assert_eq!(seen, ["a", "b/ (b/1)", "b0", "c/ (c/1)", "d", "\u{10ffff}z"], "limit {limit}");
    }
    let after = ListScan { from: behind_prefix(b"b/").unwrap(), ..scan("", Some("/")) };
    assert_eq!(shown(&list(&volume, &after))[0], "b0");
    let inside = ListScan { from: behind(object("b/1").key.as_bytes()), ..scan("", Some("/")) };
    assert_eq!(
        shown(&list(&volume, &inside))[0],
        "b/ (b/2)",
        "a dead witness is sought past inside the prefix"
    );
}

#[test]
fn only_tombstones_known_to_be_committed_are_skipped() {
    let mut volume = filled();
    volume.write(&object("b/1"), ballot(100), &tombstone(100));
    assert_eq!(
        shown(&list(&volume, &scan("", Some("/"))))[1],
        "b/ (b/1)",
        "no hint says that it is committed"
    );
    volume.commit(&object("b/1"), ballot(100));
    volume.settle();
    assert_eq!(shown(&list(&volume, &scan("", Some("/"))))[1], "b/ (b/2)");
    let scan = RowScan::all(Epoch::FIRST, None, 100);
    let rows = volume.reader.rows(&scan).unwrap().rows;
    assert!(rows.iter().any(|row| row.key == object("b/1") && row.tombstone), "a scan of all rows has it");
}

#[test]
fn rows_that_are_judged_and_not_durable_are_not_listed() {
    let mut volume = filled();
    let ballot = ballot(200);
    volume.prepare(&object("new"), ballot).unwrap().result.unwrap();
    let (answer, done) = slot();
    let accept = sherd_core::register::Accept {
        ballot,
        value: value(1, 0),
        introduces: Vec::new(),
        finishes: false,
        positions: std::sync::Arc::default(),
        origin: sherd_core::register::ValueOrigin::default(),
    };
    volume.volume.submit(Op::Accept { target: target(&object("new")), accept, heal: None, done });
    assert!(!shown(&list(&volume, &scan("", None))).contains(&"new".to_owned()));
    let Lookup::Immediate(vote) =
        volume.reader.row(&target(&object("new")), ValueLimit::USUAL, Source::Disk).unwrap()
    else {
        panic!("nothing is judged yet");
    };
    assert_eq!(vote.result.unwrap().row, None);
    volume.run();
    assert!(answer.lock().is_some());
    assert!(shown(&list(&volume, &scan("", None))).contains(&"new".to_owned()));
}

#[test]
fn a_sealed_bucket_is_listed_only_for_the_deletion_that_sealed_it() {
    let mut volume = filled();
    let seal = |deletion| Control::Seal { bucket: BUCKET, deletion: change(deletion), epoch: Epoch(1) };
    let mut own = ListScan { deletion: Some(change(1)), ..scan("", None) };
    assert_eq!(volume.reader.list(&own).unwrap().result, Err(Refusal::Sealed), "its seal is not here yet");
    volume.control(seal(1)).unwrap().unwrap();
    assert_eq!(volume.reader.list(&scan("", None)).unwrap().result, Err(Refusal::Sealed));
    assert_eq!(list(&volume, &own).entries.len(), 8);
    volume.control(seal(2)).unwrap().unwrap();
    volume.control(Control::Unseal { bucket: BUCKET, deletion: change(1) }).unwrap().unwrap();
    assert_eq!(volume.reader.list(&own).unwrap().result, Err(Refusal::Sealed));
    own.deletion = Some(change(2));
    assert_eq!(list(&volume, &own).entries.len(), 8);
    own.epoch = Epoch(0);
    assert_eq!(volume.reader.list(&own).unwrap().result, Err(Refusal::StaleEpoch { epoch: Epoch(1) }));
    volume.control(Control::SealForEver { bucket: BUCKET }).unwrap().unwrap();
    volume.control(Control::Unseal { bucket: BUCKET, deletion: change(2) }).unwrap().unwrap();
    assert_eq!(volume.read(&object("a")).unwrap().result, Err(Refusal::Sealed));
}

#[test]
fn parts_come_in_the_order_of_their_numbers() {
    let mut volume = filled();
    for (count, number) in [(50, 300), (51, 2), (52, 10_000)] {
        volume.write(&part("a", 1, number), ballot(count), &value(count, 0));
    }
    volume.write(&part("a", 2, 1), ballot(60), &value(60, 0));
    let upload = UploadId([1; 16]);
    let Target { slot, epoch, .. } = target(&object("a"));
    let scan = PartsScan { bucket: BUCKET, upload, slot, epoch, after: None, limit: 10 };
    let parts = |after, limit| {
        let scan = PartsScan { after, limit, ..scan };
        let rows = volume.reader.parts(&scan).unwrap().result.unwrap();
        rows.iter().map(|row| row.key.part.unwrap().number).collect::<Vec<_>>()
    };
    assert_eq!(parts(None, 10), [2, 300, 10_000]);
    assert_eq!(parts(Some(2), 1), [300]);
    assert!(parts(Some(10_000), 10).is_empty());
    let other = volume.reader.parts(&PartsScan { bucket: BucketId([4; 16]), ..scan }).unwrap();
    assert_eq!(other.result, Ok(Vec::new()));
}

#[test]
fn a_scan_of_rows_goes_on_behind_its_cursor_and_shows_changes() {
    let mut volume = filled();
    volume.write(&part("a", 1, 1), ballot(70), &value(70, 0));
    let since = volume.reader.answerer().durable;
    volume.write(&object("d"), ballot(71), &value(71, 0));
    let mut names = Vec::new();
    let mut after = None;
    loop {
        let scan = RowScan { want_value: false, ..RowScan::all(Epoch::FIRST, after, 2) };
        let page = volume.reader.rows(&scan).unwrap();
        names.extend(page.rows.iter().map(|row| row.key.clone()));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(names.len(), 9);
    assert_eq!(names[8], part("a", 1, 1), "parts come behind objects");
    let all = RowScan { want_value: false, ..RowScan::all(Epoch::FIRST, None, 100) };
    let changed = volume.reader.rows(&RowScan { since, ..all.clone() }).unwrap();
    let older = volume.reader.rows(&RowScan { until: since, ..all }).unwrap();
    assert_eq!(older.rows.len(), 8, "what came later is left out");
    assert_eq!(changed.rows.iter().map(|row| row.key.clone()).collect::<Vec<_>>(), [object("d")]);
}

/// A volume with a row, `count` entries behind it whose keys are not keys of rows, and a row of a part behind
/// these: in the table of rows, and in that of rows which are not known to be committed.
fn with_unreadable_keys(count: u32) -> Driver {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.write(&object("a"), ballot(1), &value(1, 0));
    volume.write(&part("a", 1, 1), ballot(2), &value(2, 0));
    volume.settle();
    volume.reader.flush().unwrap();
    let index = bench.index.0.lock();
    let mut changes = Vec::new();
    for first in [row_key(&object("a")), unsettled_key(&row_key(&object("a")))] {
        let value = index.get(&first).unwrap().expect("it was flushed");
        // The name of an object is UTF-8.
        let key = |number: u32| [&first[..first.len() - 1], &[0xff], &number.to_be_bytes()].concat();
        changes
            .extend((0..count).map(|number| Change::Put { key: key(number).into(), value: value.clone() }));
    }
    index.apply(changes, Sequence(1 << 40)).unwrap();
    drop(index);
    volume
}

/// The keys that the pages of a scan give, until one of them is the last.
fn all_pages(
    mut page: impl FnMut(Option<RegisterKey>) -> Result<(Vec<RegisterKey>, Option<RegisterKey>), Error>,
) -> Result<Vec<RegisterKey>, Error> {
    let (mut keys, mut after) = (Vec::new(), None);
    loop {
        let (some, next) = page(after)?;
        keys.extend(some);
        let Some(next) = next else { return Ok(keys) };
        after = Some(next);
    }
}

/// The keys of a scan of all rows.
fn all_rows(volume: &Driver) -> Result<Vec<RegisterKey>, Error> {
    all_pages(|after| {
        let scan = RowScan { want_value: false, ..RowScan::all(Epoch::FIRST, after, 100) };
        let page = volume.reader.rows(&scan)?;
        Ok((page.rows.into_iter().map(|row| row.key).collect(), page.next))
    })
}

/// The keys of a scan of the rows that are not known to be committed.
fn all_uncommitted(volume: &Driver) -> Result<Vec<RegisterKey>, Error> {
    all_pages(|after| {
        let page = volume.reader.unsettled(UnsettledKind::Uncommitted, after.as_ref(), 100)?;
        Ok((page.rows.into_iter().map(|row| row.key).collect(), page.next))
    })
}

/// The first page ends among keys that cannot be read.
#[test]
fn a_scan_goes_on_behind_keys_that_cannot_be_read() {
    let volume = with_unreadable_keys(LIST_PASSED_MAX - 1);
    let both = [object("a"), part("a", 1, 1)];
    assert_eq!(all_rows(&volume).unwrap(), both);
    assert_eq!(all_uncommitted(&volume).unwrap(), both);
}

#[test]
fn a_scan_that_finds_no_place_to_go_on_at_fails_and_is_never_complete() {
    for scan in [all_rows, all_uncommitted] {
        let volume = with_unreadable_keys(2 * LIST_PASSED_MAX);
        assert!(matches!(scan(&volume), Err(Error::Failed { .. })));
    }
}

#[test]
fn a_page_of_no_rows_is_never_the_end() {
    let volume = filled();
    let page = volume.reader.rows(&RowScan::all(Epoch::FIRST, None, 0)).unwrap();
    assert_eq!((page.rows.len(), page.next), (1, Some(object("a"))));
}
