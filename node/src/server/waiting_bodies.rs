//! Bodies that wait for their clients without a place: bounded in number, and the slowest gives way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use prometheus::{IntCounter, IntGauge};
use tokio::time::Instant;

use crate::server::limits::BODIES_WAITING_PER_PLACE;
use sherd_store::machine::pace::Pace;

/// The bodies that wait.
#[derive(Debug)]
pub(super) struct WaitingBodies {
    bodies: Mutex<BodyTable>,
    max: AtomicUsize,
    count: IntGauge,
    gave_way: IntCounter,
}

#[derive(Debug, Default)]
struct BodyTable {
    next_id: u64,
    bodies: BTreeMap<u64, BodyEntry>,
}

#[derive(Debug)]
struct BodyEntry {
    pace: Pace,
    waker: Option<Waker>,
}

/// A body that waits, until it is dropped.
#[derive(Debug)]
pub(super) struct WaitingBody {
    all: Arc<WaitingBodies>,
    id: u64,
}

impl WaitingBodies {
    /// Room for the bodies of a listener with `places_max` places. `count` shows the number that waits, and
    /// `gave_way` counts those that gave way.
    pub(super) fn new(places_max: usize, count: IntGauge, gave_way: IntCounter) -> Arc<Self> {
        let max = AtomicUsize::new(places_max.saturating_mul(BODIES_WAITING_PER_PLACE));
        Arc::new(Self { bodies: Mutex::default(), max, count, gave_way })
    }

    /// Changes the room. Where it shrinks, further bodies take it from those that are there.
    pub(super) fn resize(&self, places_max: usize) {
        self.max.store(places_max.saturating_mul(BODIES_WAITING_PER_PLACE), Ordering::Relaxed);
    }

    /// Lets a body of this pace wait. Without room the slowest gives way; `None` where that is this one.
    pub(super) fn wait(self: &Arc<Self>, mut pace: Pace, now: Instant) -> Option<WaitingBody> {
        let mut table = self.bodies.lock();
        let own = bytes_per_second(&mut pace, now);
        while table.bodies.len() >= self.max.load(Ordering::Relaxed) {
            let paces =
                table.bodies.iter_mut().map(|(id, body)| (bytes_per_second(&mut body.pace, now), *id));
            let slowest = paces.min().filter(|(pace, _)| *pace <= own);
            self.gave_way.inc();
            let body = table.bodies.remove(&slowest?.1)?;
            self.count.dec();
            if let Some(waker) = body.waker {
                waker.wake();
            }
        }
        let id = table.next_id;
        table.next_id += 1;
        table.bodies.insert(id, BodyEntry { pace, waker: None });
        self.count.inc();
        Some(WaitingBody { all: Arc::clone(self), id })
    }
}

/// A body whose pace is not known yet counts as the fastest.
fn bytes_per_second(pace: &mut Pace, now: Instant) -> u64 {
    pace.bytes_per_second(now).unwrap_or(u64::MAX)
}

impl WaitingBody {
    /// Ready when the body has to give way.
    pub(super) fn poll_gives_way(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut table = self.all.bodies.lock();
        let Some(body) = table.bodies.get_mut(&self.id) else { return Poll::Ready(()) };
        if body.waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
            body.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for WaitingBody {
    fn drop(&mut self) {
        if self.all.bodies.lock().bodies.remove(&self.id).is_some() {
            self.all.count.dec();
        }
    }
}
