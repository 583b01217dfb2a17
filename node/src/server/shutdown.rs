//! The shutdown of the process: serving, stopping, out of patience.
//!
//! SIGINT and SIGTERM stop it. From then on requests under way have the shutdown timeout to end;
//! after that they are cut. A second signal ends the process at once: an operator who sends two has
//! decided, and every acknowledged write is durable already.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The way to end everything that serves, in order or at once; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    stop: CancellationToken,
    abort: CancellationToken,
    cut: Arc<AtomicUsize>,
}

impl Shutdown {
    /// No stop ordered yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops everything: no more is accepted, and requests under way end.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Cuts what is still under way.
    pub fn abort(&self) {
        self.abort.cancel();
    }

    /// Waits for [`Shutdown::stop`].
    pub async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    /// Whether [`Shutdown::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Waits for [`Shutdown::abort`].
    pub async fn out_of_patience(&self) {
        self.abort.cancelled().await;
    }

    pub(super) fn cut(&self, client: SocketAddr) {
        tracing::warn!(%client, "request cut by shutdown");
        self.cut.fetch_add(1, Ordering::AcqRel);
    }

    /// How many connections were cut.
    pub fn cut_count(&self) -> usize {
        self.cut.load(Ordering::Acquire)
    }
}

/// Listens for SIGINT and SIGTERM from here on; the returned future stops `shutdown` at the first and
/// ends the process at the second.
///
/// # Errors
/// When the handlers cannot be installed.
pub fn on_signals(shutdown: Shutdown) -> io::Result<impl Future<Output = ()> + Send> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        let mut next = async || {
            // Cancel-safe: a signal not received here is received by the next call.
            tokio::select! {
                biased;
                _ = interrupt.recv() => ("SIGINT", 2),
                _ = terminate.recv() => ("SIGTERM", 15),
            }
        };
        let (name, _) = next().await;
        tracing::info!(signal = name, "stopping; a second signal ends at once");
        shutdown.stop();
        let (name, number) = next().await;
        tracing::warn!(signal = name, "ended at once");
        std::process::exit(128 + number);
    })
}
