//! What must survive even a log that cannot be written: that the volume failed, and that it lost its
//! state. It stands in volume.json; here it is noted.

use sherd_core::id::Incarnation;

use crate::error::OpenError;
use crate::identity::{IdentityFile, VolumeLock};

/// volume.json of an open volume, and the lock on its directory.
#[derive(Debug)]
pub(crate) struct Sticky {
    pub(crate) file: IdentityFile,
    pub(crate) _lock: VolumeLock,
}

impl Sticky {
    /// Notes why the volume failed. Where even this cannot be written, the next open tries the disk
    /// anew and fails by itself.
    pub(crate) fn note_failure(&self, reason: &str) {
        let _ = self.file.fail(reason);
    }

    /// Begins a life that has to recover.
    pub(crate) fn begin_life(&self, incarnation: Incarnation) -> Result<(), OpenError> {
        self.file.update(|identity| identity.incarnation = incarnation)
    }

    /// Notes that the state was lost, and begins the next life.
    pub(crate) fn note_loss(&self, reason: &str) -> Result<(), OpenError> {
        self.file.update(|identity| {
            identity.incarnation = Incarnation(identity.incarnation.0.saturating_add(1));
            identity.lost = Some(reason.to_owned());
        })
    }

    /// Notes that this life has its state.
    pub(crate) fn note_whole(&self) -> Result<(), OpenError> {
        self.file.update(|identity| identity.lost = None)
    }
}
