//! Decides which keys of a user stay, go and are made. A plain function over values, so that a reconcile that
//! was cut anywhere is gone on with:
//!
//! ```text
//! CreateAccessKey -> cut: the key is in no Secret: it is removed, and another one is made
//!   Secret        -> cut: the Secret's key is not the status': the status' key is the former one
//!   status        -> the former key works until its end, and is disabled and removed then
//! ```
//!
//! The Secret says which key it holds and for which text of the annotation that was made.

use std::time::Duration;

use crate::api::{BucketUserStatus, FormerKey};
use crate::calls::iam::ListedKey;

/// The key that a Secret holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretKey {
    /// The key's id.
    pub id: String,
    /// The text of the annotation that it was made for.
    pub asked: Option<String>,
}

/// Everything that a plan reads.
#[derive(Debug, Clone, Copy)]
pub struct KeyFacts<'a> {
    /// The user's keys in the cluster.
    pub keys: &'a [ListedKey],
    /// The key of the Secret, where that is whole.
    pub secret: Option<&'a SecretKey>,
    /// The last status.
    pub status: &'a BucketUserStatus,
    /// The text of the annotation that asks for another key.
    pub rotate: Option<&'a str>,
    /// How long a former key works.
    pub overlap: Duration,
    /// The time, in seconds since the Unix epoch.
    pub now_s: i64,
}

/// The decisions of a plan, in the order in which they are carried out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyPlan {
    /// Keys that are disabled and removed.
    pub remove: Vec<String>,
    /// Keys that were suspended and work again.
    pub resume: Vec<String>,
    /// Whether a key is made and written to the Secret.
    pub make: bool,
    /// The key that works on beside the Secret's.
    pub former: Option<FormerKey>,
}

/// Decides. A user has two keys at most, so that another one takes the place of a former one that works yet.
pub fn plan(facts: &KeyFacts<'_>) -> KeyPlan {
    let KeyFacts { keys, secret, status, rotate, overlap, now_s } = *facts;
    let ends_at = now_s.saturating_add(i64::try_from(overlap.as_secs()).unwrap_or(i64::MAX));
    let replaced = |id: &str| FormerKey { access_key_id: id.to_owned(), ends_at };
    // Of keys that were suspended, those that the Secret and the status name come back.
    let works = |id: &str| keys.iter().any(|key| key.id == id && (key.active || status.suspended));
    let held = secret.filter(|secret| works(&secret.id));
    let last = status.access_key_id.as_deref().filter(|id| works(id));
    let known_former = status.former_key.clone().filter(|former| works(&former.access_key_id));
    let asked = |held: &SecretKey| rotate.is_some() && held.asked.as_deref() != rotate;
    let (make, former) = match held {
        // A key that the suspension made inactive is not in use, and may be the reason for it.
        Some(held) if asked(held) => (true, Some(replaced(&held.id)).filter(|_| !status.suspended)),
        Some(held) => {
            let others = || keys.iter().map(|key| key.id.as_str()).find(|id| *id != held.id && works(id));
            let former = match (&status.access_key_id, last) {
                // The Secret was written, and the status was not.
                (Some(_), Some(last)) if last != held.id => Some(replaced(last)),
                (Some(_), _) => known_former.filter(|former| former.access_key_id != held.id),
                // A status that was lost says of no key whether it is in use.
                (None, _) => others().map(replaced),
            };
            (false, former)
        }
        // The Secret was lost: its key may be in use, and cannot be read back.
        None => (true, last.map(replaced).or(known_former).filter(|_| !status.suspended)),
    };
    let former = former.filter(|former| make || former.ends_at > now_s);
    let stays = |id: &str| {
        held.is_some_and(|held| !make && held.id == id)
            || former.as_ref().is_some_and(|former| former.access_key_id == id)
    };
    let (kept, removed): (Vec<_>, Vec<_>) = keys.iter().partition(|key| stays(&key.id));
    let remove = removed.into_iter().map(|key| key.id.clone()).collect();
    let resume = kept.into_iter().filter(|key| !key.active).map(|key| key.id.clone()).collect();
    KeyPlan { remove, resume, make, former }
}

/// Decides while no key can be given: nothing is taken away but a former key at its end, and keys that were
/// suspended work again.
pub fn plan_kept(keys: &[ListedKey], status: &BucketUserStatus, now_s: i64) -> KeyPlan {
    let (ended, former) = match status.former_key.clone() {
        Some(former) if former.ends_at <= now_s => (Some(former.access_key_id), None),
        former => (None, former),
    };
    let kept = [status.access_key_id.as_deref(), former.as_ref().map(|former| former.access_key_id.as_str())];
    let is_kept = |id: &str| kept.contains(&Some(id));
    let ids = |keys: Vec<&ListedKey>| keys.into_iter().map(|key| key.id.clone()).collect();
    let (kept, others): (Vec<_>, Vec<_>) = keys.iter().partition(|key| is_kept(&key.id));
    let remove = ids(others.into_iter().filter(|key| Some(&key.id) == ended.as_ref()).collect());
    let resume = ids(kept.into_iter().filter(|key| status.suspended && !key.active).collect());
    KeyPlan { remove, resume, make: false, former }
}
