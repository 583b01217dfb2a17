//! The metrics of one volume: space, state, and what its log does.
//!
//! All of it mirrors what the volumes count themselves, and is set at each scrape.

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use sherd_core::report::VolumeCondition;

use super::declare::MetricDeclarer;
use super::mirror::{Mirror, MirroredMetric};

/// In what a volume measures time, and a metric does.
const MICROSECONDS_PER_SECOND: f64 = 1e6;

/// A fault of a volume, as its counter names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VolumeFault {
    /// The device answered with an error.
    Io,
    /// Bytes did not match their checksum.
    Corrupt,
    /// There was no space.
    Full,
    /// The operation did not end in time.
    Timeout,
}

impl VolumeFault {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Io, Self::Corrupt, Self::Full, Self::Timeout];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::Corrupt => "corrupt",
            Self::Full => "full",
            Self::Timeout => "timeout",
        }
    }
}

#[derive(Debug)]
pub(super) struct VolumeFamilies {
    bytes: IntGaugeVec,
    free_bytes: IntGaugeVec,
    index_pending_bytes: IntGaugeVec,
    index_unmerged: IntGaugeVec,
    missed_rows: IntGaugeVec,
    unlisted_rows: IntCounterVec,
    state: IntGaugeVec,
    queue_duration: Mirror,
    sync_duration: Mirror,
    batch_records: Mirror,
    errors: IntCounterVec,
}

impl VolumeFamilies {
    pub(super) fn new(declare: &MetricDeclarer<'_>) -> Self {
        Self {
            bytes: declare.gauges("sherd_volume_bytes", "Size of the volume's filesystem.", &["volume"]),
            free_bytes: declare.gauges(
                "sherd_volume_free_bytes",
                "Free space of the volume's filesystem.",
                &["volume"],
            ),
            index_pending_bytes: declare.gauges(
                "sherd_volume_index_pending_bytes",
                "Memory that changes of the index take until they are written out.",
                &["volume"],
            ),
            index_unmerged: declare.gauges(
                "sherd_volume_index_unmerged_files",
                "Files of the index that are written out and not merged.",
                &["volume"],
            ),
            missed_rows: declare.gauges(
                "sherd_volume_missed_rows",
                "Committed rows that another volume of the set may lack, listed until it has them.",
                &["volume"],
            ),
            unlisted_rows: declare.counters(
                "sherd_volume_missed_rows_unlisted_total",
                "Such rows that had no place in the list.",
                &["volume"],
            ),
            state: declare.gauges(
                "sherd_volume_state",
                "1 for the state that the volume is in, 0 for every other.",
                &["volume", "state"],
            ),
            queue_duration: declare.mirror(
                "sherd_volume_queue_duration_seconds",
                "Time that operations waited for the log's thread.",
                "volume",
                MICROSECONDS_PER_SECOND,
            ),
            sync_duration: declare.mirror(
                "sherd_volume_sync_duration_seconds",
                "Time that the log's sync to stable storage took.",
                "volume",
                MICROSECONDS_PER_SECOND,
            ),
            batch_records: declare.mirror(
                "sherd_volume_batch_records",
                "Records that one sync of the log carried.",
                "volume",
                1.0,
            ),
            errors: declare.counters(
                "sherd_volume_errors_total",
                "Faults of the volume, by kind.",
                &["volume", "kind"],
            ),
        }
    }

    pub(super) fn of(&self, name: &str) -> VolumeMetrics {
        VolumeMetrics {
            bytes: self.bytes.with_label_values(&[name]),
            free_bytes: self.free_bytes.with_label_values(&[name]),
            index_pending_bytes: self.index_pending_bytes.with_label_values(&[name]),
            index_unmerged: self.index_unmerged.with_label_values(&[name]),
            missed_rows: self.missed_rows.with_label_values(&[name]),
            unlisted_rows: self.unlisted_rows.with_label_values(&[name]),
            states: VolumeCondition::ALL
                .map(|state| (state, self.state.with_label_values(&[name, state.as_str()]))),
            queue_duration: self.queue_duration.of(name),
            sync_duration: self.sync_duration.of(name),
            batch_records: self.batch_records.of(name),
            errors: VolumeFault::ALL
                .map(|fault| (fault, self.errors.with_label_values(&[name, fault.as_str()]))),
        }
    }
}

/// The metrics of one volume.
#[derive(Debug, Clone)]
pub struct VolumeMetrics {
    /// Size of its filesystem.
    pub bytes: IntGauge,
    /// Free space of its filesystem.
    pub free_bytes: IntGauge,
    /// Memory that changes of its index take until they are written out.
    pub index_pending_bytes: IntGauge,
    /// Files of its index that are written out and not merged.
    pub index_unmerged: IntGauge,
    /// Committed rows that another volume of the set may lack.
    pub missed_rows: IntGauge,
    unlisted_rows: IntCounter,
    states: [(VolumeCondition, IntGauge); VolumeCondition::ALL.len()],
    /// How long operations waited for the log's thread, in microseconds.
    pub queue_duration: MirroredMetric,
    /// How long each sync took, in microseconds.
    pub sync_duration: MirroredMetric,
    /// How many records each sync carried.
    pub batch_records: MirroredMetric,
    errors: [(VolumeFault, IntCounter); VolumeFault::ALL.len()],
}

impl VolumeMetrics {
    /// Shows `now` as the volume's only state.
    pub fn set_state(&self, now: VolumeCondition) {
        for (state, gauge) in &self.states {
            gauge.set(i64::from(*state == now));
        }
    }

    /// Shows how many missed rows had no place in the list since the volume was opened. Says whether there
    /// are more than were shown.
    pub fn show_unlisted(&self, count: u64) -> bool {
        let is_more = count > self.unlisted_rows.get();
        self.unlisted_rows.inc_by(count.saturating_sub(self.unlisted_rows.get()));
        is_more
    }

    /// Shows how many faults of a kind there were so far.
    pub fn show_errors(&self, fault: VolumeFault, count: u64) {
        for (_, counter) in self.errors.iter().filter(|(kind, _)| *kind == fault) {
            counter.inc_by(count.saturating_sub(counter.get()));
        }
    }
}
