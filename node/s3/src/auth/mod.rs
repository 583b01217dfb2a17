//! Callers: access keys, their secrets, and the proof that a request was made with one.
//!
//! SigV4 in full, as AWS publishes it: the `Authorization` header, presigned URLs, signed frames of
//! aws-chunked bodies, signed trailers and forms; SigV2 in presigned URLs and forms alone. Nothing here reads
//! a body: a
//! request that is not who it says it is costs its sender a header and us one hash. Secrets have no
//! `Display`, and their `Debug` says nothing.

pub mod amz_date;
pub mod authorization;
pub mod canonical;
pub mod credential_scope;
pub mod error;
pub mod form;
mod limits;
pub mod payload;
pub mod post_policy;
pub mod presigned;
pub mod presigned_v2;
pub mod signing_key;
pub mod verifier;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use subtle::ConstantTimeEq as _;

/// The secret half of a pair of access keys. Cheap to clone; compared in constant time.
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a secret.
    pub fn new(secret: impl Into<Arc<str>>) -> Self {
        Self(secret.into())
    }

    /// The secret itself, for deriving a key from it and for nothing else.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Gives the secret of every access key. Asked once per request, on the request's own thread, so
/// it answers from memory.
pub trait Credentials: Send + Sync + fmt::Debug {
    /// Returns the secret of `access_key`, or nothing for an unknown key.
    fn secret(&self, access_key: &str) -> Option<Secret>;
}

/// Access keys that were given at the start and stay.
#[derive(Debug, Default)]
pub struct StaticCredentials {
    secrets: HashMap<Box<str>, Secret>,
}

impl StaticCredentials {
    /// Makes a set with one pair.
    pub fn single(access_key: &str, secret: Secret) -> Self {
        Self::from_iter([(access_key, secret)])
    }
}

impl<'a> FromIterator<(&'a str, Secret)> for StaticCredentials {
    fn from_iter<T: IntoIterator<Item = (&'a str, Secret)>>(pairs: T) -> Self {
        Self { secrets: pairs.into_iter().map(|(key, secret)| (key.into(), secret)).collect() }
    }
}

impl Credentials for StaticCredentials {
    fn secret(&self, access_key: &str) -> Option<Secret> {
        self.secrets.get(access_key).cloned()
    }
}

/// Whom an access key belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Principal {
    /// The owner of everything.
    Root,
}

/// The caller of a request, proven by its signature. Only the verifier makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    access_key: Box<str>,
}

impl Caller {
    pub(crate) fn new(access_key: &str) -> Self {
        Self { access_key: access_key.into() }
    }

    /// Whom the access key belongs to: every key is root's.
    pub fn principal(&self) -> Principal {
        Principal::Root
    }

    /// The access key that signed the request.
    pub fn access_key(&self) -> &str {
        &self.access_key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_never_prints() {
        let keys = StaticCredentials::single("AKID", Secret::new("wJalrXUtnFEMI"));
        let printed = format!("{keys:?} {:?}", keys.secret("AKID"));
        assert!(printed.contains("AKID"));
        assert!(!printed.contains("wJalr"));
        assert!(keys.secret("other").is_none());
    }
}
