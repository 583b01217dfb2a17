//! Writing one shard file: header, payload as it comes, table, footer, and the two syncs.
//!
//! Whole pages of the payload go past the page cache where memory and position allow it: for bytes that will
//! not be read soon, filling the cache costs more than everything else of a large PUT together
//! (docs/performance.md). The last part of a page, and unaligned bytes, go through the cache. No page
//! is written both ways.

use std::io::{self, ErrorKind, IoSlice};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use sherd_core::checksum::{BlockHasher, ShardDigest};
use sherd_core::id::ShardId;
use sherd_core::message::ShardFileHeader;

use super::directories::Directories;
use super::format::{FileLayout, HEADER_BYTES, PAGE_BYTES, StoredHeader, encode_header, encode_table};
use super::unfinished::WriteClaim;
use super::{NamedShard, ShardFiles, ShardFilesState};
use crate::disk::{DIRECT_ALIGN, DiskFile, OpenMode, write_past_cache};
use crate::error::{Error, SyncFailure};

/// Bytes after which written pages are sent to the device: early, so that the sync at the end finds
/// little to do, and late enough that the device sees large writes.
const WRITE_BACK_BYTES: u64 = 1 << 20;
/// Buffers of one write; longer lists go out in several.
const BUFFERS_PER_WRITE: usize = 64;
/// Zeros for the padding.
const ZEROS: [u8; 4096] = [0; 4096];

/// A shard file that is not whole yet. Dropped unfinished, it removes what it wrote.
#[derive(Debug)]
pub struct ShardWriter {
    shared: Arc<ShardFilesState>,
    shard: ShardId,
    file: Arc<dyn DiskFile>,
    /// The same file past the page cache; none where the filesystem has no such thing.
    direct: Option<Arc<dyn DiskFile>>,
    path: PathBuf,
    layout: FileLayout,
    shard_bytes: u64,
    hasher: BlockHasher,
    /// The digest that the whole shard has where it comes from.
    expected: Option<ShardDigest>,
    written: u64,
    written_back: u64,
    is_finished: bool,
    claim: WriteClaim,
}

impl ShardFiles {
    /// Begins the file of a new shard and reserves its space.
    ///
    /// # Errors
    /// [`Error::Full`]; [`Error::Busy`] when the process has no descriptor left, and while the shard is
    /// healed; [`Error::Corrupt`] when the shard has a file: a data id is written once; [`Error::Failed`]
    /// when the system refuses.
    pub fn create(&self, header: &ShardFileHeader) -> Result<ShardWriter, Error> {
        self.begin(header, WriteClaim::of_create(self, header.shard)?)
    }

    /// Begins a file that replaces a bad one, or a missing one, when it is finished.
    ///
    /// # Errors
    /// As [`ShardFiles::create`]; [`Error::Busy`] while the shard is being written.
    pub fn heal(&self, header: &ShardFileHeader) -> Result<ShardWriter, Error> {
        self.begin(header, WriteClaim::of_heal(self, header.shard)?)
    }

    fn begin(&self, header: &ShardFileHeader, claim: WriteClaim) -> Result<ShardWriter, Error> {
        let is_heal = claim.is_heal;
        let shared = &self.shared;
        shared.failure.check()?;
        let id = header.shard;
        let failed = |error: io::Error| shared.write_error(id, &error);
        let layout = FileLayout::of(header.shard_bytes);
        let layout =
            layout.ok_or_else(|| Error::Corrupt { what: format!("{} is too long", NamedShard(id)) })?;
        let directory = Directories::of(id.data);
        shared
            .directories
            .make(directory)
            .map_err(|error| shared.failure.judge("make a directory of shard files", &error))?;
        let path = if is_heal { shared.heal_path(id) } else { shared.path(id) };
        let mut file = shared.disk.open(&path, OpenMode::CreateNew);
        if is_heal && matches!(&file, Err(error) if error.kind() == ErrorKind::AlreadyExists) {
            // A heal that a crash interrupted; no other one runs.
            shared.disk.remove(&path).map_err(failed)?;
            file = shared.disk.open(&path, OpenMode::CreateNew);
        }
        let file = file.map_err(failed)?;
        let has_pages = header.shard_bytes >= PAGE_BYTES;
        let direct = has_pages.then(|| shared.disk.open(&path, OpenMode::WriteDirect).ok()).flatten();
        let writer = ShardWriter {
            shared: Arc::clone(shared),
            shard: id,
            file,
            direct,
            path,
            layout,
            shard_bytes: header.shard_bytes,
            hasher: BlockHasher::with_length(header.shard_bytes),
            expected: None,
            written: 0,
            written_back: 0,
            is_finished: false,
            claim,
        };
        // From here on an error drops the writer, which removes the file.
        writer.file.allocate(layout.file_bytes).map_err(failed)?;
        let page = encode_header(&StoredHeader { cluster: shared.cluster, shard: header.clone() });
        writer.file.write_at(&[IoSlice::new(&page)], 0).map_err(failed)?;
        Ok(writer)
    }
}

