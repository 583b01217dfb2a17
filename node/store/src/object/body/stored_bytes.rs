//! The place of a body's bytes while they arrive: in memory for its row, or with the volumes of its set.

use bytes::{Bytes, BytesMut};

use crate::object::error::Result;
use crate::stripe::{StripeWriter, SyncingBody};

/// Bytes that have all arrived.
#[derive(Debug)]
pub(super) enum ArrivedBody {
    Inline(Bytes),
    Coded(Box<SyncingBody>),
}

/// Where the bytes of a body go while they arrive.
pub(super) enum StoredBytes {
    Inline(BytesMut),
    Coded(Box<StripeWriter>),
}

impl StoredBytes {
    /// Takes the next bytes of the body.
    pub(super) async fn push(&mut self, bytes: Bytes) -> Result<()> {
        match self {
            Self::Inline(inline) => inline.extend_from_slice(&bytes),
            Self::Coded(writer) => writer.push(bytes).await?,
        }
        Ok(())
    }

    /// As [`StripeWriter::needs_room`]: inline bytes need no memory that others wait for.
    pub(super) fn needs_room(&self) -> bool {
        matches!(self, Self::Coded(writer) if writer.needs_room())
    }

    /// As [`StripeWriter::make_room`].
    pub(super) async fn make_room(&mut self) -> Result<()> {
        match self {
            Self::Inline(_) => Ok(()),
            Self::Coded(writer) => Ok(writer.make_room().await?),
        }
    }

    /// As [`StripeWriter::gives_way`]: inline bytes hold no memory that others wait for.
    pub(super) fn gives_way(&self, bytes_per_second: u64) -> bool {
        matches!(self, Self::Coded(writer) if writer.gives_way(bytes_per_second))
    }

    /// Waits until what came so far is written. Cancel-safe.
    pub(super) async fn settle(&mut self) -> Result<()> {
        match self {
            Self::Inline(_) => Ok(()),
            Self::Coded(writer) => Ok(writer.settle().await?),
        }
    }

    pub(super) async fn end(self) -> Result<ArrivedBody> {
        Ok(match self {
            Self::Inline(inline) => ArrivedBody::Inline(inline.freeze()),
            Self::Coded(writer) => ArrivedBody::Coded(Box::new(writer.seal().await?)),
        })
    }
}
