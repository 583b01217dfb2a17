//! The ground floor: what of HTTP and XML every floor above reads and writes.

pub mod address;
pub mod aws_chunked;
pub mod body;
pub mod checksum;
pub mod context;
pub mod form;
pub mod limits;
pub mod query;
pub mod refusal;
pub(crate) mod system_headers;
pub(crate) mod xml;
