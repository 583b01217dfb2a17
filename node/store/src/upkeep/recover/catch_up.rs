//! A volume that was merely away: asks its peers what changed since it left, and heals that.
//!
//! Every volume's log holds how far it saw each peer's log become durable. A peer's rows from there on,
//! up to where its log is when the volume takes writes again, are compared with the volume's own: what
//! is written later reaches both. Shards are looked for with them.

use std::sync::Arc;

use futures::future::join_all;
use futures::{StreamExt, stream};

use sherd_core::heal::HealEntry;
use sherd_core::id::{Ballot, Life, RegisterKey, Sequence, VolumeId};
use sherd_core::message::{RowPage, RowScan};
use sherd_core::register::position::{OpeningId, Position};
use sherd_volume::request::Op;

use super::notes::PeerPositions;
use crate::peer::VolumeRoute;
use crate::upkeep::deps::Deps;
use crate::upkeep::limits::PAGE_PATIENCE;
use crate::upkeep::pages::ask;
use crate::upkeep::queue::HealQueue;
use crate::upkeep::queue::entries::Spare;
use crate::upkeep::recover::limits::{
    AFTER_OPENING, COMPARE_PAGE, KEYS_AT_ONCE, NOTE_RECORDS, PAGE_PAUSES, POSITION_PATIENCE,
};
use crate::upkeep::shards::check::{RegisterChecker, ShardLook};
use crate::volumes::{LocalVolume, ServingVolume};

/// Compares volumes that were away with their peers.
#[derive(Debug)]
pub(crate) struct PeerComparer {
    deps: Deps,
    queue: Arc<HealQueue>,
    checker: Arc<RegisterChecker>,
}

impl PeerComparer {
    pub(crate) fn new(deps: &Deps, queue: &Arc<HealQueue>, checker: &Arc<RegisterChecker>) -> Self {
        Self { deps: deps.clone(), queue: Arc::clone(queue), checker: Arc::clone(checker) }
    }

    pub(super) async fn wait_for_its_bound(&self, volume: VolumeId) {
        if self.deps.set_with(volume).is_some_and(|set| set.routes.len() == 1) {
            return;
        }
        let serving = self.deps.volumes.get(volume).and_then(|volume| volume.serving().ok());
        let refuses = |serving: Arc<ServingVolume>| {
            serving.has_promised || serving.reader.guarantees().floor > Ballot::ZERO
        };
        if serving.is_none_or(refuses) {
            tokio::time::sleep(AFTER_OPENING).await;
        }
    }

    /// Compares what changed on the peers since the volume left. A row that it lacks and that is committed is
    /// on A of the N - 1 others: N - A of them show it. One more is compared where it is there.
    pub(super) async fn catch_up(&self, volume: VolumeId) -> Result<(), String> {
        let local = self.deps.volumes.get(volume).ok_or("the volume is not on this node")?;
        let known = local.serving().map_err(|error| error.to_string())?.reader.peers();
        let set = self.deps.set_with(volume).ok_or("the volume is in no set")?;
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

    pub(crate) async fn catch_up_with(
        &self,
        volume: VolumeId,
        route: &VolumeRoute,
        noted: Option<(Life, Sequence)>,
    ) -> Result<(), String> {
        let now = self.position_of_voter(route).await?;
        // A peer without a note, or in another life than its note's, is compared as a whole: sequences count
        // within one life.
        let noted = noted.filter(|(life, _)| *life == now.life);
        let (since, until) = (noted.map_or(Sequence(0), |(_, durable)| durable), now.durable);
        if since >= until {
            return Ok(());
        }
        let mut after = None;
        loop {
            let request = RowScan {
                epoch: self.deps.cluster.epoch(),
                after,
                since,
                until,
                limit: COMPARE_PAGE,
                want_value: false,
            };
            let page = self.changed_rows(route, &request, now.life).await?;
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

    /// The durable end of a voting peer's log that names its opening. A recovering peer gets rows in its
    /// present life that lie behind that end and are older than the comparison; a volume that votes never
    /// recovers in the same life.
    async fn position_of_voter(&self, route: &VolumeRoute) -> Result<Position, String> {
        let mut pauses = PAGE_PAUSES.into_iter();
        loop {
            let answer = ask(route.peer.position(route.volume), POSITION_PATIENCE).await;
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

    /// A page of a peer's rows. Rows that were compared before are not compared again for a peer that is
    /// busy, or is away for a moment; one in another life has other rows.
    pub(crate) async fn changed_rows(
        &self,
        route: &VolumeRoute,
        request: &RowScan,
        life: Life,
    ) -> Result<RowPage, String> {
        let mut pauses = PAGE_PAUSES.into_iter();
        loop {
            let failed = match ask(route.peer.rows(route.volume, request), PAGE_PATIENCE).await {
                Ok(answer) if answer.from.life != life => {
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
        // Until it is known what the volume missed, no other one may go: heals have the bandwidth, which they
        // may owe for minutes.
        self.deps.throttle.wait_while_paused().await;
        let Err(error) = self.checker.check_register(&key, ShardLook::For(volume)).await else { return true };
        // The next comparison begins behind this row, so the entry keeps it.
        tracing::debug!(?key, %error, "what the row names is not looked at yet");
        self.queue.put(HealEntry { key, data: None, since_ms: 0 }, Spare(1)).await
    }
}

/// How far the logs of a volume's peers are durable now. All are asked at one time: one that does not answer
/// holds its asker up once.
pub(crate) async fn peer_positions(deps: &Deps, volume: VolumeId) -> PeerPositions {
    let Some(set) = deps.set_with(volume) else { return PeerPositions::new() };
    let peers = set.routes.iter().filter(|route| route.volume != volume);
    let asked = peers.map(async |route| {
        let from = ask(route.peer.position(route.volume), POSITION_PATIENCE).await.ok()?;
        Some((route.volume, from.position())).filter(|_| from.opening != OpeningId::NONE)
    });
    join_all(asked).await.into_iter().flatten().collect()
}

/// Notes on the volume how far its peers' logs are durable: it shows from where on the volume missed rows,
/// and shows its peers when it comes back with less than it had. Only the opening that was compared gets the
/// note: in another one it would hide what that one missed.
///
/// The caller queued all rows that the volume missed up to there.
pub(crate) fn note_peers(volume: &LocalVolume, opening: u32, peers: &PeerPositions) {
    for (peer, position) in peers.iter().copied() {
        let Position { life, durable, .. } = position;
        let Ok(serving) = volume.serving() else { return };
        let known = serving.reader.peers();
        let known = known.iter().find(|(known, _)| *known == peer).map(|(_, known)| *known);
        let is_old = |(noted_life, noted): (Life, Sequence)| {
            noted_life == life && durable.0 < noted.0.saturating_add(NOTE_RECORDS)
        };
        // A note is a record itself: if every note made the peers take note, they never rested.
        if known.is_some_and(is_old) {
            continue;
        }
        // Checked last, with no await behind it: the opening cannot change before the note is written.
        if volume.opened_count() != opening {
            return;
        }
        // Rides with the next frame; a note without room is written by the next call.
        drop(serving.submit(Op::PeerSeen { volume: peer, position }));
    }
}
