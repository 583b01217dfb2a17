//! Reads of what a bucket or an object can be configured with, answered as AWS answers for "none".
//!
//! These configurations cannot be set: writes are refused. Those that can are in files of their own. Nearly
//! every tool asks for them before it does anything else, and takes an answer other than AWS's for a failure.
//! Where AWS has an empty answer, that is given; where it has an error that says "none", that error.
//! Deletions are answered as by AWS where nothing is there, with 204: tools that clean up send them blindly.

use s3s::dto::{
    GetBucketAccelerateConfigurationOutput, GetBucketAclOutput, GetBucketLoggingOutput,
    GetBucketNotificationConfigurationOutput, GetBucketRequestPaymentOutput, GetBucketVersioningOutput,
    GetObjectAclOutput, Payer,
};

use crate::answer::{self, Outcome, Response};
use crate::error::not_configured;
use crate::gateway::Gateway;
use crate::head::owner;
use crate::request::Request;
use crate::wire::refusal::{Code, Refusal};
use sherd_store::object::{ReadConditions, ReadRequest, Span};

/// Writes the operations whose answer for "none" is an error: where it is said of a bucket that exists.
macro_rules! refused {
    ($($verb:ident = $code:ident;)*) => {
        $(
            pub(crate) async fn $verb(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
                let bucket = request.target.bucket_key();
                gateway.objects.head_bucket(bucket.clone()).await?;
                Err(not_configured(Code::$code, bucket.as_str()).into())
            }
        )*
    };
}

refused! {
    lifecycle = NoSuchLifecycleConfiguration;
    website = NoSuchWebsiteConfiguration;
    encryption = ServerSideEncryptionConfigurationNotFoundError;
    replication = ReplicationConfigurationNotFoundError;
    object_lock = ObjectLockConfigurationNotFoundError;
}

/// Writes the operations whose answer for "none" is a document.
macro_rules! answered {
    ($($verb:ident = $none:expr;)*) => {
        $(
            pub(crate) async fn $verb(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
                gateway.objects.head_bucket(request.target.bucket_key()).await?;
                answer::document(&$none)
            }
        )*
    };
}

answered! {
    versioning = GetBucketVersioningOutput::default();
    logging = GetBucketLoggingOutput::default();
    notification = GetBucketNotificationConfigurationOutput::default();
    acceleration = GetBucketAccelerateConfigurationOutput::default();
    request_payment = GetBucketRequestPaymentOutput { payer: Some(Payer::from_static(Payer::BUCKET_OWNER)) };
    acl = GetBucketAclOutput { grants: Some(vec![owner::full_control()]), owner: Some(owner::owner()) };
}

/// Deletes a configuration that cannot be set.
pub(crate) async fn delete(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    gateway.objects.head_bucket(request.target.bucket_key()).await?;
    Ok(answer::no_content())
}

pub(crate) async fn object_acl(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    found(gateway, request).await?;
    answer::document(&GetObjectAclOutput {
        grants: Some(vec![owner::full_control()]),
        owner: Some(owner::owner()),
        request_charged: None,
    })
}

/// Retention and legal hold of an object, in a bucket without Object Lock.
pub(crate) async fn lock(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    found(gateway, request).await?;
    Err(Refusal::says(Code::InvalidRequest, "Bucket is missing Object Lock Configuration").into())
}

/// Looks for an object.
async fn found(gateway: &Gateway, request: Request<'_>) -> Outcome<()> {
    let (name, conditions) = (request.target.object(), ReadConditions::default());
    gateway.objects.head(ReadRequest { name, span: Span::Whole, conditions }).await?;
    Ok(())
}
