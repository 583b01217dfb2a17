//! Nodes over the network: the one place that uses gRPC and TLS. In rooms, from top to bottom:
//!
//! ```text
//! rpc        this node's volumes for its peers
//! links      the links to the configured nodes, and what is asked of a node as a whole
//! grpc       the volumes of other nodes: connections, calls, bytes
//! wire       how a connection between two nodes is kept, the same on both ends
//! tls        certificates by name: handshakes with peers and clients, reloads
//! listen     listening sockets, of IPv4 and IPv6
//! ```
//!
//! A room uses those below it, never one above. Only tests in a file of their own build on those above.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod grpc;
pub mod links;
pub mod rpc;
pub mod tls;
pub mod listen;
mod wire;

pub use wire::ConnectionAge;
