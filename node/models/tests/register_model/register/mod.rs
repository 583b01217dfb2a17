//! The register: a few acceptors, a few actors, one key.
//!
//! ```text
//! actors: writers, readers, settlers, a dropper, a sweeper, a recovery   (one record each)
//!   | questions, delivered to an acceptor at any time or never; an accept also late and twice
//! acceptors: row, promise, floor, bounds, data floor, standing, life     (one column each, with the
//!            answers that each actor got from it: used at any time after, in any subset)
//! ```
//! Every decision is production's (`sherd_core::register`); the model keeps the state that the node and the
//! volume keep, and carries out the decisions. Ballots are small numbers; each try takes any unused one, so
//! clocks may disagree as they like. Beside the values runs a ghost: which changes went into a value, even if
//! the ring of ids has dropped them.
//!
//! Abstracted: one key; values are a kind and one data id; a volume's batches (an answer leaves when
//! durable); a recovery asks for its next life at one moment; clocks, pins, grace and epochs.
//! Acceptors that are never lost are interchangeable, so their columns are kept sorted.

mod act;
pub(crate) mod batch;
mod check;
mod drop;
mod faults;
mod look;
mod pull;
mod recover;
mod sweep;
mod wire;

use batch::{MEMBERS, Member, Write};

use crate::rules::Without;
use sherd_models::search::Model;

/// Most acceptors, actors, ballots and victims.
pub(crate) const COLUMNS: usize = 5;
pub(crate) const ACTORS: usize = 5;
pub(crate) const BALLOTS: usize = 10;
pub(crate) const VICTIMS: usize = 2;

