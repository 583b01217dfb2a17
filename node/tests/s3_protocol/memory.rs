//! Operations that keep what they were given: the far end of the protocol layer.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{self, BoxFuture, Either};
use futures::{FutureExt as _, StreamExt as _};
use http::StatusCode;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, RANGE};
use parking_lot::Mutex;
use s3s::Body;
use s3s::dto::{
    CompleteMultipartUploadOutput, CompletedMultipartUpload, CopyObjectResult, CreateMultipartUploadOutput,
    Delete, DeleteObjectsOutput, DeletedObject, ListBucketsOutput, ListObjectsV2Output, Object,
};
use s3s::xml::{Deserialize, Deserializer};
use sherd_core::config::cors::Cors;
use sherd_core::config::public_access::PublicAccessBlock;
use sherd_core::config::{BucketConfig, ConfigEntry, ConfigKind, ConfigValue};
use sherd_core::id::{BucketId, ObjectKey};
use sherd_core::record::{Entries, Tag};
use tokio::sync::watch;

use crate::record::Recording;
use sherd_s3::answer::Outcome;
use sherd_s3::answer::{self, Response};
use sherd_s3::head::request_head::RequestHead;
use sherd_s3::operation::{AccountBlockLookup, BucketLookup, Operation, Operations};
use sherd_s3::request::{Payload, Request, RequestBody};
use sherd_s3::wire::checksum::DeclaredChecksum;
use sherd_s3::wire::refusal::{Code, Refusal};
use sherd_store::object::{self as store, BucketRef, BucketView, LookupError, MissingResource, ObjectName};

/// Headers of requests that are kept for tests.
const SEEN: &[&str] = &[
    "authorization",
    "if-none-match",
    "x-amz-checksum-crc32",
    "x-amz-checksum-crc64nvme",
    "x-amz-sdk-checksum-algorithm",
];
/// Names of user metadata that is kept.
const METADATA: &[&str] = &["colour"];

/// An object as it arrived.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stored {
    pub(crate) bytes: Bytes,
    pub(crate) content_type: Option<String>,
    pub(crate) size: u64,
    pub(crate) metadata: HashMap<String, String>,
    pub(crate) trailer: Option<String>,
    pub(crate) pieces: usize,
}

