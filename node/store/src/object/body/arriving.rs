//! A body while it arrives: its pace, and the bytes that came before there was memory for them.
//!
//! The memory of a stripe is asked for once the first bytes of the stripe are here. Until then the body of a
//! client holds 16 KiB and no place in the queue for memory, and it is polled: so the front sees whether its
//! client sends anything. A body of the store itself has its memory before it is read, for it may hold the
//! memory that others wait for.

use std::task::Poll;

use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use tokio::time::Instant;

use super::stored_bytes::StoredBytes;
use crate::machine::pace::Pace;
use crate::object::error::{Result, UnavailableReason};
use crate::object::limits::FIRST_BYTES;
use crate::object::request::UploadBody;

/// The bytes of a body in their order.
pub(super) struct ArrivingBody {
    body: UploadBody,
    pace: Pace,
    /// Bytes that came, copied out of the buffers of the network, and the last ones as they came.
    gathered: (Bytes, Bytes),
    has_ended: bool,
}

impl ArrivingBody {
    pub(super) fn new(body: UploadBody) -> Self {
        let pace = Pace::new(Instant::now());
        Self { body, pace, gathered: (Bytes::new(), Bytes::new()), has_ended: false }
    }

    /// Waits for the first bytes of a stripe that a client sends; `left` bytes of its body are to come.
    pub(super) async fn gather(&mut self, left: u64, stored: &mut StoredBytes) -> Result<()> {
        if matches!(self.body, UploadBody::Stored(_)) {
            return Ok(());
        }
        let wanted = usize::try_from(left).map_or(FIRST_BYTES, |left| left.min(FIRST_BYTES));
        let (first, mut last) = std::mem::take(&mut self.gathered);
        let mut first = BytesMut::from(&first[..]);
        while first.len() + last.len() < wanted {
            first.reserve(if last.is_empty() { 0 } else { wanted - first.len() });
            first.extend_from_slice(&std::mem::take(&mut last));
            let Some(bytes) = self.arrive(stored).await? else { break };
            last = bytes;
        }
        self.gathered = (first.freeze(), last);
        Ok(())
    }

    /// The next bytes. Until they come `stored` is settled, and gives its memory back: a client may take its
    /// time. One that sends slowly gives up when others wait for the memory that its body still
    /// holds.
    pub(super) async fn next(&mut self, stored: &mut StoredBytes) -> Result<Option<Bytes>> {
        let (first, last) = &mut self.gathered;
        for gathered in [first, last] {
            if !gathered.is_empty() {
                return Ok(Some(std::mem::take(gathered)));
            }
        }
        self.arrive(stored).await
    }

    /// Waits for bytes that did not come yet.
    async fn arrive(&mut self, stored: &mut StoredBytes) -> Result<Option<Bytes>> {
        if self.has_ended {
            return Ok(None);
        }
        let bytes = self.poll_and_settle(stored).await?;
        self.has_ended = bytes.is_none();
        self.pace.progress(bytes.as_ref().map_or(0, Bytes::len) as u64, Instant::now());
        Ok(bytes)
    }

    async fn poll_and_settle(&mut self, stored: &mut StoredBytes) -> Result<Option<Bytes>> {
        let Self { body, pace, .. } = self;
        if let Poll::Ready(bytes) = futures::poll!(body.next()) {
            return bytes.transpose();
        }
        pace.wait(Instant::now());
        tokio::select! {
            biased;
            bytes = body.next() => return bytes.transpose(),
            settled = stored.settle() => settled?,
        }
        loop {
            if let Ok(bytes) = tokio::time::timeout_at(pace.next_look(), body.next()).await {
                return bytes.transpose();
            }
            let slow = pace.bytes_per_second(Instant::now());
            let is_client = matches!(body, UploadBody::Client(_));
            if is_client && slow.is_some_and(|pace| stored.gives_way(pace)) {
                return Err(UnavailableReason::Overloaded.into());
            }
        }
    }
}
