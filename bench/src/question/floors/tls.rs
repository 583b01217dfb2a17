//! TLS 1.3 over the socket: rustls as tokio-rustls drives it, with larger reads and writes beneath it, and
//! its records alone.
//!
//! ```text
//! 256KiB, 1MiB             write_all of a unit, reads of as many: rustls reads its socket by 4 KiB
//! buffered-256KiB, -1MiB   the socket is read through a buffer; a unit is encrypted whole, then sent
//! records-1MiB             AES-256-GCM of 16 KiB in place, in a buffer of a unit: what no TLS is faster than
//! ```

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::thread;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use super::certificates::Sides;
use super::ends::{BoxError, UNITS, connected, connected_async, ended, named, runtime};
use super::gauge::{Gauge, Pass, timed};
use super::payload::{Check, Payload};
use crate::question::error::Error;

/// Plain bytes of a record.
const RECORD_BYTES: usize = 16 << 10;
const TAG_BYTES: usize = 16;
/// The header of a record, and the byte of its type within.
const FRAMING_BYTES: usize = 6;
/// The size of buffers that a socket is read through.
pub(super) const SOCKET_BUFFER_BYTES: usize = 512 << 10;

pub(super) fn measure(gauge: &mut Gauge<'_>) -> Result<(), Error> {
    for unit in UNITS {
        as_it_is(gauge, unit)?;
        buffered(gauge, unit)?;
    }
    records(gauge, UNITS[1])
}

/// Measures tokio-rustls as it is used by default.
fn as_it_is(gauge: &mut Gauge<'_>, unit: usize) -> Result<(), Error> {
    let runtime = runtime()?;
    let ends = runtime.block_on(async {
        let (near, far) = connected_async()?;
        handshake(near, far, &Sides::new(None)?).await
    });
    let mut ends = Some(ends.map_err(Error::at("do a handshake"))?);
    let payload = gauge.payload.clone();
    gauge.measure("tls", &named(unit), |bytes, check| {
        runtime.block_on(pass(&mut ends, &payload, unit, bytes, check))
    })?;
    Ok(())
}

/// With a buffer between the socket and rustls, and rustls' own buffer large enough for a unit.
fn buffered(gauge: &mut Gauge<'_>, unit: usize) -> Result<(), Error> {
    let runtime = runtime()?;
    let ends = runtime.block_on(async {
        let (near, far) = connected_async()?;
        let through = |socket| BufReader::with_capacity(SOCKET_BUFFER_BYTES, socket);
        let (mut near, far) = handshake(through(near), through(far), &Sides::new(None)?).await?;
        near.get_mut().1.set_buffer_limit(Some(2 * unit));
        Ok::<_, BoxError>((near, far))
    });
    let mut ends = Some(ends.map_err(Error::at("do a handshake"))?);
    let payload = gauge.payload.clone();
    gauge.measure("tls", &format!("buffered-{}", named(unit)), |bytes, check| {
        runtime.block_on(pass(&mut ends, &payload, unit, bytes, check))
    })?;
    Ok(())
}

pub(super) async fn handshake<S: AsyncRead + AsyncWrite + Unpin>(
    near: S,
    far: S,
    sides: &Sides,
) -> Result<(client::TlsStream<S>, server::TlsStream<S>), BoxError> {
    let connect = TlsConnector::from(std::sync::Arc::clone(&sides.client)).connect(Sides::name(), near);
    let accept = TlsAcceptor::from(std::sync::Arc::clone(&sides.server)).accept(far);
    let (near, far) = tokio::try_join!(connect, accept)?;
    Ok((near, far))
}

/// One pass from the first of two ends to the second, which are there again after it.
async fn pass<A, B>(
    ends: &mut Option<(A, B)>,
    payload: &Payload,
    unit: usize,
    bytes: u64,
    check: Check,
) -> Result<Pass, BoxError>
where
    A: AsyncWrite + Send + Unpin + 'static,
    B: AsyncRead + Send + Unpin + 'static,
{
    let (mut near, mut far) = ends.take().ok_or_else(|| ended("the connection"))?;
    let pieces = payload.pieces(unit, bytes);
    let sender = tokio::spawn(async move {
        for piece in pieces {
            near.write_all(&piece).await?;
        }
        near.flush().await?;
        Ok::<_, io::Error>(near)
    });
    let mut arrival = payload.arrival(check);
    let receiver = tokio::spawn(async move {
        let mut buffer = vec![0; unit];
        while arrival.count() < bytes {
            let count = far.read(&mut buffer).await?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            arrival.take(&buffer[..count]);
        }
        Ok::<_, io::Error>((far, arrival.is_whole(bytes)))
    });
    let near = sender.await??;
    let (far, is_right) = receiver.await??;
    *ends = Some((near, far));
    Ok(Pass::of(is_right))
}

