//! Limits of one request, and of what is held for it.

use std::time::Duration;

use sherd_core::limits::{BODY_MS_MAX, HEADERS_MAX};

/// Limits of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Headers of a request. The listener refuses more than [`HEADERS_MAX`] by itself.
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
            header_count_max: HEADERS_MAX,
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

/// Microseconds between two log lines about one name that is lacking.
pub(crate) const LACKING_LOG_EVERY_US: u64 = 60_000_000;
/// Times that a caller is looked up again because it changed while its bucket was looked up, at most.
pub(crate) const CALLER_LOOKUPS_MAX: usize = 16;
/// Bytes of a body that is taken and dropped where there should be none.
pub(crate) const UNWANTED_BYTES_MAX: u64 = 64 << 10;
/// Bytes of a frame's head: 16 digits of length, the signature, and room for nothing else.
pub(crate) const FRAME_HEAD_BYTES_MAX: usize = 128;
/// Bytes of one trailer line; a checksum and a signature are far shorter.
pub(crate) const TRAILER_LINE_BYTES_MAX: usize = 256;
/// Bytes that every frame but the last must have (AWS, "Transferring Payload in Multiple Chunks").
pub const FRAME_BYTES_MIN: u64 = 8192;
/// Bytes that a short document takes at most beside a multiple of its own: keys of one letter.
pub(crate) const SHORT_EXTRA_BYTES_MAX: u64 = 256 << 10;
/// Bytes of a short document. Longer ones have a room of their own, so none of them keeps a short one
/// waiting. As many short ones arrive as there are requests.
pub(crate) const SHORT_DOCUMENT_BYTES_MAX: u64 = 64 << 10;
/// Rows of a list for which no other number is asked.
pub(crate) const LISTED_ROWS_MAX: u32 = 1000;
/// Answers that take no room: no more than a connection's own buffers.
pub(crate) const ANSWER_BYTES_MIN: usize = 16 << 10;
/// How long a request waits for room for its document or its list.
pub(crate) const ROOM_PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a boundary (RFC 2046, section 5.1.1).
pub(crate) const BOUNDARY_BYTES_MAX: usize = 70;
/// Bytes of a form before its file, boundaries and heads of parts among them: 20 KB (AWS, "HTML form
/// fields").
pub(crate) const FORM_FIELDS_BYTES_MAX: usize = 20 << 10;
/// Bytes of a form behind its file, which mean nothing: a button and some fields are far shorter.
pub(crate) const FORM_REST_BYTES_MAX: u64 = 1 << 20;
