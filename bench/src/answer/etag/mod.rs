//! ETags: what MD5 costs a core, and what it costs a PUT.
//!
//! Two tables, told apart by the label `part`. `lanes`: several streams hashed side by side, against one
//! after the other with the `md-5` crate. `put`: PUTs to a node as it comes, and to one with `etag = "fast"`,
//! which hashes no MD5 where the client sends a checksum of its own.

mod lanes;
mod put;

use std::path::PathBuf;

use super::Error;
use super::served::{Ledger, Served};

/// What may be on the device at one time.
const FREE_BYTES: u64 = 12 << 30;

/// What is measured.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    served: Served,
    /// Tables to make
    #[arg(long, value_enum, value_delimiter = ',', default_value = "lanes,put")]
    parts: Vec<Part>,
}

/// The tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Hashing alone
    Lanes,
    /// Whole PUTs
    Put,
}

/// Makes the tables and writes them.
///
/// # Errors
/// [`Error`].
pub fn run(arguments: &Arguments) -> Result<PathBuf, Error> {
    let common = &arguments.served.common;
    let started = common.begin()?;
    let device = common.device()?;
    let mut ledger = Ledger::default();
    if arguments.parts.contains(&Part::Lanes) {
        for row in lanes::rows(common.window()).map_err(Error::at("hash in lanes"))? {
            ledger.add(row);
        }
    }
    if arguments.parts.contains(&Part::Put) {
        arguments.served.require_room(FREE_BYTES)?;
        put::measure(arguments, &mut ledger)?;
    }
    arguments.served.finish("etag", started, device, ledger)
}
