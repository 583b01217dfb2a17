//! Verbs that only list: `ls`, `tree`, `du`, `find`.

use std::time::SystemTime;

use bytesize::ByteSize;
use serde_json::json;

use crate::cli::address::{Address, RemoteAddress, S3};
use crate::cli::arguments::{DuArgs, FindArgs, ListArgs, TreeArgs};
use crate::cli::exit::Exit;
use crate::cli::output::time_text;
use crate::cli::session::{Session, VerbError, VerbResult, usage};
use crate::client::Client;
use crate::error::Error;
use crate::glob::Glob;
use crate::s3::listing::{ListEntry, ListQuery, ObjectEntry};

pub(crate) async fn ls(session: &Session, arguments: ListArgs) -> VerbResult {
    let service = RemoteAddress { scheme: S3.to_owned(), bucket: String::new(), key: String::new() };
    let parsed = arguments.address.as_ref().map(|text| Address::parse_remote(text));
    let address = parsed.transpose().map_err(VerbError::Usage)?.unwrap_or(service);
    let client = session.remotes.client(&address.scheme)?;
    if address.bucket.is_empty() {
        for bucket in client.buckets().await? {
            let (name, created) =
                (format!("{}://{}", address.scheme, bucket.name), time_text(bucket.created));
            session.output.result(
                || json!({ "name": name, "kind": "bucket", "created": created }),
                || format!("{created:20}  {:>12}  {name}", ""),
            );
        }
        return Ok(Exit::Done);
    }
    let query = ListQuery {
        bucket: address.bucket.clone(),
        prefix: address.key.clone(),
        is_by_folder: !arguments.recursive,
    };
    let mut entries = client.list(query);
    let mut is_empty = true;
    while let Some(entry) = entries.recv().await {
        is_empty = false;
        show(session, &address, &entry?);
    }
    if is_empty && !address.key.is_empty() { Err(absent(&address).into()) } else { Ok(Exit::Done) }
}

fn absent(address: &RemoteAddress) -> Error {
    let source = std::io::ErrorKind::NotFound.into();
    Error::file("find an object below", address.to_string())(source)
}

fn show(session: &Session, address: &RemoteAddress, entry: &ListEntry) {
    let name = format!("{}://{}/{}", address.scheme, address.bucket, entry.name());
    match entry {
        ListEntry::Prefix(_) => session.output.result(
            || json!({ "name": name, "kind": "folder" }),
            || format!("{:20}  {:>12}  {name}", "", "folder"),
        ),
        ListEntry::Object(object) => show_object(session, &name, object),
    }
}

fn show_object(session: &Session, name: &str, object: &ObjectEntry) {
    let ObjectEntry { key: _, bytes, modified, etag, storage_class } = object;
    let modified = time_text(*modified);
    session.output.result(
        || {
            json!({ "name": name, "kind": "object", "bytes": bytes, "modified": modified, "etag": etag,
                "storage_class": storage_class })
        },
        || format!("{modified:20}  {bytes:>12}  {name}"),
    );
}

/// Lists all objects below an address, with the part of each key behind it.
async fn each(
    session: &Session,
    address: &RemoteAddress,
    mut take: impl FnMut(&str, ObjectEntry),
) -> Result<(), VerbError> {
    if address.bucket.is_empty() {
        return usage("the bucket is missing");
    }
    let prefix = address.prefix();
    let prefix_bytes = prefix.len();
    let query = ListQuery { bucket: address.bucket.clone(), prefix, is_by_folder: false };
    let mut entries = session.remotes.client(&address.scheme)?.list(query);
    while let Some(entry) = entries.recv().await {
        if let ListEntry::Object(object) = entry? {
            let name = object.key.get(prefix_bytes..).unwrap_or_default().to_owned();
            take(&name, object);
        }
    }
    Ok(())
}

