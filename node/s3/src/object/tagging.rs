//! GetObjectTagging, PutObjectTagging and DeleteObjectTagging.

use s3s::dto::GetObjectTaggingOutput;
use sherd_core::record::ObjectTags;

use crate::access::again::judged;
use crate::access::facts::{DocumentFacts, Facts};
use crate::access::{self, Access};
use crate::answer::{self, Outcome, Response};
use crate::gateway::Gateway;
use crate::head::request_head::RequestHead;
use crate::head::tagging;
use crate::request::Request;
use sherd_store::object::ObjectName;

pub(crate) async fn get(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let null_version = request.names_null_version();
    let Request { target, head, access, .. } = request;
    let name = target.object();
    let tags = gateway.objects.tags(&name).await?;
    access.settle_read(&name, Facts::of(&head), || Ok(&tags))?;
    let tag_set = tags.into_iter().map(tagging::shown).collect();
    let response = answer::document(&GetObjectTaggingOutput { tag_set, version_id: None })?;
    Ok(answer::of_version(response, null_version))
}

pub(crate) async fn put(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let null_version = request.names_null_version();
    let Request { target, head, access, payload, .. } = request;
    let tags = tagging::of_document(payload.into_document())?;
    change(gateway, &target.object(), &tags, &head, &access).await?;
    Ok(answer::of_version(answer::ok(), null_version))
}

pub(crate) async fn delete(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let null_version = request.names_null_version();
    let Request { target, head, access, .. } = request;
    change(gateway, &target.object(), &ObjectTags::default(), &head, &access).await?;
    Ok(answer::of_version(answer::no_content(), null_version))
}

/// Gives an object tags in place of others: of those alone that decided, where a decision depends on them.
async fn change(
    gateway: &Gateway,
    name: &ObjectName,
    tags: &ObjectTags,
    head: &RequestHead<'_>,
    access: &Access,
) -> Outcome<()> {
    judged(|| async {
        let mut decided_by = None;
        if access.needs().is_some() {
            let (given, existing) = (tagging::given(tags)?, gateway.objects.tags(name).await?);
            let facts =
                Facts::of(head).with_existing_tags(&existing).with_document(DocumentFacts::Tags(&given));
            access.settle(access::object(name), facts)?;
            decided_by = Some(tagging::encoded(&existing)?);
        }
        Ok(gateway.objects.set_tags(name, tags.clone(), decided_by).await?)
    })
    .await
}
