//! Ordered scans of rows: for listings, parts, recovery, settling.
//!
//! A listing skips tombstones known to be committed and rolls keys up below a delimiter by seeking past the
//! common prefix; a prefix carries as witness its first key that is not such a tombstone, so that a caller
//! that merges several volumes can judge whether any key lives below it.

use bytes::Bytes;

use sherd_core::id::{RegisterKey, Sequence};
use sherd_core::message::{
    Answer, LIST_PASSED_MAX, ListPage, ListScan, ListedRow, PartsScan, RowPage, RowScan, ScannedRow,
    UnsettledKind, UnsettledPage, UnsettledRow, behind, behind_prefix,
};
use sherd_core::register::acceptor::judge_epoch;
use sherd_core::register::listing::is_listed;
use sherd_core::register::seal::Seals;
use sherd_core::register::{Refusal, Row};

use crate::error::Error;
use crate::index::IndexError;
use crate::index::table::{
    OBJECT, PART, UNSETTLED, is_gone, parse_listed, parse_row_key, row_key, unsettled_key,
};
use crate::limits::PAGE_VALUES_BYTES_MAX;
use crate::lookup::{Lookup, Source};
use crate::read::reader::Reader;
use crate::read::scan::KeyWalk;
use crate::read::view::{StoredRow, VolumeShared, as_stored};
use crate::state::promises::judge_bucket;

/// Rows that one call looks at before it hands back what it has.
pub(super) const LOOKED_AT_MAX: usize = LIST_PASSED_MAX as usize;

