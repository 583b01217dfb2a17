//! The layers of a PUT and a GET, each by itself: what it costs in time and in allocations.
//!
//! ```text
//! L1 HTTP      L2 S3 protocol      L3 storage      L4 hashing and erasure      L5 disk
//! L6 S3 + storage in process       L7 an SDK's client and a whole node
//! node         a whole node under the smallest client: L1 + L6
//! ```
//! Rows of all layers have the same labels, so that the gap between two is read from one table.
//! Every byte that is read is compared with what was written, and every client reads back the last
//! object that it wrote. `work` says what a client does, `clients` when, `matrix` for which sizes and
//! how many at a time; a layer is a file.

mod disk;
mod clients;
mod error;
mod http;
mod matrix;
mod memory;
mod node;
pub(crate) mod payload;
mod process;
mod protocol;
mod sdk;
mod server;
mod service;
mod sign;
mod storage;
mod store;
mod wire;
mod work;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use sherd_node::observe::log::{self, Log, LogFormat};

use crate::alloc;
use crate::alloc::sites::Site;
use crate::host;
use crate::host::device::{self, Effort};
use crate::result::{Results, Row, SCHEMA};

use clients::{Measured, Pace};
pub use error::{Error, Failure};
pub use matrix::Layer;
use matrix::{CLIENTS, SIZES, Size, skipped};
use payload::Arena;
use work::{Numbers, Op, Work};

/// Bytes of the objects that a GET reads, together, and how many there are at most.
const FILL_BYTES_MAX: u64 = 64 << 20;
const FILL_COUNT_MAX: u64 = 256;
/// With `--sites`, one allocation of so many is looked at. A prime: allocations come in patterns.
const SAMPLE_EVERY: u64 = 211;
/// Clients and sizes of `--moment`.
const MOMENT_CLIENTS_MAX: usize = 8;
const MOMENT_BYTES_MAX: u64 = 1 << 20;

/// Measures the layers.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// Only these layers
    #[arg(long, value_name = "LAYER")]
    pub layer: Vec<Layer>,
    /// Only these sizes
    #[arg(long, value_name = "SIZE")]
    pub size: Vec<Size>,
    /// Only so many clients at a time
    #[arg(long, value_name = "COUNT")]
    pub clients: Vec<usize>,
    /// How long each row is measured, after a quarter of it to warm up
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    pub seconds: f64,
    /// One operation of each client instead: shows that everything works, and no figure
    #[arg(long)]
    pub moment: bool,
    /// Say so many places that allocate most, below each row; the times say nothing then
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub sites: usize,
    /// Where volumes are made, and removed again
    #[arg(long, value_name = "DIR", default_value = "sherd-data/bench")]
    pub dir: PathBuf,
    /// Where layers.json goes
    #[arg(long, value_name = "DIR", default_value = "bench/results")]
    pub out: PathBuf,
}

/// Measures what was asked for, prints it, and writes `layers.json`.
///
/// # Errors
/// [`Error`]
pub fn run(arguments: Arguments) -> Result<(), Error> {
    host::refuse_debug_build(arguments.moment)?;
    if !alloc::is_installed() {
        return Err(Error::NotCounting);
    }
    // Spans and lines cost here what they cost in a node.
    log::start(&Log { format: LogFormat::Text, level: "info".to_owned() });
    let out = arguments.out.clone();
    let device = device::measure(&arguments.dir, Effort::of(arguments.moment))?;
    let results = Results { device, ..measure(arguments)? };
    let path = results.write(&out)?;
    println!("{}", path.display());
    Ok(())
}

fn measure(arguments: Arguments) -> Result<Results, Error> {
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut session = Session::new(arguments);
    println!("{HEAD}");
    for size in SIZES {
        for layer in Layer::ALL {
            if !session.cells(layer, size).is_empty() {
                layer.run(&mut session, size)?;
            }
        }
    }
    Ok(session.results(started))
}

/// One run: what is asked, and what was seen.
pub(crate) struct Session {
    arguments: Arguments,
    arena: Arena,
    /// The first number that no client has been given.
    fresh: u64,
    rows: Vec<Row>,
}

/// Numbers of one client: more than it can use.
const NUMBERS_EACH: u64 = 1 << 32;

impl Session {
    fn new(arguments: Arguments) -> Self {
        Self { arguments, arena: Arena::new(), fresh: NUMBERS_EACH, rows: Vec::new() }
    }

    /// Where volumes are made.
    fn dir(&self) -> &Path {
        &self.arguments.dir
    }

    fn arena(&self) -> &Arena {
        &self.arena
    }

    fn pace(&self) -> Pace {
        let sample_every = if self.arguments.sites > 0 { SAMPLE_EVERY } else { 0 };
        if self.arguments.moment {
            return Pace { warm_up: Duration::ZERO, window: Duration::ZERO, sample_every };
        }
        let window = Duration::try_from_secs_f64(self.arguments.seconds).unwrap_or_default();
        Pace { warm_up: window / 4, window, sample_every }
    }

