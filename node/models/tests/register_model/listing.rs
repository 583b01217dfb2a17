//! A listing, while keys are written and deleted.
//!
//! ```text
//! each key:  a line of operations (PUT, DELETE, ...), each at the next ballot: promises of A
//!            volumes at one moment, then accepts that arrive at any time or never, then hints
//! lister:    scans volumes, each at a moment of its own, then decides over any P or more of them
//! ```
//! The state of a key is that of the highest chosen operation; an operation is chosen when A volumes have
//! accepted it, and with it, in the same moment, those that it was made from. A listing is right if each key
//! that it shows had that state at some moment since it began; it is not a snapshot over keys, so a prefix
//! may be missed when one key below it was deleted after another was written. A register read is taken as one
//! step that is right (`register/` is about that).

use sherd_core::id::{Ballot, ObjectKey, ProposerId, Timestamp};
use sherd_core::register::RowHead;
use sherd_core::register::acceptor::{AcceptorState, Circumstances, KeyState, judge_accept};
use sherd_core::register::listing::{
    KeyDecision, PrefixDecision, ScannedEntry, decide_key, decide_prefix, is_listed,
};
use sherd_core::register::quorum::Quorums;

use sherd_models::search::Model;

const VOLUMES_MAX: usize = 4;
const KEYS_MAX: usize = 2;

/// A rule taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Without {
    Nothing,
    /// A known-committed highest row is taken, from any volume.
    RowsOfAQuorum,
    /// P rows are taken, committed or not.
    Committed,
    /// A row that is not taken counts as absent.
    ReadOtherwise,
    /// A volume's witness is its first live key.
    WitnessMayBeDead,
    /// Any one volume's live witness shows the prefix.
    WitnessOfAQuorum,
    /// A dead witness means that the prefix is absent.
    Reseek,
}

