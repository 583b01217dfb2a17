//! A volume that lost its state comes to vote again: the barrier of `core::register::recover`, step
//! by step, over the peers of its set; then its shards, newest first.
//!
//! ```text
//! vacant, or recovering -> a new life -> P voters record it, then report -> their seals are read
//!   -> their floors and seals are taken -> F is the floor of all of them -> their rows are adopted -> it votes -> shards
//! ```
//! Whatever fails, all of it is tried again in a higher life: that is always safe, and rows that
//! were adopted before are only compared. Which shards are there is seen on the volume itself.

mod adopt;
mod catch_up;
mod confirm;
mod notes;
mod orders;
mod progress;
mod shards;
pub(super) mod stall;
mod stuck;
mod voter_seals;

pub(crate) use orders::VolumeOrders;
#[cfg(test)]
pub(crate) use progress::Progress;
pub(crate) use progress::{ProgressLocks, ScrubProgress, SweepProgress};
pub use stuck::StuckSet;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use sherd_core::id::{Incarnation, Timestamp, VolumeId};
use sherd_core::message;
use sherd_core::message::{Answer, Control};
use sherd_core::register::quorum::{Lives, Order, Quorums, Reply};
use sherd_core::register::recover::{Barrier, Guarantees, barrier, may_scan, may_vote, next_life};

pub(in crate::upkeep) use self::catch_up::note_peers;
use self::confirm::OpeningConfirmation;
use self::notes::{ComparisonPoint, LastComparison, NOTE_EVERY, Notes};
use self::stall::{CONTROL_PATIENCE, RecoveryStall};
use super::{Context, ask};
use crate::cluster::SetView;
use crate::peer::{Gather, Pending, VolumeRoute};
use crate::volumes::{LocalVolume, VolumeState};

/// How long a volume may take to make what it takes over durable: a million seals are some 40 batches.
const TAKE_PATIENCE: Duration = Duration::from_mins(1);
/// How long an orderly end tries to log damage that no log took.
const LOG_AT_END: Duration = Duration::from_secs(10);

/// How far a volume is since it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpeningStatus {
    /// It was not looked at yet: neither the queue nor [`Self::Recovering`] speaks of what it lacks.
    Unknown,
    /// Its rows or its shards are being brought back.
    Recovering(RecoveryStatus),
    /// What it lacks is in the queue.
    Known,
}

/// A volume on its way back, for health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryStatus {
    /// What is being done: `registers` or `shards`.
    pub step: &'static str,
    /// Why it does not go on, if it does not.
    pub stalled: Option<String>,
    /// Rows adopted in this try.
    pub rows_count: u64,
    /// Bytes of shards that are still missing, as far as they were counted.
    pub shard_bytes_left: u64,
    /// Milliseconds until all shards are there, at the pace so far.
    pub eta_ms: Option<u64>,
}

impl fmt::Display for RecoveryStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = &self.stalled {
            return write!(f, "waits: {why}");
        }
        if self.step != "shards" {
            return write!(f, "gets its rows: {} so far", self.rows_count);
        }
        if self.shard_bytes_left == 0 {
            return f.write_str("looks for the shards that it lacks");
        }
        write!(f, "gets its shards: {} MiB left", self.shard_bytes_left.div_ceil(1 << 20))?;
        self.eta_ms.map_or(Ok(()), |eta_ms| write!(f, ", about {} s", eta_ms / 1000))
    }
}

/// What is known of one recovery.
#[derive(Debug, Clone, Default)]
struct RecoveryRun {
    step: &'static str,
    stalled: Option<String>,
    rows_count: u64,
    bytes_done: u64,
    bytes_left: u64,
    /// Since when the missing shards are counted and rebuilt.
    shards_since_ms: Option<u64>,
}

impl RecoveryRun {
    fn status(&self, now_ms: u64) -> RecoveryStatus {
        let passed_ms = self.shards_since_ms.map(|since_ms| now_ms.saturating_sub(since_ms));
        RecoveryStatus {
            step: self.step,
            stalled: self.stalled.clone(),
            rows_count: self.rows_count,
            shard_bytes_left: self.bytes_left,
            eta_ms: passed_ms
                .and_then(|passed_ms| passed_ms.saturating_mul(self.bytes_left).checked_div(self.bytes_done)),
        }
    }
}

/// All recoveries under way.
#[derive(Debug, Default)]
pub(crate) struct Recoveries {
    running: Mutex<BTreeMap<VolumeId, RecoveryRun>>,
    /// Since when it is known of each volume what it lacks: all of that is done or queued.
    known: Mutex<BTreeMap<VolumeId, ComparisonPoint>>,
}

