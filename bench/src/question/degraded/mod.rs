//! Lost volumes: the cost of requests meanwhile, and the speed of a heal.
//!
//! Two tables by the label `part`. `requests`: GET and PUT with all four volumes, with one gone,
//! and with m = 2 gone, where what is stored is still read and every PUT must be refused with 503. `heal`:
//! a volume that held its share of many small and some large objects comes back empty; `foreground` are the
//! clients before it and beside it.
//!
//! A volume is lost by removing its folder under the running node, and comes back as an empty one.

mod heal;
mod requests;

use crate::question::bench::Bench;
use crate::question::error::Error;
use crate::question::page::Page;

/// Most bytes on the device at one time: PUTs of large objects, and those that they replaced.
const FREE_BYTES: u64 = 16 << 30;

/// Options of the question.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    counts: heal::ObjectCounts,
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
        heal::measure(&self.counts, bench)
    }
}
