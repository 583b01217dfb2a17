//! A node that serves, from its configuration to its end: `run` is its life, `open` puts the protocol before
//! the store, `store` puts the layers of the store together, `cluster_node` is its place among others,
//! `reporter` computes what is shown of it.

pub mod cluster_node;
pub(crate) mod descriptors;
pub(crate) mod limits;
pub mod open;
pub mod reporter;
pub mod run;
pub mod store;
