//! The actions of a request: the one of its operation's row, in its form for a version where one is named,
//! and those that parts of the request need beside it.

use sherd_policy::Resource;

use crate::access::limits::ACTIONS_MAX;
use crate::access::{READ_OBJECT, of_version};
use crate::head::acl::UnsupportedAcl;
use crate::head::columns::{Columns, Makes, ResourceKind};
use crate::head::conditions;
use crate::head::request_head::RequestHead;
use crate::request::Target;

/// The actions of a request. Those on the keys of a document are judged where the document is read, that on
/// the source of a copy where the source is named.
pub(super) fn of(columns: &Columns, head: &RequestHead<'_>) -> [Option<&'static str>; ACTIONS_MAX] {
    if columns.resource == ResourceKind::EachKey {
        return [None; ACTIONS_MAX];
    }
    let names_version = head.names_version() && !columns.makes_object();
    let [read, acl, ownership] = further(columns, head);
    let named = |action| of_version(action, names_version);
    [Some(named(columns.action)), read.map(named), acl, ownership]
}

/// The resource that a request is judged about.
pub(super) fn resource_of<'a>(columns: &Columns, target: &'a Target) -> Resource<'a> {
    match columns.resource {
        ResourceKind::Service => Resource::Service,
        ResourceKind::Bucket | ResourceKind::EachKey => Resource::Bucket(target.bucket_name()),
        ResourceKind::Object => Resource::Object(target.bucket_name(), target.key()),
    }
}

/// The actions that parts of a request need: GetObjectAttributes reads the object, a comparison with an
/// entity tag shows what the object's is, and access control lists and ownership have actions of their own. A
/// list that is ignored does nothing that needs a right.
fn further(columns: &Columns, head: &RequestHead<'_>) -> [Option<&'static str>; 3] {
    let compares = || columns.conditions && conditions::compare_etags(head);
    let acl = match columns.makes {
        Makes::Bucket => Some("s3:PutBucketAcl"),
        Makes::Object => Some("s3:PutObjectAcl"),
        Makes::Nothing => None,
    };
    let brings_acl = || head.lists() == UnsupportedAcl::Refuse && head.has_list();
    let owns = columns.makes == Makes::Bucket && head.has("x-amz-object-ownership");
    [
        (columns.reads_object || compares()).then_some(READ_OBJECT),
        acl.filter(|_| brings_acl()),
        owns.then_some("s3:PutBucketOwnershipControls"),
    ]
}

#[cfg(test)]
mod tests {
    use sherd_core::record::Tag;

    use super::*;
    use crate::access::Access;
    use crate::access::facts::{DocumentFacts, Facts};
    use crate::operation::Operation;

    /// Headers that conditions name, each with its key.
    const HEADERS: &[(&str, &str)] = &[
        ("x-amz-acl", "s3:x-amz-acl"),
        ("x-amz-grant-full-control", "s3:x-amz-grant-full-control"),
        ("x-amz-grant-read", "s3:x-amz-grant-read"),
        ("x-amz-grant-read-acp", "s3:x-amz-grant-read-acp"),
        ("x-amz-grant-write", "s3:x-amz-grant-write"),
        ("x-amz-grant-write-acp", "s3:x-amz-grant-write-acp"),
        ("x-amz-storage-class", "s3:x-amz-storage-class"),
        ("x-amz-object-ownership", "s3:x-amz-object-ownership"),
        ("x-amz-tagging", "s3:RequestObjectTag/v"),
        ("x-amz-copy-source", "s3:x-amz-copy-source"),
        ("x-amz-metadata-directive", "s3:x-amz-metadata-directive"),
        ("x-amz-server-side-encryption", "s3:x-amz-server-side-encryption"),
        ("x-amz-website-redirect-location", "s3:x-amz-website-redirect-location"),
        ("x-amz-object-lock-mode", "s3:object-lock-mode"),
        ("x-amz-object-lock-legal-hold", "s3:object-lock-legal-hold"),
        ("if-match", "s3:if-match"),
        ("if-none-match", "s3:if-none-match"),
    ];
    /// Keys of a request's parameters, its document, and what it is about.
    const OTHERS: &[&str] = &[
        "s3:prefix",
        "s3:delimiter",
        "s3:max-keys",
        "s3:VersionId",
        "s3:ExistingObjectTag/v",
        "s3:LocationConstraint",
        "s3:ObjectCreationOperation",
        "aws:RequestTag/v",
    ];

