//! Small objects in the row, packed in the log, or in files. Decides `inline_max` and `pack_max`.
//!
//! Three nodes with different settings run side by side and are measured in turns; two are idle at any time.
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
use std::{fs, io};

use hdrhistogram::Histogram;

use super::bench::Bench;
use super::error::Error;
use super::node::{self, BenchNode};
use super::page::Page;
use crate::limits::SYNC_NS_MAX;
use crate::load::keys::Keys;
use crate::load::run::Plan;
use crate::load::schedule::Limit;
use crate::load::sizes::Size;
use crate::load::work::Op;
use crate::result::Row;

/// The nodes: flags, and the largest object that is measured on them.
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

/// No options of its own.
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
            nodes.push((variant, BenchNode::start(bench, flags)?, most));
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
fn objects(
    bench: &mut Bench,
    node: &BenchNode,
    variant: &str,
    bytes: u64,
    clients: usize,
) -> Result<(), Error> {
    let mut keys = node::keys(&format!("{}-{clients}", Size(bytes)), bytes);
    // The node writes out nothing of earlier cases during this one.
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
fn lone(bench: &mut Bench, nodes: &[(&str, BenchNode, u64)]) -> Result<(), Error> {
    let folder = bench.folder()?;
    let count = if bench.is_moment() { 5 } else { SYNCS };
    let synced = |files: usize| synced(folder.path(), files, count).map_err(Error::at("sync files"));
    let (one, four) = (synced(1)?, synced(4)?);
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

/// The median of `count` rounds, in microseconds. A round writes 4 KiB to `files` files at once, over blocks
/// that were written before, and syncs them.
#[expect(clippy::cast_precision_loss, reason = "a minute is far below 2^53 ns")]
fn synced(folder: &Path, files: usize, count: u64) -> io::Result<f64> {
    let made = (0..files).map(|number| fill(&folder.join(format!("{files}-{number}")), SYNCED_BYTES));
    let files = made.collect::<io::Result<Vec<_>>>()?;
    let mut latencies: Histogram<u64> =
        Histogram::new_with_bounds(1, SYNC_NS_MAX, 3).expect("bounds and digits are in range");
    for number in 0..count {
        let begun = Instant::now();
        let at = number * LONE_BYTES % SYNCED_BYTES;
        thread::scope(|scope| {
            let sync = |file: &fs::File| file.write_all_at(&[1; 4 << 10], at).and_then(|()| file.sync_data());
            let threads: Vec<_> = files[1..].iter().map(|file| scope.spawn(move || sync(file))).collect();
            let first = sync(&files[0]);
            threads.into_iter().fold(first, |all, thread| all.and(thread.join().expect("no panic")))
        })?;
        latencies.saturating_record(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    Ok(latencies.value_at_quantile(0.5) as f64 / 1000.0)
}

/// Makes a file of `bytes` zeros and syncs it, so that later writes change nothing but bytes.
fn fill(path: &Path, bytes: u64) -> io::Result<fs::File> {
    const STRIDE_BYTES: usize = 1 << 20;
    let file = fs::File::create(path)?;
    for offset in (0..bytes).step_by(STRIDE_BYTES) {
        file.write_all_at(&vec![0; STRIDE_BYTES], offset)?;
    }
    file.sync_all()?;
    Ok(file)
}
