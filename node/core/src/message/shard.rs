//! Shards as they are asked for, and the pages of those that a volume holds.

use crate::id::{DataId, ProposerId, RegisterKey, ShardId};
use crate::record::Home;

/// Facts about a shard file that are known before its first byte; written into its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardFileHeader {
    /// Shard id.
    pub shard: ShardId,
    /// The register that will name it.
    pub key: RegisterKey,
    /// Data shards of its code (k).
    pub data_shards: u8,
    /// Parity shards of its code (m).
    pub parity_shards: u8,
    /// Bytes of a stripe unit.
    pub stripe_unit: u32,
    /// Bytes of the shard.
    pub shard_bytes: u64,
}

/// A data id seen on a volume, for the sweeper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenShard {
    /// Shard id.
    pub shard: ShardId,
    /// The register that should name it.
    pub key: RegisterKey,
    /// Whether it was ever finished, as far as that is known without reading it.
    pub is_whole: bool,
}

/// Purpose for which bytes of a shard are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadPurpose {
    /// A client: they may be asked for again.
    ByClient,
    /// Upkeep, once: they take no place in the page cache.
    ByUpkeep,
}

/// Range of bytes of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardRange {
    /// Shard id.
    pub shard: ShardId,
    /// Where it lives.
    pub home: Home,
    /// First byte.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
    /// Purpose of the read.
    pub wanted: ReadPurpose,
}

/// Shards of a volume that a scan reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardScan {
    /// Packed ones, above this one.
    Packed {
        /// Only shards above this one.
        after: Option<ShardId>,
        /// Most entries of a page.
        limit: usize,
    },
    /// Shards with a file in one of the volume's 256 directories.
    Files {
        /// Number of the directory.
        directory: u8,
        /// Only shards above this one.
        after: Option<ShardId>,
        /// Most entries of a page.
        limit: usize,
    },
}

/// One page of a volume's shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardPage {
    /// In the order of their ids, with the register that should name them.
    pub shards: Vec<SeenShard>,
    /// Where the next page begins; `None` when this was the last.
    pub next: Option<ShardId>,
}

/// A gateway's leases on data that its readers read, of which a volume holds shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderLeases {
    /// The gateway's process: several may have leases on the same data.
    pub holder: ProposerId,
    /// The data, at most [`crate::limits::LEASES_IN_CALL_MAX`] ids.
    pub data: Vec<DataId>,
    /// Whether this ends them; else it makes or renews them.
    pub is_end: bool,
}

/// A volume's answer to a gateway's leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeaseAnswer {
    /// Leases that it had no place for.
    pub refused_count: u32,
}
