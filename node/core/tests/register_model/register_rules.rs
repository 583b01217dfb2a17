//! The register's rules, each taken out in the smallest configuration that shows why it is there;
//! and the same configurations with every rule in.

use crate::register::{Program, Register};
use crate::report::{breaks, holds};
use crate::rules::Without;

fn actors(programs: &[Program]) -> Register {
    Register { actors: programs.to_vec(), ballots: u8::try_from(programs.len()).expect("few"), ..Register::default() }
}

fn needed(without: Without, model: Register) {
    breaks(without, &Register { without, ..model.clone() });
    holds(&format!("with    {without:?}"), &model);
}

use Program::{Delete, Drop, Put, PutThenDelete, Read, Recover, Settle, Sweep};

#[test]
fn t01_a_promises() {
    needed(Without::APromises, Register { volumes: 4, losses: [1, 0], ..actors(&[Put(&[0]), Put(&[1]), Recover(0)]) });
}
#[test]
fn t02_tombstone_history() {
    needed(Without::TombstoneHistory, Register { tries: 2, ballots: 3, ..actors(&[Put(&[0]), Delete(1)]) });
}
#[test]
fn t03_own_id() {
    needed(Without::OwnIdIsSuccess, Register { tries: 2, ballots: 3, ..actors(&[Put(&[0]), Settle]) });
}
#[test]
fn t04_settle_own() {
    needed(Without::SettleOwn, Register { tries: 2, ballots: 3, ..actors(&[Put(&[0])]) });
}
#[test]
fn t05_ring() {
    needed(Without::RingOverflow, Register { tries: 2, ballots: 6, ..actors(&[Put(&[0]), Put(&[1, 2, 3, 4])]) });
}
#[test]
fn t06_floors_unknown() {
    needed(Without::FloorsMakeUnknown, Register { tries: 2, ballots: 3, ..actors(&[Put(&[0]), Delete(1), Drop]) });
}
#[test]
fn t08_ballots_not_values() {
    needed(Without::BallotsNotValues, Register { ballots: 4, ..actors(&[Put(&[0]), Put(&[1]), Settle, Read]) });
}
#[test]
fn t09_ask_once_more() {
    needed(Without::AskOnceMore, Register { ballots: 2, hints: true, ..actors(&[PutThenDelete(&[0, 1]), Drop, Read]) });
}
#[test]
fn t10_unreadable() {
    needed(Without::UnreadableIsNoVote, Register { rot: true, ..actors(&[Put(&[0]), Read]) });
}
#[test]
fn t11_restart() {
    needed(Without::RestartBound, Register { restarts: 1, ..actors(&[Put(&[0]), Put(&[1])]) });
}
#[test]
fn t12_bound() {
    needed(Without::BoundBeforePromise, Register { restarts: 1, ..actors(&[Put(&[0]), Put(&[1])]) });
}
#[test]
fn t13_made_from() {
    needed(Without::MadeFromNaming, Register { release: true, ..actors(&[Put(&[0]), Put(&[1])]) });
}
#[test]
fn t14_higher() {
    needed(Without::WriterHigherBallot, Register { release: true, ..actors(&[Put(&[0]), Put(&[1]), Settle]) });
}
#[test]
fn t15_stops() {
    needed(Without::WriterStops, Register { release: true, tries: 2, ballots: 3, ..actors(&[Put(&[0]), Put(&[1])]) });
}
#[test]
fn t16_sweep_all() {
    needed(Without::SweepAll, actors(&[Put(&[0]), Sweep(0), Settle]));
}
#[test]
fn t16_sweep_floors() {
    needed(Without::SweepFloors, actors(&[Put(&[0]), Sweep(0)]));
}
#[test]
fn t16_sweep_tombstone() {
    needed(Without::SweepTombstone, actors(&[Put(&[0]), Sweep(0), Settle]));
}
#[test]
fn t16_sweep_settles() {
    needed(Without::SweepSettles, actors(&[Put(&[0]), Sweep(0), Settle]));
}
#[test]
fn t17_drop_all() {
    needed(Without::DropAll, Register { ballots: 3, ..actors(&[PutThenDelete(&[0, 1]), Drop, Settle]) });
}
#[test]
fn t17_drop_floors() {
    needed(Without::DropFloors, Register { ballots: 3, ..actors(&[PutThenDelete(&[0, 1]), Drop, Settle]) });
}
#[test]
fn t17_drop_this() {
    needed(Without::DropThisTombstone, Register { ballots: 3, ..actors(&[PutThenDelete(&[0, 1]), Drop, Settle]) });
}
#[test]
fn t17_drop_if_still() {
    needed(Without::DropIfStill, Register { ballots: 2, ..actors(&[Delete(0), Drop, Put(&[1])]) });
}
#[test]
fn t17_drop_promise() {
    needed(Without::DropKeepsPromise, Register { ballots: 3, ..actors(&[Delete(0), Drop, Put(&[1]), Put(&[2])]) });
}
#[test]
fn t17_floors_fall() {
    needed(Without::FloorsNeverFall, Register { ballots: 3, ..actors(&[Delete(0), Delete(1), Drop, Put(&[2])]) });
}
fn lossy(programs: &[Program]) -> Register {
    Register { losses: [1, 0], ..actors(programs) }
}
#[test]
fn t18_lost_writes() {
    needed(Without::LostTakesNoWrites, Register { ballots: 2, ..lossy(&[Put(&[0]), Put(&[1]), Recover(0)]) });
}
#[test]
fn t18_refill_votes() {
    needed(Without::RefillingDoesNotVote, Register { ballots: 2, ..lossy(&[Put(&[0]), Put(&[1]), Recover(0)]) });
}
#[test]
fn t18_record_report() {
    needed(Without::RecordThenReport, Register { ballots: 2, ..lossy(&[Put(&[0]), Put(&[1]), Recover(0)]) });
}
#[test]
fn t18_old_lives() {
    needed(Without::OldLivesDiscarded, Register { ballots: 2, ..lossy(&[Put(&[0]), Put(&[1]), Recover(0)]) });
}
#[test]
fn t18_floor_before_scan() {
    needed(Without::FloorBeforeScan, Register { ballots: 2, ..lossy(&[Put(&[0]), Put(&[1]), Recover(0)]) });
}
#[test]
fn t18_take_floor() {
    needed(Without::TakeFloor, Register { ballots: 2, ..lossy(&[Put(&[0]), Put(&[1]), Recover(0)]) });
}
#[test]
fn t18_adopt_data_floors() {
    needed(Without::AdoptDataFloors, Register { ballots: 2, ..lossy(&[Put(&[0]), Sweep(0), Recover(0)]) });
}
#[test]
fn t18_adopt_lives() {
    needed(Without::AdoptLives, Register { losses: [1, 1], ballots: 2, ..lossy(&[Put(&[0]), Recover(0), Recover(1)]) });
}
