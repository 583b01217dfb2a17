//! A volume that lost its state votes again only after the steps of a recovery, and a restart in the
//! middle of them forgets none.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::sync::Arc;

use sherd_core::id::{Ballot, BucketId, Epoch, Life, Sequence, VolumeId};
use sherd_core::message::{AdoptedRow, Control, UnsettledKind};
use sherd_core::record::Value;
use sherd_core::register::position::{OpeningId, Position};
use sherd_core::register::recover::Guarantees;
use sherd_core::register::{Refusal, RowHead};
use sherd_volume::disk::{Disk, OpenMode};
use sherd_volume::error::Error;
use sherd_volume::lookup::Source;
use sherd_volume::options::UnreadablePolicy;
use sherd_volume::request::Op;
use sherd_volume::write::upkeep::State;
use support::*;

/// A ballot above every bound that a restart leaves.
fn late() -> Ballot {
    ballot(60_000 << 16)
}

/// A volume with two rows and rot between them.
fn rotten() -> Bench {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.write(&object("kept"), ballot(1), &value(1, 100));
    volume.write(&object("gone"), ballot(2), &value(2, 100));
    volume.settle();
    bench.kill();
    bench.index.wipe();
    let segment = bench.path.join("log").join(format!("{:020}.seg", 1));
    // Empty, bound and promise, row, row.
    bench.disk.rot(&segment, 4 * 4096..4 * 4096 + 40).unwrap();
    bench
}

fn guarantees() -> Guarantees {
    Guarantees {
        bound: ballot(50),
        floor: ballot(10),
        highest: ballot(40),
        lives: vec![(VolumeId([7; 16]), Life(3))],
        ..Guarantees::default()
    }
}

fn take() -> Control {
    let seals = vec![(BucketId([8; 16]), vec![change(1)])];
    Control::TakeGuarantees { guarantees: guarantees(), seals }
}

fn adopt(volume: &mut Driver, name: &str, count: u64) -> Result<(), Refusal> {
    adopt_row(volume, name, count, false)
}

fn adopt_row(volume: &mut Driver, name: &str, count: u64, is_missed: bool) -> Result<(), Refusal> {
    let value = value(count, 100);
    let head = RowHead { ballot: ballot(count), digest: Value::digest(&value.head), committed: true };
    let rows = vec![AdoptedRow { key: object(name), head, value, is_missed }];
    let (slot, done) = slot();
    volume.volume.submit(Op::Adopt { rows, done });
    volume.run();
    let answer = slot.lock().take();
    answer.unwrap().unwrap().result
}

