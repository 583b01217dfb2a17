//! Work for senders that no signature vouches for yet: a bounded number at one time, of which the slowest one
//! gives way to a new one.
//!
//! ```text
//! head -> enter -> moved(bytes) ... -> keep: all of it is here -> signature -> dropped
//!           '--> where all places are taken, the slowest of the others is lost
//! ```
//! A bound that unproven senders share with proven ones is one that the unproven use up: with one id of a
//! key, or with none, and a byte a second. So a new one is never refused for those that hardly move. How slow
//! one is: its bytes, and some that each has to begin with, over its age and over the number that come from
//! its [`SenderNetwork`]. An honest request whose bytes come at once outlives those that drip, and one from
//! another network than a flood's outlives the flood. Used by forms and by requests to IAM while their bodies
//! arrive, and for look-ups of keys.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use parking_lot::Mutex;
use sherd_core::sender::SenderNetwork;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::{UnprovenCrowd, UnprovenWork};
use crate::limits::{UNPROVEN_CREDIT_BYTES, UNPROVEN_PATIENCE};

/// Places of one kind of unproven work. Cheap to clone.
#[derive(Debug, Clone)]
pub struct UnprovenLane(Arc<LaneState>);

#[derive(Debug)]
struct LaneState {
    max: usize,
    members: Mutex<LaneMembers>,
    /// A place was given back.
    eased: Notify,
}

#[derive(Debug, Default)]
struct LaneMembers {
    /// Members that may give way, by number: the oldest first.
    arriving: BTreeMap<u64, Arrival>,
    /// Members that give way no more.
    kept_count: usize,
    next: u64,
}

/// A member that may give way.
#[derive(Debug)]
struct Arrival {
    from: SenderNetwork,
    since: Instant,
    moved_bytes: u64,
    lost: CancellationToken,
}

/// A place in a lane, free again when it is dropped.
#[derive(Debug)]
pub struct UnprovenPlace {
    lane: UnprovenLane,
    number: u64,
    is_kept: bool,
    lost: CancellationToken,
}

impl UnprovenLane {
    /// The places of a kind of work.
    #[must_use]
    pub fn new(work: UnprovenWork) -> Self {
        Self::of(work.max())
    }

    fn of(max: usize) -> Self {
        Self(Arc::new(LaneState { max, members: Mutex::default(), eased: Notify::new() }))
    }

    /// Takes a place for the work of a sender. Where all are taken, the slowest one of those that may give
    /// way is lost. Waits only while all are kept. Cancel-safe.
    ///
    /// # Errors
    /// [`UnprovenCrowd`] where all are kept for 5 s.
    pub async fn enter(&self, from: IpAddr) -> Result<UnprovenPlace, UnprovenCrowd> {
        timeout(UNPROVEN_PATIENCE, self.place(from)).await.map_err(|_| UnprovenCrowd)
    }

    async fn place(&self, from: IpAddr) -> UnprovenPlace {
        loop {
            // The wait begins before the look: a place that becomes free in between ends it.
            let mut eased = pin!(self.0.eased.notified());
            eased.as_mut().enable();
            if let Some(place) = self.try_enter(from) {
                return place;
            }
            eased.await;
        }
    }

    fn try_enter(&self, from: IpAddr) -> Option<UnprovenPlace> {
        let mut members = self.0.members.lock();
        let now = Instant::now();
        if members.kept_count + members.arriving.len() >= self.0.max {
            members.give_way(now).then_some(())?;
        }
        let (number, lost) = (members.next, CancellationToken::new());
        members.next += 1;
        let from = SenderNetwork::of(from);
        members.arriving.insert(number, Arrival { from, since: now, moved_bytes: 0, lost: lost.clone() });
        Some(UnprovenPlace { lane: self.clone(), number, is_kept: false, lost })
    }
}

impl LaneMembers {
    /// Ends the slowest member, of several the oldest; `false` where none may give way.
    fn give_way(&mut self, now: Instant) -> bool {
        let mut counts: HashMap<SenderNetwork, u64> = HashMap::new();
        for arrival in self.arriving.values() {
            *counts.entry(arrival.from).or_default() += 1;
        }
        let pace = |arrival: &Arrival| arrival.bytes_per_second(now) / counts[&arrival.from];
        let slowest = self.arriving.iter().min_by_key(|(number, arrival)| (pace(arrival), **number));
        let slowest = slowest.map(|(number, _)| *number);
        let lost = slowest.and_then(|number| self.arriving.remove(&number));
        lost.inspect(|arrival| arrival.lost.cancel()).is_some()
    }
}

