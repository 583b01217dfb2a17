//! The writer: a thread that takes lines from the queue and writes them, batch after batch.
//!
//! A batch that cannot be written is tried again until it can, from the byte on where the last try ended: a
//! disk that was full has no line twice, and no half of one. In another file the line begins again. Meanwhile
//! the queue fills, and then drops lines.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;

use sherd_core::env::Clock;
use sherd_front::audit::queue::{AuditBatch, AuditQueue};
use sherd_store::observe::metrics::AuditMetrics;

use super::file::{self, AuditTarget, FileIdentity};
use super::limits::{FAILURE_LOGGED_EVERY, RETRY_PAUSE};

/// Writes the lines of a queue.
pub(super) struct Writer {
    queue: Arc<AuditQueue>,
    target: AuditTarget,
    metrics: AuditMetrics,
    clock: Arc<dyn Clock>,
    open: Option<File>,
    /// The file that was open last.
    last: Option<FileIdentity>,
    /// When a failure was logged last, in microseconds of the clock.
    failure_logged_us: Option<u64>,
}

impl Writer {
    pub(super) fn new(
        queue: Arc<AuditQueue>,
        target: AuditTarget,
        metrics: AuditMetrics,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { queue, target, metrics, clock, open: None, last: None, failure_logged_us: None }
    }

    /// Writes until the queue is closed and empty.
    pub(super) fn run(mut self) {
        // The file is there from the start on, for programs that follow it.
        self.make_file();
        loop {
            let batch = self.queue.take();
            if batch.must_reopen {
                self.open = None;
            }
            if batch.lines == 0 {
                if batch.is_closed {
                    return;
                }
                self.make_file();
                continue;
            }
            self.write(&batch);
        }
    }

    /// Makes the file where it is missing, without a line for it.
    fn make_file(&mut self) {
        if let Err(error) = self.prepare(&[], 0) {
            self.failed(&error);
        }
    }

    /// Writes a batch, at the first try or at a later one; drops it where the queue is closed and it cannot
    /// be written.
    fn write(&mut self, batch: &AuditBatch) {
        let AuditBatch { text, lines, .. } = batch;
        let (mut written, mut is_closed) = (0, batch.is_closed);
        while let Err(error) = self.write_from(text, &mut written) {
            self.failed(&error);
            self.open = None;
            if is_closed {
                let left = text[written..].iter().fold(0, |count, byte| count + u64::from(*byte == b'\n'));
                self.metrics.lines.inc_by(lines - left);
                return self.metrics.dropped.inc_by(left);
            }
            (is_closed, _) = self.queue.pause(RETRY_PAUSE);
        }
        self.metrics.lines.inc_by(*lines);
    }

    /// Writes the rest of a batch.
    fn write_from(&mut self, text: &[u8], written: &mut usize) -> io::Result<()> {
        *written = self.prepare(text, *written)?;
        let Some(file) = &mut self.open else { return Ok(()) };
        while *written < text.len() {
            match file.write(&text[*written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => *written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Opens the file that lies at the path now. Returns from where on the batch is to be written: behind
    /// what was written in the same file, or from the beginning of a line in another one.
    fn prepare(&mut self, text: &[u8], written: usize) -> io::Result<usize> {
        let AuditTarget::File(path) = &self.target else {
            if self.open.is_none() {
                self.open = Some(file::open(&self.target)?);
            }
            return Ok(written);
        };
        if self.open.is_some() && file::identity_at(path).ok() == self.last {
            return Ok(written);
        }
        let opened = file::open(&self.target)?;
        let identity = file::identity(&opened)?;
        let is_same = self.last == Some(identity);
        (self.open, self.last) = (Some(opened), Some(identity));
        let line = text[..written].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        Ok(if is_same { written } else { line })
    }

    /// Counts a failure, and logs one now and then.
    fn failed(&mut self, error: &io::Error) {
        self.metrics.write_errors.inc();
        let now_us = self.clock.monotonic_us();
        let every_us = u64::try_from(FAILURE_LOGGED_EVERY.as_micros()).unwrap_or(u64::MAX);
        if self.failure_logged_us.is_none_or(|logged_us| now_us - logged_us >= every_us) {
            self.failure_logged_us = Some(now_us);
            tracing::error!(target = ?self.target, %error, "audit lines cannot be written; lines wait, then drop");
        }
    }
}

#[cfg(test)]
mod tests;
