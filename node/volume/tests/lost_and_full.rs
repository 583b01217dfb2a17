//! Openings that find a loss or rot on a disk that has no room: the volume opens, what it found is queued or
//! found again, and a try that comes to nothing uses up no life.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeSet;
use std::path::PathBuf;

use sherd_core::id::Life;
use sherd_core::message::Control;
use sherd_core::register::recover::Guarantees;
use sherd_volume::Volume;
use sherd_volume::disk::ballast;
use sherd_volume::disk::faulty::{Call, Failure, Fault};
use sherd_volume::disk::{Disk, OpenMode};
use sherd_volume::error::OpenError;
use sherd_volume::index::IndexError;
use sherd_volume::open::OpenReport;
use sherd_volume::options::UnreadablePolicy;
use sherd_volume::write::upkeep::State;
use support::hooked::{HookedSource, IndexCall};
use support::*;

fn segment(bench: &Bench) -> PathBuf {
    bench.path.join("log").join(format!("{:020}.seg", 1))
}

/// Shards with a page each in the first segment, behind the first frame, and nothing in the index.
fn with_shards(bench: &Bench, count: u64) {
    let mut volume = bench.reopen();
    for number in 1..=count {
        volume.put_shard(shard(number, 0), &bytes(number, 3_000)).unwrap();
    }
    volume.settle();
    drop(volume);
    bench.kill();
    bench.index.wipe();
}

/// Where the frame of a shard begins.
fn frame_of(number: u64) -> u64 {
    (number + 1) * 4096
}

fn rot_payload(bench: &Bench, number: u64) {
    let at = frame_of(number) + 2_000;
    bench.disk.rot(&segment(bench), at..at + 10).unwrap();
}

fn rot_header(bench: &Bench, number: u64) {
    bench.disk.rot(&segment(bench), frame_of(number)..frame_of(number) + 40).unwrap();
}

fn fill(bench: &Bench) {
    let space = bench.disk.space(&bench.path).unwrap();
    bench.disk.set_capacity(space.total - space.free);
}

fn heals(volume: &Driver) -> usize {
    volume.reader.heals(None, 10_000).unwrap().len()
}

#[test]
fn rot_beside_a_loss_is_queued_before_the_loss_is_behind() {
    let bench = Bench::new(1);
    with_shards(&bench, 10);
    rot_payload(&bench, 3);
    rot_header(&bench, 6);
    let (mut volume, report) = bench.open().unwrap();
    assert!(report.lost_state.is_some());
    assert_eq!((report.rotten.len(), report.rotten_left), (1, false));
    for round in 0..2 {
        assert_eq!(heals(&volume), 1, "round {round}");
        drop(volume);
        bench.kill();
        let (again, report) = bench.open().unwrap();
        // The openings since are not in the index.
        assert_eq!((report.replayed_records, report.rotten.len()), (round, 0), "it is behind the checkpoint");
        volume = again;
    }
}

#[test]
fn rot_that_could_not_be_queued_is_found_again() {
    let bench = Bench::new(1);
    with_shards(&bench, 10);
    rot_payload(&bench, 3);
    let full = || {
        let under = bench.path.join("log");
        let (call, failure) = (Call::Write, Failure::Full);
        bench.disk.inject(Fault { under, call, skip: 0, times: u64::MAX, failure })
    };
    let fault = full();
    let (mut volume, report) = bench.open().unwrap();
    assert_eq!((report.rotten.len(), report.rotten_left), (1, true));
    assert_eq!(heals(&volume), 0);
    drop(fault);
    bench.clock.advance_ms(101);
    // Life goes on, and the checkpoint with it: the evidence stays.
    volume.put_shard(shard(20, 0), &bytes(20, 3_000)).unwrap();
    volume.settle();
    volume.close();
    bench.kill();
    let (volume, report) = bench.open().unwrap();
    assert_eq!((report.rotten.len(), report.rotten_left), (1, false));
    assert_eq!(heals(&volume), 1);
    volume.close();
    bench.kill();
    let (volume, report) = bench.open().unwrap();
    assert_eq!((report.replayed_records, report.rotten.len(), heals(&volume)), (0, 0, 1));
}

