//! Follows files: new ones are taken whole, or not at all.
//!
//! A reload that fails keeps what was loaded and logs one error line, and no second one until the files or
//! the reason change. Connections keep what they were made with; their owners compare generations and end
//! them. The certificates of peers and the certificate for clients of S3 are both followed here.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::tls::error::TrustError;

/// The last refusal: the digest of the files and the reason. It is logged once.
pub(crate) type LastRefusal = (Option<[u8; 32]>, String);

/// Files that are checked together, and how.
pub(crate) trait MaterialSource {
    type Paths: Clone + Send + 'static;
    type Pem: Send + 'static;
    /// Content of the files, ready for handshakes.
    type Material;
    /// The kind of peer that the certificate is shown to, for the log.
    const SHOWN_TO: &'static str;

    fn paths(&self) -> &Self::Paths;
    /// Reads the files; blocks on the disk.
    fn read(paths: &Self::Paths) -> Result<Self::Pem, TrustError>;
    /// Computes a digest of all bytes: equal files need no reload.
    fn digest(pem: &Self::Pem) -> [u8; 32];
    fn check(&self, pem: &Self::Pem) -> Result<Self::Material, TrustError>;
    /// Returns when the certificate expires, in seconds since the Unix epoch.
    fn expires_s(material: &Self::Material) -> u64;
}

/// Material of one generation of the files.
#[derive(Debug)]
pub(crate) struct LoadedMaterial<M> {
    /// 1 at first, one more with each reload.
    pub(crate) generation: u64,
    /// Of the bytes that it was made from.
    digest: [u8; 32],
    pub(crate) material: M,
}

/// The material of a source's files as they were last valid together.
#[derive(Debug)]
pub(crate) struct FollowedFiles<S: MaterialSource> {
    source: S,
    current: watch::Sender<Arc<LoadedMaterial<S::Material>>>,
}

impl<S: MaterialSource> FollowedFiles<S> {
    pub(crate) fn load(source: S) -> Result<Self, TrustError> {
        let pem = S::read(source.paths())?;
        let material = source.check(&pem)?;
        let loaded = LoadedMaterial { generation: 1, digest: S::digest(&pem), material };
        Ok(Self { source, current: watch::Sender::new(Arc::new(loaded)) })
    }

    /// Loads files that may be absent or wrong: until they are whole, `absent` stands for them.
    pub(crate) fn load_or(source: S, absent: S::Material) -> Self {
        let loaded = LoadedMaterial { generation: 0, digest: [0; 32], material: absent };
        let files = Self { source, current: watch::Sender::new(Arc::new(loaded)) };
        files.take(S::read(files.source.paths()), &mut None);
        files
    }

    pub(crate) fn source(&self) -> &S {
        &self.source
    }

    pub(crate) fn current(&self) -> Arc<LoadedMaterial<S::Material>> {
        Arc::clone(&self.current.borrow())
    }

    /// Returns when a later generation than this one is loaded. Cancel-safe.
    pub(crate) async fn replaced(&self, generation: u64) {
        let mut current = self.current.subscribe();
        let later = current.wait_for(|loaded| loaded.generation != generation).await;
        // `self` has the sender.
        drop(later.expect("the sender outlives the wait"));
    }

    /// Looks at the files after each interval until `stop`, and reloads what changed.
    pub(crate) async fn follow(&self, interval: Duration, stop: CancellationToken) {
        let mut refused = None;
        loop {
            tokio::select! {
                // A stop comes first. Both arms only wait: nothing is lost when one is dropped.
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(interval) => {}
            }
            let paths = self.source.paths().clone();
            let Ok(read) = tokio::task::spawn_blocking(move || S::read(&paths)).await else {
                // The runtime is shutting down, or the read panicked, which the panic hook has logged.
                continue;
            };
            self.take(read, &mut refused);
        }
    }

    /// Takes what was read if it is new and whole.
    pub(crate) fn take(&self, read: Result<S::Pem, TrustError>, refused: &mut Option<LastRefusal>) {
        let current = self.current();
        let digest = read.as_ref().ok().map(S::digest);
        if digest == Some(current.digest) {
            *refused = None;
            return;
        }
        let made = read.and_then(|pem| Ok((S::digest(&pem), self.source.check(&pem)?)));
        match made {
            Ok((digest, material)) => {
                let generation = current.generation + 1;
                let expires_s = S::expires_s(&material);
                tracing::info!(shown_to = S::SHOWN_TO, generation, expires_s, "certificates reloaded");
                self.current.send_replace(Arc::new(LoadedMaterial { generation, digest, material }));
                *refused = None;
            }
            Err(error) => {
                let refusal = Some((digest, error.to_string()));
                if *refused != refusal {
                    tracing::error!(
                        shown_to = S::SHOWN_TO,
                        %error,
                        "reload certificates: those loaded before stay in use"
                    );
                    *refused = refusal;
                }
            }
        }
    }
}
