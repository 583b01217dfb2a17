//! An index that asks before and behind a lookup, so that a test may refuse it, or do something meanwhile.

use std::sync::Arc;

use bytes::Bytes;

use sherd_core::id::Sequence;
use sherd_volume::index::{Change, Index, IndexError, Pair};
use sherd_volume::lookup::Lookup;
use sherd_volume::open::IndexSource;

use super::MemorySource;

/// Where a call stands when the hook is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexCall {
    /// A lookup begins.
    Get,
    /// A lookup has found what it answers.
    Found,
    /// A flush begins.
    Flush,
}

type Hook = Arc<dyn Fn(IndexCall) -> Result<(), IndexError> + Send + Sync>;

/// Opens indexes that ask a hook.
pub(crate) struct HookedSource {
    inside: MemorySource,
    hook: Hook,
}

impl HookedSource {
    pub(crate) fn new(
        inside: &MemorySource,
        hook: impl Fn(IndexCall) -> Result<(), IndexError> + Send + Sync + 'static,
    ) -> Self {
        Self { inside: inside.clone(), hook: Arc::new(hook) }
    }
}

impl IndexSource for HookedSource {
    fn open(&mut self) -> Result<Arc<dyn Index>, IndexError> {
        Ok(Arc::new(HookedIndex { entries: self.inside.open()?, hook: Arc::clone(&self.hook) }))
    }
    fn reset(&mut self) -> Result<Arc<dyn Index>, IndexError> {
        self.inside.wipe();
        self.open()
    }
}

struct HookedIndex {
    entries: Arc<dyn Index>,
    hook: Hook,
}

impl std::fmt::Debug for HookedIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HookedIndex")
    }
}

impl Index for HookedIndex {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, IndexError> {
        (self.hook)(IndexCall::Get)?;
        let found = self.entries.get(key)?;
        (self.hook)(IndexCall::Found)?;
        Ok(found)
    }
    fn get_cached(&self, key: &[u8]) -> Result<Lookup<Option<Bytes>>, IndexError> {
        self.entries.get_cached(key)
    }
    fn scan<'a>(
        &'a self,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Box<dyn Iterator<Item = Result<Pair, IndexError>> + 'a> {
        self.entries.scan(from, to)
    }
    fn apply(&self, changes: Vec<Change>, sequence: Sequence) -> Result<(), IndexError> {
        self.entries.apply(changes, sequence)
    }
    fn persisted(&self) -> Option<Sequence> {
        self.entries.persisted()
    }
    fn pending_bytes(&self) -> u64 {
        self.entries.pending_bytes()
    }
    fn flush(&self) -> Result<(), IndexError> {
        (self.hook)(IndexCall::Flush)?;
        self.entries.flush()
    }
    fn compact(&self) -> Result<bool, IndexError> {
        self.entries.compact()
    }
    fn unmerged(&self) -> usize {
        self.entries.unmerged()
    }
}
