//! PostObject: the file of a form -> a put -> the answer that the form asks for.

use http::header::{HeaderName, HeaderValue, LOCATION};
use http::{HeaderMap, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};
use s3s::xml::{SerResult, Serialize, Serializer};

use crate::answer::{self, Outcome, Response, location};
use crate::gateway::Gateway;
use crate::head::{attributes, names};
use crate::object::given_tags;
use crate::object::put_object::headers_of;
use crate::request::Request;
use crate::wire::form::success::SuccessAction;
use sherd_store::object::{PutRequest, WriteConditions};

/// All but the characters of a key that S3 leaves as they are in the address of a form's object.
const KEY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

pub(crate) async fn post(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let Request { target, head, source, access, payload, form, .. } = request;
    let name = names::made(target.object())?;
    let (bucket, key) = (name.bucket.name().as_str().to_owned(), name.key.as_str().to_owned());
    let location = location::of_object(source, head.host()?, &bucket, &key, KEY);
    let tags = given_tags::permitted(&head, &access, &name)?;
    let attributes = attributes::of_request(&head)?;
    let (conditions, upload) = (WriteConditions::default(), payload.into_upload());
    let written =
        gateway.objects.put_expecting(PutRequest { name, attributes, tags, conditions, upload }).await?;
    let headers = headers_of(&written);
    let stored = StoredObject { location, bucket, key, etag: written.etag };
    answered(form.as_ref(), &stored, headers)
}

/// The object as the answer names it.
struct StoredObject {
    location: String,
    bucket: String,
    key: String,
    /// Without quotes.
    etag: String,
}

impl Serialize for StoredObject {
    fn serialize<W: std::io::Write>(&self, serializer: &mut Serializer<W>) -> SerResult {
        let Self { location, bucket, key, etag } = self;
        serializer.element("PostResponse", |serializer| {
            serializer.content("Location", location)?;
            serializer.content("Bucket", bucket)?;
            serializer.content("Key", key)?;
            serializer.content("ETag", &format!("\"{etag}\""))
        })
    }
}

fn answered(
    action: Option<&SuccessAction>,
    stored: &StoredObject,
    mut headers: HeaderMap,
) -> Outcome<Response> {
    let StoredObject { location, bucket, key, etag } = stored;
    if let Some(redirect) = action.and_then(|action| action.location(bucket, key, etag)) {
        headers.insert(LOCATION, redirect);
        return Ok(answer::empty(StatusCode::SEE_OTHER, headers));
    }
    if let Ok(location) = HeaderValue::try_from(location) {
        headers.insert(LOCATION, location);
    }
    let status = action.map_or(StatusCode::NO_CONTENT, |action| action.status);
    if status != StatusCode::CREATED {
        return Ok(answer::empty(status, headers));
    }
    let mut response = answer::document(stored)?;
    *response.status_mut() = status;
    let named: Vec<(HeaderName, HeaderValue)> =
        headers.into_iter().filter_map(|(name, value)| Some((name?, value))).collect();
    response.headers_mut().extend(named);
    Ok(response)
}
