//! Background work: what keeps the promises when something broke.
//!
//! The data path reports damage and never waits for upkeep; upkeep uses the same `register`,
//! `stripe` and `peer` calls as requests do, under a budget of its own.

use sherd_core::heal::HealEntry;
use sherd_core::id::RegisterKey;
use sherd_core::record::DataRef;

use tokio::sync::mpsc;

/// Takes reports of damage from the data path. Never blocks: a report that finds the queue full is
/// dropped and counted, and the scrubber finds the damage again.
#[derive(Debug, Clone)]
pub struct Damage {
    reports: mpsc::Sender<Report>,
}

/// Something that a request found broken, or left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// Shards of this data are missing or rotten, or rows of this key behind (no data).
    Heal(HealEntry),
    /// Data that a committed value replaced: it goes after its grace and the last reader's pin.
    Superseded {
        /// The register that named it.
        key: RegisterKey,
        /// What it named.
        data: Vec<DataRef>,
    },
}

impl Damage {
    /// Reports that rows of a key are behind or rotten on some volume.
    pub fn row(&self, key: &RegisterKey) {
        self.heal(HealEntry { key: key.clone(), data: None, since_ms: 0 });
    }

    /// Reports that shards of data are missing or rotten.
    pub fn data(&self, key: &RegisterKey, data: DataRef) {
        self.heal(HealEntry { key: key.clone(), data: Some(data), since_ms: 0 });
    }

    fn heal(&self, entry: HealEntry) {
        drop(self.reports.try_send(Report::Heal(entry)));
    }
}

impl Damage {
    /// Reports data that a committed value of `key` no longer names.
    pub fn superseded(&self, key: &RegisterKey, data: Vec<DataRef>) {
        drop(self.reports.try_send(Report::Superseded { key: key.clone(), data }));
    }
}