#[derive(Debug, Default)]
struct State {
    objects: HashMap<(String, String), Stored>,
    calls: Vec<&'static str>,
    /// Buckets that were looked up.
    looked_up: Vec<String>,
    /// Buckets that are configured, by name.
    views: HashMap<String, BucketView>,
    /// Tags of objects, by bucket and key.
    tags: HashMap<(String, String), Vec<Tag>>,
    headers: HeaderMap,
    checksum: DeclaredChecksum,
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
        self.store(bucket, key, Stored { bytes: Bytes::from_static(bytes.as_bytes()), ..Stored::default() });
    }

    /// Names of the operations that ran, in order.
    pub(crate) fn calls(&self) -> Vec<&'static str> {
        self.state.lock().calls.clone()
    }

    /// Buckets that were looked up, in order.
    pub(crate) fn looked_up(&self) -> Vec<String> {
        self.state.lock().looked_up.clone()
    }

    /// Gives an object a tag.
    pub(crate) fn tag(&self, bucket: &str, key: &str, tag: (&str, &str)) {
        let tag = Tag { key: tag.0.to_owned(), value: tag.1.to_owned() };
        self.state.lock().tags.insert((bucket.to_owned(), key.to_owned()), vec![tag]);
    }

    /// Gives a bucket stored bytes for its policy.
    pub(crate) fn store_policy(&self, bucket: &str, bytes: Bytes) {
        let mut entries = Entries::default();
        entries.set(ConfigKind::BucketPolicy.number(), ConfigEntry::Inline(bytes).encode());
        let name = ObjectKey::new(bucket.to_owned()).expect("a name");
        self.state.lock().views.insert(bucket.to_owned(), view(name, &entries));
    }

    /// Gives a bucket these cross-origin rules; `None` makes a bucket without any.
    pub(crate) fn configure(&self, bucket: &str, rules: Option<Cors>) {
        let mut entries = Entries::default();
        if let Some(rules) = rules {
            let value = ConfigValue::from(rules);
            entries.set(value.kind().number(), ConfigEntry::Inline(value.encode()).encode());
        }
        let name = ObjectKey::new(bucket.to_owned()).expect("a name");
        self.state.lock().views.insert(bucket.to_owned(), view(name, &entries));
    }

    /// The headers of [`SEEN`] that the last operation saw, and the checksum that they declare.
    pub(crate) fn last_seen(&self) -> (HeaderMap, DeclaredChecksum) {
        let state = self.state.lock();
        (state.headers.clone(), state.checksum.clone())
    }

    fn store(&self, bucket: &str, key: &str, stored: Stored) {
        self.state.lock().objects.insert((bucket.to_owned(), key.to_owned()), stored);
    }

    fn record(&self, operation: Operation, request: &Request<'_>) {
        let mut state = self.state.lock();
        state.calls.push(operation.name());
        let seen = SEEN.iter().filter_map(|name| {
            let value = HeaderValue::try_from(&*request.head.value(*name)?).expect("a value");
            Some((HeaderName::from_static(name), value))
        });
        state.headers = seen.collect();
        state.checksum = request.payload.checksum.clone();
    }

    async fn serve(&self, operation: Operation, request: Request<'_>) -> Outcome<Response> {
        // An operation begins by reading its document.
        match operation {
            Operation::DeleteObjects => drop(parsed::<Delete>(&request.payload)?),
            Operation::CompleteMultipartUpload => drop(parsed::<CompletedMultipartUpload>(&request.payload)?),
            _ => {}
        }
        self.record(operation, &request);
        let (bucket, key) = (request.target.bucket_name().to_owned(), request.target.key().to_owned());
        match operation {
            Operation::PutObject | Operation::PostObject => {
                let stored = self.read(&request.head, request.payload).await?;
                self.store(&bucket, &key, stored);
                Ok(answer::empty(StatusCode::OK, HeaderMap::new()))
            }
            Operation::UploadPart => {
                self.read(&request.head, request.payload).await?;
                let headers = HeaderMap::from_iter([(ETAG, HeaderValue::from_static("\"p\""))]);
                Ok(answer::empty(StatusCode::OK, headers))
            }
            Operation::CreateMultipartUpload => {
                let content_type = text(&request.head, "content-type");
                self.store(&bucket, &key, Stored { content_type, ..Stored::default() });
                let upload_id = Some("u1".to_owned());
                answer::document(&CreateMultipartUploadOutput { upload_id, ..Default::default() })
            }
            Operation::CompleteMultipartUpload => answer::document(&CompleteMultipartUploadOutput::default()),
            Operation::GetObject => self.get(&bucket, &key),
            Operation::HeadObject => self.head(&bucket, &key, &request.head),
            Operation::ListObjectsV2 => {
                let state = self.state.lock();
                let keys = state.objects.keys().filter(|(of, _)| *of == bucket).map(|(_, key)| key.clone());
                let contents = keys.map(|key| Object { key: Some(key), ..Object::default() }).collect();
                answer::document(&ListObjectsV2Output { contents: Some(contents), ..Default::default() })
            }
            Operation::ListBuckets => answer::document(&ListBucketsOutput::default()),
            Operation::CopyObject => answer::document(&CopyObjectResult::default()),
            Operation::DeleteObjects => {
                let delete: Delete = parsed(&request.payload)?;
                let mut state = self.state.lock();
                let deleted = delete.objects.into_iter().map(|identifier| {
                    state.objects.remove(&(bucket.clone(), identifier.key.clone()));
                    DeletedObject { key: Some(identifier.key), ..DeletedObject::default() }
                });
                let deleted = Some(deleted.collect());
                answer::document(&DeleteObjectsOutput { deleted, ..DeleteObjectsOutput::default() })
            }
            other if other.name().starts_with("Delete") => Ok(answer::no_content()),
            _ => Ok(answer::empty(StatusCode::OK, HeaderMap::new())),
        }
    }

    async fn read(&self, head: &RequestHead<'_>, payload: Payload) -> Outcome<Stored> {
        let trailers = payload.trailers.clone();
        let mut upload = payload.into_upload();
        let mut read = Vec::new();
        let mut pieces = 0;
        while let Some(piece) = upload.body.next().await {
            // As an operation that does not know the layer's errors.
            let piece = piece.map_err(|_| Refusal::new(Code::InternalError))?;
            read.extend_from_slice(&piece);
            pieces += 1;
            self.arrived.send_replace(read.len());
        }
        let metadata = METADATA
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), text(head, &format!("x-amz-meta-{name}"))?)));
        let trailer = trailers.checksum();
        Ok(Stored {
            bytes: Bytes::from(read),
            content_type: text(head, "content-type"),
            size: upload.size,
            metadata: metadata.collect(),
            trailer: trailer.and_then(|trailer| trailer.value.to_str().ok()).map(str::to_owned),
            pieces,
        })
    }

    fn get(&self, bucket: &str, key: &str) -> Outcome<Response> {
        match key {
            "overload" => return Err(Refusal::new(Code::SlowDown).into()),
            "unmodified" => return Err(Refusal::new(Code::NotModified).into()),
            "full" => {
                let (name, value) = ("x-mine".parse().expect("a name"), HeaderValue::from_static("1"));
                return Err(Refusal::new(Code::InsufficientStorage).with_header(name, value).into());
            }
            _ => {}
        }
        let stored = self.object(bucket, key).ok_or(store::Error::Missing(MissingResource::Key))?;
        let mut response = Response::new(Body::from(stored.bytes));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("binary/octet-stream"));
        Ok(response)
    }

    fn head(&self, bucket: &str, key: &str, head: &RequestHead<'_>) -> Outcome<Response> {
        let stored = self.object(bucket, key).ok_or(store::Error::Missing(MissingResource::Key))?;
        let status = if head.value(RANGE).is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
        let length = HeaderValue::from(stored.bytes.len());
        Ok(answer::empty(status, HeaderMap::from_iter([(CONTENT_LENGTH, length)])))
    }
}

