//! Log lines of a test.

use std::io;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use tracing::Dispatch;
use tracing::subscriber::NoSubscriber;
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::registry::Registry;

/// A subscriber that is never used. While there is but one, `tracing` asks that of the thread that comes to a
/// log statement first whether it matters to any (`Dispatchers::rebuilder` of tracing-core 0.1): a thread
/// without a buffer would turn the statement off for the one thread that has a buffer.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

/// Keeps log lines.
#[derive(Debug, Clone, Default)]
pub struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl io::Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LogBuffer {
    /// The lines until now.
    ///
    /// # Panics
    /// If the bytes are not UTF-8.
    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).expect("logs are text")
    }

    /// Lines that contain `words`.
    pub fn count(&self, words: &str) -> usize {
        self.text().lines().filter(|line| line.contains(words)).count()
    }

    /// Keeps what this thread logs until the guard is dropped.
    pub fn keep(&self, level: &str) -> tracing::subscriber::DefaultGuard {
        LazyLock::force(&SECOND);
        let writer = self.clone();
        let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || writer.clone());
        tracing::subscriber::set_default(Registry::default().with(lines.with_filter(EnvFilter::new(level))))
    }
}
