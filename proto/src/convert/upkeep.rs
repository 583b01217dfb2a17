//! The state that volumes keep for upkeep: their queues, and their guarantees and views of each other.
//!
//! Entries of the queues travel in core's stored form. Those that a volume is to keep are decoded here; those
//! on a page are decoded by the worker that reads the page.

use bytes::Bytes;

use sherd_core::heal::{HealEntry, HealId};
use sherd_core::id::{BucketId, ChangeId, VolumeId};
use sherd_core::message::Answer;
use sherd_core::message::call::{AnswerKind, UpkeepCall, VolumeAnswer};
use sherd_core::register::Answerer;
use sherd_core::register::recover::Guarantees;
use sherd_core::register::recover::confirm::{Asker, Memory};
use sherd_core::register::recover::opening::OpeningHistory;
use sherd_core::release::{ReleaseEntry, ReleaseId};

use super::call::call_answers_in;
use super::value::undecodable;
use super::{
    ConvertError, Wire, at_most, limit_from_wire, limit_to_wire, list_from_wire, list_to_wire, required,
};
use crate::limits::{ENTRY_BYTES_MAX, PAGE_ROWS_MAX, REMEMBERED_MAX};
use crate::v1;
use crate::v1::entries::Entry;
use crate::v1::upkeep_call::{Call, EntryPage, Remembers, SealPage};

impl Wire for UpkeepCall {
    type Message = Call;

    fn to_wire(&self) -> Call {
        let empty = v1::Empty {};
        match self {
            Self::Heals { after, limit } => {
                let after = after.as_ref().map(Wire::to_wire);
                Call::Heals(EntryPage { after, limit: limit_to_wire(*limit) })
            }
            Self::HealPut { entry } => Call::HealPut(entry.to_wire()),
            Self::HealDone { id } => Call::HealDone(id.to_wire()),
            Self::Releases { after, limit } => {
                let after = after.as_ref().map(Wire::to_wire);
                Call::Releases(EntryPage { after, limit: limit_to_wire(*limit) })
            }
            Self::ReleasePut { entry } => Call::ReleasePut(entry.to_wire()),
            Self::ReleaseDone { id } => Call::ReleaseDone(id.to_wire()),
            Self::Guarantees {} => Call::Guarantees(empty),
            Self::Remembers { asker } => Call::Remembers(Remembers {
                asker: asker.as_ref().map(|asker| asker.volume.to_wire()),
                openings: asker.as_ref().map(|asker| asker.openings.to_wire()),
            }),
            Self::Position {} => Call::Position(empty),
            Self::Seals { after, limit } => {
                let after = after.as_ref().map(Wire::to_wire);
                Call::Seals(SealPage { after, limit: limit_to_wire(*limit) })
            }
        }
    }

    fn from_wire(message: Call) -> Result<Self, ConvertError> {
        Ok(match message {
            Call::Heals(EntryPage { after, limit }) => {
                let after = after.map(HealId::from_wire).transpose()?;
                Self::Heals { after, limit: limit_from_wire(limit) }
            }
            Call::HealPut(entry) => Self::HealPut { entry: HealEntry::from_wire(entry)? },
            Call::HealDone(id) => Self::HealDone { id: HealId::from_wire(id)? },
            Call::Releases(EntryPage { after, limit }) => {
                let after = after.map(ReleaseId::from_wire).transpose()?;
                Self::Releases { after, limit: limit_from_wire(limit) }
            }
            Call::ReleasePut(entry) => Self::ReleasePut { entry: ReleaseEntry::from_wire(entry)? },
            Call::ReleaseDone(id) => Self::ReleaseDone { id: ReleaseId::from_wire(id)? },
            Call::Guarantees(v1::Empty {}) => Self::Guarantees {},
            Call::Remembers(Remembers { asker: None, openings: None }) => Self::Remembers { asker: None },
            Call::Remembers(Remembers { asker, openings }) => Self::Remembers {
                asker: Some(Asker {
                    volume: VolumeId::from_wire(required(asker, "asker")?)?,
                    openings: OpeningHistory::from_wire(required(openings, "openings of the asker")?)?,
                }),
            },
            Call::Position(v1::Empty {}) => Self::Position {},
            Call::Seals(SealPage { after, limit }) => {
                let after = after.map(BucketId::from_wire).transpose()?;
                Self::Seals { after, limit: limit_from_wire(limit) }
            }
        })
    }
}

impl Wire for HealEntry {
    /// Core's stored form.
    type Message = Bytes;

    fn to_wire(&self) -> Bytes {
        self.encode()
    }

    fn from_wire(message: Bytes) -> Result<Self, ConvertError> {
        at_most(message.len(), ENTRY_BYTES_MAX, "MRF entry")?;
        Self::decode(message).map_err(|fault| undecodable("MRF entry", fault))
    }
}

impl Wire for ReleaseEntry {
    /// Core's stored form.
    type Message = Bytes;

    fn to_wire(&self) -> Bytes {
        self.encode()
    }

    fn from_wire(message: Bytes) -> Result<Self, ConvertError> {
        at_most(message.len(), ENTRY_BYTES_MAX, "note of replaced data")?;
        Self::decode(message).map_err(|fault| undecodable("note of replaced data", fault))
    }
}

/// Declares how a page of a queue travels.
macro_rules! entry_pages {
    ($($id:ty),*) => {
        $(impl Wire for ($id, Bytes) {
            type Message = Entry;

            fn to_wire(&self) -> Entry {
                let (id, entry) = self;
                Entry { id: id.to_wire(), entry: entry.clone() }
            }

            fn from_wire(message: Entry) -> Result<Self, ConvertError> {
                let Entry { id, entry } = message;
                at_most(entry.len(), ENTRY_BYTES_MAX, "entry of a queue")?;
                Ok((<$id>::from_wire(id)?, entry))
            }
        }

        impl Wire for Vec<($id, Bytes)> {
            type Message = v1::Entries;

            fn to_wire(&self) -> v1::Entries {
                v1::Entries { entries: list_to_wire(self) }
            }

            fn from_wire(message: v1::Entries) -> Result<Self, ConvertError> {
                list_from_wire(message.entries, PAGE_ROWS_MAX, "entries of a page")
            }
        })*
    };
}

entry_pages!(HealId, ReleaseId);

impl Wire for Memory {
    type Message = v1::Memory;

    fn to_wire(&self) -> v1::Memory {
        let Self { is_whole, positions, openings } = self;
        v1::Memory {
            is_whole: *is_whole,
            positions: list_to_wire(positions),
            openings: Some(openings.to_wire()),
        }
    }

    fn from_wire(message: v1::Memory) -> Result<Self, ConvertError> {
        let v1::Memory { is_whole, positions, openings } = message;
        Ok(Self {
            is_whole,
            positions: list_from_wire(positions, REMEMBERED_MAX, "remembered positions")?,
            openings: OpeningHistory::from_wire(required(openings, "openings")?)?,
        })
    }
}

call_answers_in!(upkeep_reply:
    Heals(Vec<(HealId, Bytes)>) => Entries, Releases(Vec<(ReleaseId, Bytes)>) => Entries, Done(()) => Done,
    Guarantees(Answer<Guarantees>) => Guarantees, Memory(Answer<Memory>) => Memory, Position(Answerer) => Position,
    Seals(Answer<Vec<(BucketId, Vec<ChangeId>)>>) => Seals);
