//! Processor time of both sides over the measured window.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::host::proc;
use crate::subject::Process;

/// Reads the clocks when the window opens and when it closes.
#[derive(Debug)]
pub struct Meter<'a> {
    server: Option<&'a Process>,
    /// Operations that were right so far, brought up to date now and then.
    done: AtomicU64,
    ends: Mutex<(Option<MeterReading>, Option<MeterReading>)>,
}

#[derive(Clone, Copy, Debug)]
struct MeterReading {
    at: Instant,
    client: Duration,
    server: Option<Duration>,
    machine: Option<Duration>,
}

/// Share of the machine that others may use before a row is flagged.
pub(crate) const OTHERS_SHARE: f64 = 0.1;
/// The flag of such a row.
pub(crate) const BUSY_WITH_OTHERS: &str = "machine busy with others";

/// Processor time spent in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTime {
    /// How long the window lasted.
    pub wall: Duration,
    /// By this process.
    pub client: Duration,
    /// By the server, if it is ours.
    pub server: Option<Duration>,
    /// By everything on the machine, interrupts and other machines' share included.
    pub machine: Option<Duration>,
}

impl CpuTime {
    /// Share of the machine that others used: not this process, the server, or a program that used `more`.
    /// Nothing where the machine's or the server's time is not known.
    #[expect(clippy::cast_precision_loss, reason = "a few cores")]
    pub(crate) fn others_share(&self, more: Duration) -> Option<f64> {
        let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
        let known = self.client + self.server? + more;
        let others = self.machine?.saturating_sub(known);
        Some(others.as_secs_f64() / (self.wall.as_secs_f64().max(1e-9) * cores))
    }

    /// Adds what was spent in another window.
    pub(crate) fn append(self, other: Self) -> Self {
        let both = |one: Option<Duration>, other: Option<Duration>| Some(one? + other?);
        Self {
            wall: self.wall + other.wall,
            client: self.client + other.client,
            server: both(self.server, other.server),
            machine: both(self.machine, other.machine),
        }
    }
}

impl<'a> Meter<'a> {
    /// A meter that also reads `server`.
    pub fn new(server: Option<&'a Process>) -> Self {
        Self { server, done: AtomicU64::new(0), ends: Mutex::new((None, None)) }
    }

    /// Adds `ops` to the operations that progress shows.
    pub fn progress(&self, ops: u64) {
        self.done.fetch_add(ops, Ordering::Relaxed);
    }

    /// Operations so far, a second old at most.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Takes the first thread's opening.
    pub fn open(&self) {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        if ends.0.is_none() {
            ends.0 = Some(self.read());
        }
    }

    /// Takes the last thread's closing.
    pub fn close(&self) {
        let reading = self.read();
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).1 = Some(reading);
    }

    /// The processor time between the two.
    pub fn spent(&self) -> Option<CpuTime> {
        let (Some(open), Some(close)) = *self.ends.lock().unwrap_or_else(PoisonError::into_inner) else {
            return None;
        };
        let difference = |open: Option<Duration>, close: Option<Duration>| Some(close?.saturating_sub(open?));
        Some(CpuTime {
            wall: close.at.saturating_duration_since(open.at),
            client: close.client.saturating_sub(open.client),
            server: difference(open.server, close.server),
            machine: difference(open.machine, close.machine),
        })
    }

    fn read(&self) -> MeterReading {
        let client = clock_gettime(ClockId::ProcessCPUTime);
        MeterReading {
            at: Instant::now(),
            client: Duration::try_from(client).unwrap_or_default(),
            server: self.server.and_then(Process::cpu),
            machine: proc::machine_busy(),
        }
    }
}