#[test]
fn a_lost_volume_recovers_step_by_step_over_restarts() {
    let bench = rotten();
    let (mut volume, report) = bench.open().unwrap();
    assert!(report.lost_state.is_some());
    assert_eq!(volume.reader.answerer().life, Life(2));
    assert_eq!(volume.reader.status().state, State::Recovering { may_write: false });
    assert_eq!(volume.read(&object("kept")).unwrap().result, Err(Refusal::Recovering));
    let write = volume.accept(&object("a"), ballot(100), &value(1, 0)).unwrap().result;
    assert_eq!(write, Err(Refusal::Recovering));
    assert_eq!(adopt(&mut volume, "a", 5), Err(Refusal::Recovering));
    assert_eq!(volume.control(finish()).unwrap(), Err(Refusal::Recovering));
    assert_eq!(volume.control(Control::RaiseFloor { floor: ballot(9) }).unwrap(), Err(Refusal::Recovering));

    bench.kill();
    let (mut volume, _) = bench.open().unwrap();
    assert_eq!(volume.reader.answerer().life, Life(2), "the same loss, the same life");
    volume.volume.begin_life(Life(6)).unwrap();
    let mine = volume.control(take()).unwrap().unwrap();
    assert_eq!(mine.floor, ballot(50));
    assert_eq!(mine.lives, vec![(VolumeId([7; 16]), Life(3))]);
    let seals = [(BucketId([8; 16]), vec![change(1)])];
    assert_eq!(volume.reader.seals(None, 9), seals);

    bench.kill();
    let (mut volume, _) = bench.open().unwrap();
    assert_eq!(volume.reader.answerer().life, Life(6));
    assert_eq!(volume.reader.status().state, State::Recovering { may_write: true });
    assert_eq!(volume.reader.all_seals().collect::<Vec<_>>(), seals);
    let below = volume.accept(&object("new"), ballot(50), &value(1, 0)).unwrap().result;
    assert!(matches!(below, Err(Refusal::Below { .. })));
    let above = volume.accept(&object("new"), late(), &value(51, 0)).unwrap();
    assert_eq!(above.result, Ok(()));
    assert!(!above.from.votes, "it counts nowhere");
    adopt(&mut volume, "adopted", 5).unwrap();
    adopt_row(&mut volume, "missed", 6, true).unwrap();
    let missed = volume.reader.unsettled(UnsettledKind::Missed, None, 9).unwrap().rows;
    let keys: Vec<_> = missed.into_iter().map(|row| row.key).collect();
    assert_eq!(keys, [object("missed")], "it remembers, too, that another volume may lack it");

    let remembered =
        (VolumeId([9; 16]), Position { life: Life(2), opening: OpeningId(4), durable: Sequence(77) });
    let finish = Control::FinishRecovery { remembered: vec![remembered].into() };
    volume.control(finish).unwrap().unwrap();
    for round in 0..2 {
        assert!(
            volume.reader.memory().positions.contains(&remembered),
            "durable with its vote: round {round}"
        );
        let row = |volume: &mut Driver, name| volume.read(&object(name)).unwrap().result.unwrap().row;
        assert_eq!(row(&mut volume, "adopted").unwrap().head.ballot, ballot(5), "round {round}");
        assert_eq!(row(&mut volume, "new").unwrap().head.ballot, late());
        assert_eq!(row(&mut volume, "kept"), None, "a row of the life before that no peer had");
        assert!(volume.reader.answerer().votes);
        bench.kill();
        volume = bench.reopen();
    }
    let refused = volume.accept(&object("other"), ballot(45), &value(1, 0)).unwrap().result;
    assert!(matches!(refused, Err(Refusal::Below { .. })));

    // The loss was noted and is recovered from: a rebuild of the index finds it again, and needs no other
    // life.
    drop(volume);
    for round in 0..2 {
        bench.kill();
        bench.index.wipe();
        let mut volume = bench.reopen();
        assert_eq!(volume.reader.answerer().life, Life(6), "round {round}");
        assert!(volume.reader.answerer().votes);
        let row = volume.read(&object("adopted")).unwrap().result.unwrap().row;
        assert_eq!(row.unwrap().head.ballot, ballot(5), "round {round}");
    }
}

/// Recovers a volume that lost its state.
fn recover(volume: &mut Driver) {
    volume.control(take()).unwrap().unwrap();
    volume.control(finish()).unwrap().unwrap();
}

/// Wherever it is, rot that is new takes what the life behind it goes on with.
#[test]
fn rot_beside_a_noted_loss_is_a_loss_of_its_own() {
    // A seal of the life before; the row that was lost; the frame behind it.
    for (page, is_new) in [(3, true), (4, false), (5, true)] {
        let bench = Bench::new(1);
        let mut volume = bench.reopen();
        let seal = Control::Seal { bucket: BucketId([8; 16]), deletion: change(1), epoch: Epoch::FIRST };
        volume.write(&object("a"), ballot(1), &value(1, 100));
        volume.control(seal).unwrap().unwrap();
        volume.write(&object("gone"), ballot(2), &value(2, 100));
        volume.write(&object("b"), ballot(3), &value(3, 100));
        volume.settle();
        bench.kill();
        bench.index.wipe();
        let segment = bench.path.join("log").join(format!("{:020}.seg", 1));
        let rot = |page: u64| bench.disk.rot(&segment, page * 4096..page * 4096 + 40).unwrap();
        rot(4);
        let (mut volume, _) = bench.open().unwrap();
        recover(&mut volume);
        drop(volume);
        bench.kill();
        drop(bench.reopen());
        rot(page);
        bench.kill();
        bench.index.wipe();
        let (volume, report) = bench.open().unwrap();
        assert_eq!(report.lost_state.is_some(), is_new, "page {page}");
        assert_eq!(volume.reader.answerer().life.0, 2 + u32::from(is_new));
    }
}

