//! The line of a request: one JSON object, whose texts are written as soon as they are known.
//!
//! Texts are cut to a length, and everything in them that a terminal or a reader of lines could take for
//! more than text is escaped. A field that is not known is `null`.

use std::fmt::Write as _;
use std::mem;
use std::time::Duration;

use http::header::USER_AGENT;
use sherd_signature::amz_date::AmzDate;

use super::limits::{
    ACCESS_KEY_BYTES_MAX, BUCKET_BYTES_MAX, CALLER_BYTES_MAX, KEY_BYTES_MAX, LINE_BYTES, METHOD_BYTES_MAX,
    REQUEST_ID_BYTES_MAX, USER_AGENT_BYTES_MAX,
};
use super::{AnswerEnd, AuditedRequest};

/// A text that becomes known while the request runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    RequestId,
    Bucket,
    Key,
    Caller,
    AccessKey,
}

impl Field {
    const ALL: [Self; 5] = [Self::RequestId, Self::Bucket, Self::Key, Self::Caller, Self::AccessKey];

    /// The field's name, and how many bytes of its value are kept.
    const fn form(self) -> (&'static str, usize) {
        match self {
            Self::RequestId => ("request_id", REQUEST_ID_BYTES_MAX),
            Self::Bucket => ("bucket", BUCKET_BYTES_MAX),
            Self::Key => ("key", KEY_BYTES_MAX),
            Self::Caller => ("caller", CALLER_BYTES_MAX),
            Self::AccessKey => ("access_key", ACCESS_KEY_BYTES_MAX),
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A line that is not whole yet.
#[derive(Debug)]
pub(super) struct Line {
    text: String,
    /// The fields that are written.
    named: u8,
    pub(super) operation: Option<&'static str>,
    pub(super) code: Option<&'static str>,
    pub(super) status: Option<u16>,
    pub(super) first_byte: Option<Duration>,
    pub(super) sent: u64,
    pub(super) end: AnswerEnd,
}

impl Line {
    pub(super) fn begin(request: &AuditedRequest<'_>) -> Self {
        let AuditedRequest { service, node, wall_ms, source, certificate, method, headers } = request;
        let mut text = String::with_capacity(LINE_BYTES);
        text.push_str("{\"time\":\"");
        push_time(&mut text, *wall_ms);
        text.push('"');
        push_field(&mut text, "node", Some(*node).filter(|node| !node.is_empty()), CALLER_BYTES_MAX);
        push_field(&mut text, "service", Some(service), METHOD_BYTES_MAX);
        if source.address.is_unspecified() {
            text.push_str(",\"source\":null");
        } else {
            push(&mut text, format_args!(",\"source\":\"{}\"", source.address));
        }
        push(&mut text, format_args!(",\"tls\":{}", source.is_secure));
        push_field(&mut text, "certificate", *certificate, CALLER_BYTES_MAX);
        push_field(&mut text, "method", Some(method.as_str()), METHOD_BYTES_MAX);
        let agent = headers.get(USER_AGENT).map(|agent| String::from_utf8_lossy(agent.as_bytes()));
        push_field(&mut text, "user_agent", agent.as_deref(), USER_AGENT_BYTES_MAX);
        Self {
            text,
            named: 0,
            operation: None,
            code: None,
            status: None,
            first_byte: None,
            sent: 0,
            end: AnswerEnd::CutOff,
        }
    }

    /// Writes a field, unless it is there.
    pub(super) fn name(&mut self, field: Field, value: &str) {
        if self.named & field.bit() == 0 {
            self.named |= field.bit();
            let (name, bytes_max) = field.form();
            push_field(&mut self.text, name, Some(value), bytes_max);
        }
    }

    /// Takes the whole line, with its end.
    pub(super) fn finish(&mut self, received: u64, took: Duration) -> String {
        let mut text = mem::take(&mut self.text);
        for field in Field::ALL.into_iter().filter(|field| self.named & field.bit() == 0) {
            push_field(&mut text, field.form().0, None, 0);
        }
        push_field(&mut text, "operation", self.operation, usize::MAX);
        match self.status {
            Some(status) => push(&mut text, format_args!(",\"status\":{status}")),
            None => text.push_str(",\"status\":null"),
        }
        push_field(&mut text, "code", self.code, usize::MAX);
        push(&mut text, format_args!(",\"bytes_in\":{received},\"bytes_out\":{}", self.sent));
        match self.first_byte {
            Some(after) => push(&mut text, format_args!(",\"first_byte_ms\":{}", Milliseconds(after))),
            None => text.push_str(",\"first_byte_ms\":null"),
        }
        let end = match self.end {
            AnswerEnd::Complete => "complete",
            AnswerEnd::CutOff => "cut_off",
            AnswerEnd::Failed => "failed",
        };
        push(&mut text, format_args!(",\"ms\":{},\"end\":\"{end}\"}}\n", Milliseconds(took)));
        text
    }
}

/// A time in milliseconds, to the microsecond.
struct Milliseconds(Duration);

impl std::fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0.as_millis(), self.0.subsec_micros() % 1000)
    }
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("a string takes everything");
}

/// Appends a time as RFC 3339 has it, to the millisecond.
fn push_time(text: &mut String, wall_ms: u64) {
    let date = AmzDate::from_ms(wall_ms);
    let (second, _) = date.as_str().split_at(15);
    for (at, digit) in second.char_indices() {
        match at {
            4 | 6 => text.push('-'),
            11 | 13 => text.push(':'),
            _ => {}
        }
        text.push(digit);
    }
    push(text, format_args!(".{:03}Z", wall_ms % 1000));
}

/// Appends a field behind others.
fn push_field(text: &mut String, name: &str, value: Option<&str>, bytes_max: usize) {
    text.push_str(",\"");
    text.push_str(name);
    text.push_str("\":");
    let Some(value) = value else { return text.push_str("null") };
    text.push('"');
    let end = value.floor_char_boundary(bytes_max);
    for character in value[..end].chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            // Line ends, and what moves a terminal's cursor or turns its text around.
            '\u{0}'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{feff}' => {
                push(text, format_args!("\\u{:04x}", u32::from(character)));
            }
            _ => text.push(character),
        }
    }
    text.push('"');
}
