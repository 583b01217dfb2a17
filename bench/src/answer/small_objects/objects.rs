//! A whole PUT and GET over four volumes: bytes in the row, packed, or in files.
//!
//! Inline bytes go to all four volumes and need one sync; packed shards go out coded, half of it each
//! twice, and need a second one for the row.

use std::sync::Arc;
use std::time::Duration;

use sherd_node::stripe::Thresholds;

use super::Arguments;
use crate::answer::crowd::Crowd;
use crate::answer::pattern::Pattern;
use crate::answer::rounds::Rounds;
use crate::answer::whole::{self, Body, Whole};
use crate::answer::{Error, size_name};
use crate::result::Row;

const SIZES: [u64; 11] =
    [512, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20];
const MOMENT_SIZES: [u64; 2] = [4 << 10, 256 << 10];
const CLIENTS: [usize; 2] = [1, 32];
/// The largest object that a row takes, and the largest whose shards the log takes: one stripe.
const INLINE_MAX: u64 = 32 << 10;
const PACKED_MAX: u64 = 512 << 10;

/// Ways to store, each in a store of its own.
const VARIANTS: [(&str, Thresholds); 3] = [
    ("inline", Thresholds { inline_bytes_max: (4 * 32) << 10, pack_bytes_max: 0 }),
    ("packed", Thresholds { inline_bytes_max: 0, pack_bytes_max: 256 << 10 }),
    ("file", Thresholds { inline_bytes_max: 0, pack_bytes_max: 0 }),
];

/// Measures every size once.
pub(super) async fn round(arguments: &Arguments, rounds: &mut Rounds) -> Result<(), Error> {
    let folder = arguments.common.folder()?;
    let mut stores = Vec::new();
    for (name, thresholds) in VARIANTS {
        let config = whole::config(&folder.path().join(name), arguments.common.options(), thresholds)?;
        stores.push((name, Whole::open(config).await?));
    }
    let sizes: &[u64] = if arguments.common.moment { &MOMENT_SIZES } else { &SIZES };
    for &bytes in sizes {
        let pattern = Pattern::new(bytes);
        for clients in CLIENTS {
            for (variant, store) in &stores {
                let fits = match *variant {
                    "inline" => bytes <= INLINE_MAX,
                    "packed" => bytes <= PACKED_MAX,
                    _ => true,
                };
                if fits {
                    let cell = Cell { arguments, store, pattern: &pattern, variant, bytes, clients };
                    let written = cell.put(rounds).await?;
                    cell.get(rounds, written).await?;
                }
            }
        }
    }
    for (_, store) in stores {
        store.close().await;
    }
    Ok(())
}

struct Cell<'a> {
    arguments: &'a Arguments,
    store: &'a Whole,
    pattern: &'a Pattern,
    variant: &'a str,
    bytes: u64,
    clients: usize,
}

impl Cell<'_> {
    fn row(&self, op: &str) -> Row {
        Row::new([
            ("part", "objects".to_owned()),
            ("variant", self.variant.to_owned()),
            ("op", op.to_owned()),
            ("size", size_name(self.bytes)),
            ("clients", self.clients.to_string()),
            ("cache", "hot".to_owned()),
        ])
    }

    fn key(&self, number: u64) -> String {
        format!("{}/{}/{number:08}", self.bytes, self.clients)
    }

    fn crowd(&self, window: Duration, ops_max: u64) -> Crowd {
        Crowd { clients: self.clients, window, ops_max, first: 0 }
    }

    /// Returns how many objects were written.
    async fn put(&self, rounds: &mut Rounds) -> Result<u64, Error> {
        let crowd =
            self.crowd(self.arguments.common.window(), self.arguments.ops_max(self.bytes, self.clients));
        let (store, pattern, bytes) = (self.store.clone(), self.pattern.clone(), self.bytes);
        let prefix = self.key(0).trim_end_matches('0').to_owned();
        self.arguments.common.until_quiet().await;
        let before = self.arguments.common.disk_bytes();
        let outcome = crowd.run(move |number| {
            let (store, key) = (store.clone(), format!("{prefix}{number:08}"));
            let body = Body::of(&pattern.bytes(number, bytes));
            async move { store.put(&key, body).await.map(drop) }
        });
        let outcome = outcome.await?;
        let row = outcome.fill(self.row("put"), self.bytes);
        rounds.add(self.arguments.common.with_disk_bytes(row, before, outcome.ops));
        Ok(outcome.ops)
    }

    async fn get(&self, rounds: &mut Rounds, written: u64) -> Result<(), Error> {
        let crowd = self.crowd(self.arguments.common.window() / 4, u64::MAX);
        let (store, pattern, bytes) = (self.store.clone(), self.pattern.clone(), self.bytes);
        let prefix: Arc<str> = self.key(0).trim_end_matches('0').into();
        let outcome = crowd.run(move |number| {
            let number = number.wrapping_mul(2_654_435_761) % written;
            let (store, pattern, key) = (store.clone(), pattern.clone(), format!("{prefix}{number:08}"));
            async move {
                let found = store.get(&key).await?;
                if pattern.is(number, bytes, &found) {
                    return Ok(());
                }
                Err(Error::OtherBytes { what: format!("object {key}") })
            }
        });
        rounds.add(outcome.await?.fill(self.row("get"), self.bytes));
        Ok(())
    }
}
