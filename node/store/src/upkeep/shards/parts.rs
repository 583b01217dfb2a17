//! Parts, and attributes of uploads, that came after their upload was closed: tombstoned, so that they name
//! nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use sherd_core::id::{Ballot, RegisterKey, UploadId};
use sherd_core::record::State;

use crate::register::refs::kept_by;
use crate::register::{self, Proposal, QuorumRow};
use crate::upkeep::deps::Deps;
use crate::upkeep::limits::PART_AGE_MS;

#[derive(Debug)]
pub(crate) struct PartCloser {
    deps: Deps,
    closed_count: AtomicU64,
}

impl PartCloser {
    pub(crate) fn new(deps: &Deps) -> Self {
        Self { deps: deps.clone(), closed_count: AtomicU64::new(0) }
    }

    pub(crate) fn closed_count(&self) -> u64 {
        self.closed_count.load(Ordering::Relaxed)
    }

    /// Tombstones a part, or an upload's attributes, that came after its upload was closed, long ago.
    pub(crate) async fn close_old_part(&self, key: &RegisterKey) {
        let Ok(Some(part)) = self.deps.registers.read(key).await else { return };
        if self.is_old_part(part.ballot) {
            self.close_part(key).await;
        }
    }

    fn is_old_part(&self, written: Ballot) -> bool {
        written.time.as_ms() <= self.deps.wall_ms().saturating_sub(PART_AGE_MS)
    }

    /// Tombstones a part whose upload is closed, of any age: a crash may have come between the two.
    /// Attributes are left while they are young, for their upload may be about to open.
    pub(crate) async fn close_part(&self, key: &RegisterKey) {
        let Some(part_key) = key.part else { return };
        let Ok(Some(part)) = self.deps.registers.read(key).await else { return };
        let object = RegisterKey::object(key.bucket, key.key.clone());
        let found = match &part.value.state {
            // Read after the part was: an upload that is closed then never opens again.
            State::Part(_) => self.deps.registers.read(&object).await,
            // Attributes precede the opening of their upload. Read at a fresh ballot: the row that was to
            // open it long ago, and lies on a minority, can win no more.
            State::UploadAttributes(_) if self.is_old_part(part.ballot) => {
                self.deps.registers.finish(&object).await
            }
            State::UploadAttributes(_) | State::Tombstone | State::Object(_) | State::Bucket(_) => return,
        };
        let Ok(found) = found else { return };
        if found.as_ref().is_some_and(|found| is_open(found, part_key.upload)) {
            return;
        }
        // Data that a Complete made the object's goes when the object does. Only an open upload gives a part
        // to its object, so a later value names no part that this one does not.
        let kept = match &found {
            Some(found) => kept_by(&self.deps.stripes, &object, &found.value).await,
            None => Ok(Vec::new()),
        };
        let Ok(kept) = kept else { return };
        let gone = move |state: Option<&State>| match state {
            Some(part @ (State::Part(_) | State::UploadAttributes(_))) => {
                let held = part.data_refs();
                let handed_over =
                    held.iter().filter(|data| kept.contains(data)).map(|data| data.id).collect();
                Ok(Proposal { handed_over, ..Proposal::of(State::Tombstone) })
            }
            _ => Err(()),
        };
        let ticket = self.deps.registers.begin(key);
        if self.deps.registers.change(ticket, register::Writer::new(gone)).await.is_ok() {
            self.closed_count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

pub(crate) fn is_open(found: &QuorumRow, upload: UploadId) -> bool {
    found.object().is_some_and(|object| object.uploads.iter().any(|open| open.id == upload))
}
