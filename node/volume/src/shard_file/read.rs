//! Reading shard files: every byte that leaves was hashed in the buffer it leaves in.
//!
//! Header and table are read and checked once per open file; a small bounded cache keeps the files
//! open. A range is read in whole hash blocks, so that only blocks it touches are read and hashed.
//!
//! Reads for clients go through the page cache, whose own lists evict pages that were read once first; reads
//! for verification, or to rebuild another shard, go past it, and so does the first read of a block of a
//! large shard: the kernel's copy into new pages costs more than all else that is done with the bytes.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};

use sherd_core::id::ShardId;
use sherd_core::limits::HASH_BLOCK_BYTES;
use sherd_core::message::ShardFileHeader;

use super::format::{FOOTER_BYTES, FileLayout, HASH_BYTES, HEADER_BYTES, decode_header, decode_table};
use super::open_files::OpenShard;
use super::unfinished::was_never_ended;
use super::{NamedShard, ShardFiles, ShardFilesState};
use crate::buffer::Buffer;
use crate::disk::{DIRECT_ALIGN, DiskFile, OpenMode};
use crate::error::{Error, FaultClass};
use crate::limits::SHARD_BYTES_MAX;
use crate::lookup::{Lookup, Source};

/// Bytes of one read: whole blocks, and a size class of the pool.
const READ_BYTES: u64 = 1 << 20;
const BLOCK_BYTES: u64 = HASH_BLOCK_BYTES as u64;
/// Bytes of a shard from which on it is large: it is read in many pieces, one of them while others
/// are sent, and those below are soon read, and often asked for again.
const LARGE_BYTES: u64 = 4 << 20;

const _: () = {
    assert!(READ_BYTES.is_multiple_of(BLOCK_BYTES), "a read is whole blocks");
    assert!(HEADER_BYTES.is_multiple_of(DIRECT_ALIGN), "blocks lie on pages");
    assert!(HASH_BLOCK_BYTES.is_multiple_of(DIRECT_ALIGN), "blocks are whole pages");
};

fn corrupt(shard: ShardId, why: &dyn std::fmt::Display) -> Error {
    Error::Corrupt { what: format!("shard file {}: {why}", NamedShard(shard)) }
}

fn unfinished(shard: ShardId) -> Error {
    Error::Unfinished { what: format!("shard file {}: it has no end", NamedShard(shard)) }
}

