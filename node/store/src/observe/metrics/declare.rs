//! Declaring a metric: a name, a help text, labels; registered at once.
//!
//! A mistake here (a name used twice, a malformed label) is the programmer's and shows in the
//! first test that makes a `Metrics`.

use prometheus::core::Collector;
use prometheus::{
    Counter, Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
    Opts, Registry,
};

use super::mirror::Mirror;

pub(super) struct MetricDeclarer<'a> {
    pub(super) registry: &'a Registry,
}

const WELL_FORMED: &str = "names and labels of metrics are well formed";

impl MetricDeclarer<'_> {
    fn register<C: Collector + Clone + 'static>(&self, metric: C) -> C {
        self.registry.register(Box::new(metric.clone())).expect("every metric is declared once");
        metric
    }

    pub(super) fn counter(&self, name: &str, help: &str) -> IntCounter {
        self.register(IntCounter::new(name, help).expect(WELL_FORMED))
    }

    pub(super) fn float_counter(&self, name: &str, help: &str) -> Counter {
        self.register(Counter::new(name, help).expect(WELL_FORMED))
    }

    pub(super) fn counters(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.register(IntCounterVec::new(Opts::new(name, help), labels).expect(WELL_FORMED))
    }

    pub(super) fn gauge(&self, name: &str, help: &str) -> IntGauge {
        self.register(IntGauge::new(name, help).expect(WELL_FORMED))
    }

    pub(super) fn float_gauge(&self, name: &str, help: &str) -> Gauge {
        self.register(Gauge::new(name, help).expect(WELL_FORMED))
    }

    pub(super) fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
        self.register(IntGaugeVec::new(Opts::new(name, help), labels).expect(WELL_FORMED))
    }

    /// Histograms that are counted elsewhere, in a unit of which `per_unit` are one of what is shown.
    pub(super) fn mirror(&self, name: &str, help: &str, label: &'static str, per_unit: f64) -> Mirror {
        self.register(Mirror::new(name, help, label, per_unit).expect(WELL_FORMED))
    }

    pub(super) fn histogram(&self, name: &str, help: &str, buckets: &[f64]) -> Histogram {
        let opts = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.register(Histogram::with_opts(opts).expect(WELL_FORMED))
    }

    pub(super) fn histograms(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
        buckets: &[f64],
    ) -> HistogramVec {
        let opts = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.register(HistogramVec::new(opts, labels).expect(WELL_FORMED))
    }
}