/// Program of an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// Makes these changes, one operation after the other, each a PUT of data under its own id.
    Put(&'static [u8]),
    /// One PUT under the condition that nothing is there.
    PutIfAbsent(u8),
    /// Writers of the key at one gateway, which come one after the other and share a change.
    Batch(&'static [Write]),
    /// One DELETE.
    Delete(u8),
    /// PUT, DELETE: these changes in turn, one operation after the other, the last a DELETE.
    PutThenDelete(&'static [u8]),
    /// One read, which may finish what it finds.
    Read,
    /// A write of what is found, unchanged: what upkeep does with an unsettled row.
    Settle,
    /// Drops tombstones, one after the other.
    Drop,
    /// Rebuilds the victim with this number, each time that it is lost.
    Recover(u8),
    /// Sweeps the data of one change, which is old.
    Sweep(u8),
}

/// A configuration to search.
#[expect(clippy::struct_excessive_bools, reason = "what happens beside the actors' steps, each by itself")]
#[derive(Debug, Clone)]
pub(crate) struct Register {
    pub(crate) without: Without,
    pub(crate) volumes: usize,
    pub(crate) actors: Vec<Program>,
    /// Ballots that may be used, at most [`BALLOTS`] - 1.
    pub(crate) ballots: u8,
    /// Most tries of one operation, for each actor.
    pub(crate) tries: [u8; ACTORS],
    pub(crate) restarts: u8,
    /// Losses of each victim; victims are the first columns.
    pub(crate) losses: [u8; VICTIMS],
    /// Whether one row may become unreadable.
    pub(crate) rot: bool,
    /// Whether commit hints are delivered.
    pub(crate) hints: bool,
    /// Whether superseded data is released.
    pub(crate) release: bool,
    /// Whether batches look before they prepare.
    pub(crate) looks: bool,
    /// Whether volumes pull the rows of others.
    pub(crate) pulls: bool,
    /// Whether conditional changes of others come before each of a call's: [`wire::CROWD`] in its value.
    pub(crate) crowds: bool,
    /// Steps that are taken before the search begins.
    pub(crate) prefix: Vec<Step>,
}

impl Default for Register {
    fn default() -> Self {
        Self {
            without: Without::Nothing,
            volumes: 3,
            actors: Vec::new(),
            ballots: 3,
            tries: [1; ACTORS],
            restarts: 0,
            losses: [0; VICTIMS],
            rot: false,
            hints: false,
            release: false,
            looks: false,
            pulls: false,
            crowds: false,
            prefix: Vec::new(),
        }
    }
}

/// One step. Columns are named by their labels, which sorting does not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// An actor begins a try: prepares go out.
    Start { actor: u8, ballot: u8 },
    /// An acceptor promises.
    Promise { actor: u8, at: u8 },
    /// An actor decides on the promises of these acceptors (a mask of labels).
    Decide { actor: u8, from: u8 },
    /// An acceptor stores the value of a ballot.
    Accept { ballot: u8, at: u8 },
    /// An actor counts the accepts of these acceptors.
    Count { actor: u8, from: u8 },
    /// An acceptor answers a read.
    Answer { actor: u8, at: u8 },
    /// A reader, or a batch that looks, decides on these answers.
    Judge { actor: u8, from: u8 },
    /// A batch begins to look.
    Look { actor: u8 },
    /// A commit hint arrives.
    Hint { at: u8 },
    /// A volume takes another's row at its own ballot.
    Pull { at: u8, from: u8 },
    /// A writer comes to a batch.
    Come { actor: u8, member: u8 },
    /// A writer of a batch is cancelled, or past its deadline.
    Leave { actor: u8, member: u8 },
    /// A writer gives up and proposes no more.
    GiveUp { actor: u8 },
    /// An actor releases the data of a change.
    Release { actor: u8, data: u8 },
    /// An acceptor restarts.
    Restart { at: u8 },
    /// An acceptor loses its state.
    Lose { at: u8 },
    /// An acceptor's row becomes unreadable.
    Rot { at: u8 },
    /// A dropper picks a tombstone.
    Pick { actor: u8, ballot: u8 },
    /// An acceptor raises its floor (dropper) or data floor (sweeper).
    Raise { actor: u8, at: u8 },
    /// An acceptor shows its row to the dropper.
    Confirm { actor: u8, at: u8 },
    /// The dropper has all confirmations.
    Authorise { actor: u8 },
    /// An acceptor drops its row.
    Drop { actor: u8, at: u8 },
    /// A sweep has its data floors.
    Floored { actor: u8, from: u8 },
    /// A recovery begins, knowing what these voters know.
    Rebuild { actor: u8, from: u8 },
    /// A voter reports its guarantees, before recording the life (only where that rule is out).
    Report { actor: u8, at: u8 },
    /// A voter records the new life, and reports.
    Record { actor: u8, at: u8 },
    /// The recovering volume takes what these voters guarantee.
    Take { actor: u8, from: u8 },
    /// A voter raises its floor to F.
    Guard { actor: u8, at: u8 },
    /// A voter's rows are adopted.
    Scan { actor: u8, at: u8 },
    /// The recovering volume votes.
    Vote { actor: u8 },
}

/// Where an actor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Phase {
    #[default]
    Idle,
    Preparing,
    Accepting,
    /// A reader has answers coming.
    Reading,
    /// Waits for floors (dropper, sweeper), reports (recovery).
    Collecting,
    /// Has them all: dropping, or guarding and scanning.
    Acting,
    Done,
}

