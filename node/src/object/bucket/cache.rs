//! Bucket ids by name, so that not every request reads the bucket's register.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use sherd_core::id::{BucketId, ObjectKey};

/// How long a bucket's id may be remembered. "No such bucket" never is.
const CACHE_TIME: Duration = Duration::from_secs(2);
/// Buckets that are remembered at one time.
const CACHE_MAX: usize = 10_000;

/// Bucket ids by name, each for a moment.
#[derive(Debug, Default)]
pub(in crate::object) struct BucketCache {
    ids: Mutex<HashMap<ObjectKey, (BucketId, Instant)>>,
}

impl BucketCache {
    pub(super) fn get(&self, name: &ObjectKey) -> Option<BucketId> {
        let ids = self.ids.lock();
        ids.get(name).filter(|(_, until)| *until > Instant::now()).map(|(id, _)| *id)
    }

    pub(super) fn put(&self, name: ObjectKey, id: BucketId) {
        let mut ids = self.ids.lock();
        if ids.len() >= CACHE_MAX {
            ids.clear();
        }
        ids.insert(name, (id, Instant::now() + CACHE_TIME));
    }

    pub(super) fn forget(&self, name: &ObjectKey) {
        self.ids.lock().remove(name);
    }
}
