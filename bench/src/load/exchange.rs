//! One operation as requests and answers, and whether the answers are right.
//!
//! Without I/O: the engine takes the next request, passes the pieces of the answer's body in, and has the
//! whole answer judged; a multipart upload takes several rounds of that.

use std::fmt::Write as _;

use super::tally::Fault;
use super::work::{Source, Task};
use crate::client::checksum::Checksum;
use crate::client::payload::Payloads;
use crate::client::request::{Body, Deletion, Headers, Part, RequestBytes, Requests, in_query};
use crate::client::response::{Head, between};
use crate::limits::ANSWER_TEXT_BYTES_MAX;

/// The verdict on an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Right, and the operation goes on with another request.
    Next,
    /// Right, and the operation is done. The bytes of objects that it moved.
    Done(u64),
    /// Wrong: the operation ends here.
    Failed(Fault),
}

/// The request of a multipart upload that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MultipartStep {
    Only,
    Create,
    Part(u32),
    Complete,
}

/// One operation under way.
#[derive(Debug)]
pub struct Exchange {
    task: Task,
    step: MultipartStep,
    part_bytes: u64,
    checksum: Option<Checksum>,
    /// Bytes of the object that the operation is about.
    size: u64,
    /// Bytes of the object that have come.
    received: u64,
    wrong: bool,
    text: Vec<u8>,
    upload_id: String,
    etags: Vec<String>,
}

impl Exchange {
    /// No operation yet; multipart uploads in parts of `part_bytes`, PUTs with a `checksum`.
    pub fn new(part_bytes: u64, checksum: Option<Checksum>) -> Self {
        Self {
            task: Task::Get { key: 0 },
            step: MultipartStep::Only,
            part_bytes,
            checksum,
            size: 0,
            received: 0,
            wrong: false,
            text: Vec::new(),
            upload_id: String::new(),
            etags: Vec::new(),
        }
    }

    /// The operation.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// Bytes of the object that the answer has brought so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Begins `task`.
    pub fn begin(&mut self, task: Task, source: &Source) {
        self.step =
            if matches!(task, Task::Multipart { .. }) { MultipartStep::Create } else { MultipartStep::Only };
        self.size = source.keys().size.0;
        self.task = task;
        self.etags.clear();
    }

    /// Whether the answer to the request has no body even with a `content-length`: the answer to a HEAD.
    pub fn is_bodiless(&self) -> bool {
        matches!(self.task, Task::Head { .. })
    }

    /// Writes the next request into `out`.
    pub fn request(
        &mut self,
        source: &Source,
        payloads: &Payloads,
        requests: &mut Requests,
        out: &mut RequestBytes,
    ) {
        self.received = 0;
        self.wrong = false;
        self.text.clear();
        let keys = source.keys();
        match &self.task {
            Task::Put { key } => {
                let body = Body::Object(Part { key: *key, at: 0, end: self.size });
                let value = self.checksum.map(|checksum| checksum.value(payloads, *key, self.size));
                let checksum = self.checksum.zip(value.as_deref());
                let headers = Headers { checksum, more: "" };
                requests.build("PUT", |path| keys.name(*key, path), "", headers, body, out);
            }
            Task::Get { key } => {
                requests.build("GET", |path| keys.name(*key, path), "", Headers::NONE, Body::None, out);
            }
            Task::Head { key } => {
                requests.build("HEAD", |path| keys.name(*key, path), "", Headers::NONE, Body::None, out);
            }
            Task::Delete { key } => {
                requests.build("DELETE", |path| keys.name(*key, path), "", Headers::NONE, Body::None, out);
            }
            Task::List { place } => {
                let mut after = String::new();
                source.order().before(*place, &mut after);
                let delimiter = if source.order().is_of_folders() { "delimiter=%2F&" } else { "" };
                let query = format!(
                    "{delimiter}list-type=2&max-keys={}&prefix={}&start-after={}",
                    source.page(),
                    in_query(&keys.prefix),
                    in_query(&after)
                );
                requests.build("GET", |_| {}, &query, Headers::NONE, Body::None, out);
            }
            Task::DeleteObjects { keys: doomed } => {
                let names = doomed.iter().map(|key| move |xml: &mut String| keys.name(*key, xml));
                let Deletion { xml, headers } = Deletion::of(names);
                let headers = Headers { more: &headers, ..Headers::NONE };
                requests.build("POST", |_| {}, Deletion::QUERY, headers, Body::Text(xml.as_bytes()), out);
            }
            Task::Multipart { key } => self.multipart_request(*key, source, requests, out),
        }
    }

