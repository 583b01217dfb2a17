//! The place of a request with a body, which is for work: not for waits for its client.
//!
//! ```text
//! place -- nothing came for a second, or a slow client's next bytes are not there --> waits without a place
//!       <-- its next bytes, its end -----------------------------------------------
//! ```
//! It takes a place again without waiting for one, also where none is free, so that a body that is half there
//! is never held up by requests that were not begun, and none of that time counts as its client's. Requests
//! that are not begun wait instead. Bodies that wait are bounded, and the slowest gives way. The pace of a
//! client is that of its connection, over all of its requests.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::time::{Instant, Sleep};

use super::request_places::{RequestPlace, RequestPlaces};
use super::waiting_bodies::{WaitingBodies, WaitingBody};
use crate::server::limits::{CLIENT_WAIT_MAX, SLOW_BODY_BYTES_PER_SECOND};
use sherd_store::machine::pace::Pace;

/// The place of a request, shared with its body. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct BodyPlace(Arc<BodyPlaceState>);

#[derive(Debug)]
struct BodyPlaceState {
    places: Arc<RequestPlaces>,
    waiting: Arc<WaitingBodies>,
    held: Mutex<HeldPlace>,
}

#[derive(Debug)]
enum HeldPlace {
    Taken(#[expect(dead_code, reason = "free again when it is dropped")] RequestPlace),
    /// The body waits for its client.
    GivenBack,
    /// The request has ended.
    Ended,
}

impl BodyPlace {
    pub(super) fn new(place: RequestPlace, places: Arc<RequestPlaces>, waiting: Arc<WaitingBodies>) -> Self {
        let held = Mutex::new(HeldPlace::Taken(place));
        Self(Arc::new(BodyPlaceState { places, waiting, held }))
    }

    /// Gives the place back while a client of this pace is waited for. `None` where the body has to give way.
    fn give_back(&self, pace: Pace, now: Instant) -> Option<WaitingBody> {
        let waiting = self.0.waiting.wait(pace, now)?;
        let mut held = self.0.held.lock();
        if matches!(*held, HeldPlace::Taken(_)) {
            *held = HeldPlace::GivenBack;
        }
        Some(waiting)
    }

    fn take_again(&self) {
        let mut held = self.0.held.lock();
        if matches!(*held, HeldPlace::GivenBack) {
            *held = HeldPlace::Taken(self.0.places.take_again(true));
        }
    }
}

/// A request that is worked on: its place is free at the end, also where its body was dropped.
#[derive(Debug)]
pub(super) struct PlaceOfRequest(pub(super) BodyPlace);

impl Drop for PlaceOfRequest {
    fn drop(&mut self) {
        *self.0.0.held.lock() = HeldPlace::Ended;
    }
}

/// The pace at which the client of a connection sends bodies, over all of its requests: a new request of one
/// that was slow keeps no place for the time in which nothing would be known of it. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct ConnectionPace(Arc<Mutex<Pace>>);

impl Default for ConnectionPace {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Pace::new(Instant::now()))))
    }
}

/// The waits of one body for its client.
#[derive(Debug)]
pub(super) struct ClientWaits {
    place: BodyPlace,
    pace: ConnectionPace,
    /// Since when it is waited for bytes that did not come yet.
    since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
    /// There while the place is given back.
    waiting: Option<WaitingBody>,
}

impl ClientWaits {
    pub(super) fn new(place: BodyPlace, pace_so_far: ConnectionPace) -> Self {
        Self { place, pace: pace_so_far, since: None, timer: None, waiting: None }
    }

    /// Waits for bytes. Ready when the body has to give way to faster ones.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(waiting) = &self.waiting {
            return waiting.poll_gives_way(cx);
        }
        let now = Instant::now();
        let ends = *self.since.get_or_insert(now) + CLIENT_WAIT_MAX;
        let (pace, measured) = {
            let mut pace = self.pace.0.lock();
            pace.wait(now);
            let measured = pace.bytes_per_second(now);
            (pace.clone(), measured)
        };
        if now < ends && measured.is_none_or(|measured| measured >= SLOW_BODY_BYTES_PER_SECOND) {
            let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(ends)));
            // A timer that was set for an earlier wait runs out first: most waits set none.
            if timer.is_elapsed() {
                timer.as_mut().reset(ends);
            }
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
        let Some(waiting) = self.place.give_back(pace, now) else { return Poll::Ready(()) };
        self.waiting.insert(waiting).poll_gives_way(cx)
    }

    /// Takes note of bytes that came, which end a wait.
    pub(super) fn end(&mut self, bytes: usize) {
        self.since = None;
        self.pace.0.lock().progress(bytes as u64, Instant::now());
        if self.waiting.take().is_some() {
            self.place.take_again();
        }
    }
}

impl Drop for ClientWaits {
    fn drop(&mut self) {
        self.end(0);
    }
}
