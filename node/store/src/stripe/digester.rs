//! The digests of a body, which see its bytes beside their way to the volumes.
//!
//! A digest that no vector helps (MD5) takes longer over a stripe than everything else together. So a
//! stripe that goes to files is looked at on another core, out of the buffers that it is written from,
//! while it is written and others are received. The stripes of one body form a queue, and are seen in their
//! order, one at a time; those of several bodies side by side, on several cores and, where more bodies wait
//! than there are cores, in the lanes of a core's vectors. A stripe's share of the budget is held until it
//! was seen.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::oneshot;

use sherd_core::md5::Md5;

use super::limits::DIGEST_QUEUES_MAX;
use crate::machine::budget::Share;
use crate::machine::host::Host;
use crate::machine::workers::Workers;

/// Sees the bytes of a body, in order.
pub trait BodyDigester: Send + Sync {
    /// Sees the next bytes, with all digests but one that is taken out.
    fn see(&self, bytes: &[u8]);
    /// Takes out the body's MD5, where it has one: the caller shows it the next bytes, and puts it back.
    fn take_md5(&self) -> Option<Md5>;
    /// Puts back the MD5 that was taken out.
    fn put_md5_back(&self, md5: Md5);
}

/// The threads that look, one for each core.
#[derive(Clone)]
pub struct DigestPool(Arc<DigestPoolState>);

struct DigestPoolState {
    workers: Workers,
    /// Queues with a stripe to look at, each once. While there are any, there is a job that has not begun.
    waiting: Mutex<VecDeque<Arc<DigestQueue>>>,
    /// Bodies that one turn looks at.
    lanes: usize,
}

impl std::fmt::Debug for DigestPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DigestPool").field("workers", &self.0.workers).finish_non_exhaustive()
    }
}

impl DigestPool {
    /// Starts them.
    ///
    /// # Errors
    /// As the system says.
    pub fn start(host: &dyn Host) -> std::io::Result<Self> {
        let workers = Workers::start(host, "digest", host.cores(), DIGEST_QUEUES_MAX)?;
        let lanes = Md5::lanes();
        Ok(Self(Arc::new(DigestPoolState { workers, waiting: Mutex::default(), lanes })))
    }

    /// Lets a queue wait for its turn.
    fn look(&self, queue: &Arc<DigestQueue>) {
        self.0.waiting.lock().push_back(Arc::clone(queue));
        self.call_turns(1);
    }

    /// Has a turn taken for each queue that began to wait. If too many jobs wait, the caller takes it.
    fn call_turns(&self, mut turns: usize) {
        while turns > 0 {
            turns -= 1;
            let digests = self.clone();
            let job = move || digests.call_turns(digests.take_turn());
            if self.0.workers.run(job).is_err() {
                turns += self.take_turn();
            }
        }
    }

