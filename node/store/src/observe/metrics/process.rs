//! Resources of the process: memory, descriptors, threads, processor time, under the names that every
//! Prometheus client uses, and anonymous memory, which this process allocated itself (the resident size also
//! counts files that the kernel happens to keep mapped).
//!
//! Read from /proc at scrape time. A value that cannot be read keeps its last one.

#![expect(clippy::disallowed_methods, reason = "/proc is the kernel's answer, not a file of the node")]

use parking_lot::Mutex;
use prometheus::{Counter, Gauge, IntGauge};
use rustix::process::Resource;

use super::declare::MetricDeclarer;
use crate::machine::heap::status_number;

#[derive(Debug)]
pub(super) struct ProcessMetrics {
    cpu_seconds: Counter,
    counted_ticks: Mutex<u64>,
    resident_bytes: IntGauge,
    anonymous_bytes: IntGauge,
    threads: IntGauge,
    open_fds: IntGauge,
    max_fds: IntGauge,
    start_time_seconds: Gauge,
}

impl ProcessMetrics {
    pub(super) fn new(declare: &MetricDeclarer<'_>) -> Self {
        let this = Self {
            cpu_seconds: declare
                .float_counter("process_cpu_seconds_total", "User and system processor time."),
            counted_ticks: Mutex::new(0),
            resident_bytes: declare.gauge("process_resident_memory_bytes", "Resident memory."),
            anonymous_bytes: declare
                .gauge("sherd_process_anonymous_memory_bytes", "Resident memory that is no file."),
            threads: declare.gauge("process_threads", "Threads."),
            open_fds: declare.gauge("process_open_fds", "Open file descriptors."),
            max_fds: declare.gauge("process_max_fds", "Limit of open file descriptors."),
            start_time_seconds: declare
                .float_gauge("process_start_time_seconds", "Start of the process since the Unix epoch."),
        };
        if let Some(start) = start_time_seconds() {
            this.start_time_seconds.set(start);
        }
        this
    }

    pub(super) fn observe(&self) {
        if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
            let number = |name| i64::try_from(status_number(&status, name)?).ok();
            let kib = |name| number(name).map(|kib| kib.saturating_mul(1024));
            for (gauge, value) in [
                (&self.resident_bytes, kib("VmRSS")),
                (&self.anonymous_bytes, kib("RssAnon")),
                (&self.threads, number("Threads")),
            ] {
                if let Some(value) = value {
                    gauge.set(value);
                }
            }
        }
        if let Ok(entries) = std::fs::read_dir("/proc/self/fd") {
            // Less the one that lists them.
            gauge_count(&self.open_fds, entries.count().saturating_sub(1));
        }
        if let Some(limit) = rustix::process::getrlimit(Resource::Nofile).current {
            self.max_fds.set(i64::try_from(limit).unwrap_or(i64::MAX));
        }
        if let Some(stat) =
            std::fs::read_to_string("/proc/self/stat").ok().and_then(|text| Stat::parse(&text))
        {
            let mut counted = self.counted_ticks.lock();
            self.cpu_seconds.inc_by(seconds(stat.cpu_ticks.saturating_sub(*counted)));
            *counted = stat.cpu_ticks.max(*counted);
        }
    }
}

fn gauge_count(gauge: &IntGauge, count: usize) {
    gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
}

#[expect(clippy::cast_precision_loss, reason = "2^52 ticks are a million years")]
fn seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

#[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are far below 2^52")]
fn start_time_seconds() -> Option<f64> {
    let stat = Stat::parse(&std::fs::read_to_string("/proc/self/stat").ok()?)?;
    let system = std::fs::read_to_string("/proc/stat").ok()?;
    let boot: u64 = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(boot as f64 + seconds(stat.start_ticks))
}

#[derive(Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    start_ticks: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The second field is the program's name in parentheses and may contain both.
        let (_, rest) = text.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        // Fields 14 and 15 are user and system time, 22 the start; `rest` begins at field 3.
        let user: u64 = fields.nth(11)?.parse().ok()?;
        let system: u64 = fields.next()?.parse().ok()?;
        let start_ticks = fields.nth(6)?.parse().ok()?;
        Some(Self { cpu_ticks: user.checked_add(system)?, start_ticks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_behind_a_name_with_parentheses() {
        let text = "7 (a) (b) c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9 0 123456 1000 20 0";
        assert_eq!(Stat::parse(text), Some(Stat { cpu_ticks: 300, start_ticks: 123_456 }));
        assert_eq!(Stat::parse("7 (a) S 1"), None);
    }
}
