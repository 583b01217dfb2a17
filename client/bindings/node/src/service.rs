//! A service: one call for each verb, which starts work and returns a promise.

use std::path::PathBuf;

use bytes::Bytes;
use napi::bindgen_prelude::{Buffer, Env, PromiseRaw, within_runtime_if_available};
use napi_derive::napi;
use sherd_client::{
    AddressingStyle, ByteRange, KeyPair, ListQuery, ObjectChoice, ObjectName, Overrides, PresignedMethod,
    Secret, Service, ServiceOptions, TransferSettings,
};

use crate::calls::Control;
use crate::convert::{Attributes, BucketLine, Head, Refusal, buffer, failed, number, refused, size};
use crate::streams::{Entries, Reader, Samples, Writer};

/// Options of a service.
#[napi(object)]
pub struct Options {
    /// The name under which `sherd alias set` keeps it.
    pub alias: Option<String>,
    /// The endpoint's URL.
    pub endpoint: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// The profile.
    pub profile: Option<String>,
    /// The public half of a key.
    pub access_key: Option<String>,
    /// The secret half.
    pub secret_key: Option<String>,
    /// The token of a session.
    pub session_token: Option<String>,
    /// The file of trusted certificates.
    pub ca_bundle: Option<String>,
    /// `auto`, `path` or `virtual`.
    pub addressing: Option<String>,
    /// Send requests without a signature.
    pub anonymous: Option<bool>,
    /// Requests at one time.
    pub workers: Option<i64>,
    /// Bytes of a part.
    pub part_bytes: Option<i64>,
    /// Attempts of a request.
    pub attempts: Option<i64>,
    /// The folder of journals.
    pub state: Option<String>,
    /// Whether files are synced before they have their names.
    pub fsync: Option<bool>,
}

impl Options {
    fn into_service(self) -> napi::Result<ServiceOptions> {
        let keys = match (self.access_key, self.secret_key) {
            (Some(access_key), Some(secret)) => {
                let session_token = self.session_token.map(Secret::new);
                Some(KeyPair { access_key, secret: Secret::new(secret), session_token })
            }
            (None, None) => None,
            _ => return Err(refused("accessKey and secretKey go together")),
        };
        let addressing = match self.addressing.as_deref() {
            None | Some("auto") => None,
            Some("path") => Some(AddressingStyle::Path),
            Some("virtual") => Some(AddressingStyle::Virtual),
            Some(_) => return Err(refused("addressing is auto, path or virtual")),
        };
        let default = TransferSettings::default();
        let transfers = TransferSettings {
            // A number that is too large for its type is refused as one that is too large.
            workers: match self.workers {
                Some(workers) => usize::try_from(size(workers)?).unwrap_or(usize::MAX),
                None => default.workers,
            },
            part_bytes: self.part_bytes.map(size).transpose()?,
            attempts: match self.attempts {
                Some(attempts) => u32::try_from(size(attempts)?).unwrap_or(u32::MAX),
                None => default.attempts,
            },
            state: self.state.map(PathBuf::from),
            is_durable: self.fsync.unwrap_or_default(),
        };
        let overrides = Overrides {
            endpoint: self.endpoint,
            region: self.region,
            profile: self.profile,
            ca: self.ca_bundle.map(PathBuf::from),
            addressing,
            anonymous: self.anonymous.unwrap_or_default(),
        };
        Ok(ServiceOptions { alias: self.alias, keys, overrides, transfers })
    }
}

fn range(offset: i64, bytes: Option<i64>) -> napi::Result<Option<ByteRange>> {
    let (offset, bytes) = (size(offset)?, bytes.map(size).transpose()?);
    Ok((offset > 0 || bytes.is_some()).then_some(ByteRange { offset, bytes }))
}

/// A service of S3.
#[napi]
pub struct Native {
    service: Service,
}

