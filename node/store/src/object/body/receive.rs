//! A body on its way in: counted, digested, cut and written in one pass.
//!
//! ```text
//! stream --> length --> digests --> inline bytes | packed stripes
//!                  \--> stripes in files --> digests, on another core
//! ```
//!
//! `receive` returns when the last byte has arrived and was judged against what the client
//! announced; the last syncs are then still under way, beside the register's prepare. `receive_expecting`
//! takes a body whose length shows only at its end.
//!
//! A transform of stored bytes belongs into [`StoredBytes::push`], behind the length. The digests of a body
//! in files then have to be taken in front of it, as those of all other bodies are: they are of the bytes
//! that the client sent.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use parking_lot::Mutex;

use sherd_core::heal::HealEntry;
use sherd_core::id::RegisterKey;
use sherd_core::limits;
use sherd_core::md5::Md5;
use sherd_core::record::{Body, ChecksumAlgorithm, DataRef, Home};

use super::Bodies;
use super::arriving::ArrivingBody;
use super::source::Source;
use super::stored_bytes::{ArrivedBody, StoredBytes};
use crate::cluster::KeyRoute;
use crate::object::digest::{DigestValues, Digests};
use crate::object::error::{BodyError, Error, Invalid, Result};
use crate::object::limits::EXCESS_BYTES_MAX;
use crate::object::request::{ExpectedChecksum, Upload, UploadBody};
use crate::stripe::{BodyDigester, Placement, StagedData};

/// A body whose bytes have all arrived and are what the client announced.
#[derive(Debug)]
pub(in crate::object) struct ReceivedBody {
    /// Bytes of the body.
    pub(in crate::object) size: u64,
    digests: DigestValues,
    bytes: ArrivedBody,
}

/// A body that is durable, or will be with its row.
#[derive(Debug)]
pub(in crate::object) enum StoredBody {
    /// In the row.
    Inline(Bytes),
    /// Erasure-coded.
    Coded(StagedData),
}

impl StoredBody {
    /// The body as a version describes it.
    pub(in crate::object) fn body(&self) -> Body {
        match self {
            Self::Inline(bytes) => Body::Inline { hash: *blake3::hash(bytes).as_bytes() },
            Self::Coded(staged) => Body::Data(staged.data()),
        }
    }

    /// The data that a register will name.
    pub(in crate::object) const fn data(&self) -> Option<DataRef> {
        match self {
            Self::Inline(_) => None,
            Self::Coded(staged) => Some(staged.data()),
        }
    }

    /// The bytes of its entity tag, where its MD5 is that or was left out.
    ///
    /// # Panics
    /// When the MD5 of inline bytes was left out.
    pub(in crate::object) fn tag(&self, md5: Option<[u8; 16]>) -> [u8; 16] {
        md5.unwrap_or_else(|| self.data().expect("only coded bodies go without").fast_tag())
    }

    /// Entity tag, without quotes.
    pub(in crate::object) fn etag(&self, md5: Option<[u8; 16]>) -> String {
        match (md5, self.data()) {
            (None, Some(data)) => data.fast_etag(),
            (md5, _) => hex::encode(self.tag(md5)),
        }
    }

    /// The entry of its repair, where some shard still has to be looked after, once `key` names it.
    pub(in crate::object) fn heal(&self, key: &RegisterKey, now_ms: u64) -> Option<HealEntry> {
        let Self::Coded(staged) = self else { return None };
        let waits_ms = u64::try_from(staged.missing_for()?.as_millis()).unwrap_or(u64::MAX);
        let since_ms = now_ms.saturating_sub(waits_ms).max(1);
        Some(HealEntry { key: key.clone(), data: Some(staged.data().into()), since_ms })
    }

    /// Splits into what the row carries and what was staged.
    pub(in crate::object) fn split(self) -> (Bytes, Option<StagedData>) {
        match self {
            Self::Inline(bytes) => (bytes, None),
            Self::Coded(staged) => (Bytes::new(), Some(staged)),
        }
    }
}

impl ReceivedBody {
    /// Waits until the bytes are durable enough to be named.
    pub(in crate::object) async fn durable(self) -> Result<(DigestValues, StoredBody)> {
        let stored = match self.bytes {
            ArrivedBody::Inline(bytes) => StoredBody::Inline(bytes),
            ArrivedBody::Coded(syncing) => StoredBody::Coded(syncing.durable().await?),
        };
        Ok((self.digests, stored))
    }
}

/// Zeros in the place of bytes that did not come.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Where the digests of a body are computed.
#[expect(
    clippy::large_enum_variant,
    reason = "it lies in its request's future, and a box costs an allocation"
)]
enum BodyDigests {
    /// On the way to the stored bytes.
    InLine(Digests),
    /// On another core, from the stripes.
    Beside(Arc<DigestTask>),
}

