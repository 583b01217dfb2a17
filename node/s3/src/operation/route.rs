//! The operation of a request, by its method, its address and its query; or why it has none.
//!
//! A request that matches no row is answered 501. A sub-resource is a query key of AWS's list, or any key
//! without a value; other keys that an operation does not know mean nothing to AWS and nothing here.

use std::sync::LazyLock;

use http::Method;
use sherd_signature::query::Query;

use super::{Operation, ROWS, Row};
use crate::head::columns::{Columns, VERSION_ID, Verb};
use crate::wire::address::{Address, Level};
use crate::wire::refusal::{Code, Refusal};

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
    /// A feature that AWS has or may have.
    #[error("{lacking:?} {name} is not implemented")]
    NotImplemented {
        /// Whether a parameter or the operation is lacking.
        lacking: UnservedRequest,
        /// The name of it.
        name: String,
    },
    /// An operation of AWS that is not served.
    #[error("{} is not implemented", .0.name())]
    Unserved(Operation),
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
            NoOperation::Unserved(operation) => match operation.columns().selectors.first() {
                Some(parameter) => {
                    let refusal = UnservedRequest::Parameter.refusal(*parameter);
                    refusal.with(UnservedRequest::Operation.element(), operation.name())
                }
                None => UnservedRequest::Operation.refusal(operation.name()),
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

/// Keys that address something else than the thing itself, with or without a value, beside those that select
/// a row: AWS's documentation of every S3 operation, and `versionId`.
const FURTHER_SUB_RESOURCES: [&str; 6] =
    ["append", "events", "position", "rename", "select-type", VERSION_ID];

/// Whether a key addresses something else than the thing itself. A request may have thousands of keys, and is
/// not proven yet.
fn is_sub_resource(name: &str) -> bool {
    static SORTED: LazyLock<Vec<&str>> = LazyLock::new(|| {
        let selectors = ROWS.iter().filter_map(|row| row.columns.selectors.first().copied());
        let mut names: Vec<_> = selectors.chain(FURTHER_SUB_RESOURCES).collect();
        names.sort_unstable();
        names.dedup();
        names
    });
    SORTED.binary_search(&name).is_ok()
}

/// Whether AWS ignores a key: it keeps those that begin with `x-` for its users' own marks, and
/// the presigned ones have been read.
fn is_ignored(name: &str) -> bool {
    name.as_bytes().first_chunk().is_some_and(|start: &[u8; 2]| start.eq_ignore_ascii_case(b"x-"))
}

/// Names the operation of a request; `copies` says whether it names a source to copy from.
///
/// # Errors
/// [`NoOperation`] for what is not served.
pub fn route(
    method: &Method,
    address: &Address,
    query: &Query<'_>,
    copies: bool,
) -> Result<Operation, NoOperation> {
    let level = address.level;
    if let Some(operation) = unserved_by_address(method, address) {
        return Err(NoOperation::Unserved(operation));
    }
    let Some(verb) = Verb::of(method) else { return by_parameters(None, level, query, None) };
    let mut rows = ROWS.iter().filter(|row| row.handler.is_some() && row.asks(verb, level));
    let has_all = |row: &&Row| row.columns.selectors.iter().all(|name| query.has(name));
    let matching = rows.find(|row| (copies || !row.columns.is_copy()) && has_all(row));
    by_parameters(Some(verb), level, query, matching)
}

/// Judges the parameters of a request for the operation of a row.
fn by_parameters(
    verb: Option<Verb>,
    level: Level,
    query: &Query<'_>,
    matching: Option<&Row>,
) -> Result<Operation, NoOperation> {
    let known = |name: &str| {
        matching.is_some_and(|Row { columns, .. }| {
            columns.selectors.contains(&name) || columns.options.contains(&name)
        })
    };
    for pair in query.pairs() {
        let name = &*pair.name;
        if known(name) || is_ignored(name) {
            continue;
        }
        // Half of what names a part is a mistake; anything else is a feature we lack.
        if level == Level::Object && verb == Some(Verb::Put) {
            if name == "partNumber" {
                return Err(NoOperation::InvalidParameter { name: "partNumber" });
            }
            if name == "uploadId" {
                return Err(NoOperation::InvalidParameter { name: "uploadId" });
            }
        }
        if pair.raw_value.is_empty() || is_sub_resource(name) {
            if let Some(operation) = unserved_by_parameters(verb, level, query) {
                return Err(NoOperation::Unserved(operation));
            }
            if name == VERSION_ID && matching.is_some() {
                let id = query.text(name).unwrap_or_default().into_owned();
                return Err(NoOperation::TakesNoVersion { id });
            }
            return Err(NoOperation::lacks_parameter(name));
        }
    }
    let row = matching.ok_or(NoOperation::MethodNotAllowed)?;
    check_values(&row.columns, query)?;
    Ok(row.operation)
}

fn check_values(columns: &Columns, query: &Query<'_>) -> Result<(), NoOperation> {
    for name in columns.selectors.iter().chain(columns.options) {
        if query.count(name) > 1 {
            return Err(NoOperation::InvalidParameter { name });
        }
    }
    if query.get("list-type").is_some_and(|pair| pair.raw_value != "2") {
        return Err(NoOperation::InvalidParameter { name: "list-type" });
    }
    if columns.level != Level::Service {
        return Ok(());
    }
    let unserved = unserved_by_parameters(Some(columns.verb), columns.level, query);
    unserved.map_or(Ok(()), |operation| Err(NoOperation::Unserved(operation)))
}

impl Row {
    /// Whether a request of a verb and a level may be for it.
    fn asks(&self, verb: Verb, level: Level) -> bool {
        self.columns.level == level && self.columns.verb == verb
    }
}

/// The operation that is not served and that a request asks for by its parameters.
fn unserved_by_parameters(verb: Option<Verb>, level: Level, query: &Query<'_>) -> Option<Operation> {
    let has = |selector: &&str| match selector.split_once('=') {
        Some((name, value)) => query.text(name).is_some_and(|text| text == value),
        None => query.has(selector),
    };
    let verb = verb?;
    let mut rows = ROWS.iter().filter(|row| row.handler.is_none() && row.asks(verb, level));
    let row = rows.find(|Row { columns: Columns { selectors, .. }, .. }| {
        !selectors.is_empty() && selectors.iter().all(has)
    });
    row.map(|row| row.operation)
}

/// The operation that is not served and that a request asks for by its address, which has the form of a
/// bucket's.
fn unserved_by_address(method: &Method, address: &Address) -> Option<Operation> {
    if *method != Method::POST || address.level != Level::Bucket {
        return None;
    }
    let mut rows = ROWS.iter().filter(|row| row.handler.is_none() && row.columns.selectors.is_empty());
    rows.find(|row| row.columns.name == address.bucket).map(|row| row.operation)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(method: &str, level: Level, query: &str) -> Result<Operation, NoOperation> {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let (bucket, key) = ("bucket".to_owned(), String::new());
        let address = Address { host_bucket: None, level, bucket, key };
        route(&method, &address, &Query::parse(Some(query)).expect("a query"), false)
    }

    fn lacks(method: &str, level: Level, query: &str) -> String {
        match named(method, level, query) {
            Err(NoOperation::NotImplemented { name, .. }) => name,
            Err(NoOperation::Unserved(operation)) => operation.name().to_owned(),
            other => panic!("{method} {level:?} ?{query} is {other:?}"),
        }
    }

    #[test]
    fn every_sub_resource_is_served_or_not_implemented() {
        for method in ["GET", "PUT", "POST", "DELETE", "HEAD"] {
            for level in [Level::Bucket, Level::Object] {
                let selectors = ROWS.iter().filter_map(|row| row.columns.selectors.first());
                for name in FURTHER_SUB_RESOURCES.iter().chain(selectors).filter(|name| !name.contains('=')) {
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
