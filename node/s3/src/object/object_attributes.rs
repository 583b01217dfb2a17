//! GetObjectAttributes: what an object is, by the names that a request lists, as a document.
//!
//! As on AWS the entity tag stands without quotes here, a composite checksum without the number of its parts.
//! The parts of a multipart object are listed, with their checksums where the object's is made of those.

use std::io::Write;

use http::header::LAST_MODIFIED;
use s3s::dto::{Checksum, GetObjectAttributesParts, ObjectAttributes, ObjectPart, StorageClass};
use s3s::xml::{SerResult, Serialize, SerializeContent, Serializer};
use sherd_core::limits::LIST_KEYS_MAX;
use sherd_core::record::{Checksum as StoredChecksum, ChecksumKind, Checksums};

use crate::access::facts::Facts;
use crate::answer::{self, NAMESPACE, Outcome, Response};
use crate::bucket::listing::part_marker;
use crate::gateway::Gateway;
use crate::head::checksum_elements::ChecksummedContent;
use crate::head::{checksum, tagging, timestamp};
use crate::request::Request;
use crate::wire::refusal::Refusal;
use sherd_store::object::{ObjectDescription, PartDescription};

const ATTRIBUTES: &str = "x-amz-object-attributes";

pub(crate) async fn get(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let null_version = request.names_null_version();
    let Request { target, head, access, .. } = request;
    let max = head.number("x-amz-max-parts")?;
    let lines = head.list(ATTRIBUTES)?;
    let after = head.number("x-amz-part-number-marker")?;
    let wanted = AttributeSelection::of(&lines)?;
    let page = PartsAsked::of(max, after)?;
    let name = target.object();
    let ObjectDescription { info, mut parts } = gateway.objects.describe(name.clone()).await?;
    access.settle_read(&name, Facts::of(&head), || tagging::given(&info.tags))?;
    if info.checksum_kind != Some(ChecksumKind::Composite) {
        parts.iter_mut().flatten().for_each(|part| part.checksum = None);
    }
    let bare: Checksums =
        info.checksums.iter().map(|sum| StoredChecksum { composite_of: None, ..sum.clone() }).collect();
    let whole = ChecksummedContent {
        checksums: &bare,
        content: Checksum { checksum_type: checksum::type_of(&info.checksums), ..Checksum::default() },
    };
    let document = answer::document(&Attributes {
        checksum: (wanted.has(ObjectAttributes::CHECKSUM) && !bare.is_empty()).then_some(whole),
        etag: wanted.has(ObjectAttributes::ETAG).then_some(info.etag),
        parts: parts
            .as_deref()
            .filter(|_| wanted.has(ObjectAttributes::OBJECT_PARTS))
            .map(|parts| page.of_parts(parts)),
        size: i64::try_from(info.size).ok().filter(|_| wanted.has(ObjectAttributes::OBJECT_SIZE)),
        has_storage_class: wanted.has(ObjectAttributes::STORAGE_CLASS),
    })?;
    let mut response = answer::of_version(document, null_version);
    response.headers_mut().insert(LAST_MODIFIED, timestamp::in_header(info.modified_ms));
    Ok(response)
}

/// The document.
struct Attributes<'a> {
    checksum: Option<ChecksummedContent<'a, Checksum>>,
    etag: Option<String>,
    parts: Option<PartsPage<'a>>,
    size: Option<i64>,
    has_storage_class: bool,
}

impl Serialize for Attributes<'_> {
    fn serialize<W: Write>(&self, serializer: &mut Serializer<W>) -> SerResult {
        serializer.element_with_ns("GetObjectAttributesResponse", NAMESPACE, |serializer| {
            if let Some(checksum) = &self.checksum {
                serializer.content("Checksum", checksum)?;
            }
            if let Some(etag) = &self.etag {
                serializer.content("ETag", etag)?;
            }
            if let Some(parts) = &self.parts {
                serializer.content("ObjectParts", parts)?;
            }
            if let Some(size) = &self.size {
                serializer.content("ObjectSize", size)?;
            }
            if self.has_storage_class {
                serializer.content("StorageClass", StorageClass::STANDARD)?;
            }
            Ok(())
        })
    }
}

/// A page of parts, and what is said of all of them.
struct PartsPage<'a> {
    /// The elements that stand in front of the parts.
    before: GetObjectAttributesParts,
    parts: Vec<&'a PartDescription>,
    total_count: usize,
}

impl SerializeContent for PartsPage<'_> {
    fn serialize_content<W: Write>(&self, serializer: &mut Serializer<W>) -> SerResult {
        self.before.serialize_content(serializer)?;
        for part in &self.parts {
            serializer.content("Part", &described(part))?;
        }
        let total_parts_count = i32::try_from(self.total_count).ok();
        GetObjectAttributesParts { total_parts_count, ..GetObjectAttributesParts::default() }
            .serialize_content(serializer)
    }
}

/// The elements of the answer.
#[derive(Debug, PartialEq, Eq)]
struct AttributeSelection<'a>(Vec<&'a str>);

