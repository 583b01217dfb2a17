//! CompleteMultipartUpload and AbortMultipartUpload.
//!
//! The answer comes when the completion is done, so its status is its result.

use std::io::Write;
use std::mem;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};
use s3s::dto::CompleteMultipartUploadOutput;
use s3s::xml::{SerResult, Serialize, SerializeContent, Serializer};
use sherd_core::id::UploadId;
use sherd_core::record::Checksum;

use super::part_list::{listed_parts, malformed};
use crate::answer::{self, NAMESPACE, Outcome, Response, body, location};
use crate::gateway::Gateway;
use crate::head::request_head::RequestHead;
use crate::head::{checksum, checksum_elements, conditions, document, names};
use crate::request::Request;
use crate::wire::refusal::{Code, Refusal};
use sherd_store::object::CompleteUpload;

/// All but the characters that stand as they are in the path of a URL.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

pub(crate) async fn complete(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let Request { target, head, source, call, mut payload, .. } = request;
    let size = head.number("x-amz-mp-object-size")?;
    let declared = mem::take(&mut payload.checksum);
    let parts = listed_parts(document::of(&payload.into_document().ok_or_else(malformed)?)?)?;
    let name = target.object();
    let complete = CompleteUpload {
        name: name.clone(),
        upload: upload_id(&head)?,
        parts,
        checksum: checksum::announced_whole(declared)?,
        checksum_kind: checksum::kind_header(&head)?,
        size: size.map(object_size).transpose()?,
        conditions: conditions::of_write(&head)?.in_call(call),
    };
    let (bucket, key) = (name.bucket.name().as_str(), name.key.as_str());
    let location = location::of_object(source, head.host()?, bucket, key, PATH);
    let written = gateway.objects.complete_upload(complete).await?;
    let behind = CompleteMultipartUploadOutput {
        key: Some(name.key.to_string()),
        location: Some(location),
        e_tag: Some(body::etag(&written.etag)),
        checksum_type: checksum::type_of(&written.checksums),
        ..CompleteMultipartUploadOutput::default()
    };
    let bucket = name.bucket.to_string();
    answer::document(&CompletionResult { bucket, checksums: &written.checksums, behind })
}

/// The document.
struct CompletionResult<'a> {
    bucket: String,
    checksums: &'a [Checksum],
    /// All elements that stand behind the checksums.
    behind: CompleteMultipartUploadOutput,
}

impl Serialize for CompletionResult<'_> {
    fn serialize<W: Write>(&self, serializer: &mut Serializer<W>) -> SerResult {
        serializer.element_with_ns("CompleteMultipartUploadResult", NAMESPACE, |serializer| {
            serializer.content("Bucket", &self.bucket)?;
            checksum_elements::write(self.checksums, serializer)?;
            self.behind.serialize_content(serializer)
        })
    }
}

pub(crate) async fn abort(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let upload = upload_id(&request.head)?;
    gateway.objects.abort_upload(request.target.object(), upload).await?;
    Ok(answer::no_content())
}

/// The upload that a request names.
fn upload_id(head: &RequestHead<'_>) -> Result<UploadId, Refusal> {
    names::upload(&head.text("uploadId").unwrap_or_default())
}

fn object_size(size: i64) -> Result<u64, Refusal> {
    u64::try_from(size)
        .map_err(|_| Refusal::says(Code::InvalidRequest, "Value for x-amz-mp-object-size header is invalid."))
}

#[cfg(test)]
mod tests {
    use s3s::dto::ChecksumType;
    use sherd_core::record::{ChecksumAlgorithm, ChecksumBytes};

    use super::*;

    #[test]
    fn a_result_has_its_elements_in_one_order() {
        let behind = || CompleteMultipartUploadOutput {
            key: Some("k".to_owned()),
            location: Some("http://s3.test/b/k".to_owned()),
            e_tag: Some(body::etag("0123-1")),
            checksum_type: Some(ChecksumType::from_static(ChecksumType::COMPOSITE)),
            ..CompleteMultipartUploadOutput::default()
        };
        let whole = CompleteMultipartUploadOutput {
            bucket: Some("b".to_owned()),
            checksum_crc32: Some("AAAAAA==-1".to_owned()),
            ..behind()
        };
        let value = ChecksumBytes::from_slice(&[0; 4]);
        let checksums = [Checksum { algorithm: ChecksumAlgorithm::Crc32, composite_of: Some(1), value }];
        let result = CompletionResult { bucket: "b".to_owned(), checksums: &checksums, behind: behind() };
        assert_eq!(answer::text(&result), answer::text(&whole));
    }

    #[test]
    fn a_size_is_not_negative() {
        assert_eq!(object_size(7).unwrap(), 7);
        assert_eq!(object_size(-1).unwrap_err().code, Code::InvalidRequest);
    }
}