impl Reader {
    /// Lists a page of a bucket.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn list(&self, scan: &ListScan) -> Result<Answer<ListPage>, Error> {
        self.shared.check()?;
        if let Err(refusal) = self.judge_list(scan) {
            return Ok(Answer { from: self.answerer(), result: Err(refusal) });
        }
        let page = self.list_page(scan)?;
        // A seal that came meanwhile binds the next call: this page is of the state before it.
        Ok(Answer { from: self.answerer(), result: Ok(page) })
    }

    fn judge_list(&self, scan: &ListScan) -> Result<(), Refusal> {
        let view = self.shared.view.read();
        if !view.small.standing().votes() {
            return Err(Refusal::Recovering);
        }
        judge_epoch(scan.epoch, view.small.epoch_max())?;
        match (view.small.seals_of(scan.bucket), scan.deletion) {
            (Seals::Open, None) => Ok(()),
            (Seals::Held(held), Some(deletion)) if held.contains(&deletion) => Ok(()),
            // Where the deletion's own seal is not here, its listing proves nothing.
            (Seals::Final | Seals::Held(_), _) | (Seals::Open, Some(_)) => Err(Refusal::Sealed),
        }
    }

    fn list_page(&self, scan: &ListScan) -> Result<ListPage, Error> {
        let table = |key: &[u8]| Bytes::from([&[OBJECT], &scan.bucket.0[..], key].concat());
        let lowest = table(&scan.prefix);
        let from = table(&scan.from).max(lowest.clone());
        let mut walk = KeyWalk::new(&self.shared, &from, behind_prefix(&lowest));
        let rows_after = self.shared.view.read().small.rows_after();
        let mut page = ListPage::default();
        let (mut looked_at, mut values_bytes) = (0, 0);
        let passed_max = scan.passed_max.clamp(1, LIST_PASSED_MAX);
        // Where to go on is behind what was looked at: a lister that stops there names it to its client.
        let mut next = None;
        while let Some((key, value)) = walk.next()? {
            let is_full = page.entries.len() >= scan.limit || values_bytes >= PAGE_VALUES_BYTES_MAX;
            if is_full || looked_at >= LOOKED_AT_MAX || page.hidden >= passed_max {
                let name = || key.slice(1 + scan.bucket.0.len()..);
                page.next = Some(next.unwrap_or_else(name));
                break;
            }
            looked_at += 1;
            let name = key.slice(1 + scan.bucket.0.len()..);
            let row = if is_gone(&value) { None } else { self.listed_row(&key, value, rows_after)? };
            let Some(row) = row else {
                page.hidden += 1;
                if looked_at >= LOOKED_AT_MAX || page.hidden >= passed_max {
                    next = Some(behind(&name));
                }
                continue;
            };
            values_bytes += value_bytes(&row);
            if let Some(prefix) = common_prefix(&name, scan) {
                let past = behind_prefix(&table(&prefix));
                next = behind_prefix(&prefix);
                page.entries.push(ListedRow::Prefix { prefix, witness: row });
                let Some(past) = past else { break };
                walk.seek(&past);
            } else {
                next = Some(behind(&name));
                page.entries.push(ListedRow::Row(row));
            }
        }
        // Behind the last row: floors only rise, and a row that was taken under a lower one may be a copy.
        page.floor = self.shared.view.read().small.floor;
        Ok(page)
    }

    /// The row of an entry, unless a listing skips it.
    fn listed_row(
        &self,
        key: &Bytes,
        value: Bytes,
        rows_after: Sequence,
    ) -> Result<Option<ScannedRow>, Error> {
        let Some((register, stored)) = self.shared.scanned(key, value, rows_after)? else { return Ok(None) };
        if !is_listed(stored.row.head.committed, stored.row.tombstone) {
            return Ok(None);
        }
        Ok(Some(self.shared.scanned_row(register, &stored, true)))
    }

    /// Rows of an upload's parts, in the order of their numbers, tombstones too, behind `after`.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn parts(&self, scan: &PartsScan) -> Result<Answer<Vec<ScannedRow>>, Error> {
        let PartsScan { bucket, upload, slot, epoch, after, limit } = *scan;
        self.shared.check()?;
        let judged = {
            let small = &self.shared.view.read().small;
            judge_epoch(epoch, small.epoch_of(slot)).and_then(|()| judge_bucket(small, bucket))
        };
        if let Err(refusal) = judged {
            return Ok(Answer { from: self.answerer(), result: Err(refusal) });
        }
        let all = [&[PART], &bucket.0[..], &upload.0[..]].concat();
        let from = match after.map(|number| number.checked_add(1)) {
            None => all.clone(),
            Some(Some(next)) => [&all[..], &next.to_be_bytes()].concat(),
            Some(None) => return Ok(Answer { from: self.answerer(), result: Ok(Vec::new()) }),
        };
        let rows_after = self.shared.view.read().small.rows_after();
        let mut walk = KeyWalk::new(&self.shared, &from, behind_prefix(&all));
        let mut rows = Vec::new();
        while rows.len() < limit {
            let Some((key, value)) = walk.next()? else { break };
            if let Some((register, stored)) = self.shared.scanned(&key, value, rows_after)? {
                rows.push(self.shared.scanned_row(register, &stored, true));
            }
        }
        Ok(Answer { from: self.answerer(), result: Ok(rows) })
    }

    /// All rows, of all buckets, tombstones too: for recovery, scrub, and catching up. On a volume
    /// that lost its state these are the rows of the life before as well: what can still be saved.
    ///
    /// # Errors
    /// [`Error::Refused`] by a volume that has seen a later topology, [`Error::Failed`].
    pub fn rows(&self, scan: &RowScan) -> Result<RowPage, Error> {
        self.shared.check()?;
        judge_epoch(scan.epoch, self.shared.view.read().small.epoch_max()).map_err(Error::Refused)?;
        let after = scan.after.as_ref();
        let from = after.map_or_else(|| Bytes::from_static(&[OBJECT]), |key| behind(&row_key(key)));
        let rows_after = {
            let small = &self.shared.view.read().small;
            if small.standing().has_lost_state() { Sequence(0) } else { small.rows_after() }
        };
        let mut walk = KeyWalk::new(&self.shared, &from, Some(Bytes::from_static(&[PART + 1])));
        let mut page = RowPage::default();
        let (mut looked_at, mut values_bytes) = (0, 0);
        let mut last = None;
        while let Some((key, value)) = walk.next()? {
            let is_full = page.rows.len() >= scan.limit.max(1) || values_bytes >= PAGE_VALUES_BYTES_MAX;
            if is_full || looked_at >= LOOKED_AT_MAX {
                page.next = Some(self.last_looked_at(last)?);
                break;
            }
            looked_at += 1;
            last = parse_row_key(&key).or(last);
            let Some((register, stored)) = self.shared.scanned(&key, value, rows_after)? else { continue };
            if stored.origin.sequence > scan.since && stored.origin.sequence <= scan.until {
                let row = self.shared.scanned_row(register, &stored, scan.want_value);
                values_bytes += value_bytes(&row);
                page.rows.push(row);
            }
        }
        Ok(page)
    }

    /// Rows that are not known to be committed, or committed ones that another volume of the set may lack,
    /// behind `after`. Both are in one list, and a page ends after a number of rows of either kind.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn unsettled(
        &self,
        kind: UnsettledKind,
        after: Option<&RegisterKey>,
        limit: usize,
    ) -> Result<UnsettledPage, Error> {
        self.shared.check()?;
        let from = after
            .map_or_else(|| Bytes::from_static(&[UNSETTLED]), |key| behind(&unsettled_key(&row_key(key))));
        let mut walk = KeyWalk::new(&self.shared, &from, Some(Bytes::from_static(&[UNSETTLED + 1])));
        let mut page = UnsettledPage::default();
        let (mut looked_at, mut last) = (0, None);
        while let Some((key, value)) = walk.next()? {
            if page.rows.len() >= limit.max(1) || looked_at >= LOOKED_AT_MAX {
                page.next = Some(self.last_looked_at(last)?);
                break;
            }
            looked_at += 1;
            let Some(key) = parse_row_key(&key.slice(1..)) else { continue };
            last = Some(key.clone());
            let Some((ballot, is_committed)) = parse_listed(&value) else { continue };
            if is_committed == (kind == UnsettledKind::Missed) {
                page.rows.push(UnsettledRow { key, ballot });
            }
        }
        Ok(page)
    }

    /// Where a scan that has more to look at goes on: behind the last of its keys that can be read. Keys that
    /// cannot be read are passed, but a page of nothing else names no place: without an error its caller
    /// would take the scan for complete.
    pub(super) fn last_looked_at(&self, last: Option<RegisterKey>) -> Result<RegisterKey, Error> {
        let what = || format!("of {LOOKED_AT_MAX} keys of rows not one can be read");
        last.ok_or_else(|| self.shared.index_failed(&IndexError::Damaged { what: what() }))
    }
}

