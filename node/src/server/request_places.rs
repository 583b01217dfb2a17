//! Places for requests, whose number may change: a semaphore that also shrinks while places are taken.
//!
//! Requests with a body take a place of theirs beside one of all, and there are fewer of those: however many
//! bodies arrive, others find places. A request that gave its place back takes one again without a wait
//! ([`RequestPlaces::take_again`]); then one too many is taken, and the next that comes back is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use prometheus::IntGauge;
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit, TryAcquireError};

/// One place of four is never taken by a request with a body.
const PLACES_PER_BODILESS: usize = 4;

/// Places for all requests, and how many of them those with a body may take.
#[derive(Debug)]
pub(super) struct RequestPlaces {
    all: PlaceCount,
    of_bodies: PlaceCount,
    taken: IntGauge,
}

/// A place, free again when it is dropped.
#[derive(Debug)]
pub(super) struct RequestPlace {
    places: Arc<RequestPlaces>,
    has_body: bool,
}

impl RequestPlaces {
    /// `max` places; `taken` shows how many are taken.
    pub(super) fn new(max: usize, taken: IntGauge) -> Arc<Self> {
        let (all, of_bodies) = (PlaceCount::new(max), PlaceCount::new(bodies_max(max)));
        Arc::new(Self { all, of_bodies, taken })
    }

    /// Takes a place if one is free.
    pub(super) fn try_acquire(self: &Arc<Self>, has_body: bool) -> Result<RequestPlace, TryAcquireError> {
        let of_bodies = if has_body { Some(self.of_bodies.semaphore.try_acquire()?) } else { None };
        let all = self.all.semaphore.try_acquire()?;
        Ok(self.place(all, of_bodies))
    }

    /// Waits for a place. Cancel-safe.
    pub(super) async fn acquire(self: &Arc<Self>, has_body: bool) -> RequestPlace {
        let of_bodies =
            if has_body { Some(never_closed(self.of_bodies.semaphore.acquire().await)) } else { None };
        let all = never_closed(self.all.semaphore.acquire().await);
        self.place(all, of_bodies)
    }

    /// Takes a place for a request that gave its own back: where none is free, one beyond their number.
    pub(super) fn take_again(self: &Arc<Self>, has_body: bool) -> RequestPlace {
        if has_body {
            self.of_bodies.take_or_lend();
        }
        self.all.take_or_lend();
        self.taken.inc();
        RequestPlace { places: Arc::clone(self), has_body }
    }

    fn place(
        self: &Arc<Self>,
        all: SemaphorePermit<'_>,
        of_bodies: Option<SemaphorePermit<'_>>,
    ) -> RequestPlace {
        all.forget();
        let has_body = of_bodies.map(SemaphorePermit::forget).is_some();
        self.taken.inc();
        RequestPlace { places: Arc::clone(self), has_body }
    }

    /// Changes how many places there are: more at once, fewer as they come back.
    pub(super) fn resize(&self, max: usize) {
        self.all.resize(max);
        self.of_bodies.resize(bodies_max(max));
    }

    /// How many places there are.
    pub(super) fn max(&self) -> usize {
        *self.all.max.lock()
    }

    #[cfg(test)]
    pub(super) fn free_count(&self) -> usize {
        self.all.semaphore.available_permits()
    }
}

impl Drop for RequestPlace {
    fn drop(&mut self) {
        self.places.taken.dec();
        self.places.all.give_back();
        if self.has_body {
            self.places.of_bodies.give_back();
        }
    }
}

/// How many of `max` places requests with a body may take: one at least, where there is one.
fn bodies_max(max: usize) -> usize {
    (max - max.div_ceil(PLACES_PER_BODILESS)).max(max.min(1))
}

