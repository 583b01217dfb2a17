//! How long nodes wait for each other, and how much one keeps of another. Each with where its number comes
//! from.

use std::time::Duration;

/// Between two pings of a node.
pub const PING_EVERY: Duration = Duration::from_secs(1);
/// A node that answered no ping for this long is down: one lost ping is not enough.
pub const DOWN_AFTER: Duration = Duration::from_secs(2);
/// How long a write whose shards are too few while all nodes are up waits for it to show that one is down: as
/// long as that takes, and as long again for a busy machine, on which another node may miss a ping just then.
pub const DOWN_SHOWS: Duration = Duration::from_secs(4);
/// Between two looks of such a write.
pub const DOWN_LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long the answer to one ping counts. A node that answers late, but each second, is slow and up.
pub const PING_ANSWER_MAX: Duration = Duration::from_secs(5);
/// Pings of one node that may be unanswered at one time: as many as fit the time that an answer has.
pub const PINGS_MAX: usize = 5;
/// A timer that fires so late shows that this process stood still, and says nothing about its peers.
pub const STOOD_STILL: Duration = Duration::from_secs(1);
/// How long two processes of one name are shown after the last sign of both.
pub const TWIN_SHOWN: Duration = Duration::from_secs(10);
/// Names of callers that are not configured, as they call themselves.
pub const STRANGERS_MAX: usize = 8;
/// How long two nodes may accept different root credentials beside those that both accept: a kubelet takes
/// up to two minutes to write a changed Secret to all pods, and a person who edits files needs some, too.
pub const CREDENTIALS_DIFFER_MAX: Duration = Duration::from_mins(5);
/// Bytes of a name or a reason of a peer that are kept.
pub const PEER_TEXT_BYTES_MAX: usize = 1024;
/// Between two looks at a formation that waits.
pub const FORM_EVERY: Duration = Duration::from_millis(500);
/// How long an attempt, or a question for a topology, waits for its answers. Late ones are forgotten.
pub const FORM_ANSWER_MAX: Duration = Duration::from_secs(2);
/// How long a step waits for another one.
pub(crate) const LOCK_MAX: Duration = Duration::from_secs(1);
/// Reports that may wait: what comes faster than they are made durable is dropped.
pub(crate) const REPORTS_MAX: usize = 16_384;
/// Data that was given up and may wait to be looked after: with the removals of the largest set a megabyte or
/// two.
pub(crate) const GIVEN_UP_MAX: usize = 1_024;

const _: () = {
    assert!(PING_EVERY.as_millis() < DOWN_AFTER.as_millis());
    assert!(DOWN_AFTER.as_millis() < PING_ANSWER_MAX.as_millis());
    assert!(DOWN_AFTER.as_millis() < DOWN_SHOWS.as_millis());
    assert!(DOWN_LOOK_EVERY.as_millis() < PING_EVERY.as_millis());
};
