//! The data that readers of this process read: data that a reader has pinned is not released under it.
//!
//! A pin holds at once in this process. For other nodes the volumes hold leases, which upkeep takes for what
//! is still pinned after a minute and renews (`upkeep::leases`): until then the grace of what is replaced
//! keeps it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use sherd_core::id::{DataId, SetId};

/// The data ids that readers of this process hold. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Pins {
    inner: Arc<PinTable>,
}

#[derive(Debug, Default)]
struct PinTable {
    held: Mutex<HashMap<DataId, PinnedData>>,
    /// Notified when leased data lost its last reader.
    ended: Notify,
}

#[derive(Debug, Clone, Copy)]
struct PinnedData {
    set: SetId,
    /// None where its lease is to be ended.
    readers: u32,
    is_leased: bool,
}

pub(crate) type DataOfSets = BTreeMap<SetId, Vec<DataId>>;

/// Holds data ids until it is dropped.
#[derive(Debug)]
pub struct PinGuard {
    pins: Pins,
    data: Vec<DataId>,
}

impl Pins {
    /// Pins data, each with its set: taken before the register that names it is read a last time, it stays
    /// until the guard is dropped.
    pub fn hold(&self, data: impl IntoIterator<Item = (SetId, DataId)>) -> PinGuard {
        let mut held = self.inner.held.lock();
        let pin = |(set, id)| {
            held.entry(id).or_insert(PinnedData { set, readers: 0, is_leased: false }).readers += 1;
            id
        };
        let data = data.into_iter().map(pin).collect();
        drop(held);
        PinGuard { pins: self.clone(), data }
    }

    /// Whether a reader holds it.
    pub fn is_held(&self, data: DataId) -> bool {
        self.inner.held.lock().get(&data).is_some_and(|pinned| pinned.readers > 0)
    }

    /// The data that is being read. Volumes are asked for leases on it: their ends come with
    /// [`Self::take_ended`].
    pub(crate) fn to_lease(&self) -> DataOfSets {
        let mut all = DataOfSets::new();
        for (id, pinned) in self.inner.held.lock().iter_mut().filter(|(_, pinned)| pinned.readers > 0) {
            pinned.is_leased = true;
            all.entry(pinned.set).or_default().push(*id);
        }
        all
    }

    /// Leased data that lost its last reader since this was last asked.
    pub(crate) fn take_ended(&self) -> DataOfSets {
        let mut all = DataOfSets::new();
        self.inner.held.lock().retain(|id, PinnedData { set, readers, is_leased: _ }| {
            if *readers == 0 {
                all.entry(*set).or_default().push(*id);
            }
            *readers > 0
        });
        all
    }

    /// Waits until [`Self::take_ended`] may have something. Cancel-safe: what is not waited for stays noted.
    pub(crate) async fn ended(&self) {
        self.inner.ended.notified().await;
    }
}

impl Drop for PinGuard {
    fn drop(&mut self) {
        let mut is_ended = false;
        let mut held = self.pins.inner.held.lock();
        for id in &self.data {
            let Some(pinned) = held.get_mut(id) else { continue };
            pinned.readers -= 1;
            if pinned.readers == 0 {
                is_ended |= pinned.is_leased;
                if !pinned.is_leased {
                    held.remove(id);
                }
            }
        }
        drop(held);
        if is_ended {
            self.pins.inner.ended.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sherd_core::id::{ProposerId, Timestamp};

    const SET: SetId = SetId(3);

    fn data(n: u64) -> DataId {
        DataId { birth: Timestamp::from_ms(n), proposer: ProposerId(1) }
    }

    #[test]
    fn data_is_held_until_its_last_reader_lets_go() {
        let pins = Pins::default();
        let id = data(1);
        let first = pins.hold([(SET, id)]);
        let second = pins.hold([(SET, id), (SET, id)]);
        drop(first);
        assert!(pins.is_held(id));
        drop(second);
        assert!(!pins.is_held(id));
        assert_eq!(pins.take_ended(), DataOfSets::new(), "no volume was asked for a lease");
    }

    #[tokio::test]
    async fn only_the_ends_of_what_was_leased_are_told() {
        let pins = Pins::default();
        let (long, short) = (pins.hold([(SET, data(1)), (SET, data(2))]), pins.hold([(SET, data(3))]));
        drop(short);
        let mut leased = pins.to_lease();
        for ids in leased.values_mut() {
            ids.sort_unstable();
        }
        assert_eq!(leased, DataOfSets::from([(SET, vec![data(1), data(2)])]));
        let again = pins.hold([(SET, data(2))]);
        drop(long);
        pins.ended().await;
        assert_eq!(pins.take_ended(), DataOfSets::from([(SET, vec![data(1)])]), "the other is still read");
        assert!(!pins.is_held(data(1)) && pins.is_held(data(2)));
        drop(again);
        pins.ended().await;
        assert_eq!(pins.take_ended(), DataOfSets::from([(SET, vec![data(2)])]));
        assert!(pins.inner.held.lock().is_empty());
    }
}
