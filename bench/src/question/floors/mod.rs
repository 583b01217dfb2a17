//! Floors of large objects: what one core moves in a second, layer by layer, on this machine.
//!
//! ```text
//! socket    loopback, plain                      code     MD5, BLAKE3, erasure code, a copy
//! tls       records over it, several ways        device   past the page cache, and through it
//! http      bodies of HTTP/1 and of HTTP/2       shard    a shard to and from another node
//! ```
//! `core_mib_s` is what one second of a core moves with the processor time of both ends counted, since the
//! process is both ends. `sender_core_mib_s` and `receiver_core_mib_s` count one end each, where it is a
//! thread of its own. `wall_mib_s` is the rate by the clock. A first pass of each way compares every byte
//! with the one that was sent; measured passes count them.

mod certificates;
mod code;
mod device;
mod ends;
mod gauge;
mod http;
mod node_pair;
mod payload;
mod shard;
mod socket;
mod tls;

use crate::question::bench::Bench;
use crate::question::error::Error;
use crate::question::page::Page;
use gauge::Gauge;

/// Bytes on the device at one time: the file of the device's rows and the shards of one pass.
const DEVICE_BYTES: u64 = 2 << 30;

/// No options of its own.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {}

impl Page for Arguments {
    fn name(&self) -> &'static str {
        "floors"
    }

    fn device_bytes(&self) -> u64 {
        DEVICE_BYTES
    }

    fn round(&self, bench: &mut Bench, _: usize) -> Result<(), Error> {
        let mut gauge = Gauge::new(bench);
        gauge.state();
        socket::measure(&mut gauge)?;
        tls::measure(&mut gauge)?;
        http::measure(&mut gauge)?;
        code::measure(&mut gauge)?;
        device::measure(&mut gauge)?;
        shard::measure(&mut gauge)
    }
}