impl<'a> AttributeSelection<'a> {
    /// Reads the names, one or several of them on each line of the header.
    ///
    /// # Errors
    /// InvalidArgument for any other.
    fn of(lines: &[&'a str]) -> Result<Self, Refusal> {
        const KNOWN: [&str; 5] = [
            ObjectAttributes::ETAG,
            ObjectAttributes::CHECKSUM,
            ObjectAttributes::OBJECT_PARTS,
            ObjectAttributes::STORAGE_CLASS,
            ObjectAttributes::OBJECT_SIZE,
        ];
        let names: Vec<&str> = lines.iter().flat_map(|line| line.split(',')).map(str::trim).collect();
        match names.iter().find(|name| !KNOWN.contains(name)) {
            Some(unknown) => {
                Err(Refusal::bad_argument("Invalid attribute name specified.", ATTRIBUTES, unknown))
            }
            None => Ok(Self(names)),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains(&name)
    }
}

/// The parts that the answer lists.
#[derive(Debug)]
struct PartsAsked {
    after: u16,
    max: usize,
}

impl PartsAsked {
    fn of(max: Option<i32>, after: Option<i32>) -> Result<Self, Refusal> {
        let max = crate::bucket::listing::page_size(max, "max-parts", 0)?;
        let after = after.map(part_marker).transpose()?.unwrap_or_default();
        Ok(Self { after, max: usize::try_from(max.min(LIST_KEYS_MAX)).expect("a page is small") })
    }

    fn of_parts<'a>(&self, parts: &'a [PartDescription]) -> PartsPage<'a> {
        let mut page: Vec<&PartDescription> = parts.iter().filter(|part| part.number > self.after).collect();
        let is_truncated = page.len() > self.max;
        page.truncate(self.max);
        let last = page.last().map_or(self.after, |part| part.number);
        let before = GetObjectAttributesParts {
            is_truncated: Some(is_truncated),
            max_parts: i32::try_from(self.max).ok(),
            next_part_number_marker: Some(i32::from(last)),
            part_number_marker: Some(i32::from(self.after)),
            ..GetObjectAttributesParts::default()
        };
        PartsPage { before, parts: page, total_count: parts.len() }
    }
}

fn described(part: &PartDescription) -> ChecksummedContent<'_, ObjectPart> {
    let content = ObjectPart {
        part_number: Some(i32::from(part.number)),
        size: i64::try_from(part.size).ok(),
        ..ObjectPart::default()
    };
    ChecksummedContent { checksums: part.checksum.as_slice(), content }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::refusal::Code;

    #[test]
    fn attributes_are_listed_on_one_line_or_several() {
        for lines in [&["ETag, ObjectSize"][..], &["ETag", "ObjectSize"]] {
            assert_eq!(AttributeSelection::of(lines).unwrap().0, ["ETag", "ObjectSize"]);
        }
        for bad in ["", "etag", "ETag,", "Everything"] {
            let refused = AttributeSelection::of(&[bad]).unwrap_err();
            assert_eq!(refused.code, Code::InvalidArgument, "{bad}");
        }
    }

    #[test]
    fn a_document_has_its_elements_in_one_order() {
        let parts = [PartDescription { number: 2, size: 7, checksum: None }];
        let page = PartsAsked { after: 1, max: 9 }.of_parts(&parts);
        let document = Attributes {
            checksum: None,
            etag: None,
            parts: Some(page),
            size: Some(7),
            has_storage_class: true,
        };
        assert_eq!(
            answer::text(&document),
            format!(
                "<GetObjectAttributesResponse xmlns=\"{NAMESPACE}\"><ObjectParts><IsTruncated>false</IsTruncated>\
                 <MaxParts>9</MaxParts><NextPartNumberMarker>2</NextPartNumberMarker>\
                 <PartNumberMarker>1</PartNumberMarker><Part><PartNumber>2</PartNumber><Size>7</Size></Part>\
                 <PartsCount>1</PartsCount></ObjectParts><ObjectSize>7</ObjectSize>\
                 <StorageClass>STANDARD</StorageClass></GetObjectAttributesResponse>"
            )
        );
    }

    #[test]
    fn parts_are_counted_and_listed_in_pages() {
        let parts: Vec<PartDescription> =
            [2, 5, 9].map(|number| PartDescription { number, size: 7, checksum: None }).into();
        let numbers = |page: &PartsPage<'_>| page.parts.iter().map(|part| part.number).collect::<Vec<_>>();
        let first = PartsAsked { after: 0, max: 2 }.of_parts(&parts);
        assert_eq!((numbers(&first), first.before.is_truncated), (vec![2, 5], Some(true)));
        assert_eq!(first.total_count, 3);
        let after = u16::try_from(first.before.next_part_number_marker.unwrap()).unwrap();
        let rest = PartsAsked { after, max: 2 }.of_parts(&parts);
        assert_eq!((numbers(&rest), rest.before.is_truncated), (vec![9], Some(false)));
        let none = PartsAsked { after: 9, max: 2 }.of_parts(&parts);
        assert_eq!((numbers(&none), none.before.next_part_number_marker), (vec![], Some(9)));
    }
}
