//! Users: made, read, listed, changed, deleted, tagged.

use sherd_core::iam::UserRecord;
use sherd_core::record::Tag;
use sherd_policy::{ACCOUNT, ROOT_ARN};
use sherd_store::iam::NewUser;

use super::super::answer::Elements;
use super::super::fault::Fault;
use super::super::request::{ActionRequest, PageRequest};
use super::page::{cut_page, list_page, sort_page};

/// Writes a user.
pub(super) fn write(user: &mut Elements, record: &UserRecord) {
    user.text("Path", &record.path).text("UserName", &record.name).text("UserId", record.id.as_str());
    user.text("Arn", record.arn()).time("CreateDate", record.created_ms);
}

/// Writes tags.
pub(super) fn write_tags(result: &mut Elements, tags: &[Tag]) {
    result.list("Tags", tags, write_tag);
}

/// A page of tags.
pub(super) fn tags_page(page: &PageRequest, tags: Vec<Tag>) -> Elements {
    let (tags, next) = cut_page(page, tags, |tag| tag.key.as_str());
    list_page("Tags", &tags, write_tag, next.as_deref())
}

fn write_tag(member: &mut Elements, tag: &Tag) {
    member.text("Key", &tag.key).text("Value", &tag.value);
}

pub(super) async fn create(request: &ActionRequest) -> Result<Elements, Fault> {
    let name = request.required("UserName")?.to_owned();
    if request.form.get("PermissionsBoundary").is_some() {
        return Err(Fault::not_implemented("PermissionsBoundary"));
    }
    let user = NewUser { name, path: request.path()?.to_owned(), tags: request.tags()? };
    let made = request.iam.create_user(user).await?;
    Ok(of_user(&made))
}

pub(super) async fn get(request: &ActionRequest) -> Result<Elements, Fault> {
    if request.form.get("UserName").is_none() && request.own_name().is_none() {
        let mut result = Elements::default();
        result.within("User", |user| {
            user.text("Path", "/").text("UserId", ACCOUNT).text("Arn", ROOT_ARN).time("CreateDate", 0);
        });
        return Ok(result);
    }
    Ok(of_user(&request.iam.user(request.user_name()?).await?))
}

fn of_user(record: &UserRecord) -> Elements {
    let mut result = Elements::default();
    result.within("User", |user| {
        write(user, record);
        if !record.tags.is_empty() {
            write_tags(user, &record.tags);
        }
    });
    result
}

pub(super) async fn list(request: &ActionRequest) -> Result<Elements, Fault> {
    let (page, prefix) = (request.page()?, request.path_prefix()?);
    let mut found = request.iam.list_users(prefix, page.marker.as_deref(), page.entries).await?;
    sort_page(&mut found.records, |user| &user.name);
    Ok(list_page("Users", &found.records, write, found.next.as_deref()))
}

pub(super) async fn update(request: &ActionRequest) -> Result<Elements, Fault> {
    let name = request.required("UserName")?;
    request.iam.update_user(name, request.update("NewUserName")?).await?;
    Ok(Elements::default())
}

pub(super) async fn delete(request: &ActionRequest) -> Result<Elements, Fault> {
    request.iam.delete_user(request.required("UserName")?).await?;
    Ok(Elements::default())
}

pub(super) async fn tag(request: &ActionRequest) -> Result<Elements, Fault> {
    let name = request.required("UserName")?;
    check_members(request, "Tags")?;
    request.iam.tag_user(name, request.tags()?).await?;
    Ok(Elements::default())
}

pub(super) async fn untag(request: &ActionRequest) -> Result<Elements, Fault> {
    let name = request.required("UserName")?;
    check_members(request, "TagKeys")?;
    request.iam.untag_user(name, request.texts("TagKeys")?).await?;
    Ok(Elements::default())
}

/// Refuses a request whose list is missing or empty.
fn check_members(request: &ActionRequest, list: &str) -> Result<(), Fault> {
    match request.form.get(list) {
        _ if request.form.members(list) > 0 => Ok(()),
        Some(_) => Err(Fault::invalid_input(format!("{list} is empty."))),
        None => Err(Fault::missing(list)),
    }
}

pub(super) async fn list_tags(request: &ActionRequest) -> Result<Elements, Fault> {
    let (name, page) = (request.required("UserName")?, request.page()?);
    let user = request.iam.user(name).await?;
    Ok(tags_page(&page, user.tags))
}
