//! Scans of rows, and their pages.
//!
//! A scan asks for a page at most; a page's rows are checked against their digests one by one.

use bytes::Bytes;

use sherd_core::id::{Ballot, BucketId, ChangeId, Epoch, Life, RegisterKey, Sequence, Slot, UploadId};
use sherd_core::limits::PARTS_MAX;
use sherd_core::message::{
    LIST_PASSED_MAX, ListPage, ListScan, ListedRow, LookPage, LookScan, PartsScan, RowPage, RowScan,
    ScannedRow, ShownHead, UnsettledPage, UnsettledRow,
};
use sherd_core::register::heal::look::PeerCursor;
use sherd_core::register::{Row, RowHead};

use super::{
    ConvertError, Wire, at_most, limit_from_wire, limit_to_wire, list_from_wire, list_to_wire, required,
};
use crate::limits::{LIST_BOUND_BYTES_MAX, PAGE_ROWS_MAX};
use crate::v1;
use crate::v1::register_call;

impl Wire for ListScan {
    type Message = register_call::List;

    fn to_wire(&self) -> register_call::List {
        let Self { bucket, epoch, deletion, prefix, from, delimiter, limit, passed_max } = self;
        register_call::List {
            bucket: bucket.to_wire(),
            epoch: epoch.0,
            deletion: deletion.as_ref().map(Wire::to_wire),
            prefix: prefix.clone(),
            from: from.clone(),
            delimiter: delimiter.clone(),
            limit: limit_to_wire(*limit),
            passed_max: *passed_max,
        }
    }

    fn from_wire(message: register_call::List) -> Result<Self, ConvertError> {
        let register_call::List { bucket, epoch, deletion, prefix, from, delimiter, limit, passed_max } =
            message;
        at_most(prefix.len(), LIST_BOUND_BYTES_MAX, "prefix")?;
        at_most(from.len(), LIST_BOUND_BYTES_MAX, "start of a listing")?;
        at_most(delimiter.as_ref().map_or(0, Bytes::len), LIST_BOUND_BYTES_MAX, "delimiter")?;
        Ok(Self {
            bucket: BucketId::from_wire(bucket)?,
            epoch: Epoch(epoch),
            deletion: deletion.map(ChangeId::from_wire).transpose()?,
            prefix,
            from,
            delimiter,
            limit: limit_from_wire(limit),
            // A node that does not know the field asks for no maximum of its own.
            passed_max: if passed_max == 0 { LIST_PASSED_MAX } else { passed_max },
        })
    }
}

impl Wire for PartsScan {
    type Message = register_call::Parts;

    fn to_wire(&self) -> register_call::Parts {
        let Self { bucket, upload, slot, epoch, after, limit } = self;
        register_call::Parts {
            bucket: bucket.to_wire(),
            upload: upload.to_wire(),
            slot: slot.to_wire(),
            epoch: epoch.0,
            after: after.map(u32::from),
            limit: limit_to_wire(*limit),
        }
    }

    fn from_wire(message: register_call::Parts) -> Result<Self, ConvertError> {
        let register_call::Parts { bucket, upload, slot, epoch, after, limit } = message;
        Ok(Self {
            bucket: BucketId::from_wire(bucket)?,
            upload: UploadId::from_wire(upload)?,
            slot: Slot::from_wire(slot)?,
            epoch: Epoch(epoch),
            after: after.map(part_number).transpose()?,
            limit: limit_from_wire(limit),
        })
    }
}

/// The number of a part, or 0 for what is before the first.
fn part_number(number: u32) -> Result<u16, ConvertError> {
    let known = u16::try_from(number).ok().filter(|number| *number <= PARTS_MAX);
    known.ok_or_else(|| ConvertError::range("part number", number))
}

impl Wire for RowScan {
    type Message = register_call::Rows;

