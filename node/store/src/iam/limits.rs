//! Limits of IAM's registers and views.

use std::time::Duration;

/// Times that a change is tried again because another one of its record came between.
pub(super) const CHANGE_TRIES: usize = 16;
/// Times that a view is read again because a change came between, at most.
pub(super) const COMPOSE_TRIES: usize = 32;
/// How long a request waits for a view that changes come between, at most: two periods of a view.
pub(super) const COMPOSE_WAIT: Duration = Duration::from_secs(4);
/// How long it is remembered that a key is unknown, or that its records give no view, from the beginning of
/// the read.
pub(super) const UNKNOWN_PERIOD: Duration = Duration::from_secs(1);
/// Bytes that all remembered views count for, each with its parsed policies, which others may share. One that
/// counts for more than a sixteenth is not remembered: 110 managed policies of 6,144 bytes, as many as a user
/// may have, count for 0.8 to 2.8 MiB.
pub(super) const VIEWS_BYTES_MAX: u64 = 48 << 20;
/// Bytes that a view counts for beside its policies: of unknown keys 32,000 are remembered.
pub(super) const VIEW_BYTES: u64 = 1 << 10;
/// Keys that a node remembers to have been good, at most: more than are in use at one time.
pub(super) const GOOD_KEYS_MAX: usize = 1 << 16;
/// Keys with flags of revocation at which those are dropped that nothing holds any more.
pub(super) const REVOCATIONS_SWEPT_AT: usize = 1 << 10;
/// How long the other nodes are asked to end the requests of a key.
pub(super) const REVOKE_WAIT: Duration = Duration::from_secs(5);
/// Between two calls of a node that was not reached.
pub(super) const REVOKE_PAUSE: Duration = Duration::from_millis(200);
/// Bytes that parsed policies count for: a thousand of common ones.
pub(super) const PARSED_BYTES_MAX: u64 = 16 << 20;
/// Bytes that a parsed policy counts for beside those that it takes: its place.
pub(super) const PARSED_BYTES: u64 = 256;
/// Pages of listings that are read at one time: each has some 10 MiB of records in memory where all are as
/// long as they may be.
pub(super) const PAGES_AT_ONCE: usize = 16;
/// Searches at one time: each reads all records of a kind.
pub(super) const SEARCHES_AT_ONCE: usize = 2;
/// Simulations at one time: each judges many policies, for as long as a processor takes.
pub(super) const SIMULATIONS_AT_ONCE: usize = 2;
/// How long the number of records of a kind is remembered. Each count reads all of them.
pub(super) const COUNT_PERIOD: Duration = Duration::from_secs(10);
/// How long a listing, a search and a simulation wait for a place.
pub(super) const PLACE_WAIT: Duration = Duration::from_secs(5);
/// Records that a listing reads at one time.
pub(super) const READS_AT_ONCE: usize = 16;
/// Names that one page of a listing looks at, at most.
pub(super) const LISTED_NAMES_MAX: usize = 1_000;
/// Keys whose last use a node remembers, at most.
pub(super) const USES_MAX: usize = 10_000;
/// How often the last use of a key is written, in milliseconds.
pub(super) const USE_EVERY_MS: u64 = 15 * 60 * 1000;
/// Writes of last uses at one time: a use that finds no place is noted by a later one.
pub(super) const USE_WRITES_MAX: usize = 16;
/// Keys that are looked at before one is made, to see under which master key they are kept. Where a node made
/// keys under a wrong one, others are among these.
pub(super) const COMPARED_KEYS_MAX: usize = 16;
/// Bytes of records that one page of a listing holds, about: 25 managed policies of five long versions each.
pub(super) const LISTED_BYTES: usize = 4 << 20;
