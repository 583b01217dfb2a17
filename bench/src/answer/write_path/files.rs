//! Files of large shards: through the page cache, written back by the sync at the end or early, and past
//! it with O_DIRECT.
//!
//! Beside the writers one probe writes 4 KiB into a file of its own and syncs it, again and again, as the
//! log does: `beside_p99_us` is what the way of writing files costs everybody else.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sherd_core::limits::STRIPE_UNIT_BYTES;
use sherd_volume::buffer::Buffer;
use sherd_volume::disk::real::RealDisk;
use sherd_volume::disk::{Disk, OpenMode};

use super::{Arguments, fill};
use crate::answer::bed::pool;
use crate::answer::crowd::{Crowd, Latencies, new_latencies, note};
use crate::answer::rounds::Rounds;
use crate::answer::{Error, size_name};
use crate::result::Row;

/// Bytes of a file.
const SIZES: [u64; 3] = [1 << 20, 16 << 20, 64 << 20];
const MOMENT_SIZES: [u64; 1] = [1 << 20];
/// Writers.
const CLIENTS: [usize; 2] = [1, 4];
/// Bytes of one write: what a stripe brings to a shard.
const WRITE_BYTES: u64 = STRIPE_UNIT_BYTES as u64;
/// What the probe writes, into how long a file, and how long it rests.
const PROBE_BYTES: usize = 4096;
const PROBE_FILE_BYTES: u64 = 4 << 20;
const PROBE_REST: Duration = Duration::from_millis(2);

/// A way to write a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// Measures every way once.
pub(super) async fn round(arguments: &Arguments, rounds: &mut Rounds) -> Result<(), Error> {
    let sizes: &[u64] = if arguments.common.moment { &MOMENT_SIZES } else { &SIZES };
    for &bytes in sizes {
        for clients in CLIENTS {
            for (name, way) in WAYS {
                rounds.add(measure(arguments, name, way, bytes, clients).await?);
            }
        }
    }
    Ok(())
}

async fn measure(
    arguments: &Arguments,
    name: &str,
    way: Way,
    bytes: u64,
    clients: usize,
) -> Result<Row, Error> {
    let folder = arguments.common.folder()?;
    let path: Arc<Path> = folder.path().into();
    let payload = Arc::new(payload()?);
    let probe = Probe::start(folder.path())?;
    let crowd = Crowd {
        clients,
        window: arguments.common.window(),
        ops_max: arguments.ops_max(bytes, clients),
        first: 0,
    };
    let (into, from) = (Arc::clone(&path), Arc::clone(&payload));
    let outcome = crowd.run(move |number| {
        let (path, payload) = (into.join(number.to_string()), Arc::clone(&from));
        async move {
            let written = tokio::task::spawn_blocking(move || write(&path, way, bytes, &payload));
            written.await.map_err(Error::at("run a writer"))?.map_err(Error::at("write a file"))
        }
    });
    let outcome = outcome.await?;
    let beside = probe.end()?;
    for number in 0..outcome.ops {
        check(&path.join(number.to_string()), bytes, &payload)?;
    }
    let us = |quantile| beside.value_at_quantile(quantile) as f64 / 1_000.0;
    let row = Row::new([
        ("part", "files".to_owned()),
        ("variant", name.to_owned()),
        ("op", "put".to_owned()),
        ("size", size_name(bytes)),
        ("clients", clients.to_string()),
    ]);
    Ok(outcome.fill(row, bytes).with("beside_p50_us", us(0.5)).with("beside_p99_us", us(0.99)))
}

/// What every write writes: aligned for O_DIRECT.
fn payload() -> Result<Buffer, Error> {
    let bytes = usize::try_from(WRITE_BYTES).expect("a stripe unit fits memory");
    let mut payload = pool().try_take(bytes).ok_or("no memory").map_err(Error::at("take a buffer"))?;
    getrandom::fill(&mut payload).expect("the kernel gives random bytes once it has booted");
    Ok(payload)
}

/// Writes one file, as a shard's is: its space first, then piece by piece, and a sync.
fn write(path: &Path, way: Way, bytes: u64, payload: &[u8]) -> io::Result<()> {
    match way {
        Way::Cache { write_back } => {
            let file = RealDisk.open(path, OpenMode::CreateNew)?;
            file.allocate(bytes)?;
            let mut waiting = 0..0;
            for at in (0..bytes).step_by(payload.len()) {
                file.write_at(&[IoSlice::new(payload)], at)?;
                waiting.end = at + payload.len() as u64;
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
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)?;
            for at in (0..bytes).step_by(payload.len()) {
                file.write_all_at(payload, at)?;
            }
            file.sync_data()
        }
    }
}

fn check(path: &Path, bytes: u64, payload: &[u8]) -> Result<(), Error> {
    let found = std::fs::read(path).map_err(Error::at("read a file"))?;
    let is_whole = found.len() as u64 == bytes && found.chunks(payload.len()).all(|piece| piece == payload);
    if is_whole { Ok(()) } else { Err(Error::OtherBytes { what: format!("{}", path.display()) }) }
}

/// Somebody who syncs a little all the time.
struct Probe {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<Latencies>>,
}

impl Probe {
    fn start(folder: &Path) -> Result<Self, Error> {
        let path: PathBuf = folder.join("probe");
        let file =
            fill(&path, PROBE_FILE_BYTES, &vec![0; 1 << 20]).map_err(Error::at("make the probe's file"))?;
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let mut latencies = new_latencies();
            let mut at = 0;
            while !over.load(Ordering::Relaxed) || latencies.is_empty() {
                let begun = Instant::now();
                file.write_all_at(&[1; PROBE_BYTES], at)?;
                file.sync_data()?;
                note(&mut latencies, begun.elapsed());
                at = (at + PROBE_BYTES as u64) % PROBE_FILE_BYTES;
                std::thread::sleep(PROBE_REST);
            }
            Ok(latencies)
        });
        Ok(Self { is_over, thread })
    }

    fn end(self) -> Result<Latencies, Error> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("the probe does not panic").map_err(Error::at("sync the probe's file"))
    }
}
