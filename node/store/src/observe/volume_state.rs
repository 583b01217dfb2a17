//! What health and metrics show of a volume.

use serde::Serialize;

/// What a volume can do at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum VolumeState {
    /// Replaying its log or rebuilding its index; or it waits for its peers to say that it may vote; or it
    /// votes, and what it lacks is not known yet.
    Opening,
    /// Votes, reads and writes.
    Online,
    /// As online, but slow or with errors: reads prefer others.
    Suspect,
    /// Lost its state: does not vote yet, or votes while its shards are rebuilt.
    Recovering,
    /// Refuses new data for lack of space.
    Full,
    /// Failed, and stays so until it is replaced.
    Failed,
    /// Cannot be reached.
    Offline,
}

impl VolumeState {
    /// Every state, for metrics.
    pub const ALL: [Self; 7] = [
        Self::Opening,
        Self::Online,
        Self::Suspect,
        Self::Recovering,
        Self::Full,
        Self::Failed,
        Self::Offline,
    ];

    /// The word for it in health and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Online => "online",
            Self::Suspect => "suspect",
            Self::Recovering => "recovering",
            Self::Full => "full",
            Self::Failed => "failed",
            Self::Offline => "offline",
        }
    }
}
