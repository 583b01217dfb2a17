//! Looks of peers: the rows of this volume that one of them may lack. Guards I-23.

use bytes::Bytes;

use sherd_core::id::{Life, RegisterKey, Sequence};
use sherd_core::limits::LOOK_ROWS_MAX;
use sherd_core::message::{LookPage, LookScan, ShownHead, behind};
use sherd_core::register::acceptor::judge_epoch;
use sherd_core::register::heal::look::{needs_walk, rows_above};

use crate::error::Error;
use crate::index::table::{OBJECT, PART, UNSETTLED, parse_row_key, row_key, unsettled_key};
use crate::read::list::LOOKED_AT_MAX;
use crate::read::reader::Reader;
use crate::read::scan::KeyWalk;
use crate::read::view::{StoredRow, as_stored};

/// Heads of a walk or of the list, in the order of their keys; where there is more, the last key looked at.
type Heads = (Vec<ShownHead>, Option<RegisterKey>);

/// A page of the rows that a peer with this cursor may lack: listed ones, or all where the list does not say
/// enough.
///
/// The horizon is read behind the rows: one that lost its place meanwhile shows by it, and the page is made
/// again as one of a walk.
///
/// # Errors
/// [`Error::Refused`] by a volume that has seen a later topology, [`Error::Failed`].
pub fn rows_behind(reader: &Reader, scan: &LookScan) -> Result<LookPage, Error> {
    reader.shared.check()?;
    let (life, epoch_max, rows_after, durable) = {
        let view = reader.shared.view.read();
        let small = &view.small;
        let rows_after = if small.standing().has_lost_state() { Sequence(0) } else { small.rows_after() };
        (Life(small.life), small.epoch_max(), rows_after, view.durable)
    };
    judge_epoch(scan.epoch, epoch_max).map_err(Error::Refused)?;
    let above = rows_above(scan.cursor, life);
    let before = horizon(reader);
    if !needs_walk(scan.cursor, life, before) {
        if above >= durable {
            // The peer has all that there was then: the list of an idle volume is not walked for it.
            return Ok(LookPage { horizon: before, ..LookPage::default() });
        }
        let (rows, next) = listed_heads(reader, scan, above, rows_after)?;
        let horizon = horizon(reader);
        if !needs_walk(scan.cursor, life, horizon) {
            return Ok(LookPage { rows, horizon, next });
        }
    }
    let (rows, next) = walked_heads(reader, scan, above, rows_after)?;
    Ok(LookPage { rows, horizon: horizon(reader), next })
}

/// The sequence up to which a volume's list may lack rows that are not everywhere.
pub fn horizon(reader: &Reader) -> Sequence {
    reader.shared.counters.horizon()
}

fn walked_heads(
    reader: &Reader,
    scan: &LookScan,
    above: Sequence,
    rows_after: Sequence,
) -> Result<Heads, Error> {
    let after = scan.after.as_ref();
    let from = after.map_or_else(|| Bytes::from_static(&[OBJECT]), |key| behind(&row_key(key)));
    let mut walk = KeyWalk::new(&reader.shared, &from, Some(Bytes::from_static(&[PART + 1])));
    let mut page = HeadPage::new(scan, above);
    while let Some((key, value)) = walk.next()? {
        if page.is_full() {
            return Ok((page.rows, Some(reader.last_looked_at(page.last)?)));
        }
        let shown = reader.shared.scanned(&key, value, rows_after)?;
        page.look_at(parse_row_key(&key), shown.map(|(_, stored)| stored));
    }
    Ok((page.rows, None))
}

fn listed_heads(
    reader: &Reader,
    scan: &LookScan,
    above: Sequence,
    rows_after: Sequence,
) -> Result<Heads, Error> {
    let after = scan.after.as_ref();
    let from =
        after.map_or_else(|| Bytes::from_static(&[UNSETTLED]), |key| behind(&unsettled_key(&row_key(key))));
    let mut walk = KeyWalk::new(&reader.shared, &from, Some(Bytes::from_static(&[UNSETTLED + 1])));
    let mut page = HeadPage::new(scan, above);
    while let Some((key, _)) = walk.next()? {
        if page.is_full() {
            return Ok((page.rows, Some(reader.last_looked_at(page.last)?)));
        }
        let row = key.slice(1..);
        let entry = reader.shared.entry(&row)?;
        page.look_at(parse_row_key(&row), entry.and_then(|entry| as_stored(entry, rows_after)));
    }
    Ok((page.rows, None))
}

/// A page in the making: the rows above the cursor, of those looked at.
struct HeadPage {
    above: Sequence,
    limit: usize,
    looked_at: usize,
    rows: Vec<ShownHead>,
    last: Option<RegisterKey>,
}

impl HeadPage {
    fn new(scan: &LookScan, above: Sequence) -> Self {
        let limit = scan.limit.clamp(1, LOOK_ROWS_MAX);
        Self { above, limit, looked_at: 0, rows: Vec::new(), last: None }
    }

    fn is_full(&self) -> bool {
        self.rows.len() >= self.limit || self.looked_at >= LOOKED_AT_MAX
    }

    fn look_at(&mut self, key: Option<RegisterKey>, stored: Option<StoredRow>) {
        self.looked_at += 1;
        let Some(key) = key else { return };
        self.last = Some(key.clone());
        if let Some(stored) = stored.filter(|stored| stored.origin.sequence > self.above) {
            self.rows.push(ShownHead { key, head: stored.head(), sequence: stored.origin.sequence });
        }
    }
}
