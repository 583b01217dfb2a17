//! Reads of what a bucket or an object can be configured with, answered as AWS answers for "none".
//!
//! Nothing of it can be set here yet but a bucket's tags, which are in `tags`: writes of it are not implemented. But nearly every tool asks
//! before it does anything else, and takes an answer other than AWS's for a failure. Where AWS has an
//! empty answer, that is given; where AWS has an error that says "none", that error. Deletions are
//! answered as AWS answers them where nothing is there, with 204: tools that clean up send them blindly.

use http::StatusCode;
use s3s::dto::{
    DeleteBucketCorsInput, DeleteBucketCorsOutput, DeleteBucketEncryptionInput, DeleteBucketEncryptionOutput,
    DeleteBucketLifecycleInput, DeleteBucketLifecycleOutput, DeleteBucketOwnershipControlsInput,
    DeleteBucketOwnershipControlsOutput, DeleteBucketPolicyInput, DeleteBucketPolicyOutput,
    DeleteBucketReplicationInput, DeleteBucketReplicationOutput, DeleteBucketWebsiteInput,
    DeleteBucketWebsiteOutput, DeleteObjectTaggingInput, DeleteObjectTaggingOutput,
    DeletePublicAccessBlockInput, DeletePublicAccessBlockOutput, GetBucketAccelerateConfigurationInput,
    GetBucketAccelerateConfigurationOutput, GetBucketAclInput, GetBucketAclOutput, GetBucketCorsInput,
    GetBucketCorsOutput, GetBucketEncryptionInput, GetBucketEncryptionOutput,
    GetBucketLifecycleConfigurationInput, GetBucketLifecycleConfigurationOutput, GetBucketLoggingInput,
    GetBucketLoggingOutput, GetBucketNotificationConfigurationInput,
    GetBucketNotificationConfigurationOutput, GetBucketOwnershipControlsInput,
    GetBucketOwnershipControlsOutput, GetBucketPolicyInput, GetBucketPolicyOutput,
    GetBucketPolicyStatusInput, GetBucketPolicyStatusOutput, GetBucketReplicationInput,
    GetBucketReplicationOutput, GetBucketRequestPaymentInput, GetBucketRequestPaymentOutput,
    GetBucketVersioningInput, GetBucketVersioningOutput, GetBucketWebsiteInput, GetBucketWebsiteOutput,
    GetObjectAclInput, GetObjectAclOutput, GetObjectLegalHoldInput, GetObjectLegalHoldOutput,
    GetObjectLockConfigurationInput, GetObjectLockConfigurationOutput, GetObjectRetentionInput,
    GetObjectRetentionOutput, GetObjectTaggingInput, GetObjectTaggingOutput, GetPublicAccessBlockInput,
    GetPublicAccessBlockOutput, ObjectOwnership, OwnershipControls, OwnershipControlsRule, Payer,
};
use s3s::{S3Request, S3Response, s3_error};

use crate::error::{Outcome, not_configured};
use crate::{gateway::Gateway, names, owner};
use sherd_store::object::{ReadConditions, ReadRequest, Span};

/// Writes the operations whose answer for "none" is an error: where it is said of a bucket that exists.
macro_rules! refused {
    ($($verb:ident($input:ident) -> $output:ident = $code:literal, $message:literal;)*) => {
        $(
            pub(in crate) async fn $verb(
                gateway: &Gateway,
                request: S3Request<$input>,
            ) -> Outcome<S3Response<$output>> {
                let bucket = &request.input.bucket;
                gateway.objects.head_bucket(names::bucket(bucket)?).await?;
                Err(not_configured($code, StatusCode::NOT_FOUND, $message, bucket).into())
            }
        )*
    };
}

refused! {
    policy(GetBucketPolicyInput) -> GetBucketPolicyOutput =
        "NoSuchBucketPolicy", "The bucket policy does not exist";
    policy_status(GetBucketPolicyStatusInput) -> GetBucketPolicyStatusOutput =
        "NoSuchBucketPolicy", "The bucket policy does not exist";
    cors(GetBucketCorsInput) -> GetBucketCorsOutput =
        "NoSuchCORSConfiguration", "The CORS configuration does not exist";
    lifecycle(GetBucketLifecycleConfigurationInput) -> GetBucketLifecycleConfigurationOutput =
        "NoSuchLifecycleConfiguration", "The lifecycle configuration does not exist";
    website(GetBucketWebsiteInput) -> GetBucketWebsiteOutput =
        "NoSuchWebsiteConfiguration", "The specified bucket does not have a website configuration";
    encryption(GetBucketEncryptionInput) -> GetBucketEncryptionOutput =
        "ServerSideEncryptionConfigurationNotFoundError", "The server side encryption configuration was not found";
    replication(GetBucketReplicationInput) -> GetBucketReplicationOutput =
        "ReplicationConfigurationNotFoundError", "The replication configuration was not found";
    public_access_block(GetPublicAccessBlockInput) -> GetPublicAccessBlockOutput =
        "NoSuchPublicAccessBlockConfiguration", "The public access block configuration was not found";
    object_lock(GetObjectLockConfigurationInput) -> GetObjectLockConfigurationOutput =
        "ObjectLockConfigurationNotFoundError", "Object Lock configuration does not exist for this bucket";
}

/// Writes the operations whose answer for "none" is a document.
macro_rules! answered {
    ($($verb:ident($input:ident) -> $output:ident = $none:expr;)*) => {
        $(
            pub(in crate) async fn $verb(
                gateway: &Gateway,
                request: S3Request<$input>,
            ) -> Outcome<S3Response<$output>> {
                gateway.objects.head_bucket(names::bucket(&request.input.bucket)?).await?;
                Ok(S3Response::new($none))
            }
        )*
    };
}

