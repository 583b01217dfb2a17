//! MD5 with plain words: one stream, or up to three that fill each other's waiting time.

use super::rounds::{CONSTANTS, steps};
use super::{Block, State};

/// Streams computed side by side: with more, their words do not fit the registers.
const STREAMS: usize = 3;

/// Takes the blocks of each stream into its state.
pub(super) fn compress(states: &mut [State], streams: &[&[Block]]) {
    // Four are two and two, not three and one.
    let turns = streams.len().div_ceil(STREAMS).max(1);
    let at_a_time = streams.len().div_ceil(turns).max(1);
    for (states, streams) in states.chunks_mut(at_a_time).zip(streams.chunks(at_a_time)) {
        match streams.len() {
            1 => side_by_side::<1>(states, streams),
            2 => side_by_side::<2>(states, streams),
            _ => side_by_side::<3>(states, streams),
        }
    }
}

/// # Panics
/// When there are other than `COUNT` states and streams.
fn side_by_side<const COUNT: usize>(states: &mut [State], streams: &[&[Block]]) {
    let states: &mut [State; COUNT] = states.try_into().expect("a state for each stream");
    let streams: &[&[Block]; COUNT] = streams.try_into().expect("as many streams as their match arm says");
    // Words in registers, not where the caller has them.
    let mut words = *states;
    let blocks = streams.iter().map(|stream| stream.len()).min().unwrap_or(0);
    for at in 0..blocks {
        let mut message = [[0; 16]; COUNT];
        for (message, stream) in message.iter_mut().zip(streams) {
            for (word, bytes) in message.iter_mut().zip(stream[at].as_chunks::<4>().0) {
                *word = u32::from_le_bytes(*bytes);
            }
        }
        steps!(COUNT, &mut words, &message);
    }
    *states = words;
}

const fn constant(value: u32) -> u32 {
    value
}

const fn add(a: u32, b: u32) -> u32 {
    a.wrapping_add(b)
}

const fn rotate<const LEFT: i32, const RIGHT: i32>(word: u32) -> u32 {
    word.rotate_left(LEFT.cast_unsigned())
}

fn first(b: u32, c: u32, d: u32, early: u32) -> u32 {
    add(pinned(early), d ^ (b & (c ^ d)))
}

/// Both terms have different bits, so they can be added, and the first is known early.
fn second(b: u32, c: u32, d: u32, early: u32) -> u32 {
    add(pinned(add(early, c & !d)), b & d)
}

fn third(b: u32, c: u32, d: u32, early: u32) -> u32 {
    add(pinned(early), b ^ c ^ d)
}

fn fourth(b: u32, c: u32, d: u32, early: u32) -> u32 {
    add(pinned(early), c ^ (b | !d))
}

/// Keeps a sum as it was made: the compiler is free to add in another order, and then what is late
/// is added to what is early in two steps instead of one, which costs a lone stream an eighth.
#[inline]
fn pinned(sum: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    return super::x86::pinned(sum);
    #[cfg(not(target_arch = "x86_64"))]
    return sum;
}