    /// What of a layer is to be measured at a size.
    fn cells(&self, layer: Layer, bytes: u64) -> Vec<(Op, usize)> {
        let Arguments { layer: layers, size: sizes, clients, moment, .. } = &self.arguments;
        let is_asked = |asked: bool, none: bool, default: bool| if none { default } else { asked };
        let layer_asked = is_asked(layers.contains(&layer), layers.is_empty(), true);
        let size_asked =
            is_asked(sizes.contains(&Size(bytes)), sizes.is_empty(), !moment || bytes <= MOMENT_BYTES_MAX);
        let mut cells = Vec::new();
        for count in CLIENTS {
            let asked = is_asked(
                clients.contains(&count),
                clients.is_empty(),
                !moment || count <= MOMENT_CLIENTS_MAX,
            );
            if layer_asked && size_asked && asked && skipped(layer, bytes, count).is_none() {
                cells.extend([(Op::Put, count), (Op::Get, count)]);
            }
        }
        cells
    }

    fn filled(bytes: u64) -> u64 {
        (FILL_BYTES_MAX / bytes).clamp(1, FILL_COUNT_MAX)
    }

    /// The writing of what will be read.
    fn filling(&self, bytes: u64) -> Work {
        let numbers = Numbers::Round { next: 0, count: Self::filled(bytes) };
        Work { op: Op::Put, bytes, arena: self.arena.clone(), numbers, last: None }
    }

    /// What each of so many clients does.
    fn team(&mut self, op: Op, bytes: u64, clients: usize) -> Vec<Work> {
        let count = Self::filled(bytes);
        (0..clients as u64)
            .map(|client| {
                let numbers = match op {
                    Op::Get => Numbers::Round { next: client * 7 % count, count },
                    Op::Put => {
                        self.fresh += NUMBERS_EACH;
                        Numbers::Fresh { next: self.fresh }
                    }
                };
                Work { op, bytes, arena: self.arena.clone(), numbers, last: None }
            })
            .collect()
    }

    /// Keeps and prints a row with more labels. Of the rows of one layer, operation, size and number of
    /// clients, one has no `kind`, or the kind `all`: it stands beside those of other layers.
    fn note(
        &mut self,
        layer: Layer,
        op: Op,
        bytes: u64,
        clients: usize,
        labels: &[(&str, &str)],
        measured: &Measured,
    ) {
        let mut row = row(layer, op, bytes, clients, measured);
        for (name, value) in labels {
            row.labels.insert((*name).to_owned(), (*value).to_owned());
        }
        println!("{}", line(&row));
        for site in measured.sites.iter().take(self.arguments.sites) {
            println!("{}", site_line(site, &row));
        }
        self.rows.push(row);
    }

    fn results(self, started: u64) -> Results {
        let mut settings = host::settings(&self.arguments.dir);
        settings.extend([
            ("durability".to_owned(), "fsync".to_owned()),
            ("geometry".to_owned(), "4 volumes on one filesystem, 2+2".to_owned()),
            ("payload".to_owned(), sign::PAYLOAD.to_owned()),
            ("seconds".to_owned(), self.arguments.seconds.to_string()),
            ("moment".to_owned(), self.arguments.moment.to_string()),
        ]);
        let suite = "layers".to_owned();
        Results { schema: SCHEMA, suite, started, settings, device: BTreeMap::new(), rows: self.rows }
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people: counts are far below 2^52")]
fn row(layer: Layer, op: Op, bytes: u64, clients: usize, measured: &Measured) -> Row {
    let Measured { latencies, elapsed, counts, sites: _ } = measured;
    let ops = latencies.len() as f64;
    let seconds = elapsed.as_secs_f64();
    let quantile = |share| latencies.value_at_quantile(share) as f64 / 1e3;
    let row = Row::new([
        ("subject", "sherd".to_owned()),
        ("layer", layer.label().to_owned()),
        ("op", op.label().to_owned()),
        ("size", Size(bytes).to_string()),
        ("clients", clients.to_string()),
        ("counted", layer.counted().to_owned()),
    ]);
    row.with("ops_s", ops / seconds)
        .with("mib_s", ops * bytes as f64 / seconds / f64::from(1 << 20))
        .with("p50_us", quantile(0.5))
        .with("p90_us", quantile(0.9))
        .with("p99_us", quantile(0.99))
        .with("p999_us", quantile(0.999))
        .with("max_us", latencies.max() as f64 / 1e3)
        .with("seconds", seconds)
        .with("ops", ops)
        .with("allocs_op", counts.allocations as f64 / ops)
        .with("alloc_bytes_op", counts.bytes as f64 / ops)
}

const HEAD: &str = "layer op  size    clients kind              ops/s      MiB/s     p50 us     p99 us   p99.9 us  allocs/op   KiB/op";

fn line(row: &Row) -> String {
    let label = |name: &str| row.labels.get(name).map_or("", String::as_str);
    let figure = |name: &str| row.figure(name).unwrap_or_default();
    format!(
        "{:5} {:3} {:7} {:>7} {:11} {:>11.1} {:>10.1} {:>10.1} {:>10.1} {:>10.1} {:>10.1} {:>8.1}",
        label("layer"),
        label("op"),
        label("size"),
        label("clients"),
        if label("kind").is_empty() { label("home") } else { label("kind") },
        figure("ops_s"),
        figure("mib_s"),
        figure("p50_us"),
        figure("p99_us"),
        figure("p999_us"),
        figure("allocs_op"),
        figure("alloc_bytes_op") / 1024.0,
    )
}

/// A place under the figures of its row, per operation.
fn site_line(site: &Site, row: &Row) -> String {
    let figure = |name: &str| row.figure(name).unwrap_or_default();
    let allocations = site.allocations_share * figure("allocs_op");
    let kib = site.bytes_share * figure("alloc_bytes_op") / 1024.0;
    format!("{allocations:>111.1} {kib:>8.1}  {}", site.place)
}

#[cfg(test)]
mod tests;
