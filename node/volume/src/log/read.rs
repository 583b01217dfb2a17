//! One record, verified, in pooled buffers.
//!
//! Header, subject and hashes are read and checked first; then only the blocks that the wanted range
//! touches, each into a buffer of its own, each hashed before it is handed out.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use sherd_core::id::Sequence;
use sherd_core::limits::HASH_BLOCK_BYTES;

use crate::buffer::BufferPool;
use crate::disk::{DiskFile, read_from_device};
use crate::error::FaultClass;
use crate::format::{Flags, RecordHeader, Subject, verify_block};
use crate::index::table::RecordLocation;
use crate::log::Segment;
use crate::lookup::Source;

/// Why a record was not read.
#[derive(Debug)]
pub enum ReadError {
    /// Not in memory, and only memory was asked.
    WouldBlock,
    /// The pool has no buffer to spare, or the system no descriptor or memory.
    Busy,
    /// The segment was removed: if the record is living, it is elsewhere.
    Gone,
    /// The bytes are not what was written.
    Corrupt,
    /// The disk cannot read it.
    Io(io::Error),
}

/// A record without its payload, verified.
#[derive(Debug)]
pub struct VerifiedHead<'a> {
    /// Subject of the record.
    pub subject: Subject,
    /// How it is meant.
    pub flags: Flags,
    /// Original sequence of the record.
    pub sequence: Sequence,
    bytes: SegmentBytes<'a>,
    payload_at: u64,
    payload_bytes: u32,
    hashes: Bytes,
}

/// A segment, as one reading of a record asks for its bytes.
#[derive(Debug)]
pub(crate) struct SegmentBytes<'a> {
    segment: &'a Segment,
    source: Source,
    /// The file past the page cache, opened once for all blocks of a record. `None`: the device is not asked,
    /// or the filesystem has no such reads.
    device: Option<Arc<dyn DiskFile>>,
}

/// Reads and checks a record up to its payload.
///
/// # Errors
/// [`ReadError`].
pub fn open(
    segment: &Segment,
    place: RecordLocation,
    payload_bytes: u32,
    source: Source,
) -> Result<VerifiedHead<'_>, ReadError> {
    let before = place.bytes.checked_sub(payload_bytes).ok_or(ReadError::Corrupt)?;
    let mut buffer = vec![0; before as usize];
    let bytes = SegmentBytes::of(segment, source);
    bytes.read_exact(&mut buffer, u64::from(place.offset))?;
    let header = RecordHeader::decode(&buffer).map_err(|_| ReadError::Corrupt)?;
    if header.record_bytes() != place.bytes as usize || header.payload_bytes != payload_bytes {
        return Err(ReadError::Corrupt);
    }
    let (subject, hashes) =
        header.open(segment.seed, &Bytes::from(buffer)).map_err(|_| ReadError::Corrupt)?;
    Ok(VerifiedHead {
        subject,
        flags: header.flags,
        sequence: header.sequence,
        bytes,
        payload_at: u64::from(place.offset) + u64::from(before),
        payload_bytes,
        hashes,
    })
}

impl VerifiedHead<'_> {
    /// Bytes of its payload.
    pub const fn payload_bytes(&self) -> u32 {
        self.payload_bytes
    }

    /// Whether its segment is long enough to hold its payload, which is not read.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn reaches_its_end(&self) -> Result<(), ReadError> {
        match u64::from(self.payload_bytes).checked_sub(1) {
            Some(last) => self.bytes.read_exact(&mut [0], self.payload_at + last),
            None => Ok(()),
        }
    }

    /// Reads a range of its payload; every block that it touches is verified.
    ///
    /// # Errors
    /// [`ReadError`]; `Corrupt` also for a range behind the end.
    pub fn payload(&self, range: Range<u64>, buffers: &BufferPool) -> Result<Vec<Bytes>, ReadError> {
        let length = u64::from(self.payload_bytes);
        if range.start > range.end || range.end > length {
            return Err(ReadError::Corrupt);
        }
        let block_bytes = HASH_BLOCK_BYTES as u64;
        let mut taken = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let index = at / block_bytes;
            let start = index * block_bytes;
            let end = (start + block_bytes).min(length);
            let size = usize::try_from(end - start).map_err(|_| ReadError::Corrupt)?;
            let mut buffer = buffers.try_take(size).ok_or(ReadError::Busy)?;
            self.bytes.read_exact(&mut buffer, self.payload_at + start)?;
            let hash_index = usize::try_from(index).map_err(|_| ReadError::Corrupt)?;
            if !verify_block(&self.hashes, hash_index, &buffer) {
                return Err(ReadError::Corrupt);
            }
            let block = buffer.freeze(size);
            let cut = |offset: u64| usize::try_from(offset - start).map_err(|_| ReadError::Corrupt);
            taken.push(block.slice(cut(at)?..cut(end.min(range.end))?));
            at = end;
        }
        Ok(taken)
    }

    /// Reads its whole payload into memory of its own, verified: for callers that hold thousands of small
    /// records at a time, each of which would take a page of the pool or more.
    ///
    /// # Errors
    /// [`ReadError`], but never `Busy`.
    pub fn whole(&self) -> Result<Bytes, ReadError> {
        let mut bytes = vec![0; self.payload_bytes as usize];
        self.bytes.read_exact(&mut bytes, self.payload_at)?;
        let mut blocks = bytes.chunks(HASH_BLOCK_BYTES).enumerate();
        if blocks.all(|(index, block)| verify_block(&self.hashes, index, block)) {
            Ok(bytes.into())
        } else {
            Err(ReadError::Corrupt)
        }
    }
}

impl<'a> SegmentBytes<'a> {
    pub(crate) fn of(segment: &'a Segment, source: Source) -> Self {
        let device = (source == Source::Device).then(|| segment.device()).flatten();
        Self { segment, source, device }
    }

    pub(crate) fn read_exact(&self, buffer: &mut [u8], offset: u64) -> Result<(), ReadError> {
        let Self { segment, source, device } = self;
        let read = match source {
            Source::Cache => segment.open_file().ok_or(ReadError::WouldBlock)?.read_cached_at(buffer, offset),
            Source::Disk => opened(segment)?.read_at(buffer, offset),
            Source::Device => read_from_device(device.as_deref(), &*opened(segment)?, buffer, offset),
        };
        match read {
            Ok(read) if read == buffer.len() => Ok(()),
            Ok(_) => Err(ReadError::Corrupt),
            Err(error) if *source == Source::Cache && error.kind() == io::ErrorKind::WouldBlock => {
                Err(ReadError::WouldBlock)
            }
            Err(error) if FaultClass::of(&error) == FaultClass::Busy => Err(ReadError::Busy),
            Err(error) => Err(ReadError::Io(error)),
        }
    }
}

fn opened(segment: &Segment) -> Result<Arc<dyn DiskFile>, ReadError> {
    segment.file().map_err(|error| match (error.kind(), FaultClass::of(&error)) {
        (io::ErrorKind::NotFound, _) => ReadError::Gone,
        (_, FaultClass::Busy) => ReadError::Busy,
        (_, FaultClass::Full | FaultClass::Fatal) => ReadError::Io(error),
    })
}

/// A list of buffers as one; copies only when there are several.
pub fn joined(mut buffers: Vec<Bytes>) -> Bytes {
    if buffers.len() == 1 {
        return buffers.pop().unwrap_or_default();
    }
    buffers.concat().into()
}
