//! Both ends of a connection, in this process: their sockets, their threads, and the units that pass.

use std::net::{TcpListener, TcpStream};
use std::{fmt, io};

use tokio::runtime::Runtime;

use crate::load::sizes::Size;
use crate::question::error::Error;

/// Bytes of one write to a socket, of one frame, of one piece of a body: as the store has them, and as large
/// as they may become.
pub(super) const UNITS: [usize; 2] = [256 << 10, 1 << 20];
/// Threads that the asynchronous ways run on, the two ends among them.
pub(super) const THREADS: usize = 2;
/// Why bytes were not moved.
pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A unit as rows and people call it.
pub(super) fn named(unit: usize) -> String {
    Size(unit as u64).to_string()
}

pub(super) fn runtime() -> Result<Runtime, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
    runtime.map_err(Error::at("start the threads of a runtime"))
}

/// Two ends of a loopback connection.
pub(super) fn connected() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    for end in [&near, &far] {
        end.set_nodelay(true)?;
    }
    Ok((near, far))
}

/// Two connected sockets as of `connected`, for tasks. To be called within a runtime.
pub(super) fn connected_async() -> io::Result<(tokio::net::TcpStream, tokio::net::TcpStream)> {
    let (near, far) = connected()?;
    near.set_nonblocking(true)?;
    far.set_nonblocking(true)?;
    Ok((tokio::net::TcpStream::from_std(near)?, tokio::net::TcpStream::from_std(far)?))
}

/// The error of a peer that ended too early.
pub(super) fn ended(what: impl fmt::Display) -> BoxError {
    format!("{what} ended too early").into()
}
