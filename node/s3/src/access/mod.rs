//! Access control: the one place of S3 that asks whether a caller may do something.
//!
//! ```text
//! actions of a request -> rights of its caller in the bucket -> decision by facts (`facts`)
//!     (`sherd_front::decision`) -> AccessDenied as AWS words it (`sherd_front::denial`)
//! ```
//! The pipeline asks once a request is named, before its body (`service/judge.rs`). A decision by
//! the object's tags, or by the document, is taken where those are read, for callers alone whose policies
//! name them.

pub(crate) mod again;
pub(crate) mod facts;
pub(crate) mod limits;

use std::sync::Arc;

use sherd_core::config::public_access::PublicAccessBlock;
use sherd_core::record::Tag;
use sherd_front::callers::{Caller, Credential};
use sherd_front::decision::origin::OriginFacts;
use sherd_front::decision::rights::{Authorizer, KeptRights};
use sherd_front::decision::{Decision, Fact, Question};
use sherd_front::denial::Denial;
use sherd_front::source::Source;
use sherd_policy::{Identity, KeyName, Resource};
use sherd_store::object::{BucketRef, Error, LookupError, MissingResource, ObjectName};

use crate::head::columns::Columns;
use crate::head::request_head::RequestHead;
use crate::wire::refusal::{Code, Refusal};

use facts::{Facts, RequestFacts};
use limits::ACTIONS_MAX;

/// The action of a list of a bucket's keys. A caller without it does not learn which keys are missing.
pub(crate) const LIST: &str = "s3:ListBucket";
/// The action of a read of an object: what a copy does to its source.
pub(crate) const READ_OBJECT: &str = "s3:GetObject";
/// The action of a read of an object's attributes, beside that of the object.
pub(crate) const READ_ATTRIBUTES: &str = "s3:GetObjectAttributes";
/// The action of the deletion of an object: what a batch does to each of its keys.
pub(crate) const DELETE_OBJECT: &str = "s3:DeleteObject";
/// The action of a read of an object's tags: what a copy that keeps them does to its source, and what a read
/// of an object does that says how many there are.
pub(crate) const READ_TAGS: &str = "s3:GetObjectTagging";
/// The action of a change of an object's tags: what a write of an object does that brings some.
pub(crate) const WRITE_TAGS: &str = "s3:PutObjectTagging";
/// The action of tags that something new brings: what CreateBucket with tags does.
pub(crate) const TAG_RESOURCE: &str = "s3:TagResource";

/// Actions that have a name of their own where the request names a version.
const OF_VERSIONS: [(&str, &str); 8] = [
    (READ_OBJECT, "s3:GetObjectVersion"),
    (DELETE_OBJECT, "s3:DeleteObjectVersion"),
    (READ_TAGS, "s3:GetObjectVersionTagging"),
    (WRITE_TAGS, "s3:PutObjectVersionTagging"),
    ("s3:DeleteObjectTagging", "s3:DeleteObjectVersionTagging"),
    (READ_ATTRIBUTES, "s3:GetObjectVersionAttributes"),
    ("s3:GetObjectAcl", "s3:GetObjectVersionAcl"),
    ("s3:PutObjectAcl", "s3:PutObjectVersionAcl"),
];

/// An action in its form for a version, where one is named and the action has that form.
pub(crate) fn of_version(action: &'static str, names_version: bool) -> &'static str {
    let form = OF_VERSIONS.iter().find(|(plain, _)| names_version && *plain == action);
    form.map_or(action, |(_, of_version)| of_version)
}

/// An object, as policies name it.
pub(crate) fn object(name: &ObjectName) -> Resource<'_> {
    Resource::Object(name.bucket.name().as_str(), name.key.as_str())
}

/// Why the rights in a bucket are not known.
#[derive(Debug)]
pub(crate) enum RightsError {
    /// The bucket does not exist.
    NoBucket,
    /// The bucket cannot be read.
    Store(Error),
    /// The policy that is stored, or its public access block, cannot be decoded.
    Undecodable,
}

/// The rights of the caller of one request, in the bucket that it works on.
#[derive(Debug, Clone)]
pub struct Access {
    authorizer: Arc<Authorizer>,
    origin: OriginFacts,
    /// Without rights the caller may do everything.
    rights: Option<Arc<KeptRights>>,
    /// The tags of the bucket that conditions may name: those that are root's.
    bucket_tags: Option<Arc<[Tag]>>,
    /// The public access block of the account, where the caller is anonymous: it counts for no other.
    account: PublicAccessBlock,
    operation: WaitingOperation,
    /// The bucket that a copy reads from, as it was when the rights were found.
    copied_bucket: Option<Box<BucketRef>>,
}

