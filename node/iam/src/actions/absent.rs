//! Roles, providers, passwords, devices and certificates, which accounts and users of AWS may have and those
//! here do not. Tools ask for them before they delete a user, or to list everything, and get the answer of
//! AWS for an account or a user without any.

use super::super::answer::Elements;
use super::super::fault::Fault;
use super::super::request::ActionRequest;
use super::page::list_page;

/// An empty list of the account, in pages.
pub(super) async fn list(request: &ActionRequest, list: &str) -> Result<Elements, Fault> {
    request.page()?;
    Ok(list_page(list, [(); 0], |_, ()| {}, None))
}

/// An empty list of the account, without pages.
pub(super) async fn whole_list(_: &ActionRequest, list: &str) -> Result<Elements, Fault> {
    Ok(Elements::of(list, |_| {}))
}

/// An empty list of a user that exists, in pages.
pub(super) async fn list_of_user(request: &ActionRequest, list: &str) -> Result<Elements, Fault> {
    whole_list_of_user(request, list).await?;
    self::list(request, list).await
}

/// An empty list of a user that exists, without pages.
pub(super) async fn whole_list_of_user(request: &ActionRequest, list: &str) -> Result<Elements, Fault> {
    request.page()?;
    request.iam.user(request.user_name()?).await?;
    whole_list(request, list).await
}

pub(super) async fn login_profile(request: &ActionRequest) -> Result<Elements, Fault> {
    let name = request.user_name()?;
    request.iam.user(name).await?;
    Err(Fault::no_such_entity(format!("Login Profile for User {name} cannot be found.")))
}
