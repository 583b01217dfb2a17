//! How a bucket is configured: one table of kinds, each with its number, its type and its stored bytes.
//!
//! A kind is an entry of the bucket's record, under its number ([`crate::record::Entries`]). `entry` says
//! where its bytes are: in the entry, or in a document of their own. Each kind has a file with its type,
//! which `encode` turns into those bytes and `decode` back. A further kind is a line of the table and a file:
//! the store and its views take all kinds from here. Numbers are stored and never given twice;
//! `docs/disk-format.md` lists them.

#![deny(clippy::indexing_slicing)]

mod entry;
pub mod cors;
pub mod policy;
pub mod public_access;
pub mod ownership;

pub use entry::{ConfigEntry, Generation};

use std::sync::Arc;

use bytes::Bytes;
use sherd_policy::bytes::{SHARED_BYTES, allocated};

use crate::codec::DecodeError;
use crate::record::{Entries, Entry};
use cors::Cors;
use ownership::OwnershipControls;
use policy::BucketPolicy;
use public_access::PublicAccessBlock;

/// A kind as it was read: its type, or why its bytes are not one.
type ParsedKind<T> = Result<Arc<T>, DecodeError>;

/// The stored bytes of a kind are not of its type. The operations that need the kind fail; others do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the stored {kind:?} of the bucket: {source}")]
pub struct UndecodableKind {
    /// Kind of configuration.
    pub kind: ConfigKind,
    /// Why.
    pub source: DecodeError,
}

/// Makes the table of kinds: number, type, and the name of its field.
macro_rules! kinds {
    ($($number:literal $kind:ident $field:ident: $doc:literal,)+) => {
        /// A kind of configuration.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum ConfigKind {
            $(#[doc = $doc] $kind = $number,)+
        }

        impl ConfigKind {
            /// Every kind, by its number.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)+];
        }

        /// A configuration of one kind.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum ConfigValue {
            $(#[doc = $doc] $kind($kind),)+
        }

        impl ConfigValue {
            /// Kind of the value.
            pub const fn kind(&self) -> ConfigKind {
                match self {
                    $(Self::$kind(_) => ConfigKind::$kind,)+
                }
            }

            /// Stored bytes of the value.
            pub fn encode(&self) -> Bytes {
                match self {
                    $(Self::$kind(value) => value.encode(),)+
                }
            }
        }

        $(impl From<$kind> for ConfigValue {
            fn from(value: $kind) -> Self {
                Self::$kind(value)
            }
        })+

        /// How a bucket is configured: one field a kind.
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct BucketConfig {
            /// The entries that it was made of, those of unknown kinds too.
            entries: Entries,
            $($field: Option<ParsedKind<$kind>>,)+
        }

        impl BucketConfig {
            $(#[doc = $doc]
            ///
            /// # Errors
            /// [`UndecodableKind`] where its stored bytes are not one.
            pub fn $field(&self) -> Result<Option<&Arc<$kind>>, UndecodableKind> {
                let undecodable = |source: &DecodeError| {
                    UndecodableKind { kind: ConfigKind::$kind, source: *source }
                };
                self.$field.as_ref().map(|parsed| parsed.as_ref().map_err(undecodable)).transpose()
            })+

            /// Bytes that it keeps beside itself: its kinds as they are stored, and parsed.
            pub fn heap_bytes(&self) -> usize {
                let of_entry = |entry: &Entry| size_of::<Entry>() + allocated(entry.bytes.len());
                let of_entries = self.entries.iter().map(of_entry).sum::<usize>();
                $(
                    let parsed = self.$field.as_ref().and_then(|parsed| parsed.as_ref().ok());
                    let $field = parsed.map_or(0, |value| {
                        SHARED_BYTES + allocated(size_of::<$kind>()) + value.heap_bytes()
                    });
                )+
                of_entries $(+ $field)+
            }

            fn parse(&mut self, kind: ConfigKind, bytes: Result<Bytes, DecodeError>) {
                match kind {
                    $(ConfigKind::$kind => {
                        self.$field = Some(bytes.and_then(<$kind>::decode).map(Arc::new));
                    })+
                }
            }

            fn take_over(&mut self, kind: ConfigKind, from: &Self) {
                match kind {
                    $(ConfigKind::$kind => self.$field.clone_from(&from.$field),)+
                }
            }
        }
    };
}

kinds! {
    1 Cors cors: "Which pages of other origins a browser lets use the bucket.",
    2 BucketPolicy policy: "Who may do what to the bucket and its objects.",
    3 PublicAccessBlock public_access_block: "Which public access is refused, although a policy allows it.",
    4 OwnershipControls ownership_controls: "The ownership controls that were put or deleted.",
}

impl ConfigKind {
    /// The number that its entry has.
    pub const fn number(self) -> u16 {
        self as u16
    }
}

