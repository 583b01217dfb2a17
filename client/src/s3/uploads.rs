//! Multipart uploads, and the guard that aborts one which is dropped.

use std::pin::pin;

use http::Method;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::objects::{CopySource, ObjectAttributes, ObjectName, etag, with_attributes};
use crate::checksum::{Checksum, ChecksumAlgorithm};
use crate::client::{Call, Client, OnCancel};
use crate::document::{self, CompletePart, PartsPage, TaggedResult, UploadStart};
use crate::error::Error;
use crate::limits::{CLEANUP_TIMEOUT, PARTS_MAX};
use crate::payload::{Meter, Payload};

/// A part that the service has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredPart {
    /// From one on.
    pub(crate) number: u64,
    pub(crate) etag: String,
    pub(crate) bytes: u64,
    /// Of a part that this client sent, or its journal has. Some services want it again at the end.
    pub(crate) checksum: Option<Checksum>,
}

/// A multipart upload that is under way. It is aborted when it is dropped before it is complete.
#[derive(Debug)]
pub(crate) struct Upload {
    client: Client,
    object: ObjectName,
    id: String,
    is_armed: bool,
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.is_armed {
            let (client, object, id) = (self.client.clone(), self.object.clone(), self.id.clone());
            self.client.clean_up(async move {
                let _left_for_rules_of_the_bucket = abort(&client, &object, &id).await;
            });
        }
    }
}

/// Removes an upload and its parts.
pub(crate) async fn abort(client: &Client, object: &ObjectName, id: &str) -> Result<(), Error> {
    let mut call = Call::object(Method::DELETE, &object.bucket, &object.key).query("uploadId", id);
    call.on_cancel = OnCancel::GoOn;
    let aborting = client.document(&call);
    let aborted = if client.cancelled().is_cancelled() {
        tokio::time::timeout(CLEANUP_TIMEOUT, aborting).await.unwrap_or(Err(Error::Cancelled))
    } else {
        aborting.await
    };
    match aborted {
        Err(Error::Refused { refusal, .. }) if refusal.is_absent() => Ok(()),
        aborted => aborted.map(drop),
    }
}

/// Begins an upload for a caller who may go away: then the request that is under way is the last one.
async fn begin_for(
    client: Client,
    object: ObjectName,
    call: Call,
    mut caller: oneshot::Sender<Result<Upload, Error>>,
) {
    let gone = client.cancelled().child_token();
    let asking = client.cancelled_by(gone.clone());
    let started = {
        let mut started = pin!(asking.document(&call));
        tokio::select! {
            // Each arm is waited for to its end.
            biased;
            started = &mut started => started,
            () = caller.closed() => {
                gone.cancel();
                match tokio::time::timeout(CLEANUP_TIMEOUT, started).await {
                    Ok(started) => started,
                    Err(_) => return,
                }
            }
        }
    };
    let upload = started.and_then(|body| {
        let start: UploadStart = document::read(&body).ok_or_else(|| Error::Malformed {
            resource: object.to_string(),
            what: "the body is not the start of an upload",
        })?;
        Ok(Upload::resume(&client, &object, start.upload_id))
    });
    let _dropped_without_a_caller = caller.send(upload);
}

/// Ends when cancelled work has had its time to clean up.
async fn late(cancelled: &CancellationToken) {
    cancelled.cancelled().await;
    tokio::time::sleep(CLEANUP_TIMEOUT).await;
}

impl Upload {
    /// Begins an upload whose parts have CRC64NVMEs that make that of the object.
    pub(crate) async fn begin(
        client: &Client,
        object: &ObjectName,
        attributes: &ObjectAttributes,
    ) -> Result<Self, Error> {
        let call = Call::object(Method::POST, &object.bucket, &object.key)
            .header("x-amz-checksum-algorithm", ChecksumAlgorithm::Crc64Nvme.name())
            .header("x-amz-checksum-type", "FULL_OBJECT");
        Self::begin_as(client, object, attributes, call).await
    }

    /// Begins an upload whose parts are copies within the service: their checksums are its own affair.
    pub(crate) async fn begin_copy(
        client: &Client,
        object: &ObjectName,
        attributes: &ObjectAttributes,
    ) -> Result<Self, Error> {
        let call = Call::object(Method::POST, &object.bucket, &object.key);
        Self::begin_as(client, object, attributes, call).await
    }

    async fn begin_as(
        client: &Client,
        object: &ObjectName,
        attributes: &ObjectAttributes,
        call: Call,
    ) -> Result<Self, Error> {
        let mut call = with_attributes(call.query("uploads", ""), attributes);
        call.on_cancel = OnCancel::Answer;
        let (sender, begun) = oneshot::channel();
        let (owner, object) = (client.clone(), object.clone());
        // In a task: an upload whose beginning is dropped before its answer has a guard nevertheless.
        client.spawn(begin_for(owner, object, call, sender));
        tokio::select! {
            // The upload that comes too late is dropped, and removed by its guard.
            biased;
            begun = begun => begun.unwrap_or(Err(Error::Cancelled)),
            () = late(client.cancelled()) => Err(Error::Cancelled),
        }
    }

