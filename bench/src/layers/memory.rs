//! L4, hashing and erasure in memory: what the store computes over bytes, without moving them.
//!
//! ```text
//! put  all          what a PUT computes: MD5, then parity and the block hashes of every shard; for an
//!                   object that stays in its rows, the hashes of the rows instead
//!      md5, crc64nvme, blake3, encode     each by itself, over the object's bytes
//! get  all          what a GET computes: the block hashes of the data shards, compared
//!      reconstruct  the data shards, from parity alone
//! ```
//! An object is walked in stripes, each a window of the arena, so a large one does not stay in the
//! cache. Afterwards every client computes its last operation again by another way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crc_fast::{CrcAlgorithm, Digest as Crc};
use sherd_core::checksum::{BlockHasher, Digest, verify};
use sherd_core::erasure::{Code, Geometry};
use sherd_core::limits::{HASH_BLOCK_BYTES, INLINE_BYTES_MAX, STRIPE_UNIT_BYTES};
use sherd_node::object::Digests;

use super::clients::{BlockingClient, threads};
use super::error::{Error, Failure};
use super::payload::Arena;
use super::store::VOLUMES;
use super::work::Op;
use super::{Layer, Session};

/// Data and parity shards: 2+2, as the node chooses on four volumes.
const DATA_SHARDS: usize = 2;
const PARITY_SHARDS: usize = 2;
/// Stripes that are told apart; an object of more goes round.
const WINDOWS_MAX: usize = 16;

/// What is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Put,
    Md5,
    Crc64,
    Blake3,
    Encode,
    Get,
    Reconstruct,
}

impl Kind {
    const fn of(op: Op) -> &'static [Self] {
        match op {
            Op::Put => &[Self::Put, Self::Md5, Self::Crc64, Self::Blake3, Self::Encode],
            Op::Get => &[Self::Get, Self::Reconstruct],
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Put | Self::Get => "all",
            Self::Md5 => "md5",
            Self::Crc64 => "crc64nvme",
            Self::Blake3 => "blake3",
            Self::Encode => "encode",
            Self::Reconstruct => "reconstruct",
        }
    }
}

/// Measures the layer at one size.
///
/// # Errors
/// [`Error`]
pub(super) fn run(session: &mut Session, bytes: u64) -> Result<(), Error> {
    let stripes = Arc::new(Stripes::new(session.arena(), bytes));
    for (op, clients) in session.cells(Layer::Memory, bytes) {
        for kind in Kind::of(op) {
            let team = (0..clients).map(|_| MemoryClient::new(&stripes, *kind)).collect();
            let failed = |source| Layer::Memory.failure(op, bytes, source);
            let measured = threads(team, session.pace()).map_err(failed)?;
            session.note(Layer::Memory, op, bytes, clients, &[("kind", kind.label())], &measured);
        }
    }
    Ok(())
}

/// An object in memory, stripe by stripe.
struct Stripes {
    code: Arc<Code>,
    windows: Vec<Window>,
    count: u64,
    unit: usize,
    is_inline: bool,
}

/// One stripe: its data, cut in shards, their parity, and the hashes of the data shards' blocks.
struct Window {
    data: [Vec<u8>; DATA_SHARDS],
    parity: [Vec<u8>; PARITY_SHARDS],
    hashes: [Vec<Digest>; DATA_SHARDS],
}

impl Stripes {
    fn new(arena: &Arena, bytes: u64) -> Self {
        let geometry = Geometry::new(2, 2).expect("a geometry");
        let code = Code::of(geometry);
        let stripe = bytes.min(DATA_SHARDS as u64 * u64::from(STRIPE_UNIT_BYTES));
        let count = bytes.div_ceil(stripe);
        let unit = usize::try_from(stripe).expect("a stripe fits memory") / DATA_SHARDS;
        let windows = usize::try_from(count).unwrap_or(WINDOWS_MAX).min(WINDOWS_MAX);
        let windows = (0..windows as u64).map(|window| Window::new(&code, arena, window, unit)).collect();
        let is_inline = bytes <= u64::from(INLINE_BYTES_MAX) / VOLUMES as u64;
        Self { code, windows, count, unit, is_inline }
    }

    fn each(&self) -> impl Iterator<Item = &Window> {
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        self.windows.iter().cycle().take(count)
    }
}

impl Window {
    fn new(code: &Code, arena: &Arena, number: u64, unit: usize) -> Self {
        let shard = |shard: u64| {
            let number = number * DATA_SHARDS as u64 + shard;
            arena.body(number, unit as u64).collect::<Vec<_>>().concat()
        };
        let data = [shard(0), shard(1)];
        let mut parity = std::array::from_fn(|_| vec![0; unit]);
        encode(code, &data, &mut parity);
        let hashes = [&data[0], &data[1]].map(|shard| hash([shard.as_slice()]));
        Self { data, parity, hashes }
    }
}

fn encode(code: &Code, data: &[Vec<u8>; DATA_SHARDS], parity: &mut [Vec<u8>; PARITY_SHARDS]) {
    let [first, second] = data;
    let [third, fourth] = parity;
    code.encode(&[first, second], &mut [third, fourth]);
}