impl ShardFilesState {
    /// Meaning of a failed write: for this shard, or for the whole volume.
    fn write_error(&self, shard: ShardId, error: &io::Error) -> Error {
        let named = NamedShard(shard);
        match error.kind() {
            // The same request came twice.
            ErrorKind::AlreadyExists => {
                Error::Corrupt { what: format!("shard file {named}: is there already") }
            }
            _ => self.failure.judge(&format!("write shard file {named}"), error),
        }
    }
}

impl ShardWriter {
    /// Writes the next bytes of the payload, in the order of the buffers.
    ///
    /// # Errors
    /// [`Error::Full`] where the filesystem reserves nothing; [`Error::Failed`] when the system
    /// refuses, or the volume failed; [`Error::Corrupt`] when more comes than the header says. The file is
    /// lost then.
    pub fn append(&mut self, buffers: &[Bytes]) -> Result<(), Error> {
        self.shared.failure.check()?;
        let bytes: u64 = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        if bytes > self.shard_bytes - self.written {
            return Err(self.wrong_length(self.written.saturating_add(bytes)));
        }
        for buffers in buffers.chunks(BUFFERS_PER_WRITE) {
            let mut slices = [IoSlice::new(&[]); BUFFERS_PER_WRITE];
            let mut bytes = 0;
            for (slice, buffer) in slices.iter_mut().zip(buffers) {
                self.hasher.update(buffer);
                *slice = IoSlice::new(buffer);
                bytes += buffer.len() as u64;
            }
            self.write(slices.get(..buffers.len()).unwrap_or(&slices))?;
            self.written += bytes;
        }
        if !self.written.is_multiple_of(PAGE_BYTES) {
            // Behind odd bytes no page is whole any more.
            self.direct = None;
        }
        if self.direct.is_some() {
            self.written_back = self.written;
            return Ok(());
        }
        let waiting = self.written - self.written_back;
        if waiting >= WRITE_BACK_BYTES {
            self.file.write_back(HEADER_BYTES as u64 + self.written_back, waiting);
            self.written_back = self.written;
        }
        Ok(())
    }