/// Digests that are computed on another core.
struct DigestTask(Mutex<Option<Digests>>);

impl BodyDigester for DigestTask {
    fn see(&self, bytes: &[u8]) {
        if let Some(digests) = &mut *self.0.lock() {
            digests.update(bytes);
        }
    }

    fn take_md5(&self) -> Option<Md5> {
        self.0.lock().as_mut()?.take_md5()
    }

    fn put_md5_back(&self, md5: Md5) {
        if let Some(digests) = &mut *self.0.lock() {
            digests.put_md5_back(md5);
        }
    }
}

/// Where bytes go while they arrive, with their digests.
struct Sink {
    digests: BodyDigests,
    stored: StoredBytes,
}

impl Sink {
    async fn push(&mut self, bytes: Bytes) -> Result<()> {
        if let BodyDigests::InLine(digests) = &mut self.digests {
            digests.update(&bytes);
        }
        self.stored.push(bytes).await
    }

    /// Ends a body of `size` bytes. Where `judge` finds it wrong nothing of it stays.
    async fn end(self, size: u64, judge: impl FnOnce(&DigestValues) -> Result<()>) -> Result<ReceivedBody> {
        let Self { digests, stored } = self;
        match digests {
            BodyDigests::InLine(digests) => {
                let digests = digests.finish();
                judge(&digests)?;
                Ok(ReceivedBody { size, digests, bytes: stored.end().await? })
            }
            BodyDigests::Beside(beside) => {
                let bytes = stored.end().await?;
                let digests = beside.0.lock().take().expect("taken once").finish();
                judge(&digests)?;
                Ok(ReceivedBody { size, digests, bytes })
            }
        }
    }

    /// Ends a body that lacks `missing` bytes of what it was laid out for, with zeros in their place: to be
    /// read back, and never named.
    async fn end_padded(mut self, missing: u64) -> Result<StoredBody> {
        let mut missing = missing;
        while missing > 0 {
            let zeros = usize::try_from(missing).map_or(ZEROS.len(), |missing| missing.min(ZEROS.len()));
            self.stored.push(Bytes::from_static(&ZEROS[..zeros])).await?;
            missing -= zeros as u64;
        }
        Ok(match self.stored.end().await? {
            ArrivedBody::Inline(bytes) => StoredBody::Inline(bytes),
            ArrivedBody::Coded(syncing) => StoredBody::Coded(syncing.durable().await?),
        })
    }
}

impl Bodies {
    /// Takes in a body that the register at `route` will name. `extra` is a checksum to compute beside the
    /// announced one; parts are never inline, since no row of theirs is read for their bytes.
    pub(in crate::object) async fn receive(
        &self,
        route: &KeyRoute,
        upload: Upload,
        extra: Option<ChecksumAlgorithm>,
    ) -> Result<ReceivedBody> {
        let Upload { size, body, md5, checksum } = upload;
        let announced = checksum.as_ref().map(ExpectedChecksum::algorithm);
        let mut body = ArrivingBody::new(body);
        let sink = self.sink(route, (size, &mut body), md5.is_some(), announced, extra).await?;
        let (sink, came) = fill(sink, body, size, 0).await?;
        if came.laid < size {
            return Err(BodyError::Length { expected: size, got: came.laid }.into());
        }
        sink.end(size, |digests| judge(digests, md5, checksum)).await
    }

    /// Takes in a body of about `upload.size` bytes, as [`Self::receive`] does. That is its length in most
    /// cases, and it is laid out for that. A body that ends earlier, or up to [`EXCESS_BYTES_MAX`] bytes
    /// later, lies as one of another length: it is read back and written once more. Only the end of the
    /// stream ends the body.
    pub(in crate::object) async fn receive_expecting(
        &self,
        route: &KeyRoute,
        upload: Upload,
        extra: Option<ChecksumAlgorithm>,
    ) -> Result<ReceivedBody> {
        let Upload { size: expected, body, md5, checksum } = upload;
        let announced = checksum.as_ref().map(ExpectedChecksum::algorithm);
        let mut body = ArrivingBody::new(body);
        let sink = self.sink(route, (expected, &mut body), md5.is_some(), announced, extra).await?;
        let (sink, came) = fill(sink, body, expected, EXCESS_BYTES_MAX).await?;
        let ArrivedLength { laid, excess } = came;
        let size = laid + excess.len() as u64;
        if size == expected || (size < expected && matches!(sink.stored, StoredBytes::Inline(_))) {
            return sink.end(size, |digests| judge(digests, md5, checksum)).await;
        }
        let other = sink.end_padded(expected - laid).await?;
        let source = match &other {
            StoredBody::Inline(bytes) => Source::Inline(bytes.clone()),
            StoredBody::Coded(staged) => Source::Data(staged.data()),
        };
        let body = self.read(route.key(), source, 0..laid)?;
        let excess = stream::once(async move { Ok(excess.freeze()) });
        let body = UploadBody::Stored(body.chain(excess).boxed());
        let received = self.receive(route, Upload { size, body, md5, checksum }, extra).await;
        // Not before: data that is dropped without a name is removed.
        drop(other);
        received
    }

