//! A lost volume that comes back empty: the time until it is whole, and the latencies of clients meanwhile.
//!
//! ```text
//! fill -> clients on the whole node, for what they see before
//!      -> lose 4, heal without clients      without a bound of bandwidth, as is the default
//!      -> lose 3, heal beside clients       without a bound
//!      -> lose 2, heal beside clients       with a bound of 64 MiB/s
//!      -> lose 1 and 2: the healed ones alone must give everything back
//! ```
//! Between two heals the node becomes idle, which takes `rest_seconds`: it compares the healed volume with
//! the others. A heal lasts from the moment the empty folder is there until the volume's state is
//! `online` and nothing waits in the MRF queue. Its MiB/s count what the volume has to hold again, bodies
//! alone: small objects whole in their rows, of larger ones a shard.

#![expect(clippy::cast_precision_loss, reason = "figures are for people: three digits of them count")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sherd_core::limits::INLINE_BYTES_MAX;

use crate::limits::{
    FOREGROUND_WINDOW, HEAL_TIMEOUT, MOMENT_FOREGROUND_WINDOW, REST_AFTER_HEAL, REST_BEFORE_CLIENTS,
};
use crate::load::keys::Keys;
use crate::load::run::{Outcome, Plan};
use crate::load::schedule::Limit;
use crate::load::work::Op;
use crate::question::bench::Bench;
use crate::question::error::Error;
use crate::question::node::{self, BenchNode};
use crate::result::Row;
use crate::subject::End;

/// Bytes of a small and of a large object.
const SMALL_BYTES: u64 = 4 << 10;
const LARGE_BYTES: u64 = 16 << 20;
/// PUTs, and as many GETs, per second of the clients beside a heal, begun whether earlier ones have ended or
/// not.
const RATE: f64 = 200.0;
/// Clients that write what the volume holds.
const SMALL_WRITERS: usize = 128;
const LARGE_WRITERS: usize = 4;
/// Clients beside a heal: more than are ever busy at a rate that leaves the machine room.
const FOREGROUND_CLIENTS: usize = 32;
/// Windows of each operation before a heal.
const WINDOWS_BEFORE: u32 = 5;
/// Clients' latencies alone decide.
const UNLIMITED: [&str; 2] = AT_ONCE;
/// The bound of the last heal, and its label.
const BOUND: &str = "64MiB";
const BOUNDED: [&str; 4] = ["--upkeep-heal-bandwidth", BOUND, AT_ONCE[0], AT_ONCE[1]];
/// An empty folder is taken up as soon as it is there.
const AT_ONCE: [&str; 2] = ["--upkeep-adopt-after", "0s"];
/// Data shards, and volumes, of the node.
const DATA_SHARDS: u64 = 2;
const VOLUMES: u64 = 4;
/// Small and large objects, and bytes of the large, for a moment.
const MOMENT_OBJECTS: (u64, u64, u64) = (200, 4, 2 << 20);
/// Small objects that are read from the healed volumes alone; the large ones are read all.
const CHECKED: u64 = 2000;

#[derive(Debug, Clone, clap::Args)]
pub(super) struct ObjectCounts {
    /// Small objects that the lost volume held
    #[arg(long, default_value_t = 100_000, value_name = "COUNT")]
    small: u64,
    /// Large objects that the lost volume held
    #[arg(long, default_value_t = 200, value_name = "COUNT")]
    large: u64,
}

/// The limit of a heal's bandwidth, and whether clients work beside it.
#[derive(Debug, Clone, Copy)]
struct HealSetting {
    bandwidth: &'static str,
    has_clients: bool,
}

struct StoredObjects {
    small: Keys,
    large: Keys,
    /// Bytes of them that each volume holds.
    held_bytes: u64,
}