#[napi]
impl Native {
    /// Finds the service; nothing is sent.
    #[napi(constructor)]
    pub fn new(options: Options) -> napi::Result<Self> {
        let service = Service::open(&options.into_service()?).map_err(|error| failed(&error))?;
        Ok(Self { service })
    }

    /// Stores bytes.
    #[napi]
    pub fn put<'env>(
        &self,
        env: &'env Env,
        control: &Control,
        bucket: String,
        key: String,
        data: Buffer,
        attributes: Attributes,
    ) -> napi::Result<PromiseRaw<'env, i64>> {
        let (service, object) = (control.service(&self.service), ObjectName::new(bucket, key));
        // The caller may go on to write in its buffer.
        let bytes = Bytes::copy_from_slice(&data);
        let attributes = attributes.into();
        control.start(env, async move { service.put(&object, bytes, &attributes).await.map(number) })
    }

    /// Reads an object or a range of it.
    #[napi]
    pub fn get<'env>(
        &self,
        env: &'env Env,
        control: &Control,
        bucket: String,
        key: String,
        offset: i64,
        bytes: Option<i64>,
    ) -> napi::Result<PromiseRaw<'env, Buffer>> {
        let (service, object) = (control.service(&self.service), ObjectName::new(bucket, key));
        let range = range(offset, bytes)?;
        control.start(env, async move { service.get(&object, range).await.map(buffer) })
    }

    /// Uploads a file.
    #[napi]
    pub fn upload<'env>(
        &self,
        env: &'env Env,
        control: &Control,
        bucket: String,
        key: String,
        path: String,
        attributes: Attributes,
    ) -> napi::Result<PromiseRaw<'env, i64>> {
        let (service, object) = (control.service(&self.service), ObjectName::new(bucket, key));
        let (path, attributes) = (PathBuf::from(path), attributes.into());
        control.start(env, async move { service.upload(&path, &object, &attributes).await.map(number) })
    }

    /// Downloads an object to a file.
    #[napi]
    pub fn download<'env>(
        &self,
        env: &'env Env,
        control: &Control,
        bucket: String,
        key: String,
        path: String,
    ) -> napi::Result<PromiseRaw<'env, Head>> {
        let (service, object) = (control.service(&self.service), ObjectName::new(bucket, key));
        let path = PathBuf::from(path);
        control.start(env, async move { service.download(&object, &path).await.map(Head::from) })
    }

    /// Copies an object.
    #[napi]
    pub fn copy<'env>(
        &self,
        env: &'env Env,
        control: &Control,
        bucket: String,
        key: String,
        to_bucket: String,
        to_key: String,
    ) -> napi::Result<PromiseRaw<'env, Head>> {
        let service = control.service(&self.service);
        let (from, to) = (ObjectName::new(bucket, key), ObjectName::new(to_bucket, to_key));
        control.start(env, async move { service.copy(&from, &to, None).await.map(Head::from) })
    }

    /// Returns the head of an object.
    #[napi]
    pub fn stat<'env>(
        &self,
        env: &'env Env,
        control: &Control,
        bucket: String,
        key: String,
    ) -> napi::Result<PromiseRaw<'env, Head>> {
        let (service, object) = (control.service(&self.service), ObjectName::new(bucket, key));
        control.start(env, async move { service.stat(&object).await.map(Head::from) })
    }

    /// Removes an object.
    #[napi]
    pub fn delete<'env>(
        &self,
        env: &'env Env,
        control: &Control,
        bucket: String,
        key: String,
    ) -> napi::Result<PromiseRaw<'env, ()>> {
        let (service, object) = (control.service(&self.service), ObjectName::new(bucket, key));
        control.start(env, async move { service.delete(&object).await })
    }

    /// Removes objects.
    #[napi]
    pub fn delete_many<'env>(
        &self,
        env: &'env Env,
        control: &Control,
        bucket: String,
        keys: Vec<String>,
    ) -> napi::Result<PromiseRaw<'env, Vec<Refusal>>> {
        let service = control.service(&self.service);
        control.start(env, async move {
            let refused = service.delete_many(&bucket, &keys).await?;
            Ok(refused.into_iter().map(Refusal::from).collect())
        })
    }

    /// Lists the buckets.
    #[napi]
    pub fn buckets<'env>(
        &self,
        env: &'env Env,
        control: &Control,
    ) -> napi::Result<PromiseRaw<'env, Vec<BucketLine>>> {
        let service = control.service(&self.service);
        control.start(
            env,
            async move { Ok(service.buckets().await?.into_iter().map(BucketLine::from).collect()) },
        )
    }

    /// Makes a bucket.
    #[napi]
    pub fn create_bucket<'env>(
        &self,
        env: &'env Env,
        control: &Control,
        bucket: String,
    ) -> napi::Result<PromiseRaw<'env, ()>> {
        let service = control.service(&self.service);
        control.start(env, async move { service.create_bucket(&bucket).await })
    }

    /// Removes an empty bucket.
    #[napi]
    pub fn delete_bucket<'env>(
        &self,
        env: &'env Env,
        control: &Control,
        bucket: String,
    ) -> napi::Result<PromiseRaw<'env, ()>> {
        let service = control.service(&self.service);
        control.start(env, async move { service.delete_bucket(&bucket).await })
    }

    /// Makes a URL.
    #[napi]
    pub fn presign(&self, bucket: String, key: String, is_put: bool, seconds: i64) -> napi::Result<String> {
        let method = if is_put { PresignedMethod::Put } else { PresignedMethod::Get };
        let url = self.service.presign(method, &ObjectName::new(bucket, key), size(seconds)?);
        url.map_err(|error| failed(&error))
    }

    /// Lists objects.
    #[napi]
    pub fn list(
        &self,
        control: &Control,
        bucket: String,
        prefix: String,
        is_by_folder: bool,
    ) -> napi::Result<Entries> {
        let query = ListQuery { bucket, prefix, is_by_folder };
        let entries = within_runtime_if_available(|| control.service(&self.service).list(query));
        entries.map(|entries| Entries::new(control.clone(), entries)).map_err(|error| failed(&error))
    }

    /// Reads an object piece by piece.
    #[napi]
    pub fn read<'env>(
        &self,
        env: &'env Env,
        control: &Control,
        bucket: String,
        key: String,
        offset: i64,
        bytes: Option<i64>,
    ) -> napi::Result<PromiseRaw<'env, Reader>> {
        let (service, object) = (control.service(&self.service), ObjectName::new(bucket, key));
        let (range, control_of_reader) = (range(offset, bytes)?, control.clone());
        control.start_plain(env, async move {
            service.read(&object, range).await.map(|reader| Reader::new(control_of_reader, reader))
        })
    }

    /// Writes an object piece by piece.
    #[napi]
    pub fn write(
        &self,
        control: &Control,
        bucket: String,
        key: String,
        attributes: Attributes,
    ) -> napi::Result<Writer> {
        let (object, attributes) = (ObjectName::new(bucket, key), attributes.into());
        let writer =
            within_runtime_if_available(|| control.service(&self.service).write(&object, &attributes));
        writer.map(|writer| Writer::new(control.clone(), writer)).map_err(|error| failed(&error))
    }

    /// Reads many objects.
    #[napi]
    pub fn samples(
        &self,
        control: &Control,
        bucket: String,
        keys: Option<Vec<String>>,
        prefix: String,
        ahead: i64,
    ) -> napi::Result<Samples> {
        let choice = keys.map_or(ObjectChoice::Prefix(prefix), ObjectChoice::Keys);
        let ahead = usize::try_from(size(ahead)?).unwrap_or(usize::MAX);
        let samples =
            within_runtime_if_available(|| control.service(&self.service).read_many(&bucket, choice, ahead));
        samples.map(|samples| Samples::new(control.clone(), samples)).map_err(|error| failed(&error))
    }
}
