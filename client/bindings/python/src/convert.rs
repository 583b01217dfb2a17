//! Values of the library as values of Python: tuples, which `sherd_client` makes classes of.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use sherd_client::{DeleteRefusal, Error, ListEntry, ObjectAttributes, ObjectInfo};

/// Becomes a value of Python.
pub(crate) trait ToPython {
    /// Makes the value.
    fn to_python(self, python: Python<'_>) -> PyResult<Py<PyAny>>;
}

impl ToPython for () {
    fn to_python(self, python: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(python.None())
    }
}

impl ToPython for u64 {
    fn to_python(self, python: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(self.into_pyobject(python)?.into_any().unbind())
    }
}

impl ToPython for Bytes {
    fn to_python(self, python: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(PyBytes::new(python, &self).into_any().unbind())
    }
}

impl<T: ToPython> ToPython for Option<T> {
    fn to_python(self, python: Python<'_>) -> PyResult<Py<PyAny>> {
        self.map_or_else(|| Ok(python.None()), |value| value.to_python(python))
    }
}

/// Head of an object: bytes, entity tag, time, checksum, version, storage class, headers.
pub(crate) type Head = (
    u64,
    String,
    Option<f64>,
    Option<(&'static str, String)>,
    Option<String>,
    Option<String>,
    Vec<(String, String)>,
);

pub(crate) fn head(info: ObjectInfo) -> Head {
    let ObjectInfo { bytes, etag, modified, checksum, version, storage_class, attributes } = info;
    let checksum = checksum.map(|(algorithm, value)| (algorithm.name(), value));
    (bytes, etag, modified.and_then(seconds), checksum, version, storage_class, attributes.headers)
}

impl ToPython for ObjectInfo {
    fn to_python(self, python: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(head(self).into_pyobject(python)?.into_any().unbind())
    }
}

/// A page of a list: key or prefix, bytes (none for a prefix), time, entity tag, storage class.
pub(crate) struct EntriesPage(pub(crate) Vec<ListEntry>);

impl ToPython for EntriesPage {
    fn to_python(self, python: Python<'_>) -> PyResult<Py<PyAny>> {
        let entry = |entry: ListEntry| match entry {
            ListEntry::Object(object) => {
                let modified = object.modified.and_then(seconds);
                (object.key, Some(object.bytes), modified, Some(object.etag), object.storage_class)
            }
            ListEntry::Prefix(prefix) => (prefix, None, None, None, None),
        };
        let entries: Vec<_> = self.0.into_iter().map(entry).collect();
        Ok(entries.into_pyobject(python)?.into_any().unbind())
    }
}

/// Buckets: name and time.
pub(crate) struct Buckets(pub(crate) Vec<(String, Option<SystemTime>)>);

impl ToPython for Buckets {
    fn to_python(self, python: Python<'_>) -> PyResult<Py<PyAny>> {
        let buckets = self.0.into_iter().map(|(name, created)| (name, created.and_then(seconds)));
        Ok(buckets.collect::<Vec<_>>().into_pyobject(python)?.into_any().unbind())
    }
}

/// Keys that were not deleted: key, code, message.
pub(crate) struct Refusals(pub(crate) Vec<DeleteRefusal>);

impl ToPython for Refusals {
    fn to_python(self, python: Python<'_>) -> PyResult<Py<PyAny>> {
        let refusal = |refused: DeleteRefusal| (refused.key, refused.refusal.code, refused.refusal.message);
        Ok(self.0.into_iter().map(refusal).collect::<Vec<_>>().into_pyobject(python)?.into_any().unbind())
    }
}

/// An object of many: its key, and its bytes or why they could not be read.
pub(crate) struct Sample(pub(crate) String, pub(crate) Result<Bytes, Error>);

impl ToPython for Sample {
    fn to_python(self, python: Python<'_>) -> PyResult<Py<PyAny>> {
        let sample = match self.1 {
            Ok(bytes) => (self.0, Some(PyBytes::new(python, &bytes)), None),
            Err(error) => (self.0, None, Some(Failure::of(error))),
        };
        Ok(sample.into_pyobject(python)?.into_any().unbind())
    }
}

/// A failure, of which `sherd_client.errors` makes an exception.
#[derive(Debug, IntoPyObject)]
pub(crate) struct Failure(&'static str, String, u16, String, String);

impl Failure {
    /// The error's word, text, and what the service said: status, code, id of the request.
    pub(crate) fn of(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::Refused { refusal, .. } => {
                Self("refused", text, refusal.status, refusal.code, refusal.request_id)
            }
            Error::File { source, .. } => {
                let number = source.raw_os_error().map_or_else(String::new, |number| number.to_string());
                Self("file", text, 0, number, String::new())
            }
            error => Self(error.kind(), text, 0, String::new(), String::new()),
        }
    }

    pub(crate) fn text(text: &str) -> Self {
        Self("internal", text.to_owned(), 0, String::new(), String::new())
    }

    pub(crate) fn panic() -> Self {
        Self::text("the work panicked; standard error has the place")
    }
}

fn seconds(time: SystemTime) -> Option<f64> {
    time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs_f64())
}

/// Takes bytes: those of `bytes` without a copy, for they never change, and a copy of other buffers.
pub(crate) fn bytes_of(data: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    if let Ok(bytes) = data.cast::<PyBytes>() {
        return Ok(Bytes::from_owner(PyBackedBytes::from(bytes.clone())));
    }
    let buffer: PyBuffer<u8> = PyBuffer::get(data)?;
    Ok(buffer.to_vec(data.py())?.into())
}

pub(crate) fn attributes(headers: Vec<(String, String)>, tags: Vec<(String, String)>) -> ObjectAttributes {
    ObjectAttributes { headers, tags }
}
