//! Places for handshakes: how many connections of one listener may be at theirs.
//!
//! Whoever reaches a port can open connections and say nothing. A listener that waited until one of them gives up
//! would be closed to all others for as long as somebody keeps opening them. So a listener always accepts, and
//! when the places are full, the connection gives way that is the oldest of the address with the most of them:
//! an honest handshake takes milliseconds, and one from another address than the flood's never gives way.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The places of one listener.
#[derive(Debug, Clone)]
pub struct HandshakePlaces {
    taken: Arc<Mutex<TakenPlaces>>,
    max: usize,
}

#[derive(Debug, Default)]
struct TakenPlaces {
    /// By number: the oldest comes first.
    by_number: BTreeMap<u64, (IpAddr, CancellationToken)>,
    next: u64,
}

/// A place, free again when it is dropped.
#[derive(Debug)]
pub struct HandshakePlace {
    places: HandshakePlaces,
    number: u64,
    lost: CancellationToken,
}

impl HandshakePlaces {
    /// So many places, at least one.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { taken: Arc::default(), max: max.max(1) }
    }

    /// Takes a place for a connection that was accepted from an address. Where all are taken, another one is lost.
    #[must_use]
    pub fn take(&self, from: IpAddr) -> HandshakePlace {
        let mut taken = self.taken.lock();
        if taken.by_number.len() >= self.max
            && let Some(number) = taken.giving_way()
            && let Some((_, lost)) = taken.by_number.remove(&number)
        {
            lost.cancel();
        }
        let (number, lost) = (taken.next, CancellationToken::new());
        taken.next += 1;
        taken.by_number.insert(number, (from, lost.clone()));
        drop(taken);
        HandshakePlace { places: self.clone(), number, lost }
    }
}

impl TakenPlaces {
    /// The oldest place of the address that has the most, and of several such addresses the oldest of all.
    fn giving_way(&self) -> Option<u64> {
        let mut of: BTreeMap<IpAddr, (usize, u64)> = BTreeMap::new();
        for (number, (from, _)) in &self.by_number {
            of.entry(*from).or_insert((0, *number)).0 += 1;
        }
        of.into_values()
            .max_by_key(|(count, oldest)| (*count, std::cmp::Reverse(*oldest)))
            .map(|(_, oldest)| oldest)
    }
}

impl HandshakePlace {
    /// Returns once another connection has this place: the handshake ends.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

impl Drop for HandshakePlace {
    fn drop(&mut self) {
        self.places.taken.lock().by_number.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOD: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn is_lost(place: &HandshakePlace) -> bool {
        place.lost.is_cancelled()
    }

    #[test]
    fn the_oldest_of_the_address_with_the_most_gives_way() {
        let places = HandshakePlaces::new(3);
        let peer = places.take(PEER);
        let flood = [places.take(FLOOD), places.take(FLOOD), places.take(FLOOD)];
        assert!(!is_lost(&peer), "a flood from elsewhere takes nothing from a peer");
        assert_eq!(flood.each_ref().map(is_lost), [true, false, false]);
        let second = places.take(PEER);
        assert_eq!(flood.each_ref().map(is_lost), [true, true, false]);
        let third = places.take(PEER);
        assert_eq!([&peer, &second, &third].map(is_lost), [true, false, false], "now the peer has the most");
    }

    #[test]
    fn a_place_that_is_given_back_is_taken_from_nobody() {
        let places = HandshakePlaces::new(1);
        drop(places.take(FLOOD));
        let peer = places.take(PEER);
        assert!(!is_lost(&peer));
        assert_eq!(places.taken.lock().by_number.len(), 1);
        let next = places.take(PEER);
        assert!(is_lost(&peer));
        drop(peer);
        assert_eq!(places.taken.lock().by_number.len(), 1, "a lost place frees nothing when it is dropped");
        drop(next);
        assert!(places.taken.lock().by_number.is_empty());
    }
}
