//! A store's processes: what they spend, how much memory they had at most, and their orderly end.

use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::host::proc;
use crate::limits::{IDLE_SAMPLE, MEMORY_SAMPLE, STOP_POLL, STOP_TIMEOUT};

/// A running store, whose processes are judged as one, and the thread that watches their memory.
#[derive(Debug)]
pub struct Process {
    children: Vec<Child>,
    peak: Arc<AtomicU64>,
    stopping: Arc<AtomicBool>,
    sampler: Option<JoinHandle<()>>,
}

impl Process {
    /// Watches `children`, at least one.
    pub fn watch(children: Vec<Child>) -> Self {
        let pids: Vec<u32> = children.iter().map(Child::id).collect();
        let peak = Arc::new(AtomicU64::new(0));
        let stopping = Arc::new(AtomicBool::new(false));
        let (peak_of_thread, stopping_of_thread) = (Arc::clone(&peak), Arc::clone(&stopping));
        let sampler = thread::spawn(move || {
            while !stopping_of_thread.load(Ordering::Relaxed) {
                if let Some(bytes) = sum(&pids, proc::rss_anon) {
                    peak_of_thread.fetch_max(bytes, Ordering::Relaxed);
                }
                thread::park_timeout(MEMORY_SAMPLE);
            }
        });
        Self { children, peak, stopping, sampler: Some(sampler) }
    }

    fn ids(&self) -> Vec<u32> {
        self.children.iter().map(Child::id).collect()
    }

    /// Memory that the processes hold now: `RssAnon`, in bytes.
    pub fn rss_anon(&self) -> Option<u64> {
        sum(&self.ids(), proc::rss_anon)
    }

    /// Processor time spent so far, by the processes and all that they started.
    pub fn cpu(&self) -> Option<Duration> {
        sum(&self.ids(), proc::cpu)
    }

    /// Waits until the processes use less than 5 % of a core, so that work for earlier requests does not
    /// affect the next measurement. Returns the time that took, or nothing when they are still busy after
    /// `patience`.
    pub fn until_idle(&self, patience: Duration) -> Option<Duration> {
        let begin = Instant::now();
        loop {
            let before = self.cpu().unwrap_or_default();
            let since = begin.elapsed();
            if since >= patience {
                return None;
            }
            thread::sleep(IDLE_SAMPLE);
            if self.cpu().unwrap_or_default().saturating_sub(before) < IDLE_SAMPLE / 20 {
                return Some(since);
            }
        }
    }

    /// Forgets the peak of memory: the next one is that of what follows.
    pub fn reset_peak(&self) {
        self.peak.store(self.rss_anon().unwrap_or(0), Ordering::Relaxed);
    }

    /// The largest `RssAnon` since the last reset, in bytes.
    pub fn peak_rss_anon(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// The exit status of a process that has ended: a store without one of its processes counts as ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.children.iter_mut().find_map(|child| child.try_wait().ok().flatten())
    }

    /// Asks the processes to stop and waits until they have; kills them, with a line on standard error, after
    /// [`STOP_TIMEOUT`].
    pub fn stop(&mut self) {
        let begin = Instant::now();
        let running = |child: &mut Child| child.try_wait().is_ok_and(|status| status.is_none());
        for child in self.children.iter_mut().filter_map(|child| running(child).then_some(child)) {
            // The signal fails only for a process that has just ended.
            let _ = kill_process(Pid::from_child(child), Signal::TERM);
        }
        while self.children.iter_mut().any(running) && begin.elapsed() < STOP_TIMEOUT {
            thread::park_timeout(STOP_POLL);
        }
        for child in self.children.iter_mut().filter_map(|child| running(child).then_some(child)) {
            eprintln!("sherd-bench: process {} did not stop when asked and is killed", child.id());
        }
        self.kill();
    }

    /// Kills the processes that still run, as a crash would.
    pub fn kill(&mut self) {
        for child in &mut self.children {
            // The kill fails only for a process that has ended already.
            let _ = child.kill();
        }
        for child in &mut self.children {
            let _ = child.wait();
        }
        self.stopping.store(true, Ordering::Relaxed);
        if let Some(sampler) = self.sampler.take() {
            sampler.thread().unpark();
            // A panic of the sampler costs the figure of memory and nothing else.
            let _ = sampler.join();
        }
    }
}

/// The sum of a figure over the processes that are there; nothing when none is.
fn sum<T: std::iter::Sum>(pids: &[u32], figure: impl Fn(u32) -> Option<T>) -> Option<T> {
    let found: Vec<T> = pids.iter().filter_map(|pid| figure(*pid)).collect();
    (!found.is_empty()).then(|| found.into_iter().sum())
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn sleeper() -> Child {
        Command::new("sleep").arg("600").spawn().unwrap()
    }

    #[test]
    fn a_store_has_ended_with_the_first_of_its_processes() {
        let mut process = Process::watch(vec![sleeper(), Command::new("true").spawn().unwrap()]);
        process.children[1].wait().unwrap();
        assert!(process.ended().is_some_and(|status| status.success()));
        assert!(process.rss_anon().is_some(), "the other one still runs");
        process.stop();
        assert_eq!(process.rss_anon(), None);
    }

    #[test]
    fn a_process_is_watched_and_stopped() {
        let mut process = Process::watch(vec![sleeper(), sleeper()]);
        assert!(process.cpu().is_some());
        process.reset_peak();
        assert!(process.ended().is_none());
        process.stop();
        assert!(process.ended().is_some_and(|status| !status.success()), "ended by the signal");
        assert_eq!(process.rss_anon(), None);
    }

    #[test]
    fn a_process_that_does_not_listen_is_killed() {
        let deaf = Command::new("sh").args(["-c", "trap '' TERM; exec sleep 600"]).spawn().unwrap();
        let mut process = Process::watch(vec![deaf]);
        process.kill();
        assert!(process.ended().is_some_and(|status| !status.success()));
    }
}
