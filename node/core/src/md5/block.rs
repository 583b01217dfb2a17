//! MD5's work on a block: the 64 steps of RFC 1321.
//!
//! Each step waits for the one before it, so no processor hashes a stream faster than about 4.5 cycles a
//! byte; what is left to gain is that nothing but the wait for the step before is waited for.

/// Bytes of a block.
pub(super) const BLOCK_BYTES: usize = 64;

pub(super) type State = [u32; 4];
pub(super) type Block = [u8; BLOCK_BYTES];

/// Constant that each step adds: 2^32 times |sin i|, for i from 1 on.
pub(super) const CONSTANTS: [u32; 64] = [
    0xd76a_a478,
    0xe8c7_b756,
    0x2420_70db,
    0xc1bd_ceee,
    0xf57c_0faf,
    0x4787_c62a,
    0xa830_4613,
    0xfd46_9501,
    0x6980_98d8,
    0x8b44_f7af,
    0xffff_5bb1,
    0x895c_d7be,
    0x6b90_1122,
    0xfd98_7193,
    0xa679_438e,
    0x49b4_0821,
    0xf61e_2562,
    0xc040_b340,
    0x265e_5a51,
    0xe9b6_c7aa,
    0xd62f_105d,
    0x0244_1453,
    0xd8a1_e681,
    0xe7d3_fbc8,
    0x21e1_cde6,
    0xc337_07d6,
    0xf4d5_0d87,
    0x455a_14ed,
    0xa9e3_e905,
    0xfcef_a3f8,
    0x676f_02d9,
    0x8d2a_4c8a,
    0xfffa_3942,
    0x8771_f681,
    0x6d9d_6122,
    0xfde5_380c,
    0xa4be_ea44,
    0x4bde_cfa9,
    0xf6bb_4b60,
    0xbebf_bc70,
    0x289b_7ec6,
    0xeaa1_27fa,
    0xd4ef_3085,
    0x0488_1d05,
    0xd9d4_d039,
    0xe6db_99e5,
    0x1fa2_7cf8,
    0xc4ac_5665,
    0xf429_2244,
    0x432a_ff97,
    0xab94_23a7,
    0xfc93_a039,
    0x655b_59c3,
    0x8f0c_cc92,
    0xffef_f47d,
    0x8584_5dd1,
    0x6fa8_7e4f,
    0xfe2c_e6e0,
    0xa301_4314,
    0x4e08_11a1,
    0xf753_7e82,
    0xbd3a_f235,
    0x2ad7_d2bb,
    0xeb86_d391,
];

/// Takes blocks into the state.
pub(super) fn compress(state: &mut State, blocks: &[Block]) {
    // Words in registers, not where the caller has them.
    let mut words = *state;
    for block in blocks {
        let mut message = [0; 16];
        for (word, bytes) in message.iter_mut().zip(block.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        let new = steps(words, &message);
        for (word, new) in words.iter_mut().zip(new) {
            *word = word.wrapping_add(new);
        }
    }
    *state = words;
}

/// Writes out the 64 steps in their order: `$step!(mix, a b c d, number, word, bits)` for each.
macro_rules! in_order {
    ($step:ident) => {
        in_order!($step, first, 0, 0 1 2 3, 7 12 17 22);
        in_order!($step, first, 4, 4 5 6 7, 7 12 17 22);
        in_order!($step, first, 8, 8 9 10 11, 7 12 17 22);
        in_order!($step, first, 12, 12 13 14 15, 7 12 17 22);
        in_order!($step, second, 16, 1 6 11 0, 5 9 14 20);
        in_order!($step, second, 20, 5 10 15 4, 5 9 14 20);
        in_order!($step, second, 24, 9 14 3 8, 5 9 14 20);
        in_order!($step, second, 28, 13 2 7 12, 5 9 14 20);
        in_order!($step, third, 32, 5 8 11 14, 4 11 16 23);
        in_order!($step, third, 36, 1 4 7 10, 4 11 16 23);
        in_order!($step, third, 40, 13 0 3 6, 4 11 16 23);
        in_order!($step, third, 44, 9 12 15 2, 4 11 16 23);
        in_order!($step, fourth, 48, 0 7 14 5, 6 10 15 21);
        in_order!($step, fourth, 52, 12 3 10 1, 6 10 15 21);
        in_order!($step, fourth, 56, 8 15 6 13, 6 10 15 21);
        in_order!($step, fourth, 60, 4 11 2 9, 6 10 15 21);
    };
    ($step:ident, $mix:ident, $number:literal, $w:literal $x:literal $y:literal $z:literal, $p:literal $q:literal $r:literal $s:literal) => {
        $step!($mix, 0 1 2 3, $number, $w, $p);
        $step!($mix, 3 0 1 2, $number + 1, $x, $q);
        $step!($mix, 2 3 0 1, $number + 2, $y, $r);
        $step!($mix, 1 2 3 0, $number + 3, $z, $s);
    };
}
#[cfg(target_arch = "x86_64")]
pub(super) use in_order;

/// The words of the state after a block's steps, before they are added to what they were.
#[inline]
fn steps(mut words: State, message: &[u32; 16]) -> State {
    macro_rules! step {
        ($mix:ident, $a:literal $b:literal $c:literal $d:literal, $number:expr, $word:literal, $by:literal) => {
            let early = words[$a].wrapping_add(CONSTANTS[$number]).wrapping_add(message[$word]);
            let sum = $mix(words[$b], words[$c], words[$d], early);
            words[$a] = sum.rotate_left($by).wrapping_add(words[$b]);
        };
    }
    in_order!(step);
    words
}

fn first(b: u32, c: u32, d: u32, early: u32) -> u32 {
    pinned(early).wrapping_add(d ^ (b & (c ^ d)))
}

/// Both terms have different bits, so they can be added, and the first is known early.
fn second(b: u32, c: u32, d: u32, early: u32) -> u32 {
    pinned(early.wrapping_add(c & !d)).wrapping_add(b & d)
}

fn third(b: u32, c: u32, d: u32, early: u32) -> u32 {
    pinned(early).wrapping_add(b ^ c ^ d)
}

fn fourth(b: u32, c: u32, d: u32, early: u32) -> u32 {
    pinned(early).wrapping_add(c ^ (b | !d))
}

/// Keeps a sum as it was made: the compiler is free to add in another order, and then what is late
/// is added to what is early in two steps instead of one, which costs an eighth of the speed.
#[inline(always)]
#[expect(clippy::inline_always, reason = "it is no instruction at all")]
fn pinned(sum: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "the compiler has no other way to fix the order of a sum")]
    {
        let mut sum = sum;
        // SAFETY: no instruction, only a comment that names the register.
        unsafe {
            std::arch::asm!("/* {0:e} */", inout(reg) sum, options(pure, nomem, nostack, preserves_flags));
        }
        sum
    }
    #[cfg(not(target_arch = "x86_64"))]
    sum
}
