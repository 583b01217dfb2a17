//! A plain loopback socket: blocking calls of two threads, nothing above them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

use super::ends::{BoxError, UNITS, connected, ended, named};
use super::gauge::{Gauge, Pass, timed};
use super::payload::{Check, Payload};
use crate::question::error::Error;

/// Measures writes of each unit, read into a buffer of as many bytes.
pub(super) fn measure(gauge: &mut Gauge<'_>) -> Result<(), Error> {
    for unit in UNITS {
        let payload = gauge.payload.clone();
        let (mut near, mut far) = connected().map_err(Error::at("connect over loopback"))?;
        gauge.measure("socket", &named(unit), |bytes, check| {
            thread::scope(|scope| {
                let sender = scope.spawn(|| timed(|| send(&mut near, &payload, unit, bytes)));
                let (is_right, received) = timed(|| receive(&mut far, &payload, unit, bytes, check));
                let (result, sent) = sender.join().expect("a sender does not panic");
                result?;
                Ok(Pass { is_right: is_right?, sent: Some(sent), received: Some(received) })
            })
        })?;
    }
    Ok(())
}

pub(super) fn send(
    socket: &mut TcpStream,
    payload: &Payload,
    unit: usize,
    bytes: u64,
) -> Result<(), BoxError> {
    for piece in payload.pieces(unit, bytes) {
        socket.write_all(&piece)?;
    }
    Ok(())
}

/// Receives `bytes`, and says whether they are right.
pub(super) fn receive(
    socket: &mut TcpStream,
    payload: &Payload,
    unit: usize,
    bytes: u64,
    check: Check,
) -> Result<bool, BoxError> {
    let (mut arrival, mut buffer) = (payload.arrival(check), vec![0; unit]);
    while arrival.count() < bytes {
        let count = socket.read(&mut buffer)?;
        if count == 0 {
            return Err(ended("the sender"));
        }
        arrival.take(&buffer[..count]);
    }
    Ok(arrival.is_whole(bytes))
}
