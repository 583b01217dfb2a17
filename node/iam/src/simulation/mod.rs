//! Simulated requests: who would call, with which policies, and what the engine that judges requests says.
//!
//! ```text
//! parameters -> Simulation (identity, policies, context)
//!            -> ExplainedRights of a resource's bucket -> Explanation
//! ```
//! Called by the actions that simulate. Nothing is read or changed but the policies of the principal.

mod context;

use std::collections::BTreeSet;
use std::sync::Arc;

use sherd_core::iam::EntityKind;
use sherd_core::limits::{IAM_DOCUMENT_BYTES_MAX, IAM_MANAGED_POLICY_CHARS_MAX};
use sherd_policy::limits::BUCKET_POLICY_BYTES_MAX;
use sherd_policy::{
    ACCOUNT, BucketRules, ExplainedRights, Explanation, Identity, Policy, PolicyForm, ROOT_ARN, Resource,
    StatementOutline, UserIdentity, s3_actions,
};
use sherd_store::iam::{PolicyOrigin, Principal};

use super::authorize::ATTACHMENTS;
use super::fault::Fault;
use super::limits::{SIMULATED_PAIRS_MAX, SIMULATED_STEPS_MAX, VARIABLE_BYTES_MIN};
use super::request::{ActionRequest, entity_of};
use context::{ContextEntries, SimulatedFacts};

/// The ARNs of S3's resources, before the bucket.
const S3_ARN: &str = "arn:aws:s3:::";

/// A policy that takes part, as answers name it.
#[derive(Debug)]
pub(crate) struct SourcePolicy {
    /// The policy's name as AWS's simulator gives it: `user_ada_reads`, `PolicyInputList.1`, or the name of a
    /// managed policy.
    pub(crate) id: String,
    /// The policy's name for people: `policy reads of user ada`.
    pub(crate) title: String,
    /// The policy's statements.
    pub(crate) outline: Vec<StatementOutline>,
}

/// The parameters of one simulation, with the policies that they name.
#[derive(Debug)]
pub(crate) struct Simulation {
    identity: Arc<Identity>,
    /// In the order of the identity's policies.
    sources: Vec<SourcePolicy>,
    /// The policy of the bucket that all resources are in.
    bucket: Option<(Arc<Policy>, SourcePolicy)>,
    entries: ContextEntries,
    /// The actions, as they are given.
    pub(crate) actions: Vec<String>,
    /// The resources; none for "all".
    pub(crate) resources: Vec<String>,
}

/// The rights in the bucket of a resource, to explain decisions about it.
#[derive(Debug)]
pub(crate) struct ResourceRights<'a> {
    simulation: &'a Simulation,
    arn: &'a str,
    rights: ExplainedRights,
}

impl Simulation {
    /// Reads the parameters of a simulation; `principal` has the policies that are in force beside those
    /// given.
    pub(crate) fn new(request: &ActionRequest, principal: Option<&Principal>) -> Result<Self, Fault> {
        if request.form.members("PermissionsBoundaryPolicyInputList") > 0 {
            let message = "There are no permissions boundaries: PermissionsBoundaryPolicyInputList cannot be simulated.";
            return Err(Fault::invalid_input(message));
        }
        let entries = ContextEntries::of(request)?;
        let (mut policies, mut sources) = (Vec::new(), Vec::new());
        for found in principal.iter().flat_map(|principal| &principal.policies) {
            sources.push(SourcePolicy::of_principal(&found.origin, &found.name, &found.policy));
            policies.push(Arc::clone(&found.policy));
        }
        for (number, policy) in (1..).zip(given_policies(request)?) {
            let id = format!("PolicyInputList.{number}");
            sources.push(SourcePolicy::new(id.clone(), id, &policy));
            policies.push(policy);
        }
        let identity = Arc::new(Identity::User(caller(request, principal, &entries, policies)?));
        let actions = actions(request)?;
        let resources = resources(request)?;
        let bucket = bucket_policy(request, &identity, &resources)?;
        Ok(Self { identity, sources, bucket, entries, actions, resources })
    }

