//! DeleteObject and DeleteObjects.
//!
//! A batch answers for each of its keys by itself; a key listed twice is deleted and answered once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use http::HeaderMap;
use s3s::dto::{Delete, DeleteObjectsOutput, DeletedObject, Error as KeyError, ObjectIdentifier};
use sherd_core::id::ObjectKey;
use sherd_core::limits::DELETE_KEYS_MAX;

use crate::access::facts::Facts;
use crate::access::{Access, DELETE_OBJECT, READ_OBJECT, of_version};
use crate::answer::{self, NULL, Response, VERSION_ID};
use crate::error::{Outcome, logged};
use crate::protocol::code::Code;
use crate::protocol::refusal::Refusal;
use crate::request::Request;
use crate::{gateway::Gateway, header::conditions, header::document, header::typed, names};
use sherd_policy::{KeyName, Resource};
use sherd_store::object::{EtagMatch, WriteConditions};

/// Header by which a request deletes locked objects too; nothing is locked.
const BYPASS: &str = "x-amz-bypass-governance-retention";
/// The facts that the keys of a batch differ in.
const KEY_FACTS: [KeyName; 2] = [KeyName::VersionId, KeyName::IfMatch];
/// Keys that are judged before other requests get a turn: policies can make one cost milliseconds.
const KEYS_A_TURN: usize = 8;

pub(crate) async fn delete(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let null_version = request.names_null_version();
    let Request { target, headers, call, .. } = request;
    typed::flag(&headers, BYPASS)?;
    let conditions = conditions::of_delete(&headers)?.in_call(call);
    gateway.objects.delete(target.object(), conditions).await?;
    let mut response = answer::no_content();
    if null_version {
        response.headers_mut().insert(VERSION_ID, NULL);
    }
    Ok(response)
}

pub(crate) async fn delete_many(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    typed::flag(&request.headers, BYPASS)?;
    let Request { id, target, headers, call, access, payload, .. } = request;
    let delete: Delete = document::required(payload.into_document())?;
    let quiet = delete.quiet.unwrap_or_default();
    let bucket = target.bucket();
    let mut batch = Batch::asked(delete)?;
    if !access.is_unlimited() {
        let access = access.settled(&headers, &KEY_FACTS);
        batch = batch.only(|key| key.check(bucket.name(), &headers, &access)).await;
    }
    let Batch { keys, null_versions, mut errors } = batch;
    let keys = keys.into_iter().map(|(key, conditions)| (key, conditions.in_call(call))).collect();
    let outcomes = gateway.objects.delete_many(bucket, keys).await?;
    let mut deleted = Vec::new();
    for outcome in outcomes {
        let version_id = version_of(&null_versions, &outcome.key);
        let key = outcome.key.as_str().to_owned();
        match outcome.result {
            Ok(()) if quiet => {}
            Ok(()) => deleted.push(DeletedObject { key: Some(key), version_id, ..DeletedObject::default() }),
            Err(error) => {
                let refusal = logged(gateway.objects.release_grace(), id, error);
                errors.push(said(key, version_id, &refusal));
            }
        }
    }
    answer::document(&DeleteObjectsOutput {
        deleted: (!deleted.is_empty()).then_some(deleted),
        errors: (!errors.is_empty()).then_some(errors),
        ..DeleteObjectsOutput::default()
    })
}

/// The deletion of one key, as its rights are asked for.
struct KeyDelete<'a> {
    key: &'a ObjectKey,
    conditions: &'a WriteConditions,
    null_version: bool,
}

impl KeyDelete<'_> {
    /// Checks that the caller may delete the key, and read it where an entity tag is compared.
    fn check(&self, bucket: &ObjectKey, headers: &HeaderMap, access: &Access) -> Result<(), Refusal> {
        let guard = self.conditions.if_match.as_ref().map(|guard| match guard {
            EtagMatch::Any => "*",
            EtagMatch::OneOf(etags) => etags.first().map_or("", String::as_str),
        });
        let version = self.null_version.then_some("null");
        let facts = Facts::of(headers).with_version(version).with_guard(guard);
        let resource = Resource::Object(bucket.as_str(), self.key.as_str());
        access.check(of_version(DELETE_OBJECT, self.null_version), resource, facts)?;
        if guard.is_some_and(|guard| guard != "*") {
            access.check(of_version(READ_OBJECT, self.null_version), resource, facts)?;
        }
        Ok(())
    }
}

/// A list of keys, taken apart.
pub(crate) struct Batch {
    /// What the store is asked, no key twice.
    pub(crate) keys: Vec<(ObjectKey, WriteConditions)>,
    /// Which keys were listed with `VersionId` `null`, to say so again.
    null_versions: HashMap<ObjectKey, bool>,
    /// What need not be asked.
    pub(crate) errors: Vec<KeyError>,
}

impl Batch {
    /// What a request lists.
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

