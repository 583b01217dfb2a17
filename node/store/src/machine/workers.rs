//! A few lives behind a bounded queue: where blocking disk calls happen, so that a slow volume
//! blocks its own threads and never the node's.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::machine::host::{Host, Inbox, Next, Turns};
use crate::machine::queue::{self, QueueEmpty, Receiver, Sender};

type Job = Box<dyn FnOnce() + Send>;

/// Threads that run jobs in the order in which they came, several at a time. One that hangs in a dead disk is
/// left behind when these are dropped, never waited for.
#[derive(Debug)]
pub struct Workers {
    queue: Sender<Job>,
    bench: Worker,
}

/// The queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("queue full")]
pub struct QueueFull;

#[derive(Debug, Clone)]
struct Worker {
    jobs: Receiver<Job>,
    busy: Arc<Busy>,
}

/// How many workers have a job, or look for one.
#[derive(Debug, Default)]
struct Busy {
    count: Mutex<usize>,
    idle: Condvar,
}

impl Workers {
    /// Starts `threads` lives named `name` on `host`, behind a queue of `queue_max` jobs.
    ///
    /// # Errors
    /// As the system says, when a thread cannot be started.
    pub fn start(host: &dyn Host, name: &str, threads: usize, queue_max: usize) -> io::Result<Self> {
        let (queue, jobs) = queue::bounded(queue_max);
        let worker = Worker { jobs, busy: Arc::default() };
        for _ in 0..threads {
            host.start(name, Box::new(worker.clone()))?;
        }
        Ok(Self { queue, bench: worker })
    }

    /// Queues a job.
    ///
    /// # Errors
    /// [`QueueFull`] when too many wait; the job is dropped.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) -> Result<(), QueueFull> {
        self.queue.try_send(Box::new(job)).map_err(|_refused| QueueFull)
    }

    /// Returns when all queued jobs have been done: those that no thread has begun are done here.
    pub fn finish(self) {
        let Self { queue, bench } = self;
        drop(queue);
        while bench.work_once().is_ok() {}
        bench.busy.wait_until_idle();
    }
}

impl Worker {
    fn work_once(&self) -> Result<(), QueueEmpty> {
        // Before it is taken: a thread that finds the queue empty sees that the job is under way.
        self.busy.begin();
        let job = self.jobs.try_next();
        // A panic stays in its job: the answer is dropped, which its caller sees.
        let done = job.map(|job| drop(catch_unwind(AssertUnwindSafe(job))));
        self.busy.end();
        done
    }
}

impl Turns for Worker {
    fn turn(&mut self) -> Next {
        match self.work_once() {
            Ok(()) => Next::Turn,
            Err(QueueEmpty::Nothing) => Next::Wait(None),
            Err(QueueEmpty::Closed) => Next::End,
        }
    }

    fn inbox(&mut self) -> &dyn Inbox {
        &self.jobs
    }
}

impl Busy {
    fn begin(&self) {
        *self.count.lock() += 1;
    }

    fn end(&self) {
        let mut count = self.count.lock();
        *count -= 1;
        if *count == 0 {
            self.idle.notify_all();
        }
    }

    fn wait_until_idle(&self) {
        let mut count = self.count.lock();
        while *count > 0 {
            self.idle.wait(&mut count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::host::{TaskHost, ThreadHost};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    #[test]
    fn a_full_queue_refuses() {
        let workers = Workers::start(&ThreadHost, "test", 1, 1).expect("a thread starts");
        let (started, has_started) = mpsc::channel();
        let (release, wait) = mpsc::channel::<()>();
        workers
            .run(move || {
                started.send(()).expect("the test waits");
                wait.recv().ok();
            })
            .expect("the first job runs");
        has_started.recv().expect("the first job started");
        workers.run(|| {}).expect("the second job waits");
        assert_eq!(workers.run(|| {}), Err(QueueFull));
        release.send(()).expect("the first job waits for this");
    }

    #[test]
    fn a_panic_ends_the_job_and_not_the_thread() {
        let workers = Workers::start(&ThreadHost, "test", 1, 4).expect("a thread starts");
        workers.run(|| panic!("expected by this test")).expect("room");
        let (done, wait) = mpsc::channel();
        workers.run(move || done.send(()).expect("the test waits")).expect("room");
        wait.recv().expect("the second job ran");
    }

    /// Some are done by the threads and some by the caller of `finish`; none is under way when it returns.
    #[test]
    fn finished_means_that_every_job_is_done() {
        for _ in 0..200 {
            let workers = Workers::start(&ThreadHost, "test", 2, 16).expect("threads start");
            let done = Arc::new(AtomicUsize::new(0));
            for _ in 0..16 {
                let done = Arc::clone(&done);
                let job = move || {
                    std::thread::yield_now();
                    done.fetch_add(1, Ordering::SeqCst);
                };
                workers.run(job).expect("room");
            }
            workers.finish();
            assert_eq!(done.load(Ordering::SeqCst), 16);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn on_one_thread_jobs_run_between_others_and_finish_does_the_rest() {
        let host = TaskHost::default();
        let workers = Workers::start(&host, "test", 2, 4).expect("tasks start");
        let (done, wait) = tokio::sync::oneshot::channel();
        workers.run(move || done.send(()).expect("the test waits")).expect("room");
        wait.await.expect("a job runs while its caller waits");
        let (done, mut is_done) = tokio::sync::oneshot::channel();
        workers.run(move || done.send(()).expect("the test waits")).expect("room");
        workers.finish();
        assert_eq!(is_done.try_recv(), Ok(()));
        while host.running() > 0 {
            tokio::task::yield_now().await;
        }
    }
}
