//! Large shards, each a file of its own, below `shards/`.
//!
//! A file is created under its final name, which is new: nothing names it until a register does, so
//! a crash leaves at most an orphan. Only a heal writes beside a file and renames over it. A file
//! is whole when its footer is: the table of hashes behind the payload vouches for every block, and
//! every read hashes what it returns ([`mod@format`] draws the bytes).
//!
//! ```text
//! shards/ab/<data id>.<shard index>         ab: a byte of the data id
//! shards/ab/<data id>.<shard index>.heal    being written by a heal
//! ```

mod claims;
pub mod format;

mod directories;
mod open_files;
mod read;
mod read_history;
mod unfinished;
mod write;

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use sherd_core::env::Clock;
use sherd_core::id::{ClusterId, DataId, ShardId};
use sherd_core::message::ShardFileHeader;

use crate::buffer::BufferPool;
use crate::disk::Disk;
use crate::disk::FileKeeper;
use crate::error::{Error, FaultClass};
use crate::identity::failure::FailureLatch;
use claims::Claims;
use directories::Directories;
use open_files::OpenFiles;
use read_history::ReadHistory;

pub use read::ShardCheck;
pub use write::ShardWriter;

/// Suffix of a heal's file until it is whole.
const HEAL_SUFFIX: &str = ".heal";

/// The shard files of one volume. Clones are the same; every call may come from any thread.
#[derive(Debug, Clone)]
pub struct ShardFiles {
    shared: Arc<ShardFilesState>,
}

/// A page of the shards that have a file in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePage {
    /// In the order of their ids.
    pub shards: Vec<ShardId>,
    /// Whether there are more behind them.
    pub has_more: bool,
}

/// Content of a directory when its first page was asked for.
#[derive(Debug)]
struct FolderListing {
    directory: u8,
    shards: Vec<ShardId>,
}

#[derive(Debug)]
struct ShardFilesState {
    disk: Arc<dyn Disk>,
    cluster: ClusterId,
    pool: BufferPool,
    directories: Directories,
    open: Arc<OpenFiles>,
    history: ReadHistory,
    claims: Mutex<Claims>,
    /// For the age of a data id; none for shard files without a volume.
    clock: Option<Arc<dyn Clock>>,
    /// How many files were cleared away.
    cleared: AtomicU64,
    /// Of the whole volume: where it failed here, it failed.
    failure: Arc<FailureLatch>,
    /// The directory that is gone through page by page, until its last page.
    listing: Mutex<Option<FolderListing>>,
}

impl ShardFiles {
    /// Names shard files below a directory, which is there and durable, without a volume around them.
    pub fn new(disk: Arc<dyn Disk>, root: PathBuf, cluster: ClusterId, pool: BufferPool) -> Self {
        Self::of_volume(disk, root, cluster, pool, Arc::default(), None)
    }

