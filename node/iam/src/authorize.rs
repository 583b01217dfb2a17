//! Whether a caller may make a call. Root may make all, users those that their policies allow.

use std::borrow::Cow;

use http::StatusCode;
use sherd_core::iam::EntityKind;
use sherd_policy::{Facts, Identity, KeyName, ROOT_ARN, Resource, Rights, Values, Verdict};
use sherd_s3::auth::amz_date::AmzDate;
use sherd_store::iam::IamError;

use super::fault::Fault;
use super::request::Call;

/// The entity that an action is about, as its permission names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Everything: a listing, a summary.
    Account,
    /// The user that `UserName` names, or the caller where that is left out.
    User,
    /// The user that is to be made, by `UserName` and `Path`.
    NewUser,
    /// The user that `UserName` names, where it is and where `NewPath` moves it to.
    MovedUser,
    /// The group that `GroupName` names.
    Group,
    /// The group that is to be made, by `GroupName` and `Path`.
    NewGroup,
    /// The group that `GroupName` names, where it is and where `NewPath` moves it to.
    MovedGroup,
    /// The managed policy that `PolicyArn` names.
    Policy,
    /// The managed policy that is to be made, by `PolicyName` and `Path`.
    NewPolicy,
    /// The user of the key that `AccessKeyId` names.
    Key,
    /// The caller itself, who always may.
    Caller,
}

/// The facts of a request to IAM.
struct CallFacts<'a>(&'a Call);

impl Facts for CallFacts<'_> {
    fn values(&self, name: KeyName, tag: &str) -> Values<'_> {
        let Self(call) = self;
        match name {
            KeyName::SourceIp => call.source.address.to_string().into(),
            KeyName::SecureTransport => call.source.is_secure.to_string().into(),
            KeyName::UserAgent if !call.user_agent.is_empty() => call.user_agent.as_str().into(),
            KeyName::CurrentTime => AmzDate::from_ms(call.now_ms).extended().into(),
            KeyName::EpochTime => (call.now_ms / 1000).to_string().into(),
            KeyName::RequestTag => {
                let tags = call.tags().unwrap_or_default();
                let found = tags.into_iter().find(|found| found.key.eq_ignore_ascii_case(tag));
                found.map(|found| found.value).into()
            }
            KeyName::TagKeys => {
                let keys = call.tags().unwrap_or_default().into_iter().map(|tag| Cow::Owned(tag.key));
                Values::Many(
                    keys.chain(call.texts("TagKeys").unwrap_or_default().into_iter().map(Cow::Owned))
                        .collect(),
                )
            }
            _ => Values::Absent,
        }
    }
}

/// Asks whether the caller may do `action` (`iam:CreateUser`) to the subject of its call: at both ARNs where
/// it moves. Where it is made with tags, the caller must have the permission to tag it, too.
///
/// # Errors
/// AccessDenied, and a call that does not name its subject.
pub(crate) async fn check(call: &Call, action: &'static str, subject: Subject) -> Result<(), Fault> {
    if subject == Subject::Caller || matches!(&*call.caller.identity, Identity::Root) {
        return Ok(());
    }
    let arn = arn_of(call, subject).await?;
    let rights = Rights::new(&call.caller.identity, None);
    // A user may read itself, unless a policy denies it.
    let is_own = subject == Subject::User && action == "iam:GetUser" && call.form.get("UserName").is_none();
    let unmentioned = if is_own { Verdict::Allowed } else { Verdict::DeniedImplicitly };
    decide(call, &rights, action, arn.as_deref(), unmentioned)?;
    let (kind, tagging) = match subject {
        Subject::MovedUser => (EntityKind::User, None),
        Subject::MovedGroup => (EntityKind::Group, None),
        Subject::NewUser => (EntityKind::User, Some("iam:TagUser")),
        Subject::NewPolicy => (EntityKind::Policy, Some("iam:TagPolicy")),
        Subject::Account
        | Subject::User
        | Subject::Group
        | Subject::NewGroup
        | Subject::Policy
        | Subject::Key
        | Subject::Caller => return Ok(()),
    };
    match tagging {
        Some(_) if call.form.members("Tags") == 0 => Ok(()),
        Some(tagging) => decide(call, &rights, tagging, arn.as_deref(), Verdict::DeniedImplicitly),
        None => match (call.optional("NewPath")?, arn.as_deref().and_then(|arn| arn.rsplit('/').next())) {
            (Some(path), Some(name)) => {
                decide(call, &rights, action, Some(&kind.arn(path, name)), Verdict::DeniedImplicitly)
            }
            _ => Ok(()),
        },
    }
}

/// Decides about one ARN; `unmentioned` is the verdict where no statement matches.
fn decide(
    call: &Call,
    rights: &Rights,
    action: &'static str,
    arn: Option<&str>,
    unmentioned: Verdict,
) -> Result<(), Fault> {
    let resource = arn.map_or(Resource::Service, Resource::Iam);
    let verdict = match rights.decide(action, resource, &CallFacts(call)) {
        Verdict::DeniedImplicitly => unmentioned,
        verdict => verdict,
    };
    let why = match verdict {
        Verdict::Allowed => return Ok(()),
        Verdict::DeniedExplicitly => "with an explicit deny in an identity-based policy".to_owned(),
        Verdict::DeniedImplicitly => format!("because no identity-based policy allows the {action} action"),
    };
    let message = format!(
        "User: {} is not authorized to perform: {action} on resource: {} {why}",
        call.own_arn(),
        arn.unwrap_or("*")
    );
    Err(Fault::new("AccessDenied", StatusCode::FORBIDDEN, message))
}

/// The ARN of the subject of a call. An entity that is not there has the path `/`, and one that is to be made
/// has the path of the request.
async fn arn_of(call: &Call, subject: Subject) -> Result<Option<String>, Fault> {
    let made =
        |kind: EntityKind, name: &str| Ok::<_, Fault>(kind.arn(call.path("Path")?, call.required(name)?));
    Ok(Some(match subject {
        Subject::Account => return Ok(None),
        Subject::Caller => call.own_arn().to_owned(),
        Subject::User => user_arn(call, call.user_name()?).await?,
        Subject::MovedUser => user_arn(call, call.required("UserName")?).await?,
        Subject::Group | Subject::MovedGroup => {
            let name = call.required("GroupName")?;
            match call.iam.group(name).await {
                Ok(group) => group.arn(),
                Err(error) => unseen(EntityKind::Group, name, error)?,
            }
        }
        Subject::Policy => call.policy()?.1.to_owned(),
        Subject::NewUser => made(EntityKind::User, "UserName")?,
        Subject::NewGroup => made(EntityKind::Group, "GroupName")?,
        Subject::NewPolicy => made(EntityKind::Policy, "PolicyName")?,
        Subject::Key => {
            let owner = call.iam.key_owner(call.required("AccessKeyId")?).await;
            match owner {
                Ok(owner) => user_arn(call, &owner.user_name).await?,
                Err(IamError::NoSuchEntity(_)) => ROOT_ARN.to_owned(),
                Err(error) => return Err(error.into()),
            }
        }
    }))
}

async fn user_arn(call: &Call, name: &str) -> Result<String, Fault> {
    match call.iam.user(name).await {
        Ok(user) => Ok(user.arn()),
        Err(error) => unseen(EntityKind::User, name, error),
    }
}

/// The ARN of an entity that is not there.
fn unseen(kind: EntityKind, name: &str, error: IamError) -> Result<String, Fault> {
    match error {
        IamError::NoSuchEntity(_) => Ok(kind.arn("/", name)),
        error => Err(error.into()),
    }
}
