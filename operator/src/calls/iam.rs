//! The requests of IAM that a BucketUser needs: forms of its query API.

use bytes::Bytes;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use sherd_policy::ACCOUNT;
use sherd_proto::convert::http_call::HttpService;

use super::xml::{self, Element};
use super::{CallError, ClusterCalls, StoreCall, absent};
use crate::api::Tags;
use crate::limits;
use crate::secret_text::SecretText;

/// The version of the API that every request names.
const VERSION: &str = "2010-05-08";
const NO_SUCH_ENTITY: &str = "NoSuchEntity";
/// The code of a refusal of a name that is taken.
pub const ENTITY_EXISTS: &str = "EntityAlreadyExists";

/// A key of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedKey {
    /// The key's id.
    pub id: String,
    /// Whether requests may be signed with it.
    pub active: bool,
}

/// A key with its secret, which no later request shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessKey {
    /// The key's id.
    pub id: String,
    /// The key's secret.
    pub secret: SecretText,
}

async fn send(
    calls: &ClusterCalls,
    action: &'static str,
    parameters: &[(&str, &str)],
) -> Result<Bytes, CallError> {
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let all = [("Action", action), ("Version", VERSION)].into_iter().chain(parameters.iter().copied());
    let body: Vec<String> = all.map(|(name, value)| format!("{name}={}", encode(value))).collect();
    let call = StoreCall {
        service: HttpService::Iam,
        method: "POST",
        uri: "/".to_owned(),
        headers: vec![("content-type", "application/x-www-form-urlencoded; charset=utf-8".to_owned())],
        body: body.join("&").into(),
    };
    calls.send(call).await
}

async fn read(
    calls: &ClusterCalls,
    action: &'static str,
    parameters: &[(&str, &str)],
) -> Result<Element, CallError> {
    let body = send(calls, action, parameters).await?;
    xml::parse(&body).ok_or(CallError::Malformed(action))
}

/// A user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundUser {
    /// The user's path.
    pub path: String,
    /// The user's tags.
    pub tags: Tags,
}

/// Returns a user, or nothing where it is not there.
///
/// # Errors
/// [`CallError`].
pub async fn user(calls: &ClusterCalls, user: &str) -> Result<Option<FoundUser>, CallError> {
    let found = absent(read(calls, "GetUser", &[("UserName", user)]).await, NO_SUCH_ENTITY)?;
    let user = |root: Element| {
        let user = root.find("User").ok_or(CallError::Malformed("GetUser"))?;
        let tags = user.find("Tags").into_iter().flat_map(|tags| tags.all("member"));
        let tag = |tag: &Element| Some((tag.text_of("Key")?.to_owned(), tag.text_of("Value")?.to_owned()));
        let tags: Option<Tags> = tags.map(tag).collect();
        let path = user.text_of("Path").unwrap_or("/").to_owned();
        Ok(FoundUser { path, tags: tags.ok_or(CallError::Malformed("GetUser"))? })
    };
    found.map(user).transpose()
}

/// A user of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedUser {
    /// The user's name.
    pub name: String,
    /// The user's path.
    pub path: String,
}

/// A page of a list of users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsersPage {
    /// The users, in the order of their names.
    pub users: Vec<ListedUser>,
    /// The marker of the next page, where there is one.
    pub next: Option<String>,
}

