//! A service: one call for each verb, which starts work and returns it.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use sherd_client::{
    AddressingStyle, ByteRange, KeyPair, ListQuery, ObjectChoice, ObjectName, Overrides, PresignedMethod,
    Secret, Service, ServiceOptions, TransferSettings,
};

use crate::calls::{Call, start};
use crate::convert::{Buckets, Failure, Refusals, attributes, bytes_of};
use crate::runtime::Threads;
use crate::streams::{Entries, Reader, Samples, Writer};

type Pairs = Vec<(String, String)>;

/// A service of S3.
#[pyclass(frozen, module = "sherd_client._native")]
pub(crate) struct Native {
    options: ServiceOptions,
    /// The service of one process. Locked only while the interpreter is.
    service: Mutex<(u32, Service)>,
}

impl Native {
    /// The service, with connections of this process.
    fn service(&self) -> PyResult<Service> {
        let process = Threads::get()?.process();
        let mut service = self.service.lock().unwrap_or_else(PoisonError::into_inner);
        if service.0 != process {
            let own = Service::open(&self.options).map_err(|error| failed(Failure::of(error)))?;
            // Threads that are not here may hold what the parent's connections are locked with.
            std::mem::forget(std::mem::replace(&mut *service, (process, own)));
        }
        Ok(service.1.clone())
    }
}

/// The failure of a call that starts nothing. `sherd_client.errors` makes an exception of its own of it.
fn failed(failure: Failure) -> PyErr {
    PyValueError::new_err(failure)
}

fn range(offset: u64, bytes: Option<u64>) -> Option<ByteRange> {
    (offset > 0 || bytes.is_some()).then_some(ByteRange { offset, bytes })
}

