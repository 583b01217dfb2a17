//! How bytes get onto the device: files of large shards, and frames at the end of the log.
//!
//! Two tables, told apart by the label `part`. `files`: space is reserved, then a file is written through the
//! page cache, and written back by the sync at the end or early, or past it with O_DIRECT. Beside the writers
//! one probe writes 4 KiB into a file of its own and syncs it, again and again, as the log does:
//! `beside_p99_us` is what the way of writing files costs everybody else. `log`, one thread, in turns:
//!
//! ```text
//! grow        an empty file that each frame makes longer
//! fallocate   reserved, never written: each sync also makes blocks count as written
//! zeros       written once with zeros: a node's new segments
//! recycled    full of old frames: a node's segments after a compaction
//! ```
//! `sync` is fdatasync behind the write, the write itself with O_DSYNC, or that with O_DIRECT.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, fallocate};
use sherd_core::limits::{SEGMENT_BYTES, STRIPE_UNIT_BYTES};
use sherd_volume::buffer::Buffer;
use sherd_volume::disk::real::RealDisk;
use sherd_volume::disk::{Disk, OpenMode};

use super::crowd::{Crowd, Latencies, MIB, new_latencies, note, us};
use super::read_path::pool;
use super::{Bench, Error, Page, fill};
use crate::load::sizes::Size;
use crate::result::Row;

/// Bytes of a file, and writers.
const FILES: [u64; 3] = [1 << 20, 16 << 20, 64 << 20];
const WRITERS: [usize; 2] = [1, 4];
/// What the probe writes, into how long a file, and how long it rests.
const PROBE_BYTES: usize = 4096;
const PROBE_FILE_BYTES: u64 = 4 << 20;
const PROBE_REST: Duration = Duration::from_millis(2);
/// Bytes of a frame, frames of one turn, and frames of one round at most.
const FRAMES: [u64; 3] = [4 << 10, 64 << 10, 1 << 20];
const TURN: u64 = 8;
const FRAMES_MAX: u64 = 400;
/// Bytes of a segment in a moment.
const MOMENT_SEGMENT_BYTES: u64 = 8 << 20;

/// What is measured.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// MiB that one measurement of files writes at most, beside one file for each writer
    #[arg(long, default_value_t = 256, value_name = "MIB")]
    pub(super) mib: u64,
}

/// A way to write a file.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// Through the page cache; after so many bytes they are asked to go out.
    Cache { write_back: u64 },
    /// Past it.
    Direct,
}

const WAYS: [(&str, Way); 4] = [
    ("cache", Way::Cache { write_back: u64::MAX }),
    ("write-back-8MiB", Way::Cache { write_back: 8 << 20 }),
    ("write-back-1MiB", Way::Cache { write_back: 1 << 20 }),
    ("direct", Way::Direct),
];

/// What a segment is before it is written to.
#[derive(Debug, Clone, Copy)]
enum SegmentBefore {
    Grow,
    Fallocate,
    Full(u8),
}

/// Every segment with fdatasync, and every sync on the segment of a node, by flags of open.
const SEGMENTS: [(&str, SegmentBefore, &str, i32); 6] = [
    ("grow", SegmentBefore::Grow, "fdatasync", 0),
    ("fallocate", SegmentBefore::Fallocate, "fdatasync", 0),
    ("zeros", SegmentBefore::Full(0), "fdatasync", 0),
    ("recycled", SegmentBefore::Full(7), "fdatasync", 0),
    ("zeros", SegmentBefore::Full(0), "O_DSYNC", libc::O_DSYNC),
    ("zeros", SegmentBefore::Full(0), "O_DIRECT+O_DSYNC", libc::O_DSYNC | libc::O_DIRECT),
];

impl Page for Arguments {
    fn name(&self) -> &'static str {
        "write-path"
    }

    fn device_bytes(&self) -> u64 {
        (self.mib << 20) + (2 << 30)
    }

    fn round(&self, bench: &mut Bench, _: usize) -> Result<(), Error> {
        for bytes in bench.some(&FILES, 1).to_vec() {
            for clients in WRITERS {
                for (name, way) in WAYS {
                    let row = self.files(bench, (name, way), bytes, clients)?;
                    bench.add(row);
                }
            }
        }
        FRAMES.into_iter().try_for_each(|bytes| frames(bench, bytes))
    }
}

fn row(part: &str, variant: &str, op: &str, bytes: u64, clients: usize) -> Row {
    Row::new([
        ("part", part.to_owned()),
        ("variant", variant.to_owned()),
        ("op", op.to_owned()),
        ("size", Size(bytes).to_string()),
        ("clients", clients.to_string()),
    ])
}

/// Random bytes, aligned for O_DIRECT.
fn random(bytes: u64) -> Result<Buffer, Error> {
    let bytes = usize::try_from(bytes).expect("it fits memory");
    let mut buffer = pool().try_take(bytes).ok_or("no memory").map_err(Error::at("take a buffer"))?;
    getrandom::fill(&mut buffer).expect("the kernel gives random bytes once it has booted");
    Ok(buffer)
}

