//! The operations of clients, their mix, and the choice of the next object.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::keys::{Keys, Order};
use crate::client::random::Random;

/// Operations that can be measured on their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, clap::ValueEnum)]
pub enum Op {
    /// PutObject of a new key, or of the same ones over and over.
    Put,
    /// GetObject of a random key, every byte verified.
    Get,
    /// HeadObject of a random key, its length verified.
    Head,
    /// ListObjectsV2 of a page from a random place, every name verified.
    List,
    /// ListObjectsV2 with a delimiter: a page of folders, every one verified.
    ListFolders,
    /// DeleteObject, each key once.
    Delete,
    /// DeleteObjects of a page, each key once.
    DeleteObjects,
    /// A mix of the single operations.
    Mixed,
    /// A multipart upload: create, all parts one after the other, complete.
    Multipart,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Put => "put",
            Self::Get => "get",
            Self::Head => "head",
            Self::List => "list",
            Self::ListFolders => "list-folders",
            Self::Delete => "delete",
            Self::DeleteObjects => "delete-objects",
            Self::Mixed => "mixed",
            Self::Multipart => "multipart",
        })
    }
}

/// Digits of objects' names that are a folder, where folders are listed: more of them than a page holds.
const FOLDER_DIGITS: usize = 3;

impl Op {
    /// Whether there must be objects before it.
    pub const fn needs_objects(self) -> bool {
        !matches!(self, Self::Put | Self::Multipart)
    }

    /// Digits of the objects' names that are to be a folder.
    pub const fn folder_digits(self) -> usize {
        if matches!(self, Self::ListFolders) { FOLDER_DIGITS } else { 0 }
    }
}

/// How often each operation comes in [`Op::Mixed`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix(Vec<(Op, u64)>);

/// Text that is not a mix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no mix of put, get, head and either list or delete, such as put:30,get:60,delete:10")]
pub struct MalformedMix(String);

impl FromStr for Mix {
    type Err = MalformedMix;

    fn from_str(text: &str) -> Result<Self, MalformedMix> {
        let malformed = || MalformedMix(text.to_owned());
        let mut entries = Vec::new();
        for entry in text.split(',') {
            let (op, weight) = entry.split_once(':').ok_or_else(malformed)?;
            let op = match op.trim() {
                "put" => Op::Put,
                "get" => Op::Get,
                "head" => Op::Head,
                "list" => Op::List,
                "delete" => Op::Delete,
                _ => return Err(malformed()),
            };
            let weight: u32 = weight.trim().parse().map_err(|_| malformed())?;
            if entries.iter().any(|(named, _)| *named == op) {
                return Err(malformed());
            }
            entries.push((op, u64::from(weight)));
        }
        let mix = Self(entries);
        // The right answer to a listing is unknown while keys come and go.
        let unknowable = mix.weight(Op::List) > 0 && mix.weight(Op::Delete) > 0;
        let total: u64 = mix.0.iter().map(|(_, weight)| weight).sum();
        if total == 0 || unknowable { Err(malformed()) } else { Ok(mix) }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (op, weight)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{op}:{weight}")?;
        }
        Ok(())
    }
}

impl Mix {
    /// Whether listings are in it.
    pub fn lists(&self) -> bool {
        self.weight(Op::List) > 0
    }

    fn weight(&self, op: Op) -> u64 {
        self.0.iter().find(|(named, _)| *named == op).map_or(0, |(_, weight)| *weight)
    }

    fn draw(&self, random: &mut Random) -> Op {
        let total = self.0.iter().map(|(_, weight)| weight).sum();
        let mut left = random.below(total);
        for (op, weight) in &self.0 {
            if left < *weight {
                return *op;
            }
            left -= weight;
        }
        unreachable!("what is below the sum of all weights lies in one of them")
    }
}