#[test]
fn more_rot_than_memory_holds_is_queued_by_one_opening_after_the_other() {
    const COUNT: u64 = 60;
    let mut bench = Bench::new(1);
    bench.options.segment_bytes = 1 << 20;
    bench.options.replay_bytes = 16 << 10;
    with_shards(&bench, COUNT);
    (1..=COUNT).for_each(|number| rot_payload(&bench, number));
    let mut seen = BTreeSet::new();
    for opening in 1.. {
        let (volume, report) = bench.open().unwrap();
        seen.extend(report.rotten.iter().map(|subject| format!("{subject:?}")));
        assert_eq!(heals(&volume), seen.len(), "what is known is queued");
        volume.close();
        bench.kill();
        if !report.rotten_left {
            assert!(opening > 2, "one opening does not name them all");
            break;
        }
    }
    assert_eq!(seen.len() as u64, COUNT);
    let (volume, report) = bench.open().unwrap();
    assert_eq!((report.replayed_records, heals(&volume) as u64), (0, COUNT));
}

/// Evidence may be left before a loss, and the replay begins there again: the loss was noted once.
#[test]
fn a_noted_loss_is_not_found_again_beside_evidence_that_is_left() {
    const COUNT: u64 = 60;
    let mut bench = Bench::new(1);
    bench.options.segment_bytes = 1 << 20;
    bench.options.replay_bytes = 16 << 10;
    with_shards(&bench, COUNT);
    (1..=COUNT).filter(|number| *number != 50).for_each(|number| rot_payload(&bench, number));
    rot_header(&bench, 50);
    let (mut volume, report) = bench.open().unwrap();
    assert!(report.lost_state.is_some() && report.rotten_left);
    assert_eq!(volume.reader.answerer().life, Life(2));
    volume
        .control(Control::TakeGuarantees { guarantees: Guarantees::default(), seals: Vec::new() })
        .unwrap()
        .unwrap();
    volume.control(finish()).unwrap().unwrap();
    volume.close();
    for opening in 1.. {
        bench.kill();
        let (volume, report) = bench.open().unwrap();
        assert_eq!(volume.reader.answerer().life, Life(2), "opening {opening}");
        assert!(report.lost_state.is_none() && volume.reader.answerer().votes);
        volume.close();
        if !report.rotten_left {
            assert!(opening > 1, "evidence was left behind the loss");
            break;
        }
        assert!(opening < COUNT, "no opening comes to the end of it");
    }
    // Nor is it without an index.
    bench.kill();
    bench.index.wipe();
    let (volume, report) = bench.open().unwrap();
    assert_eq!(report.lost_state, None);
    assert_eq!(volume.reader.answerer().life, Life(2));
}

#[test]
fn evidence_that_is_queued_is_behind_however_soon_the_index_takes_it() {
    let mut bench = Bench::new(1);
    bench.options.fold_entries = 1;
    with_shards(&bench, 10);
    rot_payload(&bench, 3);
    rot_payload(&bench, 4);
    let (volume, report) = bench.open().unwrap();
    assert_eq!((report.rotten.len(), report.rotten_left), (2, false));
    volume.close();
    bench.kill();
    let (volume, report) = bench.open().unwrap();
    assert_eq!((report.replayed_records, report.rotten.len(), heals(&volume)), (0, 0, 2));
}

#[test]
fn a_volume_that_lost_its_state_opens_on_a_full_disk() {
    let mut bench = Bench::new(1);
    bench.options.spare_segments = 0;
    bench.options.ballast_bytes = 512 << 10;
    with_shards(&bench, 10);
    rot_header(&bench, 6);
    fill(&bench);
    let (volume, report) = bench.open().unwrap();
    assert!(report.lost_state.is_some());
    assert_eq!(volume.reader.status().state, State::Recovering { may_write: false });
    assert_eq!(volume.reader.answerer().life, Life(2));
    drop(volume);
    bench.kill();
    let (volume, _) = bench.open().unwrap();
    assert_eq!(volume.reader.answerer().life, Life(2), "the same loss, the same life");
}

