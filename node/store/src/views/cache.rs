//! Views that a node remembers, so that not every request reads registers.
//!
//! A view is as old as the beginning of its read, by this node's monotonic clock. A read that began before a
//! `forget` of its view fills nothing: each part of the names has a number that `forget` raises under the
//! lock under which a read fills. Requests take none of these locks. Where all views are forgotten, one
//! number is raised that each view has from the beginning of its read: what was read before is never taken,
//! and is kept to compare the next read with.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::ViewSource;
use super::limits::{REFRESH_AFTER, REFRESHES_MAX, VIEW_PARTS, VIEW_PERIOD};

/// The end of a read of a view that several requests wait for.
pub(super) type SharedLookup<S> = Shared<LookupEnd<S>>;
type LookupEnd<S> = BoxFuture<'static, Result<<S as ViewSource>::View, <S as ViewSource>::Error>>;

/// Views of one kind by name, each until its period after its read began.
#[derive(Debug)]
pub(crate) struct ViewCache<S: ViewSource> {
    views: Cache<S::Name, Arc<CachedView<S::View>>, ViewWeight<S>>,
    /// How often a view of each part of the names was forgotten.
    forgotten: [Mutex<u64>; VIEW_PARTS],
    /// How often all views were forgotten.
    all_forgotten: AtomicU64,
    /// Reads under way that requests wait for, or refresh a view.
    pub(crate) lookups: Mutex<HashMap<S::Name, LookupUnderWay<S>>>,
    /// Places of views that are refreshed at one time.
    pub(super) refreshes: Arc<Semaphore>,
}

/// A view as it was read.
#[derive(Debug)]
struct CachedView<V> {
    view: V,
    start: LookupStart,
    /// Whether a refresh of it was begun.
    is_refreshed: AtomicBool,
}

/// A read of a view, as it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LookupStart {
    began: Instant,
    /// Times that views of its part of the names had been forgotten.
    forgotten: u64,
    /// Times that all views had been forgotten.
    all_forgotten: u64,
}

/// A read under way.
#[derive(Debug)]
pub(crate) struct LookupUnderWay<S: ViewSource> {
    pub(crate) start: LookupStart,
    /// There while a request waits for it.
    pub(crate) outcome: WeakShared<LookupEnd<S>>,
}

/// The bytes that views take.
#[derive(Debug)]
struct ViewWeight<S>(PhantomData<fn() -> S>);

impl<S> Clone for ViewWeight<S> {
    fn clone(&self) -> Self {
        Self(PhantomData)
    }
}

impl<S: ViewSource> Weighter<S::Name, Arc<CachedView<S::View>>> for ViewWeight<S> {
    fn weight(&self, _name: &S::Name, cached: &Arc<CachedView<S::View>>) -> u64 {
        S::weight(&cached.view)
    }
}

impl LookupStart {
    /// Whether a request that begins now may take the outcome of this read: what it finds is not older than a
    /// fresh view, and the view was not forgotten since.
    pub(super) fn may_be_joined_by(self, now: Self) -> bool {
        (self.forgotten, self.all_forgotten) == (now.forgotten, now.all_forgotten)
            && now.began.duration_since(self.began) < REFRESH_AFTER
    }

    /// From when on what this read finds is too old to be taken.
    pub(crate) fn ends_at(self) -> Instant {
        self.began + VIEW_PERIOD
    }
}

