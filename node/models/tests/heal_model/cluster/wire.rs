//! The model's numbers in the types of production.

use sherd_core::id::{Ballot, DataId, Life, ProposerId, Sequence, Timestamp, VolumeId};
use sherd_core::register::acceptor::{
    AcceptVerdict, AcceptorState, Circumstances, KeyState, VoterStatus, judge_accept,
};
use sherd_core::register::heal::look::PeerCursor;
use sherd_core::register::position::OpeningId;
use sherd_core::register::{Answerer, RowHead};

use super::{Cursor, Row, Standing, Volume};

pub(super) fn ballot(number: u8) -> Ballot {
    match number {
        0 => Ballot::ZERO,
        _ => Ballot { time: Timestamp::from_ms(u64::from(number)), proposer: ProposerId(1) },
    }
}

pub(super) fn sequence(number: u8) -> Sequence {
    Sequence(u64::from(number))
}

pub(super) fn number(sequence: Sequence) -> u8 {
    u8::try_from(sequence.0).expect("few records")
}

pub(super) fn life(number: u8) -> Life {
    Life(u32::from(number))
}

/// Data that the value of this number introduces.
pub(super) fn data(number: u8) -> DataId {
    DataId { birth: Timestamp::from_ms(u64::from(number)), proposer: ProposerId(1) }
}

pub(super) fn volume(at: usize) -> VolumeId {
    VolumeId([at as u8; 16])
}

/// `None` for life 0.
pub(super) fn cursor(cursor: Cursor) -> Option<PeerCursor> {
    let known = PeerCursor { life: life(cursor.life), sequence: sequence(cursor.sequence) };
    (cursor.life > 0).then_some(known)
}

pub(super) fn head(row: Row) -> Option<RowHead> {
    (row.ballot > 0).then(|| RowHead {
        ballot: ballot(row.ballot),
        digest: [0; 32],
        committed: row.committed,
    })
}

impl Volume {
    pub(super) fn answerer(&self) -> Answerer {
        Answerer {
            life: life(self.life),
            votes: self.votes(),
            peers: [].into(),
            opening: OpeningId::NONE,
            durable: sequence(self.sequence),
        }
    }

    /// Whether an accept of this ballot would be stored.
    pub(super) fn takes(&self, key: usize, number: u8) -> bool {
        let standing = match self.standing {
            Standing::Voting => VoterStatus::Voting,
            Standing::Refilling => VoterStatus::Refilling,
            Standing::Lost | Standing::Vacant => VoterStatus::Lost,
        };
        let state = AcceptorState {
            floor: ballot(self.floor),
            restart_bound: ballot(self.bound),
            standing,
            ..AcceptorState::default()
        };
        let row = head(self.rows[key]);
        let known =
            KeyState { row: row.as_ref(), promised: ballot(self.promised[key]), ..KeyState::default() };
        let verdict = judge_accept(&state, &known, Circumstances::default(), ballot(number), &[]);
        verdict == Ok(AcceptVerdict::Store)
    }
}
