//! Operations on an object, a file each.

pub(crate) mod copy_object;
pub(crate) mod delete_object;
pub(crate) mod get_object;
pub(crate) mod given_tags;
pub(crate) mod head_object;
pub(crate) mod missing_version;
pub(crate) mod object_attributes;
pub(crate) mod post_object;
pub(crate) mod put_object;
pub(crate) mod readable_source;
pub(crate) mod tagging;
