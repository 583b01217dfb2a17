//! The operator's metrics, in Prometheus' text format. Labels are namespaces, clusters and fixed sets;
//! the series of a cluster that is gone are removed.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::{
    Encoder as _, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

use crate::api::{ClusterStatus, ConditionType};

/// The reason that is shown of each condition of a cluster.
type ShownReasons = BTreeMap<String, String>;

/// The operator's metrics.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Registry,
    reconciles: IntCounterVec,
    durations: HistogramVec,
    errors: IntCounterVec,
    active: IntGauge,
    leader: IntGauge,
    of_clusters: ClusterGauges,
    clusters: Arc<Mutex<BTreeMap<(String, String), ShownReasons>>>,
    access: AccessGauge,
}

/// Whether a Bucket or BucketUser is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessState {
    /// The kind, as Kubernetes names it.
    pub kind: &'static str,
    /// Where the object is.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The object's condition Ready: 1 True, 0 False, -1 Unknown.
    pub ready: i64,
    /// The reason of the condition; empty before the first verdict.
    pub reason: String,
}

/// The gauge of Buckets and BucketUsers, which each scrape sets by the objects that are there.
#[derive(Clone)]
struct AccessGauge {
    ready: IntGaugeVec,
    source: Arc<Mutex<Option<AccessSource>>>,
}

type AccessSource = Box<dyn Fn() -> Vec<AccessState> + Send>;

impl std::fmt::Debug for AccessGauge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccessGauge").finish_non_exhaustive()
    }
}

/// The gauges of each cluster.
#[derive(Clone, Debug)]
struct ClusterGauges {
    conditions: IntGaugeVec,
    reasons: IntGaugeVec,
    pods: IntGaugeVec,
    expiry: IntGaugeVec,
    authority_expiry: IntGaugeVec,
    s3_expiry: IntGaugeVec,
    left_users: IntGaugeVec,
    swept: IntGaugeVec,
}

impl ClusterGauges {
    fn declare(
        gauges: &impl Fn(&'static str, &'static str, &[&str]) -> Result<IntGaugeVec, prometheus::Error>,
    ) -> Result<Self, prometheus::Error> {
        Ok(Self {
            conditions: gauges(
                "sherd_operator_condition",
                "A condition: 1 True, 0 False, -1 Unknown.",
                &["namespace", "cluster", "condition"],
            )?,
            reasons: gauges(
                "sherd_operator_condition_reason",
                "Always 1; the reason that a condition has. A reason that it had is not shown.",
                &["namespace", "cluster", "condition", "reason"],
            )?,
            pods: gauges(
                "sherd_operator_rollout_pods",
                "Pods by what they run: the template that is asked for (updated), or an older one.",
                &["namespace", "cluster", "state"],
            )?,
            expiry: gauges(
                "sherd_operator_certificate_expiry_timestamp_seconds",
                "When the first of a cluster's node certificates ends, since the Unix epoch.",
                &["namespace", "cluster"],
            )?,
            authority_expiry: gauges(
                "sherd_operator_ca_expiry_timestamp_seconds",
                "When the CA that issues a cluster's node certificates ends, since the Unix epoch.",
                &["namespace", "cluster"],
            )?,
            s3_expiry: gauges(
                "sherd_operator_s3_certificate_expiry_timestamp_seconds",
                "When the certificate that a cluster's S3 clients are shown ends, since the Unix epoch.",
                &["namespace", "cluster"],
            )?,
            left_users: gauges(
                "sherd_operator_left_users",
                "Users without their BucketUser that have keys still, which are inactive.",
                &["namespace", "cluster"],
            )?,
            swept: gauges(
                "sherd_operator_users_swept_timestamp_seconds",
                "When all users of BucketUsers were last looked at, since the Unix epoch.",
                &["namespace", "cluster"],
            )?,
        })
    }
}

/// The kinds that are reconciled.
const CONTROLLERS: [&str; 3] = ["storagecluster", "bucket", "bucketuser"];
/// The states of a cluster's pods in a rollout.
const UPDATED: &str = "updated";
const OLDER: &str = "older";

