//! What an admin decided about volumes of this node: which empty directories are rebuilt at once, and which
//! volumes vote that too few of their peers confirm. An order holds until it was followed, or the process ends.

use std::collections::BTreeSet;

use parking_lot::Mutex;

use sherd_core::id::VolumeId;

/// Orders that were not followed yet; at most two for each volume of the node.
#[derive(Debug, Default)]
pub(crate) struct VolumeOrders {
    adopt_now: Mutex<BTreeSet<VolumeId>>,
    vouched: Mutex<BTreeSet<VolumeId>>,
}

impl VolumeOrders {
    /// Orders that an empty directory is rebuilt without waiting for its disk.
    pub(in crate::upkeep) fn adopt_now(&self, volume: VolumeId) {
        self.adopt_now.lock().insert(volume);
    }

    /// Orders that a volume votes without its peers.
    pub(in crate::upkeep) fn vouch(&self, volume: VolumeId) {
        self.vouched.lock().insert(volume);
    }

    /// Whether an empty directory is to be rebuilt at once.
    pub(super) fn is_adopted_now(&self, volume: VolumeId) -> bool {
        self.adopt_now.lock().contains(&volume)
    }

    /// Whether a volume is to vote without its peers.
    pub(super) fn is_vouched(&self, volume: VolumeId) -> bool {
        self.vouched.lock().contains(&volume)
    }

    /// Ends the orders about a volume that votes: the next time is decided by the next order.
    pub(super) fn end(&self, volume: VolumeId) {
        self.adopt_now.lock().remove(&volume);
        self.vouched.lock().remove(&volume);
    }
}
