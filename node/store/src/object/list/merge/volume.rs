//! The scan of one volume, page by page.

use std::collections::VecDeque;

use bytes::Bytes;

use sherd_core::id::Life;
use sherd_core::message::{ListedRow, ScannedRow};

/// The scan of one volume.
#[derive(Debug)]
pub(super) struct VolumeScan {
    pub(super) place: usize,
    pub(super) rows: VecDeque<ListedRow>,
    /// Where the next page begins.
    pub(super) from: Bytes,
    /// The last name before that, where a page ended there.
    pub(super) up_to: Option<Bytes>,
    /// Whether this was the last page.
    pub(super) complete: bool,
    /// Rows that it passed because no listing shows them.
    pub(super) passed_rows: u64,
    /// In which life the volume answered.
    pub(super) life: Option<Life>,
}

impl VolumeScan {
    pub(super) const fn new(place: usize, from: Bytes) -> Self {
        Self { place, rows: VecDeque::new(), from, up_to: None, complete: false, passed_rows: 0, life: None }
    }

    /// Whether a page has to be fetched before its next name is known.
    pub(super) fn is_dry(&self) -> bool {
        self.rows.is_empty() && !self.complete
    }

    /// Goes on behind this name, where anything can be there.
    pub(super) fn go_behind(&mut self, name: &Bytes, from: Option<Bytes>) {
        self.complete = from.is_none();
        self.from = from.unwrap_or_default();
        self.up_to = Some(name.clone());
    }
}

/// The name of a listed row: its key, or the common prefix that it stands for.
pub(super) fn name_of(listed: &ListedRow) -> &[u8] {
    match listed {
        ListedRow::Row(row) => row.key.key.as_bytes(),
        ListedRow::Prefix { prefix, .. } => prefix,
    }
}

/// The row itself, which is the lowest witness of a common prefix.
pub(super) fn row_of(listed: &ListedRow) -> &ScannedRow {
    match listed {
        ListedRow::Row(row) => row,
        ListedRow::Prefix { witness, .. } => witness,
    }
}
