//! A store's process: what it spends, how much memory it had at most, and its orderly end.

use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::host::proc;

/// How often memory is read.
const SAMPLE: Duration = Duration::from_millis(50);
/// How long a store may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(40);
const STOP_POLL: Duration = Duration::from_millis(10);

/// A running store and the thread that watches its memory.
#[derive(Debug)]
pub struct Process {
    child: Child,
    pid: u32,
    peak: Arc<AtomicU64>,
    stopping: Arc<AtomicBool>,
    sampler: Option<JoinHandle<()>>,
}

impl Process {
    /// Watches `child`.
    pub fn watch(child: Child) -> Self {
        let pid = child.id();
        let peak = Arc::new(AtomicU64::new(0));
        let stopping = Arc::new(AtomicBool::new(false));
        let (peak_of_thread, stopping_of_thread) = (Arc::clone(&peak), Arc::clone(&stopping));
        let sampler = thread::spawn(move || {
            while !stopping_of_thread.load(Ordering::Relaxed) {
                if let Some(bytes) = proc::rss_anon(pid) {
                    peak_of_thread.fetch_max(bytes, Ordering::Relaxed);
                }
                thread::park_timeout(SAMPLE);
            }
        });
        Self { child, pid, peak, stopping, sampler: Some(sampler) }
    }

    /// The process's id.
    pub fn id(&self) -> u32 {
        self.pid
    }

    /// Processor time spent so far, by the process and all that it started.
    pub fn cpu(&self) -> Option<Duration> {
        proc::cpu(self.pid)
    }

    /// Forgets the peak of memory: the next one is that of what follows.
    pub fn reset_peak(&self) {
        self.peak.store(proc::rss_anon(self.pid).unwrap_or(0), Ordering::Relaxed);
    }

    /// The largest `RssAnon` since the last reset, in bytes.
    pub fn peak_rss_anon(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// How the process ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Asks the process to stop and waits until it has; kills it, and says so, when that takes too long.
    pub fn stop(&mut self) {
        let begin = Instant::now();
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if self.ended().is_none() {
            let asked = pid.is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok());
            while asked && self.ended().is_none() && begin.elapsed() < STOP_TIMEOUT {
                thread::park_timeout(STOP_POLL);
            }
            if self.ended().is_none() {
                eprintln!("sherd-bench: process {} did not stop when asked and is killed", self.pid);
            }
        }
        self.kill();
    }

    /// Kills the process, if it still runs, as a crash would.
    pub fn kill(&mut self) {
        // Both fail only for a process that has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.stopping.store(true, Ordering::Relaxed);
        if let Some(sampler) = self.sampler.take() {
            sampler.thread().unpark();
            // A panic of the sampler costs the figure of memory and nothing else.
            let _ = sampler.join();
        }
    }
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

    #[test]
    fn a_process_is_watched_and_stopped() {
        let mut process = Process::watch(Command::new("sleep").arg("600").spawn().unwrap());
        assert!(process.cpu().is_some());
        process.reset_peak();
        assert!(process.ended().is_none());
        process.stop();
        assert!(process.ended().is_some_and(|status| !status.success()), "ended by the signal");
        assert_eq!(proc::rss_anon(process.id()), None);
    }

    #[test]
    fn a_process_that_does_not_listen_is_killed() {
        let mut process =
            Process::watch(Command::new("sh").args(["-c", "trap '' TERM; exec sleep 600"]).spawn().unwrap());
        process.kill();
        assert!(process.ended().is_some_and(|status| !status.success()));
    }
}
