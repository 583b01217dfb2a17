//! The one table of operations, a row each: how a request for it looks, its rights, and the function that
//! runs it.
//!
//! [`classify`] finds the row of a request.

pub mod classify;

use std::time::Duration;

use futures::future::{self, BoxFuture, Either, Ready};
use http::Method;

use super::answer::Response;
use super::bucket::{
    self, account, configuration, cors, list_objects, list_versions, ownership, policy, public_access,
    settings, tags,
};
use super::error::{ErrorOwner, Outcome};
use super::gateway::Gateway;
use super::multipart;
use super::names::NamedVersion;
use super::object::{
    copy_object, delete_object, get_object, head_object, missing_version, object_attributes, post_object,
    put_object, tagging,
};
use super::protocol::address::Level;
use super::request::Request;
use sherd_core::config::public_access::PublicAccessBlock;
use sherd_core::iam::Account;
use sherd_core::id::ObjectKey;
use sherd_core::limits::{BUCKET_POLICY_TEXT_BYTES_MAX, CORS_XML_BYTES_MAX};
use sherd_core::record::Tag;
use sherd_store::iam::IamReadError;
use sherd_store::object::{self as store, BucketRef, ObjectName};

/// How the body of a request is taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyUse {
    /// There should be none; what comes is verified, bounded and dropped.
    None,
    /// An XML document, collected and verified before the operation sees it.
    Xml,
    /// A document of JSON, collected and verified like one of XML.
    Json,
    /// The object's bytes, streamed.
    Object,
    /// A form: its fields first, then the object's bytes as its file, streamed.
    Form,
}

impl BodyUse {
    /// Whether it is a document.
    pub(crate) const fn is_document(self) -> bool {
        matches!(self, Self::Xml | Self::Json)
    }
}

/// The kind of resource that an operation works on, as policies name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceKind {
    /// All buckets.
    Service,
    /// The bucket of the address.
    Bucket,
    /// The object of the address, or the one that a form names.
    Object,
    /// Each key that the document lists.
    EachKey,
}

/// The function that runs an operation.
type Handler = for<'a> fn(&'a Gateway, Request<'a>) -> BoxFuture<'a, Outcome<Response>>;

/// The look-up of a bucket: done where a view of it is remembered, which takes no allocation.
pub type BucketLookup<'a> = Either<Ready<BucketRef>, BoxFuture<'a, BucketRef>>;

/// The public access block of the account, as it was at most two seconds ago.
type AccountBlock = Result<PublicAccessBlock, IamReadError>;
/// The look-up of the account: done where it is remembered.
pub type AccountBlockLookup<'a> = Either<Ready<AccountBlock>, BoxFuture<'a, AccountBlock>>;

/// Runs operations: a gateway, or in tests what stands for one.
pub trait Operations: Send + Sync {
    /// Looks up the bucket of a request, once for all that the request does. A failure is answered by the
    /// operation, where it needs the bucket.
    fn bucket(&self, name: ObjectKey) -> BucketLookup<'_>;

    /// Looks up the public access block of the account.
    fn account_block(&self) -> AccountBlockLookup<'_>;

    /// Runs the operation of a request that was admitted.
    fn run<'a>(&'a self, operation: Operation, request: Request<'a>) -> BoxFuture<'a, Outcome<Response>>;

    /// The tags of an object, where a policy asks for them.
    fn tags<'a>(&'a self, name: &'a ObjectName) -> BoxFuture<'a, store::Result<Vec<Tag>>>;

    /// How long the space of deleted objects stays taken.
    fn release_grace(&self) -> Duration;
}

