//! `Principal` and `NotPrincipal` of a bucket's policy: which identities a statement is about.

use super::bytes::allocated;
use super::caller::{ACCOUNT, CANONICAL_ID, Caller, ROOT_ARN};
use super::json::Json;
use super::malformed::Fault;

/// The principals that a statement lists.
#[derive(Debug, Clone, Default)]
struct Principals {
    /// `*`: every caller, with a signature or without.
    everyone: bool,
    /// The account, by number, ARN of its root or canonical id.
    account: bool,
    /// ARNs of users of the account, whether they exist or not.
    users: Vec<Box<str>>,
    /// Unique ids, as AWS stores a user that was deleted.
    ids: Vec<Box<str>>,
    /// Identity providers, whose users anyone may be. No request is made by one, nor by a service.
    providers: bool,
}

/// `Principal` or `NotPrincipal`.
#[derive(Debug, Clone)]
pub(crate) struct PrincipalTest {
    is_negated: bool,
    principals: Principals,
}

impl PrincipalTest {
    pub(crate) fn parse(json: &Json, is_negated: bool) -> Result<Self, Fault> {
        let mut principals = Principals::default();
        match json {
            Json::Text(text) if text == "*" => principals.everyone = true,
            Json::Object(members) if !members.is_empty() => {
                for (kind, values) in members {
                    let values =
                        values.texts().filter(|values| !values.is_empty()).ok_or(Fault::Principal)?;
                    for value in values {
                        principals.add(kind, value)?;
                    }
                }
            }
            _ => return Err(Fault::Principal),
        }
        Ok(Self { is_negated, principals })
    }

    /// Whether a statement that allows is about an identity. One that names the account leaves it to the
    /// account's own policies who may.
    pub(crate) fn allows(&self, caller: Caller<'_>) -> bool {
        let listed = match caller {
            Caller::Root => self.principals.everyone || self.principals.account,
            _ => self.principals.names(caller),
        };
        !self.is_negated && listed
    }

    /// Whether a statement that denies is about an identity. The account stands for all its users; to be left
    /// out by `NotPrincipal` a user and its account both have to be named.
    pub(crate) fn denies(&self, caller: Caller<'_>) -> bool {
        let account = self.principals.everyone || self.principals.account;
        match (caller, self.is_negated) {
            (Caller::Root, is_negated) => account != is_negated,
            (Caller::Anonymous, is_negated) => self.principals.everyone != is_negated,
            (Caller::User(_), false) => account || self.principals.names(caller),
            (Caller::User(_), true) => !(account && self.principals.names(caller)),
        }
    }

    /// Whether every caller may be meant. Users of an identity provider are the public, as S3 counts them.
    pub(crate) fn is_public(&self) -> bool {
        self.is_negated || self.principals.everyone || self.principals.providers
    }

    /// Bytes that it keeps beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        let Principals { users, ids, .. } = &self.principals;
        let texts = |texts: &Vec<Box<str>>| {
            let of_list = allocated(texts.capacity() * size_of::<Box<str>>());
            of_list + texts.iter().map(|text| allocated(text.len())).sum::<usize>()
        };
        texts(users) + texts(ids)
    }

    pub(crate) fn users(&self) -> impl Iterator<Item = &str> {
        self.principals.users.iter().map(|arn| &**arn)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> {
        self.principals.ids.iter().map(|id| &**id)
    }
}

impl Principals {
    fn add(&mut self, kind: &str, value: &str) -> Result<(), Fault> {
        match kind {
            "AWS" => self.add_aws(value),
            "CanonicalUser" if value == CANONICAL_ID => {
                self.account = true;
                Ok(())
            }
            "Service" if value.ends_with(".amazonaws.com") && !value.contains(['*', '?']) => Ok(()),
            "Federated" if !value.is_empty() && !value.contains(['*', '?']) => {
                self.providers = true;
                Ok(())
            }
            _ => Err(Fault::Principal),
        }
    }

    fn add_aws(&mut self, value: &str) -> Result<(), Fault> {
        if value == "*" {
            self.everyone = true;
        } else if value == ACCOUNT || value == ROOT_ARN {
            self.account = true;
        } else if is_user(value) {
            self.users.push(value.into());
        } else if is_unique_id(value) {
            self.ids.push(value.into());
        } else {
            return Err(Fault::Principal);
        }
        Ok(())
    }

    /// Whether the identity itself is listed, by name or with everyone.
    fn names(&self, caller: Caller<'_>) -> bool {
        let user = match caller {
            Caller::User(user) => Some(user),
            Caller::Root | Caller::Anonymous => None,
        };
        self.everyone
            || user.is_some_and(|user| {
                self.users.iter().any(|arn| **arn == *user.arn) || self.ids.iter().any(|id| **id == *user.id)
            })
    }
}

fn is_user(arn: &str) -> bool {
    let path = arn.strip_prefix("arn:aws:iam::").and_then(|rest| rest.strip_prefix(ACCOUNT));
    let Some(path) = path.and_then(|rest| rest.strip_prefix(":user/")) else { return false };
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"_+=,.@-/".contains(&byte);
    !path.is_empty() && !path.ends_with('/') && path.bytes().all(is_good)
}

fn is_unique_id(text: &str) -> bool {
    text.starts_with("AIDA")
        && (16..=128).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}
