//! The S3 surface: from an HTTP request to a call on the store, and back.
//!
//! A request passes `protocol` (limits, addressing, authentication, body framing, refusals), then
//! s3s (XML and headers to typed inputs), then the operations, a file per verb. `auth` says who
//! asks. Around s3s the layer does for the operations what [`Gateway::serve`] tells it to: it keeps
//! headers from s3s that s3s would refuse, and it adds to errors what s3s has no place for.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod auth;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod protocol;

mod body;
mod error;
mod gateway;
mod header;
mod names;
mod owner;

mod bucket;
mod multipart;
mod object;

use std::sync::Arc;

use self::bucket::{configuration, list_objects, list_versions, tags};
use self::header::raw_headers;
use self::object::{copy_object, delete_object, get_object, head_object, object_attributes, put_object};

use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, CompleteMultipartUploadInput,
    CompleteMultipartUploadOutput, CopyObjectInput, CopyObjectOutput, CreateBucketInput, CreateBucketOutput,
    CreateMultipartUploadInput, CreateMultipartUploadOutput, DeleteBucketCorsInput, DeleteBucketCorsOutput,
    DeleteBucketEncryptionInput, DeleteBucketEncryptionOutput, DeleteBucketInput, DeleteBucketLifecycleInput,
    DeleteBucketLifecycleOutput, DeleteBucketOutput, DeleteBucketOwnershipControlsInput,
    DeleteBucketOwnershipControlsOutput, DeleteBucketPolicyInput, DeleteBucketPolicyOutput,
    DeleteBucketReplicationInput, DeleteBucketReplicationOutput, DeleteBucketTaggingInput,
    DeleteBucketTaggingOutput, DeleteBucketWebsiteInput, DeleteBucketWebsiteOutput, DeleteObjectInput,
    DeleteObjectOutput, DeleteObjectTaggingInput, DeleteObjectTaggingOutput, DeleteObjectsInput,
    DeleteObjectsOutput, DeletePublicAccessBlockInput, DeletePublicAccessBlockOutput,
    GetBucketAccelerateConfigurationInput, GetBucketAccelerateConfigurationOutput, GetBucketAclInput,
    GetBucketAclOutput, GetBucketCorsInput, GetBucketCorsOutput, GetBucketEncryptionInput,
    GetBucketEncryptionOutput, GetBucketLifecycleConfigurationInput, GetBucketLifecycleConfigurationOutput,
    GetBucketLocationInput, GetBucketLocationOutput, GetBucketLoggingInput, GetBucketLoggingOutput,
    GetBucketNotificationConfigurationInput, GetBucketNotificationConfigurationOutput,
    GetBucketOwnershipControlsInput, GetBucketOwnershipControlsOutput, GetBucketPolicyInput,
    GetBucketPolicyOutput, GetBucketPolicyStatusInput, GetBucketPolicyStatusOutput,
    GetBucketReplicationInput, GetBucketReplicationOutput, GetBucketRequestPaymentInput,
    GetBucketRequestPaymentOutput, GetBucketTaggingInput, GetBucketTaggingOutput, GetBucketVersioningInput,
    GetBucketVersioningOutput, GetBucketWebsiteInput, GetBucketWebsiteOutput, GetObjectAclInput,
    GetObjectAclOutput, GetObjectAttributesInput, GetObjectAttributesOutput, GetObjectInput,
    GetObjectLegalHoldInput, GetObjectLegalHoldOutput, GetObjectLockConfigurationInput,
    GetObjectLockConfigurationOutput, GetObjectOutput, GetObjectRetentionInput, GetObjectRetentionOutput,
    GetObjectTaggingInput, GetObjectTaggingOutput, GetPublicAccessBlockInput, GetPublicAccessBlockOutput,
    HeadBucketInput, HeadBucketOutput, HeadObjectInput, HeadObjectOutput, ListBucketsInput,
    ListBucketsOutput, ListMultipartUploadsInput, ListMultipartUploadsOutput, ListObjectVersionsInput,
    ListObjectVersionsOutput, ListObjectsInput, ListObjectsOutput, ListObjectsV2Input, ListObjectsV2Output,
    ListPartsInput, ListPartsOutput, PutBucketTaggingInput, PutBucketTaggingOutput, PutObjectInput,
    PutObjectOutput, UploadPartCopyInput, UploadPartCopyOutput, UploadPartInput, UploadPartOutput,
};
use s3s::{S3, S3Request, S3Response, S3Result};
use sherd_core::env::Clock;

