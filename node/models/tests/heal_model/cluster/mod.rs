//! A set of volumes that heal themselves: lists, looks, cursors, wants, and sources of an empty directory.
//!
//! Writes are atomic quorum steps with lost accepts and lost hints (`register_model` searches the register
//! itself); the search is for what a volume has noted of what it lacks. Each write's data has the number of
//! its ballot. Checked in every state ([`check`]): a volume that counts as whole as of a cut holds row and
//! shard of every value that was acknowledged before the cut and is still the newest; no empty directory is
//! filled while data can only be read with the disks that are missing; and without further faults healing
//! ends, with equal rows, empty lists, wants of lost data alone, and every volume whole.
//!
//! The decisions are `sherd_core::register::heal`'s and the acceptor's.

mod check;
mod look;
mod recover;
mod rows;
mod steps;
mod symmetry;
mod want;
mod wire;
mod write;

use sherd_core::register::quorum::Quorums;
use sherd_models::search::Model;

use crate::rules::Without;

/// Volumes of the largest set.
pub(crate) const VOLUMES: usize = 5;
const KEYS: usize = 2;
/// Ballots of a model, with 0 for none.
const BALLOTS: usize = 14;

/// Bits, one a volume.
type Volumes = u8;
/// Bits, one a write's data.
type Data = u16;

/// A write's effect on what its key names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) enum Kind {
    /// The new data alone.
    #[default]
    Put,
    /// The new data beside what the value before names.
    Append,
    /// No data.
    Delete,
    /// Of the object of an upload: the data that the part's newest committed value names.
    Complete,
}

/// A configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cluster {
    pub(crate) without: Without,
    pub(crate) volumes: usize,
    /// k: shards that data is read from.
    pub(crate) data_shards: u32,
    pub(crate) keys: usize,
    /// Whether key 0 is a part of an upload and key 1 the object that it is completed to.
    pub(crate) is_upload: bool,
    /// Committed rows that a list has room for.
    pub(crate) list_max: usize,
    /// The writes, in their order, each of any of these kinds.
    pub(crate) writes: &'static [&'static [Kind]],
    /// Volumes that one write may miss.
    pub(crate) misses: u32,
    /// Whether committed tombstones are dropped.
    pub(crate) drops: bool,
    pub(crate) crashes: u8,
    pub(crate) aways: u8,
    pub(crate) wipes: u8,
    pub(crate) rollbacks: u8,
    /// Number of volumes that faults strike, from the first on.
    pub(crate) victims: usize,
    /// Volumes whose looks are steps of their own, each cut, question and answer; the others' are one step.
    pub(crate) lookers: usize,
    /// Highest sequence of each log at the beginning.
    pub(crate) first_sequence: u8,
    /// Whether each state is asked whether healing ends from there.
    pub(crate) converges: bool,
}

impl Default for Cluster {
    fn default() -> Self {
        Self {
            without: Without::Nothing,
            volumes: 3,
            data_shards: 1,
            keys: 1,
            is_upload: false,
            list_max: 8,
            writes: &[&[Kind::Put]],
            misses: 1,
            drops: false,
            crashes: 0,
            aways: 0,
            wipes: 0,
            rollbacks: 0,
            victims: 1,
            lookers: 1,
            first_sequence: 0,
            converges: true,
        }
    }
}

/// A row; ballot 0 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
struct Row {
    ballot: u8,
    committed: bool,
    sequence: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
enum Standing {
    #[default]
    Voting,
    /// Went back in time, and this was seen.
    Lost,
    Refilling,
    /// An empty directory where the volume was.
    Vacant,
}

/// How far a volume has the rows of another; life 0 for no cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
struct Cursor {
    life: u8,
    sequence: u8,
}

/// A question of a look whose answer is on its way; life 0 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
struct Question {
    peer: u8,
    life: u8,
    durable: u8,
    /// Bits of the keys whose rows the peer gives.
    keys: u8,
}

/// A scan of a recovery: its voters, and how far their logs were when it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
struct Scan {
    voters: Volumes,
    at_beginning: [u8; VOLUMES],
    is_through: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
struct Volume {
    is_up: bool,
    standing: Standing,
    life: u8,
    sequence: u8,
    floor: u8,
    bound: u8,
    rows: [Row; KEYS],
    promised: [u8; KEYS],
    listed: [bool; KEYS],
    horizon: u8,
    shards: Data,
    wants: Data,
    /// Wants of data that is lost.
    lost: Data,
    /// Cursors of this volume, by peer.
    cursors: [Cursor; VOLUMES],
    /// Cursors that others sent since it was opened; 0 for none.
    sent: [u8; VOLUMES],
    has_walked: bool,
    /// The cut of the look round under way, as the ballots that were chosen before it.
    cut: Option<Data>,
    /// Peers whose looks since the cut went through.
    looked_through: Volumes,
    question: Question,
    /// Keys with rows that were not passed.
    stuck: u8,
    scan: Scan,
    /// Shards on the disk that an empty directory took the place of.
    disk: Data,
    /// Volumes whose cut lies after this directory was seen empty.
    cut_after_empty: Volumes,
}

impl Volume {
    fn votes(&self) -> bool {
        self.is_up && self.standing == Standing::Voting
    }
}

/// A proposed value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
struct Value {
    key: u8,
    names: Data,
    accepted: Volumes,
}

/// A write whose shards are staged and whose accepts are not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
struct StagedWrite {
    key: u8,
    kind: Kind,
    /// Volumes that acknowledged their shards, and the lives in which they did.
    durable: Volumes,
    lives: [u8; VOLUMES],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct State {
    volumes: [Volume; VOLUMES],
    values: [Value; BALLOTS],
    /// The latest ballot.
    ballot: u8,
    staged: Option<StagedWrite>,
    /// Ballots that A volumes accepted, and those that all N took.
    chosen: Data,
    everywhere: Data,
    writes: u8,
    crashes: u8,
    aways: u8,
    wipes: u8,
    rollbacks: u8,
    /// An image of the first volume, to which it may go back.
    image: Option<Volume>,
    /// A directory was filled while data needs a disk that may come back.
    was_filled_wrongly: bool,
}

/// A step. Volumes are numbered as they stand before it: those that no fault strikes and that look in one
/// step may change places.
#[derive(Debug, Clone, Copy)]
#[expect(dead_code, reason = "fields are read by people, in traces")]
pub(crate) enum Step {
    Stage { key: u8, kind: Kind, on: Volumes },
    Accept { promised: Volumes, taken: Volumes, hints: bool },
    Settle { key: u8 },
    Finish { key: u8 },
    Drop { key: u8 },
    Cut { at: u8 },
    Ask { at: u8, peer: u8 },
    Answer { at: u8 },
    Work { at: u8, data: u8 },
    Walk { at: u8 },
    HealOthers,
    Crash { at: u8 },
    Away { at: u8 },
    Back { at: u8 },
    Wipe { at: u8 },
    Image,
    GoBack,
    Adopt { at: u8, voters: Volumes },
    Scan { at: u8 },
    Vote { at: u8 },
}

impl Cluster {
    fn quorums(&self) -> Quorums {
        Quorums::of(self.volumes)
    }

