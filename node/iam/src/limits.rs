//! Bounds of requests to the query API. Each with where its number comes from.

use std::time::Duration;

/// Bytes of the body of a request: the longest document, 128 KiB, with each byte escaped, and the rest.
pub const FORM_BYTES_MAX: usize = 512 << 10;
/// Parameters of a request: 50 tags are 100, and a name, a path and a few more come with them.
pub(crate) const PARAMETERS_MAX: usize = 256;
/// Entries of a page, and those of one that does not say how many it wants: AWS's.
pub(crate) const ENTRIES_MAX: usize = 1_000;
/// See [`ENTRIES_MAX`].
pub(crate) const ENTRIES_USUAL: usize = 100;
/// Requests with signatures that are worked on at one time: each has a body in memory, 32 MiB together.
pub(crate) const REQUESTS_MAX: usize = 64;
/// Look-ups of keys that are not remembered, at one time, for requests whose signature is not verified yet: a
/// quarter of the connections. A look-up waits for nodes, and never for the client.
pub(crate) const LOOK_UPS_MAX: usize = 64;
/// How long a request waits for its turn, or for that of its look-up, before it is refused.
pub(crate) const TURN_WAIT_MAX: Duration = Duration::from_secs(5);
/// How long a client may take for a body.
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// How far the clock of a client may be off: AWS's 15 minutes.
pub(crate) const SKEW_MS_MAX: u64 = 15 * 60 * 1000;
/// Users that are read at a time to count what is attached.
pub(crate) const COUNTED_PAGE: usize = 1_000;
