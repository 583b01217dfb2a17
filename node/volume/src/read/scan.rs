//! Ordered walks over what is visible: the overlay merged over the index.
//!
//! The overlay's share of a range is taken first and the index is walked then: an entry leaves the overlay
//! only when the index has it, so every entry that was durable before the walk began is seen. A long range is
//! walked piece by piece, each in this order: a page of few rows copies few entries.

use std::cmp::Ordering;
use std::iter::Peekable;
use std::vec;

use bytes::Bytes;

use crate::error::Error;
use crate::index::{IndexError, Pair};
use crate::limits::{OVERLAY_TAKEN_MAX, PASSED_BEFORE_SEEK_MAX};
use crate::read::view::VolumeShared;

type IndexScan<'a> = Box<dyn Iterator<Item = Result<Pair, IndexError>> + 'a>;

/// Of jumps that pass entries in vain, one in this number tries it again.
const RETRY: u32 = 32;

pub(crate) struct KeyWalk<'a> {
    shared: &'a VolumeShared,
    overlay: Peekable<vec::IntoIter<(Bytes, Option<Bytes>)>>,
    /// The first entry of the overlay that was not taken; `None` when all were.
    overlay_to: Option<Bytes>,
    index: Peekable<IndexScan<'a>>,
    to: Option<Bytes>,
    /// Jumps since the last one that ended among the next entries.
    far_jumps: u32,
}

enum NextEntry {
    Overlay,
    /// In both: the overlay's counts.
    Both,
    Index,
    /// Behind the entries of the overlay that were taken.
    NextPiece(Bytes),
    Nowhere,
}

impl<'a> KeyWalk<'a> {
    pub(crate) fn new(shared: &'a VolumeShared, from: &[u8], to: Option<Bytes>) -> Self {
        let index: IndexScan<'a> = Box::new(std::iter::empty());
        let overlay = Vec::new().into_iter().peekable();
        let mut walk = Self { shared, overlay, overlay_to: None, index: index.peekable(), to, far_jumps: 0 };
        walk.begin_piece(from);
        walk
    }

    /// Takes the overlay's next entries, and then walks the index from there.
    fn begin_piece(&mut self, from: &[u8]) {
        let is_within = |key: &Bytes| self.to.as_ref().is_none_or(|to| key < to);
        let view = self.shared.view.read();
        let mut entries = view
            .overlay
            .range(Bytes::copy_from_slice(from)..)
            .take_while(|(key, _)| is_within(key))
            .map(|(key, value)| (key.clone(), value.clone()));
        let taken: Vec<_> = entries.by_ref().take(OVERLAY_TAKEN_MAX).collect();
        self.overlay_to = entries.next().map(|(key, _)| key);
        drop(view);
        self.overlay = taken.into_iter().peekable();
        self.index = self.shared.index.scan(from, self.to.as_deref()).peekable();
    }

    pub(crate) fn seek(&mut self, from: &[u8]) {
        if self.overlay_to.as_ref().is_some_and(|to| to.as_ref() <= from) {
            self.begin_piece(from);
            return;
        }
        while self.overlay.next_if(|(key, _)| key.as_ref() < from).is_some() {}
        let lies_before = |pair: &Result<Pair, IndexError>| pair.as_ref().is_ok_and(|(key, _)| key < from);
        if self.far_jumps.is_multiple_of(RETRY) {
            for _ in 0..PASSED_BEFORE_SEEK_MAX {
                self.index.next_if(lies_before);
            }
        }
        if !self.index.peek().is_some_and(lies_before) {
            self.far_jumps = 0;
            return;
        }
        self.far_jumps += 1;
        self.index = self.shared.index.scan(from, self.to.as_deref()).peekable();
    }

    pub(crate) fn next(&mut self) -> Result<Option<Pair>, Error> {
        loop {
            if let Some(Err(error)) = self.index.next_if(Result::is_err) {
                return Err(self.shared.index_failed(&error));
            }
            match self.next_entry() {
                NextEntry::Nowhere => return Ok(None),
                NextEntry::NextPiece(from) => self.begin_piece(&from),
                NextEntry::Index => {
                    if let Some(Ok(pair)) = self.index.next() {
                        return Ok(Some(pair));
                    }
                }
                side @ (NextEntry::Overlay | NextEntry::Both) => {
                    if matches!(side, NextEntry::Both) {
                        self.index.next();
                    }
                    // `None` is an entry that was removed: the index's entry is void.
                    if let Some((key, Some(value))) = self.overlay.next() {
                        return Ok(Some((key, value)));
                    }
                }
            }
        }
    }

    fn next_entry(&mut self) -> NextEntry {
        let above = self.overlay.peek().map(|(key, _)| key);
        let below = self.index.peek().and_then(|pair| pair.as_ref().ok()).map(|(key, _)| key);
        match (above, below, &self.overlay_to) {
            (Some(above), Some(below), _) => match above.cmp(below) {
                Ordering::Less => NextEntry::Overlay,
                Ordering::Equal => NextEntry::Both,
                Ordering::Greater => NextEntry::Index,
            },
            (Some(_), None, _) => NextEntry::Overlay,
            (None, Some(below), Some(to)) if below < to => NextEntry::Index,
            (None, _, Some(to)) => NextEntry::NextPiece(to.clone()),
            (None, Some(_), None) => NextEntry::Index,
            (None, None, None) => NextEntry::Nowhere,
        }
    }
}
