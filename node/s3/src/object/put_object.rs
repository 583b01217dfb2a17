//! PutObject: headers and body -> a put -> the entity tag.

use s3s::dto::{PutObjectInput, PutObjectOutput};
use s3s::{S3Request, S3Response, S3Result};
use sherd_core::record::Checksum;

use crate::error::Outcome;
use crate::protocol::context::RequestContext;
use crate::{
    Gateway, body, header::attributes, header::checksum, header::conditions, header::raw_headers, names,
};
use sherd_store::object::{PutRequest, WriteOutcome};

/// What the request says is read at once: its input is large, and the future does without it.
pub(crate) fn put(
    gateway: &Gateway,
    request: S3Request<PutObjectInput>,
) -> impl Future<Output = Outcome<S3Response<PutObjectOutput>>> + Send {
    let asked = asked(request);
    async move {
        let asked = asked?;
        gateway.objects.foresee(&asked.name, &asked.conditions).await?;
        let written = gateway.objects.put(asked).await?;
        Ok(answer(&written))
    }
}

fn asked(mut request: S3Request<PutObjectInput>) -> S3Result<PutRequest> {
    let stream = request.input.body.take();
    let headers = raw_headers::of(&request);
    Ok(PutRequest {
        name: names::new_object(&request.input.bucket, &request.input.key)?,
        attributes: attributes::of_request(headers)?,
        conditions: conditions::of_write(headers)?.in_call(RequestContext::call_of(&request.extensions)),
        upload: body::upload(headers, &request.extensions, stream)?,
    })
}

fn answer(written: &WriteOutcome) -> S3Response<PutObjectOutput> {
    let e_tag = Some(body::etag(&written.etag));
    let mut response = S3Response::new(PutObjectOutput { e_tag, ..PutObjectOutput::default() });
    let kind = written.checksums.first().map(Checksum::kind);
    checksum::add_headers(&written.checksums, kind, &mut response.headers);
    response
}
