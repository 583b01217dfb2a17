//! The operator's metrics, in Prometheus' text format. Labels are namespaces, clusters and fixed sets;
//! the series of a cluster that is gone are removed.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use parking_lot::Mutex;
use prometheus::{
    Encoder as _, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

use crate::api::ConditionType;

/// The operator's metrics.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Registry,
    reconciles: IntCounterVec,
    durations: HistogramVec,
    errors: IntCounterVec,
    active: IntGauge,
    leader: IntGauge,
    conditions: IntGaugeVec,
    expiry: IntGaugeVec,
    clusters: Arc<Mutex<BTreeSet<(String, String)>>>,
}

/// The kinds that are reconciled.
const CONTROLLERS: [&str; 3] = ["storagecluster", "bucket", "bucketuser"];

impl Metrics {
    /// Declares every metric.
    ///
    /// # Errors
    /// A name that is declared twice: a defect.
    pub fn new() -> Result<Self, prometheus::Error> {
        let cluster = ["namespace", "cluster"];
        let metrics = Self {
            registry: Registry::new(),
            reconciles: IntCounterVec::new(
                Opts::new("sherd_operator_reconcile_total", "Reconciles that ended."),
                &["controller", "result"],
            )?,
            durations: HistogramVec::new(
                HistogramOpts::new("sherd_operator_reconcile_duration_seconds", "How long reconciles took.")
                    .buckets(vec![0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0]),
                &["controller"],
            )?,
            errors: IntCounterVec::new(
                Opts::new("sherd_operator_errors_total", "Reconciles that failed, by what failed."),
                &["controller", "category"],
            )?,
            active: IntGauge::new("sherd_operator_active_reconciles", "Reconciles under way.")?,
            leader: IntGauge::new("sherd_operator_leader", "1 while this operator leads.")?,
            conditions: IntGaugeVec::new(
                Opts::new("sherd_operator_condition", "A condition: 1 True, 0 False, -1 Unknown."),
                &["namespace", "cluster", "condition"],
            )?,
            expiry: IntGaugeVec::new(
                Opts::new(
                    "sherd_operator_certificate_expiry_timestamp_seconds",
                    "When the first of a cluster's node certificates ends, since the Unix epoch.",
                ),
                &cluster,
            )?,
            clusters: Arc::default(),
        };
        let build = IntGaugeVec::new(
            Opts::new("sherd_operator_build_info", "Always 1; the version of the operator."),
            &["version"],
        )?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        metrics.registry.register(Box::new(build))?;
        metrics.registry.register(Box::new(metrics.reconciles.clone()))?;
        metrics.registry.register(Box::new(metrics.durations.clone()))?;
        metrics.registry.register(Box::new(metrics.errors.clone()))?;
        metrics.registry.register(Box::new(metrics.active.clone()))?;
        metrics.registry.register(Box::new(metrics.leader.clone()))?;
        metrics.registry.register(Box::new(metrics.conditions.clone()))?;
        metrics.registry.register(Box::new(metrics.expiry.clone()))?;
        for controller in CONTROLLERS {
            for result in ["ok", "error"] {
                metrics.reconciles.with_label_values(&[controller, result]).reset();
            }
        }
        Ok(metrics)
    }

    /// Counts a reconcile that begins.
    pub fn begin(&self) {
        self.active.inc();
    }

    /// Counts a reconcile of a kind that ended; `failure` is its category.
    pub fn end(&self, controller: &str, seconds: f64, failure: Option<&str>) {
        self.active.dec();
        self.durations.with_label_values(&[controller]).observe(seconds);
        let result = if failure.is_some() { "error" } else { "ok" };
        self.reconciles.with_label_values(&[controller, result]).inc();
        if let Some(category) = failure {
            self.errors.with_label_values(&[controller, category]).inc();
        }
    }

    /// Shows whether this operator leads.
    pub fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// Shows the conditions of a cluster.
    pub fn conditions(&self, namespace: &str, cluster: &str, conditions: &[Condition]) {
        self.clusters.lock().insert((namespace.to_owned(), cluster.to_owned()));
        for condition in conditions {
            let value = match condition.status.as_str() {
                "True" => 1,
                "False" => 0,
                _ => -1,
            };
            self.conditions.with_label_values(&[namespace, cluster, condition.type_.as_str()]).set(value);
        }
    }

    /// Shows when the first certificate of a cluster ends.
    pub fn certificate_expiry(&self, namespace: &str, cluster: &str, seconds: i64) {
        self.expiry.with_label_values(&[namespace, cluster]).set(seconds);
    }

    /// Removes the series of clusters that are gone.
    pub fn retain(&self, is_there: impl Fn(&str, &str) -> bool) {
        self.clusters.lock().retain(|(namespace, cluster)| {
            let stays = is_there(namespace, cluster);
            if !stays {
                for condition in ConditionType::ALL {
                    // A series that is not there need not be removed.
                    let _ = self.conditions.remove_label_values(&[namespace, cluster, condition.as_str()]);
                }
                let _ = self.expiry.remove_label_values(&[namespace, cluster]);
            }
            stays
        });
    }

    /// Returns the text of a scrape.
    ///
    /// # Errors
    /// A metric that cannot be written: a defect.
    pub fn text(&self) -> Result<Vec<u8>, prometheus::Error> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }
}
