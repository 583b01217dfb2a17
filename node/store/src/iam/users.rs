//! Users, their tags, and the groups that they are in.

use std::collections::BTreeSet;

use sherd_core::iam::{EntityId, EntityKind, EntityRef, GroupRecord, NamedRecord, PolicySet, UserRecord};
use sherd_core::limits::IAM_GROUPS_MAX;
use sherd_core::record::Tag;

use super::error::{DeleteConflict, LimitExceeded, MissingEntity, Result};
use super::names::{EntityUpdate, NamedEntity};
use super::policies::{PolicyOwner, has_attached};
use super::principals::Principal;
use super::records::{Page, Step};
use super::{Iam, TagKeys, checked_path, checked_tags, kind_register, living, missing};

const USER: EntityKind = EntityKind::User;

/// A user, or a group, to be made.
#[derive(Debug, Clone)]
pub struct NewUser {
    /// Name of the user.
    pub name: String,
    /// Path of the user.
    pub path: String,
    /// Tags of the user.
    pub tags: Vec<Tag>,
}

impl Iam {
    /// Makes a user.
    ///
    /// # Errors
    /// Any of [`super::IamError`].
    pub async fn create_user(&self, user: NewUser) -> Result<UserRecord> {
        let NewUser { name, path, tags } = user;
        kind_register(USER, &name)?;
        checked_path(&path)?;
        checked_tags(&tags, TagKeys::AnyCase)?;
        self.require_master_key()?;
        let user = UserRecord {
            id: EntityId::draw(USER, &*self.inner.rng),
            home: name.clone(),
            name,
            path,
            created_ms: self.inner.records.objects.now_ms(),
            tags,
            policies: PolicySet::default(),
            groups: Vec::new(),
            keys: Vec::new(),
        };
        self.create(user).await
    }

    /// Reads a user.
    ///
    /// # Errors
    /// [`MissingEntity`]; any of [`super::IamError`].
    pub async fn user(&self, name: &str) -> Result<UserRecord> {
        self.inner.records.named(name).await
    }

    /// Reads a user or a group with the policies that are in force for it.
    ///
    /// # Errors
    /// [`MissingEntity`]; any of [`super::IamError`].
    pub async fn principal(&self, owner: PolicyOwner<'_>) -> Result<Principal> {
        Principal::read(&self.inner.views.composer, owner).await
    }

    /// Lists users whose paths begin with a prefix, behind the marker of a page before.
    ///
    /// # Errors
    /// Any of [`super::IamError`].
    pub async fn list_users(
        &self,
        path_prefix: &str,
        marker: Option<&str>,
        max: usize,
    ) -> Result<Page<UserRecord>> {
        let is_below = |user: &UserRecord| user.path.starts_with(path_prefix);
        self.inner.records.list(marker, max, is_below).await
    }

    /// The users that have these ids. Reads the records of all users, for few callers at one time.
    ///
    /// # Errors
    /// Any of [`super::IamError`].
    pub async fn users_of_ids(&self, ids: &BTreeSet<&str>) -> Result<Vec<UserRecord>> {
        self.inner.records.all(|user: &UserRecord| ids.contains(user.id.as_str())).await
    }

    /// Gives a user another name, another path, or both. Its id, keys, groups, policies and tags stay, and so
    /// does what policies of buckets say of it.
    ///
    /// # Errors
    /// [`MissingEntity`]; [`super::IamError::EntityAlreadyExists`];
    /// [`super::IamError::ConcurrentModification`]; any of [`super::IamError`].
    pub async fn update_user(&self, name: &str, update: EntityUpdate) -> Result<()> {
        self.update::<UserRecord>(name, update).await
    }

    /// Adds tags to a user, in place of those of the same keys in any case.
    ///
    /// # Errors
    /// [`MissingEntity`]; [`super::IamError::InvalidTag`]; any of [`super::IamError`].
    pub async fn tag_user(&self, name: &str, tags: Vec<Tag>) -> Result<()> {
        checked_tags(&tags, TagKeys::AnyCase)?;
        self.try_change_user(name, move |user| TagKeys::AnyCase.add(&mut user.tags, &tags)).await
    }

    /// Removes the tags of these keys, in any case; those that the user has not are passed over.
    ///
    /// # Errors
    /// [`MissingEntity`]; any of [`super::IamError`].
    pub async fn untag_user(&self, name: &str, keys: Vec<String>) -> Result<()> {
        self.change_user(name, move |user| TagKeys::AnyCase.remove(&mut user.tags, &keys)).await
    }

    /// Deletes a user that has nothing any more.
    ///
    /// # Errors
    /// [`MissingEntity`]; [`DeleteConflict`]; any of [`super::IamError`].
    pub async fn delete_user(&self, name: &str) -> Result<()> {
        let (records, name) = (self.inner.records.clone(), name.to_owned());
        self.change("user", async move {
            let delete = |user: UserRecord| {
                let records = records.clone();
                async move {
                    if !user.keys.is_empty() {
                        return Err(DeleteConflict::AccessKeys.into());
                    }
                    if !user.policies.inline.is_empty() {
                        return Err(DeleteConflict::InlinePolicies.into());
                    }
                    // References to groups and policies that were deleted meanwhile do not count.
                    if has_attached(&records, &user.policies).await? {
                        return Err(DeleteConflict::AttachedPolicies.into());
                    }
                    if !living::<GroupRecord>(&records, &user.groups).await?.is_empty() {
                        return Err(DeleteConflict::Memberships.into());
                    }
                    Ok((Step::Remove, ()))
                }
            };
            records.change_named_by(&name, delete).await
        })
        .await
    }