/// Returns a page of the users below a path.
///
/// # Errors
/// [`CallError`].
pub async fn users(calls: &ClusterCalls, path: &str, marker: Option<&str>) -> Result<UsersPage, CallError> {
    let malformed = || CallError::Malformed("ListUsers");
    let entries = limits::USERS_PAGE.to_string();
    let mut page = vec![("PathPrefix", path), ("MaxItems", entries.as_str())];
    page.extend(marker.map(|marker| ("Marker", marker)));
    let root = read(calls, "ListUsers", &page).await?;
    let listed = root.find("Users").ok_or_else(malformed)?;
    let user = |user: &Element| {
        let (name, path) = (user.text_of("UserName")?, user.text_of("Path")?);
        Some(ListedUser { name: name.to_owned(), path: path.to_owned() })
    };
    let users: Option<Vec<ListedUser>> = listed.all("member").map(user).collect();
    let is_truncated = root.find("IsTruncated").is_some_and(|truncated| truncated.text == "true");
    let next = root.find("Marker").map(|marker| marker.text.clone()).filter(|_| is_truncated);
    if is_truncated && (next.is_none() || next.as_deref() == marker) {
        return Err(malformed());
    }
    Ok(UsersPage { users: users.ok_or_else(malformed)?, next })
}

/// Makes a user with its tags.
///
/// # Errors
/// [`CallError`].
pub async fn create_user(
    calls: &ClusterCalls,
    user: &str,
    path: &str,
    tags: &[(&str, String)],
) -> Result<(), CallError> {
    let tags = tag_parameters(tags);
    let mut made = vec![("UserName", user), ("Path", path)];
    made.extend(tags.iter().map(|(name, text)| (name.as_str(), text.as_str())));
    // Of two answers to one request the second may be this; whose it is shows when it is read again.
    absent(send(calls, "CreateUser", &made).await, ENTITY_EXISTS).map(|_| ())
}

/// Gives a user tags, beside those that it has.
///
/// # Errors
/// [`CallError`].
pub async fn tag_user(calls: &ClusterCalls, user: &str, tags: &[(&str, String)]) -> Result<(), CallError> {
    let tags = tag_parameters(tags);
    let mut tagged = vec![("UserName", user)];
    tagged.extend(tags.iter().map(|(name, text)| (name.as_str(), text.as_str())));
    send(calls, "TagUser", &tagged).await.map(|_| ())
}

/// Takes a tag from a user; one that it has not counts as taken.
///
/// # Errors
/// [`CallError`].
pub async fn untag_user(calls: &ClusterCalls, user: &str, tag: &str) -> Result<(), CallError> {
    send(calls, "UntagUser", &[("UserName", user), ("TagKeys.member.1", tag)]).await.map(|_| ())
}

/// The parameters of tags.
fn tag_parameters(tags: &[(&str, String)]) -> Vec<(String, String)> {
    let parameters = (1..).zip(tags).map(|(number, (key, value)): (usize, _)| {
        let name = |part: &str| format!("Tags.member.{number}.{part}");
        [(name("Key"), (*key).to_owned()), (name("Value"), value.clone())]
    });
    parameters.flatten().collect()
}

/// Returns a user's keys.
///
/// # Errors
/// [`CallError`].
pub async fn keys(calls: &ClusterCalls, user: &str) -> Result<Vec<ListedKey>, CallError> {
    let root = read(calls, "ListAccessKeys", &[("UserName", user)]).await?;
    let listed = root.find("AccessKeyMetadata").ok_or(CallError::Malformed("ListAccessKeys"))?;
    let key = |member: &Element| {
        let id = member.text_of("AccessKeyId")?.to_owned();
        Some(ListedKey { id, active: member.text_of("Status") == Some("Active") })
    };
    let keys: Option<Vec<ListedKey>> = listed.all("member").map(key).collect();
    keys.ok_or(CallError::Malformed("ListAccessKeys"))
}

/// Makes a key.
///
/// # Errors
/// [`CallError`].
pub async fn create_key(calls: &ClusterCalls, user: &str) -> Result<AccessKey, CallError> {
    let root = read(calls, "CreateAccessKey", &[("UserName", user)]).await?;
    let made = || {
        let key = root.find("AccessKey")?;
        let (id, secret) = (key.text_of("AccessKeyId")?, key.text_of("SecretAccessKey")?);
        Some(AccessKey { id: id.to_owned(), secret: SecretText(secret.to_owned()) })
    };
    made().ok_or(CallError::Malformed("CreateAccessKey"))
}

