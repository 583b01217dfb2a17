//! One register per key: the words that proposers and acceptors exchange, and the rules both obey.
//!
//! A key's state is one register, replicated on all volumes of its set and changed by CASPaxos
//! (Rystsov, "CASPaxos: Replicated State Machines without logs", 2018). A gateway proposes, a
//! volume accepts.
//!
//! ```text
//! gateway                                   each volume of the set (acceptor)
//!   | -- prepare(key, ballot) ---------------> |  promise: refuse lower ballots from here on
//!   | <------------ promised(row, floor) ----- |
//!   |   after A promises; value made from the highest row
//!   | -- accept(key, ballot, value) ---------> |  row := value, durable
//!   | <------------ accepted ----------------- |
//!   |   after A accepts: the client is answered
//!   | -- commit(key, ballot) ----------------> |  row.committed := true, lazily
//! ```

pub mod acceptor;
pub mod batch;
pub mod call;
pub mod drop;
pub mod heal;
pub mod listing;
pub mod position;
pub mod proposer;
pub mod quorum;
pub mod read;
pub mod recover;
pub mod release;
pub mod seal;
pub mod sweep;

use std::sync::Arc;

use bytes::Bytes;

use crate::checksum::Digest;
use crate::codec::DecodeError;
use crate::id::{Ballot, DataId, Life, Sequence, Timestamp, VolumeId};
use crate::record::{OverLimit, State, Value};
use crate::register::position::{OpeningId, Position};

/// An acceptor's state for a key, without the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowHead {
    /// The ballot at which the value was accepted.
    pub ballot: Ballot,
    /// The hash of the value's encoded head (which holds the hash of its inline bytes).
    pub digest: Digest,
    /// Whether the acceptor has received the commit hint for the value.
    pub committed: bool,
}

impl RowHead {
    /// Whether the row counts as accepted by a volume with this floor, read with the row or later: see
    /// [`Vote::is_accepted`].
    pub fn is_accepted(&self, floor: Ballot) -> bool {
        self.committed || self.ballot > floor
    }
}

/// A register's value as it is stored and sent.
#[derive(Debug, Clone)]
pub struct EncodedValue {
    /// The encoded [`crate::record::Value`], which names the length and hash of its inline bytes.
    pub head: Bytes,
    /// The bytes of an inline object; empty for every other home.
    pub inline: Bytes,
    /// Known where the value was decoded, or made, in this process.
    traits: Option<ValueTraits>,
}

/// Properties of a value that an acceptor needs for its decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueTraits {
    /// The hash of its head.
    pub digest: Digest,
    /// Whether it says that nothing is there.
    pub tombstone: bool,
}

impl EncodedValue {
    /// Bytes from elsewhere: they are decoded before anything is believed of them.
    pub const fn new(head: Bytes, inline: Bytes) -> Self {
        Self { head, inline, traits: None }
    }

    /// A value of this process, encoded and looked at once for all volumes that get it.
    ///
    /// # Errors
    /// [`OverLimit`] names the field that has grown too large.
    pub fn of(value: &Value, inline: Bytes) -> Result<Self, OverLimit> {
        Ok(Self::decoded(value.try_encode()?, value, inline))
    }

    /// A value whose head was decoded already, to `value`: nothing decodes it again.
    pub fn decoded(head: Bytes, value: &Value, inline: Bytes) -> Self {
        let traits = ValueTraits::of(&head, value);
        Self { head, inline, traits: Some(traits) }
    }

    /// Reads the properties that an acceptor needs.
    ///
    /// # Errors
    /// [`DecodeError`] when the head does not decode.
    pub fn traits(&self) -> Result<ValueTraits, DecodeError> {
        match self.traits {
            Some(traits) => Ok(traits),
            None => Ok(ValueTraits::of(&self.head, &Value::decode(self.head.clone())?)),
        }
    }
}

