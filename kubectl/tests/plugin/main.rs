//! `kubectl sherd` against an API server in memory, whose pods are nodes in memory behind real TLS.

mod server;
mod node;
mod status;
mod users;
mod logs;
mod support;