impl Recoveries {
    fn change(&self, volume: VolumeId, change: impl FnOnce(&mut RecoveryRun)) {
        change(self.running.lock().entry(volume).or_default());
    }

    pub(super) fn adopted(&self, volume: VolumeId, rows: u64) {
        self.change(volume, |running| running.rows_count += rows);
    }

    /// Shards begin, or another pass over them does: so many bytes are missing.
    pub(super) fn shards_left(&self, volume: VolumeId, bytes_left: u64, now_ms: u64) {
        self.change(volume, |running| {
            if running.step != "shards" || running.shards_since_ms.is_none() {
                *running =
                    RecoveryRun { step: "shards", shards_since_ms: Some(now_ms), ..RecoveryRun::default() };
            }
            running.bytes_left = bytes_left;
        });
    }

    pub(super) fn shard_done(&self, volume: VolumeId, bytes: u64) {
        self.change(volume, |running| {
            running.bytes_done += bytes;
            running.bytes_left = running.bytes_left.saturating_sub(bytes);
        });
    }

    pub(super) fn end(&self, volume: VolumeId) {
        self.running.lock().remove(&volume);
    }

    /// What this opening of a volume lacks is known from here on.
    pub(super) fn know(&self, volume: VolumeId, since: ComparisonPoint) {
        self.known.lock().insert(volume, since);
        self.end(volume);
    }

    /// What was said of it is not all any more.
    fn doubt(&self, volume: VolumeId) {
        self.known.lock().remove(&volume);
    }

    fn is_known(&self, volume: VolumeId, since: ComparisonPoint) -> bool {
        self.known.lock().get(&volume) == Some(&since)
    }

    /// What an opening of a volume has come to. What is recovered is listed before it is known to be
    /// all, and what is not recovered is queued before it is no longer listed: so the list is asked
    /// last, and the queue after it.
    pub(super) fn standing(&self, volume: VolumeId, since: ComparisonPoint, now_ms: u64) -> OpeningStatus {
        let is_known = self.is_known(volume, since);
        match self.running.lock().get(&volume) {
            Some(running) => OpeningStatus::Recovering(running.status(now_ms)),
            None if is_known => OpeningStatus::Known,
            None => OpeningStatus::Unknown,
        }
    }
}

/// One try: its own count of events, and what it heard of lives.
struct RecoveryTry {
    volume: VolumeId,
    others: Vec<VolumeRoute>,
    quorums: Quorums,
    lives: Lives,
    arrivals: u32,
}

impl Context {
    /// Follows every volume of this node until told to stop: recovers those that lost their state,
    /// and brings those that were away up to date.
    pub(super) async fn follow_volumes(&self) {
        let following = self.volumes.all().iter().map(|volume| self.follow(volume));
        futures::future::join_all(following).await;
    }

    async fn follow(&self, volume: &Arc<LocalVolume>) {
        let mut changes = self.volumes.changes();
        let (mut compared, mut fruitless): (Option<LastComparison>, Option<LastComparison>) = (None, None);
        let mut woken_by = None;
        let (mut note_at, mut notes) = (Instant::now(), Notes::default());
        let mut vacant_since = None;
        let mut heard = OpeningConfirmation::new(0);
        loop {
            changes.borrow_and_update();
            let opening = volume.opened_count();
            heard.follow(opening);
            let state = volume.state();
            let is_vacant = matches!(state, VolumeState::Vacant { .. });
            vacant_since = is_vacant.then(|| vacant_since.unwrap_or_else(Instant::now));
            match state {
                VolumeState::Vacant { .. } if !self.may_adopt(volume, vacant_since) => {
                    volume.explain(&self.waits_for_its_disk());
                }
                VolumeState::Vacant { .. } | VolumeState::Recovering => match self.recover(volume).await {
                    Ok(()) => continue,
                    Err(stalled) => self.stalled(volume, &stalled),
                },
                VolumeState::Unconfirmed { .. } => {
                    if self.confirm(volume, &mut heard).await {
                        continue;
                    }
                }
                VolumeState::Online | VolumeState::Suspect { .. } => {
                    self.volume_orders.end(volume.id());
                    let now = self.caught_up_now(opening);
                    let every = self.settings.recover_every;
                    let is_due = compared.is_none_or(|last| last.is_over(now, every))
                        && fruitless.is_none_or(|last| last.may_be_repeated(now, every));
                    if !self.hear_the_others(volume, &mut heard).await
                        && is_due
                        // Not while more reports are about to be lost.
                        && self.report_counts.has_room()
                        && self.take_stock(volume.id()).await
                    {
                        if woken_by != Some(opening) {
                            woken_by = Some(opening);
                            self.mrf.wake_all();
                        }
                        if self.came_back(volume.id(), now).await {
                            compared = Some(LastComparison { since: now, ended: Instant::now() });
                        } else if self.caught_up_now(opening) != now {
                            // No log takes what it finds, and each try makes the others compare as well.
                            fruitless = Some(LastComparison { since: now, ended: Instant::now() });
                        }
                    }
                    let is_caught_up = compared.is_some_and(|last| last.since == now);
                    if is_caught_up {
                        self.look_at_left_out_rows(volume.id(), now).await;
                    }
                    // Not before it has caught up: from these notes on it knows what it missed.
                    if is_caught_up && Instant::now() >= note_at {
                        notes.take(now, self.peer_positions(volume.id()).await);
                        if let Some(peers) = notes.ripe(&self.report_counts) {
                            note_peers(volume, opening, &peers);
                        }
                        note_at = Instant::now() + NOTE_EVERY;
                    }
                }
                VolumeState::Closed => return,
                VolumeState::Opening | VolumeState::Offline { .. } | VolumeState::Failed { .. } => {}
            }
            // Cancel-safe: a change that comes meanwhile is seen by the next wait.
            drop(tokio::time::timeout(self.settings.recover_every, changes.changed()).await);
        }
    }

