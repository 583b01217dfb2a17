//! Identity and access management: users, groups, access keys and policies, and how a request's key is looked
//! up.
//!
//! ```text
//! s3, iam's API -> remembered_key, look_up_key -> views: composed of records, at most 2 s old
//! iam's API     -> users, groups, keys, policies -> records: one compare-and-set each -> all nodes forget
//!                  renames -> names: one of the renamed record, between two of the names
//! ```
//! [`Iam`] names all calls. Each change is decided by one compare-and-set of one record: what a crash leaves
//! between two records gives nothing, as records name each other by ids that are never given twice.

mod error;
mod limits;
mod places;
mod fingerprint;
mod master_key;
mod records;
mod names;
mod revocations;
mod key_view;
mod views;
mod uses;
mod users;
mod groups;
mod keys;
mod given_key;
mod policies;
mod aws_policies;
mod principals;

pub use aws_policies::aws_policies;
pub use error::{
    DeleteConflict, IamError, IamReadError, InvalidTag, KeyTaken, LimitExceeded, MissingEntity, Result,
};
pub use fingerprint::Fingerprint;
pub use given_key::{GivenKey, GivenKeyState};
pub use key_view::{KeyLookup, KeyView};
pub use keys::{KeyOwner, NewKey, Signer, UserKeys};
pub use master_key::{KeySecret, MasterKey};
pub use names::EntityUpdate;
pub use places::SearchPlace;
pub use policies::{ManagedName, NewPolicy, PolicyOwner};
pub use principals::{PolicyOrigin, Principal, PrincipalPolicy};
pub use records::Page;
pub use revocations::KeyRevocation;
pub use users::NewUser;

use std::sync::Arc;

use sherd_core::config::public_access::PublicAccessBlock;
use sherd_core::env::Rng;
use sherd_core::iam::{
    AccessKeyId, Account, EntityKind, EntityRef, GroupRecord, ManagedPolicy, UserRecord, check_path,
};
use sherd_core::id::RegisterKey;
use sherd_core::limits::{IAM_TAGS_MAX, TAG_KEY_CHARS_MAX, TAG_VALUE_CHARS_MAX};
use sherd_core::record::{Tag, is_of_tags};
use tokio::sync::OwnedSemaphorePermit;

use crate::cluster::asker::Gateways;
use crate::object::Objects;
use crate::observe::trace;
use crate::views::{self as view_cache, ChangedViews, ForgetCalls, ForgetRounds};
use key_view::Composer;
use records::{EntityRecord, Records, Step};
use uses::KeyUses;
use views::{IamName, IamView, IamViews};

/// Parts that IAM is built from.
#[derive(Debug)]
pub struct IamConfig {
    /// The store that keeps the records.
    pub objects: Objects,
    /// Where ids, secrets and nonces are drawn.
    pub rng: Arc<dyn Rng>,
    /// The key under which secrets are kept; without one no user or key can be made, and none can sign.
    pub master_key: Option<MasterKey>,
    /// The other nodes, which may remember views; `None` of a node alone.
    pub others: Option<Arc<dyn Gateways>>,
}

/// Identity and access management, as every request of this process uses it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Iam {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    records: Records,
    views: IamViews,
    rounds: ForgetRounds,
    others: Option<Arc<dyn Gateways>>,
    uses: KeyUses,
    rng: Arc<dyn Rng>,
}

impl Iam {
    /// Builds it.
    pub fn new(config: IamConfig) -> Self {
        let IamConfig { objects, rng, master_key, others } = config;
        let records = Records::new(objects);
        let views = IamViews::new(Composer::new(records.clone(), master_key));
        let rounds = ForgetRounds::new(ForgetCalls::new(others.clone()), ChangedViews::Iam);
        let uses = KeyUses::new(records.clone());
        Self { inner: Arc::new(Inner { records, views, rounds, others, uses, rng }) }
    }

    /// The view of an access key, where it was read in the last two seconds. Reads no register and allocates
    /// nothing.
    pub fn remembered_key(&self, access_key: &str) -> Option<KeyLookup> {
        match AccessKeyId::parse(access_key) {
            Some(id) => view_cache::remembered(&self.inner.views, &IamName::Key(id)).and_then(IamView::key),
            None => Some(KeyLookup::Unknown),
        }
    }

