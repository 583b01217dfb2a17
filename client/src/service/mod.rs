//! A service as programs use it: objects as bytes, files and streams, over one client and one engine.
//!
//! Nothing here borrows from its caller, so that bindings hold it. Work ends when its future, reader or
//! writer is dropped: what an upload has begun is removed, and no file keeps a temporary name.
//!
//! ```text
//! options    where the service is, its keys, and the engine's settings
//! stream     an object that is read piece by piece, and one that is written so
//! many       many objects, read ahead of their reader
//! ```

pub mod options;
pub mod stream;
pub mod many;

use std::path::Path;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio_util::sync::CancellationToken;

use self::options::ServiceOptions;
use crate::checksum::{Checksum, ChecksumAlgorithm};
use crate::client::Client;
use crate::error::{Error, NameFault, PlanError};
use crate::limits::{
    ATTEMPTS_MAX, DELETE_KEYS_MAX, HELD_BYTES_MAX, KEY_BYTES_MAX, PRESIGN_SECONDS_MAX, SINGLE_BYTES_MAX,
};
use crate::local::media_type::media_type;
use crate::payload::Payload;
use crate::s3::buckets::BucketEntry;
use crate::s3::listing::{Entries, ListQuery};
use crate::s3::objects::{DeleteRefusal, ObjectAttributes, ObjectInfo, ObjectName, ObjectRange};
use crate::transfer::copy::ObjectSide;
use crate::transfer::engine::Engine;
use crate::transfer::fetch::{FetchPart, Sink, fetch};
use crate::transfer::pipe::pipe_all;
use crate::transfer::progress::Progress;

/// A service. Cheap to clone; clones share connections and places for requests.
#[derive(Debug, Clone)]
pub struct Service {
    client: Client,
    engine: Engine,
}

/// Bytes of an object that are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ByteRange {
    /// The first byte. Nothing lies behind the end of an object.
    pub offset: u64,
    /// Bytes; none asks for all up to the end.
    pub bytes: Option<u64>,
}

impl ByteRange {
    /// The range of one version; none if no byte of it is there.
    fn of(self, info: &ObjectInfo) -> Option<ObjectRange> {
        let left = info.bytes.saturating_sub(self.offset);
        let bytes = self.bytes.map_or(left, |bytes| bytes.min(left));
        (bytes > 0).then(|| ObjectRange { offset: self.offset, bytes, etag: info.etag.clone() })
    }
}

/// The method that a presigned URL is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PresignedMethod {
    /// Reads the object.
    Get,
    /// Stores the object.
    Put,
}

/// Holds an object in memory, if it is not too large.
struct HeldBody(BytesMut);

impl Sink for HeldBody {
    async fn begin(&mut self, info: &ObjectInfo) -> Result<(), Error> {
        check_held(info.bytes)?;
        self.0.reserve(usize::try_from(info.bytes).unwrap_or_default());
        Ok(())
    }

    async fn write(&mut self, _at: u64, bytes: Bytes) -> Result<(), Error> {
        self.0.extend_from_slice(&bytes);
        Ok(())
    }
}

impl Service {
    /// Makes a service. Files of profiles, aliases and certificates are read, and nothing is sent. Blocks.
    ///
    /// # Errors
    /// [`Error::Credentials`], [`Error::Endpoint`], [`Error::Plan`].
    pub fn open(options: &ServiceOptions) -> Result<Self, Error> {
        let (progress, _events) = Progress::new();
        let attempts = options.transfers.attempts;
        if !(1..=ATTEMPTS_MAX).contains(&attempts) {
            return Err(PlanError::Attempts.into());
        }
        let engine = Engine::new(options.transfers.clone(), progress)?;
        let client = Client::new(options.account()?, attempts, CancellationToken::new())?;
        Ok(Self { client, engine })
    }

    /// The client, for calls of S3 that need no engine.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The same service, whose transfers count their bytes in `progress`.
    #[must_use]
    pub fn reporting_to(&self, progress: Progress) -> Self {
        Self { client: self.client.clone(), engine: self.engine.reporting_to(progress) }
    }

    /// The same service, whose work ends with [`Error::Cancelled`] when the token is cancelled: after what it
    /// began is cleaned up, while a future that is dropped leaves that to a task.
    #[must_use]
    pub fn cancelled_by(&self, cancelled: CancellationToken) -> Self {
        Self { client: self.client.cancelled_by(cancelled), engine: self.engine.clone() }
    }

