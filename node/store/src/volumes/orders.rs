//! Orders to a keeper, and its answers.

use std::sync::Arc;

use tokio::sync::oneshot;

use sherd_core::id::Life;

use super::serving::ServingVolume;

#[derive(Debug)]
pub(super) enum KeeperOrder {
    /// Look at the directory now.
    Look,
    /// Look, and say when what was seen is shown.
    Show(oneshot::Sender<()>),
    /// Why the vacant directory is not adopted, or for which peers the opened volume waits.
    Explain(String),
    /// Make a volume in the empty directory.
    Adopt { life: Life, done: oneshot::Sender<Result<(), AdoptError>> },
    /// Peers remember a later state than this opening has: the volume opens as one that lost its state.
    Lost { opening: Arc<ServingVolume>, reason: String, remembered: Life },
    /// Close in order and end.
    Close(oneshot::Sender<Result<(), String>>),
}

/// An empty directory was not adopted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdoptError {
    /// The directory is not an empty one that waits to be adopted.
    #[error("the volume is {state}, not vacant")]
    NotVacant {
        /// State of the volume.
        state: &'static str,
    },
    /// The volume could not be made.
    #[error("{reason}")]
    Failed {
        /// Why.
        reason: String,
    },
}
