//! The early end of a command: by a signal, or because its output has no reader any more.

use std::sync::{Arc, OnceLock};

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::exit::Exit;

/// Ends the work of a command early, once and for one reason. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop {
    cancelled: CancellationToken,
    reason: Arc<OnceLock<Exit>>,
}

impl Stop {
    /// The token that ends all requests.
    pub(crate) const fn token(&self) -> &CancellationToken {
        &self.cancelled
    }

    /// Ends the work. The first reason stays.
    pub(crate) fn because(&self, reason: Exit) {
        self.reason.get_or_init(|| reason);
        self.cancelled.cancel();
    }

    /// The reason of the end; none while the work goes on.
    pub(crate) fn reason(&self) -> Option<Exit> {
        self.reason.get().copied()
    }

    /// Ends the work at the first interrupt, so that it is cleaned up, and returns at the second one.
    pub(crate) async fn on_signals(&self) -> Exit {
        let streams =
            signal(SignalKind::interrupt()).and_then(|int| Ok((int, signal(SignalKind::terminate())?)));
        let Ok((mut interrupt, mut terminate)) = streams else { return std::future::pending().await };
        loop {
            let exit = tokio::select! {
                // A signal that is not taken stays.
                biased;
                _ = interrupt.recv() => Exit::Interrupted,
                _ = terminate.recv() => Exit::Terminated,
            };
            if self.reason().is_some() {
                return exit;
            }
            self.because(exit);
        }
    }
}