answered! {
    versioning(GetBucketVersioningInput) -> GetBucketVersioningOutput = GetBucketVersioningOutput::default();
    logging(GetBucketLoggingInput) -> GetBucketLoggingOutput = GetBucketLoggingOutput::default();
    notification(GetBucketNotificationConfigurationInput) -> GetBucketNotificationConfigurationOutput =
        GetBucketNotificationConfigurationOutput::default();
    acceleration(GetBucketAccelerateConfigurationInput) -> GetBucketAccelerateConfigurationOutput =
        GetBucketAccelerateConfigurationOutput::default();
    request_payment(GetBucketRequestPaymentInput) -> GetBucketRequestPaymentOutput =
        GetBucketRequestPaymentOutput { payer: Some(Payer::from_static(Payer::BUCKET_OWNER)) };
    ownership_controls(GetBucketOwnershipControlsInput) -> GetBucketOwnershipControlsOutput =
        GetBucketOwnershipControlsOutput { ownership_controls: Some(owner_enforced()) };
    acl(GetBucketAclInput) -> GetBucketAclOutput =
        GetBucketAclOutput { grants: Some(vec![owner::full_control()]), owner: Some(owner::owner()) };
}

answered! {
    delete_policy(DeleteBucketPolicyInput) -> DeleteBucketPolicyOutput = DeleteBucketPolicyOutput::default();
    delete_cors(DeleteBucketCorsInput) -> DeleteBucketCorsOutput = DeleteBucketCorsOutput::default();
    delete_lifecycle(DeleteBucketLifecycleInput) -> DeleteBucketLifecycleOutput =
        DeleteBucketLifecycleOutput::default();
    delete_website(DeleteBucketWebsiteInput) -> DeleteBucketWebsiteOutput = DeleteBucketWebsiteOutput::default();
    delete_encryption(DeleteBucketEncryptionInput) -> DeleteBucketEncryptionOutput =
        DeleteBucketEncryptionOutput::default();
    delete_replication(DeleteBucketReplicationInput) -> DeleteBucketReplicationOutput =
        DeleteBucketReplicationOutput::default();
    delete_ownership_controls(DeleteBucketOwnershipControlsInput) -> DeleteBucketOwnershipControlsOutput =
        DeleteBucketOwnershipControlsOutput::default();
    delete_public_access_block(DeletePublicAccessBlockInput) -> DeletePublicAccessBlockOutput =
        DeletePublicAccessBlockOutput::default();
}

/// Access control lists decide nothing: what a new bucket of AWS's has, and what every bucket has here.
fn owner_enforced() -> OwnershipControls {
    let object_ownership = ObjectOwnership::from_static(ObjectOwnership::BUCKET_OWNER_ENFORCED);
    OwnershipControls { rules: vec![OwnershipControlsRule { object_ownership }] }
}

pub(crate) async fn object_acl(
    gateway: &Gateway,
    request: S3Request<GetObjectAclInput>,
) -> Outcome<S3Response<GetObjectAclOutput>> {
    let GetObjectAclInput { bucket, key, version_id, .. } = &request.input;
    found(gateway, bucket, key, version_id.as_deref()).await?;
    Ok(S3Response::new(GetObjectAclOutput {
        grants: Some(vec![owner::full_control()]),
        owner: Some(owner::owner()),
        request_charged: None,
    }))
}

pub(crate) async fn object_tagging(
    gateway: &Gateway,
    request: S3Request<GetObjectTaggingInput>,
) -> Outcome<S3Response<GetObjectTaggingOutput>> {
    let GetObjectTaggingInput { bucket, key, version_id, .. } = &request.input;
    let null_version = found(gateway, bucket, key, version_id.as_deref()).await?;
    let version_id = null_version.then(|| "null".to_owned());
    Ok(S3Response::new(GetObjectTaggingOutput { tag_set: Vec::new(), version_id }))
}

pub(crate) async fn delete_object_tagging(
    gateway: &Gateway,
    request: S3Request<DeleteObjectTaggingInput>,
) -> Outcome<S3Response<DeleteObjectTaggingOutput>> {
    let DeleteObjectTaggingInput { bucket, key, version_id, .. } = &request.input;
    let null_version = found(gateway, bucket, key, version_id.as_deref()).await?;
    let version_id = null_version.then(|| "null".to_owned());
    Ok(S3Response::new(DeleteObjectTaggingOutput { version_id }))
}

pub(crate) async fn retention(
    gateway: &Gateway,
    request: S3Request<GetObjectRetentionInput>,
) -> Outcome<S3Response<GetObjectRetentionOutput>> {
    let GetObjectRetentionInput { bucket, key, version_id, .. } = &request.input;
    found(gateway, bucket, key, version_id.as_deref()).await?;
    Err(s3_error!(InvalidRequest, "Bucket is missing Object Lock Configuration").into())
}

pub(crate) async fn legal_hold(
    gateway: &Gateway,
    request: S3Request<GetObjectLegalHoldInput>,
) -> Outcome<S3Response<GetObjectLegalHoldOutput>> {
    let GetObjectLegalHoldInput { bucket, key, version_id, .. } = &request.input;
    found(gateway, bucket, key, version_id.as_deref()).await?;
    Err(s3_error!(InvalidRequest, "Bucket is missing Object Lock Configuration").into())
}

/// Looks for an object; `true` when its null version was asked for by name.
async fn found(gateway: &Gateway, bucket: &str, key: &str, version: Option<&str>) -> Outcome<bool> {
    let null_version = names::version(version)?;
    let name = names::object(bucket, key)?;
    let conditions = ReadConditions::default();
    gateway.objects.head(ReadRequest { name, span: Span::Whole, conditions }).await?;
    Ok(null_version)
}