impl Operations for Gateway {
    fn bucket(&self, name: ObjectKey) -> BucketLookup<'_> {
        match self.objects.remembered_bucket(&name) {
            Some(view) => Either::Left(future::ready(view.into())),
            None => Either::Right(Box::pin(self.objects.bucket_of_request(name))),
        }
    }

    fn account_block(&self) -> AccountBlockLookup<'_> {
        let block = |account: Account| account.public_access_block.unwrap_or_default();
        match self.iam.remembered_account() {
            Some(account) => Either::Left(future::ready(Ok(block(account)))),
            None => Either::Right(Box::pin(async move { Ok(block(self.iam.account_view().await?)) })),
        }
    }

    fn run<'a>(&'a self, operation: Operation, request: Request<'a>) -> BoxFuture<'a, Outcome<Response>> {
        match request.version {
            Some(NamedVersion::Other(_)) => {
                let deletes = operation == Operation::DeleteObject;
                Box::pin(missing_version::answer(self, request, deletes))
            }
            Some(NamedVersion::Null) | None => (operation.row().handler)(self, request),
        }
    }

    fn tags<'a>(&'a self, name: &'a ObjectName) -> BoxFuture<'a, store::Result<Vec<Tag>>> {
        Box::pin(self.objects.tags(name))
    }

    fn release_grace(&self) -> Duration {
        self.objects.release_grace()
    }
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    operation: Operation,
    /// AWS's name, as it stands in its documentation.
    name: &'static str,
    method: Method,
    level: Level,
    /// Whether the request must name a source to copy from.
    copies: bool,
    /// Parameters that must be there.
    selectors: &'static [&'static str],
    /// Parameters that may be there.
    options: &'static [&'static str],
    body_use: BodyUse,
    /// Headers that may be there once.
    pub(crate) once: &'static [&'static str],
    /// Its IAM action.
    pub(crate) action: &'static str,
    /// Its resource.
    pub(crate) resource: ResourceKind,
    /// Whether it sees its bucket in a view of at most two seconds ago. Others ask the bucket's register
    /// themselves: what they show or change must be current.
    pub(crate) has_view: bool,
    /// The owner of the store's errors.
    pub(crate) errors: ErrorOwner,
    /// The function that runs it.
    handler: Handler,
}

/// Declares the operations, a row each: name, method, level, whether it copies, selectors, options, body,
/// headers allowed once, action and resource, whether it has a view of its bucket, owner of its errors, and
/// the function that runs it.
macro_rules! table {
    ($($name:ident: $method:ident $level:ident $copies:tt [$($selector:literal),*] $options:expr, $body:ident,
       $once:ident, $action:literal $resource:ident $view:tt, $errors:ident => $handler:path;)*) => {
        /// An operation of S3 that is served.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Operation {
            $(
                #[doc = concat!("AWS's `", stringify!($name), "`.")]
                $name,
            )*
        }

        impl Operation {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }

        /// The table. Per method and level the more specific rows stand first.
        const ROWS: &[Row] = &[
            $(
                Row {
                    operation: Operation::$name,
                    name: stringify!($name),
                    method: Method::$method,
                    level: Level::$level,
                    copies: column!($copies),
                    selectors: &[$($selector),*],
                    options: $options,
                    body_use: BodyUse::$body,
                    once: $once,
                    action: $action,
                    resource: ResourceKind::$resource,
                    has_view: column!($view),
                    errors: ErrorOwner::$errors,
                    handler: |gateway, request| Box::pin($handler(gateway, request)),
                },
            )*
        ];
    };
}