/// The part of the decision on an operation that waits for facts.
#[derive(Debug, Clone)]
struct WaitingOperation {
    /// The last fact in order that is waited for.
    needs: Option<Fact>,
    /// The actions that wait.
    actions: [Option<&'static str>; ACTIONS_MAX],
    /// The row of the operation, which says what facts it has.
    columns: Option<&'static Columns>,
}

impl Access {
    /// The access of a caller who may do everything, until rights in a bucket say otherwise.
    pub(crate) fn new(authorizer: Arc<Authorizer>, caller: Caller, source: Source, asked_ms: u64) -> Self {
        let region = Some(Arc::clone(authorizer.region()));
        Self {
            authorizer,
            origin: OriginFacts { caller, source, asked_ms, region },
            rights: None,
            bucket_tags: None,
            account: PublicAccessBlock::NONE,
            operation: WaitingOperation { needs: None, actions: [None; ACTIONS_MAX], columns: None },
            copied_bucket: None,
        }
    }

    /// The caller.
    pub(crate) const fn caller(&self) -> &Caller {
        &self.origin.caller
    }

    /// The caller is known to be this now. Rights in a bucket are to be asked for afterwards.
    pub(crate) fn caller_is(&mut self, known: Credential) {
        self.origin.caller.known_as(known);
    }

    /// The bucket that the request copies from was looked up.
    pub(crate) fn copies_from(&mut self, bucket: BucketRef) {
        self.copied_bucket = Some(Box::new(bucket));
    }

    /// The bucket that the request copies from.
    pub(crate) fn copied_bucket(&self) -> Option<&BucketRef> {
        self.copied_bucket.as_deref()
    }

    /// The place that the request came from.
    pub(crate) const fn source(&self) -> Source {
        self.origin.source
    }

    /// Whether it is root that asks.
    pub(crate) fn is_roots(&self) -> bool {
        matches!(**self.origin.caller.identity(), Identity::Root)
    }

    /// The refusal of a public policy that the caller puts, where those are blocked.
    pub(crate) fn public_policy_denied(&self, bucket: &str) -> Refusal {
        self.denied(Denial::PublicPolicy, "s3:PutBucketPolicy", Resource::Bucket(bucket))
    }

    /// The public access block of the account.
    pub(crate) const fn account(&self) -> PublicAccessBlock {
        self.account
    }

    /// The same access in an account with a public access block.
    pub(crate) fn in_account(self, block: PublicAccessBlock) -> Self {
        Self { account: block, ..self }
    }

    /// Whether the caller may do everything.
    pub(crate) const fn is_unlimited(&self) -> bool {
        self.rights.is_none()
    }

    /// The access of the same caller by its own policies alone.
    pub(crate) fn in_no_bucket(self) -> Self {
        let rights = (!self.is_roots()).then(|| self.authorizer.in_no_bucket(self.origin.caller.identity()));
        Self { rights, bucket_tags: None, ..self }
    }

