//! One line for each request, by which an operator can say later which user did what: the record that grows
//! while a request runs, the line that it becomes, and the queue that lines wait in.
//!
//! ```text
//! listener: begin -> protocol: request, operation, object, caller, code -> listener: answered, ended
//!                                                 the last clone is dropped -> AuditQueue -> a writer
//! ```
//! A listener puts the [`AuditRecord`](record::AuditRecord) among the extensions of a request where lines are
//! wanted. A request that is given up without an answer has a line, too: every way out of a request drops its
//! record.

pub(crate) mod limits;
mod line;
pub mod queue;
pub mod record;

use http::{HeaderMap, Method};

use crate::source::Source;

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerEnd {
    /// All of it was given to the connection.
    Complete,
    /// The connection ended before, or the request was given up without an answer.
    CutOff,
    /// The answer's body failed: the rest of an object could not be read.
    Failed,
}

/// A request, as its listener sees it.
#[derive(Debug, Clone, Copy)]
pub struct AuditedRequest<'a> {
    /// The API that it is for: `s3` or `iam`.
    pub service: &'static str,
    /// The node that answers; empty for a node alone.
    pub node: &'a str,
    /// When its head was there, in milliseconds since the Unix epoch.
    pub wall_ms: u64,
    /// The place that it came from.
    pub source: Source,
    /// The name in the certificate of its sender, where it came over mutual TLS.
    pub certificate: Option<&'a str>,
    /// The method.
    pub method: &'a Method,
    /// The headers, of which the user agent is kept alone.
    pub headers: &'a HeaderMap,
}

/// The error code of an answer that is given in place of the protocol's, among the extensions of the answer.
#[derive(Debug, Clone, Copy)]
pub struct ErrorCode(pub &'static str);

#[cfg(test)]
mod tests;
