//! An object that is read piece by piece, and one that is written so. Each has a task of its own, which ends
//! with it, and takes no place of other transfers while its user is slow.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use futures::Stream;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{ByteRange, Service, check, typed};
use crate::checksum::ChecksumAlgorithm;
use crate::error::Error;
use crate::limits::{FRAMES_AHEAD_MAX, PIECES_AHEAD_MAX};
use crate::s3::objects::{ObjectAttributes, ObjectInfo, ObjectName};
use crate::transfer::engine::{Engine, TransferSettings};
use crate::transfer::fetch::{FetchPart, Sink, fetch};
use crate::transfer::pipe::pipe_all;

/// The bytes of an object or of a range of one version, in order. The checksum of a whole object is verified:
/// its last piece is given only if it is right.
#[derive(Debug)]
pub struct ObjectReader {
    info: ObjectInfo,
    bytes: u64,
    frames: mpsc::Receiver<Result<Bytes, Error>>,
}

impl ObjectReader {
    /// The head of the object.
    pub fn info(&self) -> &ObjectInfo {
        &self.info
    }

    /// Bytes from the first to the last that is read.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the next bytes, up to 256 KiB; none at the end. An error is the end, too.
    pub async fn next(&mut self) -> Option<Result<Bytes, Error>> {
        self.frames.recv().await
    }
}

impl Stream for ObjectReader {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.frames.poll_recv(context)
    }
}

/// Gives frames to a reader, the last one when the checksum is verified.
struct FrameSink {
    begun: Option<oneshot::Sender<ObjectInfo>>,
    frames: mpsc::Sender<Result<Bytes, Error>>,
    last: Option<Bytes>,
}

impl Sink for FrameSink {
    async fn begin(&mut self, info: &ObjectInfo) -> Result<(), Error> {
        match self.begun.take() {
            Some(begun) => begun.send(info.clone()).map_err(|_reader_is_gone| Error::Cancelled),
            None => Ok(()),
        }
    }

    async fn write(&mut self, _at: u64, bytes: Bytes) -> Result<(), Error> {
        match self.last.replace(bytes) {
            Some(ready) => self.frames.send(Ok(ready)).await.map_err(|_| Error::Cancelled),
            None => Ok(()),
        }
    }
}

/// A part of what is written.
enum Piece {
    Bytes(Bytes),
    /// All of it was given. A writer that is dropped before gives no end.
    End,
}

/// An object that is written piece by piece. It is there once [`Self::finish`] returns; a writer that is
/// dropped before leaves nothing behind.
#[derive(Debug)]
pub struct ObjectWriter {
    pieces: mpsc::Sender<Piece>,
    ended: oneshot::Receiver<Result<u64, Error>>,
    cancelled: CancellationToken,
}

impl std::fmt::Debug for Piece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
            Self::End => f.write_str("End"),
        }
    }
}

impl ObjectWriter {
    /// Appends bytes; waits while the service is slower.
    ///
    /// # Errors
    /// Why the upload has ended; all later calls are [`Error::Cancelled`].
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), Error> {
        if self.pieces.send(Piece::Bytes(bytes)).await.is_ok() {
            return Ok(());
        }
        self.end().await.map(drop)
    }

    /// Stores the object. Returns its bytes.
    ///
    /// # Errors
    /// [`Error`]; nothing is stored then.
    pub async fn finish(mut self) -> Result<u64, Error> {
        let _ended_before = self.pieces.send(Piece::End).await;
        self.end().await
    }

    /// Stores nothing, and waits until what was begun is cleaned up.
    pub async fn abort(self) {
        let Self { pieces, ended, cancelled } = self;
        drop(pieces);
        cancelled.cancel();
        let _not_stored = ended.await;
    }

    async fn end(&mut self) -> Result<u64, Error> {
        (&mut self.ended).await.unwrap_or(Err(Error::Cancelled))
    }
}

/// Gives the pieces of a writer to the engine. Blocks.
struct PieceReader {
    pieces: mpsc::Receiver<Piece>,
    left: Bytes,
    is_ended: bool,
}

impl io::Read for PieceReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.left.is_empty() && !self.is_ended {
            match self.pieces.blocking_recv() {
                Some(Piece::Bytes(bytes)) => self.left = bytes,
                Some(Piece::End) => self.is_ended = true,
                None => {
                    return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the writer ended before the end"));
                }
            }
        }
        let taken = buffer.len().min(self.left.len());
        self.left.copy_to_slice(buffer.get_mut(..taken).unwrap_or_default());
        Ok(taken)
    }
}