pub(crate) async fn du(session: &Session, arguments: DuArgs) -> VerbResult {
    let filters = arguments.filters.filters();
    for text in &arguments.addresses {
        let address = Address::parse_remote(text).map_err(VerbError::Usage)?;
        let (mut bytes, mut objects) = (0_u64, 0_u64);
        each(session, &address, |name, object| {
            if filters.take(name) {
                bytes += object.bytes;
                objects += 1;
            }
        })
        .await?;
        let size = ByteSize::b(bytes).display().iec().to_string();
        session.output.result(
            || json!({ "name": address.to_string(), "bytes": bytes, "objects": objects }),
            || format!("{size:>10}  {objects:>9} objects  {address}"),
        );
    }
    Ok(Exit::Done)
}

pub(crate) async fn find(session: &Session, arguments: FindArgs) -> VerbResult {
    let FindArgs { address, name, larger, smaller, older, newer } = arguments;
    let address = Address::parse_remote(&address).map_err(VerbError::Usage)?;
    let glob = name.map(Glob::new);
    let now = SystemTime::now();
    let is_wanted = |name: &str, object: &ObjectEntry| {
        let age = object.modified.map(|modified| now.duration_since(modified).unwrap_or_default());
        glob.as_ref().is_none_or(|glob| glob.matches(name))
            && larger.is_none_or(|larger| object.bytes > larger.as_u64())
            && smaller.is_none_or(|smaller| object.bytes < smaller.as_u64())
            && older.is_none_or(|older| age.is_some_and(|age| age > older))
            && newer.is_none_or(|newer| age.is_some_and(|age| age < newer))
    };
    each(session, &address, |name, object| {
        if is_wanted(name, &object) {
            let name = format!("{}://{}/{}", address.scheme, address.bucket, object.key);
            show_object(session, &name, &object);
        }
    })
    .await?;
    Ok(Exit::Done)
}

pub(crate) async fn tree(session: &Session, arguments: TreeArgs) -> VerbResult {
    let address = Address::parse_remote(&arguments.address).map_err(VerbError::Usage)?;
    if address.bucket.is_empty() {
        return usage("the bucket is missing");
    }
    let client = session.remotes.client(&address.scheme)?;
    session.output.result(|| json!({ "name": address.to_string() }), || address.to_string());
    let top = Branch { prefix: address.prefix(), margin: String::new(), depth: 0 };
    // A stack in place of recursion: the branches that are left, the next one last.
    let mut open = vec![(top.prefix.clone(), children(&client, &address.bucket, top).await?)];
    while let Some((prefix, lines)) = open.last_mut() {
        let Some((entry, margin, depth)) = lines.next() else {
            open.pop();
            continue;
        };
        let is_last = lines.len() == 0;
        let name = entry.name().get(prefix.len()..).unwrap_or_default().to_owned();
        let mark = if is_last { "└── " } else { "├── " };
        let full = format!("{}://{}/{}", address.scheme, address.bucket, entry.name());
        let kind = if matches!(entry, ListEntry::Prefix(_)) { "folder" } else { "object" };
        session.output.result(
            || json!({ "name": full, "kind": kind, "depth": depth + 1 }),
            || format!("{margin}{mark}{name}"),
        );
        if let ListEntry::Prefix(prefix) = entry
            && depth + 1 < arguments.depth
        {
            let margin = format!("{margin}{}", if is_last { "    " } else { "│   " });
            let branch = Branch { prefix: prefix.clone(), margin, depth: depth + 1 };
            open.push((prefix, children(&client, &address.bucket, branch).await?));
        }
    }
    Ok(Exit::Done)
}

/// A folder of a drawing.
struct Branch {
    prefix: String,
    margin: String,
    depth: usize,
}

type Lines = std::vec::IntoIter<(ListEntry, String, usize)>;

/// The lines of one folder: whether one is the last is seen when all are there.
async fn children(client: &Client, bucket: &str, branch: Branch) -> Result<Lines, Error> {
    let Branch { prefix, margin, depth } = branch;
    let query = ListQuery { bucket: bucket.to_owned(), prefix: prefix.clone(), is_by_folder: true };
    let (mut entries, mut lines) = (client.list(query), Vec::new());
    while let Some(entry) = entries.recv().await {
        let entry = entry?;
        // The object that stands for the folder itself has no name in it.
        if entry.name() != prefix {
            lines.push((entry, margin.clone(), depth));
        }
    }
    Ok(lines.into_iter())
}
