//! AccessDenied as AWS words it: who, what, on what, and by which kind of policy. An anonymous caller is
//! shown none of that.

use std::fmt;

use sherd_policy::{Identity, Resource};

use crate::owner;
use crate::protocol::code::Code;
use crate::protocol::refusal::Refusal;

/// No policy allows an action.
pub(super) fn implicit(identity: &Identity, action: &str, resource: Resource<'_>) -> Refusal {
    denied(
        identity,
        action,
        resource,
        format_args!("because no identity-based policy allows the {action} action"),
    )
}

/// A policy denies an action: one of the caller's, or one of the resource.
pub(super) fn explicit(
    identity: &Identity,
    action: &str,
    resource: Resource<'_>,
    by_identity: bool,
) -> Refusal {
    let kind = if by_identity { "an identity-based" } else { "a resource-based" };
    denied(identity, action, resource, format_args!("with an explicit deny in {kind} policy"))
}

/// A public policy is put where those are blocked.
pub(super) fn public_policy(identity: &Identity, bucket: &str) -> Refusal {
    let reason =
        "because public policies are prevented by the BlockPublicPolicy setting in S3 Block Public Access.";
    denied(identity, "s3:PutBucketPolicy", Resource::Bucket(bucket), format_args!("{reason}"))
}

fn denied(identity: &Identity, action: &str, resource: Resource<'_>, reason: fmt::Arguments<'_>) -> Refusal {
    let root;
    let arn = match identity {
        Identity::Anonymous => return Refusal::new(Code::AccessDenied),
        Identity::Root => {
            root = format!("arn:aws:iam::{}:root", owner::ACCOUNT);
            &root
        }
        Identity::User(user) => &user.arn,
    };
    // S3 names no resource where the action is on all buckets.
    let resource = match resource {
        Resource::Service => String::new(),
        Resource::Bucket(bucket) => format!(" on resource: \"arn:aws:s3:::{bucket}\""),
        Resource::Object(bucket, key) => format!(" on resource: \"arn:aws:s3:::{bucket}/{key}\""),
        Resource::Iam(arn) => format!(" on resource: {arn}"),
    };
    let message = format!("User: {arn} is not authorized to perform: {action}{resource} {reason}");
    Refusal::says(Code::AccessDenied, message)
}