use auth::Credentials;
use error::{answer, request_id};
use protocol::{Adapter, Config, Protocol};
use sherd_store::object::Objects;

pub use gateway::Gateway;

impl Gateway {
    /// Serves `objects` behind the protocol layer: the whole S3 surface of a node.
    pub fn serve(
        objects: Objects,
        config: Config,
        credentials: Arc<dyn Credentials>,
        clock: Arc<dyn Clock>,
    ) -> Protocol {
        let adapter = Adapter { before: raw_headers::set_aside, error_details: error::take_details };
        let gateway = Self::new(objects, config.region.clone(), config.is_tls);
        Protocol::with_adapter(config, credentials, clock, gateway, adapter)
    }
}

/// Writes the S3 trait: per operation its name, its types' prefix, and where it lives.
macro_rules! operations {
    ($($name:ident($input:ident) -> $output:ident = $verb:path;)*) => {
        #[async_trait::async_trait]
        impl S3 for Gateway {
            $(
                async fn $name(&self, request: S3Request<$input>) -> S3Result<S3Response<$output>> {
                    let request_id = request_id(&request);
                    let outcome = $verb(self, request).await;
                    outcome.map_err(|failure| answer(self.objects.release_grace(), request_id, failure))
                }
            )*
        }
    };
}

operations! {
    create_bucket(CreateBucketInput) -> CreateBucketOutput = bucket::create;
    head_bucket(HeadBucketInput) -> HeadBucketOutput = bucket::head;
    delete_bucket(DeleteBucketInput) -> DeleteBucketOutput = bucket::delete;
    list_buckets(ListBucketsInput) -> ListBucketsOutput = bucket::list;
    get_bucket_location(GetBucketLocationInput) -> GetBucketLocationOutput = bucket::location;
    put_object(PutObjectInput) -> PutObjectOutput = put_object::put;
    get_object(GetObjectInput) -> GetObjectOutput = get_object::get;
    head_object(HeadObjectInput) -> HeadObjectOutput = head_object::head;
    delete_object(DeleteObjectInput) -> DeleteObjectOutput = delete_object::delete;
    delete_objects(DeleteObjectsInput) -> DeleteObjectsOutput = delete_object::delete_many;
    copy_object(CopyObjectInput) -> CopyObjectOutput = copy_object::copy;
    list_objects(ListObjectsInput) -> ListObjectsOutput = list_objects::list;
    list_objects_v2(ListObjectsV2Input) -> ListObjectsV2Output = list_objects::list_v2;
    create_multipart_upload(CreateMultipartUploadInput) -> CreateMultipartUploadOutput = multipart::create;
    upload_part(UploadPartInput) -> UploadPartOutput = multipart::upload_part;
    upload_part_copy(UploadPartCopyInput) -> UploadPartCopyOutput = multipart::upload_part_copy;
    complete_multipart_upload(CompleteMultipartUploadInput) -> CompleteMultipartUploadOutput = multipart::complete;
    abort_multipart_upload(AbortMultipartUploadInput) -> AbortMultipartUploadOutput = multipart::abort;
    list_parts(ListPartsInput) -> ListPartsOutput = multipart::list_parts;
    list_multipart_uploads(ListMultipartUploadsInput) -> ListMultipartUploadsOutput = multipart::list_uploads;
    get_object_attributes(GetObjectAttributesInput) -> GetObjectAttributesOutput = object_attributes::get;
    get_bucket_versioning(GetBucketVersioningInput) -> GetBucketVersioningOutput = configuration::versioning;
    get_bucket_tagging(GetBucketTaggingInput) -> GetBucketTaggingOutput = tags::get;
    get_bucket_policy(GetBucketPolicyInput) -> GetBucketPolicyOutput = configuration::policy;
    get_bucket_policy_status(GetBucketPolicyStatusInput) -> GetBucketPolicyStatusOutput = configuration::policy_status;
    get_bucket_cors(GetBucketCorsInput) -> GetBucketCorsOutput = configuration::cors;
    get_bucket_lifecycle_configuration(GetBucketLifecycleConfigurationInput) -> GetBucketLifecycleConfigurationOutput = configuration::lifecycle;
    get_bucket_website(GetBucketWebsiteInput) -> GetBucketWebsiteOutput = configuration::website;
    get_bucket_encryption(GetBucketEncryptionInput) -> GetBucketEncryptionOutput = configuration::encryption;
    get_bucket_replication(GetBucketReplicationInput) -> GetBucketReplicationOutput = configuration::replication;
    get_public_access_block(GetPublicAccessBlockInput) -> GetPublicAccessBlockOutput = configuration::public_access_block;
    get_object_lock_configuration(GetObjectLockConfigurationInput) -> GetObjectLockConfigurationOutput = configuration::object_lock;
    get_bucket_logging(GetBucketLoggingInput) -> GetBucketLoggingOutput = configuration::logging;
    get_bucket_notification_configuration(GetBucketNotificationConfigurationInput) -> GetBucketNotificationConfigurationOutput = configuration::notification;
    get_bucket_accelerate_configuration(GetBucketAccelerateConfigurationInput) -> GetBucketAccelerateConfigurationOutput = configuration::acceleration;
    get_bucket_request_payment(GetBucketRequestPaymentInput) -> GetBucketRequestPaymentOutput = configuration::request_payment;
    get_bucket_ownership_controls(GetBucketOwnershipControlsInput) -> GetBucketOwnershipControlsOutput = configuration::ownership_controls;
    get_bucket_acl(GetBucketAclInput) -> GetBucketAclOutput = configuration::acl;
    get_object_acl(GetObjectAclInput) -> GetObjectAclOutput = configuration::object_acl;
    get_object_tagging(GetObjectTaggingInput) -> GetObjectTaggingOutput = configuration::object_tagging;
    get_object_retention(GetObjectRetentionInput) -> GetObjectRetentionOutput = configuration::retention;
    get_object_legal_hold(GetObjectLegalHoldInput) -> GetObjectLegalHoldOutput = configuration::legal_hold;
    delete_bucket_policy(DeleteBucketPolicyInput) -> DeleteBucketPolicyOutput = configuration::delete_policy;
    delete_bucket_cors(DeleteBucketCorsInput) -> DeleteBucketCorsOutput = configuration::delete_cors;
    delete_bucket_lifecycle(DeleteBucketLifecycleInput) -> DeleteBucketLifecycleOutput = configuration::delete_lifecycle;
    delete_bucket_tagging(DeleteBucketTaggingInput) -> DeleteBucketTaggingOutput = tags::delete;
    put_bucket_tagging(PutBucketTaggingInput) -> PutBucketTaggingOutput = tags::put;
    delete_bucket_website(DeleteBucketWebsiteInput) -> DeleteBucketWebsiteOutput = configuration::delete_website;
    delete_bucket_encryption(DeleteBucketEncryptionInput) -> DeleteBucketEncryptionOutput = configuration::delete_encryption;
    delete_bucket_replication(DeleteBucketReplicationInput) -> DeleteBucketReplicationOutput = configuration::delete_replication;
    delete_bucket_ownership_controls(DeleteBucketOwnershipControlsInput) -> DeleteBucketOwnershipControlsOutput = configuration::delete_ownership_controls;
    delete_public_access_block(DeletePublicAccessBlockInput) -> DeletePublicAccessBlockOutput = configuration::delete_public_access_block;
    delete_object_tagging(DeleteObjectTaggingInput) -> DeleteObjectTaggingOutput = configuration::delete_object_tagging;
    list_object_versions(ListObjectVersionsInput) -> ListObjectVersionsOutput = list_versions::list;
}
