//! Reports from the data path: what it found broken, and what it left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use sherd_core::heal::HealEntry;
use sherd_core::id::RegisterKey;
use sherd_core::record::DataRef;

use crate::cluster::limits::{GIVEN_UP_MAX, REPORTS_MAX};
use crate::peer::Pending;

/// Takes reports of damage from the data path. Never blocks: a report that finds the queue full is
/// dropped and counted. The volumes are then compared with each other again, and the scrubber finds rotten
/// shards; data that a value replaced is named by nothing any more, and goes with the sweep of orphans.
#[derive(Debug, Clone)]
pub struct Damage {
    reports: mpsc::Sender<(Instant, Report)>,
    given_up: mpsc::Sender<GivenUpData>,
    counts: Arc<ReportCounts>,
}

/// How many reports wait, and were dropped since the start.
#[derive(Debug, Default)]
pub struct ReportCounts {
    waiting_heals: AtomicUsize,
    /// When the oldest of them was made, as long as one is being made durable.
    oldest_in_hand: Mutex<Option<Instant>>,
    /// Notified of a report that finds none waiting, and of damage that is not reported.
    begins: Notify,
    /// Reports of something missing or rotten since the start, and those of them that are in the logs.
    made_heals: AtomicU64,
    logged_heals: AtomicU64,
    /// Reports that reach no log: queue full, task panicked, or refused by every volume. Counted before they
    /// are made, or before any report behind them is logged.
    lost_heals: AtomicU64,
    dropped_heals: AtomicU64,
    dropped_superseded: AtomicU64,
}

impl ReportCounts {
    /// Number of reports of missing or rotten data that are not queued yet, or are being made durable.
    pub fn waiting_heals_count(&self) -> usize {
        self.waiting_heals.load(Ordering::Relaxed)
    }

    /// When the oldest of [those](Self::waiting_heals_count) was made; `None` where none waits.
    pub fn oldest_waiting(&self) -> Option<Instant> {
        // Reports in no hand yet are taken at once.
        let is_waiting = self.waiting_heals_count() > 0;
        is_waiting.then(|| self.oldest_in_hand.lock().unwrap_or_else(Instant::now))
    }

    /// Waits for a report of something missing or rotten that finds none waiting, or for damage that could
    /// not be reported; one since the last call ends the wait at once. For one task. Cancel-safe.
    pub async fn damage_begins(&self) {
        self.begins.notified().await;
    }

    /// How many of something missing or rotten were made so far.
    pub(crate) fn made_heals_count(&self) -> u64 {
        self.made_heals.load(Ordering::Acquire)
    }

    /// How many of them are in no log and never will be: their damage has to be found again.
    pub(crate) fn lost_heals_count(&self) -> u64 {
        self.lost_heals.load(Ordering::Acquire)
    }

    /// Counts damage that was found, could not be reported, and is in no log.
    pub(crate) fn lost_one(&self) {
        self.lost_heals.fetch_add(1, Ordering::Release);
        self.made_heals.fetch_add(1, Ordering::Release);
        // From here on it is not known what the volumes lack, and no waiting report shows that.
        self.begins.notify_one();
    }

    /// Whether the `first` reports are in the logs, where they go in their order, but for `lost` ones. Not so
    /// once more than these were lost: later reports do not stand for them.
    pub(crate) fn are_logged(&self, first: u64, lost: u64) -> bool {
        // In this order: a lost one is counted before those behind it are logged.
        let logged = self.logged_heals.load(Ordering::Acquire);
        self.lost_heals_count() == lost && logged + lost >= first
    }

    /// Whether reports may come as fast as they do without being lost soon.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting_heals_count() < REPORTS_MAX / 2
    }

    /// Dropped ones of something missing or rotten.
    pub fn dropped_heals_count(&self) -> u64 {
        self.dropped_heals.load(Ordering::Relaxed)
    }

    /// Dropped ones of replaced data.
    pub fn dropped_superseded_count(&self) -> u64 {
        self.dropped_superseded.load(Ordering::Relaxed)
    }
}

/// Reports of damage in hand: they wait until this goes.
pub(crate) struct ReportsInHand<'a> {
    counts: &'a ReportCounts,
    count: usize,
    unlogged: usize,
}

impl Drop for ReportsInHand<'_> {
    fn drop(&mut self) {
        self.counts.lost_heals.fetch_add(self.unlogged as u64, Ordering::Release);
        *self.counts.oldest_in_hand.lock() = None;
        self.counts.waiting_heals.fetch_sub(self.count, Ordering::Relaxed);
    }
}

impl<'a> ReportsInHand<'a> {
    fn new(counts: &'a ReportCounts, count: usize) -> Self {
        Self { counts, count, unlogged: count }
    }

