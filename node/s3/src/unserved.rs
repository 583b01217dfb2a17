//! The table of the operations of S3 that are not served, a row each: how a request for it looks, and why it
//! is answered 501 NotImplemented.
//!
//! The router in `operations` looks here when a request matches no row of its own table, so that the answer
//! and the log name the operation. `docs/s3.md` is made of both tables.

use http::Method;
use sherd_signature::query::Query;

use super::protocol::address::{Address, Level};

/// A row of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct UnservedOperation {
    /// AWS's name, as it stands in its documentation.
    pub name: &'static str,
    method: Method,
    level: Level,
    /// Parameters that must be there, each with its value where only that one names the operation.
    selectors: &'static [&'static str],
    /// The reason, as `docs/s3.md` gives it.
    #[cfg(test)]
    pub(crate) why: &'static str,
}

impl UnservedOperation {
    /// The parameter that names the operation; `None` where its address does.
    pub fn parameter(&self) -> Option<&'static str> {
        self.selectors.first().copied()
    }

    fn matches(&self, method: &Method, level: Level, query: &Query<'_>) -> bool {
        let has = |selector: &&str| match selector.split_once('=') {
            Some((name, value)) => query.text(name).is_some_and(|text| text == value),
            None => query.has(selector),
        };
        self.level == level && self.method == *method && self.selectors.iter().all(has)
    }
}

/// Declares the rows: name, method, level, selectors, and the reason.
macro_rules! table {
    ($($name:ident: $method:ident $level:ident [$($selector:literal),*], $why:expr;)*) => {
        /// The table. Per method and level the more specific rows stand first.
        pub(crate) const UNSERVED: &[UnservedOperation] = &[
            $(
                UnservedOperation {
                    name: stringify!($name),
                    method: Method::$method,
                    level: Level::$level,
                    selectors: &[$($selector),*],
                    #[cfg(test)]
                    why: $why,
                },
            )*
        ];
    };
}

/// Reasons that several rows share.
#[cfg(test)]
mod why {
    pub(super) const ABAC: &str = "tags decide no access";
    pub(super) const ANNOTATIONS: &str = "no annotations";
    pub(super) const DIRECTORY: &str = "no directory buckets";
    pub(super) const ENCRYPTION: &str = "no encryption";
    pub(super) const LIFECYCLE: &str = "nothing expires";
    pub(super) const LOCK: &str = "no Object Lock";
    pub(super) const METADATA: &str = "no metadata tables";
    pub(super) const REPORTS: &str = "AWS's reports and tiers";
}

