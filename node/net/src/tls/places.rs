//! Places of one listener: how many connections it has, or how many handshakes, and which of them give way.
//!
//! Any program that reaches a port can open connections and send nothing. A listener that waited until one of
//! them gives up would be closed to all others for as long as such connections are opened. So where the
//! places get few, the connection gives way that has waited longest of the [`SenderNetwork`] with the most
//! that wait: an honest handshake or head takes milliseconds, and one from another network than the flood's
//! never gives way before the flood's.
//!
//! A place may be kept meanwhile: one with a request under way gives way to nothing. Used by `rpc` for
//! handshakes, and by `server` for handshakes and for its connections.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use sherd_core::sender::SenderNetwork;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The places of one listener.
#[derive(Debug, Clone)]
pub struct ConnectionPlaces(Arc<PlacesState>);

#[derive(Debug)]
struct PlacesState {
    taken: Mutex<TakenPlaces>,
    /// A place was given back, or may give way from here on.
    eased: Notify,
}

#[derive(Debug)]
struct TakenPlaces {
    /// The number of taken places from which on one that waits gives way to each new one.
    crowded_at: usize,
    max: usize,
    /// Places whose connections are open, those that are lost among them.
    count: usize,
    /// Lost places among them: their connections are about to close.
    lost_count: usize,
    /// Places that may give way: of each network, by number, the one that has waited longest first.
    waiting: HashMap<SenderNetwork, BTreeMap<u64, CancellationToken>>,
    /// The same networks. The last one is the next to lose a place.
    ranks: BTreeSet<Rank>,
    next: u64,
}

/// A network among those that may lose a place: the more wait, and the longer the oldest does, the sooner.
type Rank = (usize, Reverse<u64>, SenderNetwork);

/// A place, free again when it is dropped. A new one may give way.
#[derive(Debug)]
pub struct ConnectionPlace {
    places: ConnectionPlaces,
    from: SenderNetwork,
    /// Number among the places that may give way; none while it is kept.
    number: Mutex<Option<u64>>,
    lost: CancellationToken,
    taken_from: Option<SenderNetwork>,
}

impl ConnectionPlaces {
    /// `max` places, at least one; a place is lost only where all are taken.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self::with_reserve(max, 0)
    }

    /// `max` places, at least one, of which `reserve` stay free as long as others can give way.
    #[must_use]
    pub fn with_reserve(max: usize, reserve: usize) -> Self {
        let taken = Mutex::new(TakenPlaces::new(max, reserve));
        Self(Arc::new(PlacesState { taken, eased: Notify::new() }))
    }

    /// Changes the number of places. Where fewer are left than are taken, those give way that may.
    pub fn resize(&self, max: usize, reserve: usize) {
        let mut taken = self.0.taken.lock();
        let TakenPlaces { crowded_at, max, .. } = TakenPlaces::new(max, reserve);
        (taken.crowded_at, taken.max) = (crowded_at, max);
        while taken.count - taken.lost_count > taken.max && taken.give_way().is_some() {}
        if taken.count < taken.max {
            self.0.eased.notify_one();
        }
    }

    /// Takes a place for a connection that was accepted from an address. Where too few are free, another one
    /// is lost that may give way.
    #[must_use]
    pub fn take(&self, from: IpAddr) -> ConnectionPlace {
        self.take_under(&mut self.0.taken.lock(), SenderNetwork::of(from), None)
    }

    /// Takes a place as [`Self::take`] does. While all are kept, or their connections not closed yet, it
    /// waits for one: never are more than the maximum open. Cancel-safe.
    pub async fn take_when_free(&self, from: IpAddr) -> ConnectionPlace {
        let (from, mut taken_from) = (SenderNetwork::of(from), None);
        loop {
            {
                let mut taken = self.0.taken.lock();
                if taken.count < taken.max {
                    return self.take_under(&mut taken, from, taken_from);
                }
                if taken.lost_count == 0 {
                    taken_from = taken.give_way();
                }
            }
            self.0.eased.notified().await;
        }
    }

    /// Takes a place. `taken_from` is what gave way for it before.
    fn take_under(
        &self,
        taken: &mut TakenPlaces,
        from: SenderNetwork,
        taken_from: Option<SenderNetwork>,
    ) -> ConnectionPlace {
        let is_crowded = taken.count - taken.lost_count >= taken.crowded_at;
        let taken_from = if is_crowded { taken_from.or_else(|| taken.give_way()) } else { taken_from };
        let lost = CancellationToken::new();
        taken.count += 1;
        let number = Mutex::new(Some(taken.wait(from, lost.clone())));
        ConnectionPlace { places: self.clone(), from, number, lost, taken_from }
    }

    /// Wakes a waiter where a place becomes free and none was.
    fn ease(&self, taken: &TakenPlaces) {
        if taken.count + 1 >= taken.max {
            self.0.eased.notify_one();
        }
    }
}

