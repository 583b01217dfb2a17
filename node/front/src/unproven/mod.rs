//! Work for senders that no signature vouches for yet: one table of its kinds, each with the most of it at
//! one time.
//!
//! ```text
//! turns   the next sender waits, and is refused after 5 s
//! lane    the slowest sender gives way to the next one, which waits for those alone that give way no more
//! ```
//! A service refuses in its own code: SlowDown in S3, Throttling in IAM.

pub mod lane;
pub mod turns;

use crate::limits::{
    IAM_KEYS_MAX, IAM_LONG_BODIES_MAX, IAM_SHORT_BODIES_MAX, S3_BUCKETS_MAX, S3_FORMS_MAX, S3_KEYS_MAX,
};

/// A kind of work before a signature is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnprovenWork {
    /// Turns of S3 to look up access keys that are not remembered and were never good here.
    S3Keys,
    /// Turns of S3 to look up buckets for cross-origin and anonymous requests, by names of which no view is
    /// remembered.
    S3Buckets,
    /// Forms of browsers whose fields arrive, and which never wait.
    S3Forms,
    /// Look-ups by IAM of access keys that are not remembered and were never good here. None waits.
    IamKeys,
    /// Bodies of requests to IAM of at most 64 KiB. A whole body gives way no more.
    IamShortBodies,
    /// Longer bodies of requests to IAM. A whole body gives way no more.
    IamLongBodies,
}

impl UnprovenWork {
    /// The most of it at one time.
    pub const fn max(self) -> usize {
        match self {
            Self::S3Keys => S3_KEYS_MAX,
            Self::S3Buckets => S3_BUCKETS_MAX,
            Self::S3Forms => S3_FORMS_MAX,
            Self::IamKeys => IAM_KEYS_MAX,
            Self::IamShortBodies => IAM_SHORT_BODIES_MAX,
            Self::IamLongBodies => IAM_LONG_BODIES_MAX,
        }
    }
}

/// Too much work of a kind is under way, and none of it ended for 5 s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many senders are not proven yet")]
pub struct UnprovenCrowd;
