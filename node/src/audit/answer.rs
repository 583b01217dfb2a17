//! Counts the bytes of an answer's body that went to the connection, for its line.

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Response};
use http_body::{Body, Frame};
use sherd_front::audit::record::AuditRecord;
use sherd_front::audit::{AnswerEnd, ErrorCode};

/// The count of one answer. Dropped with the body.
#[derive(Debug)]
pub struct AnswerCount {
    record: AuditRecord,
    /// Bytes that the head of the answer promises.
    promised: Option<u64>,
    sent: u64,
    end: Option<AnswerEnd>,
}

impl AnswerCount {
    /// Begins with the head of an answer.
    pub fn begin<B: Body>(record: AuditRecord, response: &Response<B>) -> Self {
        record.answered(response.status());
        if let Some(ErrorCode(code)) = response.extensions().get() {
            record.fail(code);
        }
        let length = response.headers().get(CONTENT_LENGTH).map(HeaderValue::to_str);
        let length = length.and_then(|length| length.ok()?.parse().ok());
        let promised = length.or_else(|| response.body().size_hint().exact());
        let end = response.body().is_end_stream().then_some(AnswerEnd::Complete);
        Self { record, promised, sent: 0, end }
    }

    /// Counts a frame, or the end.
    pub fn count<E>(&mut self, frame: Option<&Result<Frame<Bytes>, E>>) {
        match frame {
            None => self.end = Some(AnswerEnd::Complete),
            Some(Err(_)) => self.end = Some(AnswerEnd::Failed),
            Some(Ok(frame)) => {
                self.sent += frame.data_ref().map_or(0, |data| data.len() as u64);
                // A body of a known length is not asked for its end.
                if self.promised == Some(self.sent) {
                    self.end = Some(AnswerEnd::Complete);
                }
            }
        }
    }
}

impl Drop for AnswerCount {
    fn drop(&mut self) {
        self.record.ended(self.sent, self.end.unwrap_or(AnswerEnd::CutOff));
    }
}
