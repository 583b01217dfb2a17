//! The input of an action: its parameters and its caller.

use http::StatusCode;
use sherd_core::iam::{AccessKeyId, EntityKind, PolicyVendor};
use sherd_core::limits::IAM_PATH_CHARS_MAX;
use sherd_core::record::Tag;
use sherd_front::callers::root_keys::RootKeys;
use sherd_front::decision::origin::OriginFacts;
use sherd_front::denial::Denial;
use sherd_policy::{ACCOUNT, Identity, Resource};
use sherd_store::iam::{EntityUpdate, Iam, ManagedName, PolicyOwner, Signer};

use super::fault::Fault;
use super::form::Form;
use super::limits::{ENTRIES_MAX, ENTRIES_USUAL, KEY_ID_CHARS_MAX, KEY_ID_CHARS_MIN, PARAMETERS_MAX};

/// One request of an action, whose caller may make it.
#[derive(Debug)]
pub(crate) struct ActionRequest {
    /// Where the entities are.
    pub(crate) iam: Iam,
    /// The request's parameters.
    pub(crate) form: Form,
    /// The caller, and where and when its request came from there.
    pub(crate) origin: OriginFacts,
    /// The key pairs of root, whose ids no user may have.
    pub(crate) root: RootKeys,
    /// The `User-Agent` of the request.
    pub(crate) user_agent: String,
}

/// Names the owner of the policies that a request is about.
pub(crate) type NamesOwner = fn(&ActionRequest) -> Result<PolicyOwner<'_>, Fault>;

/// The page that a listing is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageRequest {
    /// Names behind this one.
    pub(crate) marker: Option<String>,
    /// Entries at most.
    pub(crate) entries: usize,
}

impl ActionRequest {
    /// A parameter that must be there.
    pub(crate) fn required(&self, name: &str) -> Result<&str, Fault> {
        match self.form.get(name) {
            Some("") => {
                Err(Fault::constraint(name, "", "Member must have length greater than or equal to 1"))
            }
            Some(value) => Ok(value),
            None => Err(Fault::missing(name)),
        }
    }

    /// A parameter that may be left out, and is not empty.
    pub(crate) fn optional(&self, name: &str) -> Result<Option<&str>, Fault> {
        if self.form.get(name).is_some() { self.required(name).map(Some) } else { Ok(None) }
    }