/// A range that can be read again is not noted as missing any more, and that has to be written down.
#[test]
fn a_volume_that_found_again_what_it_had_lost_opens_on_a_full_disk() {
    let mut bench = Bench::new(1);
    bench.options.spare_segments = 0;
    bench.options.unreadable = UnreadablePolicy::Lose;
    with_shards(&bench, 10);
    let at = frame_of(6);
    bench.disk.make_unreadable(&segment(&bench), at..at + 10).unwrap();
    let (mut volume, report) = bench.open().unwrap();
    assert!(report.lost_state.is_some());
    volume
        .control(Control::TakeGuarantees { guarantees: Guarantees::default(), seals: Vec::new() })
        .unwrap()
        .unwrap();
    volume.control(finish()).unwrap().unwrap();
    drop(volume);
    bench.kill();
    bench.disk.make_readable(&segment(&bench)).unwrap();
    bench.index.wipe();
    fill(&bench);
    let volume = bench.reopen();
    assert_eq!(volume.packed(shard(6, 0)).unwrap(), bytes(6, 3_000));
}

/// A range that was noted as missing in a segment must not be applied to another segment of that number.
#[test]
fn no_segment_has_the_number_of_one_with_a_noted_loss() {
    let mut bench = Bench::new(1);
    bench.options.spare_segments = 0;
    bench.options.unreadable = UnreadablePolicy::Lose;
    with_shards(&bench, 10);
    let at = frame_of(6);
    bench.disk.make_unreadable(&segment(&bench), at..at + 10).unwrap();
    let recover = |volume: &mut Driver| {
        volume
            .control(Control::TakeGuarantees { guarantees: Guarantees::default(), seals: Vec::new() })
            .unwrap()
            .unwrap();
        volume.control(finish()).unwrap().unwrap();
    };
    let (mut volume, _) = bench.open().unwrap();
    recover(&mut volume);
    drop(volume);
    bench.kill();
    let log = bench.path.join("log");
    for entry in bench.disk.list(&log).unwrap() {
        bench.disk.remove(&log.join(entry.name)).unwrap();
    }
    bench.disk.sync_dir(&log).unwrap();
    let (mut volume, report) = bench.open().unwrap();
    assert!(report.lost_state.is_some());
    recover(&mut volume);
    for number in 101..=110 {
        volume.put_shard(shard(number, 0), &bytes(number, 3_000)).unwrap();
    }
    for number in 101..=110 {
        assert_eq!(volume.packed(shard(number, 0)).unwrap(), bytes(number, 3_000), "shard {number}");
    }
}

/// Where a filesystem allocates late, only the sync shows that space is short. The file that is there is
/// whole.
#[test]
fn a_recovery_ends_though_its_note_found_no_room_when_it_was_synced() {
    let mut bench = Bench::new(1);
    bench.options.unreadable = UnreadablePolicy::Lose;
    with_shards(&bench, 10);
    let at = frame_of(6);
    bench.disk.make_unreadable(&segment(&bench), at..at + 10).unwrap();
    let (mut volume, _) = bench.open().unwrap();
    volume
        .control(Control::TakeGuarantees { guarantees: Guarantees::default(), seals: Vec::new() })
        .unwrap()
        .unwrap();
    let (under, failure) = (bench.path.join("volume.json.new"), Failure::Full);
    let fault = bench.disk.inject(Fault { under, call: Call::Sync, skip: 0, times: 1, failure });
    volume.control(finish()).unwrap().unwrap();
    drop(fault);
    volume.write(&object("a"), ballot(1), &value(1, 10));
    drop(volume);
    bench.kill();
    let (_, report) = bench.open().unwrap();
    assert_eq!(report.lost_state, None);
}

fn ballast_bytes(bench: &Bench) -> u64 {
    bench.disk.open(&bench.path.join(ballast::NAME), OpenMode::Read).unwrap().length().unwrap()
}

