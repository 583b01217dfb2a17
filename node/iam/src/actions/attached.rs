//! Managed policies that are attached to users and groups.

use sherd_core::iam::ManagedPolicy;
use sherd_store::iam::{ManagedName, PolicyOwner};

use super::super::answer::Elements;
use super::super::fault::Fault;
use super::super::request::ActionRequest;
use super::managed;
use super::page::{cut_page, end_page};

fn user(request: &ActionRequest) -> Result<PolicyOwner<'_>, Fault> {
    request.required("UserName").map(PolicyOwner::User)
}

fn group(request: &ActionRequest) -> Result<PolicyOwner<'_>, Fault> {
    request.required("GroupName").map(PolicyOwner::Group)
}

pub(super) async fn attach_to_user(request: &ActionRequest) -> Result<Elements, Fault> {
    attach(request, user(request)?).await
}

pub(super) async fn detach_from_user(request: &ActionRequest) -> Result<Elements, Fault> {
    detach(request, user(request)?).await
}

pub(super) async fn list_of_user(request: &ActionRequest) -> Result<Elements, Fault> {
    list(request, user(request)?).await
}

pub(super) async fn attach_to_group(request: &ActionRequest) -> Result<Elements, Fault> {
    attach(request, group(request)?).await
}

pub(super) async fn detach_from_group(request: &ActionRequest) -> Result<Elements, Fault> {
    detach(request, group(request)?).await
}

pub(super) async fn list_of_group(request: &ActionRequest) -> Result<Elements, Fault> {
    list(request, group(request)?).await
}

async fn attach(request: &ActionRequest, owner: PolicyOwner<'_>) -> Result<Elements, Fault> {
    let policy = managed::named(request).await?;
    let ManagedPolicy { vendor, name, .. } = &policy;
    request.iam.attach_policy(owner, ManagedName { vendor: *vendor, name }).await?;
    Ok(Elements::default())
}

async fn detach(request: &ActionRequest, owner: PolicyOwner<'_>) -> Result<Elements, Fault> {
    let (name, arn) = request.policy()?;
    request.iam.detach_policy(owner, name).await.map_err(|error| {
        let fault = Fault::from(error);
        let is_detached = fault.code == "NoSuchEntity" && fault.message.starts_with("Policy ");
        if is_detached { Fault::no_such_entity(format!("Policy {arn} was not found.")) } else { fault }
    })?;
    Ok(Elements::default())
}

async fn list(request: &ActionRequest, owner: PolicyOwner<'_>) -> Result<Elements, Fault> {
    let (page, prefix) = (request.page()?, request.path_prefix()?);
    let mut attached = request.iam.attached_policies(owner).await?;
    attached.retain(|policy| policy.path.starts_with(prefix));
    let (attached, next) = cut_page(&page, attached, |policy| policy.name.as_str());
    let mut result = Elements::default();
    result.list("AttachedPolicies", &attached, |element, policy| {
        element.text("PolicyName", &policy.name).text("PolicyArn", policy.arn());
    });
    end_page(&mut result, next.as_deref());
    Ok(result)
}