    /// Whether an access key was good when this node looked it up the last time. It may not be good now.
    pub fn was_good(&self, access_key: &str) -> bool {
        AccessKeyId::parse(access_key).is_some_and(|id| self.inner.views.was_good(id))
    }

    /// Looks an access key up: out of what is remembered, or out of its records. `None` where it is not good.
    ///
    /// # Errors
    /// [`IamReadError`] where that cannot be said now: to be answered by 503, and not as an unknown key.
    pub async fn look_up_key(
        &self,
        access_key: &str,
    ) -> std::result::Result<Option<Arc<KeyView>>, IamReadError> {
        let Some(id) = AccessKeyId::parse(access_key) else { return Ok(None) };
        match view_cache::look_up(&self.inner.views, &IamName::Key(id)).await? {
            IamView::Key(key) => Ok(key.view()),
            IamView::Unusable(error) => Err(error),
            IamView::Account(_) => Ok(None),
        }
    }

    /// Forgets all views, as another node has changed a record: later requests read the records, and reads
    /// that are under way fill no view.
    pub fn forget(&self) {
        self.inner.views.cache.forget_all();
    }

    /// Ends the requests of a key that are under way through this node: no further byte of their bodies
    /// passes. To be called behind the change that took the key from its user, or made it inactive.
    pub fn revoke_key(&self, key: AccessKeyId) {
        self.inner.views.composer.revocations.revoke(key);
        // A view that is read at this moment may have the flag that was set.
        self.forget();
    }

    /// Notes that a good key was used by a request to a service in a region. Written now and then.
    pub fn note_use(&self, key: &KeyView, service: &str, region: &str) {
        self.inner.uses.note(key.access_key, service, region);
    }

    /// The account, where it was read in the last two seconds. Reads no register.
    pub fn remembered_account(&self) -> Option<Account> {
        match view_cache::remembered(&self.inner.views, &IamName::Account) {
            Some(IamView::Account(account)) => Some(account),
            Some(IamView::Key(_) | IamView::Unusable(_)) | None => None,
        }
    }

    /// The account, as it was at most two seconds ago.
    ///
    /// # Errors
    /// [`IamReadError`] where that cannot be said now.
    pub async fn account_view(&self) -> std::result::Result<Account, IamReadError> {
        match view_cache::look_up(&self.inner.views, &IamName::Account).await? {
            IamView::Account(account) => Ok(account),
            IamView::Key(_) | IamView::Unusable(_) => Ok(Account::default()),
        }
    }

    /// Sets the account's public access block, or removes it.
    ///
    /// # Errors
    /// Any of [`IamError`] of reading and writing.
    pub async fn set_account_public_access_block(&self, block: Option<PublicAccessBlock>) -> Result<()> {
        let records = self.inner.records.clone();
        self.change("account", async move {
            let set = |_: Option<Account>| Ok((Step::Put(Account { public_access_block: block }), ()));
            records.change(&Account::register(), set).await
        })
        .await
    }

    /// The number of users, groups or managed policies, as it was at most 10 s ago.
    ///
    /// # Errors
    /// [`IamError::Busy`]; [`IamError`] of reading.
    pub async fn entity_count(&self, kind: EntityKind) -> Result<usize> {
        let records = &self.inner.records;
        match kind {
            EntityKind::User => records.count::<UserRecord>().await,
            EntityKind::Group => records.count::<GroupRecord>().await,
            EntityKind::Policy => records.count::<ManagedPolicy>().await,
        }
    }

    /// Takes one of the places of calls that read many records.
    ///
    /// # Errors
    /// [`IamError::Busy`] where others hold all places.
    pub async fn search_place(&self) -> Result<SearchPlace> {
        Ok(self.inner.records.searches.take().await?.into())
    }

    /// Takes one of the places of simulations: it is free again when the permit is dropped.
    ///
    /// # Errors
    /// [`IamError::Busy`] where others hold all places.
    pub async fn simulation_place(&self) -> Result<OwnedSemaphorePermit> {
        self.inner.records.simulations.take().await
    }

    /// This node's master key.
    fn require_master_key(&self) -> Result<&MasterKey> {
        self.inner.views.composer.master_key.as_ref().ok_or(IamError::NoMasterKey)
    }