    /// `logged` of them are in the logs; the others are lost. So are all where the task that had them is
    /// given up.
    pub(crate) fn are_logged(mut self, logged: usize) {
        let lost = self.count.saturating_sub(logged);
        self.counts.lost_heals.fetch_add(lost as u64, Ordering::Release);
        self.counts.logged_heals.fetch_add(logged as u64, Ordering::Release);
        self.unlogged = 0;
    }
}

/// The other end of [`Damage`]: what upkeep drains.
#[derive(Debug)]
pub struct Reports {
    /// With the time at which each was made.
    pub(crate) received: mpsc::Receiver<(Instant, Report)>,
    /// `None` once it was taken.
    given_up: Option<mpsc::Receiver<GivenUpData>>,
    counts: Arc<ReportCounts>,
}

impl Reports {
    /// Takes out the end that data comes from which writers gave up: the first time.
    pub(crate) fn take_given_up(&mut self) -> Option<mpsc::Receiver<GivenUpData>> {
        self.given_up.take()
    }

    /// `count` reports of damage were taken out, the first of them made at `oldest`, and are about to be made
    /// durable.
    pub(crate) fn in_hand(&self, count: usize, oldest: Option<Instant>) -> ReportsInHand<'_> {
        *self.counts.oldest_in_hand.lock() = oldest;
        ReportsInHand::new(&self.counts, count)
    }
}

/// Data that its writer gave up before any accept named it, and the removals of its shards that are under
/// way.
#[derive(Debug)]
pub(crate) struct GivenUpData {
    /// The register that was to name it.
    pub(crate) key: RegisterKey,
    pub(crate) data: DataRef,
    /// A removal for each volume that was sent a shard.
    pub(crate) removals: Vec<Pending<()>>,
    /// Whether a shard may come to its volume behind its removal.
    pub(crate) may_come_late: bool,
}

/// Something that a request found broken, or left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// Shards of this data are missing or rotten, or rows of this key behind (no data).
    Heal(HealEntry),
    /// Data that a committed value replaced: it goes after its grace and the last reader's pin.
    Superseded {
        /// The register that named it.
        key: RegisterKey,
        /// The data that it named.
        data: Vec<DataRef>,
        /// Manifest pages: what those of `data` among them list goes with them.
        pages: Vec<DataRef>,
    },
}

impl Damage {
    /// Both ends.
    pub fn channel() -> (Self, Reports) {
        let (to_received, received) = mpsc::channel(REPORTS_MAX);
        let (to_given_up, given_up) = mpsc::channel(GIVEN_UP_MAX);
        let counts = Arc::default();
        let damage = Self { reports: to_received, given_up: to_given_up, counts: Arc::clone(&counts) };
        (damage, Reports { received, given_up: Some(given_up), counts })
    }

    /// Reports that rows of a key are behind or rotten on some volume.
    pub fn row(&self, key: &RegisterKey) {
        self.heal(HealEntry { key: key.clone(), data: None, since_ms: 0 });
    }

    /// Reports that shards of data are missing or rotten.
    pub fn data(&self, key: &RegisterKey, data: DataRef) {
        self.heal(HealEntry { key: key.clone(), data: Some(data.into()), since_ms: 0 });
    }

    /// Reports an entry that is in the volumes' logs already.
    pub fn heal(&self, entry: HealEntry) {
        let place = self.reports.try_reserve();
        if place.is_err() {
            self.counts.dropped_heals.fetch_add(1, Ordering::Relaxed);
            self.counts.lost_heals.fetch_add(1, Ordering::Release);
        }
        self.counts.made_heals.fetch_add(1, Ordering::Release);
        if let Ok(place) = place {
            let others_count = self.counts.waiting_heals.fetch_add(1, Ordering::Relaxed);
            place.send((Instant::now(), Report::Heal(entry)));
            if others_count == 0 {
                self.counts.begins.notify_one();
            }
        }
    }

    /// Reports data that a committed value of `key` no longer names; `pages` says which of it may
    /// be manifest pages.
    pub fn superseded(&self, key: &RegisterKey, data: Vec<DataRef>, pages: Vec<DataRef>) {
        let report = Report::Superseded { key: key.clone(), data, pages };
        let is_taken = self.reports.try_send((Instant::now(), report)).is_ok();
        self.counts.dropped_superseded.fetch_add(u64::from(!is_taken), Ordering::Relaxed);
    }

    /// Has the removals of data that was given up looked after.
    pub(crate) fn given_up(&self, given_up: GivenUpData) {
        let is_taken = self.given_up.try_send(given_up).is_ok();
        self.counts.dropped_superseded.fetch_add(u64::from(!is_taken), Ordering::Relaxed);
    }