    /// Looks at the first stripe of each of the queues that have waited longest, as many as there are lanes.
    /// Those that have more wait again behind the others; returns how many.
    fn take_turn(&self) -> usize {
        let mut queues: SmallVec<[_; Md5::LANES]> = {
            let mut waiting = self.0.waiting.lock();
            let count = waiting.len().min(self.0.lanes);
            waiting.drain(..count).collect()
        };
        look_once(&queues);
        queues.retain(|queue| queue.has_more());
        let count = queues.len();
        self.0.waiting.lock().extend(queues);
        count
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

    /// Whether there are more stripes to look at.
    fn has_more(&self) -> bool {
        let mut state = self.state.lock();
        state.is_looked_at = !state.waiting.is_empty();
        state.is_looked_at
    }
}

impl UnseenStripe {
    /// The bytes of one of its buffers that are of the body.
    fn buffer(&self, index: usize) -> &[u8] {
        let before: usize = self.buffers[..index].iter().map(Bytes::len).sum();
        let buffer = &self.buffers[index];
        &buffer[..buffer.len().min(self.length.saturating_sub(before))]
    }
}

/// Looks at the first stripe of each queue.
fn look_once(queues: &[Arc<DigestQueue>]) {
    let stripes: SmallVec<[_; Md5::LANES]> = queues
        .iter()
        .filter_map(|queue| Some((&*queue.digester, queue.state.lock().waiting.pop_front()?)))
        .collect();
    // A body alone has no use for lanes.
    let mut states: SmallVec<[Option<Md5>; Md5::LANES]> = stripes
        .iter()
        .map(|(digester, _)| if stripes.len() > 1 { digester.take_md5() } else { None })
        .collect();
    for index in 0..stripes.iter().map(|(_, stripe)| stripe.buffers.len()).max().unwrap_or(0) {
        let mut side_by_side = SmallVec::<[(&mut Md5, &[u8]); Md5::LANES]>::new();
        for ((digester, stripe), md5) in stripes.iter().zip(&mut states) {
            if index < stripe.buffers.len() {
                digester.see(stripe.buffer(index));
                side_by_side.extend(md5.as_mut().map(|md5| (md5, stripe.buffer(index))));
            }
        }
        Md5::update_many(&mut side_by_side);
    }
    for ((digester, stripe), md5) in stripes.into_iter().zip(states) {
        if let Some(md5) = md5 {
            digester.put_md5_back(md5);
        }
        let UnseenStripe { buffers, length: _, share, done } = stripe;
        // Buffers and budget are released before the waiter is woken.
        drop((buffers, share));
        let _ = done.send(());
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
    use crate::machine::host::{TaskHost, ThreadHost};
    use crate::machine::reclaim::Reclaim;
    use std::time::Duration;

    /// A digester that keeps the bytes beside their MD5.
    #[derive(Default)]
    struct Log(Mutex<(Vec<u8>, Option<Md5>)>);

    impl Log {
        fn with_md5() -> Arc<Self> {
            Arc::new(Self(Mutex::new((Vec::new(), Some(Md5::new())))))
        }

        fn seen(&self) -> Vec<u8> {
            let (seen, md5) = &*self.0.lock();
            let md5 = md5.clone().expect("it was put back").finish();
            assert_eq!(md5, Md5::digest(seen), "the MD5 of what was seen");
            seen.clone()
        }
    }

    impl BodyDigester for Log {
        fn see(&self, bytes: &[u8]) {
            // A task that digests at the same time would find the lock taken.
            let (seen, md5) = &mut *self.0.try_lock().expect("one stripe at a time");
            std::thread::yield_now();
            seen.extend_from_slice(bytes);
            if let Some(md5) = md5 {
                md5.update(bytes);
            }
        }

        fn take_md5(&self) -> Option<Md5> {
            Some(self.0.lock().1.take().expect("one stripe at a time"))
        }

        fn put_md5_back(&self, md5: Md5) {
            self.0.lock().1 = Some(md5);
        }
    }

    fn queues_before(logs: &[Arc<Log>]) -> Vec<Arc<DigestQueue>> {
        logs.iter().map(|log| DigestQueue::before(Arc::clone(log) as Arc<_>)).collect()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn stripes_of_a_body_are_seen_in_order_and_their_shares_come_back() {
        let digests = DigestPool::start(&ThreadHost).expect("threads start");
        let budget = Budget::new(4 << 20, Duration::ZERO, Reclaim::default());
        let logs: Vec<_> = (0..19).map(|_| Log::with_md5()).collect();
        let queues = queues_before(&logs);
        let mut seen = Vec::new();
        for number in 0..50_u8 {
            for queue in &queues {
                let share = Arc::new(budget.take(4096).await.expect("there is room for all"));
                let buffers = vec![Bytes::from(vec![number; 300]), Bytes::from(vec![number; 300])];
                seen.push(queue.show(&digests, buffers, 400, share));
            }
        }
        for seen in seen {
            seen.wait().await;
        }
        let expected: Vec<u8> = (0..50).flat_map(|number| [number; 400]).collect();
        assert!(logs.iter().all(|log| log.seen() == expected));
        assert_eq!(budget.free_bytes(), 4 << 20);
    }

    /// The pool's threads are tasks that run only when the test waits: it takes the turns itself.
    #[tokio::test(start_paused = true)]
    async fn a_turn_looks_at_one_stripe_of_each_body_that_waited_longest() {
        let digests = DigestPool::start(&TaskHost::default()).expect("tasks start");
        let budget = Budget::new(4 << 20, Duration::ZERO, Reclaim::default());
        let (lanes, late) = (digests.0.lanes, 2);
        let logs: Vec<_> = (0..lanes + late).map(|_| Log::with_md5()).collect();
        let queues = queues_before(&logs);
        let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
        let mut seen = Vec::new();
        // Stripes of different lengths, two of each body.
        for stripe in 0..2 {
            for (number, queue) in queues.iter().enumerate() {
                let length = 10 + 130 * number + stripe;
                let buffers = vec![Bytes::copy_from_slice(&bytes[..length]), Bytes::from(vec![7; 64])];
                let share = Arc::new(budget.take(1).await.expect("there is room for all"));
                seen.push(queue.show(&digests, buffers, length + 20 * stripe, share));
            }
        }
        let stripes_seen = || -> Vec<bool> { logs.iter().map(|log| !log.seen().is_empty()).collect() };
        assert_eq!(digests.take_turn(), lanes, "each has one more");
        assert_eq!(stripes_seen(), [vec![true; lanes], vec![false; late]].concat());
        digests.take_turn();
        assert_eq!(stripes_seen(), vec![true; lanes + late], "those that waited came first");
        for seen in seen {
            seen.wait().await;
        }
        for (number, log) in logs.iter().enumerate() {
            let length = 10 + 130 * number;
            let expected = [&bytes[..length], &bytes[..=length], &[7; 20]].concat();
            assert_eq!(log.seen(), expected, "body {number}");
        }
        assert_eq!(budget.free_bytes(), 4 << 20);
    }

    /// No MD5 to take out, as where a client asked for none.
    struct Plain(Mutex<Vec<u8>>);

    impl BodyDigester for Plain {
        fn see(&self, bytes: &[u8]) {
            self.0.lock().extend_from_slice(bytes);
        }

        fn take_md5(&self) -> Option<Md5> {
            None
        }

        fn put_md5_back(&self, _: Md5) {
            unreachable!("none was taken out");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_without_an_md5_are_seen_beside_those_with_one() {
        let digests = DigestPool::start(&TaskHost::default()).expect("tasks start");
        let budget = Budget::new(4 << 20, Duration::ZERO, Reclaim::default());
        let (plain, log) = (Arc::new(Plain(Mutex::default())), Log::with_md5());
        let mut seen = Vec::new();
        for queue in
            [DigestQueue::before(Arc::clone(&plain) as Arc<_>), DigestQueue::before(Arc::clone(&log) as _)]
        {
            let share = Arc::new(budget.take(1).await.expect("there is room for all"));
            seen.push(queue.show(&digests, vec![Bytes::from(vec![3; 500])], 400, share));
        }
        for seen in seen {
            seen.wait().await;
        }
        assert_eq!(*plain.0.lock(), vec![3; 400]);
        assert_eq!(log.seen(), vec![3; 400]);
    }
}
