//! Wants: what the volume lacks, as it logs that itself, and how a want ends.
//!
//! ```text
//! accept, pull -> row, want   one frame: after a crash both are there, or none
//! WantPut -> want             of a walk over the volume's rows
//! pass of the node over Reader::wants -> WantDone (id, sequence) -> a later frame: gone, unless put again
//! ```
//! A want stands among the MRF entries under an id of its own: an end that another node sends for its reports
//! ends no want. An end names the want by the sequence of its record, so that it ends none that a newer row
//! put. Guards I-23.

use sherd_core::heal::{DamagedData, HealEntry, HealId};
use sherd_core::id::{DataId, RegisterKey, Sequence};
use sherd_core::record::{Value, register_key_bytes};
use sherd_core::register::heal::want::{AcceptWant, StoringVolume, want_of_accept};
use sherd_core::register::{EncodedValue, ValueOrigin};

use crate::format::{Flags, Subject};
use crate::index::table::heal_key;
use crate::limits::ENDS_WAITING_MAX;
use crate::log::append::NewRecord;
use crate::read::view::VolumeShared;
use crate::write::piggyback_queue::PiggybackQueue;
use crate::write::plan::BatchPlan;

/// Bytes of a want's record beside its key: the header and the id, and of its entry the time and the
/// reference of the data, with room.
const WANT_BYTES: usize = 192;

/// Bytes of the record of a want, for deciding whether an accept still fits.
pub(super) fn want_bytes(key: &RegisterKey) -> usize {
    register_key_bytes(key) + WANT_BYTES
}

/// Puts into the batch what a volume may lack of a value that it stores under a key.
pub(super) fn put_want_of(
    plan: &mut BatchPlan,
    (own, key): (StoringVolume, &RegisterKey),
    (value, introduces, origin): (&EncodedValue, &[DataId], &ValueOrigin),
    since_ms: u64,
) {
    let decoded = || Value::decode(value.head.clone());
    let carries = || decoded().map_or(true, |value| carries_data(&value, introduces));
    let data = match want_of_accept(own, introduces, origin, carries) {
        None => return,
        Some(AcceptWant::Row) => None,
        Some(AcceptWant::Data(id)) => {
            let named = decoded().ok().and_then(|value| named_in(&value, id));
            Some(named.unwrap_or(DamagedData::Id(id)))
        }
    };
    put_want(plan, &HealEntry { key: key.clone(), data, since_ms });
}

/// Whether the log has a want that no end waits for.
pub(super) fn is_wanted(shared: &VolumeShared, piggyback: &PiggybackQueue, want: &HealEntry) -> bool {
    let id = want.want_id();
    !piggyback.wants_ended.contains_key(&id) && matches!(shared.entry(&heal_key(id)), Ok(Some(_)))
}

/// Puts a want into the batch.
pub(super) fn put_want(plan: &mut BatchPlan, want: &HealEntry) {
    let subject = Subject::Heal { id: want.want_id() };
    plan.push(NewRecord::new(subject, Flags::default(), [want.encode()]));
    plan.wants_count += 1;
}

impl PiggybackQueue {
    /// Ends a want with a later frame, unless it is put again before.
    pub(super) fn end_want(&mut self, id: HealId, sequence: Sequence) {
        if self.wants_ended.len() < ENDS_WAITING_MAX {
            self.wants_ended.insert(id, sequence);
        }
    }
}

/// Whether a value names data beside what its accept introduces, or a page that lists some.
fn carries_data(value: &Value, introduces: &[DataId]) -> bool {
    value.data_refs().iter().any(|data| !introduces.contains(&data.id))
        || !value.state.manifest_pages().is_empty()
}

fn named_in(value: &Value, id: DataId) -> Option<DamagedData> {
    value.data_refs().into_iter().find(|data| data.id == id).map(DamagedData::Named)
}
