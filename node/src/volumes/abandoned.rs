//! Data whose writer went away before it was done: its shards may lie on other volumes, and no register may ever
//! name it.
//!
//! A gateway removes what it gives up; one that died, or is cut off, does not. The node that saw the stream of a shard
//! file break notes whose data it was, so that the sweep judges it once it is old enough, and need not wait for the
//! scrubber to come by. Nothing of it is on disk: what is not noted, or forgotten by a start, the scrubber finds.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use sherd_core::id::{DataId, ProposerId, RegisterKey, Timestamp};

/// Data ids that a volume holds for the sweep: with the longest keys a megabyte.
const ABANDONED_MAX: usize = 1_000;

/// What was abandoned on one volume, and the registers that were to name it.
#[derive(Debug, Default)]
pub(crate) struct AbandonedWrites(Mutex<BTreeMap<DataId, RegisterKey>>);

impl AbandonedWrites {
    /// Notes data. Past the bound it is left to the scrubber.
    pub(crate) fn note(&self, data: DataId, key: RegisterKey) {
        let mut held = self.0.lock();
        if held.len() < ABANDONED_MAX {
            held.insert(data, key);
        }
    }

    /// Takes what was born before `horizon`.
    pub(crate) fn take_older(&self, horizon: Timestamp) -> BTreeMap<DataId, RegisterKey> {
        let mut held = self.0.lock();
        let younger = held.split_off(&DataId { birth: horizon, proposer: ProposerId(0) });
        std::mem::replace(&mut held, younger)
    }
}