impl ValueTraits {
    fn of(head: &Bytes, value: &Value) -> Self {
        Self { digest: Value::digest(head), tombstone: value.state == State::Tombstone }
    }
}

impl PartialEq for EncodedValue {
    fn eq(&self, other: &Self) -> bool {
        let Self { head, inline, traits: _ } = self;
        *head == other.head && *inline == other.inline
    }
}

impl Eq for EncodedValue {}

/// A row as an acceptor hands it out. The inline bytes are asked for on their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Ballot, digest and committed flag.
    pub head: RowHead,
    /// Bytes of the encoded value; 0 where a volume of before does not say it.
    pub value_bytes: u32,
    /// The encoded value without its inline bytes; absent where it was not asked for, or is longer than was
    /// asked for.
    pub value: Option<Bytes>,
}

/// Asks an acceptor to promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prepare {
    /// The ballot to promise.
    pub ballot: Ballot,
}

/// Asks an acceptor to accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accept {
    /// The ballot that was prepared.
    pub ballot: Ballot,
    /// The value.
    pub value: EncodedValue,
    /// The data ids that this value names and the value that the proposer's prepare found does not.
    pub introduces: Vec<DataId>,
    /// Whether the value is what the prepare found and does not know to be committed, proposed unchanged: it
    /// was admitted when it was proposed first, and a full volume takes it, too.
    pub finishes: bool,
    /// How far the volumes' logs were, as the answers to the prepare said. A volume that takes the accept
    /// logs them with its row: should one of the others come back with less, it is known.
    pub positions: Positions,
    /// Where the data of the value is, so that each volume logs what it lacks of it.
    pub origin: ValueOrigin,
}

/// Statement of a value's proposer about its data. A sender of before says nothing, which is the default:
/// then each volume looks at all that the value names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ValueOrigin {
    /// For data that the accept introduces, where its shards are durable. Of data that is not among it the
    /// sender does not say.
    pub durable: Arc<[DurableShards]>,
    /// The ballot of the value that this one was made from, [`Ballot::ZERO`] where the prepare found none.
    /// `None` where it also carries data of other registers, as a completed upload does that of its parts,
    /// and where the sender does not say.
    pub made_from: Option<Ballot>,
}

/// Volumes in which the shards of one data id are durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DurableShards {
    /// The data.
    pub data: DataId,
    /// Each volume with the life in which it acknowledged its shard.
    pub lives: Arc<[(VolumeId, Life)]>,
}

impl ValueOrigin {
    /// Volumes and lives in which the shards of introduced data are durable; `None` where it does not say.
    pub fn durable_in(&self, data: DataId) -> Option<&[(VolumeId, Life)]> {
        self.durable.iter().find(|durable| durable.data == data).map(|durable| &*durable.lives)
    }
}

/// Says that a value is committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitHint {
    /// The ballot of the value; ignored where the row has another.
    pub ballot: Ballot,
    /// Whether every volume of the set took it. Where one may lack it the others keep the row listed beside
    /// those that are not known to be committed, so that a proposer that dies leaves a memory of it. A sender
    /// that leaves it out says `false`, which is the safe side: such a row costs a look, and no volume is
    /// left without it.
    pub is_everywhere: bool,
    /// How far the logs of the volumes are that accepted it.
    pub positions: Positions,
}

/// How far the logs of several volumes are durable, in which lives and openings.
pub type Positions = Arc<[(VolumeId, Position)]>;

/// An acceptor's promise, or its answer to a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vote {
    /// Row that it holds for the key; `None` is a vote for nothing.
    pub row: Option<Row>,
    /// At or below this ballot the acceptor has nothing, and will accept nothing.
    pub floor: Ballot,
}

