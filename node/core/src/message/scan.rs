//! Scans of rows, in the order of their [keys](crate::record::row_key), and their pages.

use bytes::Bytes;

use crate::id::{Ballot, BucketId, ChangeId, Epoch, RegisterKey, Sequence, Slot, UploadId};
use crate::register::heal::look::PeerCursor;
use crate::register::{Row, RowHead};

/// A listing's question to one volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListScan {
    /// The bucket.
    pub bucket: BucketId,
    /// The listing's topology; refused where any slot is known to be in a later one.
    pub epoch: Epoch,
    /// The deletion of the bucket that asks, after its own seal.
    pub deletion: Option<ChangeId>,
    /// Only keys that start with this.
    pub prefix: Bytes,
    /// Only keys at or behind this: [`behind`] and [`behind_prefix`] give where to go on.
    pub from: Bytes,
    /// Rolls up keys that share what is before its first appearance behind the prefix.
    pub delimiter: Option<Bytes>,
    /// Entries at most.
    pub limit: usize,
    /// Rows that the page may pass because no listing shows them; [`super::LIST_PASSED_MAX`] is the most that
    /// counts.
    pub passed_max: u32,
}

/// Parts of an upload that a scan reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartsScan {
    /// The bucket of the upload's key.
    pub bucket: BucketId,
    /// The upload.
    pub upload: UploadId,
    /// The slot of the upload's key.
    pub slot: Slot,
    /// The topology's epoch for that slot.
    pub epoch: Epoch,
    /// Only parts above this number.
    pub after: Option<u16>,
    /// Rows at most.
    pub limit: usize,
}

/// Rows that a scan reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowScan {
    /// By which topology the volume was found: of every slot that it has rows of.
    pub epoch: Epoch,
    /// Only rows behind this key, in the order of the scan.
    pub after: Option<RegisterKey>,
    /// Only rows whose record has a later sequence in that volume's log.
    pub since: Sequence,
    /// Only rows whose record has this sequence there or an earlier one.
    pub until: Sequence,
    /// Most rows of a page.
    pub limit: usize,
    /// Whether the rows carry their values.
    pub want_value: bool,
}

impl RowScan {
    /// A page of all rows behind a key, with their values.
    pub const fn all(epoch: Epoch, after: Option<RegisterKey>, limit: usize) -> Self {
        Self { epoch, after, since: Sequence(0), until: Sequence::MAX, limit, want_value: true }
    }
}

/// A volume's question which rows of a peer it may lack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookScan {
    /// How far it has the peer's rows.
    pub cursor: Option<PeerCursor>,
    /// By which topology the peer was found: of every slot that it has rows of.
    pub epoch: Epoch,
    /// Only rows behind this key, in the order of keys; the first page has none.
    pub after: Option<RegisterKey>,
    /// Most rows of a page.
    pub limit: usize,
}

/// The head of a row that a peer shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownHead {
    /// The register.
    pub key: RegisterKey,
    /// Ballot, digest, and whether the peer has noted the row as committed.
    pub head: RowHead,
    /// Sequence of the row in the peer's log.
    pub sequence: Sequence,
}

/// A page of them. The life and the durable sequence of the answer were read before the rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LookPage {
    /// In the order of their keys.
    pub rows: Vec<ShownHead>,
    /// Up to here the peer's list may lack rows, read behind the rows. Where the cursor needs a walk by that,
    /// the page is of a walk, else of the list.
    pub horizon: Sequence,
    /// The last key looked at, to go on behind; `None` when all were looked at.
    pub next: Option<RegisterKey>,
}

/// Kind of the listed rows that upkeep asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnsettledKind {
    /// Rows that the volume does not know to be committed.
    Uncommitted,
    /// Rows that are committed, and that another volume of the set may lack.
    Missed,
}

/// A row that upkeep settles, or brings to a volume that missed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsettledRow {
    /// The register.
    pub key: RegisterKey,
    /// The ballot of the row.
    pub ballot: Ballot,
}

/// A page of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnsettledPage {
    /// In the index's order.
    pub rows: Vec<UnsettledRow>,
    /// The last key looked at, to go on behind; `None` when all were looked at.
    pub next: Option<RegisterKey>,
}

/// A row that a scan found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScannedRow {
    /// The register.
    pub key: RegisterKey,
    /// The row; its value is absent where only heads were asked for, or where it cannot be read:
    /// then a register read decides.
    pub row: Row,
    /// Whether the value is a tombstone.
    pub tombstone: bool,
    /// Whether it is committed, and another volume of the set may lack it.
    pub is_missed: bool,
}

/// An entry of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListedRow {
    /// A key.
    Row(ScannedRow),
    /// A common prefix.
    Prefix {
        /// Up to and with the delimiter.
        prefix: Bytes,
        /// The first key below it that is not a tombstone known to be committed.
        witness: ScannedRow,
    },
}

/// A page of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListPage {
    /// In key order.
    pub entries: Vec<ListedRow>,
    /// Where to go on, behind the last row that was looked at; `None` when the scan is complete.
    pub next: Option<Bytes>,
    /// Rows that were looked at and are not listed: tombstones known to be committed.
    pub hidden: u32,
    /// The volume's floor, read behind the last row: which rows count as accepted by it.
    pub floor: Ballot,
}

/// A page of a scan of rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowPage {
    /// In the index's order: objects, then parts.
    pub rows: Vec<ScannedRow>,
    /// The last key looked at, to go on behind; `None` when the scan is complete.
    pub next: Option<RegisterKey>,
}

/// The first bound behind a key.
pub fn behind(key: &[u8]) -> Bytes {
    let mut bytes = Vec::with_capacity(key.len() + 1);
    bytes.extend_from_slice(key);
    bytes.push(0);
    bytes.into()
}

/// The first bound behind everything that starts with a prefix; `None` when nothing is.
pub fn behind_prefix(prefix: &[u8]) -> Option<Bytes> {
    let mut bytes = prefix.to_vec();
    while let Some(last) = bytes.pop() {
        if last < u8::MAX {
            bytes.push(last + 1);
            return Some(bytes.into());
        }
    }
    None
}
