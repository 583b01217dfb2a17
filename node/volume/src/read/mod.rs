//! Reads that any thread makes: rows, bytes, listings and scans, over the visible state.
//!
//! ```text
//! reader -> list, scan -> view: what the log has and the index not yet, over the index
//!        `-> recent: what was read lately
//! ```

pub mod wants;
pub mod list;
pub mod look;
pub mod reader;
pub(crate) mod recent;
pub(crate) mod scan;
pub(crate) mod view;
