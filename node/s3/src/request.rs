//! A request as its operation reads it: admitted, with everything that it says taken apart once.

use std::fmt;

use bytes::Bytes;
use futures::StreamExt as _;
use sherd_core::id::ObjectKey;
use sherd_core::register::call::ClientCall;
use sherd_front::source::Source;

use crate::access::Access;
use crate::head::names::NamedVersion;
use crate::head::request_head::RequestHead;
use crate::wire::checksum::{self, DeclaredChecksum};
use crate::wire::context::{RequestId, Trailers};
use crate::wire::form::success::SuccessAction;
use sherd_store::object::{
    BodyStream, BucketRef, ExpectedChecksum, LookupError, ObjectName, Upload, UploadBody,
};

/// The bucket or object that a request addresses.
#[derive(Debug, Clone)]
pub enum Target {
    /// All buckets.
    Service,
    /// A bucket.
    Bucket(BucketRef),
    /// An object.
    Object(ObjectName),
}

impl Target {
    /// The bucket's name; empty for the service.
    pub fn bucket_name(&self) -> &str {
        match self {
            Self::Service => "",
            Self::Bucket(bucket) | Self::Object(ObjectName { bucket, .. }) => bucket.name().as_str(),
        }
    }

    /// The object's key; empty for a bucket and the service.
    pub fn key(&self) -> &str {
        match self {
            Self::Service | Self::Bucket(_) => "",
            Self::Object(name) => name.key.as_str(),
        }
    }

    /// Whether it is an object whose bucket was looked up and is not there.
    pub(crate) const fn is_in_missing_bucket(&self) -> bool {
        let Self::Object(ObjectName { bucket, .. }) = self else { return false };
        matches!(bucket, BucketRef::Failed { error: LookupError::Missing, .. })
    }

    /// The bucket of the address; `None` for the service.
    pub(crate) const fn bucket_mut(&mut self) -> Option<&mut BucketRef> {
        match self {
            Self::Service => None,
            Self::Bucket(bucket) | Self::Object(ObjectName { bucket, .. }) => Some(bucket),
        }
    }

    /// The bucket.
    ///
    /// # Panics
    /// Where the operation's row has another level.
    pub fn bucket(self) -> BucketRef {
        match self {
            Self::Bucket(bucket) => bucket,
            Self::Service | Self::Object(_) => panic!("the operation is one on a bucket"),
        }
    }

    /// The name of the bucket, for what works on the bucket's register itself.
    ///
    /// # Panics
    /// As [`Self::bucket`].
    pub fn bucket_key(self) -> ObjectKey {
        self.bucket().into_name()
    }

    /// The object.
    ///
    /// # Panics
    /// Where the operation's row has another level.
    pub fn object(self) -> ObjectName {
        match self {
            Self::Object(name) => name,
            Self::Service | Self::Bucket(_) => panic!("the operation is one on an object"),
        }
    }
}

/// The body behind the head.
pub enum RequestBody {
    /// Nothing.
    Empty,
    /// A document, verified, in the form that the parser takes.
    Document(Bytes),
    /// An object's bytes.
    Stream(BodyStream),
}

/// A body, and the headers that describe it.
#[derive(Debug)]
pub struct Payload {
    /// The checksum that its headers declare.
    pub checksum: DeclaredChecksum,
    /// Content-MD5, where an operation takes a body.
    pub md5: Option<[u8; 16]>,
    /// Bytes without frames.
    pub length: u64,
    /// The body.
    pub body: RequestBody,
    /// The trailer behind it.
    pub trailers: Trailers,
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "Empty",
            Self::Document(_) => "Document(..)",
            Self::Stream(_) => "Stream(..)",
        })
    }
}

impl Payload {
    /// The bytes of an object or a part.
    pub fn into_upload(self) -> Upload {
        let Self { checksum, md5, length, body, trailers } = self;
        let body = match body {
            RequestBody::Stream(stream) => stream,
            RequestBody::Empty | RequestBody::Document(_) => futures::stream::empty().boxed(),
        };
        let body = UploadBody::Client(body);
        let trailer = checksum.trailer.map(|algorithm| ExpectedChecksum::Trailer {
            algorithm,
            value: Box::new(move || {
                let trailer = trailers.checksum().filter(|trailer| trailer.algorithm == algorithm)?;
                let value = trailer.value.as_bytes().trim_ascii();
                checksum::of_whole(algorithm, value).map(|checksum| checksum.value)
            }),
        });
        let checksum = checksum.value.map(ExpectedChecksum::Value).or(trailer);
        Upload { size: length, body, md5, checksum }
    }

    /// Returns its document; `None` where none came. An operation drops it once it is parsed, and holds the
    /// parsed form alone.
    pub fn into_document(self) -> Option<Bytes> {
        match self.body {
            RequestBody::Document(bytes) => Some(bytes),
            RequestBody::Empty | RequestBody::Stream(_) => None,
        }
    }
}

/// A request that was admitted.
#[derive(Debug)]
pub struct Request<'a> {
    /// The id of the request.
    pub id: RequestId,
    /// The bucket or object that it addresses.
    pub target: Target,
    /// The version of the object that it names.
    pub version: Option<NamedVersion>,
    /// The headers and the parameters.
    pub head: RequestHead<'a>,
    /// The place that it came from.
    pub source: Source,
    /// The call that it is a sending of, where its signature vouches for that.
    pub call: Option<ClientCall>,
    /// The rights of its caller.
    pub access: Access,
    /// The body, and the headers that describe it.
    pub payload: Payload,
    /// The answer that it asks for, where it is a form.
    pub form: Option<SuccessAction>,
}

impl Request<'_> {
    /// Whether the null version is asked for by name: the only one that operations on an object are asked
    /// for.
    pub fn names_null_version(&self) -> bool {
        self.version.is_some()
    }
}