    /// Makes a change, and returns when it is in force through every node. It goes on although its request is
    /// dropped. All nodes forget also where the call changed nothing, or does not find the entity that it is
    /// to remove: its first try may have been committed through a node that died before the others forgot.
    async fn change<R: Send + 'static>(
        &self,
        what: &'static str,
        work: impl Future<Output = Result<R>> + Send + 'static,
    ) -> Result<R> {
        let iam = self.clone();
        let change = async move {
            let changed = work.await;
            let may_be_new = match &changed {
                Ok(_) | Err(IamError::NoSuchEntity(_)) => true,
                Err(error) => error.may_have_changed(),
            };
            if may_be_new {
                iam.inner.rounds.everywhere(|| iam.forget()).await;
            }
            changed
        };
        let tasks = self.inner.records.objects.documents().registers().tasks();
        match tasks.spawn(trace::inherited(change)).await {
            Ok(changed) => changed,
            Err(error) => Err(crate::object::Error::Internal { what: format!("{what}: {error}") }.into()),
        }
    }
}

/// Returns the references whose records still exist.
async fn living<R: EntityRecord>(records: &Records, refs: &[EntityRef]) -> Result<Vec<EntityRef>> {
    let mut living = Vec::new();
    for named in refs {
        if records.referred::<R>(named).await?.is_some() {
            living.push(named.clone());
        }
    }
    Ok(living)
}

fn kind_register(kind: EntityKind, name: &str) -> Result<RegisterKey> {
    let field = match kind {
        EntityKind::User => "userName",
        EntityKind::Group => "groupName",
        EntityKind::Policy => "policyName",
    };
    kind.register(name).map_err(|source| IamError::Invalid { field, source })
}

fn missing(kind: EntityKind, name: &str) -> MissingEntity {
    let name = name.to_owned();
    match kind {
        EntityKind::User | EntityKind::Group => MissingEntity::Named { kind, name },
        EntityKind::Policy => MissingEntity::Policy { name },
    }
}

fn checked_path(path: &str) -> Result<()> {
    check_path(path).map_err(|source| IamError::Invalid { field: "path", source })
}

fn checked_tag_count(tags: &[Tag]) -> Result<()> {
    let too_many = LimitExceeded::Quota { quota: "TagsPerResource", max: IAM_TAGS_MAX };
    if tags.len() > IAM_TAGS_MAX { Err(too_many.into()) } else { Ok(()) }
}

/// The keys of tags that are the same one (IAM User Guide, "Tagging IAM resources"). The case is kept also
/// where it does not count: a tag that is added takes the place of the one that was spelt differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TagKeys {
    /// Users': `Department` and `department` are one.
    AnyCase,
    /// Policies': they are two.
    Exact,
}

impl TagKeys {
    fn are_same(self, one: &str, other: &str) -> bool {
        match self {
            Self::AnyCase => one.to_lowercase() == other.to_lowercase(),
            Self::Exact => one == other,
        }
    }

    /// Adds tags, in place of those of the same keys.
    fn add(self, known: &mut Vec<Tag>, tags: &[Tag]) -> Result<()> {
        known.retain(|known| !tags.iter().any(|tag| self.are_same(&tag.key, &known.key)));
        known.extend(tags.iter().cloned());
        checked_tag_count(known)
    }

    /// Removes the tags of these keys.
    fn remove(self, known: &mut Vec<Tag>, keys: &[String]) {
        known.retain(|known| !keys.iter().any(|key| self.are_same(key, &known.key)));
    }
}

fn checked_tags(tags: &[Tag], keys: TagKeys) -> Result<()> {
    checked_tag_count(tags)?;
    let is_text = |text: &str, max: usize| text.chars().count() <= max && text.chars().all(is_of_tags);
    for (place, Tag { key, value }) in (1..).zip(tags) {
        if key.is_empty() || !is_text(key, TAG_KEY_CHARS_MAX) {
            return Err(InvalidTag::Key { place }.into());
        }
        if !is_text(value, TAG_VALUE_CHARS_MAX) {
            return Err(InvalidTag::Value { place }.into());
        }
        if key.to_lowercase().starts_with("aws:") {
            return Err(InvalidTag::Reserved.into());
        }
        if tags.iter().take(place - 1).any(|other| keys.are_same(&other.key, key)) {
            return Err(match keys {
                TagKeys::AnyCase => InvalidTag::TwiceInAnyCase,
                TagKeys::Exact => InvalidTag::Twice,
            }
            .into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
