//! Every metric of the node, declared once, with its unit in its name.
//!
//! A [`Metrics`] owns its registry: two nodes in one process do not share one. Events are counted through
//! typed handles where they happen; gauges that mirror a state are set by a closure at each scrape. Label
//! values come from fixed sets: operations and states from the code, HTTP codes, this node's volumes, and the
//! configured nodes. Never a bucket, a key or a client.

mod declare;
mod link;
mod mirror;
mod process;
mod rpc;
mod volume;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use prometheus::{
    Encoder as _, Gauge, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry,
    TextEncoder,
};
use sherd_volume::options::Durability;

use self::declare::MetricDeclarer;
use self::link::LinkFamilies;
pub use self::link::LinkMetrics;
pub use self::mirror::MirroredMetric;
use self::process::ProcessMetrics;
pub use self::rpc::{RpcCallMetrics, RpcMetrics};
use self::volume::VolumeFamilies;
pub use self::volume::{VolumeFault, VolumeMetrics};
use super::trace::Phase;

/// Bounds of what waits for a volume or a place: a row in memory takes less than 100 us, a sync of a disk
/// some milliseconds, and calls are given up after 5 to 10 s.
const CALL_SECONDS: [f64; 16] =
    [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];

/// Content type of [`Metrics::encode`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

type ScrapeHook = Box<dyn Fn() + Send + Sync>;

/// All metrics of one node.
pub struct Metrics {
    registry: Registry,
    hooks: RwLock<Vec<ScrapeHook>>,
    process: ProcessMetrics,
    volumes: VolumeFamilies,
    links: LinkFamilies,
    /// Connections of the admin listener, and what they carry.
    pub admin: Traffic,
    /// Connections of the listener of IAM, and what they carry.
    pub iam: Traffic,
    /// The S3 listener.
    pub s3: S3Metrics,
    /// Registers of keys.
    pub register: RegisterMetrics,
    /// Shards of bodies.
    pub shards: ShardMetrics,
    /// The queue of most recent failures.
    pub mrf: MrfMetrics,
    /// The scrubber.
    pub scrub: ScrubMetrics,
    /// Background work as a whole.
    pub upkeep: UpkeepMetrics,
    /// The buffer pool.
    pub buffer: BufferMetrics,
    /// Calls of other nodes.
    pub rpc: RpcMetrics,
    /// The audit log.
    pub audit: AuditMetrics,
    /// The configuration.
    pub config: ConfigMetrics,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

/// Operation that a response answers: `PutObject`, or `Unknown` where the request names none that is served,
/// or was refused before its head was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiName(pub &'static str);

impl Default for ApiName {
    fn default() -> Self {
        Self("Unknown")
    }
}

/// Counters of a listener.
#[derive(Debug, Clone)]
pub struct Traffic {
    /// Connections open.
    pub connections: IntGauge,
    /// Connections without a request that gave way to others.
    pub connections_turned_away: IntCounter,
    /// Bytes read from them.
    pub received_bytes: IntCounter,
    /// Bytes written to them.
    pub sent_bytes: IntCounter,
}

/// The S3 listener.
#[derive(Debug, Clone)]
pub struct S3Metrics {
    requests: IntCounterVec,
    duration: HistogramVec,
    /// Connections of the server and what they carry.
    pub traffic: Traffic,
    /// Requests worked on.
    pub requests_in_flight: IntGauge,
    /// Requests that wait for a place.
    pub requests_queued: IntGauge,
    /// Requests without a place, whose clients send their bodies slowly.
    pub requests_waiting_for_client: IntGauge,
    /// Requests whose bodies gave way to those that came faster.
    pub bodies_gave_way: IntCounter,
    /// Requests answered 503 because they found no place.
    pub requests_shed: IntCounter,
    /// Seconds that requests waited for a place.
    pub queue_duration: Histogram,
}

impl S3Metrics {
    /// Counts an answered request: the operation, as [`ApiName`] has it, the HTTP status, and
    /// the seconds from its head to the head of its response.
    pub fn answered(&self, api: &'static str, status: u16, seconds: f64) {
        let mut digits = [0; 3];
        self.requests.with_label_values(&[api, three_digits(status, &mut digits)]).inc();
        self.duration.with_label_values(&[api]).observe(seconds);
    }
}

/// Prints a status without allocating; anything but three digits reads `999`.
fn three_digits(status: u16, digits: &mut [u8; 3]) -> &str {
    let status = if (100..=999).contains(&status) { status } else { 999 };
    let digit = |value: u16| b'0' + u8::try_from(value % 10).expect("below ten");
    *digits = [digit(status / 100), digit(status / 10), digit(status)];
    std::str::from_utf8(digits).expect("digits are ASCII")
}

/// Registers of keys.
#[derive(Debug, Clone)]
pub struct RegisterMetrics {
    /// Prepare rounds begun.
    pub prepare_rounds: IntCounter,
    /// Accept rounds begun.
    pub accept_rounds: IntCounter,
    /// Read rounds begun.
    pub read_rounds: IntCounter,
    round_durations: [Histogram; 3],
    /// Rounds refused because another writer was ahead.
    pub conflicts: IntCounter,
    /// Answers of volumes whose clocks are far from this node's.
    pub skewed: IntCounter,
    /// Writes of another proposer that a reader had to finish.
    pub repairs: IntCounter,
    /// Changes whose outcome is unknown.
    pub outcomes_unknown: IntCounter,
}

impl RegisterMetrics {
    /// Counts what the slowest answer took that a prepare, an accept or a read round waited for.
    pub fn round_took(&self, round: Phase, took: Duration) {
        let [prepare, accept, read] = &self.round_durations;
        let durations = match round {
            Phase::Prepare => prepare,
            Phase::Accept => accept,
            Phase::Read => read,
            Phase::Queue | Phase::Client | Phase::Register | Phase::ShardWrite | Phase::ShardRead => return,
        };
        durations.observe(took.as_secs_f64());
    }
}

/// Calls about shards, by where the volume is.
#[derive(Debug, Clone)]
pub struct ShardMetrics {
    /// Seconds that this node's and other nodes' volumes took to make shards, or pieces of them, theirs.
    write_durations: [Histogram; 2],
    /// Seconds that they took to give pieces of shards.
    read_durations: [Histogram; 2],
}

impl ShardMetrics {
    /// Counts an answer about bytes that were written to a volume, of this node or of another one.
    pub fn written(&self, is_own: bool, took: Duration) {
        self.write_durations[usize::from(!is_own)].observe(took.as_secs_f64());
    }

