//! A node that serves, from its configuration to its end: `run` is its life, `follow` and `live` are what
//! of its configuration may change, `open` puts the protocol before the store,
//! `store` puts the layers of the store together, `cluster_node` is its place among others,
//! `reporter` computes what is shown of it, `root_http` answers HTTP requests that come as calls,
//! and `audited_http` records them.

pub mod cluster_node;
pub(crate) mod descriptors;
pub(crate) mod limits;
mod first_buckets;
pub mod follow;
pub mod live;
pub mod open;
pub mod reporter;
pub mod root_credentials;
mod audited_http;
mod root_http;
pub mod run;
mod settled;
pub mod store;
