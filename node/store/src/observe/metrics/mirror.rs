//! Histograms that are counted elsewhere and shown as they were last seen, a member for each value of
//! one label.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto;
use sherd_volume::Distribution;

#[derive(Debug, Clone)]
pub(super) struct Mirror {
    desc: Arc<Desc>,
    label: &'static str,
    /// Counted units per shown unit.
    per_unit: f64,
    seen: Arc<Mutex<BTreeMap<String, Distribution>>>,
}

/// A metric that mirrors a value of another part.
#[derive(Debug, Clone)]
pub struct MirroredMetric {
    mirror: Mirror,
    name: String,
}

impl MirroredMetric {
    /// Shows what was counted so far.
    pub fn show(&self, distribution: Distribution) {
        self.mirror.seen.lock().insert(self.name.clone(), distribution);
    }
}

impl Mirror {
    pub(super) fn new(
        name: &str,
        help: &str,
        label: &'static str,
        per_unit: f64,
    ) -> prometheus::Result<Self> {
        let labels = vec![label.to_owned()];
        let desc = Desc::new(name.to_owned(), help.to_owned(), labels, std::collections::HashMap::new())?;
        Ok(Self { desc: Arc::new(desc), label, per_unit, seen: Arc::default() })
    }

    pub(super) fn of(&self, name: &str) -> MirroredMetric {
        self.seen.lock().entry(name.to_owned()).or_default();
        MirroredMetric { mirror: self.clone(), name: name.to_owned() }
    }

    fn metric(&self, name: &str, seen: &Distribution) -> proto::Metric {
        let mut label = proto::LabelPair::default();
        label.set_name(self.label.to_owned());
        label.set_value(name.to_owned());
        let mut histogram = proto::Histogram::default();
        let mut count = 0;
        let buckets = seen.bounds.iter().zip(&seen.counts).map(|(bound, in_bucket)| {
            count += in_bucket;
            let mut bucket = proto::Bucket::default();
            bucket.set_upper_bound(self.shown(*bound));
            bucket.set_cumulative_count(count);
            bucket
        });
        histogram.set_bucket(buckets.collect());
        histogram.set_sample_count(seen.count());
        histogram.set_sample_sum(self.shown(seen.sum));
        let mut metric = proto::Metric::from_label(vec![label]);
        metric.set_histogram(histogram);
        metric
    }

    #[expect(clippy::cast_precision_loss, reason = "a figure for people: 53 bits are enough")]
    fn shown(&self, value: u64) -> f64 {
        value as f64 / self.per_unit
    }
}

impl Collector for Mirror {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.desc]
    }

    fn collect(&self) -> Vec<proto::MetricFamily> {
        let mut family = proto::MetricFamily::default();
        family.set_name(self.desc.fq_name.clone());
        family.set_help(self.desc.help.clone());
        family.set_field_type(proto::MetricType::HISTOGRAM);
        family.set_metric(self.seen.lock().iter().map(|(name, seen)| self.metric(name, seen)).collect());
        vec![family]
    }
}
