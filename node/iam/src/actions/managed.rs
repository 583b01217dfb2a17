//! Managed policies: made, read, listed, deleted, and what they are attached to.

use std::collections::HashMap;

use sherd_core::iam::{EntityId, ManagedPolicy, PolicySet, PolicyVendor};
use sherd_front::denial::Denial;
use sherd_policy::Resource;
use sherd_store::iam::{Iam, NewPolicy, SearchPlace, aws_policies};

use super::super::answer::Elements;
use super::super::fault::Fault;
use super::super::limits::COUNTED_PAGE;
use super::super::request::{ActionRequest, PageRequest, no_such_policy};
use super::page::{end_page, list_page};
use super::users;

/// The managed policy that a request names.
pub(super) async fn named(request: &ActionRequest) -> Result<ManagedPolicy, Fault> {
    let (name, arn) = request.policy()?;
    let policy = request.iam.policy(name).await.map_err(|error| named_by_arn(arn, error.into()))?;
    if policy.arn() == arn { Ok(policy) } else { Err(no_such_policy(arn)) }
}

/// The managed policy that a request names and changes: one of the account. No caller may change those of
/// AWS.
pub(super) async fn own(request: &ActionRequest) -> Result<ManagedPolicy, Fault> {
    let policy = named(request).await?;
    if policy.vendor == PolicyVendor::Account {
        return Ok(policy);
    }
    let action = format!("iam:{}", request.form.get("Action").unwrap_or_default());
    Err(request.denied(Denial::ForeignPolicy, &action, Resource::Iam(&policy.arn())))
}

/// A refusal for a policy that is not there, by the ARN that was asked for.
fn named_by_arn(arn: &str, fault: Fault) -> Fault {
    if fault.code == "NoSuchEntity" { no_such_policy(arn) } else { fault }
}

/// To how many users and groups each policy is attached. Reads all of them.
pub(super) async fn attachments(iam: &Iam, _place: &SearchPlace) -> Result<HashMap<EntityId, usize>, Fault> {
    let mut counts = HashMap::new();
    let mut count = |set: &PolicySet| {
        for policy in &set.attached {
            *counts.entry(policy.id.clone()).or_default() += 1;
        }
        for policy in aws_policies().iter().filter(|policy| set.has(policy)) {
            *counts.entry(policy.id.clone()).or_default() += 1;
        }
    };
    let mut marker: Option<String> = None;
    loop {
        let page = iam.list_users("/", marker.as_deref(), COUNTED_PAGE).await?;
        page.records.iter().for_each(|user| count(&user.policies));
        marker = page.next;
        if marker.is_none() {
            break;
        }
    }
    loop {
        let page = iam.list_groups("/", marker.as_deref(), COUNTED_PAGE).await?;
        page.records.iter().for_each(|group| count(&group.policies));
        marker = page.next;
        if marker.is_none() {
            return Ok(counts);
        }
    }
}

/// Writes a policy.
pub(super) fn write(element: &mut Elements, policy: &ManagedPolicy, attached: usize) {
    element.text("PolicyName", &policy.name).text("PolicyId", policy.id.as_str());
    element.text("Arn", policy.arn()).text("Path", &policy.path);
    element.text("DefaultVersionId", format_args!("v{}", policy.default)).text("AttachmentCount", attached);
    element.text("PermissionsBoundaryUsageCount", 0).text("IsAttachable", true);
    element.time("CreateDate", policy.created_ms).time("UpdateDate", policy.updated_ms);
}

pub(super) async fn create(request: &ActionRequest) -> Result<Elements, Fault> {
    let policy = NewPolicy {
        name: request.required("PolicyName")?.to_owned(),
        path: request.path()?.to_owned(),
        description: request.form.get("Description").unwrap_or_default().to_owned(),
        document: request.required("PolicyDocument")?.to_owned(),
        tags: request.tags()?,
    };
    let made = request.iam.create_policy(policy).await?;
    Ok(Elements::of("Policy", |element| {
        write(element, &made, 0);
        if !made.tags.is_empty() {
            users::write_tags(element, &made.tags);
        }
    }))
}

pub(super) async fn get(request: &ActionRequest) -> Result<Elements, Fault> {
    let policy = named(request).await?;
    let attached = attachments(&request.iam, &request.iam.search_place().await?)
        .await?
        .get(&policy.id)
        .copied()
        .unwrap_or_default();
    Ok(Elements::of("Policy", |element| {
        write(element, &policy, attached);
        if !policy.description.is_empty() {
            element.text("Description", &policy.description);
        }
        users::write_tags(element, &policy.tags);
    }))
}

