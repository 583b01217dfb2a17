//! Operations that keep what they were given: the far end of the protocol layer.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use http::StatusCode;
use parking_lot::Mutex;
use s3s::dto::*;
use s3s::{S3, S3Error, S3ErrorCode, S3Request, S3Response, S3Result};
use sherd_s3::protocol::context::RequestContext;
use tokio::sync::watch;

use crate::record::Recording;

/// An object as it arrived.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stored {
    pub(crate) bytes: Bytes,
    pub(crate) content_type: Option<String>,
    pub(crate) content_encoding: Option<String>,
    pub(crate) content_length: Option<i64>,
    pub(crate) metadata: HashMap<String, String>,
    pub(crate) trailer: Option<String>,
    pub(crate) pieces: usize,
}

#[derive(Debug, Default)]
struct State {
    objects: HashMap<(String, String), Stored>,
    calls: Vec<&'static str>,
    headers: http::HeaderMap,
    uri: String,
}

/// A store that forgets at the end of the test.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    state: Arc<Mutex<State>>,
    /// Bytes of the body that is arriving.
    pub(crate) arrived: watch::Sender<usize>,
    recording: Option<Arc<Recording>>,
}

impl Memory {
    pub(crate) fn new(recording: Option<Arc<Recording>>) -> Self {
        Self { state: Arc::default(), arrived: watch::channel(0).0, recording }
    }

    /// The object under a key.
    pub(crate) fn object(&self, bucket: &str, key: &str) -> Option<Stored> {
        self.state.lock().objects.get(&(bucket.to_owned(), key.to_owned())).cloned()
    }

    /// Puts an object there.
    pub(crate) fn keep(&self, bucket: &str, key: &str, bytes: &'static str) {
        if let Some(recording) = &self.recording {
            recording.object(bucket, key, bytes);
        }
        let stored = Stored { bytes: Bytes::from_static(bytes.as_bytes()), ..Stored::default() };
        self.state.lock().objects.insert((bucket.to_owned(), key.to_owned()), stored);
    }

    /// Names of the operations that ran, in order.
    pub(crate) fn calls(&self) -> Vec<&'static str> {
        self.state.lock().calls.clone()
    }

    /// The headers and the URI that the last operation saw.
    pub(crate) fn last_seen(&self) -> (http::HeaderMap, String) {
        let state = self.state.lock();
        (state.headers.clone(), state.uri.clone())
    }

    /// Records a call, after checking that the layer admitted it as what s3s runs it as.
    fn record<T>(&self, name: &'static str, request: &S3Request<T>) {
        let context = RequestContext::of(&request.extensions).expect("came through the layer");
        assert_eq!(context.operation.name(), name);
        assert_eq!(context.caller.access_key(), "AKIDTEST");
        let mut state = self.state.lock();
        state.calls.push(name);
        state.headers = request.headers.clone();
        state.uri = request.uri.to_string();
    }

    async fn read(&self, body: Option<StreamingBlob>) -> S3Result<(Bytes, usize)> {
        let mut read = Vec::new();
        let mut pieces = 0;
        let mut body = body.expect("PutObject and UploadPart have bodies");
        while let Some(piece) = body.next().await {
            // As an operation that does not know the layer's errors.
            let piece = piece.map_err(|_| S3Error::new(S3ErrorCode::InternalError))?;
            read.extend_from_slice(&piece);
            pieces += 1;
            self.arrived.send_replace(read.len());
        }
        Ok((Bytes::from(read), pieces))
    }
}

