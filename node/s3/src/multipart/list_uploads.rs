//! ListMultipartUploads: open uploads, by key and then by the time they were begun.

use s3s::dto::{
    ChecksumAlgorithm, ChecksumType, CommonPrefix, ListMultipartUploadsOutput, MultipartUpload, StorageClass,
};
use sherd_core::id::UploadId;

use crate::answer::{self, Response};
use crate::bucket::list_objects::{KeyEncoding, page_size};
use crate::error::Outcome;
use crate::protocol::code::Code;
use crate::protocol::refusal::Refusal;
use crate::request::Request;
use crate::{gateway::Gateway, header::checksum, header::timestamp, owner};
use sherd_store::object::{ListUploads, UploadEntry};

/// Where a page begins: behind a key, or behind one upload of it.
type Marker = (String, Option<UploadId>);

pub(crate) async fn list(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let max_uploads = request.parameter("max-uploads")?;
    let encoding = KeyEncoding::of(request.text("encoding-type").as_deref())?;
    let max_uploads = page_size(max_uploads, "max-uploads", 1)?;
    let prefix = request.text("prefix").unwrap_or_default();
    let delimiter = request.text("delimiter").filter(|delimiter| !delimiter.is_empty());
    let key_marker = request.text("key-marker");
    let upload_id_marker = request.text("upload-id-marker");
    let bucket = request.target.bucket();
    let page = gateway
        .objects
        .list_uploads(ListUploads {
            bucket: bucket.clone(),
            prefix: prefix.clone(),
            delimiter: delimiter.clone(),
            after: marker(key_marker.as_deref(), upload_id_marker.as_deref())?,
            max_uploads,
        })
        .await?;
    let (mut uploads, mut common_prefixes) = (Vec::new(), Vec::new());
    for entry in page.entries {
        match described(entry, encoding) {
            UploadDescription::Upload(upload) => uploads.push(*upload),
            UploadDescription::Prefix(prefix) => common_prefixes.push(prefix),
        }
    }
    let is_truncated = page.next.is_some();
    let (next_key, next_upload) = page.next.unzip();
    answer::document(&ListMultipartUploadsOutput {
        bucket: Some(bucket.to_string()),
        prefix: Some(encoding.text(prefix)),
        delimiter: delimiter.map(|delimiter| encoding.text(delimiter)),
        encoding_type: encoding.name(),
        key_marker: Some(encoding.text(key_marker.unwrap_or_default())),
        upload_id_marker: Some(upload_id_marker.unwrap_or_default()),
        next_key_marker: next_key.map(|key| encoding.text(key)),
        next_upload_id_marker: next_upload.flatten().map(|upload| upload.to_string()),
        max_uploads: i32::try_from(max_uploads).ok(),
        is_truncated: Some(is_truncated),
        uploads: Some(uploads),
        common_prefixes: Some(common_prefixes),
        ..ListMultipartUploadsOutput::default()
    })
}

/// Reads both markers. That of an upload means nothing without that of its key.
fn marker(key: Option<&str>, upload: Option<&str>) -> Result<Option<Marker>, Refusal> {
    let Some(key) = key.filter(|key| !key.is_empty()) else { return Ok(None) };
    let upload = upload.filter(|upload| !upload.is_empty()).map(UploadId::parse).transpose();
    let upload = upload.map_err(|_| Refusal::says(Code::InvalidArgument, "Invalid uploadId marker"))?;
    Ok(Some((key.to_owned(), upload)))
}

enum UploadDescription {
    Upload(Box<MultipartUpload>),
    Prefix(CommonPrefix),
}

fn described(entry: UploadEntry, encoding: KeyEncoding) -> UploadDescription {
    match entry {
        UploadEntry::Prefix(prefix) => {
            UploadDescription::Prefix(CommonPrefix { prefix: Some(encoding.text(prefix)) })
        }
        UploadEntry::Upload { key, id, initiated_ms, checksum } => {
            UploadDescription::Upload(Box::new(MultipartUpload {
                checksum_algorithm: checksum
                    .map(|(algorithm, _)| ChecksumAlgorithm::from_static(checksum::name(algorithm))),
                checksum_type: checksum.map(|(_, kind)| ChecksumType::from_static(checksum::kind_text(kind))),
                initiated: Some(timestamp::in_xml(initiated_ms)),
                initiator: Some(owner::initiator()),
                key: Some(encoding.text(key.as_str().to_owned())),
                owner: Some(owner::owner()),
                storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
                upload_id: Some(id.to_string()),
            }))
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn an_upload_marker_needs_its_key() {
        let id = "00112233445566778899aabbccddeeff";
        assert_eq!(marker(None, Some(id)).unwrap(), None);
        assert_eq!(marker(Some(""), Some(id)).unwrap(), None);
        assert_eq!(marker(Some("k"), None).unwrap(), Some(("k".to_owned(), None)));
        assert_eq!(marker(Some("k"), Some("")).unwrap(), Some(("k".to_owned(), None)));
        let upload = UploadId::parse(id).ok();
        assert_eq!(marker(Some("k"), Some(id)).unwrap(), Some(("k".to_owned(), upload)));
        assert_eq!(marker(Some("k"), Some("x")).unwrap_err().code, Code::InvalidArgument);
    }
}
