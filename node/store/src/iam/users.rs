//! Users, their tags, and the groups that they are in.

use std::collections::BTreeSet;

use sherd_core::iam::{EntityId, EntityKind, GroupRecord, PolicySet, UserRecord};
use sherd_core::limits::IAM_GROUPS_MAX;
use sherd_core::record::Tag;

use super::error::{DeleteConflict, IamError, LimitExceeded, MissingEntity, Result};
use super::policies::{PolicyOwner, has_attached};
use super::principals::Principal;
use super::records::{Page, Step};
use super::{Iam, TagKeys, checked_path, checked_tags, entity, kind_register, living, missing};

const USER: EntityKind = EntityKind::User;

/// A user, or a group, to be made.
#[derive(Debug, Clone)]
pub struct NewUser {
    /// Its name.
    pub name: String,
    /// Its path.
    pub path: String,
    /// Its tags.
    pub tags: Vec<Tag>,
}

impl Iam {
    /// Makes a user.
    ///
    /// # Errors
    /// Any of [`IamError`].
    pub async fn create_user(&self, user: NewUser) -> Result<UserRecord> {
        let NewUser { name, path, tags } = user;
        let register = kind_register(USER, &name)?;
        checked_path(&path)?;
        checked_tags(&tags, TagKeys::AnyCase)?;
        self.require_master_key()?;
        let user = UserRecord {
            id: EntityId::draw(USER, &*self.inner.rng),
            name,
            path,
            created_ms: self.inner.records.objects.now_ms(),
            tags,
            policies: PolicySet::default(),
            groups: Vec::new(),
            keys: Vec::new(),
        };
        let records = self.inner.records.clone();
        self.change("user", async move {
            let create = |known: Option<UserRecord>| match known {
                Some(_) => Err(IamError::EntityAlreadyExists { kind: USER, name: user.name.clone() }),
                None => Ok((Step::Put(user.clone()), user.clone())),
            };
            records.change(&register, create).await
        })
        .await
    }

    /// Reads a user.
    ///
    /// # Errors
    /// [`MissingEntity`]; any of [`IamError`].
    pub async fn user(&self, name: &str) -> Result<UserRecord> {
        entity(&self.inner.records, USER, name).await
    }

    /// Reads a user or a group with the policies that are in force for it.
    ///
    /// # Errors
    /// [`MissingEntity`]; any of [`IamError`].
    pub async fn principal(&self, owner: PolicyOwner<'_>) -> Result<Principal> {
        Principal::read(&self.inner.views.composer, owner).await
    }

    /// Lists users whose paths begin with a prefix, behind the marker of a page before.
    ///
    /// # Errors
    /// Any of [`IamError`].
    pub async fn list_users(
        &self,
        path_prefix: &str,
        marker: Option<&str>,
        max: usize,
    ) -> Result<Page<UserRecord>> {
        let is_below = |user: &UserRecord| user.path.starts_with(path_prefix);
        self.inner.records.list(USER, marker, max, is_below).await
    }

    /// The users that have these ids. Reads the records of all users, for few callers at one time.
    ///
    /// # Errors
    /// Any of [`IamError`].
    pub async fn users_of_ids(&self, ids: &BTreeSet<&str>) -> Result<Vec<UserRecord>> {
        self.inner.records.all(USER, |user: &UserRecord| ids.contains(user.id.as_str())).await
    }

    /// Gives a user another path.
    ///
    /// # Errors
    /// [`MissingEntity`]; any of [`IamError`].
    pub async fn update_user(&self, name: &str, path: String) -> Result<()> {
        checked_path(&path)?;
        self.change_user(name, move |user| user.path.clone_from(&path)).await
    }

    /// Adds tags to a user, in place of those of the same keys in any case.
    ///
    /// # Errors
    /// [`MissingEntity`]; [`IamError::InvalidTag`]; any of [`IamError`].
    pub async fn tag_user(&self, name: &str, tags: Vec<Tag>) -> Result<()> {
        checked_tags(&tags, TagKeys::AnyCase)?;
        self.try_change_user(name, move |user| TagKeys::AnyCase.add(&mut user.tags, &tags)).await
    }

