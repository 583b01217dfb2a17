//! Background work: what keeps the promises when something broke.
//!
//! The data path reports damage and never waits for upkeep; upkeep uses the same `register`,
//! `stripe` and `peer` calls as requests do, under a budget of its own.
//!
//! ```text
//! reports --> mrf --> heal            volumes come back --> recover, catch_up
//! walks:  settle, missed (seconds)   buckets (seconds)   scrub (30 days)   sweep (hours)   release (10 minutes)
//! ```
//! Every task belongs to [`Upkeep`], which stops them and waits for them in one order, and begins again
//! what panicked.

mod buckets;
mod found;
mod heal;
mod leases;
mod look;
mod missed;
mod mrf;
mod rebuild;
mod recover;
mod release;
mod remains;
mod reports;
mod scrub;
mod seals;
mod settle;
mod space;
mod sweep;
mod tasks;
mod throttle;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use sherd_core::env::{HybridClock, Rng};
use sherd_core::id::{Timestamp, VolumeId};
use sherd_core::limits;
use sherd_core::message;
use sherd_core::message::{Answer, Target, ValueLimit};
use sherd_core::register::Vote;

use crate::cluster::Cluster;
use crate::cluster::damage::{ReportCounts, Reports};
use crate::cluster::deletions::Deletions;
use crate::cluster::pins::Pins;
use crate::peer::{Pending, VolumeRoute};
use crate::register::Registers;
use crate::stripe::Stripes;
use crate::volumes::Volumes;

pub use mrf::MrfStatus;
pub use recover::{OpeningStatus, RecoveryStatus, StuckSet};
pub use release::ReleaseStatus;
pub use scrub::ScrubStatus;
pub use sweep::SweepStatus;

use mrf::Mrf;
use throttle::Throttle;

/// How upkeep behaves.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Bytes per second that heals, recovery and scrubbing may move together; 0 is no limit.
    pub heal_bytes_per_second: u64,
    /// Entries healed at one time.
    pub heal_tasks: usize,
    /// How long superseded data stays.
    pub release_grace: Duration,
    /// Between two renewals of the leases on what is read.
    pub lease_every: Duration,
    /// How old an unsettled row is before upkeep settles it.
    pub settle_after: Duration,
    /// Between two looks for unsettled rows, and for missed ones.
    pub settle_every: Duration,
    /// How much longer than both the rows that an opening found may take to be settled, until it is tried again.
    pub found_patience: Duration,
    /// What a full pass of the scrubber is to take.
    pub scrub_pass: Duration,
    /// Between two walks of a volume's tombstones.
    pub sweep_every: Duration,
    /// Between two looks for what is to be swept: suspects, and walks that are due.
    pub sweep_look_every: Duration,
    /// Between two notes of where the scrubber's walk stands.
    pub note_every: Duration,
    /// Between two looks for deletions of buckets and seals that were left behind.
    pub buckets_every: Duration,
    /// How long another process' deletion of a bucket is seen under way before its gateway counts as gone.
    pub deletion_after: Duration,
    /// Between two tries to recover a volume.
    pub recover_every: Duration,
    /// How long a directory stays empty before a volume is rebuilt in it.
    pub adopt_after: Duration,
    /// How long after its opening a volume votes that too few peers confirm; never when not set.
    pub vouch_after: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            heal_bytes_per_second: 0,
            heal_tasks: 2,
            release_grace: Duration::from_millis(limits::RELEASE_GRACE_MS),
            lease_every: Duration::from_millis(limits::LEASE_RENEW_MS),
            settle_after: Duration::from_secs(3),
            settle_every: Duration::from_secs(2),
            found_patience: Duration::from_secs(10),
            scrub_pass: Duration::from_hours(30 * 24),
            sweep_every: Duration::from_hours(6),
            sweep_look_every: Duration::from_mins(1),
            note_every: Duration::from_mins(1),
            buckets_every: Duration::from_secs(2),
            deletion_after: Duration::from_secs(30),
            recover_every: Duration::from_secs(2),
            adopt_after: Duration::from_millis(limits::ADOPT_AFTER_MS),
            vouch_after: None,
        }
    }
}