    /// What a comparison that begins now makes known of an opening.
    pub(in crate::upkeep) fn caught_up_now(&self, opening: u32) -> ComparisonPoint {
        ComparisonPoint { opening, lost_reports: self.report_counts.lost_heals_count() }
    }

    /// Whether a directory was empty for so long that its disk is not coming back. A disk that does comes
    /// back with all that it had; a rebuild takes hours, and in them the set can lose one volume less.
    fn may_adopt(&self, volume: &LocalVolume, vacant_since: Option<Instant>) -> bool {
        self.volume_orders.is_adopted_now(volume.id(), volume.opened_count())
            || vacant_since.is_some_and(|since| since.elapsed() >= self.settings.adopt_after)
    }

    fn waits_for_its_disk(&self) -> String {
        let wait = humantime::format_duration(self.settings.adopt_after);
        format!(
            "its directory is empty; it is rebuilt there {wait} after that was seen, unless its disk comes back"
        )
    }

    /// Learns what is written down of what a volume lacks since it was opened: shards whose rebuild was cut
    /// short, and what the logs hold for it. What is written nowhere is found by [`Self::came_back`].
    pub(in crate::upkeep) async fn take_stock(&self, volume: VolumeId) -> bool {
        let Some(set) = self.set_with(volume) else { return false };
        match self.progress(volume).await {
            Ok(progress) if progress.wants_shards => {
                self.recovery.change(volume, |running| running.step = "shards");
            }
            Ok(_) => {}
            Err(reason) => {
                tracing::warn!(%volume, reason, "what the volume lacks is not known yet");
                return false;
            }
        }
        // What another volume's log holds counts against that volume, until it is read.
        let own =
            set.routes.iter().map(async |route| self.load_heals_of(route).await || route.volume != volume);
        futures::future::join_all(own).await.into_iter().all(|is_read| is_read)
    }

    fn stalled(&self, volume: &LocalVolume, stalled: &RecoveryStall) {
        let why = stalled.to_string();
        let known = {
            let running = self.recovery.running.lock();
            running.get(&volume.id()).and_then(|running| running.stalled.clone())
        };
        if known.as_ref() != Some(&why) {
            tracing::warn!(volume = %volume.id(), why, "recovery waits");
        }
        if matches!(volume.state(), VolumeState::Vacant { .. }) {
            volume.explain(&why);
        }
        self.recovery.change(volume.id(), |running| running.stalled = Some(why));
    }

    /// At an orderly end: notes once more how far the peers' logs are, so that the next start knows
    /// that nobody missed anything. Not where something that a volume missed was reported and is in no log.
    pub(super) async fn note_peers_at_end(&self) {
        // What the scrubber found is looked for by no comparison.
        let logging = tokio::time::timeout(LOG_AT_END, self.log_unlogged());
        if logging.await.is_err() || !self.mrf.are_all_logged() {
            tracing::warn!("damage that is known is in no log, and is found again by the next scrub");
        }
        let lost = self.report_counts.lost_heals_count();
        if !self.report_counts.are_logged(self.report_counts.made_heals_count(), lost) {
            return;
        }
        for volume in self.volumes.all() {
            let opening = volume.opened_count();
            let since = ComparisonPoint { opening, lost_reports: lost };
            if volume.state().votes() && self.recovery.is_known(volume.id(), since) {
                let peers = self.peer_positions(volume.id()).await;
                note_peers(volume, opening, &peers);
            }
        }
    }