/// A key that a user is to have, with the secret that it has elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivenKey {
    /// The user has it, or may have it.
    Free,
    /// The user has it with another secret.
    OtherSecret,
    /// Another user or root has a key with this id.
    Taken,
}

/// Looks whether a user has a key, or may have it, and changes nothing.
///
/// # Errors
/// [`CallError`].
pub async fn find_given_key(
    calls: &ClusterCalls,
    user: &str,
    key: &AccessKey,
) -> Result<GivenKey, CallError> {
    let Some(answer) = absent(send_given_key(calls, user, key, &[("DryRun", "true")]).await, ENTITY_EXISTS)?
    else {
        return Ok(GivenKey::Taken);
    };
    let result = xml::parse(&answer).ok_or(CallError::Malformed("ImportAccessKey"))?;
    let state = result.find("ImportAccessKeyResult").and_then(|found| found.text_of("State"));
    Ok(if state == Some("OtherSecret") { GivenKey::OtherSecret } else { GivenKey::Free })
}

/// Gives a user a key, active, with the secret that it has elsewhere. A key that the user has stays as it
/// is, but for another secret, in whose place this one comes in one step.
///
/// # Errors
/// [`CallError`].
pub async fn import_key(calls: &ClusterCalls, user: &str, key: &AccessKey) -> Result<(), CallError> {
    send_given_key(calls, user, key, &[]).await.map(|_| ())
}

async fn send_given_key(
    calls: &ClusterCalls,
    user: &str,
    key: &AccessKey,
    further: &[(&str, &str)],
) -> Result<Bytes, CallError> {
    let AccessKey { id, secret } = key;
    let given = [
        ("UserName", user),
        ("AccessKeyId", id),
        ("SecretAccessKey", &secret.0),
        ("Status", "Active"),
        ("Replace", "true"),
    ];
    send(calls, "ImportAccessKey", &[&given[..], further].concat()).await
}

/// Disables a key and removes it; one that is not there counts as removed. It is disabled first, so that it
/// does not work on where its removal fails.
///
/// # Errors
/// [`CallError`].
pub async fn remove_key(calls: &ClusterCalls, user: &str, key: &str) -> Result<(), CallError> {
    let of_key = [("UserName", user), ("AccessKeyId", key)];
    set_key(calls, user, key, false).await?;
    absent(send(calls, "DeleteAccessKey", &of_key).await, NO_SUCH_ENTITY).map(|_| ())
}

/// Makes a key work, or not; one that is not there is left so.
///
/// # Errors
/// [`CallError`].
pub async fn set_key(calls: &ClusterCalls, user: &str, key: &str, works: bool) -> Result<(), CallError> {
    let status = if works { "Active" } else { "Inactive" };
    let parameters = [("UserName", user), ("AccessKeyId", key), ("Status", status)];
    absent(send(calls, "UpdateAccessKey", &parameters).await, NO_SUCH_ENTITY).map(|_| ())
}

/// Returns the text of a user's inline policy.
///
/// # Errors
/// [`CallError`].
pub async fn policy(calls: &ClusterCalls, user: &str, policy: &str) -> Result<Option<String>, CallError> {
    let of_policy = [("UserName", user), ("PolicyName", policy)];
    let found = absent(read(calls, "GetUserPolicy", &of_policy).await, NO_SUCH_ENTITY)?;
    found.map(|root| document(&root, "PolicyDocument", "GetUserPolicy")).transpose()
}

/// Returns the text of a policy in an answer.
fn document(root: &Element, element: &str, action: &'static str) -> Result<String, CallError> {
    let document = root.find(element).ok_or(CallError::Malformed(action))?;
    let decoded = percent_decode_str(&document.text).decode_utf8();
    decoded.map(String::from).map_err(|_| CallError::Malformed(action))
}