impl TakenPlaces {
    fn new(max: usize, reserve: usize) -> Self {
        let max = max.max(1);
        Self {
            crowded_at: max.saturating_sub(reserve).max(1),
            max,
            count: 0,
            lost_count: 0,
            waiting: HashMap::new(),
            ranks: BTreeSet::new(),
            next: 0,
        }
    }

    /// Adds a place to those that may give way, as the one that has waited least.
    fn wait(&mut self, from: SenderNetwork, lost: CancellationToken) -> u64 {
        let number = self.next;
        self.next += 1;
        self.change(from, |waiting| waiting.insert(number, lost));
        number
    }

    /// Changes which places of a network may give way.
    fn change<T>(
        &mut self,
        from: SenderNetwork,
        change: impl FnOnce(&mut BTreeMap<u64, CancellationToken>) -> T,
    ) -> T {
        let rank = |waiting: &BTreeMap<u64, CancellationToken>| {
            waiting.first_key_value().map(|(oldest, _)| (waiting.len(), Reverse(*oldest), from))
        };
        let waiting = self.waiting.entry(from).or_default();
        if let Some(before) = rank(waiting) {
            self.ranks.remove(&before);
        }
        let changed = change(waiting);
        match rank(waiting) {
            Some(after) => {
                self.ranks.insert(after);
            }
            None => {
                self.waiting.remove(&from);
            }
        }
        changed
    }

    /// Ends the place that has waited longest of the network with the most, and of several such networks the
    /// one that has waited longest of all.
    fn give_way(&mut self) -> Option<SenderNetwork> {
        let &(_, Reverse(oldest), from) = self.ranks.last()?;
        if let Some(lost) = self.change(from, |waiting| waiting.remove(&oldest)) {
            lost.cancel();
            self.lost_count += 1;
        }
        Some(from)
    }
}

impl ConnectionPlace {
    /// Returns once another connection has this place. Cancel-safe.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// The network whose connection gave way to this one.
    #[must_use]
    pub fn taken_from(&self) -> Option<SenderNetwork> {
        self.taken_from
    }

    /// Gives way to nothing from here on; `false` where the place is lost already.
    #[must_use]
    pub fn keep(&self) -> bool {
        let mut taken = self.places.0.taken.lock();
        if let Some(number) = self.number.lock().take() {
            taken.change(self.from, |waiting| waiting.remove(&number));
        }
        !self.lost.is_cancelled()
    }

    /// May give way from here on, behind all others of its network.
    pub fn offer(&self) {
        let mut taken = self.places.0.taken.lock();
        let mut number = self.number.lock();
        if number.is_none() && !self.lost.is_cancelled() {
            *number = Some(taken.wait(self.from, self.lost.clone()));
            self.places.ease(&taken);
        }
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut taken = self.places.0.taken.lock();
        if self.lost.is_cancelled() {
            taken.lost_count -= 1;
        } else if let Some(number) = self.number.lock().take() {
            taken.change(self.from, |waiting| waiting.remove(&number));
        }
        taken.count -= 1;
        self.places.ease(&taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOD: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn is_lost(place: &ConnectionPlace) -> bool {
        place.lost.is_cancelled()
    }

    #[test]
    fn the_oldest_of_the_address_with_the_most_gives_way() {
        let places = ConnectionPlaces::new(3);
        let peer = places.take(PEER);
        let flood = [places.take(FLOOD), places.take(FLOOD), places.take(FLOOD)];
        assert!(!is_lost(&peer), "a flood from elsewhere takes nothing from a peer");
        assert_eq!(flood.each_ref().map(is_lost), [true, false, false]);
        assert_eq!(
            flood.each_ref().map(ConnectionPlace::taken_from),
            [None, None, Some(SenderNetwork::of(FLOOD))]
        );
        let second = places.take(PEER);
        assert_eq!(flood.each_ref().map(is_lost), [true, true, false]);
        let third = places.take(PEER);
        assert_eq!([&peer, &second, &third].map(is_lost), [true, false, false], "now the peer has the most");
    }

    #[test]
    fn a_place_that_is_given_back_is_taken_from_nobody() {
        let places = ConnectionPlaces::new(1);
        drop(places.take(FLOOD));
        let peer = places.take(PEER);
        assert!(!is_lost(&peer));
        assert_eq!(places.0.taken.lock().count, 1);
        let next = places.take(PEER);
        assert!(is_lost(&peer));
        drop(peer);
        assert_eq!(places.0.taken.lock().count, 1);
        assert!(!is_lost(&next), "a lost place takes nothing from others when it is dropped");
        drop(next);
        let taken = places.0.taken.lock();
        assert_eq!((taken.count, taken.lost_count, taken.waiting.len(), taken.ranks.len()), (0, 0, 0, 0));
    }

    #[test]
    fn a_kept_place_never_gives_way_and_one_that_is_offered_again_is_the_newest() {
        let places = ConnectionPlaces::with_reserve(10, 6);
        let (worked, idle) = (places.take(PEER), places.take(PEER));
        assert!(worked.keep());
        let flood: Vec<_> = (0..100).map(|_| places.take(FLOOD)).collect();
        assert_eq!(
            flood.iter().filter(|place| !is_lost(place)).count(),
            2,
            "four places, one kept, one idle"
        );
        assert!(!is_lost(&worked) && !is_lost(&idle), "they are fewer of their address than the flood");
        worked.offer();
        let _next = (places.take(PEER), places.take(PEER));
        assert!(is_lost(&idle) && !is_lost(&worked), "it waits since a moment ago");
        assert!(!idle.keep(), "it is another's");
        idle.offer();
        drop((flood, worked, idle));
        let taken = places.0.taken.lock();
        assert_eq!((taken.count, taken.lost_count), (2, 0));
    }

    #[test]
    fn a_flood_of_many_addresses_of_one_network_takes_nothing_from_another() {
        let places = ConnectionPlaces::with_reserve(10, 1);
        let peer = places.take(PEER);
        let address = |number: u16| IpAddr::from([0x2001, 0xdb8, 0, number, 0, 0, 0, 1]);
        let flood: Vec<_> = (0..200).map(|number| places.take(address(number))).collect();
        assert!(is_lost(&peer), "a network each");
        drop((peer, flood));
        let peer = places.take(PEER);
        let address = |number: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, number, 1]);
        let flood: Vec<_> = (0..200).map(|number| places.take(address(number))).collect();
        assert!(!is_lost(&peer), "a network together");
        assert_eq!(flood.iter().filter(|place| !is_lost(place)).count(), 8);
    }

