//! Volumes that are gone: what requests cost then, and how fast a volume that was lost is healed.
//!
//! Two tables, told apart by the label `part`. `requests`: GET and PUT with all four volumes, with one gone,
//! and with m = 2 gone, where what is stored is still read and every PUT must be refused with 503. `heal`:
//! a volume that held its share of many small and some large objects comes back empty; beside it
//! `foreground` says what clients see before and meanwhile.
//!
//! A volume is lost by removing its folder under the running node, and comes back as an empty one.

mod heal;
mod requests;

use std::path::PathBuf;

use super::Error;
use super::rounds::Rounds;
use super::served::{Ledger, Served};
use crate::load::sizes::Size;

/// What may be on the device at one time: PUTs of large objects, and what they replaced.
const FREE_BYTES: u64 = 12 << 30;

/// What is measured.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    served: Served,
    /// Tables to make
    #[arg(long, value_enum, value_delimiter = ',', default_value = "requests,heal")]
    parts: Vec<Part>,
    /// Small objects that the lost volume held
    #[arg(long, default_value_t = 100_000, value_name = "COUNT")]
    small: u64,
    /// Size of a small object
    #[arg(long, default_value = "4KiB", value_name = "SIZE")]
    small_size: Size,
    /// Large objects that the lost volume held
    #[arg(long, default_value_t = 200, value_name = "COUNT")]
    large: u64,
    /// Size of a large object
    #[arg(long, default_value = "16MiB", value_name = "SIZE")]
    large_size: Size,
    /// PUTs, and as many GETs, per second of the clients beside a heal, begun whether earlier ones have
    /// ended or not
    #[arg(long, default_value_t = 200.0, value_name = "PER_SECOND")]
    rate: f64,
    /// Seconds that the node may take to come to rest behind a heal, before the next one
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    rest: u64,
}

/// The tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Requests while volumes are gone
    Requests,
    /// A volume that comes back, and the clients meanwhile
    Heal,
}

/// Makes the tables and writes them.
///
/// # Errors
/// [`Error`].
pub fn run(arguments: &Arguments) -> Result<PathBuf, Error> {
    let common = &arguments.served.common;
    let started = common.begin()?;
    arguments.served.require_room(FREE_BYTES)?;
    let device = common.device()?;
    let mut ledger = Ledger::default();
    if arguments.parts.contains(&Part::Requests) {
        let mut rounds = Rounds::default();
        for _ in 0..common.rounds() {
            requests::round(arguments, &mut rounds, &mut ledger)?;
        }
        for row in rounds.rows() {
            ledger.add(row);
        }
    }
    if arguments.parts.contains(&Part::Heal) {
        heal::measure(arguments, &device, &mut ledger)?;
    }
    arguments.served.finish("degraded", started, device, ledger)
}