    /// How many actions one page judges on all resources: a bounded number of pairs, whose policies and texts
    /// take a bounded number of steps to compare.
    ///
    /// # Errors
    /// InvalidInput where one action is too much.
    pub(crate) fn actions_per_page(&self) -> Result<usize, Fault> {
        let pairs = SIMULATED_STEPS_MAX / self.steps_of_pair().max(1);
        let resources = self.resources.len().max(1);
        let by_steps = usize::try_from(pairs).unwrap_or(usize::MAX) / resources;
        if by_steps == 0 {
            return Err(Fault::invalid_input(
                "The policies, the values of ContextEntries and ResourceArns are too long together: simulate \
                 fewer resources or shorter values in a request.",
            ));
        }
        Ok(by_steps.min((SIMULATED_PAIRS_MAX / resources).max(1)))
    }

    /// The steps that one action on one resource takes at most: each pattern, with the caller's values in it,
    /// may be compared with each text.
    fn steps_of_pair(&self) -> u64 {
        let (own, longest) = match &*self.identity {
            Identity::User(user) => {
                let tags = user.tags.iter().map(|(_, value)| value);
                let longest =
                    [&user.arn, &user.name, &user.id].into_iter().chain(tags).map(String::len).max();
                (self.identity.bytes(), longest.unwrap_or_default())
            }
            Identity::Root | Identity::Anonymous => (0, 0),
        };
        let of_bucket = self.bucket.as_ref().map_or(0, |(policy, _)| policy.bytes());
        let arns = self.resources.iter().map(String::len).max().unwrap_or_default();
        let actions = self.actions.iter().map(String::len).max().unwrap_or_default();
        let texts = self.entries.bytes() + arns + actions + longest;
        let policies = (own + of_bucket) as u64 * (1 + longest as u64 / VARIABLE_BYTES_MIN);
        policies.saturating_mul(texts as u64)
    }

    /// The rights about a resource.
    pub(crate) fn rights<'a>(&'a self, arn: &'a str) -> ResourceRights<'a> {
        let rules = bucket_of(arn).map(|name| BucketRules {
            name: name.to_owned(),
            policy: self.bucket.as_ref().map(|(policy, _)| Arc::clone(policy)),
            restrict_public_buckets: false,
        });
        let rights = ExplainedRights::new(Arc::clone(&self.identity), rules);
        ResourceRights { simulation: self, arn, rights }
    }

    /// A policy of a statement that was judged.
    pub(crate) fn source(&self, policy: Option<usize>) -> Option<&SourcePolicy> {
        match policy {
            Some(index) => self.sources.get(index),
            None => self.bucket.as_ref().map(|(_, source)| source),
        }
    }
}

impl ResourceRights<'_> {
    /// Decides about an action, and says why. The absent keys are those that the entries do not give.
    pub(crate) fn explain(&self, action: &str) -> Explanation {
        let Self { simulation: Simulation { entries, .. }, arn, rights } = self;
        let action = canonical(action);
        let facts = SimulatedFacts { entries, action: &action };
        let mut explanation = rights.explain(&action, resource(arn), &facts);
        explanation.absent_keys.retain(|key| entries.get(key).is_none());
        explanation
    }
}

impl SourcePolicy {
    fn new(id: String, title: String, policy: &Policy) -> Self {
        Self { id, title, outline: policy.outline() }
    }

    fn of_principal(origin: &PolicyOrigin, name: &str, policy: &Policy) -> Self {
        match origin {
            PolicyOrigin::Inline { kind, owner } => {
                let (kind, title) = (kind.word(), format!("policy {name} of {} {owner}", kind.word()));
                Self::new(format!("{kind}_{owner}_{name}"), title, policy)
            }
            PolicyOrigin::Managed(arn) => Self::new(name.to_owned(), format!("policy {arn}"), policy),
        }
    }
}

