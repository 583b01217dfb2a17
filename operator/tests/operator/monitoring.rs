//! The chart's alerts and dashboard: each alert has its severity, its section in the documentation and a
//! fault that raises it in a test, and every metric that is used is documented. charts/check-rules runs those
//! tests.

use std::collections::BTreeSet;
use std::path::Path;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use sherd_operator::api::{ClusterStatus, RolloutStatus};
use sherd_operator::metrics::{AccessState, Metrics};

const RULES: &str = "charts/sherd/files/rules.yaml";
const PAGE: &str = "docs/operations/alerts.md";

/// The text of a file of the repository.
fn text(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn rules() -> Vec<Value> {
    let file: Value = serde_saphyr::from_str(&text(RULES)).expect("the rules are YAML");
    let groups = file["groups"].as_array().expect("groups").clone();
    groups.iter().flat_map(|group| group["rules"].as_array().expect("rules").clone()).collect()
}

/// The expressions of the dashboard, each with its panel's title.
fn queries() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(&text("charts/sherd/files/dashboard.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").clone();
    let of_panel = |panel: &Value| {
        let title = panel["title"].as_str().expect("a title").to_owned();
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        let expressions = targets.iter().map(|target| target["expr"].as_str().expect("a query").to_owned());
        expressions.map(|expression| (title.clone(), expression)).collect::<Vec<_>>()
    };
    panels.iter().flat_map(of_panel).collect()
}

/// Metrics in the first column of the tables of both pages.
fn documented() -> BTreeSet<String> {
    let pages = ["docs/operations/metrics.md", "docs/operations/kubernetes-monitoring.md"].map(text);
    let names = pages.iter().flat_map(|page| page.lines()).filter_map(|line| line.strip_prefix("| `"));
    names.filter_map(|name| Some(name.split(['`', '{']).next()?.to_owned())).collect()
}

/// Metrics that an expression names: words that begin as ours do, without what a histogram adds.
fn used(expression: &str) -> BTreeSet<String> {
    let is_ours = |word: &&str| word.starts_with("sherd_") || word.starts_with("process_");
    let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let family = |word: &str| {
        let suffix = ["_bucket", "_sum", "_count"].into_iter().find_map(|suffix| word.strip_suffix(suffix));
        suffix.unwrap_or(word).to_owned()
    };
    words.filter(is_ours).map(family).collect()
}

#[test]
fn every_alert_is_documented_and_raised_by_a_fault() {
    let (page, tests) = (text(PAGE), text("charts/sherd/ci/rules.test.yaml"));
    let mut names = BTreeSet::new();
    for rule in rules() {
        let name = rule["alert"].as_str().expect("an alert").to_owned();
        let severity = rule["labels"]["severity"].as_str().unwrap_or_default();
        assert!(["critical", "warning"].contains(&severity), "{name}: {severity}");
        for annotation in ["summary", "description"] {
            assert!(rule["annotations"][annotation].is_string(), "{name} has no {annotation}");
        }
        let section = format!("{PAGE}#{}", name.to_lowercase());
        assert_eq!(rule["annotations"]["runbook_url"].as_str(), Some(section.as_str()), "{name}");
        let heading = format!("\n### {name}\n{severity}. ");
        assert!(page.contains(&heading), "{PAGE} lacks a section on {name} that begins with {severity}");
        let raised = format!("alertname=\"{name}\", severity=\"{severity}\"");
        assert!(tests.contains(&raised), "no test raises {name} as {severity}");
        assert!(names.insert(name), "two alerts of a name");
    }
    assert!(names.len() > 30, "{names:?}");
    for section in page.lines().filter_map(|line| line.strip_prefix("### ")) {
        assert!(names.contains(section), "{PAGE} has a section on {section}, without an alert");
    }
}

#[test]
fn every_metric_that_is_used_is_documented() {
    let documented = documented();
    assert!(documented.len() > 60, "the tables of metrics were found");
    let of_rule =
        |rule: &Value| (rule["alert"].to_string(), rule["expr"].as_str().expect("an expression").to_owned());
    for (name, expression) in rules().iter().map(of_rule).chain(queries()) {
        let used = used(&expression);
        let unknown: Vec<&String> = used.difference(&documented).collect();
        assert!(unknown.is_empty(), "{name} uses {unknown:?}");
    }
    for wrong in ["sherd_volume_byte", "rate(sherd_no_such_seconds_bucket[5m])"] {
        assert!(!used(wrong).is_subset(&documented), "{wrong}");
    }
}

#[test]
fn every_metric_of_the_operator_is_documented() {
    let metrics = Metrics::new().expect("declared once");
    let condition = Condition {
        type_: "Ready".to_owned(),
        status: "True".to_owned(),
        reason: "Serving".to_owned(),
        message: String::new(),
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
        observed_generation: None,
    };
    let status = ClusterStatus {
        conditions: vec![condition],
        rollout: Some(RolloutStatus::default()),
        ..ClusterStatus::default()
    };
    metrics.report("storage", "demo", &status);
    metrics.certificate_expiry("storage", "demo", 1);
    metrics.authority_expiry("storage", "demo", 1);
    metrics.s3_certificate_expiry("storage", "demo", Some(1));
    metrics.show_access(|| {
        let (namespace, name, reason) = ("team".to_owned(), "photos".to_owned(), "AsAsked".to_owned());
        vec![AccessState { kind: "Bucket", namespace, name, ready: 1, reason }]
    });
    metrics.swept("storage", "demo", 1, 1);
    metrics.begin();
    metrics.end("bucket", 0.1, Some("server"));
    let shown = String::from_utf8(metrics.text().expect("declared")).expect("text");
    let helps = shown.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split(' ').next());
    let declared: BTreeSet<String> = helps.map(str::to_owned).collect();
    let documented: BTreeSet<String> =
        documented().into_iter().filter(|name| name.starts_with("sherd_operator_")).collect();
    assert_eq!(declared, documented);
}
