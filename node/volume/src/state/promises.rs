//! The acceptor's memory of promises, and its rules applied to a volume's state.
//!
//! Rules live in `sherd_core::register::acceptor`; here is what they are asked about. Promises are
//! volatile: the durable bound covers them after a restart. The table of promises is bounded by the
//! bytes that it takes; a promise that is put out raises the restart bound, which refuses for every
//! key what the promise refused for its own.

use std::collections::{HashMap, HashSet, VecDeque};

use bytes::Bytes;

use sherd_core::env::Clock;
use sherd_core::id::{Ballot, Timestamp};
use sherd_core::message::Target;
use sherd_core::register::acceptor::{Circumstances, KeyState, after_forgetting};
use sherd_core::register::{Refusal, RowHead};

use crate::state::SmallState;

/// Promises that a row replaced, kept in the order until it is looked through.
const ORDER_SLACK: usize = 1024;
/// Bytes of a promise beside its key, about: twice a key's handle and a ballot, with the room that the tables
/// keep free, and the key's allocation.
const PROMISE_OVERHEAD_BYTES: u64 = 256;
/// Keys of a usual batch: for as many room is kept.
const BUSY_ROOM: usize = 1024;

#[derive(Debug)]
pub(crate) struct Promises {
    bytes_max: u64,
    table: HashMap<Bytes, Ballot>,
    /// The oldest first, among what rows have replaced since: as much again, and a little.
    order: VecDeque<(Bytes, Ballot)>,
    /// Bytes of the promises in the order; the table has no others.
    bytes: u64,
    /// Keys with a row that is judged and not yet visible.
    busy: HashSet<Bytes>,
    /// Ballots at or below are refused for every key.
    pub(crate) restart_bound: Ballot,
    highest: Ballot,
    /// Whether a promise was given since the bound was last extended.
    pub(crate) is_active: bool,
}

impl Promises {
    /// Remembers promises that take `bytes_max` together.
    pub(crate) fn new(bytes_max: u64, restart_bound: Ballot) -> Self {
        Self {
            bytes_max,
            table: HashMap::new(),
            order: VecDeque::new(),
            bytes: 0,
            busy: HashSet::new(),
            restart_bound,
            highest: Ballot::ZERO,
            is_active: false,
        }
    }

    pub(crate) fn of(&self, key: &[u8]) -> Ballot {
        self.table.get(key).copied().unwrap_or(Ballot::ZERO)
    }

    /// The highest ballot that may have been promised: since the restart, or before it.
    pub(crate) fn highest(&self) -> Ballot {
        self.highest.max(self.restart_bound)
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn note(&mut self, key: &Bytes, ballot: Ballot) {
        if ballot <= self.of(key) {
            return;
        }
        self.highest = self.highest.max(ballot);
        self.table.insert(key.clone(), ballot);
        self.order.push_back((key.clone(), ballot));
        self.bytes += promise_bytes(key);
        if self.order.len() > 2 * self.table.len() + ORDER_SLACK {
            let table = &self.table;
            self.order.retain(|(key, ballot)| table.get(key) == Some(ballot));
            self.bytes = self.order.iter().map(|(key, _)| promise_bytes(key)).sum();
        }
        while self.bytes > self.bytes_max {
            let Some((key, ballot)) = self.order.pop_front() else { break };
            self.bytes -= promise_bytes(&key);
            if self.table.get(&key) == Some(&ballot) {
                self.table.remove(&key);
                self.restart_bound = after_forgetting(self.restart_bound, ballot);
            }
        }
    }

    /// A row of this ballot is durable, and refuses what the promise refused.
    pub(crate) fn kept_by_row(&mut self, key: &[u8], ballot: Ballot) {
        if self.table.get(key).is_some_and(|promised| *promised <= ballot) {
            self.table.remove(key);
        }
    }

    /// A row of this ballot is judged, and not visible yet. Said under the lock that judged it: a
    /// promise given in between would show the row before, and the row would break it.
    pub(crate) fn begin(&mut self, key: &Bytes, ballot: Ballot) {
        self.note(key, ballot);
        self.busy.insert(key.clone());
    }

    /// The row of this key goes, and is visible still.
    pub(crate) fn begin_drop(&mut self, key: &Bytes) {
        self.busy.insert(key.clone());
    }

    /// Everything that was judged is visible, or will never be.
    pub(crate) fn end_all(&mut self) {
        self.busy.clear();
        self.busy.shrink_to(BUSY_ROOM);
    }

    pub(crate) fn is_busy(&self, key: &[u8]) -> bool {
        self.busy.contains(key)
    }
}

fn promise_bytes(key: &Bytes) -> u64 {
    key.len() as u64 + PROMISE_OVERHEAD_BYTES
}

pub(crate) fn key_state<'a>(
    small: &SmallState,
    target: &Target,
    row: Option<&'a RowHead>,
    promised: Ballot,
) -> KeyState<'a> {
    KeyState {
        row,
        promised,
        sealed: small.seals_of(target.key.bucket).is_sealed(),
        epoch_seen: small.epoch_of(target.slot),
    }
}

pub(crate) fn asked(target: &Target, clock: &dyn Clock) -> Circumstances {
    Circumstances { epoch: target.epoch, now: Timestamp::from_ms(clock.wall_ms()) }
}

/// Judges whether a bucket's rows may be listed or scanned.
pub(crate) fn judge_bucket(small: &SmallState, bucket: sherd_core::id::BucketId) -> Result<(), Refusal> {
    if !small.standing().votes() {
        return Err(Refusal::Recovering);
    }
    if small.seals_of(bucket).is_sealed() { Err(Refusal::Sealed) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use sherd_core::id::ProposerId;

    use super::*;

    fn ballot(count: u64) -> Ballot {
        Ballot { time: Timestamp::from_ms(count), proposer: ProposerId(1) }
    }

    #[test]
    fn promises_that_rows_replaced_take_no_memory() {
        let mut promises = Promises::new(64 << 20, Ballot::ZERO);
        for count in 1..=100_000 {
            let key = Bytes::from(count.to_string());
            promises.note(&key, ballot(count));
            promises.kept_by_row(&key, ballot(count));
        }
        assert_eq!(promises.len(), 0);
        assert!(promises.order.len() <= ORDER_SLACK + 1, "{}", promises.order.len());
        assert_eq!(promises.restart_bound, Ballot::ZERO, "nothing was forgotten");
    }

    #[test]
    fn promises_for_long_keys_take_no_more_memory_than_those_for_short_ones() {
        let bytes_max = 1 << 20;
        for key_bytes in [1, 100, 1024] {
            let mut promises = Promises::new(bytes_max, Ballot::ZERO);
            for count in 1..=10_000_u64 {
                promises.note(&Bytes::from(format!("{count:0key_bytes$}")), ballot(count));
            }
            let held: usize = promises.table.keys().map(Bytes::len).sum();
            assert!(held as u64 <= bytes_max, "{held} bytes of keys of {key_bytes}");
            assert!(promises.order.len() == promises.len() && promises.len() > 800, "{}", promises.len());
            let forgotten = 10_000 - promises.len() as u64;
            assert_eq!(
                promises.restart_bound,
                ballot(forgotten),
                "what was put out is refused for every key"
            );
            assert_eq!(
                promises.of(format!("{:0key_bytes$}", forgotten + 1).as_bytes()),
                ballot(forgotten + 1)
            );
        }
    }
}
