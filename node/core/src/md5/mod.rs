//! MD5, which S3 has in every entity tag: of one stream, and of many at a time.
//!
//! Each step of MD5 waits for the one before it, so no processor hashes one stream faster than
//! about 4.5 cycles a byte. It hashes many side by side in hardly more time: [`Lanes`] takes the
//! bytes of any number of streams, puts those that have whole blocks into the lanes of vectors, and
//! goes on with fewer where some have less. What a stream has taken so far is a plain [`Md5`].

mod rounds;
mod plain;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(test)]
mod tests;

use std::fmt;

/// Bytes of a block.
const BLOCK_BYTES: usize = 64;
/// Streams that are gathered at a time: what two groups of the widest vectors take.
const STREAMS_MAX: usize = 32;

type State = [u32; 4];
type Block = [u8; BLOCK_BYTES];

/// The MD5 of a stream in the making.
#[derive(Clone)]
pub struct Md5 {
    state: State,
    bytes: u64,
    /// The block that is not whole yet, as long as `bytes` says.
    partial: Block,
}

/// The next bytes of one stream.
#[derive(Debug)]
pub struct Stream<'a> {
    /// What was taken so far, and takes these bytes.
    pub md5: &'a mut Md5,
    /// As many as there are.
    pub bytes: &'a [u8],
}

/// A way to hash many streams, which this processor has: nobody else can make one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Lanes(Units);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Units {
    Plain,
    #[cfg(target_arch = "x86_64")]
    X86(x86::Units),
}

impl Default for Md5 {
    fn default() -> Self {
        Self::new()
    }
}

impl Md5 {
    /// Begins.
    pub const fn new() -> Self {
        let state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
        Self { state, bytes: 0, partial: [0; BLOCK_BYTES] }
    }

    /// The digest of bytes at hand.
    pub fn digest(bytes: &[u8]) -> [u8; 16] {
        let mut md5 = Self::new();
        md5.update(bytes);
        md5.finish()
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        Lanes::PLAIN.update(&mut [Stream { md5: self, bytes }]);
    }

    /// Ends: the 16 bytes of the digest.
    pub fn finish(mut self) -> [u8; 16] {
        let bits = self.bytes.wrapping_mul(8);
        // A one, as many zeros as lead to eight bytes before a block's end, and the length.
        let mut padding = [0; 2 * BLOCK_BYTES];
        padding[0] = 0x80;
        let zeros_end = (BLOCK_BYTES + 55 - self.partial_bytes()) % BLOCK_BYTES + 1;
        padding[zeros_end..zeros_end + 8].copy_from_slice(&bits.to_le_bytes());
        self.update(&padding[..zeros_end + 8]);
        debug_assert_eq!(self.partial_bytes(), 0, "padding ends a block");
        let mut digest = [0; 16];
        for (bytes, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(self.state) {
            *bytes = word.to_le_bytes();
        }
        digest
    }

    /// Bytes of the block that is not whole yet.
    fn partial_bytes(&self) -> usize {
        usize::try_from(self.bytes % BLOCK_BYTES as u64).expect("less than a block")
    }

    /// Adds bytes to the block that is not whole yet, as far as it takes them, and leaves the others.
    /// Whether the block is whole now, and has to be taken into the state.
    fn top_up(&mut self, bytes: &mut &[u8]) -> bool {
        let begun = self.partial_bytes();
        let (now, later) = bytes.split_at(bytes.len().min(BLOCK_BYTES - begun));
        self.partial[begun..begun + now.len()].copy_from_slice(now);
        self.bytes += now.len() as u64;
        *bytes = later;
        begun + now.len() == BLOCK_BYTES
    }
}

impl Lanes {
    /// Plain words: every processor has them.
    pub const PLAIN: Self = Self(Units::Plain);

    /// The fastest of this processor.
    pub fn best() -> Self {
        Self::all().last().expect("the plain ones are always there")
    }

