//! The queue of most recent failures, shared: workers put damage in, heals take it out, metrics read it.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use sherd_core::heal::{HealEntry, HealId};
use sherd_core::id::VolumeId;

use super::entries::{Queue, Spare};
use crate::upkeep::limits::HEALS_MAX;

/// The state of the queue, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MrfStatus {
    /// Entries in memory.
    pub len: usize,
    /// When the oldest of them was first seen, in milliseconds since the Unix epoch.
    pub oldest_ms: Option<u64>,
    /// When this process found the oldest damage that is not healed.
    pub oldest_found: Option<Instant>,
    /// Entries healed since the start.
    pub healed_count: u64,
    /// Tries that failed since the start.
    pub failed_count: u64,
    /// Bytes of shards and rows written by heals since the start.
    pub healed_bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Mrf {
    queue: Mutex<Queue>,
    added: Notify,
    healed_count: AtomicU64,
    failed_count: AtomicU64,
    healed_bytes: AtomicU64,
}

impl Mrf {
    pub(crate) fn new() -> Self {
        Self {
            queue: Mutex::new(Queue::new(HEALS_MAX)),
            added: Notify::new(),
            healed_count: AtomicU64::new(0),
            failed_count: AtomicU64::new(0),
            healed_bytes: AtomicU64::new(0),
        }
    }

    #[cfg(test)]
    pub(crate) fn contains(&self, id: HealId) -> bool {
        self.queue.lock().contains(id)
    }

    /// Whether the entry is held and logged; then it is healed only after this report.
    pub(crate) fn found_again(&self, entry: &HealEntry, spare: Spare, found: Instant) -> bool {
        let is_logged = self.queue.lock().found_again(entry, spare, found);
        if is_logged {
            self.added.notify_one();
        }
        is_logged
    }

    pub(crate) fn is_logged(&self, id: HealId) -> bool {
        self.queue.lock().is_logged(id)
    }

    /// Takes an entry in that no log took: a kill forgets it.
    pub(crate) fn add_unlogged(&self, entry: HealEntry, spare: Spare, found: Instant) {
        if self.queue.lock().insert(entry, spare, found, false) {
            self.added.notify_one();
        }
    }

    /// Takes an entry in that a log took just now.
    pub(crate) fn add(&self, entry: HealEntry, spare: Spare, found: Instant) {
        if self.queue.lock().add(entry, spare, found) {
            self.added.notify_one();
        }
    }

    /// Takes an entry in that a page of a log shows.
    pub(crate) fn load(&self, entry: HealEntry, spare: Spare, found: Instant, now_ms: u64) {
        if self.queue.lock().load(entry, spare, found, now_ms) {
            self.added.notify_one();
        }
    }

    /// Up to `limit` entries that no log has.
    pub(crate) fn unlogged(&self, limit: usize) -> Vec<(HealEntry, Spare)> {
        self.queue.lock().unlogged(limit)
    }

    pub(crate) fn are_all_logged(&self) -> bool {
        self.queue.lock().are_all_logged()
    }

