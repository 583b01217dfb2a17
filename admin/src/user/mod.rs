//! `sherd-node user`: users, their access keys and their policies, for people, over a connection with a
//! certificate of an operator or an admin.
//!
//! Each command is one or a few actions of IAM's query API. `args` says which commands there are, `calls`
//! speaks with the node, `xml` reads its answers, `document` makes policies, `why` explains decisions.

mod args;
pub mod calls;
mod document;
mod error;
mod limits;
mod output;
mod why;
pub mod xml;

pub use self::args::UserArgs;
pub use self::error::UserError;

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Value, json};

use self::args::{
    Attachment, CommonArgs, DocumentArgs, KeyCommand, OneKey, OnePolicy, PolicyCommand, UserCommand, WhyArgs,
};
use self::calls::{Calls, unescaped};
use self::document::document;
use self::limits::LISTINGS_MAX;
use self::output::{CommandOutput, TEXT};
use self::xml::Element;
use crate::ask::RequestClient;
use crate::plain::{plain, plain_lines};

impl<C: Args> UserArgs<C> {
    /// The arguments by which the cluster is reached.
    pub const fn connection(&self) -> &C {
        &self.common().connection
    }

    /// Runs the command by requests to a node, which errors name by `address`, and gives what is to be
    /// printed.
    ///
    /// # Errors
    /// [`UserError`]: refused, for a reason, or not answered.
    pub async fn run(&self, client: RequestClient, address: String) -> Result<String, UserError> {
        let mut calls = Calls::new(client, address);
        let printed = match &self.command {
            UserCommand::Add { name, path, with_key, .. } => add(&mut calls, name, path, *with_key).await?,
            UserCommand::List { .. } => {
                let users = calls.list("ListUsers", "Users", &[]).await?;
                table("Users", &users, &["UserName", "UserId", "CreateDate", "Arn"])
            }
            UserCommand::Disable { name, now, .. } => {
                set_all(&mut calls, name, KeyChange::Inactive { now: *now }).await?
            }
            UserCommand::Enable { name, .. } => set_all(&mut calls, name, KeyChange::Active).await?,
            UserCommand::Delete { name, force, .. } => {
                if *force {
                    strip(&mut calls, name).await?;
                }
                calls.call("DeleteUser", &[("UserName", name)]).await?;
                said(&format!("deleted user {name}\n"))
            }
            UserCommand::Why(question) => why::why(&mut calls, question).await?,
            UserCommand::Key(command) => key(&mut calls, command).await?,
            UserCommand::Policy(command) => policy(&mut calls, command).await?,
        };
        Ok(if self.common().json { printed.json_line() } else { printed.text })
    }

    /// The arguments that all commands have.
    const fn common(&self) -> &CommonArgs<C> {
        match &self.command {
            UserCommand::Add { asked, .. }
            | UserCommand::List { asked }
            | UserCommand::Disable { asked, .. }
            | UserCommand::Enable { asked, .. }
            | UserCommand::Delete { asked, .. }
            | UserCommand::Why(WhyArgs { asked, .. })
            | UserCommand::Key(
                KeyCommand::Add { asked, .. }
                | KeyCommand::List { asked, .. }
                | KeyCommand::Disable { key: OneKey { asked, .. }, .. }
                | KeyCommand::Enable(OneKey { asked, .. })
                | KeyCommand::Delete(OneKey { asked, .. }),
            )
            | UserCommand::Policy(
                PolicyCommand::Put { asked, .. }
                | PolicyCommand::List { asked, .. }
                | PolicyCommand::Show(OnePolicy { asked, .. })
                | PolicyCommand::Delete(OnePolicy { asked, .. })
                | PolicyCommand::Attach(Attachment { asked, .. })
                | PolicyCommand::Detach(Attachment { asked, .. }),
            ) => asked,
        }
    }
}

async fn add(calls: &mut Calls, name: &str, path: &str, with_key: bool) -> Result<CommandOutput, UserError> {
    let made = calls.call("CreateUser", &[("UserName", name), ("Path", path)]).await?;
    let mut printed = said(&format!("made user {name}\n"));
    printed.json = made.json();
    if with_key {
        let key = new_key(calls, name).await?;
        printed.text += &key.text;
        printed.json["AccessKey"] = key.json["AccessKey"].clone();
    }
    Ok(printed)
}

/// Makes a key: the one time that its secret is printed.
async fn new_key(calls: &mut Calls, user: &str) -> Result<CommandOutput, UserError> {
    let made = calls.call("CreateAccessKey", &[("UserName", user)]).await?;
    let key = made.child("AccessKey").cloned().unwrap_or_default();
    let (id, secret) = (key.text("AccessKeyId"), key.text("SecretAccessKey"));
    let text = plain_lines(&format!("AWS_ACCESS_KEY_ID={id}\nAWS_SECRET_ACCESS_KEY={secret}\n"));
    Ok(CommandOutput { text, json: made.json() })
}