    /// Brings a volume from nothing, or from lost state, to voting. Shards follow when it is online.
    pub(crate) async fn recover(&self, volume: &LocalVolume) -> Result<(), RecoveryStall> {
        let id = volume.id();
        let set = self.set_with(id).ok_or(RecoveryStall::NoSet)?;
        let others: Vec<VolumeRoute> =
            set.routes.iter().filter(|route| route.volume != id).cloned().collect();
        let own = set.routes.iter().find(|route| route.volume == id).cloned().ok_or(RecoveryStall::NoSet)?;
        let mut attempt =
            RecoveryTry { volume: id, others, quorums: set.quorums(), lives: Lives::default(), arrivals: 0 };
        self.recovery.change(id, |running| running.step = "registers");
        let life = attempt.begin_life(volume).await?;
        let (barrier, reports) = attempt.raise_barrier(life, self.now()).await?;
        // After the reports: what is sealed from then on is sealed by deletions that do not count the lost life. Before
        // the volume stores anything: in this life it takes nothing under a seal that it stood for.
        let seals = attempt.read_seals(&barrier, &reports).await?;
        let take = Control::TakeGuarantees { guarantees: barrier.guarantees.clone(), seals };
        own_did(ask(own.registers.control(id, take), TAKE_PATIENCE).await)?;
        let confirmations = attempt.raise_floors(&barrier).await?;
        self.recovery.change(id, |running| {
            running.stalled = None;
            running.rows_count = 0;
        });
        let scans = self.adopt_rows(&own, &attempt, &barrier).await?;
        if !may_vote(&barrier, &confirmations, &scans, &attempt.lives) {
            return Err(RecoveryStall::Changed);
        }
        let remembered = self.memory_of(id, attempt.sources()).await?;
        // Before it votes: a crash in between finds the marker, and looks for shards once too often.
        self.want_shards(id).await.map_err(RecoveryStall::Own)?;
        own_did(
            ask(own.registers.control(id, Control::FinishRecovery { remembered }), CONTROL_PATIENCE).await,
        )?;
        volume.look();
        self.online_again(volume).await;
        Ok(())
    }

    /// Waits, a little, until the keeper has seen that the volume votes.
    async fn online_again(&self, volume: &LocalVolume) {
        let mut changes = self.volumes.changes();
        let seen = async {
            while volume.state() == VolumeState::Recovering {
                changes.borrow_and_update();
                if volume.state() != VolumeState::Recovering || changes.changed().await.is_err() {
                    return;
                }
            }
        };
        drop(tokio::time::timeout(CONTROL_PATIENCE, seen).await);
    }

    /// The set that a volume belongs to.
    pub(super) fn set_with(&self, volume: VolumeId) -> Option<Arc<SetView>> {
        self.sets_with(volume).next()
    }

    /// The sets that a volume belongs to.
    pub(super) fn sets_with(&self, volume: VolumeId) -> impl Iterator<Item = Arc<SetView>> {
        self.cluster.sets().iter().filter(move |set| set.place_of(volume).is_some()).map(Arc::clone)
    }
}

fn own_did(answer: message::Result<Answer<Guarantees>>) -> Result<Guarantees, RecoveryStall> {
    match answer {
        Ok(answer) => answer.result.map_err(|refusal| RecoveryStall::Own(refusal.to_string())),
        Err(error) => Err(RecoveryStall::Own(error.to_string())),
    }
}

impl RecoveryTry {
    /// Asks the other volumes of the set, all at one time, and counts arrivals.
    async fn ask_others(
        &mut self,
        question: impl Fn(&VolumeRoute) -> Pending<Answer<Guarantees>>,
    ) -> Vec<Reply<Guarantees>> {
        let asked = self.arrivals;
        let pendings = self.others.iter().enumerate();
        let mut gather = Gather::new(pendings.map(|(place, route)| (place, question(route))));
        let deadline = Instant::now() + CONTROL_PATIENCE;
        let mut replies = Vec::new();
        while let Ok(Some((place, answer))) = tokio::time::timeout_at(deadline, gather.next()).await {
            let Ok(Answer { from, result }) = answer else { continue };
            self.arrivals += 1;
            let volume = self.others[place].volume;
            self.lives.learn_from(volume, &from);
            let order = Order { asked, arrived: self.arrivals };
            replies.push(Reply { volume, from, order, result });
        }
        replies
    }

    fn too_few(&self, replies: &[Reply<Guarantees>]) -> RecoveryStall {
        let voters = replies.iter().filter(|reply| reply.from.votes && reply.result.is_ok()).count();
        RecoveryStall::Voters { voters, needed: self.quorums.prepare() }
    }