impl Vote {
    /// Whether its row counts as accepted by the volume where nothing says that it is committed.
    ///
    /// A row at or below the floor may have been adopted by a volume that had promised a higher ballot before
    /// it lost its state: its voters showed that promise to it and raised their floors with its own. Such a
    /// row is a copy and no vote: with it, A volumes may show a ballot that was never accepted by A of them,
    /// beside a higher one that is found by the next prepare. Guards I-3.
    pub fn is_accepted(&self) -> bool {
        self.row.as_ref().is_some_and(|row| row.head.is_accepted(self.floor))
    }
}

/// Identity of the volume that answered, sent with every vote and every refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answerer {
    /// In which life the volume is; replies of older ones are discarded.
    pub life: Life,
    /// Whether the answer counts. A recovering volume that took its voters' guarantees stores the writes that
    /// it is sent and answers them, but until it has adopted every row it is not a member of any quorum.
    pub votes: bool,
    /// The lives of its peers as it has durably recorded them, peers in their first life left out. Without it
    /// a proposer would count answers that a volume gave before it lost its state: a volume that recorded the
    /// loss is in every quorum, and reports it here.
    pub peers: Arc<[(VolumeId, Life)]>,
    /// Opening of the volume that answers: durable in its own log before it answers anything.
    pub opening: OpeningId,
    /// The volume's highest durable sequence, which its peers log.
    pub durable: Sequence,
}

impl Answerer {
    /// How far its log is durable, in which life and which opening.
    pub const fn position(&self) -> Position {
        Position { life: self.life, opening: self.opening, durable: self.durable }
    }
}

/// Why an acceptor does not vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The ballot is at or below what the acceptor promised, accepted, or may have promised before
    /// it restarted. A ballot above `bound` may succeed.
    #[error("ballot refused, bound {bound:?}")]
    Below {
        /// The highest ballot that the acceptor may have promised.
        bound: Ballot,
    },
    /// The time of a ballot, or of a data floor to raise, is implausibly far ahead; `latest` is the
    /// highest that is accepted.
    #[error("time too far ahead")]
    TooFarAhead {
        /// The latest time that the acceptor takes.
        latest: Timestamp,
    },
    /// The acceptor has seen a newer topology for this slot.
    #[error("stale epoch")]
    StaleEpoch {
        /// The highest epoch that it has seen.
        epoch: crate::id::Epoch,
    },
    /// The bucket is sealed: it is being deleted, or gone.
    #[error("bucket sealed")]
    Sealed,
    /// The accept introduces data born before the acceptor's data floor.
    #[error("data born before {floor:?}")]
    DataTooOld {
        /// The acceptor's data floor.
        floor: Timestamp,
    },
    /// The volume does not vote yet: it lost its state, or its peers have not confirmed that it did not.
    #[error("recovering")]
    Recovering,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::strategy;

    proptest! {
        #[test]
        fn a_value_from_elsewhere_is_judged_as_our_own(value in strategy::value()) {
            let own = EncodedValue::of(&value, Bytes::new()).expect("within its limits");
            let foreign = EncodedValue::new(own.head.clone(), Bytes::new());
            let decoded = EncodedValue::decoded(own.head.clone(), &value, Bytes::new());
            prop_assert_eq!(own.traits(), foreign.traits());
            prop_assert_eq!(own.traits(), decoded.traits());
            prop_assert_eq!(own, foreign);
        }
    }

    #[test]
    fn values_are_the_same_in_head_and_inline_bytes_or_not_at_all() {
        let value = |head, inline| EncodedValue::new(Bytes::from_static(head), Bytes::from_static(inline));
        assert_eq!(value(b"head", b"inline"), value(b"head", b"inline"));
        assert_ne!(value(b"head", b"inline"), value(b"other", b"inline"));
        assert_ne!(value(b"head", b"inline"), value(b"head", b"other"));
    }

    #[test]
    fn bytes_from_elsewhere_that_do_not_decode_are_refused() {
        assert!(EncodedValue::new(Bytes::from_static(b"x"), Bytes::new()).traits().is_err());
    }
}