/// A sector that comes and goes: once its records were taken up again, their loss is a new one.
#[test]
fn a_noted_loss_that_could_be_read_again_is_noted_once_more() {
    let mut bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.write(&object("a"), ballot(1), &value(1, 100));
    volume.write(&object("b"), ballot(2), &value(2, 100));
    volume.settle();
    drop(volume);
    bench.options.unreadable = UnreadablePolicy::Lose;
    let segment = bench.path.join("log").join(format!("{:020}.seg", 1));
    let reopen = || {
        bench.kill();
        bench.index.wipe();
        bench.open().unwrap()
    };
    let page = 4 * 4096..4 * 4096 + 10;
    bench.disk.make_unreadable(&segment, page.clone()).unwrap();
    recover(&mut reopen().0);
    bench.kill();
    drop(bench.reopen());
    bench.disk.make_readable(&segment).unwrap();
    assert_eq!(reopen().1.lost_state, None);
    bench.disk.make_unreadable(&segment, page).unwrap();
    assert!(reopen().1.lost_state.is_some());
}

/// Also where nothing of the log could be read behind it, so that the next life begins with its very
/// sequence.
#[test]
fn a_noted_loss_of_the_end_of_the_log_is_not_found_again() {
    let mut bench = Bench::new(1);
    let mut volume = bench.reopen();
    let last = bench.path.join("log").join(format!("{:020}.seg", 2));
    let mut time = 0;
    while bench.disk.open(&last, OpenMode::Read).is_err() {
        time += 1;
        volume.write(&object("a"), ballot(time), &value(time, 4_000));
    }
    volume.settle();
    drop(volume);
    bench.options.unreadable = UnreadablePolicy::Lose;
    bench.disk.make_unreadable(&last, 0..bench.options.segment_bytes).unwrap();
    let reopen = || {
        bench.kill();
        bench.index.wipe();
        bench.open().unwrap()
    };
    let (mut volume, report) = reopen();
    assert!(report.lost_state.is_some());
    recover(&mut volume);
    drop(volume);
    bench.kill();
    drop(bench.reopen());
    for round in 0..2 {
        let (volume, report) = reopen();
        assert_eq!(report.lost_state, None, "round {round}");
        assert_eq!(volume.reader.answerer().life, Life(2), "round {round}");
    }
}

