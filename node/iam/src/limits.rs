//! Bounds of requests to the query API. Each with where its number comes from.

use std::time::Duration;

use sherd_front::unproven::UnprovenWork;

/// Bytes of the body of a request: the longest document, 128 KiB, with each byte escaped, and the rest.
pub const FORM_BYTES_MAX: usize = 512 << 10;
/// Parameters of a request: 50 tags are 100, and a name, a path and a few more come with them.
pub(crate) const PARAMETERS_MAX: usize = 256;
/// Entries of a page, and those of one that does not say how many it wants: AWS's.
pub(crate) const ENTRIES_MAX: usize = 1_000;
/// See [`ENTRIES_MAX`].
pub(crate) const ENTRIES_USUAL: usize = 100;
/// Characters of the id of an access key: AWS's.
pub(crate) const KEY_ID_CHARS_MIN: usize = 16;
/// See [`KEY_ID_CHARS_MIN`].
pub(crate) const KEY_ID_CHARS_MAX: usize = 128;
/// Proven requests that are worked on at one time: each has a body in memory, 32 MiB together.
pub(crate) const REQUESTS_MAX: usize = 64;
/// Bytes of a short body: all requests but those that give long policies.
pub(crate) const SHORT_BODY_BYTES_MAX: u64 = 64 << 10;
/// Connections that requests which are not proven hold at one time, while more of them arrive.
pub const UNPROVEN_MAX: usize =
    UnprovenWork::IamShortBodies.max() + UnprovenWork::IamLongBodies.max() + UnprovenWork::IamKeys.max();
/// How long a proven request waits for its turn before it is refused.
pub(crate) const TURN_WAIT_MAX: Duration = Duration::from_secs(5);
/// How long a client may take for a body beside the time by its bytes: it comes with its head.
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// The pace of a body that is not proven yet: slower than any link that tools are used over.
pub(crate) const BODY_BYTES_PER_SECOND: u64 = 64 << 10;
/// Users, groups and managed policies of an account of AWS, as the summary of the account gives them. No
/// request is refused by these three.
pub(crate) const USERS_QUOTA: usize = 5_000;
/// See [`USERS_QUOTA`].
pub(crate) const GROUPS_QUOTA: usize = 300;
/// See [`USERS_QUOTA`].
pub(crate) const POLICIES_QUOTA: usize = 1_500;
/// Users that are read at a time to count what is attached.
pub(crate) const COUNTED_PAGE: usize = 1_000;
/// Pairs of action and resource that one page of a simulation judges, at least one action's: the parameters
/// of a request bound both lists to [`PARAMETERS_MAX`] together.
pub(crate) const SIMULATED_PAIRS_MAX: usize = 256;
/// Bytes of policies times bytes of the texts that they are compared with, of all pairs on one page of a
/// simulation: under a second of a processor with any patterns. A simulation holds one of two places.
pub(crate) const SIMULATED_STEPS_MAX: u64 = 1 << 36;
/// Bytes of the shortest variable, `${aws:userid}`: a caller's value in its place makes a pattern longer.
pub(crate) const VARIABLE_BYTES_MIN: u64 = 13;
/// Statements and keys that one result of a simulation names, and conditions of a statement, each: a user may
/// have 10,000 statements.
pub(crate) const SIMULATED_REASONS_MAX: usize = 20;
/// Bytes of one value of a context entry: as long as headers are, the longest texts that policies judge.
pub(crate) const CONTEXT_VALUE_BYTES_MAX: usize = 8 << 10;
/// Bytes of all values of context entries: each may be compared with all patterns of all policies.
pub(crate) const CONTEXT_BYTES_MAX: usize = 32 << 10;
/// Bytes of the answer of GetAccountAuthorizationDetails from which on its page ends: one more entity comes
/// behind them, of 2 MiB at most where its documents are as long as they may be.
pub(crate) const DETAILS_BYTES: usize = 512 << 10;
/// Entities that GetAccountAuthorizationDetails reads at one time.
pub(crate) const DETAILS_READ: usize = 32;
