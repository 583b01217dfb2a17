//! The caller of a request, as conditions, variables and principals see it.

use std::borrow::Cow;

use super::facts::Values;
use super::key::{ConditionKey, KeyName};

/// The number of the one account: 12 digits, as AWS's are.
pub const ACCOUNT: &str = "000000000001";
/// The account's canonical id: 64 hex digits, as AWS's are.
pub const CANONICAL_ID: &str = "7368657264000000000000000000000000000000000000000000000000000001";
/// The `aws:userid` of every caller without a signature.
pub(crate) const ANONYMOUS_ID: &str = "anonymous";
/// The ARN of the account's root.
pub const ROOT_ARN: &str = "arn:aws:iam::000000000001:root";

/// The caller of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller<'a> {
    Root,
    Anonymous,
    User(CallingUser<'a>),
}

/// A user that makes a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallingUser<'a> {
    pub(crate) arn: &'a str,
    pub(crate) name: &'a str,
    pub(crate) id: &'a str,
    pub(crate) tags: &'a [(String, String)],
}

impl<'a> Caller<'a> {
    /// The values of a key that the caller answers by itself; none where the request has to.
    pub(crate) fn values(self, key: &ConditionKey) -> Option<Values<'a>> {
        let user = match self {
            Self::User(user) => Some(user),
            Self::Root | Self::Anonymous => None,
        };
        let account = if self == Self::Anonymous { None } else { Some(ACCOUNT) };
        Some(match key.name {
            KeyName::PrincipalAccount => Values::from(account),
            KeyName::PrincipalArn => match user {
                Some(user) => known(user.arn),
                None => Values::from(account.map(|_| ROOT_ARN)),
            },
            KeyName::PrincipalType => Values::from(match self {
                Self::Root => "Account",
                Self::Anonymous => "Anonymous",
                Self::User(_) => "User",
            }),
            KeyName::UserId => known(user.map_or(account.unwrap_or(ANONYMOUS_ID), |user| user.id)),
            KeyName::Username => known(user.map_or("", |user| user.name)),
            KeyName::PrincipalTag => user.map_or(Values::Absent, |user| tag_of(user.tags, &key.tag)),
            KeyName::PrincipalIsAwsService | KeyName::ViaAwsService => Values::from("false"),
            KeyName::ResourceAccount | KeyName::S3ResourceAccount => Values::from(ACCOUNT),
            // Keys of other services, organizations, sessions and endpoints: no request has one here.
            KeyName::Other => Values::Absent,
            _ => return None,
        })
    }
}

/// A text that a user has, which is empty where it is not known.
fn known(text: &str) -> Values<'_> {
    if text.is_empty() { Values::Absent } else { Values::from(text) }
}

/// Keys of tags of principals are compared without regard to case, as IAM does.
fn tag_of<'a>(tags: &'a [(String, String)], key: &str) -> Values<'a> {
    let found = tags.iter().find(|(name, _)| name.eq_ignore_ascii_case(key));
    found.map_or(Values::Absent, |(_, value)| Values::One(Cow::Borrowed(value)))
}
