//! Follows the files: new ones are taken whole, or not at all.
//!
//! A reload that fails keeps what was loaded and logs one error line, and no second one until the files or the
//! reason change. Connections keep what they were made with; their owners compare generations and end them.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::trust::Trust;
use crate::trust::error::TrustError;
use crate::trust::files::PemFiles;
use crate::trust::limits;
use crate::trust::material::Material;

/// What was refused last, so that it is logged once.
pub(crate) type Refusal = (Option<[u8; 32]>, String);

impl Trust {
    /// Looks at the files each ten seconds until `stop`, and reloads what changed.
    pub async fn follow(self, stop: CancellationToken) {
        self.follow_each(limits::FOLLOW_INTERVAL, stop).await;
    }

    /// Follows the files as [`Self::follow`] does, with another interval.
    pub async fn follow_each(self, interval: Duration, stop: CancellationToken) {
        let mut refused = None;
        loop {
            tokio::select! {
                // A stop comes first. Both arms only wait: nothing is lost when one is dropped.
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(interval) => {}
            }
            let files = self.shared.files.clone();
            let Ok(read) = tokio::task::spawn_blocking(move || PemFiles::read(&files)).await else {
                // The runtime is shutting down, or the read panicked, which the panic hook has logged.
                continue;
            };
            self.take(read, &mut refused);
        }
    }

    /// Takes what was read if it is new and whole.
    pub(crate) fn take(&self, read: Result<PemFiles, TrustError>, refused: &mut Option<Refusal>) {
        let current = self.material();
        let digest = read.as_ref().ok().map(PemFiles::digest);
        if digest == Some(current.digest) {
            *refused = None;
            return;
        }
        let shared = &self.shared;
        let made = read.and_then(|pem| {
            Material::new(&pem, &shared.files, &shared.own, &shared.clock, current.generation + 1)
        });
        match made {
            Ok(material) => {
                tracing::info!(
                    generation = material.generation,
                    expires_s = material.expires_s,
                    "certificates reloaded"
                );
                *shared.current.write() = Arc::new(material);
                *refused = None;
            }
            Err(error) => {
                let refusal = Some((digest, error.to_string()));
                if *refused != refusal {
                    tracing::error!(%error, "reload certificates: those loaded before stay in use");
                    *refused = refusal;
                }
            }
        }
    }
}
