//! GetObjectAttributes: what an object is, by the names that a request lists, as a document.
//!
//! As on AWS the entity tag stands without quotes here (the protocol layer takes them off), a composite checksum
//! without the number of its parts, and the parts of a multipart object are listed with their checksums.

use http::HeaderMap;
use http::header::LAST_MODIFIED;
use s3s::dto::{
    Checksum, GetObjectAttributesInput, GetObjectAttributesOutput, GetObjectAttributesParts,
    ObjectAttributes, ObjectPart, StorageClass,
};
use s3s::{S3Request, S3Response, S3Result};
use sherd_core::limits::LIST_KEYS_MAX;
use sherd_core::record::{Checksum as StoredChecksum, Checksums};

use crate::error::{Outcome, bad_argument};
use crate::multipart::part_marker;
use crate::{body, gateway::Gateway, header::checksum, header::timestamp, names};
use sherd_store::object::{ObjectDescription, PartDescription};

const ATTRIBUTES: &str = "x-amz-object-attributes";

pub(crate) async fn get(
    gateway: &Gateway,
    request: S3Request<GetObjectAttributesInput>,
) -> Outcome<S3Response<GetObjectAttributesOutput>> {
    let input = &request.input;
    let wanted = AttributeSelection::of(&input.object_attributes)?;
    let page = PartsAsked::of(input)?;
    let null_version = names::version(input.version_id.as_deref())?;
    let described = gateway.objects.describe(names::object(&input.bucket, &input.key)?).await?;
    let ObjectDescription { info, parts } = described;
    let mut whole = Checksum { checksum_type: checksum::type_of(&info.checksums), ..Checksum::default() };
    let bare: Checksums =
        info.checksums.iter().map(|sum| StoredChecksum { composite_of: None, ..sum.clone() }).collect();
    checksum::fill_checksums!(whole, &bare);
    let output = GetObjectAttributesOutput {
        checksum: (wanted.has(ObjectAttributes::CHECKSUM) && !info.checksums.is_empty()).then_some(whole),
        e_tag: wanted.has(ObjectAttributes::ETAG).then(|| body::etag(&info.etag)),
        object_parts: parts
            .filter(|_| wanted.has(ObjectAttributes::OBJECT_PARTS))
            .map(|parts| page.of_parts(&parts)),
        object_size: i64::try_from(info.size).ok().filter(|_| wanted.has(ObjectAttributes::OBJECT_SIZE)),
        storage_class: wanted
            .has(ObjectAttributes::STORAGE_CLASS)
            .then(|| StorageClass::from_static(StorageClass::STANDARD)),
        version_id: null_version.then(|| "null".to_owned()),
        ..GetObjectAttributesOutput::default()
    };
    let headers = HeaderMap::from_iter([(LAST_MODIFIED, timestamp::in_header(info.modified_ms))]);
    Ok(S3Response::with_headers(output, headers))
}

/// Which elements the answer has.
#[derive(Debug, PartialEq, Eq)]
struct AttributeSelection<'a>(Vec<&'a str>);

impl<'a> AttributeSelection<'a> {
    /// Reads the names, one or several of them on each line of the header.
    ///
    /// # Errors
    /// InvalidArgument for any other.
    fn of(lines: &'a [ObjectAttributes]) -> S3Result<Self> {
        const KNOWN: [&str; 5] = [
            ObjectAttributes::ETAG,
            ObjectAttributes::CHECKSUM,
            ObjectAttributes::OBJECT_PARTS,
            ObjectAttributes::STORAGE_CLASS,
            ObjectAttributes::OBJECT_SIZE,
        ];
        let names: Vec<&str> =
            lines.iter().flat_map(|line| line.as_str().split(',')).map(str::trim).collect();
        match names.iter().find(|name| !KNOWN.contains(name)) {
            Some(unknown) => Err(bad_argument("Invalid attribute name specified.", ATTRIBUTES, unknown)),
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
    fn of(input: &GetObjectAttributesInput) -> S3Result<Self> {
        let max = crate::bucket::list_objects::page_size(input.max_parts, "max-parts", 0)?;
        let after = input.part_number_marker.map(part_marker).transpose()?.unwrap_or_default();
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
    use s3s::S3ErrorCode;

    use super::*;

    #[test]
    fn attributes_are_listed_on_one_line_or_several() {
        for lines in [&["ETag, ObjectSize"][..], &["ETag", "ObjectSize"]] {
            let lines: Vec<ObjectAttributes> =
                lines.iter().map(|line| ObjectAttributes::from_static(line)).collect();
            assert_eq!(AttributeSelection::of(&lines).unwrap().0, ["ETag", "ObjectSize"]);
        }
        for bad in ["", "etag", "ETag,", "Everything"] {
            let refused = AttributeSelection::of(&[ObjectAttributes::from_static(bad)]).unwrap_err();
            assert_eq!(refused.code(), &S3ErrorCode::InvalidArgument, "{bad}");
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
