//! What a header says, typed: ranges, conditions, checksums, attributes.

pub(in crate::s3) mod attributes;
pub(in crate::s3) mod checksum;
pub(in crate::s3) mod conditions;
pub(in crate::s3) mod copy_source;
pub(in crate::s3) mod if_range;
pub(in crate::s3) mod range;
pub(in crate::s3) mod raw_headers;
pub(in crate::s3) mod timestamp;
