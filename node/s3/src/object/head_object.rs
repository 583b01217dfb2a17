//! HeadObject: everything that GetObject says, but for the bytes.

use http::StatusCode;
use s3s::dto::{HeadObjectInput, HeadObjectOutput};
use s3s::{S3Request, S3Response};

use crate::error::Outcome;
use crate::gateway::Gateway;
use crate::object::get_object::asked;

pub(crate) async fn head(
    gateway: &Gateway,
    request: S3Request<HeadObjectInput>,
) -> Outcome<S3Response<HeadObjectOutput>> {
    let asked = asked!(request);
    let (_, described) = asked.read(|(info, range)| (info, range), |read| gateway.objects.head(read)).await?;
    let output = HeadObjectOutput { content_range: described.content_range, ..HeadObjectOutput::default() };
    let mut response = S3Response::with_headers(output, described.headers);
    if response.output.content_range.is_some() {
        response.extensions.insert(StatusCode::PARTIAL_CONTENT);
    }
    Ok(response)
}
