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
use sherd_policy::{BucketRules, Identity, KeyName, Policy, Rights};
use sherd_store::object::BucketView;

use super::origin::OriginFacts;
use super::{RequestFacts, ServiceFacts};
use crate::limits::{RIGHTS_BYTES_MAX, RIGHTS_PARTS, RIGHTS_USUAL};

/// The addresses of an identity and of a bucket's configuration, and whether the account restricts public
/// buckets.
type Place = (usize, usize, bool);

/// Gives the rights of callers, out of memory. One for all requests.
pub struct Authorizer {
    region: Arc<str>,
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
pub struct KeptRights {
    rights: Rights,
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

    /// The rights.
    pub const fn rights(&self) -> &Rights {
        &self.rights
    }

    /// The same for requests for these actions that differ in these keys alone, with the facts of one.
    #[must_use]
    pub fn settled(
        &self,
        origin: &OriginFacts,
        facts: &dyn ServiceFacts,
        actions: &[&'static str],
        differing: &[KeyName],
    ) -> Self {
        let facts = RequestFacts::new(origin, facts, actions.first().copied().unwrap_or_default());
        Self::new(self.rights.settled(&facts, actions, differing), Weak::new(), Weak::new())
    }
}

impl Authorizer {
    /// For a region.
    pub fn new(region: &str) -> Self {
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
    pub const fn region(&self) -> &Arc<str> {
        &self.region
    }

    /// How many rights are kept, and their bytes.
    #[cfg(test)]
    fn kept(&self) -> (usize, u64) {
        (self.kept.len(), self.kept.weight())
    }

    /// The rights of a caller in a bucket, in an account with that public access block; `None` for root in a
    /// bucket without a policy.
    ///
    /// # Errors
    /// [`UndecodableKind`] where the bucket's policy or its public access block cannot be decoded.
    pub fn in_bucket(
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
    pub fn in_no_bucket(&self, identity: &Arc<Identity>) -> Arc<KeptRights> {
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

#[cfg(test)]
mod tests {
    use sherd_policy::{PolicyForm, UserIdentity};

    use super::*;

    #[test]
    fn rights_are_kept_by_their_bytes_and_keep_no_identity() {
        let authorizer = Authorizer::new("eu-west-1");
        let resource = format!("arn:aws:s3:::{}/*", "b".repeat(4000));
        let policy = format!(
            r#"{{"Version":"2012-10-17","Statement":
                {{"Effect":"Allow","Action":"s3:GetObject","Resource":"{resource}"}}}}"#
        );
        let policy = Arc::new(Policy::parse(policy.as_bytes(), PolicyForm::Identity).unwrap());
        let identity = |number: usize| {
            Arc::new(Identity::User(UserIdentity {
                arn: format!("arn:aws:iam::000000000001:user/{number}"),
                name: number.to_string(),
                id: format!("AIDA{number}"),
                tags: vec![],
                policies: vec![Arc::clone(&policy); 50],
            }))
        };
        let callers: Vec<_> = (0..400).map(identity).collect();
        for caller in &callers {
            let kept = authorizer.in_no_bucket(caller);
            assert!(kept.rights.bytes() > 50 * 4000);
            assert_eq!(Arc::strong_count(caller), 1, "who is gone goes with its policies");
        }
        let (entries, bytes) = authorizer.kept();
        assert!(bytes <= RIGHTS_BYTES_MAX, "{bytes} bytes");
        assert!((20..200).contains(&entries), "{entries} entries of 200 KiB");
        let last = callers.last().expect("there are some");
        assert!(Arc::ptr_eq(&authorizer.in_no_bucket(last), &authorizer.in_no_bucket(last)), "compiled once");
    }
}
