//! The objects of a load, and the workers that store, read and list them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::task::JoinSet;

use super::tally::Tally;
use crate::checksum::{Checksum, ChecksumAlgorithm};
use crate::cli::arguments::BenchOperation;
use crate::client::Client;
use crate::error::Error;
use crate::limits::BENCH_FAULTS_IN_A_ROW_MAX;
use crate::payload::Payload;
use crate::s3::listing::{ListEntry, ListQuery};
use crate::s3::objects::{ObjectAttributes, ObjectName};
use crate::transfer::engine::{Engine, run_parts};
use crate::transfer::fetch::{FetchPart, Sink, fetch};

/// Bytes of random data beside those of one object: each object begins at another of them.
const SHIFTS: usize = 1 << 20;
/// Distance of two objects' beginnings. It is odd, so that a million objects differ.
const SHIFT: usize = 4_099;

/// The objects: names, bytes, and which are stored.
#[derive(Debug)]
pub(super) struct BenchObjects {
    pub(super) bucket: String,
    prefix: String,
    bytes: usize,
    data: Bytes,
    is_stored: Vec<AtomicBool>,
}

impl BenchObjects {
    pub(super) fn new(bucket: String, prefix: String, bytes: usize, count: usize) -> Self {
        let mut data = vec![0; bytes + SHIFTS];
        getrandom::fill(&mut data).expect("the system has random bytes");
        let is_stored = (0..count).map(|_| AtomicBool::new(false)).collect();
        Self { bucket, prefix, bytes, data: data.into(), is_stored }
    }

    fn key(&self, index: usize) -> String {
        format!("{}{index:08}", self.prefix)
    }

    fn name(&self, index: usize) -> ObjectName {
        ObjectName { bucket: self.bucket.clone(), key: self.key(index) }
    }

    fn content(&self, index: usize) -> Bytes {
        let begin = index * SHIFT % SHIFTS;
        self.data.slice(begin..begin + self.bytes)
    }

    /// Keys that may be there.
    pub(super) fn stored_keys(&self) -> Vec<String> {
        let is_stored = |index: &usize| self.is_stored[*index].load(Ordering::Relaxed);
        (0..self.is_stored.len()).filter(is_stored).map(|index| self.key(index)).collect()
    }

    async fn put(&self, client: &Client, engine: &Engine, index: usize) -> Result<(), Error> {
        let (content, meter) = (self.content(index), engine.progress().meter());
        let checksum = Checksum::of(ChecksumAlgorithm::Crc64Nvme, &content);
        // Before the request: one without an answer may have been done.
        self.is_stored[index].store(true, Ordering::Relaxed);
        let attributes = ObjectAttributes::default();
        client.put(&self.name(index), Payload::Bytes(content), checksum, &attributes, &meter).await.map(drop)
    }

    async fn get(&self, client: &Client, engine: &Engine, index: usize) -> Result<(), Error> {
        let name = self.name(index);
        let mut sink = ComparingSink { expected: self.content(index), name: name.to_string() };
        let body = fetch(engine, client, &name, FetchPart::Whole, &mut sink).await?;
        if body.checksum.bytes == self.bytes as u64 { Ok(()) } else { Err(other_bytes(&sink.name)) }
    }

    async fn list(&self, client: &Client) -> Result<(), Error> {
        let query =
            ListQuery { bucket: self.bucket.clone(), prefix: self.prefix.clone(), is_by_folder: false };
        let (mut entries, mut next) = (client.list(query), 0);
        while let Some(entry) = entries.recv().await {
            match entry? {
                ListEntry::Object(object)
                    if object.key == self.key(next) && object.bytes == self.bytes as u64 =>
                {
                    next += 1;
                }
                _ => return Err(other_names(&self.prefix)),
            }
        }
        if next == self.is_stored.len() { Ok(()) } else { Err(other_names(&self.prefix)) }
    }
}

fn other_bytes(name: &str) -> Error {
    Error::Malformed { resource: name.to_owned(), what: "these are not the bytes that were stored" }
}

fn other_names(prefix: &str) -> Error {
    Error::Malformed { resource: prefix.to_owned(), what: "the list is not of the objects that were stored" }
}

/// Compares a body with what was stored, and keeps nothing.
struct ComparingSink {
    expected: Bytes,
    name: String,
}

impl Sink for ComparingSink {
    async fn write(&mut self, at: u64, bytes: Bytes) -> Result<(), Error> {
        let begin = usize::try_from(at).unwrap_or(usize::MAX);
        let expected = self.expected.get(begin..begin.saturating_add(bytes.len()));
        if expected == Some(&bytes) { Ok(()) } else { Err(other_bytes(&self.name)) }
    }
}

/// Stores the objects that are not stored yet.
pub(super) async fn fill(
    client: &Client,
    engine: &Engine,
    set: &Arc<BenchObjects>,
    workers: usize,
) -> Result<(), Error> {
    let missing = (0..set.is_stored.len()).filter(|index| !set.is_stored[*index].load(Ordering::Relaxed));
    let put = |index| {
        let (client, engine, set) = (client.clone(), engine.clone(), Arc::clone(set));
        async move { set.put(&client, &engine, index).await }
    };
    run_parts(missing, workers, put, Ok).await
}

/// Does one operation with `workers` at one time for `duration`.
pub(super) async fn run(
    client: &Client,
    engine: &Engine,
    set: &Arc<BenchObjects>,
    operation: BenchOperation,
    workers: usize,
    duration: Duration,
) -> Tally {
    let object_bytes = (operation != BenchOperation::List).then_some(set.bytes as u64);
    let empty = move || Tally::new(operation.name(), workers, object_bytes);
    let next = Arc::new(AtomicUsize::new(0));
    let (begin, mut running) = (Instant::now(), JoinSet::new());
    for _ in 0..workers {
        let (client, engine, set, next) =
            (client.clone(), engine.clone(), Arc::clone(set), Arc::clone(&next));
        running.spawn(async move {
            let (mut tally, mut in_a_row) = (empty(), 0);
            while begin.elapsed() < duration && in_a_row < BENCH_FAULTS_IN_A_ROW_MAX {
                let index = next.fetch_add(1, Ordering::Relaxed) % set.is_stored.len();
                let started = Instant::now();
                let ended = match operation {
                    BenchOperation::Put => set.put(&client, &engine, index).await,
                    BenchOperation::Get => set.get(&client, &engine, index).await,
                    BenchOperation::List => set.list(&client).await,
                };
                if matches!(ended, Err(Error::Cancelled)) {
                    break;
                }
                in_a_row = if ended.is_ok() { 0 } else { in_a_row + 1 };
                tally.count(started.elapsed(), ended);
            }
            tally
        });
    }
    let mut all = empty();
    while let Some(ended) = running.join_next().await {
        match ended {
            Ok(tally) => all.add(tally),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
    all.elapsed = begin.elapsed();
    all
}
