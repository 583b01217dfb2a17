//! Memory for XML: the documents of requests, with what is made of them, and lists have a bound together.
//!
//! ```text
//! a document: room -> it arrives -> is worked on -> its answer -> the client has it
//! a list:     room               -> is gathered  -> its answer -> the client has it
//! ```
//! A document is held whole, as it came and as it is read, then as keys or parts and what became of each.
//! Who finds no room waits a little, before anything of its body is taken, and is told to slow down. An
//! answer keeps room as long as its client takes to read it; slow ones lose it to who waits.

use std::sync::Arc;
use std::time::Duration;

use http::Response;
use s3s::Body;

use super::code::Code;
use super::operation::Operation;
use super::query::Query;
use super::refusal::Refusal;
use crate::budget::{Budget, Share, with_share};
use crate::reclaim::Reclaim;

/// What is made of a document takes so many times its bytes.
const TIMES_ITS_BYTES: u64 = 4;
/// What is made of a short one takes more times its bytes, up to [`SHORT_EXTRA_BYTES_MAX`]: keys of one letter.
const SHORT_EXTRA_TIMES: u64 = 16;
const SHORT_EXTRA_BYTES_MAX: u64 = 256 << 10;
/// Longer documents have a room of their own: none of them keeps a short one waiting.
const SHORT_BYTES_MAX: u64 = 1 << 20;
/// What a row of a list takes: a key of 1,024 bytes in the answers of volumes and escaped in the list's own.
const ROW_BYTES: u64 = 4 << 10;
/// Rows of a list for which no other number is asked.
const ROWS_MAX: u32 = 1000;
/// Answers that take no room: no more than a connection's own buffers.
const ANSWER_BYTES_MIN: usize = 16 << 10;
/// How long a request waits for room.
const PATIENCE: Duration = Duration::from_secs(10);

/// The room for documents and lists.
#[derive(Debug)]
pub(super) struct XmlRoom {
    short_documents: Budget,
    long_documents: Budget,
    lists: Budget,
    /// Of the answers that hold room: no other connection has anything to give.
    reclaim: Reclaim,
}

impl XmlRoom {
    /// Room of `bytes_max`: half of it for lists, a quarter each for short and for long documents.
    pub(super) fn new(bytes_max: usize) -> Self {
        let reclaim = Reclaim::default();
        let part = |share: usize| Budget::new(bytes_max / share, PATIENCE, reclaim.clone());
        Self { short_documents: part(4), long_documents: part(4), lists: part(2), reclaim: reclaim.clone() }
    }

    /// Takes room for a document of so many bytes. One always fits, whatever the room.
    pub(super) async fn for_document(&self, length: u64) -> Result<Share, Refusal> {
        let room = self.documents(length).take(of_document(length)).await;
        room.map_err(|_| Refusal::new(Code::SlowDown))
    }

    /// Takes room for what a document of so many bytes may grow by, if there is some at this moment: who
    /// has a share waits for no other. One always fits, whatever it grows to.
    pub(super) fn for_growth(&self, share: &mut Share, length: u64, growth: u64) -> Result<(), Refusal> {
        let budget = self.documents(length);
        let more = of_document(growth).min(budget.bytes_max() - share.bytes());
        if more > 0 {
            let more = budget.try_take(more).ok_or_else(|| Refusal::new(Code::SlowDown))?;
            share.merge(more);
        }
        Ok(())
    }

