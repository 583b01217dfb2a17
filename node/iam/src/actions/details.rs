//! GetAccountAuthorizationDetails: users, groups and managed policies with all that they
//! may, a page at a time.
//!
//! ```text
//! users -> groups -> policies -> policies of AWS that are attached, each by its first name
//! marker: the kind (`aws` for the last), a slash, and the first name behind which a page begins
//! ```

use std::collections::HashMap;

use sherd_core::iam::{EntityId, EntityKind, EntityRef, GroupRecord, ManagedPolicy, PolicySet, UserRecord};
use sherd_store::iam::{IamError, Page, SearchPlace, aws_policies};

use super::super::answer::Elements;
use super::super::fault::Fault;
use super::super::limits::{DETAILS_BYTES, DETAILS_READ};
use super::super::request::ActionRequest;
use super::page::end_page;
use super::{groups, managed, users, versions};

/// The kinds of entities in the order in which they are listed, each with its list in the answer.
const KINDS: [(EntityKind, &str, &str); 3] = [
    (EntityKind::User, "User", "UserDetailList"),
    (EntityKind::Group, "Group", "GroupDetailList"),
    (EntityKind::Policy, "LocalManagedPolicy", "Policies"),
];
/// The filter for policies of AWS, and the kind that markers name them by.
const AWS: (&str, &str) = ("AWSManagedPolicy", "aws");
/// Filters beside those of the kinds: no role is there.
const OTHER_FILTERS: [&str; 2] = ["Role", AWS.0];

/// One answer while it is made.
struct DetailsPage<'a> {
    request: &'a ActionRequest,
    place: SearchPlace,
    /// Entities that it may still have.
    room: usize,
    /// Bytes that it has.
    bytes: usize,
    /// The ARNs of attached policies, as far as they were read; `None` for one that is gone.
    arns: HashMap<EntityId, Option<String>>,
    /// The names of users' groups, likewise.
    group_names: HashMap<EntityId, Option<String>>,
    /// To how many users and groups each policy is attached, once a policy is listed.
    attachments: Option<HashMap<EntityId, usize>>,
}

pub(super) async fn get(request: &ActionRequest) -> Result<Elements, Fault> {
    let (filters, page) = (filters(request)?, request.page()?);
    let begin = page.marker.as_deref().map(position).transpose()?;
    let place = request.iam.search_place().await?;
    let mut details = DetailsPage {
        request,
        place,
        room: page.entries,
        bytes: 0,
        arns: HashMap::new(),
        group_names: HashMap::new(),
        attachments: None,
    };
    let (mut lists, mut next) = (KINDS.map(|_| Elements::default()), None);
    let first = begin.as_ref().map_or(0, |(kind, _)| *kind);
    for (kind, (entity, filter, _)) in KINDS.iter().enumerate().skip(first) {
        if !filters.is_empty() && !filters.iter().any(|given| given == filter) {
            continue;
        }
        let behind = begin.as_ref().filter(|(at, _)| *at == kind).map(|(_, name)| name.as_str());
        let stopped = details.list(*entity, behind, &mut lists[kind]).await?;
        if let Some(name) = stopped {
            next = Some(format!("{}/{name}", entity.word()));
            break;
        }
    }
    if next.is_none() && (filters.is_empty() || filters.iter().any(|given| given == AWS.0)) {
        let behind = begin.as_ref().filter(|(at, _)| *at == KINDS.len()).map(|(_, name)| name.as_str());
        let stopped = details.list_of_aws(behind.unwrap_or_default(), &mut lists[KINDS.len() - 1]).await?;
        next = stopped.map(|name| format!("{}/{name}", AWS.1));
    }
    let mut result = Elements::default();
    for ((_, _, name), list) in KINDS.iter().zip(&lists) {
        result.within(name, |element| {
            element.append(list);
        });
    }
    result.list("RoleDetailList", [(); 0], |_, ()| {});
    end_page(&mut result, next.as_deref());
    Ok(result)
}

/// The kinds that `Filter` names; empty for all.
fn filters(request: &ActionRequest) -> Result<Vec<String>, Fault> {
    let filters = request.texts("Filter")?;
    let known: Vec<&str> = KINDS.iter().map(|(_, filter, _)| *filter).chain(OTHER_FILTERS).collect();
    match filters.iter().find(|given| !known.contains(&given.as_str())) {
        Some(given) => {
            let constraint = format!("Member must satisfy enum value set: [{}]", known.join(", "));
            Err(Fault::constraint("Filter", given, &constraint))
        }
        None => Ok(filters),
    }
}

/// The kind, by its place, and the name that a marker has.
fn position(marker: &str) -> Result<(usize, String), Fault> {
    let found = marker.split_once('/').and_then(|(word, name)| {
        let kind =
            KINDS.iter().map(|(kind, _, _)| kind.word()).chain([AWS.1]).position(|kind| kind == word)?;
        Some((kind, name.to_owned()))
    });
    found.ok_or_else(|| {
        Fault::validation(format!("Invalid Marker: {marker} is not the marker of a page before."))
    })
}

/// The managed policies that are attached by any of these.
fn attached<'a>(sets: impl Iterator<Item = &'a PolicySet>) -> Vec<EntityRef> {
    sets.flat_map(|set| &set.attached).cloned().collect()
}

