//! The actions of a request: the one of its operation's row, in its form for a version where one is named,
//! and those that parts of the request need beside it. And which facts it has by what it does.

use http::HeaderMap;
use http::header::IF_MATCH;
use sherd_policy::Resource;

use super::query::Query;
use crate::access::facts::{FactKinds, TAGGING_DIRECTIVE};
use crate::access::limits::ACTIONS_MAX;
use crate::access::{READ_OBJECT, of_version};
use crate::operations::{Operation, ResourceKind};
use crate::request::Target;

/// The actions of a request. Those on the keys of a document are judged where the document is read, that on
/// the source of a copy where the source is named.
pub(super) fn of(
    operation: Operation,
    headers: &HeaderMap,
    query: &Query<'_>,
) -> [Option<&'static str>; ACTIONS_MAX] {
    let row = operation.row();
    if row.resource == ResourceKind::EachKey {
        return [None; ACTIONS_MAX];
    }
    let names_version = query.has("versionId") && !writes_object(operation);
    let [read, acl, ownership] = further(operation, headers);
    let named = |action| of_version(action, names_version);
    [Some(named(row.action)), read.map(named), acl, ownership]
}

/// The resource that a request is judged about.
pub(super) fn resource_of(operation: Operation, target: &Target) -> Resource<'_> {
    match operation.row().resource {
        ResourceKind::Service => Resource::Service,
        ResourceKind::Bucket | ResourceKind::EachKey => Resource::Bucket(target.bucket_name()),
        ResourceKind::Object => Resource::Object(target.bucket_name(), target.key()),
    }
}

/// The actions that parts of a request need: GetObjectAttributes reads the object, a comparison with an
/// entity tag shows what the object's is, and access control lists and ownership have actions of their own.
fn further(operation: Operation, headers: &HeaderMap) -> [Option<&'static str>; 3] {
    let compares = match operation {
        Operation::GetObjectAttributes => true,
        Operation::PutObject
        | Operation::CopyObject
        | Operation::CompleteMultipartUpload
        | Operation::DeleteObject => headers.get(IF_MATCH).is_some_and(|etag| etag != "*"),
        _ => false,
    };
    let acl = match operation {
        Operation::CreateBucket => Some("s3:PutBucketAcl"),
        operation => writes_object(operation).then_some("s3:PutObjectAcl"),
    };
    let is_grant = |name: &http::HeaderName| name.as_str().starts_with("x-amz-grant-");
    let has_acl = || headers.contains_key("x-amz-acl") || headers.keys().any(is_grant);
    let owns = operation == Operation::CreateBucket && headers.contains_key("x-amz-object-ownership");
    [
        compares.then_some(READ_OBJECT),
        acl.filter(|_| has_acl()),
        owns.then_some("s3:PutBucketOwnershipControls"),
    ]
}

/// Whether an operation writes an object with what its head says of it. It names no version that is
/// there.
const fn writes_object(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::PutObject
            | Operation::PostObject
            | Operation::CopyObject
            | Operation::CreateMultipartUpload
    )
}

/// Which facts a request has by what it does.
pub(super) fn fact_kinds(operation: Operation, headers: &HeaderMap) -> FactKinds {
    let lists = matches!(
        operation,
        Operation::ListObjects
            | Operation::ListObjectsV2
            | Operation::ListObjectVersions
            | Operation::ListMultipartUploads
    );
    let creates = match operation {
        Operation::PutObject
        | Operation::PostObject
        | Operation::CopyObject
        | Operation::CompleteMultipartUpload => Some(true),
        Operation::CreateMultipartUpload | Operation::UploadPart | Operation::UploadPartCopy => Some(false),
        _ => None,
    };
    // By the operation first: the headers of a copy mean nothing to others, which may have them, too.
    let keeps_tags = operation == Operation::CopyObject
        && headers.get(TAGGING_DIRECTIVE).is_none_or(|directive| directive != "REPLACE");
    let has_document = matches!(operation, Operation::CreateBucket | Operation::PutObjectTagging);
    FactKinds {
        lists,
        creates,
        guards: operation.takes_conditions(),
        has_existing_tags: is_of_existing_object(operation),
        has_document: has_document || keeps_tags,
        keeps_tags,
        tags_bucket: matches!(operation, Operation::CreateBucket | Operation::PutBucketTagging),
    }
}

/// Whether an operation is about an object that has to be there: whose tags count, and which is not shown to
/// be missing to a caller who may not list its bucket.
pub(super) const fn is_of_existing_object(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::GetObject
            | Operation::HeadObject
            | Operation::GetObjectAttributes
            | Operation::GetObjectAcl
            | Operation::PutObjectAcl
            | Operation::GetObjectTagging
            | Operation::PutObjectTagging
            | Operation::DeleteObjectTagging
            | Operation::GetObjectRetention
            | Operation::GetObjectLegalHold
    )
}