pub(super) fn measure(counts: &ObjectCounts, bench: &mut Bench) -> Result<(), Error> {
    let mut node = BenchNode::start(bench, &UNLIMITED)?;
    let mut stored = store(counts, &node, bench.is_moment())?;
    bench.set("small_objects", &stored.small.count());
    bench.set("large_objects", &stored.large.count());
    bench.set("foreground_ops_s", &RATE);
    let speed = bench.device.get("write_mib_s").copied();
    if let Some(speed) = speed {
        let labels = [("part", "heal"), ("bandwidth", "device"), ("foreground", "none")];
        bench.add(Row::new(labels.map(|(name, value)| (name, value.to_owned()))).with("mib_s", speed));
    }
    before(&node, &mut stored.small, bench)?;
    let measured = [(4, "unlimited", false), (3, "unlimited", true), (2, BOUND, true)];
    for (number, bandwidth, has_clients) in measured {
        if bandwidth == BOUND {
            node.restart(&BOUNDED, End::Asked)?;
        }
        let setting = HealSetting { bandwidth, has_clients };
        let seconds = heal(&node, number, setting, &mut stored.small, bench)?.as_secs_f64();
        let rest = node.until_idle(REST_AFTER_HEAL);
        let held = stored.held_bytes as f64 / f64::from(1 << 20);
        let mut row = setting.row("heal").with("seconds", seconds).with("mib_s", held / seconds);
        let mib_of_tib_h = f64::from(1 << 20) / 3600.0;
        row = row.with("held_mib", held).with("tib_h", held / seconds / mib_of_tib_h);
        match rest {
            Some(rest) => row = row.with("rest_seconds", rest.as_secs_f64()),
            None => row.flags.push(format!("the node is still busy {} s later", REST_AFTER_HEAL.as_secs())),
        }
        if let Some(speed) = speed.filter(|speed| *speed > 0.0) {
            row = row.with("of_device_share", held / seconds / speed);
        }
        bench.add(row);
    }
    check(&node, &mut stored, bench)
}

fn store(counts: &ObjectCounts, node: &BenchNode, is_moment: bool) -> Result<StoredObjects, Error> {
    let ObjectCounts { small, large } = *counts;
    let (small_count, large_count, large_bytes) =
        if is_moment { MOMENT_OBJECTS } else { (small, large, LARGE_BYTES) };
    let mut stored = StoredObjects {
        small: node::keys("small", SMALL_BYTES),
        large: node::keys("large", large_bytes),
        held_bytes: small_count * held(SMALL_BYTES) + large_count * held(large_bytes),
    };
    let plan = |clients, count| Plan::new(Op::Put, clients, Limit::Count(count));
    node.fill_as(&plan(LARGE_WRITERS, large_count), large_count, &mut stored.large)?;
    node.fill_as(&plan(SMALL_WRITERS, small_count), small_count, &mut stored.small)?;
    node.spread_commits("fill")?;
    Ok(stored)
}

/// Bytes of an object's body that each volume holds.
fn held(bytes: u64) -> u64 {
    if bytes <= u64::from(INLINE_BYTES_MAX) / VOLUMES { bytes } else { bytes.div_ceil(DATA_SHARDS) }
}

/// Measures the clients while all volumes are online and the node is idle. The figures stand in a row for
/// each bandwidth, which has no effect without a heal.
fn before(node: &BenchNode, small: &mut Keys, bench: &mut Bench) -> Result<(), Error> {
    node.until_idle(REST_BEFORE_CLIENTS);
    let mut foreground = Foreground::new(bench, node, "before", small);
    let windows = if bench.is_moment() { 1 } else { WINDOWS_BEFORE };
    for _ in 0..windows {
        foreground.turn(bench)?;
    }
    for bandwidth in ["unlimited", BOUND] {
        foreground.add_rows(bandwidth, "before", bench);
    }
    Ok(())
}

