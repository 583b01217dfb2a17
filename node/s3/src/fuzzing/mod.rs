//! Properties that hold of any bytes that a client sends, by kind of input: `fuzz/` looks for bytes that
//! break them, the tests here ask the seeds and random ones.
//!
//! Every function takes any bytes and panics where a property is broken; a refusal is
//! fine. Built for tests and for fuzzing only.

mod body;
mod cors;
mod form;
mod public_access;
mod request;
mod text;

#[cfg(test)]
mod tests;

pub use body::framed_body;
pub use cors::cross_origin;
pub use form::form;
pub use public_access::public_access_block;
pub use request::request;
pub use text::header_text;

#[cfg(test)]
pub(crate) use body::{CHECKSUM, framed, framing};
#[cfg(test)]
pub(crate) use request::PROTOCOL;