fn is_zeros(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// A read that was refused for want of something says nothing of the file.
fn read_error(shard: ShardId, error: &io::Error) -> Error {
    match FaultClass::of(error) {
        FaultClass::Busy => Error::Busy,
        FaultClass::Full | FaultClass::Fatal => corrupt(shard, error),
    }
}

impl ShardFilesState {
    pub(super) fn open(&self, shard: ShardId) -> Result<Arc<OpenShard>, Error> {
        if let Some(open) = self.open.get(shard) {
            return Ok(open);
        }
        let changes = self.open.changes();
        let open = Arc::new(self.reopen(shard)?);
        self.open.keep(shard, &open, changes);
        Ok(open)
    }

    /// The same file past the page cache; none where the filesystem has no such thing.
    fn open_direct(&self, shard: ShardId) -> Option<Arc<dyn DiskFile>> {
        self.disk.open(&self.path(shard), OpenMode::ReadDirect).ok()
    }

    /// The same, which stays open as long as the file does.
    fn direct<'a>(&self, open: &'a OpenShard) -> Option<&'a dyn DiskFile> {
        if open.direct.get().is_none() {
            // Of two that open it at one time one keeps it.
            let _ = open.direct.set(self.open_direct(open.header.shard)?);
        }
        open.direct.get().map(|direct| &**direct)
    }

    /// Whether a read for a client goes past the page cache: the first one of a block of a large shard.
    /// Blocks that are read again are read through the cache, and fill it.
    fn goes_past_cache(&self, open: &OpenShard, range: &Range<u64>) -> bool {
        let blocks = range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES);
        open.header.shard_bytes >= LARGE_BYTES
            && range.end <= open.header.shard_bytes
            && !self.history.note(open.header.shard, blocks)
    }

    /// The header of a file, whether the rest of it is whole or not.
    pub(super) fn header_alone(&self, shard: ShardId) -> Result<ShardFileHeader, Error> {
        self.read_header(shard).map(|(_, header)| header)
    }

    fn read_header(&self, shard: ShardId) -> Result<(Arc<dyn DiskFile>, ShardFileHeader), Error> {
        let file = self.disk.open(&self.path(shard), OpenMode::Read).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::NotFound,
            _ => read_error(shard, &error),
        })?;
        let page = read_plain(&*file, 0, HEADER_BYTES).map_err(|error| read_error(shard, &error))?;
        let stored = decode_header(&page).map_err(|error| {
            // The power went before anything of it was on the device.
            let is_unfinished = is_zeros(&page) && was_never_ended(&*file).unwrap_or(false);
            if is_unfinished { unfinished(shard) } else { corrupt(shard, &error) }
        })?;
        if stored.cluster != self.cluster {
            return Err(corrupt(shard, &format_args!("of cluster {}", stored.cluster)));
        }
        let header = stored.shard;
        if header.shard != shard {
            return Err(corrupt(shard, &format_args!("the header says {}", NamedShard(header.shard))));
        }
        Ok((file, header))
    }

    fn reopen(&self, shard: ShardId) -> Result<OpenShard, Error> {
        let (file, header) = self.read_header(shard)?;
        let layout = FileLayout::of(header.shard_bytes).ok_or_else(|| corrupt(shard, &"too long"))?;
        let length = file.length().map_err(|error| read_error(shard, &error))?;
        if length != layout.file_bytes {
            return Err(corrupt(shard, &format_args!("{length} bytes, not {}", layout.file_bytes)));
        }
        // Read only after the length of the file has confirmed what the header says.
        let end_bytes = usize::try_from(layout.table_bytes() + FOOTER_BYTES as u64);
        let end_bytes = end_bytes.map_err(|_| corrupt(shard, &"too long"))?;
        let end =
            read_plain(&*file, layout.table_at, end_bytes).map_err(|error| read_error(shard, &error))?;
        let table = decode_table(&end, layout.blocks).map_err(|error| {
            // The end is one write and comes last: as long as nothing of it is there, it was never written.
            if is_zeros(&end) { unfinished(shard) } else { corrupt(shard, &error) }
        })?;
        Ok(OpenShard { file, direct: OnceLock::new(), header, layout, table })
    }
}

/// Reads what fills the buffer, in whole pages past the page cache.
fn read_direct(file: &dyn DiskFile, buffer: &mut Buffer, offset: u64) -> io::Result<usize> {
    let bytes = buffer.len();
    buffer.set_len(bytes.next_multiple_of(DIRECT_ALIGN));
    let read = file.read_at(buffer, offset);
    buffer.set_len(bytes);
    read.map(|read| read.min(bytes))
}

/// Reads from the device, where the filesystem takes our alignment: another alignment is not damage.
fn read_past_cache(
    direct: Option<&dyn DiskFile>,
    cached: &dyn DiskFile,
    buffer: &mut Buffer,
    offset: u64,
) -> io::Result<usize> {
    match direct.map(|direct| read_direct(direct, buffer, offset)) {
        None => cached.read_at(buffer, offset),
        Some(Err(error)) if error.kind() == ErrorKind::InvalidInput => cached.read_at(buffer, offset),
        Some(result) => result,
    }
}

