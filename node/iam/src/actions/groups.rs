//! Groups, and the users in them.

use sherd_core::iam::GroupRecord;

use super::super::answer::Elements;
use super::super::fault::Fault;
use super::super::request::Call;
use super::page::{cut_page, end_page, sort_page};
use super::users;

/// Writes a group.
pub(super) fn write(group: &mut Elements, record: &GroupRecord) {
    group.text("Path", &record.path).text("GroupName", &record.name).text("GroupId", record.id.as_str());
    group.text("Arn", record.arn()).time("CreateDate", record.created_ms);
}

pub(super) async fn create(call: &Call) -> Result<Elements, Fault> {
    let name = call.required("GroupName")?.to_owned();
    let made = call.iam.create_group(name, call.path()?.to_owned()).await?;
    let mut result = Elements::default();
    result.within("Group", |group| write(group, &made));
    Ok(result)
}

pub(super) async fn get(call: &Call) -> Result<Elements, Fault> {
    let (name, page) = (call.required("GroupName")?, call.page()?);
    let record = call.iam.group(name).await?;
    let mut members = call.iam.group_users(name, page.marker.as_deref(), page.entries).await?;
    sort_page(&mut members.records, |user| &user.name);
    let mut result = Elements::default();
    result.within("Group", |group| write(group, &record));
    result.list("Users", &members.records, users::write);
    end_page(&mut result, members.next.as_deref());
    Ok(result)
}

pub(super) async fn list(call: &Call) -> Result<Elements, Fault> {
    let (page, prefix) = (call.page()?, call.path_prefix()?);
    let mut found = call.iam.list_groups(prefix, page.marker.as_deref(), page.entries).await?;
    sort_page(&mut found.records, |group| &group.name);
    let mut result = Elements::default();
    result.list("Groups", &found.records, write);
    end_page(&mut result, found.next.as_deref());
    Ok(result)
}

pub(super) async fn update(call: &Call) -> Result<Elements, Fault> {
    let name = call.required("GroupName")?;
    call.iam.update_group(name, call.update("NewGroupName")?).await?;
    Ok(Elements::default())
}

pub(super) async fn delete(call: &Call) -> Result<Elements, Fault> {
    call.iam.delete_group(call.required("GroupName")?).await?;
    Ok(Elements::default())
}

pub(super) async fn add_user(call: &Call) -> Result<Elements, Fault> {
    call.iam.add_user_to_group(call.required("UserName")?, call.required("GroupName")?).await?;
    Ok(Elements::default())
}

pub(super) async fn remove_user(call: &Call) -> Result<Elements, Fault> {
    call.iam.remove_user_from_group(call.required("UserName")?, call.required("GroupName")?).await?;
    Ok(Elements::default())
}

pub(super) async fn list_for_user(call: &Call) -> Result<Elements, Fault> {
    let (name, page) = (call.required("UserName")?, call.page()?);
    let groups = call.iam.groups_of_user(name).await?;
    let (groups, next) = cut_page(&page, groups, |group| group.name.as_str());
    let mut result = Elements::default();
    result.list("Groups", &groups, write);
    end_page(&mut result, next.as_deref());
    Ok(result)
}
