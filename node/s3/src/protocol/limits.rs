//! Limits of one request.

use std::time::Duration;

use sherd_core::limits::BODY_MS_MAX;

/// Limits of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Headers of a request. hyper refuses more than 100 by itself.
    pub header_count_max: usize,
    /// Bytes of names and values of all headers. AWS allows 8 KiB; room for proxies is added.
    pub header_bytes_max: usize,
    /// Bytes of path and query: a key, a prefix, a marker and a token, each escaped whole.
    pub uri_bytes_max: usize,
    /// Bytes of an XML document: 1,000 keys of 1,024 bytes, each escaped at its worst.
    pub xml_bytes_max: u64,
    /// Bytes that the XML documents of all requests, with what is made of them, and lists take together.
    pub xml_room_bytes: usize,
    /// Bytes of one signed aws-chunked frame.
    pub signed_frame_bytes_max: u64,
    /// How long a body may stand still.
    pub body_idle: Duration,
    /// How long a whole body may take.
    pub body_whole: Duration,
    /// How long the shortest XML document may take; a longer one has a second more for each 32 KiB. Who
    /// trickles keeps from others the room in which long ones arrive.
    pub document_whole: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_count_max: 100,
            header_bytes_max: 16 << 10,
            uri_bytes_max: 16 << 10,
            xml_bytes_max: 8 << 20,
            xml_room_bytes: 64 << 20,
            signed_frame_bytes_max: 16 << 20,
            body_idle: Duration::from_secs(20),
            body_whole: Duration::from_millis(BODY_MS_MAX),
            document_whole: Duration::from_secs(10),
        }
    }
}