    fn to_wire(&self) -> register_call::Rows {
        let Self { epoch, after, since, until, limit, want_value } = self;
        register_call::Rows {
            epoch: epoch.0,
            after: after.as_ref().map(Wire::to_wire),
            since: since.0,
            until: until.0,
            limit: limit_to_wire(*limit),
            want_value: *want_value,
        }
    }

    fn from_wire(message: register_call::Rows) -> Result<Self, ConvertError> {
        let register_call::Rows { epoch, after, since, until, limit, want_value } = message;
        Ok(Self {
            epoch: Epoch(epoch),
            after: after.map(RegisterKey::from_wire).transpose()?,
            since: Sequence(since),
            until: Sequence(until),
            limit: limit_from_wire(limit),
            want_value,
        })
    }
}

impl Wire for ScannedRow {
    type Message = v1::ScannedRow;

    fn to_wire(&self) -> v1::ScannedRow {
        let Self { key, row, tombstone, is_missed } = self;
        v1::ScannedRow {
            key: key.to_wire(),
            row: Some(row.to_wire()),
            tombstone: *tombstone,
            missed: *is_missed,
        }
    }

    fn from_wire(message: v1::ScannedRow) -> Result<Self, ConvertError> {
        let v1::ScannedRow { key, row, tombstone, missed: is_missed } = message;
        let row = Row::from_wire(required(row, "row of a scan")?)?;
        Ok(Self { key: RegisterKey::from_wire(key)?, row, tombstone, is_missed })
    }
}

impl Wire for Vec<ScannedRow> {
    type Message = v1::ScannedRows;

    fn to_wire(&self) -> v1::ScannedRows {
        v1::ScannedRows { rows: list_to_wire(self) }
    }

    fn from_wire(message: v1::ScannedRows) -> Result<Self, ConvertError> {
        list_from_wire(message.rows, PAGE_ROWS_MAX, "rows of a page")
    }
}

impl Wire for RowPage {
    type Message = v1::RowPage;

    fn to_wire(&self) -> v1::RowPage {
        let Self { rows, next } = self;
        v1::RowPage { rows: list_to_wire(rows), next: next.as_ref().map(Wire::to_wire) }
    }

    fn from_wire(message: v1::RowPage) -> Result<Self, ConvertError> {
        let v1::RowPage { rows, next } = message;
        let rows = list_from_wire(rows, PAGE_ROWS_MAX, "rows of a page")?;
        Ok(Self { rows, next: next.map(RegisterKey::from_wire).transpose()? })
    }
}

impl Wire for LookScan {
    type Message = register_call::RowsBehind;

    fn to_wire(&self) -> register_call::RowsBehind {
        let Self { cursor, epoch, after, limit } = self;
        register_call::RowsBehind {
            cursor: cursor.map(|PeerCursor { life, sequence }| register_call::Cursor {
                life: life.0,
                sequence: sequence.0,
            }),
            epoch: epoch.0,
            after: after.as_ref().map(Wire::to_wire),
            limit: limit_to_wire(*limit),
        }
    }

    fn from_wire(message: register_call::RowsBehind) -> Result<Self, ConvertError> {
        let register_call::RowsBehind { cursor, epoch, after, limit } = message;
        Ok(Self {
            cursor: cursor.map(|register_call::Cursor { life, sequence }| PeerCursor {
                life: Life(life),
                sequence: Sequence(sequence),
            }),
            epoch: Epoch(epoch),
            after: after.map(RegisterKey::from_wire).transpose()?,
            limit: limit_from_wire(limit),
        })
    }
}

impl Wire for ShownHead {
    type Message = v1::look_page::ShownHead;

    fn to_wire(&self) -> v1::look_page::ShownHead {
        let Self { key, head, sequence } = self;
        v1::look_page::ShownHead { key: key.to_wire(), head: Some(head.to_wire()), sequence: sequence.0 }
    }

    fn from_wire(message: v1::look_page::ShownHead) -> Result<Self, ConvertError> {
        let v1::look_page::ShownHead { key, head, sequence } = message;
        let head = RowHead::from_wire(required(head, "head of a row")?)?;
        Ok(Self { key: RegisterKey::from_wire(key)?, head, sequence: Sequence(sequence) })
    }
}