impl BucketConfig {
    /// The entries of the bucket's record that it was made of.
    pub const fn entries(&self) -> &Entries {
        &self.entries
    }

    /// The documents that [`Self::of`] needs: those of kinds whose entries are not as in `before`.
    pub fn documents(entries: &Entries, before: Option<&Self>) -> Vec<(ConfigKind, Generation)> {
        let of_kind = |kind: &ConfigKind| {
            let stored = entries.get(kind.number())?;
            match ConfigEntry::decode(stored.clone()) {
                Ok(ConfigEntry::Document { generation, .. }) if !is_kept(before, *kind, stored) => {
                    Some((*kind, generation))
                }
                Ok(ConfigEntry::Document { .. } | ConfigEntry::Inline(_)) | Err(_) => None,
            }
        };
        ConfigKind::ALL.iter().filter_map(of_kind).collect()
    }

    /// The configuration that the entries of a bucket's record say, with [`Self::documents`] as they were
    /// read. Kinds whose entries are as in `before` are taken over from there.
    pub fn of(entries: &Entries, before: Option<&Self>, documents: &[(ConfigKind, Bytes)]) -> Self {
        let mut config = Self { entries: entries.clone(), ..Self::default() };
        for &kind in ConfigKind::ALL {
            let Some(stored) = entries.get(kind.number()) else { continue };
            let entry = ConfigEntry::decode(stored.clone());
            match before.filter(|_| is_kept(before, kind, stored)) {
                Some(before) => config.take_over(kind, before),
                None => config.parse(kind, entry.and_then(|entry| entry.bytes(kind, documents))),
            }
        }
        config
    }
}

/// Whether a kind is parsed in `before` already, from the same entry.
fn is_kept(before: Option<&BucketConfig>, kind: ConfigKind, stored: &Bytes) -> bool {
    before.is_some_and(|before| before.entries.get(kind.number()) == Some(stored))
}

#[cfg(test)]
mod tests {
    use super::cors::CorsRule;
    use super::*;
    use crate::id::{ChangeId, ProposerId, Timestamp};

    fn cors(origin: &str) -> Cors {
        let allowed_origins = vec![origin.to_owned()];
        Cors { rules: vec![CorsRule { allowed_origins, ..CorsRule::default() }] }
    }

    fn entries(kind: u16, bytes: &[u8]) -> Entries {
        let mut entries = Entries::default();
        entries.set(kind, Bytes::copy_from_slice(bytes));
        entries
    }

    #[test]
    fn a_kind_is_read_as_it_was_stored_and_unknown_ones_are_kept() {
        let value = ConfigValue::from(cors("https://a.example"));
        let stored = ConfigEntry::Inline(value.encode()).encode();
        let mut both = entries(value.kind().number(), &stored);
        both.set(0xff00, Bytes::from_static(b"a later kind"));
        let config = BucketConfig::of(&both, None, &[]);
        assert_eq!(config.cors().expect("decodes").map(|held| &**held), Some(&cors("https://a.example")));
        assert_eq!(config.entries(), &both);
        assert_eq!(BucketConfig::default().cors(), Ok(None));
    }

    #[test]
    fn stored_bytes_that_are_no_kind_fail_those_who_need_it() {
        for bytes in [&b""[..], b"\x00\xff", b"\x01short", b"\x02a later form"] {
            let config = BucketConfig::of(&entries(1, bytes), None, &[]);
            assert_eq!(config.cors().map_err(|error| error.kind), Err(ConfigKind::Cors), "{bytes:?}");
        }
    }

    #[test]
    fn a_document_is_needed_once_for_each_generation() {
        let generation = |ms| Generation(ChangeId { made: Timestamp::from_ms(ms), proposer: ProposerId(7) });
        let bytes = ConfigValue::from(cors("https://b.example")).encode();
        let length = u32::try_from(bytes.len()).expect("short");
        let of = |ms| entries(1, &ConfigEntry::Document { generation: generation(ms), length }.encode());
        assert_eq!(BucketConfig::documents(&of(1), None), [(ConfigKind::Cors, generation(1))]);
        let read = [(ConfigKind::Cors, bytes.clone())];
        let first = BucketConfig::of(&of(1), None, &read);
        assert_eq!(first.cors().expect("decodes").map(|held| &**held), Some(&cors("https://b.example")));
        assert_eq!(BucketConfig::documents(&of(1), Some(&first)), []);
        assert_eq!(BucketConfig::of(&of(1), Some(&first), &[]), first);
        assert_eq!(BucketConfig::documents(&of(2), Some(&first)), [(ConfigKind::Cors, generation(2))]);
        assert!(BucketConfig::of(&of(2), Some(&first), &[]).cors().is_err(), "never the one before");
        let cut = [(ConfigKind::Cors, bytes.slice(1..))];
        assert!(BucketConfig::of(&of(2), None, &cut).cors().is_err(), "not of the length that is named");
    }
}
