//! Groups of users. The users' records name the groups that they are in.

use sherd_core::iam::{EntityId, EntityKind, GroupRecord, PolicySet, UserRecord};

use super::error::{DeleteConflict, IamError, Result};
use super::policies::has_attached;
use super::records::{Page, Step};
use super::{Iam, checked_path, entity, kind_register, missing};

const GROUP: EntityKind = EntityKind::Group;

impl Iam {
    /// Makes a group.
    ///
    /// # Errors
    /// Any of [`IamError`].
    pub async fn create_group(&self, name: String, path: String) -> Result<GroupRecord> {
        let register = kind_register(GROUP, &name)?;
        checked_path(&path)?;
        let group = GroupRecord {
            id: EntityId::draw(GROUP, &*self.inner.rng),
            name,
            path,
            created_ms: self.inner.records.objects.now_ms(),
            policies: PolicySet::default(),
        };
        let records = self.inner.records.clone();
        self.change("group", async move {
            let create = |known: Option<GroupRecord>| match known {
                Some(_) => Err(IamError::EntityAlreadyExists { kind: GROUP, name: group.name.clone() }),
                None => Ok((Step::Put(group.clone()), group.clone())),
            };
            records.change(&register, create).await
        })
        .await
    }

    /// Reads a group.
    ///
    /// # Errors
    /// [`super::MissingEntity`]; any of [`IamError`].
    pub async fn group(&self, name: &str) -> Result<GroupRecord> {
        entity(&self.inner.records, GROUP, name).await
    }

    /// Lists groups whose paths begin with a prefix, behind the marker of a page before.
    ///
    /// # Errors
    /// Any of [`IamError`].
    pub async fn list_groups(
        &self,
        path_prefix: &str,
        marker: Option<&str>,
        max: usize,
    ) -> Result<Page<GroupRecord>> {
        let is_below = |group: &GroupRecord| group.path.starts_with(path_prefix);
        self.inner.records.list(GROUP, marker, max, is_below).await
    }

    /// Lists the users that are in a group, behind the marker of a page before.
    ///
    /// # Errors
    /// [`super::MissingEntity`]; any of [`IamError`].
    pub async fn group_users(
        &self,
        name: &str,
        marker: Option<&str>,
        max: usize,
    ) -> Result<Page<UserRecord>> {
        let group = self.group(name).await?;
        let is_member = |user: &UserRecord| user.groups.iter().any(|known| known.id == group.id);
        self.inner.records.list(EntityKind::User, marker, max, is_member).await
    }

    /// Gives a group another path.
    ///
    /// # Errors
    /// [`super::MissingEntity`]; any of [`IamError`].
    pub async fn update_group(&self, name: &str, path: String) -> Result<()> {
        checked_path(&path)?;
        let (records, register, name) =
            (self.inner.records.clone(), kind_register(GROUP, name)?, name.to_owned());
        self.change("group", async move {
            let decide = |group: Option<GroupRecord>| {
                let group = group.ok_or_else(|| missing(GROUP, &name))?;
                Ok((Step::Put(GroupRecord { path: path.clone(), ..group }), ()))
            };
            records.change(&register, decide).await
        })
        .await
    }

    /// Deletes a group without users and policies.
    ///
    /// # Errors
    /// [`super::MissingEntity`]; [`DeleteConflict`]; any of [`IamError`].
    pub async fn delete_group(&self, name: &str) -> Result<()> {
        let (records, register, name) =
            (self.inner.records.clone(), kind_register(GROUP, name)?, name.to_owned());
        self.change("group", async move {
            let delete = |group: Option<GroupRecord>| {
                let (records, gone) = (records.clone(), missing(GROUP, &name));
                async move {
                    let group = group.ok_or(gone)?;
                    if !group.policies.inline.is_empty() {
                        return Err(DeleteConflict::InlinePolicies.into());
                    }
                    if has_attached(&records, &group.policies).await? {
                        return Err(DeleteConflict::AttachedPolicies.into());
                    }
                    let is_member = |user: &UserRecord| user.groups.iter().any(|known| known.id == group.id);
                    if records.any(EntityKind::User, is_member).await? {
                        return Err(DeleteConflict::Members.into());
                    }
                    Ok((Step::<GroupRecord>::Remove, ()))
                }
            };
            records.change_by(&register, delete).await
        })
        .await
    }
}
