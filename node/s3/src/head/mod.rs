//! The head of a request (`request_head`), a file for each group of its headers, and the columns of its
//! operation's row.

pub mod acl;
pub(crate) mod attributes;
pub(crate) mod checksum;
pub(crate) mod checksum_elements;
pub mod columns;
pub(crate) mod conditions;
pub(crate) mod copy_source;
pub(crate) mod directive;
pub(crate) mod document;
pub(crate) mod feature;
pub(crate) mod form;
mod hoisted;
pub(crate) mod if_range;
pub(crate) mod length;
pub mod names;
pub(crate) mod overrides;
pub(crate) mod owner;
pub(crate) mod range;
pub mod request_head;
pub(crate) mod tagging;
pub(crate) mod timestamp;
