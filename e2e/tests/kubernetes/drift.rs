//! Changes every field of every child of a cluster, one after the other, as a person would by `kubectl
//! patch`. Each is put back by the operator, or refused by the API server, or is in the list of fields that
//! are not the operator's: Kubernetes gives them a value, or they are the key of a list's entry, whose change
//! adds another one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sherd_e2e::kubernetes::Namespace;

/// How long a field may take to be put back before it counts as lost: generous, for a busy machine.
const BACK: Duration = Duration::from_mins(1);

/// Kinds whose objects belong to a cluster by its label.
const KINDS: [&str; 7] = [
    "secret",
    "serviceaccount",
    "configmap",
    "service",
    "networkpolicy",
    "poddisruptionbudget",
    "statefulset",
];

/// Fields that are not the operator's, by kind; `*` stands for a place in a list.
const FOREIGN: [(&str, &str); 22] = [
    ("Service", "/spec/clusterIP"),
    ("Service", "/spec/clusterIPs/*"),
    ("Service", "/spec/internalTrafficPolicy"),
    ("Service", "/spec/ipFamilies/*"),
    ("Service", "/spec/ipFamilyPolicy"),
    ("Service", "/spec/sessionAffinity"),
    ("StatefulSet", "/spec/revisionHistoryLimit"),
    ("StatefulSet", "/spec/template/spec/dnsPolicy"),
    ("StatefulSet", "/spec/template/spec/restartPolicy"),
    ("StatefulSet", "/spec/template/spec/schedulerName"),
    ("StatefulSet", "/spec/template/spec/serviceAccount"),
    ("StatefulSet", "/spec/template/spec/volumes/*/configMap/defaultMode"),
    ("StatefulSet", "/spec/template/spec/containers/*/terminationMessagePath"),
    // Keys of lists: the operator's entry comes back beside the renamed one.
    ("StatefulSet", "/spec/template/spec/containers/*/name"),
    ("StatefulSet", "/spec/template/spec/containers/*/env/*/name"),
    ("StatefulSet", "/spec/template/spec/containers/*/volumeMounts/*/mountPath"),
    ("StatefulSet", "/spec/template/spec/volumes/*/name"),
    // With another owner the garbage collector deletes the child.
    ("*", "/metadata/ownerReferences/*/apiVersion"),
    ("*", "/metadata/ownerReferences/*/kind"),
    ("*", "/metadata/ownerReferences/*/name"),
    ("*", "/metadata/ownerReferences/*/uid"),
    ("*", "/immutable"),
];

/// The ends of the fields of one child.
#[derive(Default)]
struct DriftReport {
    back: usize,
    refused: usize,
    foreign: usize,
    slowest: Duration,
    lost: Vec<String>,
}

/// Changes every field of every child of a cluster.
pub(crate) async fn fuzz(namespace: &Namespace, cluster: &str) -> Result<String, Box<dyn std::error::Error>> {
    let pods = uids(namespace, cluster)?;
    let mut children = Vec::new();
    for kind in KINDS {
        let names = namespace.names(kind, &format!("sherd.dev/cluster={cluster},!sherd.dev/bucket-user"))?;
        children.extend(names.into_iter().map(|name| (kind, name)));
    }
    // Side by side: a reconcile puts all of them back.
    let tasks: Vec<_> = children
        .into_iter()
        .map(|(kind, name)| {
            let namespace = namespace.clone();
            tokio::task::spawn_blocking(move || fuzz_child(&namespace, kind, &name))
        })
        .collect();
    let (mut total, mut count) = (DriftReport::default(), 0);
    for task in tasks {
        let DriftReport { back, refused, foreign, slowest, lost } = task.await??;
        total.back += back;
        total.refused += refused;
        total.foreign += foreign;
        total.slowest = total.slowest.max(slowest);
        total.lost.extend(lost);
        count += 1;
    }
    if !total.lost.is_empty() {
        return Err(format!("fields that did not come back: {:#?}", total.lost).into());
    }
    let now = uids(namespace, cluster)?;
    let replaced: Vec<_> = pods.iter().filter(|(pod, uid)| now.get(*pod) != Some(*uid)).collect();
    if !replaced.is_empty() {
        return Err(format!("pods that an edit replaced: {replaced:?}").into());
    }
    let DriftReport { back, refused, foreign, slowest, lost: _ } = total;
    let mut note =
        format!("({count} children: {back} fields put back, slowest {:.1} s; ", slowest.as_secs_f64());
    write!(note, "{refused} changes refused, {foreign} fields of others)")?;
    Ok(note)
}

