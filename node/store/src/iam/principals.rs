//! The policies of a user or a group, each with its origin: for explanations and simulations.
//!
//! Read for each call, out of the same records as the view of a key ([`super::key_view`]), and parsed by the
//! same cache.

use std::sync::Arc;

use futures::future::try_join_all;

use sherd_core::iam::{EntityKind, GroupRecord, PolicySet, UserRecord};
use sherd_policy::Policy;

use super::error::Result;
use super::key_view::{Composer, of_aws};
use super::policies::PolicyOwner;

/// The owner or the ARN of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyOrigin {
    /// Part of a user or a group.
    Inline {
        /// The kind of its owner.
        kind: EntityKind,
        /// The name of its owner.
        owner: String,
    },
    /// Attached; the ARN of the policy.
    Managed(String),
}

/// A policy that is in force for a user or a group.
#[derive(Debug, Clone)]
pub struct PrincipalPolicy {
    /// Origin of the policy.
    pub origin: PolicyOrigin,
    /// Name of the policy.
    pub name: String,
    /// Parsed policy.
    pub policy: Arc<Policy>,
}

/// A user or a group, with the policies that are in force for it.
#[derive(Debug, Clone)]
pub struct Principal {
    /// The user; `None` for a group.
    pub user: Option<UserRecord>,
    /// ARN of the principal.
    pub arn: String,
    /// Policies of the principal and of a user's groups, and those that are attached to any of these.
    pub policies: Vec<PrincipalPolicy>,
}

impl Principal {
    /// Reads a user or a group with the policies that are in force for it.
    ///
    /// # Errors
    /// [`super::MissingEntity`]; any of [`super::IamError`].
    pub(super) async fn read(composer: &Composer, owner: PolicyOwner<'_>) -> Result<Self> {
        let records = &composer.records;
        let (user, arn, groups) = match owner {
            PolicyOwner::User(name) => {
                let user: UserRecord = records.named(name).await?;
                let groups = user.groups.iter().map(|group| records.referred(group));
                let groups = try_join_all(groups).await?.into_iter().flatten();
                let groups: Vec<GroupRecord> = groups.map(|found| found.record).collect();
                (Some(user.clone()), user.arn(), groups)
            }
            PolicyOwner::Group(name) => {
                let group: GroupRecord = records.named(name).await?;
                (None, group.arn(), vec![group])
            }
        };
        let own = user.iter().map(|user| (EntityKind::User, &user.name, &user.policies));
        let owners: Vec<(EntityKind, &String, &PolicySet)> =
            own.chain(groups.iter().map(|group| (EntityKind::Group, &group.name, &group.policies))).collect();
        let mut policies = Vec::new();
        let mut add = |origin: PolicyOrigin, name: &str, document: &str| {
            let policy = composer.parse(name, document)?;
            policies.push(PrincipalPolicy { origin, name: name.to_owned(), policy });
            Ok::<_, super::IamError>(())
        };
        for (kind, owner, set) in &owners {
            for inline in &set.inline {
                let origin = PolicyOrigin::Inline { kind: *kind, owner: (*owner).clone() };
                add(origin, &inline.name, &inline.document)?;
            }
        }
        let sets: Vec<&PolicySet> = owners.iter().map(|(_, _, set)| *set).collect();
        for managed in composer.managed(&sets).await? {
            if let Some(version) = managed.record.default_version() {
                add(PolicyOrigin::Managed(managed.record.arn()), &managed.record.name, &version.document)?;
            }
        }
        for (managed, document) in of_aws(&sets)? {
            add(PolicyOrigin::Managed(managed.arn()), &managed.name, document)?;
        }
        Ok(Self { user, arn, policies })
    }
}
