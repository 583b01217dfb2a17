//! Every kernel gives the reference's bytes, at every length and alignment, and writes no others.

use proptest::prelude::*;
use reed_solomon_erasure::galois_8::{self, ReedSolomon};

use super::*;
use crate::erasure::{Code, Geometry};

/// Bytes around the buffers that kernels write.
const GUARD: u8 = 0xee;
/// Places before and behind a buffer: more than the widest vector.
const AROUND: usize = 80;

/// Bytes at an odd place in a larger buffer.
struct Placed {
    buffer: Vec<u8>,
    at: usize,
    length: usize,
}

impl Placed {
    fn new(bytes: &[u8], at: usize) -> Self {
        let mut buffer = vec![GUARD; AROUND + bytes.len() + AROUND];
        buffer[at..at + bytes.len()].copy_from_slice(bytes);
        Self { buffer, at, length: bytes.len() }
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer[self.at..self.at + self.length]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.at..self.at + self.length]
    }

    fn is_guarded(&self) -> bool {
        let (before, behind) = (&self.buffer[..self.at], &self.buffer[self.at + self.length..]);
        before.iter().chain(behind).all(|byte| *byte == GUARD)
    }
}

/// Shards that differ, of all byte values, each at another place.
fn shards(count: usize, length: usize, seed: u64) -> Vec<Placed> {
    let mut random = blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof();
    (0..count)
        .map(|shard| {
            let mut bytes = vec![0; length];
            random.fill(&mut bytes);
            Placed::new(&bytes, (shard * 13 + length) % AROUND)
        })
        .collect()
}

fn multiply(kernel: Kernel, rows: &[Row], sources: &[Placed]) -> Vec<Vec<u8>> {
    let length = sources[0].length;
    // The former content of the buffers must not show.
    let mut outs: Vec<Placed> =
        (0..rows.len()).map(|out| Placed::new(&vec![0x55; length], (out * 29 + 3) % AROUND)).collect();
    let sources: Vec<&[u8]> = sources.iter().map(Placed::bytes).collect();
    let mut buffers: Vec<&mut [u8]> = outs.iter_mut().map(Placed::bytes_mut).collect();
    kernel.multiply(rows, &sources, &mut buffers);
    assert!(outs.iter().all(Placed::is_guarded), "{kernel:?} writes beside its outs");
    outs.iter().map(|out| out.bytes().to_vec()).collect()
}

fn expected(rows: &[Row], sources: &[Placed]) -> Vec<Vec<u8>> {
    let sum = |row: &Row| {
        let mut sum = vec![0; sources[0].length];
        for (factor, source) in row.factors(sources.len()).iter().zip(sources) {
            for (sum, byte) in sum.iter_mut().zip(source.bytes()) {
                *sum ^= galois_8::mul(*factor, *byte);
            }
        }
        sum
    };
    rows.iter().map(sum).collect()
}

#[test]
fn the_plain_kernel_is_everywhere_and_the_best_is_the_last() {
    let all: Vec<Kernel> = Kernel::all().collect();
    assert_eq!(all[0], Kernel::PLAIN);
    assert_eq!(all.last(), Some(&Kernel::best()));
    let names: std::collections::BTreeSet<&str> = all.iter().map(|kernel| kernel.name()).collect();
    assert_eq!(names.len(), all.len());
}

#[test]
fn parity_is_the_references_at_every_length() {
    for (k, m) in [(1, 1), (2, 1), (2, 2), (3, 3), (5, 3), (9, 3), (4, 4), (3, 5), (12, 4)] {
        let geometry = Geometry::new(k, m).expect("a geometry");
        let (k, m) = (usize::from(k), usize::from(m));
        let reference = ReedSolomon::new(k, m).expect("a geometry");
        let codes: Vec<Code> = Kernel::all().map(|kernel| Code::with_kernel(geometry, kernel)).collect();
        for length in (1..=300).chain([4095, 4096, 4097, 9000]) {
            let data = shards(k, length, 7);
            let mut whole: Vec<Vec<u8>> = data.iter().map(|shard| shard.bytes().to_vec()).collect();
            whole.resize(k + m, vec![0; length]);
            reference.encode(&mut whole).expect("shards of one length");
            for code in &codes {
                let parity = multiply(code.kernel, code.matrix.parity_rows(), &data);
                assert_eq!(parity, whole[k..], "{geometry} by {:?} at {length}", code.kernel);
            }
        }
    }
}

