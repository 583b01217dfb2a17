//! The client of S3 for Python: the part in Rust, which `sherd_client` wraps in a face for threads and one
//! for asyncio.
//!
//! Each call starts work on tokio's threads and returns at once; its end is given to a callback. So no call
//! waits with the interpreter locked, and the Python side waits as Python does: Ctrl-C ends a wait, and a
//! task of asyncio can be cancelled. Values that cross are owned on both sides.

mod calls;
mod convert;
mod limits;
mod runtime;
mod service;
mod streams;

use pyo3::prelude::*;

/// The module `sherd_client._native`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::calls::Call;
    #[pymodule_export]
    use crate::service::Native;
    #[pymodule_export]
    use crate::streams::{Entries, Reader, Samples, Writer};
}
