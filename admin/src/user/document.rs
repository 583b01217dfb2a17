//! Policy documents: of a file, or of rights to buckets.

use std::path::Path;

use serde_json::{Value, json};
use sherd_core::id::may_be_bucket;
use tokio::io::AsyncReadExt as _;

use super::args::DocumentArgs;
use super::error::UserError;
use super::limits::DOCUMENT_BYTES_MAX;

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
/// The file's, [`UserError::LongFile`], and [`UserError::NoBucket`] for a bucket that can have no such name.
pub(super) async fn document(arguments: &DocumentArgs) -> Result<String, UserError> {
    let DocumentArgs { file, read, write } = arguments;
    if let Some(path) = file {
        return of_file(path).await;
    }
    match read.iter().chain(write).find(|name| !may_be_bucket(name)) {
        Some(name) => Err(UserError::NoBucket { name: name.clone() }),
        None => Ok(of_buckets(read, write).to_string()),
    }
}

/// The text of a file, which may be a pipe or a device, and has an end.
async fn of_file(path: &Path) -> Result<String, UserError> {
    let failed = |source| UserError::File { path: path.to_owned(), source };
    let (file, mut text) = (tokio::fs::File::open(path).await.map_err(failed)?, String::new());
    let read = file.take(DOCUMENT_BYTES_MAX as u64 + 1).read_to_string(&mut text).await;
    if read.map_err(failed)? > DOCUMENT_BYTES_MAX {
        return Err(UserError::LongFile { path: path.to_owned() });
    }
    Ok(text)
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

    #[tokio::test]
    async fn rights_are_to_buckets_by_their_names_and_files_have_an_end() {
        let arguments =
            |name: &str| DocumentArgs { file: None, read: vec![name.to_owned()], write: Vec::new() };
        document(&arguments("logs-2026")).await.expect("a bucket");
        for name in ["bu*", "*", "${aws:username}", "open1/pub", "x\",\"arn:...", "", "Logs", "a?"] {
            let refused = document(&arguments(name)).await.expect_err(name);
            assert!(refused.to_string().contains("no name of a bucket"), "{refused}");
        }
        let file = |path: &str| DocumentArgs { file: Some(path.into()), read: Vec::new(), write: Vec::new() };
        let refused = document(&file("/dev/zero")).await.expect_err("it has no end");
        assert!(matches!(refused, UserError::LongFile { .. }), "{refused}");
        assert_eq!(document(&file("/dev/null")).await.expect("a file"), "");
        assert!(matches!(document(&file("/nowhere")).await, Err(UserError::File { .. })));
    }
}
