//! Numbered entries: what a bucket's record or a version's content holds beside its fixed fields.
//!
//! An entry is a kind and bytes that only the kind's own reader looks into. A program keeps entries of kinds
//! that it does not know byte for byte, so that a newer node's tags, locks or keys survive a change that an
//! older node makes. Kinds are stored and never given twice. Those of buckets are in `crate::config`, those
//! of versions where their types are ([`super::ObjectTags`]); `docs/disk-format.md` lists all, `bytes/`
//! stores them.

use bytes::Bytes;

/// Entries, each kind once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entries {
    /// Ascending by kind.
    entries: Vec<Entry>,
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// How to read the bytes.
    pub kind: u16,
    /// At most [`crate::limits::ENTRY_BYTES_MAX`].
    pub bytes: Bytes,
}

impl Entries {
    /// These entries; `None` where a kind does not come behind the one before it.
    pub fn in_order(entries: Vec<Entry>) -> Option<Self> {
        entries.is_sorted_by(|before, after| before.kind < after.kind).then_some(Self { entries })
    }

    /// The bytes of a kind.
    pub fn get(&self, kind: u16) -> Option<&Bytes> {
        self.place(kind).ok().and_then(|place| self.entries.get(place)).map(|entry| &entry.bytes)
    }

    /// Stores the bytes of a kind in place of those that it had.
    pub fn set(&mut self, kind: u16, bytes: Bytes) {
        match self.place(kind) {
            Ok(place) => self.entries[place].bytes = bytes,
            Err(place) => self.entries.insert(place, Entry { kind, bytes }),
        }
    }

    /// Removes a kind.
    pub fn remove(&mut self, kind: u16) {
        self.entries.retain(|entry| entry.kind != kind);
    }

    /// All of them, ascending by kind.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Entry> + Clone {
        self.entries.iter()
    }

    /// Whether the list is empty.
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn place(&self, kind: u16) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&kind, |entry| entry.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: u16, bytes: &'static [u8]) -> Entry {
        Entry { kind, bytes: Bytes::from_static(bytes) }
    }

    #[test]
    fn a_kind_is_there_once_and_in_its_place() {
        let mut entries = Entries::default();
        for (kind, bytes) in [(7, &b"a"[..]), (2, b"b"), (9, b"c"), (7, b"d")] {
            entries.set(kind, Bytes::copy_from_slice(bytes));
        }
        let in_order = vec![entry(2, b"b"), entry(7, b"d"), entry(9, b"c")];
        assert_eq!(entries, Entries::in_order(in_order).expect("ascending"));
        assert_eq!(entries.get(7), Some(&Bytes::from_static(b"d")));
        entries.remove(7);
        assert_eq!(entries.get(7), None);
        assert_eq!(entries.iter().map(|entry| entry.kind).collect::<Vec<_>>(), [2, 9]);
        assert_eq!(Entries::in_order(vec![entry(2, b""), entry(2, b"")]), None);
        assert_eq!(Entries::in_order(vec![entry(3, b""), entry(2, b"")]), None);
    }
}
