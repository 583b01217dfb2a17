//! The S3 surface: from an HTTP request to a call on the store, and back. Its floors, from the roof down:
//!
//! ```text
//! service     the pipeline: address -> prove -> judge -> take in -> run -> respond
//! operation   the one table of operations, and the row of a request
//! multipart   handlers of uploads in parts, a file each
//! object      handlers of objects
//! bucket      handlers of buckets and of the account
//! gateway     the state that they work on
//! request     a request as a handler reads it
//! access      the rights of its caller
//! error       the store's errors as S3 words them
//! head        the head of a request, a reader for each group of its headers, and the columns of a row
//! answer      documents, headers and bytes of an answer, and its failure
//! wire        addresses, codes, refusals, XML, frames, forms
//! ```
//! The crate `front` verifies the caller and decides whether they may. s3s gives the types of documents,
//! their XML, and the type of an answer's body.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod access;
pub mod answer;
mod bucket;
pub mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod gateway;
pub mod head;
mod multipart;
mod object;
pub mod operation;
pub mod request;
pub mod service;
#[cfg(test)]
mod surface;
pub mod wire;

use std::sync::Arc;

use sherd_core::env::Clock;
use sherd_front::callers::Credentials;

use service::{Config, Protocol};
use sherd_store::iam::Iam;
use sherd_store::object::Objects;

pub use gateway::Gateway;

impl Gateway {
    /// Serves `objects` and the account behind the protocol layer: the whole S3 surface of a node.
    pub fn serve(
        objects: Objects,
        iam: Iam,
        config: Config,
        credentials: Arc<dyn Credentials>,
        clock: Arc<dyn Clock>,
    ) -> Protocol {
        let gateway =
            Self { objects, iam, region: config.region.clone(), reserved_buckets: config.reserved_buckets };
        Protocol::new(config, credentials, clock, Arc::new(gateway))
    }
}
