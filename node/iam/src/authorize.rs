//! Whether a caller may make a request. Root may make all, users those that their policies allow.

use std::borrow::Cow;

use http::StatusCode;
use sherd_core::iam::{EntityKind, ManagedPolicy};
use sherd_core::record::Tag;
use sherd_front::decision::{Fact, Question, ServiceFacts};
use sherd_front::denial::Denial;
use sherd_policy::{Identity, KeyName, ROOT_ARN, Resource, Rights, Values};
use sherd_store::iam::{EntityUpdate, IamError, PolicyOwner};

use super::fault::Fault;
use super::request::ActionRequest;

/// Actions whose permission may depend on the managed policy that they give or take.
pub(crate) const ATTACHMENTS: [&str; 4] =
    ["iam:AttachUserPolicy", "iam:DetachUserPolicy", "iam:AttachGroupPolicy", "iam:DetachGroupPolicy"];

/// The entity that an action is about, as its permission names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Everything: a listing, a summary.
    Account,
    /// The user that `UserName` names, or the caller where that is left out.
    User,
    /// The user that is to be made, by `UserName` and `Path`.
    NewUser,
    /// The user that `UserName` names, where it is and where `NewPath` and `NewUserName` move it to.
    MovedUser,
    /// The group that `GroupName` names.
    Group,
    /// The group that is to be made, by `GroupName` and `Path`.
    NewGroup,
    /// The group that `GroupName` names, where it is and where `NewPath` and `NewGroupName` move it to.
    MovedGroup,
    /// The managed policy that `PolicyArn` names.
    Policy,
    /// The managed policy that is to be made, by `PolicyName` and `Path`.
    NewPolicy,
    /// The user of the key that `AccessKeyId` names.
    Key,
    /// The user or the group that `PolicySourceArn` names.
    PolicySource,
    /// The caller itself, who always may.
    Caller,
    /// No entity that permissions name: callers that certificates prove may, and no key, root's neither.
    Certificate,
}

/// The facts of a request to IAM, beside those of its origin.
struct ActionFacts<'a> {
    request: &'a ActionRequest,
    /// The tags of the user or the policy that it is about.
    resource_tags: &'a [Tag],
    /// The ARN of the policy that it attaches or detaches.
    policy_arn: Option<&'a str>,
}

impl ServiceFacts for ActionFacts<'_> {
    fn user_agent(&self) -> Values<'_> {
        Some(self.request.user_agent.as_str()).filter(|agent| !agent.is_empty()).into()
    }

    fn values(&self, name: KeyName, tag: &str) -> Result<Values<'_>, Fact> {
        let Self { request, resource_tags, policy_arn } = self;
        Ok(match name {
            KeyName::RequestTag => {
                value_of(&request.tags().unwrap_or_default(), tag).map(str::to_owned).into()
            }
            KeyName::TagKeys => {
                let keys = request.tags().unwrap_or_default().into_iter().map(|tag| Cow::Owned(tag.key));
                Values::Many(
                    keys.chain(request.texts("TagKeys").unwrap_or_default().into_iter().map(Cow::Owned))
                        .collect(),
                )
            }
            KeyName::ResourceTag | KeyName::IamResourceTag => value_of(resource_tags, tag).into(),
            KeyName::PolicyArn => (*policy_arn).into(),
            _ => Values::Absent,
        })
    }
}

/// The value of a tag that a condition names in any case. A policy may have two tags whose keys differ in
/// case alone: then the one that is spelt as in the condition counts.
fn value_of<'a>(tags: &'a [Tag], key: &str) -> Option<&'a str> {
    let exact = tags.iter().find(|tag| tag.key == key);
    exact.or_else(|| tags.iter().find(|tag| tag.key.eq_ignore_ascii_case(key))).map(|tag| tag.value.as_str())
}

/// The entity that a request is about.
struct SubjectEntity {
    /// The ARN of the entity; none for everything.
    arn: Option<String>,
    tags: Vec<Tag>,
}

impl SubjectEntity {
    /// An entity without tags.
    const fn bare(arn: String) -> Self {
        Self { arn: Some(arn), tags: vec![] }
    }
}

/// Asks whether the caller may do `action` (`iam:CreateUser`) to the subject of its request: at both ARNs
/// where it moves. Where it is made with tags, the caller must have the permission to tag it, too.
///
/// # Errors
/// AccessDenied, and a request that does not name its subject.
pub(crate) async fn check(
    request: &ActionRequest,
    action: &'static str,
    subject: Subject,
) -> Result<(), Fault> {
    if subject == Subject::Certificate && !request.origin.caller.is_certified() {
        let message = format!("{action} is called over a connection with a certificate alone.");
        return Err(Fault::new("AccessDenied", StatusCode::FORBIDDEN, message));
    }
    if subject == Subject::Caller || matches!(**request.origin.caller.identity(), Identity::Root) {
        return Ok(());
    }
    let rights = Rights::new(request.origin.caller.identity(), None);
    let SubjectEntity { arn, mut tags } = named(request, subject).await?;
    let asks_for_tags =
        || [KeyName::ResourceTag, KeyName::IamResourceTag].into_iter().any(|name| rights.asks(action, name));
    if subject == Subject::Policy && asks_for_tags() {
        tags = policy(request).await?.map(|policy| policy.tags).unwrap_or_default();
    }
    let policy_arn = if ATTACHMENTS.contains(&action) && rights.asks(action, KeyName::PolicyArn) {
        let given = request.policy()?.1;
        Some(policy(request).await?.map_or_else(|| given.to_owned(), |policy| policy.arn()))
    } else {
        None
    };
    let facts = ActionFacts { request, resource_tags: &tags, policy_arn: policy_arn.as_deref() };
    let ask = |action, resource: Resource<'_>| {
        let question = Question { rights: &rights, origin: &request.origin, facts: &facts, action, resource };
        question.decide_by_known()
    };
    let decide = |action, arn: Option<&str>| {
        let resource = arn.map_or(Resource::Service, Resource::Iam);
        ask(action, resource).map_err(|denial| request.denied(denial, action, resource))
    };
    // A user may read itself, unless a policy denies it.
    let is_own =
        subject == Subject::User && action == "iam:GetUser" && request.form.get("UserName").is_none();
    let resource = arn.as_deref().map_or(Resource::Service, Resource::Iam);
    if !is_own || ask(action, resource) != Err(Denial::Implicit) {
        decide(action, arn.as_deref())?;
    }
    let tagging = match subject {
        Subject::MovedUser | Subject::MovedGroup => {
            let moved = moved(request, subject, arn.as_deref().unwrap_or_default())?;
            return decide(action, Some(&moved));
        }
        Subject::NewUser => "iam:TagUser",
        Subject::NewPolicy => "iam:TagPolicy",
        Subject::Account
        | Subject::User
        | Subject::Group
        | Subject::NewGroup
        | Subject::Policy
        | Subject::Key
        | Subject::PolicySource
        | Subject::Caller
        | Subject::Certificate => return Ok(()),
    };
    match request.form.members("Tags") {
        0 => Ok(()),
        _ => decide(tagging, arn.as_deref()),
    }
}

