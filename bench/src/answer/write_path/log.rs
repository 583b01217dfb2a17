//! Frames at the end of a log: what the segment is before, and what makes a frame durable.
//!
//! ```text
//! grow        an empty file that each frame makes longer
//! fallocate   reserved, never written: each sync also makes blocks count as written
//! zeros       written once with zeros: a node's new segments
//! recycled    full of old frames: a node's segments after a compaction
//! ```
//! `sync` is fdatasync behind the write, the write itself with O_DSYNC, or that with O_DIRECT. One thread,
//! in turns. `make` is what it takes to write a segment with zeros.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Instant;

use sherd_core::limits::SEGMENT_BYTES;
use sherd_volume::buffer::Buffer;

use super::{Arguments, fill};
use crate::answer::bed::pool;
use crate::answer::crowd::{Latencies, new_latencies, note, with_latencies};
use crate::answer::rounds::Rounds;
use crate::answer::{Error, size_name};
use crate::result::Row;

/// Bytes of a frame.
const SIZES: [u64; 3] = [4 << 10, 64 << 10, 1 << 20];
/// Frames of one turn.
const TURN: u64 = 8;
/// Frames of one round at most, and in a moment.
const FRAMES_MAX: u64 = 400;
const MOMENT_FRAMES: u64 = 8;
/// Bytes of a segment in a moment.
const MOMENT_SEGMENT_BYTES: u64 = 8 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Grow,
    Fallocate,
    Zeros,
    Recycled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sync {
    Fdatasync,
    Dsync,
    DirectDsync,
}

/// What is compared: every segment with fdatasync, and every sync on the segment of a node.
const WAYS: [(&str, Before, &str, Sync); 6] = [
    ("grow", Before::Grow, "fdatasync", Sync::Fdatasync),
    ("fallocate", Before::Fallocate, "fdatasync", Sync::Fdatasync),
    ("zeros", Before::Zeros, "fdatasync", Sync::Fdatasync),
    ("recycled", Before::Recycled, "fdatasync", Sync::Fdatasync),
    ("zeros", Before::Zeros, "O_DSYNC", Sync::Dsync),
    ("zeros", Before::Zeros, "O_DIRECT+O_DSYNC", Sync::DirectDsync),
];

/// Takes turns once, for every size.
pub(super) fn round(arguments: &Arguments, rounds: &mut Rounds) -> Result<(), Error> {
    let moment = arguments.common.moment;
    let segment_bytes = if moment { MOMENT_SEGMENT_BYTES } else { SEGMENT_BYTES };
    for size in SIZES {
        let folder = arguments.common.folder()?;
        let frame = frame(size)?;
        let mut segments = Vec::new();
        for (index, (_, before, _, sync)) in WAYS.into_iter().enumerate() {
            let path = folder.path().join(index.to_string());
            let made = Segment::make(&path, before, sync, segment_bytes);
            segments.push(made.map_err(Error::at("make a segment"))?);
        }
        let frames = if moment { MOMENT_FRAMES } else { FRAMES_MAX.min(segment_bytes / size) };
        for turn in (0..frames).step_by(usize::try_from(TURN).unwrap_or(1)) {
            for segment in &mut segments {
                for number in turn..frames.min(turn + TURN) {
                    segment.append(&frame, number * size).map_err(Error::at("append a frame"))?;
                }
            }
        }
        for ((variant, _, sync, _), segment) in WAYS.into_iter().zip(segments) {
            segment.check(&frame, frames)?;
            let row = row(variant, "append", size).with("mib_s", segment.mib_s(size));
            let mut row = with_latencies(row, &segment.latencies);
            row.labels.insert("sync".to_owned(), sync.to_owned());
            rounds.add(row);
        }
    }
    let folder = arguments.common.folder()?;
    let begun = Instant::now();
    fill(&folder.path().join("made"), segment_bytes, &vec![0; 1 << 20])
        .map_err(Error::at("make a segment"))?;
    let seconds = begun.elapsed().as_secs_f64();
    let mib = segment_bytes as f64 / f64::from(1 << 20);
    rounds.add(row("zeros", "make", segment_bytes).with("seconds", seconds).with("mib_s", mib / seconds));
    Ok(())
}

fn row(variant: &str, op: &str, size: u64) -> Row {
    Row::new([
        ("part", "log".to_owned()),
        ("variant", variant.to_owned()),
        ("op", op.to_owned()),
        ("size", size_name(size)),
        ("clients", "1".to_owned()),
    ])
}

/// Random bytes, aligned for O_DIRECT.
fn frame(size: u64) -> Result<Buffer, Error> {
    let bytes = usize::try_from(size).expect("a frame fits memory");
    let mut frame = pool().try_take(bytes).ok_or("no memory").map_err(Error::at("take a buffer"))?;
    getrandom::fill(&mut frame).expect("the kernel gives random bytes once it has booted");
    Ok(frame)
}

struct Segment {
    file: File,
    sync: Sync,
    latencies: Latencies,
}

impl Segment {
    fn make(path: &Path, before: Before, sync: Sync, bytes: u64) -> io::Result<Self> {
        match before {
            Before::Grow => drop(File::create(path)?),
            Before::Fallocate => {
                let file = File::create(path)?;
                rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)?;
                file.sync_all()?;
            }
            Before::Zeros => drop(fill(path, bytes, &vec![0; 1 << 20])?),
            Before::Recycled => drop(fill(path, bytes, &vec![7; 1 << 20])?),
        }
        let flags = match sync {
            Sync::Fdatasync => 0,
            Sync::Dsync => libc::O_DSYNC,
            Sync::DirectDsync => libc::O_DSYNC | libc::O_DIRECT,
        };
        let file = File::options().read(true).write(true).custom_flags(flags).open(path)?;
        Ok(Self { file, sync, latencies: new_latencies() })
    }

    fn append(&mut self, frame: &[u8], at: u64) -> io::Result<()> {
        let begun = Instant::now();
        self.file.write_all_at(frame, at)?;
        if self.sync == Sync::Fdatasync {
            self.file.sync_data()?;
        }
        note(&mut self.latencies, begun.elapsed());
        Ok(())
    }

    /// Reads what was appended.
    fn check(&self, frame: &[u8], frames: u64) -> Result<(), Error> {
        // Aligned: the file may be open with O_DIRECT.
        let mut found = self::frame(frame.len() as u64)?;
        for number in 0..frames {
            let read = self.file.read_exact_at(&mut found, number * frame.len() as u64);
            read.map_err(Error::at("read a frame"))?;
            if found[..] != *frame {
                return Err(Error::OtherBytes { what: "a frame".to_owned() });
            }
        }
        Ok(())
    }

    /// Of all frames together.
    fn mib_s(&self, size: u64) -> f64 {
        size as f64 / f64::from(1 << 20) / (self.latencies.mean() / 1e9)
    }
}