    /// The user whose policies an action is about.
    pub(crate) fn owning_user(&self) -> Result<PolicyOwner<'_>, Fault> {
        self.required("UserName").map(PolicyOwner::User)
    }

    /// The group whose policies an action is about.
    pub(crate) fn owning_group(&self) -> Result<PolicyOwner<'_>, Fault> {
        self.required("GroupName").map(PolicyOwner::Group)
    }

    /// The path of an entity that is to be made: `/` where it is left out.
    pub(crate) fn path(&self) -> Result<&str, Fault> {
        Ok(self.optional("Path")?.unwrap_or("/"))
    }

    /// The beginning of the paths that a listing is bound to: `/` where it is left out.
    pub(crate) fn path_prefix(&self) -> Result<&str, Fault> {
        let prefix = self.optional("PathPrefix")?.unwrap_or("/");
        let is_of_paths = |byte| matches!(byte, 0x21..=0x7f);
        if !prefix.starts_with('/') || !prefix.bytes().all(is_of_paths) {
            let constraint = "Member must satisfy regular expression pattern: \\u002F[\\u0021-\\u007F]*";
            return Err(Fault::constraint("PathPrefix", prefix, constraint));
        }
        at_most("PathPrefix", prefix, IAM_PATH_CHARS_MAX)
    }

    /// The next name, in this parameter, and the next path of an entity: each is left where it is left out.
    pub(crate) fn update(&self, new_name: &str) -> Result<EntityUpdate, Fault> {
        let name = self.optional(new_name)?.map(str::to_owned);
        Ok(EntityUpdate { name, path: self.optional("NewPath")?.map(str::to_owned) })
    }

    /// The id of an access key, of a form that AWS's have, or that a given one may have.
    pub(crate) fn access_key_id(&self) -> Result<&str, Fault> {
        let id = self.required("AccessKeyId")?;
        // Ids that another store gave are shorter than AWS's, and have other characters.
        if AccessKeyId::parse(id).is_some() {
            return Ok(id);
        }
        if id.len() < KEY_ID_CHARS_MIN {
            let constraint = format!("Member must have length greater than or equal to {KEY_ID_CHARS_MIN}");
            return Err(Fault::constraint("AccessKeyId", id, &constraint));
        }
        if !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            let constraint = "Member must satisfy regular expression pattern: [\\w]+";
            return Err(Fault::constraint("AccessKeyId", id, constraint));
        }
        at_most("AccessKeyId", id, KEY_ID_CHARS_MAX)
    }

    /// The user that is named, or the caller where none is.
    pub(crate) fn user_name(&self) -> Result<&str, Fault> {
        if let Some(name) = self.optional("UserName")? {
            return Ok(name);
        }
        self.own_name()
            .ok_or_else(|| Fault::validation("Must specify userName when calling with non-User credentials"))
    }

    /// The name of the user that calls; `None` for root.
    pub(crate) fn own_name(&self) -> Option<&str> {
        match &**self.origin.caller.identity() {
            Identity::User(user) => Some(&user.name),
            Identity::Root | Identity::Anonymous => None,
        }
    }

    /// The ARN of the caller.
    pub(crate) fn own_arn(&self) -> &str {
        self.origin.caller.arn()
    }

    /// The refusal of an action to the caller.
    pub(crate) fn denied(&self, denial: Denial, action: &str, resource: Resource<'_>) -> Fault {
        let message = denial.message(self.own_arn(), action, resource);
        Fault::new("AccessDenied", StatusCode::FORBIDDEN, message)
    }

    /// The id of the caller.
    pub(crate) fn own_id(&self) -> &str {
        match &**self.origin.caller.identity() {
            Identity::User(user) => &user.id,
            Identity::Root | Identity::Anonymous => ACCOUNT,
        }
    }

    /// The key that signed.
    pub(crate) fn signer(&self) -> Signer {
        Signer { user_id: self.own_id().to_owned(), access_key: self.origin.caller.access_key().to_owned() }
    }

    /// The page that is asked for.
    pub(crate) fn page(&self) -> Result<PageRequest, Fault> {
        let entries = match self.form.get("MaxItems") {
            None => ENTRIES_USUAL,
            Some(text) => {
                let number: i64 = text.parse().map_err(|_| {
                    Fault::new("MalformedInput", StatusCode::BAD_REQUEST, "MaxItems is not an integer.")
                })?;
                let constraint = if number < 1 {
                    "Member must have value greater than or equal to 1".to_owned()
                } else {
                    format!("Member must have value less than or equal to {ENTRIES_MAX}")
                };
                let entries =
                    usize::try_from(number).ok().filter(|entries| (1..=ENTRIES_MAX).contains(entries));
                entries.ok_or_else(|| Fault::constraint("MaxItems", text, &constraint))?
            }
        };
        Ok(PageRequest { marker: self.optional("Marker")?.map(str::to_owned), entries })
    }

    /// The tags that are given.
    pub(crate) fn tags(&self) -> Result<Vec<Tag>, Fault> {
        (1..=self.form.members("Tags"))
            .map(|number| {
                let key = format!("Tags.member.{number}.Key");
                let value = format!("Tags.member.{number}.Value");
                Ok(Tag {
                    key: self.form.get(&key).ok_or_else(|| Fault::missing(&key))?.to_owned(),
                    value: self.form.get(&value).ok_or_else(|| Fault::missing(&value))?.to_owned(),
                })
            })
            .collect()
    }

    /// A list of texts.
    pub(crate) fn texts(&self, list: &str) -> Result<Vec<String>, Fault> {
        let count = self.form.members(list).min(PARAMETERS_MAX);
        (1..=count)
            .map(|number| self.required(&format!("{list}.member.{number}")).map(str::to_owned))
            .collect()
    }

    /// The name of the managed policy that an ARN names, and the ARN.
    pub(crate) fn policy(&self) -> Result<(ManagedName<'_>, &str), Fault> {
        let arn = self.required("PolicyArn")?;
        let malformed = || Fault::validation(format!("Invalid ARN: {arn} is not the ARN of a policy"));
        let (account, resource) =
            arn.strip_prefix("arn:aws:iam::").and_then(|rest| rest.split_once(':')).ok_or_else(malformed)?;
        let name = resource.strip_prefix("policy/").ok_or_else(malformed)?.rsplit('/').next();
        let name = name.filter(|name| EntityKind::Policy.check_name(name).is_ok()).ok_or_else(malformed)?;
        let vendor = match account {
            ACCOUNT => PolicyVendor::Account,
            "aws" => PolicyVendor::Aws,
            _ => return Err(no_such_policy(arn)),
        };
        Ok((ManagedName { vendor, name }, arn))
    }

    /// The user or the group that `PolicySourceArn` names.
    pub(crate) fn policy_source(&self) -> Result<PolicyOwner<'_>, Fault> {
        let arn = self.required("PolicySourceArn")?;
        match entity_of(arn) {
            Some((EntityKind::User, name)) => Ok(PolicyOwner::User(name)),
            Some((EntityKind::Group, name)) => Ok(PolicyOwner::Group(name)),
            Some((EntityKind::Policy, _)) | None => {
                let message =
                    format!("PolicySourceArn: {arn} is not the ARN of a user or a group of this account.");
                Err(Fault::invalid_input(message))
            }
        }
    }

    /// The number of the version of a policy that is named: `v3`.
    pub(crate) fn version(&self) -> Result<u32, Fault> {
        let text = self.required("VersionId")?;
        let number = text.strip_prefix('v').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        number.and_then(|digits| digits.parse().ok()).ok_or_else(|| {
            let constraint =
                "Member must satisfy regular expression pattern: v[1-9][0-9]*(\\.[A-Za-z0-9-]*)?";
            Fault::constraint("VersionId", text, constraint)
        })
    }
}

fn at_most<'a>(parameter: &str, value: &'a str, max: usize) -> Result<&'a str, Fault> {
    if value.len() <= max {
        return Ok(value);
    }
    let constraint = format!("Member must have length less than or equal to {max}");
    Err(Fault::constraint(parameter, value, &constraint))
}

/// The kind and the name of the user or the group that an ARN of this account names.
pub(crate) fn entity_of(arn: &str) -> Option<(EntityKind, &str)> {
    let rest = arn.strip_prefix("arn:aws:iam::")?.strip_prefix(ACCOUNT)?.strip_prefix(':')?;
    let (kind, path) = rest.split_once('/')?;
    let kind = [EntityKind::User, EntityKind::Group].into_iter().find(|known| known.word() == kind)?;
    let name = path.rsplit('/').next()?;
    kind.check_name(name).is_ok().then_some((kind, name))
}

/// A managed policy that is not there.
pub(crate) fn no_such_policy(arn: &str) -> Fault {
    Fault::no_such_entity(format!("Policy {arn} does not exist or is not attachable."))
}
