//! Inline policies of users and of groups.

use sherd_core::iam::PolicySet;
use sherd_store::iam::PolicyOwner;

use super::super::answer::Elements;
use super::super::fault::Fault;
use super::super::request::Call;
use super::page::{cut_page, end_page};

fn user(call: &Call) -> Result<PolicyOwner<'_>, Fault> {
    call.required("UserName").map(PolicyOwner::User)
}

fn group(call: &Call) -> Result<PolicyOwner<'_>, Fault> {
    call.required("GroupName").map(PolicyOwner::Group)
}

pub(super) async fn put_of_user(call: &Call) -> Result<Elements, Fault> {
    put(call, user(call)?).await
}

pub(super) async fn get_of_user(call: &Call) -> Result<Elements, Fault> {
    get(call, user(call)?).await
}

pub(super) async fn list_of_user(call: &Call) -> Result<Elements, Fault> {
    list(call, user(call)?).await
}

pub(super) async fn delete_of_user(call: &Call) -> Result<Elements, Fault> {
    delete(call, user(call)?).await
}

pub(super) async fn put_of_group(call: &Call) -> Result<Elements, Fault> {
    put(call, group(call)?).await
}

pub(super) async fn get_of_group(call: &Call) -> Result<Elements, Fault> {
    get(call, group(call)?).await
}

pub(super) async fn list_of_group(call: &Call) -> Result<Elements, Fault> {
    list(call, group(call)?).await
}

pub(super) async fn delete_of_group(call: &Call) -> Result<Elements, Fault> {
    delete(call, group(call)?).await
}

/// The policies of an owner, and its name as it is capitalised.
async fn policies_of(call: &Call, owner: PolicyOwner<'_>) -> Result<(String, PolicySet), Fault> {
    Ok(match owner {
        PolicyOwner::User(name) => {
            let user = call.iam.user(name).await?;
            (user.name, user.policies)
        }
        PolicyOwner::Group(name) => {
            let group = call.iam.group(name).await?;
            (group.name, group.policies)
        }
    })
}

async fn put(call: &Call, owner: PolicyOwner<'_>) -> Result<Elements, Fault> {
    let (name, document) = (call.required("PolicyName")?, call.required("PolicyDocument")?);
    call.iam.put_inline_policy(owner, name.to_owned(), document.to_owned()).await?;
    Ok(Elements::default())
}

async fn get(call: &Call, owner: PolicyOwner<'_>) -> Result<Elements, Fault> {
    let asked = call.required("PolicyName")?;
    let (name, policies) = policies_of(call, owner).await?;
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

async fn list(call: &Call, owner: PolicyOwner<'_>) -> Result<Elements, Fault> {
    let page = call.page()?;
    let (_, policies) = policies_of(call, owner).await?;
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

async fn delete(call: &Call, owner: PolicyOwner<'_>) -> Result<Elements, Fault> {
    call.iam.delete_inline_policy(owner, call.required("PolicyName")?).await?;
    Ok(Elements::default())
}