    /// Those of the keys that `permitted` lets pass; what it says of each other is an error.
    async fn only(self, permitted: impl Fn(&KeyDelete<'_>) -> Result<(), Refusal>) -> Self {
        let Self { keys: asked, null_versions, mut errors } = self;
        let mut keys = Vec::with_capacity(asked.len());
        for (number, (key, conditions)) in (1..).zip(asked) {
            let null_version = null_versions.get(&key).copied().unwrap_or_default();
            let deletion = KeyDelete { key: &key, conditions: &conditions, null_version };
            match permitted(&deletion) {
                Ok(()) => keys.push((key, conditions)),
                Err(refusal) => {
                    let version = version_of(&null_versions, &key);
                    errors.push(said(key.as_str().to_owned(), version, &refusal));
                }
            }
            if number % KEYS_A_TURN == 0 {
                tokio::task::yield_now().await;
            }
        }
        Self { keys, null_versions, errors }
    }

    fn of(listed: Vec<ObjectIdentifier>) -> Self {
        let mut batch = Self { keys: Vec::new(), null_versions: HashMap::new(), errors: Vec::new() };
        let mut seen: HashMap<ObjectKey, WriteConditions> = HashMap::new();
        for identifier in listed {
            let ObjectIdentifier { e_tag, key, last_modified_time, size, version_id } = identifier;
            let checked = (|| {
                if last_modified_time.is_some() || size.is_some() {
                    return Err(Refusal::says(
                        Code::NotImplemented,
                        "Only ETag is implemented as a condition of a delete",
                    ));
                }
                Ok((names::version(version_id.as_deref())?, batch_key(&key)?))
            })();
            let (null_version, name) = match checked {
                Ok(checked) => checked,
                Err(error) => {
                    batch.errors.push(said(key, version_id, &error));
                    continue;
                }
            };
            let conditions = conditions::of_deleted_key(e_tag);
            match seen.entry(name.clone()) {
                Entry::Vacant(entry) => {
                    entry.insert(conditions.clone());
                    batch.null_versions.insert(name.clone(), null_version);
                    batch.keys.push((name, conditions));
                }
                Entry::Occupied(entry) if *entry.get() == conditions => {}
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

/// The version that an answer names for a key, where the request did.
fn version_of(null_versions: &HashMap<ObjectKey, bool>, key: &ObjectKey) -> Option<String> {
    null_versions.get(key).copied().unwrap_or_default().then(|| "null".to_owned())
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
        let keys: Vec<&str> = batch.keys.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["a", "b"]);
        assert!(batch.errors.is_empty());
    }

    #[test]
    fn what_cannot_be_asked_fails_by_itself() {
        let mut list = vec![listed("good"), listed(""), listed(&"k".repeat(1025))];
        list.push(ObjectIdentifier { size: Some(1), ..listed("sized") });
        list.push(ObjectIdentifier { version_id: Some("x".into()), ..listed("versioned") });
        list.push(ObjectIdentifier { e_tag: Some(ETag::Strong("e".into())), ..listed("good") });
        let batch = Batch::of(list);
        assert_eq!(batch.keys.len(), 1);
        let codes: Vec<&str> = batch.errors.iter().filter_map(|error| error.code.as_deref()).collect();
        assert_eq!(
            codes,
            [
                "UserKeyMustBeSpecified",
                "KeyTooLongError",
                "NotImplemented",
                "InvalidArgument",
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
        assert_eq!((batch.keys.len(), turns), (1000, 1 + 1000 / KEYS_A_TURN));
    }

    #[tokio::test]
    async fn a_key_that_its_caller_may_not_delete_fails_by_itself() {
        let access = Access::denying("s3:DeleteObjectVersion", &names::object("bucket", "kept").unwrap());
        let headers = http::HeaderMap::new();
        let bucket = ObjectKey::new("bucket").unwrap();
        let permitted = |key: &KeyDelete<'_>| key.check(&bucket, &headers, &access);
        let null = ObjectIdentifier { version_id: Some("null".into()), ..listed("kept") };
        let batch = Batch::of(vec![listed("a"), null, listed("b")]).only(permitted).await;
        let keys: Vec<&str> = batch.keys.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["a", "b"]);
        let [error] = &*batch.errors else { panic!("one is denied: {:?}", batch.errors) };
        assert_eq!((error.key.as_deref(), error.code.as_deref()), (Some("kept"), Some("AccessDenied")));
        assert_eq!(error.version_id.as_deref(), Some("null"));
    }

    #[test]
    fn the_null_version_is_said_again() {
        let batch =
            Batch::of(vec![ObjectIdentifier { version_id: Some("null".into()), ..listed("a") }, listed("b")]);
        let null = |key: &'static str| batch.null_versions.get(&ObjectKey::new(key).unwrap()).copied();
        assert_eq!((null("a"), null("b")), (Some(true), Some(false)));
    }
}
