//! The fields of an object that a person may edit, by JSON pointer, and which of them are not the operator's.

use serde_json::{Value, json};

/// Fields that are not the operator's, by kind; `*` stands for a place in a list.
const FOREIGN: [(&str, &str); 14] = [
    // The record of the CAs is taken as the Secret has it, where it is whole.
    ("Secret", "/data/rotation-request"),
    ("Service", "/spec/clusterIP"),
    ("Service", "/spec/clusterIPs/*"),
    ("Service", "/spec/internalTrafficPolicy"),
    ("Service", "/spec/ipFamilies/*"),
    ("Service", "/spec/ipFamilyPolicy"),
    ("Service", "/spec/sessionAffinity"),
    ("StatefulSet", "/spec/revisionHistoryLimit"),
    // The API server follows the field that took its place.
    ("StatefulSet", "/spec/template/spec/serviceAccount"),
    // With another owner the garbage collector deletes the child.
    ("*", "/metadata/ownerReferences/*/apiVersion"),
    ("*", "/metadata/ownerReferences/*/kind"),
    ("*", "/metadata/ownerReferences/*/name"),
    ("*", "/metadata/ownerReferences/*/uid"),
    ("*", "/immutable"),
];

/// Whether a field is not the operator's.
pub(super) fn is_foreign(kind: &str, path: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = path.split('/').map(|part| if is_number(part) { "*" } else { part }).collect();
    let pattern = parts.join("/");
    FOREIGN.iter().any(|(of, foreign)| (*of == "*" || *of == kind) && *foreign == pattern)
}

/// Whether a field must not be taken away: with the default of one pod the others would be deleted at once.
pub(super) fn is_kept(kind: &str, path: &str) -> bool {
    kind == "StatefulSet" && path == "/spec/replicas"
}

/// Other values of a field, the likelier first.
pub(super) fn others(value: &Value, path: &str) -> Vec<Value> {
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

/// Adds the fields of an object that a person may edit, each with its value.
pub(super) fn leaves(value: &Value, path: &str, found: &mut Vec<(String, Value)>) {
    if is_servers(path) {
        return;
    }
    match value {
        Value::Object(_) | Value::Array(_) => each(value, path, |value, path| leaves(value, path, found)),
        Value::Null => {}
        leaf => found.push((path.to_owned(), leaf.clone())),
    }
}

/// Adds the entries of lists that are objects, each with the pointer to its list.
pub(super) fn entries(value: &Value, path: &str, found: &mut Vec<(String, Value)>) {
    if is_servers(path) {
        return;
    }
    if let Value::Array(list) = value {
        found.extend(
            list.iter().filter(|entry| entry.is_object()).map(|entry| (path.to_owned(), entry.clone())),
        );
    }
    each(value, path, |value, path| entries(value, path, found));
}

fn each(value: &Value, path: &str, mut look: impl FnMut(&Value, &str)) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                look(value, &format!("{path}/{}", field.replace('~', "~0").replace('/', "~1")));
            }
        }
        Value::Array(list) => {
            for (at, value) in list.iter().enumerate() {
                look(value, &format!("{path}/{at}"));
            }
        }
        _ => {}
    }
}

/// Fields that the API server writes.
fn is_servers(path: &str) -> bool {
    let kept_of_metadata = ["/metadata/labels", "/metadata/annotations", "/metadata/ownerReferences"];
    ["/apiVersion", "/kind", "/status"].contains(&path)
        || (path.starts_with("/metadata/") && !kept_of_metadata.iter().any(|kept| path.starts_with(kept)))
}
