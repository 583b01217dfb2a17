//! DeleteObject and DeleteObjects.
//!
//! A batch answers for each of its keys by itself; a key listed twice is deleted and answered once.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use s3s::dto::{Delete, DeleteObjectsOutput, DeletedObject, Error as KeyError, ObjectIdentifier};
use sherd_core::id::ObjectKey;
use sherd_core::limits::DELETE_KEYS_MAX;

use crate::access::facts::Facts;
use crate::access::{Access, DELETE_OBJECT, READ_OBJECT, of_version};
use crate::answer::{self, Outcome, Response};
use crate::error::logged;
use crate::gateway::Gateway;
use crate::head::names::{self, NamedVersion};
use crate::head::request_head::RequestHead;
use crate::head::{conditions, document};
use crate::request::Request;
use crate::wire::refusal::{Code, Refusal};
use sherd_policy::{KeyName, Resource};
use sherd_store::object::{EtagMatch, WriteConditions};

/// Header by which a request deletes locked objects too; nothing is locked.
const BYPASS: &str = "x-amz-bypass-governance-retention";
/// The actions that a key of a batch may need.
const KEY_ACTIONS: [&str; 4] = [DELETE_OBJECT, "s3:DeleteObjectVersion", READ_OBJECT, "s3:GetObjectVersion"];
/// The facts that the keys of a batch differ in.
const KEY_FACTS: [KeyName; 2] = [KeyName::VersionId, KeyName::IfMatch];
/// Keys that are judged before other requests get a turn: policies can make one cost milliseconds.
const KEYS_A_TURN: usize = 8;

pub(crate) async fn delete(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let null_version = request.names_null_version();
    let Request { target, head, call, .. } = request;
    head.flag(BYPASS)?;
    let conditions = conditions::of_delete(&head)?.in_call(call);
    gateway.objects.delete(target.object(), conditions).await?;
    Ok(answer::of_version(answer::no_content(), null_version))
}

pub(crate) async fn delete_many(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let Request { id, target, head, call, access, payload, .. } = request;
    head.flag(BYPASS)?;
    let delete: Delete = document::required(payload.into_document())?;
    let quiet = delete.quiet.unwrap_or_default();
    let bucket = target.bucket();
    let mut batch = Batch::asked(delete)?;
    if !access.is_unlimited() {
        let access = access.for_batch(&head, &KEY_ACTIONS, &KEY_FACTS);
        batch = batch.only(|entry| entry.check(bucket.name(), &head, &access)).await;
    }
    let Batch { entries, mut errors } = batch;
    let (mut keys, mut null_versions, mut deleted) = (Vec::new(), HashSet::new(), Vec::new());
    for BatchEntry { key, version, conditions } in entries {
        match version {
            // Nothing is there to be deleted.
            Some(NamedVersion::Other(_)) => {
                let (key, version_id) = (Some(key.as_str().to_owned()), text_of(version));
                deleted.push(DeletedObject { key, version_id, ..DeletedObject::default() });
                continue;
            }
            Some(NamedVersion::Null) => _ = null_versions.insert(key.clone()),
            None => {}
        }
        keys.push((key, conditions.in_call(call)));
    }
    let outcomes = gateway.objects.delete_many(bucket, keys).await?;
    for outcome in outcomes {
        let version_id = text_of(null_versions.contains(&outcome.key).then_some(NamedVersion::Null));
        let key = outcome.key.as_str().to_owned();
        match outcome.result {
            Ok(()) => deleted.push(DeletedObject { key: Some(key), version_id, ..DeletedObject::default() }),
            Err(error) => {
                let refusal = logged(gateway.objects.release_grace(), id, error);
                errors.push(said(key, version_id, &refusal));
            }
        }
    }
    answer::document(&DeleteObjectsOutput {
        deleted: (!quiet && !deleted.is_empty()).then_some(deleted),
        errors: (!errors.is_empty()).then_some(errors),
        ..DeleteObjectsOutput::default()
    })
}

/// An entry of a list.
pub(crate) struct BatchEntry {
    pub(crate) key: ObjectKey,
    version: Option<NamedVersion>,
    conditions: WriteConditions,
}

