//! Signing keys: derived from a secret for a day, a region and the service, and kept for the day.
//!
//! Deriving costs four HMACs, more than the rest of a verification, so keys that verified a
//! signature are kept, already scheduled for HMAC. A kept key serves only while the secret it was
//! made from is the one that the credentials name. Only valid signatures put keys in, so strangers
//! cannot fill the cache.

use std::collections::HashMap;
use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use parking_lot::RwLock;
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

use super::limits::{ACCESS_KEYS_MAX, KEYS_EACH_MAX};
use super::secret::Secret;

/// A signature as it travels: 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature([u8; 64]);

impl Signature {
    /// The 64 hexadecimal digits.
    pub const fn as_bytes(&self) -> &[u8; 64] {
        &self.0
    }

    /// Compares with what a client sent, in constant time.
    pub fn matches(&self, sent: &[u8]) -> bool {
        self.0.ct_eq(sent).into()
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signature(..)")
    }
}

/// A key for one day, region and service, ready to sign.
#[derive(Clone)]
pub struct SigningKey(Hmac<Sha256>);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(..)")
    }
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of every length")
}

impl SigningKey {
    /// Derives a key.
    pub fn derive(secret: &Secret, day: &str, region: &str, service: &str) -> Self {
        let mut first = Vec::with_capacity(4 + secret.expose().len());
        first.extend_from_slice(b"AWS4");
        first.extend_from_slice(secret.expose().as_bytes());
        let day_key = keyed(&first).chain_update(day).finalize().into_bytes();
        first.fill(0);
        let region_key = keyed(&day_key).chain_update(region).finalize().into_bytes();
        let service_key = keyed(&region_key).chain_update(service).finalize().into_bytes();
        let key = keyed(&service_key).chain_update("aws4_request").finalize().into_bytes();
        Self(keyed(&key))
    }

    /// Signs the concatenation of `pieces`.
    pub fn sign(&self, pieces: &[&[u8]]) -> Signature {
        let mut hmac = self.0.clone();
        for piece in pieces {
            hmac.update(piece);
        }
        let mut text = [0; 64];
        hex::encode_to_slice(hmac.finalize().into_bytes(), &mut text).expect("32 bytes are 64 digits");
        Signature(text)
    }
}

/// Keys kept for the requests that follow.
#[derive(Debug, Default)]
pub struct KeyCache {
    keys: RwLock<HashMap<Box<str>, Vec<KeptKey>>>,
}

#[derive(Debug)]
struct KeptKey {
    day: [u8; 8],
    region: Box<str>,
    secret: Secret,
    key: SigningKey,
}

impl KeyCache {
    /// Returns the kept key, if the secret is still the one it was made from.
    pub fn get(&self, access_key: &str, secret: &Secret, day: &str, region: &str) -> Option<SigningKey> {
        let keys = self.keys.read();
        let kept = keys.get(access_key)?;
        let found = kept.iter().find(|kept| kept.day == day.as_bytes() && &*kept.region == region)?;
        (found.secret == *secret).then(|| found.key.clone())
    }

    /// Keeps a key that has just verified a signature.
    pub fn put(&self, access_key: &str, secret: &Secret, day: &str, region: &str, key: &SigningKey) {
        let Ok(day) = <[u8; 8]>::try_from(day.as_bytes()) else { return };
        let mut keys = self.keys.write();
        if keys.len() >= ACCESS_KEYS_MAX && !keys.contains_key(access_key) {
            keys.clear();
        }
        let kept = keys.entry(access_key.into()).or_default();
        kept.retain(|kept| kept.secret == *secret && (kept.day != day || &*kept.region != region));
        if kept.len() >= KEYS_EACH_MAX {
            kept.remove(0);
        }
        kept.push(KeptKey { day, region: region.into(), secret: secret.clone(), key: key.clone() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_derived_key_signs_as_aws_documents() {
        let secret = Secret::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
        let key = SigningKey::derive(&secret, "20130524", "us-east-1", "s3");
        let signature = key.sign(&[
            b"AWS4-HMAC-SHA256\n20130524T000000Z\n20130524/us-east-1/s3/aws4_request\n",
            b"7344ae5b7ee6c3e7e6b0fe0640412a37625d1fbfff95c48bbb2dc43964946972",
        ]);
        assert!(signature.matches(b"f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"));
        assert!(!signature.matches(b"f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb42"));
        assert!(!signature.matches(b"f0e8"));
    }

    #[test]
    fn a_kept_key_dies_with_its_secret() {
        let cache = KeyCache::default();
        let (old, new) = (Secret::new("old"), Secret::new("new"));
        let key = SigningKey::derive(&old, "20130524", "r", "s3");
        cache.put("AKID", &old, "20130524", "r", &key);
        assert!(cache.get("AKID", &old, "20130524", "r").is_some());
        assert!(cache.get("AKID", &new, "20130524", "r").is_none());
        assert!(cache.get("AKID", &old, "20130525", "r").is_none());
        assert!(cache.get("AKID", &old, "20130524", "q").is_none());
        cache.put("AKID", &new, "20130524", "q", &key);
        assert!(cache.get("AKID", &old, "20130524", "r").is_none(), "a rotated secret's keys go");
    }

    #[test]
    fn the_cache_is_bounded() {
        let cache = KeyCache::default();
        let secret = Secret::new("s");
        let key = SigningKey::derive(&secret, "20130524", "r", "s3");
        for number in 0..=ACCESS_KEYS_MAX {
            cache.put(&number.to_string(), &secret, "20130524", "r", &key);
        }
        assert!(cache.keys.read().len() <= ACCESS_KEYS_MAX);
        for day in 20_130_501..20_130_520 {
            cache.put("AKID", &secret, &day.to_string(), "r", &key);
        }
        assert_eq!(cache.keys.read().get("AKID").map(Vec::len), Some(KEYS_EACH_MAX));
    }
}
