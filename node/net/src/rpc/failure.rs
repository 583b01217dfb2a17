//! Why a call was refused or failed, as the services pass it on before [`super::error`] writes it.

use sherd_core::id::Life;
use sherd_core::message::Error;

/// Why a call was not started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CallFailure {
    /// As a volume fails.
    Volume(Error),
    /// The volume is in another life than the caller believes.
    OtherLife(Life),
}

impl From<Error> for CallFailure {
    fn from(error: Error) -> Self {
        Self::Volume(error)
    }
}
