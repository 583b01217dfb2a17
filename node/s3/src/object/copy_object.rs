//! CopyObject: a source, what to keep of it, and conditions on both ends.

use http::HeaderMap;
use s3s::dto::{CopyObjectInput, CopyObjectOutput, CopyObjectResult};
use s3s::{S3Request, S3Response, S3Result, s3_error};
use sherd_core::limits::PUT_BYTES_MAX;
use sherd_core::record::Attributes;

use crate::error::{Failure, Outcome};
use crate::protocol::context::RequestContext;
use crate::{
    Gateway, body, header::attributes, header::checksum, header::conditions, header::copy_source,
    header::raw_headers, header::timestamp, names,
};
use sherd_store::object::{CopyRequest, Error, Invalid, WriteOutcome};

pub(crate) async fn copy(
    gateway: &Gateway,
    request: S3Request<CopyObjectInput>,
) -> Outcome<S3Response<CopyObjectOutput>> {
    let headers = raw_headers::of(&request);
    let source = copy_source::of(headers)?;
    let copy = CopyRequest {
        source: source.name,
        source_conditions: conditions::of_copy_source(headers)?,
        target: names::new_object(&request.input.bucket, &request.input.key)?,
        conditions: conditions::of_write(headers)?.in_call(RequestContext::call_of(&request.extensions)),
        attributes: new_attributes(headers)?,
        checksum: checksum::algorithm_header(headers)?,
    };
    let written = gateway.objects.copy(copy).await.map_err(source_failure)?;
    Ok(S3Response::new(CopyObjectOutput {
        copy_object_result: Some(result(&written)),
        copy_source_version_id: source.null_version.then(|| "null".to_owned()),
        ..CopyObjectOutput::default()
    }))
}

/// The attributes of the copy; `None` keeps the source's.
fn new_attributes(headers: &HeaderMap) -> S3Result<Option<Attributes>> {
    match headers.get("x-amz-metadata-directive").map(http::HeaderValue::as_bytes) {
        None | Some(b"COPY") => Ok(None),
        Some(b"REPLACE") => attributes::of_request(headers).map(Some),
        Some(_) => Err(s3_error!(InvalidArgument, "Unknown metadata directive.")),
    }
}

/// A copy fails by its source as no plain read does: a condition that does not hold is 412 always,
/// and a source beyond 5 GiB is for UploadPartCopy.
pub(crate) fn source_failure(error: Error) -> Failure {
    match error {
        Error::NotModified { .. } => {
            Error::PreconditionFailed { header: "x-amz-copy-source-If-None-Match" }.into()
        }
        Error::Invalid(Invalid::TooLarge { .. }) => s3_error!(
            InvalidRequest,
            "The specified copy source is larger than the maximum allowable size for a copy source: {PUT_BYTES_MAX}"
        )
        .into(),
        other => other.into(),
    }
}

fn result(written: &WriteOutcome) -> CopyObjectResult {
    let mut result = CopyObjectResult {
        e_tag: Some(body::etag(&written.etag)),
        last_modified: Some(timestamp::in_xml(written.modified_ms)),
        checksum_type: checksum::type_of(&written.checksums),
        ..CopyObjectResult::default()
    };
    checksum::fill_checksums!(result, &written.checksums);
    result
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use s3s::S3ErrorCode;

    use super::*;

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
        assert_eq!(
            new_attributes(&headers(Some("MERGE"))).unwrap_err().code(),
            &S3ErrorCode::InvalidArgument
        );
    }

    #[test]
    fn a_source_that_is_not_modified_fails_the_copy() {
        let failure = source_failure(Error::NotModified {
            etag: String::new(),
            modified_ms: 0,
            attributes: Attributes::default(),
        });
        assert!(matches!(failure, Failure::Store(Error::PreconditionFailed { .. })));
        let failure = source_failure(Invalid::TooLarge { size: 2, max: 1 }.into());
        let Failure::Request(error) = failure else { panic!("a request that S3 refuses") };
        assert_eq!(error.code(), &S3ErrorCode::InvalidRequest);
        assert!(matches!(source_failure(Error::Full), Failure::Store(Error::Full)));
    }
}
