//! Readers, writers, lists and samples, which go on between calls. Each has one control for its whole life:
//! what ends that ends the stream.

use std::sync::Arc;

use bytes::Bytes;
use napi::bindgen_prelude::{Buffer, Env, PromiseRaw};
use napi_derive::napi;
use sherd_client::{Error, ListEntry, ObjectInfo, ObjectReader, ObjectWriter, ObjectsReader};
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::calls::Control;
use crate::convert::{Head, Line, Sample, buffer, number};
use crate::limits::PAGE_ENTRIES;

/// A stream that calls use one after the other, until it is closed.
type SharedStream<T> = Arc<Mutex<Option<T>>>;

fn share<T>(value: T) -> SharedStream<T> {
    Arc::new(Mutex::new(Some(value)))
}

/// Ends a stream, and the call that waits for it.
fn close<'env, T: Send + 'static>(
    env: &'env Env,
    control: &Control,
    shared: &SharedStream<T>,
) -> napi::Result<PromiseRaw<'env, ()>> {
    control.cancel();
    let shared = Arc::clone(shared);
    control.start(env, async move {
        drop(shared.lock().await.take());
        Ok(())
    })
}

/// Reads an object piece by piece.
#[napi]
pub struct Reader {
    control: Control,
    info: ObjectInfo,
    held: SharedStream<ObjectReader>,
}

impl Reader {
    pub(crate) fn new(control: Control, reader: ObjectReader) -> Self {
        Self { control, info: reader.info().clone(), held: share(reader) }
    }
}

#[napi]
impl Reader {
    /// The head of the object.
    #[napi(getter)]
    pub fn head(&self) -> Head {
        self.info.clone().into()
    }

    /// The value is the next bytes, null at the end.
    #[napi]
    pub fn next<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, Option<Buffer>>> {
        let reader = Arc::clone(&self.held);
        self.control.start_plain(env, async move {
            let mut reader = reader.lock().await;
            let piece = reader.as_mut().ok_or(Error::Cancelled)?.next().await;
            Ok(piece.transpose()?.map(buffer))
        })
    }

    /// Ends it.
    #[napi]
    pub fn close<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, ()>> {
        close(env, &self.control, &self.held)
    }
}

/// Writes an object piece by piece.
#[napi]
pub struct Writer {
    control: Control,
    held: SharedStream<ObjectWriter>,
    /// Ends the task that would abort the upload.
    _collected: DropGuard,
}

impl Writer {
    /// The upload is aborted when the control is cancelled, also between two calls.
    pub(crate) fn new(control: Control, writer: ObjectWriter) -> Self {
        let (held, collected) = (share(writer), CancellationToken::new());
        let (aborted, cancelled) = (Arc::clone(&held), control.cancelled().clone());
        let is_collected = collected.clone();
        control.spawn(async move {
            tokio::select! {
                // Both wait for a token, and have nothing to lose.
                biased;
                () = is_collected.cancelled() => {}
                () = cancelled.cancelled() => abort(&aborted).await,
            }
        });
        Self { control, held, _collected: collected.drop_guard() }
    }
}

/// Aborts an upload that has not ended. A second caller waits for the first one.
async fn abort(writer: &SharedStream<ObjectWriter>) {
    let mut writer = writer.lock().await;
    if let Some(writer) = writer.take() {
        writer.abort().await;
    }
}

#[napi]
impl Writer {
    /// Appends bytes.
    #[napi]
    pub fn write<'env>(&self, env: &'env Env, data: Buffer) -> napi::Result<PromiseRaw<'env, ()>> {
        // The caller may go on to write in its buffer.
        let (writer, bytes) = (Arc::clone(&self.held), Bytes::copy_from_slice(&data));
        self.control.start_plain(env, async move {
            let mut writer = writer.lock().await;
            writer.as_mut().ok_or(Error::Cancelled)?.write(bytes).await
        })
    }

    /// Stores the object; the value is its bytes.
    #[napi]
    pub fn finish<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, i64>> {
        let writer = Arc::clone(&self.held);
        self.control.start(env, async move {
            let mut writer = writer.lock().await;
            writer.take().ok_or(Error::Cancelled)?.finish().await.map(number)
        })
    }

    /// Stores nothing.
    #[napi]
    pub fn abort<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, ()>> {
        self.control.cancel();
        let writer = Arc::clone(&self.held);
        self.control.start(env, async move {
            abort(&writer).await;
            Ok(())
        })
    }
}

/// Lists objects.
#[napi]
pub struct Entries {
    control: Control,
    held: SharedStream<mpsc::Receiver<Result<ListEntry, Error>>>,
}

impl Entries {
    pub(crate) fn new(control: Control, entries: mpsc::Receiver<Result<ListEntry, Error>>) -> Self {
        Self { control, held: share(entries) }
    }
}

#[napi]
impl Entries {
    /// The value is a page of entries, empty at the end.
    #[napi]
    pub fn next<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, Vec<Line>>> {
        let entries = Arc::clone(&self.held);
        self.control.start_plain(env, async move {
            let mut entries = entries.lock().await;
            let mut page = Vec::new();
            entries.as_mut().ok_or(Error::Cancelled)?.recv_many(&mut page, PAGE_ENTRIES).await;
            page.into_iter().map(|entry| entry.map(Line::from)).collect()
        })
    }

    /// Ends it.
    #[napi]
    pub fn close<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, ()>> {
        close(env, &self.control, &self.held)
    }
}

/// Reads many objects, ahead of their reader.
#[napi]
pub struct Samples {
    control: Control,
    held: SharedStream<ObjectsReader>,
}

impl Samples {
    pub(crate) fn new(control: Control, samples: ObjectsReader) -> Self {
        Self { control, held: share(samples) }
    }
}

#[napi]
impl Samples {
    /// The value is an object with its bytes or a failure, null at the end.
    #[napi]
    pub fn next<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, Option<Sample>>> {
        let samples = Arc::clone(&self.held);
        self.control.start_plain(env, async move {
            let mut samples = samples.lock().await;
            let sample = samples.as_mut().ok_or(Error::Cancelled)?.next().await;
            Ok(sample.transpose()?.map(Sample::from))
        })
    }

    /// Ends it.
    #[napi]
    pub fn close<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, ()>> {
        close(env, &self.control, &self.held)
    }
}