    /// Writes buffers behind what is written: directly as long as they are whole pages on pages.
    fn write(&mut self, slices: &[IoSlice<'_>]) -> Result<(), Error> {
        let mut offset = HEADER_BYTES as u64 + self.written;
        if self.direct.is_none() || !offset.is_multiple_of(PAGE_BYTES) {
            return self.write_cached(slices, offset);
        }
        let whole = slices.iter().take_while(|slice| pages_of(slice) == slice.len()).count();
        let (pages, rest) = slices.split_at(whole);
        self.write_pages(pages, offset)?;
        offset += pages.iter().map(|slice| slice.len() as u64).sum::<u64>();
        match rest {
            [] => Ok(()),
            [last] => {
                let (pages, odd) = last.split_at(pages_of(last));
                self.write_pages(&[IoSlice::new(pages)], offset)?;
                self.write_cached(&[IoSlice::new(odd)], offset + pages.len() as u64)
            }
            several => self.write_cached(several, offset),
        }
    }

    /// Writes whole pages on pages.
    fn write_pages(&mut self, pages: &[IoSlice<'_>], offset: u64) -> Result<(), Error> {
        write_past_cache(&mut self.direct, &*self.file, pages, offset)
            .map_err(|error| self.shared.write_error(self.shard, &error))
    }

    fn write_cached(&self, slices: &[IoSlice<'_>], offset: u64) -> Result<(), Error> {
        self.file.write_at(slices, offset).map_err(|error| self.shared.write_error(self.shard, &error))
    }

    /// Names the digest that the whole shard has where it comes from: another is refused at the end.
    pub const fn expect(&mut self, digest: ShardDigest) {
        self.expected = Some(digest);
    }

    /// Completes the file and makes it durable: when this returns, the shard survives a crash.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when less came than the header says, or bytes with another digest than was
    /// [expected](Self::expect); [`Error::Full`]; [`Error::Failed`] when
    /// a sync failed, and then for every write of the volume from there on.
    pub fn finish(mut self) -> Result<(), Error> {
        if self.written != self.shard_bytes {
            return Err(self.wrong_length(self.written));
        }
        self.shared.failure.check()?;
        let hashes = std::mem::take(&mut self.hasher).finish();
        if self.expected.is_some_and(|expected| expected != ShardDigest::of(&hashes)) {
            let named = NamedShard(self.shard);
            return Err(Error::Corrupt { what: format!("{named}: bytes came that have another digest") });
        }
        let padding = usize::try_from(self.layout.padding_bytes).expect("below a page");
        let table = encode_table(&hashes);
        let end = [IoSlice::new(&ZEROS[..padding]), IoSlice::new(&table)];
        let end_at = self.layout.table_at - self.layout.padding_bytes;
        self.file.write_at(&end, end_at).map_err(|error| self.shared.write_error(self.shard, &error))?;
        // A crash before this sync leaves a file without a footer, or nothing.
        let named = NamedShard(self.shard);
        self.file.sync_data().map_err(|error| match SyncFailure::within(&error) {
            // A filesystem that allocates late: only this file's pages are lost, and nothing names it.
            Some(failure) if failure.is_full() => Error::Full,
            _ => self.shared.failure.judge(&format!("sync shard file {named}"), &error),
        })?;
        if self.claim.is_heal {
            // A crash before the directory's sync leaves the bad file or the whole one.
            let path = self.shared.path(self.shard);
            self.shared
                .disk
                .rename(&self.path, &path)
                .map_err(|error| self.shared.write_error(self.shard, &error))?;
            self.shared.open.forget(self.shard);
            self.shared.history.forget(self.shard);
        }
        let directory = Directories::of(self.shard.data);
        self.shared.directories.sync(directory).map_err(|error| {
            self.shared.failure.judge(&format!("sync directory of shard file {named}"), &error)
        })?;
        self.is_finished = true;
        Ok(())
    }

    /// Gives up and removes what was written. Dropping the writer does the same.
    pub fn abort(self) {
        drop(self);
    }

    fn wrong_length(&self, came: u64) -> Error {
        let Self { shard, shard_bytes, .. } = self;
        Error::Corrupt { what: format!("{}: {came} bytes came, not {shard_bytes}", NamedShard(*shard)) }
    }
}

/// How many bytes of a buffer, from its start, can go past the page cache.
fn pages_of(buffer: &[u8]) -> usize {
    let is_aligned = buffer.as_ptr().addr().is_multiple_of(DIRECT_ALIGN);
    if is_aligned { buffer.len() / DIRECT_ALIGN * DIRECT_ALIGN } else { 0 }
}

impl Drop for ShardWriter {
    fn drop(&mut self) {
        if !self.is_finished {
            // A file that cannot be removed is an orphan, as after a crash. So is one that outlived its
            // opening: under its name there may be a file that a later opening healed.
            self.shared.failure.while_locked(|| drop(self.shared.disk.remove(&self.path)));
        }
    }
}
