//! GetObjectAttributes: what an object is, by the names that a request lists, as a document.
//!
//! As on AWS the entity tag stands without quotes here, a composite checksum
//! without the number of its parts, and the parts of a multipart object are listed with their checksums.

use std::io::Write;

use http::HeaderMap;
use http::header::LAST_MODIFIED;
use s3s::dto::{Checksum, GetObjectAttributesParts, ObjectAttributes, ObjectPart, StorageClass};
use s3s::xml::{SerResult, Serialize, Serializer};
use sherd_core::limits::LIST_KEYS_MAX;
use sherd_core::record::{Checksum as StoredChecksum, Checksums};

use crate::answer::{self, NULL, Response, VERSION_ID};
use crate::error::Outcome;
use crate::multipart::part_marker;
use crate::protocol::code::Code;
use crate::protocol::refusal::Refusal;
use crate::request::Request;
use crate::{gateway::Gateway, header::checksum, header::timestamp, header::typed};
use sherd_store::object::{ObjectDescription, PartDescription};

const ATTRIBUTES: &str = "x-amz-object-attributes";
/// Of all documents.
const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

pub(crate) async fn get(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let null_version = request.names_null_version();
    let Request { target, headers, .. } = request;
    let max = typed::number(&headers, "x-amz-max-parts")?;
    let lines = lines(&headers)?;
    let after = typed::number(&headers, "x-amz-part-number-marker")?;
    let wanted = AttributeSelection::of(&lines)?;
    let page = PartsAsked::of(max, after)?;
    let ObjectDescription { info, parts } = gateway.objects.describe(target.object()).await?;
    let mut whole = Checksum { checksum_type: checksum::type_of(&info.checksums), ..Checksum::default() };
    let bare: Checksums =
        info.checksums.iter().map(|sum| StoredChecksum { composite_of: None, ..sum.clone() }).collect();
    checksum::fill_checksums!(whole, &bare);
    let mut response = answer::document(&Attributes {
        checksum: (wanted.has(ObjectAttributes::CHECKSUM) && !info.checksums.is_empty()).then_some(whole),
        etag: wanted.has(ObjectAttributes::ETAG).then_some(info.etag),
        parts: parts
            .filter(|_| wanted.has(ObjectAttributes::OBJECT_PARTS))
            .map(|parts| page.of_parts(&parts)),
        size: i64::try_from(info.size).ok().filter(|_| wanted.has(ObjectAttributes::OBJECT_SIZE)),
        has_storage_class: wanted.has(ObjectAttributes::STORAGE_CLASS),
    })?;
    let headers = response.headers_mut();
    if null_version {
        headers.insert(VERSION_ID, NULL);
    }
    headers.insert(LAST_MODIFIED, timestamp::in_header(info.modified_ms));
    Ok(response)
}

/// The document.
struct Attributes {
    checksum: Option<Checksum>,
    etag: Option<String>,
    parts: Option<GetObjectAttributesParts>,
    size: Option<i64>,
    has_storage_class: bool,
}

impl Serialize for Attributes {
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

/// The lines of the header that lists names.
///
/// # Errors
/// InvalidRequest where the header is missing, InvalidArgument for a line that is not text.
fn lines(headers: &HeaderMap) -> Result<Vec<&str>, Refusal> {
    let lines = headers.get_all(ATTRIBUTES).iter();
    let lines: Vec<&str> = lines
        .map(|line| line.to_str().map_err(|_| typed::invalid(ATTRIBUTES, line)))
        .collect::<Result<_, Refusal>>()?;
    if lines.is_empty() {
        return Err(Refusal::says(Code::InvalidRequest, format!("missing header: {ATTRIBUTES}")));
    }
    Ok(lines)
}

/// Which elements the answer has.
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

/// Which parts the answer lists.
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

    fn of_parts(&self, parts: &[PartDescription]) -> GetObjectAttributesParts {
        let behind: Vec<&PartDescription> = parts.iter().filter(|part| part.number > self.after).collect();
        let page = behind.get(..self.max).unwrap_or(&behind);
        let last = page.last().map_or(self.after, |part| part.number);
        GetObjectAttributesParts {
            is_truncated: Some(page.len() < behind.len()),
            max_parts: i32::try_from(self.max).ok(),
            next_part_number_marker: Some(i32::from(last)),
            part_number_marker: Some(i32::from(self.after)),
            parts: Some(page.iter().map(|part| described(part)).collect()),
            total_parts_count: i32::try_from(parts.len()).ok(),
        }
    }
}

fn described(part: &PartDescription) -> ObjectPart {
    let mut described = ObjectPart {
        part_number: Some(i32::from(part.number)),
        size: i64::try_from(part.size).ok(),
        ..ObjectPart::default()
    };
    checksum::fill_checksums!(described, part.checksum.as_slice());
    described
}

#[cfg(test)]
mod tests {

    use super::*;

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
    fn parts_are_counted_and_listed_in_pages() {
        let parts: Vec<PartDescription> =
            [2, 5, 9].map(|number| PartDescription { number, size: 7, checksum: None }).into();
        let numbers = |page: &GetObjectAttributesParts| {
            page.parts.iter().flatten().filter_map(|part| part.part_number).collect::<Vec<_>>()
        };
        let first = PartsAsked { after: 0, max: 2 }.of_parts(&parts);
        assert_eq!((numbers(&first), first.is_truncated), (vec![2, 5], Some(true)));
        assert_eq!(first.total_parts_count, Some(3));
        let after = u16::try_from(first.next_part_number_marker.unwrap()).unwrap();
        let rest = PartsAsked { after, max: 2 }.of_parts(&parts);
        assert_eq!((numbers(&rest), rest.is_truncated), (vec![9], Some(false)));
        let none = PartsAsked { after: 9, max: 2 }.of_parts(&parts);
        assert_eq!((numbers(&none), none.next_part_number_marker), (vec![], Some(9)));
    }
}