    /// Counts an answer about bytes that were read.
    pub fn read(&self, is_own: bool, took: Duration) {
        self.read_durations[usize::from(!is_own)].observe(took.as_secs_f64());
    }
}

/// The queue of most recent failures.
#[derive(Debug, Clone)]
pub struct MrfMetrics {
    /// Entries waiting.
    pub queue_length: IntGauge,
    /// Seconds since the oldest entry was first seen; 0 for an empty queue.
    pub oldest_age_seconds: Gauge,
    /// Entries mended.
    pub healed: IntCounter,
    /// Bytes of shards made again.
    pub healed_bytes: IntCounter,
    /// Bytes per second that healing may move on each volume; 0 for any number.
    pub bandwidth_bytes_per_second: IntGauge,
    /// Why it is that, by reason.
    pub pace_reasons: IntGaugeVec,
    /// Tries that did not mend.
    pub failed: IntCounter,
    /// Reports of damage that were dropped.
    pub dropped: IntCounter,
}

/// The scrubber.
#[derive(Debug, Clone)]
pub struct ScrubMetrics {
    /// Bytes verified.
    pub verified_bytes: IntCounter,
    /// Shards and rows verified.
    pub verified: IntCounter,
    /// Shards and rows found missing or rotten.
    pub damaged: IntCounter,
    /// Passes over everything that ended.
    pub passes: IntCounter,
    /// The share of the running pass that is done, 0 to 1.
    pub progress_ratio: Gauge,
    /// When the last pass ended, in seconds since the Unix epoch; 0 for never.
    pub last_pass_timestamp_seconds: Gauge,
}

/// Background work as a whole.
#[derive(Debug, Clone)]
pub struct UpkeepMetrics {
    /// Times that a task or a piece of its work panicked, and was begun again.
    pub panics: IntCounter,
    /// Entries of replaced data that wait in memory.
    pub release_queue_length: IntGauge,
    /// Data ids of replaced data removed.
    pub released: IntCounter,
    /// Reports and entries of replaced data that were dropped.
    pub release_dropped: IntCounter,
    /// Leases on data being read that a volume had no place for.
    pub leases_refused: IntCounter,
    /// Rows of peers that volumes of this node looked at.
    pub looked_at: IntCounter,
    /// Rows that they lacked and took from a peer.
    pub pulled: IntCounter,
}

/// The buffer pool.
#[derive(Debug, Clone)]
pub struct BufferMetrics {
    /// Bytes that the pool may hand out.
    pub cap_bytes: IntGauge,
    /// Bytes handed out.
    pub used_bytes: IntGauge,
    /// Requests for a buffer that had to wait.
    pub waits: IntCounter,
}

/// The configuration.
#[derive(Debug, Clone)]
pub struct ConfigMetrics {
    /// How often files were loaded, the start among them.
    pub generation: IntGauge,
    /// 1 while the files cannot be used, and those loaded before are in force.
    pub refused: IntGauge,
}

/// The audit log.
#[derive(Debug, Clone)]
pub struct AuditMetrics {
    /// Lines written.
    pub lines: IntCounter,
    /// Lines that were dropped because they could not be written for too long.
    pub dropped: IntCounter,
    /// Tries to write that failed.
    pub write_errors: IntCounter,
}

impl AuditMetrics {
    /// Counters that no scrape shows.
    pub fn unscraped() -> Self {
        audit(&MetricDeclarer { registry: &Registry::new() })
    }
}

impl Metrics {
    /// Declares everything, at zero.
    pub fn new(durability: Durability) -> Self {
        let registry = Registry::new();
        let declare = MetricDeclarer { registry: &registry };
        constants(&declare, durability);
        let process = ProcessMetrics::new(&declare);
        let (volumes, links) = (VolumeFamilies::new(&declare), LinkFamilies::new(&declare));
        let (admin, iam) = (admin(&declare), iam(&declare));
        let (s3, register, shards) = (s3(&declare), register(&declare), shards(&declare));
        let (mrf, scrub, upkeep) = (mrf(&declare), scrub(&declare), upkeep(&declare));
        let (buffer, rpc) = (buffer(&declare), RpcMetrics::new(&declare));
        let (hooks, audit, config) = (RwLock::default(), audit(&declare), config(&declare));
        Self {
            registry,
            hooks,
            process,
            volumes,
            links,
            admin,
            iam,
            s3,
            register,
            shards,
            mrf,
            scrub,
            upkeep,
            buffer,
            rpc,
            audit,
            config,
        }
    }