/// Loses a volume, gives it back, and says how long it took to heal.
fn heal(
    node: &BenchNode,
    number: usize,
    setting: HealSetting,
    small: &mut Keys,
    bench: &mut Bench,
) -> Result<Duration, Error> {
    let admin = node.admin()?;
    let volume = node.volume(number);
    let mut foreground = Foreground::new(bench, node, setting.bandwidth, small);
    node.lose(number)?;
    let is_healed = AtomicBool::new(false);
    let took = thread::scope(|scope| {
        let begin = node.give_back(number)?;
        let watcher = scope.spawn(|| -> Result<Instant, Error> {
            let healed = node::until(admin, HEAL_TIMEOUT, "a volume is healed", |metrics| {
                metrics.volume_state(&volume) == Some("online") && metrics.heal_queue_len() == Some(0.0)
            });
            is_healed.store(true, Ordering::Relaxed);
            healed
        });
        // A turn of clients is always complete: the end of the heal is looked for between turns.
        while setting.has_clients && !is_healed.load(Ordering::Relaxed) {
            foreground.turn(bench)?;
        }
        let end = watcher.join().expect("whoever reads metrics does not panic")?;
        Ok::<_, Error>(end.saturating_duration_since(begin))
    })?;
    if setting.has_clients {
        foreground.add_rows(setting.bandwidth, "healing", bench);
    }
    Ok(took)
}

/// The clients beside a heal: GETs of small objects and PUTs of new ones, in turns.
struct Foreground<'a> {
    node: &'a BenchNode,
    window: Duration,
    small: &'a mut Keys,
    written: Keys,
    outcomes: Vec<(Plan, Outcome)>,
}

impl<'a> Foreground<'a> {
    fn new(bench: &Bench, node: &'a BenchNode, name: &str, small: &'a mut Keys) -> Self {
        Self {
            node,
            window: if bench.is_moment() { MOMENT_FOREGROUND_WINDOW } else { FOREGROUND_WINDOW },
            small,
            written: node::keys(&format!("foreground-{name}"), SMALL_BYTES),
            outcomes: Vec::new(),
        }
    }

    fn turn(&mut self, bench: &mut Bench) -> Result<(), Error> {
        for op in [Op::Get, Op::Put] {
            let limit = Limit::Time(self.window);
            let plan = Plan { rate: Some(RATE), ..Plan::new(op, FOREGROUND_CLIENTS, limit) };
            let keys = if op == Op::Get { &mut *self.small } else { &mut self.written };
            let outcome = self.node.run(&plan, keys)?;
            bench.count_all_but_503(&outcome);
            match self.outcomes.iter_mut().find(|(seen, _)| seen.op == op) {
                Some((_, sum)) => sum.append(outcome),
                None => self.outcomes.push((plan, outcome)),
            }
        }
        Ok(())
    }

    fn add_rows(&self, bandwidth: &str, phase: &str, bench: &mut Bench) {
        for (plan, outcome) in &self.outcomes {
            let labels = [
                ("part", "foreground".to_owned()),
                ("bandwidth", bandwidth.to_owned()),
                ("phase", phase.to_owned()),
            ];
            bench.add(node::row(labels, SMALL_BYTES, plan, outcome));
        }
    }
}

impl HealSetting {
    fn row(self, part: &str) -> Row {
        let foreground = if self.has_clients { "clients" } else { "none" };
        let labels = [("part", part), ("bandwidth", self.bandwidth), ("foreground", foreground)];
        Row::new(labels.map(|(name, value)| (name, value.to_owned())))
    }
}

/// Takes away the volume that was healed last and the one that never was: two healed ones are left, and
/// must give everything back, byte by byte.
fn check(node: &BenchNode, stored: &mut StoredObjects, bench: &mut Bench) -> Result<(), Error> {
    node.spread_commits("check")?;
    for number in [1, 2] {
        node.lose(number)?;
    }
    let StoredObjects { small, large, .. } = stored;
    for (keys, clients, count) in [(small, FOREGROUND_CLIENTS, CHECKED), (large, LARGE_WRITERS, u64::MAX)] {
        let count = count.min(keys.count());
        let outcome = node.run(&Plan::new(Op::Get, clients, Limit::Count(count)), keys)?;
        bench.count(&outcome);
        if outcome.tally.ops < count {
            bench.fault("the healed volumes do not give everything back");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_holds_small_objects_whole_and_half_of_larger_ones() {
        assert_eq!([1, 4096, 8192, 8193, 16 << 20].map(held), [1, 4096, 8192, 4097, 8 << 20]);
    }
}
