//! The entities that an export becomes here, and those that cannot be taken. Pure.
//!
//! ```text
//! policy          -> managed policy            group -> group with its policies
//! user            -> user with its policies and groups, and its key: its name is the key's id
//! service account -> user at /service-accounts/, with its parent's policies and groups, or with a policy of
//!                    its own that says what both allow
//! ```
//! No key may have more rights than it had: one that would miss a policy that denies is not taken.

use std::collections::{BTreeMap, BTreeSet};

use sherd_core::iam::{AccessKeyId, EntityKind};
use sherd_core::limits::{
    IAM_ATTACHED_MAX, IAM_GROUPS_MAX, IAM_MANAGED_POLICY_CHARS_MAX, IAM_USER_POLICY_CHARS_MAX,
};

use super::claims::{check_claims, expiry};
use super::conditions::Effect;
use super::document::{Document, Refusal};
use super::iam_export::{ExportedGroup, ExportedUser, IamExport, PolicyMapping, ServiceAccount, names};
use super::narrowed::narrowed;

/// The policies that every MinIO has: they are taken where something has them.
const BUILT_IN: [&str; 5] = ["consoleAdmin", "diagnostics", "readonly", "readwrite", "writeonly"];
/// The path of users that were service accounts.
pub(super) const SERVICE_ACCOUNTS: &str = "/service-accounts/";
/// The name of the policy that a user has of its own.
pub(super) const OWN_POLICY: &str = "minio";

/// All that is to be there.
#[derive(Debug, Default)]
pub(super) struct WantedAccount {
    pub(super) policies: Vec<WantedPolicy>,
    pub(super) groups: Vec<WantedGroup>,
    pub(super) users: Vec<WantedUser>,
    pub(super) left_out: Vec<LeftOut>,
}

#[derive(Debug)]
pub(super) struct WantedPolicy {
    pub(super) name: String,
    pub(super) document: String,
}

#[derive(Debug)]
pub(super) struct WantedGroup {
    pub(super) name: String,
    pub(super) policies: BTreeSet<String>,
}

#[derive(Debug)]
pub(super) struct WantedUser {
    pub(super) what: &'static str,
    pub(super) name: String,
    pub(super) path: &'static str,
    /// The document of its own policy.
    pub(super) own_policy: Option<String>,
    pub(super) policies: BTreeSet<String>,
    pub(super) groups: BTreeSet<String>,
    pub(super) secret: String,
    pub(super) is_active: bool,
}

/// An entity, or a part of one, that is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) what: &'static str,
    pub(super) name: String,
    pub(super) reason: String,
}

/// Works through an export.
struct Mapper<'a> {
    export: &'a IamExport,
    /// The name of MinIO's root.
    root: Option<&'a str>,
    documents: BTreeMap<&'a str, Result<Document, Refusal>>,
    /// The groups of each user.
    memberships: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// The names of users that are taken.
    keys: Names,
    wanted: WantedAccount,
}

/// The policies of a user or a group that can be attached.
type AttachedNames<'a> = Result<BTreeSet<&'a str>, String>;

impl WantedAccount {
    /// Of an export of a MinIO whose root has this name.
    pub(super) fn of(export: &IamExport, root: Option<&str>) -> Self {
        let documents = export.policies.iter().map(|(name, policy)| (name.as_str(), document(name, policy)));
        let mut memberships: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (name, group) in &export.groups {
            for member in group.members.iter().flatten() {
                memberships.entry(member.as_str()).or_default().insert(name.as_str());
            }
        }
        let (documents, keys, wanted) = (documents.collect(), Names::default(), Self::default());
        let mut mapper = Mapper { export, root, documents, memberships, keys, wanted };
        mapper.policies();
        mapper.groups();
        mapper.users();
        mapper.service_accounts();
        mapper.others();
        mapper.wanted
    }
}

/// The document of a policy that may be managed here.
fn document(name: &str, policy: &serde_json::Value) -> Result<Document, Refusal> {
    let document = Document::of(policy)?;
    let denies = document.statements.iter().any(|statement| statement.effect == Effect::Deny);
    let refused = |reason: String| Err(Refusal { reason, denies });
    if let Err(error) = EntityKind::Policy.check_name(name) {
        return refused(error.to_string());
    }
    if letters(&document.text()) > IAM_MANAGED_POLICY_CHARS_MAX {
        return refused(format!("it has more than {IAM_MANAGED_POLICY_CHARS_MAX} characters"));
    }
    Ok(document)
}

