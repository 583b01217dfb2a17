//! UploadPart and UploadPartCopy.

use http::{HeaderMap, StatusCode};

use crate::access::Access;
use crate::access::again::judged;
use crate::answer::{self, Outcome, Response, body};
use crate::gateway::Gateway;
use crate::head::request_head::RequestHead;
use crate::head::{checksum, names, range};
use crate::object::readable_source;
use crate::request::Request;
use crate::wire::refusal::Refusal;
use sherd_store::object::{CopyPart, ObjectName, PartName};

pub(crate) async fn upload(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let part = named(request.target.object(), &request.head)?;
    let written = gateway.objects.put_part(part, request.payload.into_upload()).await?;
    let mut headers = HeaderMap::new();
    checksum::add_headers(&written.checksums, None, &mut headers);
    body::add_etag(&written.etag, &mut headers);
    Ok(answer::empty(StatusCode::OK, headers))
}

pub(crate) async fn upload_copy(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let Request { target, head, access, .. } = request;
    let part = named(target.object(), &head);
    judged(|| copy_part(gateway, &head, &access, part.clone())).await
}

async fn copy_part(
    gateway: &Gateway,
    head: &RequestHead<'_>,
    access: &Access,
    part: Result<PartName, Refusal>,
) -> Outcome<Response> {
    let readable = readable_source::readable(gateway, head, access).await?;
    let copy = CopyPart {
        part: part?,
        source: readable.source.name.clone(),
        span: range::of_copy(head)?,
        source_conditions: readable.conditions(head)?,
    };
    let written = gateway.objects.copy_part(copy).await.map_err(|error| readable.shown(error))?;
    readable.answer("CopyPartResult", &written, None)
}

/// The part that a request names.
fn named(name: ObjectName, head: &RequestHead<'_>) -> Result<PartName, Refusal> {
    let number = head.parameter("partNumber")?.unwrap_or_default();
    part_name(name, &head.text("uploadId").unwrap_or_default(), number)
}

fn part_name(name: ObjectName, upload: &str, number: i32) -> Result<PartName, Refusal> {
    Ok(PartName { number: names::part_number(number)?, name, upload: names::upload(upload)? })
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::wire::refusal::Code;

    #[test]
    fn a_part_is_named_by_all_four() {
        let id = "00112233445566778899aabbccddeeff";
        let part = part_name(names::object("bucket", "key").unwrap(), id, 7).unwrap();
        assert_eq!((part.number, part.upload.to_string().as_str()), (7, id));
        let name = || names::object("bucket", "key").unwrap();
        let code = |upload, number| part_name(name(), upload, number).unwrap_err().code;
        assert_eq!(code(id, 0), Code::InvalidArgument);
        assert_eq!(code("nonsense", 1), Code::NoSuchUpload);
    }
}