    #[test]
    fn a_flood_of_many_addresses_lets_each_newcomer_in() {
        let places = ConnectionPlaces::with_reserve(10, 1);
        let address = |number: u8| IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 1, number));
        let flood: Vec<_> = (0..200).map(|number| places.take(address(number))).collect();
        let peer = places.take(PEER);
        assert!(!is_lost(&peer));
        assert_eq!(flood.iter().filter(|place| !is_lost(place)).count(), 8);
        assert!(flood.iter().take(192).all(is_lost), "those that have waited longest gave way");
    }

    #[tokio::test]
    async fn where_all_are_kept_the_next_waits_for_one_to_be_given_back_or_offered() {
        let places = ConnectionPlaces::with_reserve(2, 0);
        let (first, second) = (places.take(PEER), places.take(PEER));
        assert!(first.keep() && second.keep());
        let mut next = Box::pin(places.take_when_free(PEER));
        assert!(futures::poll!(next.as_mut()).is_pending());
        second.offer();
        assert!(futures::poll!(next.as_mut()).is_pending() && is_lost(&second), "it is not closed yet");
        drop(second);
        let next = next.await;
        assert!(next.keep() && next.taken_from() == Some(SenderNetwork::of(PEER)));
        let mut last = Box::pin(places.take_when_free(PEER));
        assert!(futures::poll!(last.as_mut()).is_pending());
        drop(first);
        assert_eq!(last.await.taken_from(), None);
    }

    #[tokio::test]
    async fn where_there_are_fewer_those_that_wait_give_way_and_more_are_there_at_once() {
        let places = ConnectionPlaces::with_reserve(10, 1);
        let kept: Vec<_> = (0..3).map(|_| places.take(PEER)).collect();
        assert!(kept.iter().all(ConnectionPlace::keep));
        let idle: Vec<_> = (0..4).map(|_| places.take(FLOOD)).collect();
        places.resize(2, 0);
        assert!(idle.iter().all(is_lost) && !kept.iter().any(is_lost));
        drop(idle);
        let mut next = Box::pin(places.take_when_free(PEER));
        assert!(futures::poll!(next.as_mut()).is_pending(), "three of two are taken");
        places.resize(4, 0);
        assert!(futures::poll!(next.as_mut()).is_ready());
    }

    #[tokio::test]
    async fn no_more_than_the_maximum_are_open_while_lost_ones_close() {
        let places = ConnectionPlaces::with_reserve(3, 1);
        let mut open: Vec<_> = (0..3).map(|_| places.take(FLOOD)).collect();
        assert_eq!(open.iter().map(is_lost).collect::<Vec<_>>(), [true, false, false]);
        let mut next = Box::pin(places.take_when_free(PEER));
        assert!(futures::poll!(next.as_mut()).is_pending());
        assert_eq!(
            open.iter().map(is_lost).collect::<Vec<_>>(),
            [true, false, false],
            "one is closing already"
        );
        open.remove(0);
        let next = next.await;
        assert_eq!(open.iter().map(is_lost).collect::<Vec<_>>(), [true, false]);
        assert_eq!(next.taken_from(), Some(SenderNetwork::of(FLOOD)));
    }
}