    /// Takes room for the list that an operation makes, if it makes one.
    pub(super) async fn for_list(
        &self,
        operation: Operation,
        query: &Query<'_>,
    ) -> Result<Option<Share>, Refusal> {
        let Some(rows) = listed_rows(operation, query) else { return Ok(None) };
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

    fn documents(&self, length: u64) -> &Budget {
        if length > SHORT_BYTES_MAX { &self.long_documents } else { &self.short_documents }
    }
}

/// What is made of a document of so many bytes takes in memory.
fn of_document(length: u64) -> usize {
    let extra = length.saturating_mul(SHORT_EXTRA_TIMES).min(SHORT_EXTRA_BYTES_MAX);
    in_memory(length.saturating_mul(TIMES_ITS_BYTES).saturating_add(extra))
}

fn in_memory(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// How many rows an operation lists at most.
fn listed_rows(operation: Operation, query: &Query<'_>) -> Option<u32> {
    let limit = match operation {
        Operation::ListObjects | Operation::ListObjectsV2 => "max-keys",
        Operation::ListMultipartUploads => "max-uploads",
        Operation::ListParts => "max-parts",
        Operation::ListBuckets => "max-buckets",
        _ => return None,
    };
    let asked = query.pairs().iter().find(|pair| pair.name == limit);
    let asked = asked.and_then(|pair| pair.value().ok()?.parse().ok());
    Some(asked.map_or(ROWS_MAX, |rows: u32| rows.clamp(1, ROWS_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: usize = 64 << 20;

    fn room(bytes_max: usize) -> XmlRoom {
        XmlRoom::new(bytes_max)
    }

    async fn taken(room: &XmlRoom, length: u64) -> Vec<Share> {
        let mut taken = Vec::new();
        while let Ok(share) = room.for_document(length).await {
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
        assert_eq!(short.len(), 32, "half a MiB each: all of 16 MiB, whatever the long ones have");
        let refused = room.for_document(1 << 20).await;
        assert_eq!(refused.map(drop).map_err(|refusal| refusal.code), Err(Code::SlowDown));
        drop(short);
        assert!(room.for_document(1 << 20).await.is_ok(), "what was given back is there");
    }

    #[tokio::test(start_paused = true)]
    async fn a_document_waits_for_room() {
        let room = room(1 << 20);
        let first = room.for_document(1 << 20).await.expect("all of it");
        let soon = async {
            tokio::time::sleep(PATIENCE / 2).await;
            drop(first);
        };
        let (second, ()) = tokio::join!(room.for_document(1 << 20), soon);
        assert!(second.is_ok(), "even one that is longer than all of it");
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_document_grows_by_takes_room_or_is_refused() {
        let room = room(ROOM);
        let mut share = room.for_document(1 << 20).await.expect("free");
        let other = room.for_document(1 << 20).await.expect("free");
        room.for_growth(&mut share, 1 << 20, 1 << 20).expect("free");
        let refused = room.for_growth(&mut share, 1 << 20, 1 << 20);
        assert_eq!(refused.map_err(|refusal| refusal.code), Err(Code::SlowDown));
        room.for_growth(&mut share, 1 << 20, 0).expect("nothing");
        drop((share, other));
        let mut long = room.for_document(4 << 20).await.expect("free");
        room.for_growth(&mut long, 4 << 20, 16 << 20).expect("it is alone");
        assert_eq!(taken(&room, 2 << 20).await.len(), 0, "it has all of it");
        assert_eq!(taken(&room, 64 << 10).await.len(), 32, "all of it came back");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_keeps_room_until_its_client_has_it() {
        let room = room(ROOM);
        let query = Query::parse(Some("list-type=2&max-keys=4000")).expect("UTF-8");
        let list = || room.for_list(Operation::ListObjectsV2, &query);
        let mut answers = Vec::new();
        for _ in 0..8 {
            let share = list().await.expect("4 of 32 MiB each");
            let mut answer = Response::new(Body::from(vec![0_u8; 3 << 20]));
            room.hold(&mut answer, share);
            answers.push(answer);
        }
        assert!(list().await.is_ok_and(|share| share.is_some()), "3 of 4 MiB are held");
        let held: Vec<Share> = {
            let (one, two) = (list().await, list().await);
            [one, two].into_iter().filter_map(|share| share.ok().flatten()).collect()
        };
        assert_eq!(held.len(), 2, "8 MiB are left");
        assert!(list().await.is_err());
        drop(answers);
        assert!(list().await.is_ok());
    }

    #[test]
    fn a_list_takes_room_for_the_rows_that_it_is_asked_for() {
        let rows = |operation, query| listed_rows(operation, &Query::parse(Some(query)).expect("UTF-8"));
        assert_eq!(rows(Operation::ListObjects, "max-keys=1"), Some(1));
        assert_eq!(rows(Operation::ListObjectsV2, "max-keys=x&prefix=a"), Some(1000));
        assert_eq!(rows(Operation::ListMultipartUploads, "uploads&max-uploads=0"), Some(1));
        assert_eq!(rows(Operation::ListParts, "max-keys=3&max-parts=2000"), Some(1000));
        assert_eq!(rows(Operation::GetObject, "max-keys=3"), None);
    }
}
