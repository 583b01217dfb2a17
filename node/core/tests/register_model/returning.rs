//! Disks that come back: volumes that are lost, rebuilt, rolled back and restarted, and what their
//! peers remember of them.
//!
//! ```text
//! copy, lose -> a later life, recorded by P peers -> rebuilt from them -> the old disk returns
//!                                                       restarts: opened, not yet confirmed
//! opened -> A - 1 peers say what they remember -> votes, or has lost state and is rebuilt
//! ```
//! Writes and rebuilds are one step each here: how they go wrong in the middle is what `register` is
//! about. A write leaves, with each volume that took it, the positions that the prepares' replies said.
//! A rollback that fewer than P peers noted is not recognised, and is not made.

use std::sync::Arc;

use sherd_core::id::{Incarnation, Sequence, VolumeId};
use sherd_core::register::Answerer;
use sherd_core::register::position::Position;
use sherd_core::register::quorum::{Lives, Order, Quorums, Reply, voters};
use sherd_core::register::recover::confirm::{
    Confirmation, Memory, OpenedVolume, adopted_memory, confirm, lost_state,
};
use sherd_core::register::recover::{Guarantees, next_life};

use crate::search::Model;

/// Most volumes; the first two may be lost.
const VOLUMES: usize = 5;
const VICTIMS: usize = 2;

/// A rule taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Without {
    /// Every rule is in.
    Nothing,
    /// One peer fewer is asked.
    EnoughPeers,
    /// Only records of one's own life are compared.
    LaterLives,
    /// Only lives are compared.
    LaterRecords,
    /// The answer of a volume that lost its own state counts.
    WholePeers,
    /// So does that of one that was rolled back itself.
    CurrentPeers,
    /// A volume that is rebuilt remembers only the lives that its voters know.
    AdoptMemory,
}

/// A configuration.
#[derive(Debug, Clone)]
pub(crate) struct ReturningDisks {
    pub(crate) without: Without,
    pub(crate) volumes: usize,
    pub(crate) writes: u8,
    pub(crate) losses: [u8; VICTIMS],
    /// Disks that come back.
    pub(crate) returns: u8,
    pub(crate) restarts: u8,
}

/// Whether a volume votes: production's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub(crate) enum VoterStatus {
    #[default]
    Voting,
    Unconfirmed,
    Lost,
}

/// What is on a volume's disk. A position is a life and a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub(crate) struct Disk {
    at: (u8, u8),
    /// The last write that it holds.
    holds: u8,
    /// What it remembers of the victims.
    knows: [(u8, u8); VICTIMS],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct State {
    standing: [VoterStatus; VOLUMES],
    disks: [Disk; VOLUMES],
    /// A disk that was copied, or taken away.
    aside: [Option<Disk>; VICTIMS],
    /// The ghost: how far each victim ever voted.
    voted: [(u8, u8); VICTIMS],
    acknowledged: u8,
    losses: [u8; VICTIMS],
    returns: u8,
    restarts: u8,
}

/// One step; volumes by number, several as a mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Write { by: u8 },
    Copy { disk: u8 },
    Lose { disk: u8 },
    Return { disk: u8 },
    Restart { volume: u8 },
    Rebuild { volume: u8, from: u8 },
    Confirm { volume: u8, by: u8 },
    Hear { volume: u8, from: u8 },
}

fn volume(at: usize) -> VolumeId {
    VolumeId([u8::try_from(at).expect("few volumes"); 16])
}

fn position((life, record): (u8, u8)) -> Position {
    Position { incarnation: Incarnation(life.into()), durable: Sequence(record.into()) }
}

fn small(at: usize) -> u8 {
    u8::try_from(at).expect("few volumes")
}

fn of_mask(mask: u8) -> impl Iterator<Item = usize> + Clone {
    (0..VOLUMES).filter(move |at| mask & 1 << at != 0)
}

impl Disk {
    fn positions(self) -> Vec<(VolumeId, Position)> {
        let known = self.knows.iter().enumerate().filter(|(_, known)| **known > (1, 0));
        known.map(|(victim, known)| (volume(victim), position(*known))).collect()
    }
}

impl ReturningDisks {
    fn quorums(&self) -> Quorums {
        Quorums::of(self.volumes)
    }

    fn masks(&self, size: usize) -> impl Iterator<Item = u8> + use<> {
        (0..1_u8 << self.volumes).filter(move |mask| mask.count_ones() as usize == size)
    }

    fn reply<T>(state: &State, at: usize, result: T) -> Reply<T> {
        let disk = &state.disks[at];
        let later = disk.knows.iter().enumerate().filter(|(_, known)| known.0 > 1);
        let peers: Arc<[_]> =
            later.map(|(victim, known)| (volume(victim), Incarnation(known.0.into()))).collect();
        let from = Answerer {
            incarnation: Incarnation(disk.at.0.into()),
            votes: state.standing[at] == VoterStatus::Voting,
            peers,
            durable: Sequence(disk.at.1.into()),
        };
        Reply { volume: volume(at), from, order: Order::default(), result: Ok(result) }
    }

