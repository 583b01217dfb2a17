//! Content of one file of the faulty disk: as reads see it, as the device has it, and the difference of the
//! two.
//!
//! Bytes are kept in pages, missing pages are zeros, so a preallocated file costs nothing. A crash
//! keeps, for each sector alone, the content that it had at some moment since the last sync: that
//! is all that a device with atomic sectors promises.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::chance::{Keep, SplitMix};

/// Bytes of a page: the unit of the page cache.
pub(super) const PAGE: usize = 4096;
/// Bytes that a device writes wholly or not at all.
const SECTOR: usize = 512;

/// Bytes by page; a page that is missing is zeros.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    pub(super) length: u64,
    pages: BTreeMap<u64, Arc<[u8; PAGE]>>,
}

#[derive(Debug, Clone)]
enum ContentChange {
    Write { offset: u64, bytes: Vec<u8> },
    Length { length: u64 },
}

#[derive(Debug, Clone, Default)]
pub(super) struct FileNode {
    pub(super) live: Content,
    durable: Content,
    pending: Vec<ContentChange>,
    cached: BTreeSet<u64>,
    unreadable: Vec<Range<u64>>,
}

/// Splits a range into pieces that do not cross a multiple of `unit`: (unit index, range of the
/// piece relative to the start of the range, position inside the unit).
fn pieces(offset: u64, length: usize, unit: usize) -> impl Iterator<Item = (u64, Range<usize>, usize)> {
    let unit_bytes = unit as u64;
    let mut done = 0;
    std::iter::from_fn(move || {
        if done >= length {
            return None;
        }
        let at = offset + done as u64;
        let inside = usize::try_from(at % unit_bytes).expect("smaller than the unit");
        let take = (unit - inside).min(length - done);
        let piece = (at / unit_bytes, done..done + take, inside);
        done += take;
        Some(piece)
    })
}

impl Content {
    fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (page, range, inside) in pieces(offset, bytes.len(), PAGE) {
            let target = self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE]));
            let length = range.len();
            Arc::make_mut(target)[inside..inside + length].copy_from_slice(&bytes[range]);
        }
        self.length = self.length.max(offset + bytes.len() as u64);
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let left = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let length = buffer.len().min(left);
        for (page, range, inside) in pieces(offset, length, PAGE) {
            let target = &mut buffer[range];
            match self.pages.get(&page) {
                Some(source) => target.copy_from_slice(&source[inside..inside + target.len()]),
                None => target.fill(0),
            }
        }
        length
    }

    /// Sets the length; what is cut off reads as zeros if the file grows again.
    fn set_length(&mut self, length: u64) {
        if length < self.length {
            let page = length / PAGE as u64;
            let inside = usize::try_from(length % PAGE as u64).expect("smaller than a page");
            self.pages.split_off(&(page + u64::from(inside > 0)));
            if let Some(last) = self.pages.get_mut(&page) {
                Arc::make_mut(last)[inside..].fill(0);
            }
        }
        self.length = length;
    }

    fn take_page(&mut self, page: u64, from: &Self) {
        match from.pages.get(&page) {
            Some(bytes) => self.pages.insert(page, Arc::clone(bytes)),
            None => self.pages.remove(&page),
        };
    }
}

impl FileNode {
    pub(super) fn space(&self) -> u64 {
        self.live.length.next_multiple_of(PAGE as u64)
    }

    pub(super) fn write(&mut self, offset: u64, bytes: Vec<u8>) {
        self.live.write(offset, &bytes);
        self.cached.extend(pieces(offset, bytes.len(), PAGE).map(|(page, ..)| page));
        self.pending.push(ContentChange::Write { offset, bytes });
    }

    pub(super) fn set_length(&mut self, length: u64) {
        self.live.set_length(length);
        self.pending.push(ContentChange::Length { length });
    }

    /// Reads what a process sees; `None` where the device cannot give the range.
    pub(super) fn read(&mut self, buffer: &mut [u8], offset: u64) -> Option<usize> {
        let length = self.is_readable(offset, buffer.len()).then(|| self.live.read(buffer, offset))?;
        self.cached.extend(pieces(offset, length, PAGE).map(|(page, ..)| page));
        Some(length)
    }

    /// Reads what the device has, and keeps none of it in memory.
    pub(super) fn read_direct(&mut self, buffer: &mut [u8], offset: u64) -> Option<usize> {
        self.evict(offset, buffer.len() as u64);
        self.is_readable(offset, buffer.len()).then(|| self.live.read(buffer, offset))
    }

    fn is_readable(&self, offset: u64, length: usize) -> bool {
        let end = offset.saturating_add(length as u64);
        !self.unreadable.iter().any(|bad| bad.start < end && offset < bad.end)
    }

