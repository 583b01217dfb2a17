//! Multiplies shards with factors of GF(2^8) and adds them up: all the work per byte there is.

use reed_solomon_erasure::galois_8;

/// Sets `out` to the sum of each source times its factor.
///
/// # Panics
/// When there are not as many factors as sources, or a source is not as long as `out`.
pub(super) fn multiply(factors: &[u8], sources: &[&[u8]], out: &mut [u8]) {
    assert_eq!(factors.len(), sources.len(), "one factor per source");
    for source in sources {
        assert_eq!(source.len(), out.len(), "shards of one length");
    }
    if out.is_empty() {
        return;
    }
    let mut terms = factors.iter().zip(sources);
    let Some((factor, source)) = terms.next() else { return out.fill(0) };
    galois_8::mul_slice(*factor, source, out);
    for (factor, source) in terms.filter(|(factor, _)| **factor != 0) {
        galois_8::mul_slice_xor(*factor, source, out);
    }
}
