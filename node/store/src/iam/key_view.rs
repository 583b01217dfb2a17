//! An access key as a request needs it: its secret, its user, and all policies of the user and its groups,
//! composed from their records.
//!
//! ```text
//! key -> its user, where it has this id and lists the key -> groups -> inline and attached policies
//! ```
//! Each is found by the register that it lives in, which a rename does not change. A record that is named
//! and is not there, or has another id, gives nothing. One that cannot be read, or does not decode, and a
//! policy of AWS that the program does not have fail the whole: a policy that denies must not be left out.

use std::fmt;
use std::sync::Arc;

use futures::future::try_join_all;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use sherd_core::iam::{
    AccessKeyId, EntityId, EntityRef, GroupRecord, KeyRecord, ManagedPolicy, PolicySet, UserRecord,
};
use sherd_policy::{Identity, Policy, PolicyForm, UserIdentity};

use super::aws_policies;
use super::error::IamReadError;
use super::fingerprint::Fingerprint;
use super::limits::{PARSED_BYTES, PARSED_BYTES_MAX, VIEW_BYTES};
use super::master_key::{KeySecret, MasterKey};
use super::records::{FoundRecord, Records};
use super::revocations::{KeyRevocation, KeyRevocations};

type Result<T> = std::result::Result<T, IamReadError>;

/// A good access key, as it was at most two seconds ago.
pub struct KeyView {
    /// The key's id.
    pub access_key: AccessKeyId,
    /// The key's secret.
    pub secret: KeySecret,
    /// The user's name, as it is capitalised.
    pub user_name: String,
    /// The user's id.
    pub user_id: EntityId,
    /// The user, with all policies that apply to it. The same one as in the view before, where no record
    /// changed.
    pub identity: Arc<Identity>,
    /// The flag that requests of the key hold while they are under way.
    pub revocation: KeyRevocation,
    /// The hash of all records that it was composed of.
    source: [u8; 32],
    weight: u64,
}

impl KeyView {
    /// Whether both show the same records: what one gives, the other gives.
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.source == other.source
    }

    pub(super) const fn weight(&self) -> u64 {
        self.weight
    }
}

impl fmt::Debug for KeyView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyView({}, {})", self.access_key, self.user_name)
    }
}

/// The answer to an access key.
#[derive(Debug, Clone)]
pub enum KeyLookup {
    /// Active, with its user.
    Known(Arc<KeyView>),
    /// Not there, not active, or detached from its user.
    Unknown,
}

impl KeyLookup {
    /// The view of a good key.
    pub fn view(self) -> Option<Arc<KeyView>> {
        match self {
            Self::Known(view) => Some(view),
            Self::Unknown => None,
        }
    }
}

/// Composes views. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Composer {
    pub(super) records: Records,
    pub(super) master_key: Option<MasterKey>,
    pub(super) revocations: KeyRevocations,
    parsed: Arc<ParsedPolicies>,
}

/// The hash of the records of a view, in the order in which they are read.
struct Source(blake3::Hasher);

impl Source {
    /// Adds a record. The changes of its register count: one that was changed and changed back is another.
    fn add<R>(&mut self, found: &FoundRecord<R>) {
        let bytes = &found.document.bytes;
        self.0.update(&found.document.changes.to_le_bytes());
        self.0.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    }
}

impl Composer {
    pub(super) fn new(records: Records, master_key: Option<MasterKey>) -> Self {
        Self { records, master_key, revocations: KeyRevocations::default(), parsed: Arc::default() }
    }

    /// Reads the records of a key, and composes them unless they are as they were `before`.
    pub(super) async fn compose(&self, id: AccessKeyId, before: Option<KeyLookup>) -> Result<KeyLookup> {
        // Before the first read: a revocation behind a change that the reads miss sets it.
        let revocation = self.revocations.of(id);
        let mut source = Source(blake3::Hasher::new());
        let Some(key) = self.records.read::<KeyRecord>(id.register()).await? else {
            return Ok(KeyLookup::Unknown);
        };
        source.add(&key);
        let key = key.record;
        let user = self.records.referred::<UserRecord>(&key.user).await?;
        let Some(user) = user.filter(|user| key.id == id && user.record.has_active(id)) else {
            return Ok(KeyLookup::Unknown);
        };
        source.add(&user);
        let user = user.record;
        let groups = user.groups.iter().map(|group| self.records.referred::<GroupRecord>(group));
        let groups: Vec<_> = try_join_all(groups).await?.into_iter().flatten().collect();
        for group in &groups {
            source.add(group);
        }
        let sets: Vec<&PolicySet> = std::iter::once(&user.policies)
            .chain(groups.iter().map(|group| &group.record.policies))
            .collect();
        let (managed, aws) = (self.managed(&sets).await?, of_aws(&sets)?);
        for policy in &managed {
            source.add(policy);
        }
        let digest = *source.0.finalize().as_bytes();
        if let Some(KeyLookup::Known(before)) = before.filter(|before| before.is_of(digest)) {
            return Ok(KeyLookup::Known(before));
        }
        let secret = self.unwrap(&key)?;
        let identity = self.identity(&user, &sets, &managed, &aws)?;
        Ok(KeyLookup::Known(Arc::new(KeyView {
            access_key: id,
            secret,
            user_name: user.name.clone(),
            user_id: user.id.clone(),
            weight: VIEW_BYTES + identity.bytes() as u64,
            identity: Arc::new(identity),
            revocation,
            source: digest,
        })))
    }

