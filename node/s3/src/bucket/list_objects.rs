//! ListObjects, versions 1 and 2: a page of keys and common prefixes.
//!
//! Both ask the store the same; they differ in how a page is continued. Version 1 names the last
//! key or prefix openly, and only where the client cannot tell it from the page; version 2 hands out
//! an opaque token. A page that passed many deleted keys ends there: it may be short or empty, and go on.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use s3s::dto::{
    CommonPrefix, EncodingType, ListObjectsOutput, ListObjectsV2Output, Object, ObjectStorageClass,
};
use sherd_core::limits::LIST_KEYS_MAX;

use crate::answer::{self, Response};
use crate::bucket::token::{self, ListingKind};
use crate::error::Outcome;
use crate::protocol::code::Code;
use crate::protocol::refusal::Refusal;
use crate::request::Request;
use crate::{body, gateway::Gateway, header::checksum, header::timestamp, owner};
use sherd_store::object::{ListEntry, ListPage, ListRequest};

/// What `encoding-type=url` leaves as it is.
const URL_SAFE: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

pub(crate) async fn list(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let max_keys = request.parameter("max-keys")?;
    let encoding = KeyEncoding::of(request.text("encoding-type").as_deref())?;
    let max_keys = page_size(max_keys, "max-keys", 0)?;
    let prefix = request.text("prefix").unwrap_or_default();
    let marker = request.text("marker").unwrap_or_default();
    let delimiter = request.text("delimiter").filter(|delimiter| !delimiter.is_empty());
    let bucket = request.target.bucket();
    let page = gateway
        .objects
        .list(ListRequest {
            bucket: bucket.clone(),
            prefix: prefix.clone(),
            delimiter: delimiter.clone(),
            after: (!marker.is_empty()).then(|| marker.clone()),
            max_keys,
        })
        .await?;
    // A client goes on behind the last key, unless a delimiter hides what is last, or the page ended behind
    // it.
    let is_behind_last = !page.entries.last().is_some_and(|last| match last {
        ListEntry::Object { key, .. } => page.next.as_deref() == Some(key.as_str()),
        ListEntry::Prefix(_) => false,
    });
    let Page { contents, common_prefixes, next, key_count: _ } = Page::of(page, max_keys, encoding, true);
    answer::document(&ListObjectsOutput {
        name: Some(bucket.to_string()),
        prefix: Some(encoding.text(prefix)),
        marker: Some(encoding.text(marker)),
        max_keys: i32::try_from(max_keys).ok(),
        is_truncated: Some(next.is_some()),
        next_marker: next.filter(|_| delimiter.is_some() || is_behind_last).map(|next| encoding.text(next)),
        contents: Some(contents),
        common_prefixes: Some(common_prefixes),
        delimiter: delimiter.map(|delimiter| encoding.text(delimiter)),
        encoding_type: encoding.name(),
        ..ListObjectsOutput::default()
    })
}

pub(crate) async fn list_v2(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let with_owner = request.parameter("fetch-owner")?.unwrap_or_default();
    let max_keys = request.parameter("max-keys")?;
    let encoding = KeyEncoding::of(request.text("encoding-type").as_deref())?;
    let max_keys = page_size(max_keys, "max-keys", 0)?;
    let prefix = request.text("prefix").unwrap_or_default();
    let delimiter = request.text("delimiter").filter(|delimiter| !delimiter.is_empty());
    let start_after = request.text("start-after").filter(|start| !start.is_empty());
    let continuation_token = request.text("continuation-token");
    let after = match &continuation_token {
        Some(token) => Some(token::decode(ListingKind::Objects, token)?),
        None => start_after.clone(),
    };
    let bucket = request.target.bucket();
    let page = gateway
        .objects
        .list(ListRequest {
            bucket: bucket.clone(),
            prefix: prefix.clone(),
            delimiter: delimiter.clone(),
            after,
            max_keys,
        })
        .await?;
    let Page { contents, common_prefixes, next, key_count } = Page::of(page, max_keys, encoding, with_owner);
    answer::document(&ListObjectsV2Output {
        name: Some(bucket.to_string()),
        prefix: Some(encoding.text(prefix)),
        max_keys: i32::try_from(max_keys).ok(),
        key_count: Some(key_count),
        continuation_token,
        is_truncated: Some(next.is_some()),
        next_continuation_token: next.map(|next| token::encode(ListingKind::Objects, &next)),
        contents: Some(contents),
        common_prefixes: Some(common_prefixes),
        delimiter: delimiter.map(|delimiter| encoding.text(delimiter)),
        encoding_type: encoding.name(),
        start_after: start_after.map(|start| encoding.text(start)),
        ..ListObjectsV2Output::default()
    })
}

/// How many entries a page may have: what is asked for, a thousand at most.
///
/// # Errors
/// InvalidArgument below `min`.
pub(crate) fn page_size(asked: Option<i32>, name: &'static str, min: u32) -> Result<u32, Refusal> {
    let Some(asked) = asked else { return Ok(LIST_KEYS_MAX) };
    match u32::try_from(asked) {
        Ok(asked) if asked >= min => Ok(asked.min(LIST_KEYS_MAX)),
        _ => Err(Refusal::says(
            Code::InvalidArgument,
            format!("Argument {name} must be an integer between {min} and 2147483647"),
        )),
    }
}

/// Whether names in an answer are percent-encoded: `encoding-type=url`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyEncoding {
    url: bool,
}