/// Operations of which only the call matters.
macro_rules! recorded {
    ($($method:ident $name:ident $input:ident $output:ident,)*) => {
        #[async_trait::async_trait]
        impl S3 for Memory {
            $(
                async fn $method(&self, request: S3Request<$input>) -> S3Result<S3Response<$output>> {
                    self.record(stringify!($name), &request);
                    Ok(S3Response::new($output::default()))
                }
            )*

            async fn list_objects_v2(
                &self,
                request: S3Request<ListObjectsV2Input>,
            ) -> S3Result<S3Response<ListObjectsV2Output>> {
                self.record("ListObjectsV2", &request);
                let bucket = request.input.bucket;
                let keys = self.state.lock().objects.keys().filter(|(of, _)| *of == bucket).map(|(_, key)| {
                    Object { key: Some(key.clone()), ..Object::default() }
                }).collect();
                Ok(S3Response::new(ListObjectsV2Output { contents: Some(keys), ..ListObjectsV2Output::default() }))
            }

            async fn create_multipart_upload(
                &self,
                request: S3Request<CreateMultipartUploadInput>,
            ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
                self.record("CreateMultipartUpload", &request);
                let context = RequestContext::of(&request.extensions).expect("came through the layer");
                let hidden = context.extras.content_type.as_ref();
                let content_type = hidden.and_then(|value| value.to_str().ok()).map(str::to_owned);
                let content_type = content_type.or(request.input.content_type);
                let stored = Stored { content_type, ..Stored::default() };
                let key = (request.input.bucket, request.input.key);
                self.state.lock().objects.insert(key, stored);
                let upload_id = Some("u1".to_owned());
                Ok(S3Response::new(CreateMultipartUploadOutput { upload_id, ..Default::default() }))
            }

            async fn upload_part(
                &self,
                request: S3Request<UploadPartInput>,
            ) -> S3Result<S3Response<UploadPartOutput>> {
                self.record("UploadPart", &request);
                self.read(request.input.body).await?;
                let e_tag = Some(ETag::Strong("p".to_owned()));
                Ok(S3Response::new(UploadPartOutput { e_tag, ..Default::default() }))
            }

            async fn put_object(&self, request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
                self.record("PutObject", &request);
                let S3Request { input, extensions, .. } = request;
                let (bytes, pieces) = self.read(input.body).await?;
                let context = RequestContext::of(&extensions).expect("came through the layer");
                let trailer = context.trailers.checksum();
                let stored = Stored {
                    bytes,
                    content_type: input.content_type,
                    content_encoding: input.content_encoding,
                    content_length: input.content_length,
                    metadata: input.metadata.unwrap_or_default(),
                    trailer: trailer.and_then(|trailer| trailer.value.to_str().ok()).map(str::to_owned),
                    pieces,
                };
                self.state.lock().objects.insert((input.bucket, input.key), stored);
                Ok(S3Response::new(PutObjectOutput::default()))
            }

            async fn get_object(&self, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
                self.record("GetObject", &request);
                match &*request.input.key {
                    "overload" => return Err(S3Error::new(S3ErrorCode::SlowDown)),
                    "unmodified" => return Err(S3Error::new(S3ErrorCode::NotModified)),
                    "full" => {
                        let mut error = S3Error::new(S3ErrorCode::Custom("InsufficientStorage".into()));
                        error.set_status_code(StatusCode::INSUFFICIENT_STORAGE);
                        let mut headers = http::HeaderMap::new();
                        headers.insert("x-mine", http::HeaderValue::from_static("1"));
                        error.set_headers(headers);
                        return Err(error);
                    }
                    _ => {}
                }
                let stored = self.object(&request.input.bucket, &request.input.key);
                let stored = stored.ok_or_else(|| S3Error::new(S3ErrorCode::NoSuchKey))?;
                Ok(S3Response::new(GetObjectOutput {
                    content_length: i64::try_from(stored.bytes.len()).ok(),
                    body: Some(StreamingBlob::from(s3s::Body::from(stored.bytes))),
                    ..GetObjectOutput::default()
                }))
            }

            async fn delete_objects(
                &self,
                request: S3Request<DeleteObjectsInput>,
            ) -> S3Result<S3Response<DeleteObjectsOutput>> {
                self.record("DeleteObjects", &request);
                let DeleteObjectsInput { bucket, delete, .. } = request.input;
                let mut state = self.state.lock();
                let deleted = delete.objects.into_iter().map(|ObjectIdentifier { key, .. }| {
                    state.objects.remove(&(bucket.clone(), key.clone()));
                    DeletedObject { key: Some(key), ..DeletedObject::default() }
                });
                let deleted = Some(deleted.collect());
                Ok(S3Response::new(DeleteObjectsOutput { deleted, ..DeleteObjectsOutput::default() }))
            }

            async fn head_object(&self, request: S3Request<HeadObjectInput>) -> S3Result<S3Response<HeadObjectOutput>> {
                self.record("HeadObject", &request);
                let stored = self.object(&request.input.bucket, &request.input.key);
                let stored = stored.ok_or_else(|| S3Error::new(S3ErrorCode::NoSuchKey))?;
                let content_length = i64::try_from(stored.bytes.len()).ok();
                let mut response = S3Response::new(HeadObjectOutput { content_length, ..Default::default() });
                if request.input.range.is_some() {
                    response.extensions.insert(StatusCode::PARTIAL_CONTENT);
                }
                Ok(response)
            }
        }
    };
}

