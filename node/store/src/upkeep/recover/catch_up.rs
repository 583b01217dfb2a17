//! A volume that was merely away: asks its peers what changed since it left, and heals that.
//!
//! Every volume's log holds how far it saw each peer's log become durable. A peer's rows from there on,
//! up to where its log is when the volume takes writes again, are compared with the volume's own: what
//! is written later reaches both. Shards are looked for with them.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use futures::{StreamExt, stream};

use sherd_core::heal::HealEntry;
use sherd_core::id::{Ballot, Incarnation, RegisterKey, Sequence, VolumeId};
use sherd_core::limits::{BOUND_AHEAD_MS, SET_VOLUMES_MAX};
use sherd_core::message::{RowPage, RowScan};
use sherd_core::register::position::{OpeningId, Position};
use sherd_volume::request::Op;

use super::super::look::Look;
use super::super::mrf::Spare;
use super::super::{Context, ask};
use super::notes::{ComparisonPoint, PeerPositions};
use crate::peer::VolumeRoute;
use crate::volumes::{LocalVolume, ServingVolume};

/// Keys of one page.
const PAGE: usize = 500;
/// Keys of a page that are compared at one time: each waits for answers of all volumes, and for little else.
const KEYS_AT_ONCE: usize = 16;
/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a peer may take to say how far its log is: nothing is read for that.
const POSITION_PATIENCE: Duration = Duration::from_secs(5);
/// Before a page that failed is asked for again: a volume that went away is opened again each second, and votes
/// some seconds later.
const PAGE_PAUSES: [Duration; 4] =
    [Duration::from_millis(100), Duration::from_millis(500), Duration::from_secs(2), Duration::from_secs(5)];
/// A volume that was just opened refuses ballots up to what it may have promised before, which is
/// this far ahead of the clock: rows written anew would pass it by. A new one refuses none.
const AFTER_OPENING: Duration = Duration::from_millis(BOUND_AHEAD_MS + 500);
/// By how many records a peer's log grows before that is noted: more than the notes of a whole set.
const NOTE_RECORDS: u64 = 4 * SET_VOLUMES_MAX as u64;

impl Context {
    /// A volume votes again: its shards are rebuilt, and what it missed is healed or queued. From then on
    /// it is known what this opening lacks. `false` when its own shards could not be looked through, rows are
    /// not settled yet, or too few peers could be compared: it has to be tried again.
    pub(in crate::upkeep) async fn came_back(&self, volume: VolumeId, now: ComparisonPoint) -> bool {
        if let Err(reason) = self.rebuild_shards(volume).await {
            tracing::warn!(%volume, reason, "the volume's shards are not rebuilt yet");
            return false;
        }
        self.take_final_seals(volume).await;
        // What was not known to be committed when the volume left depends on more volumes than data does.
        if !self.found_rows_settled(volume).await {
            tracing::info!(%volume, "rows that its opening found are not settled yet");
            return false;
        }
        // After a stop in order, too: what other nodes wrote meanwhile, and a kill kept from being queued, shows
        // nowhere else.
        self.wait_for_its_bound(volume).await;
        if let Err(reason) = self.catch_up(volume).await {
            tracing::info!(%volume, reason, "the volume was not compared with enough of its peers");
            return false;
        }
        self.recovery.know(volume, now);
        true
    }

    /// Rows that were sealed when the volume came back are settled like the others once their seals have gone: until
    /// then it is not known again what it lacks.
    pub(in crate::upkeep) async fn look_at_left_out_rows(&self, volume: VolumeId, since: ComparisonPoint) {
        if self.are_left_out_rows_back(volume).await {
            self.recovery.doubt(volume);
        }
        if !self.recovery.is_known(volume, since) && self.found_rows_settled(volume).await {
            self.recovery.know(volume, since);
        }
    }

    async fn wait_for_its_bound(&self, volume: VolumeId) {
        if self.set_with(volume).is_some_and(|set| set.routes.len() == 1) {
            return;
        }
        let serving = self.volumes.get(volume).and_then(|volume| volume.serving().ok());
        let refuses = |serving: Arc<ServingVolume>| {
            serving.has_promised || serving.reader.guarantees().floor > Ballot::ZERO
        };
        if serving.is_none_or(refuses) {
            tokio::time::sleep(AFTER_OPENING).await;
        }
    }

    /// Compares what changed on the peers since the volume left. What it lacks and is committed is on A of the
    /// N - 1 others: N - A of them show it. One more is compared where it is there.
    async fn catch_up(&self, volume: VolumeId) -> Result<(), String> {
        let local = self.volumes.get(volume).ok_or("the volume is not on this node")?;
        let known = local.serving().map_err(|error| error.to_string())?.reader.peers();
        let set = self.set_with(volume).ok_or("the volume is in no set")?;
        let wanted = set.quorums().prepare();
        let (mut compared, mut failure) = (0, String::new());
        for route in set.routes.iter().filter(|route| route.volume != volume) {
            if compared >= wanted {
                break;
            }
            let noted = known.iter().find(|(peer, _)| *peer == route.volume).map(|(_, noted)| *noted);
            match self.catch_up_with(volume, route, noted).await {
                Ok(()) => compared += 1,
                Err(reason) => failure = reason,
            }
        }
        // Of N voters any P = N - A + 1 meet any A.
        if compared + 1 >= wanted { Ok(()) } else { Err(failure) }
    }

