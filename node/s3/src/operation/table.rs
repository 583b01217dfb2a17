//! The one table of the operations of S3, a row each: how a request for it looks, its rights, how its head
//! and its body are read, and the function that runs it; or why none does.
//!
//! A row names its columns. One that it does not name has the value of [`Columns::of`].

use futures::future::BoxFuture;
use sherd_core::limits::{BUCKET_POLICY_TEXT_BYTES_MAX, CORS_XML_BYTES_MAX, DELETE_KEYS_MAX, PARTS_MAX};

use crate::answer::{Outcome, Response};
use crate::bucket::{
    self, account, configuration, cors, list_objects, list_versions, ownership, policy, public_access,
    settings, tags,
};
use crate::gateway::Gateway;
use crate::head::columns::{
    BodyUse, ChecksumUse, Columns, Copies, DocumentSays, Makes, OWNER, PAYER, ResourceKind, VERSION_ID, Verb,
};
use crate::multipart;
use crate::object::{
    copy_object, delete_object, get_object, head_object, object_attributes, post_object, put_object, tagging,
};
use crate::request::Request;
use crate::wire::address::Level;

/// The function that runs an operation.
pub(super) type Handler = for<'a> fn(&'a Gateway, Request<'a>) -> BoxFuture<'a, Outcome<Response>>;

/// A row of the table.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) operation: Operation,
    pub(super) columns: Columns,
    /// The function that runs it; `None` where it is not served and answered 501 NotImplemented.
    pub(super) handler: Option<Handler>,
    /// The reason why it is not served, as `docs/s3.md` gives it.
    #[cfg(test)]
    pub(super) why: &'static str,
}

/// Declares the operations, a row each: name, verb, level, selectors, columns, and the function that runs it,
/// or the reason why none does.
macro_rules! table {
    ($($name:ident: $verb:ident $level:ident [$($selector:literal),*]
       { $($column:ident: $value:expr),* $(,)? } $(=> $handler:path)? $(, lacks $why:expr)?;)*) => {
        /// An operation of S3.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Operation {
            $(
                #[doc = concat!("AWS's `", stringify!($name), "`.")]
                $name,
            )*
        }

        /// The table. Per verb and level the more specific rows stand first.
        pub(super) const ROWS: &[Row] = &[
            $(
                Row {
                    operation: Operation::$name,
                    columns: Columns {
                        $($column: $value,)*
                        ..Columns::of(stringify!($name), Verb::$verb, Level::$level, &[$($selector),*])
                    },
                    handler: handler!($($handler)?),
                    #[cfg(test)]
                    why: reason!($($why)?),
                },
            )*
        ];
    };
}

/// The function of a row that has one.
macro_rules! handler {
    () => {
        None
    };
    ($handler:path) => {
        Some(|gateway, request| Box::pin($handler(gateway, request)))
    };
}