/// What upkeep is built from.
#[derive(Debug)]
pub struct UpkeepConfig {
    /// The topology in force.
    pub cluster: Arc<Cluster>,
    /// This node's volumes.
    pub volumes: Volumes,
    /// The registers of all keys.
    pub registers: Registers,
    /// The data path.
    pub stripes: Stripes,
    /// The clock of ballots.
    pub clock: Arc<HybridClock>,
    /// Where ids and pauses are drawn.
    pub rng: Arc<dyn Rng>,
    /// Data that reads hold.
    pub pins: Pins,
    /// Known deletions of buckets.
    pub deletions: Deletions,
    /// Of the reports of damage that are on their way here.
    pub report_counts: Arc<ReportCounts>,
    /// How often and how fast upkeep works.
    pub settings: Settings,
}

/// What all upkeep shares.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) volumes: Volumes,
    pub(crate) registers: Registers,
    pub(crate) stripes: Stripes,
    pub(crate) clock: Arc<HybridClock>,
    pub(crate) rng: Arc<dyn Rng>,
    pub(crate) pins: Pins,
    pub(crate) deletions: Deletions,
    pub(crate) report_counts: Arc<ReportCounts>,
    pub(crate) settings: Settings,
    pub(crate) throttle: Throttle,
    pub(crate) mrf: Mrf,
    pub(crate) release: release::Releases,
    pub(crate) leases: leases::LeaseCounters,
    pub(crate) remains: remains::BucketRemains,
    pub(crate) recovery: recover::Recoveries,
    pub(crate) progress_locks: recover::ProgressLocks,
    pub(crate) volume_orders: recover::VolumeOrders,
    pub(crate) left_out: found::RowsLeftOut,
    pub(crate) scrubbed: scrub::ScrubCounters,
    pub(crate) swept: sweep::SweepState,
    pub(crate) bucket_watch: buckets::BucketWatch,
    pub(crate) panics: tasks::Panics,
}

impl Context {
    fn new(config: UpkeepConfig) -> Self {
        let UpkeepConfig {
            cluster,
            volumes,
            registers,
            stripes,
            clock,
            rng,
            pins,
            deletions,
            report_counts,
            settings,
        } = config;
        Self {
            cluster,
            volumes,
            registers,
            stripes,
            clock,
            rng,
            pins,
            deletions,
            report_counts,
            settings,
            throttle: Throttle::new(settings.heal_bytes_per_second),
            mrf: Mrf::new(),
            release: release::Releases::default(),
            leases: leases::LeaseCounters::default(),
            remains: remains::BucketRemains::default(),
            recovery: recover::Recoveries::default(),
            progress_locks: recover::ProgressLocks::default(),
            volume_orders: recover::VolumeOrders::default(),
            left_out: found::RowsLeftOut::default(),
            scrubbed: scrub::ScrubCounters::default(),
            swept: sweep::SweepState::default(),
            bucket_watch: buckets::BucketWatch::default(),
            panics: tasks::Panics::default(),
        }
    }

    /// Monotonic milliseconds, for pauses.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.wall().monotonic_us() / 1000
    }

    /// Milliseconds since the Unix epoch.
    pub(crate) fn wall_ms(&self) -> u64 {
        self.clock.wall().wall_ms()
    }

    /// The wall clock as a timestamp.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.wall_ms())
    }
}

/// Waits for an answer, at most so long.
pub(crate) async fn ask<R: Unpin>(pending: Pending<R>, timeout: Duration) -> message::Result<R> {
    let late = || message::Error::Unreachable { reason: "no answer in time".to_owned() };
    tokio::time::timeout(timeout, pending).await.unwrap_or_else(|_elapsed| Err(late()))
}

/// Reads a row with its value. A long one is asked for by its length, so that the volume's node counts it.
pub(crate) async fn read_whole(
    route: &VolumeRoute,
    target: &Target,
    timeout: Duration,
) -> message::Result<Answer<Vote>> {
    let mut values = ValueLimit::USUAL;
    loop {
        let answer = ask(route.registers.read(route.volume, target, values), timeout).await?;
        let row = answer.result.as_ref().ok().and_then(|vote| vote.row.as_ref());
        match row.filter(|row| row.value.is_none()).map(|row| row.value_bytes) {
            None => return Ok(answer),
            Some(bytes) if values.takes(bytes) => return Err(message::Error::Busy),
            Some(bytes) => values = ValueLimit::of(bytes),
        }
    }
}

