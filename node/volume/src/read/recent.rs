//! Entries that were read lately, in memory: what is asked again is answered on its caller's thread.
//!
//! The index may have to read its files, so a lookup in it is for threads that may block. Its answers are
//! kept here, up to a number of bytes. [`crate::read::view`] keeps this true to the index: an entry is put in
//! only while nothing newer is visible, and is renewed before the overlay lets go of a change of it.

use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// Bytes that an entry takes beside its own, about.
const OVERHEAD_BYTES: usize = 160;
/// Bytes of a typical entry with its key: how many are expected.
const TYPICAL_BYTES: u64 = 512;

#[derive(Debug, Clone)]
struct ByBytes;

impl Weighter<Bytes, Bytes> for ByBytes {
    fn weight(&self, key: &Bytes, value: &Bytes) -> u64 {
        (key.len() + value.len() + OVERHEAD_BYTES) as u64
    }
}

#[derive(Debug)]
pub(crate) struct Recent {
    entries: Cache<Bytes, Bytes, ByBytes>,
}

impl Recent {
    pub(crate) fn new(bytes: u64) -> Self {
        let expected = usize::try_from(bytes / TYPICAL_BYTES).unwrap_or(usize::MAX);
        Self { entries: Cache::with_weighter(expected, bytes, ByBytes) }
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<Bytes> {
        self.entries.get(key)
    }

    pub(crate) fn insert(&self, key: &[u8], value: &Bytes) {
        // Copies: what is cut from a table's block would keep the block alive.
        self.entries.insert(Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
    }

    /// Follows a change of the index: what is kept is replaced or let go, and nothing is added.
    pub(crate) fn renew(&self, key: &[u8], value: Option<&Bytes>) {
        match value {
            Some(value) if self.entries.peek(key).is_some() => self.insert(key, value),
            Some(_) => {}
            None => {
                self.entries.remove(key);
            }
        }
    }
}
