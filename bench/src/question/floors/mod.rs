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
mod gauge;
mod http;
mod node_pair;
mod payload;
mod shard;
mod socket;
mod tls;

use std::net::{TcpListener, TcpStream};
use std::{fmt, io};

use tokio::runtime::Runtime;

use crate::question::bench::Bench;
use crate::question::error::Error;
use crate::question::page::Page;
use gauge::Gauge;

/// Bytes of one write to a socket, of one frame, of one piece of a body: as the store has them, and as large
/// as they may become.
const UNITS: [usize; 2] = [256 << 10, 1 << 20];
/// Threads that the asynchronous ways run on, the two ends among them.
const THREADS: usize = 2;
/// Bytes on the device at one time: the file of the device's rows and the shards of one pass.
const DEVICE_BYTES: u64 = 2 << 30;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

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

/// A unit as rows and people call it.
fn named(unit: usize) -> String {
    crate::load::sizes::Size(unit as u64).to_string()
}

fn runtime() -> Result<Runtime, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
    runtime.map_err(Error::at("start the threads of a runtime"))
}

/// Two ends of a loopback connection.
fn connected() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    for end in [&near, &far] {
        end.set_nodelay(true)?;
    }
    Ok((near, far))
}

/// The same for tasks. To be called within a runtime.
fn connected_async() -> io::Result<(tokio::net::TcpStream, tokio::net::TcpStream)> {
    let (near, far) = connected()?;
    near.set_nonblocking(true)?;
    far.set_nonblocking(true)?;
    Ok((tokio::net::TcpStream::from_std(near)?, tokio::net::TcpStream::from_std(far)?))
}

/// The error of a peer that ended too early.
fn ended(what: impl fmt::Display) -> BoxError {
    format!("{what} ended too early").into()
}