    /// Whether all of a mask are counted together.
    fn vote_together(state: &State, mask: u8) -> bool {
        let replies: Vec<_> = of_mask(mask).map(|at| Self::reply(state, at, ())).collect();
        voters(&replies, &Lives::default()).count() == replies.len()
    }

    /// Sorts the volumes that are never lost: they are interchangeable. Traces name them by their place.
    fn canonical(&self, state: &mut State) {
        for end in (VICTIMS + 1..self.volumes).rev() {
            for at in VICTIMS..end {
                let key = |at: usize| (state.standing[at], state.disks[at]);
                if key(at) > key(at + 1) {
                    state.standing.swap(at, at + 1);
                    state.disks.swap(at, at + 1);
                }
            }
        }
    }

    fn write_steps(&self, state: &State, out: &mut Vec<(Step, State)>) {
        if state.acknowledged >= self.writes {
            return;
        }
        for by in self.masks(self.quorums().accept()).filter(|by| Self::vote_together(state, *by)) {
            let mut after = *state;
            after.acknowledged += 1;
            for at in of_mask(by) {
                let disk = &mut after.disks[at];
                (disk.holds, disk.at.1) = (after.acknowledged, disk.at.1 + 1);
                for victim in of_mask(by).filter(|victim| *victim < VICTIMS && *victim != at) {
                    disk.knows[victim] = disk.knows[victim].max(state.disks[victim].at);
                }
                if at < VICTIMS {
                    after.voted[at] = after.disks[at].at;
                }
            }
            out.push((Step::Write { by }, after));
        }
    }

    fn fault_steps(&self, state: &State, out: &mut Vec<(Step, State)>) {
        for victim in 0..VICTIMS.min(self.volumes) {
            let is_voting = state.standing[victim] == VoterStatus::Voting;
            if is_voting && state.aside[victim].is_none() && state.returns < self.returns {
                let mut after = *state;
                after.aside[victim] = Some(state.disks[victim]);
                out.push((Step::Copy { disk: small(victim) }, after));
            }
            if is_voting && state.losses[victim] < self.losses[victim] {
                let mut after = *state;
                after.losses[victim] += 1;
                after.aside[victim] = after.aside[victim].or(Some(state.disks[victim]));
                after.disks[victim] = Disk { knows: [(1, 0); VICTIMS], ..Disk::default() };
                after.standing[victim] = VoterStatus::Lost;
                out.push((Step::Lose { disk: small(victim) }, after));
            }
            let Some(disk) = state.aside[victim] else { continue };
            let notes = (0..self.volumes).filter(|at| *at != victim);
            let noted = notes.filter(|at| state.disks[*at].knows[victim] > disk.at).count();
            let is_recognisable = disk.at >= state.voted[victim] || noted >= self.quorums().prepare();
            if is_recognisable && state.returns < self.returns {
                let mut after = *state;
                after.returns += 1;
                (after.aside[victim], after.disks[victim]) = (None, disk);
                after.standing[victim] = VoterStatus::Unconfirmed;
                out.push((Step::Return { disk: small(victim) }, after));
            }
        }
        for at in (0..self.volumes).filter(|at| state.standing[*at] == VoterStatus::Voting) {
            if state.restarts < self.restarts {
                let mut after = *state;
                after.restarts += 1;
                after.standing[at] = VoterStatus::Unconfirmed;
                out.push((Step::Restart { volume: small(at) }, after));
            }
        }
    }

    /// A lost volume is rebuilt from P voters, which record its new life first.
    fn rebuild_steps(&self, state: &State, victim: usize, out: &mut Vec<(Step, State)>) {
        let others = |mask: &u8| mask & 1 << victim == 0 && Self::vote_together(state, *mask);
        for from in self.masks(self.quorums().prepare()).filter(others) {
            let known: Vec<Reply<Guarantees>> = of_mask(from)
                .map(|at| {
                    let lives = state.disks[at].positions();
                    let incarnations =
                        lives.into_iter().map(|(peer, known)| (peer, known.incarnation)).collect();
                    Self::reply(state, at, Guarantees { incarnations, ..Guarantees::default() })
                })
                .collect();
            let own = Incarnation(state.disks[victim].at.0.into());
            let Some(life) = next_life(volume(victim), own, &known, self.quorums(), &Lives::default()) else {
                continue;
            };
            let mut after = *state;
            let life = (u8::try_from(life.0).expect("few losses"), 0);
            let mut rebuilt = Disk { at: life, holds: 0, ..state.disks[victim] };
            for at in of_mask(from) {
                // It is a record of its own.
                let voter = &mut after.disks[at];
                (voter.knows[victim], voter.at.1) = (voter.knows[victim].max(life), voter.at.1 + 1);
                if at < VICTIMS {
                    after.voted[at] = voter.at;
                }
                rebuilt.holds = rebuilt.holds.max(state.disks[at].holds);
            }
            let voters: Vec<_> =
                of_mask(from).map(|at| Self::reply(state, at, self.memory(state, at))).collect();
            let adopted = adopted_memory(volume(victim), &voters);
            for (peer, known) in rebuilt.knows.iter_mut().enumerate().filter(|(peer, _)| *peer != victim) {
                let Some(position) = adopted.get(&volume(peer)) else { continue };
                let record = if self.without == Without::AdoptMemory { 0 } else { position.durable.0 };
                let position = (position.incarnation.0, record);
                *known = (*known).max((
                    u8::try_from(position.0).expect("few lives"),
                    u8::try_from(position.1).expect("few records"),
                ));
            }
            (after.disks[victim], after.standing[victim]) = (rebuilt, VoterStatus::Voting);
            after.voted[victim] = life;
            out.push((Step::Rebuild { volume: small(victim), from }, after));
        }
    }