/// Characters that count.
fn letters(text: &str) -> usize {
    text.chars().filter(|letter| !letter.is_whitespace()).count()
}

impl<'a> Mapper<'a> {
    fn leave_out(&mut self, what: &'static str, name: &str, reason: impl Into<String>) {
        self.wanted.left_out.push(LeftOut { what, name: name.to_owned(), reason: reason.into() });
    }

    fn policies(&mut self) {
        let export = self.export;
        let mappings = export.user_policies.values().chain(export.group_policies.values());
        let mut used: BTreeSet<&str> = mappings.flat_map(PolicyMapping::names).collect();
        used.extend(export.users.values().flat_map(|user| names(&user.policy)));
        let mut taken = Names::default();
        for (name, document) in self.documents.clone() {
            if BUILT_IN.contains(&name) && !used.contains(name) {
                continue;
            }
            let clash = if document.is_ok() { taken.clash(name) } else { None };
            let refusal = match (&document, clash) {
                (Err(refusal), _) => Some(refusal.clone()),
                (Ok(document), Some(reason)) => {
                    let denies = document.statements.iter().any(|one| one.effect == Effect::Deny);
                    Some(Refusal { reason, denies })
                }
                (Ok(_), None) => None,
            };
            if let Some(refusal) = refusal {
                self.leave_out("policy", name, refusal.reason.clone());
                self.documents.insert(name, Err(refusal));
            } else if let Ok(document) = document {
                for part in &document.left_out {
                    self.leave_out("part of policy", name, part);
                }
                let document = document.text();
                self.wanted.policies.push(WantedPolicy { name: name.to_owned(), document });
            }
        }
    }

    /// The names of those policies that are taken; an error where another one may deny.
    fn attached(&self, policies: Vec<&'a str>) -> AttachedNames<'a> {
        let mut attached = BTreeSet::new();
        for name in policies {
            match self.documents.get(name) {
                Some(Ok(_)) => _ = attached.insert(name),
                Some(Err(refusal)) if refusal.denies => {
                    return Err(format!("its policy {name}, which denies, is not taken"));
                }
                // MinIO passes over policies that it does not have, too.
                Some(Err(_)) | None => {}
            }
        }
        if attached.len() > IAM_ATTACHED_MAX {
            return Err(format!("more than {IAM_ATTACHED_MAX} policies are attached to it"));
        }
        Ok(attached)
    }

    fn groups(&mut self) {
        let mut taken = Names::default();
        for (name, group) in &self.export.groups {
            let ExportedGroup { unknown, .. } = group;
            for member in unknown.keys() {
                self.leave_out("part of group", name, format!("{member} is not known"));
            }
            if group.status == "disabled" {
                self.leave_out("part of group", name, "it is disabled: the keys of its members are inactive");
            }
            let refusal = EntityKind::Group.check_name(name).map_err(|error| error.to_string()).err();
            let policies = match (refusal.or_else(|| taken.clash(name)), self.policies_of_group(name)) {
                (None, Ok(policies)) => policies,
                (Some(reason), _) | (None, Err(reason)) => {
                    self.leave_out("group", name, reason);
                    continue;
                }
            };
            let policies = policies.into_iter().map(str::to_owned).collect();
            self.wanted.groups.push(WantedGroup { name: name.clone(), policies });
        }
    }

    /// The policies that a group gives its members.
    fn policies_of_group(&self, name: &str) -> AttachedNames<'a> {
        let mapping = self.export.group_policies.get(name);
        self.attached(mapping.map(PolicyMapping::names).unwrap_or_default())
    }

    /// Whether a user has rights: in a disabled group MinIO gives it no policies, not even its own.
    fn is_active(&self, user: &str) -> bool {
        let mut groups = self.memberships.get(user).into_iter().flatten();
        let is_disabled =
            |group: &&str| self.export.groups.get(*group).is_some_and(|group| group.status == "disabled");
        self.export.users.get(user).is_some_and(|user| user.status == "enabled") && !groups.any(is_disabled)
    }

