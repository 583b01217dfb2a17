//! Follows the volumes of this node, each from opening to opening: what is to be done next for one in its
//! state.
//!
//! ```text
//! vacant, or recovering -> recovered (`barrier`)      unconfirmed -> confirmed (`confirm`)
//! it votes -> shards rebuilt (`shards`) -> found rows settled (`found`)
//!          -> compared with its peers (`catch_up`) -> known
//! ```

use std::sync::Arc;

use tokio::time::Instant;

use sherd_core::id::VolumeId;

use super::barrier::VolumeRecovery;
use super::catch_up::{PeerComparer, note_peers, peer_positions};
use super::confirm::{Confirmer, OpeningConfirmation};
use super::found::FoundRowsWaiter;
use super::notes::{ComparisonPoint, LastComparison, Notes};
use super::orders::VolumeOrders;
use super::retry::ShardRetry;
use super::shards::ShardRestorer;
use super::sources::DataSources;
use super::stall::RecoveryStall;
use super::status::{Recoveries, SHARDS};
use crate::upkeep::deps::Deps;
use crate::upkeep::final_seals::take_final_seals;
use crate::upkeep::progress::ProgressFiles;
use crate::upkeep::queue::HealQueue;
use crate::upkeep::recover::limits::{LOG_AT_END, NOTE_EVERY};
use crate::volumes::{LocalVolume, VolumeState};

/// Brings each volume of this node to where it votes and it is known what it lacks.
#[derive(Debug)]
pub(crate) struct VolumeFollower {
    pub(crate) deps: Deps,
    pub(crate) progress: Arc<ProgressFiles>,
    pub(crate) queue: Arc<HealQueue>,
    pub(crate) orders: Arc<VolumeOrders>,
    pub(crate) recoveries: Arc<Recoveries>,
    pub(crate) recovery: VolumeRecovery,
    pub(crate) confirmer: Arc<Confirmer>,
    pub(crate) shards: ShardRestorer,
    pub(crate) found: FoundRowsWaiter,
    pub(crate) comparer: PeerComparer,
}

