//! Groups, and the users in them.

use sherd_core::iam::GroupRecord;

use super::super::answer::Elements;
use super::super::fault::Fault;
use super::super::request::ActionRequest;
use super::page::{cut_page, end_page, list_page, sort_page};
use super::users;

/// Writes a group.
pub(super) fn write(group: &mut Elements, record: &GroupRecord) {
    group.text("Path", &record.path).text("GroupName", &record.name).text("GroupId", record.id.as_str());
    group.text("Arn", record.arn()).time("CreateDate", record.created_ms);
}

pub(super) async fn create(request: &ActionRequest) -> Result<Elements, Fault> {
    let name = request.required("GroupName")?.to_owned();
    let made = request.iam.create_group(name, request.path()?.to_owned()).await?;
    Ok(Elements::of("Group", |group| write(group, &made)))
}

pub(super) async fn get(request: &ActionRequest) -> Result<Elements, Fault> {
    let (name, page) = (request.required("GroupName")?, request.page()?);
    let record = request.iam.group(name).await?;
    let mut members = request.iam.group_users(name, page.marker.as_deref(), page.entries).await?;
    sort_page(&mut members.records, |user| &user.name);
    let mut result = Elements::default();
    result.within("Group", |group| write(group, &record));
    result.list("Users", &members.records, users::write);
    end_page(&mut result, members.next.as_deref());
    Ok(result)
}

pub(super) async fn list(request: &ActionRequest) -> Result<Elements, Fault> {
    let (page, prefix) = (request.page()?, request.path_prefix()?);
    let mut found = request.iam.list_groups(prefix, page.marker.as_deref(), page.entries).await?;
    sort_page(&mut found.records, |group| &group.name);
    Ok(list_page("Groups", &found.records, write, found.next.as_deref()))
}

pub(super) async fn update(request: &ActionRequest) -> Result<Elements, Fault> {
    let name = request.required("GroupName")?;
    request.iam.update_group(name, request.update("NewGroupName")?).await?;
    Ok(Elements::default())
}

pub(super) async fn delete(request: &ActionRequest) -> Result<Elements, Fault> {
    request.iam.delete_group(request.required("GroupName")?).await?;
    Ok(Elements::default())
}

pub(super) async fn add_user(request: &ActionRequest) -> Result<Elements, Fault> {
    request.iam.add_user_to_group(request.required("UserName")?, request.required("GroupName")?).await?;
    Ok(Elements::default())
}

pub(super) async fn remove_user(request: &ActionRequest) -> Result<Elements, Fault> {
    request.iam.remove_user_from_group(request.required("UserName")?, request.required("GroupName")?).await?;
    Ok(Elements::default())
}

pub(super) async fn list_for_user(request: &ActionRequest) -> Result<Elements, Fault> {
    let (name, page) = (request.required("UserName")?, request.page()?);
    let groups = request.iam.groups_of_user(name).await?;
    let (groups, next) = cut_page(&page, groups, |group| group.name.as_str());
    Ok(list_page("Groups", &groups, write, next.as_deref()))
}