    /// Stores bytes of memory; what is larger than one request takes, in parts. Returns their number.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn put(
        &self,
        object: &ObjectName,
        bytes: Bytes,
        attributes: &ObjectAttributes,
    ) -> Result<u64, Error> {
        check(object)?;
        let attributes = typed(object, attributes);
        let count = bytes.len() as u64;
        self.engine.progress().planned(count);
        if count > SINGLE_BYTES_MAX {
            return pipe_all(&self.engine, &self.client, Box::new(bytes.reader()), object, &attributes).await;
        }
        let _place = self.engine.place().await;
        let checksum = Checksum::of(ChecksumAlgorithm::Crc64Nvme, &bytes);
        let meter = self.engine.progress().meter();
        self.client.put(object, Payload::Bytes(bytes), checksum, &attributes, &meter).await?;
        Ok(count)
    }

    /// Reads an object, or a range of it, into memory.
    ///
    /// # Errors
    /// [`PlanError::Held`] for more than 5 GiB, and others of [`Error`].
    pub async fn get(&self, object: &ObjectName, range: Option<ByteRange>) -> Result<Bytes, Error> {
        check(object)?;
        let part = match range {
            None => FetchPart::Whole,
            Some(range) => match range.of(&self.client.head(object).await?) {
                None => return Ok(Bytes::new()),
                Some(range) => {
                    check_held(range.bytes)?;
                    FetchPart::Range(range, ChecksumAlgorithm::Crc64Nvme)
                }
            },
        };
        if let FetchPart::Range(..) = part {
            let mut body = BytesMut::new();
            fetch(&self.engine, &self.client, object, part, &mut body).await?;
            return Ok(body.freeze());
        }
        let mut body = HeldBody(BytesMut::new());
        fetch(&self.engine, &self.client, object, part, &mut body).await?;
        Ok(body.0.freeze())
    }

    /// Uploads a file. Returns its bytes.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn upload(
        &self,
        path: &Path,
        object: &ObjectName,
        attributes: &ObjectAttributes,
    ) -> Result<u64, Error> {
        check(object)?;
        // A file that is not there is an error of the upload.
        self.engine.progress().planned(tokio::fs::metadata(path).await.map_or(0, |metadata| metadata.len()));
        let uploaded = self.engine.upload(&self.client, path, object, &typed(object, attributes)).await?;
        Ok(uploaded.bytes)
    }

    /// Downloads an object to a file, which has its name only once all of it is there. Returns what was read.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn download(&self, object: &ObjectName, path: &Path) -> Result<ObjectInfo, Error> {
        check(object)?;
        let bytes = self.client.head(object).await?.bytes;
        self.engine.progress().planned(bytes);
        self.engine.download(&self.client, object, path, Some(bytes)).await
    }

    /// Copies an object of this service with its headers; `attributes` replace those. Returns what was
    /// copied.
    ///
    /// # Errors
    /// [`Error`]; [`NameFault::Overlap`] for an object and itself.
    pub async fn copy(
        &self,
        from: &ObjectName,
        to: &ObjectName,
        attributes: Option<&ObjectAttributes>,
    ) -> Result<ObjectInfo, Error> {
        check(from)?;
        check(to)?;
        if from == to {
            return Err(Error::name(from.to_string(), NameFault::Overlap));
        }
        let side = |object| ObjectSide { client: &self.client, object };
        self.engine.copy(side(from), side(to), attributes).await
    }

    /// Returns an object's head.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn stat(&self, object: &ObjectName) -> Result<ObjectInfo, Error> {
        check(object)?;
        self.client.head(object).await
    }

    /// Lists the buckets of the caller.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn buckets(&self) -> Result<Vec<BucketEntry>, Error> {
        self.client.buckets().await
    }

    /// Makes a bucket in the service's region.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn create_bucket(&self, bucket: &str) -> Result<(), Error> {
        check_bucket(bucket)?;
        self.client.create_bucket(bucket).await
    }

    /// Removes an empty bucket.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn delete_bucket(&self, bucket: &str) -> Result<(), Error> {
        check_bucket(bucket)?;
        self.client.delete_bucket(bucket).await
    }

    /// Lists objects in the order of their keys, ahead of their reader.
    ///
    /// # Errors
    /// [`NameFault::Empty`] without a bucket.
    pub fn list(&self, query: ListQuery) -> Result<Entries, Error> {
        check_bucket(&query.bucket)?;
        Ok(self.client.list(query))
    }

    /// Removes an object; one that is not there counts as removed.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn delete(&self, object: &ObjectName) -> Result<(), Error> {
        check(object)?;
        self.client.delete(object).await
    }

    /// Removes objects of a bucket, a thousand in a request, and returns those that were not.
    ///
    /// # Errors
    /// [`Error`] of the first request that failed as a whole; what earlier ones removed is gone.
    pub async fn delete_many(&self, bucket: &str, keys: &[String]) -> Result<Vec<DeleteRefusal>, Error> {
        check_bucket(bucket)?;
        for key in keys {
            check_key(bucket, key)?;
        }
        let mut refused = Vec::new();
        for batch in keys.chunks(DELETE_KEYS_MAX) {
            refused.extend(self.client.delete_many(bucket, batch).await?);
        }
        Ok(refused)
    }

    /// Makes a URL with which the object is read or stored without keys for `seconds`.
    ///
    /// # Errors
    /// [`PlanError::Expiry`] for no second or more than seven days, [`Error::Credentials`] without keys.
    pub fn presign(
        &self,
        method: PresignedMethod,
        object: &ObjectName,
        seconds: u64,
    ) -> Result<String, Error> {
        check(object)?;
        if !(1..=PRESIGN_SECONDS_MAX).contains(&seconds) {
            return Err(PlanError::Expiry.into());
        }
        let method = match method {
            PresignedMethod::Get => "GET",
            PresignedMethod::Put => "PUT",
        };
        self.client.presign(method, &object.bucket, &object.key, seconds)
    }

    /// Waits until all that dropped transfers left behind is cleaned up. Readers and lists must have ended.
    pub async fn finish(&self) {
        self.client.finish().await;
    }
}

