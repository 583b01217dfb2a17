//! CreateMultipartUpload.

use s3s::dto::{ChecksumAlgorithm, ChecksumType, CreateMultipartUploadInput, CreateMultipartUploadOutput};
use s3s::{S3Request, S3Response};

use crate::error::Outcome;
use crate::{gateway::Gateway, header::attributes, header::checksum, header::raw_headers, names};
use sherd_store::object;

pub(crate) async fn create(
    gateway: &Gateway,
    request: S3Request<CreateMultipartUploadInput>,
) -> Outcome<S3Response<CreateMultipartUploadOutput>> {
    let headers = raw_headers::of(&request);
    let asked = checksum::of_upload(headers)?;
    let upload = gateway
        .objects
        .create_upload(object::CreateUpload {
            name: names::new_object(&request.input.bucket, &request.input.key)?,
            attributes: attributes::of_request(headers)?,
            checksum: asked,
        })
        .await?;
    let input = request.input;
    Ok(S3Response::new(CreateMultipartUploadOutput {
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(upload.to_string()),
        checksum_algorithm: asked
            .map(|(algorithm, _)| ChecksumAlgorithm::from_static(checksum::name(algorithm))),
        checksum_type: asked.map(|(_, kind)| ChecksumType::from_static(checksum::kind_text(kind))),
        ..CreateMultipartUploadOutput::default()
    }))
}
