//! The policy of a bucket: put, shown as it was put, deleted, and whether it is public. Requests are judged
//! by it in `access`, by the ids that its users had when it was put.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use s3s::Body;
use s3s::dto::PolicyStatus;
use sherd_core::config::policy::{BucketPolicy, UserIds};
use sherd_core::config::public_access::PublicAccessSetting;
use sherd_core::config::{BucketConfig, ConfigKind};
use sherd_core::iam::UserRecord;
use sherd_core::limits::BUCKET_POLICY_BYTES_MAX;
use sherd_policy::{MalformedPolicy, Policy, PolicyForm};

use crate::answer::{self, Outcome, Response};
use crate::error::not_configured;
use crate::gateway::Gateway;
use crate::request::Request;
use crate::wire::refusal::{Code, Refusal};
use sherd_store::iam::IamError;
use sherd_store::object::Error;

/// The type of a policy.
const APPLICATION_JSON: HeaderValue = HeaderValue::from_static("application/json");

pub(crate) async fn get(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let bucket = request.target.bucket_key();
    let config = gateway.objects.config(&bucket).await?;
    let policy = stored(&config, bucket.as_str())?;
    let text = policy.document_naming(&names_now(gateway, policy).await?);
    let mut response = Response::new(Body::from(Bytes::from(text)));
    response.headers_mut().insert(CONTENT_TYPE, APPLICATION_JSON);
    Ok(response)
}

pub(crate) async fn status(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let bucket = request.target.bucket_key();
    let config = gateway.objects.config(&bucket).await?;
    let is_public = stored(&config, bucket.as_str())?.policy().is_public();
    answer::document(&PolicyStatus { is_public: Some(is_public) })
}

pub(crate) async fn put(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let bucket = request.target.bucket_key();
    let config = gateway.objects.config(&bucket).await?;
    let text = request.payload.into_document();
    let text = text.ok_or_else(|| Refusal::new(Code::MissingRequestBodyError))?;
    let policy = checked(bucket.as_str(), &text)?;
    let users = user_ids(gateway, &policy).await?;
    if policy.is_public() && blocks_public_policies(gateway, &config).await? {
        return Err(request.access.public_policy_denied(bucket.as_str()).into());
    }
    let policy = BucketPolicy::new(bucket.as_str(), policy, users).map_err(|error| malformed(&error))?;
    gateway.objects.set_config(bucket, policy).await?;
    Ok(answer::no_content())
}

pub(crate) async fn delete(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    gateway.objects.remove_config(request.target.bucket_key(), ConfigKind::BucketPolicy).await?;
    Ok(answer::no_content())
}

/// The policy that a bucket has.
///
/// # Errors
/// NoSuchBucketPolicy where it has none.
fn stored<'a>(config: &'a BucketConfig, bucket: &str) -> Outcome<&'a BucketPolicy> {
    match config.policy().map_err(Error::from)? {
        Some(policy) => Ok(policy),
        None => Err(not_configured(Code::NoSuchBucketPolicy, bucket).into()),
    }
}

/// The policy that a text says, for a bucket.
///
/// # Errors
/// MalformedPolicy, in S3's words.
fn checked(bucket: &str, text: &[u8]) -> Result<Policy, Refusal> {
    if normalized_bytes(text) > BUCKET_POLICY_BYTES_MAX {
        return Err(too_long());
    }
    Policy::parse_new(text, PolicyForm::Bucket { name: bucket }).map_err(|error| malformed(&error))
}

fn malformed(malformed: &MalformedPolicy) -> Refusal {
    Refusal::says(Code::MalformedPolicy, malformed.to_string())
}

/// Whether the bucket or the account blocks policies that are public.
async fn blocks_public_policies(gateway: &Gateway, config: &BucketConfig) -> Outcome<bool> {
    let of_bucket = config.public_access_block().map_err(Error::from)?.map(|block| **block);
    let of_account = gateway.iam.account_view().await?.public_access_block;
    let in_force = of_bucket.unwrap_or_default().union(of_account.unwrap_or_default());
    Ok(in_force.has(PublicAccessSetting::BlockPublicPolicy))
}

/// The ids of the users that a policy names by ARN.
///
/// # Errors
/// MalformedPolicy where one does not exist, also one that is named by its id.
async fn user_ids(gateway: &Gateway, policy: &Policy) -> Outcome<UserIds> {
    let none = || Refusal::says(Code::MalformedPolicy, "Invalid principal in policy");
    let arns: BTreeSet<&str> = policy.users().collect();
    let mut ids = UserIds::new();
    for arn in arns {
        let user = user_of(gateway, arn).await?.filter(|user| user.arn() == arn).ok_or_else(none)?;
        ids.insert(arn.to_owned(), user.id.to_string());
    }
    let named: BTreeSet<&str> = policy.user_ids().collect();
    if !named.is_empty() && gateway.iam.users_of_ids(&named).await?.len() < named.len() {
        return Err(none().into());
    }
    Ok(ids)
}

