//! Makes the buckets that a configuration has a node begin with, before S3 is served. A bucket that is there
//! is left as it is, unless its making was cut: it has a tag until its policy is put.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Collected, Full};

use crate::process::config::REGION;
use crate::process::config::first_buckets::FirstBucket;
use sherd_s3::service::Protocol;

/// The tag of a bucket whose policy is not put yet. Keys that begin like it are root's alone.
const UNFINISHED: &str = "sherd.dev/unfinished";

/// A bucket cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("make bucket {bucket}: {step} was answered {status}: {answer}")]
pub struct BucketError {
    bucket: String,
    step: &'static str,
    status: StatusCode,
    answer: String,
}

/// Makes each bucket that is not there, through the protocol that clients are served by.
///
/// # Errors
/// [`BucketError`] of the first step that is refused: a name that no bucket has, a store that cannot write.
pub(super) async fn make(
    protocol: &Protocol,
    region: &str,
    buckets: &[FirstBucket],
) -> Result<(), BucketError> {
    for bucket in buckets {
        let ask = async |step, method, query, body, taken: &[StatusCode]| {
            let (status, answer) = ask(protocol, method, &format!("/{}{query}", bucket.name), body).await;
            if taken.contains(&status) {
                return Ok((status, answer));
            }
            Err(BucketError { bucket: bucket.name.clone(), step, status, answer })
        };
        let known = [StatusCode::OK, StatusCode::NOT_FOUND];
        let policy = bucket.policy();
        if ask("HeadBucket", Method::HEAD, "", String::new(), &known).await?.0 == StatusCode::NOT_FOUND {
            let document = configuration(region, policy.is_some().then_some(UNFINISHED));
            ask("CreateBucket", Method::PUT, "", document, &[StatusCode::OK]).await?;
        }
        let Some(policy) = policy else { continue };
        let (_, tags) = ask("GetBucketTagging", Method::GET, "?tagging", String::new(), &known).await?;
        // A value of a tag has no element in it: its angle brackets are escaped.
        if !tags.contains(&format!("<Key>{UNFINISHED}</Key>")) {
            continue;
        }
        let done = [StatusCode::OK, StatusCode::NO_CONTENT];
        ask("DeletePublicAccessBlock", Method::DELETE, "?publicAccessBlock", String::new(), &done).await?;
        ask("PutBucketPolicy", Method::PUT, "?policy", policy, &done).await?;
        ask("DeleteBucketTagging", Method::DELETE, "?tagging", String::new(), &done).await?;
    }
    Ok(())
}

/// The document of a new bucket: its region where that is not the default, and a tag.
fn configuration(region: &str, tag: Option<&str>) -> String {
    if region == REGION && tag.is_none() {
        return String::new();
    }
    let location = match region {
        REGION => String::new(),
        region => format!("<LocationConstraint>{region}</LocationConstraint>"),
    };
    let tags = tag.map(|key| format!("<Tags><Tag><Key>{key}</Key><Value></Value></Tag></Tags>"));
    let tags = tags.unwrap_or_default();
    format!(
        "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{location}{tags}\
         </CreateBucketConfiguration>"
    )
}

/// Sends a request as root, and returns the status and the body of its answer.
async fn ask(protocol: &Protocol, method: Method, target: &str, body: String) -> (StatusCode, String) {
    let request = Request::builder().method(method).uri(target).header(HOST, "localhost");
    let request = match request.header(CONTENT_LENGTH, body.len()).body(Full::new(Bytes::from(body))) {
        Ok(request) => request,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()),
    };
    let (head, body) = Box::pin(protocol.call_as_root(request)).await.into_parts();
    let body = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
    (head.status, String::from_utf8_lossy(&body).into_owned())
}
