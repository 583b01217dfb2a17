//! The S3 surface: from an HTTP request to a call on the store, and back.
//!
//! A request passes `protocol` (limits, addressing, authentication, body framing, refusals), then
//! s3s (XML and headers to typed inputs), then the operations, a file per verb. `auth` says who
//! asks. Around s3s the protocol layer does three things for the operations: it calls
//! [`raw_headers::set_aside`] before, turns [`error::take_details`] into elements of an error, and
//! gives an answer the status that stands in its extensions, for s3s cannot say 206 on a HEAD.

pub mod auth;
pub mod error;
pub mod protocol;
pub mod raw_headers;

mod attributes;
mod body;
mod checksum;
mod conditions;
mod copy_source;
mod names;
mod owner;
mod range;
mod timestamp;
mod token;

mod bucket;
mod copy_object;
mod delete_object;
mod get_object;
mod head_object;
mod list_objects;
mod multipart;
mod put_object;

use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, CompleteMultipartUploadInput,
    CompleteMultipartUploadOutput, CopyObjectInput, CopyObjectOutput, CreateBucketInput, CreateBucketOutput,
    CreateMultipartUploadInput, CreateMultipartUploadOutput, DeleteBucketInput, DeleteBucketOutput,
    DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput, DeleteObjectsOutput, GetBucketLocationInput,
    GetBucketLocationOutput, GetObjectInput, GetObjectOutput, HeadBucketInput, HeadBucketOutput,
    HeadObjectInput, HeadObjectOutput, ListBucketsInput, ListBucketsOutput, ListMultipartUploadsInput,
    ListMultipartUploadsOutput, ListObjectsInput, ListObjectsOutput, ListObjectsV2Input, ListObjectsV2Output,
    ListPartsInput, ListPartsOutput, PutObjectInput, PutObjectOutput, UploadPartCopyInput,
    UploadPartCopyOutput, UploadPartInput, UploadPartOutput,
};
use s3s::{S3, S3Request, S3Response, S3Result};

use crate::object::Objects;
use error::{answer, request_id};

/// The region that S3 calls by no name.
const REGION_DEFAULT: &str = "us-east-1";

/// The operations of S3 on a store.
#[derive(Clone)]
pub struct Gateway {
    objects: Objects,
    region: String,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("region", &self.region).finish_non_exhaustive()
    }
}

impl Gateway {
    /// Serves `objects` as a region.
    pub fn new(objects: Objects, region: impl Into<String>) -> Self {
        Self { objects, region: region.into() }
    }
}

/// Writes the S3 trait: per operation its name, its types' prefix, and where it lives.
macro_rules! operations {
    ($($name:ident($input:ident) -> $output:ident = $verb:path;)*) => {
        #[async_trait::async_trait]
        impl S3 for Gateway {
            $(
                async fn $name(&self, request: S3Request<$input>) -> S3Result<S3Response<$output>> {
                    answer(request_id(&request), $verb(self, request)).await
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
}
