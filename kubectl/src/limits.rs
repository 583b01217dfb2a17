//! Bounds of requests, and of the archive.

use std::time::Duration;

/// How long a connection to the API server may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the API server may take for an answer that is not a stream.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long it may take until a connection to one pod's node is there and its certificate verified.
pub const NODE_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connected node may take for its status.
pub const NODE_ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the reason is waited for why a port of a pod was closed.
pub const FAULT_TIMEOUT: Duration = Duration::from_secs(1);
/// Nodes that are tried, one after the other, until one answers.
pub const NODES_TRIED_MAX: usize = 8;
/// How long a log that is not followed may give no line.
pub const LOG_SILENCE_MAX: Duration = Duration::from_secs(70);
/// Between two looks with `--watch`.
pub const WATCH_EVERY: Duration = Duration::from_secs(2);
/// StorageClusters of a namespace that are listed to find the only one.
pub const CLUSTERS_LISTED_MAX: u32 = 32;
/// Bytes of a line of a log; a longer one is cut into several. Container runtimes write at most 16 KiB.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// How long `support` may take. The rest is left out, and named.
pub const SUPPORT_TIME_MAX: Duration = Duration::from_mins(4);
/// How long `support` waits for a node's status.
pub const SUPPORT_NODE_TIME_MAX: Duration = Duration::from_mins(1);
/// Objects of each kind in the archive.
pub const SUPPORT_OBJECTS_MAX: u32 = 1000;
/// Bytes of a log in the archive: its last.
pub const SUPPORT_LOG_BYTES_MAX: usize = 4 << 20;
/// Lines of a log that are asked for: its last.
pub const SUPPORT_LOG_LINES_MAX: i64 = 20_000;
/// Bytes of all files in the archive, before they are compressed.
pub const SUPPORT_BYTES_MAX: usize = 128 << 20;
/// Pods whose logs are in the archive.
pub const SUPPORT_PODS_MAX: usize = 64;
