//! ListMultipartUploads: open uploads, by key and then by the time they were begun.

use s3s::dto::{ChecksumAlgorithm, ChecksumType, ListMultipartUploadsOutput, MultipartUpload, StorageClass};
use sherd_core::id::UploadId;

use crate::answer::{self, Outcome, Response};
use crate::bucket::listing::{KeyEncoding, ListingQuery, Page, PageEntry};
use crate::gateway::Gateway;
use crate::head::{checksum, owner, timestamp};
use crate::request::Request;
use crate::wire::refusal::Refusal;
use sherd_store::object::{ListUploads, UploadEntry, UploadPage};

/// Where a page begins: behind a key, or behind one upload of it.
type Marker = (String, Option<UploadId>);

pub(crate) async fn list(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let listing = ListingQuery::of(&request, "max-uploads", 1)?;
    let key_marker = request.head.text("key-marker").filter(|marker| !marker.is_empty());
    // Without the marker of its key, that of an upload is as if it were not there.
    let upload_id_marker = request.head.text("upload-id-marker").filter(|_| key_marker.is_some());
    let bucket = request.target.bucket();
    let asked = ListUploads {
        bucket: bucket.clone(),
        prefix: listing.prefix.clone(),
        delimiter: listing.delimiter.clone(),
        after: marker(key_marker.as_deref(), upload_id_marker.as_deref())?,
        max_uploads: listing.max,
    };
    let UploadPage { entries, next } = gateway.objects.list_uploads(asked).await?;
    let (max, encoding) = (listing.max, listing.encoding);
    let page = Page::of(entries, encoding, |entry| described(entry, encoding));
    let (prefix, delimiter) = listing.repeated();
    let is_truncated = next.is_some();
    let (next_key, next_upload) = next.unzip();
    answer::document(&ListMultipartUploadsOutput {
        bucket: Some(bucket.to_string()),
        prefix: Some(prefix),
        delimiter,
        encoding_type: encoding.name(),
        key_marker: Some(encoding.text(key_marker.unwrap_or_default())),
        upload_id_marker: Some(upload_id_marker.unwrap_or_default()),
        next_key_marker: next_key.map(|key| encoding.text(key)),
        next_upload_id_marker: next_upload.flatten().map(|upload| upload.to_string()),
        max_uploads: i32::try_from(max).ok(),
        is_truncated: Some(is_truncated),
        uploads: Some(page.named),
        common_prefixes: Some(page.common_prefixes),
        ..ListMultipartUploadsOutput::default()
    })
}

/// Reads both markers.
///
/// # Errors
/// InvalidArgument for an upload's that cannot be an id.
fn marker(key: Option<&str>, upload: Option<&str>) -> Result<Option<Marker>, Refusal> {
    let Some(key) = key else { return Ok(None) };
    let upload = upload.filter(|upload| !upload.is_empty()).map(|id| {
        let invalid = |_| Refusal::bad_argument("Invalid uploadId marker", "upload-id-marker", id);
        UploadId::parse(id).map_err(invalid)
    });
    Ok(Some((key.to_owned(), upload.transpose()?)))
}

fn described(entry: UploadEntry, encoding: KeyEncoding) -> PageEntry<MultipartUpload> {
    let (key, id, initiated_ms, checksum) = match entry {
        UploadEntry::Prefix(prefix) => return PageEntry::Prefix(prefix),
        UploadEntry::Upload { key, id, initiated_ms, checksum } => (key, id, initiated_ms, checksum),
    };
    PageEntry::Named(MultipartUpload {
        checksum_algorithm: checksum
            .map(|(algorithm, _)| ChecksumAlgorithm::from_static(checksum::name(algorithm))),
        checksum_type: checksum.map(|(_, kind)| ChecksumType::from_static(checksum::kind_text(kind))),
        initiated: Some(timestamp::in_xml(initiated_ms)),
        initiator: Some(owner::initiator()),
        key: Some(encoding.text(key.as_str().to_owned())),
        owner: Some(owner::owner()),
        storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
        upload_id: Some(id.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::refusal::Code;

    #[test]
    fn an_upload_marker_needs_its_key() {
        let id = "00112233445566778899aabbccddeeff";
        assert_eq!(marker(None, Some(id)).unwrap(), None);
        assert_eq!(marker(Some("k"), None).unwrap(), Some(("k".to_owned(), None)));
        assert_eq!(marker(Some("k"), Some("")).unwrap(), Some(("k".to_owned(), None)));
        let upload = UploadId::parse(id).ok();
        assert_eq!(marker(Some("k"), Some(id)).unwrap(), Some(("k".to_owned(), upload)));
        let refused = marker(Some("k"), Some("x")).unwrap_err();
        assert_eq!((refused.code, &*refused.message), (Code::InvalidArgument, "Invalid uploadId marker"));
        let named = [("ArgumentName", "upload-id-marker".to_owned()), ("ArgumentValue", "x".to_owned())];
        assert_eq!(refused.details, named);
    }
}
