//! Buckets: list, make, remove, and their unfinished uploads.

use std::time::SystemTime;

use http::Method;

use crate::client::{Call, Client};
use crate::credentials::source::REGION;
use crate::document::{self, ListBuckets, UploadsPage};
use crate::error::Error;
use crate::payload::Payload;

/// A bucket of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketEntry {
    /// The name.
    pub name: String,
    /// The time at which it was made.
    pub created: Option<SystemTime>,
}

impl Client {
    /// Lists the buckets of the caller.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn buckets(&self) -> Result<Vec<BucketEntry>, Error> {
        let body = self.document(&Call::new(Method::GET)).await?;
        let list: ListBuckets = document::read(&body).ok_or_else(|| Error::Malformed {
            resource: self.account().endpoint.url(),
            what: "the body is not a list of buckets",
        })?;
        let entry = |bucket: document::BucketElement| BucketEntry {
            created: humantime::parse_rfc3339_weak(&bucket.creation_date).ok(),
            name: bucket.name,
        };
        Ok(list.buckets.bucket.into_iter().map(entry).collect())
    }

    /// Makes a bucket in the account's region.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn create_bucket(&self, bucket: &str) -> Result<(), Error> {
        let region = self.account().region.as_str();
        let body = if region == REGION { bytes::Bytes::new() } else { document::location_body(region) };
        self.document(&Call::bucket(Method::PUT, bucket).payload(Payload::Bytes(body))).await.map(drop)
    }

    /// Removes an empty bucket.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn delete_bucket(&self, bucket: &str) -> Result<(), Error> {
        self.document(&Call::bucket(Method::DELETE, bucket)).await.map(drop)
    }

    /// Refuses a bucket that is not there or not the caller's to use.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn head_bucket(&self, bucket: &str) -> Result<(), Error> {
        self.send(&Call::bucket(Method::HEAD, bucket)).await.map(drop)
    }

    /// Lists the first uploads of a bucket that are under way: key and id.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn uploads(&self, bucket: &str) -> Result<Vec<(String, String)>, Error> {
        let call = Call::bucket(Method::GET, bucket).query("uploads", "");
        let body = self.document(&call).await?;
        let page: Option<UploadsPage> = document::read(&body);
        let malformed = || Error::Malformed {
            resource: format!("s3://{bucket}"),
            what: "the body is not a list of uploads",
        };
        let uploads = page.ok_or_else(malformed)?.upload;
        Ok(uploads.into_iter().map(|upload| (upload.key, upload.upload_id)).collect())
    }
}
