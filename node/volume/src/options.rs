//! How a volume is run.

use sherd_core::limits;

/// When a write counts as durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// After a sync of the file.
    #[default]
    Fsync,
    /// At once: for measurements and throw-away data. A crash of the machine loses what was
    /// acknowledged.
    None,
}

impl Durability {
    /// The word for it in the configuration, in metrics and in health.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fsync => "fsync",
            Self::None => "none",
        }
    }
}

/// Treatment of a log that the disk cannot read, when a volume is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnreadablePolicy {
    /// The opening fails: the next try may read the range.
    #[default]
    Refuse,
    /// The range counts as rotten: the volume opens with the rest, as one that lost state.
    Lose,
}

/// How a volume is run. Everything may change between two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Bytes of a new log segment; a multiple of 4 KiB, 64 KiB to 1 GiB.
    pub segment_bytes: u64,
    /// When a write counts as durable.
    pub durability: Durability,
    /// Spare segments kept ready.
    pub spare_segments: usize,
    /// Bytes kept reserved for index flushes on a full disk.
    pub ballast_bytes: u64,
    /// Free bytes of the filesystem below which new data is refused.
    pub reserve_bytes: u64,
    /// Bytes applied to the index before a flush is asked for.
    pub flush_bytes: u64,
    /// Bytes of index entries that a replay holds before it flushes them.
    pub replay_bytes: u64,
    /// Time after which what was applied to the index is flushed even when it is little.
    pub flush_after_us: u64,
    /// Changes of the index that are gathered in memory before they are applied together.
    pub fold_entries: usize,
    /// Bytes of index entries kept in memory because they were read lately.
    pub recent_bytes: u64,
    /// Bytes of promises remembered; beyond it old ones are forgotten the safe way.
    pub promises_bytes: u64,
    /// Committed rows that are listed because another volume may lack them.
    pub missed_rows_max: u64,
    /// Treatment of a log that the disk cannot read.
    pub unreadable: UnreadablePolicy,
}

impl Default for Options {
    fn default() -> Self {
        Self::of_segments(limits::SEGMENT_BYTES)
    }
}

impl Options {
    /// The options of a volume with segments of this many bytes, and as much in each file that is kept
    /// beside them.
    pub const fn of_segments(segment_bytes: u64) -> Self {
        Self {
            segment_bytes,
            durability: Durability::Fsync,
            spare_segments: 2,
            ballast_bytes: segment_bytes,
            reserve_bytes: 2 * segment_bytes,
            flush_bytes: limits::FLUSH_BYTES_MAX / 4,
            replay_bytes: limits::REPLAY_BYTES_MAX / 4,
            flush_after_us: 60_000_000,
            fold_entries: 1024,
            recent_bytes: limits::RECENT_BYTES_MAX / 4,
            promises_bytes: limits::PROMISES_BYTES_MAX / 4,
            missed_rows_max: limits::MISSED_ROWS_MAX,
            unreadable: UnreadablePolicy::Refuse,
        }
    }
}

impl Options {
    /// The bounds of `segment_bytes`: a batch of the smallest still holds a packed shard's block,
    /// and the offsets in the largest fit their field.
    pub const SEGMENT_BYTES: std::ops::RangeInclusive<u64> = (64 << 10)..=(1 << 30);

    /// For one of `volumes` volumes of a process: its share of their joint memory, so that a node with many
    /// volumes takes no more than one with four. Every volume's share is enough to work.
    #[must_use]
    pub fn shared_by(mut self, volumes: usize) -> Self {
        let volumes = volumes.max(1);
        let share = |all: u64, least: u64| (all / volumes as u64).max(least);
        self.replay_bytes = share(limits::REPLAY_BYTES_MAX, limits::REPLAY_BYTES_MIN);
        self.flush_bytes = self.flush_bytes.min(share(limits::FLUSH_BYTES_MAX, limits::FLUSH_BYTES_MIN));
        self.recent_bytes = self.recent_bytes.min(share(limits::RECENT_BYTES_MAX, limits::RECENT_BYTES_MIN));
        let promises = share(limits::PROMISES_BYTES_MAX, limits::PROMISES_BYTES_MIN);
        self.promises_bytes = self.promises_bytes.min(promises);
        self
    }

    /// Brings what is out of range into it.
    #[must_use]
    pub fn within_limits(mut self) -> Self {
        let segment = self.segment_bytes.clamp(*Self::SEGMENT_BYTES.start(), *Self::SEGMENT_BYTES.end());
        self.segment_bytes = segment / limits::FRAME_ALIGN as u64 * limits::FRAME_ALIGN as u64;
        self.promises_bytes = self.promises_bytes.max(limits::PROMISES_BYTES_MIN);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_volumes_take_no_more_memory_together_than_four() {
        let held = |volumes: u64| {
            let options = Options::default().shared_by(usize::try_from(volumes).expect("few"));
            volumes
                * (options.replay_bytes + options.flush_bytes + options.recent_bytes + options.promises_bytes)
        };
        for volumes in 5..=16 {
            assert!(held(volumes) <= held(4), "{volumes} volumes");
        }
        let one = Options::default().shared_by(1);
        assert_eq!((one.flush_bytes, one.recent_bytes), (4 << 20, 8 << 20), "a lone one gathers no more");
        let many = Options::default().shared_by(1_000);
        let least = (limits::REPLAY_BYTES_MIN, limits::FLUSH_BYTES_MIN, limits::RECENT_BYTES_MIN);
        assert_eq!((many.replay_bytes, many.flush_bytes, many.recent_bytes), least);
        assert_eq!(many.promises_bytes, limits::PROMISES_BYTES_MIN);
        assert_eq!(Options::default().shared_by(0), one);
    }
}
