//! Objects: versions, what S3 says about a body, where its bytes are, and open uploads.
//!
//! ```text
//! object     := n u32, n x version (newest first), n u32, n x upload (oldest first)
//! version    := id 16, modified u64, kind u8, (0 delete marker | 1 content)
//! content    := size u64, etag text, attributes, n u8, n x checksum, has upload u8, (upload 16), body,
//!               (entries)
//! attributes := n u32, n x (name text, value text)
//! body       := kind u8, (1 inline: blake3 32 | 2 data ref | 3 n u32, n x part ref
//!                         | 4 manifest: data ref, parts u16)
//! upload     := id 16, initiated u64, has attributes u8, (attributes), algorithm u8 (0 none), (kind u8)
//! ```

use super::data_ref::{put_data_ref, take_data_ref, take_optional};
use super::entries::{put_entries, take_entries};
use super::limits::{PAIR_BYTES_MIN, UPLOAD_BYTES_MIN, VERSION_BYTES_MIN};
use super::part::{algorithm_of, put_checksum, put_parts, take_checksum, take_parts};
use super::version::ValueVersion;
use crate::codec::{DecodeError, Reader, Writer};
use crate::id::{UploadId, VersionId};
use crate::limits;
use crate::record::{
    Attributes, Body, ChecksumAlgorithm, ChecksumKind, Checksums, Content, Object, OverLimit, Upload,
    Version, VersionKind,
};

pub(super) fn put_object(
    writer: &mut Writer,
    object: &Object,
    stored: ValueVersion,
) -> Result<(), OverLimit> {
    let Object { versions, uploads } = object;
    writer.count(versions.len());
    let mut older_from = writer.len();
    for (age, version) in versions.iter().enumerate() {
        put_version(writer, version, stored);
        if age == 0 {
            older_from = writer.len();
        }
    }
    if writer.len() - older_from > limits::OLDER_VERSIONS_BYTES_MAX {
        return Err(OverLimit { field: "older versions" });
    }
    writer.count(uploads.len());
    for upload in uploads {
        put_upload(writer, upload);
    }
    Ok(())
}

pub(super) fn take_object(reader: &mut Reader, stored: ValueVersion) -> Result<Object, DecodeError> {
    let count = reader.count(VERSION_BYTES_MIN, "versions")?;
    let mut versions =
        Vec::with_capacity(count.min(1 + limits::OLDER_VERSIONS_BYTES_MAX / VERSION_BYTES_MIN));
    let mut older_from = reader.remaining();
    for age in 0..count {
        versions.push(take_version(reader, stored)?);
        if age == 0 {
            older_from = reader.remaining();
        }
        if older_from - reader.remaining() > limits::OLDER_VERSIONS_BYTES_MAX {
            return Err(DecodeError::Invalid { field: "older versions" });
        }
    }
    let count = reader.count(UPLOAD_BYTES_MIN, "uploads")?;
    if count > limits::OPEN_UPLOADS_MAX {
        return Err(DecodeError::Invalid { field: "uploads" });
    }
    let mut uploads = Vec::with_capacity(count);
    for _ in 0..count {
        uploads.push(take_upload(reader)?);
    }
    Ok(Object { versions, uploads })
}

fn put_version(writer: &mut Writer, version: &Version, stored: ValueVersion) {
    let Version { id, modified_ms, kind } = version;
    writer.raw(&id.0).u64(*modified_ms);
    match kind {
        VersionKind::DeleteMarker => {
            writer.u8(0);
        }
        VersionKind::Content(content) => put_content(writer.u8(1), content, stored),
    }
}

fn take_version(reader: &mut Reader, stored: ValueVersion) -> Result<Version, DecodeError> {
    Ok(Version {
        id: VersionId(reader.array("version id")?),
        modified_ms: reader.u64("version modified")?,
        kind: match reader.u8("version kind")? {
            0 => VersionKind::DeleteMarker,
            1 => VersionKind::Content(take_content(reader, stored)?),
            _ => return Err(DecodeError::Invalid { field: "version kind" }),
        },
    })
}

fn put_content(writer: &mut Writer, content: &Content, stored: ValueVersion) {
    let Content { size, etag, attributes, checksums, upload, body, entries } = content;
    writer.u64(*size).blob(etag.as_bytes());
    put_attributes(writer, attributes);
    writer.u8(u8::try_from(checksums.len()).expect("checked: at most CHECKSUMS_MAX"));
    for checksum in checksums {
        put_checksum(writer, checksum);
    }
    writer.u8(u8::from(upload.is_some()));
    if let Some(upload) = upload {
        writer.raw(&upload.0);
    }
    put_body(writer, body);
    if stored >= ValueVersion::WithEntries {
        put_entries(writer, entries);
    }
}

