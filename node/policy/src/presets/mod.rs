//! Documents of rights to buckets: to read, to write, or to administer those of a list.
//!
//! All buckets of one access stand in one statement, each by its name and by that of its objects: an action
//! on a bucket applies to the first, one on an object to the second. Callers write one document, or several
//! where IAM takes no longer one.

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

/// The condition key of a bucket's mark: a tag that only root changes.
pub const MARK_KEY: &str = "s3:BucketTag/sherd.dev/bucket";

/// The actions that a right to a bucket allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketAccess {
    /// Lists and reads objects.
    Read,
    /// Lists, reads, writes and deletes objects.
    Write,
    /// All actions on the bucket and its objects, but for what [`BucketLife::Kept`] denies.
    Admin,
}

/// The actions that make, tag or delete a bucket: another document may allow them, or none can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketLife {
    /// The document is silent about them, but where it allows all.
    Open,
    /// The document denies them.
    Kept,
}

/// A right to a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketRight {
    /// The bucket's name, without wildcards or variables.
    pub bucket: String,
    /// The access.
    pub access: BucketAccess,
    /// The value of [`MARK_KEY`] while the right holds: a bucket that another makes of its name later has
    /// another one. `None` where the right is to any bucket of the name.
    pub mark: Option<String>,
}

impl BucketAccess {
    /// The actions that it allows, as a document names them.
    pub fn actions(self) -> Vec<&'static str> {
        const READ: [&str; 9] = [
            "s3:ListBucket",
            "s3:ListBucketVersions",
            "s3:GetBucketLocation",
            "s3:GetObject",
            "s3:GetObjectVersion",
            "s3:GetObjectTagging",
            "s3:GetObjectVersionTagging",
            "s3:GetObjectAttributes",
            "s3:GetObjectVersionAttributes",
        ];
        const WRITE: [&str; 7] = [
            "s3:ListBucketMultipartUploads",
            "s3:PutObject",
            "s3:DeleteObject",
            "s3:PutObjectTagging",
            "s3:DeleteObjectTagging",
            "s3:AbortMultipartUpload",
            "s3:ListMultipartUploadParts",
        ];
        match self {
            Self::Read => READ.to_vec(),
            Self::Write => [READ.as_slice(), &WRITE].concat(),
            Self::Admin => vec!["s3:*"],
        }
    }
}

/// The document of one right or several, for the policy of an identity.
pub fn document(rights: &[BucketRight], life: BucketLife) -> Value {
    const LIFE: [&str; 5] =
        ["s3:CreateBucket", "s3:DeleteBucket", "s3:PutBucketTagging", "s3:TagResource", "s3:UntagResource"];
    let arn = |right: &BucketRight| format!("arn:aws:s3:::{}", right.bucket);
    let mut statements = Vec::new();
    for access in [BucketAccess::Read, BucketAccess::Write, BucketAccess::Admin] {
        for is_marked in [true, false] {
            let of_both = |right: &&BucketRight| right.access == access && right.mark.is_some() == is_marked;
            let chosen: Vec<&BucketRight> = rights.iter().filter(of_both).collect();
            if chosen.is_empty() {
                continue;
            }
            let arns = chosen.iter().map(|right| arn(right));
            let resources: Vec<String> = arns.flat_map(|bucket| [format!("{bucket}/*"), bucket]).collect();
            let mut statement = json!({"Effect": "Allow", "Action": access.actions(), "Resource": resources});
            let marks: Vec<&String> = chosen.iter().filter_map(|right| right.mark.as_ref()).collect();
            if is_marked {
                statement["Condition"] = json!({"StringEquals": {MARK_KEY: marks}});
            }
            statements.push(statement);
        }
    }
    if life == BucketLife::Kept {
        let buckets: Vec<String> = rights.iter().map(arn).collect();
        statements.push(json!({"Effect": "Deny", "Action": LIFE, "Resource": buckets}));
    }
    json!({"Version": "2012-10-17", "Statement": statements})
}