impl<S: ViewSource> ViewCache<S> {
    /// Remembers views that count for these bytes together, and for `view_bytes` each at least; those that
    /// were asked for longest ago go first.
    pub(crate) fn with_bytes(bytes: u64, view_bytes: u64) -> Self {
        let views = usize::try_from(bytes / view_bytes).unwrap_or(usize::MAX);
        let options = OptionsBuilder::new()
            .shards(VIEW_PARTS.min(views))
            .estimated_items_capacity(views)
            .weight_capacity(bytes)
            .build()
            .expect("both capacities are given");
        let (hasher, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        Self {
            views: Cache::with_options(options, ViewWeight(PhantomData), hasher, lifecycle),
            forgotten: std::array::from_fn(|_| Mutex::default()),
            all_forgotten: AtomicU64::new(0),
            lookups: Mutex::default(),
            refreshes: Arc::new(Semaphore::new(REFRESHES_MAX)),
        }
    }

    /// A view, if it is young enough, and whether its refresh is to begin now. True for one caller.
    pub(super) fn get(&self, name: &S::Name) -> Option<(S::View, bool)> {
        let cached = self.views.get(name)?;
        let age = cached.start.began.elapsed();
        if age >= S::period(&cached.view) || cached.start.all_forgotten != self.all_forgotten() {
            return None;
        }
        let is_due = age >= REFRESH_AFTER && !cached.is_refreshed.swap(true, Ordering::Relaxed);
        Some((cached.view.clone(), is_due))
    }

    /// The last view of a name, however old, also where all were forgotten since: what it was parsed from may
    /// be the same still.
    pub(crate) fn last(&self, name: &S::Name) -> Option<S::View> {
        self.views.peek(name).map(|cached| cached.view.clone())
    }

    /// Lets a later request begin the refresh of a view, as there was no room for this one.
    pub(super) fn refresh_later(&self, name: &S::Name) {
        if let Some(cached) = self.views.peek(name) {
            cached.is_refreshed.store(false, Ordering::Relaxed);
        }
    }

    /// To be called before a view is read.
    pub(crate) fn start(&self, name: &S::Name) -> LookupStart {
        let all_forgotten = self.all_forgotten();
        LookupStart { began: Instant::now(), forgotten: *self.part(name).lock(), all_forgotten }
    }

    /// Whether a view was neither forgotten since this read of it began, nor is too old to be taken.
    pub(crate) fn is_valid(&self, name: &S::Name, start: LookupStart) -> bool {
        *self.part(name).lock() == start.forgotten
            && start.all_forgotten == self.all_forgotten()
            && Instant::now() < start.ends_at()
    }

    /// Remembers what a read found, unless the view was forgotten since it began, or a read that began later
    /// has filled it: views do not go back.
    pub(crate) fn fill(&self, start: LookupStart, name: &S::Name, view: S::View) {
        let part = self.part(name).lock();
        let is_latest = self.views.peek(name).is_none_or(|known| known.start.began <= start.began);
        // Where all are forgotten behind this look, the view is filled and never taken.
        if *part == start.forgotten && start.all_forgotten == self.all_forgotten() && is_latest {
            let is_refreshed = AtomicBool::new(false);
            self.views.insert(name.clone(), Arc::new(CachedView { view, start, is_refreshed }));
        }
    }

    /// Drops what is known of a name, and what reads under way will find.
    pub(crate) fn forget(&self, name: &S::Name) {
        let mut part = self.part(name).lock();
        *part += 1;
        self.views.remove(name);
    }

    /// Marks what is known of all names as too old, and what reads under way will find.
    pub(crate) fn forget_all(&self) {
        self.all_forgotten.fetch_add(1, Ordering::SeqCst);
    }

    fn all_forgotten(&self) -> u64 {
        self.all_forgotten.load(Ordering::SeqCst)
    }

    fn part(&self, name: &S::Name) -> &Mutex<u64> {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let part = hasher.finish() % self.forgotten.len() as u64;
        &self.forgotten[usize::try_from(part).expect("below the number of parts")]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::register::Failure;

    /// Views that are a name and their bytes.
    #[derive(Debug, Clone)]
    struct Sized;

    type View = (String, u64);

    impl ViewSource for Sized {
        type Name = String;
        type View = View;
        type Error = Failure;

        fn weight(view: &View) -> u64 {
            VIEW_BYTES + view.1
        }

        fn period((name, _): &View) -> Duration {
            if name == "short" { REFRESH_AFTER } else { VIEW_PERIOD }
        }

        fn views(&self) -> &Arc<ViewCache<Self>> {
            unreachable!("the cache is tested alone")
        }

        fn tasks(&self) -> &TaskTracker {
            unreachable!("the cache is tested alone")
        }

        async fn read_view(&self, _: &String, _: LookupStart) -> Result<View, Failure> {
            Err(Failure::Unavailable)
        }
    }

    const VIEW_BYTES: u64 = 1 << 10;

    fn cache() -> ViewCache<Sized> {
        ViewCache::with_bytes(16 << 20, VIEW_BYTES)
    }

    fn view(name: &str, bytes: u64) -> View {
        (name.to_owned(), bytes)
    }

    fn put(cache: &ViewCache<Sized>, view: &View) {
        cache.fill(cache.start(&view.0), &view.0, view.clone());
    }

    fn held(cache: &ViewCache<Sized>, view: &View) -> Option<View> {
        cache.get(&view.0).map(|(view, _)| view)
    }

    #[tokio::test(start_paused = true)]
    async fn a_view_is_remembered_for_two_seconds_from_the_beginning_of_its_read() {
        let (cache, bucket) = (cache(), view("bucket", 4));
        let start = cache.start(&bucket.0);
        tokio::time::advance(Duration::from_millis(1_500)).await;
        cache.fill(start, &bucket.0, bucket.clone());
        tokio::time::advance(Duration::from_millis(499)).await;
        assert_eq!(held(&cache, &bucket), Some(bucket.clone()));
        assert!(cache.is_valid(&bucket.0, start));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(held(&cache, &bucket), None);
        assert!(!cache.is_valid(&bucket.0, start));
        assert_eq!(cache.last(&bucket.0), Some(bucket.clone()), "to compare with what is read next");
        // A read that took longer than that fills nothing that is ever taken.
        let start = cache.start(&bucket.0);
        tokio::time::advance(VIEW_PERIOD).await;
        cache.fill(start, &bucket.0, bucket.clone());
        assert_eq!(held(&cache, &bucket), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_view_of_a_shorter_period_is_remembered_for_that() {
        let (cache, short) = (cache(), view("short", 4));
        put(&cache, &short);
        tokio::time::advance(Duration::from_millis(999)).await;
        assert_eq!(held(&cache, &short), Some(short.clone()));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(held(&cache, &short), None);
    }

    #[tokio::test(start_paused = true)]
    async fn one_request_begins_the_refresh_of_a_view_from_one_second_on() {
        let (cache, bucket) = (cache(), view("bucket", 4));
        let is_due = || cache.get(&bucket.0).expect("young enough").1;
        put(&cache, &bucket);
        tokio::time::advance(Duration::from_millis(999)).await;
        assert!(!is_due());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!([is_due(), is_due(), is_due()], [true, false, false]);
        cache.refresh_later(&bucket.0);
        assert_eq!([is_due(), is_due()], [true, false]);
        put(&cache, &bucket);
        assert!(!is_due());
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_that_began_before_a_forget_fills_nothing_and_is_not_joined() {
        let bucket = view("bucket", 4);
        let forgets: [fn(&ViewCache<Sized>); 2] =
            [|cache| cache.forget(&"bucket".to_owned()), ViewCache::forget_all];
        // Where all are forgotten, the last one is there to compare with.
        for (forget, last) in forgets.into_iter().zip([None, Some(bucket.clone())]) {
            let cache = cache();
            let start = cache.start(&bucket.0);
            assert!(start.may_be_joined_by(cache.start(&bucket.0)));
            put(&cache, &bucket);
            forget(&cache);
            assert_eq!((held(&cache, &bucket), cache.last(&bucket.0)), (None, last));
            assert!(!cache.is_valid(&bucket.0, start));
            cache.fill(start, &bucket.0, bucket.clone());
            assert_eq!(held(&cache, &bucket), None);
            let later = cache.start(&bucket.0);
            assert!(!start.may_be_joined_by(later));
            tokio::time::advance(REFRESH_AFTER).await;
            assert!(!later.may_be_joined_by(cache.start(&bucket.0)), "it may show what was a second ago");
            cache.fill(later, &bucket.0, bucket.clone());
            assert_eq!(held(&cache, &bucket), Some(bucket.clone()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_that_was_overtaken_by_a_later_one_fills_nothing() {
        let (cache, before) = (cache(), view("bucket", 4));
        let (slow, after) = (cache.start(&before.0), view("bucket", 8));
        tokio::time::advance(REFRESH_AFTER).await;
        put(&cache, &after);
        cache.fill(slow, &before.0, before.clone());
        assert_eq!(held(&cache, &after), Some(after));
    }

    #[tokio::test(start_paused = true)]
    async fn a_view_that_is_asked_for_stays_where_others_come_and_go() {
        let (bytes, count) = (100 * VIEW_BYTES, 10_000);
        let (cache, bucket) = (ViewCache::<Sized>::with_bytes(bytes, VIEW_BYTES), view("bucket", 0));
        put(&cache, &bucket);
        for n in 0..count {
            put(&cache, &view(&format!("other-{n}"), 0));
            assert_eq!(held(&cache, &bucket).as_ref(), Some(&bucket), "behind {n} others");
        }
        let others = (0..count).filter(|n| held(&cache, &view(&format!("other-{n}"), 0)).is_some());
        assert!(others.count() <= 100);
    }

    #[tokio::test(start_paused = true)]
    async fn the_bytes_of_views_count() {
        let cache = cache();
        let large = |n: usize| view(&format!("bucket-{n}"), 40 << 10);
        for n in 0..5_000 {
            put(&cache, &large(n));
            assert!(held(&cache, &large(n)).is_some(), "each is remembered at first");
        }
        let kept = (0..5_000).filter(|n| held(&cache, &large(*n)).is_some()).count() as u64;
        assert!(kept > 0 && kept * (40 << 10) <= 16 << 20, "{kept} views");
    }
}
