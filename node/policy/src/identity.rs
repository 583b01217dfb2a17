//! Identities: the root of the account, one of its users, or a caller without a signature.

use std::sync::Arc;

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

/// A user of the account.
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
