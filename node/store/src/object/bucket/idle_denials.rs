//! Stored policies with a Deny that never matches requests for some of its actions: each is logged once.
//!
//! Such a policy is refused where it is put, and one that was stored before is read on. It is parsed again
//! whenever its bucket's view was forgotten meanwhile.

use std::collections::{BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use bytes::Bytes;
use parking_lot::Mutex;

use sherd_core::config::{BucketConfig, ConfigKind};
use sherd_core::id::{BucketId, ObjectKey};

use crate::object::limits::IDLE_DENIALS_MAX;

/// The policies that were logged lately.
#[derive(Debug, Default)]
pub(super) struct IdleDenials(Mutex<LoggedPolicies>);

#[derive(Debug, Default)]
struct LoggedPolicies {
    /// Each by its bucket and a hash of its entry.
    known: BTreeSet<(BucketId, u64)>,
    /// The oldest first.
    order: VecDeque<(BucketId, u64)>,
}

impl IdleDenials {
    /// Logs the policy of a bucket that was parsed now, where it has such a Deny and was not logged before.
    pub(super) fn look_at(&self, name: &ObjectKey, id: BucketId, config: &BucketConfig) {
        let Ok(Some(policy)) = config.policy() else { return };
        let Some(entry) = config.entries().get(ConfigKind::BucketPolicy.number()) else { return };
        if policy.policy().has_idle_denial() && self.is_new(id, entry) {
            tracing::warn!(
                bucket = name.as_str(),
                "a Deny of the stored policy has a condition key that its action lacks: it never matches"
            );
        }
    }

    fn is_new(&self, id: BucketId, entry: &Bytes) -> bool {
        let mut hasher = DefaultHasher::new();
        entry.hash(&mut hasher);
        let policy = (id, hasher.finish());
        let mut logged = self.0.lock();
        if !logged.known.insert(policy) {
            return false;
        }
        logged.order.push_back(policy);
        if logged.order.len() > IDLE_DENIALS_MAX
            && let Some(oldest) = logged.order.pop_front()
        {
            logged.known.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_of_a_bucket_is_new_once_and_few_are_remembered() {
        let denials = IdleDenials::default();
        let (one, other) = (BucketId([1; 16]), BucketId([2; 16]));
        let entry = |number: usize| Bytes::copy_from_slice(&number.to_le_bytes());
        assert!(denials.is_new(one, &entry(0)) && denials.is_new(other, &entry(0)));
        assert!(denials.is_new(one, &entry(1)), "it was replaced");
        assert!(!denials.is_new(one, &entry(0)) && !denials.is_new(one, &entry(1)), "parsed again");
        for number in 0..IDLE_DENIALS_MAX {
            denials.is_new(other, &entry(number));
        }
        let logged = denials.0.lock();
        assert_eq!((logged.known.len(), logged.order.len()), (IDLE_DENIALS_MAX, IDLE_DENIALS_MAX));
    }
}
