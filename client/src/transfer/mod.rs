//! The engine: what is planned, what moves, and what an interrupted run left.
//!
//! ```text
//! job        a file or object to be copied or moved, and the workers that take jobs from a bounded channel
//! delete     many objects of a bucket
//! upload     a file to an object, whole or in parts, with a journal
//! download   an object to a file, whole or in ranges, with a journal
//! copy       an object to another, within a service or from one to another
//! pipe       bytes of unknown size to an object
//! fetch      the body of an object or range, resumed at the byte where it breaks
//! engine     what all transfers share: settings, places for requests, progress
//! journal    the parts that are done, on disk
//! progress   counters and events
//! plan       sizes and counts of parts
//! ```

pub mod job;
pub(crate) mod delete;
pub(crate) mod upload;
pub(crate) mod download;
pub(crate) mod copy;
pub(crate) mod pipe;
pub(crate) mod fetch;
pub mod engine;
pub(crate) mod journal;
pub mod progress;
pub mod plan;
