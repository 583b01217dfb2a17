//! Callers: access keys, their secrets, and whom they belong to.

pub mod account;
pub mod root_keys;
pub(crate) mod session;

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use futures::future::{self, BoxFuture, Either, Ready};
use sherd_policy::Identity;
use sherd_signature::Secret;
use sherd_signature::error::KeysUnavailable;
use sherd_store::iam::{KeyRevocation, KeyView};

/// The id of an access key. Cheap to clone.
#[derive(Debug, Clone)]
pub enum AccessKey {
    /// A key of the configuration.
    Static(Arc<str>),
    /// A key that the store keeps.
    Stored(Arc<KeyView>),
}

impl AccessKey {
    /// The letters of the id.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Static(key) => key,
            Self::Stored(view) => view.access_key.as_str(),
        }
    }

    /// Whether both are keys that the store keeps, and the same records say what they give.
    fn is_same_as(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Stored(view), Self::Stored(other)) if view.is_same_as(other))
    }
}

/// An access key that is good: its secret, and whom it belongs to. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Credential {
    /// The key's id.
    pub access_key: AccessKey,
    /// The key's secret.
    pub secret: Secret,
    /// Whom it belongs to, with all that says what they may do.
    pub identity: Arc<Identity>,
}

/// The look-up of an access key; `None` for one that is unknown, inactive or deleted.
pub type KeyLookup<'a> = Either<Ready<KeyAnswer>, BoxFuture<'a, KeyAnswer>>;

/// The answer of a look-up of an access key.
pub type KeyAnswer = Result<Option<Credential>, KeysUnavailable>;

/// Gives what is known of an access key. Asked once per request, before its signature is computed.
pub trait Credentials: Send + Sync + fmt::Debug {
    /// Looks up the `access_key` of a request from an address: at once, and without an allocation, where it
    /// is remembered.
    fn credential<'a>(&'a self, access_key: &'a str, from: IpAddr) -> KeyLookup<'a>;

    /// Notes that a key signed a request to a service in a region.
    fn note_use(&self, _credential: &Credential, _service: &str, _region: &str) {}
}

/// Access keys that were given at the start and stay.
#[derive(Debug, Default)]
pub struct StaticCredentials {
    keys: HashMap<Box<str>, Credential>,
}

impl StaticCredentials {
    /// Makes a set with one pair.
    pub fn single(access_key: &str, secret: Secret) -> Self {
        let (access_key, identity) = (AccessKey::Static(access_key.into()), Arc::new(Identity::Root));
        Self::from_iter([Credential { access_key, secret, identity }])
    }

    /// Returns what `access_key` is, or nothing for an unknown key.
    pub fn get(&self, access_key: &str) -> Option<&Credential> {
        self.keys.get(access_key)
    }
}

impl FromIterator<Credential> for StaticCredentials {
    fn from_iter<T: IntoIterator<Item = Credential>>(keys: T) -> Self {
        Self { keys: keys.into_iter().map(|key| (key.access_key.as_str().into(), key)).collect() }
    }
}

impl Credentials for StaticCredentials {
    fn credential<'a>(&'a self, access_key: &'a str, _from: IpAddr) -> KeyLookup<'a> {
        Either::Left(future::ready(Ok(self.get(access_key).cloned())))
    }
}

/// The way in which a request shows who makes it, as policies name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthType {
    /// In its `Authorization` header.
    Header,
    /// In the query of a presigned URL.
    Query,
    /// In the fields of a form.
    Form,
}

/// The signature of a request, as policies name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignatureFacts {
    /// Where it stands.
    pub auth_type: AuthType,
    /// When it was made, in milliseconds since the Unix epoch; SigV2 does not say it.
    pub signed_ms: Option<u64>,
    /// Whether it is one of SigV4.
    pub is_v4: bool,
}

/// The proof of the sender of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// A signature, which is to be verified.
    Signature,
    /// The verified certificate of the connection that it came over: the request is the root user's.
    RootCertificate,
}

/// The caller of a request, proven by its signature or its certificate, or anonymous. Only the verifier makes
/// one. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Caller {
    identity: Arc<Identity>,
    signed: Option<(AccessKey, SignatureFacts)>,
}

impl Caller {
    /// The caller that signed with a key.
    pub fn new(credential: &Credential, signature: SignatureFacts) -> Self {
        let Credential { access_key, secret: _, identity } = credential;
        Self { identity: Arc::clone(identity), signed: Some((access_key.clone(), signature)) }
    }

    /// The caller of requests that are not signed.
    pub fn anonymous() -> Self {
        static ANONYMOUS: LazyLock<Arc<Identity>> = LazyLock::new(|| Arc::new(Identity::Anonymous));
        Self { identity: Arc::clone(&ANONYMOUS), signed: None }
    }

    /// Root, as the certificate of a connection shows.
    pub fn root() -> Self {
        static ROOT: LazyLock<Arc<Identity>> = LazyLock::new(|| Arc::new(Identity::Root));
        Self { identity: Arc::clone(&ROOT), signed: None }
    }

    /// Whether it is root by a certificate, and not by its key pair.
    pub fn is_certified(&self) -> bool {
        self.signed.is_none() && matches!(*self.identity, Identity::Root)
    }

    /// Whom the access key belongs to.
    pub fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    /// Whether its key gives now what it gave when the caller was proven. A key with long policies may be
    /// composed again at each look-up: what it is composed of counts.
    pub fn is_still(&self, known: &Credential) -> bool {
        let signed_with = self.signed.as_ref().map(|(access_key, _)| access_key);
        Arc::ptr_eq(&self.identity, &known.identity)
            || signed_with.is_some_and(|access_key| access_key.is_same_as(&known.access_key))
    }

    /// Replaces the identity and the records of the key by those of a later look-up.
    pub fn known_as(&mut self, known: Credential) {
        self.identity = known.identity;
        if let Some((access_key, _)) = &mut self.signed {
            *access_key = known.access_key;
        }
    }

    /// Whether it is a caller without a signature.
    pub fn is_anonymous(&self) -> bool {
        matches!(*self.identity, Identity::Anonymous)
    }

    /// The ARN of the user that it is, or of root; `anonymous` without a signature.
    pub fn arn(&self) -> &str {
        match &*self.identity {
            Identity::Root => sherd_policy::ROOT_ARN,
            Identity::User(user) => &user.arn,
            Identity::Anonymous => "anonymous",
        }
    }

    /// The access key that signed the request; empty where none did.
    pub fn access_key(&self) -> &str {
        self.signed.as_ref().map_or("", |(access_key, _)| access_key.as_str())
    }

    /// The flag that ends the requests of the caller before they are done; none where the key is of the
    /// configuration.
    pub fn revocation(&self) -> Option<KeyRevocation> {
        match &self.signed {
            Some((AccessKey::Stored(view), _)) => Some(view.revocation.clone()),
            Some((AccessKey::Static(_), _)) | None => None,
        }
    }

    /// The signature of the request, where it has one.
    pub fn signature(&self) -> Option<SignatureFacts> {
        self.signed.as_ref().map(|(_, signature)| *signature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_never_prints() {
        let keys = StaticCredentials::single("AKID", Secret::new("wJalrXUtnFEMI"));
        let printed = format!("{keys:?} {:?}", keys.get("AKID"));
        assert!(printed.contains("AKID"));
        assert!(!printed.contains("wJalr"));
        assert!(keys.get("other").is_none());
    }
}
