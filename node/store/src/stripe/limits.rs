//! How much of a body is in flight, and how long readers wait. Each with where its number comes from.

use std::time::Duration;

use sherd_core::limits::HASH_BLOCK_BYTES;

/// Fewest bytes of one read: one hash covers them.
pub(super) const WINDOW_BYTES_MIN: u64 = HASH_BLOCK_BYTES as u64;
/// The pause before a volume is asked again that had no place in its queue; one that had no buffer is asked
/// when one came back.
pub(super) const BUSY_PAUSE: Duration = Duration::from_millis(20);
/// How long a reader waits for the k shards from which another is computed, before it asks for one more: the
/// computed one is late already.
pub(super) const REBUILD_HEDGE: Duration = Duration::from_millis(100);
/// Data shards of a code up to which own parity is read in place of data of other nodes: computing a byte
/// takes one multiplication for each of them.
pub(super) const COMPUTED_DATA_SHARDS_MAX: usize = 8;
/// Uploads of one node under way up to which a long body gets large stripe units. Each holds one unit on
/// every volume of its set while that is slow, and a volume takes 24 MiB from its peers
/// (`net/src/rpc/limits.rs`).
pub(super) const LARGE_UPLOADS_MAX: usize = 4;
/// Stripes of a body that may be unseen by its digester at one time, the one that is being written included.
pub(super) const UNSEEN_STRIPES_MAX: usize = 3;
pub(super) const DIGEST_QUEUES_MAX: usize = 1024;
