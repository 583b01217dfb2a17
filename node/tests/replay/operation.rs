//! A name for what a request asks, for the table of what was compared. The server's own table of operations
//! is what is under test, so this is another one, and coarser.

use crate::message::Head;

/// Parameters that choose an operation, and its name by method.
const SELECTED: &[(&str, &[(&str, &str)])] = &[
    (
        "uploadId",
        &[
            ("PUT", "UploadPart"),
            ("GET", "ListParts"),
            ("POST", "CompleteMultipartUpload"),
            ("DELETE", "AbortMultipartUpload"),
        ],
    ),
    ("uploads", &[("POST", "CreateMultipartUpload"), ("GET", "ListMultipartUploads")]),
    ("delete", &[("POST", "DeleteObjects")]),
    ("attributes", &[("GET", "GetObjectAttributes")]),
    ("versions", &[("GET", "ListObjectVersions")]),
    ("location", &[("GET", "GetBucketLocation")]),
    ("list-type", &[("GET", "ListObjectsV2")]),
];
/// Parameters of what a bucket or an object is configured with.
const CONFIGURED: &[&str] = &[
    "versioning",
    "tagging",
    "policy",
    "policyStatus",
    "cors",
    "lifecycle",
    "website",
    "encryption",
    "replication",
    "publicAccessBlock",
    "object-lock",
    "logging",
    "notification",
    "accelerate",
    "requestPayment",
    "ownershipControls",
    "acl",
    "retention",
    "legal-hold",
];

/// The operation that a request asks for.
pub(crate) fn name(head: &Head) -> String {
    let (path, query) = head.target().split_once('?').unwrap_or((head.target(), ""));
    let names: Vec<&str> = query.split('&').filter_map(|pair| pair.split('=').next()).collect();
    let by_host = head.value("host").is_some_and(|host| host.contains(".s3.test"));
    let slashes = path.trim_end_matches('/').matches('/').count() + usize::from(by_host);
    let method = head.method();
    for (parameter, methods) in SELECTED {
        let method = methods.iter().find(|(of, _)| names.contains(parameter) && *of == method);
        if let Some((_, name)) = method {
            let is_copy = head.value("x-amz-copy-source").is_some();
            return if is_copy { format!("{name}Copy") } else { (*name).to_owned() };
        }
    }
    if let Some(parameter) = CONFIGURED.iter().find(|parameter| names.contains(parameter)) {
        let level = if slashes > 1 { "object" } else { "bucket" };
        return format!("{method} {level}?{parameter}");
    }
    let name = match (method, slashes) {
        ("GET", 0) => "ListBuckets",
        ("PUT", 1) => "CreateBucket",
        ("HEAD", 1) => "HeadBucket",
        ("DELETE", 1) => "DeleteBucket",
        ("GET", 1) => "ListObjects",
        ("PUT", _) if head.value("x-amz-copy-source").is_some() => "CopyObject",
        ("PUT", 2..) => "PutObject",
        ("GET", 2..) => "GetObject",
        ("HEAD", 2..) => "HeadObject",
        ("DELETE", 2..) => "DeleteObject",
        _ => "other",
    };
    name.to_owned()
}
