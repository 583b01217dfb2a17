//! Managed policies that are attached to users and groups.

use sherd_core::iam::ManagedPolicy;
use sherd_store::iam::ManagedName;

use super::super::answer::Elements;
use super::super::fault::Fault;
use super::super::request::{ActionRequest, NamesOwner};
use super::managed;
use super::page::{cut_page, list_page};

pub(super) async fn attach(request: &ActionRequest, owner: NamesOwner) -> Result<Elements, Fault> {
    let owner = owner(request)?;
    let policy = managed::named(request).await?;
    let ManagedPolicy { vendor, name, .. } = &policy;
    request.iam.attach_policy(owner, ManagedName { vendor: *vendor, name }).await?;
    Ok(Elements::default())
}

pub(super) async fn detach(request: &ActionRequest, owner: NamesOwner) -> Result<Elements, Fault> {
    let owner = owner(request)?;
    let (name, arn) = request.policy()?;
    request.iam.detach_policy(owner, name).await.map_err(|error| {
        let fault = Fault::from(error);
        let is_detached = fault.code == "NoSuchEntity" && fault.message.starts_with("Policy ");
        if is_detached { Fault::no_such_entity(format!("Policy {arn} was not found.")) } else { fault }
    })?;
    Ok(Elements::default())
}

pub(super) async fn list(request: &ActionRequest, owner: NamesOwner) -> Result<Elements, Fault> {
    let owner = owner(request)?;
    let (page, prefix) = (request.page()?, request.path_prefix()?);
    let mut attached = request.iam.attached_policies(owner).await?;
    attached.retain(|policy| policy.path.starts_with(prefix));
    let (attached, next) = cut_page(&page, attached, |policy| policy.name.as_str());
    let write = |element: &mut Elements, policy: &ManagedPolicy| {
        element.text("PolicyName", &policy.name).text("PolicyArn", policy.arn());
    };
    Ok(list_page("AttachedPolicies", &attached, write, next.as_deref()))
}
