//! HTTP/1.1 messages as bytes: where they end, and what their heads say. Malformed ones are kept as they are.

/// The head of a message as it travels; bytes are kept as the characters of the same number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    /// The request line or the status line.
    pub(crate) first: String,
    /// Each line behind it: its name and its value, with nothing of either taken away.
    pub(crate) lines: Vec<(String, String)>,
}

/// A request as it was recorded.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// Number of the recording's connection that it came through.
    pub(crate) connection: u64,
    /// Nothing where the bytes have no end of a head; all of them are the body then.
    pub(crate) head: Option<Head>,
    pub(crate) body: Vec<u8>,
    /// Whether the client sent all that the head announces.
    pub(crate) is_whole: bool,
    /// Whether the client said that no more comes before it was answered.
    pub(crate) is_half_closed: bool,
    /// The answer that was recorded with it.
    pub(crate) recorded: Option<Answer>,
}

/// An answer, or what came of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The status lines of interim answers before it.
    pub(crate) interim: Vec<String>,
    pub(crate) head: Head,
    /// The body without its framing.
    pub(crate) body: Vec<u8>,
    /// Whether all of it came.
    pub(crate) is_whole: bool,
}

/// Bytes as characters of the same number.
pub(crate) fn characters(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

/// The bytes that [`characters`] were made from.
pub(crate) fn bytes(text: &str) -> Vec<u8> {
    text.chars().map(|character| u8::try_from(u32::from(character)).unwrap_or(b'?')).collect()
}

impl Head {
    /// Takes a head from the front of some bytes, and says how many it has.
    pub(crate) fn split(input: &[u8]) -> Option<(Self, usize)> {
        let end = input.windows(4).position(|window| window == b"\r\n\r\n")?;
        let text = characters(&input[..end]);
        let mut lines = text.split("\r\n");
        let first = lines.next().unwrap_or_default().to_owned();
        let lines = lines.map(|line| line.split_once(':').unwrap_or((line, "\u{0}")));
        let lines = lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Some((Self { first, lines }, end + 4))
    }

    /// The bytes that travel.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut text = format!("{}\r\n", self.first);
        for (name, value) in &self.lines {
            text.push_str(name);
            if value != "\u{0}" {
                text.push(':');
                text.push_str(value);
            }
            text.push_str("\r\n");
        }
        text.push_str("\r\n");
        bytes(&text)
    }

    /// Values of a header, trimmed, in their order.
    pub(crate) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let lines = self.lines.iter().filter(move |(found, _)| found.trim().eq_ignore_ascii_case(name));
        lines.map(|(_, value)| value.trim_matches([' ', '\t', '\u{0}']))
    }

    /// The first value of a header.
    pub(crate) fn value<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.values(name).next()
    }

    pub(crate) fn method(&self) -> &str {
        self.first.split(' ').next().unwrap_or_default()
    }

    pub(crate) fn target(&self) -> &str {
        self.first.split(' ').nth(1).unwrap_or_default()
    }

    pub(crate) fn status(&self) -> u16 {
        self.first.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    /// Whether the client waits before it sends the body.
    pub(crate) fn expects(&self) -> bool {
        self.value("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue"))
    }

    fn is_chunked(&self) -> bool {
        self.values("transfer-encoding").any(|value| value.eq_ignore_ascii_case("chunked"))
    }
}

/// Where the body of a request ends: its bytes, and whether that is all of it.
pub(crate) fn request_body(head: &Head, rest: &[u8]) -> (usize, bool) {
    if head.is_chunked() {
        return framed_body(rest).map_or((rest.len(), false), |(used, _)| (used, true));
    }
    let len = head.value("content-length").and_then(|len| len.parse::<u64>().ok()).unwrap_or(0);
    match usize::try_from(len) {
        Ok(len) if len <= rest.len() => (len, true),
        _ => (rest.len(), false),
    }
}

