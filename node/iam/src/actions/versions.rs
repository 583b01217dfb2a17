//! Versions of managed policies.

use sherd_core::iam::PolicyVersion;

use super::super::answer::Elements;
use super::super::fault::Fault;
use super::super::request::ActionRequest;
use super::managed;
use super::page::list_page;

/// Writes a version, without its document.
pub(super) fn write(element: &mut Elements, version: &PolicyVersion, default: u32) {
    element.text("VersionId", format_args!("v{}", version.number));
    element.text("IsDefaultVersion", version.number == default).time("CreateDate", version.created_ms);
}

pub(super) async fn create(request: &ActionRequest) -> Result<Elements, Fault> {
    let policy = managed::own(request).await?;
    let (document, is_default) =
        (request.required("PolicyDocument")?, request.form.get("SetAsDefault") == Some("true"));
    let made = request.iam.create_policy_version(&policy.name, document.to_owned(), is_default).await?;
    let mut result = Elements::default();
    let default = if is_default { made.number } else { policy.default };
    result.within("PolicyVersion", |element| write(element, &made, default));
    Ok(result)
}

pub(super) async fn get(request: &ActionRequest) -> Result<Elements, Fault> {
    let number = request.version()?;
    let policy = managed::named(request).await?;
    let version = policy.version(number).ok_or_else(|| {
        let message =
            format!("Policy {} version v{number} does not exist or is not attachable.", policy.arn());
        Fault::no_such_entity(message)
    })?;
    Ok(Elements::of("PolicyVersion", |element| {
        element.document("Document", &version.document);
        write(element, version, policy.default);
    }))
}

pub(super) async fn list(request: &ActionRequest) -> Result<Elements, Fault> {
    request.page()?;
    let policy = managed::named(request).await?;
    let write = |element: &mut Elements, version| write(element, version, policy.default);
    // The newest comes first. There are five at most: one page.
    Ok(list_page("Versions", policy.versions.iter().rev(), write, None))
}

pub(super) async fn set_default(request: &ActionRequest) -> Result<Elements, Fault> {
    let policy = managed::own(request).await?;
    request.iam.set_default_policy_version(&policy.name, request.version()?).await?;
    Ok(Elements::default())
}

pub(super) async fn delete(request: &ActionRequest) -> Result<Elements, Fault> {
    let policy = managed::own(request).await?;
    request.iam.delete_policy_version(&policy.name, request.version()?).await?;
    Ok(Elements::default())
}
