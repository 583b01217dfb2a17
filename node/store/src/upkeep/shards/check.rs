//! A register looked at as a whole: whether its rows are equal, and every shard that its value keeps alive is
//! where it should be. Called by the scrubber, by heals, and for a volume that came back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sherd_core::heal::HealEntry;
use sherd_core::id::{RegisterKey, VolumeId};
use sherd_core::record::Home;

use super::subject::HealSubject;
use crate::register::Failure;
use crate::register::refs::{RefsError, kept_by};
use crate::upkeep::deps::Deps;
use crate::upkeep::final_seals::is_gone_for_ever;
use crate::upkeep::limits::ROW_COST_BYTES;
use crate::upkeep::queue::HealQueue;
use crate::upkeep::queue::entries::Spare;
use crate::upkeep::rows::bring::{HealOutcome, Obstacle, heal_row};
use crate::upkeep::rows::rows_of;

/// How the shards of a value are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShardLook {
    /// All of them, although some do not answer.
    Everywhere,
    /// All of them, for one volume, which has to answer: what it lacks is asked for.
    For(VolumeId),
    /// For a heal, which comes back where a volume does not answer. Those in the log are verified: what a
    /// loss took of it may end within a record.
    WhileAllAnswer,
}

/// Why it is not known whether all that a register names is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LookError {
    /// The data that it names is not known.
    #[error(transparent)]
    Refs(#[from] RefsError),
    #[error("volumes of the set are offline, or busy")]
    Unanswered,
}

/// Looks at registers, and queues what is wrong.
#[derive(Debug)]
pub(crate) struct RegisterChecker {
    deps: Deps,
    queue: Arc<HealQueue>,
    findings_count: AtomicU64,
}

impl RegisterChecker {
    pub(crate) fn new(deps: &Deps, queue: &Arc<HealQueue>) -> Self {
        Self { deps: deps.clone(), queue: Arc::clone(queue), findings_count: AtomicU64::new(0) }
    }

    pub(crate) fn findings_count(&self) -> u64 {
        self.findings_count.load(Ordering::Relaxed)
    }

    /// Counts something that is wrong, and queues it.
    pub(crate) async fn found(&self, entry: HealEntry, spare: Spare) {
        self.findings_count.fetch_add(1, Ordering::Relaxed);
        self.queue.put(entry, spare).await;
    }

    pub(crate) async fn found_row(&self, key: &RegisterKey) {
        self.found(HealEntry { key: key.clone(), data: None, since_ms: 0 }, Spare(1)).await;
    }

    /// Looks whether the rows of a key are equal, and every shard that its value keeps alive is where it
    /// should be; heals the rows, queues the shards. Volumes that are away do not count as damage: they are
    /// compared when they come back.
    ///
    /// # Errors
    /// As [`Self::look_at_shards`].
    pub(crate) async fn check_register(&self, key: &RegisterKey, look: ShardLook) -> Result<(), LookError> {
        if !rows_of(&self.deps, key).await.are_equal_but_for_the_absent()
            && let HealOutcome::Later { obstacle, .. } = heal_row(&self.deps, key).await
            && obstacle != Obstacle::Absence
        {
            self.found_row(key).await;
        }
        self.look_at_shards(key, look, 0).await
    }

    /// Looks whether every shard that a key's value keeps alive is where it should be, and queues the others,
    /// as damage since `since_ms` (0: now).
    ///
    /// # Errors
    /// [`LookError`] where that is not known of all of them. The data that the value names itself, its
    /// manifest pages among it, was looked at also where its pages cannot be read.
    pub(crate) async fn look_at_shards(
        &self,
        key: &RegisterKey,
        look: ShardLook,
        since_ms: u64,
    ) -> Result<(), LookError> {
        let found = match self.deps.registers.read(key).await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(()),
            Err(Failure::Sealed) if is_gone_for_ever(&self.deps, key) => return Ok(()),
            Err(failure) => return Err(RefsError::from(failure).into()),
        };
        let (kept, mut outcome) = match kept_by(&self.deps.stripes, key, &found.value).await {
            Ok(kept) => (kept, Ok(())),
            Err(error) => (found.value.data_refs(), Err(error.into())),
        };
        for data in kept {
            let Ok(subject) = HealSubject::new(&self.deps, key, data) else { continue };
            let verifies = look == ShardLook::WhileAllAnswer && data.home == Home::Packed;
            match look {
                ShardLook::For(_) => self.deps.throttle.wait_while_paused().await,
                _ if verifies => self.deps.throttle.take(subject.shard_bytes()).await,
                _ => self.deps.throttle.take(ROW_COST_BYTES).await,
            }
            let shards = subject.look(verifies).await;
            if !shards.broken.is_empty() {
                let entry = HealEntry { key: key.clone(), data: Some(data.into()), since_ms };
                self.found(entry, Spare(shards.spare(&data))).await;
            }
            let is_unknown = match look {
                ShardLook::Everywhere | ShardLook::WhileAllAnswer => !shards.unknown.is_empty(),
                ShardLook::For(volume) => shards.unknown.iter().any(|index| subject.home(*index) == volume),
            };
            if is_unknown {
                outcome = Err(LookError::Unanswered);
                if look == ShardLook::WhileAllAnswer {
                    break;
                }
            }
        }
        outcome
    }
}
