//! Memory for the XML documents of requests: all that are read or worked on together have a bound.
//!
//! A document is held whole, as it came and as it is read, then as keys or parts and what became of each.
//! Who finds no room waits a little, before anything of its body is taken, and is told to slow down.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::code::Code;
use super::refusal::Refusal;

/// What is made of a document takes so many times its bytes.
const TIMES_ITS_BYTES: u64 = 4;
/// What even a short one takes: a thousand keys of a few bytes, and what becomes of each.
const LEAST_BYTES: u64 = 256 << 10;
/// Longer ones have half of the room: what slow clients hold of it is never all.
const SHORT_BYTES_MAX: u64 = 1 << 20;
/// How long a request waits for room.
const PATIENCE: Duration = Duration::from_secs(5);

/// The room for documents, in KiB.
#[derive(Debug)]
pub(super) struct Documents {
    room: Arc<Semaphore>,
    for_long_ones: Arc<Semaphore>,
    bytes_max: u64,
}

/// Room for one document, until its request is answered.
#[derive(Debug)]
pub(super) struct DocumentRoom {
    _room: OwnedSemaphorePermit,
    _for_long_ones: Option<OwnedSemaphorePermit>,
}

impl Documents {
    pub(super) fn new(bytes_max: u64) -> Self {
        let room = |bytes: u64| Arc::new(Semaphore::new(usize::try_from(bytes >> 10).unwrap_or(usize::MAX)));
        Self { room: room(bytes_max), for_long_ones: room(bytes_max / 2), bytes_max }
    }

    /// Takes room for a document of so many bytes.
    pub(super) async fn take(&self, length: u64) -> Result<DocumentRoom, Refusal> {
        let wanted = length.saturating_mul(TIMES_ITS_BYTES).saturating_add(LEAST_BYTES);
        // One document always fits, whatever the room.
        let wanted = wanted.min(self.bytes_max / 2) >> 10;
        let wanted = u32::try_from(wanted).map_err(|_| Refusal::new(Code::SlowDown))?;
        let taken = async {
            let for_long_ones = if length > SHORT_BYTES_MAX {
                Some(Arc::clone(&self.for_long_ones).acquire_many_owned(wanted).await.ok()?)
            } else {
                None
            };
            let room = Arc::clone(&self.room).acquire_many_owned(wanted).await.ok()?;
            Some(DocumentRoom { _room: room, _for_long_ones: for_long_ones })
        };
        let in_time = tokio::time::timeout(PATIENCE, taken).await.ok().flatten();
        in_time.ok_or_else(|| Refusal::new(Code::SlowDown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: u64 = 64 << 20;

    async fn taken(documents: &Documents, length: u64) -> Vec<DocumentRoom> {
        let mut taken = Vec::new();
        while let Ok(room) = documents.take(length).await {
            taken.push(room);
        }
        taken
    }

    #[tokio::test(start_paused = true)]
    async fn documents_take_no_more_than_their_room_and_long_ones_half_of_it() {
        let documents = Documents::new(ROOM);
        let long = taken(&documents, 7 << 20).await;
        assert_eq!(long.len(), 1, "28.25 MiB each");
        let short = taken(&documents, 64 << 10).await;
        assert_eq!(short.len(), 71, "half a MiB each: 35.75 of 64 MiB");
        let refused = documents.take(1 << 20).await;
        assert_eq!(refused.map(drop).map_err(|refusal| refusal.code), Err(Code::SlowDown));
        drop(long);
        assert!(documents.take(1 << 20).await.is_ok(), "what was given back is there");
    }

    #[tokio::test(start_paused = true)]
    async fn a_document_waits_for_room() {
        let documents = Documents::new(1 << 20);
        let first =
            [documents.take(1 << 20).await.expect("half"), documents.take(1).await.expect("a quarter")];
        let soon = async {
            tokio::time::sleep(PATIENCE / 2).await;
            drop(first);
        };
        let (second, ()) = tokio::join!(documents.take(u64::MAX), soon);
        assert!(second.is_ok(), "even one that is longer than all of it");
    }
}