impl Arrival {
    fn bytes_per_second(&self, now: Instant) -> u64 {
        let age_ms = now.duration_since(self.since).as_millis().max(1);
        let bytes = u128::from(self.moved_bytes.saturating_add(UNPROVEN_CREDIT_BYTES));
        u64::try_from(bytes * 1000 / age_ms).unwrap_or(u64::MAX)
    }
}

impl UnprovenPlace {
    /// Returns once another one has this place. Cancel-safe.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// Counts bytes of the sender.
    pub fn moved(&self, bytes: usize) {
        if let Some(arrival) = self.lane.0.members.lock().arriving.get_mut(&self.number) {
            arrival.moved_bytes = arrival.moved_bytes.saturating_add(bytes as u64);
        }
    }

    /// Gives way to nothing from here on: all that is waited for from the sender is here. One that was lost a
    /// moment before takes a place beyond the maximum.
    pub fn keep(&mut self) {
        if !self.is_kept {
            let mut members = self.lane.0.members.lock();
            members.arriving.remove(&self.number);
            members.kept_count += 1;
            self.is_kept = true;
        }
    }
}

impl Drop for UnprovenPlace {
    fn drop(&mut self) {
        let mut members = self.lane.0.members.lock();
        if self.is_kept {
            members.kept_count -= 1;
        } else if members.arriving.remove(&self.number).is_none() {
            // This one was lost: its place is another's.
            return;
        }
        self.lane.0.eased.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use futures::FutureExt as _;
    use tokio::time::advance;

    use super::*;

    const FLOOD: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    fn is_lost(place: &UnprovenPlace) -> bool {
        place.lost().now_or_never().is_some()
    }

    fn lost(places: &[UnprovenPlace]) -> Vec<bool> {
        places.iter().map(is_lost).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_slowest_gives_way_and_never_the_new_one() {
        let lane = UnprovenLane::of(3);
        let mut places = Vec::new();
        for bytes in [100 << 10, 10, 1 << 20] {
            places.push(lane.place(FLOOD).await);
            advance(Duration::from_secs(1)).await;
            places.last().expect("one came").moved(bytes);
        }
        places.push(lane.place(FLOOD).await);
        assert_eq!(lost(&places), [false, true, false, false], "it moved ten bytes");
        places.push(lane.place(FLOOD).await);
        assert_eq!(lost(&places), [true, true, false, false, false], "100 KiB in three seconds");
        drop(places);
        assert_eq!(lane.0.members.lock().arriving.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_takes_no_place_from_another_network() {
        let lane = UnprovenLane::of(32);
        let honest = lane.place(OTHER).await;
        let mut flood = Vec::new();
        for number in 0..500 {
            advance(Duration::from_millis(1)).await;
            flood.push(lane.place(IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, number, 1])).await);
        }
        assert!(!is_lost(&honest), "it is the oldest one, and no byte of it came");
        assert_eq!(flood.iter().filter(|place| is_lost(place)).count(), 500 - 31);
    }

    #[tokio::test(start_paused = true)]
    async fn those_whose_bytes_are_here_are_kept_and_waited_for() {
        let lane = UnprovenLane::of(2);
        let (mut first, mut second) = (lane.place(FLOOD).await, lane.place(FLOOD).await);
        first.keep();
        second.keep();
        let begun = Instant::now();
        assert_eq!(lane.enter(OTHER).await.map(drop), Err(UnprovenCrowd));
        assert_eq!(begun.elapsed(), UNPROVEN_PATIENCE);
        let mut third = Box::pin(lane.place(OTHER));
        assert!(futures::poll!(third.as_mut()).is_pending());
        assert!(!is_lost(&first) && !is_lost(&second));
        drop(first);
        let third = third.await;
        let fourth = lane.place(OTHER).await;
        assert!(is_lost(&third) && !is_lost(&fourth));
        drop((second, third, fourth));
        assert_eq!(lane.0.members.lock().kept_count, 0);
    }
}
