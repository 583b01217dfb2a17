//! Floors of large objects from the results of `floors`, and how far the measured requests are above them.
//!
//! A floor is the sum of the least that the bytes of a request cost in each layer that they pass. The
//! measured processor time is that of all servers for one request, so that both ends between nodes count, and
//! one end towards the client.

use std::collections::BTreeMap;

use super::markdown::{Align, Table};
use crate::figure;
use crate::result::{Results, Row};

const SUITE: &str = "floors";
/// The object of the requests, and the clients of the rows that they are compared with.
const SIZE: &str = "64MiB";
const OBJECT_MIB: f64 = 64.0;
const CLIENTS: &str = "4";

/// Bytes that pass one layer.
struct Passage {
    name: &'static str,
    layer: &'static str,
    /// Begins the names of the ways that can do it; the fastest counts.
    way: &'static str,
    figure: &'static str,
    mib: f64,
}

impl Passage {
    const fn new(name: &'static str, layer: &'static str, way: &'static str, mib: f64) -> Self {
        Self { name, layer, way, figure: "core_mib_s", mib }
    }

    const fn end(self, figure: &'static str) -> Self {
        Self { figure, ..self }
    }

    /// Processor time in milliseconds.
    fn ms(&self, floors: &Results) -> Option<f64> {
        let is_way = |row: &&Row| row.labels.get("way").is_some_and(|way| way.starts_with(self.way));
        let rows = floors.rows.iter().filter(|row| row.is(&[("layer", self.layer)])).filter(is_way);
        let fastest = rows.filter_map(|row| row.figure(self.figure)).reduce(f64::max)?;
        Some(self.mib / fastest * 1000.0)
    }
}

const RECEIVE: Passage = Passage::new("receive", "socket", "", OBJECT_MIB).end("receiver_core_mib_s");
const SEND: Passage = Passage::new("send", "socket", "", OBJECT_MIB).end("sender_core_mib_s");
const MD5: Passage = Passage::new("MD5", "md5", "", OBJECT_MIB);
/// Of one stream: no other waits for lanes beside it.
const LONE_MD5: Passage = Passage::new("MD5", "md5", "one-stream", OBJECT_MIB);
const ENCODE: Passage = Passage::new("encode", "erasure", "encode", OBJECT_MIB);
const WRITE: Passage = Passage::new("write", "write", "direct", 2.0 * OBJECT_MIB);
const READ: Passage = Passage::new("read", "read", "direct", OBJECT_MIB);

/// One request as the passages of its bytes, and the suite that measures it.
struct FlooredRequest {
    name: &'static str,
    op: &'static str,
    suite: &'static str,
    passages: &'static [Passage],
}

/// 2+2: a PUT writes twice its bytes, each shard's digest once. On four nodes three quarters of them go to
/// other nodes; of the two data shards that a GET reads, one is on its node in half of the requests. Of the
/// four clients each is on a node of its own there, on one node all are on it.
const REQUESTS: [FlooredRequest; 4] = [
    FlooredRequest {
        name: "PUT, one node",
        op: "put",
        suite: "quick",
        passages: &[RECEIVE, MD5, hash(2.0 * OBJECT_MIB), ENCODE, WRITE],
    },
    FlooredRequest {
        name: "GET, one node",
        op: "get",
        suite: "quick",
        passages: &[READ, hash(OBJECT_MIB), SEND],
    },
    FlooredRequest {
        name: "PUT, four nodes",
        op: "put",
        suite: "cluster",
        passages: &[
            RECEIVE,
            LONE_MD5,
            hash(2.0 * OBJECT_MIB),
            ENCODE,
            between_nodes(1.5 * OBJECT_MIB),
            WRITE,
        ],
    },
    FlooredRequest {
        name: "GET, four nodes",
        op: "get",
        suite: "cluster",
        passages: &[READ, hash(OBJECT_MIB), between_nodes(0.75 * OBJECT_MIB), SEND],
    },
];

const fn hash(mib: f64) -> Passage {
    Passage::new("BLAKE3", "blake3", "", mib)
}

const fn between_nodes(mib: f64) -> Passage {
    Passage::new("TLS between nodes", "tls", "", mib)
}

/// The table of all floors.
pub(super) fn table(floors: &Results) -> String {
    let mut table = Table::new();
    for heading in ["layer", "way"] {
        table.column(heading, Align::Left);
    }
    for heading in ["MiB per core-second", "sender alone", "receiver alone", "64 MiB take", "MiB/s"] {
        table.column(heading, Align::Right);
    }
    for row in &floors.rows {
        let of = |label: &str| row.labels.get(label).cloned().unwrap_or_default();
        let rate =
            |name: &str| row.figure(name).map_or_else(|| "-".to_owned(), |value| figure::show(name, value));
        let time = row.figure("core_mib_s").map(|rate| OBJECT_MIB / rate * 1000.0);
        table.line(vec![
            of("layer"),
            of("way"),
            rate("core_mib_s"),
            rate("sender_core_mib_s"),
            rate("receiver_core_mib_s"),
            time.map_or_else(|| "-".to_owned(), shown),
            rate("wall_mib_s"),
        ]);
    }
    table.text()
}

/// The table of the distances of requests from their floors, in the results and in those of `before`.
pub(super) fn distances(
    results: &BTreeMap<String, Results>,
    before: &BTreeMap<String, Results>,
) -> Result<String, String> {
    let Some(floors) = results.get(SUITE) else { return Err(format!("there are no results of `{SUITE}`")) };
    let mut table = Table::new();
    table.column(format!("{SIZE} by {CLIENTS} clients"), Align::Left);
    for heading in ["floor", "before", "times the floor", "now", "times the floor"] {
        table.column(heading, Align::Right);
    }
    table.column("of the floor", Align::Left);
    for FlooredRequest { name, op, suite, passages } in &REQUESTS {
        let mut parts = Vec::new();
        for passage in *passages {
            let missing = || format!("`{SUITE}` has no row of {} {}", passage.layer, passage.way);
            let ms = passage.ms(floors).ok_or_else(missing)?;
            parts.push((format!("{} {} MiB {}", passage.name, passage.mib, shown(ms)), ms));
        }
        let floor: f64 = parts.iter().map(|(_, ms)| ms).sum();
        let mut cells = vec![(*name).to_owned(), shown(floor)];
        for results in [before, results] {
            let found = results.get(*suite).and_then(|results| measured(results, op));
            cells.push(found.map_or_else(|| "-".to_owned(), shown));
            cells.push(found.map_or_else(|| "-".to_owned(), |ms| super::targets::times(ms / floor)));
        }
        let parts: Vec<String> = parts.into_iter().map(|(text, _)| text).collect();
        cells.push(parts.join(", "));
        table.line(cells);
    }
    Ok(table.text())
}

/// Processor time of the servers for one request, in milliseconds.
fn measured(results: &Results, op: &str) -> Option<f64> {
    let labels = [("subject", "sherd"), ("op", op), ("size", SIZE), ("clients", CLIENTS)];
    let row = results.rows.iter().find(|row| row.is(&labels))?;
    Some(row.figure("server_cpu_us_op")? / 1000.0)
}

fn shown(ms: f64) -> String {
    figure::show("time_ms", ms)
}