fn never_closed(permit: Result<SemaphorePermit<'_>, AcquireError>) -> SemaphorePermit<'_> {
    permit.expect("the semaphore is never closed")
}

/// A number of places. Where more are taken than there are, those that come back are gone.
#[derive(Debug)]
struct PlaceCount {
    semaphore: Semaphore,
    /// How many places are to go when they come back.
    excess: AtomicUsize,
    max: Mutex<usize>,
}

impl PlaceCount {
    fn new(max: usize) -> Self {
        Self { semaphore: Semaphore::new(max), excess: AtomicUsize::new(0), max: Mutex::new(max) }
    }

    /// Takes a place if one is free, or lets one more be taken than there are.
    fn take_or_lend(&self) {
        match self.semaphore.try_acquire() {
            Ok(permit) => permit.forget(),
            Err(_) => {
                self.excess.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn give_back(&self) {
        if !self.take_excess() {
            self.semaphore.add_permits(1);
        }
    }

    fn resize(&self, max: usize) {
        let mut current = self.max.lock();
        if max > *current {
            let more = max - *current;
            let mut kept = 0;
            while kept < more && self.take_excess() {
                kept += 1;
            }
            self.semaphore.add_permits(more - kept);
        } else {
            let fewer = *current - max;
            let gone = self.semaphore.forget_permits(fewer);
            self.excess.fetch_add(fewer - gone, Ordering::Relaxed);
        }
        *current = max;
    }

    /// Takes one of the places that are to go from their number; `false` where none are.
    fn take_excess(&self) -> bool {
        // One load for nearly every request: places are hardly ever too many.
        self.excess.load(Ordering::Relaxed) > 0
            && self
                .excess
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |excess| excess.checked_sub(1))
                .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(max: usize) -> Arc<RequestPlaces> {
        RequestPlaces::new(max, IntGauge::new("taken", "Places.").expect("a name"))
    }

    fn take(places: &Arc<RequestPlaces>, count: usize) -> Vec<RequestPlace> {
        (0..count).map(|_| places.try_acquire(false).expect("free")).collect()
    }

    #[test]
    fn fewer_places_are_free_as_soon_as_that_many_came_back() {
        let places = places(3);
        let taken = take(&places, 3);
        places.resize(1);
        for (count, place) in taken.into_iter().enumerate() {
            assert_eq!(places.free_count(), 0, "{count} came back");
            drop(place);
        }
        let only = places.try_acquire(false).expect("one is left");
        assert!(places.try_acquire(false).is_err());
        drop(only);
        assert_eq!((places.free_count(), places.taken.get()), (1, 0));
    }

    #[tokio::test]
    async fn more_places_let_those_in_that_wait() {
        let places = places(1);
        let _taken = places.try_acquire(false).expect("free");
        let mut waiting = std::pin::pin!(places.acquire(false));
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        places.resize(2);
        assert!(futures::poll!(waiting.as_mut()).is_ready());
    }

    #[test]
    fn places_that_should_go_and_are_wanted_again_stay() {
        let places = places(4);
        let taken = take(&places, 4);
        places.resize(0);
        places.resize(3);
        drop(taken);
        assert_eq!(places.free_count(), 3);
        places.resize(5);
        assert_eq!(places.free_count(), 5);
    }

    #[test]
    fn bodies_leave_a_quarter_of_the_places_to_others() {
        for (max, bodies) in [(0, 0), (1, 1), (2, 1), (4, 3), (512, 384)] {
            let places = places(max);
            let taken: Vec<_> = std::iter::from_fn(|| places.try_acquire(true).ok()).collect();
            assert_eq!((taken.len(), places.free_count()), (bodies, max - bodies));
        }
    }

    #[test]
    fn a_place_that_is_taken_again_is_the_next_that_comes_back() {
        for comes_back_first in [true, false] {
            let places = places(1);
            let (other, again) = (places.try_acquire(true).expect("free"), places.take_again(true));
            assert_eq!((places.free_count(), places.taken.get()), (0, 2));
            let (first, last) = if comes_back_first { (again, other) } else { (other, again) };
            drop(first);
            assert!(places.try_acquire(false).is_err() && places.try_acquire(true).is_err());
            drop(last);
            assert!(places.try_acquire(true).is_ok());
            assert_eq!(places.free_count(), 1);
        }
    }
}
