//! Data whose writer went away before it was done: its shards may lie on other volumes, and no register may
//! ever name it.
//!
//! A gateway removes what it gives up; one that died, or is cut off, does not. The node that saw the stream
//! of a shard file end too soon notes whose data it was, so that the sweep judges it once it is old enough,
//! and need not wait for the scrubber to come by. Most of what is noted was given up by a gateway that lives,
//! and has gone or is named a moment later: that is looked up once, and forgotten. Nothing of it is on disk:
//! what is not noted, or forgotten by a start, the scrubber finds.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::limits::ABANDONED_MAX;
use sherd_core::id::{DataId, ProposerId, RegisterKey, Timestamp};

/// Abandoned writes of one volume.
#[derive(Debug, Default)]
pub struct AbandonedWrites(Mutex<BTreeMap<DataId, AbandonedWrite>>);

#[derive(Debug)]
struct AbandonedWrite {
    key: RegisterKey,
    /// Whether it was looked up, and neither named nor gone.
    is_left: bool,
}

impl AbandonedWrites {
    /// Notes data. Past the bound it is left to the scrubber.
    pub(crate) fn note(&self, data: DataId, key: RegisterKey) {
        let mut held = self.0.lock();
        if held.len() < ABANDONED_MAX {
            held.insert(data, AbandonedWrite { key, is_left: false });
        }
    }

    /// Writes that were born before then and were not looked up yet.
    pub(crate) fn unseen_before(&self, birth: Timestamp) -> Vec<(DataId, RegisterKey)> {
        let held = self.0.lock();
        let before = held.range(..first_of(birth)).filter(|(_, write)| !write.is_left);
        before.map(|(data, write)| (*data, write.key.clone())).collect()
    }

    /// Data was looked up: it is held until it is old where it is left, and forgotten else.
    pub(crate) fn seen(&self, data: DataId, is_left: bool) {
        let mut held = self.0.lock();
        if !is_left {
            held.remove(&data);
        } else if let Some(write) = held.get_mut(&data) {
            write.is_left = true;
        }
    }

    /// Takes what was born before `horizon`.
    pub fn take_older(&self, horizon: Timestamp) -> Vec<(DataId, RegisterKey)> {
        let mut held = self.0.lock();
        let younger = held.split_off(&first_of(horizon));
        let older = std::mem::replace(&mut *held, younger);
        older.into_iter().map(|(data, write)| (data, write.key)).collect()
    }
}

/// The first data id that can be born then.
fn first_of(birth: Timestamp) -> DataId {
    DataId { birth, proposer: ProposerId(0) }
}
