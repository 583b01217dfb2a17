//! PutObject: headers and body -> a put -> the entity tag.

use s3s::dto::{PutObjectInput, PutObjectOutput};
use s3s::{S3Request, S3Response};

use super::error::Outcome;
use super::{Gateway, attributes, body, checksum, conditions, names, raw_headers};
use crate::object::{PutRequest, Written};

pub(super) async fn put(
    gateway: &Gateway,
    mut request: S3Request<PutObjectInput>,
) -> Outcome<S3Response<PutObjectOutput>> {
    let stream = request.input.body.take();
    let headers = raw_headers::of(&request);
    let put = PutRequest {
        name: names::object(&request.input.bucket, &request.input.key)?,
        attributes: attributes::of_request(headers)?,
        conditions: conditions::of_write(headers)?,
        upload: body::upload(headers, &request.extensions, stream)?,
    };
    let written = gateway.objects.put(put).await?;
    Ok(answer(&written))
}

fn answer(written: &Written) -> S3Response<PutObjectOutput> {
    let e_tag = Some(body::etag(&written.etag));
    let mut response = S3Response::new(PutObjectOutput { e_tag, ..PutObjectOutput::default() });
    checksum::add_headers(&written.checksums, &mut response.headers);
    response
}
