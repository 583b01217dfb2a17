//! One pass over two sides in order: what only one has, and what both have.

use std::cmp::Ordering;

use super::side::{SideEntries, SideEntry};
use crate::error::Error;

/// A name, by the sides that have it.
#[derive(Debug)]
pub(crate) enum Pair {
    Source(SideEntry),
    Target(SideEntry),
    Both(SideEntry, SideEntry),
}

/// A side that cannot be read, or not all of it.
#[derive(Debug)]
pub(crate) struct SideError {
    pub(crate) is_source: bool,
    pub(crate) error: Error,
}

/// The entries of both sides, merged.
#[derive(Debug)]
pub(crate) struct Merge {
    source: OrderedEntries,
    target: OrderedEntries,
}

#[derive(Debug)]
struct OrderedEntries {
    entries: SideEntries,
    /// The entry that is next.
    next: Option<SideEntry>,
    /// The name before it.
    last: Option<String>,
    /// The first one, read before it is asked for.
    first: Option<Result<SideEntry, Error>>,
    is_over: bool,
}

impl OrderedEntries {
    const fn new(entries: SideEntries) -> Self {
        Self { entries, next: None, last: None, first: None, is_over: false }
    }

    /// Reads the first entry, and returns whether there is one.
    async fn peek(&mut self) -> bool {
        if self.first.is_none() && self.next.is_none() && self.last.is_none() {
            self.first = self.entries.recv().await;
        }
        self.first.is_some() || self.next.is_some() || self.last.is_some()
    }

    /// Makes `next` the next entry, if there is one. A side out of order cannot be merged.
    async fn fill(&mut self) -> Result<(), Error> {
        if self.next.is_some() || self.is_over {
            return Ok(());
        }
        let entry = match self.first.take() {
            Some(first) => Some(first),
            None => self.entries.recv().await,
        };
        let Some(entry) = entry.transpose()? else {
            self.is_over = true;
            return Ok(());
        };
        if self.last.as_ref().is_some_and(|last| *last >= entry.name) {
            self.is_over = true;
            let what = "its keys are not in order";
            return Err(Error::Malformed { resource: entry.end.to_string(), what });
        }
        self.last = Some(entry.name.clone());
        self.next = Some(entry);
        Ok(())
    }
}

impl Merge {
    pub(crate) const fn new(source: SideEntries, target: SideEntries) -> Self {
        Self { source: OrderedEntries::new(source), target: OrderedEntries::new(target) }
    }

    /// Whether the source has an entry, or an error where one may be.
    pub(crate) async fn has_source(&mut self) -> bool {
        self.source.peek().await
    }

    /// The next name of either side.
    pub(crate) async fn next(&mut self) -> Option<Result<Pair, SideError>> {
        if let Err(error) = self.source.fill().await {
            return Some(Err(SideError { is_source: true, error }));
        }
        if let Err(error) = self.target.fill().await {
            return Some(Err(SideError { is_source: false, error }));
        }
        let order = match (&self.source.next, &self.target.next) {
            (None, None) => return None,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(source), Some(target)) => source.name.cmp(&target.name),
        };
        let source = if order.is_le() { self.source.next.take() } else { None };
        let target = if order.is_ge() { self.target.next.take() } else { None };
        Some(Ok(match (source, target) {
            (Some(source), Some(target)) => Pair::Both(source, target),
            (Some(source), None) => Pair::Source(source),
            (None, Some(target)) => Pair::Target(target),
            (None, None) => return None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use tokio::sync::mpsc;

    use super::*;
    use crate::transfer::job::JobEnd;

    fn side(names: &[&str]) -> SideEntries {
        let (sender, receiver) = mpsc::channel(names.len().max(1));
        for name in names {
            let entry = SideEntry {
                name: (*name).to_owned(),
                bytes: 0,
                modified: None,
                etag: None,
                end: JobEnd::File(PathBuf::from(name)),
                is_behind_link: false,
            };
            sender.try_send(if *name == "!" { Err(Error::Cancelled) } else { Ok(entry) }).expect("room");
        }
        receiver
    }

    async fn merged(source: &[&str], target: &[&str]) -> Vec<String> {
        let mut merge = Merge::new(side(source), side(target));
        let mut found = Vec::new();
        while let Some(pair) = merge.next().await {
            found.push(match pair {
                Ok(Pair::Source(entry)) => format!("<{}", entry.name),
                Ok(Pair::Target(entry)) => format!(">{}", entry.name),
                Ok(Pair::Both(entry, _)) => format!("={}", entry.name),
                Err(SideError { is_source, error }) => format!("!{is_source} {}", error.kind()),
            });
        }
        found
    }

    #[tokio::test]
    async fn both_sides_are_passed_once_in_order() {
        assert_eq!(merged(&["a", "b", "d"], &["b", "c"]).await, ["<a", "=b", ">c", "<d"]);
        assert_eq!(merged(&[], &["a"]).await, [">a"]);
        assert_eq!(merged(&[], &[]).await, [""; 0]);
    }

    #[tokio::test]
    async fn errors_say_whose_they_are_and_the_rest_follows() {
        assert_eq!(merged(&["a", "!", "c"], &["c"]).await, ["<a", "!true cancelled", "=c"]);
        assert_eq!(merged(&["a"], &["!"]).await, ["!false cancelled", "<a"]);
    }

    #[tokio::test]
    async fn a_side_out_of_order_is_an_error() {
        assert_eq!(merged(&["b", "a"], &[]).await, ["<b", "!true malformed_answer"]);
    }
}