    /// Names the shard files of a volume; what fails here fails the volume.
    pub(crate) fn of_volume(
        disk: Arc<dyn Disk>,
        root: PathBuf,
        cluster: ClusterId,
        pool: BufferPool,
        failure: Arc<FailureLatch>,
        clock: Option<Arc<dyn Clock>>,
    ) -> Self {
        let directories = Directories::new(Arc::clone(&disk), root);
        let open: Arc<OpenFiles> = Arc::default();
        let keeper: Weak<dyn FileKeeper> = Arc::<OpenFiles>::downgrade(&open);
        disk.note_keeper(keeper);
        let shared = ShardFilesState {
            disk,
            cluster,
            pool,
            directories,
            open,
            history: ReadHistory::default(),
            claims: Mutex::default(),
            clock,
            cleared: AtomicU64::new(0),
            failure,
            listing: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The header of a shard's file.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Unfinished`] when the file has no end; [`Error::Corrupt`] when it is
    /// damaged.
    pub fn header(&self, shard: ShardId) -> Result<ShardFileHeader, Error> {
        Ok(self.shared.open(shard)?.header().clone())
    }

    /// Removes a shard; succeeds when it is not there. A crash may bring it back: it is an orphan then.
    ///
    /// # Errors
    /// [`Error::Busy`]; [`Error::Failed`] when the system refuses, and then until the volume is opened again.
    pub fn delete(&self, shard: ShardId) -> Result<(), Error> {
        let result = self.shared.disk.remove(&self.shared.path(shard));
        self.shared.open.forget(shard);
        self.shared.history.forget(shard);
        match result {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(self
                .shared
                .failure
                .judge_harmless(&format!("remove shard file {}", NamedShard(shard)), &error)),
            _ => Ok(()),
        }
    }

    /// A page of the shards that have a file in one of the 256 directories, in the order of their ids, behind
    /// `after`. The directory is listed for the first page; the pages behind it are of what lay there then,
    /// so the file of a listed shard may be gone. One directory's listing is kept, and only until its end.
    ///
    /// # Errors
    /// As [`ShardFiles::list`].
    pub fn page(&self, directory: u8, after: Option<ShardId>, limit: usize) -> Result<FilePage, Error> {
        let mut listing = self.shared.listing.lock();
        let held = listing.take().filter(|held| held.directory == directory && after.is_some());
        let held = if let Some(held) = held {
            held
        } else {
            let mut shards = self.list(directory)?;
            shards.sort_unstable();
            FolderListing { directory, shards }
        };
        let start = held.shards.partition_point(|shard| after.is_some_and(|after| *shard <= after));
        let rest = held.shards.get(start..).unwrap_or(&[]);
        let shards: Vec<ShardId> = rest.iter().take(limit).copied().collect();
        let has_more = shards.len() < rest.len();
        if has_more {
            *listing = Some(held);
        }
        Ok(FilePage { shards, has_more })
    }

    /// The shards that have a file in one of the 256 directories, whole or not, in no order. Remains of an
    /// interrupted heal are cleared away.
    ///
    /// # Errors
    /// [`Error::Busy`]; [`Error::Corrupt`] when the directory cannot be listed, which says nothing of the
    /// others.
    pub fn list(&self, directory: u8) -> Result<Vec<ShardId>, Error> {
        let path = self.shared.directories.path(directory);
        let entries = match self.shared.disk.list(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) if FaultClass::of(&error) == FaultClass::Busy => return Err(Error::Busy),
            Err(error) => return Err(Error::Corrupt { what: format!("list {}: {error}", path.display()) }),
        };
        let mut shards = Vec::new();
        for entry in entries.iter().filter(|entry| !entry.is_dir) {
            if let Some(shard) = parse_name(&entry.name) {
                shards.push(shard);
            } else if let Some(shard) = entry.name.strip_suffix(HEAL_SUFFIX).and_then(parse_name) {
                // Held over the removal: a heal of this shard begins before it or after it.
                let claims = self.shared.claims.lock();
                if !claims.has_heal(shard) {
                    // The next listing finds what could not be removed.
                    let _ = self.shared.disk.remove(&path.join(&entry.name));
                }
            }
        }
        Ok(shards)
    }
}

impl ShardFilesState {
    fn path(&self, shard: ShardId) -> PathBuf {
        self.directories.path(Directories::of(shard.data)).join(NamedShard(shard).to_string())
    }

    fn heal_path(&self, shard: ShardId) -> PathBuf {
        let name = format!("{}{HEAL_SUFFIX}", NamedShard(shard));
        self.directories.path(Directories::of(shard.data)).join(name)
    }
}

struct NamedShard(ShardId);

impl std::fmt::Display for NamedShard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(ShardId { data, index }) = self;
        write!(f, "{data}.{index}")
    }
}

/// The shard of a file's name; `None` for every name that [`NamedShard`] does not write.
fn parse_name(name: &str) -> Option<ShardId> {
    let (data, index) = name.split_once('.')?;
    let is_hex = data.len() == 32 && data.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let data = u128::from_str_radix(data, 16).ok().filter(|_| is_hex)?;
    let shard = ShardId { data: DataId::from_bytes(data.to_be_bytes()), index: index.parse().ok()? };
    (NamedShard(shard).to_string() == name).then_some(shard)
}

#[cfg(test)]
mod tests;
