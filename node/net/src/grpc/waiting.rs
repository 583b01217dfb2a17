//! The calls of one stream without an answer: how many there may be, and when each is given up.
//!
//! A call leaves with its answer, at its deadline, or when its caller dropped it and it ends then. Of the
//! dropped calls of a volume that callers wait for one is kept until it is answered: a volume is late while
//! it owes an answer (`peer::watch`), and callers who take what others answered leave long before that shows.
//! [`super::calls`] asks.

use std::collections::HashMap;

use tokio::time::Instant;

use sherd_core::id::VolumeId;

use super::limits::{CALLS_WAITING_MAX, VOLUME_CALLS_WAITING_MAX};
use sherd_store::peer::watch::CallLength;

pub(super) struct WaitingCalls<W> {
    pub(super) next_number: u64,
    waiting: HashMap<u64, WaitingCall<W>>,
    /// Calls of each volume that was ever asked.
    volumes: HashMap<VolumeId, VolumeCalls>,
    pub(super) ended: Option<String>,
}

pub(super) struct WaitingCall<W> {
    pub(super) volume: VolumeId,
    pub(super) deadline: Instant,
    pub(super) on_drop: DropRule,
    pub(super) waiter: W,
}

/// The end of a call that is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DropRule {
    /// The call is done to its end.
    RunsOn,
    /// The call stops.
    Ends,
    /// The call stops where another call to its volume, be it a dropped one, goes on to show whether the
    /// volume is late.
    EndsUnlessWatched,
}

#[derive(Debug, Default)]
struct VolumeCalls {
    count: usize,
    /// A dropped call that still counts towards lateness, for callers that give up before a volume counts as
    /// late.
    owed: Option<u64>,
}

impl DropRule {
    pub(super) const fn of(ends: bool, length: CallLength) -> Self {
        match (ends, length) {
            (false, _) => Self::RunsOn,
            (true, CallLength::Long) => Self::Ends,
            (true, CallLength::Short) => Self::EndsUnlessWatched,
        }
    }
}

impl<W> WaitingCalls<W> {
    pub(super) fn new() -> Self {
        Self { next_number: 1, waiting: HashMap::new(), volumes: HashMap::new(), ended: None }
    }

    pub(super) fn waits_for(&self, volume: VolumeId) -> bool {
        self.volumes.get(&volume).is_some_and(|calls| calls.count > 0)
    }

    /// Takes all of them at the end of the stream. Every later call fails with `reason`.
    pub(super) fn end(&mut self, reason: &str) -> impl Iterator<Item = W> + use<W> {
        self.ended.get_or_insert_with(|| reason.to_owned());
        self.volumes.clear();
        std::mem::take(&mut self.waiting).into_values().map(|call| call.waiter)
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn has_room(&self, volume: VolumeId) -> bool {
        self.waiting.len() < CALLS_WAITING_MAX
            && self.volumes.get(&volume).is_none_or(|calls| calls.count < VOLUME_CALLS_WAITING_MAX)
    }

    pub(super) fn add(&mut self, number: u64, call: WaitingCall<W>) {
        self.volumes.entry(call.volume).or_default().count += 1;
        self.waiting.insert(number, call);
    }

    pub(super) fn take(&mut self, number: u64) -> Option<W> {
        let WaitingCall { volume, deadline: _, on_drop: _, waiter } = self.waiting.remove(&number)?;
        if let Some(calls) = self.volumes.get_mut(&volume) {
            calls.count -= 1;
            calls.owed.take_if(|owed| *owed == number);
        }
        Some(waiter)
    }

    pub(super) fn take_expired(&mut self, now: Instant) -> Vec<W> {
        let late = self.waiting.iter().filter(|(_, call)| call.deadline <= now);
        let late: Vec<_> = late.map(|(number, _)| *number).collect();
        late.into_iter().filter_map(|number| self.take(number)).collect()
    }

    /// The dropped calls that end, as far as `send` sends their numbers: where it does not, the peer works on
    /// them until their deadline, so they keep their places here as they do there.
    pub(super) fn take_dropped(
        &mut self,
        is_dropped: impl Fn(&W) -> bool,
        send: impl FnMut(&u64) -> bool,
    ) -> Vec<W> {
        let ends = |call: &WaitingCall<W>| call.on_drop != DropRule::RunsOn && is_dropped(&call.waiter);
        let dropped = self.waiting.iter().filter(|(_, call)| ends(call));
        let mut dropped: Vec<_> =
            dropped.map(|(number, call)| (*number, call.volume, call.on_drop)).collect();
        // The oldest of a volume's is the one that is kept, for it shows first that the volume is late.
        dropped.sort_unstable_by_key(|(number, ..)| *number);
        dropped.retain(|(number, volume, rule)| {
            let calls = self.volumes.get_mut(volume).filter(|_| *rule == DropRule::EndsUnlessWatched);
            calls.is_none_or(|calls| *calls.owed.get_or_insert(*number) != *number)
        });
        let told: Vec<_> = dropped.into_iter().map(|(number, ..)| number).take_while(send).collect();
        told.into_iter().filter_map(|number| self.take(number)).collect()
    }
}
