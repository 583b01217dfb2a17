//! The master key, under which the secrets of access keys are kept: 32 bytes that no node stores.
//!
//! A secret is sealed by AES-256-GCM under a nonce that is drawn for it, with the key's id as additional
//! data: a wrapped secret that is moved to another key's record does not open. The fingerprint names the
//! master key in records, reports and messages, and says nothing of it.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use sherd_core::env::Rng;
use sherd_core::iam::{AccessKeyId, WrappedSecret};
use sherd_core::limits::{IAM_SECRET_CHARS_MAX, IAM_SECRET_CHARS_MIN};

use super::error::IamReadError;
use super::fingerprint::Fingerprint;

/// Letters of a secret: 30 random bytes, six bits a letter, as AWS's have.
const SECRET_LETTERS: usize = 40;
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A secret access key. Cheap to clone; never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct KeySecret(Arc<str>);

impl KeySecret {
    /// The secret itself: for signatures, and for the one answer that makes a key.
    pub const fn expose(&self) -> &Arc<str> {
        &self.0
    }

    /// A secret that another store gave: 8 to 128 visible ASCII characters; `None` for other texts.
    pub(super) fn given(text: &str) -> Option<Self> {
        let is_long_enough = (IAM_SECRET_CHARS_MIN..=IAM_SECRET_CHARS_MAX).contains(&text.len());
        (is_long_enough && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| Self(text.into()))
    }

    /// Draws one.
    pub(super) fn draw(rng: &dyn Rng) -> Self {
        let mut drawn = [0; SECRET_LETTERS];
        rng.fill(&mut drawn);
        let letter = |byte: u8| char::from(LETTERS.get(usize::from(byte % 64)).copied().unwrap_or(b'A'));
        Self(drawn.map(letter).iter().collect::<String>().into())
    }
}

impl fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySecret(..)")
    }
}

/// The key under which secrets are kept. Cheap to clone; never printed.
#[derive(Clone)]
pub struct MasterKey {
    key: Arc<LessSafeKey>,
    digest: [u8; 32],
}

impl MasterKey {
    /// Bytes of a master key.
    pub const BYTES: usize = 32;

    /// From its bytes.
    ///
    /// # Panics
    /// Never: the bytes are as many as the cipher takes.
    pub fn new(bytes: &[u8; Self::BYTES]) -> Self {
        let key = UnboundKey::new(&AES_256_GCM, bytes).expect("a key of 32 bytes");
        let digest = blake3::derive_key("sherd 2026-11-26 fingerprint of a master key", bytes);
        Self { key: Arc::new(LessSafeKey::new(key)), digest }
    }

    /// Names it among the nodes of a cluster: its first 8 bytes are the fingerprint.
    pub const fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// Names it.
    ///
    /// # Panics
    /// Never: a digest has more bytes than a fingerprint.
    pub const fn fingerprint(&self) -> Fingerprint {
        Fingerprint(*self.digest.first_chunk().expect("8 of 32 bytes"))
    }

    pub(super) fn wrap(&self, id: AccessKeyId, secret: &KeySecret, rng: &dyn Rng) -> WrappedSecret {
        let mut nonce = [0; 12];
        rng.fill(&mut nonce);
        let mut sealed = secret.0.as_bytes().to_vec();
        let under = Nonce::assume_unique_for_key(nonce);
        self.key
            .seal_in_place_append_tag(under, Aad::from(id.as_str().as_bytes()), &mut sealed)
            .expect("at most 128 bytes are not too many");
        WrappedSecret { fingerprint: self.fingerprint().0, nonce, sealed: Bytes::from(sealed) }
    }

    pub(super) fn unwrap(&self, id: AccessKeyId, secret: &WrappedSecret) -> Result<KeySecret, IamReadError> {
        let wrapped = Fingerprint(secret.fingerprint);
        if wrapped != self.fingerprint() {
            return Err(IamReadError::OtherMasterKey { wrapped, own: self.fingerprint() });
        }
        let mut bytes = secret.sealed.to_vec();
        let under = Nonce::assume_unique_for_key(secret.nonce);
        let opened = self.key.open_in_place(under, Aad::from(id.as_str().as_bytes()), &mut bytes);
        let text = opened.ok().and_then(|opened| std::str::from_utf8(opened).ok());
        text.map(|text| KeySecret(text.into())).ok_or(IamReadError::DamagedSecret)
    }
}

impl PartialEq for MasterKey {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for MasterKey {}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MasterKey({})", self.fingerprint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::system::SystemRng;

    #[test]
    fn a_secret_opens_under_its_master_key_for_its_own_id_alone() {
        let (master, other) = (MasterKey::new(&[1; 32]), MasterKey::new(&[2; 32]));
        let (id, another) = (AccessKeyId::draw(&SystemRng), AccessKeyId::draw(&SystemRng));
        let secret = KeySecret::draw(&SystemRng);
        assert_eq!(secret.expose().len(), 40);
        let wrapped = master.wrap(id, &secret, &SystemRng);
        assert_eq!(master.unwrap(id, &wrapped), Ok(secret.clone()));
        assert_eq!(MasterKey::new(&[1; 32]).unwrap(id, &wrapped), Ok(secret.clone()), "after a restart");
        assert_eq!(master.unwrap(another, &wrapped), Err(IamReadError::DamagedSecret));
        let refused = other.unwrap(id, &wrapped).expect_err("another master key");
        for print in [master.fingerprint(), other.fingerprint()] {
            assert!(refused.to_string().contains(&print.to_string()), "{refused}");
        }
        assert_ne!(master.wrap(id, &secret, &SystemRng), wrapped, "a nonce of its own");
    }

    #[test]
    fn nothing_secret_is_printed() {
        let master = MasterKey::new(b"0123456789abcdef0123456789abcdef");
        let secret = KeySecret::draw(&SystemRng);
        let wrapped = master.wrap(AccessKeyId::draw(&SystemRng), &secret, &SystemRng);
        let shown = format!("{master:?} {secret:?} {wrapped:?}");
        assert!(shown.contains(&master.fingerprint().to_string()), "{shown}");
        assert!(!shown.contains("0123456789abcdef") && !shown.contains(&**secret.expose()), "{shown}");
        assert!(!shown.contains(&hex::encode(&wrapped.sealed)), "{shown}");
    }

    /// Pinned: records name their master key by it.
    #[test]
    fn a_fingerprint_is_these_bytes() {
        assert_eq!(MasterKey::new(&[1; 32]).fingerprint().to_string(), "071fbb785372a96b");
    }
}
