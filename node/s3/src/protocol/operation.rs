//! What is served: the one table from method, level and query to an operation.
//!
//! s3s has a router of its own that takes what it does not know for what it does: `PUT
//! key?renameObject` would store an object. So every request is named here first, and a request
//! without a name is answered 501. A sub-resource is a query key of AWS's list, or any key without
//! a value; other keys that an operation does not know mean nothing to AWS and nothing here.

use http::Method;

use super::query::Query;

/// What a request addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The service: no bucket.
    Service,
    /// A bucket.
    Bucket,
    /// An object.
    Object,
}

/// What becomes of a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyUse {
    /// There should be none; what comes is verified, bounded and dropped.
    None,
    /// An XML document, collected and verified before s3s sees it.
    Xml,
    /// The object's bytes, streamed.
    Object,
}

/// Declares the operations with their AWS names.
macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident: $body:ident,)*) => {
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

            /// AWS's name, as it stands in its documentation.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// What becomes of the body.
            pub const fn body_use(self) -> BodyUse {
                match self {
                    $(Self::$name => BodyUse::$body,)*
                }
            }
        }
    };
}

operations! {
    ListBuckets: None,
    CreateBucket: Xml,
    HeadBucket: None,
    DeleteBucket: None,
    GetBucketLocation: None,
    ListObjects: None,
    ListObjectsV2: None,
    ListMultipartUploads: None,
    DeleteObjects: Xml,
    GetObject: None,
    HeadObject: None,
    PutObject: Object,
    CopyObject: None,
    DeleteObject: None,
    CreateMultipartUpload: None,
    UploadPart: Object,
    UploadPartCopy: None,
    CompleteMultipartUpload: Xml,
    AbortMultipartUpload: None,
    ListParts: None,
    GetBucketVersioning: None,
    GetBucketTagging: None,
    GetBucketPolicy: None,
    GetBucketPolicyStatus: None,
    GetBucketCors: None,
    GetBucketLifecycleConfiguration: None,
    GetBucketWebsite: None,
    GetBucketEncryption: None,
    GetBucketReplication: None,
    GetPublicAccessBlock: None,
    GetObjectLockConfiguration: None,
    GetBucketLogging: None,
    GetBucketNotificationConfiguration: None,
    GetBucketAccelerateConfiguration: None,
    GetBucketRequestPayment: None,
    GetBucketOwnershipControls: None,
    GetBucketAcl: None,
    GetObjectAttributes: None,
    GetObjectAcl: None,
    GetObjectTagging: None,
    GetObjectRetention: None,
    GetObjectLegalHold: None,
    ListObjectVersions: None,
    DeleteBucketPolicy: None,
    DeleteBucketCors: None,
    DeleteBucketLifecycle: None,
    PutBucketTagging: Xml,
    DeleteBucketTagging: None,
    DeleteBucketWebsite: None,
    DeleteBucketEncryption: None,
    DeleteBucketReplication: None,
    DeleteBucketOwnershipControls: None,
    DeletePublicAccessBlock: None,
    DeleteObjectTagging: None,
}

impl Operation {
    /// Whether it changes nothing that is stored.
    pub fn is_read(self) -> bool {
        ["Get", "Head", "List"].iter().any(|verb| self.name().starts_with(verb))
    }
}

impl Operation {
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

/// What a request asks for that is not here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnservedRequest {
    /// What a parameter of its query stands for.
    Parameter,
    /// An operation.
    Operation,
}

impl UnservedRequest {
    /// The element of an error document that names it.
    pub const fn element(self) -> &'static str {
        match self {
            Self::Parameter => "QueryParameter",
            Self::Operation => "Operation",
        }
    }
}

/// Why a request has no operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoOperation {
    /// AWS has it or may have it; we have not.
    #[error("{lacking:?} {name} is not implemented")]
    NotImplemented {
        /// Whether a parameter or the operation is lacking.
        lacking: UnservedRequest,
        /// Its name.
        name: String,
    },
    /// AWS has no such method there either.
    #[error("method not allowed")]
    MethodNotAllowed,
    /// A parameter that decides something stands twice, alone, or with a value it cannot have.
    #[error("invalid parameter {name}")]
    InvalidParameter {
        /// The parameter.
        name: &'static str,
    },
}

