//! Policies: managed ones with their versions, those that are part of a user or a group, and attachments.

use sherd_core::iam::{
    EntityId, EntityKind, EntityRef, GroupRecord, InlinePolicy, ManagedPolicy, PolicySet, PolicyVendor,
    PolicyVersion, UserRecord, check_policy_name,
};
use sherd_core::limits::{
    IAM_ATTACHED_MAX, IAM_DESCRIPTION_CHARS_MAX, IAM_DOCUMENT_BYTES_MAX, IAM_GROUP_POLICY_CHARS_MAX,
    IAM_INLINE_MAX, IAM_MANAGED_POLICY_CHARS_MAX, IAM_POLICY_VERSIONS_MAX, IAM_USER_POLICY_CHARS_MAX,
};
use sherd_core::record::Tag;
use sherd_policy::{Policy, PolicyForm};

use super::aws_policies::find;
use super::error::{DeleteConflict, IamError, IamReadError, LimitExceeded, MissingEntity, Result};
use super::records::{Page, Records, Step};
use super::{Iam, TagKeys, checked_path, checked_tags, kind_register, living, missing};

const POLICY: EntityKind = EntityKind::Policy;

/// The user or the group that has policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyOwner<'a> {
    /// The user of this name.
    User(&'a str),
    /// The group of this name.
    Group(&'a str),
}

/// Names a managed policy, in any case. A text alone names one of the account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ManagedName<'a> {
    /// The account that it is of.
    pub vendor: PolicyVendor,
    /// Name of the policy.
    pub name: &'a str,
}

impl<'a, T: AsRef<str> + ?Sized> From<&'a T> for ManagedName<'a> {
    fn from(name: &'a T) -> Self {
        Self { vendor: PolicyVendor::Account, name: name.as_ref() }
    }
}

/// A managed policy to be made.
#[derive(Debug, Clone)]
pub struct NewPolicy {
    /// Name of the policy.
    pub name: String,
    /// Path of the policy.
    pub path: String,
    /// A text for people.
    pub description: String,
    /// The document of its first version.
    pub document: String,
    /// Tags of the policy.
    pub tags: Vec<Tag>,
}

impl PolicyOwner<'_> {
    /// Kind of the owner.
    pub const fn kind(&self) -> EntityKind {
        match self {
            Self::User(_) => EntityKind::User,
            Self::Group(_) => EntityKind::Group,
        }
    }

    /// Name of the owner.
    pub const fn name(&self) -> &str {
        match self {
            Self::User(name) | Self::Group(name) => name,
        }
    }
}

impl Iam {
    /// Makes a managed policy.
    ///
    /// # Errors
    /// [`IamError::MalformedPolicy`]; [`LimitExceeded`]; any of [`IamError`].
    pub async fn create_policy(&self, policy: NewPolicy) -> Result<ManagedPolicy> {
        let NewPolicy { name, path, description, document, tags } = policy;
        let register = kind_register(POLICY, &name)?;
        checked_path(&path)?;
        checked_tags(&tags, TagKeys::Exact)?;
        checked_managed(&document)?;
        if description.chars().count() > IAM_DESCRIPTION_CHARS_MAX {
            return Err(IamError::Description);
        }
        let created_ms = self.inner.records.objects.now_ms();
        let policy = ManagedPolicy {
            vendor: PolicyVendor::Account,
            id: EntityId::draw(POLICY, &*self.inner.rng),
            name,
            path,
            created_ms,
            description,
            updated_ms: created_ms,
            tags,
            default: 1,
            last: 1,
            versions: vec![PolicyVersion { number: 1, created_ms, document }],
        };
        let records = self.inner.records.clone();
        self.change("policy", async move {
            let create = |known: Option<ManagedPolicy>| match known {
                Some(_) => Err(IamError::EntityAlreadyExists { kind: POLICY, name: policy.name.clone() }),
                None => Ok((Step::Put(policy.clone()), policy.clone())),
            };
            records.change(&register, create).await
        })
        .await
    }

    /// Reads a managed policy, with its versions.
    ///
    /// # Errors
    /// [`MissingEntity`]; any of [`IamError`].
    pub async fn policy(&self, name: impl Into<ManagedName<'_>>) -> Result<ManagedPolicy> {
        let ManagedName { vendor, name } = name.into();
        match vendor {
            PolicyVendor::Account => {
                let found = self.inner.records.read(kind_register(POLICY, name)?).await?;
                Ok(found.ok_or_else(|| missing(POLICY, name))?.record)
            }
            PolicyVendor::Aws => Ok(find(name).ok_or_else(|| missing(POLICY, name))?.clone()),
        }
    }

