//! The digests of a body, which see its bytes beside their way to the volumes.
//!
//! A digest that no vector helps (MD5) takes longer over a stripe than everything else together. So a
//! stripe that goes to files is looked at on another core, out of the buffers that it is written from,
//! while it is written and others are received. The stripes of one body form a queue, and are seen in their
//! order, one at a time; those of several bodies side by side. A stripe's share of the budget is held
//! until it was seen.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::limits::DIGEST_QUEUES_MAX;
use crate::machine::budget::Share;
use crate::machine::host::Host;
use crate::machine::workers::Workers;

/// Sees the bytes of a body, in order.
pub trait BodyDigester: Send + Sync {
    /// Sees the next bytes.
    fn see(&self, bytes: &[u8]);
}

/// The threads that look, one for each core.
#[derive(Debug, Clone)]
pub struct DigestPool(Arc<Workers>);

impl DigestPool {
    /// Starts them.
    ///
    /// # Errors
    /// As the system says.
    pub fn start(host: &dyn Host) -> std::io::Result<Self> {
        Ok(Self(Arc::new(Workers::start(host, "digest", host.cores(), DIGEST_QUEUES_MAX)?)))
    }

    /// Looks at the first stripe of a queue that has some, and comes back for the next: queues take turns.
    /// If too many wait, the caller digests itself.
    fn look(&self, queue: &Arc<DigestQueue>) {
        loop {
            let (digests, next) = (self.clone(), Arc::clone(queue));
            let job = move || {
                if next.look_once() {
                    digests.look(&next);
                }
            };
            if self.0.run(job).is_ok() || !queue.look_once() {
                return;
            }
        }
    }
}

/// The stripes of one body that are still to be seen.
pub(super) struct DigestQueue {
    digester: Arc<dyn BodyDigester>,
    state: Mutex<DigestState>,
}

#[derive(Default)]
struct DigestState {
    waiting: VecDeque<UnseenStripe>,
    /// Whether a task digests, or is about to.
    is_looked_at: bool,
}

/// Bytes to be seen, and what is held for them.
struct UnseenStripe {
    buffers: Vec<Bytes>,
    length: usize,
    share: Arc<Share>,
    done: oneshot::Sender<()>,
}

impl DigestQueue {
    /// A queue before a digester.
    pub(super) fn before(digester: Arc<dyn BodyDigester>) -> Arc<Self> {
        Arc::new(Self { digester, state: Mutex::default() })
    }

    /// Shows the first `length` bytes of some buffers behind those that were shown before.
    pub(super) fn show(
        self: &Arc<Self>,
        digests: &DigestPool,
        buffers: Vec<Bytes>,
        length: usize,
        share: Arc<Share>,
    ) -> DigestWindow {
        let (done, seen) = oneshot::channel();
        let was_looked_at = {
            let mut state = self.state.lock();
            state.waiting.push_back(UnseenStripe { buffers, length, share, done });
            std::mem::replace(&mut state.is_looked_at, true)
        };
        if !was_looked_at {
            digests.look(self);
        }
        DigestWindow(seen)
    }

    /// Looks at the first stripe. Whether there are more.
    fn look_once(&self) -> bool {
        let first = self.state.lock().waiting.pop_front();
        if let Some(UnseenStripe { buffers, length, share, done }) = first {
            let mut left = length;
            for buffer in &buffers {
                let now = left.min(buffer.len());
                self.digester.see(&buffer[..now]);
                left -= now;
            }
            // Buffers and budget are released before the waiter is woken.
            drop((buffers, share));
            let _ = done.send(());
        }
        let mut state = self.state.lock();
        state.is_looked_at = !state.waiting.is_empty();
        state.is_looked_at
    }
}

/// Bytes that are being looked at.
#[derive(Debug)]
pub(super) struct DigestWindow(oneshot::Receiver<()>);

impl DigestWindow {
    /// Waits until they were seen.
    ///
    /// # Panics
    /// When the digester did.
    pub(super) async fn wait(self) {
        self.0.await.expect("digesters do not panic");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::budget::Budget;
    use crate::machine::host::ThreadHost;
    use crate::machine::reclaim::Reclaim;
    use std::time::Duration;

    struct Log(Mutex<Vec<u8>>);

    impl BodyDigester for Log {
        fn see(&self, bytes: &[u8]) {
            // A task that digests at the same time would find the lock taken.
            let mut seen = self.0.try_lock().expect("one stripe at a time");
            std::thread::yield_now();
            seen.extend_from_slice(bytes);
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn stripes_of_a_body_are_seen_in_order_and_their_shares_come_back() {
        let digests = DigestPool::start(&ThreadHost).expect("threads start");
        let budget = Budget::new(1 << 20, Duration::ZERO, Reclaim::default());
        let logs: Vec<_> = (0..3).map(|_| Arc::new(Log(Mutex::default()))).collect();
        let queues: Vec<_> = logs.iter().map(|log| DigestQueue::before(Arc::clone(log) as Arc<_>)).collect();
        let mut seen = Vec::new();
        for number in 0..50_u8 {
            for queue in &queues {
                let share = Arc::new(budget.take(4096).await.expect("there is room for all"));
                let buffers = vec![Bytes::from(vec![number; 3]), Bytes::from(vec![number; 3])];
                seen.push(queue.show(&digests, buffers, 4, share));
            }
        }
        for seen in seen {
            seen.wait().await;
        }
        let expected: Vec<u8> = (0..50).flat_map(|number| [number; 4]).collect();
        assert!(logs.iter().all(|log| *log.0.lock() == expected));
        assert_eq!(budget.free_bytes(), 1 << 20);
    }
}
