//! How a connection between two nodes is kept: windows, frames and pings, the same on both ends.
//!
//! A connection whose other end answers no ping is closed, so a peer that was cut off costs each of its
//! callers 3 s at most. The links of `peer::grpc` and the server of `rpc` use these.

use std::time::Duration;

use tokio_util::task::TaskTracker;

use sherd_proto::limits::SHARD_FRAME_BYTES_MAX;

use crate::trust::Trust;

/// Bytes of one stream that are not taken yet.
pub(crate) const STREAM_WINDOW_BYTES: u32 = 2 << 20;
/// Bytes of one connection that are not taken yet.
pub(crate) const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// Bytes of an HTTP/2 frame. Larger ones save system calls; others wait behind one for a millisecond at most.
pub(crate) const H2_FRAME_BYTES: u32 = 256 << 10;
/// Calls and shards of one connection at a time.
pub(crate) const STREAMS_MAX: u32 = 1024;
/// How often the other end is asked for a sign of life.
pub(crate) const PING_EVERY: Duration = Duration::from_secs(1);
/// How long it may take to give one.
pub(crate) const PING_ANSWER_MAX: Duration = Duration::from_secs(2);

/// How long a connection may go on under a certificate that was replaced.
const OLD_CERTIFICATE_MAX: Duration = Duration::from_hours(1);
/// How often that is looked at.
const AGE_LOOK_EVERY: Duration = Duration::from_secs(10);

/// Returns when a connection of that generation of certificates must end: an hour after a later one came.
pub(crate) async fn outlived(trust: &Trust, generation: u64) {
    while trust.generation() == generation {
        tokio::time::sleep(AGE_LOOK_EVERY).await;
    }
    tokio::time::sleep(OLD_CERTIFICATE_MAX.saturating_sub(AGE_LOOK_EVERY)).await;
}

/// Spawns the tasks of a connection where its owner waits for them.
#[derive(Debug, Clone)]
pub(crate) struct TrackedExecutor(pub(crate) TaskTracker);

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for TrackedExecutor {
    fn execute(&self, task: F) {
        self.0.spawn(task);
    }
}

const _: () =
    assert!(SHARD_FRAME_BYTES_MAX < STREAM_WINDOW_BYTES as usize, "two frames of bytes are under way");
