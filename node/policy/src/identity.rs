//! Identities: the root of the account, one of its users, or a caller without a signature.

use std::sync::Arc;

use super::bytes::SHARED_BYTES;
use super::caller::{Caller, CallingUser};
use super::policy::Policy;

/// The origin of a request.
#[derive(Debug)]
pub enum Identity {
    /// The account itself: may do all but what a bucket's policy denies.
    Root,
    /// A request without a signature.
    Anonymous,
    /// A user, with all policies that apply to it.
    User(UserIdentity),
}

/// A user of the account. One that is simulated may have an empty ARN, name or id: requests then lack the
/// condition keys of these.
#[derive(Debug)]
pub struct UserIdentity {
    /// `arn:aws:iam::000000000001:user/path/name`.
    pub arn: String,
    /// The name.
    pub name: String,
    /// The unique id (`AIDA...`).
    pub id: String,
    /// The tags, by key and value.
    pub tags: Vec<(String, String)>,
    /// Inline and attached policies, the user's and those of its groups.
    pub policies: Vec<Arc<Policy>>,
}

impl Identity {
    /// The identity without its policies: for checks of who calls that keep no policy in memory.
    pub(crate) fn bare(&self) -> Self {
        match self {
            Self::Root => Self::Root,
            Self::Anonymous => Self::Anonymous,
            Self::User(UserIdentity { arn, name, id, tags, policies: _ }) => Self::User(UserIdentity {
                arn: arn.clone(),
                name: name.clone(),
                id: id.clone(),
                tags: tags.clone(),
                policies: vec![],
            }),
        }
    }

    /// Bytes that it takes in memory, each of its policies in full: others may share them.
    pub fn bytes(&self) -> usize {
        let policies: &[_] = match self {
            Self::Root | Self::Anonymous => &[],
            Self::User(user) => &user.policies,
        };
        let of_policies = policies.iter().map(|policy| size_of_val(policy) + SHARED_BYTES + policy.bytes());
        size_of::<Self>() + self.heap_bytes() + of_policies.sum::<usize>()
    }

    /// Bytes that it keeps beside itself, without its policies.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Root | Self::Anonymous => 0,
            Self::User(UserIdentity { arn, name, id, tags, policies: _ }) => {
                let tag_bytes = |(key, value): &(String, String)| key.len() + value.len();
                let texts = arn.len() + name.len() + id.len();
                texts + size_of_val(&**tags) + tags.iter().map(tag_bytes).sum::<usize>()
            }
        }
    }

    pub(crate) fn caller(&self) -> Caller<'_> {
        match self {
            Self::Root => Caller::Root,
            Self::Anonymous => Caller::Anonymous,
            Self::User(UserIdentity { arn, name, id, tags, policies: _ }) => {
                Caller::User(CallingUser { arn, name, id, tags })
            }
        }
    }
}