    fn all(&self) -> std::ops::Range<usize> {
        0..self.volumes
    }

    fn is_without(&self, rule: Without) -> bool {
        self.without == rule
    }

    /// Keys that a write may be for.
    fn keys_of_write(&self, kind: Kind) -> std::ops::Range<usize> {
        match kind {
            Kind::Complete => 1..2,
            _ if self.is_upload => 0..1,
            _ => 0..self.keys,
        }
    }

    /// Keys whose rows may name data that was written to a key.
    fn keys_naming(&self, key: usize) -> std::ops::Range<usize> {
        if self.is_upload { 0..2 } else { key..key + 1 }
    }

    /// Bits of the volumes with a property.
    fn mask(&self, state: &State, has: impl Fn(&Volume) -> bool) -> Volumes {
        self.all().filter(|at| has(&state.volumes[*at])).map(bit).sum()
    }

    fn voting(&self, state: &State) -> Volumes {
        self.mask(state, Volume::votes)
    }

    /// The newest chosen ballot of a key; 0 for none.
    fn newest(state: &State, key: usize) -> u8 {
        let of_key =
            |at: &u8| holds(state.chosen, *at) && usize::from(state.values[usize::from(*at)].key) == key;
        (1..=state.ballot).filter(of_key).max().unwrap_or(0)
    }
}

/// The bit of a volume.
fn bit(at: usize) -> Volumes {
    1 << at
}

fn has(mask: Volumes, at: usize) -> bool {
    mask & bit(at) != 0
}

/// The volumes of a mask.
fn members(mask: Volumes) -> impl Iterator<Item = usize> + Clone {
    (0..VOLUMES).filter(move |at| has(mask, *at))
}

/// Non-empty subsets.
fn subsets(mask: Volumes) -> impl Iterator<Item = Volumes> {
    (1..=mask).filter(move |subset| subset & !mask == 0)
}

/// Whether a set of ballots, or of data, holds a number.
fn holds(data: Data, number: u8) -> bool {
    data & 1 << number != 0
}

/// The numbers of a set of data.
fn numbers(data: Data) -> impl Iterator<Item = u8> {
    (1..BALLOTS as u8).filter(move |number| holds(data, *number))
}

/// The keys of a mask.
fn keys_of(mask: u8) -> impl Iterator<Item = usize> {
    (0..KEYS).filter(move |key| mask & 1 << key != 0)
}

impl Model for Cluster {
    type State = State;
    type Step = Step;

    fn start(&self) -> State {
        let volume = Volume {
            is_up: true,
            life: 1,
            sequence: self.first_sequence,
            cursors: [Cursor { life: 1, sequence: self.first_sequence }; VOLUMES],
            sent: [self.first_sequence; VOLUMES],
            has_walked: true,
            ..Volume::default()
        };
        State {
            volumes: [volume; VOLUMES],
            values: [Value::default(); BALLOTS],
            ballot: 0,
            staged: None,
            chosen: 0,
            everywhere: 0,
            writes: 0,
            crashes: self.crashes,
            aways: self.aways,
            wipes: self.wipes,
            rollbacks: self.rollbacks,
            image: None,
            was_filled_wrongly: false,
        }
    }

    fn steps(&self, state: &State, out: &mut Vec<(Step, State)>) {
        if state.was_filled_wrongly {
            return;
        }
        self.write_steps(state, out);
        for at in self.all() {
            self.volume_steps(state, at, out);
        }
        self.heal_others(state, out);
        self.settle_steps(state, out);
        for (_, after) in out {
            *after = self.representative(after);
        }
    }

    fn violation(&self, state: &State) -> Option<String> {
        self.check(state)
    }
}
