//! The comparison of two servers' answers to one request.
//!
//! Values that a server makes by itself (upload ids, its request's id, moments) are learned from where they
//! stand in an answer, exchanged for those of the recording, and compared by their form alone. All else is
//! compared byte for byte: status, the headers with their order, the body.

use crate::message::{Answer, Head, bytes, characters};

/// Elements whose text a later request may repeat.
const REPEATED: &[&str] =
    &["UploadId", "UploadIdMarker", "NextUploadIdMarker", "LastModified", "CreationDate", "Initiated"];
/// Elements whose text is compared by its form.
const FORMS: &[&str] = &[
    "UploadId",
    "UploadIdMarker",
    "NextUploadIdMarker",
    "LastModified",
    "CreationDate",
    "Initiated",
    "RequestId",
    "HostId",
    "ServerTime",
];
/// Headers whose values are compared by their form.
const FORM_HEADERS: &[&str] = &["date", "last-modified", "x-amz-request-id", "x-amz-id-2"];
/// Bytes of a value that is long enough to be exchanged wherever it stands.
const LEARNED_LEN_MIN: usize = 16;
/// Bytes of a body that a difference shows, before and after its place.
const SHOWN: usize = 60;

/// One server's values for those of the recording.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    /// Whether entity tags are made by the server, too.
    has_own_etags: bool,
    pairs: Vec<(String, String)>,
}

impl Learned {
    pub(crate) fn new(has_own_etags: bool) -> Self {
        Self { has_own_etags, pairs: Vec::new() }
    }

    /// Takes the values that stand at the same places of both answers.
    pub(crate) fn learn(&mut self, recorded: &Answer, answer: &Answer) {
        let elements = REPEATED.iter().chain(if self.has_own_etags { &["ETag"][..] } else { &[] });
        for name in elements {
            self.pair(
                elements_of(&characters(&recorded.body), name),
                elements_of(&characters(&answer.body), name),
            );
        }
        for name in ["last-modified", "etag"].iter().take(if self.has_own_etags { 2 } else { 1 }) {
            let values = |answer: &Answer| answer.head.values(name).map(str::to_owned).collect();
            self.pair(values(recorded), values(answer));
        }
    }

    fn pair(&mut self, recorded: Vec<String>, own: Vec<String>) {
        if recorded.len() != own.len() {
            return;
        }
        // Quotes are written in more than one way.
        let bare = |text: String| text.replace("&quot;", "").replace('"', "");
        for (recorded, own) in recorded.into_iter().map(bare).zip(own.into_iter().map(bare)) {
            if recorded == own || recorded.len() < LEARNED_LEN_MIN || own.len() < LEARNED_LEN_MIN {
                continue;
            }
            self.pairs.retain(|(known, _)| *known != recorded);
            self.pairs.push((recorded, own));
        }
    }

    /// Puts the server's values where those of the recording stand.
    pub(crate) fn own(&self, text: &str) -> String {
        self.pairs.iter().fold(text.to_owned(), |text, (recorded, own)| replaced(&text, recorded, own))
    }

    /// Puts the recording's values where those of the server stand.
    fn recorded(&self, text: &str) -> String {
        self.pairs.iter().fold(text.to_owned(), |text, (recorded, own)| replaced(&text, own, recorded))
    }

    /// An answer with all that the server made by itself as the recording has it, or as its form.
    pub(crate) fn comparable(&self, answer: &Answer) -> Answer {
        let lines = answer.head.lines.iter().map(|(name, value)| {
            let is_form = FORM_HEADERS.iter().any(|form| name.eq_ignore_ascii_case(form))
                || (self.has_own_etags && name.eq_ignore_ascii_case("etag"));
            (name.clone(), if is_form { form(value) } else { self.recorded(value) })
        });
        let head = Head { first: answer.head.first.clone(), lines: lines.collect() };
        let is_document = answer.head.value("content-type").is_some_and(|value| value.contains("xml"));
        let body = if is_document {
            let text = self.recorded(&characters(&answer.body));
            let forms = FORMS.iter().chain(if self.has_own_etags { &["ETag"][..] } else { &[] });
            bytes(&forms.fold(text, |text, name| formed(&text, name)))
        } else {
            answer.body.clone()
        };
        Answer { head, body, ..answer.clone() }
    }
}

fn replaced(text: &str, old: &str, new: &str) -> String {
    if text.contains(old) { text.replace(old, new) } else { text.to_owned() }
}

/// The texts of an element, in their order.
fn elements_of(text: &str, name: &str) -> Vec<String> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let parts = text.split(&open).skip(1);
    parts.filter_map(|part| part.split_once(&close)).map(|(text, _)| text.to_owned()).collect()
}

/// A document with the texts of an element as their forms.
fn formed(text: &str, name: &str) -> String {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut parts = text.split(&open);
    let mut formed = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        formed.push_str(&open);
        match part.split_once(&close) {
            Some((text, rest)) => formed.extend([form(text).as_str(), &close, rest]),
            None => formed.push_str(part),
        }
    }
    formed
}

/// The form of a value: letters and digits as `x`, all else as it is.
fn form(value: &str) -> String {
    value.chars().map(|one| if one.is_ascii_alphanumeric() { 'x' } else { one }).collect()
}

/// The result of sending a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Answer(Box<Answer>),
    /// The server ended the connection; these bytes came before.
    Closed(Vec<u8>),
    /// No answer came in time.
    Silent,
}

