//! The S3 surface: from an HTTP request to a call on the store, and back.
//!
//! A request passes `protocol` (limits, address, signature, body), is named by the one table in `operation`,
//! and is run by the table's handler, which reads it as a `request` and writes an `answer`. The crate
//! `front` verifies the caller, `access` decides whether they may. s3s gives the types of documents, their
//! XML, and the type of an answer's body.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod access;
pub mod answer;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod protocol;

mod body;
pub mod error;
mod gateway;
mod head;
mod header;
mod location;
pub mod names;
pub mod operation;
mod owner;
pub mod request;
#[cfg(test)]
mod surface;

mod bucket;
mod multipart;
mod object;

use std::sync::Arc;

use sherd_core::env::Clock;
use sherd_front::callers::Credentials;

use protocol::{Config, Protocol};
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
        let &Config { ref region, unsupported_acl, reserved_buckets, .. } = &config;
        let gateway = Self { objects, iam, region: region.clone(), unsupported_acl, reserved_buckets };
        Protocol::new(config, credentials, clock, Arc::new(gateway))
    }
}
