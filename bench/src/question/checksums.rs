//! Checksums over lists of buffers: what it costs that a body arrives in pieces and is never joined.
//!
//! One thread, 4 MiB as 16 buffers of 256 KiB in windows of 1 MiB: as a PUT takes them (`list`), each
//! window copied into one buffer first (`linearised`), and all in one buffer from the start
//! (`contiguous`, what every other way is divided by). `ragged` is the same bytes in pieces of odd
//! lengths up to 32 KiB, as a socket gives them. The values are compared before time is taken.

use sherd_core::checksum::BlockHasher;
use sherd_core::record::ChecksumAlgorithm;
use sherd_store::object::digest::{Digests, Hasher};

use super::turns::{Way, measure, mib};
use super::{Bench, Error, Page};
use crate::alloc::{self, Scope};
use crate::result::Row;

const BODY_BYTES: usize = 4 << 20;
const BUFFER_BYTES: usize = 256 << 10;
const WINDOW_BYTES: usize = 1 << 20;
/// The longest piece of `ragged`.
const PIECE_BYTES: usize = 32 << 10;

/// What is measured.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {}

/// What is computed.
#[derive(Debug, Clone, Copy)]
enum Algorithm {
    S3(ChecksumAlgorithm),
    Md5,
    Blake3,
}

const ALGORITHMS: [(&str, Algorithm); 7] = [
    ("crc32", Algorithm::S3(ChecksumAlgorithm::Crc32)),
    ("crc32c", Algorithm::S3(ChecksumAlgorithm::Crc32c)),
    ("crc64nvme", Algorithm::S3(ChecksumAlgorithm::Crc64Nvme)),
    ("sha1", Algorithm::S3(ChecksumAlgorithm::Sha1)),
    ("sha256", Algorithm::S3(ChecksumAlgorithm::Sha256)),
    ("md5", Algorithm::Md5),
    ("blake3", Algorithm::Blake3),
];

/// One of them under way, as a PUT computes it.
enum RunningDigest {
    S3(Hasher),
    Md5(Digests),
    Blake3(Box<BlockHasher>),
}

impl RunningDigest {
    fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::S3(algorithm) => Self::S3(Hasher::new(algorithm)),
            Algorithm::Md5 => Self::Md5(Digests::new([])),
            Algorithm::Blake3 => Self::Blake3(Box::new(BlockHasher::with_length(BODY_BYTES as u64))),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::S3(hasher) => hasher.update(bytes),
            Self::Md5(digests) => digests.update(bytes),
            Self::Blake3(hasher) => hasher.update(bytes),
        }
    }

    fn finish(self) -> Vec<u8> {
        match self {
            Self::S3(hasher) => hasher.finish().to_vec(),
            Self::Md5(digests) => digests.finish().md5.expect("not left out").into(),
            Self::Blake3(hasher) => hasher.finish().concat(),
        }
    }
}

/// A body, cut: windows of buffers. Whether each window is copied together first.
struct CutBody {
    name: &'static str,
    windows: Vec<Vec<Vec<u8>>>,
    is_joined: bool,
}

impl CutBody {
    fn take(&self, running: &mut RunningDigest, windows: std::ops::Range<usize>) {
        for window in &self.windows[windows] {
            if self.is_joined {
                running.update(&window.concat());
            } else {
                for buffer in window {
                    running.update(buffer);
                }
            }
        }
    }

    fn run(&self, algorithm: Algorithm) -> Vec<u8> {
        let mut running = RunningDigest::new(algorithm);
        self.take(&mut running, 0..self.windows.len());
        running.finish()
    }

    /// Allocations per window once the first has passed.
    fn allocations(&self, algorithm: Algorithm) -> Option<f64> {
        let further = u32::try_from(self.windows.len().checked_sub(1)?).ok().filter(|count| *count > 0)?;
        let mut running = RunningDigest::new(algorithm);
        self.take(&mut running, 0..1);
        let scope = Scope::begin();
        self.take(&mut running, 1..self.windows.len());
        let made = u32::try_from(scope.counts().allocations).ok()?;
        Some(f64::from(made) / f64::from(further))
    }
}

/// The same random bytes in every way they are cut.
fn cuts() -> [CutBody; 4] {
    let mut random = blake3::Hasher::new().finalize_xof();
    let mut body = vec![0; BODY_BYTES];
    random.fill(&mut body);
    let windows = |length: usize| -> Vec<Vec<Vec<u8>>> {
        let windows = body.chunks(WINDOW_BYTES);
        windows.map(|window| window.chunks(length).map(<[u8]>::to_vec).collect()).collect()
    };
    let ragged = body.chunks(WINDOW_BYTES).map(|mut window| {
        let mut pieces = Vec::new();
        while !window.is_empty() {
            let mut length = [0; 2];
            random.fill(&mut length);
            let length = 1 + usize::from(u16::from_le_bytes(length)) % PIECE_BYTES;
            let (piece, behind) = window.split_at(length.min(window.len()));
            pieces.push(piece.to_vec());
            window = behind;
        }
        pieces
    });
    let ragged = ragged.collect();
    [
        CutBody { name: "contiguous", windows: vec![vec![body.clone()]], is_joined: false },
        CutBody { name: "list", windows: windows(BUFFER_BYTES), is_joined: false },
        CutBody { name: "linearised", windows: windows(BUFFER_BYTES), is_joined: true },
        CutBody { name: "ragged", windows: ragged, is_joined: false },
    ]
}

impl Page for Arguments {
    fn name(&self) -> &'static str {
        "checksums"
    }

    fn device_bytes(&self) -> u64 {
        0
    }

    fn once(&self, bench: &mut Bench) -> Result<(), Error> {
        let cuts = cuts();
        for (name, algorithm) in ALGORITHMS {
            let expected = cuts[0].run(algorithm);
            if let Some(cut) = cuts.iter().find(|cut| cut.run(algorithm) != expected) {
                return Err(Error::OtherBytes { what: format!("{name} of a {} body", cut.name) });
            }
            let mut ways: Vec<Way<'_>> = cuts
                .iter()
                .map(|cut| Way::new(cut.name, move || drop(std::hint::black_box(cut.run(algorithm)))))
                .collect();
            let times = measure(&mut ways, bench.window());
            for (own, cut) in times.iter().zip(&cuts) {
                let row = Row::new([("algorithm", name.to_owned()), ("way", cut.name.to_owned())])
                    .with("mib_s", mib(BODY_BYTES) / own.seconds())
                    .with("ratio", own.speed_over(&times[0]));
                let count = alloc::is_installed().then(|| cut.allocations(algorithm)).flatten();
                bench.add(match count {
                    Some(count) => row.with("allocs_window", count),
                    None => row,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_cuts_the_same_bytes() {
        let bytes = |cut: &CutBody| cut.windows.iter().flatten().flatten().copied().collect::<Vec<u8>>();
        let cuts = cuts();
        assert!(cuts.iter().all(|cut| bytes(cut) == bytes(&cuts[0])));
        assert_eq!(cuts[1].windows.iter().map(Vec::len).collect::<Vec<_>>(), [4; 4]);
    }
}
