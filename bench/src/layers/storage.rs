//! L3, the storage pipeline: the store's own PUT and GET over real volumes, without HTTP and S3.
//!
//! Requests are made before the clock starts and are not counted; a body comes in pieces as the
//! HTTP layer would bring it.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use sherd_core::id::ObjectKey;
use sherd_core::record::Attributes;
use sherd_node::object::{
    ObjectName, Objects, PutRequest, ReadConditions, ReadRequest, Span, Upload, WriteConditions,
};

use super::clients::{Client, tasks};
use super::error::{Error, Failure};
use super::store::{OpenStore, bucket};
use super::work::{Op, Work, key};
use super::{Layer, Session};
use crate::alloc::uncounted;

/// Measures the layer at one size.
///
/// # Errors
/// [`Error`]
pub(super) fn run(session: &mut Session, bytes: u64) -> Result<(), Error> {
    let open = OpenStore::new(session.dir())?;
    let objects = open.store.objects().clone();
    let failed = |op| move |source| session_failure(op, bytes, source);
    open.runtime.block_on(fill(&objects, session.filling(bytes))).map_err(failed(Op::Put))?;
    for (op, clients) in session.cells(Layer::Storage, bytes) {
        let team = session.team(op, bytes, clients);
        let team = team.into_iter().map(|work| StorageClient { objects: objects.clone(), work }).collect();
        let measured = open.runtime.block_on(tasks(team, session.pace())).map_err(failed(op))?;
        session.note(Layer::Storage, op.label(), bytes, clients, &measured);
    }
    open.close();
    Ok(())
}

fn session_failure(op: Op, bytes: u64, source: Failure) -> Error {
    Layer::Storage.failure(op, bytes, source)
}

/// Writes the objects that will be read.
///
/// # Errors
/// The store's.
pub(super) async fn fill(objects: &Objects, mut work: Work) -> Result<(), Failure> {
    let super::work::Numbers::Round { count, .. } = work.numbers else { return Ok(()) };
    for _ in 0..count {
        let number = work.next();
        objects.put(put_request(&work, number)).await.map_err(Failure::of)?;
    }
    Ok(())
}

fn name(number: u64) -> ObjectName {
    ObjectName { bucket: bucket(), key: ObjectKey::new(key(number)).expect("a key") }
}

fn put_request(work: &Work, number: u64) -> PutRequest {
    let body = futures::stream::iter(work.body(number).map(Ok)).boxed();
    PutRequest {
        name: name(number),
        attributes: Attributes::default(),
        conditions: WriteConditions::default(),
        upload: Upload { size: work.bytes, body, md5: None, checksum: None },
    }
}

fn read_request(number: u64) -> ReadRequest {
    ReadRequest { name: name(number), span: Span::Whole, conditions: ReadConditions::default() }
}

struct StorageClient {
    objects: Objects,
    work: Work,
}

impl StorageClient {
    async fn read(&self, number: u64) -> Result<Duration, Failure> {
        let request = uncounted(|| read_request(number));
        let mut expected = self.work.body(number);
        let begun = Instant::now();
        let mut read = self.objects.get(request).await.map_err(Failure::of)?;
        while let Some(bytes) = read.body.next().await {
            if !expected.is_next(&bytes.map_err(Failure::of)?) {
                return Err(Failure::OtherBytes);
            }
        }
        let took = begun.elapsed();
        if expected.left() > 0 { Err(Failure::OtherBytes) } else { Ok(took) }
    }
}

impl Client for StorageClient {
    async fn one(&mut self) -> Result<Duration, Failure> {
        let number = self.work.next();
        if self.work.op == Op::Get {
            return self.read(number).await;
        }
        let request = uncounted(|| put_request(&self.work, number));
        let begun = Instant::now();
        self.objects.put(request).await.map_err(Failure::of)?;
        Ok(begun.elapsed())
    }

    async fn check(&mut self) -> Result<(), Failure> {
        match self.work.written() {
            Some(number) => self.read(number).await.map(drop),
            None => Ok(()),
        }
    }
}