/// Writes a user's inline policy.
///
/// # Errors
/// [`CallError`].
pub async fn put_policy(
    calls: &ClusterCalls,
    user: &str,
    policy: &str,
    document: &str,
) -> Result<(), CallError> {
    let of_policy = [("UserName", user), ("PolicyName", policy), ("PolicyDocument", document)];
    send(calls, "PutUserPolicy", &of_policy).await.map(|_| ())
}

/// Removes a user's inline policy; one that is not there counts as removed.
///
/// # Errors
/// [`CallError`].
pub async fn delete_policy(calls: &ClusterCalls, user: &str, policy: &str) -> Result<(), CallError> {
    let of_policy = [("UserName", user), ("PolicyName", policy)];
    absent(send(calls, "DeleteUserPolicy", &of_policy).await, NO_SUCH_ENTITY).map(|_| ())
}

/// Returns the ARNs of the managed policies that a user has.
///
/// # Errors
/// [`CallError`].
pub async fn attached_policies(calls: &ClusterCalls, user: &str) -> Result<Vec<String>, CallError> {
    let root = read(calls, "ListAttachedUserPolicies", &[("UserName", user)]).await?;
    let mut arns = Vec::new();
    leaves(&root, "PolicyArn", &mut arns);
    Ok(arns)
}

/// A managed policy of one user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagedPolicy {
    /// The policy's name, unique in the account.
    pub name: String,
    /// The policy's path.
    pub path: String,
}

impl ManagedPolicy {
    /// Returns its ARN.
    pub fn arn(&self) -> String {
        format!("arn:aws:iam::{ACCOUNT}:policy{}{}", self.path, self.name)
    }

    /// Writes the policy's text, where it does not say the same already, and attaches the policy to a user
    /// that lacks it. The text is replaced in one step, so that no right is missing or left over in between.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn put(
        &self,
        calls: &ClusterCalls,
        user: &str,
        text: &str,
        says: impl Fn(&str) -> bool,
        is_attached: bool,
    ) -> Result<(), CallError> {
        let arn = self.arn();
        let Self { name, path } = self;
        match self.in_force(calls).await? {
            None => {
                let made = [("PolicyName", name.as_str()), ("Path", path), ("PolicyDocument", text)];
                if let Err(error) = send(calls, "CreatePolicy", &made).await {
                    // Of two answers to one request the second may be this. Another's has another path, and
                    // so no such ARN.
                    let is_taken =
                        matches!(&error, CallError::Refused(refusal) if refusal.code == ENTITY_EXISTS);
                    if !is_taken || self.versions(calls).await?.is_none() {
                        return Err(error);
                    }
                }
            }
            Some((found, others)) => {
                if !says(&found) {
                    // A policy has five versions at most.
                    self.delete_versions(calls, &others).await?;
                    let put =
                        [("PolicyArn", arn.as_str()), ("PolicyDocument", text), ("SetAsDefault", "true")];
                    send(calls, "CreatePolicyVersion", &put).await?;
                }
            }
        }
        if is_attached {
            return Ok(());
        }
        send(calls, "AttachUserPolicy", &[("UserName", user), ("PolicyArn", &arn)]).await.map(|_| ())
    }

    /// Takes it from a user and deletes it; one that is not there counts as deleted.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn remove(&self, calls: &ClusterCalls, user: &str) -> Result<(), CallError> {
        let arn = self.arn();
        let detached = send(calls, "DetachUserPolicy", &[("UserName", user), ("PolicyArn", &arn)]).await;
        absent(detached, NO_SUCH_ENTITY)?;
        let Some((_, others)) = self.versions(calls).await? else { return Ok(()) };
        self.delete_versions(calls, &others).await?;
        absent(send(calls, "DeletePolicy", &[("PolicyArn", &arn)]).await, NO_SUCH_ENTITY).map(|_| ())
    }

    /// Returns its text; nothing where it is not there.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn text(&self, calls: &ClusterCalls) -> Result<Option<String>, CallError> {
        Ok(self.in_force(calls).await?.map(|(text, _)| text))
    }

    /// The text that is in force, and the other versions.
    async fn in_force(&self, calls: &ClusterCalls) -> Result<Option<(String, Vec<String>)>, CallError> {
        let Some((default, others)) = self.versions(calls).await? else { return Ok(None) };
        let of_version = [("PolicyArn", self.arn()), ("VersionId", default)];
        let of_version = of_version.each_ref().map(|(name, value)| (*name, value.as_str()));
        let found = read(calls, "GetPolicyVersion", &of_version).await?;
        Ok(Some((document(&found, "Document", "GetPolicyVersion")?, others)))
    }

    /// The version that is in force, and the others; nothing where the policy is not there.
    async fn versions(&self, calls: &ClusterCalls) -> Result<Option<(String, Vec<String>)>, CallError> {
        let listed = read(calls, "ListPolicyVersions", &[("PolicyArn", &self.arn())]).await;
        let Some(root) = absent(listed, NO_SUCH_ENTITY)? else { return Ok(None) };
        let malformed = CallError::Malformed("ListPolicyVersions");
        let Some(listed) = root.find("Versions") else { return Err(malformed) };
        let (mut default, mut others) = (None, Vec::new());
        for version in listed.all("member") {
            let Some(id) = version.text_of("VersionId") else { return Err(malformed) };
            if version.text_of("IsDefaultVersion") == Some("true") {
                default = Some(id.to_owned());
            } else {
                others.push(id.to_owned());
            }
        }
        default.map(|default| Some((default, others))).ok_or(malformed)
    }

    async fn delete_versions(&self, calls: &ClusterCalls, versions: &[String]) -> Result<(), CallError> {
        for version in versions {
            let of_version = [("PolicyArn", self.arn()), ("VersionId", version.clone())];
            let of_version = of_version.each_ref().map(|(name, value)| (*name, value.as_str()));
            absent(send(calls, "DeletePolicyVersion", &of_version).await, NO_SUCH_ENTITY)?;
        }
        Ok(())
    }
}