/// Takes an answer from the front of some bytes and says how many it has; nothing while it is not whole and
/// `is_ended` does not say that no more comes.
pub(crate) fn split_answer(input: &[u8], is_head: bool, is_ended: bool) -> Option<(Answer, usize)> {
    let (mut interim, mut at) = (Vec::new(), 0);
    let head = loop {
        let (head, len) = Head::split(&input[at..])?;
        at += len;
        if !(100..200).contains(&head.status()) {
            break head;
        }
        interim.push(head.first);
    };
    let rest = &input[at..];
    let status = head.status();
    let has_none = is_head || matches!(status, 204 | 304);
    let (used, body, is_whole) = if has_none {
        (0, Vec::new(), true)
    } else if head.is_chunked() {
        match framed_body(rest) {
            Some((used, body)) => (used, body, true),
            None => (rest.len(), rest.to_vec(), false),
        }
    } else if let Some(len) = head.value("content-length").and_then(|len| len.parse::<usize>().ok()) {
        let used = len.min(rest.len());
        (used, rest[..used].to_vec(), used == len)
    } else {
        (rest.len(), rest.to_vec(), is_ended)
    };
    (is_whole || is_ended).then(|| (Answer { interim, head, body, is_whole }, at + used))
}

/// The bytes of a chunked body up to its end, and what they hold.
fn framed_body(input: &[u8]) -> Option<(usize, Vec<u8>)> {
    let (mut at, mut body) = (0, Vec::new());
    loop {
        let line = input.get(at..)?.windows(2).position(|window| window == b"\r\n")?;
        let text = std::str::from_utf8(&input[at..at + line]).ok()?;
        let len = usize::from_str_radix(text.split(';').next()?.trim(), 16).ok()?;
        at += line + 2;
        if len == 0 {
            // Trailers, then an empty line.
            loop {
                let line = input.get(at..)?.windows(2).position(|window| window == b"\r\n")?;
                at += line + 2;
                if line == 0 {
                    return Some((at, body));
                }
            }
        }
        body.extend_from_slice(input.get(at..at + len)?);
        at += len + 2;
    }
}

#[test]
fn a_head_is_written_as_it_was_read() {
    let bytes = b"GET /a HTTP/1.1\r\nHost:  x\r\nno colon\r\nempty:\r\nname: k\xe4se\r\n\r\nrest";
    let (head, len) = Head::split(bytes).expect("it has an end");
    assert_eq!(&bytes[len..], b"rest");
    assert_eq!(head.bytes(), bytes[..len]);
    assert_eq!((head.value("host"), head.value("no colon")), (Some("x"), Some("")));
    assert!(Head::split(b"GET /a HTTP/1.1\r\nHost: x\r\n").is_none());
}

#[test]
fn an_answer_ends_where_its_head_says() {
    let of = |text: &str, is_head, is_ended| {
        let (answer, len) = split_answer(text.as_bytes(), is_head, is_ended)?;
        Some((answer.interim.len(), characters(&answer.body), answer.is_whole, len == text.len()))
    };
    let body = |text: &str, is_whole| Some((0, text.to_owned(), is_whole, true));
    let five = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
    assert_eq!(of(five, true, false), body("", true));
    assert_eq!(of(&format!("{five}abcd"), false, false), None);
    assert_eq!(of(&format!("{five}abcd"), false, true), body("abcd", false));
    assert_eq!(of(&format!("{five}abcdeHTTP"), false, false), Some((0, "abcde".to_owned(), true, false)));
    let interim = format!("HTTP/1.1 100 Continue\r\n\r\n{five}abcde");
    assert_eq!(of(&interim, false, false), Some((1, "abcde".to_owned(), true, true)));
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
    assert_eq!(of(chunked, false, false), body("abcde", true));
    assert_eq!(of(&chunked[..chunked.len() - 1], false, false), None);
    assert_eq!(of("HTTP/1.1 204 No Content\r\n\r\n", false, false), body("", true));
    assert_eq!(of("HTTP/1.1 200 OK\r\n\r\nto the end", false, true), body("to the end", true));
}
