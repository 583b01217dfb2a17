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
//! Records of no write (refusals with their positions, shards, heals, compaction) come at any time to a
//! volume that has its log, votes or not, and answers about anything carry how far it is. A rollback that
//! fewer than P peers noted is not recognised, and is not made.

mod disk;

use std::sync::Arc;

use sherd_core::id::{Life, Sequence, VolumeId};
use sherd_core::register::Answerer;
use sherd_core::register::position::{OpeningId, Position};
use sherd_core::register::quorum::{Lives, Order, Quorums, Reply, voters};
use sherd_core::register::recover::confirm::{
    Confirmation, Memory, OpenedVolume, adopted_memory, confirm, lost_state,
};
use sherd_core::register::recover::{Guarantees, next_life};

pub(crate) use self::disk::Disk;
use self::disk::{Notes, small};
use sherd_models::search::Model;

/// Most volumes; the first two may be lost.
const VOLUMES: usize = 5;
const VICTIMS: usize = 2;
/// Most openings of one volume in a run.
const OPENINGS: usize = 6;
/// Most copies of one disk.
const COPIES: usize = 2;

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
    /// Positions have no opening: the highest is compared with where the log is by now.
    Openings,
    /// Positions have no opening: the highest is compared with where the log ended at this opening.
    OpeningIds,
    /// Only openings are compared, and not how far each came.
    Ends,
    /// Memory of the current opening counts, too.
    CurrentOpening,
    /// An opening is the number behind the last one that the log names.
    RandomOpenings,
    /// The log names the last two openings alone.
    AllOpenings,
    /// An opening answers before its log names it durably.
    DurableOpenings,
    /// Answers carry what is not synced yet.
    SyncedAnswers,
    /// A peer notes one opening: the one that it received last.
    NoteOfEach,
    /// A peer notes one opening: the one with the highest sequence.
    NoteOfEachLower,
    /// A note goes when a later opening is received whose log began above it.
    Questions,
    /// Nothing is noted in the place of what a question covers.
    Replacement,
}

/// A configuration.
#[derive(Debug, Clone)]
pub(crate) struct ReturningDisks {
    pub(crate) without: Without,
    pub(crate) volumes: usize,
    /// How many of the first two are followed: noted by their peers, lost, copied and rolled back.
    pub(crate) victims: usize,
    pub(crate) writes: u8,
    /// Records of no write.
    pub(crate) records: u8,
    /// Whether such a record is synced later than it is written.
    pub(crate) has_tails: bool,
    /// Whether answers besides those of writes are noted.
    pub(crate) has_refusals: bool,
    pub(crate) losses: [u8; VICTIMS],
    /// Copies that are made of disks, and how many of one disk are kept.
    pub(crate) copies: u8,
    pub(crate) kept: usize,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct State {
    standing: [VoterStatus; VOLUMES],
    disks: [Disk; VOLUMES],
    /// Records of the victims that are written and not synced; openings that are not.
    tails: [u8; VICTIMS],
    unsynced: [bool; VICTIMS],
    /// Disks that were copied, or taken away.
    aside: [[Option<Disk>; COPIES]; VICTIMS],
    /// The ghost: how far each victim ever voted, and whether its disk has all that it should.
    voted: [Notes; VICTIMS],
    has_all: [bool; VICTIMS],
    /// Openings drawn so far.
    drawn: [u8; VICTIMS],
    acknowledged: u8,
    losses: [u8; VICTIMS],
    copies: u8,
    returns: u8,
    restarts: u8,
    records: u8,
    /// A volume that has all that it should was taken for one that lost state.
    is_wronged: bool,
}

/// One step; volumes by number, several as a mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Write { by: u8 },
    Record { volume: u8 },
    Sync { volume: u8 },
    Note { peer: u8, of: u8 },
    Copy { disk: u8, to: u8 },
    Lose { disk: u8 },
    Return { disk: u8, from: u8 },
    Restart { volume: u8 },
    Rebuild { volume: u8, from: u8 },
    Confirm { volume: u8, by: u8, is_lost: bool },
    Hear { volume: u8, from: u8, is_lost: bool },
}

fn volume(at: usize) -> VolumeId {
    VolumeId([u8::try_from(at).expect("few volumes"); 16])
}

