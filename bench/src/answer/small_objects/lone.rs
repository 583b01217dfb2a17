//! One client that writes 4 KiB, beside the device's own fdatasync, in turns.
//!
//! `fdatasync` writes the next 4 KiB of a file whose blocks were written before, as the log does, and
//! syncs. `fdatasync-four` does it to four files at once: what four volumes on one device must do.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use sherd_core::limits::INLINE_BYTES_MAX;
use sherd_core::record::Home;
use sherd_node::stripe::Thresholds;
use sherd_volume::options::Options;

use super::Arguments;
use crate::answer::Error;
use crate::answer::bed::Bed;
use crate::answer::crowd::{Latencies, new_latencies, note, with_latencies};
use crate::answer::pattern::Pattern;
use crate::answer::rounds::Rounds;
use crate::answer::whole::{self, Body, Whole};
use crate::result::Row;

/// Bytes of one write.
const BYTES: u64 = 4 << 10;
/// Bytes of a file that is synced.
const FILE_BYTES: u64 = 16 << 20;
/// Operations of one turn.
const TURN: usize = 10;
/// Turns of one round, and of a moment.
const TURNS: usize = 30;
const MOMENT_TURNS: usize = 1;

/// A file whose blocks are all written.
struct Synced {
    file: File,
    at: AtomicU64,
}

impl Synced {
    fn make(path: &Path) -> Result<Arc<Self>, Error> {
        let make = || {
            let file = File::create(path)?;
            let zeros = vec![0; 1 << 20];
            for offset in (0..FILE_BYTES).step_by(zeros.len()) {
                file.write_all_at(&zeros, offset)?;
            }
            file.sync_all()?;
            Ok(Arc::new(Self { file, at: AtomicU64::new(0) }))
        };
        make().map_err(|error: std::io::Error| Error::at("make a file to sync")(error))
    }

    fn sync(&self, bytes: &[u8]) -> Result<(), Error> {
        let at = self.at.fetch_add(BYTES, Ordering::Relaxed) % FILE_BYTES;
        let synced = self.file.write_all_at(bytes, at).and_then(|()| self.file.sync_data());
        synced.map_err(Error::at("sync a file"))
    }
}

/// Everything that is measured.
struct Parties {
    files: Vec<Arc<Synced>>,
    bed: Bed,
    inline: Whole,
    packed: Whole,
    pattern: Pattern,
}

/// The ways, and what they do to the device.
const VARIANTS: [(&str, &str); 5] = [
    ("fdatasync", "sync"),
    ("fdatasync-four", "sync"),
    ("shard-packed", "put"),
    ("object-inline", "put"),
    ("object-packed", "put"),
];

/// Takes turns once.
pub(super) async fn round(arguments: &Arguments, rounds: &mut Rounds) -> Result<(), Error> {
    let folder = arguments.common.folder()?;
    let parties = Parties::make(folder.path(), arguments.common.options()).await?;
    arguments.common.until_quiet().await;
    let mut seen: Vec<Latencies> = VARIANTS.iter().map(|_| new_latencies()).collect();
    let turns = if arguments.common.moment { MOMENT_TURNS } else { TURNS };
    for turn in 0..turns {
        for ((variant, _), latencies) in VARIANTS.iter().zip(&mut seen) {
            for step in 0..TURN {
                let number = (turn * TURN + step) as u64;
                let begun = Instant::now();
                parties.one(variant, number).await?;
                note(latencies, begun.elapsed());
            }
        }
    }
    for number in 0..(turns * TURN) as u64 {
        for store in [&parties.inline, &parties.packed] {
            let key = format!("lone/{number}");
            if !parties.pattern.is(number, BYTES, &store.get(&key).await?) {
                return Err(Error::OtherBytes { what: format!("object {key}") });
            }
        }
    }
    let [one_us, four_us] = [0, 1].map(|syncs: usize| seen[syncs].value_at_quantile(0.5) as f64 / 1_000.0);
    for ((variant, op), latencies) in VARIANTS.iter().zip(&seen) {
        let row = Row::new([
            ("part", "lone".to_owned()),
            ("variant", (*variant).to_owned()),
            ("op", (*op).to_owned()),
            ("size", "4KiB".to_owned()),
            ("clients", "1".to_owned()),
        ]);
        let row = with_latencies(row, latencies);
        let p50_us = row.figure("p50_us").unwrap_or(f64::NAN);
        let row = row.with("of_two_syncs", p50_us / (2.0 * one_us));
        rounds.add(row.with("of_four_at_once", p50_us / four_us));
    }
    parties.close().await
}

impl Parties {
    async fn make(folder: &Path, options: Options) -> Result<Self, Error> {
        let files = (0..5).map(|number| Synced::make(&folder.join(format!("synced-{number}"))));
        let files = files.collect::<Result<Vec<_>, _>>()?;
        let store = async |name: &str, inline_bytes_max| {
            let thresholds = Thresholds { inline_bytes_max, ..Thresholds::default() };
            Whole::open(whole::config(&folder.join(name), options, thresholds)?).await
        };
        Ok(Self {
            files,
            bed: Bed::make(&folder.join("bed"), options).await?,
            inline: store("inline", INLINE_BYTES_MAX).await?,
            packed: store("packed", 0).await?,
            pattern: Pattern::new(BYTES),
        })
    }

    async fn one(&self, variant: &str, number: u64) -> Result<(), Error> {
        let bytes = self.pattern.bytes(number, BYTES);
        let key = format!("lone/{number}");
        match variant {
            "fdatasync" => tokio::task::block_in_place(|| self.files[0].sync(&bytes)),
            "fdatasync-four" => {
                let syncs = self.files[1..].iter().map(|file| {
                    let (file, bytes) = (Arc::clone(file), bytes.clone());
                    tokio::task::spawn_blocking(move || file.sync(&bytes))
                });
                for synced in futures::future::join_all(syncs).await {
                    synced.map_err(Error::at("run a sync"))??;
                }
                Ok(())
            }
            "shard-packed" => self.bed.put(self.bed.new_shard(), Home::Packed, bytes).await,
            "object-inline" => self.inline.put(&key, Body::of(&bytes)).await.map(drop),
            _ => self.packed.put(&key, Body::of(&bytes)).await.map(drop),
        }
    }

    async fn close(self) -> Result<(), Error> {
        self.inline.close().await;
        self.packed.close().await;
        self.bed.close().await
    }
}
