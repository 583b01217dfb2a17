//! The list of parts that CompleteMultipartUpload brings: of each its number, its entity tag, and a checksum
//! of any algorithm. Order, sizes and tags are the store's to judge; here a list only has to be one.

use s3s::dto::{ETag, List};
use s3s::xml::{DeError, DeResult, Deserialize, DeserializeContent, Deserializer};
use sherd_core::limits::PARTS_MAX;
use sherd_core::record::ChecksumAlgorithm;

use crate::head::document::once;
use crate::head::{checksum, names};
use crate::wire::checksum::of_element;
use crate::wire::refusal::{Code, Refusal};
use sherd_store::object::ListedPart;

/// The document.
#[derive(Default)]
pub(crate) struct PartList(List<SentPart>);

/// A part as the client wrote it.
#[derive(Clone, Default)]
struct SentPart {
    number: Option<i32>,
    etag: Option<ETag>,
    checksums: Vec<(ChecksumAlgorithm, String)>,
}

impl<'xml> Deserialize<'xml> for PartList {
    fn deserialize(parser: &mut Deserializer<'xml>) -> DeResult<Self> {
        parser.named_element("CompleteMultipartUpload", |parser| parser.list_content("Part")).map(Self)
    }
}

impl<'xml> DeserializeContent<'xml> for SentPart {
    fn deserialize_content(parser: &mut Deserializer<'xml>) -> DeResult<Self> {
        let mut part = Self::default();
        parser.for_each_element(|parser, name| match name {
            b"ETag" => once(&mut part.etag, parser.content()?),
            b"PartNumber" => once(&mut part.number, parser.content()?),
            name => {
                let algorithm = of_element(name).ok_or(DeError::UnexpectedTagName)?;
                if part.checksums.iter().any(|(sent, _)| *sent == algorithm) {
                    return Err(DeError::DuplicateField);
                }
                part.checksums.push((algorithm, parser.content()?));
                Ok(())
            }
        })?;
        Ok(part)
    }
}

pub(super) fn malformed() -> Refusal {
    Refusal::says(
        Code::MalformedXML,
        "The XML you provided was not well-formed or did not validate against our published schema",
    )
}

pub(crate) fn listed_parts(PartList(parts): PartList) -> Result<Vec<ListedPart>, Refusal> {
    if parts.is_empty() || parts.len() > usize::from(PARTS_MAX) {
        return Err(malformed());
    }
    parts.into_iter().map(listed_part).collect()
}

fn listed_part(SentPart { number, etag, checksums }: SentPart) -> Result<ListedPart, Refusal> {
    Ok(ListedPart {
        number: names::part_number(number.ok_or_else(malformed)?)?,
        etag: etag.ok_or_else(malformed)?.into_value(),
        checksum: checksum::of_listed_part(checksums)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::document;

    fn list(parts: &str) -> Result<Vec<ListedPart>, Refusal> {
        let document = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
        document::of(document.as_bytes()).and_then(listed_parts)
    }

    fn part(number: i32, more: &str) -> String {
        format!("<Part><PartNumber>{number}</PartNumber><ETag>\"0123\"</ETag>{more}</Part>")
    }

    #[test]
    fn a_list_of_parts_has_numbers_and_tags() {
        let parts = list(&[part(2, ""), "<More><Part/></More>".to_owned(), part(1, "")].concat()).unwrap();
        assert_eq!(
            parts.iter().map(|part| part.number).collect::<Vec<_>>(),
            [2, 1],
            "the store judges the order"
        );
        assert_eq!(parts.first().map(|part| part.etag.as_str()), Some("0123"));
    }

    #[test]
    fn a_list_that_is_none_is_malformed() {
        let code = |parts: &str| list(parts).unwrap_err().code;
        assert_eq!(code(""), Code::MalformedXML);
        assert_eq!(code("<Part><PartNumber>1</PartNumber></Part>"), Code::MalformedXML);
        assert_eq!(code("<Part><ETag>0123</ETag></Part>"), Code::MalformedXML);
        for more in ["<ETag>4</ETag>", "<PartNumber>2</PartNumber>", "<ChecksumCRC33>AA==</ChecksumCRC33>"] {
            assert_eq!(code(&part(1, more)), Code::MalformedXML, "{more}");
        }
        assert_eq!(code(&part(0, "")), Code::InvalidArgument);
        let many: String = (1..=10_001).map(|number| part(number, "")).collect();
        assert_eq!(code(&many), Code::MalformedXML);
    }

    #[test]
    fn a_part_has_one_checksum_of_any_algorithm() {
        for (sent, algorithm) in [
            ("<ChecksumCRC32>y/Q5Jg==</ChecksumCRC32>", ChecksumAlgorithm::Crc32),
            ("<ChecksumMD5>JfnnlDI7RTiF9RgfG2JNCw==</ChecksumMD5>", ChecksumAlgorithm::Md5),
            ("<ChecksumXXHASH64>jLhB20DmroM=</ChecksumXXHASH64>", ChecksumAlgorithm::XxHash64),
        ] {
            let parts = list(&part(1, sent)).unwrap();
            let found = parts.first().and_then(|part| part.checksum.as_ref());
            assert_eq!(found.map(|checksum| checksum.algorithm), Some(algorithm), "{sent}");
            assert_eq!(list(&part(1, &sent.repeat(2))).unwrap_err().code, Code::MalformedXML, "{sent}");
        }
        let two = "<ChecksumSHA1>a</ChecksumSHA1><ChecksumCRC32>b</ChecksumCRC32>";
        let refused = list(&part(1, two)).unwrap_err();
        assert_eq!(refused.code, Code::InvalidArgument);
        assert!(refused.details.contains(&("ArgumentValue", "CRC32:b;SHA1:a;".to_owned())), "{refused:?}");
    }
}
