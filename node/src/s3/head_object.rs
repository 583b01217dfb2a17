//! HeadObject: everything that GetObject says, but for the bytes.

use http::StatusCode;
use s3s::dto::{HeadObjectInput, HeadObjectOutput};
use s3s::{S3Request, S3Response};

use super::error::Outcome;
use super::get_object::{Asked, describe};
use super::if_range::{self, Validator};
use super::{Gateway, raw_headers};

pub(super) async fn head(
    gateway: &Gateway,
    request: S3Request<HeadObjectInput>,
) -> Outcome<S3Response<HeadObjectOutput>> {
    let input = &request.input;
    let asked = Asked {
        bucket: &input.bucket,
        key: &input.key,
        part: input.part_number,
        version: input.version_id.as_deref(),
        headers: raw_headers::of(&request),
        query: request.uri.query(),
    };
    let read = asked.read_request()?;
    let overrides = asked.overrides()?;
    let objects = &gateway.objects;
    let validator = Validator::of(asked.headers);
    let (span, (info, range)) =
        if_range::read(read, validator, |(info, _)| info, |read| objects.head(read)).await?;
    let described = describe(&asked, span, &info, &range, overrides);
    let output = HeadObjectOutput { content_range: described.content_range, ..HeadObjectOutput::default() };
    let mut response = S3Response::with_headers(output, described.headers);
    if response.output.content_range.is_some() {
        response.extensions.insert(StatusCode::PARTIAL_CONTENT);
    }
    Ok(response)
}