/// An actor's own memory.
#[expect(clippy::struct_excessive_bools, reason = "what an actor has done, each by itself")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Actor {
    pub(crate) phase: Phase,
    pub(crate) ballot: u8,
    /// The ballot of the value that its prepare found; 0 for nothing.
    pub(crate) found: u8,
    /// Index of the operation; of a batch, how often it looked.
    pub(crate) op: u8,
    pub(crate) tries: u8,
    /// First accept of the operation that is not forgotten, 0 for none; of a batch, the latest of all;
    /// lowest, first and latest count proposed.
    pub(crate) first_accept: u8,
    pub(crate) last_accept: u8,
    pub(crate) counts: [u8; 3],
    /// The highest floor seen in the operation.
    pub(crate) floors: u8,
    /// Changes acknowledged before the operation began.
    pub(crate) before: u8,
    /// The writer proposes the found value unchanged.
    pub(crate) settling: bool,
    /// The writer made its change known as committed; it gave up; it released its own data.
    pub(crate) acked: bool,
    pub(crate) stopped: bool,
    /// A reader's round; a dropper's tombstone; F, for a recovery; the try that a batch settles.
    pub(crate) aux: u8,
    /// A batch: its own proposals, whether it takes no more members, and its writers.
    pub(crate) sent: u8,
    pub(crate) closed: bool,
    pub(crate) members: [Member; MEMBERS],
}

/// A row: ballot and committed flag. Ballot 0 means no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) ballot: u8,
    pub(crate) committed: bool,
}

/// An acceptor's answer to an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub(crate) struct Slot {
    /// 0: nothing yet. Otherwise how far this acceptor has come in the actor's protocol.
    pub(crate) stage: u8,
    pub(crate) row: Row,
    pub(crate) floor: u8,
    pub(crate) data_floor: u8,
    pub(crate) life: u8,
    pub(crate) votes: bool,
    /// The victims' lives that the acceptor had recorded.
    pub(crate) knows: [u8; VICTIMS],
    /// The reader's round in which it was asked.
    pub(crate) round: u8,
}

/// Whether an acceptor votes: production's words, ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub(crate) enum VoterStatus {
    #[default]
    Voting,
    Lost,
    Refilling,
}

/// An acceptor, and what the actors got from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub(crate) struct Column {
    pub(crate) row: Row,
    pub(crate) promised: u8,
    pub(crate) floor: u8,
    pub(crate) durable_bound: u8,
    pub(crate) restart_bound: u8,
    pub(crate) data_floor: u8,
    pub(crate) standing: VoterStatus,
    pub(crate) life: u8,
    pub(crate) knows: [u8; VICTIMS],
    pub(crate) rotten: bool,
    /// The ghost: tombstones that it ever accepted. A value that A volumes accepted is committed, even if no
    /// actor has seen that, and even if some of them have moved on.
    pub(crate) tombstones: u16,
    pub(crate) slots: [Slot; ACTORS],
}

/// A value that was proposed at a ballot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Value {
    pub(crate) kind: Kind,
    /// The ghost: every change that went into it.
    pub(crate) history: u8,
    pub(crate) count: u8,
    /// The last changes, oldest first, zeros before: the id plus one, and above its four bits the try.
    pub(crate) ring: [u8; 4],
    /// The calls whose tokens it keeps: four bits for each, the ballot of its change, or 1 for any where no
    /// crowd makes it matter.
    pub(crate) calls: u8,
    /// The data that it names, as the change's number plus one; 0 for none.
    pub(crate) data: u8,
    /// Whether its accept introduces that data.
    pub(crate) introduces: bool,
    /// The ghost: its change had gone into what it was made from already.
    pub(crate) twice: bool,
    /// The ghost: it was made although its condition does not hold on what it was made from.
    pub(crate) overruled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Kind {
    #[default]
    None,
    Object,
    Tombstone,
}

/// The whole.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct State {
    pub(crate) columns: [Column; COLUMNS],
    /// Number of the acceptor in each column: for traces only.
    pub(crate) labels: [u8; COLUMNS],
    pub(crate) actors: [Actor; ACTORS],
    /// The value proposed at each ballot: accepts travel for ever.
    pub(crate) values: [Value; BALLOTS],
    pub(crate) used: u16,
    /// Ballots that an actor has as committed.
    pub(crate) committed: u16,
    /// Every change that was acknowledged or read, and released data (masks of changes).
    pub(crate) acked: u8,
    pub(crate) released: u8,
    /// The ghost: changes whose writers got the answer that they were not made.
    pub(crate) refused: u8,
    /// The ghost of the dropped tombstones: what "nothing" stands for.
    pub(crate) dropped: u8,
    /// Tombstones that an actor dropped: an actor that still finds one finds nothing.
    pub(crate) forgotten: u16,
    pub(crate) restarts: u8,
    pub(crate) losses: [u8; VICTIMS],
    pub(crate) rot: u8,
    pub(crate) wrong: Option<&'static str>,
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.columns == other.columns && self.actors == other.actors && self.values == other.values
    }
}