impl VolumeFollower {
    /// Follows every volume of this node until it is stopped: recovers those that lost their state,
    /// and brings those that were away up to date.
    pub(crate) async fn follow_volumes(&self) {
        let following = self.deps.volumes.all().iter().map(|volume| self.follow(volume));
        futures::future::join_all(following).await;
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each state of a volume")]
    async fn follow(&self, volume: &Arc<LocalVolume>) {
        let mut changes = self.deps.volumes.changes();
        let (mut compared, mut fruitless): (Option<LastComparison>, Option<LastComparison>) = (None, None);
        let mut woken_by = None;
        let (mut note_at, mut notes) = (Instant::now(), Notes::default());
        let mut rebuildable_since = None;
        let mut retry = ShardRetry::new(self.deps.settings.recover_every);
        let mut confirmation = OpeningConfirmation::new(0);
        loop {
            changes.borrow_and_update();
            let opening = volume.opened_count();
            confirmation.follow(opening);
            let state = volume.state();
            let sources = self.sources_of_vacant(volume, &state);
            // Each absence begins the wait again: more than one disk may be on its way.
            let is_rebuildable = sources.is_some_and(DataSources::are_enough);
            rebuildable_since = is_rebuildable.then(|| rebuildable_since.unwrap_or_else(Instant::now));
            match state {
                VolumeState::Vacant { .. } if !self.may_adopt(volume, rebuildable_since) => {
                    volume.explain(&self.waits_because(sources));
                }
                VolumeState::Vacant { .. } | VolumeState::Recovering => {
                    match self.recovery.recover(volume).await {
                        Ok(()) => continue,
                        Err(stalled) => self.stalled(volume, &stalled),
                    }
                }
                VolumeState::Unconfirmed { .. } => {
                    if self.confirmer.confirm(volume, &mut confirmation).await {
                        continue;
                    }
                }
                VolumeState::Online | VolumeState::Suspect { .. } => {
                    self.orders.end(volume.id());
                    let now = self.comparison_point(opening);
                    let every = self.deps.settings.recover_every;
                    let is_due = compared.is_none_or(|last| last.is_over(now, every))
                        && fruitless.is_none_or(|last| last.may_be_repeated(now, every));
                    if !self.confirmer.find_later_state(volume, &mut confirmation).await
                        && is_due
                        // Not while more reports are about to be lost.
                        && self.deps.report_counts.has_room()
                        && self.load_known_damage(volume.id()).await
                    {
                        if woken_by != Some(opening) {
                            woken_by = Some(opening);
                            self.queue.mrf.wake_all();
                        }
                        if self.bring_up_to_date(volume.id(), now).await {
                            compared = Some(LastComparison { since: now, ended: Instant::now() });
                            retry = ShardRetry::new(self.deps.settings.recover_every);
                        } else if self.comparison_point(opening) != now {
                            // No log takes what it finds, and each try makes the others compare as well.
                            fruitless = Some(LastComparison { since: now, ended: Instant::now() });
                        }
                    }
                    let is_caught_up = compared.is_some_and(|last| last.since == now);
                    if is_caught_up && self.recoveries.wants_shards(volume.id()) {
                        self.retry_shards(volume.id(), &mut retry).await;
                    }
                    if is_caught_up {
                        self.look_at_left_out_rows(volume.id(), now).await;
                    }
                    // Not before it has caught up: from these notes on it is known what it missed.
                    if is_caught_up && Instant::now() >= note_at {
                        notes.take(now, peer_positions(&self.deps, volume.id()).await);
                        if let Some(peers) = notes.ripe(&self.deps.report_counts) {
                            note_peers(volume, opening, &peers);
                        }
                        note_at = Instant::now() + NOTE_EVERY;
                    }
                }
                VolumeState::Closed => return,
                VolumeState::Opening | VolumeState::Offline { .. } | VolumeState::Failed { .. } => {}
            }
            // Cancel-safe: a change that comes meanwhile is seen by the next wait.
            drop(tokio::time::timeout(self.deps.settings.recover_every, changes.changed()).await);
        }
    }

    /// The point up to which a comparison that begins now compares an opening.
    pub(crate) fn comparison_point(&self, opening: u32) -> ComparisonPoint {
        ComparisonPoint { opening, lost_reports: self.deps.report_counts.lost_heals_count() }
    }

    /// The volumes that an empty directory is filled from; `None` where there is nothing to fill.
    fn sources_of_vacant(&self, volume: &LocalVolume, state: &VolumeState) -> Option<DataSources> {
        let is_vacant = matches!(state, VolumeState::Vacant { .. });
        is_vacant.then(|| DataSources::of(&self.deps, &self.recoveries, volume.id())).flatten()
    }

    /// Whether a directory was empty for long enough that its disk is not coming back, all that time with
    /// enough others to rebuild it from. A disk that does come back has all that it had; a rebuild takes
    /// hours, and in them the set can lose one volume less. Where several disks come back one after another,
    /// each of those still missing gets the whole wait from when there were enough.
    fn may_adopt(&self, volume: &LocalVolume, rebuildable_since: Option<Instant>) -> bool {
        self.orders.is_adopted_now(volume.id(), volume.opened_count())
            || rebuildable_since.is_some_and(|since| since.elapsed() >= self.deps.tuning.adopt_after())
    }

    fn waits_because(&self, sources: Option<DataSources>) -> String {
        if let Some(sources) = sources.filter(|sources| !sources.are_enough()) {
            return sources.too_few();
        }
        let wait = humantime::format_duration(self.deps.tuning.adopt_after());
        format!(
            "its directory is empty; it is rebuilt there {wait} after that was seen, unless its disk comes back"
        )
    }

    /// Loads the recorded damage of a volume: shards whose rebuild was cut short, and the entries of the
    /// logs. Unrecorded damage is found by [`Self::bring_up_to_date`].
    pub(crate) async fn load_known_damage(&self, volume: VolumeId) -> bool {
        let Some(set) = self.deps.set_with(volume) else { return false };
        match self.progress.read(volume).await {
            Ok(progress) if progress.wants_shards => {
                self.recoveries.change(volume, |running| running.step = SHARDS);
            }
            Ok(_) => {}
            Err(reason) => {
                tracing::warn!(%volume, reason, "what the volume lacks is not known yet");
                return false;
            }
        }
        // An entry in another volume's log counts against that volume, until it is read.
        let own =
            set.routes.iter().map(async |route| self.queue.load_of(route).await || route.volume != volume);
        futures::future::join_all(own).await.into_iter().all(|is_read| is_read)
    }

    /// Shards that were queued are looked for again: healed meanwhile, or gone with their objects.
    async fn retry_shards(&self, volume: VolumeId, retry: &mut ShardRetry) {
        if !retry.is_due() {
            return;
        }
        let began = Instant::now();
        if let Err(reason) = self.shards.rebuild_shards(volume).await {
            tracing::warn!(%volume, reason, "the volume's shards are not rebuilt yet");
        }
        if self.recoveries.wants_shards(volume) {
            retry.failed(began.elapsed());
        } else {
            *retry = ShardRetry::new(self.deps.settings.recover_every);
        }
    }

    fn stalled(&self, volume: &LocalVolume, stalled: &RecoveryStall) {
        let why = stalled.to_string();
        if self.recoveries.stalled_by(volume.id()).as_ref() != Some(&why) {
            tracing::warn!(volume = %volume.id(), why, "recovery waits");
        }
        if matches!(volume.state(), VolumeState::Vacant { .. }) {
            volume.explain(&why);
        }
        self.recoveries.change(volume.id(), |running| running.stalled = Some(why));
    }

    /// At an orderly end: notes once more how far the peers' logs are, so that the next start sees that no
    /// volume missed anything. Not where something that a volume missed was reported and is in no log.
    pub(crate) async fn note_peers_at_end(&self) {
        // Damage that the scrubber found is looked for by no comparison.
        let logging = tokio::time::timeout(LOG_AT_END, self.queue.log_unlogged());
        if logging.await.is_err() || !self.queue.mrf.are_all_logged() {
            tracing::warn!("damage that is known is in no log, and is found again by the next scrub");
        }
        let lost = self.deps.report_counts.lost_heals_count();
        if !self.deps.report_counts.are_logged(self.deps.report_counts.made_heals_count(), lost) {
            return;
        }
        for volume in self.deps.volumes.all() {
            let opening = volume.opened_count();
            let since = ComparisonPoint { opening, lost_reports: lost };
            if volume.state().votes() && self.recoveries.is_known(volume.id(), since) {
                let peers = peer_positions(&self.deps, volume.id()).await;
                note_peers(volume, opening, &peers);
            }
        }
    }

    /// Rebuilds the shards of a volume that votes again, and heals or queues what it missed. From then on
    /// it is known what this opening lacks. `false` when its own shards could not be looked through, rows are
    /// not settled yet, or too few peers could be compared: it has to be tried again.
    pub(crate) async fn bring_up_to_date(&self, volume: VolumeId, now: ComparisonPoint) -> bool {
        if let Err(reason) = self.shards.rebuild_shards(volume).await {
            tracing::warn!(%volume, reason, "the volume's shards are not rebuilt yet");
            return false;
        }
        take_final_seals(&self.deps, volume).await;
        // A row that was not known to be committed when the volume left depends on more volumes than data
        // does.
        if !self.found.found_rows_settled(volume).await {
            tracing::info!(%volume, "rows that its opening found are not settled yet");
            return false;
        }
        // After a stop in order, too: what other nodes wrote meanwhile, and a kill kept from being queued,
        // shows nowhere else.
        self.comparer.wait_for_its_bound(volume).await;
        if let Err(reason) = self.comparer.catch_up(volume).await {
            tracing::info!(%volume, reason, "the volume was not compared with enough of its peers");
            return false;
        }
        self.recoveries.know(volume, now);
        true
    }

    /// Rows that were sealed when the volume came back are settled like the others once their seals have
    /// gone: until then it is not known again what it lacks.
    pub(crate) async fn look_at_left_out_rows(&self, volume: VolumeId, since: ComparisonPoint) {
        if self.found.are_left_out_rows_back(volume).await {
            self.recoveries.doubt(volume);
        }
        if !self.recoveries.is_known(volume, since) && self.found.found_rows_settled(volume).await {
            self.recoveries.know(volume, since);
        }
    }
}