    /// Adds a user to a group; succeeds where it is in it.
    ///
    /// # Errors
    /// [`MissingEntity`]; [`LimitExceeded`]; any of [`super::IamError`].
    pub async fn add_user_to_group(&self, user: &str, group: &str) -> Result<()> {
        let found = self.inner.records.named::<GroupRecord>(group).await?;
        let (name, group) = (found.name.clone(), found.reference());
        let (records, user) = (self.inner.records.clone(), user.to_owned());
        self.change("membership", async move {
            let add = |mut user: UserRecord| {
                let (records, group) = (records.clone(), group.clone());
                async move {
                    if user.groups.iter().any(|known| known.id == group.id) {
                        return Ok((Step::Keep, ()));
                    }
                    // A group of the same home and another id is gone, or was made since this group was read.
                    let same_home = |known: &EntityRef| known.home.eq_ignore_ascii_case(&group.home);
                    let others: Vec<_> =
                        user.groups.iter().filter(|known| same_home(known)).cloned().collect();
                    let others = living::<GroupRecord>(&records, &others).await?;
                    user.groups.retain(|known| !same_home(known) || others.contains(known));
                    if user.groups.len() >= IAM_GROUPS_MAX {
                        user.groups = living::<GroupRecord>(&records, &user.groups).await?;
                    }
                    if user.groups.len() >= IAM_GROUPS_MAX {
                        let (quota, max) = ("GroupsPerUser", IAM_GROUPS_MAX);
                        return Err(LimitExceeded::Quota { quota, max }.into());
                    }
                    user.groups.push(group);
                    Ok((Step::Put(user), ()))
                }
            };
            records.change_named_by(&user, add).await?;
            // A deletion of the group that came between has not seen its new member.
            let named = std::slice::from_ref(&group);
            if living::<GroupRecord>(&records, named).await?.is_empty() {
                return Err(missing(EntityKind::Group, &name).into());
            }
            Ok(())
        })
        .await
    }

    /// Removes a user from a group.
    ///
    /// # Errors
    /// [`MissingEntity`], where the user is not in the group, too; any of [`super::IamError`].
    pub async fn remove_user_from_group(&self, user: &str, group: &str) -> Result<()> {
        let group = self.inner.records.named::<GroupRecord>(group).await?;
        let member = MissingEntity::Member { user: user.to_owned(), group: group.name.clone() };
        let remove = move |user: &mut UserRecord| {
            let before = user.groups.len();
            user.groups.retain(|known| known.id != group.id);
            if user.groups.len() < before { Ok(()) } else { Err(member.clone().into()) }
        };
        self.try_change_user(user, remove).await
    }

    /// The groups that a user is in, in the order in which it was added.
    ///
    /// # Errors
    /// [`MissingEntity`]; any of [`super::IamError`].
    pub async fn groups_of_user(&self, name: &str) -> Result<Vec<GroupRecord>> {
        let user = self.user(name).await?;
        let mut groups = Vec::new();
        for named in &user.groups {
            groups.extend(self.group_of(named).await?);
        }
        Ok(groups)
    }

    /// A group that a user's record names; `None` where it is gone.
    ///
    /// # Errors
    /// Any of [`super::IamError`] of reading.
    pub async fn group_of(&self, named: &EntityRef) -> Result<Option<GroupRecord>> {
        Ok(self.inner.records.referred(named).await?.map(|found| found.record))
    }

    async fn change_user(
        &self,
        name: &str,
        mut change: impl FnMut(&mut UserRecord) + Send + 'static,
    ) -> Result<()> {
        self.try_change_user(name, move |user| {
            change(user);
            Ok(())
        })
        .await
    }

    pub(super) async fn try_change_user(
        &self,
        name: &str,
        mut change: impl FnMut(&mut UserRecord) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let (records, name) = (self.inner.records.clone(), name.to_owned());
        self.change("user", async move { records.change_named(&name, |user| change(user)).await }).await
    }

    /// Gives a user or a group another name, another path, or both.
    pub(super) async fn update<E: NamedEntity>(&self, name: &str, update: EntityUpdate) -> Result<()> {
        update.check(E::KIND)?;
        let (records, name, iam) = (self.inner.records.clone(), name.to_owned(), self.clone());
        self.change(E::KIND.word(), async move {
            match &update.name {
                Some(new) if !new.eq_ignore_ascii_case(&name) => {
                    records.rename::<E>(&name, new, &update, &*iam.inner.rng).await
                }
                _ => {
                    let apply = |entity: &mut E| {
                        update.apply(entity);
                        Ok(())
                    };
                    records.change_named(&name, apply).await
                }
            }
        })
        .await
    }

    /// Makes a user or a group.
    pub(super) async fn create<E: NamedEntity>(&self, entity: E) -> Result<E> {
        let (records, iam) = (self.inner.records.clone(), self.clone());
        let kind = E::KIND.word();
        self.change(kind, async move { records.create_named(entity, &*iam.inner.rng).await }).await
    }
}
