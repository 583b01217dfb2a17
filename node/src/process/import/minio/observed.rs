//! The users, groups and policies that the cluster has.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sherd_admin::user::UserError;
use sherd_admin::user::calls::{Calls, unescaped};
use sherd_admin::user::xml::Element;

/// The tag of a user or a bucket that an import makes, until it has all that it is to have. Those without it
/// that lack something were changed by a person.
pub(super) const MARK: &str = "sherd-import";

/// How far an import came, in the value of its mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// The parts that lack were never there.
    UnderWay,
    /// The key of the user, or the policy of the bucket, may have been there: a person may have deleted it.
    Opening,
}

impl Mark {
    pub(super) const fn value(self) -> &'static str {
        match self {
            Self::UnderWay => "under way",
            Self::Opening => "opening",
        }
    }

    /// Reads the mark among tags.
    pub(super) fn of(tags: &[Element]) -> Option<Self> {
        let mark = tags.iter().find(|tag| tag.text("Key") == MARK)?;
        let is_under_way = mark.text("Value") == Self::UnderWay.value();
        Some(if is_under_way { Self::UnderWay } else { Self::Opening })
    }
}

/// The entities of the account, by their names in lower case.
#[derive(Debug, Default)]
pub(super) struct ObservedAccount {
    /// The document of each policy; of one that cannot be read, none.
    pub(super) policies: BTreeMap<String, Value>,
    pub(super) groups: BTreeMap<String, ObservedGroup>,
    pub(super) users: BTreeMap<String, ObservedUser>,
}

#[derive(Debug, Default)]
pub(super) struct ObservedGroup {
    /// ARNs of managed policies.
    pub(super) policies: BTreeSet<String>,
    /// Documents of its own policies, by name.
    pub(super) inline: BTreeMap<String, Value>,
    pub(super) has_members: bool,
}

#[derive(Debug, Default)]
pub(super) struct ObservedUser {
    pub(super) name: String,
    pub(super) path: String,
    /// ARNs of managed policies.
    pub(super) policies: BTreeSet<String>,
    /// Documents of its own policies, by name.
    pub(super) inline: BTreeMap<String, Value>,
    pub(super) groups: BTreeSet<String>,
    /// The ids of its keys.
    pub(super) keys: BTreeSet<String>,
    /// The mark of an import that makes it, and has not ended.
    pub(super) mark: Option<Mark>,
}

impl ObservedAccount {
    /// Reads all entities, and the keys of those users that are `asked` for.
    pub(super) async fn read(
        calls: &mut Calls,
        asked: impl Iterator<Item = String>,
    ) -> Result<Self, UserError> {
        let mut observed = Self::default();
        let mut marker = String::new();
        loop {
            let kinds = ["User", "Group", "LocalManagedPolicy"];
            let filters = ["Filter.member.1", "Filter.member.2", "Filter.member.3"];
            let mut parameters: Vec<_> = filters.into_iter().zip(kinds).collect();
            if !marker.is_empty() {
                parameters.push(("Marker", &marker));
            }
            let page = calls.call("GetAccountAuthorizationDetails", &parameters).await?;
            observed.add(&page);
            if page.text("IsTruncated") != "true" || page.text("Marker").is_empty() {
                break;
            }
            page.text("Marker").clone_into(&mut marker);
        }
        let in_groups: BTreeSet<String> =
            observed.users.values().flat_map(|user| &user.groups).map(|name| name.to_lowercase()).collect();
        for (name, group) in &mut observed.groups {
            group.has_members = in_groups.contains(name);
        }
        for name in asked {
            let Some(user) = observed.users.get_mut(&name.to_lowercase()) else { continue };
            let keys = calls.list("ListAccessKeys", "AccessKeyMetadata", &[("UserName", &user.name)]).await?;
            user.keys = keys.iter().map(|key| key.text("AccessKeyId").to_owned()).collect();
        }
        Ok(observed)
    }

    fn add(&mut self, page: &Element) {
        for user in page.members("UserDetailList") {
            let found = ObservedUser {
                name: user.text("UserName").to_owned(),
                path: user.text("Path").to_owned(),
                policies: attached(user),
                inline: inline(user.members("UserPolicyList")),
                groups: user.members("GroupList").iter().map(|name| name.own_text().to_owned()).collect(),
                keys: BTreeSet::new(),
                mark: Mark::of(user.members("Tags")),
            };
            self.users.insert(found.name.to_lowercase(), found);
        }
        for group in page.members("GroupDetailList") {
            let found = ObservedGroup {
                policies: attached(group),
                inline: inline(group.members("GroupPolicyList")),
                has_members: false,
            };
            self.groups.insert(group.text("GroupName").to_lowercase(), found);
        }
        for policy in page.members("Policies") {
            let mut versions = policy.members("PolicyVersionList").iter();
            let default = versions.find(|version| version.text("IsDefaultVersion") == "true");
            let document = default.map(|version| parsed(version.text("Document"))).unwrap_or_default();
            self.policies.insert(policy.text("PolicyName").to_lowercase(), document);
        }
    }
}

fn attached(owner: &Element) -> BTreeSet<String> {
    let policies = owner.members("AttachedManagedPolicies").iter();
    policies.map(|policy| policy.text("PolicyArn").to_owned()).collect()
}

fn inline(policies: &[Element]) -> BTreeMap<String, Value> {
    let read =
        |policy: &Element| (policy.text("PolicyName").to_owned(), parsed(policy.text("PolicyDocument")));
    policies.iter().map(read).collect()
}

fn parsed(document: &str) -> Value {
    serde_json::from_str(&unescaped(document)).unwrap_or_default()
}