impl Arguments {
    fn files(
        &self,
        bench: &Bench,
        (name, way): (&str, Way),
        bytes: u64,
        clients: usize,
    ) -> Result<Row, Error> {
        let folder = bench.folder()?;
        let path = |number: u64| folder.path().join(number.to_string());
        let piece = random(u64::from(STRIPE_UNIT_BYTES))?;
        let allowed = if bench.is_moment() { 1 } else { self.mib };
        let crowd =
            Crowd { clients, window: bench.window(), ops_max: ((allowed << 20) / bytes).max(clients as u64) };
        let is_over = AtomicBool::new(false);
        let (outcome, beside) = thread::scope(|scope| {
            let probe = scope.spawn(|| probe(&folder.path().join("probe"), &is_over));
            let outcome = crowd
                .run(|number| write(&path(number), way, bytes, &piece).map_err(Error::at("write a file")));
            is_over.store(true, Ordering::Relaxed);
            (outcome, probe.join().expect("the probe does not panic"))
        });
        let (outcome, beside) = (outcome?, beside.map_err(Error::at("sync the probe's file"))?);
        for number in 0..outcome.ops {
            let found = std::fs::read(path(number)).map_err(Error::at("read a file"))?;
            let is_whole =
                found.len() as u64 == bytes && found.chunks(piece.len()).all(|found| found == &piece[..]);
            if !is_whole {
                return Err(Error::OtherBytes { what: path(number).display().to_string() });
            }
        }
        let row = outcome.fill(row("files", name, "put", bytes, clients), bytes);
        Ok(row.with("beside_p50_us", us(&beside, 0.5)).with("beside_p99_us", us(&beside, 0.99)))
    }
}

/// Writes one file, as a shard's is: its space first, then piece by piece, and a sync.
fn write(path: &Path, way: Way, bytes: u64, piece: &[u8]) -> io::Result<()> {
    match way {
        Way::Cache { write_back } => {
            let file = RealDisk.open(path, OpenMode::CreateNew)?;
            file.allocate(bytes)?;
            let mut waiting = 0..0;
            for at in (0..bytes).step_by(piece.len()) {
                file.write_at(&[IoSlice::new(piece)], at)?;
                waiting.end = at + piece.len() as u64;
                if waiting.end - waiting.start >= write_back {
                    file.write_back(waiting.start, waiting.end - waiting.start);
                    waiting.start = waiting.end;
                }
            }
            file.sync_data()
        }
        Way::Direct => {
            let file =
                File::options().write(true).create_new(true).custom_flags(libc::O_DIRECT).open(path)?;
            fallocate(&file, FallocateFlags::empty(), 0, bytes)?;
            for at in (0..bytes).step_by(piece.len()) {
                file.write_all_at(piece, at)?;
            }
            file.sync_data()
        }
    }
}

/// Syncs a little all the time, until it is over.
fn probe(path: &Path, is_over: &AtomicBool) -> io::Result<Latencies> {
    let file = fill(path, PROBE_FILE_BYTES, 0)?;
    let (mut latencies, mut at) = (new_latencies(), 0);
    while !is_over.load(Ordering::Relaxed) || latencies.is_empty() {
        let begun = Instant::now();
        file.write_all_at(&[1; PROBE_BYTES], at)?;
        file.sync_data()?;
        note(&mut latencies, begun.elapsed());
        at = (at + PROBE_BYTES as u64) % PROBE_FILE_BYTES;
        thread::sleep(PROBE_REST);
    }
    Ok(latencies)
}

/// Appends frames of one size to every segment, in turns.
fn frames(bench: &mut Bench, bytes: u64) -> Result<(), Error> {
    let segment_bytes = if bench.is_moment() { MOMENT_SEGMENT_BYTES } else { SEGMENT_BYTES };
    let (folder, frame) = (bench.folder()?, random(bytes)?);
    let mut segments = Vec::new();
    for (index, (_, before, _, flags)) in SEGMENTS.into_iter().enumerate() {
        let made = segment(&folder.path().join(index.to_string()), before, flags, segment_bytes);
        segments.push((made.map_err(Error::at("make a segment"))?, new_latencies()));
    }
    let count = if bench.is_moment() { TURN } else { FRAMES_MAX.min(segment_bytes / bytes) };
    for turn in (0..count).step_by(8) {
        for ((file, latencies), (_, _, _, flags)) in segments.iter_mut().zip(SEGMENTS) {
            for number in turn..count.min(turn + TURN) {
                let begun = Instant::now();
                let written = file.write_all_at(&frame, number * bytes);
                let synced = written.and_then(|()| if flags == 0 { file.sync_data() } else { Ok(()) });
                synced.map_err(Error::at("append a frame"))?;
                note(latencies, begun.elapsed());
            }
        }
    }
    // Aligned: the file may be open with O_DIRECT.
    let mut found = random(bytes)?;
    for ((file, latencies), (variant, _, sync, _)) in segments.iter().zip(SEGMENTS) {
        for number in 0..count {
            file.read_exact_at(&mut found, number * bytes).map_err(Error::at("read a frame"))?;
            if found[..] != frame[..] {
                return Err(Error::OtherBytes { what: "a frame".to_owned() });
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a frame is far below 2^53 bytes")]
        let mib_s = bytes as f64 / MIB / (latencies.mean() / 1e9);
        let mut row = row("log", variant, "append", bytes, 1).with("mib_s", mib_s);
        row = row.with("p50_us", us(latencies, 0.5)).with("p99_us", us(latencies, 0.99));
        row.labels.insert("sync".to_owned(), sync.to_owned());
        bench.add(row);
    }
    Ok(())
}

fn segment(path: &Path, before: SegmentBefore, flags: i32, bytes: u64) -> io::Result<File> {
    match before {
        SegmentBefore::Grow => drop(File::create(path)?),
        SegmentBefore::Fallocate => {
            let file = File::create(path)?;
            fallocate(&file, FallocateFlags::empty(), 0, bytes)?;
            file.sync_all()?;
        }
        SegmentBefore::Full(with) => drop(fill(path, bytes, with)?),
    }
    File::options().read(true).write(true).custom_flags(flags).open(path)
}
