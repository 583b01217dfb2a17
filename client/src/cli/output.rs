//! The output of a command: lines for people, or one JSON object a line; progress on a terminal.
//!
//! Results go to standard output, failures to standard error, and with `--json` both to standard output.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant, SystemTime};

use bytesize::ByteSize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::exit::Exit;
use super::stop::Stop;
use crate::error::Error;
use crate::limits::PROGRESS_EVERY;
use crate::transfer::progress::{Counters, Event};

/// The name of standard output in errors.
pub(crate) const STANDARD_OUTPUT: &str = "standard output";

/// Where a command prints. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    shared: Arc<OutputShared>,
}

#[derive(Debug)]
struct OutputShared {
    is_json: bool,
    is_quiet: bool,
    has_progress: bool,
    /// A line of progress stands on the terminal.
    is_line_open: AtomicBool,
    /// The exit code of the first failure; zero without one.
    first_failure: AtomicU8,
    /// Ends the command when the output has no reader any more.
    stop: Stop,
}

impl Output {
    pub(crate) fn new(is_json: bool, is_quiet: bool, stop: Stop) -> Self {
        let has_progress = !is_json && !is_quiet && std::io::stderr().is_terminal();
        let (is_line_open, first_failure) = (AtomicBool::new(false), AtomicU8::new(0));
        let shared = OutputShared { is_json, is_quiet, has_progress, is_line_open, first_failure, stop };
        Self { shared: Arc::new(shared) }
    }

    /// Prints a result.
    pub(crate) fn result(&self, value: impl FnOnce() -> Value, text: impl FnOnce() -> String) {
        let line = if self.shared.is_json { value().to_string() } else { text() };
        self.close_line();
        let mut out = std::io::stdout().lock();
        if writeln!(out, "{line}").is_err() {
            self.shared.stop.because(Exit::Unread);
        }
    }

    /// Prints what was done, unless the command is quiet.
    pub(crate) fn note(&self, value: impl FnOnce() -> Value, text: impl FnOnce() -> String) {
        if !self.shared.is_quiet {
            self.result(value, text);
        }
    }

    /// Ends the command if standard output has no reader any more, and returns whether that is the error.
    pub(crate) fn is_unread(&self, error: &Error) -> bool {
        let is_unread = matches!(error, Error::File { source, path, .. }
            if source.kind() == std::io::ErrorKind::BrokenPipe && path.as_os_str() == STANDARD_OUTPUT);
        if is_unread {
            self.shared.stop.because(Exit::Unread);
        }
        is_unread
    }

    /// Prints a failure. The first one gives a command about one object its exit code. Work that was
    /// cancelled has no line: there may be thousands, and the exit code says it.
    pub(crate) fn failure(&self, verb: &str, source: &str, error: &Error) {
        if matches!(error, Error::Cancelled) {
            return;
        }
        let code = Exit::of(error).code();
        let first = &self.shared.first_failure;
        let _kept = first.compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
        if self.shared.is_json {
            let code = match error {
                Error::Refused { refusal, .. } => Some(refusal.code.clone()),
                _ => None,
            };
            let kind = error.kind();
            let fault = json!({ "kind": kind, "code": code, "message": error.to_string() });
            let value = json!({ "event": "failed", "verb": verb, "source": source, "error": fault });
            self.result(|| value, String::new);
            return;
        }
        self.close_line();
        let text = error.to_string();
        let source =
            if source.is_empty() || text.contains(source) { String::new() } else { format!("{source}: ") };
        let verb = if verb.is_empty() { String::new() } else { format!("{verb} ") };
        let _nobody_reads = writeln!(std::io::stderr().lock(), "sherd: {verb}{source}{text}");
    }

    /// Whether the command ends early.
    pub(crate) fn is_stopped(&self) -> bool {
        self.shared.stop.reason().is_some()
    }

    /// The exit code of the first failure.
    pub(crate) fn first_failure(&self) -> u8 {
        self.shared.first_failure.load(Ordering::Relaxed)
    }

    /// Prints events until their senders are gone, and progress in between.
    pub(crate) async fn follow(&self, mut events: mpsc::Receiver<Event>, counters: &Counters) {
        let begin = Instant::now();
        let mut ticks = tokio::time::interval(PROGRESS_EVERY);
        loop {
            tokio::select! {
                // Both arms only wait: an event or a tick that is not taken stays.
                biased;
                event = events.recv() => match event {
                    Some(event) => self.event(&event),
                    None => break,
                },
                _ = ticks.tick(), if self.shared.has_progress => self.show(counters, begin.elapsed()),
            }
        }
        self.close_line();
    }

    fn event(&self, event: &Event) {
        let (word, verb, source, target, bytes) = match event {
            Event::Done { verb, source, target, bytes } => ("done", verb, source, target, bytes),
            Event::Planned { verb, source, target, bytes } => ("planned", verb, source, target, bytes),
            Event::Failed { verb, source, error } => return self.failure(verb, source, error),
        };
        self.note(
            || json!({ "event": word, "verb": verb, "source": source, "target": target, "bytes": bytes }),
            || {
                let would = if word == "planned" { "would " } else { "" };
                let target = target.as_ref().map(|target| format!(" -> {target}")).unwrap_or_default();
                format!("{would}{verb} {source}{target}")
            },
        );
    }

    fn show(&self, counters: &Counters, elapsed: Duration) {
        let of = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let (bytes, planned) = (of(&counters.bytes), of(&counters.bytes_planned));
        let line = progress_line(of(&counters.done), of(&counters.planned), bytes, planned, elapsed);
        if of(&counters.planned) > 0 {
            self.shared.is_line_open.store(true, Ordering::Relaxed);
            let _nobody_reads = write!(std::io::stderr().lock(), "\r\x1b[K{line}");
        }
    }

    fn close_line(&self) {
        if self.shared.is_line_open.swap(false, Ordering::Relaxed) {
            let _nobody_reads = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

fn progress_line(done: u64, planned: u64, bytes: u64, bytes_planned: u64, elapsed: Duration) -> String {
    let rate = u64::try_from(u128::from(bytes) * 1000 / elapsed.as_millis().max(1)).unwrap_or(0);
    let left = bytes_planned.saturating_sub(bytes).checked_div(rate);
    let left =
        left.map(|seconds| format!(", {} left", humantime::format_duration(Duration::from_secs(seconds))));
    let size = |bytes| ByteSize::b(bytes).display().iec().to_string();
    let left = left.unwrap_or_default();
    format!("{done} of {planned} done, {} of {}, {}/s{left}", size(bytes), size(bytes_planned), size(rate))
}

/// A time in whole seconds of UTC.
pub(crate) fn time_text(time: Option<SystemTime>) -> String {
    time.map(|time| humantime::format_rfc3339_seconds(time).to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_progress_has_rate_and_time_left() {
        let mib = 1 << 20;
        let line = progress_line(2, 5, 20 * mib, 100 * mib, Duration::from_secs(4));
        assert_eq!(line, "2 of 5 done, 20.0 MiB of 100.0 MiB, 5.0 MiB/s, 16s left");
        assert_eq!(progress_line(0, 1, 0, mib, Duration::ZERO), "0 of 1 done, 0 B of 1.0 MiB, 0 B/s");
    }
}
