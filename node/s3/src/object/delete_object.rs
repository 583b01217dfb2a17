//! DeleteObject and DeleteObjects.
//!
//! A batch answers for each of its keys by itself; a key listed twice is deleted and answered once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use http::HeaderMap;
use s3s::dto::{
    Delete, DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput, DeleteObjectsOutput, DeletedObject,
    Error as KeyError, ObjectIdentifier,
};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};
use sherd_core::id::ObjectKey;
use sherd_core::limits::DELETE_KEYS_MAX;

use crate::error::{Outcome, logged, request_id};
use crate::protocol::context::RequestContext;
use crate::{gateway::Gateway, header::conditions, header::raw_headers, names};
use sherd_store::object::WriteConditions;

pub(crate) async fn delete(
    gateway: &Gateway,
    request: S3Request<DeleteObjectInput>,
) -> Outcome<S3Response<DeleteObjectOutput>> {
    let headers = raw_headers::of(&request);
    let null_version = names::version(request.input.version_id.as_deref())?;
    let name = names::object(&request.input.bucket, &request.input.key)?;
    let conditions = conditions::of_delete(headers)?.in_call(RequestContext::call_of(&request.extensions));
    gateway.objects.delete(name, conditions).await?;
    let version_id = null_version.then(|| "null".to_owned());
    Ok(S3Response::new(DeleteObjectOutput { version_id, ..DeleteObjectOutput::default() }))
}

pub(crate) async fn delete_many(
    gateway: &Gateway,
    request: S3Request<DeleteObjectsInput>,
) -> Outcome<S3Response<DeleteObjectsOutput>> {
    let request_id = request_id(&request);
    let headers = raw_headers::of(&request);
    is_covered(headers)?;
    let bucket = names::bucket(&request.input.bucket)?;
    let quiet = request.input.delete.quiet.unwrap_or_default();
    let Batch { keys, null_versions, mut errors } = Batch::asked(request.input.delete)?;
    let call = RequestContext::call_of(&request.extensions);
    let keys = keys.into_iter().map(|(key, conditions)| (key, conditions.in_call(call))).collect();
    let outcomes = gateway.objects.delete_many(bucket, keys).await?;
    let mut deleted = Vec::new();
    for outcome in outcomes {
        let version_id =
            null_versions.get(&outcome.key).copied().unwrap_or_default().then(|| "null".to_owned());
        let key = outcome.key.as_str().to_owned();
        match outcome.result {
            Ok(()) if quiet => {}
            Ok(()) => deleted.push(DeletedObject { key: Some(key), version_id, ..DeletedObject::default() }),
            Err(error) => errors.push(said(
                key,
                version_id,
                &logged(gateway.objects.release_grace(), request_id, error),
            )),
        }
    }
    let output = DeleteObjectsOutput {
        deleted: (!deleted.is_empty()).then_some(deleted),
        errors: (!errors.is_empty()).then_some(errors),
        ..DeleteObjectsOutput::default()
    };
    Ok(S3Response::new(output))
}

/// A list of keys to delete must be covered by a digest or a checksum; which of them is right the
/// protocol layer has checked.
fn is_covered(headers: &HeaderMap) -> S3Result<()> {
    let covered = headers.contains_key("content-md5")
        || headers.contains_key("x-amz-trailer")
        || headers.keys().any(|name| {
            name.as_str().starts_with("x-amz-checksum-") && name.as_str() != "x-amz-checksum-algorithm"
        });
    if covered {
        Ok(())
    } else {
        Err(s3_error!(
            InvalidRequest,
            "Missing required header for this request: Content-MD5 OR x-amz-checksum-*"
        ))
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
    pub(crate) fn asked(delete: Delete) -> S3Result<Self> {
        if delete.objects.is_empty() || delete.objects.len() > DELETE_KEYS_MAX {
            return Err(s3_error!(
                MalformedXML,
                "The XML you provided was not well-formed or did not validate against our published schema"
            ));
        }
        Ok(Self::of(delete.objects))
    }

    fn of(listed: Vec<ObjectIdentifier>) -> Self {
        let mut batch = Self { keys: Vec::new(), null_versions: HashMap::new(), errors: Vec::new() };
        let mut seen: HashMap<ObjectKey, WriteConditions> = HashMap::new();
        for identifier in listed {
            let ObjectIdentifier { e_tag, key, last_modified_time, size, version_id } = identifier;
            let checked = (|| {
                if last_modified_time.is_some() || size.is_some() {
                    return Err(s3_error!(
                        NotImplemented,
                        "Only ETag is implemented as a condition of a delete"
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
                    let error =
                        s3_error!(InvalidRequest, "The key is listed twice with different conditions");
                    batch.errors.push(said(key, version_id, &error));
                }
            }
        }
        batch
    }
}

fn batch_key(key: &str) -> S3Result<ObjectKey> {
    if key.is_empty() {
        let code = S3ErrorCode::from_bytes(b"UserKeyMustBeSpecified").expect("codes are UTF-8");
        return Err(S3Error::with_message(code, "The key must not be empty"));
    }
    names::key(key)
}

fn said(key: String, version_id: Option<String>, error: &S3Error) -> KeyError {
    KeyError {
        code: Some(error.code().as_str().to_owned()),
        key: Some(key),
        message: error.message().map(str::to_owned),
        version_id,
    }
}

#[cfg(test)]
mod tests {
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
    fn the_null_version_is_said_again() {
        let batch =
            Batch::of(vec![ObjectIdentifier { version_id: Some("null".into()), ..listed("a") }, listed("b")]);
        let null = |key: &'static str| batch.null_versions.get(&ObjectKey::new(key).unwrap()).copied();
        assert_eq!((null("a"), null("b")), (Some(true), Some(false)));
    }

    #[test]
    fn a_batch_without_a_digest_is_refused() {
        let with = |name: &'static str| HeaderMap::from_iter([(name.parse().unwrap(), "x".parse().unwrap())]);
        for name in ["content-md5", "x-amz-checksum-crc32", "x-amz-trailer"] {
            is_covered(&with(name)).unwrap();
        }
        for name in ["host", "x-amz-checksum-algorithm", "x-amz-sdk-checksum-algorithm"] {
            assert_eq!(is_covered(&with(name)).unwrap_err().code(), &S3ErrorCode::InvalidRequest);
        }
    }
}
