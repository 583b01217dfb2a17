//! The findings of an inspection: what it counts, and the problems that it names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Serialize;

use sherd_core::id::{DataId, RegisterKey, UploadId};

use crate::process::inspect::limits::PROBLEMS_MAX;

/// The findings in one volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VolumeReport {
    /// Directory of the volume.
    pub path: PathBuf,
    /// Cluster of the volume.
    pub cluster: String,
    /// Id of the volume.
    pub volume: String,
    /// Number of the volume's life.
    #[serde(rename = "incarnation")]
    pub life: u32,
    /// Whether the volume votes, and why not.
    pub state: String,
    /// The epoch of the topology that it carries.
    pub epoch: Option<u64>,
    /// Segments of its log.
    pub segments: usize,
    /// Bytes in its log that are needed.
    pub live_bytes: u64,
    /// Rows, tombstones included.
    pub rows: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// Rows not known to be committed.
    pub unsettled: u64,
    /// Shards in the log.
    pub packed_shards: u64,
    /// Shards in files.
    pub shard_files: u64,
    /// MRF entries.
    pub heals: u64,
    /// Wants: what the volume logged that it lacks.
    pub wants: u64,
    /// Notes of replaced data.
    pub releases: u64,
}

/// The findings in all of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Report {
    /// Report of each directory.
    pub volumes: Vec<VolumeReport>,
    /// Registers compared over the volumes; 0 without `verify`.
    pub registers: u64,
    /// Rows that are missing or older where A others hold the newest value: upkeep brings them up.
    pub rows_behind: u64,
    /// Rows that name nothing any more that is needed: of deleted buckets, and of parts whose upload is
    /// closed. Upkeep removes them.
    pub rows_unneeded: u64,
    /// Data ids whose shards were verified and compared.
    pub data_ids: u64,
    /// Shards that belong on volumes that were not given.
    pub shards_elsewhere: u64,
    /// Shards that are not whole and that no register names: what writes left that were cut short.
    /// The sweeper's, and no loss.
    pub unnamed_broken: u64,
    /// Shards of data that no row on the volumes that were given names: replaced data in its grace, and
    /// orphans. Upkeep's, and no loss.
    pub unnamed: UnnamedShards,
    /// Records that are rotten and that nothing needs any more: they were healed or replaced, and go with
    /// compaction.
    pub superseded_rotten: u64,
    /// The first problems.
    pub problems: Vec<String>,
    /// How much is wrong.
    pub problems_count: u64,
    /// Shards that are not whole, until a register is found that names them.
    #[serde(skip)]
    pub(super) broken: BTreeMap<DataId, Vec<String>>,
    /// The uploads that are open in the objects that were verified.
    #[serde(skip)]
    pub(super) open_uploads: BTreeSet<UploadId>,
    /// Uploads among them whose attributes lie in a register of their own that was not found yet, with their
    /// objects.
    #[serde(skip)]
    pub(super) without_attributes: BTreeMap<UploadId, RegisterKey>,
    /// Whether every object could be read: another may have its upload open.
    #[serde(skip)]
    pub(super) knows_uploads: bool,
}

/// Shards that nothing names, packed ones and files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct UnnamedShards {
    /// How many.
    pub count: u64,
    /// Bytes of all.
    pub bytes: u64,
    /// Shards among them whose data a note of replaced data on these volumes names: they go after their
    /// grace.
    pub noted_count: u64,
    /// Shards among them that are old enough for the sweep.
    pub sweepable_count: u64,
    /// The data that they are of, the first ids.
    pub data: BTreeSet<String>,
}

impl Report {
    /// Whether nothing is wrong.
    pub const fn is_clean(&self) -> bool {
        self.problems_count == 0
    }

    /// A register names data: what is broken of it is wrong.
    pub(super) fn named(&mut self, data: DataId) {
        for what in self.broken.remove(&data).unwrap_or_default() {
            self.problem(what);
        }
    }

    pub(super) fn problem(&mut self, what: String) {
        self.problems_count += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(what);
        }
    }
}
