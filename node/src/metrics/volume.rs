//! The metrics of one volume: space, state, and what its log does.
//!
//! A volume's thread takes its [`VolumeMetrics`] once and counts through them without looking
//! anything up.

use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use super::declare::Declare;
use crate::health::VolumeState;

/// What went wrong on a volume, as its counter names it.
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
    const ALL: [Self; 4] = [Self::Io, Self::Corrupt, Self::Full, Self::Timeout];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::Corrupt => "corrupt",
            Self::Full => "full",
            Self::Timeout => "timeout",
        }
    }
}

/// The families that every volume has a member of.
#[derive(Debug)]
pub(super) struct VolumeFamilies {
    bytes: IntGaugeVec,
    free_bytes: IntGaugeVec,
    state: IntGaugeVec,
    sync_duration: HistogramVec,
    batch_records: HistogramVec,
    errors: IntCounterVec,
}

impl VolumeFamilies {
    pub(super) fn new(declare: &Declare<'_>) -> Self {
        Self {
            bytes: declare.gauges("sherd_volume_bytes", "Size of the volume's filesystem.", &["volume"]),
            free_bytes: declare.gauges(
                "sherd_volume_free_bytes",
                "Free space of the volume's filesystem.",
                &["volume"],
            ),
            state: declare.gauges(
                "sherd_volume_state",
                "1 for the state that the volume is in, 0 for every other.",
                &["volume", "state"],
            ),
            sync_duration: declare.histograms(
                "sherd_volume_sync_duration_seconds",
                "Time that the log's sync to stable storage took.",
                &["volume"],
                // NVMe with a capacitor syncs in 20 us, a disk in 10 ms; a second is a sick device.
                &[
                    0.000_02, 0.000_05, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,
                    0.5, 1.0, 5.0,
                ],
            ),
            batch_records: declare.histograms(
                "sherd_volume_batch_records",
                "Records that one sync of the log carried.",
                &["volume"],
                &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0],
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
            states: VolumeState::ALL
                .map(|state| (state, self.state.with_label_values(&[name, state.as_str()]))),
            sync_duration_seconds: self.sync_duration.with_label_values(&[name]),
            batch_records: self.batch_records.with_label_values(&[name]),
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
    states: [(VolumeState, IntGauge); VolumeState::ALL.len()],
    /// How long each sync took.
    pub sync_duration_seconds: Histogram,
    /// How many records each sync carried.
    pub batch_records: Histogram,
    errors: [(VolumeFault, IntCounter); VolumeFault::ALL.len()],
}

impl VolumeMetrics {
    /// Shows `now` as the volume's only state.
    pub fn set_state(&self, now: VolumeState) {
        for (state, gauge) in &self.states {
            gauge.set(i64::from(*state == now));
        }
    }

    /// Counts a fault.
    pub fn count_error(&self, fault: VolumeFault) {
        for (_, counter) in self.errors.iter().filter(|(kind, _)| *kind == fault) {
            counter.inc();
        }
    }
}
