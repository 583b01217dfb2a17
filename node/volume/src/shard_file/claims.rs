//! Shard files that are being written: one writer each.

use std::collections::HashSet;

use sherd_core::id::ShardId;

#[derive(Debug, Default)]
pub(super) struct Claims {
    pub(super) creates: HashSet<ShardId>,
    pub(super) heals: HashSet<ShardId>,
}

impl Claims {
    pub(super) fn has_heal(&self, shard: ShardId) -> bool {
        self.heals.contains(&shard)
    }

    pub(super) fn has(&self, shard: ShardId) -> bool {
        self.creates.contains(&shard) || self.has_heal(shard)
    }
}
