//! Rights, compiled once for a caller and a bucket's configuration and kept for the requests that follow.
//!
//! They are found by the addresses of both: what was read again lies elsewhere, and what is kept stays true,
//! because neither is ever changed.

use std::fmt;
use std::sync::Arc;

use quick_cache::sync::Cache;
use sherd_core::config::public_access::{PublicAccessBlock, PublicAccessSetting};
use sherd_core::config::{BucketConfig, UndecodableKind};
use sherd_policy::{BucketRules, Identity, Policy, Rights};
use sherd_store::object::BucketView;

use super::limits::RIGHTS_MAX;

/// Gives the rights of callers, out of memory. One for all requests.
pub struct Authorizer {
    region: Box<str>,
    kept: Cache<(usize, usize, bool), Arc<KeptRights>>,
}

impl fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorizer").field("kept", &self.kept.len()).finish_non_exhaustive()
    }
}

/// Rights, and what they were compiled from: while that is kept, nothing else has its address.
#[derive(Debug)]
pub(super) struct KeptRights {
    pub(super) rights: Rights,
    _identity: Arc<Identity>,
    _config: Option<Arc<BucketConfig>>,
}

impl Authorizer {
    /// For a region.
    pub(crate) fn new(region: &str) -> Self {
        Self { region: region.into(), kept: Cache::new(RIGHTS_MAX) }
    }

    /// The region, as conditions name it.
    pub(super) fn region(&self) -> &str {
        &self.region
    }

    /// The rights of a caller in a bucket, in an account with that public access block; `None` for root in a
    /// bucket without a policy.
    ///
    /// # Errors
    /// [`UndecodableKind`] where the bucket's policy or its public access block cannot be decoded.
    pub(super) fn in_bucket(
        &self,
        identity: &Arc<Identity>,
        bucket: &BucketView,
        account: PublicAccessBlock,
    ) -> Result<Option<Arc<KeptRights>>, UndecodableKind> {
        let policy = policy_of(&bucket.config)?;
        if matches!(**identity, Identity::Root) && policy.is_none() {
            return Ok(None);
        }
        let restricts_public = account.has(PublicAccessSetting::RestrictPublicBuckets);
        let place = (address(identity), address(&bucket.config), restricts_public);
        if let Some(kept) = self.kept.get(&place) {
            return Ok(Some(kept));
        }
        let rules = BucketRules {
            name: bucket.name.as_str().to_owned(),
            policy: policy.cloned(),
            restrict_public_buckets: restricts_public || restricts_public_in(&bucket.config)?,
        };
        let kept = Arc::new(KeptRights {
            rights: Rights::new(identity, Some(&rules)),
            _identity: Arc::clone(identity),
            _config: Some(Arc::clone(&bucket.config)),
        });
        self.kept.insert(place, Arc::clone(&kept));
        Ok(Some(kept))
    }

    /// The rights of a caller by its own policies alone.
    pub(super) fn in_no_bucket(&self, identity: &Arc<Identity>) -> Arc<KeptRights> {
        let place = (address(identity), 0, false);
        self.kept.get(&place).unwrap_or_else(|| {
            let rights = Rights::new(identity, None);
            let identity = Arc::clone(identity);
            let kept = Arc::new(KeptRights { rights, _identity: identity, _config: None });
            self.kept.insert(place, Arc::clone(&kept));
            kept
        })
    }
}

/// Where a shared value lies.
fn address<T>(shared: &Arc<T>) -> usize {
    Arc::as_ptr(shared).addr()
}

/// The bucket's own policy.
fn policy_of(config: &BucketConfig) -> Result<Option<&Arc<Policy>>, UndecodableKind> {
    Ok(config.policy()?.map(|stored| stored.policy()))
}

/// Whether a policy that is public gives rights to users of the account alone.
fn restricts_public_in(config: &BucketConfig) -> Result<bool, UndecodableKind> {
    let block = config.public_access_block()?;
    Ok(block.is_some_and(|block| block.has(PublicAccessSetting::RestrictPublicBuckets)))
}