/// An entry that only the index has would be gone with it.
#[test]
fn a_loss_of_what_the_index_still_has_is_found_again_without_it() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    let seal = Control::Seal { bucket: BucketId([8; 16]), deletion: change(1), epoch: Epoch::FIRST };
    volume.control(seal).unwrap().unwrap();
    for count in 0..20 {
        volume.put_shard(shard(count, 0), &bytes(count, 30_000)).unwrap();
        volume.delete_shard(shard(count, 0)).unwrap();
    }
    volume.settle();
    volume.reader.flush().unwrap();
    let tail = bench.path.join("log").join(format!("{:020}.seg", volume.reader.status().segments));
    let file = bench.disk.open(&tail, OpenMode::Read).unwrap();
    let frames_end = || {
        let mut bytes = vec![0; usize::try_from(bench.options.segment_bytes).unwrap()];
        file.read_at(&mut bytes, 0).unwrap();
        let pages = bytes.chunks(4096).rposition(|page| page.iter().any(|byte| *byte != 0));
        (pages.unwrap() as u64 + 1) * 4096
    };
    let from = frames_end();
    assert!(volume.compact() > 0, "the first segment goes, and the seal is moved");
    let until = frames_end();
    volume.put_shard(shard(50, 0), &bytes(50, 100)).unwrap();
    volume.settle();
    drop(volume);
    bench.kill();
    (from..until).step_by(4096).for_each(|at| bench.disk.rot(&tail, at..at + 40).unwrap());
    let (mut volume, report) = bench.open().unwrap();
    assert!(report.lost_state.is_some());
    assert_eq!(volume.reader.answerer().life, Life(2));
    recover(&mut volume);
    drop(volume);
    bench.kill();
    drop(bench.reopen());
    bench.kill();
    bench.index.wipe();
    let (volume, report) = bench.open().unwrap();
    assert!(report.lost_state.is_some(), "the seal that the life before went on with is gone");
    assert_eq!(volume.reader.answerer().life, Life(3));
}

/// A record may be whole in a frame that no replay can use. An index from before still names it, and a
/// rebuilt one does not: a lookup finds it in neither, so that it is healed as soon as its loss is noted.
#[test]
fn a_whole_record_in_a_noted_loss_is_not_found_with_any_index() {
    let mut bench = Bench::new(1);
    // The index follows at once, and is flushed in the middle of the stretch.
    bench.options.fold_entries = 1;
    let mut volume = bench.reopen();
    volume.write(&object("a"), ballot(1), &value(1, 100));
    for number in 0..8 {
        volume.put_shard(shard(number, 0), &bytes(number, 3_000)).unwrap();
        if number == 3 {
            volume.reader.flush().unwrap();
        }
    }
    volume.settle();
    drop(volume);
    bench.kill();
    let segment = bench.path.join("log").join(format!("{:020}.seg", 1));
    // Empty, bound and promise, row, shards: of three frames the headers, and nothing of their records.
    for page in [4 + 2, 4 + 3, 4 + 4] {
        bench.disk.rot(&segment, page * 4096..page * 4096 + 40).unwrap();
    }
    let (mut volume, report) = bench.open().unwrap();
    assert!(report.lost_state.is_some());
    recover(&mut volume);
    for round in 0..3 {
        for number in 0..8 {
            let is_there = !(2..=4).contains(&number);
            let found = [
                volume.reader.packed_len(shard(number, 0)).map(drop),
                volume.packed(shard(number, 0)).map(drop),
            ];
            for found in found {
                match found {
                    Ok(()) => assert!(is_there, "round {round}, shard {number}"),
                    Err(Error::NotFound) => assert!(!is_there, "round {round}, shard {number}"),
                    Err(error) => panic!("round {round}, shard {number}: {error}"),
                }
            }
        }
        assert_eq!(volume.read(&object("a")).unwrap().result.unwrap().row, None, "of the life before");
        drop(volume);
        bench.kill();
        if round == 1 {
            bench.index.wipe();
        }
        volume = bench.reopen();
    }
    volume.put_shard(shard(3, 0), &bytes(3, 3_000)).unwrap();
    assert_eq!(volume.packed(shard(3, 0)).unwrap(), bytes(3, 3_000));
}

#[test]
fn a_forced_recovery_goes_on_with_what_is_left() {
    let bench = rotten();
    let (mut volume, _) = bench.open().unwrap();
    volume.control(Control::ForceRecovery).unwrap().unwrap();
    bench.kill();
    let mut volume = bench.reopen();
    let row = volume.read(&object("kept")).unwrap().result.unwrap().row.unwrap();
    assert_eq!(row.head.ballot, ballot(1));
    assert!(matches!(volume.control(finish()), Err(Error::Corrupt { .. })));
    // Rows lie on both sides of the loss: they are judged again.
    drop(volume);
    bench.kill();
    bench.index.wipe();
    let (_, report) = bench.open().unwrap();
    assert!(report.lost_state.is_some());
}