    pub(in crate::upkeep) async fn catch_up_with(
        &self,
        volume: VolumeId,
        route: &VolumeRoute,
        noted: Option<(Incarnation, Sequence)>,
    ) -> Result<(), String> {
        let now = self.position_of_voter(route).await?;
        // One that was never noted, or has begun another life, is compared as a whole: sequences of other lives
        // say nothing of this one.
        let noted = noted.filter(|(life, _)| *life == now.incarnation);
        let (since, until) = (noted.map_or(Sequence(0), |(_, durable)| durable), now.durable);
        if since >= until {
            return Ok(());
        }
        let mut after = None;
        loop {
            let request =
                RowScan { epoch: self.cluster.epoch(), after, since, until, limit: PAGE, want_value: false };
            let page = self.changed_rows(route, &request, now.incarnation).await?;
            let keys = page.rows.into_iter().map(|row| row.key);
            let mut compared =
                stream::iter(keys).map(|key| self.compare(volume, key)).buffer_unordered(KEYS_AT_ONCE);
            while let Some(is_known) = compared.next().await {
                if !is_known {
                    return Err("what a row lacks is in no log".to_owned());
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// How far the log of a peer is that votes, and whose log names the opening that says so. One that recovers gets
    /// rows in its own life that stand behind that, and are older than the comparison all the same; once a volume
    /// votes in a life it never recovers in it.
    async fn position_of_voter(&self, route: &VolumeRoute) -> Result<Position, String> {
        let mut pauses = PAGE_PAUSES.into_iter();
        loop {
            let answer = ask(route.upkeep.position(route.volume), POSITION_PATIENCE).await;
            let from = answer.map_err(|error| error.to_string())?;
            if from.votes && from.opening != OpeningId::NONE {
                return Ok(from.position());
            }
            let Some(pause) = pauses.next() else {
                return Err(format!("volume {} does not vote, or has no room to write", route.volume));
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// A page of a peer's rows. What was compared before is not compared again for a peer that is busy, or is
    /// away for a moment; one in another life has other rows.
    pub(in crate::upkeep) async fn changed_rows(
        &self,
        route: &VolumeRoute,
        request: &RowScan,
        life: Incarnation,
    ) -> Result<RowPage, String> {
        let mut pauses = PAGE_PAUSES.into_iter();
        loop {
            let failed = match ask(route.registers.rows(route.volume, request), PATIENCE).await {
                Ok(answer) if answer.from.incarnation != life => {
                    return Err(format!("volume {} began another life", route.volume));
                }
                Ok(answer) if !answer.from.votes => format!("volume {} does not vote", route.volume),
                Ok(answer) => match answer.result {
                    Ok(page) => return Ok(page),
                    Err(refusal) => refusal.to_string(),
                },
                Err(error) => error.to_string(),
            };
            let Some(pause) = pauses.next() else { return Err(failed) };
            tokio::time::sleep(pause).await;
        }
    }

    /// Compares a row for a volume; `false` where that lacks something that no log took.
    async fn compare(&self, volume: VolumeId, key: RegisterKey) -> bool {
        self.throttle.take(0).await;
        let Err(error) = self.check_register(&key, Look::For(volume)).await else { return true };
        // Nobody would look again: the next comparison begins behind this one.
        tracing::debug!(?key, %error, "what the row names is not looked at yet");
        self.queue_heal(HealEntry { key, data: None, since_ms: 0 }, Spare(1)).await
    }

    /// How far the logs of a volume's peers are durable now. All are asked at one time: one that does not answer
    /// holds its asker up once.
    pub(in crate::upkeep) async fn peer_positions(&self, volume: VolumeId) -> PeerPositions {
        let Some(set) = self.set_with(volume) else { return PeerPositions::new() };
        let peers = set.routes.iter().filter(|route| route.volume != volume);
        let asked = peers.map(async |route| {
            let from = ask(route.upkeep.position(route.volume), POSITION_PATIENCE).await.ok()?;
            Some((route.volume, from.position())).filter(|_| from.opening != OpeningId::NONE)
        });
        join_all(asked).await.into_iter().flatten().collect()
    }
}

/// Tells the volume how far its peers' logs are durable, so that it knows from where on it
/// missed something, and they know when it comes back with less than it had. Only the opening that was compared
/// with them is told: in another one the note would hide what that one missed.
///
/// What the volume missed up to there is queued: whoever calls this saw to it.
pub(in crate::upkeep) fn note_peers(volume: &LocalVolume, opening: u32, peers: &PeerPositions) {
    for (peer, position) in peers.iter().copied() {
        let Position { incarnation, durable, .. } = position;
        let Ok(serving) = volume.serving() else { return };
        let known = serving.reader.peers();
        let known = known.iter().find(|(known, _)| *known == peer).map(|(_, known)| *known);
        let is_old = |(life, noted): (Incarnation, Sequence)| {
            life == incarnation && durable.0 < noted.0.saturating_add(NOTE_RECORDS)
        };
        // A note is a record itself: if every note made the peers take note, they never rested.
        if known.is_some_and(is_old) {
            continue;
        }
        // After the door was looked through: who stands in it was counted before. Nothing waits from here on.
        if volume.opened_count() != opening {
            return;
        }
        // Rides with the next frame; what does not fit now is said again.
        drop(serving.submit(Op::PeerSeen { volume: peer, position }));
    }
}
