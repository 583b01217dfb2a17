//! The entries that others added to a template: containers, volumes, variables, labels and the like. Fields
//! that have a default do not count, since an API server adds them, too.

use serde_json::Value;

/// The fields that distinguish the entries of a list, the first that an entry has.
const KEYS: [&str; 4] = ["name", "mountPath", "containerPort", "key"];
/// Maps whose keys are a person's choice.
const MAPS: [&str; 3] = ["labels", "annotations", "nodeSelector"];

/// The entries of one template that another one lacks, as paths: `containers/proxy`, `annotations/restarted`.
pub(super) fn find(asked: &Value, there: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for part in ["metadata", "spec"] {
        compare(&asked[part], &there[part], "", &mut found);
    }
    found
}

fn compare(asked: &Value, there: &Value, path: &str, found: &mut Vec<String>) {
    let Some(fields) = there.as_object() else { return };
    for (field, there) in fields {
        let (asked, path) = (&asked[field.as_str()], format!("{path}{field}"));
        match there {
            Value::Array(entries) => compare_lists(asked, entries, &path, found),
            Value::Object(keys) if MAPS.contains(&field.as_str()) => {
                let added = keys.keys().filter(|key| asked[key.as_str()].is_null());
                found.extend(added.map(|key| format!("{path}/{key}")));
            }
            Value::Object(_) => compare(asked, there, &format!("{path}/"), found),
            _ => {}
        }
    }
}

fn compare_lists(asked: &Value, there: &[Value], path: &str, found: &mut Vec<String>) {
    for entry in there {
        let named = KEYS.into_iter().find_map(|key| Some((key, entry.get(key)?)));
        let Some((key, value)) = named else { continue };
        let of_same_name = |other: &&Value| other[key] == *value;
        let path = format!("{path}/{}", value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        match asked.as_array().and_then(|asked| asked.iter().find(of_same_name)) {
            Some(asked) => compare(asked, entry, &format!("{path}/"), found),
            None => found.push(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn entries_of_others_are_named_and_defaults_are_not() {
        let asked = json!({
            "metadata": {"labels": {"ours": "1"}},
            "spec": {
                "containers": [{"name": "node", "env": [{"name": "POD_NAME"}], "ports": [{"containerPort": 9000}]}],
                "volumes": [{"name": "config", "configMap": {"name": "demo"}}],
            },
        });
        assert_eq!(find(&asked, &asked), Vec::<String>::new());
        let there = json!({
            "metadata": {"labels": {"ours": "1", "theirs": "1"}, "annotations": {"restarted": "now"}},
            "spec": {
                "dnsPolicy": "ClusterFirst",
                "securityContext": {},
                "containers": [
                    {"name": "proxy", "image": "p", "ports": [{"containerPort": 1}]},
                    {
                        "name": "node", "terminationMessagePath": "/dev/termination-log",
                        "env": [{"name": "POD_NAME"}, {"name": "THEIRS"}],
                        "ports": [{"containerPort": 9000, "protocol": "TCP"}, {"containerPort": 9001}],
                        "volumeMounts": [{"name": "theirs", "mountPath": "/theirs"}],
                    },
                ],
                "volumes": [{"name": "config", "configMap": {"name": "demo", "defaultMode": 420}}],
                "initContainers": [{"name": "first"}],
            },
        });
        let named = [
            "annotations/restarted",
            "labels/theirs",
            "containers/proxy",
            "containers/node/env/THEIRS",
            "containers/node/ports/9001",
            "containers/node/volumeMounts/theirs",
            "initContainers/first",
        ];
        let mut found = find(&asked, &there);
        found.sort();
        let mut named = named.map(str::to_owned).to_vec();
        named.sort();
        assert_eq!(found, named);
    }
}