fn of_mask(mask: u8) -> impl Iterator<Item = usize> + Clone {
    (0..VOLUMES).filter(move |at| mask & 1 << at != 0)
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
        let later = disk.knows.iter().enumerate().filter(|(_, known)| known.life > 1);
        let peers: Arc<[_]> =
            later.map(|(victim, known)| (volume(victim), Life(known.life.into()))).collect();
        let Position { life, opening, durable } = disk.position();
        let votes = state.standing[at] == VoterStatus::Voting;
        let from = Answerer { life, votes, peers, opening, durable };
        Reply { volume: volume(at), from, order: Order::default(), result: Ok(result) }
    }

    /// Whether all of a mask are counted together.
    fn vote_together(state: &State, mask: u8) -> bool {
        let replies: Vec<_> = of_mask(mask).map(|at| Self::reply(state, at, ())).collect();
        voters(&replies, &Lives::default()).count() == replies.len()
    }

    /// Sorts the volumes that are never lost: they are interchangeable. Traces name them by their place.
    fn canonical(&self, state: &mut State) {
        for end in (self.victims + 1..self.volumes).rev() {
            for at in self.victims..end {
                let key = |at: usize| (state.standing[at], state.disks[at]);
                if key(at) > key(at + 1) {
                    state.standing.swap(at, at + 1);
                    state.disks.swap(at, at + 1);
                }
            }
        }
    }

    /// The position that an answer carries.
    fn said(&self, state: &State, victim: usize) -> Position {
        let mut position = state.disks[victim].position();
        if self.without == Without::SyncedAnswers {
            position.durable.0 += u64::from(state.tails[victim]);
        }
        position
    }

    /// A peer notes where a victim is.
    fn note(&self, state: &State, peer: &mut Disk, victim: usize) {
        let (position, began) = (self.said(state, victim), state.disks[victim].current().1);
        let notes = &mut peer.knows[victim];
        let before = *notes;
        let is_same_life = Life(before.life.into()) == position.life;
        notes.note(position);
        let noted = usize::try_from(position.opening.0).expect("few openings");
        if is_same_life {
            for (_, after) in notes.after.iter_mut().enumerate().filter(|(other, _)| *other != noted) {
                let is_gone = match self.without {
                    Without::NoteOfEach => true,
                    Without::NoteOfEachLower => before.highest() <= Some(small(position.durable.0)),
                    Without::Questions => *after <= began + 1,
                    _ => false,
                };
                *after = if is_gone { 0 } else { *after };
            }
            if self.without == Without::NoteOfEachLower && before.highest() > Some(small(position.durable.0))
            {
                *notes = before;
            }
        }
        peer.heard[victim].note(position);
    }

    /// A victim asks a peer: what its openings cover is dropped there.
    fn ask(&self, state: &State, after: &mut State, victim: usize, peer: usize) {
        let asker = state.disks[victim].history();
        let Disk { knows, heard, .. } = &mut after.disks[peer];
        let before = knows[victim];
        let is_changed = match self.without {
            // Notes of these are never covered.
            Without::Openings
            | Without::OpeningIds
            | Without::NoteOfEach
            | Without::NoteOfEachLower
            | Without::Questions => false,
            _ => knows[victim].change(|notes| notes.cover(&asker)),
        };
        let began = asker.began().filter(|_| is_changed);
        if let Some(began) = began {
            heard[victim].note(began);
        }
        if self.without == Without::Replacement
            && let Some(Position { opening, .. }) = began
        {
            let place = usize::try_from(opening.0).expect("few openings");
            knows[victim].after[place] =
                if before.life == knows[victim].life { before.after[place] } else { 0 };
        }
    }

    /// A record that a volume writes for another reason: what was not synced before it is.
    fn own_record(state: &mut State, at: usize) {
        let disk = &mut state.disks[at];
        disk.record += 1;
        if at < VICTIMS {
            disk.record += state.tails[at];
            (state.tails[at], state.unsynced[at]) = (0, false);
            state.voted[at].note(disk.position());
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
                for victim in of_mask(by).filter(|victim| *victim < self.victims && *victim != at) {
                    self.note(state, &mut after.disks[at], victim);
                }
                after.disks[at].holds = after.acknowledged;
                Self::own_record(&mut after, at);
            }
            out.push((Step::Write { by }, after));
        }
    }

    /// Records other than writes, and answers without effect: both also while a volume does not vote.
    fn record_steps(&self, state: &State, out: &mut Vec<(Step, State)>) {
        for victim in (0..self.victims).filter(|victim| state.standing[*victim] != VoterStatus::Lost) {
            if state.records < self.records && state.tails[victim] == 0 {
                let mut after = *state;
                after.records += 1;
                if self.has_tails {
                    after.tails[victim] = 1;
                } else {
                    after.disks[victim].record += 1;
                }
                out.push((Step::Record { volume: small(victim) }, after));
            }
            if state.tails[victim] != 0 || state.unsynced[victim] {
                let mut after = *state;
                after.disks[victim].record += state.tails[victim];
                (after.tails[victim], after.unsynced[victim]) = (0, false);
                out.push((Step::Sync { volume: small(victim) }, after));
            }
            for peer in (0..self.volumes).filter(|peer| self.has_refusals && *peer != victim) {
                let mut after = *state;
                self.note(state, &mut after.disks[peer], victim);
                if after != *state {
                    if peer < self.victims {
                        Self::own_record(&mut after, peer);
                    }
                    out.push((Step::Note { peer: small(peer), of: small(victim) }, after));
                }
            }
        }
    }

    /// Draws an opening for a victim's disk, and names it. `false` where the run has no more.
    fn reopen(&self, state: &mut State, victim: usize) -> bool {
        let disk = &mut state.disks[victim];
        let (last, _) = disk.current();
        let opening = if self.without == Without::RandomOpenings && last > 0 {
            last + 1
        } else {
            state.drawn[victim] += 1;
            state.drawn[victim]
        };
        if usize::from(opening) > OPENINGS || disk.named().count() == OPENINGS {
            return false;
        }
        disk.open(opening);
        (state.tails[victim], state.unsynced[victim]) = (0, self.without == Without::DurableOpenings);
        true
    }

    fn copy_steps(&self, state: &State, victim: usize, out: &mut Vec<(Step, State)>) {
        let is_whole = state.standing[victim] != VoterStatus::Lost && !state.unsynced[victim];
        for to in (0..self.kept).filter(|_| is_whole && state.copies < self.copies) {
            if state.aside[victim][to] != Some(state.disks[victim]) {
                let mut after = *state;
                after.copies += 1;
                after.aside[victim][to] = Some(state.disks[victim]);
                out.push((Step::Copy { disk: small(victim), to: small(to) }, after));
            }
        }
        for (from, disk) in state.aside[victim].iter().enumerate() {
            let Some(disk) = disk.filter(|disk| *disk != state.disks[victim]) else { continue };
            let peers = (0..self.volumes).filter(|at| *at != victim);
            let noted = peers.filter(|at| state.disks[*at].heard[victim].are_behind(&disk)).count();
            let is_recognisable = !state.voted[victim].are_behind(&disk) || noted >= self.quorums().prepare();
            if is_recognisable && state.returns < self.returns {
                let mut after = *state;
                after.returns += 1;
                after.disks[victim] = disk;
                (after.standing[victim], after.has_all[victim]) = (VoterStatus::Unconfirmed, false);
                if self.reopen(&mut after, victim) {
                    out.push((Step::Return { disk: small(victim), from: small(from) }, after));
                }
            }
        }
    }

    fn fault_steps(&self, state: &State, out: &mut Vec<(Step, State)>) {
        for victim in 0..self.victims {
            self.copy_steps(state, victim, out);
            let is_voting = state.standing[victim] == VoterStatus::Voting;
            if is_voting && state.losses[victim] < self.losses[victim] {
                let mut after = *state;
                after.losses[victim] += 1;
                after.aside[victim][0] = after.aside[victim][0].or(Some(state.disks[victim]));
                after.disks[victim] = Disk { openings: [(0, 0); OPENINGS], ..Disk::new(0) };
                (after.standing[victim], after.has_all[victim]) = (VoterStatus::Lost, false);
                if self.reopen(&mut after, victim) {
                    out.push((Step::Lose { disk: small(victim) }, after));
                }
            }
        }
        for at in (0..self.volumes).filter(|_| state.restarts < self.restarts) {
            let is_victim = at < self.victims;
            let may_restart = match state.standing[at] {
                VoterStatus::Voting => true,
                VoterStatus::Unconfirmed => is_victim,
                VoterStatus::Lost => false,
            };
            let mut after = *state;
            after.restarts += 1;
            after.standing[at] = VoterStatus::Unconfirmed;
            if is_victim && state.unsynced[at] {
                let last = state.disks[at].named().count() - 1;
                after.disks[at].openings[last] = (0, 0);
            }
            if may_restart && (!is_victim || self.reopen(&mut after, at)) {
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
                    let lives = state.disks[at].knows.iter().enumerate();
                    let lives = lives.map(|(peer, known)| (volume(peer), Life(known.life.into()))).collect();
                    Self::reply(state, at, Guarantees { lives, ..Guarantees::default() })
                })
                .collect();
            let own = Life(state.disks[victim].life.into());
            let Some(life) = next_life(volume(victim), own, &known, self.quorums(), &Lives::default()) else {
                continue;
            };
            let mut after = *state;
            after.disks[victim].begin_life(small(life.0));
            after.disks[victim].holds = 0;
            after.disks[victim].record += 1;
            for at in of_mask(from) {
                let Disk { knows, heard, holds, .. } = &mut after.disks[at];
                knows[victim].note(Position::life(life));
                heard[victim].note(Position::life(life));
                let holds = *holds;
                Self::own_record(&mut after, at);
                let rebuilt = &mut after.disks[victim];
                rebuilt.holds = rebuilt.holds.max(holds);
            }
            self.adopt_notes(state, &mut after.disks[victim], victim, from);
            (after.standing[victim], after.has_all[victim]) = (VoterStatus::Voting, true);
            after.voted[victim] = Notes { life: small(life.0), ..Notes::FIRST };
            out.push((Step::Rebuild { volume: small(victim), from }, after));
        }
    }

    /// A rebuilt volume takes over what its voters remember of the others.
    fn adopt_notes(&self, state: &State, rebuilt: &mut Disk, victim: usize, from: u8) {
        let memories = |notes: fn(&Disk) -> &[Notes; VICTIMS]| -> Vec<_> {
            let memory = |at: usize| {
                let known = notes(&state.disks[at]).iter().enumerate();
                let positions =
                    known.flat_map(|(peer, notes)| notes.positions().map(move |at| (volume(peer), at)));
                let openings = state.disks[at].history();
                Memory { is_whole: true, positions: positions.collect(), openings }
            };
            of_mask(from).map(|at| Self::reply(state, at, memory(at))).collect()
        };
        let adopted = adopted_memory(volume(victim), &memories(|disk| &disk.knows));
        let heard = adopted_memory(volume(victim), &memories(|disk| &disk.heard));
        for peer in (0..self.victims).filter(|peer| *peer != victim) {
            let of_peer = |(of, position): &(VolumeId, Position)| (*of == volume(peer)).then_some(*position);
            for position in adopted.iter().filter_map(of_peer) {
                let is_adopted = self.without != Without::AdoptMemory;
                let position = if is_adopted { position } else { Position::life(position.life) };
                rebuilt.knows[peer].note(position);
            }
            heard.iter().filter_map(of_peer).for_each(|position| rebuilt.heard[peer].note(position));
        }
    }

    /// Verdict of the notes of a victim on its disk with a rule left out: whether it lacks records.
    fn judged_without(&self, notes: Notes, disk: &Disk) -> Option<bool> {
        let is_later = notes.life > disk.life;
        let is_same = notes.life == disk.life;
        let (current, began) = disk.current();
        let named: Vec<(u8, u8)> = disk.named().collect();
        let lacks = |position: &Position| disk.history().lacks(position);
        let any = |lacks: &dyn Fn(u8, u8) -> bool| {
            let noted = (0..).zip(notes.after).filter(|(_, after)| *after > 0);
            is_later || is_same && noted.into_iter().any(|(opening, after)| lacks(opening, after - 1))
        };
        Some(match self.without {
            Without::LaterLives => is_same && notes.positions().any(|position| lacks(&position)),
            Without::LaterRecords => is_later,
            Without::Openings => any(&|_, record| record > disk.record),
            Without::OpeningIds => any(&|_, record| record > began),
            Without::Ends => any(&|opening, _| named.iter().all(|(named, _)| *named != opening)),
            Without::CurrentOpening => {
                any(&|opening, record| opening == current && record > began)
                    || notes.positions().any(|position| lacks(&position))
            }
            Without::AllOpenings => any(&|opening, record| {
                let first = named.len().saturating_sub(2);
                named[first..].iter().all(|(named, _)| *named != opening)
                    || notes.positions().any(|position| {
                        position.durable == Sequence(record.into())
                            && position.opening == OpeningId(opening.into())
                            && lacks(&position)
                    })
            }),
            _ => return None,
        })
    }

    /// A volume's answer about its memory of a victim.
    fn told(&self, state: &State, at: usize, victim: usize) -> Vec<(VolumeId, Position)> {
        let notes = state.disks[at].knows[victim];
        let positions: Vec<Position> = match self.judged_without(notes, &state.disks[victim]) {
            None => notes.positions().collect(),
            // A loss is said in the words that every rule understands.
            Some(true) => vec![Position::life(Life(u32::MAX))],
            Some(false) => Vec::new(),
        };
        positions.into_iter().map(|position| (volume(victim), position)).collect()
    }

    /// A volume's answer to one that asks.
    fn memory(&self, state: &State, at: usize, asker: usize) -> Memory {
        let is_whole = state.standing[at] != VoterStatus::Lost || self.without == Without::WholePeers;
        let others = |victim: &usize| self.without != Without::CurrentPeers || *victim == asker;
        let told = (0..self.victims).filter(|victim| *victim != at).filter(others);
        let positions = told.flat_map(|victim| self.told(state, at, victim)).collect();
        Memory { is_whole, positions, openings: state.disks[at].history() }
    }

    fn confirm_steps(&self, state: &State, at: usize, out: &mut Vec<(Step, State)>) {
        let fewer = usize::from(self.without == Without::EnoughPeers);
        let asked = (self.quorums().accept() - 1).saturating_sub(fewer);
        // The quorums of the set size at which `asked` volumes are asked.
        let quorums = Quorums::of(2 * asked + 1);
        let openings = state.disks[at].history();
        let remembers = self.memory(state, at, at).positions;
        let opened = OpenedVolume { volume: volume(at), openings: &openings, remembers: &remembers };
        for by in self.masks(asked).filter(|by| by & 1 << at == 0) {
            let answers: Vec<Reply<Memory>> =
                of_mask(by).map(|peer| Self::reply(state, peer, self.memory(state, peer, at))).collect();
            let step = |is_lost| Step::Confirm { volume: small(at), by, is_lost };
            match confirm(opened, &answers, quorums) {
                Confirmation::Confirmed => {
                    let mut after = *state;
                    after.standing[at] = VoterStatus::Voting;
                    if at < self.victims {
                        after.unsynced[at] = false;
                        of_mask(by).for_each(|peer| self.ask(state, &mut after, at, peer));
                    }
                    out.push((step(false), after));
                }
                Confirmation::Lost { .. } => out.push((step(true), lose(state, at, by))),
                Confirmation::Unconfirmed { .. } => {}
            }
        }
    }

    /// Steps in which a voting volume asks a peer that it did not ask before.
    fn hear_steps(&self, state: &State, victim: usize, out: &mut Vec<(Step, State)>) {
        let own = state.disks[victim].history();
        for peer in (0..self.volumes).filter(|peer| *peer != victim) {
            let remembered = self.told(state, peer, victim);
            let is_lost = lost_state(volume(victim), &own, remembered).is_some();
            let step = Step::Hear { volume: small(victim), from: small(peer), is_lost };
            if is_lost {
                out.push((step, lose(state, victim, 1 << peer)));
                continue;
            }
            let mut after = *state;
            self.ask(state, &mut after, victim, peer);
            if after != *state {
                out.push((step, after));
            }
        }
    }
}

