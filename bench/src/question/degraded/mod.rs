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

use super::{Bench, Error, Page};

/// What may be on the device at one time: PUTs of large objects, and what they replaced.
const FREE_BYTES: u64 = 12 << 30;

/// What is measured.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// Small objects that the lost volume held
    #[arg(long, default_value_t = 100_000, value_name = "COUNT")]
    small: u64,
    /// Large objects that the lost volume held
    #[arg(long, default_value_t = 200, value_name = "COUNT")]
    large: u64,
}

impl Page for Arguments {
    fn name(&self) -> &'static str {
        "degraded"
    }

    fn device_bytes(&self) -> u64 {
        FREE_BYTES
    }

    fn round(&self, bench: &mut Bench, _: usize) -> Result<(), Error> {
        requests::round(bench)
    }

    fn once(&self, bench: &mut Bench) -> Result<(), Error> {
        heal::measure(self, bench)
    }
}
