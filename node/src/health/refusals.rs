//! The requests of S3 that were turned away for want of a place, as probes show them.
//!
//! An overloaded node turns some away and lets others in: it stays ready, or the load of one node would take
//! them all out, one after the other. A node that lets none in for seconds is shut, and not ready.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::limits::SHOWN_FOR;

/// The refusals of one listener. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct RequestRefusals(Arc<RefusalState>);

#[derive(Debug, Default)]
struct RefusalState {
    /// Whether a request was refused since one was let in.
    none_let_in: AtomicBool,
    moments: Mutex<RefusalMoments>,
}

#[derive(Debug, Clone, Copy, Default)]
struct RefusalMoments {
    last: Option<Instant>,
    /// The first refusal since a request was let in.
    first: Option<Instant>,
}

impl RequestRefusals {
    /// Takes note of a request that found a place.
    pub fn let_in(&self) {
        // One load for nearly every request.
        if self.0.none_let_in.load(Ordering::Relaxed) {
            let mut moments = self.0.moments.lock();
            self.0.none_let_in.store(false, Ordering::Relaxed);
            moments.first = None;
        }
    }

    /// Takes note of a request that found none.
    pub fn refuse(&self) {
        let (mut moments, now) = (self.0.moments.lock(), Instant::now());
        if moments.last.is_some_and(|last| now - last > SHOWN_FOR) {
            moments.first = None;
        }
        moments.last = Some(now);
        moments.first.get_or_insert(now);
        self.0.none_let_in.store(true, Ordering::Relaxed);
    }

    /// Whether requests were refused in the last 5 s, and none was let in for as long.
    pub fn is_shut(&self) -> bool {
        let (moments, now) = (*self.0.moments.lock(), Instant::now());
        let is_shown = moments.last.is_some_and(|last| now - last <= SHOWN_FOR);
        is_shown && moments.first.is_some_and(|first| now - first >= SHOWN_FOR)
    }

    /// Says that requests were refused in the last 5 s; empty where none was.
    pub fn describe(&self) -> &'static str {
        let last = self.0.moments.lock().last;
        if self.is_shut() {
            "no request was let in for 5s: every place (limits.requests_max) is taken, and requests get 503"
        } else if last.is_some_and(|last| last.elapsed() <= SHOWN_FOR) {
            "requests got 503 in the last 5s: every place that they could have (limits.requests_max) was taken"
        } else {
            ""
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_node_that_lets_some_in_is_overloaded_and_one_that_lets_none_in_is_shut() {
        let refusals = RequestRefusals::default();
        assert_eq!((refusals.is_shut(), refusals.describe()), (false, ""));
        for _ in 0..20 {
            refusals.refuse();
            advance(SHOWN_FOR / 4).await;
            assert!(!refusals.is_shut() && refusals.describe().starts_with("requests got 503"));
            refusals.let_in();
        }
        for _ in 0..4 {
            assert!(!refusals.is_shut());
            refusals.refuse();
            advance(SHOWN_FOR / 4).await;
        }
        assert!(refusals.is_shut() && refusals.describe().starts_with("no request was let in"));
        refusals.let_in();
        assert!(!refusals.is_shut() && refusals.describe().starts_with("requests got 503"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_shut_node_that_is_asked_no_more_is_tried_again() {
        let refusals = RequestRefusals::default();
        refusals.refuse();
        advance(SHOWN_FOR).await;
        assert!(refusals.is_shut());
        advance(SHOWN_FOR).await;
        assert_eq!((refusals.is_shut(), refusals.describe()), (false, ""));
        refusals.refuse();
        assert!(!refusals.is_shut(), "the refusals of before are over");
    }
}
