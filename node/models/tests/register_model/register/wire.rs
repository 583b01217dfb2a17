//! From the model's small numbers to production's words and back.

use std::sync::Arc;

use sherd_core::id::{Ballot, ChangeId, DataId, Incarnation, ProposerId, Sequence, Timestamp, VolumeId};
use sherd_core::limits::CHANGE_IDS;
use sherd_core::record::{CallToken, ChangeTry, Changes, ConditionalChange};
use sherd_core::register::acceptor::{AcceptorState, Circumstances, KeyState, VoterStatus as Stands};
use sherd_core::register::position::OpeningId;
use sherd_core::register::proposer::PrepareProgress;
use sherd_core::register::quorum::{Lives, Order, Quorums, Reply};
use sherd_core::register::recover::Guarantees;
use sherd_core::register::{Answerer, Row as WireRow, RowHead, Vote};

use super::{Column, Register, Row, Slot, VICTIMS, Value, VoterStatus};
use crate::rules::Without;

/// Ten seconds apart: farther than a bound reaches ahead, all within five minutes.
const SPACING_MS: u64 = 10_000;

pub(super) const fn ballot(number: u8) -> Ballot {
    Ballot { time: Timestamp::from_ms(number as u64 * SPACING_MS), proposer: ProposerId(0) }
}

pub(super) fn number(ballot: Ballot) -> u8 {
    u8::try_from(ballot.time.as_ms() / SPACING_MS).expect("a ballot of the model")
}

pub(super) fn volume(at: usize) -> VolumeId {
    VolumeId([u8::try_from(at).expect("few columns"); 16])
}

pub(super) fn at(volume: VolumeId) -> usize {
    usize::from(volume.0[0])
}

pub(super) fn change(number: u8) -> ChangeId {
    ChangeId { made: Timestamp::from_ms(u64::from(number)), proposer: ProposerId(0) }
}

/// A horizon that old data lies before and other data after.
pub(super) const HORIZON: Timestamp = Timestamp::from_ms(100);

pub(super) fn data_floor(raised: u8) -> Timestamp {
    if raised == 0 { Timestamp::ZERO } else { HORIZON }
}

/// The model's clocks stand still: ballots alone order what happens.
pub(super) const ASKED: Circumstances =
    Circumstances { epoch: sherd_core::id::Epoch(0), now: Timestamp::ZERO };

pub(super) fn head(row: Row) -> Option<RowHead> {
    (row.ballot > 0).then(|| RowHead {
        ballot: ballot(row.ballot),
        digest: [0; 32],
        committed: row.committed,
    })
}

/// Ids that a value of the model keeps.
const RING: usize = 4;
/// Each change of the model stands for this many of production's, made by the same writer one after
/// the other: so four of the model's fill the ring that sixteen of production's fill.
const CHANGES_EACH: usize = CHANGE_IDS / RING;
/// A change of a writer that never asks for its outcome.
const OTHER: ChangeTry =
    ChangeTry { change: ChangeId { made: Timestamp::ZERO, proposer: ProposerId(1) }, number: 1 };

/// Production's count of changes for the model's.
pub(super) fn count_of(changes: u8) -> u64 {
    u64::from(changes) * CHANGES_EACH as u64
}

pub(super) fn changes(value: &Value) -> Changes {
    let group = |id: &u8| {
        let own = ChangeTry { change: change((*id & 0xf) - 1), number: u16::from(*id >> 4) };
        std::iter::once(own).chain(std::iter::repeat_n(OTHER, CHANGES_EACH - 1))
    };
    let recent = value.ring.iter().filter(|id| **id > 0).flat_map(group).collect();
    Changes { count: count_of(value.count), recent, conditional: conditional(value.calls) }
}

/// The token of a call.
pub(super) const fn token(call: u8) -> CallToken {
    CallToken([call; 16])
}

/// Changes kept for the calls of a mask.
pub(super) fn conditional(calls: u8) -> Vec<ConditionalChange> {
    let calls = (0..8).filter(|call| calls & 1 << call != 0);
    calls.map(|call| ConditionalChange { token: token(call), etag: String::new() }).collect()
}

/// A value's record of its changes: count, ring, and the calls as a mask.
pub(super) struct Kept {
    pub(super) count: u8,
    pub(super) ring: [u8; RING],
    pub(super) calls: u8,
}

/// After one more change of the model, which sendings of these calls made.
pub(super) fn after(before: &Changes, own: u8, number: u8, drafted: &[ConditionalChange]) -> Kept {
    let own = ChangeTry { change: change(own), number: u16::from(number) };
    let mut next = (1..CHANGES_EACH).fold(before.after(own), |next, _| next.after(OTHER));
    next.remember(drafted);
    let count = u8::try_from(next.count / CHANGES_EACH as u64).expect("few changes");
    let id = |made: &ChangeTry| {
        let change = u8::try_from(made.change.made.as_ms() + 1).expect("few changes");
        change | u8::try_from(made.number).expect("few tries") << 4
    };
    let ids: Vec<u8> = next.recent.iter().filter(|made| **made != OTHER).map(id).collect();
    let mut ring = [0; RING];
    ring.iter_mut().rev().zip(ids.into_iter().rev()).for_each(|(place, id)| *place = id);
    let calls = next.conditional.iter().fold(0, |calls, made| calls | 1 << made.token.0[0]);
    Kept { count, ring, calls }
}