    /// The groups of a user.
    fn groups_of(&self, user: &str) -> Result<BTreeSet<&'a str>, String> {
        let mut groups = BTreeSet::new();
        for name in self.memberships.get(user).into_iter().flatten().copied() {
            // Groups were taken in the order of their names.
            if self.wanted.groups.binary_search_by(|wanted| wanted.name.as_str().cmp(name)).is_err() {
                // Without it the user has fewer rights, unless its policies deny.
                self.policies_of_group(name).map_err(|reason| format!("of its group {name}: {reason}"))?;
                let denies = |policy: &&str| {
                    let document = self.documents.get(policy).and_then(|document| document.as_ref().ok());
                    document.is_some_and(|document| {
                        document.statements.iter().any(|statement| statement.effect == Effect::Deny)
                    })
                };
                if self.policies_of_group(name)?.iter().any(denies) {
                    return Err(format!("its group {name}, whose policies deny, is not taken"));
                }
                continue;
            }
            groups.insert(name);
        }
        if groups.len() > IAM_GROUPS_MAX {
            return Err(format!("it is in more than {IAM_GROUPS_MAX} groups"));
        }
        Ok(groups)
    }

    /// The policies that are attached to a user.
    fn policies_of_user(&self, name: &str) -> AttachedNames<'a> {
        let mapping = self.export.user_policies.get(name).map(PolicyMapping::names);
        if mapping.is_none() && self.export.sts_policies.contains_key(name) {
            return Err("it has the policies of an STS user of its name".to_owned());
        }
        let old = self.export.users.get(name).map(|user| names(&user.policy)).unwrap_or_default();
        self.attached(mapping.unwrap_or(old))
    }

    fn users(&mut self) {
        for (name, user) in &self.export.users {
            let ExportedUser { secret, status: _, policy: _, unknown } = user;
            for member in unknown.keys() {
                self.leave_out("part of user", name, format!("{member} is not known"));
            }
            let rights = self.check_key(name, secret).and_then(|()| {
                let policies = self.policies_of_user(name)?;
                Ok((policies, self.groups_of(name)?))
            });
            match rights {
                Ok((policies, groups)) => self.add_user(WantedUser {
                    what: "user",
                    name: name.clone(),
                    path: "/",
                    own_policy: None,
                    policies: owned(policies),
                    groups: owned(groups),
                    secret: secret.clone(),
                    is_active: self.is_active(name),
                }),
                Err(reason) => self.leave_out("user", name, reason),
            }
        }
    }

    /// Checks the id of a key, which becomes a user's name, and its secret.
    fn check_key(&self, id: &str, secret: &str) -> Result<(), String> {
        let rule = "the id of a key here has 3 to 64 of the characters a-z, A-Z, 0-9 and _+.@-";
        AccessKeyId::parse(id).ok_or(rule)?;
        if !(8..=128).contains(&secret.len()) || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a secret here has 8 to 128 visible ASCII characters".to_owned());
        }
        self.keys.reason_against(id).map_or(Ok(()), Err)
    }

    fn add_user(&mut self, user: WantedUser) {
        self.keys.clash(&user.name);
        self.wanted.users.push(user);
    }

    fn service_accounts(&mut self) {
        for (name, account) in &self.export.service_accounts {
            for member in account.unknown.keys() {
                self.leave_out("part of service account", name, format!("{member} is not known"));
            }
            match self.service_account(account) {
                Ok(user) => self.add_user(user),
                Err(reason) => self.leave_out("service account", name, reason),
            }
        }
    }

    fn service_account(&mut self, account: &'a ServiceAccount) -> Result<WantedUser, String> {
        let ServiceAccount { parent, id, secret, groups: own_groups, policy, status, expiration, .. } =
            account;
        self.check_key(id, secret)?;
        check_claims(account)?;
        let own = policy.as_ref().map(Document::of).transpose();
        let own = own.map_err(|refusal| format!("its policy: {}", refusal.reason))?;
        for part in own.iter().flat_map(|own| &own.left_out) {
            self.leave_out("part of service account", id, part);
        }
        let (mut document, policies, groups, is_parent_active) = match self.export.users.get(parent) {
            Some(_) => {
                let of_parent = self.memberships.get(parent.as_str());
                let is_other =
                    |group: &&String| of_parent.is_none_or(|known| !known.contains(group.as_str()));
                if let Some(group) = own_groups.iter().flatten().find(is_other) {
                    return Err(format!("it is in the group {group}, and its parent is not"));
                }
                let (document, policies, groups) = self.rights_of_parent(parent, own.as_ref())?;
                (document, policies, groups, self.is_active(parent))
            }
            None if self.root != Some(parent.as_str()) => {
                return Err(format!(
                    "its parent {parent} is no user of the export: where that is the root of this MinIO, say so by \
                     --root-user; users of LDAP and OpenID are not taken"
                ));
            }
            None => match own {
                Some(own) => (named(&own, parent)?, BTreeSet::new(), BTreeSet::new(), true),
                None => return Err("it has all rights of root, as no policy restricts it".to_owned()),
            },
        };
        document.statements.extend(expiry(expiration.as_deref()));
        Ok(WantedUser {
            what: "service account",
            name: id.clone(),
            path: SERVICE_ACCOUNTS,
            own_policy: own_policy(&document)?,
            policies: owned(policies),
            groups: owned(groups),
            secret: secret.clone(),
            is_active: status == "on" && is_parent_active,
        })
    }

    /// The policy of its own, policies and groups of a service account of a user.
    fn rights_of_parent(
        &self,
        parent: &str,
        own: Option<&Document>,
    ) -> Result<(Document, BTreeSet<&'a str>, BTreeSet<&'a str>), String> {
        let of_parent = |reason| format!("of its parent {parent}: {reason}");
        let policies = self.policies_of_user(parent).map_err(of_parent)?;
        let groups = self.groups_of(parent).map_err(of_parent)?;
        let mut all = policies.clone();
        for group in &groups {
            all.extend(self.policies_of_group(group)?);
        }
        let documents = all.iter().filter_map(|name| self.documents.get(name)?.as_ref().ok());
        let documents: Vec<&Document> = documents.collect();
        let names_its_user = documents.iter().any(|document| document.names_its_user());
        if own.is_none() && !names_its_user {
            return Ok((Document::default(), policies, groups));
        }
        let named_documents = documents.into_iter().map(|document| named(document, parent));
        let documents = named_documents.collect::<Result<Vec<_>, _>>()?;
        let document = match own {
            Some(own) => narrowed(&named(own, parent)?, &documents.iter().collect::<Vec<_>>())
                .ok_or("what its own policy and its parent's allow both is said by no policy")?,
            None => Document {
                statements: documents.into_iter().flat_map(|document| document.statements).collect(),
                left_out: Vec::new(),
            },
        };
        Ok((document, BTreeSet::new(), BTreeSet::new()))
    }

    /// Names what has no place here.
    fn others(&mut self) {
        let export = self.export;
        for (name, mapping) in &export.sts_policies {
            let reason =
                format!("temporary credentials (LDAP, OpenID) have no users here: {}", mapping.policy);
            self.leave_out("mapping of an STS user", name, reason);
        }
        for (name, mapping) in &export.user_policies {
            if !export.users.contains_key(name) {
                self.leave_out("mapping of a user", name, format!("no such user: {}", mapping.policy));
            }
        }
        for (name, mapping) in &export.group_policies {
            if !export.groups.contains_key(name) {
                let reason = format!("no such group, as those of LDAP: {}", mapping.policy);
                self.leave_out("mapping of a group", name, reason);
            }
        }
        for mapping in export.user_policies.iter().chain(&export.group_policies) {
            for member in mapping.1.unknown.keys() {
                self.leave_out("part of a mapping", mapping.0, format!("{member} is not known"));
            }
        }
        for name in &export.other_files {
            self.leave_out("file", name, "it is not known");
        }
    }
}

