//! Background work: what keeps the promises when something broke.
//!
//! The data path reports damage and never waits for upkeep; upkeep uses the same `register`,
//! `stripe` and `peer` calls as requests do, under a budget of its own.
//!
//! ```text
//! reports --> queue --> heal          volumes come back --> recover
//! looks at peers (a minute)
//! walks:  settle, missed (seconds)  buckets (seconds)  scrub (30 days)  sweep (hours)  release (10 minutes)
//! ```
//! A worker holds `Deps` (`deps`), its own state, and the workers below it that it hands work to. From the
//! bottom to the top, each uses only those before it:
//!
//! ```text
//! limits, settings, tasks              numbers, and what outlives its panics
//! deps          the layers below upkeep, and where volumes and sets lie
//! governor      how fast healing goes beside clients
//! pages         questions to volumes that end in time
//! final_seals   which buckets are deleted for ever
//! progress      what is remembered of a volume over restarts
//! queue         damage, in memory and in the logs: each worker that finds some puts it here
//! rows          what volumes hold of a key, brought to all of them: settle, missed, look
//! shards        what registers name: parts closed, registers checked, entries of the queue healed, wants
//! release       superseded data
//! buckets       deletions and seals left behind, what is left of deleted buckets
//! walks         scrub, and sweep of the suspects that it finds
//! recover       volumes that were opened: confirmed, recovered, compared with their peers
//! reports, space, leases               what the data path reports, room that comes back, what readers hold
//! workers       all of them, built in this order
//! ```
//! Every task belongs to [`Upkeep`], which stops them and waits for them in one order, and begins again
//! what panicked.

mod buckets;
mod deps;
mod final_seals;
mod governor;
mod leases;
mod limits;
mod pages;
mod progress;
mod queue;
mod recover;
mod release;
mod reports;
mod returns;
mod rows;
mod settings;
mod shards;
mod space;
mod tasks;
mod tuning;
mod walks;
mod workers;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use sherd_core::id::VolumeId;

use crate::cluster::damage::Reports;
use crate::volumes::HealPace;

pub use deps::UpkeepConfig;
pub use queue::mrf::MrfStatus;
pub use recover::status::{OpeningStatus, RecoveryStatus};
pub use recover::stuck::StuckSet;
pub use release::ReleaseStatus;
pub use rows::look::LookStatus;
pub use settings::Settings;
pub use tuning::UpkeepTuning;
pub use walks::scrub::ScrubStatus;
pub use walks::sweep::SweepStatus;

use deps::Deps;
use governor::{GovernedVolumes, govern, shown};
use recover::stuck::stuck;
use returns::follow_returns;
use space::follow_space;
use workers::Workers;

/// Everything that upkeep is doing, for metrics and health.
#[derive(Debug, Clone, Default)]
pub struct UpkeepStatus {
    /// Whether it is paused.
    pub is_paused: bool,
    /// How fast healing may go.
    pub heal_pace: HealPace,
    /// The MRF queue.
    pub mrf: MrfStatus,
    /// Looks of volumes at their peers.
    pub looks: LookStatus,
    /// Superseded data on its way out.
    pub release: ReleaseStatus,
    /// Leases on what is read here that volumes had no place for.
    pub leases_refused_count: u64,
    /// The scrubber.
    pub scrub: ScrubStatus,
    /// The sweeper.
    pub sweep: SweepStatus,
    /// Panics of background work since the start.
    pub panics_count: u64,
}

