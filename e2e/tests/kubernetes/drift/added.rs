//! The entries that are added to each kind of child. Where the operator owns a list or map as a whole the
//! entry goes again; where it owns its own entries alone the entry stays.
//! The pods' template is the operator's as a whole: no entry stays there.

use serde_json::{Value, json};

/// A text that each added entry has.
pub(super) const THEIRS: &str = "e2e-theirs";

/// An entry that is added.
pub(super) struct Addition {
    /// The entry, in words.
    pub(super) name: &'static str,
    /// A JSON patch.
    pub(super) patch: Value,
    /// The strategic merge patch that takes the entry away; absent: it does not stay.
    pub(super) undo: Option<Value>,
}

/// The entries that are added to a child of this kind.
pub(super) fn additions(kind: &str) -> Vec<Addition> {
    let add = |path: &str, value: Value| json!([{"op": "add", "path": path, "value": value}]);
    let goes = |name, patch| Addition { name, patch, undo: None };
    let stays = |name, patch, undo| Addition { name, patch, undo: Some(undo) };
    let label = |map: &str| add(&format!("{map}/{THEIRS}"), json!("1"));
    match kind {
        "secret" | "configmap" => {
            let undo = json!({"data": {THEIRS: null}});
            vec![stays("a key", add(&format!("/data/{THEIRS}"), json!("b3RoZXI=")), undo)]
        }
        "serviceaccount" => {
            let undo = json!({"imagePullSecrets": [{"name": THEIRS, "$patch": "delete"}]});
            vec![stays("a pull Secret", add("/imagePullSecrets", json!([{"name": THEIRS}])), undo)]
        }
        "service" => {
            let port = json!({"name": THEIRS, "port": 9999, "targetPort": 9999, "protocol": "TCP"});
            let undo = json!({"spec": {"ports": [{"port": 9999, "$patch": "delete"}]}});
            vec![
                stays("a port", add("/spec/ports/-", port), undo),
                goes("a label of the selector", label("/spec/selector")),
            ]
        }
        "networkpolicy" => {
            let rule = json!({"from": [{"podSelector": {"matchLabels": {THEIRS: "1"}}}]});
            vec![
                goes("a rule", add("/spec/ingress/-", rule)),
                goes("a label of the selector", label("/spec/podSelector/matchLabels")),
            ]
        }
        "poddisruptionbudget" => {
            let other_bound = json!([
                {"op": "remove", "path": "/spec/maxUnavailable"},
                {"op": "add", "path": "/spec/minAvailable", "value": 3},
            ]);
            vec![
                goes("a label of the selector", label("/spec/selector/matchLabels")),
                goes("another bound", other_bound),
            ]
        }
        "statefulset" => {
            let pod = "/spec/template/spec";
            let container = json!({"name": THEIRS, "image": "cannot-be-pulled.invalid/theirs:1"});
            let variable = json!({"name": "THEIRS", "value": THEIRS});
            let volume = json!({"name": THEIRS, "emptyDir": {}});
            vec![
                goes("an argument", add(&format!("{pod}/containers/0/args/-"), json!(THEIRS))),
                goes("a container that cannot start", add(&format!("{pod}/containers/-"), container)),
                goes("a variable", add(&format!("{pod}/containers/0/env/-"), variable)),
                goes("a volume", add(&format!("{pod}/volumes/-"), volume)),
                goes("a label of the pods", label("/spec/template/metadata/labels")),
                goes("an annotation of the pods", label("/spec/template/metadata/annotations")),
            ]
        }
        _ => vec![],
    }
}

/// Whether an object has an added entry.
pub(super) fn has_addition(object: &Value) -> bool {
    let mut object = object.clone();
    // Labels and annotations of others are there all the time.
    object["metadata"] = Value::Null;
    object["status"] = Value::Null;
    object.to_string().contains(THEIRS) || object.pointer("/spec/minAvailable").is_some()
}
