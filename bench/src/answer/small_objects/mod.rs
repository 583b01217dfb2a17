//! Small objects: where their bytes go, and what that costs.
//!
//! Four tables, told apart by the label `part`. `shards`: one shard on one volume, packed in the log or
//! in a file of its own, which decides `pack_max`. `objects`: a whole PUT and GET over four volumes, in
//! the row, packed or in files, which decides `inline_max`. `lone`: one 4 KiB PUT beside the device's own
//! fdatasync. `compaction`: what the foreground pays while old segments are being copied.

mod compaction;
mod lone;
mod objects;
mod shards;

use std::path::PathBuf;

use super::rounds::Rounds;
use super::{Common, Error};

/// What is measured.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Tables to make
    #[arg(long, value_enum, value_delimiter = ',', default_value = "shards,objects,lone,compaction")]
    parts: Vec<Part>,
    /// MiB that one measurement writes at most, beside one shard for each writer
    #[arg(long, default_value_t = 128, value_name = "MIB")]
    mib: u64,
}

/// The tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// One shard on one volume
    Shards,
    /// Whole objects over four volumes
    Objects,
    /// One client
    Lone,
    /// Beside a compaction
    Compaction,
}

impl Arguments {
    /// Operations of one measurement at most.
    fn ops_max(&self, bytes: u64, clients: usize) -> u64 {
        let allowed = if self.common.moment { 1 << 20 } else { self.mib << 20 };
        (allowed / bytes.max(1)).max(clients as u64)
    }
}

/// Makes the tables and writes them.
///
/// # Errors
/// [`Error`].
pub fn run(arguments: &Arguments) -> Result<PathBuf, Error> {
    let started = arguments.common.begin()?;
    let runtime = super::runtime()?;
    let mut rounds = Rounds::default();
    for _ in 0..arguments.common.rounds() {
        for part in &arguments.parts {
            match part {
                Part::Shards => runtime.block_on(shards::round(arguments, &mut rounds))?,
                Part::Objects => runtime.block_on(objects::round(arguments, &mut rounds))?,
                Part::Lone => runtime.block_on(lone::round(arguments, &mut rounds))?,
                Part::Compaction => compaction::round(&runtime, arguments, &mut rounds)?,
            }
        }
    }
    arguments.common.write("small-objects", started, rounds.rows())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::a_moment;
    use crate::result::Results;

    #[test]
    fn every_table_has_its_rows_after_a_moment() {
        let folder = tempfile::tempdir().unwrap();
        let parts = vec![Part::Shards, Part::Objects, Part::Lone, Part::Compaction];
        let arguments = Arguments { common: a_moment(folder.path()), parts, mib: 1 };
        let results = Results::read(&run(&arguments).unwrap()).unwrap();
        for labels in [
            [("part", "shards"), ("variant", "packed"), ("op", "put")],
            [("part", "shards"), ("variant", "file"), ("op", "get")],
            [("part", "objects"), ("variant", "inline"), ("op", "put")],
            [("part", "lone"), ("variant", "fdatasync"), ("op", "sync")],
            [("part", "compaction"), ("variant", "unthrottled"), ("op", "put")],
        ] {
            let row = results.rows.iter().find(|row| row.is(&labels));
            let row = row.unwrap_or_else(|| panic!("no row {labels:?}"));
            assert!(row.figure("p50_us").is_some_and(|us| us > 0.0), "{row:?}");
        }
    }
}
