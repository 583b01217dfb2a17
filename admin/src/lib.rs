//! An admin's side of a node: its questions and orders over a connection that is verified already, and their
//! answers as text. `sherd-node status` and `user` make the connection by an address and files, `kubectl
//! sherd` through the API server of Kubernetes.
//!
//! ```text
//! user     users, their access keys and their policies: commands, and what they print
//! status   the status of a cluster as tables, as JSON, and as a verdict
//! ask      one question to a node, or HTTP requests as the root user
//! plain    texts of others, as a terminal may have them
//! limits   bounds of time
//! ```

pub mod user;
pub mod status;
pub mod ask;
mod limits;
pub mod plain;
