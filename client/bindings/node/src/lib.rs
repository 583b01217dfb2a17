//! The client of S3 for Node.js: the part in Rust, which `index.js` wraps.
//!
//! Each call starts work on tokio's threads and returns a promise; nothing waits on the thread of JavaScript
//! but its end, which cancels what is under way. Values that cross are owned on both sides.

mod calls;
mod convert;
mod limits;
mod service;
mod streams;