    /// The keys that requests of an operation have, of these.
    fn keys_of(operation: Operation) -> Vec<&'static str> {
        let write = ["object-lock-mode", "object-lock-legal-hold", "RequestObjectTag/v"];
        let write = ["acl", "grant-", "storage-class", "server-side", "website"].into_iter().chain(write);
        match operation {
            Operation::PutObject | Operation::CompleteMultipartUpload => {
                write.chain(["if-", "ObjectCreation"]).collect()
            }
            Operation::CopyObject => {
                write.chain(["if-", "ObjectCreation", "copy-source", "metadata-directive"]).collect()
            }
            Operation::UploadPartCopy => {
                write.chain(["ObjectCreation", "copy-source", "metadata-directive"]).collect()
            }
            Operation::PostObject | Operation::CreateMultipartUpload | Operation::UploadPart => {
                write.chain(["ObjectCreation"]).collect()
            }
            Operation::CreateBucket => {
                vec!["acl", "grant-", "object-ownership", "LocationConstraint", "aws:RequestTag"]
            }
            Operation::PutBucketTagging => vec!["aws:RequestTag"],
            Operation::PutBucketAcl => vec!["acl", "grant-"],
            Operation::PutObjectAcl => {
                vec!["acl", "grant-", "storage-class", "ExistingObjectTag", "VersionId"]
            }
            Operation::PutObjectTagging => vec!["ExistingObjectTag", "RequestObjectTag/v", "VersionId"],
            Operation::ListObjects | Operation::ListObjectsV2 | Operation::ListObjectVersions => {
                vec!["prefix", "delimiter", "max-keys"]
            }
            Operation::GetObject
            | Operation::HeadObject
            | Operation::GetObjectAttributes
            | Operation::GetObjectAcl
            | Operation::GetObjectTagging
            | Operation::DeleteObjectTagging => vec!["ExistingObjectTag", "VersionId"],
            Operation::DeleteObject => vec!["VersionId"],
            _ => vec![],
        }
    }

    /// A request that sends every header and parameter, whether its operation reads them or not.
    #[test]
    fn an_operation_has_the_keys_of_what_it_reads_alone() {
        let sent: Vec<_> = HEADERS.iter().map(|(header, _)| (*header, "v")).collect();
        let head = RequestHead::with(&sent).and_query("prefix=v&delimiter=v&max-keys=v&versionId=v");
        let tags = [Tag { key: "v".to_owned(), value: String::new() }];
        let keys: Vec<_> = HEADERS.iter().map(|(_, key)| *key).chain(OTHERS.iter().copied()).collect();
        for key in keys {
            let access = Access::allowed_if(&format!(r#"{{"StringLike":{{"{key}":"*"}}}}"#));
            for operation in Operation::served() {
                let columns = operation.columns();
                let facts = Facts::of(&head).of_operation(Some(columns));
                let facts = facts.with_existing_tags(&tags);
                let facts = match operation {
                    Operation::CreateBucket | Operation::PutBucketTagging => {
                        facts.with_document(DocumentFacts::Bucket { location: "v", tags: &tags })
                    }
                    Operation::CopyObject | Operation::PutObjectTagging => {
                        facts.with_document(DocumentFacts::Tags(&tags))
                    }
                    _ => facts,
                };
                let resource = match columns.resource {
                    ResourceKind::Service => Resource::Service,
                    ResourceKind::Bucket | ResourceKind::EachKey => Resource::Bucket("b"),
                    ResourceKind::Object => Resource::Object("b", "k"),
                };
                let [Some(action), ..] = of(columns, &head) else { continue };
                let name = key.trim_start_matches("s3:").trim_start_matches("x-amz-");
                let expected = keys_of(operation).iter().any(|start| name.starts_with(start));
                let is_there = access.allow(action, resource, facts).is_ok();
                assert_eq!(is_there, expected, "{} {action} {key}", operation.name());
            }
        }
    }
}
