//! Memory for XML: the documents of requests, with what is made of them, and lists have a bound together.
//!
//! ```text
//! a document: it arrives -> room -> is worked on -> its answer -> the client has it
//! a list:                   room -> is gathered  -> its answer -> the client has it
//! ```
//! A document is held whole, as it came and as it is read, then as keys or parts with the outcome of each.
//! Long ones have room while they arrive, too, apart from the room for work: a slow sender takes only that
//! from others. A request without room waits a little and is answered SlowDown. An answer keeps its room
//! while its client reads it; slow clients lose it to requests that wait.

use std::sync::Arc;

use http::Response;
use s3s::Body;

use crate::head::columns::Columns;
use crate::head::request_head::RequestHead;
use crate::wire::limits::{
    ANSWER_BYTES_MIN, LISTED_ROWS_MAX, ROOM_PATIENCE, SHORT_DOCUMENT_BYTES_MAX, SHORT_EXTRA_BYTES_MAX,
};
use crate::wire::refusal::{Code, Refusal};
use sherd_store::machine::budget::{Budget, Share, with_share};
use sherd_store::machine::reclaim::Reclaim;

/// Memory for a parsed document, in times of its bytes.
const TIMES_ITS_BYTES: u64 = 4;
/// Further memory for a short one, in times of its bytes, up to [`SHORT_EXTRA_BYTES_MAX`]: its keys may have
/// one letter each.
const SHORT_EXTRA_TIMES: u64 = 16;
/// Memory for a row of a list: a key of 1,024 bytes in the answers of volumes and escaped in the list's own.
const ROW_BYTES: u64 = 4 << 10;

/// The room for documents and lists.
#[derive(Debug)]
pub(super) struct XmlRoom {
    arriving: Budget,
    short_documents: Budget,
    long_documents: Budget,
    lists: Budget,
    /// Of the answers that hold room: no other connection has anything to give.
    reclaim: Reclaim,
}

impl XmlRoom {
    /// Room of `bytes_max`: three eighths of it for lists, a quarter each for long documents that arrive and
    /// for long ones that are worked on, and the rest for short ones.
    pub(super) fn new(bytes_max: usize) -> Self {
        let reclaim = Reclaim::default();
        let part = |eighths: usize| Budget::new(bytes_max / 8 * eighths, ROOM_PATIENCE, reclaim.clone());
        Self {
            arriving: Budget::new(bytes_max / 4, ROOM_PATIENCE, Reclaim::default()),
            short_documents: part(1),
            long_documents: part(2),
            lists: part(3),
            reclaim: reclaim.clone(),
        }
    }

    /// Takes room for a document of `length` bytes to arrive in, where it is a long one.
    pub(super) async fn for_arrival(&self, length: u64) -> Result<Option<Share>, Refusal> {
        if length <= SHORT_DOCUMENT_BYTES_MAX {
            return Ok(None);
        }
        let room = self.arriving.take(in_memory(length)).await;
        room.map(Some).map_err(|_| Refusal::new(Code::SlowDown))
    }

    /// Takes room for the work on a document of `length` bytes that grows by `growth`. One always fits,
    /// however small the room.
    pub(super) async fn for_document(&self, length: u64, growth: u64) -> Result<Share, Refusal> {
        let documents = if length + growth > SHORT_DOCUMENT_BYTES_MAX {
            &self.long_documents
        } else {
            &self.short_documents
        };
        let room = documents.take(of_document(length.saturating_add(growth))).await;
        room.map_err(|_| Refusal::new(Code::SlowDown))
    }

    /// Takes room for the list that an operation makes, if it makes one.
    pub(super) async fn for_list(
        &self,
        columns: &Columns,
        head: &RequestHead<'_>,
    ) -> Result<Option<Share>, Refusal> {
        let Some(rows) = listed_rows(columns, head) else { return Ok(None) };
        let share = self.lists.take(in_memory(u64::from(rows) * ROW_BYTES)).await;
        share.map(Some).map_err(|_| Refusal::new(Code::SlowDown))
    }

    /// Lets an answer keep what it needs of its request's room until its client has it.
    pub(super) fn hold(&self, response: &mut Response<Body>, room: Option<Share>) {
        let Some(mut room) = room else { return };
        let Some(bytes) = response.body().bytes().filter(|bytes| bytes.len() > ANSWER_BYTES_MIN) else {
            return;
        };
        room.shrink(bytes.len());
        *response.body_mut() = Body::from(with_share(bytes, &Arc::new(room)));
        response.extensions_mut().insert(self.reclaim.clone());
    }
}

