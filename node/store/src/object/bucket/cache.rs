//! Views of buckets that a node remembers, so that not every request reads the bucket's register.
//!
//! A view is as old as the beginning of its register's read, by this node's monotonic clock. A read that
//! began before a `forget` of its bucket fills nothing: each part of the names has a number that `forget`
//! raises under the lock under which a read fills. Requests take none of these locks.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use sherd_core::id::ObjectKey;

use crate::object::limits::{
    BUCKET_REFRESH_AFTER, BUCKET_REFRESHES_MAX, BUCKET_VIEW_BYTES, BUCKET_VIEW_PARTS, BUCKET_VIEW_PERIOD,
    BUCKET_VIEWS_BYTES_MAX,
};
use crate::object::view::{BucketView, LookupError};

/// The end of a read of a bucket's register that several requests wait for.
pub(super) type SharedLookup = Shared<LookupEnd>;
type LookupEnd = BoxFuture<'static, Result<BucketView, LookupError>>;

/// Views of buckets by name, each until [`BUCKET_VIEW_PERIOD`] after its register's read began.
#[derive(Debug)]
pub(in crate::object) struct BucketCache {
    views: Cache<ObjectKey, Arc<CachedView>, ViewWeight>,
    /// How often a bucket of each part of the names was forgotten.
    forgotten: [Mutex<u64>; BUCKET_VIEW_PARTS],
    /// Reads under way that requests wait for, or refresh a view.
    pub(super) lookups: Mutex<HashMap<ObjectKey, LookupUnderWay>>,
    /// Places of views that are refreshed at one time.
    pub(super) refreshes: Arc<Semaphore>,
}

/// A view as it was read.
#[derive(Debug)]
struct CachedView {
    view: BucketView,
    began: Instant,
    /// Whether a refresh of it was begun.
    is_refreshed: AtomicBool,
}

/// A read of a bucket's register, as it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LookupStart {
    began: Instant,
    /// Times that buckets of its part of the names had been forgotten.
    forgotten: u64,
}

/// A read under way.
#[derive(Debug)]
pub(super) struct LookupUnderWay {
    pub(super) start: LookupStart,
    /// There while a request waits for it.
    pub(super) outcome: WeakShared<LookupEnd>,
}

/// The bytes that views take: of their configurations twice what is stored, as their parsed form may need.
#[derive(Debug, Clone)]
struct ViewWeight;

impl Weighter<ObjectKey, Arc<CachedView>> for ViewWeight {
    fn weight(&self, _name: &ObjectKey, cached: &Arc<CachedView>) -> u64 {
        BUCKET_VIEW_BYTES + 2 * cached.view.config.stored_bytes() as u64
    }
}

impl LookupStart {
    /// Whether a request that begins now may take the outcome of this read: what it finds is not older than a
    /// fresh view, and the bucket was not forgotten since.
    pub(super) fn may_be_joined_by(self, now: Self) -> bool {
        self.forgotten == now.forgotten && now.began.duration_since(self.began) < BUCKET_REFRESH_AFTER
    }
}

