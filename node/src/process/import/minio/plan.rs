//! The steps of each entity, by what is there. Pure.
//!
//! Policies come first, then groups with theirs, then users with theirs; then the key of a user, and last the
//! end of its mark. So a cut import gives no key rights that it did not have, and no group has members before
//! it has all its policies. Parts that an entity lacks are added where the import that makes it was cut: to a
//! group whose users are not there, to a user with the mark. Any other difference was made by a person, and
//! stays. The mark has another value from before the key is given: a key that was deleted does not come back.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sherd_core::iam::EntityKind;

use super::observed::{MARK, Mark, ObservedAccount, ObservedGroup, ObservedUser};
use super::wanted::{OWN_POLICY, WantedAccount, WantedGroup, WantedPolicy, WantedUser};

/// An action of IAM with its parameters.
pub(super) type Call = (&'static str, Vec<(&'static str, String)>);

/// An entity of the export.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entity {
    pub(super) what: &'static str,
    pub(super) name: String,
    pub(super) verdict: Verdict,
}

/// The steps of an entity.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// No entity of this name is there.
    Make(Vec<Call>),
    /// A cut import made it.
    Finish(Vec<Call>),
    /// The entity is there as it is to be.
    Equal,
    /// An entity of this name is there, and another one. It stays as it is.
    Differs(String),
    /// The entity needs another one that differs.
    Withheld(String),
}

/// Decides about all entities but buckets: those of users without the keys, which the cluster judges.
pub(super) fn plan(wanted: &WantedAccount, observed: &ObservedAccount) -> Vec<Entity> {
    let mut entities = Vec::new();
    let mut bad = BadNames::default();
    for policy in &wanted.policies {
        let verdict = policy_verdict(policy, observed.policies.get(&policy.name.to_lowercase()));
        bad.note("policy", &policy.name, &verdict);
        entities.push(Entity { what: "policy", name: policy.name.clone(), verdict });
    }
    for group in &wanted.groups {
        let verdict = bad
            .withheld(&group.policies, &BTreeSet::new())
            .unwrap_or_else(|| group_verdict(group, wanted, observed));
        bad.note("group", &group.name, &verdict);
        entities.push(Entity { what: "group", name: group.name.clone(), verdict });
    }
    for user in &wanted.users {
        let verdict = bad
            .withheld(&user.policies, &user.groups)
            .unwrap_or_else(|| user_verdict(user, observed.users.get(&user.name.to_lowercase())));
        entities.push(Entity { what: user.what, name: user.name.clone(), verdict });
    }
    entities
}

