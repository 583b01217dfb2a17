//! Readers, writers, lists and samples, which go on between calls. Each belongs to the process that began
//! it.

use std::sync::Arc;

use bytes::Bytes;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use sherd_client::{
    ByteRange, Error, ListEntry, ObjectName, ObjectReader, ObjectWriter, ObjectsReader, Service,
};
use tokio::sync::{Mutex, mpsc};

use crate::calls::{Call, start_plain};
use crate::convert::{EntriesPage, Sample, bytes_of};
use crate::limits::PAGE_ENTRIES;
use crate::runtime::Threads;

/// A value that calls share, one after the other, in the process that made it.
struct SharedValue<T> {
    process: u32,
    value: Arc<Mutex<T>>,
}

impl<T> SharedValue<T> {
    fn new(value: T) -> PyResult<Self> {
        Ok(Self { process: Threads::get()?.process(), value: Arc::new(Mutex::new(value)) })
    }

    fn share(&self) -> PyResult<Arc<Mutex<T>>> {
        if self.process == std::process::id() {
            return Ok(Arc::clone(&self.value));
        }
        Err(PyRuntimeError::new_err("it was begun before this process was forked; begin it here"))
    }
}

/// Reads an object piece by piece.
#[pyclass(frozen, module = "sherd_client._native")]
pub(crate) struct Reader {
    service: Service,
    object: ObjectName,
    range: Option<ByteRange>,
    held: SharedValue<Option<ObjectReader>>,
}

impl Reader {
    pub(crate) fn new(service: Service, object: ObjectName, range: Option<ByteRange>) -> PyResult<Self> {
        Ok(Self { service, object, range, held: SharedValue::new(None)? })
    }
}

#[pymethods]
impl Reader {
    /// Begins to read; the value is the head.
    fn begin(&self, done: Py<PyAny>) -> PyResult<Call> {
        let (held, service, object) = (self.held.share()?, self.service.clone(), self.object.clone());
        let range = self.range;
        start_plain(done, async move {
            let reader = service.read(&object, range).await?;
            let info = reader.info().clone();
            *held.lock().await = Some(reader);
            Ok(info)
        })
    }

    /// The value is the next bytes, None at the end.
    fn next(&self, done: Py<PyAny>) -> PyResult<Call> {
        let held = self.held.share()?;
        start_plain(done, async move {
            match held.lock().await.as_mut() {
                Some(reader) => reader.next().await.transpose(),
                None => Ok(None::<Bytes>),
            }
        })
    }

    /// Ends it.
    fn close(&self, done: Py<PyAny>) -> PyResult<Call> {
        let held = self.held.share()?;
        start_plain(done, async move {
            drop(held.lock().await.take());
            Ok(())
        })
    }
}

/// Writes an object piece by piece.
#[pyclass(frozen, module = "sherd_client._native")]
pub(crate) struct Writer {
    held: SharedValue<Option<ObjectWriter>>,
}

impl Writer {
    pub(crate) fn new(writer: ObjectWriter) -> PyResult<Self> {
        Ok(Self { held: SharedValue::new(Some(writer))? })
    }
}

#[pymethods]
impl Writer {
    /// Appends bytes.
    fn write(&self, data: &Bound<'_, PyAny>, done: Py<PyAny>) -> PyResult<Call> {
        let (held, bytes) = (self.held.share()?, bytes_of(data)?);
        start_plain(done, async move {
            match held.lock().await.as_mut() {
                Some(writer) => writer.write(bytes).await,
                None => Err(Error::Cancelled),
            }
        })
    }

    /// Stores the object; the value is its bytes.
    fn finish(&self, done: Py<PyAny>) -> PyResult<Call> {
        let held = self.held.share()?;
        start_plain(done, async move {
            let writer = held.lock().await.take();
            match writer {
                Some(writer) => writer.finish().await,
                None => Err(Error::Cancelled),
            }
        })
    }

    /// Stores nothing.
    fn abort(&self, done: Py<PyAny>) -> PyResult<Call> {
        let held = self.held.share()?;
        start_plain(done, async move {
            let writer = held.lock().await.take();
            if let Some(writer) = writer {
                writer.abort().await;
            }
            Ok(())
        })
    }
}

/// Lists objects.
#[pyclass(frozen, module = "sherd_client._native")]
pub(crate) struct Entries {
    held: SharedValue<mpsc::Receiver<Result<ListEntry, Error>>>,
}

impl Entries {
    pub(crate) fn new(entries: mpsc::Receiver<Result<ListEntry, Error>>) -> PyResult<Self> {
        Ok(Self { held: SharedValue::new(entries)? })
    }
}

#[pymethods]
impl Entries {
    /// The value is a page of entries, empty at the end.
    fn next(&self, done: Py<PyAny>) -> PyResult<Call> {
        let held = self.held.share()?;
        start_plain(done, async move {
            let mut page = Vec::new();
            held.lock().await.recv_many(&mut page, PAGE_ENTRIES).await;
            page.into_iter().collect::<Result<_, _>>().map(EntriesPage)
        })
    }
}

/// Reads many objects, ahead of their reader.
#[pyclass(frozen, module = "sherd_client._native")]
pub(crate) struct Samples {
    held: SharedValue<ObjectsReader>,
}

impl Samples {
    pub(crate) fn new(samples: ObjectsReader) -> PyResult<Self> {
        Ok(Self { held: SharedValue::new(samples)? })
    }
}

#[pymethods]
impl Samples {
    /// The value is a key with bytes or a failure, None at the end.
    fn next(&self, done: Py<PyAny>) -> PyResult<Call> {
        let held = self.held.share()?;
        start_plain(done, async move {
            let sample = held.lock().await.next().await.transpose()?;
            Ok(sample.map(|(key, bytes)| Sample(key, bytes)))
        })
    }
}