/// Bytes of memory that a document of this length takes, with its parsed form.
fn of_document(length: u64) -> usize {
    let extra = length.saturating_mul(SHORT_EXTRA_TIMES).min(SHORT_EXTRA_BYTES_MAX);
    in_memory(length.saturating_mul(TIMES_ITS_BYTES).saturating_add(extra))
}

fn in_memory(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// How many rows an operation lists at most.
fn listed_rows(columns: &Columns, head: &RequestHead<'_>) -> Option<u32> {
    let asked = head.parameter(columns.page?).ok().flatten();
    Some(asked.map_or(LISTED_ROWS_MAX, |rows: u32| rows.clamp(1, LISTED_ROWS_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Operation;

    const ROOM: usize = 64 << 20;

    fn room(bytes_max: usize) -> XmlRoom {
        XmlRoom::new(bytes_max)
    }

    async fn taken(room: &XmlRoom, length: u64) -> Vec<Share> {
        let mut taken = Vec::new();
        while let Ok(share) = room.for_document(length, 0).await {
            taken.push(share);
        }
        taken
    }

    #[tokio::test(start_paused = true)]
    async fn documents_take_no_more_than_their_room_and_long_ones_their_own() {
        let room = room(ROOM);
        assert_eq!(taken(&room, 7 << 20).await.len(), 1, "one always fits");
        let long = taken(&room, 2 << 20).await;
        assert_eq!(long.len(), 1, "8.25 of 16 MiB each");
        let short = taken(&room, 64 << 10).await;
        assert_eq!(short.len(), 16, "half a MiB each: all of 8 MiB, whatever the long ones have");
        let refused = room.for_document(1 << 10, 0).await;
        assert_eq!(refused.map(drop).map_err(|refusal| refusal.code), Err(Code::SlowDown));
        drop(long);
        assert!(room.for_document(1 << 10, 1 << 20).await.is_ok(), "it is a long one when it has grown");
        drop(short);
        assert!(room.for_document(1 << 10, 0).await.is_ok(), "what was given back is there");
    }

    #[tokio::test(start_paused = true)]
    async fn who_sends_slowly_takes_no_room_from_those_who_have_sent() {
        let room = room(ROOM);
        let mut arriving = Vec::new();
        while let Ok(share) = room.for_arrival(1 << 20).await {
            arriving.extend(share);
        }
        assert_eq!(arriving.len(), 16);
        assert!(room.for_arrival(64 << 10).await.is_ok_and(|share| share.is_none()), "a short one");
        assert_eq!(taken(&room, 1 << 20).await.len(), 3, "all the room for work");
        drop(arriving);
        assert!(room.for_arrival(u64::MAX).await.is_ok(), "one always fits");
    }

    #[tokio::test(start_paused = true)]
    async fn a_document_waits_for_room() {
        let room = room(1 << 20);
        let first = room.for_document(1 << 20, 0).await.expect("all of it");
        let soon = async {
            tokio::time::sleep(ROOM_PATIENCE / 2).await;
            drop(first);
        };
        let (second, ()) = tokio::join!(room.for_document(1 << 20, 0), soon);
        assert!(second.is_ok(), "even one that is longer than all of it");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_keeps_room_until_its_client_has_it() {
        let room = room(ROOM);
        let asking = RequestHead::with(&[]).and_query("list-type=2&max-keys=4000");
        let list = || room.for_list(Operation::ListObjectsV2.columns(), &asking);
        let mut answers = Vec::new();
        for _ in 0..6 {
            let share = list().await.expect("4 of 24 MiB each");
            let mut answer = Response::new(Body::from(vec![0_u8; 3 << 20]));
            room.hold(&mut answer, share);
            answers.push(answer);
        }
        assert!(list().await.is_ok_and(|share| share.is_some()), "3 of 4 MiB are held");
        let held = list().await.expect("6 MiB are left");
        assert!(held.is_some() && list().await.is_err());
        drop(answers);
        assert!(list().await.is_ok());
    }

    #[test]
    fn a_list_takes_room_for_the_rows_that_it_is_asked_for() {
        let rows = |operation: Operation, query| {
            listed_rows(operation.columns(), &RequestHead::with(&[]).and_query(query))
        };
        assert_eq!(rows(Operation::ListObjects, "max-keys=1"), Some(1));
        assert_eq!(rows(Operation::ListObjectsV2, "max-keys=x&prefix=a"), Some(1000));
        assert_eq!(rows(Operation::ListMultipartUploads, "uploads&max-uploads=0"), Some(1));
        assert_eq!(rows(Operation::ListParts, "max-keys=3&max-parts=2000"), Some(1000));
        assert_eq!(rows(Operation::ListObjectVersions, "versions&max-keys=7"), Some(7));
        assert_eq!(rows(Operation::GetObject, "max-keys=3"), None);
    }
}
