//! A bucket that grows: the cost of PUT and LIST by the number of keys, and memory, disk and time to start of
//! a node with many keys.
//!
//! Tables by the label `part`: `put` is each tenth of the fill, by a closed loop of many clients; `list` is
//! pages of 1,000 with and without a delimiter when 1, 10 and 100 % of the keys are there; `start` is the
//! time until the node answers after a kill right behind PUTs and after clean stops; `end` is memory, and
//! blocks on the device for each object; `check` reads random keys after all of that.

#![expect(clippy::cast_precision_loss, reason = "figures are for people: three digits of them count")]

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::{fs, io};

use super::bench::Bench;
use super::error::Error;
use super::node::{self, BenchNode};
use super::page::Page;
use super::rounds::median;
use crate::limits::{MOMENT_PAGE, PAGE, REST_AFTER_FILL};
use crate::load::keys::Keys;
use crate::load::run::{Outcome, Plan};
use crate::load::schedule::Limit;
use crate::load::sizes::Size;
use crate::load::work::Op;
use crate::result::Row;
use crate::subject::End;

const WRITERS: usize = 128;
const READERS: usize = 32;
/// Parts that the fill is measured in.
const TENTHS: u64 = 10;
const MOMENT_KEYS: u64 = 3000;
/// Divisor: one hundredth of the number of keys is written once more, under other names, right before the
/// kill.
const LATE_PART: u64 = 100;
/// Keys that are read at the end.
const CHECKED: u64 = 20_000;
/// Most bytes on the device for each byte of an object, and bytes of a node without objects.
const DISK_OF_PAYLOAD: u64 = 8;
const EMPTY_BYTES: u64 = 4 << 30;
const MIB: f64 = (1 << 20) as f64;

/// Options of the question.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// Keys that the bucket grows to
    #[arg(long, default_value_t = 1_000_000, value_name = "COUNT")]
    keys: u64,
    /// Size of each object
    #[arg(long, default_value = "1KiB", value_name = "SIZE")]
    size: Size,
}

impl Page for Arguments {
    fn name(&self) -> &'static str {
        "growth"
    }

    fn device_bytes(&self) -> u64 {
        EMPTY_BYTES + self.keys * self.size.0 * DISK_OF_PAYLOAD
    }

    fn once(&self, bench: &mut Bench) -> Result<(), Error> {
        let count = if bench.is_moment() { self.keys.min(MOMENT_KEYS) } else { self.keys }.max(100);
        let node = BenchNode::start(bench, &[])?;
        bench.set("keys", &count);
        let mut keys = node::keys("grown", self.size.0);
        keys.folder_digits = Op::ListFolders.folder_digits();
        let late = node::keys("late", self.size.0);
        let mut bucket = Bucket { arguments: self, node, keys, late, count };
        let empty_bytes = bucket.disk_bytes()?;
        bucket.grow(bench)?;
        let memory = bucket.node.memory();
        bucket.start_again(bench)?;
        bucket.node.until_idle(REST_AFTER_FILL);
        let objects = (count + bucket.late.count()) as f64;
        let disk = bucket.disk_bytes()?.saturating_sub(empty_bytes) as f64 / objects;
        let end = Row::new([("part", "end".to_owned()), ("size", self.size.to_string())])
            .with("server_anon_mib", memory as f64 / MIB)
            .with("started_anon_mib", bucket.node.memory() as f64 / MIB)
            .with("disk_object_bytes", disk)
            .with("disk_of_payload", disk / self.size.0 as f64);
        bench.add(end);
        bucket.check(bench)
    }
}

struct Bucket<'a> {
    arguments: &'a Arguments,
    node: BenchNode,
    keys: Keys,
    /// Keys that are written right before the node is killed.
    late: Keys,
    /// Keys that it grows to.
    count: u64,
}

