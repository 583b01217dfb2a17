//! Pulls under seals and epochs: three volumes of a set (A = P = 2), one write, and one deletion of its
//! bucket or one move of its slot. A pull is judged as an accept.

use sherd_core::id::{Ballot, Epoch, ProposerId, Timestamp};
use sherd_core::register::acceptor::{AcceptorState, Circumstances, KeyState, judge_accept};
use sherd_models::search::Model;

/// Volumes of the set, and how many votes count.
const VOLUMES: usize = 3;
const QUORUM: usize = 2;

/// A rule taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithoutPlace {
    Nothing,
    /// A row is pulled under a seal.
    Seal,
    /// A row is pulled by a topology that is over.
    Epoch,
}

/// A configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PulledRow {
    pub(crate) without: WithoutPlace,
    /// Whether the slot moves to other volumes; else the bucket is deleted.
    pub(crate) moves: bool,
}

/// A sealed volume's answer to the question whether the bucket is empty there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
enum Listing {
    #[default]
    NotYet,
    Empty,
    HasRow,
}

/// How far a volume is in the move of its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
enum MoveStage {
    #[default]
    OldEpoch,
    NewEpoch,
    /// In the new epoch, and its rows were adopted by the new volumes.
    Scanned,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Volume {
    has_row: bool,
    is_sealed: bool,
    listing: Listing,
    moved: MoveStage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
enum Bucket {
    #[default]
    Sealing,
    Deleted,
    Undone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct State {
    volumes: [Volume; VOLUMES],
    bucket: Bucket,
    has_moved: bool,
    new_volumes_have_row: bool,
}

/// A step, with the volume that takes it.
#[derive(Debug, Clone, Copy)]
#[expect(dead_code, reason = "fields are read by people, in traces")]
pub(crate) enum Step {
    Accept(usize),
    Pull(usize),
    Seal(usize),
    List(usize),
    Delete,
    Undo,
    Unseal(usize),
    NewEpoch(usize),
    Scan(usize),
    Move,
}

impl PulledRow {
    /// Whether a volume takes the row: by an accept of its writer, or by a pull.
    fn takes(self, volume: Volume, is_pulled: bool) -> bool {
        let overlooks = |rule| is_pulled && self.without == rule;
        let epoch = |is_new| Epoch(if is_new { 2 } else { 1 });
        let known = KeyState {
            sealed: volume.is_sealed && !overlooks(WithoutPlace::Seal),
            epoch_seen: epoch(volume.moved != MoveStage::OldEpoch && !overlooks(WithoutPlace::Epoch)),
            ..KeyState::default()
        };
        let circumstances = Circumstances { epoch: epoch(false), ..Circumstances::default() };
        let ballot = Ballot { time: Timestamp::from_ms(1), proposer: ProposerId(1) };
        !volume.has_row && judge_accept(&AcceptorState::default(), &known, circumstances, ballot, &[]).is_ok()
    }

    fn row_steps(self, state: &State, at: usize, out: &mut Vec<(Step, State)>) {
        let volume = state.volumes[at];
        let is_elsewhere = (0..VOLUMES).any(|other| other != at && state.volumes[other].has_row);
        for (step, is_pulled) in [(Step::Accept(at), false), (Step::Pull(at), true)] {
            if self.takes(volume, is_pulled) && (is_elsewhere || !is_pulled) {
                out.push((step, state.with(at, |volume| volume.has_row = true)));
            }
        }
    }

    fn deletion_steps(state: &State, at: usize, out: &mut Vec<(Step, State)>) {
        let volume = state.volumes[at];
        match state.bucket {
            Bucket::Sealing | Bucket::Deleted if !volume.is_sealed => {
                out.push((Step::Seal(at), state.with(at, |volume| volume.is_sealed = true)));
            }
            Bucket::Sealing if volume.listing == Listing::NotYet => {
                let listing = if volume.has_row { Listing::HasRow } else { Listing::Empty };
                out.push((Step::List(at), state.with(at, |volume| volume.listing = listing)));
            }
            Bucket::Undone if volume.is_sealed => {
                let unsealed = |volume: &mut Volume| {
                    (volume.is_sealed, volume.listing) = (false, Listing::NotYet);
                };
                out.push((Step::Unseal(at), state.with(at, unsealed)));
            }
            _ => {}
        }
    }

    fn move_steps(state: &State, at: usize, out: &mut Vec<(Step, State)>) {
        let volume = state.volumes[at];
        if volume.moved == MoveStage::OldEpoch && !state.has_moved {
            out.push((Step::NewEpoch(at), state.with(at, |volume| volume.moved = MoveStage::NewEpoch)));
        }
        if volume.moved == MoveStage::NewEpoch {
            let mut after = state.with(at, |volume| volume.moved = MoveStage::Scanned);
            after.new_volumes_have_row |= volume.has_row;
            out.push((Step::Scan(at), after));
        }
    }

    fn end_steps(self, state: &State, out: &mut Vec<(Step, State)>) {
        if self.moves {
            let is_scanned = state.count(|volume| volume.moved == MoveStage::Scanned) >= QUORUM;
            if is_scanned && !state.has_moved {
                out.push((Step::Move, State { has_moved: true, ..*state }));
            }
        } else if state.bucket == Bucket::Sealing {
            if state.count(|volume| volume.listing == Listing::Empty) >= QUORUM {
                out.push((Step::Delete, State { bucket: Bucket::Deleted, ..*state }));
            }
            if state.count(|volume| volume.listing == Listing::HasRow) > 0 {
                out.push((Step::Undo, State { bucket: Bucket::Undone, ..*state }));
            }
        }
    }
}

impl State {
    fn with(&self, at: usize, change: impl FnOnce(&mut Volume)) -> Self {
        let mut after = *self;
        change(&mut after.volumes[at]);
        after
    }

    fn count(&self, has: impl Fn(&Volume) -> bool) -> usize {
        self.volumes.iter().filter(|volume| has(volume)).count()
    }
}

impl Model for PulledRow {
    type State = State;
    type Step = Step;

    fn start(&self) -> State {
        State::default()
    }

    fn steps(&self, state: &State, out: &mut Vec<(Step, State)>) {
        for at in 0..VOLUMES {
            self.row_steps(state, at, out);
            if self.moves {
                Self::move_steps(state, at, out);
            } else {
                Self::deletion_steps(state, at, out);
            }
        }
        self.end_steps(state, out);
    }

    fn violation(&self, state: &State) -> Option<String> {
        let is_chosen = state.count(|volume| volume.has_row) >= QUORUM;
        if is_chosen && state.bucket == Bucket::Deleted {
            return Some("a write is chosen in a bucket that is deleted".to_owned());
        }
        if is_chosen && state.has_moved && !state.new_volumes_have_row {
            return Some("a write is chosen in the old epoch that the new volumes do not have".to_owned());
        }
        None
    }
}
