//! CreateMultipartUpload.

use http::HeaderValue;
use s3s::dto::CreateMultipartUploadOutput;

use crate::answer::{self, Outcome, Response};
use crate::gateway::Gateway;
use crate::head::{attributes, checksum, names};
use crate::object::given_tags;
use crate::request::Request;
use sherd_store::object::CreateUpload;

pub(crate) async fn create(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let Request { target, head, access, .. } = request;
    let checksum = checksum::of_upload(&head)?;
    let name = names::made(target.object())?;
    let attributes = attributes::of_request(&head)?;
    let tags = given_tags::permitted(&head, &access, &name)?;
    let create = CreateUpload { name: name.clone(), attributes, tags, checksum };
    let upload = gateway.objects.create_upload(create).await?;
    let mut response = answer::document(&CreateMultipartUploadOutput {
        bucket: Some(name.bucket.to_string()),
        key: Some(name.key.to_string()),
        upload_id: Some(upload.to_string()),
        ..CreateMultipartUploadOutput::default()
    })?;
    if let Some((algorithm, kind)) = checksum {
        let headers = response.headers_mut();
        headers.insert("x-amz-checksum-algorithm", HeaderValue::from_static(checksum::name(algorithm)));
        headers.insert("x-amz-checksum-type", HeaderValue::from_static(checksum::kind_text(kind)));
    }
    Ok(response)
}
