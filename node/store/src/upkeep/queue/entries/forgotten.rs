//! The entries that the logs were to forget of late, bounded by time and count.

use std::collections::{HashMap, VecDeque};

use sherd_core::heal::HealId;

/// The entries that the logs were to forget of late: a page of one may still show it.
#[derive(Debug, Default)]
pub(super) struct ForgottenEntries {
    pub(super) since: HashMap<HealId, u64>,
    /// The oldest first. An entry that was put again since has left `since`.
    pub(super) order: VecDeque<(u64, HealId)>,
}

impl ForgottenEntries {
    pub(super) fn add(&mut self, id: HealId, now_ms: u64, capacity: usize) {
        if self.order.len() >= capacity {
            self.drop_oldest();
        }
        self.since.insert(id, now_ms);
        self.order.push_back((now_ms, id));
    }

    pub(super) fn drop_older_than(&mut self, ms: u64) {
        while self.order.front().is_some_and(|(since, _)| *since <= ms) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some((since, id)) = self.order.pop_front()
            && self.since.get(&id) == Some(&since)
        {
            self.since.remove(&id);
        }
    }
}