    /// A life above every one that is known, begun durably on the volume itself.
    async fn begin_life(&mut self, volume: &LocalVolume) -> Result<Incarnation, RecoveryStall> {
        let known = self.ask_others(|route| route.upkeep.guarantees(route.volume)).await;
        let own = match volume.serving() {
            Ok(serving) => serving.reader.answerer().incarnation,
            Err(_) => Incarnation(0),
        };
        let life = next_life(self.volume, own, &known, self.quorums, &self.lives)
            .ok_or_else(|| self.too_few(&known))?;
        match volume.state() {
            VolumeState::Vacant { .. } => {
                volume.adopt(life).await.map_err(|error| RecoveryStall::Own(error.to_string()))?;
            }
            _ => volume.begin_life(life).await.map_err(|error| RecoveryStall::Own(error.to_string()))?,
        }
        Ok(life)
    }

    /// Step 1: P voters durably record the life, and then report.
    async fn raise_barrier(
        &mut self,
        life: Incarnation,
        now: Timestamp,
    ) -> Result<(Barrier, Vec<Reply<Guarantees>>), RecoveryStall> {
        let lost = self.volume;
        self.lives.learn(lost, life);
        let record = Control::RecordIncarnation { volume: lost, incarnation: life };
        let mut reports =
            self.ask_others(|route| route.registers.control(route.volume, record.clone())).await;
        reports.retain(|reply| reply.from.votes && reply.result.is_ok());
        let is_far = |reply: &Reply<Guarantees>| {
            reply.result.as_ref().is_ok_and(|guarantees| guarantees.is_far_ahead(now))
        };
        let far = reports.iter().find(|reply| is_far(reply)).map(|reply| reply.volume);
        reports.retain(|reply| !is_far(reply));
        // P are enough, and each more would have to be scanned.
        reports.truncate(self.quorums.prepare());
        match barrier(lost, life, &reports, self.quorums, &self.lives, now) {
            Some(barrier) => Ok((barrier, reports)),
            None => {
                Err(far.map_or_else(|| self.too_few(&reports), |volume| RecoveryStall::FarAhead { volume }))
            }
        }
    }

    /// Step 2: F is the durable floor of each of them.
    async fn raise_floors(&mut self, barrier: &Barrier) -> Result<Vec<Reply<Guarantees>>, RecoveryStall> {
        let raise = Control::RaiseFloor { floor: barrier.floor };
        let voters: Vec<VolumeId> = barrier.voters.iter().map(|(volume, _)| *volume).collect();
        self.others.retain(|route| voters.contains(&route.volume));
        let confirmations =
            self.ask_others(|route| route.registers.control(route.volume, raise.clone())).await;
        if may_scan(barrier, &confirmations, &self.lives) {
            Ok(confirmations)
        } else {
            Err(RecoveryStall::Changed)
        }
    }

    /// The voters to scan.
    pub(super) fn sources(&self) -> &[VolumeRoute] {
        &self.others
    }

    /// The count of events so far: a question that is sent now was sent after all of them.
    pub(super) const fn now(&self) -> u32 {
        self.arrivals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINCE: ComparisonPoint = ComparisonPoint { opening: 1, lost_reports: 0 };

    #[test]
    fn the_time_that_is_left_is_counted_from_where_shards_began() {
        let recoveries = Recoveries::default();
        let volume = VolumeId([1; 16]);
        let said = |now_ms| match recoveries.standing(volume, SINCE, now_ms) {
            OpeningStatus::Recovering(status) => status.to_string(),
            standing => panic!("{standing:?}"),
        };
        let began_ms = 1_795_000_000_000;
        recoveries.adopted(volume, 12);
        assert_eq!(said(began_ms), "gets its rows: 12 so far");
        // What a restart finds before the shards are counted.
        recoveries.change(volume, |running| running.step = "shards");
        assert_eq!(said(began_ms), "looks for the shards that it lacks");
        recoveries.shards_left(volume, 100 << 20, began_ms);
        assert_eq!(said(began_ms), "gets its shards: 100 MiB left");
        recoveries.shard_done(volume, 20 << 20);
        assert_eq!(said(began_ms + 5_000), "gets its shards: 80 MiB left, about 20 s");
        recoveries.change(volume, |running| running.stalled = Some("no voters".to_owned()));
        assert_eq!(said(began_ms), "waits: no voters");
        recoveries.end(volume);
        assert_eq!(recoveries.standing(volume, SINCE, began_ms), OpeningStatus::Unknown);
    }
}
