//! The stored entry of a kind of configuration: its bytes, or the document that they lie in.
//!
//! ```text
//! entry := form u8, (0 bytes of the kind, up to 1 KiB | 1 generation 16, length u32)
//! ```
//! A document is a register of its own in the system namespace, written once before an entry names it:
//! `config/<bucket id>/<kind>/<generation>`. A generation is never used again, so bytes under one name never
//! change. No bucket has a slash in its name.

use bytes::Bytes;

use super::ConfigKind;
use crate::codec::{DecodeError, Reader, Writer};
use crate::id::{BucketId, ChangeId, ObjectKey, RegisterKey};
use crate::limits::CONFIG_BYTES_MAX;

/// The names of all documents begin so.
const DOCUMENTS: &str = "config/";

/// Names one document of a bucket's configuration, and says when it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generation(pub ChangeId);

/// Where the bytes of a kind are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigEntry {
    /// In the entry.
    Inline(Bytes),
    /// In a document.
    Document {
        /// Generation of the document.
        generation: Generation,
        /// Bytes of the document.
        length: u32,
    },
}

impl ConfigEntry {
    /// The bytes of the entry.
    pub fn encode(&self) -> Bytes {
        let mut writer = Writer::new();
        match self {
            Self::Inline(bytes) => writer.u8(0).raw(bytes),
            Self::Document { generation, length } => writer.u8(1).raw(&generation.0.to_bytes()).u32(*length),
        };
        writer.finish()
    }

    /// From the bytes of an entry.
    ///
    /// # Errors
    /// [`DecodeError`] where they have another form.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        match reader.u8("form")? {
            0 => Ok(Self::Inline(reader.bytes(reader.remaining(), "kind")?)),
            1 => {
                let generation = Generation(ChangeId::from_bytes(reader.array("generation")?));
                let length = reader.u32("document length")?;
                reader.finish("entry")?;
                if usize::try_from(length).is_ok_and(|length| length <= CONFIG_BYTES_MAX) {
                    Ok(Self::Document { generation, length })
                } else {
                    Err(DecodeError::Invalid { field: "document length" })
                }
            }
            version => Err(DecodeError::Version { field: "entry", version }),
        }
    }

    /// The kind's bytes, from the entry or from the documents that were read.
    pub(super) fn bytes(
        self,
        kind: ConfigKind,
        documents: &[(ConfigKind, Bytes)],
    ) -> Result<Bytes, DecodeError> {
        match self {
            Self::Inline(bytes) => Ok(bytes),
            Self::Document { length, .. } => {
                let of_kind = documents.iter().find(|(other, _)| *other == kind).map(|(_, bytes)| bytes);
                let whole = of_kind.filter(|bytes| u32::try_from(bytes.len()) == Ok(length));
                whole.cloned().ok_or(DecodeError::Invalid { field: "document" })
            }
        }
    }
}

impl Generation {
    /// The register of the document.
    pub fn register(self, bucket: BucketId, kind: ConfigKind) -> RegisterKey {
        let name = format!("{DOCUMENTS}{bucket}/{}/{}", kind.number(), self.0);
        RegisterKey::bucket(ObjectKey::new(name).expect("some 80 letters"))
    }

    /// A key before those of all documents, and behind all others that are.
    ///
    /// # Panics
    /// Never: the name is a key.
    pub fn before_all() -> RegisterKey {
        RegisterKey::bucket(ObjectKey::new(DOCUMENTS).expect("seven letters"))
    }

    /// The bucket and the generation of a document's register; `None` for any other key.
    pub fn of_register(key: &RegisterKey) -> Option<(BucketId, Self)> {
        if key.bucket != BucketId::SYSTEM || key.part.is_some() {
            return None;
        }
        let mut names = key.key.as_str().strip_prefix(DOCUMENTS)?.split('/');
        let (bucket, kind, generation) = (names.next()?, names.next()?, names.next()?);
        kind.parse::<u16>().ok().filter(|_| names.next().is_none())?;
        let generation = BucketId::parse(generation).ok()?.0;
        Some((BucketId::parse(bucket).ok()?, Self(ChangeId::from_bytes(generation))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{ProposerId, Timestamp};

    const GENERATION: Generation =
        Generation(ChangeId { made: Timestamp::from_u64(0x0102_0304_0506_0708), proposer: ProposerId(9) });

    #[test]
    fn an_entry_is_these_bytes() {
        let inline = ConfigEntry::Inline(Bytes::from_static(b"abc"));
        assert_eq!(hex::encode(inline.encode()), "00616263");
        let document = ConfigEntry::Document { generation: GENERATION, length: 0x1234 };
        let golden = "01 0102030405060708 0000000000000009 34120000".replace(' ', "");
        assert_eq!(hex::encode(document.encode()), golden);
        for entry in [inline, document] {
            assert_eq!(ConfigEntry::decode(entry.encode()), Ok(entry));
        }
        for bytes in ["", "02", "01", "01010203040506070800000000000000093412000000"] {
            let bytes = Bytes::from(hex::decode(bytes).expect("hex"));
            assert!(ConfigEntry::decode(bytes).is_err());
        }
        let long = ConfigEntry::Document { generation: GENERATION, length: u32::MAX };
        assert!(ConfigEntry::decode(long.encode()).is_err());
    }

    #[test]
    fn a_document_has_a_name_that_no_bucket_has() {
        let bucket = BucketId([0xab; 16]);
        let key = GENERATION.register(bucket, ConfigKind::Cors);
        let (bucket_text, generation) = ("ab".repeat(16), "01020304050607080000000000000009");
        assert_eq!(key.key.as_str(), format!("config/{bucket_text}/1/{generation}"));
        assert_eq!(Generation::of_register(&key), Some((bucket, GENERATION)));
        for name in ["config", "config/", &format!("config/{bucket_text}/1"), &format!("{key:?}/")] {
            let other = RegisterKey::bucket(ObjectKey::new(name.to_owned()).expect("a key"));
            assert_eq!(Generation::of_register(&other), None, "{name}");
        }
        assert_eq!(Generation::of_register(&RegisterKey { bucket, ..key }), None, "an object of a client");
    }
}
