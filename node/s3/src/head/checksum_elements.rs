//! Checksums in documents: an element for each, named after its algorithm, in front of all other
//! elements of an object or a part. The types of `s3s` have fields for five of the ten algorithms; those stay
//! empty.

use std::io::Write;

use s3s::xml::{SerResult, Serialize, SerializeContent, Serializer};
use sherd_core::record::Checksum;

use super::checksum::text;
use crate::wire::checksum::ALGORITHMS;

/// Writes an element for each checksum, in the order of the table of algorithms.
pub(crate) fn write<W: Write>(checksums: &[Checksum], serializer: &mut Serializer<W>) -> SerResult {
    for (algorithm, _, _, element) in ALGORITHMS {
        for checksum in checksums.iter().filter(|checksum| checksum.algorithm == algorithm) {
            serializer.content(element, &text(checksum))?;
        }
    }
    Ok(())
}

/// The content of an element: checksums, and what follows them.
pub(crate) struct ChecksummedContent<'a, T> {
    pub(crate) checksums: &'a [Checksum],
    pub(crate) content: T,
}

impl<T: SerializeContent> SerializeContent for ChecksummedContent<'_, T> {
    fn serialize_content<W: Write>(&self, serializer: &mut Serializer<W>) -> SerResult {
        write(self.checksums, serializer)?;
        self.content.serialize_content(serializer)
    }
}

/// A document of such content, without a namespace.
pub(crate) struct ChecksummedDocument<'a, T> {
    pub(crate) element: &'static str,
    pub(crate) content: ChecksummedContent<'a, T>,
}

impl<T: SerializeContent> Serialize for ChecksummedDocument<'_, T> {
    fn serialize<W: Write>(&self, serializer: &mut Serializer<W>) -> SerResult {
        serializer.content(self.element, &self.content)
    }
}

#[cfg(test)]
mod tests {
    use s3s::dto::{ChecksumType, CopyObjectResult};
    use sherd_core::record::{ChecksumAlgorithm, ChecksumBytes};

    use super::*;
    use crate::answer;

    #[test]
    fn elements_stand_where_those_of_the_older_algorithms_do() {
        let checksum = |algorithm: ChecksumAlgorithm| Checksum {
            algorithm,
            composite_of: None,
            value: ChecksumBytes::from_slice(&vec![0; algorithm.bytes()]),
        };
        let document = |checksums: &[Checksum]| {
            let content = CopyObjectResult {
                checksum_type: Some(ChecksumType::from_static(ChecksumType::FULL_OBJECT)),
                ..CopyObjectResult::default()
            };
            let content = ChecksummedContent { checksums, content };
            answer::text(&ChecksummedDocument { element: "CopyObjectResult", content })
        };
        let older = CopyObjectResult {
            checksum_crc32: Some("AAAAAA==".to_owned()),
            checksum_crc64nvme: Some("AAAAAAAAAAA=".to_owned()),
            checksum_type: Some(ChecksumType::from_static(ChecksumType::FULL_OBJECT)),
            ..CopyObjectResult::default()
        };
        let both = [checksum(ChecksumAlgorithm::Crc64Nvme), checksum(ChecksumAlgorithm::Crc32)];
        assert_eq!(document(&both), answer::text(&older));
        assert_eq!(
            document(&[checksum(ChecksumAlgorithm::XxHash3)]),
            "<CopyObjectResult><ChecksumXXHASH3>AAAAAAAAAAA=</ChecksumXXHASH3>\
             <ChecksumType>FULL_OBJECT</ChecksumType></CopyObjectResult>"
        );
    }
}