    /// All that this processor has, the fastest last.
    pub fn all() -> impl Iterator<Item = Self> {
        let all = std::iter::once(Self::PLAIN);
        #[cfg(target_arch = "x86_64")]
        let all = all.chain(x86::Units::all().map(|units| Self(Units::X86(units))));
        all
    }

    /// What they are called in reports.
    pub const fn name(self) -> &'static str {
        match self.0 {
            Units::Plain => "plain",
            #[cfg(target_arch = "x86_64")]
            Units::X86(units) => units.name(),
        }
    }

    /// Takes the next bytes of every stream. Costs least when all have equally many, whole blocks.
    pub fn update(self, streams: &mut [Stream<'_>]) {
        for streams in streams.chunks_mut(STREAMS_MAX) {
            self.begun_blocks(streams);
            while self.whole_blocks(streams) {}
            for Stream { md5, bytes } in streams {
                let is_whole = md5.top_up(bytes);
                debug_assert!(!is_whole && bytes.is_empty(), "only part of a block is left");
            }
        }
    }

    /// Takes the blocks that began in bytes taken before and are whole now.
    fn begun_blocks(self, streams: &mut [Stream<'_>]) {
        let mut whole = [false; STREAMS_MAX];
        for (whole, Stream { md5, bytes }) in whole.iter_mut().zip(&mut *streams) {
            *whole = md5.partial_bytes() > 0 && md5.top_up(bytes);
        }
        let mut batch = Batch::default();
        for (index, Stream { md5, .. }) in streams.iter().enumerate().filter(|(index, _)| whole[*index]) {
            batch.add(index, md5.state, std::slice::from_ref(&md5.partial));
        }
        let Batch { states, indexes, count, .. } = batch.compressed(self);
        for (state, index) in states.iter().zip(indexes).take(count) {
            streams[index].md5.state = *state;
        }
    }

    /// Takes as many whole blocks of each stream that has some as the shortest of them has. Whether
    /// there were any.
    fn whole_blocks(self, streams: &mut [Stream<'_>]) -> bool {
        let blocks = |stream: &Stream<'_>| stream.bytes.len() / BLOCK_BYTES;
        let shortest = streams.iter().map(blocks).filter(|blocks| *blocks > 0).min();
        let Some(shortest) = shortest else { return false };
        let mut batch = Batch::default();
        for (index, Stream { md5, bytes }) in streams.iter_mut().enumerate() {
            if bytes.len() < BLOCK_BYTES {
                continue;
            }
            let (now, later) = bytes.split_at(shortest * BLOCK_BYTES);
            batch.add(index, md5.state, now.as_chunks().0);
            md5.bytes += now.len() as u64;
            *bytes = later;
        }
        let Batch { states, indexes, count, .. } = batch.compressed(self);
        for (state, index) in states.iter().zip(indexes).take(count) {
            streams[index].md5.state = *state;
        }
        true
    }
}

/// Streams with equally many blocks, by their places in the list of all.
#[derive(Default)]
struct Batch<'a> {
    states: [State; STREAMS_MAX],
    blocks: [&'a [Block]; STREAMS_MAX],
    indexes: [usize; STREAMS_MAX],
    count: usize,
}

impl<'a> Batch<'a> {
    fn add(&mut self, index: usize, state: State, blocks: &'a [Block]) {
        self.states[self.count] = state;
        self.blocks[self.count] = blocks;
        self.indexes[self.count] = index;
        self.count += 1;
    }

    /// With the blocks taken into the states; holds on to no bytes any more.
    fn compressed(mut self, lanes: Lanes) -> Batch<'static> {
        let (states, blocks) = (&mut self.states[..self.count], &self.blocks[..self.count]);
        match lanes.0 {
            #[cfg(target_arch = "x86_64")]
            Units::X86(units) if self.count >= units.streams_min() => units.compress(states, blocks),
            _ => plain::compress(states, blocks),
        }
        Batch { states: self.states, blocks: Default::default(), indexes: self.indexes, count: self.count }
    }
}

impl fmt::Debug for Md5 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Md5").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl fmt::Debug for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
