//! CopyObject: a source, what to keep of it, and conditions on both ends.

use sherd_core::record::ObjectTags;
use sherd_core::register::call::ClientCall;
use sherd_front::decision::Decision;

use crate::access::again::judged;
use crate::access::facts::{DocumentFacts, Facts};
use crate::access::{self, Access, READ_TAGS, WRITE_TAGS, of_version};
use crate::answer::{Outcome, Response};
use crate::gateway::Gateway;
use crate::head::request_head::RequestHead;
use crate::head::{attributes, checksum, conditions, directive, names};
use crate::object::readable_source::ReadableSource;
use crate::object::{given_tags, readable_source};
use crate::request::{Request, Target};
use crate::wire::refusal::{Code, Refusal};
use sherd_store::object::{CopyAttributes, CopyRequest, ObjectName};

pub(crate) async fn copy(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let Request { target, head, call, access, .. } = request;
    judged(|| copy_once(gateway, &target, &head, call, &access)).await
}

async fn copy_once(
    gateway: &Gateway,
    target: &Target,
    head: &RequestHead<'_>,
    call: Option<ClientCall>,
    access: &Access,
) -> Outcome<Response> {
    let mut readable = readable_source::readable(gateway, head, access).await?;
    let target = names::made(target.clone().object())?;
    let tags = new_tags(head, access, &target)?;
    if tags.is_none() {
        check_kept_tags(gateway, head, &mut readable, access, &target).await?;
    }
    let copy = CopyRequest {
        source: readable.source.name.clone(),
        source_conditions: readable.conditions(head)?,
        tags,
        target,
        conditions: conditions::of_write(head)?.in_call(call),
        attributes: new_attributes(head)?,
        checksum: checksum::algorithm_header(head)?,
    };
    let written = gateway.objects.copy(copy).await.map_err(|error| readable.shown(error))?;
    readable.answer("CopyObjectResult", &written, checksum::type_of(&written.checksums))
}

/// The attributes of the copy.
fn new_attributes(head: &RequestHead<'_>) -> Result<CopyAttributes, Refusal> {
    if directive::replaces_metadata(head)? {
        return attributes::of_request(head).map(CopyAttributes::Replaced);
    }
    Ok(CopyAttributes::Kept { own: attributes::REDIRECT, value: attributes::redirect(head)? })
}

/// The tags of the copy; `None` keeps the source's.
fn new_tags(
    head: &RequestHead<'_>,
    access: &Access,
    target: &ObjectName,
) -> Result<Option<ObjectTags>, Refusal> {
    directive::replaces_tags(head)?.then(|| given_tags::permitted(head, access, target)).transpose()
}

/// Judges a copy that keeps the tags of its source, by those where a decision depends on them.
///
/// # Errors
/// AccessDenied, also where the caller may not copy tags and the source has some.
async fn check_kept_tags(
    gateway: &Gateway,
    head: &RequestHead<'_>,
    readable: &mut ReadableSource,
    access: &Access,
    target: &ObjectName,
) -> Outcome<()> {
    if access.needs().is_none() && may_copy_tags(head, readable, access, target) == Some(true) {
        return Ok(());
    }
    let tags = readable.deciding_tags(gateway).await?;
    let facts = Facts::of(head).with_document(DocumentFacts::Tags(tags));
    access.settle(access::object(target), facts)?;
    if tags.is_empty() || may_copy_tags(head, readable, access, target) == Some(true) {
        Ok(())
    } else {
        Err(Refusal::new(Code::AccessDenied).into())
    }
}