/// The status that keys are to have.
#[derive(Debug, Clone, Copy)]
enum KeyChange {
    Active,
    /// `now`: their requests under way end, too.
    Inactive {
        now: bool,
    },
}

impl KeyChange {
    const fn status(self) -> &'static str {
        match self {
            Self::Active => "Active",
            Self::Inactive { .. } => "Inactive",
        }
    }

    /// The words for a key that was changed.
    const fn words(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Inactive { now: false } => "inactive",
            Self::Inactive { now: true } => "inactive, and its requests under way have ended",
        }
    }
}

/// Sets the status of all keys of a user, and lists them again until they have it: the user may be making
/// others meanwhile. Keys that have it are set, too: a command before this one may have ended between its
/// change and the word to all nodes.
async fn set_all(calls: &mut Calls, user: &str, change: KeyChange) -> Result<CommandOutput, UserError> {
    let (mut text, mut not_ended) = (String::new(), None);
    for round in 0..LISTINGS_MAX {
        let keys = calls.list("ListAccessKeys", "AccessKeyMetadata", &[("UserName", user)]).await?;
        let mut is_done = true;
        for key in &keys {
            let (id, known) = (key.text("AccessKeyId"), key.text("Status"));
            let said = format!("access key {id} of {user} is {}\n", change.words());
            if known != change.status() || round == 0 {
                is_done &= known == change.status();
                match set_status(calls, user, id, change).await {
                    // The user deleted it meanwhile.
                    Err(UserError::Refused { code, .. }) if code == "NoSuchEntity" => continue,
                    // The other keys are made inactive first.
                    Err(error @ UserError::NotEnded { .. }) => {
                        not_ended = Some(error);
                        continue;
                    }
                    set => set?,
                }
            }
            if !text.contains(&said) {
                text += &said;
            }
        }
        if is_done && let Some(error) = not_ended {
            return Err(error);
        }
        if is_done {
            let none = || format!("user {user} has no access keys\n");
            return Ok(said(&if text.is_empty() { none() } else { text }));
        }
    }
    Err(UserError::KeysChange { user: user.to_owned() })
}

async fn set_status(calls: &mut Calls, user: &str, key: &str, change: KeyChange) -> Result<(), UserError> {
    let mut parameters = vec![("UserName", user), ("AccessKeyId", key), ("Status", change.status())];
    if matches!(change, KeyChange::Inactive { now: true }) {
        parameters.push(("EndRequests", "true"));
    }
    let set = calls.call("UpdateAccessKey", &parameters).await?;
    let nodes: Vec<&str> = set.members("UnconfirmedNodes").iter().map(Element::own_text).collect();
    if nodes.is_empty() { Ok(()) } else { Err(UserError::NotEnded { nodes: nodes.join(", ") }) }
}

/// Takes from a user all that keeps it from being deleted.
async fn strip(calls: &mut Calls, user: &str) -> Result<(), UserError> {
    let named = [("UserName", user)];
    for key in calls.list("ListAccessKeys", "AccessKeyMetadata", &named).await? {
        let parameters = [named[0], ("AccessKeyId", key.text("AccessKeyId"))];
        calls.call("DeleteAccessKey", &parameters).await?;
    }
    for policy in calls.list("ListUserPolicies", "PolicyNames", &named).await? {
        calls.call("DeleteUserPolicy", &[named[0], ("PolicyName", policy.own_text())]).await?;
    }
    for policy in calls.list("ListAttachedUserPolicies", "AttachedPolicies", &named).await? {
        calls.call("DetachUserPolicy", &[named[0], ("PolicyArn", policy.text("PolicyArn"))]).await?;
    }
    for group in calls.list("ListGroupsForUser", "Groups", &named).await? {
        calls.call("RemoveUserFromGroup", &[named[0], ("GroupName", group.text("GroupName"))]).await?;
    }
    Ok(())
}

async fn key<C: Args>(calls: &mut Calls, command: &KeyCommand<C>) -> Result<CommandOutput, UserError> {
    Ok(match command {
        KeyCommand::Add { user, .. } => new_key(calls, user).await?,
        KeyCommand::List { user, .. } => {
            let keys = calls.list("ListAccessKeys", "AccessKeyMetadata", &[("UserName", user)]).await?;
            table("AccessKeyMetadata", &keys, &["AccessKeyId", "Status", "CreateDate"])
        }
        KeyCommand::Disable { key: OneKey { user, key_id, .. }, now } => {
            let change = KeyChange::Inactive { now: *now };
            set_status(calls, user, key_id, change).await?;
            said(&format!("access key {key_id} of {user} is {}\n", change.words()))
        }
        KeyCommand::Enable(OneKey { user, key_id, .. }) => {
            set_status(calls, user, key_id, KeyChange::Active).await?;
            said(&format!("access key {key_id} of {user} is active\n"))
        }
        KeyCommand::Delete(OneKey { user, key_id, .. }) => {
            calls.call("DeleteAccessKey", &[("UserName", user), ("AccessKeyId", key_id)]).await?;
            said(&format!("deleted access key {key_id} of {user}\n"))
        }
    })
}

