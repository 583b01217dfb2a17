//! Ordered walks over what is visible: the overlay merged over the index.
//!
//! The overlay's share of the range is taken first and the index is walked then: an entry leaves the
//! overlay only when the index has it, so whatever was durable before the walk began is seen.

use std::iter::Peekable;
use std::vec;

use bytes::Bytes;

use crate::error::Error;
use crate::index::{IndexError, Pair};
use crate::read::view::VolumeShared;

type IndexScan<'a> = Box<dyn Iterator<Item = Result<Pair, IndexError>> + 'a>;

/// Entries that a jump ahead passes at most before it seeks, which costs as much as about ten of them.
const PASSED_MAX: usize = 8;
/// Of jumps that pass entries in vain, one of so many tries it again.
const RETRY: u32 = 32;

/// A walk in key order that can jump ahead.
pub(crate) struct Walk<'a> {
    shared: &'a VolumeShared,
    overlay: Peekable<vec::IntoIter<(Bytes, Option<Bytes>)>>,
    index: Peekable<IndexScan<'a>>,
    to: Option<Bytes>,
    /// Jumps since the last one that ended among the next entries.
    far_jumps: u32,
}

impl<'a> Walk<'a> {
    /// Walks `from..to`.
    pub(crate) fn new(shared: &'a VolumeShared, from: &[u8], to: Option<Bytes>) -> Self {
        let view = shared.view.read();
        let start = Bytes::copy_from_slice(from);
        let overlay: Vec<_> = view
            .overlay
            .range(start..)
            .take_while(|(key, _)| to.as_ref().is_none_or(|to| *key < to))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        drop(view);
        let index = shared.index.scan(from, to.as_deref()).peekable();
        Self { shared, overlay: overlay.into_iter().peekable(), index, to, far_jumps: 0 }
    }

    /// Goes on at `from`, which lies ahead.
    pub(crate) fn seek(&mut self, from: &[u8]) {
        while self.overlay.next_if(|(key, _)| key.as_ref() < from).is_some() {}
        let lies_before = |pair: &Result<Pair, IndexError>| pair.as_ref().is_ok_and(|(key, _)| key < from);
        if self.far_jumps.is_multiple_of(RETRY) {
            for _ in 0..PASSED_MAX {
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

    /// The next entry.
    pub(crate) fn next(&mut self) -> Result<Option<Pair>, Error> {
        loop {
            if let Some(Err(error)) = self.index.next_if(Result::is_err) {
                return Err(self.shared.index_failed(&error));
            }
            let below = self.index.peek().and_then(|pair| pair.as_ref().ok()).map(|(key, _)| key.clone());
            let above = self.overlay.peek().map(|(key, _)| key.clone());
            match (above, below) {
                (None, None) => return Ok(None),
                (Some(above), below) if below.as_ref().is_none_or(|below| above <= *below) => {
                    if below.as_ref() == Some(&above) {
                        self.index.next();
                    }
                    // `None` is an entry that was removed: whatever the index holds is gone.
                    if let Some((key, Some(value))) = self.overlay.next() {
                        return Ok(Some((key, value)));
                    }
                }
                _ => {
                    if let Some(Ok(pair)) = self.index.next() {
                        return Ok(Some(pair));
                    }
                }
            }
        }
    }
}