impl NoOperation {
    /// AWS has an operation of that name.
    pub fn lacks_operation(name: &str) -> Self {
        Self::NotImplemented { lacking: UnservedRequest::Operation, name: name.to_owned() }
    }

    /// AWS has, or may have, a parameter of that name.
    fn lacks_parameter(name: &str) -> Self {
        Self::NotImplemented { lacking: UnservedRequest::Parameter, name: name.to_owned() }
    }
}

struct Rule {
    method: Method,
    level: Level,
    /// Parameters that must be there.
    selectors: &'static [&'static str],
    /// Parameters that may be there.
    options: &'static [&'static str],
    operation: Operation,
    /// The operation when the request names a source to copy from.
    from_copy: Option<Operation>,
}

const LIST_V1: &[&str] = &["prefix", "delimiter", "marker", "max-keys", "encoding-type"];
const LIST_V2: &[&str] =
    &["prefix", "delimiter", "max-keys", "encoding-type", "start-after", "continuation-token", "fetch-owner"];
const LIST_VERSIONS: &[&str] =
    &["prefix", "delimiter", "key-marker", "version-id-marker", "max-keys", "encoding-type"];
const LIST_UPLOADS: &[&str] =
    &["prefix", "delimiter", "max-uploads", "encoding-type", "key-marker", "upload-id-marker"];
const READ: &[&str] = &[
    "partNumber",
    "versionId",
    "response-content-type",
    "response-content-language",
    "response-expires",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
];

const fn rule(
    method: Method,
    level: Level,
    selectors: &'static [&'static str],
    options: &'static [&'static str],
    operation: Operation,
) -> Rule {
    Rule { method, level, selectors, options, operation, from_copy: None }
}