impl Operations for Memory {
    fn bucket(&self, name: ObjectKey) -> BucketLookup<'_> {
        let mut state = self.state.lock();
        state.looked_up.push(name.as_str().to_owned());
        let found = match state.views.get(name.as_str()) {
            Some(view) => view.clone().into(),
            None if name.as_str() == NOWHERE => BucketRef::Failed { name, error: LookupError::Missing },
            None => view(name, &Entries::default()).into(),
        };
        Either::Left(future::ready(found))
    }

    fn account_block(&self) -> AccountBlockLookup<'_> {
        Either::Left(future::ready(Ok(PublicAccessBlock::NONE)))
    }

    fn run<'a>(&'a self, operation: Operation, request: Request<'a>) -> BoxFuture<'a, Outcome<Response>> {
        self.serve(operation, request).boxed()
    }

    fn tags<'a>(&'a self, name: &'a ObjectName) -> BoxFuture<'a, store::Result<Vec<Tag>>> {
        let (bucket, key) = (name.bucket.name().as_str(), name.key.as_str());
        let found = self.object(bucket, key).ok_or(store::Error::Missing(MissingResource::Key));
        let tags = self.state.lock().tags.get(&(bucket.to_owned(), key.to_owned())).cloned();
        future::ready(found.map(|_| tags.unwrap_or_default())).boxed()
    }

    fn release_grace(&self) -> Duration {
        Duration::ZERO
    }
}

/// The bucket that is missing.
const NOWHERE: &str = "nowhere";

/// A bucket with a configuration.
fn view(name: ObjectKey, entries: &Entries) -> BucketView {
    let config = Arc::new(BucketConfig::of(entries, None, &[]));
    BucketView { name, id: BucketId([1; 16]), created_ms: 1, config, roots_tags: None }
}

fn text(head: &RequestHead<'_>, name: &str) -> Option<String> {
    head.value(name).map(Cow::into_owned)
}

fn parsed<T: for<'xml> Deserialize<'xml>>(payload: &Payload) -> Result<T, Refusal> {
    let RequestBody::Document(document) = &payload.body else {
        return Err(Refusal::new(Code::MalformedXML));
    };
    let mut parser = Deserializer::new(document);
    let read = T::deserialize(&mut parser).and_then(|read| parser.expect_eof().map(|()| read));
    read.map_err(|_| Refusal::new(Code::MalformedXML))
}
