//! The record of a request: what its listener and the protocol say of it, until the last of them drops it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{Extensions, StatusCode};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::line::{Field, Line};
use super::queue::AuditQueue;
use super::{AnswerEnd, AuditedRequest};

/// The record of a request. Clones are the same; the line is queued when the last one is dropped.
#[derive(Debug, Clone)]
pub struct AuditRecord(Arc<RecordState>);

#[derive(Debug)]
struct RecordState {
    queue: Arc<AuditQueue>,
    began: Instant,
    received: AtomicU64,
    line: Mutex<Line>,
}

impl Drop for RecordState {
    fn drop(&mut self) {
        let took = self.began.elapsed();
        self.queue.push(self.line.get_mut().finish(*self.received.get_mut(), took));
    }
}

impl AuditRecord {
    /// Begins the record of a request.
    pub fn begin(queue: &Arc<AuditQueue>, request: &AuditedRequest<'_>) -> Self {
        Self(Arc::new(RecordState {
            queue: Arc::clone(queue),
            began: Instant::now(),
            received: AtomicU64::new(0),
            line: Mutex::new(Line::begin(request)),
        }))
    }

    /// The record among the extensions of a request; `None` where no lines are wanted.
    pub fn of(extensions: &Extensions) -> Option<&Self> {
        extensions.get()
    }

    /// Names the id that the answer shows.
    pub fn name_request(&self, id: &str) {
        self.0.line.lock().name(Field::RequestId, id);
    }

    /// Names the operation.
    pub fn name_operation(&self, operation: &'static str) {
        self.0.line.lock().operation = Some(operation);
    }

    /// Names the bucket and the key that are addressed; an empty text names nothing. The first names stay.
    pub fn name_object(&self, bucket: &str, key: &str) {
        let mut line = self.0.line.lock();
        for (field, name) in [(Field::Bucket, bucket), (Field::Key, key)] {
            if !name.is_empty() {
                line.name(field, name);
            }
        }
    }

    /// Names the caller, once that is proven: an ARN, or `anonymous`. The first name stays.
    pub fn name_caller(&self, caller: &str) {
        self.0.line.lock().name(Field::Caller, caller);
    }

    /// Names the access key. One that does not exist may be a secret in the wrong place, so it is named only
    /// where it has the form that IAM gives to ids. The first name stays.
    pub fn name_access_key(&self, id: &str, exists: bool) {
        if exists || has_form_of_id(id) {
            self.0.line.lock().name(Field::AccessKey, id);
        }
    }

    /// Names the error code of the answer.
    pub fn fail(&self, code: &'static str) {
        self.0.line.lock().code = Some(code);
    }

    /// Counts bytes of the request's body.
    pub fn received(&self, bytes: usize) {
        self.0.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The head of the answer is there.
    pub fn answered(&self, status: StatusCode) {
        let after = self.0.began.elapsed();
        let mut line = self.0.line.lock();
        (line.status, line.first_byte) = (Some(status.as_u16()), Some(after));
    }

    /// The body of the answer ended, after `sent` bytes.
    pub fn ended(&self, sent: u64, end: AnswerEnd) {
        let mut line = self.0.line.lock();
        (line.sent, line.end) = (sent, end);
    }
}

/// Whether an access key is written as the ids of keys are that IAM gives out.
fn has_form_of_id(id: &str) -> bool {
    let rest = id.strip_prefix("AKIA").or_else(|| id.strip_prefix("ASIA"));
    rest.is_some_and(|rest| {
        rest.len() == 16 && rest.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
    })
}
