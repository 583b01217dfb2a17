//! Judges a proven request, before its body is taken and again where a document had to arrive.
//!
//! ```text
//! signature -> target -> view of its bucket: NoSuchBucket -> rights of the caller -> AccessDenied -> headers
//! ```
//! Root is refused here by a bucket's policy alone. A fault of its target, and a missing bucket, are answered
//! later, behind the faults of its headers and of its document.

use std::mem;
use std::sync::Arc;

use sherd_core::id::{ObjectKey, may_be_bucket};
use sherd_core::record::Tag;
use sherd_front::callers::Caller;
use sherd_front::decision::rights::Authorizer;
use sherd_front::verifier::Verifier;
use sherd_policy::Resource;
use sherd_store::object::{BucketRef, Error, MissingResource, ObjectName};

use crate::access::facts::Facts;
use crate::access::{Access, DELETE_OBJECT, RightsError, of_version};
use crate::answer::Failure;
use crate::error::{self};
use crate::head::columns::{Columns, Makes, ResourceKind};
use crate::head::request_head::RequestHead;
use crate::head::{length, names};
use crate::operation::Operations;
use crate::request::{Request, Target};
use crate::service::actions;
use crate::service::admitted::ProvenRequest;
use crate::service::auth_refusal::unavailable;
use crate::service::cors::CorsLookup;
use crate::wire::address::{Address, Level};
use crate::wire::limits::CALLER_LOOKUPS_MAX;
use crate::wire::refusal::{Code, Refusal};

/// The stage that decides whether callers may do what they ask for.
pub(super) struct Judge {
    verifier: Arc<Verifier>,
    authorizer: Arc<Authorizer>,
    operations: Arc<dyn Operations>,
    pub(super) cors: CorsLookup,
}

/// The facts in the head of a request for an operation.
fn facts_of<'a>(columns: &'static Columns, head: &'a RequestHead<'a>) -> Facts<'a> {
    Facts::of(head).of_operation(Some(columns))
}

impl Judge {
    /// Judges requests for these operations, whose callers were proven by this verifier.
    pub(super) fn new(
        verifier: Arc<Verifier>,
        authorizer: Authorizer,
        operations: Arc<dyn Operations>,
    ) -> Self {
        let authorizer = Arc::new(authorizer);
        Self { verifier, authorizer, operations, cors: CorsLookup::default() }
    }

    /// Authorizes a request. The target of an operation with a view of its bucket gets that view.
    ///
    /// # Errors
    /// NoSuchBucket, AccessDenied, and 503 where what decides cannot be read.
    pub(super) async fn authorize(&self, request: &mut ProvenRequest<'_>) -> Result<Access, Refusal> {
        let columns = request.columns();
        let (caller, source, asked_ms) = (request.caller.clone(), request.source, request.asked_ms);
        let mut access = Access::new(Arc::clone(&self.authorizer), caller, source, asked_ms);
        if access.caller().is_anonymous() {
            access = access.in_account(self.operations.account_block().await.map_err(|_| unavailable())?);
        }
        let is_roots = access.is_roots();
        let target = match &mut request.target {
            Ok(target) => target,
            Err(_) if is_roots => return Ok(access),
            Err(refusal) => return Err(refusal.clone()),
        };
        let has_view = columns.has_view;
        let rights = match target.bucket_mut() {
            // A bucket's policy has no say in its creation, and never keeps root from the policy itself.
            Some(_) if columns.makes == Makes::Bucket => {
                self.is_still_caller(&mut access).await?;
                Ok(access.in_no_bucket())
            }
            Some(_) if is_roots && columns.stays_roots => Ok(access),
            Some(bucket) => {
                let source = copied_bucket(columns, &request.head);
                let found = self.bucket_of(&mut access, bucket.name(), source.as_ref()).await?;
                let rights = access.clone().in_bucket(&found);
                if has_view {
                    *bucket = found;
                }
                match rights {
                    // The operation fails by what its look-up found.
                    Err(RightsError::NoBucket) if is_roots => Ok(access),
                    Err(RightsError::Store(_)) if is_roots && has_view => Ok(access),
                    rights => rights,
                }
            }
            None => {
                self.is_still_caller(&mut access).await?;
                Ok(access.in_no_bucket())
            }
        };
        let mut access = rights.map_err(|error| self.unknown_rights(error))?;
        // As at S3, a caller who may delete nothing is answered for each key, where its document takes no
        // room while it arrives.
        let is_refused_whole = || access.caller().is_anonymous() || !length::is_short(&request.head);
        let deletions = [DELETE_OBJECT, of_version(DELETE_OBJECT, true)];
        let may_delete = || deletions.into_iter().any(|action| access.may_allow(action));
        if columns.resource == ResourceKind::EachKey && is_refused_whole() && !may_delete() {
            let every_key = Resource::Object(target.bucket_name(), "*");
            access.allow(DELETE_OBJECT, every_key, Facts::NONE)?;
        }
        let Ok(target) = &request.target else { return Ok(access) };
        let resource = actions::resource_of(columns, target);
        access.judge(actions::of(columns, &request.head), resource, facts_of(columns, &request.head))?;
        Ok(access)
    }

