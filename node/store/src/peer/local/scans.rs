//! The queue of a volume's scans, and the memory of the pages that they make.
//!
//! ```text
//! list, parts, rows -> queue of the volume -> two threads -> page -> bytes counted -> the caller has it
//! ```
//! A scan in the queue holds its request and nothing else; a page is counted from when it exists. One whose
//! caller left is passed over at its turn. One that waited for [`SCAN_WAIT_MAX`] is refused `Busy`, before
//! the volume counts as late for it: its caller asks again, as long as it may wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::time::Instant;

use sherd_core::id::VolumeId;
use sherd_core::message::call::VolumeAnswer;
use sherd_core::message::{
    Answer, Error, ListPage, ListedRow, LookPage, LookScan, RowPage, RowScan, ScannedRow,
};
use sherd_volume::error::Error as VolumeError;
use sherd_volume::read::look;
use sherd_volume::read::reader::Reader;

use super::{LocalPeer, finish, run_on};
use crate::peer::limits::SCAN_WAIT_MAX;
use crate::peer::watch::CallLength;
use crate::peer::{AnswerSender, Pending};
use crate::volumes::ServingVolume;

/// Bytes of a row besides key and value: ballot, digest, tags.
const ROW_BYTES_OTHER: usize = 96;

/// Room for the pages that one peer has not read yet, within that for those of all peers. Clones share it.
#[derive(Debug, Clone)]
pub struct ScanRoom {
    own: Arc<HeldPages>,
    all: Arc<HeldPages>,
}

#[derive(Debug)]
struct HeldPages {
    bytes: AtomicUsize,
    bytes_max: usize,
}

/// The bytes of a page, counted until this is dropped; nothing by default.
#[derive(Debug, Default)]
pub struct PageShare(Option<(ScanRoom, usize)>);

impl PageShare {
    /// Whether it counts anything.
    pub const fn is_taken(&self) -> bool {
        self.0.is_some()
    }
}

/// A scan's result, and the bytes that it holds.
#[derive(Debug)]
pub struct CountedPage {
    /// The page.
    pub answer: VolumeAnswer,
    /// Bytes of the page in the memory for pages.
    pub share: PageShare,
}

impl ScanRoom {
    /// Room for the pages of all peers.
    pub fn new(bytes_max: usize) -> Self {
        let all = Arc::new(HeldPages { bytes: AtomicUsize::new(0), bytes_max });
        Self { own: Arc::clone(&all), all }
    }

    /// Room for the pages of one peer, which count among those of all.
    #[must_use]
    pub fn of_peer(&self, bytes_max: usize) -> Self {
        let own = Arc::new(HeldPages { bytes: AtomicUsize::new(0), bytes_max });
        Self { own, all: Arc::clone(&self.all) }
    }

    /// Whether no further page may be made. Pages that are being made at this moment come on top: two a
    /// volume.
    fn is_full(&self) -> bool {
        [&self.own, &self.all].iter().any(|held| held.bytes.load(Ordering::Relaxed) >= held.bytes_max)
    }

    fn count(&self, bytes: usize) -> PageShare {
        for held in [&self.own, &self.all] {
            held.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        PageShare(Some((self.clone(), bytes)))
    }
}

impl Drop for PageShare {
    fn drop(&mut self) {
        let Some((room, bytes)) = self.0.take() else { return };
        for held in [&room.own, &room.all] {
            held.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

/// A scan's answer, measured by the bytes that it holds.
pub(super) trait PageBytes {
    fn bytes(&self) -> usize;
}

impl PageBytes for ListPage {
    fn bytes(&self) -> usize {
        self.entries.iter().map(entry_bytes).sum()
    }
}

impl PageBytes for Vec<ScannedRow> {
    fn bytes(&self) -> usize {
        self.iter().map(row_bytes).sum()
    }
}

impl PageBytes for RowPage {
    fn bytes(&self) -> usize {
        self.rows.iter().map(row_bytes).sum()
    }
}

/// Bytes that an entry of a listing holds.
pub fn entry_bytes(entry: &ListedRow) -> usize {
    match entry {
        ListedRow::Row(row) => row_bytes(row),
        ListedRow::Prefix { prefix, witness } => prefix.len() + row_bytes(witness),
    }
}

/// Bytes that a row of a scan holds.
pub fn row_bytes(row: &ScannedRow) -> usize {
    let value = row.row.value.as_ref().map_or(0, Bytes::len);
    row.key.key.as_bytes().len() + value + ROW_BYTES_OTHER
}

impl LocalPeer {
    /// Queues a scan whose page holds room until it is dropped.
    pub(super) fn counted<R: PageBytes>(
        &self,
        volume: VolumeId,
        length: CallLength,
        room: &ScanRoom,
        scan: impl FnOnce(&Reader) -> Result<Answer<R>, VolumeError> + Send + 'static,
    ) -> Pending<CountedPage>
    where
        Answer<R>: Into<VolumeAnswer>,
    {
        let room = room.clone();
        self.in_line(volume, length, move |reader| {
            if room.is_full() {
                return Err(VolumeError::Busy);
            }
            let answer = scan(reader)?;
            let share = room.count(answer.result.as_ref().map_or(0, PageBytes::bytes));
            Ok(CountedPage { answer: answer.into(), share })
        })
    }

    /// Queues a scan in its volume's line.
    pub(super) fn in_line<R: Send + 'static>(
        &self,
        volume: VolumeId,
        length: CallLength,
        scan: impl FnOnce(&Reader) -> Result<R, VolumeError> + Send + 'static,
    ) -> Pending<R> {
        let serving = match self.serving(volume) {
            Ok(serving) => serving,
            Err(error) => return Pending::ready(Err(error)),
        };
        let queued = Instant::now();
        let at_its_turn = move |serving: &Arc<ServingVolume>, answering: AnswerSender<R>| {
            if answering.is_closed() {
                return;
            }
            if length == CallLength::Short && queued.elapsed() >= SCAN_WAIT_MAX {
                return answering.answer(Err(Error::Busy));
            }
            let result = scan(&serving.reader).map_err(Error::from);
            finish(serving, answering, result);
        };
        run_on(&serving.scans, &serving, self.waiting(volume, length), at_its_turn)
    }
}

/// A page of all rows; a refusal is its answer.
pub(super) fn rows(reader: &Reader, request: &RowScan) -> Result<Answer<RowPage>, VolumeError> {
    let before = reader.answerer();
    let result = match reader.rows(request) {
        Ok(page) => Ok(page),
        Err(VolumeError::Refused(refusal)) => Err(refusal),
        Err(error) => return Err(error),
    };
    // Rows that were read before the volume voted may be without some that it got before it did.
    let mut from = reader.answerer();
    from.votes &= before.votes && before.life == from.life;
    Ok(Answer { from, result })
}

/// A page of rows that a peer may lack; a refusal is its answer. The position in the log is that of before
/// the rows were read: each row up to there is shown, or was replaced by one that is.
pub(super) fn rows_behind(reader: &Reader, scan: &LookScan) -> Result<Answer<LookPage>, VolumeError> {
    let mut from = reader.answerer();
    let result = match look::rows_behind(reader, scan) {
        Ok(page) => Ok(page),
        Err(VolumeError::Refused(refusal)) => Err(refusal),
        Err(error) => return Err(error),
    };
    let after = reader.answerer();
    from.votes &= after.votes && after.life == from.life;
    Ok(Answer { from, result })
}
