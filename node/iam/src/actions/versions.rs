//! Versions of managed policies.

use sherd_core::iam::PolicyVersion;

use super::super::answer::Elements;
use super::super::fault::Fault;
use super::super::request::Call;
use super::managed;
use super::page::end_page;

/// Writes a version, without its document.
pub(super) fn write(element: &mut Elements, version: &PolicyVersion, default: u32) {
    element.text("VersionId", format_args!("v{}", version.number));
    element.text("IsDefaultVersion", version.number == default).time("CreateDate", version.created_ms);
}

pub(super) async fn create(call: &Call) -> Result<Elements, Fault> {
    let policy = managed::own(call).await?;
    let (document, is_default) =
        (call.required("PolicyDocument")?, call.form.get("SetAsDefault") == Some("true"));
    let made = call.iam.create_policy_version(&policy.name, document.to_owned(), is_default).await?;
    let mut result = Elements::default();
    let default = if is_default { made.number } else { policy.default };
    result.within("PolicyVersion", |element| write(element, &made, default));
    Ok(result)
}

pub(super) async fn get(call: &Call) -> Result<Elements, Fault> {
    let number = call.version()?;
    let policy = managed::named(call).await?;
    let version = policy.version(number).ok_or_else(|| {
        let message =
            format!("Policy {} version v{number} does not exist or is not attachable.", policy.arn());
        Fault::no_such_entity(message)
    })?;
    let mut result = Elements::default();
    result.within("PolicyVersion", |element| {
        element.document("Document", &version.document);
        write(element, version, policy.default);
    });
    Ok(result)
}

pub(super) async fn list(call: &Call) -> Result<Elements, Fault> {
    call.page()?;
    let policy = managed::named(call).await?;
    let mut result = Elements::default();
    // The newest comes first. There are five at most: one page.
    result.list("Versions", policy.versions.iter().rev(), |element, version| {
        write(element, version, policy.default);
    });
    end_page(&mut result, None);
    Ok(result)
}

pub(super) async fn set_default(call: &Call) -> Result<Elements, Fault> {
    let policy = managed::own(call).await?;
    call.iam.set_default_policy_version(&policy.name, call.version()?).await?;
    Ok(Elements::default())
}

pub(super) async fn delete(call: &Call) -> Result<Elements, Fault> {
    let policy = managed::own(call).await?;
    call.iam.delete_policy_version(&policy.name, call.version()?).await?;
    Ok(Elements::default())
}
