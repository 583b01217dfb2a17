//! The requests of S3 that a Bucket needs. Each is of one bucket, by path.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use sherd_proto::convert::http_call::HttpService;

use super::xml::{self, branch, leaf};
use super::{CallError, ClusterCalls, StoreCall, absent};
use crate::api::{CorsRule, PublicAccessBlock, Tags};

/// Sends a request of a bucket; `query` is empty for the bucket itself.
async fn send(
    calls: &ClusterCalls,
    method: &'static str,
    bucket: &str,
    query: &str,
    body: String,
) -> Result<Bytes, CallError> {
    let uri = if query.is_empty() { format!("/{bucket}") } else { format!("/{bucket}?{query}") };
    let mut headers = Vec::new();
    if !body.is_empty() {
        headers.push(("content-type", "application/xml".to_owned()));
        headers.push(("x-amz-checksum-sha256", STANDARD.encode(Sha256::digest(&body))));
    }
    calls.send(StoreCall { service: HttpService::S3, method, uri, headers, body: body.into() }).await
}

/// Makes a bucket with tags. One that is there already stays as it is.
///
/// # Errors
/// [`CallError`].
pub async fn create(calls: &ClusterCalls, bucket: &str, region: &str, tags: &Tags) -> Result<(), CallError> {
    let location = (region != "us-east-1").then(|| leaf("LocationConstraint", region));
    let tags = branch("Tags", tags.iter().map(tag));
    let body = branch("CreateBucketConfiguration", location.into_iter().chain([tags]));
    absent(send(calls, "PUT", bucket, "", body).await, "BucketAlreadyOwnedByYou").map(|_| ())
}

/// Deletes an empty bucket; one that is not there counts as deleted.
///
/// # Errors
/// [`CallError`], `BucketNotEmpty` among its refusals.
pub async fn delete(calls: &ClusterCalls, bucket: &str) -> Result<(), CallError> {
    absent(send(calls, "DELETE", bucket, "", String::new()).await, "NoSuchBucket").map(|_| ())
}

/// Returns the tags of a bucket, or nothing where it is not there.
///
/// # Errors
/// [`CallError`].
pub async fn tags(calls: &ClusterCalls, bucket: &str) -> Result<Option<Tags>, CallError> {
    let found = absent(send(calls, "GET", bucket, "tagging", String::new()).await, "NoSuchTagSet");
    let body = match absent(found, "NoSuchBucket")? {
        Some(Some(body)) => body,
        Some(None) => return Ok(Some(Tags::new())),
        None => return Ok(None),
    };
    let root = xml::parse(&body).ok_or(CallError::Malformed("GetBucketTagging"))?;
    let set = root.find("TagSet").ok_or(CallError::Malformed("GetBucketTagging"))?;
    let pair = |tag: &xml::Element| {
        Some((tag.text_of("Key")?.to_owned(), tag.text_of("Value").unwrap_or_default().to_owned()))
    };
    let tags: Option<BTreeMap<_, _>> = set.all("Tag").map(pair).collect();
    tags.map(Some).ok_or(CallError::Malformed("GetBucketTagging"))
}

/// Replaces all tags of a bucket.
///
/// # Errors
/// [`CallError`].
pub async fn put_tags(calls: &ClusterCalls, bucket: &str, tags: &Tags) -> Result<(), CallError> {
    let body = branch("Tagging", [branch("TagSet", tags.iter().map(tag))]);
    send(calls, "PUT", bucket, "tagging", body).await.map(|_| ())
}

fn tag((key, value): (&String, &String)) -> String {
    branch("Tag", [leaf("Key", key), leaf("Value", value)])
}

/// Returns the text of a bucket's policy.
///
/// # Errors
/// [`CallError`].
pub async fn policy(calls: &ClusterCalls, bucket: &str) -> Result<Option<String>, CallError> {
    let found = absent(send(calls, "GET", bucket, "policy", String::new()).await, "NoSuchBucketPolicy")?;
    let text =
        |body: Bytes| String::from_utf8(body.into()).map_err(|_| CallError::Malformed("GetBucketPolicy"));
    found.map(text).transpose()
}

/// Replaces a bucket's policy.
///
/// # Errors
/// [`CallError`].
pub async fn put_policy(calls: &ClusterCalls, bucket: &str, policy: &str) -> Result<(), CallError> {
    send(calls, "PUT", bucket, "policy", policy.to_owned()).await.map(|_| ())
}

