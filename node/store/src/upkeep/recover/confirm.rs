//! Before an opened volume votes: its peers say what they remember of it.
//!
//! ```text
//! opened -> asks its peers -> A - 1 answered, none remembers more -> votes -> the others, as they come
//!                          -> one remembers more                  -> recovers, like a wiped one
//!                          -> too few answered                    -> waits, or an admin vouches for it
//! ```
//! A peer answers from its log as soon as it is open, so the volumes of a node that starts confirm each
//! other at once. A volume says its openings as it asks, and the peer drops what they cover. The decision is
//! `core::register::recover::confirm`. Guards I-18.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::{join_all, try_join_all};
use tokio::time::Instant;

use sherd_core::id::VolumeId;
use sherd_core::message;
use sherd_core::register::Positions;
use sherd_core::register::position::Position;
use sherd_core::register::quorum::{Order, Reply};
use sherd_core::register::recover::confirm::{
    Asker, Confirmation, Memory, OpenedVolume, adopted_memory, confirm, lost_state,
};

use super::orders::VolumeOrders;
use super::stall::RecoveryStall;
use super::status::Recoveries;
use super::stuck::{StuckSet, stuck};
use crate::cluster::SetView;
use crate::peer::{Gather, VolumeRoute};
use crate::upkeep::deps::Deps;
use crate::upkeep::pages::ask;
use crate::upkeep::recover::limits::CONTROL_PATIENCE;
use crate::volumes::{LocalVolume, ServingVolume, VolumeState};

/// How far one opening of a volume is confirmed, as its follower keeps it.
#[derive(Debug)]
pub(super) struct OpeningConfirmation {
    number: u32,
    since: Instant,
    /// Peers that sent their memory of it.
    answered: BTreeSet<VolumeId>,
}

impl OpeningConfirmation {
    /// No peer has answered in it yet.
    pub(super) fn new(number: u32) -> Self {
        Self { number, since: Instant::now(), answered: BTreeSet::new() }
    }

    /// Begins again where the volume was opened again.
    pub(super) fn follow(&mut self, number: u32) {
        if self.number != number {
            *self = Self::new(number);
        }
    }
}

#[derive(Debug)]
pub(crate) struct Confirmer {
    deps: Deps,
    orders: Arc<VolumeOrders>,
    recoveries: Arc<Recoveries>,
}

impl Confirmer {
    pub(crate) fn new(deps: &Deps, orders: &Arc<VolumeOrders>, recoveries: &Arc<Recoveries>) -> Self {
        Self { deps: deps.clone(), orders: Arc::clone(orders), recoveries: Arc::clone(recoveries) }
    }

    /// Asks the peers of every volume of this node that was opened and does not vote yet, once.
    pub(crate) async fn confirm_volumes(&self) {
        let unconfirmed = self
            .deps
            .volumes
            .all()
            .iter()
            .filter(|volume| matches!(volume.state(), VolumeState::Unconfirmed { .. }));
        join_all(unconfirmed.map(|volume| async move {
            let mut opening = OpeningConfirmation::new(volume.opened_count());
            self.confirm(volume, &mut opening).await;
        }))
        .await;
    }

    /// Asks the peers of an opened volume what they remember of it, and lets it vote when that is enough.
    /// `true` when it votes.
    pub(super) async fn confirm(&self, volume: &LocalVolume, opening: &mut OpeningConfirmation) -> bool {
        let Ok(serving) = volume.serving() else { return false };
        let (mut waits, mut stuck_set) = (None, None);
        for set in self.deps.sets_with(volume.id()) {
            match self.judge(volume.id(), &serving, &set, opening).await {
                Confirmation::Confirmed => {}
                Confirmation::Lost { remembered } => {
                    declare_lost(volume, &serving, remembered);
                    return false;
                }
                Confirmation::Unconfirmed { answers, needed } => {
                    waits = Some(self.waits_for(volume.id(), &set, opening, answers, needed));
                    stuck_set = stuck_set.or_else(|| stuck(&self.deps, &self.recoveries, &set));
                }
            }
        }
        if let Some(waits) = waits {
            if !self.is_vouched(volume, opening) {
                explain(volume, &waits, stuck_set.as_ref());
                return false;
            }
            tracing::warn!(
                volume = %volume.id(),
                path = %volume.path().display(),
                waits,
                "the volume votes unconfirmed, as somebody vouches for it: if it has lost state, \
                 acknowledged writes are lost with it"
            );
        }
        // A keeper that hangs in a dead disk does not hold up others.
        let voting = tokio::time::timeout(CONTROL_PATIENCE, volume.confirm(&serving)).await;
        voting.is_ok_and(|confirmed| confirmed.is_ok())
    }

    /// Asks the peers that did not answer yet in this opening. `true` when one remembers a later state.
    pub(super) async fn find_later_state(
        &self,
        volume: &LocalVolume,
        opening: &mut OpeningConfirmation,
    ) -> bool {
        let Ok(serving) = volume.serving() else { return false };
        for set in self.deps.sets_with(volume.id()) {
            let silent: Vec<VolumeRoute> = peers_of(&set, volume.id())
                .filter(|route| !opening.answered.contains(&route.volume))
                .cloned()
                .collect();
            let asker = asker_of(volume.id(), &serving);
            let answers = join_all(silent.iter().map(|route| {
                let question = route.peer.remembers(route.volume, asker.as_ref());
                async move { (route.volume, ask(question, CONTROL_PATIENCE).await) }
            }));
            for (peer, answer) in answers.await {
                let Ok(memory) = answer.map(|answer| answer.result) else { continue };
                let Ok(memory) = memory else { continue };
                let own = serving.reader.openings();
                if let Some(remembered) = lost_state(volume.id(), &own, memory.positions) {
                    declare_lost(volume, &serving, remembered);
                    return true;
                }
                // A peer that was asked without openings dropped none of its notes yet.
                if memory.is_whole && asker.is_some() {
                    opening.answered.insert(peer);
                }
            }
        }
        false
    }

