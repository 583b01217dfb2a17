//! One MRF entry healed: rows brought up to date, missing and rotten shards made again.
//!
//! Whether data is still named is read from the register in that moment; data that is not named any
//! more needs no heal. An entry that cannot be healed now stays queued, with how endangered it is.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use sherd_core::heal::HealEntry;
use sherd_core::id::{DataId, RegisterKey};

use super::check::{RegisterChecker, ShardLook};
use super::parts::PartCloser;
use super::subject::{HealSubject, RebuildError};
use crate::register::Failure;
use crate::register::refs::{RefsError, reference};
use crate::upkeep::deps::Deps;
use crate::upkeep::limits::RELOAD_EVERY;
use crate::upkeep::queue::HealQueue;
use crate::upkeep::queue::entries::Spare;
use crate::upkeep::rows::bring::{HealOutcome, Obstacle, heal_row, sealed};
use crate::upkeep::rows::rows_of;

#[derive(Debug)]
pub(crate) struct Healer {
    deps: Deps,
    queue: Arc<HealQueue>,
    checker: Arc<RegisterChecker>,
    parts: Arc<PartCloser>,
}

impl Healer {
    pub(crate) fn new(
        deps: &Deps,
        queue: &Arc<HealQueue>,
        checker: &Arc<RegisterChecker>,
        parts: &Arc<PartCloser>,
    ) -> Self {
        Self {
            deps: deps.clone(),
            queue: Arc::clone(queue),
            checker: Arc::clone(checker),
            parts: Arc::clone(parts),
        }
    }

    pub(crate) async fn heal(&self, entry: &HealEntry) -> HealOutcome {
        match entry.data {
            Some(data) => self.heal_data(&entry.key, data.id()).await,
            None => self.heal_row_and_shards(&entry.key, entry.since_ms).await,
        }
    }

    /// Brings the committed row of a key to every volume of its set, and queues what it names and is not
    /// there. The worker that queued the row may not have read what it names.
    async fn heal_row_and_shards(&self, key: &RegisterKey, since_ms: u64) -> HealOutcome {
        let healed = heal_row(&self.deps, key).await;
        if healed != HealOutcome::Whole {
            return healed;
        }
        match self.checker.look_at_shards(key, ShardLook::WhileAllAnswer, since_ms).await {
            Ok(()) => HealOutcome::Whole,
            Err(error) => HealOutcome::later(1, error),
        }
    }

    /// Brings the shards of data that a register names back to where they should be.
    pub(crate) async fn heal_data(&self, key: &RegisterKey, data: DataId) -> HealOutcome {
        // The data that a part's register names goes with the object that took it over: a part that a crash
        // kept from being closed would want data healed for ever that was released since.
        self.parts.close_part(key).await;
        let mut found = reference(&self.deps.registers, &self.deps.stripes, key, data).await;
        if matches!(found, Ok(None)) && !rows_of(&self.deps, key).await.are_equal() {
            // A write that was cut short may name it, on too few volumes to be read. A later settle would
            // commit it, and nothing would queue its missing shards.
            match self.deps.registers.finish(key).await {
                Ok(_) => found = reference(&self.deps.registers, &self.deps.stripes, key, data).await,
                Err(Failure::Sealed) => return sealed(&self.deps, key),
                Err(failure) => return HealOutcome::later(0, failure),
            }
        }
        let named = match found {
            Ok(Some(named)) => named,
            Ok(None) => return HealOutcome::Unnamed,
            Err(RefsError::Register(Failure::Sealed)) => return sealed(&self.deps, key),
            Err(error) => return HealOutcome::later(0, error),
        };
        let subject = match HealSubject::new(&self.deps, key, named) {
            Ok(subject) => subject,
            Err(error) => return HealOutcome::later(named.parity_shards, error),
        };
        self.deps.throttle.take(subject.shard_bytes().saturating_mul(u64::from(named.data_shards))).await;
        let mut shards = subject.look(true).await;
        let (mut failure, mut full) = (None, Vec::new());
        for index in std::mem::take(&mut shards.broken) {
            match subject.rebuild(&self.deps, index, &shards.intact).await {
                Ok(bytes) => {
                    self.queue.mrf.wrote(bytes);
                    shards.intact.push(index);
                }
                Err(RebuildError::Target(_)) if subject.is_full(index) => full.push(subject.home(index)),
                Err(error) => {
                    let hopeless = matches!(error, RebuildError::TooFew { .. });
                    failure = Some(error);
                    if hopeless {
                        break;
                    }
                }
            }
        }
        match failure {
            None if !shards.unknown.is_empty() => {
                HealOutcome::later(shards.spare(&named), "volumes of the set are offline")
            }
            None if full.is_empty() => HealOutcome::Whole,
            None => HealOutcome::Later {
                spare: Spare(shards.spare(&named)),
                reason: "volumes of the set are full".to_owned(),
                obstacle: Obstacle::Room(full),
            },
            Some(error) => HealOutcome::later(shards.spare(&named), error),
        }
    }

    pub(crate) async fn heal_queue(&self) {
        loop {
            match self.queue.mrf.take(self.deps.now_ms()) {
                Some(entry) => self.heal_queued(&entry).await,
                None => self.wait_for_damage().await,
            }
            if self.queue.mrf.may_reload() {
                self.queue.load().await;
            }
        }
    }

    /// Looks through the volumes' logs until it is stopped: an entry that a write made durable together
    /// with its value is only there.
    pub(crate) async fn reload_heals(&self) {
        loop {
            tokio::time::sleep(RELOAD_EVERY).await;
            self.queue.load().await;
            self.queue.log_unlogged().await;
        }
    }

    async fn wait_for_damage(&self) {
        let wait = match self.queue.mrf.next_due_ms() {
            Some(due_ms) => Duration::from_millis(due_ms.saturating_sub(self.deps.now_ms()).max(1)),
            None => RELOAD_EVERY,
        };
        // Cancel-safe: a notification that is not taken stays for the next wait, and time passing
        // is what the other arm is about.
        drop(tokio::time::timeout(wait, self.queue.mrf.added()).await);
    }

    pub(crate) async fn heal_queued(&self, entry: &HealEntry) {
        let id = entry.id();
        // An entry that makes its heal panic must not stay in hand for ever, nor stop the others.
        let healed = self.deps.panics.contain("heal", self.heal(entry)).await;
        match healed.unwrap_or_else(|| HealOutcome::later(0, "healing it panicked")) {
            HealOutcome::Whole | HealOutcome::Unnamed => {
                let set = self.deps.cluster.set_of(&entry.key);
                self.queue.mrf.healed(id, self.deps.now_ms(), || {
                    for route in &set.routes {
                        route.peer.heal_done(route.volume, id);
                    }
                });
            }
            HealOutcome::Later { spare, reason, obstacle } => {
                tracing::debug!(key = ?entry.key, data = ?entry.data, reason, "not healed yet");
                // A kill would forget it, and where a scrubber found it a comparison of what changed does not
                // look.
                if !self.queue.mrf.is_logged(id) {
                    let _ = self
                        .deps
                        .panics
                        .contain("heal", self.queue.log(entry.clone(), spare, Instant::now()))
                        .await;
                }
                let full = match obstacle {
                    Obstacle::Room(full) => full,
                    Obstacle::Damage | Obstacle::Absence => Vec::new(),
                };
                let [jitter, ..] = self.deps.rng.next_u64().to_le_bytes();
                self.queue.mrf.failed(id, spare, full, self.deps.now_ms(), jitter);
            }
        }
    }
}
