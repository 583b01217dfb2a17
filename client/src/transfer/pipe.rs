//! Bytes of unknown size to an object: parts are read into memory one after the other and sent side by side.

use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinSet;

use super::engine::{Engine, blocking};
use super::plan::pipe_part_bytes;
use crate::checksum::{Checksum, ChecksumAlgorithm};
use crate::client::Client;
use crate::error::{Error, PlanError};
use crate::limits::{HELD_PARTS_MAX, PARTS_MAX};
use crate::payload::Payload;
use crate::s3::objects::{ObjectAttributes, ObjectName};
use crate::s3::uploads::{StoredPart, Upload};

/// Gives the bytes of a pipe. Blocks.
pub(crate) type Reader = Box<dyn Read + Send>;

const ALGORITHM: ChecksumAlgorithm = ChecksumAlgorithm::Crc64Nvme;

/// Uploads all that a reader gives. Nothing is stored if it fails before its end. Returns the bytes.
pub(crate) async fn pipe_all(
    engine: &Engine,
    client: &Client,
    mut reader: Reader,
    object: &ObjectName,
    attributes: &ObjectAttributes,
) -> Result<u64, Error> {
    let first_bytes = pipe_part_bytes(1, engine.settings().part_bytes);
    let first = read_part(client, &mut reader, first_bytes).await?;
    let meter = engine.progress().meter();
    if (first.len() as u64) < first_bytes {
        let (bytes, checksum) = (first.len() as u64, Checksum::of(ALGORITHM, &first));
        client.put(object, Payload::Bytes(first), checksum, attributes, &meter).await?;
        return Ok(bytes);
    }
    let upload = Arc::new(Upload::begin(client, object, attributes).await?);
    let mut sending = JoinSet::new();
    let sent = send_parts(engine, client, reader, first, &upload, &mut sending).await;
    sending.shutdown().await;
    let mut upload = Arc::into_inner(upload).expect("the tasks of the parts have ended");
    let ended = match sent {
        Ok(parts) => complete(&mut upload, parts).await,
        Err(error) => Err(error),
    };
    if ended.is_err() {
        let _left_for_rules_of_the_bucket = upload.abort().await;
    }
    ended
}

async fn complete(upload: &mut Upload, mut parts: Vec<(StoredPart, Checksum)>) -> Result<u64, Error> {
    parts.sort_unstable_by_key(|(part, _)| part.number);
    let whole = parts.iter().map(|(_, checksum)| *checksum).reduce(Checksum::followed_by);
    let parts: Vec<StoredPart> = parts.into_iter().map(|(part, _)| part).collect();
    upload.complete(&parts, whole).await?;
    Ok(parts.iter().map(|part| part.bytes).sum())
}

async fn send_parts(
    engine: &Engine,
    client: &Client,
    mut reader: Reader,
    first: Bytes,
    upload: &Arc<Upload>,
    sending: &mut JoinSet<Result<(StoredPart, Checksum), Error>>,
) -> Result<Vec<(StoredPart, Checksum)>, Error> {
    let (mut parts, mut number, mut next) = (Vec::new(), 1, first);
    while !next.is_empty() {
        if number > PARTS_MAX {
            let part_bytes = pipe_part_bytes(number, engine.settings().part_bytes);
            return Err(PlanError::TooManyParts { bytes: part_bytes * number, part_bytes }.into());
        }
        let (upload, part, meter) = (Arc::clone(upload), next, engine.progress().meter());
        sending.spawn(async move {
            let checksum = Checksum::of(ALGORITHM, &part);
            let stored = upload.put_part(number, Payload::Bytes(part), checksum, &meter).await?;
            Ok((stored, checksum))
        });
        while sending.len() >= HELD_PARTS_MAX
            && let Some(sent) = sending.join_next().await
        {
            parts.push(joined(sent)?);
        }
        number += 1;
        next = read_part(client, &mut reader, pipe_part_bytes(number, engine.settings().part_bytes)).await?;
    }
    while let Some(sent) = sending.join_next().await {
        parts.push(joined(sent)?);
    }
    Ok(parts)
}

fn joined<T>(sent: Result<Result<T, Error>, tokio::task::JoinError>) -> Result<T, Error> {
    sent.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// Reads up to `bytes`; fewer only at the end.
async fn read_part(client: &Client, reader: &mut Reader, bytes: u64) -> Result<Bytes, Error> {
    let mut taken = std::mem::replace(reader, Box::new(std::io::empty()));
    let read = blocking(move || {
        let mut part = Vec::new();
        let read = (&mut taken).take(bytes).read_to_end(&mut part);
        (read.map(|_| part), taken)
    });
    let (read, taken) = tokio::select! {
        // A thread that still reads is left to the end of the process.
        biased;
        () = client.cancelled().cancelled() => return Err(Error::Cancelled),
        read = read => read,
    };
    *reader = taken;
    Ok(read.map_err(Error::file("read", "standard input"))?.into())
}