impl Wire for LookPage {
    type Message = v1::LookPage;

    fn to_wire(&self) -> v1::LookPage {
        let Self { rows, horizon, next } = self;
        v1::LookPage { rows: list_to_wire(rows), horizon: horizon.0, next: next.as_ref().map(Wire::to_wire) }
    }

    fn from_wire(message: v1::LookPage) -> Result<Self, ConvertError> {
        let v1::LookPage { rows, horizon, next } = message;
        Ok(Self {
            rows: list_from_wire(rows, PAGE_ROWS_MAX, "rows of a page")?,
            horizon: Sequence(horizon),
            next: next.map(RegisterKey::from_wire).transpose()?,
        })
    }
}

impl Wire for ListedRow {
    type Message = v1::ListedRow;

    fn to_wire(&self) -> v1::ListedRow {
        let (prefix, row) = match self {
            Self::Row(row) => (None, row),
            Self::Prefix { prefix, witness } => (Some(prefix.clone()), witness),
        };
        v1::ListedRow { prefix, row: Some(row.to_wire()) }
    }

    fn from_wire(message: v1::ListedRow) -> Result<Self, ConvertError> {
        let v1::ListedRow { prefix, row } = message;
        let row = ScannedRow::from_wire(required(row, "row of a listing")?)?;
        match prefix {
            None => Ok(Self::Row(row)),
            Some(prefix) => {
                at_most(prefix.len(), LIST_BOUND_BYTES_MAX, "common prefix")?;
                Ok(Self::Prefix { prefix, witness: row })
            }
        }
    }
}

impl Wire for ListPage {
    type Message = v1::ListPage;

    fn to_wire(&self) -> v1::ListPage {
        let Self { entries, next, hidden, floor } = self;
        v1::ListPage {
            entries: list_to_wire(entries),
            next: next.clone(),
            hidden: *hidden,
            floor: floor.to_wire(),
        }
    }

    fn from_wire(message: v1::ListPage) -> Result<Self, ConvertError> {
        let v1::ListPage { entries, next, hidden, floor } = message;
        at_most(next.as_ref().map_or(0, Bytes::len), LIST_BOUND_BYTES_MAX, "end of a page")?;
        let entries = list_from_wire(entries, PAGE_ROWS_MAX, "entries of a page")?;
        // A node that does not know the field says of no row that it was accepted.
        let floor = if floor.is_empty() { Ballot::MAX } else { Ballot::from_wire(floor)? };
        Ok(Self { entries, next, hidden, floor })
    }
}

impl Wire for UnsettledRow {
    type Message = v1::unsettled_page::Unsettled;

    fn to_wire(&self) -> v1::unsettled_page::Unsettled {
        let Self { key, ballot } = self;
        v1::unsettled_page::Unsettled { key: key.to_wire(), ballot: ballot.to_wire() }
    }

    fn from_wire(message: v1::unsettled_page::Unsettled) -> Result<Self, ConvertError> {
        let v1::unsettled_page::Unsettled { key, ballot } = message;
        Ok(Self { key: RegisterKey::from_wire(key)?, ballot: Ballot::from_wire(ballot)? })
    }
}

impl Wire for UnsettledPage {
    type Message = v1::UnsettledPage;

    fn to_wire(&self) -> v1::UnsettledPage {
        let Self { rows, next } = self;
        v1::UnsettledPage { rows: list_to_wire(rows), next: next.as_ref().map(Wire::to_wire) }
    }

    fn from_wire(message: v1::UnsettledPage) -> Result<Self, ConvertError> {
        let v1::UnsettledPage { rows, next } = message;
        let rows = list_from_wire(rows, PAGE_ROWS_MAX, "unsettled rows")?;
        Ok(Self { rows, next: next.map(RegisterKey::from_wire).transpose()? })
    }
}