/// The background work of a node, under way.
#[derive(Debug)]
pub struct Upkeep {
    workers: Arc<Workers>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Upkeep {
    /// Nothing runs before [`Self::run_all`].
    pub fn new(config: UpkeepConfig) -> Self {
        Self::over(Arc::new(Workers::new(Deps::new(config))))
    }

    /// Asks the peers of the volumes that were opened what they remember of them, once: volumes that
    /// start together vote when this returns.
    pub async fn confirm_volumes(&self) {
        self.workers.confirmer.confirm_volumes().await;
    }

    /// Puts other settings into force. A lower grace holds for what is replaced from here on.
    pub fn tune(&self, tuning: UpkeepTuning) {
        let deps = &self.workers.deps;
        deps.throttle.set_bytes_per_second(tuning.heal_bytes_per_second);
        deps.tuning.change(tuning, deps.wall_ms());
    }

    /// Starts all of it.
    pub fn run_all(&self, reports: Reports) {
        let mut reports = reports;
        let given_up = Arc::new(tokio::sync::Mutex::new(reports.take_given_up()));
        let reports = Arc::new(tokio::sync::Mutex::new(reports));
        self.run("reports", move |workers| {
            let reports = Arc::clone(&reports);
            async move { workers.reports.take_reports(&mut *reports.lock().await).await }
        });
        self.run("given up", move |workers| {
            let given_up = Arc::clone(&given_up);
            async move {
                if let Some(given_up) = &mut *given_up.lock().await {
                    workers.reports.follow_given_up(given_up).await;
                }
            }
        });
        self.run("heal pace", |workers| async move {
            let Deps { volumes, .. } = &workers.deps;
            let governed = GovernedVolumes {
                times: volumes.call_times(),
                lanes: volumes.heal_lanes(),
                device_pace: || volumes.device_pace(),
                wall_s: || workers.deps.wall_ms() / 1000,
            };
            govern(governed).await;
        });
        self.run("volumes", |workers| async move { workers.follower.follow_volumes().await });
        for _ in 0..self.workers.deps.settings.heal_tasks.max(1) {
            self.run("heal", |workers| async move { workers.healer.heal_queue().await });
        }
        self.run("heal entries", |workers| async move { workers.healer.reload_heals().await });
        self.run("wants", |workers| async move { workers.wants.work_off().await });
        self.run("settle", |workers| async move { workers.settler.settle_rows().await });
        self.run("missed", |workers| async move { workers.missed.bring_missed_rows().await });
        self.run("looks", |workers| async move { workers.looker.look_at_peers().await });
        self.run("space", |workers| async move { follow_space(&workers.deps, &workers.queue).await });
        self.run("returns", |workers| async move {
            follow_returns(&workers.deps, &workers.queue, &workers.wants).await;
        });
        self.run("leases", |workers| async move { workers.leases.renew_leases().await });
        self.run("release", |workers| async move { workers.releaser.release_data().await });
        self.run("scrub", |workers| async move { workers.scrubber.scrub_volumes().await });
        self.run("sweep", |workers| async move { workers.sweeper.sweep_sets().await });
        self.run("buckets", |workers| async move { workers.deletion_watcher.watch_buckets().await });
        self.run("documents", |workers| async move { workers.documents.sweep_documents().await });
        self.run("remains", |workers| async move { workers.remains.clear_deleted_buckets().await });
    }

    /// Upkeep without a task yet.
    fn over(workers: Arc<Workers>) -> Self {
        Self { workers, stop: CancellationToken::new(), tasks: TaskTracker::new() }
    }

    /// Runs a task until it ends or upkeep stops. All of them may be dropped wherever they wait:
    /// what they do is done in steps that can be done again.
    fn run<F>(&self, name: &'static str, task: impl Fn(Arc<Workers>) -> F + Send + Sync + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (stop, workers) = (self.stop.clone(), Arc::clone(&self.workers));
        self.tasks.spawn(async move {
            let work = workers.deps.panics.outlive(name, || task(Arc::clone(&workers)));
            // Cancel-safe: see above.
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = work => {}
            }
        });
    }

    /// Rebuilds a volume in its empty directory without waiting for its disk, on an admin's order. The order
    /// counts only while the volume's openings are still `opened_count`.
    pub fn adopt_now(&self, volume: VolumeId, opened_count: u32) {
        self.workers.orders.adopt_now(volume, opened_count);
    }

    /// Lets a volume vote that too few of its peers confirm, as an admin ordered who saw it in this opening.
    pub fn vouch(&self, volume: VolumeId, opened_count: u32) {
        self.workers.orders.vouch(volume, opened_count);
    }

    /// Holds all background work, or lets it go on.
    pub fn pause(&self, paused: bool) {
        self.workers.deps.throttle.pause(paused);
    }

    /// How far a volume is since it was opened for the `opened_count`th time.
    pub fn standing(&self, volume: VolumeId, opened_count: u32) -> OpeningStatus {
        let now = self.workers.follower.comparison_point(opened_count);
        self.workers.recoveries.standing(volume, now, self.workers.deps.wall_ms())
    }

    /// The sets that do not come back by themselves.
    pub fn stuck_sets(&self) -> Vec<StuckSet> {
        let Workers { deps, recoveries, .. } = &*self.workers;
        deps.cluster.sets().iter().filter_map(|set| stuck(deps, recoveries, set)).collect()
    }

    /// The queue of heals.
    pub fn mrf(&self) -> MrfStatus {
        self.workers.queue.mrf.status()
    }

    /// State of the workers, for metrics.
    pub fn status(&self) -> UpkeepStatus {
        let workers = &self.workers;
        let Deps { throttle, volumes, .. } = &workers.deps;
        UpkeepStatus {
            is_paused: throttle.is_paused(),
            heal_pace: shown(volumes.heal_lanes().pace(), throttle.bytes_per_second(), volumes.all().len()),
            mrf: workers.queue.mrf.status(),
            looks: workers.looker.status(),
            release: workers.releaser.status(),
            leases_refused_count: workers.leases.refused_count(),
            scrub: workers.scrubber.status(),
            sweep: workers.sweeper.status(),
            panics_count: workers.deps.panics.count(),
        }
    }

    /// Stops everything and waits for it. The volumes must still be open.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// At an orderly end, when no row changes any more: notes once more how far the peers' logs are, so
    /// that the next start has little to compare.
    pub async fn note_peers_at_end(&self) {
        self.workers.follower.note_peers_at_end().await;
    }
}

#[cfg(any(test, feature = "testing"))]
#[cfg_attr(not(test), allow(dead_code, clippy::disallowed_methods, reason = "tests"))]
pub(crate) mod tests;