impl BatchEntry {
    /// Reads an entry of a list.
    ///
    /// # Errors
    /// As S3 answers for the entry. A text that cannot be a version id is NoSuchVersion, other than in a
    /// query (github.com/versity/versitygw/issues/2119), and so is a guarded deletion of a version that is
    /// not there.
    fn of(listed: &ObjectIdentifier) -> Result<Self, Refusal> {
        let ObjectIdentifier { e_tag, key, last_modified_time, size, version_id } = listed;
        if last_modified_time.is_some() || size.is_some() {
            let message = "Only ETag is implemented as a condition of a delete";
            return Err(Refusal::says(Code::NotImplemented, message));
        }
        let version = version_id.as_deref().map(|id| names::version("VersionId", id)).transpose();
        let version = version.map_err(|_| Refusal::new(Code::NoSuchVersion))?;
        if e_tag.is_some() {
            version.map_or(Ok(()), NamedVersion::check_exists)?;
        }
        Ok(Self { key: batch_key(key)?, version, conditions: conditions::of_deleted_key(e_tag.clone()) })
    }

    /// The target of the deletion: the object, or a version that is not there.
    fn target(&self) -> (ObjectKey, Option<NamedVersion>) {
        (self.key.clone(), self.version.filter(|version| *version != NamedVersion::Null))
    }

    /// Checks that the caller may delete the key, and read it where an entity tag is compared.
    fn check(&self, bucket: &ObjectKey, head: &RequestHead<'_>, access: &Access) -> Result<(), Refusal> {
        let guard = self.conditions.if_match.as_ref().map(|guard| match guard {
            EtagMatch::Any => "*",
            EtagMatch::OneOf(etags) => etags.first().map_or("", String::as_str),
        });
        let version = text_of(self.version);
        let facts = Facts::of(head).with_version(version.as_deref()).with_guard(guard);
        let resource = Resource::Object(bucket.as_str(), self.key.as_str());
        access.allow(of_version(DELETE_OBJECT, version.is_some()), resource, facts)?;
        if guard.is_some_and(|guard| guard != "*") {
            access.allow(of_version(READ_OBJECT, version.is_some()), resource, facts)?;
        }
        Ok(())
    }
}

/// A list of keys, taken apart.
pub(crate) struct Batch {
    /// Entries that are to be deleted, no target twice.
    pub(crate) entries: Vec<BatchEntry>,
    /// The errors of entries that the store is not asked for.
    pub(crate) errors: Vec<KeyError>,
}

impl Batch {
    /// The entries that a request lists.
    ///
    /// # Errors
    /// MalformedXML for a list of none or of too many.
    pub(crate) fn asked(delete: Delete) -> Result<Self, Refusal> {
        if delete.objects.is_empty() || delete.objects.len() > DELETE_KEYS_MAX {
            return Err(Refusal::says(
                Code::MalformedXML,
                "The XML you provided was not well-formed or did not validate against our published schema",
            ));
        }
        Ok(Self::of(delete.objects))
    }

    /// The entries that `permitted` lets pass; a refusal of it is the error of its entry.
    async fn only(self, permitted: impl Fn(&BatchEntry) -> Result<(), Refusal>) -> Self {
        let Self { entries: asked, mut errors } = self;
        let mut entries = Vec::with_capacity(asked.len());
        for (number, entry) in (1..).zip(asked) {
            match permitted(&entry) {
                Ok(()) => entries.push(entry),
                Err(refusal) => {
                    errors.push(said(entry.key.as_str().to_owned(), text_of(entry.version), &refusal));
                }
            }
            if number % KEYS_A_TURN == 0 {
                tokio::task::yield_now().await;
            }
        }
        Self { entries, errors }
    }

    fn of(listed: Vec<ObjectIdentifier>) -> Self {
        let mut batch = Self { entries: Vec::new(), errors: Vec::new() };
        let mut seen: HashMap<(ObjectKey, Option<NamedVersion>), WriteConditions> = HashMap::new();
        for identifier in listed {
            let entry = BatchEntry::of(&identifier);
            let ObjectIdentifier { key, version_id, .. } = identifier;
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    batch.errors.push(said(key, version_id, &error));
                    continue;
                }
            };
            match seen.entry(entry.target()) {
                Entry::Vacant(first) => {
                    first.insert(entry.conditions.clone());
                    batch.entries.push(entry);
                }
                Entry::Occupied(first) if *first.get() == entry.conditions => {}
                Entry::Occupied(_) => {
                    let error = Refusal::says(
                        Code::InvalidRequest,
                        "The key is listed twice with different conditions",
                    );
                    batch.errors.push(said(key, version_id, &error));
                }
            }
        }
        batch
    }
}

/// A version as policies know it, and as an answer names it.
fn text_of(version: Option<NamedVersion>) -> Option<String> {
    version.map(|version| version.to_string())
}

