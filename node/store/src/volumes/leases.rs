//! Leases of readers on data of which a volume has shards: what they hold is not released.
//!
//! A gateway whose readers read for more than a minute renews its leases each minute, and ends them when they
//! are done; what it does not renew, for it died or is cut off, expires by the monotonic clock of the
//! volume's node. The peers of this node and of others call it through `peer::ShardPeer`.
//!
//! Nothing of it is on disk. A volume that was opened again in this process has its leases still; after a
//! start of the process none are known, and so everything counts as read until each gateway had the time to
//! renew its own twice. The grace does not cover that: what was replaced long ago, and stayed for a reader
//! alone, has none left.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use smallvec::SmallVec;

use sherd_core::env::Clock;
use sherd_core::id::{DataId, ProposerId};
use sherd_core::limits::{LEASE_MS, LEASES_MAX, LEASES_UNKNOWN_MS};
use sherd_core::message::{LeaseAnswer, ReaderLeases};

/// When leases end.
#[derive(Debug, Clone, Copy)]
pub struct LeaseTerms {
    /// How long one lasts that is not renewed.
    pub lasts: Duration,
    /// How long after the start nothing is released, because renewals of leases from before may be missing.
    pub unknown: Duration,
}

impl Default for LeaseTerms {
    fn default() -> Self {
        Self { lasts: Duration::from_millis(LEASE_MS), unknown: Duration::from_millis(LEASES_UNKNOWN_MS) }
    }
}

#[derive(Debug)]
pub(crate) struct VolumeLeases {
    clock: Arc<dyn Clock>,
    table: Mutex<LeaseTable>,
}

impl VolumeLeases {
    pub(super) fn new(clock: Arc<dyn Clock>, terms: LeaseTerms) -> Self {
        let table = LeaseTable::new(clock.monotonic_us(), terms, LEASES_MAX);
        Self { clock, table: Mutex::new(table) }
    }

    pub(crate) fn take(&self, leases: &ReaderLeases) -> LeaseAnswer {
        self.table.lock().take(leases, self.clock.monotonic_us())
    }

    /// Whether a reader has a lease on data, or may have one that is not known of.
    pub(crate) fn may_be_read(&self, data: DataId) -> bool {
        self.table.lock().may_be_read(data, self.clock.monotonic_us())
    }
}

/// The holders of leases on one data id, and until when: rarely more than one gateway.
type LeaseHolders = SmallVec<[(ProposerId, u64); 1]>;

#[derive(Debug)]
struct LeaseTable {
    held: HashMap<DataId, LeaseHolders>,
    /// Leases of all data.
    len: usize,
    capacity: usize,
    lasts_us: u64,
    unknown_until_us: u64,
    /// No lease ends before this: until then none can be forgotten.
    first_end_us: u64,
}

impl LeaseTable {
    fn new(now_us: u64, terms: LeaseTerms, capacity: usize) -> Self {
        let LeaseTerms { lasts, unknown } = terms;
        let unknown_until_us = now_us.saturating_add(micros(unknown));
        let lasts_us = micros(lasts);
        Self { held: HashMap::new(), len: 0, capacity, lasts_us, unknown_until_us, first_end_us: u64::MAX }
    }

    fn take(&mut self, leases: &ReaderLeases, now_us: u64) -> LeaseAnswer {
        let ReaderLeases { holder, data, is_end } = leases;
        if now_us >= self.first_end_us {
            self.sweep(now_us);
        }
        if *is_end {
            for id in data {
                self.end(*id, *holder);
            }
            return LeaseAnswer::default();
        }
        let until_us = now_us.saturating_add(self.lasts_us);
        let mut refused_count = 0;
        for id in data {
            refused_count += u32::from(!self.renew(*id, *holder, until_us));
        }
        LeaseAnswer { refused_count }
    }

    /// Makes a lease, or extends it; `false` if the table is full.
    fn renew(&mut self, data: DataId, holder: ProposerId, until_us: u64) -> bool {
        if let Some(held) = self.held.get_mut(&data)
            && let Some((_, until)) = held.iter_mut().find(|(known, _)| *known == holder)
        {
            *until = until_us;
            return true;
        }
        if self.len >= self.capacity {
            return false;
        }
        self.held.entry(data).or_default().push((holder, until_us));
        self.first_end_us = self.first_end_us.min(until_us);
        self.len += 1;
        true
    }

    fn end(&mut self, data: DataId, holder: ProposerId) {
        let Some(held) = self.held.get_mut(&data) else { return };
        let before = held.len();
        held.retain(|(known, _)| *known != holder);
        self.len -= before - held.len();
        if held.is_empty() {
            self.held.remove(&data);
        }
    }