/// The attributes, with the type of the key's end where they name none.
fn typed(object: &ObjectName, attributes: &ObjectAttributes) -> ObjectAttributes {
    let mut attributes = attributes.clone();
    let has_type = attributes.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if let Some(kind) = media_type(&object.key).filter(|_| !has_type) {
        attributes.headers.push(("content-type".to_owned(), kind.to_owned()));
    }
    attributes
}

/// A request without a key would be about its bucket.
fn check(object: &ObjectName) -> Result<(), Error> {
    check_bucket(&object.bucket)?;
    check_key(&object.bucket, &object.key)
}

fn check_bucket(bucket: &str) -> Result<(), Error> {
    if bucket.is_empty() { Err(Error::name("s3://", NameFault::Empty)) } else { Ok(()) }
}

fn check_key(bucket: &str, key: &str) -> Result<(), Error> {
    let fault = match key.len() {
        0 => NameFault::Empty,
        bytes if bytes > KEY_BYTES_MAX => NameFault::Long,
        _ => return Ok(()),
    };
    Err(Error::name(format!("s3://{bucket}/{key}"), fault))
}

fn check_held(bytes: u64) -> Result<(), PlanError> {
    if bytes > HELD_BYTES_MAX { Err(PlanError::Held { bytes }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service() -> Service {
        let mut options = ServiceOptions::default();
        options.overrides.endpoint = Some("http://127.0.0.1:1".to_owned());
        options.overrides.anonymous = true;
        Service::open(&options).expect("nothing is sent")
    }

    #[tokio::test]
    async fn a_request_without_a_key_is_refused_before_it_is_about_the_bucket() {
        let service = service();
        let object = ObjectName::new("bucket", "");
        let is_empty = |error| matches!(error, Error::Name { reason: NameFault::Empty, .. });
        assert!(is_empty(service.delete(&object).await.unwrap_err()));
        assert!(is_empty(service.delete(&ObjectName::new("", "key")).await.unwrap_err()));
        assert!(is_empty(service.delete_many("bucket", &[String::new()]).await.unwrap_err()));
        assert!(is_empty(service.get(&object, None).await.unwrap_err()));
        assert!(is_empty(
            service.put(&object, Bytes::new(), &ObjectAttributes::default()).await.unwrap_err()
        ));
        let long = ObjectName::new("bucket", "k".repeat(KEY_BYTES_MAX + 1));
        assert!(matches!(
            service.stat(&long).await.unwrap_err(),
            Error::Name { reason: NameFault::Long, .. }
        ));
    }

    #[test]
    fn a_range_is_cut_at_the_end_of_the_object() {
        let info = ObjectInfo {
            bytes: 10,
            etag: "\"e\"".to_owned(),
            modified: None,
            checksum: None,
            version: None,
            storage_class: None,
            attributes: ObjectAttributes::default(),
        };
        let of =
            |offset, bytes| ByteRange { offset, bytes }.of(&info).map(|range| (range.offset, range.bytes));
        assert_eq!(of(0, None), Some((0, 10)));
        assert_eq!(of(8, Some(5)), Some((8, 2)));
        assert_eq!(of(u64::MAX, Some(u64::MAX)), None);
        assert_eq!((of(10, None), of(0, Some(0))), (None, None));
    }

    #[test]
    fn no_second_and_more_than_seven_days_are_refused() {
        for seconds in [0, PRESIGN_SECONDS_MAX + 1] {
            let error = service().presign(PresignedMethod::Get, &ObjectName::new("b", "k"), seconds);
            assert!(matches!(error, Err(Error::Plan(PlanError::Expiry))), "{seconds}");
        }
    }

    #[test]
    fn an_object_has_the_type_of_its_key_unless_one_is_given() {
        let object = ObjectName::new("b", "a.html");
        let given = ObjectAttributes {
            headers: vec![("Content-Type".to_owned(), "text/plain".to_owned())],
            tags: Vec::new(),
        };
        assert_eq!(typed(&object, &given), given);
        let headers = typed(&object, &ObjectAttributes::default()).headers;
        assert_eq!(headers, [("content-type".to_owned(), "text/html".to_owned())]);
    }
}