/// The uids of a cluster's pods, by name. A pod that an edit of the number of pods adds is not among them.
fn uids(namespace: &Namespace, cluster: &str) -> Result<BTreeMap<String, Value>, Box<dyn std::error::Error>> {
    let pods = namespace.names("pod", &format!("sherd.dev/cluster={cluster}"))?;
    let uid = |pod: &String| Some(namespace.get("pod", pod)?["metadata"]["uid"].clone());
    Ok(pods.into_iter().filter_map(|pod| uid(&pod).map(|uid| (pod, uid))).collect())
}

fn fuzz_child(namespace: &Namespace, kind: &str, name: &str) -> Result<DriftReport, String> {
    let before = namespace.get(kind, name).ok_or_else(|| format!("no {kind} {name}"))?;
    let mut fields = Vec::new();
    leaves(&before, "", &mut fields);
    let mut report = DriftReport::default();
    for (path, value) in fields {
        if is_foreign(before["kind"].as_str().unwrap_or_default(), &path) {
            report.foreign += 1;
            continue;
        }
        let title = format!("{kind} {name} {path}");
        let Some(changed) = change(namespace, kind, name, &path, &value) else {
            report.refused += 1;
            continue;
        };
        let begun = Instant::now();
        // A certificate is issued again; all else comes back as it was.
        let is_issued = name.ends_with("-certificates") && !path.ends_with("/ca.crt");
        // A budget follows what is healed, which may be another number than before.
        let is_budget = kind == "poddisruptionbudget" && path == "/spec/maxUnavailable";
        let is_back = |now: &Value| {
            *now == value
                || (is_issued && *now != changed)
                || (is_budget && *now != changed && (*now == 0 || *now == 1))
        };
        loop {
            let now = namespace.get(kind, name).and_then(|now| now.pointer(&path).cloned());
            if now.as_ref().is_some_and(is_back) {
                report.back += 1;
                report.slowest = report.slowest.max(begun.elapsed());
                break;
            }
            if begun.elapsed() > BACK {
                report.lost.push(title);
                break;
            }
        }
    }
    Ok(report)
}

/// Changes a field, and returns its value then; nothing where the API server takes none of the values.
fn change(namespace: &Namespace, kind: &str, name: &str, path: &str, value: &Value) -> Option<Value> {
    others(value, path).into_iter().find(|other| {
        let request = json!([{"op": "replace", "path": path, "value": other}]).to_string();
        namespace.kubectl(&["patch", kind, name, "--type", "json", "--patch", &request]).is_ok()
    })
}

/// Other values of a field, the likelier first.
fn others(value: &Value, path: &str) -> Vec<Value> {
    const WORDS: [(&str, &str); 10] = [
        ("TCP", "UDP"),
        ("ClusterIP", "NodePort"),
        ("OnDelete", "RollingUpdate"),
        ("IfNotPresent", "Always"),
        ("HTTP", "HTTPS"),
        ("RuntimeDefault", "Unconfined"),
        ("OnRootMismatch", "Always"),
        ("AlwaysAllow", "IfHealthyBudget"),
        ("FallbackToLogsOnError", "File"),
        ("Retain", "Delete"),
    ];
    match value {
        Value::Bool(on) => vec![json!(!on)],
        Value::Number(number) => vec![json!(number.as_i64().unwrap_or(0) + 1)],
        // A Secret's values are base64.
        Value::String(_) if path.starts_with("/data/") => vec![json!("b3RoZXI=")],
        Value::String(text) => {
            let word = WORDS.iter().find(|(word, _)| word == text).map(|(_, other)| json!(other));
            word.into_iter().chain([json!(format!("{text}x")), json!("x")]).collect()
        }
        _ => vec![],
    }
}

/// The fields of an object that a person may change, by JSON pointer.
fn leaves(value: &Value, path: &str, found: &mut Vec<(String, Value)>) {
    let kept_of_metadata = ["/metadata/labels", "/metadata/annotations", "/metadata/ownerReferences"];
    let is_servers = ["/apiVersion", "/kind", "/status"].contains(&path)
        || (path.starts_with("/metadata/") && !kept_of_metadata.iter().any(|kept| path.starts_with(kept)));
    if is_servers {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                let field = field.replace('~', "~0").replace('/', "~1");
                leaves(value, &format!("{path}/{field}"), found);
            }
        }
        Value::Array(entries) => {
            for (at, value) in entries.iter().enumerate() {
                leaves(value, &format!("{path}/{at}"), found);
            }
        }
        Value::Null => {}
        leaf => found.push((path.to_owned(), leaf.clone())),
    }
}

fn is_foreign(kind: &str, path: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = path.split('/').map(|part| if is_number(part) { "*" } else { part }).collect();
    let pattern = parts.join("/");
    FOREIGN.iter().any(|(of, foreign)| (*of == "*" || *of == kind) && *foreign == pattern)
}