    pub(super) fn is_cached(&self, offset: u64, length: usize) -> bool {
        let left = usize::try_from(self.live.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        pieces(offset, length.min(left), PAGE).all(|(page, ..)| self.cached.contains(&page))
    }

    pub(super) fn sync(&mut self) {
        let mut durable = std::mem::take(&mut self.durable);
        self.arrive_in(&mut durable);
        self.durable = durable;
        self.pending.clear();
    }

    /// Brings all changes to what is durable. Pages that a failed sync dropped stay behind.
    fn arrive_in(&self, durable: &mut Content) {
        for change in &self.pending {
            if let ContentChange::Length { length } = change {
                durable.set_length(*length);
            }
        }
        for page in self.dirty_pages() {
            durable.take_page(page, &self.live);
        }
        durable.set_length(self.live.length);
    }

    /// A sync that failed: some sectors arrived, and the rest is forgotten by the next sync.
    pub(super) fn sync_failed(&mut self, rng: &mut SplitMix) {
        self.durable = self.after_crash(rng);
        self.pending.clear();
    }

    /// Drops clean pages from the page cache, so that reads come from the device.
    pub(super) fn evict(&mut self, offset: u64, length: u64) {
        let dirty: BTreeSet<u64> = self.dirty_pages();
        let end = offset.saturating_add(length).div_ceil(PAGE as u64);
        let pages: Vec<u64> = self.cached.range(offset / PAGE as u64..end).copied().collect();
        for page in pages.into_iter().filter(|page| !dirty.contains(page)) {
            self.cached.remove(&page);
            self.live.take_page(page, &self.durable);
        }
    }

    pub(super) fn rot(&mut self, range: Range<u64>, rng: &mut SplitMix) {
        for at in range {
            let flip = u8::try_from(rng.below(255) + 1).expect("1 to 255");
            for content in [&mut self.live, &mut self.durable] {
                if at < content.length {
                    let mut byte = [0];
                    content.read(&mut byte, at);
                    content.write(at, &[byte[0] ^ flip]);
                }
            }
        }
    }

    /// Damages bytes on the device. Bytes that are not in memory are read from there.
    pub(super) fn rot_device(&mut self, range: Range<u64>, rng: &mut SplitMix) {
        for at in range.clone() {
            let flip = u8::try_from(rng.below(255) + 1).expect("1 to 255");
            let mut byte = [0];
            if self.durable.read(&mut byte, at) == 1 {
                self.durable.write(at, &[byte[0] ^ flip]);
            }
        }
        for page in range.start / PAGE as u64..range.end.div_ceil(PAGE as u64) {
            if !self.cached.contains(&page) {
                self.live.take_page(page, &self.durable);
            }
        }
    }

    pub(super) fn make_unreadable(&mut self, range: Range<u64>) {
        self.unreadable.push(range);
    }

    pub(super) fn make_readable(&mut self) {
        self.unreadable.clear();
    }

    pub(super) fn crash(&mut self, keep: Keep, rng: &mut SplitMix) {
        match keep {
            Keep::Nothing => {}
            Keep::Everything => self.sync(),
            Keep::Some => self.durable = self.after_crash(rng),
        }
        self.live = self.durable.clone();
        self.pending.clear();
        self.cached.clear();
    }

    fn dirty_pages(&self) -> BTreeSet<u64> {
        let mut dirty = BTreeSet::new();
        for change in &self.pending {
            match change {
                ContentChange::Write { offset, bytes } => {
                    dirty.extend(pieces(*offset, bytes.len(), PAGE).map(|(page, ..)| page));
                }
                // The page that a cut goes through changes too; those behind it follow the length.
                ContentChange::Length { length } => dirty.extend([length / PAGE as u64]),
            }
        }
        dirty
    }

    /// Content after a power cut that may leave any mix: the length of some moment, each sector of some
    /// moment.
    fn after_crash(&self, rng: &mut SplitMix) -> Content {
        let count = self.pending.len();
        let style = rng.below(6);
        let mut left = self.durable.clone();
        if count == 0 || style == 0 {
            return left;
        }
        if style == 1 {
            self.arrive_in(&mut left);
            return left;
        }
        let keep_in_8 = [1, 4, 7, 8][usize::try_from(style - 2).expect("2 to 5")];
        let moment = |rng: &mut SplitMix| {
            if rng.below(8) < keep_in_8 { count } else { rng.index(count + 1) }
        };
        let lengths_until = moment(rng);
        let mut sectors: BTreeMap<u64, usize> = BTreeMap::new();
        let mut length = left.length;
        for (index, change) in self.pending.iter().enumerate() {
            match change {
                ContentChange::Write { offset, bytes } => {
                    for (sector, range, inside) in pieces(*offset, bytes.len(), SECTOR) {
                        let until = *sectors.entry(sector).or_insert_with(|| moment(rng));
                        if index < until {
                            left.write(sector * SECTOR as u64 + inside as u64, &bytes[range]);
                        }
                    }
                    let end = offset + bytes.len() as u64;
                    if index < lengths_until {
                        length = length.max(end);
                    } else if index == lengths_until && length < end && rng.below(2) == 0 {
                        // A write past the end moves it page by page.
                        let from = length.max(*offset) / PAGE as u64;
                        let page = from + rng.below(end.div_ceil(PAGE as u64) - from);
                        length = length.max(page * PAGE as u64);
                    }
                }
                ContentChange::Length { length: to } if index < lengths_until => {
                    left.set_length(*to);
                    length = *to;
                }
                ContentChange::Length { .. } => {}
            }
        }
        left.set_length(length);
        left
    }
}
