//! CopyObject: a source, what to keep of it, and conditions on both ends.

use http::HeaderMap;
use s3s::dto::CopyObjectResult;
use sherd_core::record::Attributes;

use crate::answer::{self, NULL, Response};
use crate::error::Outcome;
use crate::header::checksum_elements::{ChecksummedContent, ChecksummedDocument};
use crate::protocol::refusal::Refusal;
use crate::request::Request;
use crate::{
    Gateway, body, header::attributes, header::checksum, header::conditions, header::copy_source,
    header::timestamp, names,
};
use sherd_store::object::{CopyRequest, WriteOutcome};

pub(crate) async fn copy(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let Request { target, headers, call, access, .. } = request;
    let source = copy_source::readable(&headers, &access)?;
    let copy = CopyRequest {
        source: source.name,
        source_conditions: conditions::of_copy_source(&headers)?,
        target: names::made(target.object())?,
        conditions: conditions::of_write(&headers)?.in_call(call),
        attributes: new_attributes(&headers)?,
        checksum: checksum::algorithm_header(&headers)?,
    };
    let written = gateway.objects.copy(copy).await?;
    let mut response = answer::document(&result(&written))?;
    if source.null_version {
        response.headers_mut().insert(copy_source::VERSION_ID, NULL);
    }
    Ok(response)
}

/// The attributes of the copy; `None` keeps the source's.
fn new_attributes(headers: &HeaderMap) -> Result<Option<Attributes>, Refusal> {
    match headers.get("x-amz-metadata-directive").map(http::HeaderValue::as_bytes) {
        None | Some(b"COPY") => Ok(None),
        Some(b"REPLACE") => attributes::of_request(headers).map(Some),
        Some(other) => {
            let other = String::from_utf8_lossy(other);
            Err(Refusal::bad_argument("Unknown metadata directive.", "x-amz-metadata-directive", &other))
        }
    }
}

fn result(written: &WriteOutcome) -> ChecksummedDocument<'_, CopyObjectResult> {
    let content = CopyObjectResult {
        e_tag: Some(body::etag(&written.etag)),
        last_modified: Some(timestamp::in_xml(written.modified_ms)),
        checksum_type: checksum::type_of(&written.checksums),
        ..CopyObjectResult::default()
    };
    let content = ChecksummedContent { checksums: &written.checksums, content };
    ChecksummedDocument { element: "CopyObjectResult", content }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::protocol::code::Code;

    fn headers(directive: Option<&'static str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("text/plain"));
        headers.insert("x-amz-meta-a", HeaderValue::from_static("1"));
        if let Some(directive) = directive {
            headers.insert("x-amz-metadata-directive", HeaderValue::from_static(directive));
        }
        headers
    }

    #[test]
    fn metadata_is_copied_unless_it_is_replaced() {
        assert_eq!(new_attributes(&headers(None)).unwrap(), None);
        assert_eq!(new_attributes(&headers(Some("COPY"))).unwrap(), None);
        let replaced = new_attributes(&headers(Some("REPLACE"))).unwrap().unwrap();
        assert_eq!(replaced.get("x-amz-meta-a"), Some("1"));
        assert_eq!(new_attributes(&headers(Some("MERGE"))).unwrap_err().code, Code::InvalidArgument);
    }
}
