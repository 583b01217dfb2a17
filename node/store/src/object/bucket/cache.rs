//! Views of buckets that a node remembers, so that not every request reads the bucket's register.

use quick_cache::sync::Cache;
use tokio::time::Instant;

use sherd_core::id::ObjectKey;

use crate::object::limits::{BUCKET_VIEW_PERIOD, BUCKET_VIEWS_MAX};
use crate::object::view::BucketView;

/// Views of buckets by name, each until [`BUCKET_VIEW_PERIOD`] after its register was read.
#[derive(Debug)]
pub(in crate::object) struct BucketCache {
    views: Cache<ObjectKey, (BucketView, Instant)>,
}

impl BucketCache {
    fn with_capacity(buckets: usize) -> Self {
        Self { views: Cache::new(buckets) }
    }

    pub(super) fn get(&self, name: &ObjectKey) -> Option<BucketView> {
        self.views.get(name).filter(|(_, until)| *until > Instant::now()).map(|(view, _)| view)
    }

    pub(super) fn put(&self, view: BucketView) {
        self.views.insert(view.name.clone(), (view, Instant::now() + BUCKET_VIEW_PERIOD));
    }

    pub(super) fn forget(&self, name: &ObjectKey) {
        self.views.remove(name);
    }
}

impl Default for BucketCache {
    fn default() -> Self {
        Self::with_capacity(BUCKET_VIEWS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use sherd_core::id::BucketId;
    use sherd_core::record::{Bucket, BucketPhase, Entries};

    use super::*;

    fn view(name: &str) -> BucketView {
        let mut entries = Entries::default();
        entries.set(7, Bytes::from_static(b"kept"));
        let bucket = Bucket {
            id: BucketId([1; 16]),
            created_ms: 1,
            location: String::new(),
            phase: BucketPhase::Active,
            tags: Vec::new(),
            entries,
        };
        BucketView::new(ObjectKey::new(name.to_owned()).expect("a name"), &bucket)
    }

    #[tokio::test(start_paused = true)]
    async fn a_view_is_remembered_for_two_seconds() {
        let cache = BucketCache::default();
        let bucket = view("bucket");
        cache.put(bucket.clone());
        tokio::time::advance(Duration::from_millis(1_999)).await;
        assert_eq!(cache.get(&bucket.name), Some(bucket.clone()));
        assert!(bucket.config.entries().get(7).is_some());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(cache.get(&bucket.name), None);
        cache.put(bucket.clone());
        cache.forget(&bucket.name);
        assert_eq!(cache.get(&bucket.name), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_that_is_asked_for_stays_where_others_come_and_go() {
        let cache = BucketCache::with_capacity(100);
        let bucket = view("bucket");
        cache.put(bucket.clone());
        for n in 0..10_000 {
            cache.put(view(&format!("other-{n}")));
            assert_eq!(cache.get(&bucket.name).as_ref(), Some(&bucket), "behind {n} others");
        }
        let others = (0..10_000).filter(|n| cache.get(&view(&format!("other-{n}")).name).is_some());
        assert!(others.count() <= 100);
    }
}
