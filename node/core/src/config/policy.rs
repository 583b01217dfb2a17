//! Kind 2: the policy of a bucket, as its text was put.
//!
//! ```text
//! policy := version u8 = 1, name of the bucket: u32 length and text, then the policy's text to the end
//! ```
//! The text is checked again where it is read, as that of the bucket which is named here. Where this program
//! cannot read it, requests that need the policy fail: no request is judged without it.

use std::sync::Arc;

use bytes::Bytes;
use sherd_policy::{MalformedPolicy, Policy, PolicyForm};

use crate::codec::{DecodeError, Reader, Writer};

/// The version of the stored form.
const VERSION: u8 = 1;

/// The policy of a bucket. Cheap to clone.
#[derive(Debug, Clone)]
pub struct BucketPolicy {
    bucket: String,
    policy: Arc<Policy>,
}

impl BucketPolicy {
    /// The policy of a bucket, from its text.
    ///
    /// # Errors
    /// [`MalformedPolicy`], in S3's words.
    pub fn parse(bucket: &str, text: &[u8]) -> Result<Self, MalformedPolicy> {
        let policy = Policy::parse(text, PolicyForm::Bucket { name: bucket })?;
        Ok(Self { bucket: bucket.to_owned(), policy: Arc::new(policy) })
    }

    /// The policy.
    pub const fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// The stored bytes.
    pub fn encode(&self) -> Bytes {
        let mut writer = Writer::new();
        writer.u8(VERSION).blob(self.bucket.as_bytes()).raw(self.policy.document().as_bytes());
        writer.finish()
    }

    /// From the stored bytes.
    ///
    /// # Errors
    /// [`DecodeError`] on any bytes that [`Self::encode`] does not give.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        match reader.u8("version")? {
            VERSION => {}
            version => return Err(DecodeError::Version { field: "bucket policy", version }),
        }
        let bucket = reader.text("bucket")?;
        let text = reader.bytes(reader.remaining(), "policy")?;
        Self::parse(&bucket, &text).map_err(|_| DecodeError::Invalid { field: "policy" })
    }
}

impl PartialEq for BucketPolicy {
    fn eq(&self, other: &Self) -> bool {
        self.bucket == other.bucket && self.policy.document() == other.policy.document()
    }
}

impl Eq for BucketPolicy {}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "{\"Version\":\"2012-10-17\", \"Statement\":[{\"Effect\":\"Allow\",\"Principal\":\"*\",\
                        \"Action\":\"s3:GetObject\",\"Resource\":\"arn:aws:s3:::b/*\"}]}\n";

    #[test]
    fn a_policy_is_these_bytes() {
        let policy = BucketPolicy::parse("b", TEXT.as_bytes()).expect("a policy");
        let golden = [&b"\x01\x01\x00\x00\x00b"[..], TEXT.as_bytes()].concat();
        assert_eq!(&policy.encode()[..], &golden[..]);
        assert_eq!(policy.policy().document(), TEXT, "as it was put");
        assert_eq!(BucketPolicy::decode(policy.encode()), Ok(policy));
    }

    #[test]
    fn a_text_is_the_policy_of_its_bucket_alone() {
        let stored = |bucket: &[u8], text: &str| {
            let length = u32::try_from(bucket.len()).expect("short").to_le_bytes();
            let bytes = [&[VERSION], &length[..], bucket, text.as_bytes()].concat();
            BucketPolicy::decode(Bytes::from(bytes))
        };
        assert!(stored(b"b", TEXT).is_ok());
        for (bucket, text) in [(&b"other"[..], TEXT), (b"b", ""), (b"b", "{}"), (b"\xff", TEXT)] {
            assert!(stored(bucket, text).is_err(), "{text}");
        }
        for bytes in [&b""[..], b"\x01", b"\x01\x01\x00\x00\x00", b"\x02\x01\x00\x00\x00b{}"] {
            assert!(BucketPolicy::decode(Bytes::copy_from_slice(bytes)).is_err());
        }
    }
}
