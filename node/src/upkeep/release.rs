//! Superseded data: gone after its grace and its last reader's pin.
//!
//! Whoever replaced a value reports what the new, committed one no longer names; that is proof
//! enough, and is looked at once more here. What is lost of this queue (a restart, too many at one
//! time, a volume that stays away) is an orphan, which the sweeper finds.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use parking_lot::Mutex;

use sherd_core::id::{RegisterKey, ShardId};
use sherd_core::placement;
use sherd_core::record::DataRef;

use super::refs::RefsError;
use super::sweep::is_open;
use super::{Context, ask};
use crate::register::Failure;

/// Releases held in memory: about 300 bytes each.
const RELEASES_MAX: usize = 100_000;
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long pinned data, or data that cannot be judged or removed now, waits for the next try.
const AGAIN_MS: u64 = 60_000;
/// Tries before the sweeper is left to find it.
const TRIES_MAX: u32 = 10;
/// Released at one time.
const CONCURRENT: usize = 32;
/// How long a volume may take to remove a shard.
const PATIENCE: Duration = Duration::from_secs(10);

/// One report of superseded data.
#[derive(Debug, Clone)]
struct Superseded {
    key: RegisterKey,
    data: Vec<DataRef>,
    pages: Vec<DataRef>,
    due_ms: u64,
    tries: u32,
}

/// What waits to be released.
#[derive(Debug, Default)]
pub(crate) struct Releases {
    /// In the order in which they become due, but for the few that are tried again.
    waiting: Mutex<VecDeque<Superseded>>,
    grace_ms: AtomicU64,
    released_count: AtomicU64,
    dropped_count: AtomicU64,
}

/// Superseded data on its way out, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReleaseStatus {
    /// Reports that wait.
    pub len: usize,
    /// Data ids released since the start.
    pub released_count: u64,
    /// Reports that were left to the sweeper.
    pub dropped_count: u64,
}

impl Releases {
    pub(super) fn add(&self, key: RegisterKey, data: Vec<DataRef>, pages: Vec<DataRef>, now_ms: u64) {
        let due_ms = now_ms.saturating_add(self.grace_ms.load(Ordering::Relaxed));
        self.push(Superseded { key, data, pages, due_ms, tries: 0 });
    }

    fn push(&self, superseded: Superseded) {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= RELEASES_MAX || superseded.tries > TRIES_MAX {
            self.dropped_count.fetch_add(1, Ordering::Relaxed);
        } else {
            waiting.push_back(superseded);
        }
    }

    /// Takes out what is due, at most [`CONCURRENT`] reports.
    fn due(&self, now_ms: u64) -> Vec<Superseded> {
        let mut waiting = self.waiting.lock();
        let mut due = Vec::new();
        // Those tried again stand behind younger ones; one turn of the queue is enough to pass them.
        for _ in 0..waiting.len().min(4 * CONCURRENT) {
            if due.len() >= CONCURRENT {
                break;
            }
            match waiting.pop_front() {
                Some(superseded) if superseded.due_ms <= now_ms => due.push(superseded),
                Some(superseded) if superseded.tries > 0 => waiting.push_back(superseded),
                Some(superseded) => {
                    waiting.push_front(superseded);
                    break;
                }
                None => break,
            }
        }
        due
    }

    pub(super) fn status(&self) -> ReleaseStatus {
        ReleaseStatus {
            len: self.waiting.lock().len(),
            released_count: self.released_count.load(Ordering::Relaxed),
            dropped_count: self.dropped_count.load(Ordering::Relaxed),
        }
    }
}

impl Context {
    /// Releases what is due until it is told to stop.
    pub(super) async fn release_data(&self) {
        let grace_ms = u64::try_from(self.settings.release_grace.as_millis()).unwrap_or(u64::MAX);
        self.release.grace_ms.store(grace_ms, Ordering::Relaxed);
        loop {
            let due = self.release.due(self.now_ms());
            if due.is_empty() {
                tokio::time::sleep(LOOK_EVERY).await;
                continue;
            }
            self.throttle.take(0).await;
            let releasing = due.into_iter().map(|superseded| self.release_one(superseded));
            futures::stream::iter(releasing).buffer_unordered(CONCURRENT).for_each(|()| async {}).await;
        }
    }

    async fn release_one(&self, superseded: Superseded) {
        if self.may_be_carried(&superseded.key).await {
            let due_ms = self.now_ms().saturating_add(AGAIN_MS);
            self.release.push(Superseded { due_ms, tries: superseded.tries.max(1), ..superseded });
            return;
        }
        let mut left = Vec::new();
        let mut pages_left = Vec::new();
        for data in &superseded.data {
            let is_page = superseded.pages.contains(data);
            if !self.release_data_id(&superseded.key, *data, is_page).await {
                left.push(*data);
                pages_left.extend(is_page.then_some(*data));
            }
        }
        if !left.is_empty() {
            self.release.push(Superseded {
                data: left,
                pages: pages_left,
                due_ms: self.now_ms().saturating_add(AGAIN_MS),
                tries: superseded.tries + 1,
                ..superseded
            });
        }
    }

