//! The answer to a head that cannot be read as a request, or is too long.
//!
//! HTTP refuses it before a service sees it, by a status without a body: the one answer that is written while
//! a connection waits for a head. The transport hands it to here, and another one goes to the socket in its
//! place, with the document and the id that every refusal has. Where an answer before it still waits for the
//! socket, the bare one goes behind that.

use std::fmt;
use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};

/// Makes the answer to a head that HTTP refuses with this status.
pub type RefuseHead = Arc<dyn Fn(StatusCode) -> Response<Bytes> + Send + Sync>;

/// The answer of one connection to a head that is refused, which is its last.
#[derive(Default, Clone)]
pub(super) struct RefusedHead {
    /// Makes it; absent where HTTP's own stays as it is.
    refuse: Option<RefuseHead>,
    /// The bytes of it that are still to be written, once there is one.
    left: Option<Bytes>,
}

impl RefusedHead {
    /// A connection without such a head yet.
    pub(super) fn new(refuse: RefuseHead) -> Self {
        Self { refuse: Some(refuse), left: None }
    }

    /// The bytes that are still to be written in place of a bare answer.
    pub(super) fn in_place_of(&mut self, bare: &[u8]) -> &mut Bytes {
        let refuse = self.refuse.as_ref();
        self.left.get_or_insert_with(|| {
            let answer = refuse.and_then(|refuse| written(bare, refuse));
            answer.unwrap_or_else(|| Bytes::copy_from_slice(bare))
        })
    }
}

impl fmt::Debug for RefusedHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefusedHead").field("left", &self.left).finish_non_exhaustive()
    }
}

/// An answer as HTTP writes it, dated as the bare one is.
fn written(bare: &[u8], refuse: &RefuseHead) -> Option<Bytes> {
    let head = std::str::from_utf8(bare).ok()?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let (parts, body) = refuse(status).into_parts();
    let mut answer = Vec::with_capacity(body.len() + bare.len());
    write!(answer, "HTTP/1.1 {}\r\n", parts.status).ok()?;
    for (name, value) in &parts.headers {
        write!(answer, "{name}: ").ok()?;
        answer.extend_from_slice(value.as_bytes());
        answer.extend_from_slice(b"\r\n");
    }
    if let Some(date) = head.lines().find(|line| line.starts_with("date: ")) {
        write!(answer, "{date}\r\n").ok()?;
    }
    write!(answer, "content-length: {}\r\nconnection: close\r\n\r\n", body.len()).ok()?;
    answer.extend_from_slice(&body);
    Some(answer.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_answer_stands_in_place_of_a_bare_one() {
        let refuse: RefuseHead = Arc::new(|status| {
            let document = Bytes::from(format!("<Error>{}</Error>", status.as_u16()));
            Response::builder().status(400).header("x-amz-request-id", "7").body(document).expect("valid")
        });
        let bare =
            b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ndate: today\r\n\r\n";
        let mut refused = RefusedHead::new(refuse);
        let answer = refused.in_place_of(bare);
        assert_eq!(
            String::from_utf8_lossy(answer),
            "HTTP/1.1 400 Bad Request\r\nx-amz-request-id: 7\r\ndate: today\r\ncontent-length: 18\r\n\
             connection: close\r\n\r\n<Error>431</Error>"
        );
        answer.clear();
        assert!(refused.in_place_of(bare).is_empty(), "there is one");
    }

    #[test]
    fn what_is_no_answer_goes_as_it_is() {
        for bytes in [&b"HTTP/2"[..], b"HTTP/1.1 x", b"", b"\xff"] {
            let mut refused = RefusedHead::new(Arc::new(|_| Response::new(Bytes::new())));
            assert_eq!(refused.in_place_of(bytes), bytes);
            assert_eq!(RefusedHead::default().in_place_of(bytes), bytes);
        }
    }
}