fn batch_key(key: &str) -> Result<ObjectKey, Refusal> {
    if key.is_empty() {
        return Err(Refusal::new(Code::UserKeyMustBeSpecified));
    }
    names::key(key)
}

fn said(key: String, version_id: Option<String>, error: &Refusal) -> KeyError {
    KeyError {
        code: Some(error.code.name().to_owned()),
        key: Some(key),
        message: Some(error.message.clone().into_owned()),
        version_id,
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use s3s::dto::ETag;

    use super::*;

    fn listed(key: &str) -> ObjectIdentifier {
        ObjectIdentifier {
            e_tag: None,
            key: key.to_owned(),
            last_modified_time: None,
            size: None,
            version_id: None,
        }
    }

    #[test]
    fn a_key_listed_twice_is_deleted_once() {
        let batch = Batch::of(vec![listed("a"), listed("b"), listed("a")]);
        let keys: Vec<&str> = batch.entries.iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(keys, ["a", "b"]);
        assert!(batch.errors.is_empty());
    }

    #[test]
    fn what_cannot_be_asked_fails_by_itself() {
        let mut list = vec![listed("good"), listed(""), listed(&"k".repeat(1025))];
        list.push(ObjectIdentifier { size: Some(1), ..listed("sized") });
        for id in ["x", "", "Null"] {
            list.push(ObjectIdentifier { version_id: Some(id.into()), ..listed("versioned") });
        }
        let guarded = |listed| ObjectIdentifier { e_tag: Some(ETag::Strong("e".into())), ..listed };
        list.push(guarded(ObjectIdentifier { version_id: Some("0f".repeat(16)), ..listed("versioned") }));
        list.push(guarded(listed("good")));
        let batch = Batch::of(list);
        assert_eq!(batch.entries.len(), 1);
        let named = batch.errors.iter().filter_map(|error| error.version_id.as_deref());
        assert_eq!(named.collect::<Vec<_>>(), ["x", "", "Null", &"0f".repeat(16)]);
        let codes: Vec<&str> = batch.errors.iter().filter_map(|error| error.code.as_deref()).collect();
        assert_eq!(
            codes,
            [
                "UserKeyMustBeSpecified",
                "KeyTooLongError",
                "NotImplemented",
                "NoSuchVersion",
                "NoSuchVersion",
                "NoSuchVersion",
                "NoSuchVersion",
                "InvalidRequest"
            ]
        );
    }

    #[test]
    fn other_requests_get_a_turn_between_the_keys_of_a_batch() {
        let keys = (0..1000).map(|number| listed(&format!("key-{number}"))).collect();
        let mut judged = pin!(Batch::of(keys).only(|_| Ok(())));
        let mut turns = 1;
        let batch = loop {
            match judged.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(batch) => break batch,
                Poll::Pending => turns += 1,
            }
        };
        assert_eq!((batch.entries.len(), turns), (1000, 1 + 1000 / KEYS_A_TURN));
    }

    #[tokio::test]
    async fn a_key_that_its_caller_may_not_delete_fails_by_itself() {
        let access = Access::denying("s3:DeleteObjectVersion", &names::object("bucket", "kept").unwrap());
        let head = RequestHead::with(&[]);
        let bucket = ObjectKey::new("bucket").unwrap();
        let permitted = |entry: &BatchEntry| entry.check(&bucket, &head, &access);
        let null = ObjectIdentifier { version_id: Some("null".into()), ..listed("kept") };
        let batch = Batch::of(vec![listed("a"), null, listed("b")]).only(permitted).await;
        let keys: Vec<&str> = batch.entries.iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(keys, ["a", "b"]);
        let [error] = &*batch.errors else { panic!("one is denied: {:?}", batch.errors) };
        assert_eq!((error.key.as_deref(), error.code.as_deref()), (Some("kept"), Some("AccessDenied")));
        assert_eq!(error.version_id.as_deref(), Some("null"));
    }

    #[test]
    fn versions_of_a_key_are_entries_of_their_own() {
        let id = "0f".repeat(16);
        let versions = [Some("null"), None, Some(&*id), Some(&*id)];
        let list = versions
            .map(|version| ObjectIdentifier { version_id: version.map(str::to_owned), ..listed("a") });
        let batch = Batch::of(list.into());
        let named: Vec<_> = batch.entries.iter().map(|entry| text_of(entry.version)).collect();
        assert_eq!(named, [Some("null".to_owned()), Some(id)]);
        assert!(batch.errors.is_empty());
    }
}