/// Per method and level the more specific rules stand first.
const RULES: &[Rule] = &[
    rule(
        Method::GET,
        Level::Service,
        &[],
        &["prefix", "max-buckets", "continuation-token", "bucket-region"],
        Operation::ListBuckets,
    ),
    rule(Method::GET, Level::Bucket, &["location"], &[], Operation::GetBucketLocation),
    // Configuration that nobody can set yet: reads say that there is none.
    rule(Method::GET, Level::Bucket, &["versioning"], &[], Operation::GetBucketVersioning),
    rule(Method::GET, Level::Bucket, &["tagging"], &[], Operation::GetBucketTagging),
    rule(Method::GET, Level::Bucket, &["policy"], &[], Operation::GetBucketPolicy),
    rule(Method::GET, Level::Bucket, &["policyStatus"], &[], Operation::GetBucketPolicyStatus),
    rule(Method::GET, Level::Bucket, &["cors"], &[], Operation::GetBucketCors),
    rule(Method::GET, Level::Bucket, &["lifecycle"], &[], Operation::GetBucketLifecycleConfiguration),
    rule(Method::GET, Level::Bucket, &["website"], &[], Operation::GetBucketWebsite),
    rule(Method::GET, Level::Bucket, &["encryption"], &[], Operation::GetBucketEncryption),
    rule(Method::GET, Level::Bucket, &["replication"], &[], Operation::GetBucketReplication),
    rule(Method::GET, Level::Bucket, &["publicAccessBlock"], &[], Operation::GetPublicAccessBlock),
    rule(Method::GET, Level::Bucket, &["object-lock"], &[], Operation::GetObjectLockConfiguration),
    rule(Method::GET, Level::Bucket, &["logging"], &[], Operation::GetBucketLogging),
    rule(Method::GET, Level::Bucket, &["notification"], &[], Operation::GetBucketNotificationConfiguration),
    rule(Method::GET, Level::Bucket, &["accelerate"], &[], Operation::GetBucketAccelerateConfiguration),
    rule(Method::GET, Level::Bucket, &["requestPayment"], &[], Operation::GetBucketRequestPayment),
    rule(Method::GET, Level::Bucket, &["ownershipControls"], &[], Operation::GetBucketOwnershipControls),
    rule(Method::GET, Level::Bucket, &["acl"], &[], Operation::GetBucketAcl),
    rule(Method::GET, Level::Bucket, &["uploads"], LIST_UPLOADS, Operation::ListMultipartUploads),
    rule(Method::GET, Level::Bucket, &["versions"], LIST_VERSIONS, Operation::ListObjectVersions),
    rule(Method::GET, Level::Bucket, &["list-type"], LIST_V2, Operation::ListObjectsV2),
    rule(Method::GET, Level::Bucket, &[], LIST_V1, Operation::ListObjects),
    rule(Method::HEAD, Level::Bucket, &[], &[], Operation::HeadBucket),
    rule(Method::PUT, Level::Bucket, &["tagging"], &[], Operation::PutBucketTagging),
    rule(Method::PUT, Level::Bucket, &[], &[], Operation::CreateBucket),
    // There is none of it, so a deletion is done.
    rule(Method::DELETE, Level::Bucket, &["policy"], &[], Operation::DeleteBucketPolicy),
    rule(Method::DELETE, Level::Bucket, &["cors"], &[], Operation::DeleteBucketCors),
    rule(Method::DELETE, Level::Bucket, &["lifecycle"], &[], Operation::DeleteBucketLifecycle),
    rule(Method::DELETE, Level::Bucket, &["tagging"], &[], Operation::DeleteBucketTagging),
    rule(Method::DELETE, Level::Bucket, &["website"], &[], Operation::DeleteBucketWebsite),
    rule(Method::DELETE, Level::Bucket, &["encryption"], &[], Operation::DeleteBucketEncryption),
    rule(Method::DELETE, Level::Bucket, &["replication"], &[], Operation::DeleteBucketReplication),
    rule(
        Method::DELETE,
        Level::Bucket,
        &["ownershipControls"],
        &[],
        Operation::DeleteBucketOwnershipControls,
    ),
    rule(Method::DELETE, Level::Bucket, &["publicAccessBlock"], &[], Operation::DeletePublicAccessBlock),
    rule(Method::DELETE, Level::Bucket, &[], &[], Operation::DeleteBucket),
    rule(Method::POST, Level::Bucket, &["delete"], &[], Operation::DeleteObjects),
    rule(
        Method::GET,
        Level::Object,
        &["uploadId"],
        &["max-parts", "part-number-marker"],
        Operation::ListParts,
    ),
    rule(Method::GET, Level::Object, &["attributes"], &["versionId"], Operation::GetObjectAttributes),
    rule(Method::GET, Level::Object, &["acl"], &["versionId"], Operation::GetObjectAcl),
    rule(Method::GET, Level::Object, &["tagging"], &["versionId"], Operation::GetObjectTagging),
    rule(Method::GET, Level::Object, &["retention"], &["versionId"], Operation::GetObjectRetention),
    rule(Method::GET, Level::Object, &["legal-hold"], &["versionId"], Operation::GetObjectLegalHold),
    rule(Method::GET, Level::Object, &[], READ, Operation::GetObject),
    rule(Method::HEAD, Level::Object, &[], READ, Operation::HeadObject),
    Rule {
        method: Method::PUT,
        level: Level::Object,
        selectors: &["partNumber", "uploadId"],
        options: &[],
        operation: Operation::UploadPart,
        from_copy: Some(Operation::UploadPartCopy),
    },
    Rule {
        method: Method::PUT,
        level: Level::Object,
        selectors: &[],
        options: &["versionId"],
        operation: Operation::PutObject,
        from_copy: Some(Operation::CopyObject),
    },
    rule(Method::DELETE, Level::Object, &["uploadId"], &[], Operation::AbortMultipartUpload),
    rule(Method::DELETE, Level::Object, &["tagging"], &["versionId"], Operation::DeleteObjectTagging),
    rule(Method::DELETE, Level::Object, &[], &["versionId"], Operation::DeleteObject),
    rule(Method::POST, Level::Object, &["uploads"], &[], Operation::CreateMultipartUpload),
    rule(Method::POST, Level::Object, &["uploadId"], &[], Operation::CompleteMultipartUpload),
];

