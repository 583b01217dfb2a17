//! The index as an ordered map in memory, for the simulator and the crash tests.
//!
//! [`MemoryIndex::crash`] gives what a crash leaves: the entries of the last flush, which is what
//! makes the map as forgetful as the tree on disk.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use sherd_core::id::Sequence;

use crate::lookup::Lookup;

use super::{Change, Index, IndexError, IndexProgress, Pair, check_keys, entry_bytes};

type Map = BTreeMap<Bytes, Bytes>;

/// An index in memory.
#[derive(Debug, Default)]
pub struct MemoryIndex {
    state: Mutex<MapState>,
}

#[derive(Debug, Default)]
struct MapState {
    /// Shared with running scans; a change copies it only while one runs.
    live: Arc<Map>,
    flushed: Map,
    unflushed: Vec<Change>,
    unflushed_bytes: u64,
    progress: IndexProgress,
}

impl MemoryIndex {
    /// Makes an empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the index that a process finds after this one crashed: the state of the last flush.
    #[must_use]
    pub fn crash(&self) -> Self {
        let state = self.state.lock();
        Self {
            state: Mutex::new(MapState {
                live: Arc::new(state.flushed.clone()),
                flushed: state.flushed.clone(),
                unflushed: Vec::new(),
                unflushed_bytes: 0,
                progress: IndexProgress::opened_at(state.progress.persisted()),
            }),
        }
    }
}

fn change(map: &mut Map, change: Change) {
    match change {
        Change::Put { key, value } => map.insert(key, value),
        Change::Remove { key } => map.remove(&key),
    };
}

impl Index for MemoryIndex {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, IndexError> {
        Ok(self.state.lock().live.get(key).cloned())
    }

    fn get_cached(&self, key: &[u8]) -> Result<Lookup<Option<Bytes>>, IndexError> {
        self.get(key).map(Lookup::Immediate)
    }

    fn scan<'a>(
        &'a self,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Box<dyn Iterator<Item = Result<Pair, IndexError>> + 'a> {
        let map = Arc::clone(&self.state.lock().live);
        let to = to.map(Bytes::copy_from_slice);
        let mut next = Bound::Included(Bytes::copy_from_slice(from));
        Box::new(std::iter::from_fn(move || {
            let (key, value) = map.range((next.clone(), Bound::Unbounded)).next()?;
            if to.as_ref().is_some_and(|to| key >= to) {
                return None;
            }
            next = Bound::Excluded(key.clone());
            Some(Ok((key.clone(), value.clone())))
        }))
    }

    fn apply(&self, changes: Vec<Change>, sequence: Sequence) -> Result<(), IndexError> {
        check_keys(&changes)?;
        let state = &mut *self.state.lock();
        if !state.progress.begin(sequence)? {
            return Ok(());
        }
        let live = Arc::make_mut(&mut state.live);
        for one in changes {
            state.unflushed_bytes += entry_bytes(&one);
            change(live, one.clone());
            state.unflushed.push(one);
        }
        state.progress.applied(sequence);
        Ok(())
    }

    fn persisted(&self) -> Option<Sequence> {
        self.state.lock().progress.persisted()
    }

    fn pending_bytes(&self) -> u64 {
        self.state.lock().unflushed_bytes
    }

    fn flush(&self) -> Result<(), IndexError> {
        let state = &mut *self.state.lock();
        for one in std::mem::take(&mut state.unflushed) {
            change(&mut state.flushed, one);
        }
        state.unflushed_bytes = 0;
        if let Some(sequence) = state.progress.last_applied() {
            state.progress.flushed(sequence);
        }
        Ok(())
    }

    fn compact(&self) -> Result<bool, IndexError> {
        Ok(false)
    }

    fn unmerged(&self) -> usize {
        0
    }
}
