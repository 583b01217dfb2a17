//! Walks of all that a volume holds: the scrubber's, and the sweeper's over tombstones and over suspects,
//! which the scrubber finds.

pub(crate) mod place;
pub(crate) mod scrub;
pub(crate) mod suspects;
pub(crate) mod sweep;
