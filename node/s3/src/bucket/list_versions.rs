//! ListObjectVersions: a page of objects, each with its one version, `null`, and common prefixes.
//!
//! Buckets have no versioning, so AWS would list each object as its current version with the id `null`. A
//! page goes on behind a key, or behind a version of it, which is the same while a key has one version.

use s3s::dto::{CommonPrefix, ListObjectVersionsOutput, ObjectVersion, ObjectVersionStorageClass};
use sherd_core::id::VersionId;

use crate::answer::{self, Response};
use crate::bucket::list_objects::{KeyEncoding, page_size};
use crate::error::Outcome;
use crate::protocol::code::Code;
use crate::protocol::refusal::Refusal;
use crate::request::Request;
use crate::{body, gateway::Gateway, header::checksum, header::timestamp, owner};
use sherd_store::object::{ListEntry, ListPage, ListRequest};

/// The id of every version.
const NULL: &str = "null";

pub(crate) async fn list(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let max_keys = request.parameter("max-keys")?;
    let encoding = KeyEncoding::of(request.text("encoding-type").as_deref())?;
    let max_keys = page_size(max_keys, "max-keys", 0)?;
    let prefix = request.text("prefix").unwrap_or_default();
    let key_marker = request.text("key-marker").unwrap_or_default();
    let version_marker = request.text("version-id-marker");
    check_markers(&key_marker, version_marker.as_deref())?;
    let delimiter = request.text("delimiter").filter(|delimiter| !delimiter.is_empty());
    let bucket = request.target.bucket();
    let page = gateway
        .objects
        .list(ListRequest {
            bucket: bucket.clone(),
            prefix: prefix.clone(),
            delimiter: delimiter.clone(),
            after: (!key_marker.is_empty()).then(|| key_marker.clone()),
            max_keys,
        })
        .await?;
    let Page { versions, common_prefixes, next, ends_in_version } = Page::of(page, max_keys, encoding);
    answer::document(&ListObjectVersionsOutput {
        name: Some(bucket.to_string()),
        prefix: Some(encoding.text(prefix)),
        key_marker: Some(encoding.text(key_marker)),
        version_id_marker: Some(version_marker.unwrap_or_default()),
        max_keys: i32::try_from(max_keys).ok(),
        is_truncated: Some(next.is_some()),
        next_version_id_marker: next.as_ref().filter(|_| ends_in_version).map(|_| NULL.to_owned()),
        next_key_marker: next.map(|next| encoding.text(next)),
        versions: Some(versions),
        common_prefixes: Some(common_prefixes),
        delimiter: delimiter.map(|delimiter| encoding.text(delimiter)),
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
        Some(version) if version == NULL || VersionId::parse(version).is_ok() => Ok(()),
        Some(_) => Err(Refusal::says(Code::InvalidArgument, "Invalid version id specified")),
    }
}

/// A page as it is shown.
struct Page {
    versions: Vec<ObjectVersion>,
    common_prefixes: Vec<CommonPrefix>,
    /// Where the next page begins; none on the last, and on a page that was to be empty.
    next: Option<String>,
    /// Whether the last entry is a version, not a prefix.
    ends_in_version: bool,
}

impl Page {
    fn of(page: ListPage, max_keys: u32, encoding: KeyEncoding) -> Self {
        let next = page.next.filter(|_| max_keys > 0);
        let ends_in_version = matches!(page.entries.last(), Some(ListEntry::Object { .. }));
        let mut versions = Vec::new();
        let mut common_prefixes = Vec::new();
        for entry in page.entries {
            match entry {
                ListEntry::Prefix(prefix) => {
                    common_prefixes.push(CommonPrefix { prefix: Some(encoding.text(prefix)) });
                }
                ListEntry::Object { key, info } => versions.push(ObjectVersion {
                    checksum_algorithm: checksum::algorithm_names(&info.checksums),
                    checksum_type: checksum::type_of(&info.checksums),
                    e_tag: Some(body::etag(&info.etag)),
                    is_latest: Some(true),
                    key: Some(encoding.text(key.as_str().to_owned())),
                    last_modified: Some(timestamp::in_xml(info.modified_ms)),
                    owner: Some(owner::owner()),
                    restore_status: None,
                    size: i64::try_from(info.size).ok(),
                    storage_class: Some(ObjectVersionStorageClass::from_static(
                        ObjectVersionStorageClass::STANDARD,
                    )),
                    version_id: Some(NULL.to_owned()),
                }),
            }
        }
        Self { versions, common_prefixes, next, ends_in_version }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn a_page_without_entries_says_where_the_next_one_begins() {
        let page = ListPage { entries: Vec::new(), next: Some("p/k4".to_owned()) };
        let page = Page::of(page, 10, KeyEncoding::of(None).unwrap());
        assert_eq!((page.next.as_deref(), page.ends_in_version), (Some("p/k4"), false));
        assert!(page.versions.is_empty() && page.common_prefixes.is_empty());
    }

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
