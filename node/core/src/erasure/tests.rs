//! The code gives the reference's bytes, and gives everything back from any k shards.

use proptest::prelude::*;
use reed_solomon_erasure::galois_8::ReedSolomon;

use super::*;

const GEOMETRIES: [(u8, u8); 8] = [(1, 0), (1, 1), (1, 2), (2, 2), (3, 3), (5, 3), (9, 3), (12, 4)];

fn code(k: u8, m: u8) -> Arc<Code> {
    Code::of(Geometry::new(k, m).expect("a geometry"))
}

/// Data that differs in every shard and has every byte value.
fn data_shards(k: u8, length: usize, seed: u64) -> Vec<Vec<u8>> {
    (0..k)
        .map(|shard| {
            let mut bytes = vec![0; length];
            let mut hasher = blake3::Hasher::new();
            hasher.update(&seed.to_le_bytes()).update(&[shard]);
            hasher.finalize_xof().fill(&mut bytes);
            bytes
        })
        .collect()
}

fn encode(code: &Code, data: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let length = data.first().map_or(0, Vec::len);
    // The former content of the buffers must not show.
    let mut parity = vec![vec![0xee; length]; code.geometry().parity_shards()];
    let sources: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let mut buffers: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    code.encode(&sources, &mut buffers);
    [data, &parity].concat()
}

/// Loses some shards and rebuilds them from the others.
fn rebuild(code: &Code, shards: &[Vec<u8>], lost: &[u8]) -> Result<Vec<Vec<u8>>, ErasureError> {
    let length = shards[0].len();
    let present: Vec<(u8, &[u8])> = (0..)
        .zip(shards)
        .filter(|(index, _)| !lost.contains(index))
        .map(|(index, shard)| (index, shard.as_slice()))
        .collect();
    let mut rebuilt = vec![vec![0xee; length]; lost.len()];
    let mut missing: Vec<(u8, &mut [u8])> =
        lost.iter().copied().zip(rebuilt.iter_mut().map(Vec::as_mut_slice)).collect();
    code.reconstruct(&present, &mut missing)?;
    Ok(rebuilt)
}

/// All ways to choose `count` of the first `of` indexes.
fn choices(of: u8, count: u8) -> Vec<Vec<u8>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    (count - 1..of)
        .flat_map(|last| {
            choices(last, count - 1).into_iter().map(move |mut chosen| {
                chosen.push(last);
                chosen
            })
        })
        .collect()
}

#[test]
fn every_loss_of_m_shards_is_rebuilt() {
    for (k, m) in GEOMETRIES {
        let code = code(k, m);
        let shards = encode(&code, &data_shards(k, 77, 1));
        for lost in choices(k + m, m) {
            let expected: Vec<Vec<u8>> =
                lost.iter().map(|index| shards[usize::from(*index)].clone()).collect();
            assert_eq!(rebuild(&code, &shards, &lost), Ok(expected), "{k}+{m} without {lost:?}");
        }
    }
}

#[test]
fn one_lost_shard_more_is_too_much() {
    for (k, m) in GEOMETRIES {
        let shards = encode(&code(k, m), &data_shards(k, 5, 2));
        let lost: Vec<u8> = (0..=m).collect();
        let error = ErasureError::NotEnough { present: usize::from(k - 1), needed: usize::from(k) };
        assert_eq!(rebuild(&code(k, m), &shards, &lost), Err(error));
    }
}

#[test]
fn parity_of_one_data_shard_is_copies_of_it() {
    for m in 1..8 {
        let shards = encode(&code(1, m), &data_shards(1, 40, 3));
        assert!(shards.iter().all(|shard| *shard == shards[0]));
    }
}

#[test]
fn parity_is_these_bytes() {
    let data: Vec<Vec<u8>> = vec![vec![1, 2, 0xff], vec![3, 4, 0xfe]];
    let shards = encode(&code(2, 2), &data);
    assert_eq!(shards[2..], PARITY_OF_2_2);
}

/// By hand, in the field of x^8 + x^4 + x^3 + x^2 + 1: the rows are (3, 2) and (2, 3).
const PARITY_OF_2_2: [[u8; 3]; 2] = [[5, 14, 253], [7, 8, 252]];

