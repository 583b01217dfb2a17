//! Inline policies of users and of groups.

use sherd_core::iam::PolicySet;
use sherd_store::iam::PolicyOwner;

use super::super::answer::Elements;
use super::super::fault::Fault;
use super::super::request::{ActionRequest, NamesOwner};
use super::page::{cut_page, end_page};

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

pub(super) async fn put(request: &ActionRequest, owner: NamesOwner) -> Result<Elements, Fault> {
    let owner = owner(request)?;
    let (name, document) = (request.required("PolicyName")?, request.required("PolicyDocument")?);
    request.iam.put_inline_policy(owner, name.to_owned(), document.to_owned()).await?;
    Ok(Elements::default())
}

pub(super) async fn get(request: &ActionRequest, owner: NamesOwner) -> Result<Elements, Fault> {
    let owner = owner(request)?;
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

pub(super) async fn list(request: &ActionRequest, owner: NamesOwner) -> Result<Elements, Fault> {
    let owner = owner(request)?;
    let page = request.page()?;
    let (_, policies) = policies_of(request, owner).await?;
    let (found, next) = cut_page(&page, policies.inline, |policy| policy.name.as_str());
    let mut result = Elements::of_names("PolicyNames", found.iter().map(|policy| &policy.name));
    end_page(&mut result, next.as_deref());
    Ok(result)
}

pub(super) async fn delete(request: &ActionRequest, owner: NamesOwner) -> Result<Elements, Fault> {
    let owner = owner(request)?;
    request.iam.delete_inline_policy(owner, request.required("PolicyName")?).await?;
    Ok(Elements::default())
}
