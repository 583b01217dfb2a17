//! Parts that the local volumes are built from, and the patience of their keepers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sherd_core::env::{Clock, Rng};
use sherd_core::id::{ClusterId, VolumeId};
use sherd_core::topology::Topology;
use sherd_volume::buffer::BufferPool;
use sherd_volume::disk::Disk;
use sherd_volume::open::IndexSource;
use sherd_volume::options::Options;

use super::leases::LeaseTerms;
use crate::machine::host::Host;

/// Makes the index source of a volume's directory.
pub type IndexFactory = Arc<dyn Fn(&Path) -> Box<dyn IndexSource> + Send + Sync>;

/// Parts that the local volumes are built from.
#[derive(Clone)]
pub struct VolumesConfig {
    /// Where the directories are.
    pub disk: Arc<dyn Disk>,
    /// The process's clock.
    pub clock: Arc<dyn Clock>,
    /// Draws each opening of a volume.
    pub rng: Arc<dyn Rng>,
    /// Runs keepers, logs and workers.
    pub host: Arc<dyn Host>,
    /// The process's buffers.
    pub buffers: BufferPool,
    /// Opens indexes.
    pub index: IndexFactory,
    /// How volumes are opened.
    pub options: Options,
    /// The cluster they belong to.
    pub cluster: ClusterId,
    /// The topology that an adopted volume takes into its `volume.json`.
    pub topology: Arc<Topology>,
    /// The volumes of this node and their directories.
    pub volumes: Vec<(VolumeId, PathBuf)>,
    /// How often a directory is looked at, and when a volume counts as stuck.
    pub pace: Pace,
    /// When leases of readers end.
    pub leases: LeaseTerms,
}

impl std::fmt::Debug for VolumesConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VolumesConfig").field("volumes", &self.volumes).finish_non_exhaustive()
    }
}

/// How often keepers look, and when they lose patience.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Between two looks at a directory.
    pub look_every: Duration,
    /// A log step that takes this long makes the volume suspect.
    pub suspect_after: Duration,
    /// A log step that takes this long takes the volume offline until it ends.
    pub stuck_after: Duration,
    /// How long a log that the disk cannot read is tried again before what it cannot read counts as lost.
    pub unreadable_after: Duration,
    /// How long the remains of a volume in its directory must be unchanged before it counts as empty: a
    /// removal that is still at work would also remove what is rebuilt there.
    pub remains_rest: Duration,
    /// Rotten records and shards within a minute that make the volume suspect.
    pub corrupt_per_minute_max: u32,
    /// Bytes per second that compaction may read and write on one volume.
    pub compaction_bytes_per_second: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            look_every: Duration::from_secs(1),
            suspect_after: Duration::from_secs(5),
            stuck_after: Duration::from_secs(30),
            // Longer than a controller takes to come back: a recovery costs more than a minute does.
            unreadable_after: Duration::from_mins(2),
            remains_rest: Duration::from_secs(10),
            corrupt_per_minute_max: 16,
            compaction_bytes_per_second: 32 << 20,
        }
    }
}