/// Reads a column of the table that has its name where it holds.
macro_rules! column {
    (copy) => {
        true
    };
    (view) => {
        true
    };
    (-) => {
        false
    };
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
/// The parameter that names a version of an object.
pub(crate) const VERSION_ID: &str = "versionId";
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

const NOTHING: &[&str] = &[];
const OWNER: &[&str] = &["x-amz-expected-bucket-owner"];
const ACCOUNT: &[&str] = &["x-amz-account-id", "x-amz-checksum-algorithm", "content-md5"];
const PAYER: &[&str] = &["x-amz-expected-bucket-owner", "x-amz-request-payer"];
const READ_ONCE: &[&str] = &["x-amz-checksum-mode", "x-amz-expected-bucket-owner", "x-amz-request-payer"];
const ATTRIBUTES: &[&str] =
    &["x-amz-expected-bucket-owner", "x-amz-max-parts", "x-amz-part-number-marker", "x-amz-request-payer"];
const NEW_BUCKET: &[&str] = &["x-amz-acl", "x-amz-bucket-object-lock-enabled", "x-amz-object-ownership"];
const TAGS: &[&str] = &["x-amz-checksum-algorithm", "content-md5", "x-amz-expected-bucket-owner"];
const POLICY: &[&str] = &[
    "x-amz-checksum-algorithm",
    "x-amz-confirm-remove-self-bucket-access",
    "content-md5",
    "x-amz-expected-bucket-owner",
];
const ACL: &[&str] = &[
    "x-amz-acl",
    "x-amz-checksum-algorithm",
    "content-md5",
    "x-amz-expected-bucket-owner",
    "x-amz-request-payer",
];
const OBJECT_TAGS: &[&str] =
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

table! {
    ListBuckets: GET Service - [] LIST_BUCKETS, None, NOTHING, "s3:ListAllMyBuckets" Service -, Request => bucket::list;
    GetAccountPublicAccessBlock: GET Account - [] &[], None, ACCOUNT, "s3:GetAccountPublicAccessBlock" Service -, Request => account::get_public_access_block;
    PutAccountPublicAccessBlock: PUT Account - [] &[], Xml, ACCOUNT, "s3:PutAccountPublicAccessBlock" Service -, Request => account::put_public_access_block;
    DeleteAccountPublicAccessBlock: DELETE Account - [] &[], None, ACCOUNT, "s3:PutAccountPublicAccessBlock" Service -, Request => account::delete_public_access_block;
    GetBucketLocation: GET Bucket - ["location"] &[], None, OWNER, "s3:GetBucketLocation" Bucket -, Request => bucket::location;
    GetBucketVersioning: GET Bucket - ["versioning"] &[], None, OWNER, "s3:GetBucketVersioning" Bucket -, Request => configuration::versioning;
    GetBucketTagging: GET Bucket - ["tagging"] &[], None, OWNER, "s3:GetBucketTagging" Bucket -, Request => tags::get;
    GetBucketPolicy: GET Bucket - ["policy"] &[], None, OWNER, "s3:GetBucketPolicy" Bucket -, Request => policy::get;
    GetBucketPolicyStatus: GET Bucket - ["policyStatus"] &[], None, OWNER, "s3:GetBucketPolicyStatus" Bucket -, Request => policy::status;
    GetBucketCors: GET Bucket - ["cors"] &[], None, OWNER, "s3:GetBucketCORS" Bucket -, Request => cors::get;
    GetBucketLifecycleConfiguration: GET Bucket - ["lifecycle"] &[], None, OWNER, "s3:GetLifecycleConfiguration" Bucket -, Request => configuration::lifecycle;
    GetBucketWebsite: GET Bucket - ["website"] &[], None, OWNER, "s3:GetBucketWebsite" Bucket -, Request => configuration::website;
    GetBucketEncryption: GET Bucket - ["encryption"] &[], None, OWNER, "s3:GetEncryptionConfiguration" Bucket -, Request => configuration::encryption;
    GetBucketReplication: GET Bucket - ["replication"] &[], None, OWNER, "s3:GetReplicationConfiguration" Bucket -, Request => configuration::replication;
    GetPublicAccessBlock: GET Bucket - ["publicAccessBlock"] &[], None, OWNER, "s3:GetBucketPublicAccessBlock" Bucket -, Request => public_access::get;
    GetObjectLockConfiguration: GET Bucket - ["object-lock"] &[], None, OWNER, "s3:GetBucketObjectLockConfiguration" Bucket -, Request => configuration::object_lock;
    GetBucketLogging: GET Bucket - ["logging"] &[], None, OWNER, "s3:GetBucketLogging" Bucket -, Request => configuration::logging;
    GetBucketNotificationConfiguration: GET Bucket - ["notification"] &[], None, OWNER, "s3:GetBucketNotification" Bucket -, Request => configuration::notification;
    GetBucketAccelerateConfiguration: GET Bucket - ["accelerate"] &[], None, PAYER, "s3:GetAccelerateConfiguration" Bucket -, Request => configuration::acceleration;
    GetBucketRequestPayment: GET Bucket - ["requestPayment"] &[], None, OWNER, "s3:GetBucketRequestPayment" Bucket -, Request => configuration::request_payment;
    GetBucketOwnershipControls: GET Bucket - ["ownershipControls"] &[], None, OWNER, "s3:GetBucketOwnershipControls" Bucket -, Request => ownership::get;
    GetBucketAcl: GET Bucket - ["acl"] &[], None, OWNER, "s3:GetBucketAcl" Bucket -, Request => configuration::acl;
    ListMultipartUploads: GET Bucket - ["uploads"] LIST_UPLOADS, None, PAYER, "s3:ListBucketMultipartUploads" Bucket view, Request => multipart::list_uploads;
    ListObjectVersions: GET Bucket - ["versions"] LIST_VERSIONS, None, PAYER, "s3:ListBucketVersions" Bucket view, Request => list_versions::list;
    ListObjectsV2: GET Bucket - ["list-type"] LIST_V2, None, PAYER, "s3:ListBucket" Bucket view, Request => list_objects::list_v2;
    ListObjects: GET Bucket - [] LIST_V1, None, PAYER, "s3:ListBucket" Bucket view, Request => list_objects::list;
    HeadBucket: HEAD Bucket - [] &[], None, OWNER, "s3:ListBucket" Bucket -, Request => bucket::head;
    PutBucketTagging: PUT Bucket - ["tagging"] &[], Xml, TAGS, "s3:PutBucketTagging" Bucket -, Request => tags::put;
    PutBucketAcl: PUT Bucket - ["acl"] &[], Xml, ACL, "s3:PutBucketAcl" Bucket -, Request => settings::put_bucket_acl;
    PutBucketOwnershipControls: PUT Bucket - ["ownershipControls"] &[], Xml, TAGS, "s3:PutBucketOwnershipControls" Bucket -, Request => ownership::put;
    PutBucketPolicy: PUT Bucket - ["policy"] &[], Json, POLICY, "s3:PutBucketPolicy" Bucket -, Request => policy::put;
    PutPublicAccessBlock: PUT Bucket - ["publicAccessBlock"] &[], Xml, TAGS, "s3:PutBucketPublicAccessBlock" Bucket -, Request => public_access::put;
    PutBucketRequestPayment: PUT Bucket - ["requestPayment"] &[], Xml, TAGS, "s3:PutBucketRequestPayment" Bucket -, Request => settings::put_request_payment;
    PutBucketAccelerateConfiguration: PUT Bucket - ["accelerate"] &[], Xml, TAGS, "s3:PutAccelerateConfiguration" Bucket -, Request => settings::put_acceleration;
    PutBucketVersioning: PUT Bucket - ["versioning"] &[], Xml, TAGS, "s3:PutBucketVersioning" Bucket -, Request => settings::put_versioning;
    PutBucketNotificationConfiguration: PUT Bucket - ["notification"] &[], Xml, TAGS, "s3:PutBucketNotification" Bucket -, Request => settings::put_notification;
    PutBucketLogging: PUT Bucket - ["logging"] &[], Xml, TAGS, "s3:PutBucketLogging" Bucket -, Request => settings::put_logging;
    PutBucketCors: PUT Bucket - ["cors"] &[], Xml, TAGS, "s3:PutBucketCORS" Bucket -, Request => cors::put;
    CreateBucket: PUT Bucket - [] &[], Xml, NEW_BUCKET, "s3:CreateBucket" Bucket -, Request => bucket::create;
    DeleteBucketPolicy: DELETE Bucket - ["policy"] &[], None, OWNER, "s3:DeleteBucketPolicy" Bucket -, Request => policy::delete;
    DeleteBucketCors: DELETE Bucket - ["cors"] &[], None, OWNER, "s3:PutBucketCORS" Bucket -, Request => cors::delete;
    DeleteBucketLifecycle: DELETE Bucket - ["lifecycle"] &[], None, OWNER, "s3:PutLifecycleConfiguration" Bucket -, Request => configuration::delete;
    DeleteBucketTagging: DELETE Bucket - ["tagging"] &[], None, OWNER, "s3:PutBucketTagging" Bucket -, Request => tags::delete;
    DeleteBucketWebsite: DELETE Bucket - ["website"] &[], None, OWNER, "s3:DeleteBucketWebsite" Bucket -, Request => configuration::delete;
    DeleteBucketEncryption: DELETE Bucket - ["encryption"] &[], None, OWNER, "s3:PutEncryptionConfiguration" Bucket -, Request => configuration::delete;
    DeleteBucketReplication: DELETE Bucket - ["replication"] &[], None, OWNER, "s3:PutReplicationConfiguration" Bucket -, Request => configuration::delete;
    DeleteBucketOwnershipControls: DELETE Bucket - ["ownershipControls"] &[], None, OWNER, "s3:PutBucketOwnershipControls" Bucket -, Request => ownership::delete;
    DeletePublicAccessBlock: DELETE Bucket - ["publicAccessBlock"] &[], None, OWNER, "s3:PutBucketPublicAccessBlock" Bucket -, Request => public_access::delete;
    DeleteBucket: DELETE Bucket - [] &[], None, OWNER, "s3:DeleteBucket" Bucket -, Request => bucket::delete;
    DeleteObjects: POST Bucket - ["delete"] &[], Xml, DELETE_MANY, "s3:DeleteObject" EachKey view, Request => delete_object::delete_many;
    PostObject: POST Bucket - [] &[], Form, PUT, "s3:PutObject" Object view, Request => post_object::post;
    ListParts: GET Object - ["uploadId"] LIST_PARTS, None, PAYER, "s3:ListMultipartUploadParts" Object view, Request => multipart::list_parts;
    GetObjectAttributes: GET Object - ["attributes"] VERSION, None, ATTRIBUTES, "s3:GetObjectAttributes" Object view, Request => object_attributes::get;
    GetObjectAcl: GET Object - ["acl"] VERSION, None, PAYER, "s3:GetObjectAcl" Object view, Request => configuration::object_acl;
    GetObjectTagging: GET Object - ["tagging"] VERSION, None, PAYER, "s3:GetObjectTagging" Object view, Request => tagging::get;
    GetObjectRetention: GET Object - ["retention"] VERSION, None, PAYER, "s3:GetObjectRetention" Object view, Request => configuration::lock;
    GetObjectLegalHold: GET Object - ["legal-hold"] VERSION, None, PAYER, "s3:GetObjectLegalHold" Object view, Request => configuration::lock;
    GetObject: GET Object - [] READ, None, READ_ONCE, "s3:GetObject" Object view, Request => get_object::get;
    HeadObject: HEAD Object - [] READ, None, READ_ONCE, "s3:GetObject" Object view, Request => head_object::head;
    UploadPartCopy: PUT Object copy ["partNumber", "uploadId"] &[], None, PART_COPY, "s3:PutObject" Object view, PartSource => multipart::upload_part_copy;
    UploadPart: PUT Object - ["partNumber", "uploadId"] &[], Object, PART, "s3:PutObject" Object view, Request => multipart::upload_part;
    PutObjectTagging: PUT Object - ["tagging"] VERSION, Xml, OBJECT_TAGS, "s3:PutObjectTagging" Object view, Request => tagging::put;
    CopyObject: PUT Object copy [] &[], None, COPY, "s3:PutObject" Object view, CopySource => copy_object::copy;
    PutObjectAcl: PUT Object - ["acl"] VERSION, Xml, ACL, "s3:PutObjectAcl" Object view, Request => settings::put_object_acl;
    PutObject: PUT Object - [] &[], Object, PUT, "s3:PutObject" Object view, Request => put_object::put;
    AbortMultipartUpload: DELETE Object - ["uploadId"] &[], None, PAYER, "s3:AbortMultipartUpload" Object view, Request => multipart::abort;
    DeleteObjectTagging: DELETE Object - ["tagging"] VERSION, None, OWNER, "s3:DeleteObjectTagging" Object view, Request => tagging::delete;
    DeleteObject: DELETE Object - [] VERSION, None, DELETE_ONE, "s3:DeleteObject" Object view, Request => delete_object::delete;
    CreateMultipartUpload: POST Object - ["uploads"] &[], None, BEGIN, "s3:PutObject" Object view, Request => multipart::create;
    CompleteMultipartUpload: POST Object - ["uploadId"] &[], Xml, COMPLETE, "s3:PutObject" Object view, Request => multipart::complete;
}

impl Operation {
    /// Its row.
    pub(crate) fn row(self) -> &'static Row {
        ROWS.get(self as usize).expect("an operation is its row's place")
    }

    /// AWS's name, as it stands in its documentation.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// How its body is taken in.
    pub fn body_use(self) -> BodyUse {
        self.row().body_use
    }

    /// Whether it changes nothing that is stored.
    pub fn is_read(self) -> bool {
        ["Get", "Head", "List"].iter().any(|verb| self.name().starts_with(verb))
    }

    /// Whether it is one of S3 Control, on the account.
    pub(crate) fn is_of_account(self) -> bool {
        self.row().level == Level::Account
    }

    /// Bytes of its document, where it has a bound of its own below that of all documents.
    pub const fn document_bytes_max(self) -> u64 {
        match self {
            Self::PutBucketCors => CORS_XML_BYTES_MAX,
            Self::PutBucketPolicy => BUCKET_POLICY_TEXT_BYTES_MAX,
            _ => u64::MAX,
        }
    }

    /// Whether its document must come with a digest of it.
    pub const fn needs_digest(self) -> bool {
        matches!(self, Self::DeleteObjects | Self::PutBucketCors)
    }

    /// Whether it is a write that is judged by conditions.
    pub const fn takes_conditions(self) -> bool {
        matches!(
            self,
            Self::PutObject
                | Self::CopyObject
                | Self::CompleteMultipartUpload
                | Self::DeleteObject
                | Self::DeleteObjects
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access;

    #[test]
    fn an_operation_finds_its_row() {
        for (place, row) in ROWS.iter().enumerate() {
            assert_eq!((row.operation as usize, row.operation.name()), (place, row.name));
            assert!(row.action.starts_with("s3:"), "{}", row.name);
        }
        assert_eq!(Operation::GetObject.row().action, access::READ_OBJECT);
        assert_eq!(Operation::GetObjectTagging.row().action, access::READ_TAGS);
        assert_eq!(Operation::PutObjectTagging.row().action, access::WRITE_TAGS);
        assert_eq!(Operation::DeleteObjects.row().action, access::DELETE_OBJECT);
    }
}
