//! Processor time and memory of processes, from /proc.

use std::fs;
use std::time::Duration;

/// Processor time, user and system, that process `pid`, what it started and what those started have
/// spent. Nothing when the process is gone.
pub fn cpu(pid: u32) -> Option<Duration> {
    let mut total = ticks(pid)?;
    for child in descendants(pid) {
        total += ticks(child).unwrap_or(0);
    }
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Some(Duration::from_nanos(total.saturating_mul(1_000_000_000 / per_second)))
}

/// Anonymous memory that process `pid` and its descendants have in RAM, in bytes: `RssAnon`, which
/// leaves out the page cache's part of mapped files.
pub fn rss_anon(pid: u32) -> Option<u64> {
    let of_one = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib << 10)
    };
    let own = of_one(pid)?;
    Some(own + descendants(pid).into_iter().filter_map(of_one).sum::<u64>())
}

/// Time that the machine's processors were not idle, summed over them, since it started.
pub fn machine_busy() -> Option<Duration> {
    busy(&fs::read_to_string("/proc/stat").ok()?)
}

/// Whether a process `pid` is there.
pub fn is_alive(pid: u32) -> bool {
    fs::exists(format!("/proc/{pid}/stat")).unwrap_or(false)
}

fn busy(stat: &str) -> Option<Duration> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; guest time is part of user.
    let [user, nice, system, _idle, _iowait, irq, softirq, steal] = fields.get(..8)?.try_into().ok()?;
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Some(Duration::from_nanos((user + nice + system + irq + softirq + steal) * (1_000_000_000 / per_second)))
}

/// Ticks of user and system time of one process, with those of children that it has waited for.
fn ticks(pid: u32) -> Option<u64> {
    ticks_of(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn ticks_of(stat: &str) -> Option<u64> {
    // The name in parentheses may hold anything, parentheses included; fields count from behind it.
    let (_, fields) = stat.rsplit_once(')')?;
    let times = fields.split_whitespace().skip(11).take(4);
    times.map(|field| field.parse::<u64>().ok()).sum()
}

fn descendants(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut next = vec![pid];
    while let Some(pid) = next.pop() {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children = children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok());
            next.extend(children.clone());
            found.extend(children);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 100 200 0 0 30 12 5 3 20 0 9 0 77";
        assert_eq!(ticks_of(stat), Some(50));
        assert_eq!(ticks_of("7 (short) S 1"), Some(0));
        assert_eq!(ticks_of("nothing"), None);
    }

    #[test]
    fn waiting_for_the_disk_is_not_being_busy() {
        let per_second = rustix::param::clock_ticks_per_second();
        let stat = format!("cpu  {per_second} 0 {per_second} 999 999 0 0 0 0 0\ncpu0 1\n");
        assert_eq!(busy(&stat), Some(Duration::from_secs(2)));
    }

    #[test]
    fn this_process_has_memory_and_a_process_that_is_gone_has_nothing() {
        assert!(rss_anon(std::process::id()).unwrap() > 0);
        assert!(cpu(std::process::id()).is_some());
        assert!(is_alive(std::process::id()));
        assert_eq!(cpu(u32::MAX), None);
        assert!(!is_alive(u32::MAX));
    }
}
