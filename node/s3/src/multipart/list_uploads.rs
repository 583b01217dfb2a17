//! ListMultipartUploads: open uploads, by key and then by the time they were begun.

use s3s::dto::{
    ChecksumAlgorithm, ChecksumType, CommonPrefix, ListMultipartUploadsInput, ListMultipartUploadsOutput,
    MultipartUpload, StorageClass,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};
use sherd_core::id::UploadId;

use crate::bucket::list_objects::{KeyEncoding, page_size};
use crate::error::Outcome;
use crate::{gateway::Gateway, header::checksum, header::timestamp, names, owner};
use sherd_store::object::{ListUploads, UploadEntry};

/// Where a page begins: behind a key, or behind one upload of it.
type Marker = (String, Option<UploadId>);

pub(crate) async fn list(
    gateway: &Gateway,
    request: S3Request<ListMultipartUploadsInput>,
) -> Outcome<S3Response<ListMultipartUploadsOutput>> {
    let input = request.input;
    let encoding = KeyEncoding::of(input.encoding_type.as_ref())?;
    let max_uploads = page_size(input.max_uploads, "max-uploads", 1)?;
    let prefix = input.prefix.unwrap_or_default();
    let delimiter = input.delimiter.filter(|delimiter| !delimiter.is_empty());
    let page = gateway
        .objects
        .list_uploads(ListUploads {
            bucket: names::bucket(&input.bucket)?,
            prefix: prefix.clone(),
            delimiter: delimiter.clone(),
            after: marker(input.key_marker.as_deref(), input.upload_id_marker.as_deref())?,
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
    Ok(S3Response::new(ListMultipartUploadsOutput {
        bucket: Some(input.bucket),
        prefix: Some(encoding.text(prefix)),
        delimiter: delimiter.map(|delimiter| encoding.text(delimiter)),
        encoding_type: encoding.name(),
        key_marker: Some(encoding.text(input.key_marker.unwrap_or_default())),
        upload_id_marker: Some(input.upload_id_marker.unwrap_or_default()),
        next_key_marker: next_key.map(|key| encoding.text(key)),
        next_upload_id_marker: next_upload.flatten().map(|upload| upload.to_string()),
        max_uploads: i32::try_from(max_uploads).ok(),
        is_truncated: Some(is_truncated),
        uploads: Some(uploads),
        common_prefixes: Some(common_prefixes),
        ..ListMultipartUploadsOutput::default()
    }))
}

/// Reads both markers. That of an upload means nothing without that of its key.
fn marker(key: Option<&str>, upload: Option<&str>) -> S3Result<Option<Marker>> {
    let Some(key) = key.filter(|key| !key.is_empty()) else { return Ok(None) };
    let upload = upload.filter(|upload| !upload.is_empty()).map(UploadId::parse).transpose();
    let upload = upload.map_err(|_| s3_error!(InvalidArgument, "Invalid uploadId marker"))?;
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
    use s3s::S3ErrorCode;

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
        assert_eq!(marker(Some("k"), Some("x")).unwrap_err().code(), &S3ErrorCode::InvalidArgument);
    }
}
