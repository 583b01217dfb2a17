//! Bodies of requests: nothing, bytes in memory, or a range of a file that is streamed frame by frame.
//!
//! Each attempt gets a body of its own. The last frame of a file is given out only if the file is as it was
//! when it was opened, so that a file that changes is never stored under its name.

pub(crate) mod frame;

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use futures::stream;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;

use self::frame::FrameBuffer;
use crate::checksum::{Checksum, ChecksumAlgorithm, Summer};
use crate::error::Error;
use crate::limits::FRAME_BYTES;

/// The parts of a file's state that change with its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct FileStamp {
    pub(crate) inode: u64,
    pub(crate) bytes: u64,
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: i64,
}

impl FileStamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            bytes: metadata.len(),
            seconds: metadata.mtime(),
            nanoseconds: metadata.mtime_nsec(),
        }
    }
}

/// An open file that is to be sent.
#[derive(Debug)]
pub(crate) struct SourceFile {
    file: File,
    path: PathBuf,
    stamp: FileStamp,
}

impl SourceFile {
    /// Opens a file and notes its state. Blocks.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(Error::file("open", path))?;
        let metadata = file.metadata().map_err(Error::file("open", path))?;
        if !metadata.is_file() {
            return Err(Error::name(path.display().to_string(), crate::error::NameFault::Special));
        }
        Ok(Self { file, path: path.to_owned(), stamp: FileStamp::of(&metadata) })
    }

    pub(crate) const fn stamp(&self) -> FileStamp {
        self.stamp
    }

    /// Refuses a file that changed since it was opened. Blocks.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let metadata = self.file.metadata().map_err(Error::file("read", &self.path))?;
        if FileStamp::of(&metadata) == self.stamp { Ok(()) } else { Err(self.changed()) }
    }

    /// Reads up to a frame. Blocks.
    pub(crate) fn read(&self, offset: u64, bytes: usize) -> Result<FrameBuffer, Error> {
        let mut buffer = FrameBuffer::zeroed(bytes);
        match self.file.read_exact_at(buffer.as_mut_slice(), offset) {
            Ok(()) => Ok(buffer),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Err(self.changed()),
            Err(error) => Err(Error::file("read", &self.path)(error)),
        }
    }

    fn changed(&self) -> Error {
        Error::SourceChanged { path: self.path.clone() }
    }
}

/// A range of an open file.
#[derive(Debug, Clone)]
pub(crate) struct FileRange {
    pub(crate) file: Arc<SourceFile>,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl FileRange {
    /// The checksum of the range, read without keeping it. Blocks.
    pub(crate) fn checksum(&self, algorithm: ChecksumAlgorithm) -> Result<Checksum, Error> {
        let mut summer = Summer::new(algorithm);
        let mut at = 0;
        while at < self.bytes {
            let bytes = self.frame_bytes(at);
            summer.update(self.file.read(self.offset + at, bytes)?.as_ref());
            at += bytes as u64;
        }
        Ok(summer.finish())
    }

    fn frame_bytes(&self, at: u64) -> usize {
        usize::try_from(self.bytes - at).map_or(FRAME_BYTES, |left| left.min(FRAME_BYTES))
    }

    /// The frame that begins at `at` of the range; the last one only of an unchanged file. Blocks.
    fn frame(&self, at: u64) -> Result<Bytes, Error> {
        let frame = self.file.read(self.offset + at, self.frame_bytes(at))?;
        if at + frame.len() as u64 == self.bytes {
            self.file.check()?;
        }
        Ok(frame.freeze())
    }
}

/// The body of a call, from which each attempt makes its own.
#[derive(Debug, Clone)]
pub(crate) enum Payload {
    Bytes(Bytes),
    File(FileRange),
}

impl Payload {
    pub(crate) const EMPTY: Self = Self::Bytes(Bytes::new());

    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File(range) => range.bytes,
        }
    }

    /// Makes the body of one attempt. Bytes that it gives out are counted in `meter`; the reason for which
    /// it broke is left in `fault`.
    pub(crate) fn body(&self, meter: &Meter, fault: &SourceFault) -> PayloadBody {
        let frames: Frames = match self {
            Self::Bytes(bytes) if bytes.is_empty() => Box::pin(stream::empty()),
            Self::Bytes(bytes) => {
                let bytes = bytes.clone();
                Box::pin(stream::once(async move { Ok(bytes) }))
            }
            Self::File(range) => Box::pin(frames(range.clone(), fault.clone())),
        };
        PayloadBody { left: self.len(), frames, meter: meter.clone() }
    }
}