/// A document of a service account: the name of its parent stands in place of the variable for a user's, as
/// in MinIO.
fn named(document: &Document, parent: &str) -> Result<Document, String> {
    if !document.names_its_user() {
        return Ok(document.clone());
    }
    EntityKind::User.check_name(parent).map_err(|error| error.to_string())?;
    document.of_user(parent).ok_or("a condition asks for the name of its parent".to_owned())
}

/// The text of a user's own policy; none where it says nothing.
fn own_policy(document: &Document) -> Result<Option<String>, String> {
    if document.statements.is_empty() {
        return Ok(None);
    }
    document.check()?;
    let text = document.text();
    if letters(&text) > IAM_USER_POLICY_CHARS_MAX {
        return Err(format!("its own policy would have more than {IAM_USER_POLICY_CHARS_MAX} characters"));
    }
    Ok(Some(text))
}

fn owned(names: BTreeSet<&str>) -> BTreeSet<String> {
    names.into_iter().map(str::to_owned).collect()
}

/// Names that were taken, in lower case.
#[derive(Debug, Default)]
struct Names(BTreeMap<String, String>);

impl Names {
    /// Takes a name; the reason why not where it is taken.
    fn clash(&mut self, name: &str) -> Option<String> {
        let clash = self.reason_against(name);
        if clash.is_none() {
            self.0.insert(name.to_ascii_lowercase(), name.to_owned());
        }
        clash
    }

    fn reason_against(&self, name: &str) -> Option<String> {
        let known = self.0.get(&name.to_ascii_lowercase())?;
        Some(format!("its name is {known} in another case"))
    }
}