    pub(crate) fn take(&self, now_ms: u64) -> Option<HealEntry> {
        self.queue.lock().take(now_ms)
    }

    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        self.queue.lock().next_due_ms()
    }

    pub(crate) fn may_reload(&self) -> bool {
        self.queue.lock().may_reload()
    }

    /// A load of all logs begins: entries that they alone had are read again.
    pub(crate) fn begin_load(&self) {
        self.queue.lock().begin_load();
    }

    /// The load has come to its end.
    pub(crate) fn end_load(&self) {
        self.queue.lock().end_load();
    }

    /// Ends an entry that was handed out, as healed. `forget`, which does not block, removes it from the
    /// logs, unless it was reported again meanwhile. A concurrent report adds the entry again; its record
    /// follows the removal.
    pub(crate) fn healed(&self, id: HealId, now_ms: u64, forget: impl FnOnce()) {
        self.healed_count.fetch_add(1, Ordering::Relaxed);
        let mut queue = self.queue.lock();
        if queue.healed(id, now_ms) {
            forget();
        }
    }

    pub(crate) fn failed(&self, id: HealId, spare: Spare, full: Vec<VolumeId>, now_ms: u64, jitter: u8) {
        self.failed_count.fetch_add(1, Ordering::Relaxed);
        self.queue.lock().failed(id, spare, full, now_ms, jitter);
    }

    /// Tries entries again that wait for a volume which is not full any more.
    pub(crate) fn wake_for_room(&self, is_full: impl Fn(&VolumeId) -> bool) {
        if self.queue.lock().wake_for_room(is_full) {
            self.added.notify_one();
        }
    }

    pub(crate) fn wake_paused(&self) {
        self.queue.lock().wake_paused();
        self.added.notify_one();
    }

    pub(crate) fn wake_all(&self) {
        self.queue.lock().wake_all();
        self.added.notify_one();
    }

    pub(crate) fn wrote(&self, bytes: u64) {
        self.healed_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) async fn added(&self) {
        self.added.notified().await;
    }

    pub(crate) fn status(&self) -> MrfStatus {
        let queue = self.queue.lock();
        MrfStatus {
            len: queue.len(),
            oldest_ms: queue.oldest_ms(),
            oldest_found: queue.oldest_found(),
            healed_count: self.healed_count.load(Ordering::Relaxed),
            failed_count: self.failed_count.load(Ordering::Relaxed),
            healed_bytes: self.healed_bytes.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use sherd_core::id::{BucketId, ObjectKey, RegisterKey};

    use super::*;
    use crate::upkeep::limits::FORGOTTEN_MS;

    fn entry(name: &str, since_ms: u64) -> HealEntry {
        let key = ObjectKey::new(name.to_owned()).expect("a key");
        HealEntry { key: RegisterKey::object(BucketId([1; 16]), key), data: None, since_ms }
    }

    /// A report after the entry went is logged again: the removal must precede that record in every log.
    #[test]
    fn an_entry_is_found_gone_only_after_its_removal_was_sent_to_the_logs() {
        let mrf = Mrf::new();
        let id = entry("a", 1).id();
        mrf.add(entry("a", 1), Spare(1), Instant::now());
        assert!(mrf.take(0).is_some());
        assert!(mrf.found_again(&entry("a", 2), Spare(1), Instant::now()));
        mrf.healed(id, 0, || panic!("it was met again"));
        assert!(mrf.take(0).is_some());
        let mut is_held = false;
        mrf.healed(id, 0, || is_held = mrf.queue.is_locked());
        assert!(is_held, "a concurrent report waits until then");
        assert!(!mrf.found_again(&entry("a", 3), Spare(1), Instant::now()));

        mrf.add_unlogged(entry("b", 4), Spare(1), Instant::now());
        assert!(!mrf.found_again(&entry("b", 5), Spare(1), Instant::now()), "it is held, and in no log yet");
        mrf.add(entry("b", 5), Spare(1), Instant::now());
        mrf.add_unlogged(entry("b", 6), Spare(1), Instant::now());
        assert!(mrf.found_again(&entry("b", 7), Spare(1), Instant::now()));
    }

    /// A log lists an entry for up to a second after its removal was sent: an entry that counted as logged
    /// then would be in no log when its damage is found again.
    #[test]
    fn what_a_log_is_about_to_forget_does_not_count_as_logged() {
        let mrf = Mrf::new();
        mrf.add(entry("a", 1), Spare(1), Instant::now());
        assert!(mrf.take(0).is_some());
        mrf.healed(entry("a", 1).id(), 5_000, || {});
        mrf.load(entry("a", 1), Spare(1), Instant::now(), 6_000);
        assert!(!mrf.is_logged(entry("a", 1).id()) && !mrf.are_all_logged());
        assert!(!mrf.found_again(&entry("a", 2), Spare(1), Instant::now()), "it is put anew");
        mrf.add(entry("a", 2), Spare(1), Instant::now());
        mrf.load(entry("a", 2), Spare(1), Instant::now(), 6_000);
        assert!(mrf.found_again(&entry("a", 3), Spare(1), Instant::now()) && mrf.are_all_logged());

        assert!(mrf.take(0).is_some());
        mrf.healed(entry("a", 1).id(), 7_000, || {});
        mrf.load(entry("a", 4), Spare(1), Instant::now(), 7_000 + FORGOTTEN_MS);
        assert!(mrf.is_logged(entry("a", 1).id()), "by then the logs show what was put after that");
    }
}