recorded! {
    list_buckets ListBuckets ListBucketsInput ListBucketsOutput,
    create_bucket CreateBucket CreateBucketInput CreateBucketOutput,
    head_bucket HeadBucket HeadBucketInput HeadBucketOutput,
    delete_bucket DeleteBucket DeleteBucketInput DeleteBucketOutput,
    get_bucket_location GetBucketLocation GetBucketLocationInput GetBucketLocationOutput,
    list_objects ListObjects ListObjectsInput ListObjectsOutput,
    list_multipart_uploads ListMultipartUploads ListMultipartUploadsInput ListMultipartUploadsOutput,
    copy_object CopyObject CopyObjectInput CopyObjectOutput,
    delete_object DeleteObject DeleteObjectInput DeleteObjectOutput,
    upload_part_copy UploadPartCopy UploadPartCopyInput UploadPartCopyOutput,
    complete_multipart_upload CompleteMultipartUpload CompleteMultipartUploadInput CompleteMultipartUploadOutput,
    abort_multipart_upload AbortMultipartUpload AbortMultipartUploadInput AbortMultipartUploadOutput,
    list_parts ListParts ListPartsInput ListPartsOutput,
    get_bucket_versioning GetBucketVersioning GetBucketVersioningInput GetBucketVersioningOutput,
    get_bucket_tagging GetBucketTagging GetBucketTaggingInput GetBucketTaggingOutput,
    get_bucket_policy GetBucketPolicy GetBucketPolicyInput GetBucketPolicyOutput,
    get_bucket_policy_status GetBucketPolicyStatus GetBucketPolicyStatusInput GetBucketPolicyStatusOutput,
    get_bucket_cors GetBucketCors GetBucketCorsInput GetBucketCorsOutput,
    get_bucket_lifecycle_configuration GetBucketLifecycleConfiguration GetBucketLifecycleConfigurationInput GetBucketLifecycleConfigurationOutput,
    get_bucket_website GetBucketWebsite GetBucketWebsiteInput GetBucketWebsiteOutput,
    get_bucket_encryption GetBucketEncryption GetBucketEncryptionInput GetBucketEncryptionOutput,
    get_bucket_replication GetBucketReplication GetBucketReplicationInput GetBucketReplicationOutput,
    get_public_access_block GetPublicAccessBlock GetPublicAccessBlockInput GetPublicAccessBlockOutput,
    get_object_lock_configuration GetObjectLockConfiguration GetObjectLockConfigurationInput GetObjectLockConfigurationOutput,
    get_bucket_logging GetBucketLogging GetBucketLoggingInput GetBucketLoggingOutput,
    get_bucket_notification_configuration GetBucketNotificationConfiguration GetBucketNotificationConfigurationInput GetBucketNotificationConfigurationOutput,
    get_bucket_accelerate_configuration GetBucketAccelerateConfiguration GetBucketAccelerateConfigurationInput GetBucketAccelerateConfigurationOutput,
    get_bucket_request_payment GetBucketRequestPayment GetBucketRequestPaymentInput GetBucketRequestPaymentOutput,
    get_bucket_ownership_controls GetBucketOwnershipControls GetBucketOwnershipControlsInput GetBucketOwnershipControlsOutput,
    get_bucket_acl GetBucketAcl GetBucketAclInput GetBucketAclOutput,
    get_object_attributes GetObjectAttributes GetObjectAttributesInput GetObjectAttributesOutput,
    get_object_acl GetObjectAcl GetObjectAclInput GetObjectAclOutput,
    get_object_tagging GetObjectTagging GetObjectTaggingInput GetObjectTaggingOutput,
    get_object_retention GetObjectRetention GetObjectRetentionInput GetObjectRetentionOutput,
    get_object_legal_hold GetObjectLegalHold GetObjectLegalHoldInput GetObjectLegalHoldOutput,
    list_object_versions ListObjectVersions ListObjectVersionsInput ListObjectVersionsOutput,
    delete_bucket_policy DeleteBucketPolicy DeleteBucketPolicyInput DeleteBucketPolicyOutput,
    delete_bucket_cors DeleteBucketCors DeleteBucketCorsInput DeleteBucketCorsOutput,
    delete_bucket_lifecycle DeleteBucketLifecycle DeleteBucketLifecycleInput DeleteBucketLifecycleOutput,
    put_bucket_tagging PutBucketTagging PutBucketTaggingInput PutBucketTaggingOutput,
    delete_bucket_tagging DeleteBucketTagging DeleteBucketTaggingInput DeleteBucketTaggingOutput,
    delete_bucket_website DeleteBucketWebsite DeleteBucketWebsiteInput DeleteBucketWebsiteOutput,
    delete_bucket_encryption DeleteBucketEncryption DeleteBucketEncryptionInput DeleteBucketEncryptionOutput,
    delete_bucket_replication DeleteBucketReplication DeleteBucketReplicationInput DeleteBucketReplicationOutput,
    delete_bucket_ownership_controls DeleteBucketOwnershipControls DeleteBucketOwnershipControlsInput DeleteBucketOwnershipControlsOutput,
    delete_public_access_block DeletePublicAccessBlock DeletePublicAccessBlockInput DeletePublicAccessBlockOutput,
    delete_object_tagging DeleteObjectTagging DeleteObjectTaggingInput DeleteObjectTaggingOutput,
}