/// Reads exactly `bytes` bytes into memory of their own.
fn read_plain(file: &dyn DiskFile, offset: u64, bytes: usize) -> io::Result<Bytes> {
    let mut buffer = BytesMut::zeroed(bytes);
    if file.read_at(&mut buffer, offset)? < bytes {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(buffer.freeze())
}

impl OpenShard {
    pub(super) const fn header(&self) -> &ShardFileHeader {
        &self.header
    }

    /// Checks the blocks that `bytes` are, from block `first` on.
    fn check(&self, first: u64, bytes: &[u8]) -> Result<(), Error> {
        for (block, bytes) in (first..).zip(bytes.chunks(HASH_BLOCK_BYTES)) {
            let hash = usize::try_from(block).ok().and_then(|block| {
                let at = block.checked_mul(HASH_BYTES)?;
                self.table.get(at..at.checked_add(HASH_BYTES)?)
            });
            if hash != Some(blake3::hash(bytes).as_bytes()) {
                return Err(corrupt(self.header.shard, &format_args!("block {block} has another hash")));
            }
        }
        Ok(())
    }

    /// Reads a range of the payload with `read`, whole blocks at a time, and hands out the range.
    fn read_range(
        &self,
        pool: &crate::buffer::BufferPool,
        range: &Range<u64>,
        read: impl Fn(&mut Buffer, u64) -> io::Result<usize>,
    ) -> Result<Vec<Bytes>, ReadFailure> {
        let shard = self.header.shard;
        if range.start > range.end || range.end > self.header.shard_bytes {
            let why = format!("asked for {range:?} of {} bytes", self.header.shard_bytes);
            return Err(ReadFailure::Error(corrupt(shard, &why)));
        }
        let mut found = Vec::new();
        let mut at = range.start - range.start % BLOCK_BYTES;
        while at < range.end {
            let last_block_end = range.end.next_multiple_of(BLOCK_BYTES);
            let end = last_block_end.min(at + READ_BYTES).min(self.header.shard_bytes);
            let bytes = usize::try_from(end - at).expect("at most one read");
            let mut buffer = pool.try_take(bytes).ok_or(ReadFailure::Error(Error::Busy))?;
            match read(&mut buffer, HEADER_BYTES as u64 + at) {
                Ok(read) if read == bytes => {}
                Ok(_) => return Err(ReadFailure::Error(corrupt(shard, &"the file is cut short"))),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(ReadFailure::WouldBlock),
                Err(error) => return Err(ReadFailure::Error(read_error(shard, &error))),
            }
            self.check(at / BLOCK_BYTES, &buffer).map_err(ReadFailure::Error)?;
            let block = buffer.freeze(bytes);
            let from = usize::try_from(range.start.saturating_sub(at)).expect("inside one read");
            let until = usize::try_from(range.end.min(end) - at).expect("inside one read");
            found.push(block.slice(from..until));
            at = end;
        }
        Ok(found)
    }
}

enum ReadFailure {
    WouldBlock,
    Error(Error),
}

impl ShardFiles {
    /// Reads a range of a shard's payload: verified bytes in buffers of the pool, in order. The
    /// caller asks for what the pool can hold, not for a whole large shard. With [`Source::Cache`] it never
    /// waits for the device: nothing at once when the bytes are not in memory, the file is not open yet, or
    /// it is large.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Corrupt`] when a touched block cannot be read, is not what was
    /// written, or is not there; [`Error::Unfinished`] when the file has no end; [`Error::Busy`] when the
    /// pool has no buffer or the process no descriptor.
    pub fn read(
        &self,
        shard: ShardId,
        range: Range<u64>,
        source: Source,
    ) -> Result<Lookup<Vec<Bytes>>, Error> {
        let pool = &self.shared.pool;
        let found = match source {
            Source::Cache => {
                let Some(open) = self.shared.open.get(shard) else { return Ok(Lookup::Pending) };
                // A read that finds nothing does not wait, and yet begins to fill the cache.
                if open.header.shard_bytes >= LARGE_BYTES {
                    return Ok(Lookup::Pending);
                }
                open.read_range(pool, &range, |buffer, at| open.file.read_cached_at(buffer, at))
            }
            Source::Disk | Source::Device => {
                let open = self.shared.open(shard)?;
                if source == Source::Device || self.shared.goes_past_cache(&open, &range) {
                    let direct = self.shared.direct(&open);
                    open.read_range(pool, &range, |buffer, at| {
                        read_past_cache(direct, &*open.file, buffer, at)
                    })
                } else {
                    open.read_range(pool, &range, |buffer, at| open.file.read_at(buffer, at))
                }
            }
        };
        match found {
            Ok(found) => Ok(Lookup::Immediate(found)),
            Err(ReadFailure::WouldBlock) => Ok(Lookup::Pending),
            Err(ReadFailure::Error(error)) => {
                if matches!(error, Error::Corrupt { .. }) {
                    // The next read opens the file again: it may have been healed.
                    self.shared.open.forget(shard);
                }
                Err(error)
            }
        }
    }

    /// Begins to verify a whole file, as the device has it.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Corrupt`] when header, table or footer are not whole;
    /// [`Error::Unfinished`] when neither table nor footer was written.
    pub fn check(&self, shard: ShardId) -> Result<ShardCheck, Error> {
        self.shared.open.forget(shard);
        if let Ok(file) = self.shared.disk.open(&self.shared.path(shard), OpenMode::Read) {
            file.evict(0, file.length().unwrap_or(0));
        }
        let open = self.shared.reopen(shard)?;
        let direct = self.shared.open_direct(shard);
        Ok(ShardCheck { files: self.clone(), open, direct, next: 0 })
    }
}

/// A verification of one shard file, in bounded steps.
#[derive(Debug)]
pub struct ShardCheck {
    files: ShardFiles,
    open: OpenShard,
    /// The same file past the page cache; none where the filesystem has no such thing.
    direct: Option<Arc<dyn DiskFile>>,
    next: u64,
}

impl ShardCheck {
    /// The file's header.
    pub const fn header(&self) -> &ShardFileHeader {
        self.open.header()
    }

    /// Verifies about `bytes` more, at least one block. Returns whether all is verified.
    ///
    /// # Errors
    /// [`Error::Corrupt`] at the first bad block; [`Error::Busy`] when the pool has no buffer: the
    /// same step may be tried again.
    pub fn step(&mut self, bytes: u64) -> Result<bool, Error> {
        let blocks = bytes.clamp(BLOCK_BYTES, SHARD_BYTES_MAX).next_multiple_of(BLOCK_BYTES);
        let until = (self.next + blocks).min(self.open.header.shard_bytes);
        while self.next < until {
            let end = (self.next + READ_BYTES).min(until);
            let read = |buffer: &mut Buffer, at| {
                read_past_cache(self.direct.as_deref(), &*self.open.file, buffer, at)
            };
            match self.open.read_range(&self.files.shared.pool, &(self.next..end), read) {
                Ok(_) => {}
                Err(ReadFailure::Error(error)) => return Err(error),
                Err(ReadFailure::WouldBlock) => return Err(Error::Busy),
            }
            // Pages that were read only to be checked must not push out those that are read for clients.
            self.open.file.evict(HEADER_BYTES as u64 + self.next, end - self.next);
            self.next = end;
        }
        if self.next < self.open.header.shard_bytes {
            return Ok(false);
        }
        let FileLayout { padding_bytes, table_at, .. } = self.open.layout;
        let padding_bytes = usize::try_from(padding_bytes).expect("below a page");
        let shard = self.open.header.shard;
        let padding = read_plain(&*self.open.file, table_at - padding_bytes as u64, padding_bytes);
        let padding = padding.map_err(|error| read_error(shard, &error))?;
        if padding.iter().any(|byte| *byte != 0) {
            return Err(corrupt(shard, &"the padding is not zeros"));
        }
        Ok(true)
    }
}