/// A volume that gave its ballast up for volume.json, and has nothing else to do.
fn without_ballast(bench: &Bench) -> Driver {
    with_shards(bench, 10);
    rot_header(bench, 6);
    let (mut volume, _) = bench.open().unwrap();
    volume
        .control(Control::TakeGuarantees { guarantees: Guarantees::default(), seals: Vec::new() })
        .unwrap()
        .unwrap();
    assert_eq!(ballast_bytes(bench), bench.options.ballast_bytes);
    let (under, failure) = (bench.path.join("volume.json.new"), Failure::Full);
    let fault = bench.disk.inject(Fault { under, call: Call::Write, skip: 0, times: 1, failure });
    volume.control(finish()).unwrap().unwrap();
    drop(fault);
    volume.settle();
    while volume.volume.step().upkeep {
        volume.reader.upkeep().unwrap();
    }
    assert_eq!(ballast_bytes(bench), 0);
    volume
}

/// Whether the volume asks for upkeep, and what it has of its ballast then.
fn look_again(bench: &Bench, volume: &mut Driver) -> (bool, u64) {
    bench.clock.advance_ms(20_000);
    let wants = volume.volume.step().upkeep;
    volume.reader.upkeep().unwrap();
    let after = volume.volume.step().upkeep;
    assert!(!after, "it is not tried again and again");
    (wants, ballast_bytes(bench))
}

#[test]
fn a_ballast_that_was_given_up_is_made_again_when_there_is_room() {
    let bench = Bench::new(1);
    let mut volume = without_ballast(&bench);
    let used = {
        let space = bench.disk.space(&bench.path).unwrap();
        space.total - space.free
    };
    let needed = bench.options.reserve_bytes + bench.options.ballast_bytes;
    bench.disk.set_capacity(used + needed - 4096);
    assert_eq!(look_again(&bench, &mut volume), (false, 0), "with it the volume would be full");
    bench.disk.set_capacity(used + needed);
    let (under, failure) = (bench.path.join(ballast::NAME), Failure::Full);
    let fault = bench.disk.inject(Fault { under, call: Call::Resize, skip: 1, times: 1, failure });
    assert_eq!(look_again(&bench, &mut volume), (true, 0), "there is less than is said");
    drop(fault);
    assert_eq!(look_again(&bench, &mut volume), (true, bench.options.ballast_bytes));
    assert_eq!(look_again(&bench, &mut volume), (false, bench.options.ballast_bytes));
    // The new ballast serves as well as the first one.
    let (under, failure) = (bench.path.join("volume.json.new"), Failure::Full);
    let fault = bench.disk.inject(Fault { under, call: Call::Write, skip: 0, times: 1, failure });
    volume.reader.declare_lost("rolled back", Life(9)).unwrap();
    drop(fault);
    assert_eq!(ballast_bytes(&bench), 0);
}

/// Nothing but the clock has to move: the filesystem is measured again by the next step.
#[test]
fn a_filesystem_that_grows_is_used_without_an_opening() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    fill(&bench);
    bench.clock.advance_ms(10_000);
    volume.volume.step();
    let before = volume.reader.status();
    assert!(before.full && before.free_bytes == 0, "{before:?}");
    assert!(volume.put_shard(shard(1, 0), &bytes(1, 3_000)).is_err());
    bench.disk.set_capacity(1 << 40);
    bench.clock.advance_ms(10_000);
    volume.volume.step();
    let after = volume.reader.status();
    assert!(!after.full && after.total_bytes == 1 << 40, "{after:?}");
    assert!(after.free_bytes > before.total_bytes, "{after:?}");
    volume.put_shard(shard(1, 0), &bytes(1, 3_000)).expect("there is room");
}