async fn policy<C: Args>(calls: &mut Calls, command: &PolicyCommand<C>) -> Result<CommandOutput, UserError> {
    Ok(match command {
        PolicyCommand::Put { user, policy, document, .. } => put(calls, user, policy, document).await?,
        PolicyCommand::List { user, .. } => {
            let named = [("UserName", user.as_str())];
            let own = calls.list("ListUserPolicies", "PolicyNames", &named).await?;
            let attached = calls.list("ListAttachedUserPolicies", "AttachedPolicies", &named).await?;
            let own: Vec<&str> = own.iter().map(Element::own_text).collect();
            let attached: Vec<&str> = attached.iter().map(|policy| policy.text("PolicyArn")).collect();
            let text =
                own.iter().chain(&attached).fold(String::new(), |text, name| text + &plain(name) + "\n");
            CommandOutput { text, json: json!({"PolicyNames": own, "AttachedPolicies": attached}) }
        }
        PolicyCommand::Show(OnePolicy { user, policy, .. }) => {
            let found = calls.call("GetUserPolicy", &[("UserName", user), ("PolicyName", policy)]).await?;
            let text = unescaped(found.text("PolicyDocument"));
            let json = serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text.clone()));
            CommandOutput { text: plain_lines(&text) + "\n", json }
        }
        PolicyCommand::Delete(OnePolicy { user, policy, .. }) => {
            calls.call("DeleteUserPolicy", &[("UserName", user), ("PolicyName", policy)]).await?;
            said(&format!("deleted policy {policy} of {user}\n"))
        }
        PolicyCommand::Attach(Attachment { user, policy_arn, .. }) => {
            calls.call("AttachUserPolicy", &[("UserName", user), ("PolicyArn", policy_arn)]).await?;
            said(&format!("attached {policy_arn} to {user}\n"))
        }
        PolicyCommand::Detach(Attachment { user, policy_arn, .. }) => {
            calls.call("DetachUserPolicy", &[("UserName", user), ("PolicyArn", policy_arn)]).await?;
            said(&format!("detached {policy_arn} from {user}\n"))
        }
    })
}

async fn put(
    calls: &mut Calls,
    user: &str,
    policy: &str,
    arguments: &DocumentArgs,
) -> Result<CommandOutput, UserError> {
    let text = document(arguments).await?;
    let parameters = [("UserName", user), ("PolicyName", policy), ("PolicyDocument", &text)];
    calls.call("PutUserPolicy", &parameters).await?;
    Ok(said(&format!("put policy {policy} of {user}\n")))
}

/// A sentence; as JSON, that it is done.
fn said(text: &str) -> CommandOutput {
    CommandOutput { json: json!({"done": text.trim_end()}), text: plain_lines(text) }
}

/// A table of elements, by these of their elements.
fn table(list: &str, rows: &[Element], columns: &[&str]) -> CommandOutput {
    let json = json!({ list: rows.iter().map(Element::json).collect::<Vec<_>>() });
    let cell = |row: &Element, column: &&str| plain(row.text(column));
    let widths: Vec<usize> = columns
        .iter()
        .map(|column| rows.iter().map(|row| cell(row, column).chars().count()).max().unwrap_or(0))
        .zip(columns)
        .map(|(widest, column)| widest.max(column.len()))
        .collect();
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = String>| {
        let padded: Vec<String> = cells.zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        writeln!(text, "{}", padded.join("  ").trim_end()).expect(TEXT);
    };
    line(&mut columns.iter().map(ToString::to_string));
    for row in rows {
        line(&mut columns.iter().map(|column| cell(row, column)));
    }
    CommandOutput { text, json }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_others_obey_no_terminal() {
        let row = Element::parse("<member><UserName>a\nb\u{9b}</UserName></member>").expect("a document");
        assert_eq!(table("Users", &[row], &["UserName"]).text, "UserName\na?b?\n");
        assert_eq!(said("made a\u{9b}\nb\n").text, "made a?\nb\n");
        assert_eq!(said("a\u{9b}").json_line(), "{\"done\":\"a\\u009b\"}\n");
    }
}