    fn multipart_request(&self, key: u64, source: &Source, requests: &mut Requests, out: &mut RequestBytes) {
        let name = |path: &mut String| source.keys().name(key, path);
        match self.step {
            MultipartStep::Only | MultipartStep::Create => {
                requests.build("POST", name, "uploads=", Headers::NONE, Body::Text(b""), out);
            }
            MultipartStep::Part(index) => {
                let at = u64::from(index) * self.part_bytes;
                let end = self.size.min(at + self.part_bytes);
                let query = format!("partNumber={}&uploadId={}", index + 1, in_query(&self.upload_id));
                let body = Body::Object(Part { key, at, end });
                requests.build("PUT", name, &query, Headers::NONE, body, out);
            }
            MultipartStep::Complete => {
                let mut xml = "<CompleteMultipartUpload>".to_owned();
                for (index, etag) in self.etags.iter().enumerate() {
                    let number = index + 1;
                    write!(xml, "<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>")
                        .expect("a string takes what is written");
                }
                xml.push_str("</CompleteMultipartUpload>");
                let query = format!("uploadId={}", in_query(&self.upload_id));
                let headers = Headers { more: "content-type: application/xml\r\n", ..Headers::NONE };
                requests.build("POST", name, &query, headers, Body::Text(xml.as_bytes()), out);
            }
        }
    }

    /// Takes a piece of the answer's body.
    pub fn body(&mut self, head: &Head, piece: &[u8], payloads: &Payloads) {
        match self.task {
            Task::Get { key } if head.status == 200 => {
                let right = self.received + piece.len() as u64 <= self.size
                    && payloads.verify(key, self.received, piece).is_ok();
                self.wrong |= !right;
                self.received += piece.len() as u64;
            }
            _ => {
                let room = ANSWER_TEXT_BYTES_MAX - self.text.len();
                self.wrong |= piece.len() > room;
                self.text.extend_from_slice(&piece[..piece.len().min(room)]);
            }
        }
    }

    /// Judges the answer, which is whole.
    pub fn judge(&mut self, head: &Head, source: &Source) -> Verdict {
        if !matches!(head.status, 200 | 204) {
            return Verdict::Failed(status_fault(head.status, &self.text));
        }
        let verdict = |right: bool, bytes: u64| {
            if right { Verdict::Done(bytes) } else { Verdict::Failed(Fault::WrongAnswer) }
        };
        match &self.task {
            Task::Put { .. } => verdict(head.status == 200, self.size),
            Task::Get { .. } if self.wrong => Verdict::Failed(Fault::WrongBytes),
            Task::Get { .. } => verdict(self.received == self.size, self.size),
            Task::Head { .. } => verdict(head.length == Some(self.size), 0),
            Task::Delete { .. } => verdict(true, 0),
            Task::List { place } => {
                let count = usize::try_from(source.page()).expect("a page fits in memory");
                verdict(!self.wrong && source.order().is_listed(*place, count, &self.text), 0)
            }
            Task::DeleteObjects { keys } => {
                let deleted = memchr::memmem::find_iter(&self.text, b"<Deleted>").count();
                verdict(deleted == keys.len() && memchr::memmem::find(&self.text, b"<Error>").is_none(), 0)
            }
            Task::Multipart { .. } => self.judge_multipart(head),
        }
    }

    fn judge_multipart(&mut self, head: &Head) -> Verdict {
        let parts = u32::try_from(self.size.div_ceil(self.part_bytes).max(1)).unwrap_or(u32::MAX);
        let next = match self.step {
            MultipartStep::Only | MultipartStep::Create => between(&self.text, "<UploadId>", "</UploadId>")
                .map(|id| {
                    self.upload_id = id;
                    MultipartStep::Part(0)
                }),
            MultipartStep::Part(index) => head.etag.clone().map(|etag| {
                self.etags.push(etag);
                if index + 1 < parts { MultipartStep::Part(index + 1) } else { MultipartStep::Complete }
            }),
            MultipartStep::Complete => {
                // A failure may come in an answer with status 200, because the status went out first.
                let right = memchr::memmem::find(&self.text, b"<CompleteMultipartUploadResult").is_some();
                return if right {
                    Verdict::Done(self.size)
                } else {
                    Verdict::Failed(status_fault(head.status, &self.text))
                };
            }
        };
        match next {
            Some(step) => {
                self.step = step;
                Verdict::Next
            }
            None => Verdict::Failed(Fault::WrongAnswer),
        }
    }
}