    /// Looks the bucket of a request up, and that which it copies from, and then its caller again (of an
    /// anonymous one, the account). Where one change of the caller and then one of a bucket come between, the
    /// request is not judged by the second without the first.
    async fn bucket_of(
        &self,
        access: &mut Access,
        name: &ObjectKey,
        source: Option<&ObjectKey>,
    ) -> Result<BucketRef, Refusal> {
        for _ in 0..CALLER_LOOKUPS_MAX {
            let found = self.look_up(access.caller(), name).await?;
            if let Some(source) = source {
                let is_same = source == name;
                let copied = if is_same {
                    found.clone()
                } else {
                    Box::pin(self.look_up(access.caller(), source)).await?
                };
                access.copies_from(copied);
            }
            if self.is_still_caller(access).await? {
                return Ok(found);
            }
        }
        Err(unavailable())
    }

    async fn look_up(&self, caller: &Caller, name: &ObjectKey) -> Result<BucketRef, Refusal> {
        if !caller.is_anonymous() {
            return Ok(self.operations.bucket(name.clone()).await);
        }
        let found = self.cors.bucket(self.operations.as_ref(), name.clone()).await;
        found.ok_or_else(|| Refusal::new(Code::SlowDown))
    }

    /// Whether the caller is still the one that is judged; it becomes that.
    async fn is_still_caller(&self, access: &mut Access) -> Result<bool, Refusal> {
        if access.is_roots() {
            return Ok(true);
        }
        if access.caller().is_anonymous() {
            let account = self.operations.account_block().await.map_err(|_| unavailable())?;
            let is_still = account == access.account();
            if !is_still {
                *access = access.clone().in_account(account);
            }
            return Ok(is_still);
        }
        let known = self.verifier.credential(access.caller().access_key(), access.source().address).await?;
        let is_still = access.caller().is_still(&known);
        if !is_still {
            access.caller_is(known);
        }
        Ok(is_still)
    }

    /// Judges an operation by the tags of its object, where its decision waits for them.
    ///
    /// # Errors
    /// AccessDenied, and what the read of the tags fails by.
    pub(super) async fn settle(
        &self,
        columns: &'static Columns,
        request: &mut Request<'_>,
    ) -> Result<(), Failure> {
        let Request { target, head, access, .. } = request;
        let Target::Object(name) = &*target else { return Ok(()) };
        let (tags, is_missing): (Vec<Tag>, _) = match self.operations.tags(name).await {
            Ok(tags) => (tags, None),
            Err(missing @ Error::Missing(MissingResource::Key)) => (Vec::new(), Some(missing)),
            Err(error) => return Err(error.into()),
        };
        let facts = facts_of(columns, head).with_existing_tags(&tags);
        access.settle(actions::resource_of(columns, target), facts)?;
        match is_missing {
            Some(missing) => Err(access.shown(target.bucket_name(), missing)?.into()),
            None => Ok(()),
        }
    }

    fn unknown_rights(&self, error: RightsError) -> Refusal {
        match error {
            RightsError::NoBucket => Refusal::new(Code::NoSuchBucket),
            RightsError::Undecodable => unavailable(),
            RightsError::Store(error) => error::refusal(error, self.operations.release_grace()),
        }
    }
}

/// The bucket or object that a request addresses, by a name that it may have. The address gives its text up.
pub(super) fn target_of(head: &RequestHead<'_>, address: &mut Address) -> Result<Target, Refusal> {
    head.host()?;
    if matches!(address.level, Level::Service | Level::Account) {
        return Ok(Target::Service);
    }
    if !may_be_bucket(&address.bucket) {
        return Err(Refusal::new(Code::InvalidBucketName));
    }
    let bucket = mem::take(&mut address.bucket);
    let bucket = ObjectKey::new(bucket).map_err(|_| Refusal::new(Code::InvalidBucketName))?;
    Ok(match address.level {
        Level::Account | Level::Service | Level::Bucket => Target::Bucket(bucket.into()),
        Level::Object => {
            let key = names::key(mem::take(&mut address.key))?;
            Target::Object(ObjectName { bucket: bucket.into(), key })
        }
    })
}

/// The bucket that an operation copies from.
fn copied_bucket(columns: &Columns, head: &RequestHead<'_>) -> Option<ObjectKey> {
    // A source that cannot be read is refused by the operation.
    let source = columns.is_copy().then(|| head.copy_source().ok()).flatten()?;
    Some(source.name.bucket.name().clone())
}