    /// Lists the account's managed policies whose paths begin with a prefix, behind the marker of a page
    /// before.
    ///
    /// # Errors
    /// Any of [`IamError`].
    pub async fn list_policies(
        &self,
        path_prefix: &str,
        marker: Option<&str>,
        max: usize,
    ) -> Result<Page<ManagedPolicy>> {
        let is_below = |policy: &ManagedPolicy| policy.path.starts_with(path_prefix);
        self.inner.records.list(marker, max, is_below).await
    }

    /// The users and the groups that a managed policy is attached to.
    ///
    /// # Errors
    /// [`MissingEntity`]; any of [`IamError`].
    pub async fn entities_for_policy(
        &self,
        name: impl Into<ManagedName<'_>>,
    ) -> Result<(Vec<UserRecord>, Vec<GroupRecord>)> {
        let (policy, records) = (self.policy(name).await?, &self.inner.records);
        let users = records.all(|user: &UserRecord| user.policies.has(&policy)).await?;
        let groups = records.all(|group: &GroupRecord| group.policies.has(&policy)).await?;
        Ok((users, groups))
    }

    /// Deletes a managed policy of the account that is attached to nothing, and has its default version
    /// alone.
    ///
    /// # Errors
    /// [`MissingEntity`]; [`DeleteConflict`]; any of [`IamError`].
    pub async fn delete_policy(&self, name: &str) -> Result<()> {
        let (records, register, name) =
            (self.inner.records.clone(), kind_register(POLICY, name)?, name.to_owned());
        self.change("policy", async move {
            let delete = |policy: Option<ManagedPolicy>| {
                let (records, gone) = (records.clone(), missing(POLICY, &name));
                async move {
                    let policy = policy.ok_or(gone)?;
                    let of_user = |user: &UserRecord| user.policies.has(&policy);
                    let of_group = |group: &GroupRecord| group.policies.has(&policy);
                    if records.any(of_user).await? || records.any(of_group).await? {
                        return Err(DeleteConflict::Attached.into());
                    }
                    if policy.versions.len() > 1 {
                        return Err(DeleteConflict::Versions.into());
                    }
                    Ok((Step::<ManagedPolicy>::Remove, ()))
                }
            };
            records.change_by(&register, delete).await
        })
        .await
    }

    /// Adds a version to a managed policy, in force at once where it is to be.
    ///
    /// # Errors
    /// [`MissingEntity`]; [`LimitExceeded`]; [`IamError::MalformedPolicy`]; any of [`IamError`].
    pub async fn create_policy_version(
        &self,
        name: &str,
        document: String,
        set_as_default: bool,
    ) -> Result<PolicyVersion> {
        checked_managed(&document)?;
        let created_ms = self.inner.records.objects.now_ms();
        let add = move |policy: &mut ManagedPolicy| {
            if policy.versions.len() >= IAM_POLICY_VERSIONS_MAX {
                return Err(LimitExceeded::PolicyVersions.into());
            }
            let number = policy.last.saturating_add(1);
            let version = PolicyVersion { number, created_ms, document: document.clone() };
            policy.versions.push(version.clone());
            (policy.last, policy.updated_ms) = (number, created_ms);
            if set_as_default {
                policy.default = number;
            }
            Ok(version)
        };
        self.change_policy(name, add).await
    }

    /// Puts a version of a managed policy into force.
    ///
    /// # Errors
    /// [`MissingEntity`]; any of [`IamError`].
    pub async fn set_default_policy_version(&self, name: &str, number: u32) -> Result<()> {
        let updated_ms = self.inner.records.objects.now_ms();
        let set = move |policy: &mut ManagedPolicy| {
            policy.version(number).ok_or(MissingEntity::PolicyVersion { number })?;
            (policy.default, policy.updated_ms) = (number, updated_ms);
            Ok(())
        };
        self.change_policy(name, set).await
    }

    /// Deletes a version of a managed policy that is not in force.
    ///
    /// # Errors
    /// [`MissingEntity`]; [`DeleteConflict::DefaultVersion`]; any of [`IamError`].
    pub async fn delete_policy_version(&self, name: &str, number: u32) -> Result<()> {
        let remove = move |policy: &mut ManagedPolicy| {
            policy.version(number).ok_or(MissingEntity::PolicyVersion { number })?;
            if policy.default == number {
                return Err(DeleteConflict::DefaultVersion.into());
            }
            policy.versions.retain(|version| version.number != number);
            Ok(())
        };
        self.change_policy(name, remove).await
    }

    /// Adds tags to a managed policy, in place of those of the same keys.
    ///
    /// # Errors
    /// [`MissingEntity`]; [`IamError::InvalidTag`]; any of [`IamError`].
    pub async fn tag_policy(&self, name: &str, tags: Vec<Tag>) -> Result<()> {
        checked_tags(&tags, TagKeys::Exact)?;
        self.change_policy(name, move |policy| TagKeys::Exact.add(&mut policy.tags, &tags)).await
    }

