//! The answer to a request for a version other than `null`: no bucket has versioning, so it is not there.

use http::HeaderValue;

use crate::answer::{self, Outcome, Response, VERSION_ID};
use crate::gateway::Gateway;
use crate::request::Request;
use crate::wire::refusal::{Code, Refusal};

/// Answers an operation on a version that is not there. The deletion of one is done already, as on S3
/// (github.com/versity/versitygw/issues/1758).
///
/// # Errors
/// NoSuchVersion for every other operation; as the store answers where the bucket is not there.
pub(crate) async fn answer(gateway: &Gateway, request: Request<'_>, deletes: bool) -> Outcome<Response> {
    let id = request.version.map(|version| version.to_string()).unwrap_or_default();
    let name = request.target.object();
    gateway.objects.head_bucket(name.bucket.into_name()).await?;
    if !deletes {
        let refusal = Refusal::new(Code::NoSuchVersion).with("Key", name.key.as_str());
        return Err(refusal.with("VersionId", id).into());
    }
    let mut response = answer::no_content();
    let id = HeaderValue::try_from(id).expect("hexadecimal digits are a header value");
    response.headers_mut().insert(VERSION_ID, id);
    Ok(response)
}