impl Bucket<'_> {
    /// Writes all keys, a tenth at a time, and lists on the way.
    fn grow(&mut self, bench: &mut Bench) -> Result<(), Error> {
        for tenth in 1..=TENTHS {
            let mut outcome: Option<Outcome> = None;
            let plan = |count| Plan::new(Op::Put, WRITERS, Limit::Count(count));
            let shares = if tenth == 1 { vec![1, 10] } else { vec![tenth * 10] };
            for percent in shares {
                let wanted = self.count * percent / 100;
                let plan = plan(wanted.saturating_sub(self.keys.count()));
                let part = self.node.fill_as(&plan, wanted, &mut self.keys)?;
                match (&mut outcome, part) {
                    (Some(outcome), Some(part)) => outcome.append(part),
                    (None, part) => outcome = part,
                    (Some(_), None) => {}
                }
                if matches!(percent, 1 | 10 | 100) {
                    self.list(percent, bench)?;
                }
            }
            if let Some(outcome) = outcome {
                bench.count(&outcome);
                let labels = [("part", "put".to_owned()), ("tenth", tenth.to_string())];
                bench.add(node::row(labels, self.arguments.size.0, &plan(0), &outcome));
            }
        }
        Ok(())
    }

    /// Pages from random places, with and without a delimiter.
    fn list(&mut self, percent: u64, bench: &mut Bench) -> Result<(), Error> {
        self.node.until_idle(REST_AFTER_FILL);
        for op in [Op::List, Op::ListFolders] {
            let page = if bench.is_moment() { MOMENT_PAGE } else { PAGE };
            let warm_up = bench.window() / 4;
            let plan = Plan { warm_up, page, ..Plan::new(op, 1, Limit::Time(bench.window())) };
            let outcome = self.node.run(&plan, &mut self.keys)?;
            bench.count(&outcome);
            let labels = [("part", "list".to_owned()), ("filled_percent", percent.to_string())];
            bench.add(node::row(labels, self.arguments.size.0, &plan, &outcome));
        }
        Ok(())
    }

    /// Ends the node and starts it again: killed once, right behind some more PUTs, then stopped in order.
    fn start_again(&mut self, bench: &mut Bench) -> Result<(), Error> {
        let started = |end: &str, ready_ms| {
            Row::new([("part", "start".to_owned()), ("end", end.to_owned())]).with("ready_ms", ready_ms)
        };
        let late = self.count / LATE_PART;
        let plan = Plan::new(Op::Put, WRITERS, Limit::Count(late));
        self.node.fill_as(&plan, late, &mut self.late)?;
        let killed = self.node.restart(&[], End::Killed)?;
        bench.add(started("killed", killed.as_secs_f64() * 1000.0));
        let mut starts = Vec::new();
        for _ in 0..bench.rounds() {
            // The node finishes the work after a start before it is stopped, as it usually has in operation.
            self.node.until_idle(REST_AFTER_FILL);
            starts.push(self.node.restart(&[], End::Asked)?.as_secs_f64() * 1000.0);
        }
        bench.add(started("clean", median(starts)));
        Ok(())
    }

    /// Reads random keys, and some of those that were written right before the kill.
    fn check(&mut self, bench: &mut Bench) -> Result<(), Error> {
        for (which, keys) in [("grown", &mut self.keys), ("late", &mut self.late)] {
            let plan = Plan::new(Op::Get, READERS, Limit::Count(CHECKED.min(keys.count())));
            let outcome = self.node.run(&plan, keys)?;
            bench.count(&outcome);
            let labels = [("part", "check".to_owned()), ("keys", which.to_owned())];
            bench.add(node::row(labels, self.arguments.size.0, &plan, &outcome));
        }
        Ok(())
    }

    /// Bytes of all blocks of the device that the volumes hold.
    fn disk_bytes(&self) -> Result<u64, Error> {
        blocks(self.node.folder()).map_err(Error::at("count the volumes' blocks"))
    }
}

/// Bytes of all blocks below a folder. Files that are removed meanwhile do not count.
fn blocks(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let found = entry.metadata().and_then(|metadata| {
            Ok(if metadata.is_dir() { blocks(&entry.path())? } else { metadata.blocks() * 512 })
        });
        match found {
            Ok(found) => bytes += found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_counted_through_all_folders_and_holes_are_not() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("below")).unwrap();
        fs::write(folder.path().join("below/full"), vec![1; 100_000]).unwrap();
        fs::File::create(folder.path().join("hole")).unwrap().set_len(1 << 30).unwrap();
        let bytes = blocks(folder.path()).unwrap();
        assert!((100_000..1 << 20).contains(&bytes), "{bytes}");
        assert!(blocks(&folder.path().join("nothing")).is_err());
    }
}