pub(super) async fn list(request: &ActionRequest) -> Result<Elements, Fault> {
    let page = request.page()?;
    let scope = request.form.get("Scope").unwrap_or("All");
    if !["All", "AWS", "Local"].contains(&scope) {
        let constraint = "Member must satisfy enum value set: [AWS, Local, All]";
        return Err(Fault::constraint("Scope", scope, constraint));
    }
    let prefix = request.path_prefix()?;
    // Boundaries do not exist.
    if request.form.get("PolicyUsageFilter") == Some("PermissionsBoundary") {
        return Ok(list_page("Policies", [(); 0], |_, ()| {}, None));
    }
    let (found, next) = page_of(&request.iam, scope, prefix, page).await?;
    let counts = attachments(&request.iam, &request.iam.search_place().await?).await?;
    let attached = |policy: &ManagedPolicy| counts.get(&policy.id).copied().unwrap_or_default();
    let only_attached = request.form.get("OnlyAttached") == Some("true");
    let kept = found.iter().filter(|policy| !only_attached || attached(policy) > 0);
    let write = |element: &mut Elements, policy| write(element, policy, attached(policy));
    Ok(list_page("Policies", kept, write, next.as_deref()))
}

/// The beginning of the marker of a page of AWS's policies. No name of a policy has a colon.
const OF_AWS: &str = "aws:";

/// A page of the policies of a scope, and the marker of the next one. Those of the account come first.
async fn page_of(
    iam: &Iam,
    scope: &str,
    prefix: &str,
    page: PageRequest,
) -> Result<(Vec<ManagedPolicy>, Option<String>), Fault> {
    let PageRequest { marker, entries } = page;
    let (mut found, of_aws) = match marker.as_deref().map(|marker| (marker, marker.strip_prefix(OF_AWS))) {
        Some((_, Some(last))) => (Vec::new(), Some(last.to_owned())),
        marker if scope != "AWS" => {
            let own = iam.list_policies(prefix, marker.map(|(marker, _)| marker), entries).await?;
            if own.next.is_some() || scope == "Local" {
                return Ok((own.records, own.next));
            }
            (own.records, None)
        }
        _ => (Vec::new(), None),
    };
    let rest = entries.saturating_sub(found.len());
    let below = aws_policies().iter().filter(|policy| policy.path.starts_with(prefix));
    let mut below = below.filter(|policy| of_aws.as_ref().is_none_or(|last| policy.name > *last)).cloned();
    found.extend(below.by_ref().take(rest));
    let last = found.iter().rfind(|policy| policy.vendor == PolicyVendor::Aws);
    let last = last.map(|policy| policy.name.as_str()).or(of_aws.as_deref()).unwrap_or_default();
    let next = below.next().is_some().then(|| format!("{OF_AWS}{last}"));
    Ok((found, next))
}

pub(super) async fn tag(request: &ActionRequest) -> Result<Elements, Fault> {
    let policy = own(request).await?;
    request.iam.tag_policy(&policy.name, request.tags()?).await?;
    Ok(Elements::default())
}

pub(super) async fn untag(request: &ActionRequest) -> Result<Elements, Fault> {
    let policy = own(request).await?;
    request.iam.untag_policy(&policy.name, request.texts("TagKeys")?).await?;
    Ok(Elements::default())
}

pub(super) async fn list_tags(request: &ActionRequest) -> Result<Elements, Fault> {
    let page = request.page()?;
    Ok(users::tags_page(&page, named(request).await?.tags))
}

pub(super) async fn delete(request: &ActionRequest) -> Result<Elements, Fault> {
    let policy = own(request).await?;
    request.iam.delete_policy(&policy.name).await?;
    Ok(Elements::default())
}

pub(super) async fn list_entities(request: &ActionRequest) -> Result<Elements, Fault> {
    let (filter, prefix, _) = (request.form.get("EntityFilter"), request.path_prefix()?, request.page()?);
    named(request).await?;
    let (users, groups) = request.iam.entities_for_policy(request.policy()?.0).await?;
    let is_asked =
        |kind: &str, path: &str| filter.is_none_or(|filter| filter == kind) && path.starts_with(prefix);
    let mut result = Elements::default();
    let groups = groups.iter().filter(|group| is_asked("Group", &group.path));
    result.list("PolicyGroups", groups, |element, group| {
        element.text("GroupName", &group.name).text("GroupId", group.id.as_str());
    });
    let users = users.iter().filter(|user| is_asked("User", &user.path));
    result.list("PolicyUsers", users, |element, user| {
        element.text("UserName", &user.name).text("UserId", user.id.as_str());
    });
    result.list("PolicyRoles", [(); 0], |_, ()| {});
    end_page(&mut result, None);
    Ok(result)
}