/// The ARN that UpdateUser or UpdateGroup gives the entity of this one.
fn moved(request: &ActionRequest, subject: Subject, arn: &str) -> Result<String, Fault> {
    let (kind, new_name) = match subject {
        Subject::MovedGroup => (EntityKind::Group, "NewGroupName"),
        _ => (EntityKind::User, "NewUserName"),
    };
    let EntityUpdate { name, path } = request.update(new_name)?;
    // The resource of an ARN begins with the kind, and the path behind it with a slash.
    let (before, known_name) = arn.rsplit_once('/').unwrap_or_default();
    let known_path = before.split_once('/').map_or_else(|| "/".to_owned(), |(_, path)| format!("/{path}/"));
    Ok(kind.arn(path.as_ref().unwrap_or(&known_path), name.as_deref().unwrap_or(known_name)))
}

/// The managed policy that a request names, if it is there. Its name is found in any case, and by any path.
async fn policy(request: &ActionRequest) -> Result<Option<ManagedPolicy>, Fault> {
    match request.iam.policy(request.policy()?.0).await {
        Ok(policy) => Ok(Some(policy)),
        Err(IamError::NoSuchEntity(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The subject of a request. An entity that is not there has the path `/`, and one that is to be made has the
/// path of the request. A policy's tags are not read.
async fn named(request: &ActionRequest, subject: Subject) -> Result<SubjectEntity, Fault> {
    let made = |kind: EntityKind, name: &str| {
        Ok::<_, Fault>(SubjectEntity::bare(kind.arn(request.path()?, request.required(name)?)))
    };
    match subject {
        Subject::Account => Ok(SubjectEntity { arn: None, tags: vec![] }),
        Subject::Caller | Subject::Certificate => Ok(SubjectEntity::bare(request.own_arn().to_owned())),
        Subject::User => user(request, request.user_name()?).await,
        Subject::MovedUser => user(request, request.required("UserName")?).await,
        Subject::Group | Subject::MovedGroup => group(request, request.required("GroupName")?).await,
        Subject::PolicySource => match request.policy_source()? {
            PolicyOwner::User(name) => user(request, name).await,
            PolicyOwner::Group(name) => group(request, name).await,
        },
        Subject::Policy => Ok(SubjectEntity::bare(request.policy()?.1.to_owned())),
        Subject::NewUser => made(EntityKind::User, "UserName"),
        Subject::NewGroup => made(EntityKind::Group, "GroupName"),
        Subject::NewPolicy => made(EntityKind::Policy, "PolicyName"),
        Subject::Key => match request.iam.key_owner(request.access_key_id()?).await {
            Ok(owner) => user(request, &owner.user_name).await,
            Err(IamError::NoSuchEntity(_)) => Ok(SubjectEntity::bare(ROOT_ARN.to_owned())),
            Err(error) => Err(error.into()),
        },
    }
}

/// The user of a name. The caller's own name does not stand for another user: the caller may have been
/// renamed since its request came, and policies by which users manage themselves are about the name.
async fn user(request: &ActionRequest, name: &str) -> Result<SubjectEntity, Fault> {
    let is_own = request.own_name().is_some_and(|own| own.eq_ignore_ascii_case(name));
    match request.iam.user(name).await {
        Ok(user) if is_own && user.id.as_str() != request.own_id() => {
            Err(IamError::ConcurrentModification.into())
        }
        Ok(user) => Ok(SubjectEntity { arn: Some(user.arn()), tags: user.tags }),
        Err(error) => unseen(EntityKind::User, name, error),
    }
}

async fn group(request: &ActionRequest, name: &str) -> Result<SubjectEntity, Fault> {
    match request.iam.group(name).await {
        Ok(group) => Ok(SubjectEntity::bare(group.arn())),
        Err(error) => unseen(EntityKind::Group, name, error),
    }
}

/// An entity that is not there.
fn unseen(kind: EntityKind, name: &str, error: IamError) -> Result<SubjectEntity, Fault> {
    match error {
        IamError::NoSuchEntity(_) => Ok(SubjectEntity::bare(kind.arn("/", name))),
        error => Err(error.into()),
    }
}
