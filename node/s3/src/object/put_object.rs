//! PutObject: headers and body -> a put -> the entity tag.

use http::{HeaderMap, StatusCode};
use sherd_core::record::Checksum;

use crate::answer::{self, Outcome, Response, body};
use crate::gateway::Gateway;
use crate::head::{attributes, checksum, conditions, names};
use crate::object::given_tags;
use crate::request::Request;
use crate::wire::refusal::Refusal;
use sherd_store::object::{PutRequest, WriteOutcome};

/// The request is read before the future is made: it is large, and the future does without it.
pub(crate) fn put<'a>(
    gateway: &'a Gateway,
    request: Request<'_>,
) -> impl Future<Output = Outcome<Response>> + Send + use<'a> {
    let asked = asked(request);
    async move {
        let asked = asked?;
        gateway.objects.foresee(&asked.name, &asked.conditions).await?;
        let written = gateway.objects.put(asked).await?;
        Ok(answer::empty(StatusCode::OK, headers_of(&written)))
    }
}

fn asked(request: Request<'_>) -> Result<PutRequest, Refusal> {
    let Request { target, head, call, access, payload, .. } = request;
    let name = names::made(target.object())?;
    Ok(PutRequest {
        tags: given_tags::permitted(&head, &access, &name)?,
        name,
        attributes: attributes::of_request(&head)?,
        conditions: conditions::of_write(&head)?.in_call(call),
        upload: payload.into_upload(),
    })
}

/// The headers of an answer about an object that was stored.
pub(super) fn headers_of(written: &WriteOutcome) -> HeaderMap {
    let mut headers = HeaderMap::new();
    body::add_etag(&written.etag, &mut headers);
    let kind = written.checksums.first().map(Checksum::kind);
    checksum::add_headers(&written.checksums, kind, &mut headers);
    headers
}
