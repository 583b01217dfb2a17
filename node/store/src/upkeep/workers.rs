//! All workers of a node, built from the bottom to the top: each gets those below it that it hands work to.

use std::sync::Arc;

use super::buckets::deletions::DeletionWatcher;
use super::buckets::documents::DocumentSweeper;
use super::buckets::remains::RemainsCleaner;
use super::deps::Deps;
use super::leases::LeaseKeeper;
use super::progress::ProgressFiles;
use super::queue::HealQueue;
use super::recover::barrier::VolumeRecovery;
use super::recover::catch_up::PeerComparer;
use super::recover::confirm::Confirmer;
use super::recover::follow::VolumeFollower;
use super::recover::found::FoundRowsWaiter;
use super::recover::orders::VolumeOrders;
use super::recover::shards::ShardRestorer;
use super::recover::status::Recoveries;
use super::release::Releaser;
use super::reports::ReportTaker;
use super::rows::look::Looker;
use super::rows::missed::MissedRowBringer;
use super::rows::settle::Settler;
use super::shards::check::RegisterChecker;
use super::shards::heal::Healer;
use super::shards::parts::PartCloser;
use super::shards::wants::WantWorker;
use super::walks::scrub::{ScrubCounters, Scrubber};
use super::walks::suspects::Suspects;
use super::walks::sweep::Sweeper;

#[derive(Debug)]
pub(crate) struct Workers {
    pub(crate) deps: Deps,
    pub(crate) queue: Arc<HealQueue>,
    pub(crate) settler: Settler,
    pub(crate) missed: MissedRowBringer,
    pub(crate) looker: Looker,
    pub(crate) healer: Healer,
    pub(crate) wants: WantWorker,
    pub(crate) releaser: Arc<Releaser>,
    pub(crate) deletion_watcher: DeletionWatcher,
    pub(crate) documents: DocumentSweeper,
    pub(crate) remains: Arc<RemainsCleaner>,
    pub(crate) scrubber: Scrubber,
    pub(crate) sweeper: Sweeper,
    pub(crate) orders: Arc<VolumeOrders>,
    pub(crate) recoveries: Arc<Recoveries>,
    pub(crate) confirmer: Arc<Confirmer>,
    pub(crate) follower: VolumeFollower,
    pub(crate) reports: ReportTaker,
    pub(crate) leases: LeaseKeeper,
}

impl Workers {
    pub(crate) fn new(deps: Deps) -> Self {
        let progress = Arc::new(ProgressFiles::new(&deps));
        let queue = Arc::new(HealQueue::new(&deps));
        let parts = Arc::new(PartCloser::new(&deps));
        let checker = Arc::new(RegisterChecker::new(&deps, &queue));
        let releaser = Arc::new(Releaser::new(&deps));
        let remains = Arc::new(RemainsCleaner::new(&deps, &releaser));
        let suspects = Arc::new(Suspects::new(&deps));
        let scrubber = Scrubber {
            deps: deps.clone(),
            progress: Arc::clone(&progress),
            queue: Arc::clone(&queue),
            checker: Arc::clone(&checker),
            parts: Arc::clone(&parts),
            remains: Arc::clone(&remains),
            suspects: Arc::clone(&suspects),
            counters: ScrubCounters::default(),
        };
        let orders = Arc::new(VolumeOrders::default());
        let recoveries = Arc::new(Recoveries::default());
        let confirmer = Arc::new(Confirmer::new(&deps, &orders, &recoveries));
        let follower = VolumeFollower {
            deps: deps.clone(),
            progress: Arc::clone(&progress),
            queue: Arc::clone(&queue),
            orders: Arc::clone(&orders),
            recoveries: Arc::clone(&recoveries),
            recovery: VolumeRecovery::new(&deps, &progress, &recoveries),
            confirmer: Arc::clone(&confirmer),
            shards: ShardRestorer::new(&deps, &progress, &queue, &recoveries),
            found: FoundRowsWaiter::new(&deps, &checker),
            comparer: PeerComparer::new(&deps, &queue, &checker),
        };
        Self {
            settler: Settler::new(&deps, &queue),
            missed: MissedRowBringer::new(&deps),
            looker: Looker::new(&deps),
            healer: Healer::new(&deps, &queue, &checker, &parts),
            wants: WantWorker::new(&deps, &queue),
            deletion_watcher: DeletionWatcher::new(&deps),
            documents: DocumentSweeper::new(&deps),
            sweeper: Sweeper::new(&deps, &progress, &suspects, &parts),
            reports: ReportTaker::new(&queue, &releaser),
            leases: LeaseKeeper::new(&deps),
            queue,
            releaser,
            remains,
            scrubber,
            orders,
            recoveries,
            confirmer,
            follower,
            deps,
        }
    }
}
