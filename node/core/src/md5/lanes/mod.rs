//! MD5 of several streams at one time: a lane of a vector is a stream.
//!
//! A step of MD5 waits for the step before it, in a lane as in a register, so lanes do not hash a stream
//! faster: they hash others in the same time. [`Units`] says which registers are used; `x86` holds what
//! differs between them, `none` stands for processors without.

#[cfg(not(target_arch = "x86_64"))]
mod none;
pub(super) mod states;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::block::{Block, State};
#[cfg(not(target_arch = "x86_64"))]
use none as vectors;
use states::{LANES, States};
#[cfg(target_arch = "x86_64")]
use x86 as vectors;

/// Registers that this processor has: made only by the detection of the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Units(vectors::Units);

impl Units {
    /// All that this processor has, of those of one width the best first.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        vectors::Units::all().map(Self)
    }

    /// The narrowest with a lane for each of some streams.
    pub(super) fn for_streams(streams: usize) -> Option<Self> {
        Self::all().filter(|units| units.lanes() >= streams).min_by_key(|units| units.lanes())
    }

    /// Streams that they take at one time.
    pub(super) const fn lanes(self) -> usize {
        self.0.lanes()
    }

    /// Takes as many blocks of each stream into its state as all have.
    ///
    /// # Panics
    /// When there are more streams than lanes, or none, or not as many states.
    pub(super) fn compress(self, states: &mut [&mut State], streams: &[&[Block]]) -> usize {
        assert_eq!(states.len(), streams.len(), "a state for each stream");
        assert!((1..=self.lanes()).contains(&streams.len()), "a lane for each stream");
        let blocks = streams.iter().map(|blocks| blocks.len()).min().unwrap_or(0);
        let mut words = States([[0; LANES]; 4]);
        // A lane without a stream does again what the first one does.
        let mut lanes = [&streams[0][..blocks]; LANES];
        for (lane, (state, stream)) in states.iter().zip(streams).enumerate() {
            lanes[lane] = &stream[..blocks];
            for (words, word) in words.0.iter_mut().zip(**state) {
                words[lane] = word;
            }
        }
        self.0.compress(&mut words, &lanes, blocks);
        for (lane, state) in states.iter_mut().enumerate() {
            for (words, word) in words.0.iter().zip(state.iter_mut()) {
                *word = words[lane];
            }
        }
        blocks
    }
}