    /// Takes up an upload that was begun.
    pub(crate) fn resume(client: &Client, object: &ObjectName, id: String) -> Self {
        Self { client: client.clone(), object: object.clone(), id, is_armed: true }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Leaves the upload to a later run that resumes it.
    pub(crate) fn leave(mut self) {
        self.is_armed = false;
    }

    /// Removes the upload and its parts.
    pub(crate) async fn abort(mut self) -> Result<(), Error> {
        self.is_armed = false;
        abort(&self.client, &self.object, &self.id).await
    }

    fn call(&self, method: Method) -> Call {
        Call::object(method, &self.object.bucket, &self.object.key)
    }

    /// Sends a part.
    pub(crate) async fn put_part(
        &self,
        number: u64,
        payload: Payload,
        checksum: Checksum,
        meter: &Meter,
    ) -> Result<StoredPart, Error> {
        let bytes = payload.len();
        let mut call = self.call(Method::PUT).query("partNumber", number.to_string());
        call = call.query("uploadId", self.id.as_str());
        call = call.header(checksum.algorithm.header(), checksum.text()).payload(payload);
        call.meter = meter.clone();
        let answer = self.client.send(&call).await?;
        Ok(StoredPart { number, etag: etag(&answer), bytes, checksum: Some(checksum) })
    }

    /// Copies a range of an object of the same service into a part.
    pub(crate) async fn copy_part(
        &self,
        number: u64,
        source: &CopySource<'_>,
        offset: u64,
        bytes: u64,
    ) -> Result<StoredPart, Error> {
        let call = self.call(Method::PUT).query("partNumber", number.to_string());
        let call = source.headers(call.query("uploadId", self.id.as_str()));
        let range = format!("bytes={offset}-{}", offset + bytes - 1);
        let body = self.client.document(&call.header("x-amz-copy-source-range", range)).await?;
        let result: Option<TaggedResult> = document::read(&body);
        let malformed = || Error::Malformed {
            resource: self.object.to_string(),
            what: "the body is not the result of a copy",
        };
        Ok(StoredPart { number, etag: result.ok_or_else(malformed)?.etag, bytes, checksum: None })
    }

    /// Lists the parts that the service has; nothing if it does not know the upload.
    pub(crate) async fn parts(&self) -> Result<Option<Vec<StoredPart>>, Error> {
        let (mut found, mut marker) = (Vec::new(), String::new());
        loop {
            let mut call = self.call(Method::GET).query("uploadId", self.id.as_str());
            if !marker.is_empty() {
                call = call.query("part-number-marker", marker.as_str());
            }
            let body = match self.client.document(&call).await {
                Err(error) if error.is_absent() => return Ok(None),
                body => body?,
            };
            let page: Option<PartsPage> = document::read(&body);
            let malformed = || Error::Malformed {
                resource: self.object.to_string(),
                what: "the body is not a list of parts",
            };
            let page = page.ok_or_else(malformed)?;
            let part = |part: document::PartElement| StoredPart {
                number: part.part_number,
                etag: part.etag,
                bytes: part.size,
                checksum: None,
            };
            found.extend(page.part.into_iter().map(part));
            match page.next_part_number_marker {
                Some(next) if page.is_truncated && next != marker && found.len() as u64 <= PARTS_MAX => {
                    marker = next;
                }
                _ => return Ok(Some(found)),
            }
        }
    }

    /// Makes the object of all parts, in their order. Returns its entity tag. Where an attempt's answer was
    /// lost and the upload is gone, the object is there if it has this checksum.
    pub(crate) async fn complete(
        &mut self,
        parts: &[StoredPart],
        checksum: Option<Checksum>,
    ) -> Result<String, Error> {
        let body = document::complete_body(parts.iter().map(|part| CompletePart {
            number: part.number,
            etag: &part.etag,
            checksum: part.checksum.map(|checksum| (checksum.algorithm.name(), checksum.text())),
        }));
        let mut call = self.call(Method::POST).query("uploadId", self.id.as_str());
        if let Some(checksum) = checksum {
            call = call.header(checksum.algorithm.header(), checksum.text());
            call = call.header("x-amz-checksum-type", "FULL_OBJECT");
        }
        let result = match self.client.document(&call.payload(Payload::Bytes(body))).await {
            Err(error) if error.is_absent() => {
                let Some(checksum) = checksum else { return Err(error) };
                let info = self.client.head(&self.object).await?;
                if info.checksum != Some((checksum.algorithm, checksum.text())) {
                    return Err(error);
                }
                self.is_armed = false;
                return Ok(info.etag);
            }
            result => result?,
        };
        self.is_armed = false;
        let result: Option<TaggedResult> = document::read(&result);
        let malformed = || Error::Malformed {
            resource: self.object.to_string(),
            what: "the body is not the result of an upload",
        };
        Ok(result.ok_or_else(malformed)?.etag)
    }
}
