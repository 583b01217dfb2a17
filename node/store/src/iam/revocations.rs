//! Revocation of access keys: by it requests under way end before they are done.
//!
//! ```text
//! view of a key -> its revocation flag <- requests that the view proved, for as long as they run
//! revoke: the flag is set, and no byte of their bodies passes any more; later views have a new flag
//! ```
//! A request is judged when it begins, and goes on when its key is made inactive. Where it must not, the flag
//! is set behind that change. All views of a key that requests hold share it, so nothing is counted for a
//! request, and a body looks at one flag.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use sherd_core::iam::AccessKeyId;

use super::limits::REVOCATIONS_SWEPT_AT;

/// The flag by which the requests of a key end. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct KeyRevocation(Arc<AtomicBool>);

impl KeyRevocation {
    /// Whether requests that hold it must end.
    pub fn is_revoked(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The flags that views of this node hold. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct KeyRevocations(Arc<Mutex<HeldRevocations>>);

#[derive(Debug)]
struct HeldRevocations {
    by_key: HashMap<AccessKeyId, Weak<AtomicBool>>,
    /// The number of keys at which those are dropped whose flags nothing holds.
    swept_at: usize,
}

impl Default for KeyRevocations {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(HeldRevocations { by_key: HashMap::new(), swept_at: REVOCATIONS_SWEPT_AT })))
    }
}

impl KeyRevocations {
    /// The flag of a key: the one that its requests hold, or a new one.
    pub(super) fn of(&self, id: AccessKeyId) -> KeyRevocation {
        let mut held = self.0.lock();
        if let Some(revocation) = held.by_key.get(&id).and_then(Weak::upgrade) {
            return KeyRevocation(revocation);
        }
        if held.by_key.len() >= held.swept_at {
            held.by_key.retain(|_, revocation| revocation.strong_count() > 0);
            held.swept_at = REVOCATIONS_SWEPT_AT.max(2 * held.by_key.len());
        }
        let revocation = KeyRevocation::default();
        held.by_key.insert(id, Arc::downgrade(&revocation.0));
        revocation
    }

    /// Sets the flag of a key.
    pub(super) fn revoke(&self, id: AccessKeyId) {
        let revocation = self.0.lock().by_key.remove(&id);
        if let Some(revocation) = revocation.and_then(|revocation| revocation.upgrade()) {
            revocation.store(true, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> AccessKeyId {
        let digits = format!("{number:0>16}");
        let letters: String = digits.bytes().map(|digit| char::from(digit - b'0' + b'A')).collect();
        AccessKeyId::parse(&format!("AKIA{letters}")).expect("an id")
    }

    #[test]
    fn all_views_of_a_key_share_its_flag_until_it_is_revoked() {
        let revocations = KeyRevocations::default();
        let (one, other, same) = (revocations.of(key(1)), revocations.of(key(2)), revocations.of(key(1)));
        revocations.revoke(key(1));
        assert!(one.is_revoked() && same.is_revoked() && !other.is_revoked());
        assert!(!revocations.of(key(1)).is_revoked(), "of requests that begin later");
    }

    #[test]
    fn flags_that_nothing_holds_are_dropped() {
        let revocations = KeyRevocations::default();
        let held = revocations.of(key(0));
        for number in 1..3 * REVOCATIONS_SWEPT_AT {
            revocations.of(key(number));
        }
        assert!(revocations.0.lock().by_key.len() <= REVOCATIONS_SWEPT_AT);
        revocations.revoke(key(0));
        assert!(held.is_revoked());
    }
}
