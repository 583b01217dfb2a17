//! The inputs of a build, and the envelope that every child has: kind, name, namespace, labels and owner.

use std::collections::BTreeMap;

use kube::Resource;
use kube::api::ApiResource;
use serde_json::{Value, json};

use crate::names;
use crate::reconcile::children::Child;
use crate::reconcile::material::Material;
use crate::reconcile::plan::Plan;
use crate::reconcile::validate::ValidCluster;

pub(super) struct ChildParts<'a> {
    pub(super) valid: &'a ValidCluster<'a>,
    pub(super) plan: &'a Plan,
    pub(super) material: &'a Material,
}

impl ChildParts<'_> {
    /// A child that is garbage with its cluster.
    pub(super) fn owned<K: Resource<DynamicType = ()>>(&self, name: &str, body: Value) -> Child {
        owned::<K>(self.valid, name, body)
    }

    /// A child that outlives its cluster.
    pub(super) fn kept<K: Resource<DynamicType = ()>>(&self, name: &str, body: Value) -> Child {
        kept::<K>(self.valid, name, body)
    }

    pub(super) fn pool_labels(&self) -> BTreeMap<String, String> {
        let mut labels = self.valid.names().labels();
        labels.insert(names::POOL_LABEL.to_owned(), self.valid.pool().name.clone());
        labels
    }
}

/// A child that is garbage with its cluster.
pub(super) fn owned<K: Resource<DynamicType = ()>>(
    valid: &ValidCluster<'_>,
    name: &str,
    body: Value,
) -> Child {
    owned_as(valid, ApiResource::erase::<K>(&()), name, body)
}

/// A child that is garbage with its cluster, of a kind that this program has no type of.
pub(super) fn owned_as(valid: &ValidCluster<'_>, resource: ApiResource, name: &str, body: Value) -> Child {
    let mut child = child(valid, resource, name, &valid.names().labels(), body);
    if let Some(owner) = valid.cluster().controller_owner_ref(&()) {
        child.object["metadata"]["ownerReferences"] = json!([owner]);
    }
    child
}

fn kept<K: Resource<DynamicType = ()>>(valid: &ValidCluster<'_>, name: &str, body: Value) -> Child {
    let mut child = child(valid, ApiResource::erase::<K>(&()), name, &valid.names().kept_labels(), json!({}));
    child.object["metadata"]["annotations"] = json!(names::kept_annotations());
    merge(&mut child.object, body);
    child
}

fn child(
    valid: &ValidCluster<'_>,
    resource: ApiResource,
    name: &str,
    labels: &BTreeMap<String, String>,
    body: Value,
) -> Child {
    let mut object = json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": name,
            "namespace": valid.names().namespace,
            "labels": labels,
        },
    });
    merge(&mut object, body);
    Child { resource, name: name.to_owned(), object }
}

/// Lays one object over another, level by level.
fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}
