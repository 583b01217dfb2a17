//! Signatures of AWS's requests, made and checked: SigV4 in full (the `Authorization` header, presigned
//! URLs, signed frames and trailers of aws-chunked bodies, forms), SigV2 in presigned URLs and forms alone.
//!
//! Functions of bytes and a secret: nothing here has a store, a clock or a socket, so that a client signs
//! with what a server checks by. Secrets have no `Display`, and their `Debug` says nothing.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod signer;
pub mod frames;
pub mod post_policy;
pub mod form_fields;
pub mod presigned_v2;
pub mod presigned;
pub mod authorization;
pub mod credential_scope;
pub mod canonical;
pub mod signing_key;
pub mod payload;
pub mod amz_date;
pub mod query;
pub mod error;
mod secret;
mod limits;

pub use secret::Secret;