    /// The managed policies that are attached to any of these, each once.
    pub(super) async fn managed(&self, sets: &[&PolicySet]) -> Result<Vec<FoundRecord<ManagedPolicy>>> {
        let mut named: Vec<&EntityRef> = sets.iter().flat_map(|set| &set.attached).collect();
        named.sort_by(|one, other| one.id.cmp(&other.id));
        named.dedup_by(|one, other| one.id == other.id);
        let reads = named.into_iter().map(|named| self.records.referred::<ManagedPolicy>(named));
        Ok(try_join_all(reads).await?.into_iter().flatten().collect())
    }

    fn identity(
        &self,
        user: &UserRecord,
        sets: &[&PolicySet],
        managed: &[FoundRecord<ManagedPolicy>],
        aws: &[AwsDocument],
    ) -> Result<Identity> {
        let inline = sets.iter().flat_map(|set| &set.inline).map(|policy| (&policy.name, &policy.document));
        let managed = managed.iter().filter_map(|found| {
            let version = found.record.default_version()?;
            Some((&found.record.name, &version.document))
        });
        let policies = inline
            .chain(managed)
            .chain(aws.iter().map(|(policy, document)| (&policy.name, *document)))
            .map(|(name, document)| self.parsed.parse(name, document))
            .collect::<Result<Vec<_>>>()?;
        Ok(Identity::User(UserIdentity {
            arn: user.arn(),
            name: user.name.clone(),
            id: user.id.to_string(),
            tags: user.tags.iter().map(|tag| (tag.key.clone(), tag.value.clone())).collect(),
            policies,
        }))
    }

    fn unwrap(&self, key: &KeyRecord) -> Result<KeySecret> {
        match &self.master_key {
            Some(master_key) => master_key.unwrap(key.id, &key.secret),
            None => Err(IamReadError::NoMasterKey { wrapped: Fingerprint(key.secret.fingerprint) }),
        }
    }

    /// A stored policy, parsed.
    pub(super) fn parse(&self, name: &str, document: &str) -> Result<Arc<Policy>> {
        self.parsed.parse(name, document)
    }
}

/// A policy of AWS and its document.
type AwsDocument = (&'static ManagedPolicy, &'static String);

/// The policies of AWS that are attached to any of these, each once.
pub(super) fn of_aws(sets: &[&PolicySet]) -> Result<Vec<AwsDocument>> {
    let mut names: Vec<&String> = sets.iter().flat_map(|set| &set.aws).collect();
    names.sort();
    names.dedup();
    let document = |name: &String| {
        let unknown = || IamReadError::UnknownAwsPolicy { name: name.clone() };
        let policy = aws_policies::find(name).ok_or_else(unknown)?;
        let version = policy.default_version().ok_or_else(unknown)?;
        Ok((policy, &version.document))
    };
    names.into_iter().map(document).collect()
}

impl KeyLookup {
    /// Whether it was composed of these records, and requests may begin by it.
    fn is_of(&self, source: [u8; 32]) -> bool {
        matches!(self, Self::Known(view) if view.source == source && !view.revocation.is_revoked())
    }
}

/// Policies as they were parsed, by the hash of their documents: users share them.
#[derive(Debug)]
struct ParsedPolicies(Cache<[u8; 32], Arc<Policy>, PolicyWeight>);

#[derive(Debug, Clone)]
struct PolicyWeight;

impl Weighter<[u8; 32], Arc<Policy>> for PolicyWeight {
    fn weight(&self, _hash: &[u8; 32], policy: &Arc<Policy>) -> u64 {
        PARSED_BYTES + policy.bytes() as u64
    }
}

impl Default for ParsedPolicies {
    fn default() -> Self {
        let options = OptionsBuilder::new()
            .shards(1)
            .estimated_items_capacity(1 << 10)
            .weight_capacity(PARSED_BYTES_MAX)
            .build()
            .expect("both capacities are given");
        let (hasher, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        Self(Cache::with_options(options, PolicyWeight, hasher, lifecycle))
    }
}

impl ParsedPolicies {
    fn parse(&self, name: &str, document: &str) -> Result<Arc<Policy>> {
        let hash = *blake3::hash(document.as_bytes()).as_bytes();
        if let Some(parsed) = self.0.get(&hash) {
            return Ok(parsed);
        }
        let parsed = Policy::parse(document.as_bytes(), PolicyForm::Identity).map_err(|malformed| {
            IamReadError::MalformedPolicy { name: name.to_owned(), reason: malformed.to_string() }
        })?;
        let parsed = Arc::new(parsed);
        self.0.insert(hash, Arc::clone(&parsed));
        Ok(parsed)
    }
}
