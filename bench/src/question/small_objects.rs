//! Small objects: where their bytes go, and what that costs. Decides `inline_max` and `pack_max`.
//!
//! Three nodes, told apart by their settings, run side by side and are measured in turns; two are idle at any
//! time.
//!
//! ```text
//! inline   up to `inline_max`   whole in the row of every volume: one sync
//! packed   up to `pack_max`     shards in the log, then the row: two syncs one after the other
//! file     any size             a file for each shard, then the row
//! ```
//! Two tables by the label `part`: `objects` is PUT and GET of each size, `lone` one client's PUT of 4 KiB
//! beside the device's own sync of one file and of four at once, which is what four volumes on one device
//! must do.

use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::thread;
use std::time::Instant;

use super::crowd::{Latencies, new_latencies, note, us};
use super::node::{self, Node};
use super::{Bench, Error, Page, fill};
use crate::load::keys::Keys;
use crate::load::run::Plan;
use crate::load::schedule::Limit;
use crate::load::sizes::Size;
use crate::load::work::Op;
use crate::result::Row;

/// The nodes: flags, and the largest object that goes there.
const WAYS: [(&str, &[&str], u64); 3] = [
    ("inline", &["--inline-max", "32KiB"], 8 << 10),
    ("packed", &["--inline-max", "0", "--pack-max", "256KiB"], 512 << 10),
    ("file", &["--inline-max", "0", "--pack-max", "0"], u64::MAX),
];
const SIZES: [u64; 9] = [4 << 10, 256 << 10, 512, 8 << 10, 16 << 10, 64 << 10, 128 << 10, 512 << 10, 1 << 20];
const CLIENTS: [usize; 2] = [1, 32];
/// A lone PUT.
const LONE_BYTES: u64 = 4 << 10;
const LONE_PUTS: u64 = 300;
/// Bytes of a file that is synced, and syncs.
const SYNCED_BYTES: u64 = 16 << 20;
const SYNCS: u64 = 300;

/// What is measured.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {}

impl Page for Arguments {
    fn name(&self) -> &'static str {
        "small-objects"
    }

    fn device_bytes(&self) -> u64 {
        16 << 30
    }

    fn round(&self, bench: &mut Bench, _: usize) -> Result<(), Error> {
        let mut nodes = Vec::new();
        for (variant, flags, most) in WAYS {
            nodes.push((variant, Node::start(bench, flags)?, most));
        }
        for bytes in bench.some(&SIZES, 2).to_vec() {
            for clients in CLIENTS {
                for (variant, node, most) in &nodes {
                    if bytes <= *most {
                        objects(bench, node, variant, bytes, clients)?;
                    }
                }
            }
        }
        lone(bench, &nodes)
    }
}

/// PUTs of new objects, then GETs of them.
fn objects(bench: &mut Bench, node: &Node, variant: &str, bytes: u64, clients: usize) -> Result<(), Error> {
    let mut keys = node::keys(&format!("{}-{clients}", Size(bytes)), bytes);
    // What was measured before is not written out during this.
    node.until_idle(bench.window() * 5);
    let put = Plan::new(Op::Put, clients, Limit::Time(bench.window()));
    let get = Plan::new(Op::Get, clients, Limit::Time(bench.window() / 4));
    for plan in [put, get] {
        let outcome = node.run(&plan, &mut keys)?;
        bench.count(&outcome);
        let labels = [("part", "objects".to_owned()), ("variant", variant.to_owned())];
        bench.add(node::row(labels, bytes, &plan, &outcome));
    }
    Ok(())
}

/// One client's PUTs beside syncs of the device.
fn lone(bench: &mut Bench, nodes: &[(&str, Node, u64)]) -> Result<(), Error> {
    let folder = bench.folder()?;
    let count = if bench.is_moment() { 5 } else { SYNCS };
    let synced = |files: usize| synced(folder.path(), files, count).map_err(Error::at("sync files"));
    let (one, four) = (us(&synced(1)?, 0.5), us(&synced(4)?, 0.5));
    let row = |variant: &str, p50_us: f64| {
        let labels = [("part", "lone"), ("variant", variant), ("size", "4KiB"), ("clients", "1")];
        Row::new(labels.map(|(name, value)| (name, value.to_owned())))
            .with("p50_us", p50_us)
            .with("of_two_syncs", p50_us / (2.0 * one))
            .with("of_four_at_once", p50_us / four)
    };
    bench.add(row("fdatasync", one));
    bench.add(row("fdatasync-four", four));
    for (variant, node, _) in nodes.iter().filter(|(variant, ..)| *variant != "file") {
        let count = if bench.is_moment() { 5 } else { LONE_PUTS };
        let mut keys: Keys = node::keys("lone", LONE_BYTES);
        let outcome = node.run(&Plan::new(Op::Put, 1, Limit::Count(count)), &mut keys)?;
        bench.count(&outcome);
        // Every byte of what was written is read again.
        bench.count(&node.run(&Plan::new(Op::Get, 1, Limit::Count(count)), &mut keys)?);
        bench.add(row(&format!("object-{variant}"), outcome.tally.latency_us(50.0)));
    }
    Ok(())
}

/// Rounds of a 4 KiB write and a sync of so many files at once, whose blocks were all written before.
fn synced(folder: &Path, files: usize, count: u64) -> std::io::Result<Latencies> {
    let made = (0..files).map(|number| fill(&folder.join(format!("{files}-{number}")), SYNCED_BYTES, 0));
    let files = made.collect::<std::io::Result<Vec<_>>>()?;
    let mut latencies = new_latencies();
    for number in 0..count {
        let begun = Instant::now();
        let at = number * LONE_BYTES % SYNCED_BYTES;
        thread::scope(|scope| {
            let sync =
                |file: &std::fs::File| file.write_all_at(&[1; 4 << 10], at).and_then(|()| file.sync_data());
            let threads: Vec<_> = files[1..].iter().map(|file| scope.spawn(move || sync(file))).collect();
            let first = sync(&files[0]);
            threads.into_iter().fold(first, |all, thread| all.and(thread.join().expect("no panic")))
        })?;
        note(&mut latencies, begun.elapsed());
    }
    Ok(latencies)
}