/// Policies and groups that are not as they are to be: users that have them would have other rights.
#[derive(Debug, Default)]
struct BadNames(BTreeSet<(&'static str, String)>);

impl BadNames {
    fn note(&mut self, what: &'static str, name: &str, verdict: &Verdict) {
        if matches!(verdict, Verdict::Differs(_) | Verdict::Withheld(_)) {
            self.0.insert((what, name.to_owned()));
        }
    }

    fn withheld(&self, policies: &BTreeSet<String>, groups: &BTreeSet<String>) -> Option<Verdict> {
        let policies = policies.iter().map(|name| ("policy", name.clone()));
        let mut needed = policies.chain(groups.iter().map(|name| ("group", name.clone())));
        let (what, name) = needed.find(|needed| self.0.contains(needed))?;
        Some(Verdict::Withheld(format!("its {what} {name} is not taken, as another one is there")))
    }
}

fn policy_verdict(policy: &WantedPolicy, found: Option<&Value>) -> Verdict {
    match found {
        None => Verdict::Make(vec![(
            "CreatePolicy",
            vec![("PolicyName", policy.name.clone()), ("PolicyDocument", policy.document.clone())],
        )]),
        Some(found) if is_document(found, &policy.document) => Verdict::Equal,
        Some(_) => Verdict::Differs("the policy of this name has another document".to_owned()),
    }
}

fn is_document(found: &Value, document: &str) -> bool {
    serde_json::from_str::<Value>(document).is_ok_and(|wanted| wanted == *found)
}

pub(super) fn arn(policy: &str) -> String {
    EntityKind::Policy.arn("/", policy)
}

/// The calls that attach policies that are not attached.
fn attach(
    action: &'static str,
    owner: (&'static str, &str),
    wanted: &BTreeSet<String>,
    found: &BTreeSet<String>,
) -> Vec<Call> {
    let found = in_lower_case(found);
    let missing = wanted.iter().map(|name| arn(name)).filter(|arn| !found.contains(&arn.to_lowercase()));
    missing.map(|arn| (action, vec![(owner.0, owner.1.to_owned()), ("PolicyArn", arn)])).collect()
}

/// Names and ARNs as they are compared.
fn in_lower_case(names: &BTreeSet<String>) -> BTreeSet<String> {
    names.iter().map(|name| name.to_lowercase()).collect()
}

fn arns_in_lower_case(policies: &BTreeSet<String>) -> BTreeSet<String> {
    policies.iter().map(|name| arn(name).to_lowercase()).collect()
}

fn group_verdict(group: &WantedGroup, wanted: &WantedAccount, observed: &ObservedAccount) -> Verdict {
    let found = observed.groups.get(&group.name.to_lowercase());
    let named = ("GroupName", group.name.as_str());
    let none = ObservedGroup::default();
    let policies = attach("AttachGroupPolicy", named, &group.policies, &found.unwrap_or(&none).policies);
    let Some(found) = found else {
        let make = ("CreateGroup", vec![("GroupName", group.name.clone())]);
        return Verdict::Make([vec![make], policies].concat());
    };
    let known = arns_in_lower_case(&group.policies);
    if !found.inline.is_empty() || !in_lower_case(&found.policies).is_subset(&known) {
        return Verdict::Differs("the group of this name has other policies".to_owned());
    }
    if policies.is_empty() {
        Verdict::Equal
    } else if !found.has_members && may_be_cut(group, wanted, observed) {
        Verdict::Finish(policies)
    } else {
        Verdict::Differs("the group of this name has fewer policies".to_owned())
    }
}

/// Whether an import may have been cut before a group had its policies: none of its users is there, or one is
/// marked. Users come after all groups, so those of the whole export stand for a group without any.
fn may_be_cut(group: &WantedGroup, wanted: &WantedAccount, observed: &ObservedAccount) -> bool {
    let mut users: Vec<&WantedUser> =
        wanted.users.iter().filter(|user| user.groups.contains(&group.name)).collect();
    if users.is_empty() {
        users = wanted.users.iter().collect();
    }
    let found = users.into_iter().filter_map(|user| observed.users.get(&user.name.to_lowercase()));
    let mut found = found.peekable();
    found.peek().is_none() || found.any(|user| user.mark.is_some())
}

fn user_verdict(user: &WantedUser, found: Option<&ObservedUser>) -> Verdict {
    let named = ("UserName", user.name.as_str());
    let none = ObservedUser::default();
    let is_there = found.is_some();
    let found = found.unwrap_or(&none);
    let own: BTreeMap<&str, &String> =
        user.own_policy.iter().map(|document| (OWN_POLICY, document)).collect();
    let mut calls = Vec::new();
    for (name, document) in &own {
        if !found.inline.contains_key(*name) {
            let parameters = [("PolicyName", (*name).to_owned()), ("PolicyDocument", (*document).clone())];
            calls
                .push(("PutUserPolicy", [vec![(named.0, named.1.to_owned())], parameters.to_vec()].concat()));
        }
    }
    calls.extend(attach("AttachUserPolicy", named, &user.policies, &found.policies));
    let groups = in_lower_case(&found.groups);
    for group in user.groups.iter().filter(|group| !groups.contains(&group.to_lowercase())) {
        calls.push(("AddUserToGroup", vec![("GroupName", group.clone()), (named.0, named.1.to_owned())]));
    }
    if !is_there {
        let make = [marked(user, Mark::UnderWay), vec![("Path", user.path.to_owned())]].concat();
        return Verdict::Make([vec![("CreateUser", make)], calls, key_calls(user)].concat());
    }
    let is_known = |(name, found): (&String, &Value)| {
        own.get(name.as_str()).is_some_and(|document| is_document(found, document))
    };
    let has_key = found.keys.contains(&user.name);
    let is_under_way = found.mark == Some(Mark::UnderWay);
    let policies = arns_in_lower_case(&user.policies);
    let other = [
        (found.name != user.name, "is written otherwise"),
        (found.path != user.path, "has another path"),
        (!found.inline.iter().all(is_known), "has other policies of its own"),
        (!in_lower_case(&found.policies).is_subset(&policies), "has other policies attached"),
        (!groups.is_subset(&in_lower_case(&user.groups)), "is in other groups"),
        (found.keys.iter().any(|key| *key != user.name), "has other keys"),
        (!(is_under_way || has_key), "has no such key: delete the user to have both made"),
        ((has_key || !is_under_way) && !calls.is_empty(), "has fewer policies or groups"),
    ];
    if let Some((_, other)) = other.into_iter().find(|(differs, _)| *differs) {
        return Verdict::Differs(format!("the user of this name {other}"));
    }
    if found.mark.is_none() {
        return Verdict::Equal;
    }
    if has_key {
        calls.push(end_mark(user));
    } else {
        calls.extend(key_calls(user));
    }
    Verdict::Finish(calls)
}

/// The parameters that mark a user.
fn marked(user: &WantedUser, mark: Mark) -> Vec<(&'static str, String)> {
    vec![
        ("UserName", user.name.clone()),
        ("Tags.member.1.Key", MARK.to_owned()),
        ("Tags.member.1.Value", mark.value().to_owned()),
    ]
}

/// The last calls of a user, from the second value of its mark on.
fn key_calls(user: &WantedUser) -> Vec<Call> {
    vec![("TagUser", marked(user, Mark::Opening)), import_key(user), end_mark(user)]
}

/// The call that ends the mark of a user that is whole.
fn end_mark(user: &WantedUser) -> Call {
    ("UntagUser", vec![("UserName", user.name.clone()), ("TagKeys.member.1", MARK.to_owned())])
}

/// The call that gives a user its key.
pub(super) fn import_key(user: &WantedUser) -> Call {
    let status = if user.is_active { "Active" } else { "Inactive" };
    let parameters = vec![
        ("UserName", user.name.clone()),
        ("AccessKeyId", user.name.clone()),
        ("SecretAccessKey", user.secret.clone()),
        ("Status", status.to_owned()),
    ];
    ("ImportAccessKey", parameters)
}