/// Other names for the ARNs in a policy: the ARN that its user has now, or the id of a user that is gone.
/// Users that have another name are looked for among all, as are those that are gone.
async fn names_now<'a>(gateway: &Gateway, policy: &'a BucketPolicy) -> Outcome<BTreeMap<&'a str, String>> {
    let (mut names, mut others) = (BTreeMap::new(), Vec::new());
    for (arn, id) in policy.users() {
        match user_of(gateway, arn).await?.filter(|user| user.id.as_str() == id) {
            Some(user) if user.arn() == *arn => {}
            Some(user) => drop(names.insert(arn.as_str(), user.arn())),
            None => others.push((id.as_str(), arn.as_str())),
        }
    }
    if others.is_empty() {
        return Ok(names);
    }
    let renamed = gateway.iam.users_of_ids(&others.iter().map(|(id, _)| *id).collect()).await?;
    for (id, arn) in others {
        let user = renamed.iter().find(|user| user.id.as_str() == id);
        names.insert(arn, user.map_or_else(|| id.to_owned(), UserRecord::arn));
    }
    Ok(names)
}

/// The user that has the name in an ARN now, under any path.
async fn user_of(gateway: &Gateway, arn: &str) -> Outcome<Option<UserRecord>> {
    match gateway.iam.user(arn.rsplit('/').next().unwrap_or_default()).await {
        Ok(user) => Ok(Some(user)),
        Err(IamError::NoSuchEntity(_) | IamError::Invalid { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The refusal of a policy that is too long.
fn too_long() -> Refusal {
    let max = BUCKET_POLICY_BYTES_MAX;
    let message = format!("Normalized policy document exceeds the maximum allowed size of {max} bytes");
    Refusal::says(Code::MalformedPolicy, message)
}

/// Bytes of a text of JSON without the white space between its tokens: what S3 bounds.
fn normalized_bytes(text: &[u8]) -> usize {
    let (mut bytes, mut is_in_string, mut is_escaped) = (0, false, false);
    for byte in text {
        if is_in_string {
            is_in_string = is_escaped || *byte != b'"';
            is_escaped = !is_escaped && *byte == b'\\';
        } else if matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
            continue;
        } else {
            is_in_string = *byte == b'"';
        }
        bytes += 1;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(resource: &str, condition: &str) -> String {
        format!(
            "{{\"Version\": \"2012-10-17\", \"Statement\": [{{\"Effect\": \"Allow\", \"Principal\": \"*\", \
             \"Action\": \"s3:GetObject\", \"Resource\": \"{resource}\"{condition}}}]}}"
        )
    }

    #[test]
    fn white_space_between_tokens_is_not_counted() {
        for (text, bytes) in [
            ("", 0),
            (" \t\r\n", 0),
            ("{ \"a b\" : [ 1 , 2 ] }", 13),
            ("\"a \\\" b\" ", 8),
            ("\"a \\\\\" \"b \"", 10),
        ] {
            assert_eq!(normalized_bytes(text.as_bytes()), bytes, "{text}");
        }
    }

    #[test]
    fn a_policy_has_the_length_of_s3_at_most() {
        let of = |bytes: usize| {
            let without = normalized_bytes(text("arn:aws:s3:::b/", "").as_bytes());
            text(&format!("arn:aws:s3:::b/{}", "k".repeat(bytes - without)), "")
        };
        let code = |text: String| checked("b", text.as_bytes()).map(drop).map_err(|refusal| refusal.code);
        assert_eq!(code(of(20_480)), Ok(()));
        assert_eq!(code(of(20_480).replace(' ', &" ".repeat(1000))), Ok(()), "blanks do not count");
        assert_eq!(code(of(20_481)), Err(Code::MalformedPolicy));
        assert_eq!(
            &*too_long().message,
            "Normalized policy document exceeds the maximum allowed size of 20480 bytes"
        );
    }

    #[test]
    fn a_text_that_is_no_policy_is_refused_in_the_words_of_s3() {
        for (bad, message) in [
            (" {}".to_owned(), "Policies must be valid JSON and the first byte must be '{'"),
            ("<Policy/>".to_owned(), "Policies must be valid JSON and the first byte must be '{'"),
            ("{}".to_owned(), "Missing required field Statement"),
            (text("arn:aws:s3:::other/*", ""), "Policy has invalid resource"),
        ] {
            let refusal = checked("b", bad.as_bytes()).map(drop).expect_err(&bad);
            assert_eq!((refusal.code, &*refusal.message), (Code::MalformedPolicy, message));
        }
    }
}
