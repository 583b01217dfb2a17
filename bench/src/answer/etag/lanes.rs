//! MD5 of several streams at a time: what a core hashes when it puts them side by side, against one
//! after the other with the `md-5` crate.
//!
//! One thread. `mib_s` is all streams together, `stream_us` the processor's time for each of them from
//! its first byte to its digest. Digests are compared before time is taken.

use std::time::Duration;

use md5::{Digest as _, Md5 as Reference};
use sherd_core::md5::{Lanes, Md5, Stream};

use crate::answer::interleaved::{Way, measure, mib};
use crate::result::Row;

/// Streams at a time.
const STREAMS: [usize; 7] = [1, 2, 3, 4, 8, 16, 32];
/// Bytes of each stream.
const SIZES: [(&str, usize); 3] = [("4KiB", 4 << 10), ("64KiB", 64 << 10), ("1MiB", 1 << 20)];
/// Bytes of a stream that are there at a time.
const BUFFER_BYTES: usize = 64 << 10;
/// What the crate is called in the rows.
const REFERENCE: &str = "md-5";

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// Lanes give other digests than the crate.
    #[error("{lanes}: {streams} streams of {size} give other digests than the reference")]
    Differs {
        /// The lanes.
        lanes: &'static str,
        /// How many streams.
        streams: usize,
        /// Bytes of each.
        size: &'static str,
    },
}

/// Measures all lanes of this processor, each row for a third of `window`: there are many.
///
/// # Errors
/// [`Error::Differs`] when some are wrong.
pub(super) fn rows(window: Duration) -> Result<Vec<Row>, Error> {
    let budget = window / 3;
    let mut random = blake3::Hasher::new().finalize_xof();
    let mut rows = Vec::new();
    for (size, bytes) in SIZES {
        for count in STREAMS {
            let mut streams = vec![vec![0; bytes]; count];
            for stream in &mut streams {
                random.fill(stream);
            }
            let expected = by_the_crate(&streams);
            if let Some(lanes) = Lanes::all().find(|lanes| by_lanes(*lanes, &streams) != expected) {
                return Err(Error::Differs { lanes: lanes.name(), streams: count, size });
            }
            let streams = &streams;
            let mut ways = vec![Way::new(REFERENCE, || drop(std::hint::black_box(by_the_crate(streams))))];
            ways.extend(Lanes::all().map(|lanes| {
                Way::new(lanes.name(), move || drop(std::hint::black_box(by_lanes(lanes, streams))))
            }));
            let times = measure(&mut ways, budget);
            rows.extend(times.iter().map(|own| {
                let labels = [
                    ("part", "lanes".to_owned()),
                    ("lanes", own.name.to_owned()),
                    ("streams", count.to_string()),
                    ("size", size.to_owned()),
                ];
                let streams = f64::from(u32::try_from(count).expect("a few streams"));
                Row::new(labels)
                    .with("mib_s", streams * mib(bytes) / own.seconds())
                    .with("stream_us", 1e6 * own.seconds() / streams)
                    .with("ratio", own.speed_over(&times[0]))
            }));
        }
    }
    Ok(rows)
}

fn by_the_crate(streams: &[Vec<u8>]) -> Vec<[u8; 16]> {
    streams.iter().map(|stream| Reference::digest(stream).into()).collect()
}

fn by_lanes(lanes: Lanes, streams: &[Vec<u8>]) -> Vec<[u8; 16]> {
    let mut hashers = vec![Md5::new(); streams.len()];
    let bytes = streams.first().map_or(0, Vec::len);
    for start in (0..bytes).step_by(BUFFER_BYTES) {
        let mut round: Vec<Stream<'_>> = hashers
            .iter_mut()
            .zip(streams)
            .map(|(md5, stream)| Stream { md5, bytes: &stream[start..bytes.min(start + BUFFER_BYTES)] })
            .collect();
        lanes.update(&mut round);
    }
    hashers.into_iter().map(Md5::finish).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lanes_have_a_row_for_each_size_and_count() {
        let rows = rows(Duration::from_millis(3)).expect("the digests are right");
        let ways = 1 + Lanes::all().count();
        assert_eq!(rows.len(), SIZES.len() * STREAMS.len() * ways);
        assert!(rows.iter().all(|row| row.figure("stream_us").is_some_and(|time| time > 0.0)));
    }
}
