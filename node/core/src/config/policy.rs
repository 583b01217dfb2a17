//! Kind 2: the policy of a bucket, as its text was put.
//!
//! ```text
//! policy := version u8 = 1, name of the bucket: u32 length and text,
//!           users: count u32, each ARN and unique id, each u32 length and text, by ARN,
//!           then the policy's text to the end
//! ```
//! The text is checked again where it is read, as that of the bucket which is named here. Where this program
//! cannot read it, requests that need the policy fail: no request is judged without it.
//!
//! The users are those whose ARNs the text has as principals, with the ids that they had when the policy was
//! put. Requests are judged by the ids: a user that is made later under such an ARN has nothing of the
//! policy, and one that gets another path keeps what is said of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use sherd_policy::bytes::{SHARED_BYTES, allocated};
use sherd_policy::{MalformedPolicy, Policy, PolicyForm};

use crate::codec::{DecodeError, Reader, Writer};

/// The version of the stored form.
const VERSION: u8 = 1;

/// Unique ids of users (`AIDA...`), by the ARNs that they had.
pub type UserIds = BTreeMap<String, String>;

/// Bytes of the shortest ARN and id.
const USER_BYTES: usize = 8;

/// The policy of a bucket. Cheap to clone.
#[derive(Debug, Clone)]
pub struct BucketPolicy {
    bucket: String,
    /// As it was put.
    sent: Arc<Policy>,
    users: Arc<UserIds>,
    /// The same about the ids of its users.
    policy: Arc<Policy>,
}

impl BucketPolicy {
    /// The policy of a bucket as it was put, checked as this bucket's, with the ids of the users that it
    /// names by ARN.
    ///
    /// # Errors
    /// [`MalformedPolicy`], in S3's words: it names a user that has no id here.
    pub fn new(bucket: &str, sent: Policy, mut users: UserIds) -> Result<Self, MalformedPolicy> {
        users.retain(|arn, _| sent.users().any(|user| user == arn));
        let sent = Arc::new(sent);
        let policy = match sent.users().next() {
            Some(_) => Arc::new(sent.with_users(bucket, &|arn| users.get(arn).cloned())?),
            None => Arc::clone(&sent),
        };
        Ok(Self { bucket: bucket.to_owned(), sent, users: Arc::new(users), policy })
    }

    /// Bytes that it keeps beside itself.
    pub(super) fn heap_bytes(&self) -> usize {
        let Self { bucket, sent, users, policy } = self;
        let is_one = Arc::ptr_eq(sent, policy);
        let policies = [Some(sent), Some(policy).filter(|_| !is_one)];
        let of_policies = policies.into_iter().flatten().map(|policy| SHARED_BYTES + policy.bytes());
        let of_user = |(arn, id): (&String, &String)| {
            // A tree has room for twice what it holds, at most.
            2 * size_of::<(String, String)>() + allocated(arn.len()) + allocated(id.len())
        };
        allocated(bucket.len()) + of_policies.sum::<usize>() + users.iter().map(of_user).sum::<usize>()
    }

    /// The users that it names by ARN, with the ids that they had when it was put.
    pub fn users(&self) -> &UserIds {
        &self.users
    }

    /// The text as it was put, but for other words in place of users' ARNs among its principals.
    pub fn document_naming(&self, users: &BTreeMap<&str, String>) -> String {
        self.sent.document_naming(&|arn| users.get(arn).cloned())
    }

    /// The policy that requests are judged by.
    pub const fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// The stored bytes.
    pub fn encode(&self) -> Bytes {
        let mut writer = Writer::new();
        writer.u8(VERSION).blob(self.bucket.as_bytes()).count(self.users.len());
        for (arn, id) in &*self.users {
            writer.blob(arn.as_bytes()).blob(id.as_bytes());
        }
        writer.raw(self.sent.document().as_bytes());
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
        let count = reader.count(USER_BYTES, "users")?;
        let mut users = UserIds::new();
        for _ in 0..count {
            let (arn, id) = (reader.text("ARN")?, reader.text("user id")?);
            if users.last_key_value().is_some_and(|(last, _)| *last >= arn) {
                return Err(DecodeError::Invalid { field: "users" });
            }
            users.insert(arn, id);
        }
        let text = reader.bytes(reader.remaining(), "policy")?;
        let undecodable = |_| DecodeError::Invalid { field: "policy" };
        let sent = Policy::parse(&text, PolicyForm::Bucket { name: &bucket }).map_err(undecodable)?;
        let policy = Self::new(&bucket, sent, users).map_err(undecodable)?;
        if policy.users.len() == count { Ok(policy) } else { Err(DecodeError::Invalid { field: "users" }) }
    }
}

