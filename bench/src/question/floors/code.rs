//! Computations over every byte, on one thread: digests, the erasure code of 2+2, and a plain copy.
//!
//! Bytes are those of the object: a stripe's two data shards count once, for encode and reconstruct alike.

use std::hint::black_box;

use sherd_core::erasure::{Code, Geometry};
use sherd_core::limits::{HASH_BLOCK_BYTES, STRIPE_UNIT_BYTES};
use sherd_core::md5::Md5;

use super::gauge::{Gauge, Pass};
use super::payload::{Check, Payload};
use crate::question::error::Error;

const DATA: usize = 2;
const PARITY: usize = 2;
const UNIT: usize = STRIPE_UNIT_BYTES as usize;
/// Streams whose MD5s are computed side by side.
const STREAMS: [usize; 2] = [2, 4];
/// Bytes of the body that arrive at one time.
const PIECE_BYTES: usize = 64 << 10;

pub(super) fn measure(gauge: &mut Gauge<'_>) -> Result<(), Error> {
    let payload = gauge.payload.clone();
    gauge.measure("md5", "one-stream", |bytes, check| {
        let mut md5 = Md5::new();
        payload.pieces(PIECE_BYTES, bytes).for_each(|piece| md5.update(&piece));
        let digest = black_box(md5.finish());
        Ok(Pass::of(check == Check::Count || digest == reference(&payload, bytes)))
    })?;
    for streams in STREAMS {
        gauge.measure("md5", &format!("streams-{streams}"), |bytes, check| {
            let digests = digest_streams(&payload, bytes, streams);
            let alone = |stream| Md5::digest(&stream_bytes(&payload, bytes, streams, stream));
            let is_right = |(stream, digest): (usize, &[u8; 16])| *digest == alone(stream);
            Ok(Pass::of(check == Check::Count || digests.iter().enumerate().all(is_right)))
        })?;
    }
    gauge.measure("blake3", "blocks-64KiB", |bytes, _| {
        for block in payload.pieces(HASH_BLOCK_BYTES, bytes) {
            black_box(blake3::hash(&block));
        }
        Ok(Pass::of(true))
    })?;
    let mut target = vec![0; payload.bytes().len()];
    gauge.measure("copy", "memory", |bytes, check| {
        let mut is_right = true;
        for (piece, to) in payload.pieces(UNIT, bytes).zip((0..target.len()).step_by(UNIT).cycle()) {
            let to = &mut target[to..to + UNIT];
            to.copy_from_slice(black_box(&piece));
            is_right &= check == Check::Count || *to == *piece;
        }
        black_box(target.first());
        Ok(Pass::of(is_right))
    })?;
    erasure(gauge)
}

/// Digests of several streams side by side, which together have `bytes`.
fn digest_streams(payload: &Payload, bytes: u64, streams: usize) -> Vec<[u8; 16]> {
    let mut digests = vec![Md5::new(); streams];
    let mut pieces = payload.pieces(PIECE_BYTES, bytes);
    loop {
        let now: Vec<_> = pieces.by_ref().take(streams).collect();
        if now.is_empty() {
            return digests.into_iter().map(|digest| black_box(digest.finish())).collect();
        }
        let mut together: Vec<(&mut Md5, &[u8])> =
            digests.iter_mut().zip(now.iter().map(|piece| &**piece)).collect();
        Md5::update_many(&mut together);
    }
}

/// The bytes of one of them.
fn stream_bytes(payload: &Payload, bytes: u64, streams: usize, stream: usize) -> Vec<u8> {
    let pieces: Vec<_> = payload.pieces(PIECE_BYTES, bytes).skip(stream).step_by(streams).collect();
    pieces.concat()
}

/// The MD5 of the same bytes by another implementation.
fn reference(payload: &Payload, bytes: u64) -> [u8; 16] {
    use md5::Digest as _;
    let mut md5 = md5::Md5::new();
    payload.pieces(PIECE_BYTES, bytes).for_each(|piece| md5.update(&piece));
    md5.finalize().into()
}

fn erasure(gauge: &mut Gauge<'_>) -> Result<(), Error> {
    let geometry = Geometry::new(2, 2).expect("a geometry");
    let (code, payload) = (Code::of(geometry), gauge.payload.clone());
    let stripes = || payload.bytes().chunks_exact(DATA * UNIT).map(|stripe| stripe.split_at(UNIT)).cycle();
    let mut parity = vec![vec![vec![0; UNIT]; PARITY]; payload.bytes().len() / (DATA * UNIT)];
    let count = |bytes: u64| usize::try_from(bytes).expect("a pass fits memory") / (DATA * UNIT);
    gauge.measure("erasure", "encode-2+2", |bytes, _| {
        let places = parity.len();
        for (index, (first, second)) in stripes().take(count(bytes)).enumerate() {
            let mut out: Vec<&mut [u8]> = parity[index % places].iter_mut().map(Vec::as_mut_slice).collect();
            code.encode(&[first, second], &mut out);
        }
        Ok(Pass::of(true))
    })?;
    // Encoded whole above, however few stripes a pass has.
    for ((first, second), out) in stripes().zip(&mut parity) {
        let mut out: Vec<&mut [u8]> = out.iter_mut().map(Vec::as_mut_slice).collect();
        code.encode(&[first, second], &mut out);
    }
    let mut rebuilt = vec![vec![0; UNIT]; DATA];
    gauge.measure("erasure", "reconstruct-2+2", |bytes, check| {
        let mut is_right = true;
        for ((first, second), parity) in stripes().zip(parity.iter().cycle()).take(count(bytes)) {
            let known = [(2, parity[0].as_slice()), (3, parity[1].as_slice())];
            let mut lost: Vec<(u8, &mut [u8])> =
                (0..).zip(rebuilt.iter_mut().map(Vec::as_mut_slice)).collect();
            code.reconstruct(&known, &mut lost)?;
            is_right &= check == Check::Count || (rebuilt[0] == first && rebuilt[1] == second);
        }
        Ok(Pass::of(is_right))
    })?;
    Ok(())
}
