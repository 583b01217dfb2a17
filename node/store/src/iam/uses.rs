//! When each key was last used: remembered on its node, and written at most every 15 minutes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::sync::Cache;
use tokio::sync::Semaphore;

use sherd_core::iam::{AccessKeyId, KeyUse};
use sherd_core::limits::IAM_USE_TEXT_BYTES_MAX;

use super::error::Result;
use super::limits::{USE_EVERY_MS, USE_WRITES_MAX, USES_MAX};
use super::records::{Records, Step};
use crate::observe::trace;

/// The last uses of keys through one node. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct KeyUses {
    records: Records,
    /// When the use of each key was last written, in wall milliseconds.
    written: Arc<Cache<AccessKeyId, Arc<AtomicU64>>>,
    writes: Arc<Semaphore>,
}

impl KeyUses {
    pub(super) fn new(records: Records) -> Self {
        Self {
            records,
            written: Arc::new(Cache::new(USES_MAX)),
            writes: Arc::new(Semaphore::new(USE_WRITES_MAX)),
        }
    }

    /// Notes that a request with a good key began. Allocates nothing but for a use that is written.
    pub(super) fn note(&self, id: AccessKeyId, service: &str, region: &str) {
        let now_ms = self.records.objects.now_ms();
        let known = self.written.get(&id);
        let is_due = known.as_ref().is_none_or(|written| {
            let last_ms = written.load(Ordering::Relaxed);
            now_ms.saturating_sub(last_ms) >= USE_EVERY_MS
                && written.compare_exchange(last_ms, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        });
        if !is_due {
            return;
        }
        let Ok(place) = Arc::clone(&self.writes).try_acquire_owned() else {
            // A later use is written.
            self.written.remove(&id);
            return;
        };
        if known.is_none() {
            self.written.insert(id, Arc::new(AtomicU64::new(now_ms)));
        }
        let used = KeyUse { used_ms: now_ms, service: cut(service), region: cut(region) };
        let records = self.records.clone();
        let tasks = self.records.objects.documents().registers().tasks();
        tasks.spawn(trace::inherited(async move {
            let _place = place;
            if let Err(error) = write(&records, id, used).await {
                tracing::debug!(key = %id, %error, "the last use of an access key was not written");
            }
        }));
    }
}

/// Writes a use, unless another node wrote a later one.
async fn write(records: &Records, id: AccessKeyId, used: KeyUse) -> Result<()> {
    let newer = |known: Option<KeyUse>| {
        let is_newer = known.is_none_or(|known| known.used_ms < used.used_ms);
        Ok((if is_newer { Step::Put(used.clone()) } else { Step::Keep }, ()))
    };
    records.change(&id.register_of_use(), newer).await
}

fn cut(text: &str) -> String {
    let mut end = text.len().min(IAM_USE_TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}
