//! Tags of an object: the entry of kind 1 of a version's content.
//!
//! ```text
//! tags := n u8 (1 to 10), n x (key text, value text)
//! ```
//!
//! A read of an object hands the bytes on and looks at their count alone; only the verbs that need the tags
//! decode them.

use bytes::Bytes;

use super::check::{OverLimit, check_tag, require};
use super::{Entries, Tag};
use crate::codec::{DecodeError, Reader, Writer};
use crate::limits::OBJECT_TAGS_MAX;

/// The tags of an object in their stored form, in the order in which they were given. Without tags it takes
/// no allocation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObjectTags {
    /// Empty without tags.
    encoded: Bytes,
}

impl ObjectTags {
    /// The kind of their entry.
    pub const KIND: u16 = 1;

    /// To the stored form.
    ///
    /// # Errors
    /// [`OverLimit`] for too many tags, a key or a value that is too long, an empty key, and a key that is
    /// there twice.
    pub fn encode(tags: &[Tag]) -> Result<Self, OverLimit> {
        check(tags)?;
        if tags.is_empty() {
            return Ok(Self::default());
        }
        let mut writer = Writer::new();
        writer.u8(u8::try_from(tags.len()).expect("checked: at most OBJECT_TAGS_MAX"));
        for Tag { key, value } in tags {
            writer.blob(key.as_bytes()).blob(value.as_bytes());
        }
        Ok(Self { encoded: writer.finish() })
    }

    /// From the stored form.
    ///
    /// # Errors
    /// [`DecodeError`] on any bytes that [`Self::encode`] does not give.
    pub fn decode(&self) -> Result<Vec<Tag>, DecodeError> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let mut reader = Reader::new(self.encoded.clone());
        let count = usize::from(reader.u8("object tags")?);
        if !(1..=OBJECT_TAGS_MAX).contains(&count) {
            return Err(DecodeError::Invalid { field: "object tags" });
        }
        let mut tags = Vec::with_capacity(count);
        for _ in 0..count {
            tags.push(Tag { key: reader.text("tag key")?, value: reader.text("tag value")? });
        }
        reader.finish("object tags")?;
        check(&tags)?;
        Ok(tags)
    }

    /// The tags among a version's entries.
    pub fn of(entries: &Entries) -> Self {
        Self { encoded: entries.get(Self::KIND).cloned().unwrap_or_default() }
    }

    /// Puts them into a version's entries, in place of those that it had.
    pub fn put_into(&self, entries: &mut Entries) {
        if self.is_empty() {
            entries.remove(Self::KIND);
        } else {
            entries.set(Self::KIND, self.encoded.clone());
        }
    }

    /// How many there are, by the first byte of the stored form.
    pub fn count(&self) -> u8 {
        self.encoded.first().copied().unwrap_or_default()
    }

    /// Whether the object is without tags.
    pub const fn is_empty(&self) -> bool {
        self.encoded.is_empty()
    }

    /// The stored form.
    pub fn as_bytes(&self) -> &[u8] {
        &self.encoded
    }
}

fn check(tags: &[Tag]) -> Result<(), OverLimit> {
    require(tags.len() <= OBJECT_TAGS_MAX, "object tags")?;
    tags.iter().try_for_each(check_tag)?;
    let is_again = |(place, tag): (usize, &Tag)| tags.iter().take(place).any(|before| before.key == tag.key);
    require(!tags.iter().enumerate().any(is_again), "tag keys")
}

/// Whether the keys and the values of tags may have a character: the letters, numbers and blanks of Unicode,
/// and these signs (AWS, for objects, buckets and users alike).
pub fn is_of_tags(character: char) -> bool {
    let is_blank = character.is_whitespace() && !character.is_control();
    is_blank || character.is_alphanumeric() || "_.:/=+-@".contains(character)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TWO: &[u8] = b"\x02\x03\0\0\0env\x04\0\0\0prod\x02\0\0\0\xc3\xa9\0\0\0\0";

    fn tag(key: &str, value: &str) -> Tag {
        Tag { key: key.to_owned(), value: value.to_owned() }
    }

    fn stored(bytes: &[u8]) -> ObjectTags {
        let mut entries = Entries::default();
        entries.set(ObjectTags::KIND, Bytes::copy_from_slice(bytes));
        ObjectTags::of(&entries)
    }

    #[test]
    fn tags_are_these_bytes() {
        let tags = [tag("env", "prod"), tag("\u{e9}", "")];
        let encoded = ObjectTags::encode(&tags).unwrap();
        assert_eq!(encoded.as_bytes(), TWO);
        assert_eq!((encoded.count(), encoded.decode().unwrap()), (2, tags.to_vec()));
        assert_eq!(stored(TWO), encoded);
        for length in 1..TWO.len() {
            assert!(stored(&TWO[..length]).decode().is_err(), "the first {length} bytes decode");
        }
        for bad in [
            &[0][..],
            &[11],
            &[&[1], &TWO[1..]].concat(),
            b"\x01\0\0\0\0\0\0\0\0",
            b"\x01\x01\0\0\0\xff\0\0\0\0",
        ] {
            assert!(stored(bad).decode().is_err(), "{bad:?}");
        }
        assert_eq!(ObjectTags::KIND, 1);
    }

    #[test]
    fn no_tags_are_no_entry() {
        let none = ObjectTags::encode(&[]).unwrap();
        assert_eq!((none.count(), none.decode()), (0, Ok(Vec::new())));
        let mut entries = Entries::default();
        entries.set(7, Bytes::from_static(b"another"));
        let without = entries.clone();
        stored(TWO).put_into(&mut entries);
        assert_eq!(ObjectTags::of(&entries), stored(TWO));
        none.put_into(&mut entries);
        assert_eq!(entries, without);
    }

    #[test]
    fn tags_keep_their_limits() {
        let many = |count: usize| (0..count).map(|number| tag(&number.to_string(), "v")).collect::<Vec<_>>();
        assert!(ObjectTags::encode(&many(OBJECT_TAGS_MAX)).is_ok());
        let long = "\u{1d4b3}".repeat(256);
        assert!(ObjectTags::encode(&[tag(&long[..4 * 128], &long)]).is_ok());
        for bad in [
            many(OBJECT_TAGS_MAX + 1),
            vec![tag("", "v")],
            vec![tag("k", "1"), tag("k", "2")],
            vec![tag(&long[..4 * 129], "v")],
            vec![tag("k", &format!("{long}v"))],
        ] {
            assert!(ObjectTags::encode(&bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn what_decodes_is_encoded_to_the_same_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(tags) = stored(&bytes).decode() {
                let encoded = ObjectTags::encode(&tags).unwrap();
                prop_assert_eq!(encoded.as_bytes(), &bytes[..]);
            }
        }
    }
}
