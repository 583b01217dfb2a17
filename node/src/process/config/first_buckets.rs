//! Buckets that a node makes before it serves: a name, and who may use the bucket without a key.
//!
//! Written as Bitnami's image of MinIO has it: `photos:download,logs;inbox:upload`, with commas, semicolons
//! or spaces between. The words are those of `mc anonymous set`. `serve::first_buckets` makes them.

use serde_json::json;
use sherd_s3::head::names::is_bucket_name;

use super::limits::FIRST_BUCKETS_MAX;

/// A bucket that is made where it is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstBucket {
    /// Name of the bucket.
    pub name: String,
    /// The use that everyone may make of it.
    pub open: OpenTo,
}

/// The use that a request without a signature may make of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenTo {
    /// No use.
    Nothing,
    /// Lists its keys and reads its objects.
    Download,
    /// Writes and deletes its objects.
    Upload,
    /// Both.
    Everything,
}

/// A list of buckets cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidBuckets {
    /// A word behind the colon that says nothing.
    #[error("bucket {bucket}: {word:?} is none of none, private, download, upload, public")]
    Policy {
        /// The bucket.
        bucket: String,
        /// The word as written.
        word: String,
    },
    /// A name that no bucket has.
    #[error("{name:?} is no name of a bucket")]
    Name {
        /// The name as written.
        name: String,
    },
    /// A list that is longer than a start should take.
    #[error("{count} buckets: {FIRST_BUCKETS_MAX} at most are made at a start")]
    Count {
        /// How many.
        count: usize,
    },
}

impl FirstBucket {
    /// Reads a list of `name` and `name:policy`.
    ///
    /// # Errors
    /// [`InvalidBuckets`] for an unknown policy, or too many buckets.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, InvalidBuckets> {
        let is_between = |letter: char| letter.is_whitespace() || [',', ';'].contains(&letter);
        let words = text.split(is_between).filter(|word| !word.is_empty());
        let buckets = words.map(Self::parse).collect::<Result<Vec<_>, _>>()?;
        match buckets.len() {
            count if count > FIRST_BUCKETS_MAX => Err(InvalidBuckets::Count { count }),
            _ => Ok(buckets),
        }
    }

    fn parse(text: &str) -> Result<Self, InvalidBuckets> {
        let (name, word) = text.split_once(':').unwrap_or((text, "none"));
        if !is_bucket_name(name) {
            return Err(InvalidBuckets::Name { name: name.to_owned() });
        }
        let open = match word {
            "none" | "private" => OpenTo::Nothing,
            "download" => OpenTo::Download,
            "upload" => OpenTo::Upload,
            "public" => OpenTo::Everything,
            word => return Err(InvalidBuckets::Policy { bucket: name.to_owned(), word: word.to_owned() }),
        };
        Ok(Self { name: name.to_owned(), open })
    }

    /// The policy that opens it, as `mc anonymous set` writes it; `None` where nothing is open.
    pub(crate) fn policy(&self) -> Option<String> {
        let (reads, writes) = match self.open {
            OpenTo::Nothing => return None,
            OpenTo::Download => (true, false),
            OpenTo::Upload => (false, true),
            OpenTo::Everything => (true, true),
        };
        let chosen =
            |is_chosen: bool, actions: &'static [&'static str]| if is_chosen { actions } else { &[] };
        let of_bucket = [
            &["s3:GetBucketLocation"],
            chosen(reads, &["s3:ListBucket"]),
            chosen(writes, &["s3:ListBucketMultipartUploads"]),
        ];
        let of_objects = [
            chosen(reads, &["s3:GetObject"]),
            chosen(
                writes,
                &[
                    "s3:PutObject",
                    "s3:DeleteObject",
                    "s3:AbortMultipartUpload",
                    "s3:ListMultipartUploadParts",
                ],
            ),
        ];
        let arn = format!("arn:aws:s3:::{}", self.name);
        let statement = |actions: Vec<&str>, resource: &str| {
            let mut statement = json!({"Effect": "Allow", "Principal": "*", "Resource": resource});
            statement["Action"] = json!(actions);
            statement
        };
        let statements =
            [statement(of_bucket.concat(), &arn), statement(of_objects.concat(), &format!("{arn}/*"))];
        Some(json!({"Version": "2012-10-17", "Statement": statements}).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_bitnamis_image_reads_it() {
        let names = |text| {
            let buckets = FirstBucket::parse_list(text).expect("a list");
            buckets.into_iter().map(|bucket| (bucket.name, bucket.open)).collect::<Vec<_>>()
        };
        let list = "aaa:public,bbb; ccc:download\tddd:upload,,eee:none fff:private";
        let open = [
            OpenTo::Everything,
            OpenTo::Nothing,
            OpenTo::Download,
            OpenTo::Upload,
            OpenTo::Nothing,
            OpenTo::Nothing,
        ];
        let expected: Vec<_> =
            ["aaa", "bbb", "ccc", "ddd", "eee", "fff"].map(str::to_owned).into_iter().zip(open).collect();
        assert_eq!(names(list), expected);
        assert_eq!(names(""), []);
        let error = FirstBucket::parse_list("aaa:readonly").expect_err("no policy");
        assert_eq!(
            error.to_string(),
            "bucket aaa: \"readonly\" is none of none, private, download, upload, public"
        );
        let many = "aaa ".repeat(FIRST_BUCKETS_MAX + 1);
        assert_eq!(
            FirstBucket::parse_list(&many),
            Err(InvalidBuckets::Count { count: FIRST_BUCKETS_MAX + 1 })
        );
        for name in ["aaa/b", "aaa?acl", "aaa%2fb", "AAA", "a", ""] {
            let error = FirstBucket::parse_list(&format!("{name}:public")).expect_err("no bucket");
            assert_eq!(error, InvalidBuckets::Name { name: name.to_owned() });
        }
    }
}
