//! Which shard files are being written.

use std::collections::HashSet;

use sherd_core::id::ShardId;

/// The files that are being written.
#[derive(Debug, Default)]
pub(super) struct Claims {
    pub(super) creates: HashSet<ShardId>,
    pub(super) heals: HashSet<ShardId>,
}

impl Claims {
    /// Whether a heal of a shard is being written.
    pub(super) fn has_heal(&self, shard: ShardId) -> bool {
        self.heals.contains(&shard)
    }

    pub(super) fn has(&self, shard: ShardId) -> bool {
        self.creates.contains(&shard) || self.has_heal(shard)
    }
}
