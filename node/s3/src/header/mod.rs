//! Headers as types: ranges, conditions, checksums, attributes.

pub(crate) mod attributes;
pub(crate) mod checksum;
pub(crate) mod checksum_elements;
pub(crate) mod conditions;
pub(crate) mod copy_source;
pub(crate) mod document;
pub(crate) mod if_range;
pub(crate) mod range;
pub(crate) mod tagging;
pub(crate) mod timestamp;
pub(crate) mod typed;
