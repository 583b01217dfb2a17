//! `kubectl sherd`: looks at a StorageCluster and its users from where `kubectl` runs, by the caller's own
//! rights.
//!
//! ```text
//! cli      the command line
//! support  one archive for a question to others, without secrets
//! status   the StorageCluster and why something waits, and the table of a node
//! users    users, their keys and policies
//! logs     the logs of pods and operators
//! node     a connection to a node: a port of a pod through the API server, and mutual TLS over it
//! cluster  the StorageCluster that is asked about, and its objects
//! session  the API server, as the kubeconfig names it
//! error    why a command fails, in a sentence
//! limits   bounds
//! ```
//!
//! Certificates come from the cluster's Secrets and stay in memory.

pub mod cli;
pub mod support;
pub mod status;
pub mod users;
pub mod logs;
pub mod node;
pub mod cluster;
pub mod session;
pub mod error;
pub mod limits;
