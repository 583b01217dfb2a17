//! The directives of a copy: whether it keeps the metadata and the tags of its source, or replaces them.

use crate::head::request_head::RequestHead;
use crate::wire::refusal::Refusal;

/// Whether a copy replaces the metadata of its source.
///
/// # Errors
/// InvalidArgument for a directive that AWS does not have.
pub(crate) fn replaces_metadata(head: &RequestHead<'_>) -> Result<bool, Refusal> {
    replaces(head, "x-amz-metadata-directive", "Unknown metadata directive.")
}

/// Whether a copy replaces the tags of its source.
///
/// # Errors
/// InvalidArgument for a directive that AWS does not have.
pub(crate) fn replaces_tags(head: &RequestHead<'_>) -> Result<bool, Refusal> {
    replaces(head, "x-amz-tagging-directive", "Unknown tagging directive.")
}

fn replaces(head: &RequestHead<'_>, name: &str, unknown: &'static str) -> Result<bool, Refusal> {
    match head.value(name).as_deref() {
        None | Some("COPY") => Ok(false),
        Some("REPLACE") => Ok(true),
        Some(other) => Err(Refusal::bad_argument(unknown, name, other)),
    }
}
