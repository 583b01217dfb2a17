//! Buffers asked back from slow connections while others wait for some.
//!
//! ```text
//! budget: a read waits for its share --ask(floor)--> Reclaim <--takes(rate)-- server::patient
//!                                          answers carry it to their connections
//! ```
//! A client that reads an answer slowly holds its buffers for as long as it likes. That costs nothing until
//! another read finds no buffer. That read then asks for them, at first of connections that hardly move and,
//! the longer it waits, of faster ones; the first connection below that floor gives up, one at a time.
//!
//! A client that pauses gives back what is read ahead of it, unasked: its read goes on where it left off.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// Below how many bytes a second a connection gives its buffers up, by how long a read has waited. A window
/// of a mebibyte takes the slowest of them four minutes, and the fastest four seconds.
const FLOORS: [(Duration, u64); 4] = [
    (Duration::from_millis(250), 4 << 10),
    (Duration::from_secs(1), 16 << 10),
    (Duration::from_secs(3), 64 << 10),
    (Duration::from_secs(6), 256 << 10),
];

/// The floor that is asked for at this moment. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Reclaim {
    /// Bytes per second; 0 while no read asks.
    floor: Arc<AtomicU64>,
    waiting: Arc<AtomicUsize>,
}

/// A read that waits for buffers; the last one to go withdraws the request.
#[derive(Debug)]
pub struct BufferWait<'a>(&'a Reclaim);

impl Drop for BufferWait<'_> {
    fn drop(&mut self) {
        if self.0.waiting.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.floor.store(0, Ordering::Release);
        }
    }
}

/// The bytes that the read of an answer holds ahead of its client. Clones are the same.
#[derive(Clone, Default)]
pub struct ReadAhead(Arc<Mutex<Option<GiveBack>>>);

/// Has a read give back what it holds ahead, unless it has ended.
type GiveBack = Box<dyn Fn() + Send + Sync>;

impl ReadAhead {
    /// A read of the answer begins, in place of an earlier one. `give_back` has it give back what it holds
    /// ahead, which it reads again later.
    pub fn begin(&self, give_back: impl Fn() + Send + Sync + 'static) {
        *self.0.lock() = Some(Box::new(give_back));
    }

    /// Has the read give back what it holds ahead.
    pub fn give_back(&self) {
        if let Some(give_back) = self.0.lock().as_ref() {
            give_back();
        }
    }
}

impl fmt::Debug for ReadAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadAhead").finish_non_exhaustive()
    }
}

/// The buffers that a connection's answer holds at this moment. Clones are the same.
#[derive(Debug, Clone)]
pub struct HeldBuffers {
    usual: Reclaim,
    answer: Arc<Mutex<BuffersOfAnswer>>,
}

#[derive(Debug, Default)]
struct BuffersOfAnswer {
    /// In place of the usual ones.
    others: Option<Reclaim>,
    ahead: Option<ReadAhead>,
}

impl HeldBuffers {
    /// Buffers of a kind, unless an answer says otherwise.
    pub fn new(usual: Reclaim) -> Self {
        Self { usual, answer: Arc::default() }
    }

    /// The next answer holds `others`, or the usual ones, and what its read holds `ahead`, where it has one.
    pub fn set(&self, others: Option<Reclaim>, ahead: Option<ReadAhead>) {
        *self.answer.lock() = BuffersOfAnswer { others, ahead };
    }

    /// As [`Reclaim::takes`], of those that it holds.
    pub fn takes(&self, bytes_per_second: u64) -> bool {
        self.answer.lock().others.as_ref().unwrap_or(&self.usual).takes(bytes_per_second)
    }

    /// As [`ReadAhead::give_back`], of the answer's read; `false` where the answer has none.
    pub fn give_back_ahead(&self) -> bool {
        self.answer.lock().ahead.as_ref().inspect(|ahead| ahead.give_back()).is_some()
    }
}

impl Reclaim {
    /// Begins to wait.
    pub fn wait(&self) -> BufferWait<'_> {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        BufferWait(self)
    }

    /// Asks for the buffers of one connection, for a read that has waited `waited`.
    pub fn ask(&self, waited: Duration) {
        let due = FLOORS.iter().rev().find(|(after, _)| waited >= *after);
        if let Some((_, floor)) = due {
            self.floor.fetch_max(*floor, Ordering::AcqRel);
        }
    }

    /// Whether a connection that moves `bytes_per_second` is the one to give up: true for one of them each
    /// time that a read asks.
    pub fn takes(&self, bytes_per_second: u64) -> bool {
        let floor = self.floor.load(Ordering::Acquire);
        bytes_per_second < floor
            && self.floor.compare_exchange(floor, 0, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_a_read_waits_the_faster_a_connection_may_be_that_gives_up() {
        let reclaim = Reclaim::default();
        assert!(!reclaim.takes(0), "no read asks");
        reclaim.ask(Duration::from_millis(249));
        assert!(!reclaim.takes(0), "not yet");
        for (waited, floor) in FLOORS {
            reclaim.ask(waited);
            assert!(!reclaim.takes(floor));
            assert!(reclaim.takes(floor - 1));
            assert!(!reclaim.takes(0), "one for each time");
        }
    }

    #[test]
    fn a_request_for_buffers_is_withdrawn_when_the_last_waiting_read_goes() {
        let reclaim = Reclaim::default();
        let (first, second) = (reclaim.wait(), reclaim.wait());
        reclaim.ask(Duration::from_secs(15));
        drop(first);
        assert!(reclaim.takes(0), "a read still waits");
        reclaim.ask(Duration::from_secs(1));
        drop(second);
        assert!(!reclaim.takes(0));
    }

    #[test]
    fn a_connection_gives_up_for_those_who_wait_for_what_it_holds() {
        let (downloads, lists) = (Reclaim::default(), Reclaim::default());
        let held = HeldBuffers::new(downloads.clone());
        lists.ask(Duration::from_secs(1));
        assert!(!held.takes(0), "it holds none of theirs");
        held.set(Some(lists), None);
        assert!(held.takes(0));
        downloads.ask(Duration::from_secs(1));
        assert!(!held.takes(0));
        held.set(None, None);
        assert!(held.takes(0));
    }
}