#[test]
fn every_loss_is_rebuilt_by_every_kernel() {
    for (k, m) in [(1, 2), (2, 2), (3, 2), (3, 3), (5, 3)] {
        let geometry = Geometry::new(k, m).expect("a geometry");
        let volumes = u32::from(k + m);
        for kernel in Kernel::all() {
            let code = Code::with_kernel(geometry, kernel);
            let data = shards(usize::from(k), 203, 1);
            let mut all: Vec<Vec<u8>> = data.iter().map(|shard| shard.bytes().to_vec()).collect();
            all.extend(expected(code.matrix.parity_rows(), &data));
            for lost in (0..1_u32 << volumes).filter(|lost| lost.count_ones() <= u32::from(m)) {
                let is_lost = |index: &u8| lost >> index & 1 == 1;
                let (wanted, present): (Vec<u8>, Vec<u8>) = (0..k + m).partition(is_lost);
                let plan = code.plan(&present, &wanted).expect("k are left");
                let sources: Vec<Placed> = present[..usize::from(k)]
                    .iter()
                    .map(|index| Placed::new(&all[usize::from(*index)], usize::from(*index) * 5))
                    .collect();
                let rebuilt = multiply(kernel, &plan.rows, &sources);
                let lost: Vec<Vec<u8>> =
                    wanted.iter().map(|index| all[usize::from(*index)].clone()).collect();
                assert_eq!(rebuilt, lost, "{geometry} by {kernel:?} without {wanted:?}");
            }
        }
    }
}

#[test]
fn only_the_very_factors_of_two_and_two_are_taken_for_it() {
    let sources = shards(2, 150, 5);
    for factors in [[[3, 2], [2, 3]], [[2, 3], [3, 2]], [[3, 2], [3, 2]], [[3, 3], [2, 2]], [[3, 2], [2, 1]]]
    {
        let rows = factors.map(|row| Row::of(&row));
        for kernel in Kernel::all() {
            assert_eq!(
                multiply(kernel, &rows, &sources),
                expected(&rows, &sources),
                "{factors:?} {kernel:?}"
            );
        }
    }
}

#[test]
fn no_bytes_and_no_outs_need_no_work() {
    for kernel in Kernel::all() {
        assert_eq!(multiply(kernel, &[Row::of(&[3, 2])], &shards(2, 0, 0)), [Vec::<u8>::new()]);
        assert!(multiply(kernel, &[], &shards(2, 10, 0)).is_empty());
    }
}

#[test]
#[should_panic(expected = "shards of one length")]
fn buffers_of_different_lengths_are_refused() {
    Kernel::best().multiply(&[Row::of(&[1, 1])], &[&[0; 64], &[0; 63]], &mut [&mut [0; 64]]);
}

proptest! {
    #[test]
    fn any_factors_give_the_same_bytes_in_every_kernel(
        source_count in 1..=32_usize,
        factors in prop::collection::vec(
            prop::collection::vec(prop_oneof![any::<u8>(), 0..4_u8], 32),
            0..=10,
        ),
        length in prop_oneof![0..300_usize, 0..10_000_usize],
        seed: u64,
    ) {
        let rows: Vec<Row> = factors.iter().map(|row| Row::of(&row[..source_count])).collect();
        let sources = shards(source_count, length, seed);
        let expected = expected(&rows, &sources);
        for kernel in Kernel::all() {
            prop_assert_eq!(&multiply(kernel, &rows, &sources), &expected, "{:?}", kernel);
        }
    }
}