/// Keys that address something else than the thing itself, with or without a value: AWS's
/// documentation of every S3 operation. Sorted.
const SUB_RESOURCES: &[&str] = &[
    "abac",
    "accelerate",
    "acl",
    "analytics",
    "append",
    "attributes",
    "cors",
    "delete",
    "encryption",
    "events",
    "intelligent-tiering",
    "inventory",
    "legal-hold",
    "lifecycle",
    "list-type",
    "location",
    "logging",
    "metadataConfiguration",
    "metadataInventoryTable",
    "metadataJournalTable",
    "metadataTable",
    "metrics",
    "notification",
    "object-lock",
    "ownershipControls",
    "partNumber",
    "policy",
    "policyStatus",
    "position",
    "publicAccessBlock",
    "rename",
    "renameObject",
    "replication",
    "requestPayment",
    "restore",
    "retention",
    "select",
    "select-type",
    "session",
    "tagging",
    "torrent",
    "uploadId",
    "uploads",
    "versionId",
    "versioning",
    "versions",
    "website",
];

/// Whether AWS ignores a key: it keeps those that begin with `x-` for its users' own marks, and
/// the presigned ones have been read.
fn is_ignored(name: &str) -> bool {
    name.as_bytes().first_chunk().is_some_and(|start: &[u8; 2]| start.eq_ignore_ascii_case(b"x-"))
}

/// Names the operation of a request.
///
/// # Errors
/// [`NoOperation`] for what is not served.
pub fn classify(
    method: &Method,
    level: Level,
    query: &Query<'_>,
    copies: bool,
) -> Result<Operation, NoOperation> {
    let mut rules = RULES.iter().filter(|rule| rule.level == level && rule.method == *method);
    let matching = rules.find(|rule| rule.selectors.iter().all(|name| query.has(name)));
    let known = |name: &str| {
        matching.is_some_and(|rule| rule.selectors.contains(&name) || rule.options.contains(&name))
    };
    for pair in query.pairs() {
        let name = &*pair.name;
        if known(name) || is_ignored(name) {
            continue;
        }
        // Half of what names a part is a mistake; anything else is a feature we lack.
        if level == Level::Object && *method == Method::PUT {
            if name == "partNumber" {
                return Err(NoOperation::InvalidParameter { name: "partNumber" });
            }
            if name == "uploadId" {
                return Err(NoOperation::InvalidParameter { name: "uploadId" });
            }
        }
        if pair.raw_value.is_empty() || SUB_RESOURCES.binary_search(&name).is_ok() {
            return Err(NoOperation::lacks_parameter(name));
        }
    }
    let Some(rule) = matching else {
        // A POST to a bucket is a form upload, which AWS has.
        let form = level == Level::Bucket && *method == Method::POST;
        return Err(if form {
            NoOperation::lacks_operation("PostObject")
        } else {
            NoOperation::MethodNotAllowed
        });
    };
    check_values(rule, level, query)?;
    Ok(if copies { rule.from_copy.unwrap_or(rule.operation) } else { rule.operation })
}