    /// Removes the tags of these keys; those that the policy has not are passed over.
    ///
    /// # Errors
    /// [`MissingEntity`]; any of [`IamError`].
    pub async fn untag_policy(&self, name: &str, keys: Vec<String>) -> Result<()> {
        let untag = move |policy: &mut ManagedPolicy| {
            TagKeys::Exact.remove(&mut policy.tags, &keys);
            Ok(())
        };
        self.change_policy(name, untag).await
    }

    /// Gives a user or a group an inline policy, in place of the one of this name. All of them are read in
    /// the owner's record.
    ///
    /// # Errors
    /// [`MissingEntity`]; [`LimitExceeded`]; [`IamError::MalformedPolicy`]; any of [`IamError`].
    pub async fn put_inline_policy(
        &self,
        owner: PolicyOwner<'_>,
        name: String,
        document: String,
    ) -> Result<()> {
        check_policy_name(&name).map_err(|source| IamError::Invalid { field: "policyName", source })?;
        let max = match owner {
            PolicyOwner::User(_) => IAM_USER_POLICY_CHARS_MAX,
            PolicyOwner::Group(_) => IAM_GROUP_POLICY_CHARS_MAX,
        };
        let too_long = LimitExceeded::PolicySize { owner: owner.kind(), name: owner.name().to_owned(), max };
        if document.len() > IAM_DOCUMENT_BYTES_MAX || counted_chars(&document) > max {
            return Err(too_long.into());
        }
        Policy::parse_new(document.as_bytes(), PolicyForm::Identity)?;
        let put = move |set: &mut PolicySet| {
            set.inline.retain(|known| !known.name.eq_ignore_ascii_case(&name));
            let at = set.inline.partition_point(|known| known.name < name);
            set.inline.insert(at, InlinePolicy { name: name.clone(), document: document.clone() });
            let chars: usize = set.inline.iter().map(|policy| counted_chars(&policy.document)).sum();
            let bytes: usize = set.inline.iter().map(|policy| policy.document.len()).sum();
            if chars > max || bytes > 4 * IAM_DOCUMENT_BYTES_MAX || set.inline.len() > IAM_INLINE_MAX {
                return Err(too_long.clone().into());
            }
            Ok(())
        };
        self.change_policies(owner, put).await
    }

    /// Removes an inline policy of a user or a group.
    ///
    /// # Errors
    /// [`MissingEntity`]; any of [`IamError`].
    pub async fn delete_inline_policy(&self, owner: PolicyOwner<'_>, name: &str) -> Result<()> {
        let gone = MissingEntity::InlinePolicy { owner: owner.kind(), name: name.to_owned() };
        let name = name.to_owned();
        let remove = move |set: &mut PolicySet| {
            let before = set.inline.len();
            set.inline.retain(|known| !known.name.eq_ignore_ascii_case(&name));
            if set.inline.len() < before { Ok(()) } else { Err(gone.clone().into()) }
        };
        self.change_policies(owner, remove).await
    }

    /// Attaches a managed policy to a user or a group; succeeds where it is attached.
    ///
    /// # Errors
    /// [`MissingEntity`]; [`LimitExceeded`]; any of [`IamError`].
    pub async fn attach_policy(
        &self,
        owner: PolicyOwner<'_>,
        policy: impl Into<ManagedName<'_>>,
    ) -> Result<()> {
        let policy = self.policy(policy).await?;
        let quota = match owner {
            PolicyOwner::User(_) => "PoliciesPerUser",
            PolicyOwner::Group(_) => "PoliciesPerGroup",
        };
        let records = self.inner.records.clone();
        let known = policies_of(&records, owner).await?;
        // A policy of the same name and another id is gone, or was made since this one was read. At the
        // limit, all policies that were deleted meanwhile make room.
        let (is_full, is_of_account) =
            (known.attached_count() >= IAM_ATTACHED_MAX, policy.vendor == PolicyVendor::Account);
        let is_former = |known: &EntityRef| is_of_account && known.home.eq_ignore_ascii_case(&policy.name);
        let mut gone: Vec<_> =
            known.attached.into_iter().filter(|known| is_full || is_former(known)).collect();
        let there = living::<ManagedPolicy>(&records, &gone).await?;
        gone.retain(|known| !there.contains(known));
        let named = policy.clone();
        let attach = move |set: &mut PolicySet| {
            if set.has(&named) {
                return Ok(());
            }
            set.attached.retain(|known| !gone.contains(known));
            if set.attached_count() >= IAM_ATTACHED_MAX {
                return Err(LimitExceeded::Quota { quota, max: IAM_ATTACHED_MAX }.into());
            }
            match named.vendor {
                PolicyVendor::Account => set.attached.push(named.reference()),
                PolicyVendor::Aws => set.aws.push(named.name.clone()),
            }
            Ok(())
        };
        self.change_policies(owner, attach).await?;
        // A deletion of the policy that came between has not seen that it is attached.
        if policy.vendor == PolicyVendor::Account
            && living::<ManagedPolicy>(&records, &[policy.reference()]).await?.is_empty()
        {
            return Err(missing(POLICY, &policy.name).into());
        }
        Ok(())
    }