/// One operation with its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Write object `key`.
    Put {
        /// Number of the object.
        key: u64,
    },
    /// Read object `key`.
    Get {
        /// Number of the object.
        key: u64,
    },
    /// Ask for the length of object `key`.
    Head {
        /// Number of the object.
        key: u64,
    },
    /// List a page that begins at `place` of the order.
    List {
        /// The first place that the page must hold, at least 1.
        place: usize,
    },
    /// Delete object `key`.
    Delete {
        /// Number of the object.
        key: u64,
    },
    /// Delete all of these.
    DeleteObjects {
        /// Numbers of the objects.
        keys: Vec<u64>,
    },
    /// Write object `key` in parts.
    Multipart {
        /// Number of the object.
        key: u64,
    },
}

/// Shared by all threads of a run: the numbers that are taken.
#[derive(Debug)]
pub struct RunState {
    next: AtomicU64,
    deleted: AtomicU64,
}

/// Where a thread's tasks come from.
#[derive(Debug)]
pub struct Source {
    op: Op,
    mix: Option<Mix>,
    keys: Keys,
    order: Order,
    page: u64,
    /// Writes go to this number of keys, over and over.
    overwrite: Option<u64>,
    random: Random,
    shared: Arc<RunState>,
    /// Objects that this thread alone reads and deletes, in a mix with deletions.
    live: Vec<u64>,
    /// Reads under way of those.
    reading: HashMap<u64, u32>,
    /// Objects that were not written or were deleted; the next run does not read them.
    absent: Vec<u64>,
}

/// Parameters of a source beside its objects.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The operation.
    pub op: Op,
    /// The mix, for [`Op::Mixed`].
    pub mix: Option<Mix>,
    /// Objects of a page of `List` and `DeleteObjects`.
    pub page: u64,
    /// Writes go to this number of keys, over and over.
    pub overwrite: Option<u64>,
    /// Seed of the choice of objects.
    pub seed: u64,
}

impl RunState {
    /// Continues where `keys` end.
    pub fn new(keys: &Keys) -> Self {
        Self { next: AtomicU64::new(keys.end), deleted: AtomicU64::new(keys.begin) }
    }

    /// Updates `keys` to the objects that the run wrote and deleted.
    pub fn update(&self, keys: &mut Keys, overwrite: Option<u64>) {
        let next = self.next.load(Ordering::Relaxed);
        keys.end = overwrite.map_or(next, |count| next.min(count).max(keys.end));
        keys.begin = self.deleted.load(Ordering::Relaxed).min(keys.end);
        keys.absent = keys.absent.split_off(&keys.begin);
    }
}

impl Source {
    /// The source of thread `thread` of `threads`.
    pub fn new(
        choice: &Choice,
        keys: &Keys,
        order: &Order,
        shared: &Arc<RunState>,
        thread: u64,
        threads: u64,
    ) -> Self {
        let deletes = choice.mix.as_ref().is_some_and(|mix| mix.weight(Op::Delete) > 0);
        let mine = |key: &u64| key % threads == thread && !keys.absent.contains(key);
        let live = if deletes { (keys.begin..keys.end).filter(mine).collect() } else { Vec::new() };
        Self {
            op: choice.op,
            mix: choice.mix.clone(),
            keys: keys.clone(),
            order: order.clone(),
            page: choice.page,
            overwrite: choice.overwrite,
            random: Random::new(choice.seed ^ (thread + 1).wrapping_mul(0xa076_1d64_78bd_642f)),
            shared: Arc::clone(shared),
            live,
            reading: HashMap::new(),
            absent: Vec::new(),
        }
    }

    /// The objects that the run works on.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The entries that listings must have.
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// How many objects a page has.
    pub fn page(&self) -> u64 {
        self.page
    }