/// The policies of `PolicyInputList`. They have the bounds of managed policies, and together those of one
/// document.
pub(crate) fn given_policies(request: &ActionRequest) -> Result<Vec<Arc<Policy>>, Fault> {
    let documents = request.texts("PolicyInputList")?;
    if documents.iter().map(String::len).sum::<usize>() > IAM_DOCUMENT_BYTES_MAX {
        let message =
            format!("The policies of PolicyInputList have at most {IAM_DOCUMENT_BYTES_MAX} bytes together.");
        return Err(Fault::invalid_input(message));
    }
    let parse = |(number, document): (usize, &String)| {
        let chars = document.chars().filter(|letter| !letter.is_whitespace()).count();
        if chars > IAM_MANAGED_POLICY_CHARS_MAX {
            let max = IAM_MANAGED_POLICY_CHARS_MAX;
            return Err(Fault::invalid_input(format!(
                "PolicyInputList.{number} has more than {max} characters."
            )));
        }
        match Policy::parse_new(document.as_bytes(), PolicyForm::Identity) {
            Ok(policy) => Ok(Arc::new(policy)),
            Err(malformed) => Err(Fault::invalid_input(format!("PolicyInputList.{number}: {malformed}"))),
        }
    };
    (1..).zip(&documents).map(parse).collect()
}

/// The user that calls: the one of `CallerArn`, else the one whose policies are simulated, else one that only
/// the context describes.
fn caller(
    request: &ActionRequest,
    principal: Option<&Principal>,
    entries: &ContextEntries,
    policies: Vec<Arc<Policy>>,
) -> Result<UserIdentity, Fault> {
    let unknown = |arn: &str, name: &str| UserIdentity {
        arn: arn.to_owned(),
        name: name.to_owned(),
        id: String::new(),
        tags: vec![],
        policies: vec![],
    };
    let user = principal.and_then(|principal| principal.user.as_ref());
    let own_arn = user.map(sherd_core::iam::UserRecord::arn);
    let given = request.optional("CallerArn")?;
    let mut identity =
        match (given.filter(|given| Some(*given) != own_arn.as_deref()), user, own_arn.as_deref()) {
            (Some(given), _, _) => match entity_of(given) {
                Some((EntityKind::User, name)) => unknown(given, name),
                _ => {
                    return Err(Fault::invalid_input(format!(
                        "CallerArn: {given} is not the ARN of a user."
                    )));
                }
            },
            (None, Some(user), Some(arn)) => UserIdentity {
                id: user.id.to_string(),
                tags: user.tags.iter().map(|tag| (tag.key.clone(), tag.value.clone())).collect(),
                ..unknown(arn, &user.name)
            },
            (None, _, _) => unknown("", ""),
        };
    let given = |key: &str| entries.get(key).and_then(<[String]>::first).cloned();
    identity.name = given("aws:username").unwrap_or(identity.name);
    identity.id = given("aws:userid").unwrap_or(identity.id);
    identity.arn = given("aws:PrincipalArn").unwrap_or(identity.arn);
    for (key, value) in entries.principal_tags() {
        identity.tags.retain(|(known, _)| !known.eq_ignore_ascii_case(key));
        identity.tags.push((key.to_owned(), value.to_owned()));
    }
    Ok(UserIdentity { policies, ..identity })
}

/// `ActionNames`: whole names of actions, of S3 those that exist.
fn actions(request: &ActionRequest) -> Result<Vec<String>, Fault> {
    let actions = request.texts("ActionNames")?;
    if actions.is_empty() {
        return Err(Fault::missing("ActionNames"));
    }
    for action in &actions {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let is_name = action.split_once(':').is_some_and(|(vendor, name)| {
            let is_part = |text: &str| !text.is_empty() && text.bytes().all(is_letter);
            is_part(vendor) && is_part(name)
        });
        let is_known = !canonical(action).starts_with("s3:") || s3_action(action).is_some();
        if !is_name || !is_known || action.len() > 128 {
            return Err(Fault::invalid_input(format!("Invalid action name: {action}")));
        }
    }
    Ok(actions)
}