/// Whether the caller may read the tags of the source and give them to the copy. `None`: by tags that are not
/// read yet.
fn may_copy_tags(
    head: &RequestHead<'_>,
    readable: &ReadableSource,
    access: &Access,
    target: &ObjectName,
) -> Option<bool> {
    let ReadableSource { source, access: of_source, tags } = readable;
    let version = source.version_text();
    let read = of_version(READ_TAGS, version.is_some());
    let of_read = Facts::of(head).with_version(version.as_deref()).about_object();
    let of_write = Facts::of(head).awaiting_document();
    let (of_read, of_write) = match tags {
        Some(tags) => (of_read.with_existing_tags(tags), of_write.with_document(DocumentFacts::Tags(tags))),
        None => (of_read, of_write),
    };
    let may_read = of_source.decide(read, access::object(&source.name), of_read);
    let may_write = access.decide(WRITE_TAGS, access::object(target), of_write);
    match (may_read, may_write) {
        (Decision::Denied(_), _) | (_, Decision::Denied(_)) => Some(false),
        (Decision::Allowed, Decision::Allowed) => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::copy_source::CopySource;

    #[test]
    fn metadata_is_copied_unless_it_is_replaced() {
        let new = |name, value| {
            let sent = [("content-type", "text/plain"), ("x-amz-meta-a", "1"), (name, value)];
            new_attributes(&RequestHead::with(&sent))
        };
        let kept = |value| CopyAttributes::Kept { own: attributes::REDIRECT, value };
        let directive = "x-amz-metadata-directive";
        assert_eq!(new("host", "s3.test").unwrap(), kept(None));
        assert_eq!(new(directive, "COPY").unwrap(), kept(None));
        assert_eq!(new(attributes::REDIRECT, "/a").unwrap(), kept(Some("/a".to_owned())));
        let CopyAttributes::Replaced(replaced) = new(directive, "REPLACE").unwrap() else {
            panic!("they are replaced");
        };
        assert_eq!(replaced.get("x-amz-meta-a"), Some("1"));
        assert_eq!(new(directive, "MERGE").unwrap_err().code, Code::InvalidArgument);
    }

    #[test]
    fn tags_are_copied_unless_they_are_replaced() {
        let (source, target) = (names::object("bucket", "a").unwrap(), names::object("bucket", "b").unwrap());
        let other = names::object("bucket", "other").unwrap();
        let root = Access::denying(READ_TAGS, &other);
        let tags = |pairs: &[(&'static str, &str)], access: &Access| {
            let head = RequestHead::with(pairs);
            let copied = CopySource { name: source.clone(), version: None };
            let readable = ReadableSource { source: copied, access: access.clone(), tags: None };
            let may_copy = may_copy_tags(&head, &readable, access, &target);
            let tags = new_tags(&head, access, &target).map_err(|refusal| refusal.code);
            (tags.map(|tags| tags.map(|tags| tags.count())), may_copy)
        };
        let (given, directive) = (("x-amz-tagging", "a=1"), "x-amz-tagging-directive");
        for kept in [&[][..], &[given], &[(directive, "COPY"), given]] {
            assert_eq!(tags(kept, &root), (Ok(None), Some(true)), "{kept:?}");
        }
        assert_eq!(tags(&[(directive, "REPLACE"), given], &root).0, Ok(Some(1)));
        assert_eq!(tags(&[(directive, "REPLACE")], &root).0, Ok(Some(0)));
        assert_eq!(tags(&[(directive, "MERGE")], &root).0, Err(Code::InvalidArgument));
        assert_eq!(
            tags(&[(directive, "REPLACE"), ("x-amz-tagging", "a=1&a=2")], &root).0,
            Err(Code::InvalidArgument)
        );
        let no_reader = Access::denying(READ_TAGS, &source);
        let no_writer = Access::denying(WRITE_TAGS, &target);
        assert_eq!(tags(&[], &no_reader), (Ok(None), Some(false)));
        assert_eq!(tags(&[], &no_writer), (Ok(None), Some(false)));
        assert_eq!(tags(&[(directive, "REPLACE"), given], &no_writer).0, Err(Code::AccessDenied));
        assert_eq!(tags(&[(directive, "REPLACE")], &no_writer).0, Ok(Some(0)));
    }
}