    /// Asks all peers in one set, until they have said enough.
    async fn judge(
        &self,
        volume: VolumeId,
        serving: &ServingVolume,
        set: &SetView,
        opening: &mut OpeningConfirmation,
    ) -> Confirmation {
        let peers: Vec<&VolumeRoute> = peers_of(set, volume).collect();
        let asker = asker_of(volume, serving);
        let question = |route: &VolumeRoute| route.peer.remembers(route.volume, asker.as_ref());
        let mut gather = Gather::new(peers.iter().enumerate().map(|(place, route)| (place, question(route))));
        let deadline = Instant::now() + CONTROL_PATIENCE;
        let mut answers: Vec<Reply<Memory>> = Vec::new();
        let decide = |answers: &[Reply<Memory>]| {
            let Memory { positions, openings, .. } = serving.reader.memory();
            let opened = OpenedVolume { volume, openings: &openings, remembers: &positions };
            confirm(opened, answers, set.quorums())
        };
        let mut decided = decide(&answers);
        while matches!(decided, Confirmation::Unconfirmed { .. })
            && let Ok(Some((place, answer))) = tokio::time::timeout_at(deadline, gather.next()).await
        {
            let Ok(answer) = answer else { continue };
            let peer = peers[place].volume;
            if asker.is_some() && answer.result.as_ref().is_ok_and(|memory| memory.is_whole) {
                opening.answered.insert(peer);
            }
            let order = Order::default();
            answers.push(Reply { volume: peer, from: answer.from, order, result: answer.result });
            decided = decide(&answers);
        }
        decided
    }

    /// Whether an admin lets volumes vote that too few peers confirm, and this one waited for them.
    fn is_vouched(&self, volume: &LocalVolume, opening: &OpeningConfirmation) -> bool {
        let waited = self.deps.settings.vouch_after.is_some_and(|after| opening.since.elapsed() >= after);
        waited || self.orders.is_vouched(volume.id(), volume.opened_count())
    }

    fn waits_for(
        &self,
        volume: VolumeId,
        set: &SetView,
        opening: &OpeningConfirmation,
        answers: usize,
        needed: usize,
    ) -> String {
        let silent = peers_of(set, volume).filter(|route| !opening.answered.contains(&route.volume));
        let named = silent.map(|route| match self.deps.volumes.get(route.volume) {
            Some(local) => local.path().display().to_string(),
            None => route.volume.to_string(),
        });
        let named: Vec<String> = named.collect();
        format!(
            "does not vote: {answers} of {needed} needed peers said what they remember of it; waits for {}",
            named.join(", ")
        )
    }
}

/// The positions that the voters of a recovery remember of a volume's peers.
pub(super) async fn memory_of(volume: VolumeId, voters: &[VolumeRoute]) -> Result<Positions, RecoveryStall> {
    let asked = voters.iter().map(async |route| {
        let answer = ask(route.peer.remembers(route.volume, None), CONTROL_PATIENCE).await;
        let failed =
            |error: message::Error| RecoveryStall::Scan { volume: route.volume, reason: error.to_string() };
        let answer = answer.map_err(failed)?;
        let order = Order::default();
        Ok(Reply { volume: route.volume, from: answer.from, order, result: answer.result })
    });
    let answers: Vec<Reply<Memory>> = try_join_all(asked).await?;
    Ok(adopted_memory(volume, &answers).into())
}

/// Says why a volume does not vote yet, once for each reason.
fn explain(volume: &LocalVolume, waits: &str, stuck: Option<&StuckSet>) {
    let why = stuck.map_or_else(|| waits.to_owned(), |stuck| format!("{waits}; {stuck}"));
    if volume.state().reason() != Some(&why) {
        let path = volume.path().display();
        if stuck.is_none() {
            tracing::warn!(volume = %volume.id(), %path, why, "volume waits");
        } else {
            tracing::error!(volume = %volume.id(), %path, why, "volume waits for ever");
        }
    }
    volume.explain(&why);
}

fn peers_of(set: &SetView, volume: VolumeId) -> impl Iterator<Item = &VolumeRoute> {
    set.routes.iter().filter(move |route| route.volume != volume)
}

/// The openings that the volume sends to a peer that it asks.
fn asker_of(volume: VolumeId, serving: &ServingVolume) -> Option<Asker> {
    Some(Asker { volume, openings: serving.reader.openings_to_ask_with()? })
}

fn declare_lost(volume: &LocalVolume, serving: &Arc<ServingVolume>, remembered: Position) {
    let own = serving.reader.openings();
    let count = own.openings().len();
    let began = own.began().map_or_else(|| format!("life {}", own.life.0), |began| began.to_string());
    let reason =
        format!("its peers remember {remembered}; its log names {count} openings, and was at {began}");
    tracing::error!(volume = %volume.id(), path = %volume.path().display(), reason, "volume has lost state");
    volume.declare_lost(serving, &reason, remembered.life);
}
