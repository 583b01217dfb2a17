//! Faults of one volume since the process started, by kind: counted where they are seen, read by the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use sherd_core::message;

use crate::observe::metrics::VolumeFault;

/// Counts of faults; they outlive every opening of the volume.
#[derive(Debug, Default)]
pub(crate) struct Faults([AtomicU64; VolumeFault::ALL.len()]);

impl Faults {
    fn counter(&self, fault: VolumeFault) -> &AtomicU64 {
        let place = VolumeFault::ALL.iter().position(|known| *known == fault);
        &self.0[place.expect("the list names every fault")]
    }

    pub(crate) fn count(&self, fault: VolumeFault) {
        self.counter(fault).fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn of(&self, fault: VolumeFault) -> u64 {
        self.counter(fault).load(Ordering::Relaxed)
    }

    /// Counts what a call came back with, where the volume is at fault. A volume that fails is counted
    /// when its state changes, and not with every call that it refuses then.
    pub(crate) fn note(&self, error: &message::Error) {
        match error {
            message::Error::Corrupt { .. } => self.count(VolumeFault::Corrupt),
            message::Error::Full => self.count(VolumeFault::Full),
            message::Error::NotFound
            | message::Error::Busy
            | message::Error::Refused(_)
            | message::Error::Unreachable { .. } => {}
        }
    }
}
