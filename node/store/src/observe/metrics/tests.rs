//! The text of a scrape.

use std::sync::atomic::{AtomicI64, Ordering};

use sherd_volume::Distribution;

use super::*;
use sherd_core::report::VolumeCondition;

fn scrape(metrics: &Metrics) -> String {
    String::from_utf8(metrics.encode()).expect("Prometheus' format is text")
}

/// The value of the line that starts with `series` and a space.
fn value(text: &str, series: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    line.parse().ok()
}

#[test]
fn a_new_node_shows_what_it_is() {
    let text = scrape(&Metrics::new(Durability::None));
    assert_eq!(value(&text, "sherd_durability_info{mode=\"none\"}"), Some(1.0), "{text}");
    let build = format!("sherd_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
    assert_eq!(value(&text, &build), Some(1.0));
}

#[test]
fn every_metric_of_the_documentation_is_declared() {
    let metrics = Metrics::new(Durability::Fsync);
    metrics.s3.answered("PutObject", 200, 0.001);
    let volume = metrics.volume("/data/v1");
    volume.set_state(VolumeCondition::Online);
    metrics.link("n2").calls_renewed.inc();
    metrics.mrf.pace_reasons.with_label_values(&["idle"]).set(1);
    let text = scrape(&metrics);
    let documentation = include_str!("../../../../../docs/operations/metrics.md");
    let names: Vec<_> =
        documentation.lines().filter_map(|line| line.strip_prefix("| `")?.split(['`', '{']).next()).collect();
    assert!(names.len() > 20, "the table of metrics was found");
    for name in &names {
        assert!(text.contains(&format!("# HELP {name} ")), "{name} is documented and not declared");
    }
    for declared in text.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split(' ').next()) {
        assert!(names.contains(&declared), "{declared} is declared and not documented");
    }
}

#[test]
fn requests_are_counted_by_operation_and_status() {
    let metrics = Metrics::new(Durability::Fsync);
    metrics.s3.answered("PutObject", 200, 0.25);
    metrics.s3.answered("PutObject", 503, 0.25);
    metrics.s3.answered("PutObject", 200, 0.25);
    metrics.s3.answered("GetObject", 7, 0.0);
    let text = scrape(&metrics);
    assert_eq!(value(&text, "sherd_s3_requests_total{api=\"PutObject\",code=\"200\"}"), Some(2.0));
    assert_eq!(value(&text, "sherd_s3_requests_total{api=\"PutObject\",code=\"503\"}"), Some(1.0));
    assert_eq!(value(&text, "sherd_s3_requests_total{api=\"GetObject\",code=\"999\"}"), Some(1.0));
    assert_eq!(value(&text, "sherd_s3_request_duration_seconds_sum{api=\"PutObject\"}"), Some(0.75));
}

#[test]
fn a_volume_is_in_one_state_at_a_time() {
    let metrics = Metrics::new(Durability::Fsync);
    let volume = metrics.volume("/data/v1");
    volume.set_state(VolumeCondition::Opening);
    volume.set_state(VolumeCondition::Online);
    let text = scrape(&metrics);
    assert_eq!(value(&text, "sherd_volume_state{state=\"online\",volume=\"/data/v1\"}"), Some(1.0), "{text}");
    assert_eq!(value(&text, "sherd_volume_state{state=\"opening\",volume=\"/data/v1\"}"), Some(0.0));
}

#[test]
fn handles_of_one_volume_count_together() {
    let metrics = Metrics::new(Durability::Fsync);
    metrics.volume("/data/v1").show_errors(VolumeFault::Corrupt, 1);
    metrics.volume("/data/v1").show_errors(VolumeFault::Corrupt, 2);
    metrics.volume("/data/v1").show_errors(VolumeFault::Corrupt, 2);
    let text = scrape(&metrics);
    assert_eq!(value(&text, "sherd_volume_errors_total{kind=\"corrupt\",volume=\"/data/v1\"}"), Some(2.0));
    assert_eq!(value(&text, "sherd_volume_errors_total{kind=\"io\",volume=\"/data/v1\"}"), Some(0.0));
}

#[test]
fn a_mirrored_histogram_is_shown_as_it_was_last_seen() {
    let metrics = Metrics::new(Durability::Fsync);
    let seen = |counts: [u64; 3], sum| Distribution { bounds: &[20, 5_000], counts: counts.to_vec(), sum };
    metrics.volume("/data/v1").sync_duration.show(seen([1, 0, 0], 7));
    metrics.volume("/data/v1").sync_duration.show(seen([1, 2, 1], 9_000_000));
    let text = scrape(&metrics);
    let series = |name: &str, labels: &str| {
        value(&text, &format!("sherd_volume_sync_duration_seconds_{name}{{volume=\"/data/v1\"{labels}}}"))
    };
    assert_eq!(series("bucket", ",le=\"0.00002\""), Some(1.0), "{text}");
    assert_eq!(series("bucket", ",le=\"0.005\""), Some(3.0));
    assert_eq!(series("bucket", ",le=\"+Inf\""), Some(4.0));
    assert_eq!(series("count", ""), Some(4.0));
    assert_eq!(series("sum", ""), Some(9.0));
}

#[test]
fn a_hook_sets_its_gauge_at_every_scrape() {
    let metrics = Metrics::shared(Durability::Fsync);
    let waiting = Arc::new(AtomicI64::new(3));
    let (gauge, seen) = (metrics.mrf.queue_length.clone(), Arc::clone(&waiting));
    metrics.on_scrape(move || gauge.set(seen.load(Ordering::Relaxed)));
    assert_eq!(value(&scrape(&metrics), "sherd_mrf_queue_length"), Some(3.0));
    waiting.store(5, Ordering::Relaxed);
    assert_eq!(value(&scrape(&metrics), "sherd_mrf_queue_length"), Some(5.0));
}

#[test]
fn the_process_reports_its_memory_and_descriptors() {
    let text = scrape(&Metrics::new(Durability::Fsync));
    for series in [
        "process_resident_memory_bytes",
        "sherd_process_anonymous_memory_bytes",
        "process_open_fds",
        "process_max_fds",
        "process_threads",
    ] {
        assert!(value(&text, series).is_some_and(|value| value > 0.0), "{series}");
    }
    assert!(value(&text, "process_start_time_seconds").is_some_and(|value| value > 1.5e9));
}

#[test]
fn two_nodes_in_one_process_do_not_meet() {
    let (one, two) = (Metrics::new(Durability::Fsync), Metrics::new(Durability::Fsync));
    one.s3.traffic.received_bytes.inc_by(10);
    assert_eq!(value(&scrape(&one), "sherd_s3_bytes_total{direction=\"received\"}"), Some(10.0));
    assert_eq!(value(&scrape(&two), "sherd_s3_bytes_total{direction=\"received\"}"), Some(0.0));
}