    /// Opens the place for a body of `size` bytes with its digests. One that takes memory is opened once the
    /// first bytes are here.
    async fn sink(
        &self,
        route: &KeyRoute,
        (size, body): (u64, &mut ArrivingBody),
        has_md5: bool,
        announced: Option<ChecksumAlgorithm>,
        extra: Option<ChecksumAlgorithm>,
    ) -> Result<Sink> {
        if size > limits::PUT_BYTES_MAX {
            return Err(Invalid::TooLarge { size, max: limits::PUT_BYTES_MAX }.into());
        }
        let mut digests =
            Digests::new(announced.into_iter().chain(extra.filter(|extra| Some(*extra) != announced)));
        let placement = self.stripes.placement(&route.set, size);
        let is_part = route.key().part.is_some();
        let is_coded = size > 0 && (matches!(placement, Placement::Coded(_)) || is_part);
        if self.fast_etags && is_coded && announced.is_some() && !has_md5 {
            digests = digests.without_md5();
        }
        if is_coded {
            body.gather(size, &mut StoredBytes::Inline(BytesMut::new())).await?;
        }
        Ok(match placement {
            _ if size == 0 => {
                Sink { digests: BodyDigests::InLine(digests), stored: StoredBytes::Inline(BytesMut::new()) }
            }
            Placement::Inline if !is_part => {
                let stored = StoredBytes::Inline(BytesMut::with_capacity(capacity(size)));
                Sink { digests: BodyDigests::InLine(digests), stored }
            }
            Placement::Inline | Placement::Coded(Home::Packed) => {
                let writer = self.stripes.write(route, size, Home::Packed).await?;
                let stored = StoredBytes::Coded(Box::new(writer));
                Sink { digests: BodyDigests::InLine(digests), stored }
            }
            Placement::Coded(Home::File) => {
                let beside = Arc::new(DigestTask(Mutex::new(Some(digests))));
                let writer = self.stripes.write(route, size, Home::File).await?;
                let writer = writer.watched(Arc::clone(&beside) as Arc<_>);
                Sink { digests: BodyDigests::Beside(beside), stored: StoredBytes::Coded(Box::new(writer)) }
            }
        })
    }
}

fn capacity(size: u64) -> usize {
    usize::try_from(size).expect("an inline object fits memory")
}

/// How many bytes of a body arrived.
struct ArrivedLength {
    /// Bytes in the sink.
    laid: u64,
    /// Bytes behind those for which the sink was opened.
    excess: BytesMut,
}

/// Moves the first `size` bytes of a body into the sink. More than `excess_max` bytes behind them are an
/// error at once.
async fn fill(
    mut sink: Sink,
    mut body: ArrivingBody,
    size: u64,
    excess_max: usize,
) -> Result<(Sink, ArrivedLength)> {
    let (mut laid, mut excess) = (0_u64, BytesMut::new());
    loop {
        if sink.stored.needs_room() {
            body.gather(size - laid, &mut sink.stored).await?;
            sink.stored.make_room().await?;
        }
        let Some(mut bytes) = body.next(&mut sink.stored).await? else { break };
        let left = usize::try_from(size - laid).unwrap_or(usize::MAX);
        if bytes.len() > left {
            let behind = bytes.split_off(left);
            if excess.len() + behind.len() > excess_max {
                let got = size.saturating_add((excess.len() + behind.len()) as u64);
                return Err(BodyError::Length { expected: size, got }.into());
            }
            excess.extend_from_slice(&behind);
        }
        laid += bytes.len() as u64;
        sink.push(bytes).await?;
    }
    Ok((sink, ArrivedLength { laid, excess }))
}

/// Compares what arrived with what was announced.
fn judge(
    digests: &DigestValues,
    md5: Option<[u8; 16]>,
    checksum: Option<ExpectedChecksum>,
) -> std::result::Result<(), Error> {
    if let Some(expected) = md5 {
        let computed = digests.md5.expect("an MD5 that was announced is not left out");
        if expected != computed {
            return Err(BodyError::BadDigest { expected, computed }.into());
        }
    }
    let Some(expected) = checksum else { return Ok(()) };
    let algorithm = expected.algorithm();
    let computed = digests.checksums.iter().find(|checksum| checksum.algorithm == algorithm);
    let announced = match expected {
        ExpectedChecksum::Value(checksum) => Some(checksum.value),
        ExpectedChecksum::Trailer { value, .. } => value(),
    };
    let same = computed.is_some_and(|computed| Some(&computed.value) == announced.as_ref());
    if same { Ok(()) } else { Err(BodyError::ChecksumMismatch(algorithm).into()) }
}