impl Service {
    /// Begins to read an object, or a range of it, and returns when its head is there.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn read(&self, object: &ObjectName, range: Option<ByteRange>) -> Result<ObjectReader, Error> {
        check(object)?;
        let (sender, mut frames) = mpsc::channel(FRAMES_AHEAD_MAX);
        let Some(range) = range else {
            let (begun, info) = oneshot::channel();
            self.begin_read(object, FetchPart::Whole, Some(begun), sender)?;
            return match info.await {
                Ok(info) => Ok(ObjectReader { bytes: info.bytes, info, frames }),
                Err(_) => Err(frames.recv().await.and_then(Result::err).unwrap_or(Error::Cancelled)),
            };
        };
        let info = self.client.head(object).await?;
        let mut bytes = 0;
        if let Some(range) = range.of(&info) {
            bytes = range.bytes;
            self.begin_read(object, FetchPart::Range(range, ChecksumAlgorithm::Crc64Nvme), None, sender)?;
        }
        Ok(ObjectReader { info, bytes, frames })
    }

    /// Starts the task of a reader.
    fn begin_read(
        &self,
        object: &ObjectName,
        part: FetchPart,
        begun: Option<oneshot::Sender<ObjectInfo>>,
        frames: mpsc::Sender<Result<Bytes, Error>>,
    ) -> Result<(), Error> {
        let settings = TransferSettings { workers: 1, ..self.engine.settings().clone() };
        let engine = Engine::new(settings, self.engine.progress().clone())?;
        let (client, object) = (self.client.clone(), object.clone());
        self.client.spawn(async move {
            let mut sink = FrameSink { begun, frames: frames.clone(), last: None };
            let ended = tokio::select! {
                // A body whose reader is gone is dropped with its connection.
                biased;
                () = frames.closed() => return,
                ended = fetch(&engine, &client, &object, part, &mut sink) => ended,
            };
            let last = sink.last.take();
            let last = match ended {
                Ok(_) => last.map(Ok),
                Err(error) => Some(Err(error)),
            };
            if let Some(last) = last {
                let _reader_is_gone = frames.send(last).await;
            }
        });
        Ok(())
    }

    /// Begins to write an object of unknown size.
    ///
    /// # Errors
    /// [`Error::Name`].
    pub fn write(&self, object: &ObjectName, attributes: &ObjectAttributes) -> Result<ObjectWriter, Error> {
        check(object)?;
        let (pieces, receiver) = mpsc::channel(PIECES_AHEAD_MAX);
        let (mut sender, ended) = oneshot::channel();
        let cancelled = self.client.cancelled().child_token();
        let (engine, client) = (self.engine.clone(), self.client.cancelled_by(cancelled.clone()));
        let (object, attributes) = (object.clone(), typed(object, attributes));
        self.client.spawn(async move {
            let reader = PieceReader { pieces: receiver, left: Bytes::new(), is_ended: false };
            let stored = tokio::select! {
                // An upload that is dropped is removed by its guard.
                biased;
                () = sender.closed() => return,
                stored = pipe_all(&engine, &client, Box::new(reader), &object, &attributes) => stored,
            };
            let _writer_is_gone = sender.send(stored);
        });
        Ok(ObjectWriter { pieces, ended, cancelled })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn read(pieces: Vec<Piece>) -> io::Result<Vec<u8>> {
        let (sender, receiver) = mpsc::channel(8);
        for piece in pieces {
            sender.try_send(piece).expect("there is room");
        }
        drop(sender);
        let mut reader = PieceReader { pieces: receiver, left: Bytes::new(), is_ended: false };
        let mut read = Vec::new();
        reader.read_to_end(&mut read).map(|_| read)
    }

    #[test]
    fn pieces_are_read_in_order_and_a_writer_without_an_end_is_an_error() {
        let piece = |text: &'static str| Piece::Bytes(Bytes::from_static(text.as_bytes()));
        assert_eq!(read(vec![piece("a"), piece(""), piece("bc"), Piece::End]).expect("whole"), b"abc");
        assert_eq!(read(vec![Piece::End]).expect("whole"), b"");
        assert!(read(vec![piece("abc")]).is_err());
    }
}