/// One direction of records under one key.
struct Records {
    key: LessSafeKey,
    number: u64,
}

impl Records {
    fn new() -> Self {
        let key = UnboundKey::new(&AES_256_GCM, &[7; 32]).expect("a key of 32 bytes");
        Self { key: LessSafeKey::new(key), number: 0 }
    }

    fn nonce(&mut self) -> Nonce {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.number.to_be_bytes());
        self.number += 1;
        Nonce::assume_unique_for_key(nonce)
    }

    /// Copies a piece into `out` as records, and encrypts them there.
    fn seal(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), BoxError> {
        out.clear();
        for plain in piece.chunks(RECORD_BYTES) {
            out.extend_from_slice(&[0; FRAMING_BYTES]);
            let begin = out.len();
            out.extend_from_slice(plain);
            let nonce = self.nonce();
            let sealed = self.key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut out[begin..]);
            out.extend_from_slice(sealed.map_err(|_| "a record cannot be encrypted")?.as_ref());
        }
        Ok(())
    }

    /// Decrypts one record in place.
    fn open<'a>(&mut self, record: &'a mut [u8]) -> Result<&'a [u8], BoxError> {
        let sealed = record.get_mut(FRAMING_BYTES..).ok_or("a record without a head")?;
        let nonce = self.nonce();
        let plain = self.key.open_in_place(nonce, Aad::empty(), sealed);
        Ok(plain.map_err(|_| "a record cannot be decrypted")?)
    }
}

/// Records alone, without a handshake: one copy into the buffer where they are encrypted, none at the other
/// end.
fn records(gauge: &mut Gauge<'_>, unit: usize) -> Result<(), Error> {
    let payload = gauge.payload.clone();
    let (mut near, mut far) = connected().map_err(Error::at("connect over loopback"))?;
    let (mut sealing, mut opening) = (Records::new(), Records::new());
    gauge.measure("tls", &format!("records-{}", named(unit)), |bytes, check| {
        thread::scope(|scope| {
            let sender = scope.spawn(|| timed(|| send(&mut near, &mut sealing, &payload, unit, bytes)));
            let (is_right, received) =
                timed(|| receive(&mut far, &mut opening, &payload, unit, bytes, check));
            let (result, sent) = sender.join().expect("a sender does not panic");
            result?;
            Ok(Pass { is_right: is_right?, sent: Some(sent), received: Some(received) })
        })
    })?;
    Ok(())
}

fn send(
    socket: &mut TcpStream,
    records: &mut Records,
    payload: &Payload,
    unit: usize,
    bytes: u64,
) -> Result<(), BoxError> {
    let mut out = Vec::with_capacity(wire_bytes(unit));
    for piece in payload.pieces(unit, bytes) {
        records.seal(&piece, &mut out)?;
        socket.write_all(&out)?;
    }
    Ok(())
}

fn receive(
    socket: &mut TcpStream,
    records: &mut Records,
    payload: &Payload,
    unit: usize,
    bytes: u64,
    check: Check,
) -> Result<bool, BoxError> {
    let (mut arrival, mut buffer) = (payload.arrival(check), vec![0; wire_bytes(unit)]);
    while arrival.count() < bytes {
        socket.read_exact(&mut buffer)?;
        for record in buffer.chunks_mut(wire_bytes(RECORD_BYTES)) {
            arrival.take(records.open(record)?);
        }
    }
    Ok(arrival.is_whole(bytes))
}

/// Bytes on the wire of `plain` ones.
const fn wire_bytes(plain: usize) -> usize {
    plain + plain.div_ceil(RECORD_BYTES) * (FRAMING_BYTES + TAG_BYTES)
}