/// The belongings of a user, which must be gone before it can be deleted: the request that lists, the
/// element of a name in its answer, the request that removes one, and the parameter that names it.
const BELONGINGS: [(&str, &str, &str, &str); 4] = [
    ("ListAccessKeys", "AccessKeyId", "DeleteAccessKey", "AccessKeyId"),
    ("ListUserPolicies", "member", "DeleteUserPolicy", "PolicyName"),
    ("ListAttachedUserPolicies", "PolicyArn", "DetachUserPolicy", "PolicyArn"),
    ("ListGroupsForUser", "GroupName", "RemoveUserFromGroup", "GroupName"),
];

/// Deletes a user with its keys, policies and memberships; one that is not there counts as deleted.
///
/// # Errors
/// [`CallError`].
pub async fn delete_user(calls: &ClusterCalls, user: &str) -> Result<(), CallError> {
    for (list, element, remove, parameter) in BELONGINGS {
        let Some(root) = absent(read(calls, list, &[("UserName", user)]).await, NO_SUCH_ENTITY)? else {
            return Ok(());
        };
        let mut names = Vec::new();
        leaves(&root, element, &mut names);
        for name in names {
            let removed = send(calls, remove, &[("UserName", user), (parameter, &name)]).await;
            absent(removed, NO_SUCH_ENTITY)?;
        }
    }
    absent(send(calls, "DeleteUser", &[("UserName", user)]).await, NO_SUCH_ENTITY).map(|_| ())
}

/// Collects the texts of the elements of this name that have no elements below them.
fn leaves(element: &Element, name: &str, found: &mut Vec<String>) {
    if element.name == name && element.children.is_empty() {
        found.push(element.text.clone());
    }
    for child in &element.children {
        leaves(child, name, found);
    }
}