impl VolumeShared {
    pub(super) fn scanned(
        &self,
        key: &Bytes,
        value: Bytes,
        rows_after: Sequence,
    ) -> Result<Option<(RegisterKey, StoredRow)>, Error> {
        let entry =
            crate::state::apply::decode_entry(key, value).map_err(|error| self.index_failed(&error))?;
        Ok(parse_row_key(key).zip(as_stored(entry, rows_after)))
    }

    fn scanned_row(&self, key: RegisterKey, stored: &StoredRow, want_value: bool) -> ScannedRow {
        let read = || self.value(&key, stored, Source::Disk).and_then(Lookup::or_busy).ok();
        let value = want_value.then(read).flatten();
        let (tombstone, is_missed) = (stored.row.tombstone, stored.row.is_missed);
        let row = Row { head: stored.head(), value_bytes: stored.row.head_bytes, value };
        ScannedRow { row, tombstone, is_missed, key }
    }
}

fn value_bytes(row: &ScannedRow) -> usize {
    row.row.value.as_ref().map_or(0, Bytes::len)
}

fn common_prefix(name: &Bytes, scan: &ListScan) -> Option<Bytes> {
    let delimiter = scan.delimiter.as_ref().filter(|delimiter| !delimiter.is_empty())?;
    let rest = name.get(scan.prefix.len()..)?;
    let at = rest.windows(delimiter.len()).position(|window| window == delimiter)?;
    Some(name.slice(..scan.prefix.len() + at + delimiter.len()))
}