/// The differences, a line each; empty where the outcomes are the same.
pub(crate) fn differences(before: &Outcome, after: &Outcome) -> Vec<String> {
    let (before, after) = match (before, after) {
        (Outcome::Answer(before), Outcome::Answer(after)) => (before, after),
        (before, after) if before == after => return Vec::new(),
        (before, after) => return vec![format!("before: {}, after: {}", shown(before), shown(after))],
    };
    let mut found = Vec::new();
    if before.interim != after.interim {
        found.push(format!("interim answers: before {:?}, after {:?}", before.interim, after.interim));
    }
    if before.head.first != after.head.first {
        found.push(format!("status: before `{}`, after `{}`", before.head.first, after.head.first));
    }
    headers(&before.head, &after.head, &mut found);
    if before.body != after.body {
        found.push(body(&before.body, &after.body));
    }
    if before.is_whole != after.is_whole {
        found.push(format!("the body is whole: before {}, after {}", before.is_whole, after.is_whole));
    }
    found
}

fn headers(before: &Head, after: &Head, found: &mut Vec<String>) {
    if before.lines == after.lines {
        return;
    }
    let gone = before.lines.iter().filter(|line| !after.lines.contains(line));
    let new = after.lines.iter().filter(|line| !before.lines.contains(line));
    let lines: Vec<String> = gone
        .map(|(name, value)| format!("header: before only `{name}:{value}`"))
        .chain(new.map(|(name, value)| format!("header: after only `{name}:{value}`")))
        .collect();
    if lines.is_empty() {
        let names =
            |head: &Head| head.lines.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>().join(", ");
        found.push(format!("headers in another order: before {}; after {}", names(before), names(after)));
    }
    found.extend(lines);
}

fn body(before: &[u8], after: &[u8]) -> String {
    let place = before.iter().zip(after).take_while(|(one, other)| one == other).count();
    let around = |bytes: &[u8]| {
        let piece = &bytes[place.saturating_sub(SHOWN)..bytes.len().min(place + SHOWN)];
        String::from_utf8_lossy(piece).into_owned()
    };
    format!(
        "body: differs at byte {place}, before {} bytes, after {} bytes\n      before: ...{}...\n      after:  ...{}...",
        before.len(),
        after.len(),
        around(before),
        around(after)
    )
}

fn shown(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Answer(answer) => format!("`{}`", answer.head.first),
        Outcome::Closed(bytes) => format!("closed after {} bytes", bytes.len()),
        Outcome::Silent => "no answer".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::split_answer;

    fn answer(lines: &str, body: &str) -> Answer {
        let text = format!("HTTP/1.1 200 OK\r\n{lines}content-length: {}\r\n\r\n{body}", body.len());
        split_answer(text.as_bytes(), false, false).expect("it is whole").0
    }

    fn found(before: Answer, after: Answer) -> usize {
        let outcome = |answer| Outcome::Answer(Box::new(Learned::default().comparable(&answer)));
        differences(&outcome(before), &outcome(after)).len()
    }

    #[test]
    fn a_byte_of_an_answer_is_a_difference_wherever_it_stands() {
        let plain = || answer("a: 1\r\nb: 2\r\n", "body");
        assert_eq!(found(plain(), plain()), 0);
        assert_eq!(found(plain(), answer("a: 1\r\nb: 2\r\n", "bodz")), 1);
        assert_eq!(
            found(plain(), answer("a: 1\r\nb: 3\r\n", "body")),
            2,
            "a line that went and one that came"
        );
        assert_eq!(found(plain(), answer("a: 1\r\nB: 2\r\n", "body")), 2);
        assert_eq!(found(plain(), answer("b: 2\r\na: 1\r\n", "body")), 1, "the order");
        let mut status = plain();
        status.head.first = "HTTP/1.1 206 Partial Content".to_owned();
        assert_eq!(found(plain(), status), 1);
        let answered = Outcome::Answer(Box::new(plain()));
        assert_eq!(differences(&answered, &Outcome::Closed(Vec::new())).len(), 1);
        assert_eq!(differences(&Outcome::Silent, &Outcome::Silent).len(), 0);
    }

    #[test]
    fn moments_and_ids_of_requests_are_compared_by_their_form() {
        let of = |date: &str, id: &str| {
            let lines = format!("content-type: application/xml\r\nlast-modified: {date}\r\n");
            answer(&lines, &format!("<Error><RequestId>{id}</RequestId></Error>"))
        };
        let plain = || of("Fri, 24 May 2013 00:00:00 GMT", "00AB");
        assert_eq!(found(plain(), of("Sat, 25 May 2013 01:02:03 GMT", "F7C1")), 0);
        assert_eq!(found(plain(), of("2013-05-24T00:00:00Z", "00AB")), 2);
        assert_eq!(
            found(plain(), of("Fri, 24 May 2013 00:00:00 GMT", "00ABC")),
            3,
            "the length stands twice"
        );
    }

    #[test]
    fn an_id_that_a_server_made_is_its_own_in_requests_and_the_recordings_in_answers() {
        let of = |id: &str| {
            let body = format!("<R><UploadId>{id}</UploadId><Resource>/k/{id}</Resource></R>");
            answer("content-type: application/xml\r\n", &body)
        };
        let (recorded, own) = (of("0123456789abcdef"), of("fedcba9876543210"));
        let mut learned = Learned::new(false);
        learned.learn(&recorded, &own);
        assert_eq!(learned.own("/k?uploadId=0123456789abcdef"), "/k?uploadId=fedcba9876543210");
        assert_eq!(learned.comparable(&own), Learned::default().comparable(&recorded));
    }
}
