//! The operation of a request, by its method, its address and its query; or why it has none.
//!
//! A request that matches no row is answered 501. A sub-resource is a query key of AWS's list, or any key
//! without a value; other keys that an operation does not know mean nothing to AWS and nothing here.

use http::Method;
use sherd_signature::query::Query;

use super::{Operation, ROWS, Row, VERSION_ID};
use crate::protocol::address::Level;
use crate::protocol::code::Code;
use crate::protocol::refusal::Refusal;
use crate::unserved::{self, UnservedOperation};

/// A part of a request that is not implemented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnservedRequest {
    /// A parameter of its query.
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

    /// The answer that names it.
    fn refusal(self, name: impl Into<String>) -> Refusal {
        let message = match self {
            Self::Parameter => "A query parameter you provided implies functionality that is not implemented",
            Self::Operation => "The operation you asked for is not implemented",
        };
        Refusal::says(Code::NotImplemented, message).with(self.element(), name)
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
    /// AWS has that operation; we have not.
    #[error("{} is not implemented", .0.name)]
    Unserved(&'static UnservedOperation),
    /// AWS has no such method there either.
    #[error("method not allowed")]
    MethodNotAllowed,
    /// A parameter that decides something stands twice, alone, or with a value it cannot have.
    #[error("invalid parameter {name}")]
    InvalidParameter {
        /// The parameter.
        name: &'static str,
    },
    /// A version is named where an operation is not about one.
    #[error("the operation takes no version")]
    TakesNoVersion {
        /// The version's id, as it was sent.
        id: String,
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

impl From<NoOperation> for Refusal {
    fn from(error: NoOperation) -> Self {
        match error {
            NoOperation::NotImplemented { lacking, name } => lacking.refusal(name),
            NoOperation::Unserved(operation) => match operation.parameter() {
                Some(parameter) => {
                    let refusal = UnservedRequest::Parameter.refusal(parameter);
                    refusal.with(UnservedRequest::Operation.element(), operation.name)
                }
                None => UnservedRequest::Operation.refusal(operation.name),
            },
            NoOperation::MethodNotAllowed => Self::new(Code::MethodNotAllowed),
            NoOperation::InvalidParameter { name } => {
                Self::says(Code::InvalidArgument, format!("Invalid query parameter: {name}"))
                    .with("ArgumentName", name)
            }
            NoOperation::TakesNoVersion { id } => {
                Self::bad_argument("This operation does not accept a version-id.", VERSION_ID, &id)
            }
        }
    }
}

/// Keys that address something else than the thing itself, with or without a value: AWS's
/// documentation of every S3 operation. Sorted.
const SUB_RESOURCES: &[&str] = &[
    "abac",
    "accelerate",
    "acl",
    "analytics",
    "annotation",
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
    "metadataAnnotationTable",
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
    let mut rows = ROWS.iter().filter(|row| row.level == level && row.method == *method);
    let has_all = |row: &&Row| row.selectors.iter().all(|name| query.has(name));
    let matching = rows.find(|row| (copies || !row.copies) && has_all(row));
    let known =
        |name: &str| matching.is_some_and(|row| row.selectors.contains(&name) || row.options.contains(&name));
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
            if let Some(unserved) = unserved::by_parameters(method, level, query) {
                return Err(NoOperation::Unserved(unserved));
            }
            if name == VERSION_ID && matching.is_some() {
                let id = query.text(name).unwrap_or_default().into_owned();
                return Err(NoOperation::TakesNoVersion { id });
            }
            return Err(NoOperation::lacks_parameter(name));
        }
    }
    let row = matching.ok_or(NoOperation::MethodNotAllowed)?;
    check_values(row, level, query)?;
    Ok(row.operation)
}

fn check_values(row: &Row, level: Level, query: &Query<'_>) -> Result<(), NoOperation> {
    for name in row.selectors.iter().chain(row.options) {
        if query.count(name) > 1 {
            return Err(NoOperation::InvalidParameter { name });
        }
    }
    if query.get("list-type").is_some_and(|pair| pair.raw_value != "2") {
        return Err(NoOperation::InvalidParameter { name: "list-type" });
    }
    let unserved =
        if level == Level::Service { unserved::by_parameters(&row.method, level, query) } else { None };
    unserved.map_or(Ok(()), |operation| Err(NoOperation::Unserved(operation)))
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
            Err(NoOperation::Unserved(operation)) => operation.name.to_owned(),
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
                            answer.is_err() || answer != plain || matches!(*name, "partNumber" | VERSION_ID),
                            "{method} {level:?} ?{query} is taken for {answer:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn unknown_keys_are_features_without_a_value_and_marks_with_one() {
        assert_eq!(lacks("PUT", Level::Object, "renameObject"), "RenameObject");
        assert_eq!(lacks("PUT", Level::Object, "somethingNew"), "somethingNew");
        assert_eq!(lacks("PUT", Level::Object, "some%54hing="), "someThing");
        assert_eq!(lacks("PUT", Level::Bucket, "abac"), "PutBucketAbac");
        assert_eq!(named("PUT", Level::Object, "%61cl=x"), Ok(Operation::PutObjectAcl));
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
    fn a_version_is_named_where_an_operation_is_about_one() {
        assert_eq!(named("GET", Level::Object, "versionId=null"), Ok(Operation::GetObject));
        assert_eq!(named("DELETE", Level::Object, "versionId=x"), Ok(Operation::DeleteObject));
        assert_eq!(named("GET", Level::Bucket, "versions&prefix=a"), Ok(Operation::ListObjectVersions));
        for (method, level, query) in [
            ("PUT", Level::Object, "versionId=null"),
            ("PUT", Level::Object, "partNumber=1&uploadId=u&versionId="),
            ("POST", Level::Object, "versionId=x&uploads"),
            ("GET", Level::Bucket, "versionId=x"),
        ] {
            let refused = named(method, level, query);
            assert!(matches!(refused, Err(NoOperation::TakesNoVersion { .. })), "{method} {query}");
        }
        assert_eq!(lacks("PUT", Level::Object, "versionId=null&retention"), "PutObjectRetention");
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
        assert_eq!(named("POST", Level::Bucket, ""), Ok(Operation::PostObject));
        assert_eq!(lacks("GET", Level::Service, "x-id=ListDirectoryBuckets"), "ListDirectoryBuckets");
        assert!(matches!(
            named("GET", Level::Bucket, "list-type=3"),
            Err(NoOperation::InvalidParameter { .. })
        ));
    }
}
