//! Policy documents: of a file, or of rights to buckets.

use std::io;

use serde_json::{Value, json};

use super::args::DocumentArgs;

const LIST: [&str; 3] = ["s3:ListBucket", "s3:ListBucketVersions", "s3:GetBucketLocation"];
const READ: [&str; 6] = [
    "s3:GetObject",
    "s3:GetObjectVersion",
    "s3:GetObjectTagging",
    "s3:GetObjectVersionTagging",
    "s3:GetObjectAttributes",
    "s3:GetObjectVersionAttributes",
];
const LIST_UPLOADS: &str = "s3:ListBucketMultipartUploads";
const WRITE: [&str; 6] = [
    "s3:PutObject",
    "s3:DeleteObject",
    "s3:PutObjectTagging",
    "s3:DeleteObjectTagging",
    "s3:AbortMultipartUpload",
    "s3:ListMultipartUploadParts",
];

/// The text of a document.
///
/// # Errors
/// The file's.
pub(super) async fn document(arguments: &DocumentArgs) -> io::Result<String> {
    match &arguments.file {
        Some(path) => tokio::fs::read_to_string(path).await,
        None => Ok(of_buckets(&arguments.read, &arguments.write).to_string()),
    }
}

/// The rights to read these buckets, and to read and write those.
fn of_buckets(read: &[String], write: &[String]) -> Value {
    let statement = |actions: &[&str], buckets: &[String], suffix: &str| {
        let resources: Vec<_> =
            buckets.iter().map(|bucket| format!("arn:aws:s3:::{bucket}{suffix}")).collect();
        json!({"Effect": "Allow", "Action": actions, "Resource": resources})
    };
    let mut statements = Vec::new();
    if !read.is_empty() {
        statements.extend([statement(&LIST, read, ""), statement(&READ, read, "/*")]);
    }
    if !write.is_empty() {
        statements.push(statement(&[&LIST[..], &[LIST_UPLOADS]].concat(), write, ""));
        statements.push(statement(&[READ, WRITE].concat(), write, "/*"));
    }
    json!({"Version": "2012-10-17", "Statement": statements})
}

#[cfg(test)]
mod tests {
    use sherd_policy::{Policy, PolicyForm};

    use super::*;

    #[test]
    fn rights_to_buckets_are_a_policy() {
        let document = of_buckets(&["logs".to_owned()], &["a".to_owned(), "b".to_owned()]);
        Policy::parse(document.to_string().as_bytes(), PolicyForm::Identity).expect("a policy");
        let statements = document["Statement"].as_array().expect("a list");
        assert_eq!(statements[1]["Resource"], json!(["arn:aws:s3:::logs/*"]));
        assert_eq!(statements[3]["Resource"], json!(["arn:aws:s3:::a/*", "arn:aws:s3:::b/*"]));
        assert!(!statements[1]["Action"].to_string().contains("Put"));
    }
}
