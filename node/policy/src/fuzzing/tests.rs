//! The seeds of `fuzz/`, and random bytes.

use std::path::Path;

use proptest::prelude::*;

use super::document;

#[test]
fn every_seed_keeps_its_promise() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/policy");
    let seeds: Vec<_> = std::fs::read_dir(folder).expect("there are seeds").collect();
    assert!(seeds.len() > 5);
    for seed in seeds {
        let seed = seed.expect("readable");
        println!("{}", seed.file_name().display());
        document(&std::fs::read(seed.path()).expect("readable"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_a_document_or_refused(input in proptest::collection::vec(any::<u8>(), 0..200)) {
        document(&input);
    }
}