impl BucketCache {
    fn with_bytes(bytes: u64) -> Self {
        let views = usize::try_from(bytes / BUCKET_VIEW_BYTES).unwrap_or(usize::MAX);
        let options = OptionsBuilder::new()
            .shards(BUCKET_VIEW_PARTS.min(views))
            .estimated_items_capacity(views)
            .weight_capacity(bytes)
            .build()
            .expect("both capacities are given");
        let (hasher, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        Self {
            views: Cache::with_options(options, ViewWeight, hasher, lifecycle),
            forgotten: std::array::from_fn(|_| Mutex::default()),
            lookups: Mutex::default(),
            refreshes: Arc::new(Semaphore::new(BUCKET_REFRESHES_MAX)),
        }
    }

    /// The view of a bucket, if it is young enough, and whether its refresh is to begin now. True for one
    /// caller.
    pub(super) fn get(&self, name: &ObjectKey) -> Option<(BucketView, bool)> {
        let cached = self.views.get(name)?;
        let age = cached.began.elapsed();
        if age >= BUCKET_VIEW_PERIOD {
            return None;
        }
        let is_due = age >= BUCKET_REFRESH_AFTER && !cached.is_refreshed.swap(true, Ordering::Relaxed);
        Some((cached.view.clone(), is_due))
    }

    /// The last view of a bucket, however old: what it was parsed from may be the same still.
    pub(super) fn last(&self, name: &ObjectKey) -> Option<BucketView> {
        self.views.peek(name).map(|cached| cached.view.clone())
    }

    /// Lets a later request begin the refresh of a view, as there was no room for this one.
    pub(super) fn refresh_later(&self, name: &ObjectKey) {
        if let Some(cached) = self.views.peek(name) {
            cached.is_refreshed.store(false, Ordering::Relaxed);
        }
    }

    /// To be called before the bucket's register is read.
    pub(super) fn start(&self, name: &ObjectKey) -> LookupStart {
        LookupStart { began: Instant::now(), forgotten: *self.part(name).lock() }
    }

    /// Remembers what a read found, unless the bucket was forgotten since it began, or a read that began
    /// later has filled its view: views do not go back.
    pub(super) fn fill(&self, start: LookupStart, view: BucketView) {
        let part = self.part(&view.name).lock();
        let is_latest = self.views.peek(&view.name).is_none_or(|known| known.began <= start.began);
        if *part == start.forgotten && is_latest {
            let LookupStart { began, .. } = start;
            let is_refreshed = AtomicBool::new(false);
            self.views.insert(view.name.clone(), Arc::new(CachedView { view, began, is_refreshed }));
        }
    }

    /// Drops what is known of a bucket, and what reads under way will find.
    pub(in crate::object) fn forget(&self, name: &ObjectKey) {
        let mut part = self.part(name).lock();
        *part += 1;
        self.views.remove(name);
    }

    fn part(&self, name: &ObjectKey) -> &Mutex<u64> {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let part = hasher.finish() % self.forgotten.len() as u64;
        &self.forgotten[usize::try_from(part).expect("below the number of parts")]
    }
}

impl Default for BucketCache {
    fn default() -> Self {
        Self::with_bytes(BUCKET_VIEWS_BYTES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use sherd_core::config::{BucketConfig, ConfigEntry};
    use sherd_core::id::BucketId;
    use sherd_core::record::{Bucket, BucketPhase, Entries};

    use super::*;

    fn view(name: &str, config_bytes: usize) -> BucketView {
        let mut entries = Entries::default();
        entries.set(1, ConfigEntry::Inline(Bytes::from(vec![0xff; config_bytes])).encode());
        let bucket = Bucket {
            id: BucketId([1; 16]),
            created_ms: 1,
            location: String::new(),
            phase: BucketPhase::Active,
            tags: Vec::new(),
            entries,
        };
        let config = Arc::new(BucketConfig::of(&bucket.entries, None, &[]));
        BucketView::new(ObjectKey::new(name.to_owned()).expect("a name"), &bucket, config)
    }

    fn put(cache: &BucketCache, view: &BucketView) {
        cache.fill(cache.start(&view.name), view.clone());
    }

    fn held(cache: &BucketCache, view: &BucketView) -> Option<BucketView> {
        cache.get(&view.name).map(|(view, _)| view)
    }

    #[tokio::test(start_paused = true)]
    async fn a_view_is_remembered_for_two_seconds_from_the_beginning_of_its_read() {
        let (cache, bucket) = (BucketCache::default(), view("bucket", 4));
        let start = cache.start(&bucket.name);
        tokio::time::advance(Duration::from_millis(1_500)).await;
        cache.fill(start, bucket.clone());
        tokio::time::advance(Duration::from_millis(499)).await;
        assert_eq!(held(&cache, &bucket), Some(bucket.clone()));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(held(&cache, &bucket), None);
        assert_eq!(cache.last(&bucket.name), Some(bucket.clone()), "to compare with what is read next");
        // A read that took longer than that fills nothing that is ever taken.
        let start = cache.start(&bucket.name);
        tokio::time::advance(BUCKET_VIEW_PERIOD).await;
        cache.fill(start, bucket.clone());
        assert_eq!(held(&cache, &bucket), None);
    }

    #[tokio::test(start_paused = true)]
    async fn one_request_begins_the_refresh_of_a_view_from_one_second_on() {
        let (cache, bucket) = (BucketCache::default(), view("bucket", 4));
        let is_due = || cache.get(&bucket.name).expect("young enough").1;
        put(&cache, &bucket);
        tokio::time::advance(Duration::from_millis(999)).await;
        assert!(!is_due());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!([is_due(), is_due(), is_due()], [true, false, false]);
        cache.refresh_later(&bucket.name);
        assert_eq!([is_due(), is_due()], [true, false]);
        put(&cache, &bucket);
        assert!(!is_due());
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_that_began_before_a_forget_fills_nothing_and_is_not_joined() {
        let (cache, bucket) = (BucketCache::default(), view("bucket", 4));
        let start = cache.start(&bucket.name);
        assert!(start.may_be_joined_by(cache.start(&bucket.name)));
        put(&cache, &bucket);
        cache.forget(&bucket.name);
        assert_eq!((held(&cache, &bucket), cache.last(&bucket.name)), (None, None));
        cache.fill(start, bucket.clone());
        assert_eq!(held(&cache, &bucket), None);
        let later = cache.start(&bucket.name);
        assert!(!start.may_be_joined_by(later));
        tokio::time::advance(BUCKET_REFRESH_AFTER).await;
        assert!(!later.may_be_joined_by(cache.start(&bucket.name)), "it may show what was a second ago");
        cache.fill(later, bucket.clone());
        assert_eq!(held(&cache, &bucket), Some(bucket));
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_that_was_overtaken_by_a_later_one_fills_nothing() {
        let (cache, before) = (BucketCache::default(), view("bucket", 4));
        let (slow, after) = (cache.start(&before.name), view("bucket", 8));
        tokio::time::advance(BUCKET_REFRESH_AFTER).await;
        put(&cache, &after);
        cache.fill(slow, before);
        assert_eq!(held(&cache, &after), Some(after));
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_that_is_asked_for_stays_where_others_come_and_go() {
        let (bytes, count) = (100 * BUCKET_VIEW_BYTES, 10_000);
        let (cache, bucket) = (BucketCache::with_bytes(bytes), view("bucket", 0));
        put(&cache, &bucket);
        for n in 0..count {
            put(&cache, &view(&format!("other-{n}"), 0));
            assert_eq!(held(&cache, &bucket).as_ref(), Some(&bucket), "behind {n} others");
        }
        let others = (0..count).filter(|n| held(&cache, &view(&format!("other-{n}"), 0)).is_some());
        assert!(others.count() <= 100);
    }

    #[tokio::test(start_paused = true)]
    async fn the_bytes_of_configurations_count() {
        let cache = BucketCache::default();
        let large = |n: usize| view(&format!("bucket-{n}"), 20 << 10);
        for n in 0..5_000 {
            put(&cache, &large(n));
            assert!(held(&cache, &large(n)).is_some(), "each is remembered at first");
        }
        let kept = (0..5_000).filter(|n| held(&cache, &large(*n)).is_some()).count() as u64;
        assert!(kept > 0 && kept * (40 << 10) <= BUCKET_VIEWS_BYTES_MAX, "{kept} views");
    }
}