    /// The same access for the parts of one request that need these actions and differ in these keys alone:
    /// conditions on others are judged once, by the request's headers.
    pub(crate) fn for_batch(
        self,
        head: &RequestHead<'_>,
        actions: &[&'static str],
        differing: &[KeyName],
    ) -> Self {
        let facts = self.facts(Facts::of(head));
        let settle = |kept: &Arc<KeptRights>| kept.settled(&self.origin, &facts, actions, differing);
        let rights = self.rights.as_ref().map(settle).map(Arc::new);
        Self { rights, ..self }
    }

    /// The access of the same caller in a bucket that was looked up. Root by a certificate may do everything
    /// in it: an operator has to be able to repair a bucket whose policy denies it.
    ///
    /// # Errors
    /// [`RightsError`] where the rights in it are not known.
    pub(crate) fn in_bucket(self, bucket: &BucketRef) -> Result<Self, RightsError> {
        match bucket {
            BucketRef::Viewed(_) if self.origin.caller.is_certified() => Ok(Self { rights: None, ..self }),
            BucketRef::Viewed(view) => {
                let identity = self.origin.caller.identity();
                let rights = self.authorizer.in_bucket(identity, view, self.account).map_err(|error| {
                    tracing::error!(%error, bucket = %view.name, "who may use the bucket cannot be read");
                    RightsError::Undecodable
                })?;
                Ok(Self { rights, bucket_tags: view.roots_tags.clone(), ..self })
            }
            BucketRef::Failed { error: error @ LookupError::Register(_), .. } => {
                Err(RightsError::Store((*error).into()))
            }
            BucketRef::Failed { error: LookupError::Missing, .. } | BucketRef::Named(_) => {
                Err(RightsError::NoBucket)
            }
        }
    }

    /// Judges an operation by all of its actions. Where the decision depends on facts that are not there yet,
    /// [`Self::needs`] names them, and [`Self::settle`] takes it.
    ///
    /// # Errors
    /// AccessDenied.
    pub(crate) fn judge(
        &mut self,
        actions: [Option<&'static str>; ACTIONS_MAX],
        resource: Resource<'_>,
        facts: Facts<'_>,
    ) -> Result<(), Refusal> {
        let mut operation = WaitingOperation { needs: None, actions, columns: facts.columns() };
        for waiting in &mut operation.actions {
            let Some(action) = *waiting else { continue };
            match self.decide(action, resource, facts) {
                Decision::Allowed => *waiting = None,
                Decision::Denied(denial) => return Err(self.denied(denial, action, resource)),
                Decision::Needs(fact) => operation.needs = operation.needs.max(Some(fact)),
            }
        }
        self.operation = operation;
        Ok(())
    }

    /// The last fact in order that the decision on the operation waits for.
    pub(crate) const fn needs(&self) -> Option<Fact> {
        self.operation.needs
    }

    /// Judges the actions of the operation that wait, by more facts. Those that are still missing count as
    /// absent. Where facts turn out to have changed, it is asked again.
    ///
    /// # Errors
    /// AccessDenied.
    pub(crate) fn settle(&self, resource: Resource<'_>, facts: Facts<'_>) -> Result<(), Refusal> {
        let facts = facts.of_operation(self.operation.columns);
        self.operation
            .actions
            .into_iter()
            .flatten()
            .try_for_each(|action| self.allow(action, resource, facts))
    }

    /// Checks the version that was read: it may be newer than the one that was authorized.
    ///
    /// # Errors
    /// AccessDenied, and where its tags cannot be decoded.
    pub(crate) fn settle_read<T: AsRef<[Tag]>>(
        &self,
        name: &ObjectName,
        facts: Facts<'_>,
        tags: impl FnOnce() -> Result<T, Refusal>,
    ) -> Result<(), Refusal> {
        match self.needs() {
            Some(Fact::Tags) => self.settle(object(name), facts.with_existing_tags(tags()?.as_ref())),
            Some(Fact::Document) | None => Ok(()),
        }
    }

    /// Whether the caller may do `action` on some object of the bucket, by some facts.
    pub(crate) fn may_allow(&self, action: &'static str) -> bool {
        self.is_roots() || self.rights.as_ref().is_none_or(|kept| kept.rights().may_allow(action))
    }

    /// Decides whether the caller may do `action` to `resource`.
    pub(crate) fn decide(&self, action: &'static str, resource: Resource<'_>, facts: Facts<'_>) -> Decision {
        let Some(kept) = &self.rights else { return Decision::Allowed };
        self.question(kept, action, resource, &self.facts(facts)).decide()
    }

    /// Asks whether the caller may do `action` to `resource`. Facts that are not there count as absent.
    ///
    /// # Errors
    /// AccessDenied.
    pub(crate) fn allow(
        &self,
        action: &'static str,
        resource: Resource<'_>,
        facts: Facts<'_>,
    ) -> Result<(), Refusal> {
        let Some(kept) = &self.rights else { return Ok(()) };
        let decided = self.question(kept, action, resource, &self.facts(facts)).decide_by_known();
        decided.map_err(|denial| self.denied(denial, action, resource))
    }

    fn question<'a>(
        &'a self,
        kept: &'a KeptRights,
        action: &'static str,
        resource: Resource<'a>,
        facts: &'a RequestFacts<'_>,
    ) -> Question<'a> {
        Question { rights: kept.rights(), origin: &self.origin, facts, action, resource }
    }

    fn facts<'a>(&'a self, parts: Facts<'a>) -> RequestFacts<'a> {
        let bucket_tags = self.bucket_tags.as_deref().unwrap_or_default();
        let auth_type = self.origin.caller.signature().map(|signature| signature.auth_type);
        RequestFacts { parts, bucket_tags, auth_type }
    }

    /// The refusal of an action. A caller without a signature is not shown why.
    fn denied(&self, denial: Denial, action: &str, resource: Resource<'_>) -> Refusal {
        let caller = &self.origin.caller;
        if caller.is_anonymous() {
            return Refusal::new(Code::AccessDenied);
        }
        Refusal::says(Code::AccessDenied, denial.message(caller.arn(), action, resource))
    }

    /// The error of an operation on an object, as the caller may see it. A caller who may not list the bucket
    /// is not shown that a key is missing.
    ///
    /// # Errors
    /// AccessDenied instead of the error.
    pub(crate) fn shown(&self, bucket: &str, error: Error) -> Result<Error, Refusal> {
        if self.rights.is_some() && matches!(error, Error::Missing(MissingResource::Key)) {
            self.allow(LIST, Resource::Bucket(bucket), Facts::NONE)?;
        }
        Ok(error)
    }
}

#[cfg(test)]
impl Access {
    /// The access of a user who may do everything where a condition holds.
    pub(crate) fn allowed_if(condition: &str) -> Self {
        let policy = format!(
            r#"{{"Version":"2012-10-17","Statement":{{"Effect":"Allow","Action":"*","Resource":"*",
                "Condition":{condition}}}}}"#
        );
        tests::user(&[&policy]).in_no_bucket()
    }

    /// The access of a user who may do everything but one action on one object.
    pub(crate) fn denying(action: &str, name: &ObjectName) -> Self {
        let deny = format!("arn:aws:s3:::{}/{}", name.bucket, name.key);
        let policy = format!(
            r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Action":"*","Resource":"*"}},
                {{"Effect":"Deny","Action":"{action}","Resource":"{deny}"}}]}}"#
        );
        tests::user(&[&policy]).in_no_bucket()
    }
}

#[cfg(test)]
mod tests;
