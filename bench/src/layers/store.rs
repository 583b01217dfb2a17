//! A store on volumes of its own, opened as the node opens it: four directories, 2+2, fsync.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sherd_core::env::{Clock, Rng};
use sherd_core::id::ObjectKey;
use sherd_node::machine::system::{SystemClock, SystemRng};
use sherd_node::observe::metrics::Metrics;
use sherd_node::process::config::Config;
use sherd_node::process::config::credentials::Credentials;
use sherd_node::process::config::settings::{Durability, Settings, Words};
use sherd_node::process::config::source::Sources;
use sherd_node::process::open;
use sherd_node::process::store::Store;
use tokio::runtime::Runtime;

use super::error::Error;

/// Volumes of the store, on one filesystem: the peers of a comparison get as many directories.
pub(crate) const VOLUMES: usize = 4;
/// The bucket of every object.
pub(crate) const BUCKET: &str = "bench";

/// A directory that goes when its owner does.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes a directory below `dir`, under a name that nobody else in this process uses.
    pub(crate) fn new(dir: &Path) -> Result<Self, Error> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = dir.join(format!("sherd-bench-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(Error::setup("make a directory for volumes"))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays behind costs space and no figure.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A runtime as the node makes it.
pub(crate) fn runtime() -> Result<Runtime, Error> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
        .enable_all()
        .build()
        .map_err(Error::setup("start a runtime"))
}

/// The configuration of a node on new volumes below `dir`, with defaults but for addresses.
pub(crate) fn config(dir: &Path) -> Result<Config, Error> {
    let mut volumes = Vec::new();
    for number in 1..=VOLUMES {
        let path = dir.join(format!("v{number}"));
        std::fs::create_dir_all(&path).map_err(Error::setup("make a volume's directory"))?;
        let path = path.canonicalize().map_err(Error::setup("find a volume's directory"))?;
        volumes.push(path.to_string_lossy().into_owned());
    }
    let any = "127.0.0.1:0".parse().expect("an address");
    let settings = Settings {
        volumes: Some(Words(volumes)),
        listen: Some(any),
        admin_listen: Some(any),
        durability: Some(Durability::Fsync),
        ..Settings::default()
    };
    let credentials = Credentials::random(&SystemRng);
    Config::resolve(settings, Some(credentials), &Sources::default())
        .map_err(Error::setup("configure a node"))
}

/// An open store with its bucket, and the runtime that it lives on.
#[derive(Debug)]
pub(crate) struct OpenStore {
    pub(crate) store: Store,
    pub(crate) config: Config,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) runtime: Runtime,
    _scratch: Scratch,
}

impl OpenStore {
    /// Opens a store on new volumes below `dir`.
    pub(crate) fn new(dir: &Path) -> Result<Self, Error> {
        let scratch = Scratch::new(dir)?;
        let config = config(scratch.path())?;
        let runtime = runtime()?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let rng: Arc<dyn Rng> = Arc::new(SystemRng);
        let metrics = Metrics::shared(config.durability);
        let opening = Store::open(open::store_config(&config), Arc::clone(&clock), rng, &metrics);
        let store = runtime.block_on(opening).map_err(Error::setup("open a store"))?;
        let made = runtime.block_on(store.objects().create_bucket(bucket(), String::new()));
        made.map_err(Error::setup("make a bucket"))?;
        Ok(Self { store, config, clock, runtime, _scratch: scratch })
    }

    /// Closes it and removes its volumes.
    pub(crate) fn close(self) {
        self.runtime.block_on(self.store.close());
    }
}

/// The bucket as the store names it.
pub(crate) fn bucket() -> ObjectKey {
    ObjectKey::new(BUCKET).expect("a bucket's name is a key")
}