/// A configuration: for each key its operations, `true` for a PUT.
#[derive(Debug, Clone)]
pub(crate) struct Listing {
    pub(crate) without: Without,
    pub(crate) volumes: usize,
    pub(crate) keys: Vec<&'static [bool]>,
    /// Whether the keys are listed as one common prefix; otherwise the first key is.
    pub(crate) prefix: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub(crate) struct Row {
    ballot: u8,
    committed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub(crate) struct Cell {
    row: Row,
    promised: u8,
    /// The ghost: operations that it ever accepted.
    accepted: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub(crate) struct Volume {
    cells: [Cell; KEYS_MAX],
    /// Result of its scan: scanned or not, which key, and its row.
    scanned: bool,
    key: u8,
    row: Row,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Phase {
    #[default]
    Idle,
    Scanning,
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct State {
    volumes: [Volume; VOLUMES_MAX],
    /// Operations begun on each key.
    begun: [u8; KEYS_MAX],
    /// The operation from which each was made.
    made_from: [[u8; 4]; KEYS_MAX],
    /// Operations acknowledged, so that hints may go out (a mask of ballots).
    acked: [u8; KEYS_MAX],
    phase: Phase,
    /// The scans seek from this key on.
    cursor: u8,
    /// Keys that were live, and keys that were not, at some moment since the listing began.
    was_live: u8,
    was_dead: u8,
    wrong: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Begin { key: u8, ballot: u8, promises: u8 },
    Accept { key: u8, ballot: u8, at: u8 },
    Acknowledge { key: u8, ballot: u8 },
    Hint { key: u8, at: u8 },
    Scan { at: u8 },
    Decide { from: u8, shown: Shown },
}

/// Result of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    Yes,
    No,
    SeekAfter(u8),
}

fn small(at: usize) -> u8 {
    u8::try_from(at).expect("few")
}

fn ballot(number: u8) -> Ballot {
    Ballot { time: Timestamp::from_ms(u64::from(number)), proposer: ProposerId(0) }
}

fn head(row: Row) -> Option<RowHead> {
    (row.ballot > 0).then(|| RowHead {
        ballot: ballot(row.ballot),
        digest: [0; 32],
        committed: row.committed,
    })
}

impl Listing {
    fn columns(&self) -> std::ops::Range<usize> {
        0..self.volumes
    }

    fn quorums(&self) -> Quorums {
        Quorums::of(self.volumes)
    }

    fn is_put(&self, key: usize, ballot: u8) -> bool {
        ballot > 0 && self.keys[key][usize::from(ballot) - 1]
    }

    /// The highest chosen operation.
    fn latest(&self, state: &State, key: usize) -> u8 {
        let chosen = |ballot: &u8| {
            let took = |at: &usize| state.volumes[*at].cells[key].accepted & 1 << *ballot != 0;
            self.columns().filter(took).count() >= self.quorums().accept()
        };
        (1..=small(self.keys[key].len())).rev().find(chosen).unwrap_or(0)
    }

    fn is_live(&self, state: &State, key: usize) -> bool {
        self.is_put(key, self.latest(state, key))
    }

    /// Notes what a step made of the listed keys: what each new operation did, one after the other.
    fn note(&self, before: &State, after: &mut State) {
        for key in self.listed_keys() {
            let (old, mut operation) = (self.latest(before, key), self.latest(after, key));
            while operation > old {
                let was = if self.is_put(key, operation) { &mut after.was_live } else { &mut after.was_dead };
                *was |= 1 << key;
                operation = after.made_from[key][usize::from(operation)];
            }
        }
    }

    /// The keys that are listed.
    fn listed_keys(&self) -> std::ops::Range<usize> {
        0..if self.prefix { self.keys.len() } else { 1 }
    }

    fn operation_steps(&self, state: &State, key: usize, out: &mut Vec<(Step, State)>) {
        let begun = state.begun[key];
        let next = begun + 1;
        if usize::from(begun) < self.keys[key].len() {
            let free = self.columns().filter(|at| state.volumes[*at].cells[key].row.ballot < next);
            let all: u8 = free.map(|at| 1 << at).sum();
            let accept = self.quorums().accept();
            for promises in (1..=all).filter(|mask| mask & !all == 0 && mask.count_ones() as usize == accept)
            {
                let mut after = *state;
                after.begun[key] = next;
                let promised = self.columns().filter(|at| promises & 1 << at != 0);
                let found = promised.map(|at| state.volumes[at].cells[key].row.ballot).max();
                after.made_from[key][usize::from(next)] = found.unwrap_or(0);
                for at in self.columns().filter(|at| promises & 1 << at != 0) {
                    after.volumes[at].cells[key].promised = next;
                }
                out.push((Step::Begin { key: small(key), ballot: next, promises }, after));
            }
        }
        for number in 1..=begun {
            for at in self.columns() {
                let cell = &state.volumes[at].cells[key];
                let row = head(cell.row);
                let known =
                    KeyState { row: row.as_ref(), promised: ballot(cell.promised), ..KeyState::default() };
                let verdict = judge_accept(
                    &AcceptorState::default(),
                    &known,
                    Circumstances::default(),
                    ballot(number),
                    &[],
                );
                if verdict.is_err() || cell.row.ballot == number {
                    continue;
                }
                let mut after = *state;
                let changed = &mut after.volumes[at].cells[key];
                changed.row = Row { ballot: number, committed: false };
                changed.promised = changed.promised.max(number);
                changed.accepted |= 1 << number;
                out.push((Step::Accept { key: small(key), ballot: number, at: small(at) }, after));
            }
            let took = |at: &usize| state.volumes[*at].cells[key].accepted & 1 << number != 0;
            let chosen = self.columns().filter(took).count() >= self.quorums().accept();
            if chosen && state.acked[key] & 1 << number == 0 {
                let mut after = *state;
                after.acked[key] |= 1 << number;
                out.push((Step::Acknowledge { key: small(key), ballot: number }, after));
            }
        }
        for at in self.columns() {
            let row = state.volumes[at].cells[key].row;
            if row.ballot > 0 && !row.committed && state.acked[key] & 1 << row.ballot != 0 {
                let mut after = *state;
                after.volumes[at].cells[key].row.committed = true;
                out.push((Step::Hint { key: small(key), at: small(at) }, after));
            }
        }
    }

    fn scan_steps(&self, state: &State, out: &mut Vec<(Step, State)>) {
        if state.phase == Phase::Done {
            return;
        }
        for at in self.columns().filter(|at| !state.volumes[*at].scanned) {
            let mut after = *state;
            if state.phase == Phase::Idle {
                after.phase = Phase::Scanning;
                for key in self.listed_keys() {
                    let was =
                        if self.is_live(state, key) { &mut after.was_live } else { &mut after.was_dead };
                    *was |= 1 << key;
                }
            }
            let volume = &mut after.volumes[at];
            volume.scanned = true;
            let keys = if self.prefix { usize::from(state.cursor)..self.keys.len() } else { 0..1 };
            for key in keys {
                let row = volume.cells[key].row;
                let tombstone = row.ballot > 0 && !self.is_put(key, row.ballot);
                let shows = match self.without {
                    Without::WitnessMayBeDead => !tombstone,
                    _ => is_listed(row.committed, tombstone),
                };
                if row.ballot > 0 && shows {
                    (volume.key, volume.row) = (small(key), row);
                    break;
                }
            }
            out.push((Step::Scan { at: small(at) }, after));
        }
        let all: u8 = self.columns().filter(|at| state.volumes[*at].scanned).map(|at| 1 << at).sum();
        let quorum = self.quorums().prepare();
        for from in (1..=all).filter(|mask| mask & !all == 0 && mask.count_ones() as usize >= quorum) {
            let shown =
                if self.prefix { self.decide_prefix(state, from) } else { self.decide_key(state, from) };
            let mut after = *state;
            match shown {
                Shown::SeekAfter(key) => after.cursor = key + 1,
                Shown::Yes | Shown::No => {
                    after.phase = Phase::Done;
                    let all_were_dead = self.listed_keys().all(|key| state.was_dead & 1 << key != 0);
                    after.wrong = if shown == Shown::Yes { state.was_live == 0 } else { !all_were_dead };
                }
            }
            for volume in &mut after.volumes {
                (volume.scanned, volume.key, volume.row) = (false, 0, Row::default());
            }
            out.push((Step::Decide { from, shown }, after));
        }
    }

    fn listed(&self, volume: &Volume) -> Option<ScannedEntry> {
        let head = head(volume.row)?;
        let head = RowHead { committed: head.committed || self.without == Without::Committed, ..head };
        Some(ScannedEntry { head, live: self.is_put(usize::from(volume.key), volume.row.ballot) })
    }

    fn decide_key(&self, state: &State, from: u8) -> Shown {
        let scans = self.columns().filter(|at| from & 1 << at != 0);
        let rows: Vec<_> = scans.map(|at| self.listed(&state.volumes[at])).collect();
        // Where the rows of less than a quorum are enough, only those that are there are shown to
        // the rule, as if they were all of a small set.
        let quorums = if self.without == Without::RowsOfAQuorum { Quorums::of(1) } else { self.quorums() };
        let shown = |live: bool| if live { Shown::Yes } else { Shown::No };
        match decide_key(&rows, quorums) {
            KeyDecision::Take { from } => shown(rows[from].is_some_and(|row| row.live)),
            KeyDecision::Absent => Shown::No,
            KeyDecision::Read if self.without == Without::ReadOtherwise => Shown::No,
            KeyDecision::Read => shown(self.is_live(state, 0)),
        }
    }

    fn decide_prefix(&self, state: &State, from: u8) -> Shown {
        let names: Vec<_> =
            (0..self.keys.len()).map(|key| ObjectKey::new(vec![b'a' + small(key)]).expect("a key")).collect();
        let scans: Vec<_> = self.columns().filter(|at| from & 1 << at != 0).collect();
        let witness = |at: &usize| {
            let volume = &state.volumes[*at];
            self.listed(volume).map(|row| (&names[usize::from(volume.key)], row))
        };
        let witnesses: Vec<_> = scans.iter().map(witness).collect();
        let quorums = if self.without == Without::WitnessOfAQuorum { Quorums::of(1) } else { self.quorums() };
        let key_of = |witness: usize| state.volumes[scans[witness]].key;
        let reseek =
            |key: u8| if self.without == Without::Reseek { Shown::No } else { Shown::SeekAfter(key) };
        match decide_prefix(&witnesses, quorums) {
            PrefixDecision::Take => Shown::Yes,
            PrefixDecision::Absent => Shown::No,
            PrefixDecision::Judge { witness } if self.is_live(state, usize::from(key_of(witness))) => {
                Shown::Yes
            }
            PrefixDecision::Reseek { witness } | PrefixDecision::Judge { witness } => reseek(key_of(witness)),
        }
    }
}

impl Model for Listing {
    type State = State;
    type Step = Step;

    fn start(&self) -> State {
        State::default()
    }

    fn steps(&self, state: &State, out: &mut Vec<(Step, State)>) {
        for key in 0..self.keys.len() {
            self.operation_steps(state, key, out);
        }
        self.scan_steps(state, out);
        for (_, after) in out {
            if after.phase == Phase::Scanning {
                self.note(state, after);
            }
            after.volumes[..self.volumes].sort_unstable();
        }
    }

    fn violation(&self, state: &State) -> Option<String> {
        state.wrong.then(|| "a listing shows what was not so at any moment".to_owned())
    }
}