impl Register {
    pub(super) fn quorums(&self) -> Quorums {
        Quorums::of(self.volumes)
    }

    pub(super) fn data_id(&self, change: u8) -> DataId {
        let old = self
            .actors
            .iter()
            .any(|program| matches!(program, super::Program::Sweep(data) if *data == change));
        let birth = Timestamp::from_ms(if old { 1 } else { 200 });
        DataId { birth, proposer: ProposerId(u64::from(change)) }
    }

    pub(super) fn acceptor(&self, column: &Column) -> AcceptorState {
        AcceptorState {
            floor: ballot(column.floor),
            restart_bound: ballot(column.restart_bound),
            durable_bound: ballot(column.durable_bound),
            clock_reading: Timestamp::ZERO,
            data_floor: data_floor(column.data_floor),
            standing: match column.standing {
                VoterStatus::Refilling if self.without == Without::RefillingDoesNotVote => Stands::Voting,
                VoterStatus::Lost if self.without == Without::LostTakesNoWrites => Stands::Refilling,
                VoterStatus::Voting => Stands::Voting,
                VoterStatus::Lost => Stands::Lost,
                VoterStatus::Refilling => Stands::Refilling,
            },
        }
    }

    /// The life that an acceptor's answer names, noted in a slot.
    pub(super) fn slot(&self, column: &Column, stage: u8) -> Slot {
        Slot {
            stage,
            row: if column.rotten { Row::default() } else { column.row },
            floor: column.floor,
            data_floor: column.data_floor,
            life: column.life,
            votes: self.acceptor(column).standing.votes(),
            knows: column.knows,
            round: 0,
        }
    }

    /// An acceptor's answer about its row: a head comes from its index, although the row cannot be read.
    pub(super) fn shown(&self, column: &Column) -> Slot {
        let counts_as_nothing = column.rotten && self.without == Without::UnreadableIsNoVote;
        let row = if counts_as_nothing { Row::default() } else { column.row };
        Slot { row, ..self.slot(column, 1) }
    }

    pub(super) fn answerer(&self, slot: &Slot) -> Answerer {
        if self.without == Without::OldLivesDiscarded {
            let from = Answerer {
                incarnation: Incarnation(1),
                votes: slot.votes,
                peers: Arc::default(),
                opening: OpeningId::NONE,
                durable: Sequence(0),
            };
            return from;
        }
        Answerer {
            incarnation: Incarnation(u32::from(slot.life)),
            votes: slot.votes,
            peers: if slot.knows == [1; VICTIMS] { Arc::default() } else { lives(slot.knows).into() },
            opening: OpeningId::NONE,
            durable: Sequence(0),
        }
    }

    pub(super) fn reply<T>(&self, at: usize, slot: &Slot, value: T) -> Reply<T> {
        let round = u32::from(slot.round);
        let order = Order { asked: round, arrived: round + 1 };
        Reply { volume: volume(at), from: self.answerer(slot), order, result: Ok(value) }
    }

    pub(super) fn vote(&self, at: usize, slot: &Slot) -> Reply<Vote> {
        let row = head(slot.row).map(|head| WireRow { head, value_bytes: 1, value: None });
        let counts_copies = row.is_some() && self.without.copies_vote();
        let floor = if counts_copies { Ballot::ZERO } else { ballot(slot.floor) };
        self.reply(at, slot, Vote { row, floor })
    }

    /// The report kept in a slot.
    pub(super) fn report(&self, at: usize, slot: &Slot) -> Reply<Guarantees> {
        let guarantees = Guarantees {
            floor: ballot(slot.floor),
            data_floor: data_floor(slot.data_floor),
            incarnations: lives(slot.knows),
            ..Guarantees::default()
        };
        self.reply(at, slot, guarantees)
    }
}

fn lives(knows: [u8; VICTIMS]) -> Vec<(VolumeId, Incarnation)> {
    let known = knows.iter().enumerate().filter(|(_, life)| **life > 1);
    known.map(|(victim, life)| (volume(victim), Incarnation(u32::from(*life)))).collect()
}

/// A node whose clock stands still, and to which everybody who will has answered.
pub(super) fn asking(quorums: Quorums, lives: &Lives) -> PrepareProgress<'_> {
    PrepareProgress { quorums, outstanding: 0, now: Timestamp::ZERO, lives }
}

pub(super) fn key<'a>(column: &Column, row: Option<&'a RowHead>) -> KeyState<'a> {
    KeyState { row, promised: ballot(column.promised), ..KeyState::default() }
}