    /// Whether a Complete under way may carry what a part's register does not name any more: while the
    /// upload is open. Where that cannot be told, too.
    pub(super) async fn may_be_carried(&self, key: &RegisterKey) -> bool {
        let Some(part) = key.part else { return false };
        let object = RegisterKey::object(key.bucket, key.key.clone());
        match self.registers.read(&object).await {
            Ok(found) => found.is_some_and(|found| is_open(&found, part.upload)),
            // No Complete comes to an end in a bucket that is gone; a deletion under way may be undone.
            Err(Failure::Sealed) => !self.is_gone_for_ever(&object),
            Err(_) => true,
        }
    }

    /// Releases one data id, and for a page first what it lists. `false` when it must be tried again.
    pub(super) async fn release_data_id(&self, key: &RegisterKey, data: DataRef, is_page: bool) -> bool {
        if key.part.is_some() && self.is_carried(key, data).await {
            return true;
        }
        if self.pins.is_held(data.id) || !self.is_unnamed(key, data).await {
            return false;
        }
        if is_page {
            let Ok(listed) = self.listed_on(key, data).await else { return false };
            for part in listed {
                if self.pins.is_held(part.id) || !self.is_unnamed(key, part).await {
                    return false;
                }
                if !self.delete_data(key, part).await {
                    return false;
                }
            }
        }
        self.delete_data(key, data).await
    }

    /// Whether a Complete made a replaced part the object's: then it goes when the object does.
    async fn is_carried(&self, key: &RegisterKey, data: DataRef) -> bool {
        let object = RegisterKey::object(key.bucket, key.key.clone());
        matches!(self.reference(&object, data.id).await, Ok(Some(_)))
    }

    /// Whether no committed value names it any more. A sealed bucket's registers cannot be read: only
    /// a final seal says that none of them ever names anything again. One of a deletion under way may
    /// be taken back.
    async fn is_unnamed(&self, key: &RegisterKey, data: DataRef) -> bool {
        match self.reference(key, data.id).await {
            Ok(None) => true,
            Err(RefsError::Register(Failure::Sealed)) => self.is_gone_for_ever(key),
            Ok(Some(_)) => {
                tracing::error!(?key, data = %data.id, "data reported as superseded is still named, and stays");
                false
            }
            Err(_) => false,
        }
    }

    /// Removes every shard of data; `false` when some volume did not answer.
    pub(super) async fn delete_data(&self, key: &RegisterKey, data: DataRef) -> bool {
        let set = self.cluster.set_of(key);
        let volumes = set.reach.len();
        if usize::from(data.data_shards) + usize::from(data.parity_shards) != volumes {
            return true;
        }
        let deletes = (0..data.data_shards + data.parity_shards).map(|index| {
            let reach = &set.reach[placement::home(data.id, index, volumes)];
            let shard = ShardId { data: data.id, index };
            ask(reach.peer.delete_shard(reach.volume, shard, data.home), PATIENCE)
        });
        let all = join_all(deletes).await.into_iter().all(|deleted| deleted.is_ok());
        if all {
            self.release.released_count.fetch_add(1, Ordering::Relaxed);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sherd_core::id::{BucketId, ObjectKey};

    fn key(name: &str) -> RegisterKey {
        RegisterKey::object(BucketId([1; 16]), ObjectKey::new(name.to_owned()).expect("a key"))
    }

    #[test]
    fn nothing_is_released_before_its_grace_is_over() {
        let releases = Releases::default();
        releases.grace_ms.store(100, Ordering::Relaxed);
        releases.add(key("a"), Vec::new(), Vec::new(), 1_000);
        assert!(releases.due(1_099).is_empty());
        assert_eq!(releases.due(1_100).len(), 1);
        assert!(releases.due(1_100).is_empty());
    }

    #[test]
    fn one_that_is_tried_again_holds_up_nobody() {
        let releases = Releases::default();
        let again =
            Superseded { key: key("again"), data: Vec::new(), pages: Vec::new(), due_ms: 9_000, tries: 1 };
        releases.push(again.clone());
        releases.add(key("b"), Vec::new(), Vec::new(), 0);
        let due = releases.due(10);
        assert_eq!(due.len(), 1);
        assert_eq!(due[0].key, key("b"));
        releases.push(Superseded { tries: TRIES_MAX + 1, ..again });
        assert_eq!(releases.status().dropped_count, 1);
        assert_eq!(releases.status().len, 1);
    }
}
