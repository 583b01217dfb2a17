//! TLS 1.3 of the benchmark: certificates of its own (`authority`), and the client's end of a connection
//! (`stream`).
//!
//! A store that speaks TLS is started with certificates of an authority that one run makes and that the load
//! generator trusts alone. The cryptography is *ring*, as in a node.

pub mod authority;
pub mod stream;
