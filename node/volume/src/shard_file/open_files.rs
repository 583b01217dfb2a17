//! Shard files that stay open, with what vouches for their bytes.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;

use sherd_core::id::ShardId;
use sherd_core::limits::SHARD_FILES_MAX;
use sherd_core::message::ShardFileHeader;

use super::format::FileLayout;
use crate::disk::DiskFile;
use crate::disk::FileKeeper;
use crate::limits::KEPT_TABLES_BYTES_MAX;

/// A shard file that is open, with what vouches for its bytes.
#[derive(Debug)]
pub(super) struct OpenShard {
    pub(super) file: Arc<dyn DiskFile>,
    /// The same file past the page cache, once it was read so.
    pub(super) direct: OnceLock<Arc<dyn DiskFile>>,
    pub(super) header: ShardFileHeader,
    pub(super) layout: FileLayout,
    /// A hash for each block.
    pub(super) table: Bytes,
}

#[derive(Debug, Default)]
pub(super) struct OpenFiles {
    state: Mutex<OpenState>,
}

#[derive(Debug, Default)]
struct OpenState {
    files: HashMap<ShardId, (Arc<OpenShard>, u64)>,
    table_bytes: u64,
    uses: u64,
    /// Grows when a file is deleted or replaced: what was opened before is not kept.
    changes: u64,
}

impl OpenFiles {
    pub(super) fn get(&self, shard: ShardId) -> Option<Arc<OpenShard>> {
        let state = &mut *self.state.lock();
        state.uses += 1;
        let (open, used) = state.files.get_mut(&shard)?;
        *used = state.uses;
        Some(Arc::clone(open))
    }

    pub(super) fn changes(&self) -> u64 {
        self.state.lock().changes
    }

    pub(super) fn keep(&self, shard: ShardId, open: &Arc<OpenShard>, changes: u64) {
        let state = &mut *self.state.lock();
        if state.changes != changes || open.layout.table_bytes() > KEPT_TABLES_BYTES_MAX {
            return;
        }
        state.uses += 1;
        state.table_bytes += open.layout.table_bytes();
        if let Some((old, _)) = state.files.insert(shard, (Arc::clone(open), state.uses)) {
            state.table_bytes -= old.layout.table_bytes();
        }
        while state.files.len() > SHARD_FILES_MAX || state.table_bytes > KEPT_TABLES_BYTES_MAX {
            let oldest = state.files.iter().min_by_key(|(_, (_, used))| *used);
            let Some(oldest) = oldest.map(|(shard, _)| *shard) else { return };
            state.remove(oldest);
        }
    }

    pub(super) fn forget(&self, shard: ShardId) {
        let state = &mut *self.state.lock();
        state.changes += 1;
        state.remove(shard);
    }
}

impl FileKeeper for OpenFiles {
    fn close_all(&self) -> bool {
        let closed = {
            let state = &mut *self.state.lock();
            state.table_bytes = 0;
            std::mem::take(&mut state.files)
        };
        !closed.is_empty()
    }
}

impl OpenState {
    fn remove(&mut self, shard: ShardId) {
        if let Some((open, _)) = self.files.remove(&shard) {
            self.table_bytes -= open.layout.table_bytes();
        }
    }
}
