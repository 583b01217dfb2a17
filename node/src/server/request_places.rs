//! Places for requests, whose number may change: a semaphore that also shrinks while places are taken.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit, TryAcquireError};

/// A number of places. Where more are taken than there are, those that come back are gone.
#[derive(Debug)]
pub(super) struct RequestPlaces {
    semaphore: Semaphore,
    /// How many places are to go when they come back.
    excess: AtomicUsize,
    max: Mutex<usize>,
}

/// A place, free again when it is dropped.
#[derive(Debug)]
pub(super) struct RequestPlace<'a> {
    places: &'a RequestPlaces,
    permit: Option<SemaphorePermit<'a>>,
}

impl RequestPlaces {
    pub(super) fn new(max: usize) -> Self {
        Self { semaphore: Semaphore::new(max), excess: AtomicUsize::new(0), max: Mutex::new(max) }
    }

    /// Takes a place if one is free.
    pub(super) fn try_acquire(&self) -> Result<RequestPlace<'_>, TryAcquireError> {
        self.semaphore.try_acquire().map(|permit| self.place(permit))
    }

    /// Waits for a place. Cancel-safe.
    pub(super) async fn acquire(&self) -> RequestPlace<'_> {
        let permit = self.semaphore.acquire().await;
        self.place(permit.expect("the semaphore is never closed"))
    }

    fn place<'a>(&'a self, permit: SemaphorePermit<'a>) -> RequestPlace<'a> {
        RequestPlace { places: self, permit: Some(permit) }
    }

    /// Changes how many places there are: more at once, fewer as they come back.
    pub(super) fn resize(&self, max: usize) {
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

    #[cfg(test)]
    pub(super) fn free_count(&self) -> usize {
        self.semaphore.available_permits()
    }
}

impl Drop for RequestPlace<'_> {
    fn drop(&mut self) {
        if self.places.take_excess()
            && let Some(permit) = self.permit.take()
        {
            permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_places_are_free_as_soon_as_that_many_came_back() {
        let places = RequestPlaces::new(3);
        let taken: Vec<_> = (0..3).map(|_| places.try_acquire().expect("free")).collect();
        places.resize(1);
        for (count, place) in taken.into_iter().enumerate() {
            assert_eq!(places.free_count(), 0, "{count} came back");
            drop(place);
        }
        let only = places.try_acquire().expect("one is left");
        assert!(places.try_acquire().is_err());
        drop(only);
        assert_eq!(places.free_count(), 1);
    }

    #[tokio::test]
    async fn more_places_let_those_in_that_wait() {
        let places = RequestPlaces::new(1);
        let _taken = places.try_acquire().expect("free");
        let mut waiting = std::pin::pin!(places.acquire());
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        places.resize(2);
        assert!(futures::poll!(waiting.as_mut()).is_ready());
    }

    #[test]
    fn places_that_should_go_and_are_wanted_again_stay() {
        let places = RequestPlaces::new(4);
        let taken: Vec<_> = (0..4).map(|_| places.try_acquire().expect("free")).collect();
        places.resize(0);
        places.resize(3);
        drop(taken);
        assert_eq!(places.free_count(), 3);
        places.resize(5);
        assert_eq!(places.free_count(), 5);
    }
}