fn check_values(rule: &Rule, level: Level, query: &Query<'_>) -> Result<(), NoOperation> {
    for name in rule.selectors.iter().chain(rule.options) {
        if query.count(name) > 1 {
            return Err(NoOperation::InvalidParameter { name });
        }
    }
    if query.get("list-type").is_some_and(|pair| pair.raw_value != "2") {
        return Err(NoOperation::InvalidParameter { name: "list-type" });
    }
    if query.get("versionId").is_some_and(|pair| pair.raw_value != "null") {
        return Err(NoOperation::lacks_parameter("versionId"));
    }
    let directory_buckets =
        query.get("x-id").is_some_and(|pair| pair.value().is_ok_and(|value| value == "ListDirectoryBuckets"));
    if level == Level::Service && directory_buckets {
        return Err(NoOperation::lacks_operation("ListDirectoryBuckets"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(method: &str, level: Level, query: &str) -> Result<Operation, NoOperation> {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        classify(&method, level, &Query::parse(Some(query)).expect("a query"), false)
    }

    fn lacks(method: &str, level: Level, query: &str) -> String {
        match named(method, level, query) {
            Err(NoOperation::NotImplemented { name, .. }) => name,
            other => panic!("{method} {level:?} ?{query} is {other:?}"),
        }
    }

    #[test]
    fn the_list_of_sub_resources_is_sorted() {
        assert!(SUB_RESOURCES.is_sorted());
    }

    #[test]
    fn every_sub_resource_is_served_or_not_implemented() {
        for method in ["GET", "PUT", "POST", "DELETE", "HEAD"] {
            for level in [Level::Bucket, Level::Object] {
                for name in SUB_RESOURCES {
                    for query in [(*name).to_owned(), format!("{name}=1")] {
                        let answer = named(method, level, &query);
                        let plain = named(method, level, "");
                        assert!(
                            answer.is_err() || answer != plain || matches!(*name, "partNumber"),
                            "{method} {level:?} ?{query} is taken for {answer:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn unknown_keys_are_features_without_a_value_and_marks_with_one() {
        assert_eq!(lacks("PUT", Level::Object, "renameObject"), "renameObject");
        assert_eq!(lacks("PUT", Level::Object, "somethingNew"), "somethingNew");
        assert_eq!(lacks("PUT", Level::Object, "some%54hing="), "someThing");
        assert_eq!(lacks("PUT", Level::Bucket, "abac"), "abac");
        assert_eq!(lacks("PUT", Level::Object, "%61cl=x"), "acl");
        assert_eq!(named("PUT", Level::Object, "trace=7"), Ok(Operation::PutObject));
        assert_eq!(named("PUT", Level::Object, "x-id=PutObject&X-Mine"), Ok(Operation::PutObject));
    }

    #[test]
    fn parts_need_both_of_their_names() {
        let both = "partNumber=1&uploadId=u";
        assert_eq!(named("PUT", Level::Object, both), Ok(Operation::UploadPart));
        for half in ["partNumber=1", "uploadId=u", "partNumber=1&uploadId=u&uploadId=v"] {
            assert!(
                matches!(named("PUT", Level::Object, half), Err(NoOperation::InvalidParameter { .. })),
                "{half}"
            );
        }
    }

    #[test]
    fn versions_other_than_null_are_not_implemented() {
        assert_eq!(named("GET", Level::Object, "versionId=null"), Ok(Operation::GetObject));
        assert_eq!(lacks("GET", Level::Object, "versionId=3sL4kqtJlcpXroDTDmJ"), "versionId");
        assert_eq!(lacks("DELETE", Level::Object, "versionId="), "versionId");
        assert_eq!(named("GET", Level::Bucket, "versions&prefix=a"), Ok(Operation::ListObjectVersions));
    }

    #[test]
    fn methods_that_aws_has_not_are_not_allowed() {
        for (method, level) in [
            ("PUT", Level::Service),
            ("POST", Level::Service),
            ("DELETE", Level::Service),
            ("HEAD", Level::Service),
            ("POST", Level::Object),
            ("PATCH", Level::Object),
        ] {
            assert_eq!(named(method, level, ""), Err(NoOperation::MethodNotAllowed), "{method} {level:?}");
        }
        assert_eq!(lacks("POST", Level::Bucket, ""), "PostObject");
        assert_eq!(lacks("GET", Level::Service, "x-id=ListDirectoryBuckets"), "ListDirectoryBuckets");
        assert!(matches!(
            named("GET", Level::Bucket, "list-type=3"),
            Err(NoOperation::InvalidParameter { .. })
        ));
    }
}