fn status_fault(status: u16, text: &[u8]) -> Fault {
    let code = between(text, "<Code>", "</Code>").unwrap_or_default();
    if status == 503 && (code.is_empty() || code.starts_with("SlowDown")) {
        return Fault::SlowDown;
    }
    Fault::Status(status, code.chars().take(64).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::keys::Keys;
    use crate::load::sizes::Size;
    use crate::load::work::{Choice, Op, RunState};
    use std::sync::Arc;

    fn source() -> Source {
        let keys = Keys { end: 5, ..Keys::new("p/", Size(20)) };
        let choice = Choice { op: Op::Get, mix: None, page: 1000, overwrite: None, seed: 1 };
        Source::new(&choice, &keys, &keys.order(), &Arc::new(RunState::new(&keys)), 0, 1)
    }

    fn begun(task: Task) -> Exchange {
        let mut exchange = Exchange::new(8, None);
        exchange.begin(task, &source());
        exchange
    }

    fn answer(exchange: &mut Exchange, status: u16, text: &str) -> Verdict {
        let head = Head { status, etag: Some("\"e\"".to_owned()), ..Head::default() };
        exchange.text.clear();
        exchange.body(&head, text.as_bytes(), &Payloads::with_pool(1, 64));
        exchange.judge(&head, &source())
    }

    #[test]
    fn only_overload_is_slow_down() {
        for (status, text, fault) in [
            (503, "<Error><Code>SlowDown</Code></Error>", Fault::SlowDown),
            (503, "<Error><Code>SlowDownWrite</Code></Error>", Fault::SlowDown),
            (503, "", Fault::SlowDown),
            (503, "<Code>ServerNotInitialized</Code>", Fault::Status(503, "ServerNotInitialized".to_owned())),
            (404, "<Code>NoSuchKey</Code>", Fault::Status(404, "NoSuchKey".to_owned())),
            (301, "", Fault::Status(301, String::new())),
        ] {
            assert_eq!(answer(&mut begun(Task::Put { key: 1 }), status, text), Verdict::Failed(fault));
        }
    }

    #[test]
    fn an_upload_goes_part_by_part_and_fails_inside_a_200_too() {
        let mut exchange = begun(Task::Multipart { key: 1 });
        assert_eq!(answer(&mut exchange, 200, "<UploadId>u</UploadId>"), Verdict::Next);
        // 20 bytes in parts of 8 are three.
        for _ in 0..3 {
            assert_eq!(answer(&mut exchange, 200, ""), Verdict::Next);
        }
        assert_eq!(exchange.step, MultipartStep::Complete);
        let wrong = answer(&mut exchange, 200, "<Error><Code>InternalError</Code></Error>");
        assert_eq!(wrong, Verdict::Failed(Fault::Status(200, "InternalError".to_owned())));
        let right = answer(&mut exchange, 200, "<CompleteMultipartUploadResult></...>");
        assert_eq!(right, Verdict::Done(20));
    }

    #[test]
    fn answers_that_are_not_right_are_no_operations() {
        let wrong = Verdict::Failed(Fault::WrongAnswer);
        assert_eq!(answer(&mut begun(Task::Multipart { key: 1 }), 200, "no id"), wrong);
        let page = || begun(Task::DeleteObjects { keys: vec![1, 2] });
        assert_eq!(answer(&mut page(), 200, "<Deleted></Deleted>"), wrong);
        assert_eq!(answer(&mut page(), 200, "<Deleted></Deleted><Deleted></Deleted><Error></Error>"), wrong);
        assert_eq!(answer(&mut page(), 200, "<Deleted></Deleted><Deleted></Deleted>"), Verdict::Done(0));
        let mut head = begun(Task::Head { key: 1 });
        let of_length = |length| Head { status: 200, length: Some(length), ..Head::default() };
        assert_eq!(head.judge(&of_length(19), &source()), wrong);
        assert_eq!(head.judge(&of_length(20), &source()), Verdict::Done(0));
        let text = "x".repeat(ANSWER_TEXT_BYTES_MAX + 1);
        assert_eq!(answer(&mut begun(Task::List { place: 1 }), 200, &text), wrong);
    }
}
