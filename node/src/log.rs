//! Logs: one line per event on standard error, as text or JSON, with the fields of the spans that
//! a request opened (its id among them).
//!
//! The secrets that no line may carry are named here and not by the filter that an operator writes: the
//! S3 protocol library logs signatures and canonical requests, hyper logs raw heads. Both are cut
//! off below in any filter. The filter may be replaced while the process runs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::ValueEnum;
use parking_lot::RwLock;
use serde::Deserialize;
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::{EnvFilter, FilterExt as _, FilterFn, ParseError};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Context, Filter, Layer as _, SubscriberExt as _};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The part of the log that is written, and its form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// Form of a line.
    pub format: LogFormat,
    /// A filter that parses.
    pub level: String,
    /// How long a request may take that is not logged as slow; zero where none is.
    pub slow_request: Duration,
}

/// Form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Parses a filter: a level, or `target=level` pairs, separated by commas.
///
/// # Errors
/// The filter's error of grammar.
pub fn parse_level(level: &str) -> Result<EnvFilter, ParseError> {
    EnvFilter::builder().parse(level)
}

/// Logs from here on to standard error, and turns panics into log lines. Gives the filter of the lines.
///
/// Called once by the binary; what the process logged before it is lost.
pub fn start(log: &Log) -> LevelFilters {
    start_to(log, io::stderr)
}

/// As [`start`], but to `writer`.
pub fn start_to<W>(log: &Log, writer: W) -> LevelFilters
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let filters = LevelFilters::of(&log.level);
    let started = match log.format {
        LogFormat::Text => text(filters.clone(), writer).try_init().is_ok(),
        LogFormat::Json => json(filters.clone(), writer).try_init().is_ok(),
    };
    // A second start in one process keeps the first one's form.
    if started {
        std::panic::set_hook(Box::new(log_panic));
    }
    filters
}

/// The subscriber that writes lines of text to `writer`.
pub fn text<W>(level: impl Into<LevelFilters>, writer: W) -> impl Subscriber + Send + Sync + 'static
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(writer);
    Registry::default().with(lines.with_filter(level.into().and(FilterFn::new(may_be_logged))))
}

fn json<W>(level: impl Into<LevelFilters>, writer: W) -> impl Subscriber + Send + Sync + 'static
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let lines =
        tracing_subscriber::fmt::layer().json().flatten_event(true).with_span_list(false).with_writer(writer);
    Registry::default().with(lines.with_filter(level.into().and(FilterFn::new(may_be_logged))))
}

/// The filter in force: a level, or `target=level` pairs. Clones share it.
///
/// The verdict on a call site is remembered until the filter is replaced, so no line takes the lock for it.
/// The spans of requests take it only where the filter names spans.
#[derive(Debug, Clone)]
pub struct LevelFilters(Arc<FilterState>);

#[derive(Debug)]
struct FilterState {
    filter: RwLock<EnvFilter>,
    names_spans: AtomicBool,
}

impl LevelFilters {
    fn of(level: &str) -> Self {
        let filter = RwLock::new(parsed(level));
        Self(Arc::new(FilterState { filter, names_spans: AtomicBool::new(names_spans(level)) }))
    }

    /// Replaces the filter for all lines from here on. Spans that are open stay unknown to it.
    pub fn replace(&self, level: &str) {
        *self.0.filter.write() = parsed(level);
        self.0.names_spans.store(names_spans(level), Ordering::Relaxed);
        // Asks about each call site again: without the lock, which the answers take.
        tracing::callsite::rebuild_interest_cache();
    }

    fn of_spans(&self) -> Option<parking_lot::RwLockReadGuard<'_, EnvFilter>> {
        self.0.names_spans.load(Ordering::Relaxed).then(|| self.0.filter.read())
    }
}

impl From<&str> for LevelFilters {
    fn from(level: &str) -> Self {
        Self::of(level)
    }
}

/// The filter that `Config::resolve` took: it refused what does not parse.
fn parsed(level: &str) -> EnvFilter {
    parse_level(level).unwrap_or_else(|_| EnvFilter::new("info"))
}

/// Whether a filter may depend on the spans that a line lies in: `[span{field=value}]`.
fn names_spans(level: &str) -> bool {
    level.contains('[')
}