impl Metrics {
    /// Declares every metric.
    ///
    /// # Errors
    /// A name that is declared twice: a defect.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let gauges = |name, help, labels: &[&str]| {
            let gauges = IntGaugeVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(gauges.clone())).map(|()| gauges)
        };
        let counters = |name, help, labels: &[&str]| {
            let counters = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(counters.clone())).map(|()| counters)
        };
        let gauge = |name, help| {
            let gauge = IntGauge::new(name, help)?;
            registry.register(Box::new(gauge.clone())).map(|()| gauge)
        };
        let durations = HistogramVec::new(
            HistogramOpts::new("sherd_operator_reconcile_duration_seconds", "How long reconciles took.")
                .buckets(vec![0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0]),
            &["controller"],
        )?;
        registry.register(Box::new(durations.clone()))?;
        let build =
            gauges("sherd_operator_build_info", "Always 1; the version of the operator.", &["version"])?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        let ready = gauges(
            "sherd_operator_access_ready",
            "The condition Ready of a Bucket or BucketUser: 1 True, 0 False, -1 Unknown.",
            &["namespace", "kind", "name", "reason"],
        )?;
        let metrics = Self {
            access: AccessGauge { ready, source: Arc::default() },
            reconciles: counters(
                "sherd_operator_reconcile_total",
                "Reconciles that ended.",
                &["controller", "result"],
            )?,
            durations,
            errors: counters(
                "sherd_operator_errors_total",
                "Reconciles that failed, by what failed.",
                &["controller", "category"],
            )?,
            active: gauge("sherd_operator_active_reconciles", "Reconciles under way.")?,
            leader: gauge("sherd_operator_leader", "1 while this operator leads.")?,
            of_clusters: ClusterGauges::declare(&gauges)?,
            clusters: Arc::default(),
            registry: registry.clone(),
        };
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

    /// Shows the status of a cluster: its conditions with their reasons, and which template its pods run.
    pub fn report(&self, namespace: &str, cluster: &str, status: &ClusterStatus) {
        let mut clusters = self.clusters.lock();
        let shown = clusters.entry((namespace.to_owned(), cluster.to_owned())).or_default();
        for condition in &status.conditions {
            let value = number(&condition.status);
            let (name, reason) = (condition.type_.as_str(), condition.reason.as_str());
            self.of_clusters.conditions.with_label_values(&[namespace, cluster, name]).set(value);
            self.of_clusters.reasons.with_label_values(&[namespace, cluster, name, reason]).set(1);
            if let Some(last) = shown.insert(name.to_owned(), reason.to_owned())
                && last != reason
            {
                remove(&self.of_clusters.reasons, &[namespace, cluster, name, &last]);
            }
        }
        if let Some(rollout) = &status.rollout {
            let older = rollout.pods.saturating_sub(rollout.updated);
            for (state, count) in [(UPDATED, rollout.updated), (OLDER, older)] {
                self.of_clusters.pods.with_label_values(&[namespace, cluster, state]).set(i64::from(count));
            }
        }
    }

    /// Shows Buckets and BucketUsers as this function returns them, at each scrape.
    pub fn show_access(&self, source: impl Fn() -> Vec<AccessState> + Send + 'static) {
        *self.access.source.lock() = Some(Box::new(source));
    }

    /// Shows when the certificate of S3 ends; a cluster without one has no series.
    pub fn s3_certificate_expiry(&self, namespace: &str, cluster: &str, seconds: Option<i64>) {
        let gauges = &self.of_clusters.s3_expiry;
        match seconds {
            Some(seconds) => gauges.with_label_values(&[namespace, cluster]).set(seconds),
            None => remove(gauges, &[namespace, cluster]),
        }
    }

    /// Shows when the first certificate of a cluster ends.
    pub fn certificate_expiry(&self, namespace: &str, cluster: &str, seconds: i64) {
        self.of_clusters.expiry.with_label_values(&[namespace, cluster]).set(seconds);
    }

    /// Shows the result of a sweep of a cluster's users.
    pub fn swept(&self, namespace: &str, cluster: &str, left: usize, seconds: i64) {
        let left = i64::try_from(left).unwrap_or(i64::MAX);
        self.of_clusters.left_users.with_label_values(&[namespace, cluster]).set(left);
        self.of_clusters.swept.with_label_values(&[namespace, cluster]).set(seconds);
    }

    /// Shows when the CA of a cluster ends.
    pub fn authority_expiry(&self, namespace: &str, cluster: &str, seconds: i64) {
        self.of_clusters.authority_expiry.with_label_values(&[namespace, cluster]).set(seconds);
    }

    /// Removes the series of clusters that are gone.
    pub fn retain(&self, is_there: impl Fn(&str, &str) -> bool) {
        self.clusters.lock().retain(|(namespace, cluster), shown| {
            let stays = is_there(namespace, cluster);
            if !stays {
                for condition in ConditionType::ALL {
                    remove(&self.of_clusters.conditions, &[namespace, cluster, condition.as_str()]);
                }
                for (condition, reason) in shown {
                    remove(&self.of_clusters.reasons, &[namespace, cluster, condition, reason]);
                }
                for state in [UPDATED, OLDER] {
                    remove(&self.of_clusters.pods, &[namespace, cluster, state]);
                }
                remove(&self.of_clusters.expiry, &[namespace, cluster]);
                remove(&self.of_clusters.authority_expiry, &[namespace, cluster]);
                remove(&self.of_clusters.s3_expiry, &[namespace, cluster]);
                remove(&self.of_clusters.left_users, &[namespace, cluster]);
                remove(&self.of_clusters.swept, &[namespace, cluster]);
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
        // One scrape at a time sets the gauge.
        let source = self.access.source.lock();
        self.access.ready.reset();
        for AccessState { kind, namespace, name, ready, reason } in source.iter().flat_map(|source| source())
        {
            self.access.ready.with_label_values(&[namespace.as_str(), kind, &name, &reason]).set(ready);
        }
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }
}

/// Returns a condition's status as a number.
pub fn number(status: &str) -> i64 {
    match status {
        "True" => 1,
        "False" => 0,
        _ => -1,
    }
}

/// Removes a series, which need not be there.
fn remove(gauges: &IntGaugeVec, labels: &[&str]) {
    let _ = gauges.remove_label_values(labels);
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
    use k8s_openapi::jiff::Timestamp;

    use super::*;
    use crate::api::RolloutStatus;

    fn status(reason: &str, updated: i32) -> ClusterStatus {
        let condition = Condition {
            type_: "Degraded".to_owned(),
            status: "True".to_owned(),
            reason: reason.to_owned(),
            message: String::new(),
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
            observed_generation: None,
        };
        let rollout = RolloutStatus { updated, pods: 4, ..RolloutStatus::default() };
        ClusterStatus { conditions: vec![condition], rollout: Some(rollout), ..ClusterStatus::default() }
    }

    fn text(metrics: &Metrics) -> String {
        String::from_utf8(metrics.text().expect("declared")).expect("text")
    }

    #[test]
    fn a_condition_has_one_reason_and_a_cluster_that_is_gone_no_series() {
        let metrics = Metrics::new().expect("declared once");
        metrics.report("storage", "demo", &status("NodeDown", 1));
        metrics.report("storage", "demo", &status("Healing", 3));
        metrics.certificate_expiry("storage", "demo", 7);
        metrics.authority_expiry("storage", "demo", 8);
        metrics.swept("storage", "demo", 1, 9);
        let shown = text(&metrics);
        let labels = "cluster=\"demo\",condition=\"Degraded\",namespace=\"storage\"";
        assert!(shown.contains(&format!("sherd_operator_condition{{{labels}}} 1")), "{shown}");
        assert!(shown.contains(&format!("sherd_operator_condition_reason{{{labels},reason=\"Healing\"}} 1")));
        assert!(!shown.contains("NodeDown"), "{shown}");
        let pods = "sherd_operator_rollout_pods{cluster=\"demo\",namespace=\"storage\",state";
        assert!(shown.contains(&format!("{pods}=\"updated\"}} 3")), "{shown}");
        assert!(shown.contains(&format!("{pods}=\"older\"}} 1")), "{shown}");
        metrics.retain(|_, _| false);
        assert!(!text(&metrics).contains("demo"));
    }

    #[test]
    fn each_scrape_shows_the_buckets_that_are_there() {
        let metrics = Metrics::new().expect("declared once");
        let left = Arc::new(Mutex::new(vec![("photos", 0), ("films", -1)]));
        let source = Arc::clone(&left);
        metrics.show_access(move || {
            let state = |(name, ready): &(&str, i64)| AccessState {
                kind: "Bucket",
                namespace: "team".to_owned(),
                name: (*name).to_owned(),
                ready: *ready,
                reason: "Refused".to_owned(),
            };
            source.lock().iter().map(state).collect()
        });
        let series = |name: &str, ready: i64| {
            format!(
                "sherd_operator_access_ready{{kind=\"Bucket\",name=\"{name}\",namespace=\"team\",reason=\"Refused\"}} {ready}"
            )
        };
        let shown = text(&metrics);
        assert!(shown.contains(&series("photos", 0)) && shown.contains(&series("films", -1)), "{shown}");
        *left.lock() = vec![("photos", 1)];
        let shown = text(&metrics);
        assert!(shown.contains(&series("photos", 1)) && !shown.contains("films"), "{shown}");
    }
}