    /// The next task, or none when every object has been used up.
    pub fn draw(&mut self) -> Option<Task> {
        let op = match &self.mix {
            Some(mix) => mix.draw(&mut self.random),
            None => self.op,
        };
        if self.deletes_some() {
            return Some(self.next_of_live(op));
        }
        Some(match op {
            Op::Put if self.mix.is_some() => Task::Put { key: self.present()? },
            Op::Put | Op::Mixed => Task::Put { key: self.new_key() },
            Op::Multipart => Task::Multipart { key: self.new_key() },
            Op::Get => Task::Get { key: self.present()? },
            Op::Head => Task::Head { key: self.present()? },
            Op::List | Op::ListFolders => self.listing()?,
            Op::Delete => Task::Delete { key: self.next_deleted()? },
            Op::DeleteObjects => {
                let keys: Vec<u64> = (0..self.page).map_while(|_| self.next_deleted()).collect();
                if keys.is_empty() {
                    return None;
                }
                Task::DeleteObjects { keys }
            }
        })
    }

    /// Takes the end of a task.
    pub fn ended(&mut self, task: &Task, right: bool) {
        match task {
            // A failed write may have happened or not, so the object is not read.
            Task::Put { key } | Task::Multipart { key } if !right => self.absent.push(*key),
            Task::Put { key } if self.deletes_some() => self.live.push(*key),
            Task::Get { key } | Task::Head { key } => {
                if let Some(readers) = self.reading.get_mut(key) {
                    *readers -= 1;
                    if *readers == 0 {
                        self.reading.remove(key);
                    }
                }
            }
            Task::Delete { key } if self.deletes_some() => self.absent.push(*key),
            Task::Put { .. }
            | Task::Multipart { .. }
            | Task::Delete { .. }
            | Task::DeleteObjects { .. }
            | Task::List { .. } => {}
        }
    }

    /// Numbers within the range of the objects that are not there.
    pub fn into_absent(self) -> Vec<u64> {
        self.absent
    }

    fn deletes_some(&self) -> bool {
        self.mix.as_ref().is_some_and(|mix| mix.weight(Op::Delete) > 0)
    }

    /// A task of a mix with deletions: reads and deletions take objects of this thread, which exist.
    fn next_of_live(&mut self, op: Op) -> Task {
        let place = usize::try_from(self.random.below(self.live.len() as u64)).expect("a place in memory");
        let Some(key) = self.live.get(place).copied() else {
            return Task::Put { key: self.new_key() };
        };
        match op {
            Op::Get | Op::Head => {
                *self.reading.entry(key).or_default() += 1;
                if op == Op::Get { Task::Get { key } } else { Task::Head { key } }
            }
            Op::Delete if !self.reading.contains_key(&key) => {
                self.live.swap_remove(place);
                Task::Delete { key }
            }
            _ => Task::Put { key: self.new_key() },
        }
    }

    fn new_key(&mut self) -> u64 {
        let key = self.shared.next.fetch_add(1, Ordering::Relaxed);
        self.overwrite.map_or(key, |count| key % count.max(1))
    }

    fn present(&mut self) -> Option<u64> {
        let Keys { prefix: _, size: _, folder_digits: _, begin, end, absent } = &self.keys;
        if self.keys.count() == 0 {
            return None;
        }
        loop {
            let key = begin + self.random.below(end - begin);
            if !absent.contains(&key) {
                return Some(key);
            }
        }
    }

    fn next_deleted(&mut self) -> Option<u64> {
        loop {
            let key = self.shared.deleted.fetch_add(1, Ordering::Relaxed);
            if key >= self.keys.end {
                return None;
            }
            if !self.keys.absent.contains(&key) {
                return Some(key);
            }
        }
    }

    /// A page that is full wherever there are objects enough.
    fn listing(&mut self) -> Option<Task> {
        let places = (self.order.len() as u64).checked_sub(1)?;
        let last = places.saturating_sub(self.page).max(1);
        let place = 1 + self.random.below(last);
        Some(Task::List { place: usize::try_from(place).expect("a place in memory") })
    }
}

#[cfg(test)]
mod tests;
