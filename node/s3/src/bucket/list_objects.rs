//! ListObjects, versions 1 and 2: a page of keys and common prefixes.
//!
//! Both ask the store the same; they differ in how a page is continued. Version 1 names the last
//! key or prefix openly, and only where the client cannot tell it from the page; version 2 hands out
//! an opaque token.

use s3s::dto::{ListObjectsOutput, ListObjectsV2Output, Object, ObjectStorageClass};

use crate::answer::{self, Outcome, Response, body};
use crate::bucket::listing::{KeyEncoding, ListingQuery, Page, PageEntry};
use crate::bucket::token::{self, ListingKind};
use crate::gateway::Gateway;
use crate::head::{checksum, owner, timestamp};
use crate::request::Request;
use sherd_store::object::ListEntry;

pub(crate) async fn list(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let listing = ListingQuery::of(&request, "max-keys", 0)?;
    let marker = request.head.text("marker").unwrap_or_default();
    let bucket = request.target.bucket();
    let found = listing.keys(gateway, &bucket, (!marker.is_empty()).then(|| marker.clone())).await?;
    // A client goes on behind the last key, unless a delimiter hides what is last, or the page ended behind
    // it.
    let is_behind_last = !found.entries.last().is_some_and(|last| match last {
        ListEntry::Object { key, .. } => found.next.as_deref() == Some(key.as_str()),
        ListEntry::Prefix(_) => false,
    });
    let (max, encoding) = (listing.max, listing.encoding);
    let next = found.next;
    let page = Page::of(found.entries, encoding, |entry| described(entry, encoding, true));
    let (prefix, delimiter) = listing.repeated();
    answer::document(&ListObjectsOutput {
        name: Some(bucket.to_string()),
        prefix: Some(prefix),
        marker: Some(encoding.text(marker)),
        max_keys: i32::try_from(max).ok(),
        is_truncated: Some(next.is_some()),
        next_marker: next.filter(|_| delimiter.is_some() || is_behind_last).map(|next| encoding.text(next)),
        contents: Some(page.named),
        common_prefixes: Some(page.common_prefixes),
        delimiter,
        encoding_type: encoding.name(),
        ..ListObjectsOutput::default()
    })
}

pub(crate) async fn list_v2(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let with_owner = request.head.parameter("fetch-owner")?.unwrap_or_default();
    let listing = ListingQuery::of(&request, "max-keys", 0)?;
    let start_after = request.head.text("start-after").filter(|start| !start.is_empty());
    let continuation_token = request.head.text("continuation-token");
    let after = match &continuation_token {
        Some(token) => Some(token::decode(ListingKind::Objects, token)?),
        None => start_after.clone(),
    };
    let bucket = request.target.bucket();
    let found = listing.keys(gateway, &bucket, after).await?;
    let (max, encoding) = (listing.max, listing.encoding);
    let next = found.next;
    let page = Page::of(found.entries, encoding, |entry| described(entry, encoding, with_owner));
    let (prefix, delimiter) = listing.repeated();
    answer::document(&ListObjectsV2Output {
        name: Some(bucket.to_string()),
        prefix: Some(prefix),
        max_keys: i32::try_from(max).ok(),
        key_count: Some(page.count()),
        continuation_token,
        is_truncated: Some(next.is_some()),
        next_continuation_token: next.map(|next| token::encode(ListingKind::Objects, &next)),
        contents: Some(page.named),
        common_prefixes: Some(page.common_prefixes),
        delimiter,
        encoding_type: encoding.name(),
        start_after: start_after.map(|start| encoding.text(start)),
        ..ListObjectsV2Output::default()
    })
}

fn described(entry: ListEntry, encoding: KeyEncoding, with_owner: bool) -> PageEntry<Object> {
    let (key, info) = match entry {
        ListEntry::Prefix(prefix) => return PageEntry::Prefix(prefix),
        ListEntry::Object { key, info } => (key, info),
    };
    PageEntry::Named(Object {
        checksum_algorithm: checksum::algorithm_names(&info.checksums),
        checksum_type: checksum::type_of(&info.checksums),
        e_tag: Some(body::etag(&info.etag)),
        key: Some(encoding.text(key.as_str().to_owned())),
        last_modified: Some(timestamp::in_xml(info.modified_ms)),
        owner: with_owner.then(owner::owner),
        restore_status: None,
        size: i64::try_from(info.size).ok(),
        storage_class: Some(ObjectStorageClass::from_static(ObjectStorageClass::STANDARD)),
    })
}

#[cfg(test)]
mod tests {
    use sherd_core::id::ObjectKey;
    use sherd_core::record::{Attributes, Checksums, ObjectTags};

    use super::*;
    use sherd_store::object::ObjectInfo;

    #[test]
    fn owners_are_said_when_asked() {
        let info = ObjectInfo {
            size: 7,
            etag: "0123".to_owned(),
            modified_ms: 1,
            attributes: Attributes::default(),
            checksums: Checksums::new(),
            checksum_kind: None,
            parts: None,
            tags: ObjectTags::default(),
        };
        let entry = || ListEntry::Object { key: ObjectKey::new("a").unwrap(), info: info.clone() };
        let has_owner = |with_owner| match described(entry(), KeyEncoding::of(None).unwrap(), with_owner) {
            PageEntry::Named(object) => object.owner.is_some(),
            PageEntry::Prefix(prefix) => panic!("a key, not the prefix {prefix}"),
        };
        assert!(has_owner(true) && !has_owner(false));
    }
}
