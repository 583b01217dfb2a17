//! A few threads behind a bounded queue: where blocking disk calls happen, so that a slow volume
//! blocks its own threads and never the node's.

use std::thread::JoinHandle;

use crate::machine::queue::{self, Receiver, Sender};

type Job = Box<dyn FnOnce() + Send>;

/// Threads that run jobs in the order in which they came, several at a time.
#[derive(Debug)]
pub struct Workers {
    queue: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

/// The queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("queue full")]
pub struct QueueFull;

impl Workers {
    /// Starts `threads` threads named `name`, behind a queue of `queue_max` jobs.
    ///
    /// # Errors
    /// As the system says, when a thread cannot be started.
    pub fn start(name: &str, threads: usize, queue_max: usize) -> std::io::Result<Self> {
        let (queue, jobs) = queue::bounded(queue_max);
        let threads = (0..threads)
            .map(|_| {
                let jobs: Receiver<Job> = jobs.clone();
                std::thread::Builder::new().name(name.to_owned()).spawn(move || {
                    while let Ok(job) = jobs.next(None) {
                        // A panic stays in its job: the answer is dropped, which its caller sees.
                        drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)));
                    }
                })
            })
            .collect::<std::io::Result<Vec<_>>>()?;
        Ok(Self { queue: Some(queue), threads })
    }

    /// Queues a job.
    ///
    /// # Errors
    /// [`QueueFull`] when too many wait; the job is dropped.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) -> Result<(), QueueFull> {
        let queue = self.queue.as_ref().expect("open until dropped");
        queue.try_send(Box::new(job)).map_err(|_refused| QueueFull)
    }

    /// Lets the threads finish what is queued, and end, without waiting for them.
    pub fn close(&mut self) {
        self.queue = None;
    }

    /// Lets the threads finish what is queued, and waits until they ended.
    pub fn finish(mut self) {
        self.close();
        for thread in std::mem::take(&mut self.threads) {
            // A panic ends no thread of these: it stays in its job.
            drop(thread.join());
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.close();
        // A thread may hang in a dead disk: it is left behind, never waited for.
        self.threads.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_full_queue_refuses() {
        let workers = Workers::start("test", 1, 1).expect("a thread starts");
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
        let workers = Workers::start("test", 1, 4).expect("a thread starts");
        workers.run(|| panic!("expected by this test")).expect("room");
        let (done, wait) = mpsc::channel();
        workers.run(move || done.send(()).expect("the test waits")).expect("room");
        wait.recv().expect("the second job ran");
    }
}