impl<S: Subscriber> Filter<S> for LevelFilters {
    fn enabled(&self, metadata: &Metadata<'_>, context: &Context<'_, S>) -> bool {
        Filter::<S>::enabled(&*self.0.filter.read(), metadata, context)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        Filter::<S>::callsite_enabled(&*self.0.filter.read(), metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Filter::<S>::max_level_hint(&*self.0.filter.read())
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(filter) = self.of_spans() {
            Filter::<S>::on_new_span(&*filter, attributes, id, context);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(filter) = self.of_spans() {
            Filter::<S>::on_record(&*filter, id, values, context);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if let Some(filter) = self.of_spans() {
            Filter::<S>::on_enter(&*filter, id, context);
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        if let Some(filter) = self.of_spans() {
            Filter::<S>::on_exit(&*filter, id, context);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if let Some(filter) = self.of_spans() {
            Filter::<S>::on_close(&*filter, id, context);
        }
    }
}

/// Whether an event's target is one that cannot carry a secret at its level.
fn may_be_logged(metadata: &Metadata<'_>) -> bool {
    let target = metadata.target();
    let of = |library: &str| target == library || target.starts_with(&format!("{library}::"));
    if of("s3s") {
        // Logs every 4xx as an error and signatures at debug; this node logs requests itself.
        return false;
    }
    let quiet = of("hyper") || of("hyper_util") || of("tower") || of("h2");
    !quiet || *metadata.level() <= Level::WARN
}

/// Logs where a thread panicked and why. A panic in a request ends that request alone.
fn log_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let payload = panic.payload();
    let message = payload.downcast_ref::<&str>().copied();
    let message =
        message.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    let location = panic.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    tracing::error!(
        location,
        thread = thread.name().unwrap_or("unnamed"),
        panic = message,
        "thread panicked"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use sherd_store::testing::LogBuffer;

    fn logged(level: &str, events: impl FnOnce()) -> String {
        let kept = LogBuffer::default();
        let writer = kept.clone();
        tracing::subscriber::with_default(text(level, move || writer.clone()), events);
        kept.text()
    }

    #[test]
    fn secrets_of_the_protocol_library_are_never_logged_whatever_the_filter_says() {
        let text = logged("trace,s3s=trace,hyper=trace", || {
            tracing::debug!(target: "s3s::ops::signature", signature = "0123abcd", "checked");
            tracing::error!(target: "s3s", "NoSuchKey");
            tracing::trace!(target: "hyper::proto::h1", "Authorization: AWS4-HMAC-SHA256");
            tracing::warn!(target: "hyper::proto::h1", "read header timeout");
            tracing::trace!(target: "s3something", "another crate");
        });
        assert!(
            !text.contains("0123abcd") && !text.contains("NoSuchKey") && !text.contains("Authorization"),
            "{text}"
        );
        assert!(text.contains("read header timeout") && text.contains("another crate"), "{text}");
    }

    #[test]
    fn the_level_cuts_off_what_is_below_it() {
        let text = logged("warn", || {
            tracing::info!("quiet");
            tracing::warn!("loud");
        });
        assert!(text.contains("loud") && !text.contains("quiet"), "{text}");
    }

    #[test]
    fn a_level_that_is_replaced_holds_for_the_next_line_and_secrets_stay_cut_off() {
        let (kept, filters) = (LogBuffer::default(), LevelFilters::of("info"));
        let writer = kept.clone();
        tracing::subscriber::with_default(text(filters.clone(), move || writer.clone()), || {
            let log = |word: &str| {
                tracing::debug!(word, "same place");
                tracing::debug!(target: "s3s::ops::signature", word, "signature");
            };
            log("before");
            filters.replace("debug,s3s=trace");
            log("under");
            filters.replace("error");
            log("after");
            tracing::warn!("not an error");
            filters.replace("error,[request{id=7}]=debug");
            tracing::info_span!("request", id = 7).in_scope(|| log("inside"));
            log("outside");
        });
        let text = kept.text();
        assert!(text.contains("under") && text.contains("inside"), "{text}");
        for hidden in ["before", "after", "outside", "not an error", "signature"] {
            assert!(!text.contains(hidden), "{hidden}: {text}");
        }
    }

    #[test]
    fn a_request_id_of_a_span_stands_in_every_json_line() {
        let kept = LogBuffer::default();
        let writer = kept.clone();
        tracing::subscriber::with_default(json("info", move || writer.clone()), || {
            tracing::info_span!("request", request_id = "4d5e")
                .in_scope(|| tracing::info!(bytes = 3, "stored"));
        });
        let line: serde_json::Value = serde_json::from_str(&kept.text()).expect("one JSON object");
        assert_eq!(line["span"]["request_id"], "4d5e");
        assert_eq!(
            (&line["message"], &line["bytes"], &line["level"]),
            (&"stored".into(), &3.into(), &"INFO".into())
        );
    }
}