fn hash<'a>(payload: impl IntoIterator<Item = &'a [u8]>) -> Vec<Digest> {
    let mut hasher = BlockHasher::new();
    for bytes in payload {
        hasher.update(bytes);
    }
    hasher.finish()
}

/// What an operation computed, to be computed again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Outcome {
    md5: Option<[u8; 16]>,
    crc: Option<u64>,
    hashes: [Vec<Digest>; DATA_SHARDS + PARITY_SHARDS],
}

struct MemoryClient {
    stripes: Arc<Stripes>,
    kind: Kind,
    out: [Vec<u8>; PARITY_SHARDS],
    last: Outcome,
}

impl MemoryClient {
    fn new(stripes: &Arc<Stripes>, kind: Kind) -> Self {
        let out = std::array::from_fn(|_| vec![0; stripes.unit]);
        Self { stripes: Arc::clone(stripes), kind, out, last: Outcome::default() }
    }

    /// Does the work, each shard given to the digests in pieces of `piece` bytes at most.
    fn compute(&mut self, piece: usize) -> Result<Outcome, Failure> {
        let Self { stripes, kind, out, .. } = self;
        let data = || stripes.each().flat_map(|window| &window.data).flat_map(|data| data.chunks(piece));
        let mut outcome = Outcome::default();
        match kind {
            Kind::Put => return Ok(put(stripes, out, piece)),
            Kind::Md5 => outcome.md5 = Some(md5(data())),
            Kind::Crc64 => {
                let mut crc = Crc::new(CrcAlgorithm::Crc64Nvme);
                data().for_each(|bytes| crc.update(bytes));
                outcome.crc = Some(crc.finalize());
            }
            Kind::Blake3 => outcome.hashes[0] = hash(data()),
            Kind::Encode => stripes.each().for_each(|window| encode(&stripes.code, &window.data, out)),
            Kind::Get => return get(stripes).map(|()| outcome),
            Kind::Reconstruct => stripes.each().try_for_each(|window| rebuild(&stripes.code, window, out))?,
        }
        Ok(outcome)
    }
}

fn md5<'a>(data: impl Iterator<Item = &'a [u8]>) -> [u8; 16] {
    let mut digests = Digests::new([]);
    data.for_each(|bytes| digests.update(bytes));
    digests.finish().md5.expect("not left out")
}

fn put(stripes: &Stripes, parity: &mut [Vec<u8>; PARITY_SHARDS], piece: usize) -> Outcome {
    let mut digests = Digests::new([]);
    let mut hashers: [BlockHasher; DATA_SHARDS + PARITY_SHARDS] = Default::default();
    for window in stripes.each() {
        for bytes in window.data.iter().flat_map(|data| data.chunks(piece)) {
            digests.update(bytes);
        }
        if stripes.is_inline {
            for hasher in &mut hashers {
                window.data.iter().flat_map(|data| data.chunks(piece)).for_each(|bytes| hasher.update(bytes));
            }
            continue;
        }
        encode(&stripes.code, &window.data, parity);
        for (hasher, shard) in hashers.iter_mut().zip(window.data.iter().chain(&*parity)) {
            shard.chunks(piece).for_each(|bytes| hasher.update(bytes));
        }
    }
    Outcome { md5: digests.finish().md5, crc: None, hashes: hashers.map(BlockHasher::finish) }
}

fn get(stripes: &Stripes) -> Result<(), Failure> {
    for window in stripes.each() {
        for (data, hashes) in window.data.iter().zip(&window.hashes) {
            for (block, bytes) in data.chunks(HASH_BLOCK_BYTES).enumerate() {
                verify(hashes, block, bytes).map_err(Failure::of)?;
            }
        }
    }
    Ok(())
}

/// Rebuilds both data shards from both parity shards.
fn rebuild(code: &Code, window: &Window, out: &mut [Vec<u8>; PARITY_SHARDS]) -> Result<(), Failure> {
    let [third, fourth] = &window.parity;
    let [first, second] = out;
    code.reconstruct(&[(2, third), (3, fourth)], &mut [(0, first), (1, second)]).map_err(Failure::of)
}

impl BlockingClient for MemoryClient {
    fn one(&mut self) -> Result<Duration, Failure> {
        let begun = Instant::now();
        self.last = self.compute(STRIPE_UNIT_BYTES as usize)?;
        std::hint::black_box(&self.out);
        Ok(begun.elapsed())
    }

    fn check(&mut self) -> Result<(), Failure> {
        // Pieces that end nowhere near a block or a lane.
        let same = self.compute(4_099)? == self.last;
        let window = self.stripes.each().last().ok_or(Failure::OtherBytes)?;
        let out_is = |expected: &[Vec<u8>; 2]| self.out == *expected;
        let right = match self.kind {
            Kind::Encode => {
                out_is(&window.parity) && {
                    let mut rebuilt = self.out.clone();
                    rebuild(&self.stripes.code, window, &mut rebuilt)?;
                    rebuilt == window.data
                }
            }
            Kind::Put => self.stripes.is_inline || out_is(&window.parity),
            Kind::Reconstruct => out_is(&window.data),
            Kind::Md5 | Kind::Crc64 | Kind::Blake3 | Kind::Get => true,
        };
        if same && right { Ok(()) } else { Err(Failure::OtherBytes) }
    }
}
