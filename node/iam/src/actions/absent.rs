//! Roles, providers, passwords, devices and certificates, which accounts and users of AWS may have and those
//! here do not. Tools ask for them before they delete a user, or to list everything, and get the answer of
//! AWS for an account or a user without any.

use super::super::answer::Elements;
use super::super::fault::Fault;
use super::super::request::ActionRequest;
use super::page::end_page;

/// An empty list.
fn empty(list: &str, is_paged: bool) -> Elements {
    let mut result = Elements::default();
    result.list(list, [(); 0], |_, ()| {});
    if is_paged {
        end_page(&mut result, None);
    }
    result
}

/// An empty list, of a user that exists.
async fn empty_of_user(request: &ActionRequest, list: &str, is_paged: bool) -> Result<Elements, Fault> {
    request.page()?;
    request.iam.user(request.user_name()?).await?;
    Ok(empty(list, is_paged))
}

pub(super) async fn account_aliases(request: &ActionRequest) -> Result<Elements, Fault> {
    request.page()?;
    Ok(empty("AccountAliases", true))
}

pub(super) async fn virtual_mfa_devices(request: &ActionRequest) -> Result<Elements, Fault> {
    request.page()?;
    Ok(empty("VirtualMFADevices", true))
}

pub(super) async fn roles(request: &ActionRequest) -> Result<Elements, Fault> {
    request.page()?;
    Ok(empty("Roles", true))
}

pub(super) async fn instance_profiles(request: &ActionRequest) -> Result<Elements, Fault> {
    request.page()?;
    Ok(empty("InstanceProfiles", true))
}

pub(super) async fn server_certificates(request: &ActionRequest) -> Result<Elements, Fault> {
    request.page()?;
    Ok(empty("ServerCertificateMetadataList", true))
}

pub(super) async fn saml_providers(_: &ActionRequest) -> Result<Elements, Fault> {
    Ok(empty("SAMLProviderList", false))
}

pub(super) async fn open_id_connect_providers(_: &ActionRequest) -> Result<Elements, Fault> {
    Ok(empty("OpenIDConnectProviderList", false))
}

pub(super) async fn mfa_devices(request: &ActionRequest) -> Result<Elements, Fault> {
    empty_of_user(request, "MFADevices", true).await
}

pub(super) async fn signing_certificates(request: &ActionRequest) -> Result<Elements, Fault> {
    empty_of_user(request, "Certificates", true).await
}

pub(super) async fn ssh_public_keys(request: &ActionRequest) -> Result<Elements, Fault> {
    empty_of_user(request, "SSHPublicKeys", true).await
}

pub(super) async fn service_specific_credentials(request: &ActionRequest) -> Result<Elements, Fault> {
    empty_of_user(request, "ServiceSpecificCredentials", false).await
}

pub(super) async fn login_profile(request: &ActionRequest) -> Result<Elements, Fault> {
    let name = request.user_name()?;
    request.iam.user(name).await?;
    Err(Fault::no_such_entity(format!("Login Profile for User {name} cannot be found.")))
}
