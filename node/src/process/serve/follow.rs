//! Follows the files of a configuration: those of its keys that are hot take effect in the running node.
//!
//! Files that cannot be used change nothing: one error line says why, and no second one until the files or
//! the reason change. A key that is not hot waits for a start, which one warning says.

use std::mem;
use std::sync::Arc;

use tokio::signal::unix::Signal;
use tokio_util::sync::CancellationToken;

use crate::process::config::error::ConfigError;
use crate::process::config::files::{ConfigFiles, FileDigest, FileSettings, FileTexts};
use crate::process::serve::limits::CONFIG_LOOK_EVERY;
use crate::process::serve::live::LiveSettings;
use crate::process::serve::settled::read_settled;
use sherd_store::observe::metrics::ConfigMetrics;

/// Files, as they were at the start and as they were last taken.
#[derive(Debug)]
pub struct FollowedConfig {
    files: ConfigFiles,
    start: Arc<FileSettings>,
    texts: FileTexts,
    settings: Arc<FileSettings>,
    /// The files that were refused last, as far as they could be read, and why.
    refused: Option<(Option<FileTexts>, String)>,
}

impl FollowedConfig {
    /// Follows `files`, which had these texts and settings at the start.
    pub fn new(files: ConfigFiles, texts: FileTexts, start: FileSettings) -> Self {
        let start = Arc::new(start);
        Self { files, settings: Arc::clone(&start), start, texts, refused: None }
    }

    /// Whether there is anything to follow.
    pub const fn may_change(&self) -> bool {
        self.files.may_change()
    }

    /// Returns the digest of the live file that the node starts with.
    pub fn live_digest(&self) -> Option<FileDigest> {
        self.texts.live_digest()
    }

    /// Looks at the files each ten seconds, and at a SIGHUP, until `stop`. The first look is at once: a live
    /// file that the start left out is named then.
    pub async fn follow(
        mut self,
        live: Arc<LiveSettings>,
        metrics: ConfigMetrics,
        mut hangups: Signal,
        stop: CancellationToken,
    ) {
        loop {
            let files = self.files.clone();
            if let Some(read) = read_settled(move || files.read(), &self.texts).await {
                self.take(read, &live, &metrics);
            }
            tokio::select! {
                // A stop comes first. All arms only wait: nothing is lost when one is dropped.
                biased;
                () = stop.cancelled() => return,
                Some(()) = hangups.recv() => {}
                () = tokio::time::sleep(CONFIG_LOOK_EVERY) => {}
            }
        }
    }

    /// Takes files that were read, if they changed and can be used.
    fn take(&mut self, read: Result<FileTexts, ConfigError>, live: &LiveSettings, metrics: &ConfigMetrics) {
        if read.as_ref().is_ok_and(|texts| *texts == self.texts) {
            self.refused = None;
            live.set_refusal(None);
            metrics.refused.set(0);
            return;
        }
        let texts = read.as_ref().ok().cloned();
        let judged = read.and_then(|texts| {
            let settings = self.files.settings(&texts)?;
            Ok((texts, settings.hot()?, settings))
        });
        match judged {
            Ok((texts, hot, settings)) => {
                for key in settings.waiting_keys(&self.start, &self.settings) {
                    tracing::warn!(key, "a changed key takes effect when the node starts again");
                }
                let loaded = live.load(hot, texts.live_digest());
                metrics.generation.set(i64::try_from(loaded.generation).unwrap_or(i64::MAX));
                metrics.refused.set(0);
                let live_file = loaded.live.map(hex::encode).unwrap_or_default();
                tracing::info!(generation = loaded.generation, live_file, "configuration loaded");
                self.texts = texts;
                self.refused = None;
                drop(mem::replace(&mut self.settings, Arc::new(settings)));
            }
            Err(error) => {
                metrics.refused.set(1);
                live.set_refusal(Some(error.to_string()));
                let refusal = Some((texts, error.to_string()));
                if self.refused != refusal {
                    tracing::error!(%error, "reload the configuration: what was loaded before stays in force");
                    self.refused = refusal;
                }
            }
        }
    }
}
