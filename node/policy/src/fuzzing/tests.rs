//! The seeds of `fuzz/`, and random bytes.

use std::path::Path;

use proptest::prelude::*;

use super::document;

fn seeds() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/policy");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("there are seeds")
        .map(|seed| seed.expect("readable").path())
        .collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("readable")).collect()
}

#[test]
fn every_seed_keeps_its_promise() {
    let seeds = seeds();
    assert!(seeds.len() > 5);
    for seed in seeds {
        document(&seed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_a_document_or_refused(input in proptest::collection::vec(any::<u8>(), 0..200)) {
        document(&input);
    }

    #[test]
    fn seeds_with_a_part_of_another_in_place_keep_their_promise(
        one: prop::sample::Index, other: prop::sample::Index,
        at: prop::sample::Index, from: prop::sample::Index, length in 0_usize..20, removed in 0_usize..20,
    ) {
        let seeds = seeds();
        let mut input = one.get(&seeds).clone();
        let other = other.get(&seeds);
        let (at, from) = (at.index(input.len()), from.index(other.len()));
        let end = (at + removed).min(input.len());
        input.splice(at..end, other[from..(from + length).min(other.len())].iter().copied());
        document(&input);
    }
}
