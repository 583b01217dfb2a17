//! The local volumes: each with its own threads and its own bounded queues, so that one volume's
//! fault is never another's.
//!
//! ```text
//! keeper       opens, looks after the directory each second, takes offline, opens again
//! log          owns the Volume: drains the queue, one step after the other
//! read, write  two threads each: blocking reads, shard files
//! scan         two threads: pages of listings, parts and rows
//! maintenance  index flushes and merges
//! ```
//!
//! A volume that is not there answers `Unreachable` at once. A task that waits for a volume to come back
//! watches [`Volumes::changes`].

mod abandoned_writes;
mod compaction;
mod config;
mod faults;
pub mod directories;
mod heal_lanes;
mod index;
mod keeper;
mod leases;
mod limits;
mod local;
mod log_thread;
mod orders;
mod serving;
mod status;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use sherd_core::env::Clock;
use sherd_core::id::VolumeId;
use sherd_volume::disk::Disk;

use crate::machine::call_times::CallTimes;
use crate::machine::host::{Inbox, Next, Turns};
use crate::machine::queue::{self, QueueEmpty, Receiver, Sender};

use keeper::Keeper;
use leases::VolumeLeases;

pub use config::{IndexFactory, Pace, VolumesConfig};
pub(crate) use directories::directory::{UPKEEP_FILE, UPKEEP_FILE_NEW};
pub use heal_lanes::{HealLanes, HealPace, PaceReason};
pub use index::lsm_indexes;
pub use leases::LeaseTerms;
pub(crate) use limits::HEAL_TURN_MAX;
pub use local::LocalVolume;
pub use orders::AdoptError;
pub use status::{VolumeState, VolumeStatus};

use self::limits::ORDERS_MAX;
pub use keeper::WORKERS;
pub use serving::{ServingVolume, unreachable_because};

/// The volumes of this node. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Volumes {
    all: Arc<[Arc<LocalVolume>]>,
    changes: watch::Receiver<u64>,
    disk: Arc<dyn Disk>,
    call_times: Arc<CallTimes>,
    heal_lanes: Arc<HealLanes>,
    /// The watch ends when the last clone is gone.
    _watch: Sender<()>,
}

impl Volumes {
    /// Starts a keeper for every volume, which opens it. Returns at once: a volume that is still
    /// opening, or missing, is an offline volume.
    ///
    /// # Errors
    /// As the system says, when a thread cannot be started.
    pub fn start(config: &VolumesConfig) -> std::io::Result<Self> {
        let (counter, changes) = watch::channel(0);
        let counter = Arc::new(counter);
        let volumes = config
            .volumes
            .iter()
            .map(|(id, path)| {
                let (orders, taken) = queue::bounded(ORDERS_MAX);
                let leases = VolumeLeases::new(Arc::clone(&config.clock), config.leases);
                let volume =
                    LocalVolume::new(*id, path.clone(), orders.clone(), Arc::clone(&counter), leases);
                let volume = Arc::new(volume);
                Keeper::start(Arc::clone(&volume), config.clone(), orders, taken)?;
                Ok(volume)
            })
            .collect::<std::io::Result<Vec<_>>>()?;
        let all: Arc<[Arc<LocalVolume>]> = volumes.into();
        let watch = start_watch(Arc::clone(&all), config)?;
        let heal_lanes = Arc::new(HealLanes::new(all.iter().map(|volume| volume.id())));
        let (disk, call_times) = (Arc::clone(&config.disk), Arc::default());
        Ok(Self { all, changes, disk, call_times, heal_lanes, _watch: watch })
    }

    /// All of them, in the order of the configuration.
    pub fn all(&self) -> &[Arc<LocalVolume>] {
        &self.all
    }

    /// A volume of this node, by its id.
    pub fn get(&self, id: VolumeId) -> Option<&Arc<LocalVolume>> {
        self.all.iter().find(|volume| volume.id() == id)
    }

    /// Some of them: the others are another node's.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn only(&self, some: std::ops::Range<usize>) -> Self {
        Self { all: self.all[some].into(), ..self.clone() }
    }

    /// The times of the calls to them that requests wait for, this node's and its peers'. Answers that memory
    /// had are left out: they say nothing of the device.
    pub fn call_times(&self) -> &Arc<CallTimes> {
        &self.call_times
    }

    /// The pace at which healing may load them.
    pub fn heal_lanes(&self) -> &HealLanes {
        &self.heal_lanes
    }

    /// Bytes per second that the slowest of their devices took and gave when it was opened; `None` where that
    /// is known of none.
    pub(crate) fn device_pace(&self) -> Option<u64> {
        self.all.iter().filter_map(|volume| volume.device_pace()).min()
    }

    pub(crate) fn disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.disk)
    }

    /// Counts every change of any volume's state.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    /// Status of every volume, for metrics and health.
    pub fn status(&self) -> Vec<VolumeStatus> {
        self.all.iter().map(|volume| volume.status()).collect()
    }

    /// Waits until no volume is opening any more, at most until `deadline` has passed.
    pub async fn settled(&self, deadline: Duration) -> bool {
        let mut changes = self.changes();
        let opened = async {
            loop {
                changes.borrow_and_update();
                if self.all.iter().all(|volume| volume.state() != VolumeState::Opening) {
                    return true;
                }
                if changes.changed().await.is_err() {
                    return false;
                }
            }
        };
        tokio::time::timeout(deadline, opened).await.unwrap_or(false)
    }

    /// Closes every volume: what is queued is written, the log synced, the index flushed. A volume that takes
    /// longer than `deadline` is abandoned; the next start replays its log. Returns the volumes that did not
    /// close cleanly, with the reason.
    pub async fn close(&self, deadline: Duration) -> Vec<(VolumeId, String)> {
        let closing = self.all.iter().map(|volume| async move {
            match tokio::time::timeout(deadline, volume.close()).await {
                Ok(Ok(())) => None,
                Ok(Err(reason)) => Some((volume.id(), reason)),
                Err(_) => Some((volume.id(), "did not close in time".to_owned())),
            }
        });
        futures::future::join_all(closing).await.into_iter().flatten().collect()
    }
}

/// Watches and never touches a disk: a volume whose log, or whose keeper, hangs in the kernel is taken
/// offline, so that no caller waits for it.
struct Watch {
    volumes: Arc<[Arc<LocalVolume>]>,
    clock: Arc<dyn Clock>,
    pace: Pace,
    /// Closed when the last reference to the volumes is dropped.
    ended: Receiver<()>,
}

impl Turns for Watch {
    fn turn(&mut self) -> Next {
        if self.ended.try_next() == Err(QueueEmpty::Closed) {
            return Next::End;
        }
        let now_us = self.clock.monotonic_us();
        for volume in self.volumes.iter() {
            volume.watch(now_us, self.pace.stuck_after);
        }
        Next::Wait(Some(self.pace.look_every))
    }

    fn inbox(&mut self) -> &dyn Inbox {
        &self.ended
    }
}

fn start_watch(volumes: Arc<[Arc<LocalVolume>]>, config: &VolumesConfig) -> std::io::Result<Sender<()>> {
    let (watch, ended) = queue::bounded::<()>(1);
    let (clock, pace) = (Arc::clone(&config.clock), config.pace);
    config.host.start("volume-watch", Box::new(Watch { volumes, clock, pace, ended }))?;
    Ok(watch)
}

#[cfg(test)]
mod tests;
