//! Multipart uploads: begin, parts (sent or copied), complete or abort, and the two listings.
//!
//! A file per verb. All of them name an upload by bucket, key and id; an id in another form than ours is
//! NoSuchUpload.

mod begin;
mod finish;
mod list_parts;
mod list_uploads;
mod part;
mod part_list;

pub(super) use begin::create;
pub(super) use finish::{abort, complete};
pub(super) use list_parts::list as list_parts;
pub(super) use list_uploads::list as list_uploads;
pub(super) use part::{upload as upload_part, upload_copy as upload_part_copy};
#[cfg(any(test, fuzzing))]
pub(super) use part_list::listed_parts;