#[test]
fn a_volume_in_the_place_of_a_lost_one_begins_recovering() {
    let bench = Bench::new(1);
    bench.disk.vanish(&bench.path).unwrap();
    let disk: Arc<dyn sherd_volume::disk::Disk> = Arc::new(bench.disk.clone());
    disk.create_dir(&bench.path).unwrap();
    bench.index.wipe();
    bench.create(4, Some("replaced".to_owned())).unwrap();
    for _ in 0..2 {
        let (volume, report) = bench.open().unwrap();
        assert_eq!(report.lost_state.as_deref(), Some("replaced"));
        assert_eq!(volume.reader.answerer().life, Life(4));
        assert_eq!(volume.reader.status().state, State::Recovering { may_write: false });
        bench.kill();
    }
}

#[test]
fn a_log_that_goes_away_is_lost_state_and_not_a_new_volume() {
    let bench = Bench::new(1);
    drop(bench.reopen());
    bench.kill();
    bench.disk.vanish(&bench.path.join("log")).unwrap();
    bench.index.wipe();
    let (_, report) = bench.open().unwrap();
    assert!(report.lost_state.is_some());
}

#[test]
fn a_later_epoch_is_remembered_and_an_older_one_refused() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.write(&object("a"), ballot(1), &value(1, 0));
    let slot = target(&object("a")).slot;
    volume.control(Control::RecordEpoch { slot, epoch: Epoch(5) }).unwrap().unwrap();
    bench.kill();
    let mut volume = bench.reopen();
    let refused = volume.read(&object("a")).unwrap().result;
    assert_eq!(refused, Err(Refusal::StaleEpoch { epoch: Epoch(5) }));
    let seal = Control::Seal { bucket: BUCKET, deletion: change(1), epoch: Epoch(4) };
    assert_eq!(volume.control(seal).unwrap(), Err(Refusal::StaleEpoch { epoch: Epoch(5) }));
}

#[test]
fn rows_that_need_several_batches_are_adopted_all_or_reported_as_left() {
    for fails in [false, true] {
        let bench = rotten();
        let (mut volume, _) = bench.open().unwrap();
        volume.control(take()).unwrap().unwrap();
        let rows: Vec<AdoptedRow> = (1..30)
            .map(|count| {
                let value = value(count, 8_000);
                let digest = Value::digest(&value.head);
                let head = RowHead { ballot: ballot(count), digest, committed: true };
                AdoptedRow { key: object(&format!("row-{count}")), head, value, is_missed: false }
            })
            .collect();
        let _fault = fails.then(|| {
            bench.disk.inject(sherd_volume::disk::faulty::Fault {
                under: bench.path.join("log"),
                call: sherd_volume::disk::faulty::Call::Sync,
                skip: 1,
                times: 1,
                failure: sherd_volume::disk::faulty::Failure::Io,
            })
        });
        let (slot, done) = slot();
        volume.volume.submit(Op::Adopt { rows, done });
        let before = volume.reader.status().frame_records.count();
        volume.run();
        let answer = slot.lock().take().unwrap();
        if fails {
            assert!(matches!(answer, Err(Error::Failed { .. })));
            continue;
        }
        answer.unwrap().result.unwrap();
        assert!(volume.reader.status().frame_records.count() > before + 2, "one batch does not hold them");
        volume.control(finish()).unwrap().unwrap();
        bench.kill();
        let mut volume = bench.reopen();
        for count in 1..30 {
            let key = object(&format!("row-{count}"));
            assert!(volume.read(&key).unwrap().result.unwrap().row.is_some());
            assert_eq!(
                volume.reader.inline(&target(&key), ballot(count), Source::Disk).unwrap().or_busy().unwrap(),
                bytes(count, 8_000)
            );
        }
    }
}
