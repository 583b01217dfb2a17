//! Verbs of single objects: `cat`, `head`, `pipe`, `stat`, `tag`, `presign`.

use std::ffi::OsString;
use std::io::Write as _;
use std::sync::atomic::Ordering;

use bytes::{Bytes, BytesMut};
use serde_json::json;

use crate::checksum::ChecksumAlgorithm;
use crate::cli::address::{Address, RemoteAddress};
use crate::cli::arguments::{HeadArgs, ObjectsArgs, PipeArgs, PresignArgs, TagArgs};
use crate::cli::exit::Exit;
use crate::cli::output::{STANDARD_OUTPUT, time_text};
use crate::cli::session::{Session, VerbError, VerbResult, shown, usage};
use crate::error::Error;
use crate::limits::{HEAD_BYTES, PART_BYTES_MIN, PRESIGN_SECONDS_MAX};
use crate::s3::objects::{ObjectAttributes, ObjectInfo, ObjectRange};
use crate::transfer::engine::blocking;
use crate::transfer::fetch::{FetchPart, Sink, fetch};
use crate::transfer::pipe::pipe_all;
use crate::transfer::progress::Event;

/// Writes a body to standard output.
struct StandardSink;

impl Sink for StandardSink {
    async fn write(&mut self, _at: u64, bytes: Bytes) -> Result<(), Error> {
        write_out(bytes).await
    }
}

/// Writes bytes to standard output at once. A reader that went away is an error, so that a command ends.
async fn write_out(bytes: Bytes) -> Result<(), Error> {
    let written = blocking(move || {
        let mut out = std::io::stdout().lock();
        out.write_all(&bytes).and_then(|()| out.flush())
    });
    written.await.map_err(Error::file("write", STANDARD_OUTPUT))
}

/// Reads the address of one object.
fn object_address(text: &OsString) -> Result<RemoteAddress, VerbError> {
    let remote = Address::parse_remote(text).map_err(VerbError::Usage)?;
    if remote.is_object() { Ok(remote) } else { usage(format!("{remote} is not an object")) }
}

pub(crate) async fn cat(session: &Session, addresses: &[OsString]) -> VerbResult {
    let addresses: Vec<_> = addresses.iter().map(object_address).collect::<Result<_, _>>()?;
    for address in addresses {
        let read = async {
            let (client, object) = session.remotes.object(&address)?;
            fetch(&session.engine, &client, &object, FetchPart::Whole, &mut StandardSink).await
        };
        if let Err(error) = read.await {
            if session.output.is_unread(&error) {
                break;
            }
            session.fail("read", address.to_string(), error).await;
        }
    }
    Ok(Exit::Done)
}

pub(crate) async fn head(session: &Session, arguments: HeadArgs) -> VerbResult {
    let HeadArgs { address, lines, bytes } = arguments;
    let (client, object) = session.remotes.object(&object_address(&address)?)?;
    let info = client.head(&object).await?;
    let end = bytes.map_or(info.bytes, |bytes| bytes.as_u64().min(info.bytes));
    let (mut at, mut step, mut left) = (0, HEAD_BYTES, lines);
    while at < end && (bytes.is_some() || left > 0) {
        let range = ObjectRange { offset: at, bytes: step.min(end - at), etag: info.etag.clone() };
        at += range.bytes;
        step = (step * 2).min(PART_BYTES_MIN);
        let mut read = BytesMut::new();
        let part = FetchPart::Range(range, ChecksumAlgorithm::Crc64Nvme);
        fetch(&session.engine, &client, &object, part, &mut read).await?;
        if bytes.is_none() {
            let shown = first_lines(&read, &mut left).len();
            read.truncate(shown);
        }
        write_out(read.freeze()).await?;
    }
    Ok(Exit::Done)
}

/// The beginning of some bytes up to the end of the last line that is left to show.
fn first_lines<'a>(bytes: &'a [u8], left: &mut usize) -> &'a [u8] {
    for (at, byte) in bytes.iter().enumerate() {
        if *byte == b'\n' {
            *left -= 1;
            if *left == 0 {
                return bytes.get(..=at).unwrap_or(bytes);
            }
        }
    }
    bytes
}

pub(crate) async fn pipe_verb(session: &Session, arguments: PipeArgs) -> VerbResult {
    let address = object_address(&arguments.address)?;
    pipe(session, &address, arguments.attributes.given().unwrap_or_default()).await
}