/// The reason of a row that has one.
#[cfg(test)]
macro_rules! reason {
    () => {
        ""
    };
    ($why:expr) => {
        $why
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

const LIST_V1: &[&str] = &["prefix", "delimiter", "marker", "max-keys", "encoding-type"];
const LIST_V2: &[&str] =
    &["prefix", "delimiter", "max-keys", "encoding-type", "start-after", "continuation-token", "fetch-owner"];
const LIST_VERSIONS: &[&str] =
    &["prefix", "delimiter", "key-marker", "version-id-marker", "max-keys", "encoding-type"];
const LIST_UPLOADS: &[&str] =
    &["prefix", "delimiter", "max-uploads", "encoding-type", "key-marker", "upload-id-marker"];
const LIST_BUCKETS: &[&str] = &["prefix", "max-buckets", "continuation-token", "bucket-region"];
const LIST_PARTS: &[&str] = &["max-parts", "part-number-marker"];
const VERSION: &[&str] = &[VERSION_ID];
const READ: &[&str] = &[
    "partNumber",
    VERSION_ID,
    "response-content-type",
    "response-content-language",
    "response-expires",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
];

const READ_ONCE: &[&str] = &["x-amz-checksum-mode", "x-amz-expected-bucket-owner", "x-amz-request-payer"];
const ATTRIBUTES: &[&str] =
    &["x-amz-expected-bucket-owner", "x-amz-max-parts", "x-amz-part-number-marker", "x-amz-request-payer"];
const NEW_BUCKET: &[&str] = &["x-amz-acl", "x-amz-bucket-object-lock-enabled", "x-amz-object-ownership"];
const CONFIGURES: &[&str] = &["x-amz-checksum-algorithm", "content-md5", "x-amz-expected-bucket-owner"];
const SETS_POLICY: &[&str] = &[
    "x-amz-checksum-algorithm",
    "x-amz-confirm-remove-self-bucket-access",
    "content-md5",
    "x-amz-expected-bucket-owner",
];
const SETS_ACL: &[&str] = &[
    "x-amz-acl",
    "x-amz-checksum-algorithm",
    "content-md5",
    "x-amz-expected-bucket-owner",
    "x-amz-request-payer",
];
const SETS_TAGS: &[&str] =
    &["x-amz-checksum-algorithm", "content-md5", "x-amz-expected-bucket-owner", "x-amz-request-payer"];
const PUT: &[&str] = &[
    "x-amz-acl",
    "x-amz-checksum-algorithm",
    "content-length",
    "content-md5",
    "x-amz-expected-bucket-owner",
    "x-amz-request-payer",
    "x-amz-storage-class",
];
const PART: &[&str] = &[
    "x-amz-checksum-algorithm",
    "content-length",
    "content-md5",
    "x-amz-expected-bucket-owner",
    "x-amz-request-payer",
];
const PART_COPY: &[&str] = &[
    "x-amz-copy-source",
    "x-amz-copy-source-range",
    "x-amz-expected-bucket-owner",
    "x-amz-source-expected-bucket-owner",
    "x-amz-request-payer",
];
const COPY: &[&str] = &[
    "x-amz-acl",
    "x-amz-checksum-algorithm",
    "x-amz-copy-source",
    "x-amz-expected-bucket-owner",
    "x-amz-source-expected-bucket-owner",
    "x-amz-metadata-directive",
    "x-amz-request-payer",
    "x-amz-storage-class",
    "x-amz-tagging-directive",
];
const BEGIN: &[&str] = &[
    "x-amz-acl",
    "x-amz-checksum-algorithm",
    "x-amz-checksum-type",
    "x-amz-expected-bucket-owner",
    "x-amz-request-payer",
    "x-amz-storage-class",
];
const COMPLETE: &[&str] =
    &["x-amz-checksum-type", "x-amz-expected-bucket-owner", "x-amz-mp-object-size", "x-amz-request-payer"];
const DELETE_ONE: &[&str] =
    &["x-amz-bypass-governance-retention", "x-amz-expected-bucket-owner", "x-amz-request-payer"];
const DELETE_MANY: &[&str] = &[
    "x-amz-bypass-governance-retention",
    "x-amz-checksum-algorithm",
    "x-amz-expected-bucket-owner",
    "x-amz-request-payer",
];
/// Headers of a write that gives its object tags and an address to redirect to.
const TAGS_AND_REDIRECT: &[&str] = &["tagging", "website-redirect-location"];

table! {
    // The service.
    ListBuckets: Get Service [] {
        action: "s3:ListAllMyBuckets", options: LIST_BUCKETS, page: Some("max-buckets"),
    } => bucket::list;
    ListDirectoryBuckets: Get Service ["x-id=ListDirectoryBuckets"] {}, lacks why::DIRECTORY;
    WriteGetObjectResponse: Post Service [] {}, lacks "there are no functions that rewrite what is read";
    // The account.
    GetAccountPublicAccessBlock: Get Account [] {
        action: "s3:GetAccountPublicAccessBlock",
    } => account::get_public_access_block;
    PutAccountPublicAccessBlock: Put Account [] {
        action: "s3:PutAccountPublicAccessBlock", body: BodyUse::Xml,
    } => account::put_public_access_block;
    DeleteAccountPublicAccessBlock: Delete Account [] {
        action: "s3:PutAccountPublicAccessBlock",
    } => account::delete_public_access_block;
    // A bucket.
    GetBucketLocation: Get Bucket ["location"] { action: "s3:GetBucketLocation" } => bucket::location;
    GetBucketVersioning: Get Bucket ["versioning"] {
        action: "s3:GetBucketVersioning",
    } => configuration::versioning;
    GetBucketTagging: Get Bucket ["tagging"] { action: "s3:GetBucketTagging" } => tags::get;
    GetBucketPolicy: Get Bucket ["policy"] {
        action: "s3:GetBucketPolicy", stays_roots: true,
    } => policy::get;
    GetBucketPolicyStatus: Get Bucket ["policyStatus"] {
        action: "s3:GetBucketPolicyStatus",
    } => policy::status;
    GetBucketCors: Get Bucket ["cors"] { action: "s3:GetBucketCORS" } => cors::get;
    GetBucketLifecycleConfiguration: Get Bucket ["lifecycle"] {
        action: "s3:GetLifecycleConfiguration",
    } => configuration::lifecycle;
    GetBucketWebsite: Get Bucket ["website"] { action: "s3:GetBucketWebsite" } => configuration::website;
    GetBucketEncryption: Get Bucket ["encryption"] {
        action: "s3:GetEncryptionConfiguration",
    } => configuration::encryption;
    GetBucketReplication: Get Bucket ["replication"] {
        action: "s3:GetReplicationConfiguration",
    } => configuration::replication;
    GetPublicAccessBlock: Get Bucket ["publicAccessBlock"] {
        action: "s3:GetBucketPublicAccessBlock",
    } => public_access::get;
    GetObjectLockConfiguration: Get Bucket ["object-lock"] {
        action: "s3:GetBucketObjectLockConfiguration",
    } => configuration::object_lock;
    GetBucketLogging: Get Bucket ["logging"] { action: "s3:GetBucketLogging" } => configuration::logging;
    GetBucketNotificationConfiguration: Get Bucket ["notification"] {
        action: "s3:GetBucketNotification",
    } => configuration::notification;
    GetBucketAccelerateConfiguration: Get Bucket ["accelerate"] {
        action: "s3:GetAccelerateConfiguration", once: PAYER,
    } => configuration::acceleration;
    GetBucketRequestPayment: Get Bucket ["requestPayment"] {
        action: "s3:GetBucketRequestPayment",
    } => configuration::request_payment;
    GetBucketOwnershipControls: Get Bucket ["ownershipControls"] {
        action: "s3:GetBucketOwnershipControls",
    } => ownership::get;
    GetBucketAcl: Get Bucket ["acl"] { action: "s3:GetBucketAcl" } => configuration::acl;
    ListMultipartUploads: Get Bucket ["uploads"] {
        action: "s3:ListBucketMultipartUploads", options: LIST_UPLOADS, once: PAYER, has_view: true,
        page: Some("max-uploads"),
    } => multipart::list_uploads;
    ListObjectVersions: Get Bucket ["versions"] {
        action: "s3:ListBucketVersions", options: LIST_VERSIONS, once: PAYER, has_view: true,
        page: Some("max-keys"), lists_keys: true,
    } => list_versions::list;
    ListObjectsV2: Get Bucket ["list-type"] {
        action: "s3:ListBucket", options: LIST_V2, once: PAYER, has_view: true, page: Some("max-keys"),
        lists_keys: true,
    } => list_objects::list_v2;
    ListObjects: Get Bucket [] {
        action: "s3:ListBucket", options: LIST_V1, once: PAYER, has_view: true, page: Some("max-keys"),
        lists_keys: true,
    } => list_objects::list;
    CreateSession: Get Bucket ["session"] {}, lacks why::DIRECTORY;
    GetBucketAbac: Get Bucket ["abac"] {}, lacks why::ABAC;
    GetBucketAnalyticsConfiguration: Get Bucket ["analytics", "id"] {}, lacks why::REPORTS;
    ListBucketAnalyticsConfigurations: Get Bucket ["analytics"] {}, lacks why::REPORTS;
    GetBucketIntelligentTieringConfiguration: Get Bucket ["intelligent-tiering", "id"] {},
        lacks why::REPORTS;
    ListBucketIntelligentTieringConfigurations: Get Bucket ["intelligent-tiering"] {}, lacks why::REPORTS;
    GetBucketInventoryConfiguration: Get Bucket ["inventory", "id"] {}, lacks why::REPORTS;
    ListBucketInventoryConfigurations: Get Bucket ["inventory"] {}, lacks why::REPORTS;
    GetBucketMetricsConfiguration: Get Bucket ["metrics", "id"] {}, lacks why::REPORTS;
    ListBucketMetricsConfigurations: Get Bucket ["metrics"] {}, lacks why::REPORTS;
    GetBucketMetadataConfiguration: Get Bucket ["metadataConfiguration"] {}, lacks why::METADATA;
    GetBucketMetadataTableConfiguration: Get Bucket ["metadataTable"] {}, lacks why::METADATA;
    HeadBucket: Head Bucket [] { action: "s3:ListBucket", says_region: true } => bucket::head;
    PutBucketTagging: Put Bucket ["tagging"] {
        action: "s3:PutBucketTagging", once: CONFIGURES, body: BodyUse::Xml,
        document_says: DocumentSays::BucketTags,
    } => tags::put;
    PutBucketAcl: Put Bucket ["acl"] {
        action: "s3:PutBucketAcl", once: SETS_ACL, body: BodyUse::Xml,
    } => settings::put_bucket_acl;
    PutBucketOwnershipControls: Put Bucket ["ownershipControls"] {
        action: "s3:PutBucketOwnershipControls", once: CONFIGURES, body: BodyUse::Xml,
    } => ownership::put;
    PutBucketPolicy: Put Bucket ["policy"] {
        action: "s3:PutBucketPolicy", once: SETS_POLICY, body: BodyUse::Json, stays_roots: true,
        document_bytes_max: BUCKET_POLICY_TEXT_BYTES_MAX, takes: &["confirm-remove-self-bucket-access"],
    } => policy::put;
    PutPublicAccessBlock: Put Bucket ["publicAccessBlock"] {
        action: "s3:PutBucketPublicAccessBlock", once: CONFIGURES, body: BodyUse::Xml,
    } => public_access::put;
    PutBucketRequestPayment: Put Bucket ["requestPayment"] {
        action: "s3:PutBucketRequestPayment", once: CONFIGURES, body: BodyUse::Xml,
    } => settings::put_request_payment;
    PutBucketAccelerateConfiguration: Put Bucket ["accelerate"] {
        action: "s3:PutAccelerateConfiguration", once: CONFIGURES, body: BodyUse::Xml,
    } => settings::put_acceleration;
    PutBucketVersioning: Put Bucket ["versioning"] {
        action: "s3:PutBucketVersioning", once: CONFIGURES, body: BodyUse::Xml,
    } => settings::put_versioning;
    PutBucketNotificationConfiguration: Put Bucket ["notification"] {
        action: "s3:PutBucketNotification", once: CONFIGURES, body: BodyUse::Xml,
        takes: &["skip-destination-validation"],
    } => settings::put_notification;
    PutBucketLogging: Put Bucket ["logging"] {
        action: "s3:PutBucketLogging", once: CONFIGURES, body: BodyUse::Xml,
    } => settings::put_logging;
    PutBucketCors: Put Bucket ["cors"] {
        action: "s3:PutBucketCORS", once: CONFIGURES, body: BodyUse::Xml,
        document_bytes_max: CORS_XML_BYTES_MAX, needs_digest: true,
    } => cors::put;
    CreateBucket: Put Bucket [] {
        action: "s3:CreateBucket", once: NEW_BUCKET, body: BodyUse::Xml, makes: Makes::Bucket,
        document_says: DocumentSays::NewBucket,
    } => bucket::create;
    PutBucketAbac: Put Bucket ["abac"] {}, lacks why::ABAC;
    PutBucketAnalyticsConfiguration: Put Bucket ["analytics"] {}, lacks why::REPORTS;
    PutBucketEncryption: Put Bucket ["encryption"] {}, lacks why::ENCRYPTION;
    PutBucketIntelligentTieringConfiguration: Put Bucket ["intelligent-tiering"] {}, lacks why::REPORTS;
    PutBucketInventoryConfiguration: Put Bucket ["inventory"] {}, lacks why::REPORTS;
    PutBucketLifecycleConfiguration: Put Bucket ["lifecycle"] {}, lacks why::LIFECYCLE;
    PutBucketMetricsConfiguration: Put Bucket ["metrics"] {}, lacks why::REPORTS;
    PutBucketReplication: Put Bucket ["replication"] {}, lacks "no bucket is copied to another place";
    PutBucketWebsite: Put Bucket ["website"] {}, lacks "no bucket is a website";
    PutObjectLockConfiguration: Put Bucket ["object-lock"] {}, lacks why::LOCK;
    UpdateBucketMetadataAnnotationTableConfiguration: Put Bucket ["metadataAnnotationTable"] {},
        lacks why::METADATA;
    UpdateBucketMetadataInventoryTableConfiguration: Put Bucket ["metadataInventoryTable"] {},
        lacks why::METADATA;
    UpdateBucketMetadataJournalTableConfiguration: Put Bucket ["metadataJournalTable"] {},
        lacks why::METADATA;
    DeleteBucketPolicy: Delete Bucket ["policy"] {
        action: "s3:DeleteBucketPolicy", stays_roots: true,
    } => policy::delete;
    DeleteBucketCors: Delete Bucket ["cors"] { action: "s3:PutBucketCORS" } => cors::delete;
    DeleteBucketLifecycle: Delete Bucket ["lifecycle"] {
        action: "s3:PutLifecycleConfiguration",
    } => configuration::delete;
    DeleteBucketTagging: Delete Bucket ["tagging"] { action: "s3:PutBucketTagging" } => tags::delete;
    DeleteBucketWebsite: Delete Bucket ["website"] {
        action: "s3:DeleteBucketWebsite",
    } => configuration::delete;
    DeleteBucketEncryption: Delete Bucket ["encryption"] {
        action: "s3:PutEncryptionConfiguration",
    } => configuration::delete;
    DeleteBucketReplication: Delete Bucket ["replication"] {
        action: "s3:PutReplicationConfiguration",
    } => configuration::delete;
    DeleteBucketOwnershipControls: Delete Bucket ["ownershipControls"] {
        action: "s3:PutBucketOwnershipControls",
    } => ownership::delete;
    DeletePublicAccessBlock: Delete Bucket ["publicAccessBlock"] {
        action: "s3:PutBucketPublicAccessBlock",
    } => public_access::delete;
    DeleteBucket: Delete Bucket [] { action: "s3:DeleteBucket" } => bucket::delete;
    DeleteBucketAnalyticsConfiguration: Delete Bucket ["analytics"] {}, lacks why::REPORTS;
    DeleteBucketIntelligentTieringConfiguration: Delete Bucket ["intelligent-tiering"] {},
        lacks why::REPORTS;
    DeleteBucketInventoryConfiguration: Delete Bucket ["inventory"] {}, lacks why::REPORTS;
    DeleteBucketMetadataConfiguration: Delete Bucket ["metadataConfiguration"] {}, lacks why::METADATA;
    DeleteBucketMetadataTableConfiguration: Delete Bucket ["metadataTable"] {}, lacks why::METADATA;
    DeleteBucketMetricsConfiguration: Delete Bucket ["metrics"] {}, lacks why::REPORTS;
    DeleteObjects: Post Bucket ["delete"] {
        action: "s3:DeleteObject", once: DELETE_MANY, body: BodyUse::Xml,
        resource: ResourceKind::EachKey, has_view: true, needs_digest: true, conditions: true,
        names_keys: true, counted: Some(("Object", DELETE_KEYS_MAX)),
        checksum: ChecksumUse::RequiredOfBody,
    } => delete_object::delete_many;
    PostObject: Post Bucket [] {
        action: "s3:PutObject", once: PUT, body: BodyUse::Form, resource: ResourceKind::Object,
        has_view: true, makes: Makes::Object, creates: Some(true),
        takes: &["website-redirect-location"], checksum: ChecksumUse::RequiredOfBody,
    } => post_object::post;
    CreateBucketMetadataConfiguration: Post Bucket ["metadataConfiguration"] {}, lacks why::METADATA;
    CreateBucketMetadataTableConfiguration: Post Bucket ["metadataTable"] {}, lacks why::METADATA;
    // An object.
    ListParts: Get Object ["uploadId"] {
        action: "s3:ListMultipartUploadParts", options: LIST_PARTS, page: Some("max-parts"),
    } => multipart::list_parts;
    GetObjectAttributes: Get Object ["attributes"] {
        action: "s3:GetObjectAttributes", options: VERSION, once: ATTRIBUTES, reads_object: true,
        existing_object: true,
    } => object_attributes::get;
    GetObjectAcl: Get Object ["acl"] {
        action: "s3:GetObjectAcl", options: VERSION, existing_object: true,
    } => configuration::object_acl;
    GetObjectTagging: Get Object ["tagging"] {
        action: "s3:GetObjectTagging", options: VERSION, existing_object: true,
    } => tagging::get;
    GetObjectRetention: Get Object ["retention"] {
        action: "s3:GetObjectRetention", options: VERSION, existing_object: true,
    } => configuration::lock;
    GetObjectLegalHold: Get Object ["legal-hold"] {
        action: "s3:GetObjectLegalHold", options: VERSION, existing_object: true,
    } => configuration::lock;
    GetObject: Get Object [] {
        action: "s3:GetObject", options: READ, once: READ_ONCE, existing_object: true,
    } => get_object::get;
    GetObjectAnnotation: Get Object ["annotation", "annotationName"] {}, lacks why::ANNOTATIONS;
    ListObjectAnnotations: Get Object ["annotation"] {}, lacks why::ANNOTATIONS;
    GetObjectTorrent: Get Object ["torrent"] {}, lacks "AWS ended BitTorrent in 2022";
    HeadObject: Head Object [] {
        action: "s3:GetObject", options: READ, once: READ_ONCE, existing_object: true,
    } => head_object::head;
    UploadPartCopy: Put Object ["partNumber", "uploadId"] {
        action: "s3:PutObject", once: PART_COPY, copies: Copies::Part, creates: Some(false),
    } => multipart::upload_part_copy;
    UploadPart: Put Object ["partNumber", "uploadId"] {
        action: "s3:PutObject", once: PART, body: BodyUse::Object, creates: Some(false),
        checksum: ChecksumUse::RequiredOfBody,
    } => multipart::upload_part;
    PutObjectTagging: Put Object ["tagging"] {
        action: "s3:PutObjectTagging", options: VERSION, once: SETS_TAGS, body: BodyUse::Xml,
        existing_object: true, judges_itself: true, document_says: DocumentSays::ObjectTags,
    } => tagging::put;
    CopyObject: Put Object [] {
        action: "s3:PutObject", once: COPY, copies: Copies::Object, makes: Makes::Object,
        creates: Some(true), conditions: true, checksum: ChecksumUse::Wish, takes: TAGS_AND_REDIRECT,
    } => copy_object::copy;
    PutObjectAcl: Put Object ["acl"] {
        action: "s3:PutObjectAcl", options: VERSION, once: SETS_ACL, body: BodyUse::Xml,
        existing_object: true,
    } => settings::put_object_acl;
    PutObject: Put Object [] {
        action: "s3:PutObject", once: PUT, body: BodyUse::Object, makes: Makes::Object,
        creates: Some(true), conditions: true, checksum: ChecksumUse::RequiredOfBody,
        takes: TAGS_AND_REDIRECT,
    } => put_object::put;
    PutObjectAnnotation: Put Object ["annotation"] {}, lacks why::ANNOTATIONS;
    PutObjectLegalHold: Put Object ["legal-hold"] {}, lacks why::LOCK;
    PutObjectRetention: Put Object ["retention"] {}, lacks why::LOCK;
    RenameObject: Put Object ["renameObject"] {}, lacks why::DIRECTORY;
    UpdateObjectEncryption: Put Object ["encryption"] {}, lacks why::ENCRYPTION;
    AbortMultipartUpload: Delete Object ["uploadId"] {
        action: "s3:AbortMultipartUpload",
    } => multipart::abort;
    DeleteObjectTagging: Delete Object ["tagging"] {
        action: "s3:DeleteObjectTagging", options: VERSION, once: OWNER, existing_object: true,
        judges_itself: true,
    } => tagging::delete;
    DeleteObject: Delete Object [] {
        action: "s3:DeleteObject", options: VERSION, once: DELETE_ONE, conditions: true,
    } => delete_object::delete;
    DeleteObjectAnnotation: Delete Object ["annotation"] {}, lacks why::ANNOTATIONS;
    CreateMultipartUpload: Post Object ["uploads"] {
        action: "s3:PutObject", once: BEGIN, makes: Makes::Object, creates: Some(false),
        checksum: ChecksumUse::Wish, takes: TAGS_AND_REDIRECT,
    } => multipart::create;
    CompleteMultipartUpload: Post Object ["uploadId"] {
        action: "s3:PutObject", once: COMPLETE, body: BodyUse::Xml, creates: Some(true),
        conditions: true, checksum: ChecksumUse::JoinedObject,
        counted: Some(("Part", PARTS_MAX as usize)),
    } => multipart::complete;
    RestoreObject: Post Object ["restore"] {}, lacks "there is no storage class to restore from";
    SelectObjectContent: Post Object ["select"] {}, lacks "AWS closed it to new customers in 2024";
}
