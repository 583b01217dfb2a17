//! Bounds of certificates: lifetimes and lengths, each with where its number comes from.

use std::time::Duration;

const DAY: Duration = Duration::from_hours(24);

/// How long a certificate authority is valid: ten years, longer than a cluster's machines.
pub const AUTHORITY_LIFETIME: Duration = Duration::from_secs(10 * 365 * DAY.as_secs());

/// How long a certificate that `ca issue` makes is valid: one year.
pub const LEAF_LIFETIME: Duration = Duration::from_secs(365 * DAY.as_secs());

/// How long before its making a certificate is valid: the difference of machines' clocks that is allowed for.
pub const BACKDATE: Duration = Duration::from_mins(5);

/// Characters of a name: one DNS label.
pub const NAME_LEN_MAX: usize = 63;

const _: () = assert!(LEAF_LIFETIME.as_secs() < AUTHORITY_LIFETIME.as_secs());
