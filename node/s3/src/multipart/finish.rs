//! CompleteMultipartUpload and AbortMultipartUpload.
//!
//! Order, sizes and tags of the listed parts are the store's to judge; here a list only has to be
//! one. The answer comes when the completion is done, so its status is its result.

use std::mem;

use http::header::{HOST, HeaderMap, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use s3s::dto::{CompleteMultipartUploadOutput, CompletedMultipartUpload, CompletedPart};
use sherd_core::limits::PARTS_MAX;

use crate::answer::{self, Response};
use crate::error::Outcome;
use crate::protocol::code::Code;
use crate::protocol::refusal::Refusal;
use crate::request::Request;
use crate::{
    body, gateway::Gateway, header::checksum, header::conditions, header::document, header::typed, names,
};
use sherd_store::object::{CompleteUpload, ListedPart};

/// What a URL's path leaves as it is.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

pub(crate) async fn complete(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let size = typed::number(&request.headers, "x-amz-mp-object-size")?;
    let upload = request.text("uploadId").unwrap_or_default();
    let Request { target, headers, call, mut payload, .. } = request;
    let declared = mem::take(&mut payload.checksum);
    let listed: CompletedMultipartUpload = document::of(&payload.into_document().ok_or_else(malformed)?)?;
    let parts = listed_parts(listed)?;
    let name = target.object();
    let complete = CompleteUpload {
        name: name.clone(),
        upload: names::upload(&upload)?,
        parts,
        checksum: checksum::announced_whole(declared)?,
        checksum_kind: checksum::kind_header(&headers)?,
        size: size.map(object_size).transpose()?,
        conditions: conditions::of_write(&headers)?.in_call(call),
    };
    let location =
        location(scheme(gateway, &headers), &headers, name.bucket.name().as_str(), name.key.as_str());
    let written = gateway.objects.complete_upload(complete).await?;
    let mut output = CompleteMultipartUploadOutput {
        bucket: Some(name.bucket.to_string()),
        key: Some(name.key.to_string()),
        location: Some(location),
        e_tag: Some(body::etag(&written.etag)),
        checksum_type: checksum::type_of(&written.checksums),
        ..CompleteMultipartUploadOutput::default()
    };
    checksum::fill_checksums!(output, &written.checksums);
    answer::document(&output)
}

pub(crate) async fn abort(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let upload = names::upload(&request.text("uploadId").unwrap_or_default())?;
    gateway.objects.abort_upload(request.target.object(), upload).await?;
    Ok(answer::no_content())
}

fn malformed() -> Refusal {
    Refusal::says(
        Code::MalformedXML,
        "The XML you provided was not well-formed or did not validate against our published schema",
    )
}

pub(crate) fn listed_parts(listed: CompletedMultipartUpload) -> Result<Vec<ListedPart>, Refusal> {
    let parts = listed.parts.unwrap_or_default();
    if parts.is_empty() || parts.len() > usize::from(PARTS_MAX) {
        return Err(malformed());
    }
    parts.into_iter().map(listed_part).collect()
}

fn listed_part(part: CompletedPart) -> Result<ListedPart, Refusal> {
    let CompletedPart {
        checksum_crc32,
        checksum_crc32c,
        checksum_crc64nvme,
        checksum_sha1,
        checksum_sha256,
        e_tag,
        part_number,
    } = part;
    let checksums = [checksum_crc32, checksum_crc32c, checksum_crc64nvme, checksum_sha1, checksum_sha256];
    Ok(ListedPart {
        number: names::part_number(part_number.ok_or_else(malformed)?)?,
        etag: e_tag.ok_or_else(malformed)?.into_value(),
        checksum: checksum::of_listed_part(checksums)?,
    })
}

fn object_size(size: i64) -> Result<u64, Refusal> {
    u64::try_from(size)
        .map_err(|_| Refusal::says(Code::InvalidRequest, "Value for x-amz-mp-object-size header is invalid."))
}

/// How the client reached us: a proxy that ends its TLS says so, and changes no more than this answer by it.
fn scheme(gateway: &Gateway, headers: &HeaderMap) -> &'static str {
    let forwarded = headers.get("x-forwarded-proto").map(HeaderValue::as_bytes);
    if gateway.is_tls || forwarded == Some(b"https") { "https" } else { "http" }
}

/// Where the object is, by the name under which the client reached us.
fn location(scheme: &str, headers: &HeaderMap, bucket: &str, key: &str) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let origin = host.map(|host| format!("{scheme}://{host}")).unwrap_or_default();
    // A client that named the bucket by host finds it there, without a path.
    let by_host = host.and_then(|host| host.strip_prefix(bucket)).is_some_and(|rest| rest.starts_with('.'));
    let key = utf8_percent_encode(key, PATH);
    if by_host { format!("{origin}/{key}") } else { format!("{origin}/{bucket}/{key}") }
}

#[cfg(test)]
mod tests {
    use s3s::dto::ETag;

    use super::*;

    fn part(number: i32) -> CompletedPart {
        let e_tag = Some(ETag::Strong("0123".to_owned()));
        CompletedPart { e_tag, part_number: Some(number), ..CompletedPart::default() }
    }

    fn list(parts: Vec<CompletedPart>) -> CompletedMultipartUpload {
        CompletedMultipartUpload { parts: Some(parts) }
    }

    #[test]
    fn a_list_of_parts_has_numbers_and_tags() {
        let parts = listed_parts(list(vec![part(2), part(1)])).unwrap();
        assert_eq!(
            parts.iter().map(|part| part.number).collect::<Vec<_>>(),
            [2, 1],
            "the store judges the order"
        );
        assert_eq!(parts.first().map(|part| part.etag.as_str()), Some("0123"));
    }

    #[test]
    fn a_list_that_is_none_is_malformed() {
        let code = |listed| listed_parts(listed).unwrap_err().code;
        assert_eq!(code(list(Vec::new())), Code::MalformedXML);
        assert_eq!(code(list(vec![CompletedPart { e_tag: None, ..part(1) }])), Code::MalformedXML);
        assert_eq!(code(list(vec![CompletedPart { part_number: None, ..part(1) }])), Code::MalformedXML);
        assert_eq!(code(list(vec![part(0)])), Code::InvalidArgument);
        assert_eq!(code(list((1..=10_001).map(part).collect())), Code::MalformedXML);
    }

    #[test]
    fn the_location_is_where_the_client_finds_the_object() {
        let at = |scheme, host| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static(host));
            location(scheme, &headers, "bucket", "a b/c")
        };
        assert_eq!(at("http", "s3.example.com:9000"), "http://s3.example.com:9000/bucket/a%20b/c");
        assert_eq!(at("https", "bucket.s3.example.com"), "https://bucket.s3.example.com/a%20b/c");
        assert_eq!(location("http", &HeaderMap::new(), "bucket", "k"), "/bucket/k");
    }

    #[test]
    fn a_size_is_not_negative() {
        assert_eq!(object_size(7).unwrap(), 7);
        assert_eq!(object_size(-1).unwrap_err().code, Code::InvalidRequest);
    }
}