impl KeyEncoding {
    /// Reads the parameter.
    ///
    /// # Errors
    /// InvalidArgument for any other than `url`.
    pub(crate) fn of(asked: Option<&str>) -> Result<Self, Refusal> {
        match asked {
            None => Ok(Self { url: false }),
            Some(EncodingType::URL) => Ok(Self { url: true }),
            Some(_) => {
                Err(Refusal::says(Code::InvalidArgument, "Invalid Encoding Method specified in Request"))
            }
        }
    }

    /// A name as the answer writes it.
    pub(crate) fn text(self, text: String) -> String {
        if self.url { utf8_percent_encode(&text, URL_SAFE).to_string() } else { text }
    }

    /// The parameter, as the answer repeats it.
    pub(crate) fn name(self) -> Option<EncodingType> {
        self.url.then(|| EncodingType::from_static(EncodingType::URL))
    }
}

/// A page as both versions show it.
struct Page {
    contents: Vec<Object>,
    common_prefixes: Vec<CommonPrefix>,
    /// Keys and prefixes together.
    key_count: i32,
    /// Where the next page begins; none on the last, and on a page that was to be empty.
    next: Option<String>,
}

impl Page {
    fn of(page: ListPage, max_keys: u32, encoding: KeyEncoding, with_owner: bool) -> Self {
        let key_count = i32::try_from(page.entries.len()).expect("a page has 1000 entries at most");
        let next = page.next.filter(|_| max_keys > 0);
        let mut contents = Vec::new();
        let mut common_prefixes = Vec::new();
        for entry in page.entries {
            match entry {
                ListEntry::Prefix(prefix) => {
                    common_prefixes.push(CommonPrefix { prefix: Some(encoding.text(prefix)) });
                }
                ListEntry::Object { key, info } => contents.push(Object {
                    checksum_algorithm: checksum::algorithm_names(&info.checksums),
                    checksum_type: checksum::type_of(&info.checksums),
                    e_tag: Some(body::etag(&info.etag)),
                    key: Some(encoding.text(key.as_str().to_owned())),
                    last_modified: Some(timestamp::in_xml(info.modified_ms)),
                    owner: with_owner.then(owner::owner),
                    restore_status: None,
                    size: i64::try_from(info.size).ok(),
                    storage_class: Some(ObjectStorageClass::from_static(ObjectStorageClass::STANDARD)),
                }),
            }
        }
        Self { contents, common_prefixes, key_count, next }
    }
}

#[cfg(test)]
mod tests {
    use sherd_core::id::ObjectKey;
    use sherd_core::record::{Attributes, Checksums};

    use super::*;
    use sherd_store::object::ObjectInfo;

    const PLAIN: KeyEncoding = KeyEncoding { url: false };
    const URL: KeyEncoding = KeyEncoding { url: true };

    fn page(next: Option<&str>) -> ListPage {
        let info = ObjectInfo {
            size: 7,
            etag: "0123".to_owned(),
            modified_ms: 1,
            attributes: Attributes::default(),
            checksums: Checksums::new(),
            checksum_kind: None,
            parts: None,
        };
        let key = ObjectKey::new("a b/ä+\n").unwrap();
        ListPage {
            entries: vec![ListEntry::Object { key, info }, ListEntry::Prefix("p q/".to_owned())],
            next: next.map(str::to_owned),
        }
    }

    #[test]
    fn pages_have_a_thousand_entries_at_most() {
        assert_eq!(page_size(None, "max-keys", 0).unwrap(), 1000);
        assert_eq!(page_size(Some(0), "max-keys", 0).unwrap(), 0);
        assert_eq!(page_size(Some(7), "max-keys", 0).unwrap(), 7);
        assert_eq!(page_size(Some(i32::MAX), "max-keys", 0).unwrap(), 1000);
        assert_eq!(page_size(Some(-1), "max-keys", 0).unwrap_err().code, Code::InvalidArgument);
        assert_eq!(page_size(Some(0), "max-uploads", 1).unwrap_err().code, Code::InvalidArgument);
    }

    #[test]
    fn names_are_encoded_when_asked() {
        let plain = Page::of(page(None), 1000, PLAIN, false);
        assert_eq!(plain.contents[0].key.as_deref(), Some("a b/ä+\n"));
        let encoded = Page::of(page(None), 1000, URL, false);
        assert_eq!(encoded.contents[0].key.as_deref(), Some("a%20b/%C3%A4%2B%0A"));
        assert_eq!(encoded.common_prefixes[0].prefix.as_deref(), Some("p%20q/"));
        assert_eq!(encoded.key_count, 2);
        assert_eq!(KeyEncoding::of(None).unwrap(), PLAIN);
        assert_eq!(KeyEncoding::of(Some("url")).unwrap(), URL);
        assert!(KeyEncoding::of(Some("utf7")).is_err());
    }

    #[test]
    fn owners_are_said_when_asked() {
        assert!(Page::of(page(None), 1000, PLAIN, false).contents[0].owner.is_none());
        assert!(Page::of(page(None), 1000, PLAIN, true).contents[0].owner.is_some());
    }

    #[test]
    fn a_page_of_nothing_has_no_next() {
        assert_eq!(Page::of(page(Some("z")), 0, PLAIN, false).next, None);
        assert_eq!(Page::of(page(Some("z")), 1, PLAIN, false).next.as_deref(), Some("z"));
    }
}
