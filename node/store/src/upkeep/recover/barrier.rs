//! A volume that lost its state, brought to vote: the barrier of `core::register::recover`, step by step.
//!
//! ```text
//! a new life -> P voters record it, then report -> their seals are read -> their floors and seals are taken
//!   -> F is the floor of all of them -> their rows are adopted -> it votes
//! ```
//! Where any step fails, all of it is tried again in a higher life: that is always safe, and rows that
//! were adopted before are only compared.

use std::sync::Arc;

use sherd_core::message;
use sherd_core::message::{Answer, Control};
use sherd_core::register::quorum::Lives;
use sherd_core::register::recover::{Guarantees, may_vote};

use super::adopt::RowAdopter;
use super::attempt::RecoveryTry;
use super::confirm::memory_of;
use super::stall::RecoveryStall;
use super::status::Recoveries;
use crate::peer::VolumeRoute;
use crate::upkeep::deps::Deps;
use crate::upkeep::pages::ask;
use crate::upkeep::progress::ProgressFiles;
use crate::upkeep::recover::limits::{CONTROL_PATIENCE, TAKE_PATIENCE};
use crate::volumes::{LocalVolume, VolumeState};

#[derive(Debug)]
pub(crate) struct VolumeRecovery {
    deps: Deps,
    progress: Arc<ProgressFiles>,
    recoveries: Arc<Recoveries>,
    adopter: RowAdopter,
}

impl VolumeRecovery {
    pub(crate) fn new(deps: &Deps, progress: &Arc<ProgressFiles>, recoveries: &Arc<Recoveries>) -> Self {
        let adopter = RowAdopter::new(deps, recoveries);
        Self {
            deps: deps.clone(),
            progress: Arc::clone(progress),
            recoveries: Arc::clone(recoveries),
            adopter,
        }
    }

    /// Brings a volume from nothing, or from lost state, to voting. Shards follow when it is online.
    pub(crate) async fn recover(&self, volume: &LocalVolume) -> Result<(), RecoveryStall> {
        let id = volume.id();
        let set = self.deps.set_with(id).ok_or(RecoveryStall::NoSet)?;
        let others: Vec<VolumeRoute> =
            set.routes.iter().filter(|route| route.volume != id).cloned().collect();
        let own = set.routes.iter().find(|route| route.volume == id).cloned().ok_or(RecoveryStall::NoSet)?;
        let mut attempt =
            RecoveryTry { volume: id, others, quorums: set.quorums(), lives: Lives::default(), arrivals: 0 };
        self.recoveries.change(id, |running| running.step = "registers");
        let life = attempt.begin_life(volume).await?;
        let (barrier, reports) = attempt.raise_barrier(life, self.deps.now()).await?;
        // After the reports: what is sealed from then on is sealed by deletions that do not count the lost
        // life. Before the volume stores anything: in this life it takes nothing under a seal that it stood
        // for.
        let seals = attempt.read_seals(&barrier, &reports).await?;
        let take = Control::TakeGuarantees { guarantees: barrier.guarantees.clone(), seals };
        own_did(ask(own.peer.control(id, take), TAKE_PATIENCE).await)?;
        let confirmations = attempt.raise_floors(&barrier).await?;
        self.recoveries.change(id, |running| {
            running.stalled = None;
            running.rows_count = 0;
        });
        let scans = self.adopter.adopt_rows(&own, &attempt, &barrier).await?;
        if !may_vote(&barrier, &confirmations, &scans, &attempt.lives) {
            return Err(RecoveryStall::Changed);
        }
        let remembered = memory_of(id, attempt.sources()).await?;
        // Before it votes: a crash in between finds the marker, and looks for shards once too often.
        self.progress
            .change(id, |progress| progress.wants_shards = true)
            .await
            .map_err(RecoveryStall::Own)?;
        own_did(ask(own.peer.control(id, Control::FinishRecovery { remembered }), CONTROL_PATIENCE).await)?;
        volume.look();
        self.online_again(volume).await;
        Ok(())
    }

    /// Waits, a little, until the keeper has seen that the volume votes.
    async fn online_again(&self, volume: &LocalVolume) {
        let mut changes = self.deps.volumes.changes();
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
}

fn own_did(answer: message::Result<Answer<Guarantees>>) -> Result<Guarantees, RecoveryStall> {
    match answer {
        Ok(answer) => answer.result.map_err(|refusal| RecoveryStall::Own(refusal.to_string())),
        Err(error) => Err(RecoveryStall::Own(error.to_string())),
    }
}
