//! Who is reading what: data that a reader has pinned is not released under it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use sherd_core::id::DataId;

/// The data ids that readers of this process hold. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Pins {
    held: Arc<Mutex<HashMap<DataId, u32>>>,
}

/// Holds data ids until it is dropped.
#[derive(Debug)]
pub struct PinGuard {
    pins: Pins,
    data: Vec<DataId>,
}

impl Pins {
    /// Pins data: taken before the register that names it is read a last time, it stays until the
    /// guard is dropped.
    pub fn hold(&self, data: impl IntoIterator<Item = DataId>) -> PinGuard {
        let data: Vec<DataId> = data.into_iter().collect();
        let mut held = self.held.lock();
        for id in &data {
            *held.entry(*id).or_insert(0) += 1;
        }
        drop(held);
        PinGuard { pins: self.clone(), data }
    }

    /// Whether somebody holds it.
    pub fn is_held(&self, data: DataId) -> bool {
        self.held.lock().contains_key(&data)
    }
}

impl Drop for PinGuard {
    fn drop(&mut self) {
        let mut held = self.pins.held.lock();
        for id in &self.data {
            if let Some(count) = held.get_mut(id) {
                *count -= 1;
                if *count == 0 {
                    held.remove(id);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sherd_core::id::{ProposerId, Timestamp};

    #[test]
    fn data_is_held_until_its_last_reader_lets_go() {
        let pins = Pins::default();
        let id = DataId { birth: Timestamp::from_ms(1), proposer: ProposerId(1) };
        let first = pins.hold([id]);
        let second = pins.hold([id, id]);
        drop(first);
        assert!(pins.is_held(id));
        drop(second);
        assert!(!pins.is_held(id));
    }
}