    /// The counts of reports: waiting, logged, lost, dropped.
    pub const fn counts(&self) -> &Arc<ReportCounts> {
        &self.counts
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use sherd_core::id::{BucketId, ObjectKey};

    use super::*;

    #[test]
    fn reports_that_find_the_queue_full_are_counted_by_kind() {
        let (damage, mut reports) = Damage::channel();
        let key = RegisterKey::object(BucketId([1; 16]), ObjectKey::new("a").expect("a key"));
        (0..REPORTS_MAX).for_each(|_| damage.row(&key));
        let counts = |damage: &Damage| {
            let counts = damage.counts();
            (counts.dropped_heals_count(), counts.dropped_superseded_count())
        };
        assert_eq!(counts(&damage), (0, 0));
        damage.superseded(&key, Vec::new(), Vec::new());
        damage.row(&key);
        damage.clone().row(&key);
        assert_eq!(counts(&damage), (2, 1));
        assert_eq!(damage.counts().waiting_heals_count(), REPORTS_MAX);
        reports.received.try_recv().expect("a report");
        damage.superseded(&key, Vec::new(), Vec::new());
        assert_eq!(counts(&damage), (2, 1), "it found its place");
    }

    #[test]
    fn a_report_that_finds_none_waiting_wakes_and_further_ones_do_not_but_a_lost_one_does() {
        let (damage, reports) = Damage::channel();
        let key = RegisterKey::object(BucketId([1; 16]), ObjectKey::new("a").expect("a key"));
        let is_woken = || damage.counts().damage_begins().now_or_never().is_some();
        assert!(!is_woken());
        damage.row(&key);
        assert!(is_woken(), "it may be reported before anything waits for it");
        damage.row(&key);
        assert!(!is_woken());
        damage.counts().lost_one();
        assert!(is_woken(), "no report waits that shows it");
        drop(reports.in_hand(2, None));
        damage.row(&key);
        assert!(is_woken());
    }

    #[tokio::test(start_paused = true)]
    async fn a_report_that_is_made_durable_waits_since_it_was_made() {
        let (damage, mut reports) = Damage::channel();
        let key = RegisterKey::object(BucketId([1; 16]), ObjectKey::new("a").expect("a key"));
        assert_eq!(damage.counts().oldest_waiting(), None);
        damage.row(&key);
        assert_eq!(damage.counts().oldest_waiting(), Some(Instant::now()), "it is taken at once");
        let (made, _) = reports.received.try_recv().expect("a report");
        tokio::time::advance(std::time::Duration::from_secs(7)).await;
        damage.row(&key);
        let in_hand = reports.in_hand(1, Some(made));
        assert_eq!(damage.counts().oldest_waiting(), Some(made));
        in_hand.are_logged(1);
        assert_eq!(damage.counts().oldest_waiting(), Some(Instant::now()), "the other one is young");
        reports.received.try_recv().expect("a report");
        drop(reports.in_hand(1, None));
        assert_eq!(damage.counts().oldest_waiting(), None);
    }

    /// As at an orderly stop: a report that comes when the receiver is gone is in no log.
    #[test]
    fn reports_that_nobody_takes_are_made_and_never_logged() {
        let (damage, reports) = Damage::channel();
        let key = RegisterKey::object(BucketId([1; 16]), ObjectKey::new("a").expect("a key"));
        assert!(damage.counts().are_logged(damage.counts().made_heals_count(), 0));
        drop(reports);
        damage.row(&key);
        assert!(!damage.counts().are_logged(damage.counts().made_heals_count(), 0));
        assert_eq!(damage.counts().waiting_heals_count(), 0);
    }

    #[test]
    fn later_reports_do_not_stand_for_a_lost_one() {
        let (damage, mut reports) = Damage::channel();
        let counts = Arc::clone(damage.counts());
        let key = RegisterKey::object(BucketId([1; 16]), ObjectKey::new("a").expect("a key"));
        (0..REPORTS_MAX).for_each(|_| damage.row(&key));
        assert!(!counts.has_room());
        damage.row(&key);
        let made = counts.made_heals_count();
        let mut take = |logged: usize| {
            let mut taken = 0;
            while reports.received.try_recv().is_ok() {
                taken += 1;
            }
            ReportsInHand::new(&counts, taken).are_logged(taken.min(logged));
        };
        take(usize::MAX);
        damage.row(&key);
        take(usize::MAX);
        assert!(!counts.are_logged(made, 0), "as many are logged as were made until then, but not these");
        assert!(counts.are_logged(made, 1), "whoever looked again since then knows of the lost one");

        damage.row(&key);
        take(0);
        assert_eq!(counts.lost_heals_count(), 2, "no volume took it");
        damage.row(&key);
        drop(ReportsInHand::new(&counts, 1));
        assert_eq!(counts.lost_heals_count(), 3, "whoever had it in hand has failed");
        assert_eq!(counts.waiting_heals_count(), 0);
    }
}
