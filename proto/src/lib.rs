//! The protocol between nodes: the messages of `sherd/v1/*.proto`, the services over them, and the
//! bounds that they keep.

pub mod convert;
pub mod frame;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod limits;
pub mod sender;

/// The generated messages, clients and servers of package `sherd.v1`.
#[allow(
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::clone_on_ref_ptr,
    reason = "generated"
)]
pub mod v1 {
    tonic::include_proto!("sherd.v1");
}

/// The descriptors of all messages and services, as they were compiled.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
