//! COPY: a read and a write. Copied data is new data, under the target's own key.

use super::digest::DEFAULT_ALGORITHM;
use super::multipart::PartOrigin;
use super::put::NewContent;
use super::{
    CopyPart, CopyRequest, Invalid, ObjectRead, Objects, ReadRequest, Result, Span, Upload, UploadBody,
    WriteOutcome,
};

impl Objects {
    /// Copies an object within the store.
    ///
    /// # Errors
    /// Any of [`super::Error`]; the target changed only if it is `OutcomeUnknown`.
    pub async fn copy(&self, request: CopyRequest) -> Result<WriteOutcome> {
        let CopyRequest { source, source_conditions, target, conditions, attributes, tags, checksum } =
            request;
        let bucket = self.inner.under.view(&target.bucket).await?;
        if source == target && !attributes.are_changed() && tags.is_none() {
            return Err(Invalid::CopyOntoItself.into());
        }
        let read = ReadRequest { name: source, span: Span::Whole, conditions: source_conditions };
        let ObjectRead { info, body, .. } = self.open(read).await?;
        let attributes = attributes.of_copy(info.attributes)?;
        let route = self.inner.under.route_in(&bucket, target.key);
        let kept = info.checksums.first().map(|checksum| checksum.algorithm);
        let upload = Upload { size: info.size, body: UploadBody::Stored(body), md5: None, checksum: None };
        let computed = checksum.or(kept).or(Some(DEFAULT_ALGORITHM));
        let received = self.inner.bodies.receive(&route, upload, computed).await?;
        let ticket = self.inner.under.registers.begin_at(&route);
        let (digests, stored) = received.durable().await?;
        let content = NewContent {
            size: info.size,
            etag: stored.etag(digests.md5),
            md5: digests.md5,
            attributes,
            tags: tags.unwrap_or(info.tags),
            checksums: digests.checksums,
        };
        self.store_version(&bucket.name, &route, ticket, content, stored, conditions).await
    }

    /// Copies bytes of an object into a part of an open upload.
    ///
    /// # Errors
    /// Any of [`super::Error`].
    pub async fn copy_part(&self, request: CopyPart) -> Result<WriteOutcome> {
        let CopyPart { part, source, span, source_conditions } = request;
        let read = ReadRequest { name: source, span, conditions: source_conditions };
        let ObjectRead { info, range, body } = self.open(read).await?;
        if let Span::From { last: Some(last), .. } = span
            && last >= info.size
        {
            return Err(Invalid::Range { size: info.size }.into());
        }
        let size = range.end - range.start;
        let upload = Upload { size, body: UploadBody::Stored(body), md5: None, checksum: None };
        self.inner.uploads.store_part(part, upload, PartOrigin::Copy).await
    }
}