fn take_content(reader: &mut Reader, stored: ValueVersion) -> Result<Content, DecodeError> {
    let size = reader.u64("size")?;
    let etag = reader.text("etag")?;
    let attributes = take_attributes(reader)?;
    let count = usize::from(reader.u8("checksums")?);
    if count > limits::CHECKSUMS_MAX {
        return Err(DecodeError::Invalid { field: "checksums" });
    }
    let mut checksums = Checksums::with_capacity(count);
    for _ in 0..count {
        checksums.push(take_checksum(reader)?);
    }
    let upload =
        take_optional(reader, "completed upload", |reader| reader.array("completed upload").map(UploadId))?;
    let body = take_body(reader)?;
    let entries = take_entries(reader, stored)?;
    Ok(Content { size, etag, attributes, checksums, upload, body, entries })
}

pub(super) fn put_attributes(writer: &mut Writer, attributes: &Attributes) {
    let Attributes { pairs } = attributes;
    writer.count(pairs.len());
    for (name, value) in pairs {
        writer.blob(name.as_bytes()).blob(value.as_bytes());
    }
}

pub(super) fn take_attributes(reader: &mut Reader) -> Result<Attributes, DecodeError> {
    let count = reader.count(PAIR_BYTES_MIN, "attributes")?;
    if count > limits::ATTRIBUTES_BYTES_MAX {
        return Err(DecodeError::Invalid { field: "attributes" });
    }
    let mut pairs = Vec::with_capacity(count);
    for _ in 0..count {
        pairs.push((reader.text("attribute name")?, reader.text("attribute value")?));
    }
    Ok(Attributes { pairs })
}

fn put_body(writer: &mut Writer, body: &Body) {
    match body {
        Body::Inline { hash } => {
            writer.u8(1).raw(hash);
        }
        Body::Data(data) => put_data_ref(writer.u8(2), data),
        Body::Parts(parts) => put_parts(writer.u8(3), parts),
        Body::Manifest { page, parts } => {
            put_data_ref(writer.u8(4), page);
            writer.u16(*parts);
        }
    }
}

fn take_body(reader: &mut Reader) -> Result<Body, DecodeError> {
    match reader.u8("body kind")? {
        1 => Ok(Body::Inline { hash: reader.array("inline hash")? }),
        2 => take_data_ref(reader).map(Body::Data),
        3 => take_parts(reader, limits::PARTS_IN_RECORD_MAX).map(Body::Parts),
        4 => Ok(Body::Manifest { page: take_data_ref(reader)?, parts: reader.u16("manifest parts")? }),
        _ => Err(DecodeError::Invalid { field: "body kind" }),
    }
}

fn put_upload(writer: &mut Writer, upload: &Upload) {
    let Upload { id, initiated_ms, attributes, checksum } = upload;
    writer.raw(&id.0).u64(*initiated_ms).u8(u8::from(attributes.is_some()));
    if let Some(attributes) = attributes {
        put_attributes(writer, attributes);
    }
    match checksum {
        None => writer.u8(0),
        Some((algorithm, kind)) => writer.u8(*algorithm as u8).u8(*kind as u8),
    };
}

fn take_upload(reader: &mut Reader) -> Result<Upload, DecodeError> {
    Ok(Upload {
        id: UploadId(reader.array("upload id")?),
        initiated_ms: reader.u64("upload initiated")?,
        attributes: take_optional(reader, "upload attributes", take_attributes)?,
        checksum: take_upload_checksum(reader)?,
    })
}

fn take_upload_checksum(
    reader: &mut Reader,
) -> Result<Option<(ChecksumAlgorithm, ChecksumKind)>, DecodeError> {
    let number = reader.u8("upload checksum")?;
    if number == 0 {
        return Ok(None);
    }
    let algorithm = algorithm_of(number)?;
    match reader.u8("upload checksum kind")? {
        1 => Ok(Some((algorithm, ChecksumKind::Composite))),
        2 => Ok(Some((algorithm, ChecksumKind::FullObject))),
        _ => Err(DecodeError::Invalid { field: "upload checksum kind" }),
    }
}
