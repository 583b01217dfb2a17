//! How bytes get onto the device: files of large shards, the log's segments, and the threads that write.
//!
//! Three tables, told apart by the label `part`. `files`: page cache and when it is written back, against
//! O_DIRECT. `log`: what a segment is before it is written to, and how a frame is made durable. `threads`:
//! how many threads of a volume write shard files, and read them.

mod files;
mod log;
mod threads;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::rounds::Rounds;
use super::{Common, Error};

/// What is measured.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Tables to make
    #[arg(long, value_enum, value_delimiter = ',', default_value = "files,log,threads")]
    parts: Vec<Part>,
    /// MiB that one measurement writes at most, beside one file for each writer
    #[arg(long, default_value_t = 256, value_name = "MIB")]
    mib: u64,
}

/// The tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Files of large shards
    Files,
    /// Segments and frames
    Log,
    /// Threads of a volume
    Threads,
}

impl Arguments {
    /// Files of one measurement at most.
    fn ops_max(&self, bytes: u64, clients: usize) -> u64 {
        let allowed = if self.common.moment { 1 << 20 } else { self.mib << 20 };
        (allowed / bytes).max(clients as u64)
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
                Part::Files => runtime.block_on(files::round(arguments, &mut rounds))?,
                Part::Log => log::round(arguments, &mut rounds)?,
                Part::Threads => runtime.block_on(threads::round(arguments, &mut rounds))?,
            }
        }
    }
    arguments.common.write("write-path", started, rounds.rows())
}

/// Fills a file from its start and syncs it, so that later writes change nothing but bytes.
fn fill(path: &Path, bytes: u64, with: &[u8]) -> io::Result<File> {
    let file = File::create(path)?;
    for offset in (0..bytes).step_by(with.len()) {
        file.write_all_at(with, offset)?;
    }
    file.sync_all()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::a_moment;
    use crate::result::Results;

    #[test]
    fn every_table_has_its_rows_after_a_moment() {
        let folder = tempfile::tempdir().unwrap();
        let parts = vec![Part::Files, Part::Log, Part::Threads];
        let arguments = Arguments { common: a_moment(folder.path()), parts, mib: 1 };
        let results = Results::read(&run(&arguments).unwrap()).unwrap();
        for labels in [
            [("part", "files"), ("variant", "direct"), ("op", "put")],
            [("part", "files"), ("variant", "write-back-1MiB"), ("op", "put")],
            [("part", "log"), ("variant", "recycled"), ("op", "append")],
            [("part", "threads"), ("variant", "2"), ("op", "put")],
            [("part", "threads"), ("variant", "2"), ("op", "get")],
        ] {
            let row = results.rows.iter().find(|row| row.is(&labels));
            let row = row.unwrap_or_else(|| panic!("no row {labels:?}"));
            assert!(row.figure("p50_us").is_some_and(|us| us > 0.0), "{row:?}");
        }
    }
}