/// `ResourceArns`; empty for all.
fn resources(request: &ActionRequest) -> Result<Vec<String>, Fault> {
    let resources = request.texts("ResourceArns")?;
    let is_arn = |text: &str| text.starts_with("arn:") && text.split(':').count() >= 6 && text != S3_ARN;
    let bad = |arn: &&String| *arn != "*" && !is_arn(arn) || arn.chars().count() > 2048;
    match resources.iter().find(bad) {
        Some(arn) => Err(Fault::invalid_input(format!("Invalid resource ARN: {arn}"))),
        None if resources == ["*"] => Ok(vec![]),
        None => Ok(resources),
    }
}

/// `ResourcePolicy`, the policy of the one bucket that all resources are in.
fn bucket_policy(
    request: &ActionRequest,
    identity: &Identity,
    resources: &[String],
) -> Result<Option<(Arc<Policy>, SourcePolicy)>, Fault> {
    let owner = request.optional("ResourceOwner")?;
    if let Some(owner) = owner.filter(|owner| *owner != ACCOUNT && *owner != ROOT_ARN) {
        return Err(Fault::invalid_input(format!(
            "ResourceOwner: {owner} is not the account of this cluster."
        )));
    }
    let Some(document) = request.optional("ResourcePolicy")? else { return Ok(None) };
    let buckets: BTreeSet<_> = resources.iter().map(|arn| bucket_of(arn)).collect();
    let [Some(bucket)] = Vec::from_iter(buckets)[..] else {
        let message = "ResourcePolicy is the policy of one bucket, which all of ResourceArns have to be in.";
        return Err(Fault::invalid_input(message));
    };
    if matches!(identity, Identity::User(user) if user.arn.is_empty()) {
        return Err(Fault::invalid_input(
            "CallerArn is required for a ResourcePolicy without a user as PolicySourceArn.",
        ));
    }
    if document.len() > BUCKET_POLICY_BYTES_MAX {
        return Err(Fault::invalid_input("ResourcePolicy: Policies must not be longer than 20 KB."));
    }
    let policy = Policy::parse(document.as_bytes(), PolicyForm::Bucket { name: bucket })
        .map_err(|malformed| Fault::invalid_input(format!("ResourcePolicy: {malformed}")))?;
    let source = SourcePolicy::new("ResourcePolicy".to_owned(), "the bucket's policy".to_owned(), &policy);
    Ok(Some((Arc::new(policy), source)))
}

/// The bucket of an ARN of S3.
fn bucket_of(arn: &str) -> Option<&str> {
    arn.strip_prefix(S3_ARN).and_then(|tail| tail.split('/').next())
}

fn resource(arn: &str) -> Resource<'_> {
    match arn.strip_prefix(S3_ARN) {
        _ if arn == "*" => Resource::Service,
        None => Resource::Iam(arn),
        Some(tail) => match tail.split_once('/') {
            Some((bucket, key)) => Resource::Object(bucket, key),
            None => Resource::Bucket(tail),
        },
    }
}

fn s3_action(action: &str) -> Option<&'static str> {
    let (vendor, name) = action.split_once(':')?;
    let mut names = s3_actions().map(|(name, _)| name);
    vendor.eq_ignore_ascii_case("s3").then(|| names.find(|known| known.eq_ignore_ascii_case(name)))?
}

/// The name of an action in the case in which facts compare it. Policies compare names of other services than
/// S3 without case.
fn canonical(action: &str) -> String {
    let mut attachments = ATTACHMENTS.into_iter();
    if let Some(name) = s3_action(action) {
        return format!("s3:{name}");
    }
    match (attachments.find(|known| known.eq_ignore_ascii_case(action)), action.split_once(':')) {
        (Some(known), _) => known.to_owned(),
        (None, Some((vendor, name))) => format!("{}:{name}", vendor.to_ascii_lowercase()),
        (None, None) => action.to_owned(),
    }
}
