//! A whole node's store in this process: four volumes, and no network before it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream;

use sherd_core::id::ObjectKey;
use sherd_core::record::{Attributes, Checksum};
use sherd_core::topology::Wish;
use sherd_node::machine::system::{SystemClock, SystemRng};
use sherd_node::object::{
    ExpectedChecksum, ObjectName, Objects, PutRequest, ReadConditions, ReadRequest, Span, Upload,
    WriteConditions, Written,
};
use sherd_node::observe::metrics::Metrics;
use sherd_node::process::store::{Store, StoreConfig};
use sherd_node::stripe::Thresholds;
use sherd_node::upkeep::Settings;
use sherd_volume::options::{Durability, Options};

use super::Error;

/// The bucket of every measurement.
const BUCKET: &str = "measured";
/// Bytes of one piece of a body on its way in: what a server reads from a socket at one time.
const PIECE_BYTES: usize = 256 << 10;
/// The node's own figures: buffers, and cache of the indexes.
const BUFFER_BYTES: usize = 128 << 20;
const INDEX_BYTES: u64 = 64 << 20;

/// The store.
#[derive(Debug, Clone)]
pub(super) struct Whole {
    store: Store,
}

/// A body, and what the client says of it.
pub(super) struct Body {
    pub(super) bytes: u64,
    pub(super) pieces: Vec<Bytes>,
    pub(super) checksum: Option<Checksum>,
}

impl Body {
    /// A body of these bytes.
    pub(super) fn of(bytes: &Bytes) -> Self {
        let pieces = (0..bytes.len())
            .step_by(PIECE_BYTES)
            .map(|at| bytes.slice(at..bytes.len().min(at + PIECE_BYTES)))
            .collect();
        Self { bytes: bytes.len() as u64, pieces, checksum: None }
    }
}

/// What a store of four volumes below `folder` is opened with.
pub(super) fn config(folder: &Path, options: Options, thresholds: Thresholds) -> Result<StoreConfig, Error> {
    let volumes: Vec<PathBuf> = (1..=4).map(|number| folder.join(format!("v{number}"))).collect();
    for volume in &volumes {
        std::fs::create_dir_all(volume).map_err(Error::at("make the volumes' folders"))?;
    }
    Ok(StoreConfig {
        volumes,
        wish: Wish { set_volumes: None, parity_shards: None },
        options,
        thresholds,
        fast_etags: false,
        buffer_bytes_max: BUFFER_BYTES,
        index_cache_bytes: INDEX_BYTES,
        upkeep: Settings::default(),
    })
}

fn bucket() -> ObjectKey {
    ObjectKey::new(BUCKET.to_owned()).expect("a valid name")
}

fn name(key: &str) -> ObjectName {
    ObjectName { bucket: bucket(), key: ObjectKey::new(key.to_owned()).expect("a valid key") }
}

impl Whole {
    /// Opens a store, and makes the bucket where there is none.
    pub(super) async fn open(config: StoreConfig) -> Result<Self, Error> {
        let metrics = Arc::new(Metrics::new(Durability::Fsync));
        let store = Store::open(config, Arc::new(SystemClock::new()), Arc::new(SystemRng), &metrics);
        let store = store.await.map_err(Error::at("open the store"))?;
        let whole = Self { store };
        if whole.objects().head_bucket(bucket()).await.is_err() {
            whole
                .objects()
                .create_bucket(bucket(), String::new())
                .await
                .map_err(Error::at("create the bucket"))?;
        }
        Ok(whole)
    }

    /// The verbs.
    pub(super) const fn objects(&self) -> &Objects {
        self.store.objects()
    }

    /// Stores an object.
    pub(super) async fn put(&self, key: &str, body: Body) -> Result<Written, Error> {
        let Body { bytes, pieces, checksum } = body;
        let upload = Upload {
            size: bytes,
            body: stream::iter(pieces.into_iter().map(Ok)).boxed(),
            md5: None,
            checksum: checksum.map(ExpectedChecksum::Value),
        };
        let request = PutRequest {
            name: name(key),
            attributes: Attributes::default(),
            conditions: WriteConditions::default(),
            upload,
        };
        self.objects().put(request).await.map_err(Error::at("put an object"))
    }

    /// Reads an object whole.
    pub(super) async fn get(&self, key: &str) -> Result<Vec<Bytes>, Error> {
        let request =
            ReadRequest { name: name(key), span: Span::Whole, conditions: ReadConditions::default() };
        let read = self.objects().get(request).await.map_err(Error::at("get an object"))?;
        let mut body = read.body;
        let mut pieces = Vec::new();
        while let Some(piece) = body.next().await {
            pieces.push(piece.map_err(Error::at("read an object's bytes"))?);
        }
        Ok(pieces)
    }

    /// Closes the store in order.
    pub(super) async fn close(self) {
        self.store.close().await;
    }
}
