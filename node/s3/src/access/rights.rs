//! Rights, compiled once for a caller and a bucket's configuration and kept for the requests that follow.
//!
//! They are found by the addresses of both: what was read again lies elsewhere, and what is kept stays true,
//! because neither is ever changed. Neither is kept in memory by its rights, and rights by their bytes.

use std::fmt;
use std::sync::{Arc, Weak};

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use sherd_core::config::public_access::{PublicAccessBlock, PublicAccessSetting};
use sherd_core::config::{BucketConfig, UndecodableKind};
use sherd_policy::{BucketRules, Facts, Identity, KeyName, Policy, Rights};
use sherd_store::object::BucketView;

use super::limits::{RIGHTS_BYTES_MAX, RIGHTS_PARTS, RIGHTS_USUAL};

/// The addresses of an identity and of a bucket's configuration, and whether the account restricts public
/// buckets.
type Place = (usize, usize, bool);

/// Gives the rights of callers, out of memory. One for all requests.
pub struct Authorizer {
    region: Box<str>,
    kept: Cache<Place, Arc<KeptRights>, RightsWeight>,
}

/// The bytes that rights take.
#[derive(Debug, Clone)]
struct RightsWeight;

impl Weighter<Place, Arc<KeptRights>> for RightsWeight {
    fn weight(&self, _: &Place, kept: &Arc<KeptRights>) -> u64 {
        kept.bytes
    }
}

impl fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorizer").field("kept", &self.kept.len()).finish_non_exhaustive()
    }
}

/// Rights, and the places of what they were compiled from.
#[derive(Debug)]
pub(super) struct KeptRights {
    pub(super) rights: Rights,
    /// Nothing else has the address of a shared value while something points at it, even weakly.
    _identity: Weak<Identity>,
    _config: Weak<BucketConfig>,
    bytes: u64,
}

impl KeptRights {
    fn new(rights: Rights, identity: Weak<Identity>, config: Weak<BucketConfig>) -> Self {
        let places = size_of::<Self>() + size_of::<Identity>() + size_of::<BucketConfig>();
        let bytes = u64::try_from(rights.bytes() + places).unwrap_or(u64::MAX);
        Self { rights, _identity: identity, _config: config, bytes }
    }

    /// The same for requests for these actions that differ in these keys alone, with the facts of one.
    pub(super) fn settled(&self, facts: &dyn Facts, actions: &[&'static str], differing: &[KeyName]) -> Self {
        Self::new(self.rights.settled(facts, actions, differing), Weak::new(), Weak::new())
    }
}

impl Authorizer {
    /// For a region.
    pub(crate) fn new(region: &str) -> Self {
        let options = OptionsBuilder::new()
            .shards(RIGHTS_PARTS)
            .estimated_items_capacity(RIGHTS_USUAL)
            .weight_capacity(RIGHTS_BYTES_MAX)
            .build()
            .expect("both capacities are there");
        let kept = Cache::with_options(
            options,
            RightsWeight,
            DefaultHashBuilder::default(),
            DefaultLifecycle::default(),
        );
        Self { region: region.into(), kept }
    }

    /// The region, as conditions name it.
    pub(super) fn region(&self) -> &str {
        &self.region
    }

    /// How many rights are kept, and their bytes.
    #[cfg(test)]
    pub(super) fn kept(&self) -> (usize, u64) {
        (self.kept.len(), self.kept.weight())
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
        let rights = Rights::new(identity, Some(&rules));
        let kept = KeptRights::new(rights, Arc::downgrade(identity), Arc::downgrade(&bucket.config));
        let kept = Arc::new(kept);
        self.kept.insert(place, Arc::clone(&kept));
        Ok(Some(kept))
    }

    /// The rights of a caller by its own policies alone.
    pub(super) fn in_no_bucket(&self, identity: &Arc<Identity>) -> Arc<KeptRights> {
        let place = (address(identity), 0, false);
        self.kept.get(&place).unwrap_or_else(|| {
            let rights = Rights::new(identity, None);
            let kept = Arc::new(KeptRights::new(rights, Arc::downgrade(identity), Weak::new()));
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
