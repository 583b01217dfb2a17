//! The expressions of the chart's alerts and dashboard, asked of a Prometheus that scraped the cluster: each
//! has series. Of an alert it is the expression without its comparisons with numbers, since a healthy cluster
//! is on their other side.

use std::time::Duration;

use serde_json::Value;
use sherd_e2e::kubernetes::wait_for;
use sherd_e2e::prometheus::Prometheus;

use crate::cases::root;

/// Alerts and panels that a healthy cluster may have no series for.
const MAY_BE_EMPTY: [(&str, &str); 18] = [
    ("SherdDataLost", "the condition has another reason"),
    ("SherdDataAtRisk", "the condition has another reason"),
    ("SherdAccessNotReady", "there is no Bucket and no BucketUser"),
    ("SherdQuorumLost", "the condition has another reason"),
    ("SherdFull", "the condition has another reason"),
    ("SherdNodeDown", "the condition has another reason"),
    ("SherdHealingLong", "the condition has another reason"),
    ("SherdChangesFail", "the condition has another reason"),
    ("SherdStorageNotGrown", "the condition has another reason"),
    ("SherdErrors", "no request was answered with 5xx"),
    ("SherdManyErrors", "no request was answered with 5xx"),
    ("SherdWritesRefused", "no request was answered with 507"),
    ("SherdNotDurable", "the label says fsync"),
    ("SherdS3CertificateExpiring", "S3 is served in clear text"),
    ("SherdClusterUnwatched", "an operator shows the cluster's conditions"),
    ("buckets and users that are not ready", "all are ready"),
    ("errors (5xx)", "no request was answered with 5xx"),
    ("reconciles that fail", "no reconcile failed since the operator leads"),
];

/// Waits until each expression has series, and returns how many there are.
pub(crate) async fn every_query_has_series(
    prometheus: &Prometheus,
    namespace: &str,
    deadline: Duration,
) -> Result<usize, Box<dyn std::error::Error>> {
    let queries: Vec<(String, String)> = alerts()?.into_iter().chain(panels(namespace)?).collect();
    for (name, expression) in &queries {
        let may_be_empty = MAY_BE_EMPTY.iter().any(|(empty, _)| empty == name);
        let look = || match prometheus.series(expression) {
            Ok(series) if may_be_empty || !series.is_empty() => Ok(()),
            Ok(_) => Err(format!("no series: {expression}")),
            Err(error) => Err(format!("{error}: {expression}")),
        };
        wait_for(name, deadline, look).await?;
    }
    Ok(queries.len())
}

/// The alerts' names and expressions, without comparisons.
fn alerts() -> Result<Vec<(String, String)>, Box<dyn std::error::Error>> {
    let file: Value =
        serde_saphyr::from_str(&std::fs::read_to_string(root().join("charts/sherd/files/rules.yaml"))?)?;
    let groups = file["groups"].as_array().ok_or("no groups")?;
    let rules = groups.iter().filter_map(|group| group["rules"].as_array()).flatten();
    let of_rule = |rule: &Value| {
        let (name, expression) = (rule["alert"].as_str()?, rule["expr"].as_str()?);
        Some((name.to_owned(), without_comparisons(expression)))
    };
    rules.map(|rule| of_rule(rule).ok_or_else(|| format!("{rule} is not an alert").into())).collect()
}

/// Leaves out each comparison with the number that follows it.
fn without_comparisons(expression: &str) -> String {
    let mut words = expression.split_whitespace();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        if ["==", "!=", "<", "<=", ">", ">="].contains(&word) {
            words.next();
        } else {
            kept.push(word);
        }
    }
    kept.join(" ")
}

/// The panels' titles and expressions, with the dashboard's variables filled in.
fn panels(namespace: &str) -> Result<Vec<(String, String)>, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(root().join("charts/sherd/files/dashboard.json"))?;
    let dashboard: Value = serde_json::from_str(&text)?;
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().ok_or("no panels")? {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().ok_or("a target without a query")?;
            let filled = [("$__rate_interval", "30s"), ("$namespace", namespace), ("$cluster", ".*")]
                .iter()
                .fold(expression.to_owned(), |text, (variable, value)| text.replace(variable, value));
            queries.push((panel["title"].as_str().unwrap_or_default().to_owned(), filled));
        }
    }
    Ok(queries)
}