    /// Detaches a managed policy from a user or a group, also one of AWS that this program has not.
    ///
    /// # Errors
    /// [`MissingEntity`]; any of [`IamError`].
    pub async fn detach_policy(
        &self,
        owner: PolicyOwner<'_>,
        policy: impl Into<ManagedName<'_>>,
    ) -> Result<()> {
        let ManagedName { vendor, name } = policy.into();
        let (gone, name) = (MissingEntity::Attachment { name: name.to_owned() }, name.to_owned());
        let detach = move |set: &mut PolicySet| {
            let before = set.attached_count();
            match vendor {
                PolicyVendor::Account => set.attached.retain(|known| !known.home.eq_ignore_ascii_case(&name)),
                PolicyVendor::Aws => set.aws.retain(|known| !known.eq_ignore_ascii_case(&name)),
            }
            if set.attached_count() < before { Ok(()) } else { Err(gone.clone().into()) }
        };
        self.change_policies(owner, detach).await
    }

    /// The managed policies that are attached to a user or a group.
    ///
    /// # Errors
    /// [`MissingEntity`]; any of [`IamError`].
    pub async fn attached_policies(&self, owner: PolicyOwner<'_>) -> Result<Vec<ManagedPolicy>> {
        let records = &self.inner.records;
        let known = policies_of(records, owner).await?;
        let mut attached = Vec::new();
        for named in known.attached {
            attached.extend(records.referred::<ManagedPolicy>(&named).await?.map(|found| found.record));
        }
        for name in known.aws {
            attached.push(find(&name).ok_or(IamReadError::UnknownAwsPolicy { name })?.clone());
        }
        Ok(attached)
    }

    async fn change_policy<T: Send + 'static>(
        &self,
        name: &str,
        mut change: impl FnMut(&mut ManagedPolicy) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (records, register, name) =
            (self.inner.records.clone(), kind_register(POLICY, name)?, name.to_owned());
        self.change("policy", async move {
            let decide = |policy: Option<ManagedPolicy>| {
                let mut policy = policy.ok_or_else(|| missing(POLICY, &name))?;
                let outcome = change(&mut policy)?;
                Ok((Step::Put(policy), outcome))
            };
            records.change(&register, decide).await
        })
        .await
    }

    async fn change_policies(
        &self,
        owner: PolicyOwner<'_>,
        mut change: impl FnMut(&mut PolicySet) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let (records, name) = (self.inner.records.clone(), owner.name().to_owned());
        let is_user = matches!(owner, PolicyOwner::User(_));
        self.change("policies", async move {
            if is_user {
                records.change_named(&name, |user: &mut UserRecord| change(&mut user.policies)).await
            } else {
                records.change_named(&name, |group: &mut GroupRecord| change(&mut group.policies)).await
            }
        })
        .await
    }
}

async fn policies_of(records: &Records, owner: PolicyOwner<'_>) -> Result<PolicySet> {
    match owner {
        PolicyOwner::User(name) => Ok(records.named::<UserRecord>(name).await?.policies),
        PolicyOwner::Group(name) => Ok(records.named::<GroupRecord>(name).await?.policies),
    }
}

/// Whether a managed policy is attached that is there still.
pub(super) async fn has_attached(records: &Records, set: &PolicySet) -> Result<bool> {
    let living = living::<ManagedPolicy>(records, &set.attached).await?;
    Ok(!living.is_empty() || !set.aws.is_empty())
}

fn checked_managed(document: &str) -> Result<()> {
    if document.len() > IAM_DOCUMENT_BYTES_MAX || counted_chars(document) > IAM_MANAGED_POLICY_CHARS_MAX {
        return Err(LimitExceeded::Quota { quota: "PolicySize", max: IAM_MANAGED_POLICY_CHARS_MAX }.into());
    }
    Policy::parse_new(document.as_bytes(), PolicyForm::Managed)?;
    Ok(())
}

/// The characters of a document that count.
fn counted_chars(document: &str) -> usize {
    document.chars().filter(|letter| !letter.is_whitespace()).count()
}