    /// Forgets those that ended: they would take the places of others. Each walk of the table forgets one at
    /// least, or finds that the first to end was renewed, so a call that renewed leases causes at most one
    /// walk.
    fn sweep(&mut self, now_us: u64) {
        self.first_end_us = u64::MAX;
        self.held.retain(|_, held| {
            held.retain(|(_, until_us)| *until_us > now_us);
            for (_, until_us) in held.iter() {
                self.first_end_us = self.first_end_us.min(*until_us);
            }
            !held.is_empty()
        });
        self.len = self.held.values().map(SmallVec::len).sum();
    }

    fn may_be_read(&self, data: DataId, now_us: u64) -> bool {
        let lasts = |(_, until_us): &(ProposerId, u64)| *until_us > now_us;
        now_us < self.unknown_until_us || self.held.get(&data).is_some_and(|held| held.iter().any(lasts))
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use sherd_core::id::Timestamp;

    use super::*;

    const MINUTE_US: u64 = 60_000_000;
    const TERMS: LeaseTerms = LeaseTerms { lasts: Duration::from_mins(5), unknown: Duration::ZERO };

    fn data(n: u64) -> DataId {
        DataId { birth: Timestamp::from_ms(n), proposer: ProposerId(1) }
    }

    fn renewal(holder: u64, ids: impl IntoIterator<Item = u64>) -> ReaderLeases {
        let data = ids.into_iter().map(data).collect();
        ReaderLeases { holder: ProposerId(holder), data, is_end: false }
    }

    fn end(leases: ReaderLeases) -> ReaderLeases {
        ReaderLeases { is_end: true, ..leases }
    }

    #[test]
    fn a_lease_lasts_while_it_is_renewed_and_no_longer() {
        let mut table = LeaseTable::new(0, TERMS, 10);
        for minute in 0..20 {
            assert_eq!(table.take(&renewal(1, [1]), minute * MINUTE_US).refused_count, 0);
        }
        assert!(table.may_be_read(data(1), 24 * MINUTE_US - 1));
        assert!(!table.may_be_read(data(2), 20 * MINUTE_US), "another's");
        assert!(!table.may_be_read(data(1), 24 * MINUTE_US), "its gateway is gone");
        table.take(&renewal(2, []), 30 * MINUTE_US);
        assert_eq!((table.len, table.held.len()), (0, 0), "and it takes no place any more");
    }

    #[test]
    fn each_gateway_ends_its_own() {
        let mut table = LeaseTable::new(0, TERMS, 10);
        table.take(&renewal(1, [1, 2]), 0);
        table.take(&renewal(2, [1]), 0);
        table.take(&end(renewal(1, [1, 2, 3])), 1);
        assert!(table.may_be_read(data(1), 2));
        assert!(!table.may_be_read(data(2), 2));
        table.take(&end(renewal(2, [1])), 3);
        assert!(!table.may_be_read(data(1), 4));
        assert_eq!(table.len, 0);
    }

    #[test]
    fn a_volume_without_places_says_how_many_it_refused_and_renews_the_others() {
        let mut table = LeaseTable::new(0, TERMS, 3);
        assert_eq!(table.take(&renewal(1, [1, 2]), 0).refused_count, 0);
        assert_eq!(table.take(&renewal(2, [1, 2, 3]), MINUTE_US).refused_count, 2);
        assert_eq!(table.take(&renewal(1, [1, 2]), 4 * MINUTE_US).refused_count, 0);
        // The one of the second gateway that found a place was not renewed.
        assert_eq!(table.take(&renewal(3, [9]), 8 * MINUTE_US).refused_count, 0);
        assert!(table.may_be_read(data(9), 9 * MINUTE_US));
        assert_eq!(table.len, 3);
    }

    #[test]
    fn a_lease_that_ended_gives_its_place_to_the_next_one() {
        let mut table = LeaseTable::new(0, TERMS, 3);
        assert_eq!(table.take(&renewal(1, [1, 2]), 0).refused_count, 0);
        assert_eq!(table.take(&renewal(2, [3]), MINUTE_US).refused_count, 0);
        assert_eq!(table.take(&renewal(3, [9]), 5 * MINUTE_US - 1).refused_count, 1);
        assert_eq!(table.take(&renewal(3, [8, 9]), 5 * MINUTE_US).refused_count, 0);
        assert_eq!(table.take(&renewal(4, [7]), 6 * MINUTE_US - 1).refused_count, 1);
        assert_eq!(table.take(&renewal(4, [7]), 6 * MINUTE_US).refused_count, 0, "the third one ended");
        assert_eq!(table.len, 3);
    }

    #[test]
    fn after_a_start_everything_counts_as_read_until_the_gateways_came() {
        let terms = LeaseTerms { unknown: Duration::from_mins(2), ..TERMS };
        let mut table = LeaseTable::new(MINUTE_US, terms, 10);
        assert!(table.may_be_read(data(1), 2 * MINUTE_US));
        table.take(&renewal(1, [1]), 2 * MINUTE_US);
        assert!(table.may_be_read(data(1), 3 * MINUTE_US));
        assert!(!table.may_be_read(data(2), 3 * MINUTE_US), "no gateway came for it");
    }
}