fn frames(range: FileRange, fault: SourceFault) -> impl Stream<Item = Result<Bytes, BodyFault>> + Send {
    stream::try_unfold(0, move |at| {
        let (range, fault) = (range.clone(), fault.clone());
        async move {
            if at == range.bytes {
                return Ok(None);
            }
            let read = tokio::task::spawn_blocking(move || range.frame(at)).await;
            match read {
                Ok(Ok(frame)) => {
                    let next = at + frame.len() as u64;
                    Ok(Some((frame, next)))
                }
                Ok(Err(error)) => {
                    *fault.0.lock() = Some(error);
                    Err(BodyFault)
                }
                Err(_) => Err(BodyFault),
            }
        }
    })
}

type Frames = Pin<Box<dyn Stream<Item = Result<Bytes, BodyFault>> + Send>>;

/// The source of a body failed; [`SourceFault`] has the reason.
#[derive(Debug, thiserror::Error)]
#[error("the source of the body cannot be read")]
pub(crate) struct BodyFault;

/// The place where a body leaves the reason for which it broke.
#[derive(Debug, Clone, Default)]
pub(crate) struct SourceFault(Arc<Mutex<Option<Error>>>);

impl SourceFault {
    pub(crate) fn take(&self) -> Option<Error> {
        self.0.lock().take()
    }
}

/// Counts bytes that moved: those of one attempt, and those of all transfers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    attempt: Arc<AtomicU64>,
    all: Arc<AtomicU64>,
}

impl Meter {
    /// Counts an attempt, and adds to what all transfers have moved.
    pub(crate) fn of(all: &Arc<AtomicU64>) -> Self {
        Self { attempt: Arc::default(), all: Arc::clone(all) }
    }

    pub(crate) fn add(&self, bytes: usize) {
        self.attempt.fetch_add(bytes as u64, Ordering::Relaxed);
        self.all.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.attempt.load(Ordering::Relaxed)
    }

    /// Takes the bytes of an attempt back: the next one moves them again.
    pub(crate) fn restart(&self) {
        self.all.fetch_sub(self.attempt.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// The body of one attempt, of known length.
pub(crate) struct PayloadBody {
    left: u64,
    frames: Frames,
    meter: Meter,
}

impl std::fmt::Debug for PayloadBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PayloadBody").field("left", &self.left).finish_non_exhaustive()
    }
}

impl Body for PayloadBody {
    type Data = Bytes;
    type Error = BodyFault;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyFault>>> {
        let polled = self.frames.as_mut().poll_next(context);
        polled.map(|frame| {
            frame.map(|frame| {
                frame.map(|bytes| {
                    self.left = self.left.saturating_sub(bytes.len() as u64);
                    self.meter.add(bytes.len());
                    Frame::data(bytes)
                })
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use http_body_util::BodyExt as _;

    use super::*;

    fn range(path: &Path, bytes: u64) -> FileRange {
        FileRange { file: Arc::new(SourceFile::open(path).expect("a file")), offset: 0, bytes }
    }

    #[tokio::test]
    async fn a_file_is_streamed_whole_and_its_frames_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let content: Vec<u8> = (0..=250).cycle().take(FRAME_BYTES * 2 + 5).collect();
        fs::write(&path, &content).unwrap();
        let range = range(&path, content.len() as u64);
        let checksum = range.checksum(ChecksumAlgorithm::Crc64Nvme).expect("it is read");
        assert_eq!(checksum, Checksum::of(ChecksumAlgorithm::Crc64Nvme, &content));
        let meter = Meter::default();
        let body = Payload::File(range).body(&meter, &SourceFault::default());
        assert_eq!(body.size_hint().exact(), Some(content.len() as u64));
        assert_eq!(body.collect().await.expect("it is read").to_bytes(), content);
        assert_eq!(meter.bytes(), content.len() as u64);
    }

    #[tokio::test]
    async fn a_file_that_changes_breaks_its_body_before_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "before").unwrap();
        for change in ["longer than before", "short"] {
            let range = range(&path, fs::metadata(&path).unwrap().len());
            fs::write(&path, change).unwrap();
            let fault = SourceFault::default();
            let body = Payload::File(range).body(&Meter::default(), &fault);
            assert!(body.collect().await.is_err(), "{change}");
            assert!(matches!(fault.take(), Some(Error::SourceChanged { .. })), "{change}");
        }
    }
}