/// Everything that upkeep is doing, for metrics and health.
#[derive(Debug, Clone, Default)]
pub struct UpkeepStatus {
    /// Whether it is paused.
    pub is_paused: bool,
    /// The MRF queue.
    pub mrf: MrfStatus,
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
    context: Arc<Context>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Upkeep {
    /// Nothing runs before [`Self::run_all`].
    pub fn new(config: UpkeepConfig) -> Self {
        Self::over(Arc::new(Context::new(config)))
    }

    /// Asks the peers of the volumes that were opened what they remember of them, once: volumes that
    /// start together vote when this returns.
    pub async fn confirm_volumes(&self) {
        self.context.confirm_volumes().await;
    }

    /// Starts all of it.
    pub fn run_all(&self, reports: Reports) {
        let mut reports = reports;
        let given_up = Arc::new(tokio::sync::Mutex::new(reports.take_given_up()));
        let reports = Arc::new(tokio::sync::Mutex::new(reports));
        self.run("reports", move |context| {
            let reports = Arc::clone(&reports);
            async move { context.take_reports(&mut *reports.lock().await).await }
        });
        self.run("given up", move |context| {
            let given_up = Arc::clone(&given_up);
            async move {
                if let Some(given_up) = &mut *given_up.lock().await {
                    context.follow_given_up(given_up).await;
                }
            }
        });
        self.run("volumes", |context| async move { context.follow_volumes().await });
        for _ in 0..self.context.settings.heal_tasks.max(1) {
            self.run("heal", |context| async move { context.heal_queue().await });
        }
        self.run("heal entries", |context| async move { context.reload_heals().await });
        self.run("settle", |context| async move { context.settle_rows().await });
        self.run("missed", |context| async move { context.bring_missed_rows().await });
        self.run("space", |context| async move { context.follow_space().await });
        self.run("leases", |context| async move { context.renew_leases().await });
        self.run("release", |context| async move { context.release_data().await });
        self.run("scrub", |context| async move { context.scrub_volumes().await });
        self.run("sweep", |context| async move { context.sweep_sets().await });
        self.run("buckets", |context| async move { context.watch_buckets().await });
        self.run("remains", |context| async move { context.clear_deleted_buckets().await });
    }

    /// Upkeep without a task yet.
    fn over(context: Arc<Context>) -> Self {
        Self { context, stop: CancellationToken::new(), tasks: TaskTracker::new() }
    }

    /// Runs a task until it ends or upkeep stops. All of them may be dropped wherever they wait:
    /// what they do is done in steps that can be done again.
    fn run<F>(&self, name: &'static str, task: impl Fn(Arc<Context>) -> F + Send + Sync + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (stop, context) = (self.stop.clone(), Arc::clone(&self.context));
        self.tasks.spawn(async move {
            let work = context.panics.outlive(name, || task(Arc::clone(&context)));
            // Cancel-safe: see above.
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = work => {}
            }
        });
    }

    /// Rebuilds a volume in its empty directory without waiting for its disk, as an admin ordered who saw it after so
    /// many openings.
    pub fn adopt_now(&self, volume: VolumeId, opened_count: u32) {
        self.context.volume_orders.adopt_now(volume, opened_count);
    }

    /// Lets a volume vote that too few of its peers confirm, as an admin ordered who saw it in this opening.
    pub fn vouch(&self, volume: VolumeId, opened_count: u32) {
        self.context.volume_orders.vouch(volume, opened_count);
    }

    /// Holds all background work, or lets it go on.
    pub fn pause(&self, paused: bool) {
        self.context.throttle.pause(paused);
    }

    /// How far a volume is since it was opened for the `opened_count`th time.
    pub fn standing(&self, volume: VolumeId, opened_count: u32) -> OpeningStatus {
        let now = self.context.caught_up_now(opened_count);
        self.context.recovery.standing(volume, now, self.context.wall_ms())
    }

    /// The sets that do not come back by themselves.
    pub fn stuck_sets(&self) -> Vec<StuckSet> {
        self.context.cluster.sets().iter().filter_map(|set| self.context.stuck(set)).collect()
    }

    /// What it is doing.
    pub fn status(&self) -> UpkeepStatus {
        let context = &self.context;
        UpkeepStatus {
            is_paused: context.throttle.is_paused(),
            mrf: context.mrf.status(),
            release: context.release.status(),
            leases_refused_count: context.leases.refused_count(),
            scrub: context.scrubbed.status(),
            sweep: context.swept.status(),
            panics_count: context.panics.count(),
        }
    }

    /// Stops everything and waits for it. The volumes must still be open.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// At an orderly end, when nobody changes a row any more: notes once more how far the peers' logs are, so that the
    /// next start has little to compare.
    pub async fn note_peers_at_end(&self) {
        self.context.note_peers_at_end().await;
    }
}

#[cfg(any(test, feature = "testing"))]
#[cfg_attr(not(test), allow(dead_code, clippy::disallowed_methods, reason = "tests"))]
pub(crate) mod tests;
