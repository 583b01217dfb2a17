//! Policy documents: of a file, or of rights to buckets.

use std::path::Path;

use serde_json::Value;
use sherd_core::id::may_be_bucket;
use sherd_policy::presets::{self, BucketAccess, BucketLife, BucketRight};
use tokio::io::AsyncReadExt as _;

use super::args::DocumentArgs;
use super::error::UserError;
use super::limits::DOCUMENT_BYTES_MAX;

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
    let right = |access| move |bucket: &String| BucketRight { bucket: bucket.clone(), access, mark: None };
    let readers = read.iter().map(right(BucketAccess::Read));
    let rights: Vec<_> = readers.chain(write.iter().map(right(BucketAccess::Write))).collect();
    presets::document(&rights, BucketLife::Open)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sherd_policy::{Policy, PolicyForm};

    use super::*;

    #[test]
    fn rights_to_buckets_are_a_policy() {
        let document = of_buckets(&["logs".to_owned()], &["a".to_owned(), "b".to_owned()]);
        Policy::parse(document.to_string().as_bytes(), PolicyForm::Identity).expect("a policy");
        let statements = document["Statement"].as_array().expect("a list");
        let [readers, writers] = statements.as_slice() else { panic!("{document}") };
        assert_eq!(readers["Resource"], json!(["arn:aws:s3:::logs/*", "arn:aws:s3:::logs"]));
        assert_eq!(readers["Action"], json!(BucketAccess::Read.actions()));
        let buckets = ["arn:aws:s3:::a/*", "arn:aws:s3:::a", "arn:aws:s3:::b/*", "arn:aws:s3:::b"];
        assert_eq!(writers["Resource"], json!(buckets));
        assert_eq!(writers["Action"], json!(BucketAccess::Write.actions()));
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
