//! ListParts: the parts of an open upload, by number.

use std::io::Write;

use s3s::dto::{ChecksumAlgorithm, ChecksumType, ListPartsOutput, Part, StorageClass};
use s3s::xml::{SerResult, Serialize, SerializeContent, Serializer};

use crate::answer::{self, NAMESPACE, Outcome, Response, body};
use crate::bucket::listing::{page_size, part_marker};
use crate::gateway::Gateway;
use crate::head::checksum_elements::ChecksummedContent;
use crate::head::{checksum, names, owner, timestamp};
use crate::request::Request;
use sherd_store::object::PartInfo;

pub(crate) async fn list(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let max_parts = request.head.parameter("max-parts")?;
    let asked_marker: Option<i32> = request.head.parameter("part-number-marker")?;
    let upload_id = request.head.text("uploadId").unwrap_or_default();
    let name = request.target.object();
    let upload = names::upload(&upload_id)?;
    let max_parts = page_size(max_parts, "max-parts", 0)?;
    let marker = asked_marker.map(part_marker).transpose()?;
    let page = gateway.objects.list_parts(name.clone(), upload, marker, max_parts).await?;
    let next = page.next.filter(|_| max_parts > 0);
    let before = ListPartsOutput {
        bucket: Some(name.bucket.to_string()),
        key: Some(name.key.to_string()),
        initiator: Some(owner::initiator()),
        owner: Some(owner::owner()),
        max_parts: i32::try_from(max_parts).ok(),
        part_number_marker: Some(asked_marker.unwrap_or_default()),
        next_part_number_marker: next.map(i32::from),
        is_truncated: Some(next.is_some()),
        checksum_algorithm: page
            .checksum
            .map(|(algorithm, _)| ChecksumAlgorithm::from_static(checksum::name(algorithm))),
        checksum_type: page.checksum.map(|(_, kind)| ChecksumType::from_static(checksum::kind_text(kind))),
        ..ListPartsOutput::default()
    };
    answer::document(&PartsPage { before, parts: &page.parts, upload: &upload_id })
}

/// The document.
struct PartsPage<'a> {
    /// All elements that stand in front of the parts.
    before: ListPartsOutput,
    parts: &'a [PartInfo],
    upload: &'a str,
}

impl Serialize for PartsPage<'_> {
    fn serialize<W: Write>(&self, serializer: &mut Serializer<W>) -> SerResult {
        serializer.element_with_ns("ListPartsResult", NAMESPACE, |serializer| {
            self.before.serialize_content(serializer)?;
            for part in self.parts {
                serializer.content("Part", &described(part))?;
            }
            serializer.content("StorageClass", StorageClass::STANDARD)?;
            serializer.content("UploadId", self.upload)
        })
    }
}

fn described(part: &PartInfo) -> ChecksummedContent<'_, Part> {
    let content = Part {
        e_tag: Some(body::etag(&part.etag)),
        last_modified: Some(timestamp::in_xml(part.modified_ms)),
        part_number: Some(i32::from(part.number)),
        size: i64::try_from(part.size).ok(),
        ..Part::default()
    };
    ChecksummedContent { checksums: part.checksum.as_slice(), content }
}

#[cfg(test)]
mod tests {
    use sherd_core::record::{Checksum, ChecksumAlgorithm as Algorithm, ChecksumBytes};

    use super::*;
    use crate::wire::refusal::Code;

    #[test]
    fn a_page_has_its_elements_in_one_order() {
        let before = || ListPartsOutput {
            bucket: Some("b".to_owned()),
            key: Some("k".to_owned()),
            initiator: Some(owner::initiator()),
            owner: Some(owner::owner()),
            max_parts: Some(1000),
            part_number_marker: Some(0),
            is_truncated: Some(false),
            ..ListPartsOutput::default()
        };
        let part = Part {
            checksum_crc32c: Some("AAAAAA==".to_owned()),
            e_tag: Some(body::etag("0123")),
            last_modified: Some(timestamp::in_xml(1000)),
            part_number: Some(7),
            size: Some(9),
            ..Part::default()
        };
        let whole = ListPartsOutput {
            parts: Some(vec![part]),
            storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
            upload_id: Some("00".to_owned()),
            ..before()
        };
        let value = ChecksumBytes::from_slice(&[0; 4]);
        let checksum = Some(Checksum { algorithm: Algorithm::Crc32c, composite_of: None, value });
        let parts = [PartInfo { number: 7, size: 9, etag: "0123".to_owned(), modified_ms: 1000, checksum }];
        let page = PartsPage { before: before(), parts: &parts, upload: "00" };
        assert_eq!(answer::text(&page), answer::text(&whole));
    }

    #[test]
    fn a_page_begins_behind_any_number() {
        assert_eq!(part_marker(0).unwrap(), 0);
        assert_eq!(part_marker(10_000).unwrap(), 10_000);
        assert_eq!(part_marker(70_000).unwrap(), 10_000);
        assert_eq!(part_marker(-1).unwrap_err().code, Code::InvalidArgument);
    }
}
