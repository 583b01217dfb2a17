//! Access keys: the one place where a secret is in an answer is that of CreateAccessKey, and the one where it
//! is in a request that of ImportAccessKey, an action of this server alone.

use http::StatusCode;
use sherd_core::iam::{KeyRecord, KeyStatus};
use sherd_store::iam::{GivenKey, GivenKeyState, UserKeys};

use super::super::answer::Elements;
use super::super::fault::Fault;
use super::super::request::ActionRequest;
use super::page::{cut_page, list_page};

/// The parameter of UpdateAccessKey, of this server alone, by which requests of the key that are under way
/// end.
const END_REQUESTS: &str = "EndRequests";

const fn status_word(status: KeyStatus) -> &'static str {
    match status {
        KeyStatus::Active => "Active",
        KeyStatus::Inactive => "Inactive",
    }
}

fn write(key: &mut Elements, user_name: &str, (record, status): (&KeyRecord, KeyStatus)) {
    key.text("UserName", user_name).text("AccessKeyId", record.id);
    key.text("Status", status_word(status)).time("CreateDate", record.created_ms);
}

pub(super) async fn create(request: &ActionRequest) -> Result<Elements, Fault> {
    let user = request.user_name()?;
    let made = request.iam.create_access_key(user, Some(request.signer())).await?;
    Ok(Elements::of("AccessKey", |key| {
        write(key, &made.user_name, (&made.key, KeyStatus::Active));
        key.text("SecretAccessKey", made.secret.expose());
    }))
}

pub(super) async fn list(request: &ActionRequest) -> Result<Elements, Fault> {
    let (name, page) = (request.user_name()?, request.page()?);
    let UserKeys { user_name, keys } = request.iam.access_keys(name).await?;
    let (keys, next) = cut_page(&page, keys, |(key, _)| key.id.as_str());
    let write = |key: &mut Elements, (record, status): &_| write(key, &user_name, (record, *status));
    Ok(list_page("AccessKeyMetadata", &keys, write, next.as_deref()))
}

/// Gives a user a key of another store, by its id and secret, or with `DryRun=true` looks whether it could.
/// `State` is what was there before: `Free`, the status of the key that the user has, or `OtherSecret`, which
/// the given one replaces in one step with `Replace=true`.
pub(super) async fn import(request: &ActionRequest) -> Result<Elements, Fault> {
    let (user, id) = (request.required("UserName")?, request.required("AccessKeyId")?);
    let mut key = GivenKey::parse(id, request.required("SecretAccessKey")?, status(request)?)?;
    key.replaces = request.form.get("Replace") == Some("true");
    if request.root.get(id).is_some() {
        let message = format!("The Access Key with id {id} is one of root.");
        return Err(Fault::new("EntityAlreadyExists", StatusCode::CONFLICT, message));
    }
    let state = match request.form.get("DryRun") {
        Some("true") => key.find(&request.iam, user).await?,
        _ => key.give(&request.iam, user).await?,
    };
    let mut result = Elements::default();
    result.text(
        "State",
        match state {
            GivenKeyState::Free => "Free",
            GivenKeyState::OtherSecret => "OtherSecret",
            GivenKeyState::Held(status) => status_word(status),
        },
    );
    Ok(result)
}

/// The status that is given.
fn status(request: &ActionRequest) -> Result<KeyStatus, Fault> {
    match request.required("Status")? {
        "Active" => Ok(KeyStatus::Active),
        "Inactive" => Ok(KeyStatus::Inactive),
        given => {
            let constraint = "Member must satisfy enum value set: [Active, Inactive]";
            Err(Fault::constraint("Status", given, constraint))
        }
    }
}

pub(super) async fn update(request: &ActionRequest) -> Result<Elements, Fault> {
    let status = status(request)?;
    let (user, key) = (request.user_name()?, request.access_key_id()?);
    request.iam.set_key_status(user, key, status, Some(request.signer())).await?;
    if status == KeyStatus::Inactive && request.form.get(END_REQUESTS) == Some("true") {
        let unconfirmed = request.iam.end_requests(user, key).await?;
        return Ok(Elements::of_names("UnconfirmedNodes", &unconfirmed));
    }
    Ok(Elements::default())
}

pub(super) async fn delete(request: &ActionRequest) -> Result<Elements, Fault> {
    request.iam.delete_access_key(request.user_name()?, request.access_key_id()?).await?;
    Ok(Elements::default())
}

pub(super) async fn last_used(request: &ActionRequest) -> Result<Elements, Fault> {
    let owner = request.iam.key_owner(request.access_key_id()?).await?;
    let mut result = Elements::default();
    result.text("UserName", &owner.user_name).within("AccessKeyLastUsed", |used| match &owner.last_use {
        Some(last) => {
            used.time("LastUsedDate", last.used_ms);
            used.text("ServiceName", &last.service).text("Region", &last.region);
        }
        None => {
            used.text("ServiceName", "N/A").text("Region", "N/A");
        }
    });
    Ok(result)
}
