//! This machine's side of a transfer: paths of keys, trees of files in the order of their keys, and files
//! that appear under their name when they are whole.

pub(crate) mod media_type;
pub(crate) mod path;
pub(crate) mod target;
pub(crate) mod lock;
pub(crate) mod walk;