    /// The handles of one volume. `name` is its directory; asked twice, they count together.
    pub fn volume(&self, name: &str) -> VolumeMetrics {
        self.volumes.of(name)
    }

    /// The handles of the connections to a configured node; asked twice, they count together.
    pub fn link(&self, node: &str) -> LinkMetrics {
        self.links.of(node)
    }

    /// Calls `hook` before every scrape, to set the gauges that mirror a state. It must not wait.
    pub fn on_scrape(&self, hook: impl Fn() + Send + Sync + 'static) {
        self.hooks.write().push(Box::new(hook));
    }

    /// Everything in Prometheus' text format.
    pub fn encode(&self) -> Vec<u8> {
        for hook in self.hooks.read().iter() {
            hook();
        }
        self.process.observe();
        let mut text = Vec::new();
        TextEncoder::new()
            .encode(&self.registry.gather(), &mut text)
            .expect("declared metrics encode, and a Vec takes every byte");
        text
    }

    /// A new set of metrics in an `Arc`, as the node's parts share it.
    pub fn shared(durability: Durability) -> Arc<Self> {
        Arc::new(Self::new(durability))
    }
}

fn audit(declare: &MetricDeclarer<'_>) -> AuditMetrics {
    AuditMetrics {
        lines: declare.counter("sherd_audit_lines_total", "Audit lines written."),
        dropped: declare.counter("sherd_audit_dropped_total", "Audit lines dropped because too many waited."),
        write_errors: declare
            .counter("sherd_audit_write_errors_total", "Tries to write audit lines that failed."),
    }
}

fn config(declare: &MetricDeclarer<'_>) -> ConfigMetrics {
    let generation = declare.gauge("sherd_config_generation", "How often the configuration was loaded.");
    generation.set(1);
    let help = "1 while the files of the configuration cannot be used and those loaded before are in force.";
    ConfigMetrics { generation, refused: declare.gauge("sherd_config_refused", help) }
}

fn constants(declare: &MetricDeclarer<'_>, durability: Durability) {
    let build = declare.gauges("sherd_build_info", "Version of this node; always 1.", &["version"]);
    build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
    let name = "sherd_durability_info";
    let info = declare.gauges(
        name,
        "Whether answered writes are on stable storage (mode fsync or none); always 1.",
        &["mode"],
    );
    info.with_label_values(&[durability.as_str()]).set(1);
}

fn s3(declare: &MetricDeclarer<'_>) -> S3Metrics {
    let bytes = declare.counters(
        "sherd_s3_bytes_total",
        "Bytes on S3 connections, heads included, by direction.",
        &["direction"],
    );
    S3Metrics {
        requests: declare.counters(
            "sherd_s3_requests_total",
            "S3 requests answered, by operation and HTTP status.",
            &["api", "code"],
        ),
        duration: declare.histograms(
            "sherd_s3_request_duration_seconds",
            "Time from the head of an S3 request to the head of its response.",
            &["api"],
            // A cached 4 KiB GET takes 100 us, a 5 GiB PUT minutes.
            &[
                0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 15.0,
                60.0,
            ],
        ),
        traffic: Traffic {
            connections: declare.gauge("sherd_s3_connections", "S3 connections open."),
            connections_turned_away: declare.counter(
                "sherd_s3_connections_turned_away_total",
                "S3 connections without a request that were closed because places were few.",
            ),
            received_bytes: bytes.with_label_values(&["received"]),
            sent_bytes: bytes.with_label_values(&["sent"]),
        },
        requests_in_flight: declare.gauge("sherd_s3_requests_in_flight", "S3 requests worked on."),
        requests_queued: declare.gauge("sherd_s3_requests_queued", "S3 requests that wait for a place."),
        requests_waiting_for_client: declare.gauge(
            "sherd_s3_requests_waiting_for_client",
            "S3 requests without a place, whose clients send their bodies slowly.",
        ),
        bodies_gave_way: declare.counter(
            "sherd_s3_bodies_gave_way_total",
            "S3 requests answered 503 because too many others waited for faster clients.",
        ),
        requests_shed: declare
            .counter("sherd_s3_requests_shed_total", "S3 requests answered 503 because they found no place."),
        queue_duration: declare.histogram(
            "sherd_s3_request_queue_duration_seconds",
            "Time that an S3 request waited for a place.",
            &CALL_SECONDS,
        ),
    }
}

fn admin(declare: &MetricDeclarer<'_>) -> Traffic {
    let bytes = declare.counters(
        "sherd_admin_bytes_total",
        "Bytes on admin connections, by direction.",
        &["direction"],
    );
    Traffic {
        connections: declare.gauge("sherd_admin_connections", "Admin connections open."),
        connections_turned_away: declare.counter(
            "sherd_admin_connections_turned_away_total",
            "Admin connections without a request that were closed because places were few.",
        ),
        received_bytes: bytes.with_label_values(&["received"]),
        sent_bytes: bytes.with_label_values(&["sent"]),
    }
}

fn iam(declare: &MetricDeclarer<'_>) -> Traffic {
    let bytes =
        declare.counters("sherd_iam_bytes_total", "Bytes on IAM connections, by direction.", &["direction"]);
    Traffic {
        connections: declare.gauge("sherd_iam_connections", "IAM connections open."),
        connections_turned_away: declare.counter(
            "sherd_iam_connections_turned_away_total",
            "IAM connections without a request that were closed because places were few.",
        ),
        received_bytes: bytes.with_label_values(&["received"]),
        sent_bytes: bytes.with_label_values(&["sent"]),
    }
}

fn register(declare: &MetricDeclarer<'_>) -> RegisterMetrics {
    let rounds = declare.counters(
        "sherd_register_rounds_total",
        "Rounds begun over the volumes of a set, by kind.",
        &["kind"],
    );
    let durations = declare.histograms(
        "sherd_register_round_duration_seconds",
        "What the slowest answer took that a round over the volumes of a set waited for, by kind.",
        &["kind"],
        &CALL_SECONDS,
    );
    RegisterMetrics {
        round_durations: ["prepare", "accept", "read"].map(|kind| durations.with_label_values(&[kind])),
        prepare_rounds: rounds.with_label_values(&["prepare"]),
        accept_rounds: rounds.with_label_values(&["accept"]),
        read_rounds: rounds.with_label_values(&["read"]),
        conflicts: declare
            .counter("sherd_register_conflicts_total", "Rounds refused because another writer was ahead."),
        skewed: declare.counter(
            "sherd_register_skewed_total",
            "Answers of volumes whose clocks are far from this node's; they count as unanswered.",
        ),
        repairs: declare
            .counter("sherd_register_repairs_total", "Interrupted writes that a reader finished."),
        outcomes_unknown: declare.counter(
            "sherd_register_outcomes_unknown_total",
            "Writes answered 500 because nobody can say whether they took effect.",
        ),
    }
}

fn shards(declare: &MetricDeclarer<'_>) -> ShardMetrics {
    let durations = |name, help| {
        let family = declare.histograms(name, help, &["volume_of"], &CALL_SECONDS);
        ["self", "peer"].map(|owner| family.with_label_values(&[owner]))
    };
    ShardMetrics {
        write_durations: durations(
            "sherd_shard_write_duration_seconds",
            "Time from bytes of a shard to the answer of the volume that took them, by whose volume it is.",
        ),
        read_durations: durations(
            "sherd_shard_read_duration_seconds",
            "Time until a volume gave bytes of a shard, by whose volume it is.",
        ),
    }
}

fn mrf(declare: &MetricDeclarer<'_>) -> MrfMetrics {
    MrfMetrics {
        queue_length: declare.gauge("sherd_mrf_queue_length", "Entries that wait to be healed."),
        oldest_age_seconds: declare
            .float_gauge("sherd_mrf_oldest_age_seconds", "Age of the oldest entry that waits to be healed."),
        healed: declare.counter("sherd_mrf_healed_total", "Entries healed."),
        healed_bytes: declare
            .counter("sherd_heal_written_bytes_total", "Bytes of shards that were made again and written."),
        bandwidth_bytes_per_second: declare.gauge(
            "sherd_heal_bandwidth_bytes_per_second",
            "Bytes per second that healing may move on each volume, with the reason fixed on all; 0 for any.",
        ),
        pace_reasons: declare.gauges(
            "sherd_heal_pace_reason",
            "1 for the reason of the pace of healing: idle, clients, floor or fixed; 0 for the others.",
            &["reason"],
        ),
        failed: declare.counter("sherd_mrf_failed_total", "Tries to heal that failed."),
        dropped: declare.counter(
            "sherd_mrf_dropped_total",
            "Reports of damage that came faster than they were queued; the volumes are compared again.",
        ),
    }
}

fn scrub(declare: &MetricDeclarer<'_>) -> ScrubMetrics {
    ScrubMetrics {
        verified_bytes: declare
            .counter("sherd_scrub_verified_bytes_total", "Bytes that the scrubber verified."),
        verified: declare
            .counter("sherd_scrub_verified_total", "Rows and shards that the scrubber verified."),
        damaged: declare.counter(
            "sherd_scrub_damaged_total",
            "Rows and shards that the scrubber found missing or rotten.",
        ),
        passes: declare.counter("sherd_scrub_passes_total", "Scrub passes that ended."),
        progress_ratio: declare
            .float_gauge("sherd_scrub_progress_ratio", "Share of the running scrub pass that is done."),
        last_pass_timestamp_seconds: declare.float_gauge(
            "sherd_scrub_last_pass_timestamp_seconds",
            "When the last scrub pass ended, since the Unix epoch; 0 for never.",
        ),
    }
}

fn upkeep(declare: &MetricDeclarer<'_>) -> UpkeepMetrics {
    UpkeepMetrics {
        panics: declare
            .counter("sherd_upkeep_panics_total", "Panics of background work, which was begun again."),
        release_queue_length: declare.gauge(
            "sherd_release_queue_length",
            "Entries of replaced data in memory that wait for their grace.",
        ),
        released: declare.counter("sherd_release_removed_total", "Data ids of replaced data removed."),
        release_dropped: declare.counter(
            "sherd_release_dropped_total",
            "Reports and entries of replaced data that were dropped; the sweep finds the data.",
        ),
        leases_refused: declare.counter(
            "sherd_read_leases_refused_total",
            "Leases on data being read that a volume had no place for.",
        ),
        looked_at: declare.counter(
            "sherd_look_rows_total",
            "Rows of their peers that volumes of this node compared with their own.",
        ),
        pulled: declare.counter(
            "sherd_look_pulled_total",
            "Rows that volumes of this node lacked and took from a peer.",
        ),
    }
}

fn buffer(declare: &MetricDeclarer<'_>) -> BufferMetrics {
    BufferMetrics {
        cap_bytes: declare.gauge("sherd_buffer_cap_bytes", "Bytes that the buffer pool may hand out."),
        used_bytes: declare.gauge("sherd_buffer_used_bytes", "Bytes that the buffer pool has handed out."),
        waits: declare.counter("sherd_buffer_waits_total", "Requests for a buffer that had to wait."),
    }
}

#[cfg(test)]
mod tests;