/// A volume that finds out from peers that it lost state: the life that its directory goes on in is above all
/// that they have recorded.
fn lose(state: &State, victim: usize, peers: u8) -> State {
    let mut after = *state;
    let remembered = of_mask(peers).map(|peer| state.disks[peer].knows[victim].life).max();
    let life = remembered.unwrap_or_default().max(state.disks[victim].life);
    after.disks[victim].begin_life(life + 1);
    after.standing[victim] = VoterStatus::Lost;
    after.tails[victim] = 0;
    after.is_wronged |= state.has_all[victim];
    after
}

impl Model for ReturningDisks {
    type State = State;
    type Step = Step;

    fn start(&self) -> State {
        let disk = Disk { life: 1, ..Disk::new(1) };
        State {
            disks: [disk; VOLUMES],
            voted: [Notes::FIRST; VICTIMS],
            has_all: [true; VICTIMS],
            drawn: [1; VICTIMS],
            ..State::default()
        }
    }

    fn steps(&self, state: &State, out: &mut Vec<(Step, State)>) {
        self.write_steps(state, out);
        self.record_steps(state, out);
        self.fault_steps(state, out);
        for at in 0..self.volumes {
            match state.standing[at] {
                VoterStatus::Voting if at < self.victims => self.hear_steps(state, at, out),
                VoterStatus::Voting => {}
                VoterStatus::Unconfirmed => self.confirm_steps(state, at, out),
                VoterStatus::Lost => self.rebuild_steps(state, at, out),
            }
        }
        for (_, after) in out {
            self.canonical(after);
        }
    }

    fn violation(&self, state: &State) -> Option<String> {
        if state.is_wronged {
            return Some("a volume that has all of its state is taken for one that lost some".to_owned());
        }
        let has_lost = |mask: &u8| {
            Self::vote_together(state, *mask)
                && of_mask(*mask).all(|at| state.disks[at].holds < state.acknowledged)
        };
        let lost = self.masks(self.quorums().prepare()).find(has_lost);
        lost.map(|mask| format!("volumes {mask:#b} read, and have lost an acknowledged write"))
    }
}
