//! The node, in rooms, from top to bottom:
//!
//! ```text
//! process    the parts of a process: arguments, configuration, where the rooms meet
//! server     listeners, admission, ordered shutdown
//! s3         requests and answers as S3 has them
//! rpc        this node's volumes for its peers
//! upkeep     heals, recoveries, scrubbing, releases
//! object     the verbs of the store
//! register   rounds over a key's set
//! stripe     data cut, encoded, spread, read and rebuilt
//! cluster    the topology in force, damage reported, data pinned
//! peer       the volumes of a set, wherever they are
//! volumes    those of this node: keeper, log threads
//! trust      certificates by name: handshakes with peers, reloads
//! observe    metrics, health, log
//! machine    clock, processor, threads, memory; quantities
//! ```
//!
//! A room uses those below it, never one above. Only tests in a file of their own build on those above.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod cluster;
pub mod machine;
pub mod object;
pub mod observe;
pub mod peer;
pub mod process;
pub mod register;
pub mod rpc;
pub mod s3;
pub mod server;
pub mod stripe;
pub mod trust;
pub mod upkeep;
pub mod volumes;
