//! Operations on an object, a file each.

pub(in crate::s3) mod copy_object;
pub(in crate::s3) mod delete_object;
pub(in crate::s3) mod get_object;
pub(in crate::s3) mod head_object;
pub(in crate::s3) mod object_attributes;
pub(in crate::s3) mod put_object;