pub(crate) async fn pipe(
    session: &Session,
    address: &RemoteAddress,
    attributes: ObjectAttributes,
) -> VerbResult {
    if !address.is_object() {
        return usage(format!("{address} is not an object; standard input has no name of its own"));
    }
    let (client, object) = session.remotes.object(address)?;
    let progress = session.engine.progress();
    progress.planned(0);
    let input = Box::new(std::io::stdin());
    let bytes = pipe_all(&session.engine, &client, input, &object, &attributes).await?;
    let (source, target) = ("-".to_owned(), Some(address.to_string()));
    progress.report(Event::Done { verb: "copy", source, target, bytes }).await;
    Ok(Exit::Done)
}

pub(crate) async fn stat(session: &Session, arguments: ObjectsArgs) -> VerbResult {
    for text in &arguments.addresses {
        let address = Address::parse_remote(text).map_err(VerbError::Usage)?;
        if address.bucket.is_empty() {
            return usage(format!("{} is neither a bucket nor an object", shown(text)));
        }
        let shown = async {
            let (client, object) = session.remotes.object(&address)?;
            if object.key.is_empty() {
                client.head_bucket(&object.bucket).await?;
                session.output.result(
                    || json!({ "name": address.to_string(), "kind": "bucket" }),
                    || format!("{address}\n  kind: bucket"),
                );
                return Ok(());
            }
            show(session, &address, &client.head(&object).await?);
            Ok::<(), Error>(())
        };
        if let Err(error) = shown.await {
            session.fail("stat", address.to_string(), error).await;
        }
    }
    Ok(Exit::Done)
}

fn show(session: &Session, address: &RemoteAddress, info: &ObjectInfo) {
    let ObjectInfo { bytes, etag, modified, checksum, version, storage_class, attributes } = info;
    let checksum = checksum.as_ref().map(|(algorithm, value)| (algorithm.name(), value));
    let headers: serde_json::Map<_, _> =
        attributes.headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    session.output.result(
        || {
            json!({
                "name": address.to_string(), "kind": "object", "bytes": bytes, "etag": etag,
                "modified": time_text(*modified), "version": version, "storage_class": storage_class,
                "checksum": checksum.map(|(algorithm, value)| json!({ "algorithm": algorithm, "value": value })),
                "headers": headers,
            })
        },
        || {
            let mut lines = vec![
                address.to_string(),
                format!("  bytes: {bytes}"),
                format!("  modified: {}", time_text(*modified)),
                format!("  etag: {etag}"),
            ];
            lines.extend(checksum.map(|(algorithm, value)| format!("  {algorithm}: {value}")));
            lines.extend(version.as_ref().map(|version| format!("  version: {version}")));
            lines.extend(storage_class.as_ref().map(|class| format!("  storage class: {class}")));
            lines.extend(attributes.headers.iter().map(|(name, value)| format!("  {name}: {value}")));
            lines.join("\n")
        },
    );
}

pub(crate) async fn tag(session: &Session, arguments: TagArgs) -> VerbResult {
    let TagArgs { address, tags, remove } = arguments;
    let (client, object) = session.remotes.object(&object_address(&address)?)?;
    if remove || !tags.is_empty() {
        client.put_tags(&object, &tags).await?;
        session.engine.progress().counters().done.fetch_add(1, Ordering::Relaxed);
        return Ok(Exit::Done);
    }
    for (key, value) in client.tags(&object).await? {
        session.output.result(|| json!({ "tag": key, "value": value }), || format!("{key}={value}"));
    }
    Ok(Exit::Done)
}

pub(crate) fn presign(session: &Session, arguments: &PresignArgs) -> VerbResult {
    let address = object_address(&arguments.address)?;
    let seconds = arguments.expires.as_secs();
    if !(1..=PRESIGN_SECONDS_MAX).contains(&seconds) {
        return usage("--expires is 1s to 7days");
    }
    let method = if arguments.put { "PUT" } else { "GET" };
    let client = session.remotes.client(&address.scheme)?;
    let url = client.presign(method, &address.bucket, &address.key, seconds)?;
    session.output.result(|| json!({ "url": url, "method": method, "seconds": seconds }), || url.clone());
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_end_with_their_last() {
        let lines = |bytes: &'static [u8], mut left| (first_lines(bytes, &mut left), left);
        assert_eq!(lines(b"a\nb\nc\n", 2), (&b"a\nb\n"[..], 0));
        assert_eq!(lines(b"a\nb", 2), (&b"a\nb"[..], 1));
        assert_eq!(lines(b"", 2), (&b""[..], 2));
    }
}