/// Removes a bucket's policy.
///
/// # Errors
/// [`CallError`].
pub async fn delete_policy(calls: &ClusterCalls, bucket: &str) -> Result<(), CallError> {
    send(calls, "DELETE", bucket, "policy", String::new()).await.map(|_| ())
}

const BLOCK: [&str; 4] =
    ["BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"];

/// Returns the limits of what a bucket's policy may open.
///
/// # Errors
/// [`CallError`].
pub async fn public_access_block(
    calls: &ClusterCalls,
    bucket: &str,
) -> Result<Option<PublicAccessBlock>, CallError> {
    let found = send(calls, "GET", bucket, "publicAccessBlock", String::new()).await;
    let Some(body) = absent(found, "NoSuchPublicAccessBlockConfiguration")? else { return Ok(None) };
    let root = xml::parse(&body).ok_or(CallError::Malformed("GetPublicAccessBlock"))?;
    let [block_public_acls, ignore_public_acls, block_public_policy, restrict_public_buckets] =
        BLOCK.map(|name| root.text_of(name).is_some_and(|text| text.trim().eq_ignore_ascii_case("true")));
    Ok(Some(PublicAccessBlock {
        block_public_acls,
        ignore_public_acls,
        block_public_policy,
        restrict_public_buckets,
    }))
}

/// Replaces the limits of what a bucket's policy may open.
///
/// # Errors
/// [`CallError`].
pub async fn put_public_access_block(
    calls: &ClusterCalls,
    bucket: &str,
    block: PublicAccessBlock,
) -> Result<(), CallError> {
    let PublicAccessBlock {
        block_public_acls,
        ignore_public_acls,
        block_public_policy,
        restrict_public_buckets,
    } = block;
    let values = [block_public_acls, ignore_public_acls, block_public_policy, restrict_public_buckets];
    let settings = BLOCK.iter().zip(values).map(|(name, value)| leaf(name, &value.to_string()));
    let body = branch("PublicAccessBlockConfiguration", settings);
    send(calls, "PUT", bucket, "publicAccessBlock", body).await.map(|_| ())
}

/// Returns the rules of cross-origin access.
///
/// # Errors
/// [`CallError`].
pub async fn cors(calls: &ClusterCalls, bucket: &str) -> Result<Option<Vec<CorsRule>>, CallError> {
    let found = send(calls, "GET", bucket, "cors", String::new()).await;
    let Some(body) = absent(found, "NoSuchCORSConfiguration")? else { return Ok(None) };
    let root = xml::parse(&body).ok_or(CallError::Malformed("GetBucketCors"))?;
    let rule = |rule: &xml::Element| CorsRule {
        id: rule.text_of("ID").map(str::to_owned),
        allowed_origins: rule.texts_of("AllowedOrigin"),
        allowed_methods: rule.texts_of("AllowedMethod"),
        allowed_headers: rule.texts_of("AllowedHeader"),
        expose_headers: rule.texts_of("ExposeHeader"),
        max_age_seconds: rule.text_of("MaxAgeSeconds").and_then(|text| text.parse().ok()),
    };
    Ok(Some(root.all("CORSRule").map(rule).collect()))
}

/// Replaces the rules of cross-origin access.
///
/// # Errors
/// [`CallError`].
pub async fn put_cors(calls: &ClusterCalls, bucket: &str, rules: &[CorsRule]) -> Result<(), CallError> {
    let rule = |rule: &CorsRule| {
        let CorsRule {
            id,
            allowed_origins,
            allowed_methods,
            allowed_headers,
            expose_headers,
            max_age_seconds,
        } = rule;
        let all =
            |name: &str, texts: &[String]| texts.iter().map(|text| leaf(name, text)).collect::<String>();
        let id = id.as_ref().map(|id| leaf("ID", id));
        let age = max_age_seconds.map(|age| leaf("MaxAgeSeconds", &age.to_string()));
        let lists = [
            all("AllowedOrigin", allowed_origins),
            all("AllowedMethod", allowed_methods),
            all("AllowedHeader", allowed_headers),
            all("ExposeHeader", expose_headers),
        ];
        branch("CORSRule", id.into_iter().chain(lists).chain(age))
    };
    let body = branch("CORSConfiguration", rules.iter().map(rule));
    send(calls, "PUT", bucket, "cors", body).await.map(|_| ())
}

/// Removes the rules of cross-origin access.
///
/// # Errors
/// [`CallError`].
pub async fn delete_cors(calls: &ClusterCalls, bucket: &str) -> Result<(), CallError> {
    send(calls, "DELETE", bucket, "cors", String::new()).await.map(|_| ())
}
