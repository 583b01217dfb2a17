//! Orders of an admin about volumes of this node: which empty directories are rebuilt at once, and which
//! volumes vote that too few of their peers confirm.
//!
//! An order is about what the admin saw: it holds for the opening that the volume was in, until it was
//! followed, ten minutes have passed, or the process ends. Another disk in the volume's place needs another
//! order.

use crate::upkeep::recover::limits::ORDER_MAX;

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::time::Instant;

use sherd_core::id::VolumeId;

/// Orders that were not followed yet; at most two for each volume of the node.
#[derive(Debug, Default)]
pub(crate) struct VolumeOrders {
    adopt_now: Mutex<BTreeMap<VolumeId, VolumeOrder>>,
    vouched: Mutex<BTreeMap<VolumeId, VolumeOrder>>,
}

#[derive(Debug, Clone, Copy)]
struct VolumeOrder {
    opened_count: u32,
    given: Instant,
}

impl VolumeOrder {
    fn new(opened_count: u32) -> Self {
        Self { opened_count, given: Instant::now() }
    }

    fn holds(&self, opened_count: u32) -> bool {
        self.opened_count == opened_count && self.given.elapsed() < ORDER_MAX
    }
}

impl VolumeOrders {
    /// Orders that an empty directory is rebuilt without waiting for its disk.
    pub(crate) fn adopt_now(&self, volume: VolumeId, opened_count: u32) {
        self.adopt_now.lock().insert(volume, VolumeOrder::new(opened_count));
    }

    /// Orders that a volume votes without its peers.
    pub(crate) fn vouch(&self, volume: VolumeId, opened_count: u32) {
        self.vouched.lock().insert(volume, VolumeOrder::new(opened_count));
    }

    pub(super) fn is_adopted_now(&self, volume: VolumeId, opened_count: u32) -> bool {
        self.adopt_now.lock().get(&volume).is_some_and(|order| order.holds(opened_count))
    }

    pub(super) fn is_vouched(&self, volume: VolumeId, opened_count: u32) -> bool {
        self.vouched.lock().get(&volume).is_some_and(|order| order.holds(opened_count))
    }

    /// Ends the orders about a volume that votes: the next time is decided by the next order.
    pub(super) fn end(&self, volume: VolumeId) {
        self.adopt_now.lock().remove(&volume);
        self.vouched.lock().remove(&volume);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_order_holds_for_one_opening_and_ten_minutes() {
        let (orders, volume) = (VolumeOrders::default(), VolumeId([1; 16]));
        orders.vouch(volume, 3);
        orders.adopt_now(volume, 3);
        let hold = |opened| (orders.is_vouched(volume, opened), orders.is_adopted_now(volume, opened));
        assert_eq!(hold(3), (true, true));
        assert_eq!(hold(4), (false, false), "another image may be in its place");
        tokio::time::advance(ORDER_MAX).await;
        assert_eq!(hold(3), (false, false), "nobody knows any more what it was given for");
        orders.vouch(volume, 3);
        assert_eq!(hold(3), (true, false));
        orders.end(volume);
        assert_eq!(hold(3), (false, false));
    }
}