impl DetailsPage<'_> {
    /// Lists entities of a kind behind a name; gives the name behind which the next page begins.
    async fn list(
        &mut self,
        kind: EntityKind,
        behind: Option<&str>,
        list: &mut Elements,
    ) -> Result<Option<String>, Fault> {
        let mut behind = behind.map(str::to_owned);
        loop {
            if self.is_full() {
                return Ok(Some(behind.unwrap_or_default()));
            }
            let (iam, max) = (&self.request.iam, self.room.min(DETAILS_READ));
            let next = match kind {
                EntityKind::User => {
                    let page = iam.list_users("/", behind.as_deref(), max).await?;
                    self.learn_arns(attached(page.records.iter().map(|user| &user.policies))).await?;
                    self.learn_group_names(page.records.iter().flat_map(|user| &user.groups)).await?;
                    self.write_all(page, list, |user| &user.home, Self::write_user)
                }
                EntityKind::Group => {
                    let page = iam.list_groups("/", behind.as_deref(), max).await?;
                    self.learn_arns(attached(page.records.iter().map(|group| &group.policies))).await?;
                    self.write_all(page, list, |group| &group.home, Self::write_group)
                }
                EntityKind::Policy => {
                    let page = iam.list_policies("/", behind.as_deref(), max).await?;
                    self.attachments().await?;
                    self.write_all(page, list, |policy| &policy.name, Self::write_policy)
                }
            };
            match next {
                Some(next) => behind = Some(next),
                None => return Ok(None),
            }
        }
    }

    /// Lists the policies of AWS behind a name that are attached; gives the name behind which the next page
    /// begins.
    async fn list_of_aws(&mut self, behind: &str, list: &mut Elements) -> Result<Option<String>, Fault> {
        let counts = self.attachments().await?;
        let attached = |policy: &&ManagedPolicy| counts.contains_key(&policy.id);
        let policies: Vec<_> = aws_policies().iter().filter(attached).cloned().collect();
        let records = policies.into_iter().filter(|policy| policy.name.as_str() > behind).collect();
        let behind = behind.to_owned();
        if self.is_full() {
            return Ok(Some(behind));
        }
        let stopped =
            self.write_all(Page { records, next: None }, list, |policy| &policy.name, Self::write_policy);
        Ok(stopped)
    }

    /// To how many users and groups each policy is attached; read once for a page.
    async fn attachments(&mut self) -> Result<&HashMap<EntityId, usize>, Fault> {
        if self.attachments.is_none() {
            self.attachments = Some(managed::attachments(&self.request.iam, &self.place).await?);
        }
        Ok(self.attachments.get_or_insert_default())
    }

    /// Writes entities until the page is full; gives the name that is to be gone on behind.
    fn write_all<R>(
        &mut self,
        page: Page<R>,
        list: &mut Elements,
        name: fn(&R) -> &String,
        write: fn(&Self, &mut Elements, &R),
    ) -> Option<String> {
        let mut behind = None;
        for record in &page.records {
            if self.is_full() {
                return behind;
            }
            let before = list.len();
            list.within("member", |member| write(self, member, record));
            self.bytes += list.len() - before;
            self.room -= 1;
            behind = Some(name(record).clone());
        }
        page.next
    }

    const fn is_full(&self) -> bool {
        self.room == 0 || self.bytes >= DETAILS_BYTES
    }

    /// Reads the ARNs of attached policies that are not known yet.
    async fn learn_arns(&mut self, attached: Vec<EntityRef>) -> Result<(), Fault> {
        for named in attached {
            if self.arns.contains_key(&named.id) {
                continue;
            }
            let arn = match self.request.iam.policy(named.home.as_str()).await {
                Ok(policy) => (policy.id == named.id).then(|| policy.arn()),
                Err(IamError::NoSuchEntity(_)) => None,
                Err(error) => return Err(error.into()),
            };
            self.arns.insert(named.id, arn);
        }
        Ok(())
    }

    /// Reads the names of groups that are not known yet.
    async fn learn_group_names(&mut self, groups: impl Iterator<Item = &EntityRef>) -> Result<(), Fault> {
        for named in groups {
            if !self.group_names.contains_key(&named.id) {
                let name = self.request.iam.group_of(named).await?.map(|group| group.name);
                self.group_names.insert(named.id.clone(), name);
            }
        }
        Ok(())
    }

    fn write_user(&self, member: &mut Elements, user: &UserRecord) {
        users::write(member, user);
        self.write_policies(member, "UserPolicyList", &user.policies);
        member.within("GroupList", |list| {
            for name in user.groups.iter().filter_map(|group| self.group_names.get(&group.id)?.as_ref()) {
                list.text("member", name);
            }
        });
        users::write_tags(member, &user.tags);
    }

    fn write_group(&self, member: &mut Elements, group: &GroupRecord) {
        groups::write(member, group);
        self.write_policies(member, "GroupPolicyList", &group.policies);
    }

    /// Writes the inline policies and those that are attached.
    fn write_policies(&self, member: &mut Elements, list: &str, set: &PolicySet) {
        member.list(list, &set.inline, |member, policy| {
            member.text("PolicyName", &policy.name).document("PolicyDocument", &policy.document);
        });
        let attached = set.attached.iter().filter_map(|named| {
            let arn = self.arns.get(&named.id)?.as_ref()?;
            Some((&named.home, arn.clone()))
        });
        let of_aws = aws_policies().iter().filter(|policy| set.has(policy));
        let attached = attached.chain(of_aws.map(|policy| (&policy.name, policy.arn())));
        member.list("AttachedManagedPolicies", attached, |member, (name, arn)| {
            member.text("PolicyName", name).text("PolicyArn", arn);
        });
    }

    fn write_policy(&self, member: &mut Elements, policy: &ManagedPolicy) {
        let attached = self.attachments.as_ref().and_then(|counts| counts.get(&policy.id)).copied();
        managed::write(member, policy, attached.unwrap_or_default());
        member.list("PolicyVersionList", policy.versions.iter().rev(), |member, version| {
            member.document("Document", &version.document);
            versions::write(member, version, policy.default);
        });
    }
}