#[pymethods]
impl Native {
    #[new]
    #[pyo3(signature = (*, alias, endpoint, region, profile, access_key, secret_key, session_token, ca_bundle,
        addressing, anonymous, workers, part_bytes, attempts, state, fsync))]
    #[expect(clippy::too_many_arguments, reason = "the Python side names each")]
    #[expect(clippy::fn_params_excessive_bools, reason = "the Python side names each")]
    fn new(
        alias: Option<String>,
        endpoint: Option<String>,
        region: Option<String>,
        profile: Option<String>,
        access_key: Option<String>,
        secret_key: Option<String>,
        session_token: Option<String>,
        ca_bundle: Option<PathBuf>,
        addressing: &str,
        anonymous: bool,
        workers: Option<usize>,
        part_bytes: Option<u64>,
        attempts: Option<u32>,
        state: Option<PathBuf>,
        fsync: bool,
    ) -> PyResult<Self> {
        let keys = match (access_key, secret_key) {
            (Some(access_key), Some(secret)) => {
                let session_token = session_token.map(Secret::new);
                Some(KeyPair { access_key, secret: Secret::new(secret), session_token })
            }
            (None, None) => None,
            _ => return Err(PyValueError::new_err("access_key and secret_key go together")),
        };
        let addressing = match addressing {
            "auto" => None,
            "path" => Some(AddressingStyle::Path),
            "virtual" => Some(AddressingStyle::Virtual),
            _ => return Err(PyValueError::new_err("addressing is auto, path or virtual")),
        };
        let default = TransferSettings::default();
        let transfers = TransferSettings {
            workers: workers.unwrap_or(default.workers),
            part_bytes,
            attempts: attempts.unwrap_or(default.attempts),
            state,
            is_durable: fsync,
        };
        let overrides = Overrides {
            endpoint,
            region,
            profile,
            ca: ca_bundle,
            addressing,
            anonymous,
            ..Overrides::default()
        };
        let options = ServiceOptions { alias, keys, overrides, transfers };
        let service = Service::open(&options).map_err(|error| failed(Failure::of(error)))?;
        Ok(Self { options, service: Mutex::new((Threads::get()?.process(), service)) })
    }

    fn put(
        &self,
        bucket: String,
        key: String,
        data: &Bound<'_, PyAny>,
        headers: Pairs,
        tags: Pairs,
        done: Py<PyAny>,
    ) -> PyResult<Call> {
        let (object, bytes) = (ObjectName::new(bucket, key), bytes_of(data)?);
        let attributes = attributes(headers, tags);
        start(&self.service()?, done, |service| async move { service.put(&object, bytes, &attributes).await })
    }

    fn get(
        &self,
        bucket: String,
        key: String,
        offset: u64,
        bytes: Option<u64>,
        done: Py<PyAny>,
    ) -> PyResult<Call> {
        let object = ObjectName::new(bucket, key);
        start(
            &self.service()?,
            done,
            |service| async move { service.get(&object, range(offset, bytes)).await },
        )
    }

    fn upload(
        &self,
        bucket: String,
        key: String,
        path: PathBuf,
        headers: Pairs,
        tags: Pairs,
        done: Py<PyAny>,
    ) -> PyResult<Call> {
        let (object, attributes) = (ObjectName::new(bucket, key), attributes(headers, tags));
        start(
            &self.service()?,
            done,
            |service| async move { service.upload(&path, &object, &attributes).await },
        )
    }

    fn download(&self, bucket: String, key: String, path: PathBuf, done: Py<PyAny>) -> PyResult<Call> {
        let object = ObjectName::new(bucket, key);
        start(&self.service()?, done, |service| async move { service.download(&object, &path).await })
    }

    fn copy(
        &self,
        bucket: String,
        key: String,
        to_bucket: String,
        to_key: String,
        done: Py<PyAny>,
    ) -> PyResult<Call> {
        let (from, to) = (ObjectName::new(bucket, key), ObjectName::new(to_bucket, to_key));
        start(&self.service()?, done, |service| async move { service.copy(&from, &to, None).await })
    }

    fn stat(&self, bucket: String, key: String, done: Py<PyAny>) -> PyResult<Call> {
        let object = ObjectName::new(bucket, key);
        start(&self.service()?, done, |service| async move { service.stat(&object).await })
    }

    fn delete(&self, bucket: String, key: String, done: Py<PyAny>) -> PyResult<Call> {
        let object = ObjectName::new(bucket, key);
        start(&self.service()?, done, |service| async move { service.delete(&object).await })
    }

    fn delete_many(&self, bucket: String, keys: Vec<String>, done: Py<PyAny>) -> PyResult<Call> {
        start(&self.service()?, done, |service| async move {
            service.delete_many(&bucket, &keys).await.map(Refusals)
        })
    }

    fn buckets(&self, done: Py<PyAny>) -> PyResult<Call> {
        start(&self.service()?, done, |service| async move {
            let buckets = service.buckets().await?;
            Ok(Buckets(buckets.into_iter().map(|bucket| (bucket.name, bucket.created)).collect()))
        })
    }

    fn create_bucket(&self, bucket: String, done: Py<PyAny>) -> PyResult<Call> {
        start(&self.service()?, done, |service| async move { service.create_bucket(&bucket).await })
    }

    fn delete_bucket(&self, bucket: String, done: Py<PyAny>) -> PyResult<Call> {
        start(&self.service()?, done, |service| async move { service.delete_bucket(&bucket).await })
    }

    fn presign(&self, bucket: String, key: String, is_put: bool, seconds: u64) -> PyResult<String> {
        let method = if is_put { PresignedMethod::Put } else { PresignedMethod::Get };
        let url = self.service()?.presign(method, &ObjectName::new(bucket, key), seconds);
        url.map_err(|error| failed(Failure::of(error)))
    }

    fn list(&self, bucket: String, prefix: String, is_by_folder: bool) -> PyResult<Entries> {
        let _runtime = Threads::get()?.runtime().enter();
        let query = ListQuery { bucket, prefix, is_by_folder, ..ListQuery::default() };
        Entries::new(self.service()?.list(query).map_err(|error| failed(Failure::of(error)))?)
    }

    fn read(&self, bucket: String, key: String, offset: u64, bytes: Option<u64>) -> PyResult<Reader> {
        Reader::new(self.service()?, ObjectName::new(bucket, key), range(offset, bytes))
    }

    fn write(&self, bucket: String, key: String, headers: Pairs, tags: Pairs) -> PyResult<Writer> {
        let _runtime = Threads::get()?.runtime().enter();
        let writer = self.service()?.write(&ObjectName::new(bucket, key), &attributes(headers, tags));
        Writer::new(writer.map_err(|error| failed(Failure::of(error)))?)
    }

    #[pyo3(signature = (bucket, keys, prefix, ahead))]
    fn samples(
        &self,
        bucket: String,
        keys: Option<Vec<String>>,
        prefix: String,
        ahead: usize,
    ) -> PyResult<Samples> {
        let _runtime = Threads::get()?.runtime().enter();
        let choice = keys.map_or(ObjectChoice::Prefix(prefix), ObjectChoice::Keys);
        let read = self.service()?.read_many(&bucket, choice, ahead);
        Samples::new(read.map_err(|error| failed(Failure::of(error)))?)
    }
}