impl PartialEq for BucketPolicy {
    fn eq(&self, other: &Self) -> bool {
        self.bucket == other.bucket
            && self.users == other.users
            && self.sent.document() == other.sent.document()
    }
}

impl Eq for BucketPolicy {}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "{\"Version\":\"2012-10-17\", \"Statement\":[{\"Effect\":\"Allow\",\"Principal\":\"*\",\
                        \"Action\":\"s3:GetObject\",\"Resource\":\"arn:aws:s3:::b/*\"}]}\n";

    const ALICE: &str = "arn:aws:iam::000000000001:user/alice";
    const ID: &str = "AIDAAAAAAAAAAAAAAAAAA";

    fn policy(text: &str, users: &[(&str, &str)]) -> Result<BucketPolicy, MalformedPolicy> {
        let users = users.iter().map(|(arn, id)| ((*arn).to_owned(), (*id).to_owned()));
        let sent = Policy::parse(text.as_bytes(), PolicyForm::Bucket { name: "b" })?;
        BucketPolicy::new("b", sent, users.collect())
    }

    fn of_alice() -> String {
        TEXT.replace("\"*\"", &format!("{{ \"AWS\":\"{ALICE}\" }}"))
    }

    #[test]
    fn a_policy_is_these_bytes() {
        let of_all = policy(TEXT, &[]).expect("a policy");
        let golden = [&b"\x01\x01\x00\x00\x00b\x00\x00\x00\x00"[..], TEXT.as_bytes()].concat();
        assert_eq!(&of_all.encode()[..], &golden[..]);
        assert_eq!(BucketPolicy::decode(of_all.encode()), Ok(of_all));

        let of_alice = policy(&of_alice(), &[(ALICE, ID)]).expect("a policy");
        let text = super::tests::of_alice();
        let golden = [
            &b"\x01\x01\x00\x00\x00b\x01\x00\x00\x00\x24\x00\x00\x00"[..],
            ALICE.as_bytes(),
            b"\x15\x00\x00\x00",
            ID.as_bytes(),
            text.as_bytes(),
        ];
        assert_eq!(&of_alice.encode()[..], &golden.concat()[..]);
        assert_eq!(BucketPolicy::decode(of_alice.encode()), Ok(of_alice));
    }

    #[test]
    fn a_policy_is_judged_by_ids_and_shown_as_it_was_put() {
        let named = policy(&of_alice(), &[(ALICE, ID), ("arn:other", ID)]).expect("a policy");
        assert_eq!(named.document_naming(&BTreeMap::new()), of_alice());
        assert_eq!(named.policy().document(), of_alice().replace(ALICE, ID));
        assert_eq!(named.users().len(), 1, "only users that it names");
        let gone = BTreeMap::from([(ALICE, ID.to_owned())]);
        assert_eq!(named.document_naming(&gone), of_alice().replace(ALICE, ID));
        for users in [&[][..], &[(ALICE, "alice")]] {
            let refused = policy(&of_alice(), users).map(drop).expect_err("no id");
            assert_eq!(refused.to_string(), "Invalid principal in policy");
        }
    }

    #[test]
    fn a_text_is_the_policy_of_its_bucket_alone() {
        let text_of = |text: &[u8]| {
            let length = u32::try_from(text.len()).expect("short").to_le_bytes();
            [&length[..], text].concat()
        };
        let stored = |bucket: &[u8], users: &[(&str, &str)], text: &str| {
            let mut bytes = [vec![VERSION], text_of(bucket)].concat();
            bytes.extend(u32::try_from(users.len()).expect("few").to_le_bytes());
            for (arn, id) in users {
                bytes.extend([text_of(arn.as_bytes()), text_of(id.as_bytes())].concat());
            }
            bytes.extend(text.as_bytes());
            BucketPolicy::decode(Bytes::from(bytes))
        };
        assert!(stored(b"b", &[], TEXT).is_ok());
        for (bucket, text) in [(&b"other"[..], TEXT), (b"b", ""), (b"b", "{}"), (b"\xff", TEXT)] {
            assert!(stored(bucket, &[], text).is_err(), "{text}");
        }
        assert!(stored(b"b", &[(ALICE, ID)], &of_alice()).is_ok());
        for users in [&[][..], &[(ALICE, "alice")], &[(ALICE, ID), (ALICE, ID)], &[(ALICE, ID), ("b", ID)]] {
            assert!(stored(b"b", users, &of_alice()).is_err(), "{users:?}");
        }
        for bytes in [&b""[..], b"\x01", b"\x01\x01\x00\x00\x00", b"\x02\x01\x00\x00\x00b{}"] {
            assert!(BucketPolicy::decode(Bytes::copy_from_slice(bytes)).is_err());
        }
    }
}
