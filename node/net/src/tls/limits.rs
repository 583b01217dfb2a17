//! Bounds of trust: waits, file lengths, and how often a refusal is logged.

use std::time::Duration;

/// How long a client may take for its handshake: a connection that says nothing is closed after it.
pub const ACCEPT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long resolving, connecting and the handshake may take together: a node is down after 2 s without
/// answer.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Addresses of one name that are tried: a pod has one, a dual-stack host two.
pub const ADDRESSES_MAX: usize = 8;

/// Bytes that are read off a socket at one time. Idle connections commit none of them.
pub const READ_AHEAD_BYTES: usize = 64 << 10;

/// Bytes that become records before they are written to the socket, at one time: a frame of HTTP/2.
pub const RECORDS_BYTES_MAX: usize = 256 << 10;

/// How often the files are looked at.
pub const FOLLOW_INTERVAL: Duration = Duration::from_secs(10);

/// Bytes of a file that are read: a bundle of 32 authorities is about 32 KiB.
pub const FILE_BYTES_MAX: u64 = 256 << 10;

/// How often a listener logs a refused handshake: a scanner must not fill the log.
pub const REFUSAL_LOG_INTERVAL: Duration = Duration::from_secs(1);

const _: () = assert!(CONNECT_TIMEOUT.as_secs() < ACCEPT_TIMEOUT.as_secs());