    /// Removes the tags of these keys, in any case; those that the user has not are passed over.
    ///
    /// # Errors
    /// [`MissingEntity`]; any of [`IamError`].
    pub async fn untag_user(&self, name: &str, keys: Vec<String>) -> Result<()> {
        self.change_user(name, move |user| TagKeys::AnyCase.remove(&mut user.tags, &keys)).await
    }

    /// Deletes a user that has nothing any more.
    ///
    /// # Errors
    /// [`MissingEntity`]; [`DeleteConflict`]; any of [`IamError`].
    pub async fn delete_user(&self, name: &str) -> Result<()> {
        let (records, register, name) =
            (self.inner.records.clone(), kind_register(USER, name)?, name.to_owned());
        self.change("user", async move {
            let delete = |user: Option<UserRecord>| {
                let (records, gone) = (records.clone(), missing(USER, &name));
                async move {
                    let user = user.ok_or(gone)?;
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
                    if !living::<GroupRecord>(&records, EntityKind::Group, &user.groups).await?.is_empty() {
                        return Err(DeleteConflict::Memberships.into());
                    }
                    Ok((Step::<UserRecord>::Remove, ()))
                }
            };
            records.change_by(&register, delete).await
        })
        .await
    }

    /// Adds a user to a group; succeeds where it is in it.
    ///
    /// # Errors
    /// [`MissingEntity`]; [`LimitExceeded`]; any of [`IamError`].
    pub async fn add_user_to_group(&self, user: &str, group: &str) -> Result<()> {
        let group = entity::<GroupRecord>(&self.inner.records, EntityKind::Group, group).await?.reference();
        let (records, register, user) =
            (self.inner.records.clone(), kind_register(USER, user)?, user.to_owned());
        self.change("membership", async move {
            let add = |found: Option<UserRecord>| {
                let (records, group, gone) = (records.clone(), group.clone(), missing(USER, &user));
                async move {
                    let mut user = found.ok_or(gone)?;
                    if user.groups.contains(&group) {
                        return Ok((Step::Keep, ()));
                    }
                    user.groups.retain(|known| !known.name.eq_ignore_ascii_case(&group.name));
                    if user.groups.len() >= IAM_GROUPS_MAX {
                        user.groups =
                            living::<GroupRecord>(&records, EntityKind::Group, &user.groups).await?;
                    }
                    if user.groups.len() >= IAM_GROUPS_MAX {
                        let (quota, max) = ("GroupsPerUser", IAM_GROUPS_MAX);
                        return Err(LimitExceeded::Quota { quota, max }.into());
                    }
                    user.groups.push(group);
                    Ok((Step::Put(user), ()))
                }
            };
            records.change_by(&register, add).await?;
            // A deletion of the group that came between has not seen its new member.
            let named = std::slice::from_ref(&group);
            if living::<GroupRecord>(&records, EntityKind::Group, named).await?.is_empty() {
                return Err(missing(EntityKind::Group, &group.name).into());
            }
            Ok(())
        })
        .await
    }

    /// Removes a user from a group.
    ///
    /// # Errors
    /// [`MissingEntity`], where the user is not in the group, too; any of [`IamError`].
    pub async fn remove_user_from_group(&self, user: &str, group: &str) -> Result<()> {
        let group = entity::<GroupRecord>(&self.inner.records, EntityKind::Group, group).await?.reference();
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
    /// [`MissingEntity`]; any of [`IamError`].
    pub async fn groups_of_user(&self, name: &str) -> Result<Vec<GroupRecord>> {
        let user = self.user(name).await?;
        let mut groups = Vec::new();
        for named in &user.groups {
            let register = kind_register(EntityKind::Group, &named.name)?;
            let found = self.inner.records.read::<GroupRecord>(register).await?;
            groups.extend(found.map(|found| found.record).filter(|group| group.id == named.id));
        }
        Ok(groups)
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
        let (records, register, name) =
            (self.inner.records.clone(), kind_register(USER, name)?, name.to_owned());
        self.change("user", async move {
            let decide = |user: Option<UserRecord>| {
                let mut user = user.ok_or_else(|| missing(USER, &name))?;
                change(&mut user)?;
                Ok((Step::Put(user), ()))
            };
            records.change(&register, decide).await
        })
        .await
    }
}
