//! GetObjectTagging, PutObjectTagging and DeleteObjectTagging.

use http::{HeaderMap, StatusCode};
use s3s::dto::GetObjectTaggingOutput;
use sherd_core::record::ObjectTags;

use crate::access;
use crate::access::facts::{AwaitedFacts, DocumentFacts, Facts};
use crate::answer::{self, NULL, Response, VERSION_ID};
use crate::error::Outcome;
use crate::gateway::Gateway;
use crate::header::tagging;
use crate::protocol::code::Code;
use crate::protocol::refusal::Refusal;
use crate::request::Request;

pub(crate) async fn get(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let null_version = request.names_null_version();
    let tags = gateway.objects.tags(&request.target.object()).await?;
    let tag_set = tags.into_iter().map(tagging::shown).collect();
    let response = answer::document(&GetObjectTaggingOutput { tag_set, version_id: None })?;
    Ok(of_version(response, null_version))
}

pub(crate) async fn put(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let null_version = request.names_null_version();
    let Request { target, headers, mut access, payload, .. } = request;
    let tags = tagging::of_document(payload.into_document())?;
    let name = target.object();
    if access.awaited() != AwaitedFacts::Nothing {
        let given = tags.decode().map_err(|_| Refusal::new(Code::InternalError))?;
        let existing = gateway.objects.tags(&name).await?;
        let facts = Facts::of(&headers).with_version(null_version.then_some("null"));
        let facts = facts.with_existing_tags(&existing).with_document(DocumentFacts::Tags(&given));
        access.settle(access::object(&name), facts)?;
    }
    gateway.objects.set_tags(&name, tags).await?;
    Ok(of_version(answer::empty(StatusCode::OK, HeaderMap::new()), null_version))
}

pub(crate) async fn delete(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let null_version = request.names_null_version();
    gateway.objects.set_tags(&request.target.object(), ObjectTags::default()).await?;
    Ok(of_version(answer::no_content(), null_version))
}

fn of_version(mut response: Response, null_version: bool) -> Response {
    if null_version {
        response.headers_mut().insert(VERSION_ID, NULL);
    }
    response
}