    fn memory(&self, state: &State, at: usize) -> Memory {
        let is_whole = state.standing[at] != VoterStatus::Lost || self.without == Without::WholePeers;
        Memory { is_whole, positions: state.disks[at].positions() }
    }

    /// What of a memory is compared with where a volume is.
    fn compared(&self, own: (u8, u8), at: usize, positions: &mut [(VolumeId, Position)]) {
        for (_, known) in positions.iter_mut().filter(|(peer, _)| *peer == volume(at)) {
            match self.without {
                Without::LaterLives if known.incarnation.0 > own.0.into() => *known = position((0, 0)),
                Without::LaterRecords if known.incarnation.0 == own.0.into() => *known = position((0, 0)),
                _ => {}
            }
        }
    }

    fn confirm_steps(&self, state: &State, at: usize, out: &mut Vec<(Step, State)>) {
        let own = state.disks[at].at;
        let fewer = usize::from(self.without == Without::EnoughPeers);
        let asked = (self.quorums().accept() - 1).saturating_sub(fewer);
        // Of the quorums that a set of this size has, those that ask so many.
        let quorums = Quorums::of(2 * asked + 1);
        for by in self.masks(asked).filter(|by| by & 1 << at == 0) {
            let answers: Vec<Reply<Memory>> = of_mask(by)
                .map(|peer| {
                    let mut memory = self.memory(state, peer);
                    self.compared(own, at, &mut memory.positions);
                    let mut reply = Self::reply(state, peer, memory);
                    reply.from.votes |= self.without == Without::CurrentPeers;
                    reply
                })
                .collect();
            let remembers = state.disks[at].positions();
            let opened = OpenedVolume { volume: volume(at), position: position(own), remembers: &remembers };
            let step = Step::Confirm { volume: small(at), by };
            match confirm(opened, &answers, quorums) {
                Confirmation::Confirmed => {
                    let mut after = *state;
                    after.standing[at] = VoterStatus::Voting;
                    out.push((step, after));
                }
                Confirmation::Lost { remembered } => out.push((step, lose(state, at, remembered))),
                Confirmation::Unconfirmed { .. } => {}
            }
        }
    }

    /// One that votes hears what a peer remembers that was not asked before.
    fn hear_steps(&self, state: &State, at: usize, out: &mut Vec<(Step, State)>) {
        for peer in (0..self.volumes).filter(|peer| *peer != at) {
            let mut positions = self.memory(state, peer).positions;
            self.compared(state.disks[at].at, at, &mut positions);
            if let Some(remembered) = lost_state(volume(at), position(state.disks[at].at), positions) {
                let step = Step::Hear { volume: small(at), from: small(peer) };
                out.push((step, lose(state, at, remembered)));
            }
        }
    }
}

/// A volume that learns that it lost state: the life that its directory goes on in is above all of them.
fn lose(state: &State, at: usize, remembered: Position) -> State {
    let mut after = *state;
    let life = u8::try_from(remembered.incarnation.0).expect("few lives").max(state.disks[at].at.0);
    after.disks[at].at = (life + 1, 0);
    after.standing[at] = VoterStatus::Lost;
    after
}

impl Model for ReturningDisks {
    type State = State;
    type Step = Step;

    fn start(&self) -> State {
        let disk = Disk { at: (1, 0), holds: 0, knows: [(1, 0); VICTIMS] };
        State { disks: [disk; VOLUMES], voted: [(1, 0); VICTIMS], ..State::default() }
    }

    fn steps(&self, state: &State, out: &mut Vec<(Step, State)>) {
        self.write_steps(state, out);
        self.fault_steps(state, out);
        for at in 0..self.volumes {
            match state.standing[at] {
                VoterStatus::Voting => self.hear_steps(state, at, out),
                VoterStatus::Unconfirmed => self.confirm_steps(state, at, out),
                VoterStatus::Lost => self.rebuild_steps(state, at, out),
            }
        }
        for (_, after) in out {
            self.canonical(after);
        }
    }

    fn violation(&self, state: &State) -> Option<String> {
        let has_lost = |mask: &u8| {
            Self::vote_together(state, *mask)
                && of_mask(*mask).all(|at| state.disks[at].holds < state.acknowledged)
        };
        let lost = self.masks(self.quorums().prepare()).find(has_lost);
        lost.map(|mask| format!("volumes {mask:#b} read, and have lost an acknowledged write"))
    }
}
