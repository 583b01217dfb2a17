//! Inline policies of users and of groups.

use sherd_core::iam::PolicySet;
use sherd_store::iam::PolicyOwner;

use super::super::answer::Elements;
use super::super::fault::Fault;
use super::super::request::ActionRequest;
use super::page::{cut_page, end_page};

fn user(request: &ActionRequest) -> Result<PolicyOwner<'_>, Fault> {
    request.required("UserName").map(PolicyOwner::User)
}

fn group(request: &ActionRequest) -> Result<PolicyOwner<'_>, Fault> {
    request.required("GroupName").map(PolicyOwner::Group)
}

pub(super) async fn put_of_user(request: &ActionRequest) -> Result<Elements, Fault> {
    put(request, user(request)?).await
}

pub(super) async fn get_of_user(request: &ActionRequest) -> Result<Elements, Fault> {
    get(request, user(request)?).await
}

pub(super) async fn list_of_user(request: &ActionRequest) -> Result<Elements, Fault> {
    list(request, user(request)?).await
}

pub(super) async fn delete_of_user(request: &ActionRequest) -> Result<Elements, Fault> {
    delete(request, user(request)?).await
}

pub(super) async fn put_of_group(request: &ActionRequest) -> Result<Elements, Fault> {
    put(request, group(request)?).await
}

pub(super) async fn get_of_group(request: &ActionRequest) -> Result<Elements, Fault> {
    get(request, group(request)?).await
}

pub(super) async fn list_of_group(request: &ActionRequest) -> Result<Elements, Fault> {
    list(request, group(request)?).await
}

pub(super) async fn delete_of_group(request: &ActionRequest) -> Result<Elements, Fault> {
    delete(request, group(request)?).await
}

/// The policies of an owner, and its name as it is capitalised.
async fn policies_of(request: &ActionRequest, owner: PolicyOwner<'_>) -> Result<(String, PolicySet), Fault> {
    Ok(match owner {
        PolicyOwner::User(name) => {
            let user = request.iam.user(name).await?;
            (user.name, user.policies)
        }
        PolicyOwner::Group(name) => {
            let group = request.iam.group(name).await?;
            (group.name, group.policies)
        }
    })
}

async fn put(request: &ActionRequest, owner: PolicyOwner<'_>) -> Result<Elements, Fault> {
    let (name, document) = (request.required("PolicyName")?, request.required("PolicyDocument")?);
    request.iam.put_inline_policy(owner, name.to_owned(), document.to_owned()).await?;
    Ok(Elements::default())
}

async fn get(request: &ActionRequest, owner: PolicyOwner<'_>) -> Result<Elements, Fault> {
    let asked = request.required("PolicyName")?;
    let (name, policies) = policies_of(request, owner).await?;
    let found = policies.inline.into_iter().find(|policy| policy.name.eq_ignore_ascii_case(asked));
    let (kind, element) = match owner {
        PolicyOwner::User(_) => ("user", "UserName"),
        PolicyOwner::Group(_) => ("group", "GroupName"),
    };
    let found = found.ok_or_else(|| {
        Fault::no_such_entity(format!("The {kind} policy with name {asked} cannot be found."))
    })?;
    let mut result = Elements::default();
    result.text(element, name).text("PolicyName", &found.name).document("PolicyDocument", &found.document);
    Ok(result)
}

async fn list(request: &ActionRequest, owner: PolicyOwner<'_>) -> Result<Elements, Fault> {
    let page = request.page()?;
    let (_, policies) = policies_of(request, owner).await?;
    let (found, next) = cut_page(&page, policies.inline, |policy| policy.name.as_str());
    let mut result = Elements::default();
    result.within("PolicyNames", |names| {
        for policy in &found {
            names.text("member", &policy.name);
        }
    });
    end_page(&mut result, next.as_deref());
    Ok(result)
}

async fn delete(request: &ActionRequest, owner: PolicyOwner<'_>) -> Result<Elements, Fault> {
    request.iam.delete_inline_policy(owner, request.required("PolicyName")?).await?;
    Ok(Elements::default())
}