#[test]
fn every_geometry_gives_the_references_parity() {
    for k in 1..=31 {
        for m in 1..=(32 - k) {
            let data = data_shards(k, 33, u64::from(k));
            let shards = encode(&code(k, m), &data);
            let reference = ReedSolomon::new(usize::from(k), usize::from(m)).expect("a geometry");
            assert!(reference.verify(&shards).expect("shards of one length"), "{k}+{m}");
        }
    }
}

#[test]
fn a_code_is_made_once() {
    assert!(Arc::ptr_eq(&code(5, 3), &code(5, 3)));
    assert_eq!(code(32, 0).geometry().volumes(), 32);
}

#[test]
fn a_plan_serves_every_stripe_and_any_order_of_sources() {
    let code = code(5, 3);
    let plan = code.plan(&[7, 1, 4, 6, 3, 2], &[0, 5]).expect("six are there");
    for seed in 0..3 {
        let shards = encode(&code, &data_shards(5, 100, seed));
        let sources: Vec<&[u8]> = [7, 1, 4, 6, 3].map(|index: usize| shards[index].as_slice()).to_vec();
        let (mut first, mut second) = (vec![1; 100], vec![2; 100]);
        plan.run(&sources, &mut [&mut first, &mut second]).expect("buffers of one length");
        assert_eq!([&first, &second], [&shards[0], &shards[5]]);
    }
}

#[test]
fn indexes_and_lengths_that_do_not_fit_are_refused() {
    let code = code(2, 2);
    let index = |index| Some(ErasureError::Index { index });
    assert_eq!(code.plan(&[0, 4], &[1]).err(), index(4));
    assert_eq!(code.plan(&[0, 255], &[1]).err(), index(255));
    assert_eq!(code.plan(&[0, 0], &[1]).err(), index(0));
    assert_eq!(code.plan(&[0, 1], &[1]).err(), index(1));
    assert_eq!(code.plan(&[0, 1], &[4]).err(), index(4));
    let mut short = [0; 3];
    let uneven = code.reconstruct(&[(0, &[1; 4]), (1, &[2; 4])], &mut [(2, &mut short)]);
    assert_eq!(uneven, Err(ErasureError::Length { bytes: 4, other_bytes: 3 }));
    let mut out = [0; 4];
    let uneven = code.reconstruct(&[(0, &[1; 4]), (1, &[2; 5])], &mut [(2, &mut out)]);
    assert_eq!(uneven, Err(ErasureError::Length { bytes: 4, other_bytes: 5 }));
}

#[test]
fn no_bytes_have_no_parity() {
    for (k, m) in GEOMETRIES {
        let shards = encode(&code(k, m), &data_shards(k, 0, 0));
        assert!(shards.iter().all(Vec::is_empty));
    }
}

proptest! {
    #[test]
    fn any_loss_is_rebuilt_and_is_what_the_reference_rebuilds(
        geometry in prop::sample::select(GEOMETRIES.to_vec()),
        length in 1..3000_usize,
        seed: u64,
        order in prop::collection::vec(any::<u16>(), 16),
        lost_count in 0..=4_usize,
    ) {
        let (k, m) = geometry;
        let code = code(k, m);
        let shards = encode(&code, &data_shards(k, length, seed));
        let mut indexes: Vec<u8> = (0..k + m).collect();
        indexes.sort_by_key(|index| order[usize::from(*index)]);
        indexes.truncate(lost_count.min(usize::from(m)));
        let rebuilt = rebuild(&code, &shards, &indexes).expect("at most m are lost");
        for (index, shard) in indexes.iter().zip(&rebuilt) {
            prop_assert_eq!(shard, &shards[usize::from(*index)]);
        }
        if m > 0 {
            let reference = ReedSolomon::new(usize::from(k), usize::from(m)).expect("a geometry");
            let mut holes: Vec<Option<Vec<u8>>> = shards.iter().cloned().map(Some).collect();
            for index in &indexes {
                holes[usize::from(*index)] = None;
            }
            reference.reconstruct(&mut holes).expect("at most m are lost");
            let filled: Vec<Vec<u8>> = holes.into_iter().flatten().collect();
            prop_assert_eq!(filled, shards);
        }
    }
}
