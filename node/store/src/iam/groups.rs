//! Groups of users. The users' records name the groups that they are in.

use sherd_core::iam::{EntityId, EntityKind, GroupRecord, PolicySet, UserRecord};

use super::error::{DeleteConflict, Result};
use super::names::EntityUpdate;
use super::policies::has_attached;
use super::records::{Page, Step};
use super::{Iam, checked_path, kind_register};

const GROUP: EntityKind = EntityKind::Group;

impl Iam {
    /// Makes a group.
    ///
    /// # Errors
    /// Any of [`super::IamError`].
    pub async fn create_group(&self, name: String, path: String) -> Result<GroupRecord> {
        kind_register(GROUP, &name)?;
        checked_path(&path)?;
        let group = GroupRecord {
            id: EntityId::draw(GROUP, &*self.inner.rng),
            home: name.clone(),
            name,
            path,
            created_ms: self.inner.records.objects.now_ms(),
            policies: PolicySet::default(),
        };
        self.create(group).await
    }

    /// Reads a group.
    ///
    /// # Errors
    /// [`super::MissingEntity`]; any of [`super::IamError`].
    pub async fn group(&self, name: &str) -> Result<GroupRecord> {
        self.inner.records.named(name).await
    }

    /// Lists groups whose paths begin with a prefix, behind the marker of a page before.
    ///
    /// # Errors
    /// Any of [`super::IamError`].
    pub async fn list_groups(
        &self,
        path_prefix: &str,
        marker: Option<&str>,
        max: usize,
    ) -> Result<Page<GroupRecord>> {
        let is_below = |group: &GroupRecord| group.path.starts_with(path_prefix);
        self.inner.records.list(marker, max, is_below).await
    }

    /// Lists the users that are in a group, behind the marker of a page before.
    ///
    /// # Errors
    /// [`super::MissingEntity`]; any of [`super::IamError`].
    pub async fn group_users(
        &self,
        name: &str,
        marker: Option<&str>,
        max: usize,
    ) -> Result<Page<UserRecord>> {
        let group = self.group(name).await?;
        let is_member = |user: &UserRecord| user.groups.iter().any(|known| known.id == group.id);
        self.inner.records.list(marker, max, is_member).await
    }

    /// Gives a group another name, another path, or both. Its members and policies stay.
    ///
    /// # Errors
    /// [`super::MissingEntity`]; [`super::IamError::EntityAlreadyExists`];
    /// [`super::IamError::ConcurrentModification`]; any of [`super::IamError`].
    pub async fn update_group(&self, name: &str, update: EntityUpdate) -> Result<()> {
        self.update::<GroupRecord>(name, update).await
    }

    /// Deletes a group without users and policies.
    ///
    /// # Errors
    /// [`super::MissingEntity`]; [`DeleteConflict`]; any of [`super::IamError`].
    pub async fn delete_group(&self, name: &str) -> Result<()> {
        let (records, name) = (self.inner.records.clone(), name.to_owned());
        self.change("group", async move {
            let delete = |group: GroupRecord| {
                let records = records.clone();
                async move {
                    if !group.policies.inline.is_empty() {
                        return Err(DeleteConflict::InlinePolicies.into());
                    }
                    if has_attached(&records, &group.policies).await? {
                        return Err(DeleteConflict::AttachedPolicies.into());
                    }
                    let is_member = |user: &UserRecord| user.groups.iter().any(|known| known.id == group.id);
                    if records.any(is_member).await? {
                        return Err(DeleteConflict::Members.into());
                    }
                    Ok((Step::Remove, ()))
                }
            };
            records.change_named_by(&name, delete).await
        })
        .await
    }
}