impl Eq for State {}

impl std::hash::Hash for State {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        let Self { columns, labels: _, actors, values, used, committed, acked, .. } = self;
        // A column that the configuration does not use has no life.
        columns.iter().filter(|column| column.life > 0).for_each(|column| column.hash(state));
        (actors, used, committed, acked).hash(state);
        // No value was proposed at a ballot that is not used.
        values
            .iter()
            .enumerate()
            .filter(|(at, _)| used & 1 << at != 0)
            .for_each(|(_, value)| value.hash(state));
        (self.released, self.refused, self.dropped, self.forgotten).hash(state);
        (self.restarts, self.losses, self.rot, self.wrong).hash(state);
    }
}

impl Register {
    pub(crate) fn columns(&self) -> std::ops::Range<usize> {
        0..self.volumes
    }

    fn victims(&self) -> usize {
        self.losses.iter().rposition(|losses| *losses > 0).map_or(0, |last| last + 1)
    }

    /// The columns of a mask of positions, as a mask of labels.
    pub(crate) fn label_mask(&self, state: &State, mask: u8) -> u8 {
        self.columns().filter(|at| mask & 1 << at != 0).map(|at| 1 << state.labels[at]).sum()
    }

    /// Sorts the columns that are never lost.
    fn canonical(&self, state: &mut State) {
        for end in (self.victims() + 1..self.volumes).rev() {
            for at in self.victims()..end {
                if state.columns[at] > state.columns[at + 1] {
                    state.columns.swap(at, at + 1);
                    state.labels.swap(at, at + 1);
                }
            }
        }
    }

    fn all_steps(&self, state: &State, out: &mut Vec<(Step, State)>) {
        for actor in 0..self.actors.len() {
            match self.actors[actor] {
                Program::Put(_)
                | Program::PutIfAbsent(_)
                | Program::Delete(_)
                | Program::PutThenDelete(_)
                | Program::Settle => {
                    self.writer_steps(state, actor, out);
                }
                Program::Batch(_) => self.batch_steps(state, actor, out),
                Program::Read => self.reader_steps(state, actor, out),
                Program::Drop => self.drop_steps(state, actor, out),
                Program::Sweep(_) => self.sweep_steps(state, actor, out),
                Program::Recover(_) => self.recover_steps(state, actor, out),
            }
        }
        self.accept_steps(state, out);
        if self.pulls {
            self.pull_steps(state, out);
        }
        self.fault_steps(state, out);
        if self.release {
            self.release_steps(state, out);
        }
    }
}

impl Model for Register {
    type State = State;
    type Step = Step;

    fn start(&self) -> State {
        let mut state = State { labels: [0, 1, 2, 3, 4], ..State::default() };
        state.columns[self.columns()]
            .iter_mut()
            .for_each(|column| (column.life, column.knows) = (1, [1; VICTIMS]));
        for step in &self.prefix {
            let mut out = Vec::new();
            self.steps(&state, &mut out);
            let found = out.into_iter().find(|(possible, _)| possible == step);
            state =
                found.unwrap_or_else(|| panic!("the scenario's {step:?} is not possible in {state:#?}")).1;
        }
        state
    }

    fn steps(&self, state: &State, out: &mut Vec<(Step, State)>) {
        self.all_steps(state, out);
        for (_, after) in out {
            self.canonical(after);
        }
    }

    fn violation(&self, state: &State) -> Option<String> {
        self.check(state)
    }
}
