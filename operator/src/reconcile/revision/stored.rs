//! A template that the StatefulSet had before: as it still has it, or as Kubernetes keeps it in a
//! ControllerRevision. It takes the place of the one that was built, and the configuration that it mounts
//! stays a child.

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client, Resource as _};
use serde_json::{Value, json};

use crate::names::Names;
use crate::reconcile::children::{Child, title};
use crate::reconcile::error::ReconcileError;
use crate::reconcile::observe::{ChildOwner, ObservedCluster, owner_of};
use crate::reconcile::validate::ValidCluster;

/// Puts the template of a revision into the StatefulSet, and its configuration in place of the one that was
/// built. Where one of both is gone, the children stay as built, and the inner error says which, for people.
///
/// # Errors
/// [`ReconcileError::Api`] when they cannot be read.
pub(super) async fn put(
    client: &Client,
    valid: &ValidCluster<'_>,
    observed: &ObservedCluster,
    revision: &str,
    children: &mut [Child],
) -> Result<Result<(), String>, ReconcileError> {
    let Some(template) = read(client, valid, observed, revision, children).await? else {
        return Ok(Err(format!("ControllerRevision {revision} with the template of the pods is gone")));
    };
    if let Some(name) = configuration(valid.names(), &template)
        && !children.iter().any(|child| child.is::<ConfigMap>() && child.name == name)
    {
        let Some(found) = find(client, valid, observed, &name).await? else {
            return Ok(Err(format!("ConfigMap {name} that the template of the pods mounts is gone")));
        };
        if let Some(child) = children.iter_mut().find(|child| child.is::<ConfigMap>()) {
            keep(child, name, &found);
        }
    }
    if let Some(set) = children.iter_mut().find(|child| child.is::<StatefulSet>()) {
        set.object["spec"]["template"] = template;
    }
    Ok(Ok(()))
}

/// Reads the template of a revision: of the StatefulSet where that is its revision, which costs no request.
async fn read(
    client: &Client,
    valid: &ValidCluster<'_>,
    observed: &ObservedCluster,
    revision: &str,
    children: &[Child],
) -> Result<Option<Value>, ReconcileError> {
    let set = children.iter().find(|child| child.is::<StatefulSet>());
    let there = set.and_then(|set| observed.children.get(&set.title()));
    if let Some(there) = there.filter(|_| observed.target() == Some(revision)) {
        return Ok(normal(there.data["spec"]["template"].clone()));
    }
    let api: Api<ControllerRevision> = Api::namespaced(client.clone(), &valid.names().namespace);
    let found = api.get_opt(revision).await;
    let failed = |source| ReconcileError::api("read", ControllerRevision::kind(&()), revision, source);
    Ok(found.map_err(failed)?.and_then(|revision| revision.data).and_then(|data| of_revision(data.0)))
}

/// The template in a revision's data, which is a patch of the StatefulSet.
fn of_revision(mut data: Value) -> Option<Value> {
    normal(data.get_mut("spec")?.get_mut("template")?.take())
}

fn normal(mut template: Value) -> Option<Value> {
    let fields = template.as_object_mut()?;
    fields.remove("$patch");
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|_, value| !value.is_null());
    }
    fields.contains_key("spec").then_some(template)
}

/// The ConfigMap of the cluster that a template mounts.
fn configuration(names: &Names, template: &Value) -> Option<String> {
    let volumes = template["spec"]["volumes"].as_array()?;
    let mut mounted = volumes.iter().filter_map(|volume| volume["configMap"]["name"].as_str());
    mounted.find(|name| names.is_config(name)).map(str::to_owned)
}

/// Finds a configuration of the cluster, also one whose labels a person took.
async fn find(
    client: &Client,
    valid: &ValidCluster<'_>,
    observed: &ObservedCluster,
    name: &str,
) -> Result<Option<Value>, ReconcileError> {
    let resource = ApiResource::erase::<ConfigMap>(&());
    if let Some(found) = observed.children.get(&title(&resource, name)) {
        return Ok(Some(found.data.clone()));
    }
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &valid.names().namespace, &resource);
    let found = api.get_opt(name).await;
    let found = found.map_err(|source| ReconcileError::api("read", "ConfigMap".into(), name, source))?;
    let is_own =
        |found: &DynamicObject| owner_of(found, valid.cluster(), valid.names()) == ChildOwner::Cluster;
    Ok(found.filter(is_own).map(|found| found.data))
}

/// Makes a configuration that is there the child in place of the one that was built.
fn keep(child: &mut Child, name: String, found: &Value) {
    child.object["metadata"]["name"] = json!(name);
    child.name = name;
    if let Some(fields) = child.object.as_object_mut() {
        for field in ["data", "immutable"] {
            match &found[field] {
                Value::Null => drop(fields.remove(field)),
                kept => drop(fields.insert(field.to_owned(), kept.clone())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revisions_patch_is_read_as_a_template() {
        let data = json!({"spec": {"template": {
            "$patch": "replace",
            "metadata": {"creationTimestamp": null, "labels": {"a": "b"}},
            "spec": {"containers": []},
        }}});
        let template = of_revision(data).expect("a template");
        assert_eq!(template, json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}}));
        assert_eq!(of_revision(json!({"spec": {"template": {"$patch": "replace"}}})), None);
        assert_eq!(of_revision(json!({})), None);
    }
}
