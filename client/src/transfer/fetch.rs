//! The body of an object, or of a range of one version: what breaks is asked for again from the byte where it
//! broke, by the entity tag of the version that was begun.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;

use super::engine::Engine;
use crate::checksum::{Checksum, ChecksumAlgorithm, Summer};
use crate::client::{Answer, Client};
use crate::error::{Error, ExchangeFailure};
use crate::limits::{FRAME_BYTES, RESUMES_MAX};
use crate::payload::Meter;
use crate::payload::frame::FrameBuffer;
use crate::s3::objects::{ObjectInfo, ObjectName, ObjectRange};
use crate::transport::{causes, within_progress};

/// A place for the bytes of a body.
pub(crate) trait Sink: Send {
    /// Takes the head of the object before its first byte.
    fn begin(&mut self, _info: &ObjectInfo) -> impl Future<Output = Result<(), Error>> + Send {
        std::future::ready(Ok(()))
    }

    /// Takes bytes that begin at `at` of the body. They come in order.
    fn write(&mut self, at: u64, bytes: Bytes) -> impl Future<Output = Result<(), Error>> + Send;
}

/// Collects a body in memory.
impl Sink for BytesMut {
    async fn write(&mut self, _at: u64, bytes: Bytes) -> Result<(), Error> {
        self.extend_from_slice(&bytes);
        Ok(())
    }
}

/// The part of an object that is asked for.
#[derive(Debug, Clone)]
pub(crate) enum FetchPart {
    /// All of it, of whichever version there is; its checksum is verified.
    Whole,
    /// A range of one version; its checksum is computed.
    Range(ObjectRange, ChecksumAlgorithm),
}

/// A body that arrived.
#[derive(Debug)]
pub(crate) struct FetchedBody {
    pub(crate) info: ObjectInfo,
    /// Of the bytes that arrived.
    pub(crate) checksum: Checksum,
}

/// Why a body ended early.
enum Break {
    Fault(Error),
    Body(ExchangeFailure),
    /// More bytes came than the head of the answer has.
    Long,
}

/// Reads a body into a sink.
pub(crate) async fn fetch(
    engine: &Engine,
    client: &Client,
    object: &ObjectName,
    part: FetchPart,
    sink: &mut impl Sink,
) -> Result<FetchedBody, Error> {
    let (mut range, algorithm) = match part {
        FetchPart::Whole => (None, None),
        FetchPart::Range(range, algorithm) => (Some(range), Some(algorithm)),
    };
    let meter = engine.progress().meter();
    let _place = engine.place().await;
    let (mut received, mut failures, mut resumes) = (0, 0, 0);
    let mut kept: Option<(ObjectInfo, Summer)> = None;
    loop {
        let (info, answer) = client.get(object, range.as_ref()).await?;
        let whole = range.get_or_insert_with(|| ObjectRange {
            offset: 0,
            bytes: info.bytes,
            etag: info.etag.clone(),
        });
        if kept.is_none() {
            sink.begin(&info).await?;
        }
        let (info, summer) = kept.get_or_insert_with(|| {
            let of_object = info.checksum.as_ref().map(|(algorithm, _)| *algorithm);
            let algorithm = algorithm.or(of_object).unwrap_or(ChecksumAlgorithm::Crc64Nvme);
            (info, Summer::new(algorithm))
        });
        let before = received;
        let ended = receive(client, answer, whole.bytes, &mut received, summer, sink, &meter).await;
        let moved = received - before;
        *whole = ObjectRange {
            offset: whole.offset + moved,
            bytes: whole.bytes - moved,
            etag: whole.etag.clone(),
        };
        match ended {
            Ok(()) => {
                let checksum = summer.finish();
                if algorithm.is_none() {
                    verify(object, info, checksum)?;
                }
                return Ok(FetchedBody { info: info.clone(), checksum });
            }
            Err(Break::Fault(error)) => return Err(error),
            Err(Break::Long) => {
                let what = "its body is longer than its head says";
                return Err(Error::Malformed { resource: object.to_string(), what });
            }
            Err(Break::Body(failure)) => {
                failures = if moved > 0 { 1 } else { failures + 1 };
                resumes += 1;
                if failures >= client.attempts() || resumes > RESUMES_MAX {
                    return Err(Error::NoAnswer {
                        resource: object.to_string(),
                        endpoint: client.account().endpoint.url(),
                        attempts: failures,
                        failure,
                    });
                }
                client.pause(failures, None).await;
            }
        }
    }
}

/// Compares the checksum of a whole object with the one that the service has of it, if it has one.
pub(crate) fn verify(object: &ObjectName, info: &ObjectInfo, computed: Checksum) -> Result<(), Error> {
    match &info.checksum {
        Some((algorithm, stored)) if *algorithm == computed.algorithm && *stored != computed.text() => {
            Err(Error::Checksum {
                resource: object.to_string(),
                algorithm: algorithm.name(),
                computed: computed.text(),
                stored: stored.clone(),
            })
        }
        _ => Ok(()),
    }
}

/// Reads one answer into the sink, in frames of up to 128 KiB.
async fn receive(
    client: &Client,
    answer: Answer,
    expected: u64,
    received: &mut u64,
    summer: &mut Summer,
    sink: &mut impl Sink,
    meter: &Meter,
) -> Result<(), Break> {
    let (mut body, end) = (answer.into_body(), *received + expected);
    let (mut buffer, unmoved) = (FrameBuffer::new(), Meter::default());
    loop {
        let frame = tokio::select! {
            // A frame that is dropped with the body is asked for again, if at all.
            biased;
            () = client.cancelled().cancelled() => return Err(Break::Fault(Error::Cancelled)),
            frame = within_progress(body.frame(), &unmoved) => frame,
        };
        let (data, failure) = match frame {
            Ok(Some(Ok(frame))) => (frame.into_data().unwrap_or_default(), None),
            Ok(Some(Err(error))) => (Bytes::new(), Some(ExchangeFailure::Connection(causes(&error)))),
            Ok(None) => {
                (Bytes::new(), Some(ExchangeFailure::CutShort { received: *received, expected: end }))
            }
            Err(failure) => (Bytes::new(), Some(failure)),
        };
        meter.add(data.len());
        if *received + (buffer.len() + data.len()) as u64 > end {
            return Err(Break::Long);
        }
        let mut data = &data[..];
        loop {
            let taken = buffer.fill(data);
            data = data.get(taken..).unwrap_or_default();
            let arrived = *received + buffer.len() as u64;
            let is_due = buffer.len() == FRAME_BYTES || failure.is_some() || arrived >= end;
            if is_due && buffer.len() > 0 {
                let bytes = std::mem::replace(&mut buffer, FrameBuffer::new()).freeze();
                summer.update(&bytes);
                let at = *received;
                *received += bytes.len() as u64;
                sink.write(at, bytes).await.map_err(Break::Fault)?;
            }
            if data.is_empty() {
                break;
            }
        }
        match failure {
            _ if *received == end => return Ok(()),
            Some(failure) => return Err(Break::Body(failure)),
            None => {}
        }
    }
}
