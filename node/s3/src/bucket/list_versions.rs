//! ListObjectVersions: a page of objects, each with its one version, `null`, and common prefixes.
//!
//! Buckets have no versioning, so AWS would list each object as its current version with the id `null`. A
//! page goes on behind a key, or behind a version of it, which is the same while a key has one version.

use s3s::dto::{ListObjectVersionsOutput, ObjectVersion, ObjectVersionStorageClass};

use crate::answer::{self, Outcome, Response, body};
use crate::bucket::listing::{KeyEncoding, ListingQuery, Page, PageEntry};
use crate::gateway::Gateway;
use crate::head::{checksum, names, owner, timestamp};
use crate::request::Request;
use crate::wire::refusal::{Code, Refusal};
use sherd_store::object::ListEntry;

/// The id of every version.
const NULL: &str = "null";

pub(crate) async fn list(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let listing = ListingQuery::of(&request, "max-keys", 0)?;
    let key_marker = request.head.text("key-marker").unwrap_or_default();
    let version_marker = request.head.text("version-id-marker");
    check_markers(&key_marker, version_marker.as_deref())?;
    let bucket = request.target.bucket();
    let after = (!key_marker.is_empty()).then(|| key_marker.clone());
    let found = listing.keys(gateway, &bucket, after).await?;
    let (max, encoding) = (listing.max, listing.encoding);
    let next = found.next;
    let page = Page::of(found.entries, encoding, |entry| described(entry, encoding));
    let (prefix, delimiter) = listing.repeated();
    answer::document(&ListObjectVersionsOutput {
        name: Some(bucket.to_string()),
        prefix: Some(prefix),
        key_marker: Some(encoding.text(key_marker)),
        version_id_marker: Some(version_marker.unwrap_or_default()),
        max_keys: i32::try_from(max).ok(),
        is_truncated: Some(next.is_some()),
        next_version_id_marker: next.as_ref().filter(|_| page.ends_in_named).map(|_| NULL.to_owned()),
        next_key_marker: next.map(|next| encoding.text(next)),
        versions: Some(page.named),
        common_prefixes: Some(page.common_prefixes),
        delimiter,
        encoding_type: encoding.name(),
        ..ListObjectVersionsOutput::default()
    })
}

/// A version to go on behind belongs to a key, and is one that could be.
fn check_markers(key: &str, version: Option<&str>) -> Result<(), Refusal> {
    match version {
        None => Ok(()),
        Some("") => Err(Refusal::says(Code::InvalidArgument, "A version-id marker cannot be empty.")),
        Some(_) if key.is_empty() => Err(Refusal::says(
            Code::InvalidArgument,
            "A version-id marker cannot be specified without a key marker.",
        )),
        Some(version) => names::version("version-id-marker", version).map(drop),
    }
}

fn described(entry: ListEntry, encoding: KeyEncoding) -> PageEntry<ObjectVersion> {
    let (key, info) = match entry {
        ListEntry::Prefix(prefix) => return PageEntry::Prefix(prefix),
        ListEntry::Object { key, info } => (key, info),
    };
    PageEntry::Named(ObjectVersion {
        checksum_algorithm: checksum::algorithm_names(&info.checksums),
        checksum_type: checksum::type_of(&info.checksums),
        e_tag: Some(body::etag(&info.etag)),
        is_latest: Some(true),
        key: Some(encoding.text(key.as_str().to_owned())),
        last_modified: Some(timestamp::in_xml(info.modified_ms)),
        owner: Some(owner::owner()),
        restore_status: None,
        size: i64::try_from(info.size).ok(),
        storage_class: Some(ObjectVersionStorageClass::from_static(ObjectVersionStorageClass::STANDARD)),
        version_id: Some(NULL.to_owned()),
    })
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn a_version_marker_belongs_to_a_key() {
        for (key, version) in [("", None), ("k", None), ("k", Some("null")), ("k", Some(&*"0f".repeat(16)))] {
            check_markers(key, version).unwrap();
        }
        for (key, version) in [("", "null"), ("k", ""), ("k", "Null"), ("k", "3sL4kqtJlcpXroDTDmJ")] {
            let refused = check_markers(key, Some(version)).unwrap_err();
            assert_eq!(refused.code, Code::InvalidArgument, "{key} {version}");
        }
    }
}