table! {
    ListDirectoryBuckets: GET Service ["x-id=ListDirectoryBuckets"], why::DIRECTORY;
    CreateSession: GET Bucket ["session"], why::DIRECTORY;
    GetBucketAbac: GET Bucket ["abac"], why::ABAC;
    GetBucketAnalyticsConfiguration: GET Bucket ["analytics", "id"], why::REPORTS;
    ListBucketAnalyticsConfigurations: GET Bucket ["analytics"], why::REPORTS;
    GetBucketIntelligentTieringConfiguration: GET Bucket ["intelligent-tiering", "id"], why::REPORTS;
    ListBucketIntelligentTieringConfigurations: GET Bucket ["intelligent-tiering"], why::REPORTS;
    GetBucketInventoryConfiguration: GET Bucket ["inventory", "id"], why::REPORTS;
    ListBucketInventoryConfigurations: GET Bucket ["inventory"], why::REPORTS;
    GetBucketMetricsConfiguration: GET Bucket ["metrics", "id"], why::REPORTS;
    ListBucketMetricsConfigurations: GET Bucket ["metrics"], why::REPORTS;
    GetBucketMetadataConfiguration: GET Bucket ["metadataConfiguration"], why::METADATA;
    GetBucketMetadataTableConfiguration: GET Bucket ["metadataTable"], why::METADATA;
    PutBucketAbac: PUT Bucket ["abac"], why::ABAC;
    PutBucketAnalyticsConfiguration: PUT Bucket ["analytics"], why::REPORTS;
    PutBucketEncryption: PUT Bucket ["encryption"], why::ENCRYPTION;
    PutBucketIntelligentTieringConfiguration: PUT Bucket ["intelligent-tiering"], why::REPORTS;
    PutBucketInventoryConfiguration: PUT Bucket ["inventory"], why::REPORTS;
    PutBucketLifecycleConfiguration: PUT Bucket ["lifecycle"], why::LIFECYCLE;
    PutBucketMetricsConfiguration: PUT Bucket ["metrics"], why::REPORTS;
    PutBucketReplication: PUT Bucket ["replication"], "no bucket is copied to another place";
    PutBucketWebsite: PUT Bucket ["website"], "no bucket is a website";
    PutObjectLockConfiguration: PUT Bucket ["object-lock"], why::LOCK;
    UpdateBucketMetadataAnnotationTableConfiguration: PUT Bucket ["metadataAnnotationTable"], why::METADATA;
    UpdateBucketMetadataInventoryTableConfiguration: PUT Bucket ["metadataInventoryTable"], why::METADATA;
    UpdateBucketMetadataJournalTableConfiguration: PUT Bucket ["metadataJournalTable"], why::METADATA;
    CreateBucketMetadataConfiguration: POST Bucket ["metadataConfiguration"], why::METADATA;
    CreateBucketMetadataTableConfiguration: POST Bucket ["metadataTable"], why::METADATA;
    DeleteBucketAnalyticsConfiguration: DELETE Bucket ["analytics"], why::REPORTS;
    DeleteBucketIntelligentTieringConfiguration: DELETE Bucket ["intelligent-tiering"], why::REPORTS;
    DeleteBucketInventoryConfiguration: DELETE Bucket ["inventory"], why::REPORTS;
    DeleteBucketMetadataConfiguration: DELETE Bucket ["metadataConfiguration"], why::METADATA;
    DeleteBucketMetadataTableConfiguration: DELETE Bucket ["metadataTable"], why::METADATA;
    DeleteBucketMetricsConfiguration: DELETE Bucket ["metrics"], why::REPORTS;
    GetObjectAnnotation: GET Object ["annotation", "annotationName"], why::ANNOTATIONS;
    ListObjectAnnotations: GET Object ["annotation"], why::ANNOTATIONS;
    GetObjectTorrent: GET Object ["torrent"], "AWS ended BitTorrent in 2022";
    PutObjectAnnotation: PUT Object ["annotation"], why::ANNOTATIONS;
    PutObjectLegalHold: PUT Object ["legal-hold"], why::LOCK;
    PutObjectRetention: PUT Object ["retention"], why::LOCK;
    RenameObject: PUT Object ["renameObject"], why::DIRECTORY;
    UpdateObjectEncryption: PUT Object ["encryption"], why::ENCRYPTION;
    RestoreObject: POST Object ["restore"], "there is no storage class to restore from";
    SelectObjectContent: POST Object ["select"], "AWS closed it to new customers in 2024";
    DeleteObjectAnnotation: DELETE Object ["annotation"], why::ANNOTATIONS;
    WriteGetObjectResponse: POST Service [], "there are no functions that rewrite what is read";
}

/// The operation that a request asks for by its parameters.
pub(crate) fn by_parameters(
    method: &Method,
    level: Level,
    query: &Query<'_>,
) -> Option<&'static UnservedOperation> {
    let mut rows = UNSERVED.iter().filter(|row| row.parameter().is_some());
    rows.find(|row| row.matches(method, level, query))
}

/// The operation that a request asks for by its address, which has the form of a bucket's.
pub(crate) fn by_address(method: &Method, address: &Address) -> Option<&'static UnservedOperation> {
    if *method != Method::POST || address.level != Level::Bucket {
        return None;
    }
    UNSERVED.iter().find(|row| row.parameter().is_none() && row.name == address.bucket)
}
