//! Managed policies that are attached to users and groups.

use sherd_core::iam::ManagedPolicy;
use sherd_store::iam::{ManagedName, PolicyOwner};

use super::super::answer::Elements;
use super::super::fault::Fault;
use super::super::request::Call;
use super::managed;
use super::page::{cut_page, end_page};

fn user(call: &Call) -> Result<PolicyOwner<'_>, Fault> {
    call.required("UserName").map(PolicyOwner::User)
}

fn group(call: &Call) -> Result<PolicyOwner<'_>, Fault> {
    call.required("GroupName").map(PolicyOwner::Group)
}

pub(super) async fn attach_to_user(call: &Call) -> Result<Elements, Fault> {
    attach(call, user(call)?).await
}

pub(super) async fn detach_from_user(call: &Call) -> Result<Elements, Fault> {
    detach(call, user(call)?).await
}

pub(super) async fn list_of_user(call: &Call) -> Result<Elements, Fault> {
    list(call, user(call)?).await
}

pub(super) async fn attach_to_group(call: &Call) -> Result<Elements, Fault> {
    attach(call, group(call)?).await
}

pub(super) async fn detach_from_group(call: &Call) -> Result<Elements, Fault> {
    detach(call, group(call)?).await
}

pub(super) async fn list_of_group(call: &Call) -> Result<Elements, Fault> {
    list(call, group(call)?).await
}

async fn attach(call: &Call, owner: PolicyOwner<'_>) -> Result<Elements, Fault> {
    let policy = managed::named(call).await?;
    let ManagedPolicy { vendor, name, .. } = &policy;
    call.iam.attach_policy(owner, ManagedName { vendor: *vendor, name }).await?;
    Ok(Elements::default())
}

async fn detach(call: &Call, owner: PolicyOwner<'_>) -> Result<Elements, Fault> {
    let (name, arn) = call.policy()?;
    call.iam.detach_policy(owner, name).await.map_err(|error| {
        let fault = Fault::from(error);
        let is_detached = fault.code == "NoSuchEntity" && fault.message.starts_with("Policy ");
        if is_detached { Fault::no_such_entity(format!("Policy {arn} was not found.")) } else { fault }
    })?;
    Ok(Elements::default())
}

async fn list(call: &Call, owner: PolicyOwner<'_>) -> Result<Elements, Fault> {
    let (page, prefix) = (call.page()?, call.path_prefix()?);
    let mut attached = call.iam.attached_policies(owner).await?;
    attached.retain(|policy| policy.path.starts_with(prefix));
    let (attached, next) = cut_page(&page, attached, |policy| policy.name.as_str());
    let mut result = Elements::default();
    result.list("AttachedPolicies", &attached, |element, policy| {
        element.text("PolicyName", &policy.name).text("PolicyArn", policy.arn());
    });
    end_page(&mut result, next.as_deref());
    Ok(result)
}