#[test]
fn a_volume_that_fails_on_a_full_disk_stays_failed() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    fill(&bench);
    let (under, failure) = (bench.path.join("log"), Failure::Io);
    let fault = bench.disk.inject(Fault { under, call: Call::Sync, skip: 0, times: 1, failure });
    let id = sherd_core::heal::HealId(*b"one that failed.");
    assert!(volume.heal_put(id, &bytes(1, 10)).is_err());
    drop(fault);
    drop(volume);
    bench.kill();
    assert!(matches!(bench.open(), Err(OpenError::Failed { .. })));
}

#[test]
fn a_volume_that_was_rolled_back_notes_it_on_a_full_disk() {
    let mut bench = Bench::new(1);
    bench.options.spare_segments = 0;
    bench.options.ballast_bytes = 512 << 10;
    let volume = bench.reopen();
    fill(&bench);
    volume.reader.declare_lost("rolled back", Life(4)).expect("the ballast makes room");
    drop(volume);
    bench.kill();
    let (volume, report) = bench.open().unwrap();
    assert_eq!(report.lost_state.as_deref(), Some("rolled back"));
    assert_eq!(volume.reader.answerer().life, Life(5));
}

#[test]
fn tries_that_are_refused_use_up_no_life() {
    for call in [Call::Write, Call::Create, Call::Rename, Call::Sync] {
        for skip in 0.. {
            let bench = Bench::new(1);
            with_shards(&bench, 10);
            rot_header(&bench, 6);
            let (mut refused, mut fired) = (0, 0);
            for _ in 0..5 {
                let (under, failure) = (bench.path.clone(), Failure::Full);
                let fault = bench.disk.inject(Fault { under, call, skip, times: u64::MAX, failure });
                refused += u64::from(bench.open().is_err());
                fired += fault.end();
                bench.kill();
            }
            if fired == 0 {
                assert!(skip > 0, "no opening calls {call:?}");
                break;
            }
            let (volume, report) = bench.open().unwrap();
            assert!(report.lost_state.is_some(), "{call:?} {skip}");
            let life = volume.reader.answerer().life;
            assert!(
                u64::from(life.0) <= 2 + 5 - refused,
                "{call:?} {skip}: {life:?} after {refused} refusals"
            );
        }
    }
}

/// Opens a volume whose index cannot be flushed while the ballast takes the room, or ever.
fn open_cramped(bench: &Bench, may_drop: bool) -> Result<(Volume, OpenReport), OpenError> {
    let (disk, ballast) = (bench.disk.clone(), bench.path.join(ballast::NAME));
    let has_room = move || {
        let ballast = disk.open(&ballast, OpenMode::Read).unwrap();
        may_drop && ballast.length().unwrap() == 0
    };
    let hook = move |call| match call {
        IndexCall::Flush if !has_room() => Err(IndexError::Full),
        IndexCall::Get | IndexCall::Found | IndexCall::Flush => Ok(()),
    };
    bench.open_volume_with(Box::new(HookedSource::new(&bench.index, hook)))
}

#[test]
fn a_loss_is_behind_the_checkpoint_where_the_ballast_makes_room_for_it() {
    let mut bench = Bench::new(1);
    bench.options.ballast_bytes = 512 << 10;
    with_shards(&bench, 10);
    rot_header(&bench, 6);
    fill(&bench);
    let (volume, _) = open_cramped(&bench, true).unwrap();
    drop(volume);
    bench.kill();
    let (volume, report) = bench.open().unwrap();
    assert_eq!(report.replayed_records, 0);
    assert_eq!(volume.reader.answerer().life, Life(2));
}

#[test]
fn a_loss_that_no_checkpoint_has_behind_it_opens_and_is_found_again() {
    let bench = Bench::new(1);
    with_shards(&bench, 10);
    rot_header(&bench, 6);
    let (volume, report) = open_cramped(&bench, false).unwrap();
    assert!(report.lost_state.is_some());
    assert_eq!(volume.reader().answerer().life, Life(2));
    drop(volume);
    bench.kill();
    let (volume, report) = bench.open().unwrap();
    assert!(report.lost_state.is_some());
    assert_eq!(volume.reader.answerer().life, Life(3), "others may have seen the second");
}
