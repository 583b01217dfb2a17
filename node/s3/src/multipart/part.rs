//! UploadPart and UploadPartCopy.

use s3s::dto::{
    CopyPartResult, UploadPartCopyInput, UploadPartCopyOutput, UploadPartInput, UploadPartOutput,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::error::{Failure, Outcome};
use crate::object::copy_object::source_failure;
use crate::{
    Gateway, body, header::checksum, header::conditions, header::copy_source, header::range,
    header::raw_headers, header::timestamp, names,
};
use sherd_store::object::{CopyPart, Error, Invalid, PartName, WriteOutcome};

pub(crate) async fn upload(
    gateway: &Gateway,
    mut request: S3Request<UploadPartInput>,
) -> Outcome<S3Response<UploadPartOutput>> {
    let stream = request.input.body.take();
    let input = &request.input;
    let part = part_name(&input.bucket, &input.key, &input.upload_id, input.part_number)?;
    let upload = body::upload(raw_headers::of(&request), &request.extensions, stream)?;
    let written = gateway.objects.put_part(part, upload).await?;
    let e_tag = Some(body::etag(&written.etag));
    let mut output = UploadPartOutput { e_tag, ..UploadPartOutput::default() };
    checksum::fill_checksums!(output, &written.checksums);
    Ok(S3Response::new(output))
}

pub(crate) async fn upload_copy(
    gateway: &Gateway,
    request: S3Request<UploadPartCopyInput>,
) -> Outcome<S3Response<UploadPartCopyOutput>> {
    let headers = raw_headers::of(&request);
    let input = &request.input;
    let source = copy_source::of(headers)?;
    let copy = CopyPart {
        part: part_name(&input.bucket, &input.key, &input.upload_id, input.part_number)?,
        source: source.name,
        span: range::copy_span(input.copy_source_range.as_deref())?,
        source_conditions: conditions::of_copy_source(headers)?,
    };
    let written = gateway.objects.copy_part(copy).await.map_err(range_failure)?;
    Ok(S3Response::new(UploadPartCopyOutput {
        copy_part_result: Some(result(&written)),
        copy_source_version_id: source.null_version.then(|| "null".to_owned()),
        ..UploadPartCopyOutput::default()
    }))
}

fn part_name(bucket: &str, key: &str, upload: &str, number: i32) -> S3Result<PartName> {
    Ok(PartName {
        number: names::part_number(number)?,
        name: names::object(bucket, key)?,
        upload: names::upload(upload)?,
    })
}

/// A range of the source that is not there is a bad argument here, not 416.
fn range_failure(error: Error) -> Failure {
    match error {
        Error::Invalid(Invalid::Range { size }) => {
            s3_error!(InvalidArgument, "Range specified is not valid for source object of size: {size}")
                .into()
        }
        other => source_failure(other),
    }
}

fn result(written: &WriteOutcome) -> CopyPartResult {
    let mut result = CopyPartResult {
        e_tag: Some(body::etag(&written.etag)),
        last_modified: Some(timestamp::in_xml(written.modified_ms)),
        ..CopyPartResult::default()
    };
    checksum::fill_checksums!(result, &written.checksums);
    result
}

#[cfg(test)]
mod tests {
    use s3s::S3ErrorCode;

    use super::*;

    #[test]
    fn a_part_is_named_by_all_four() {
        let id = "00112233445566778899aabbccddeeff";
        let part = part_name("bucket", "key", id, 7).unwrap();
        assert_eq!((part.number, part.upload.to_string().as_str()), (7, id));
        let code = |upload, number| part_name("bucket", "key", upload, number).unwrap_err().code().clone();
        assert_eq!(code(id, 0), S3ErrorCode::InvalidArgument);
        assert_eq!(code("nonsense", 1), S3ErrorCode::NoSuchUpload);
    }

    #[test]
    fn a_range_behind_the_source_is_a_bad_argument() {
        let Failure::Request(error) = range_failure(Invalid::Range { size: 5 }.into()) else {
            panic!("a request that S3 refuses")
        };
        assert_eq!(error.code(), &S3ErrorCode::InvalidArgument);
        assert!(error.message().unwrap().ends_with("size: 5"));
    }
}
