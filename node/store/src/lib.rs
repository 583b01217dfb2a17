//! The store of a node, without sockets: what a simulator links. In rooms, from top to bottom:
//!
//! ```text
//! upkeep     heals, recoveries, scrubbing, releases
//! iam        users, groups, keys and policies, and how a key is looked up
//! object     the verbs of the store
//! views      what requests remember of registers, for two seconds
//! register   rounds over a key's set
//! stripe     data cut, encoded, spread, read and rebuilt
//! cluster    the topology in force, membership, damage reported, data pinned
//! peer       the volumes of a set, wherever they are
//! volumes    those of this node: keeper, log threads
//! observe    metrics and traces
//! machine    clock, processor, threads, memory; quantities
//! ```
//!
//! A room uses those below it, never one above. Only tests in a file of their own build on those above.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod cluster;
pub mod iam;
pub mod machine;
pub mod object;
pub mod observe;
pub mod peer;
pub mod register;
pub mod stripe;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod upkeep;
mod views;
pub mod volumes;
