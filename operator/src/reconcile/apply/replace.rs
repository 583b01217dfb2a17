//! Replaces a child that the API server refuses to merge. The values that the API server or the cloud gave it
//! stay: the addresses and node ports of a Service. The class of a load balancer cannot change: the Service
//! has none for a moment, and keeps the rest. A StatefulSet whose fixed fields differ is deleted
//! without its pods, and made again by the next reconcile, which takes them up by their labels.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::{DeleteParams, DynamicObject, PostParams, Preconditions, PropagationPolicy};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::patch::patch;
use crate::names::FIELD_MANAGER;
use crate::reconcile::children::Child;
use crate::reconcile::observe::{ChildOwner, owner_of};
use crate::reconcile::validate::ValidCluster;

/// Replaces a child, and returns it as it is then; nothing where it was deleted, to be made again. The
/// refusal of the merge is returned where the object may not be replaced.
pub(super) async fn replace(
    api: &Api<DynamicObject>,
    valid: &ValidCluster<'_>,
    child: &Child,
    refusal: kube::Error,
) -> Result<Option<DynamicObject>, kube::Error> {
    let Some(found) = api.get_opt(&child.name).await? else { return Err(refusal) };
    if owner_of(&found, valid.cluster(), valid.names()) != ChildOwner::Cluster {
        return Err(refusal);
    }
    let found_version = DeleteParams {
        preconditions: Some(Preconditions { uid: found.uid(), resource_version: found.resource_version() }),
        ..DeleteParams::default()
    };
    match put(api, child, &found).await {
        Err(kube::Error::Api(again)) if again.code == 422 => match child.resource.kind.as_str() {
            // A ConfigMap that is immutable cannot change at all.
            "ConfigMap" => {
                api.delete(&child.name, &found_version).await?;
                patch(api, child, false).await.map(Some)
            }
            "StatefulSet" if is_valid(api, child).await? => {
                // The refused replacement may have come after another one.
                let preconditions = Preconditions { uid: found.uid(), resource_version: None };
                let without_pods = DeleteParams {
                    propagation_policy: Some(PropagationPolicy::Orphan),
                    preconditions: Some(preconditions),
                    ..DeleteParams::default()
                };
                api.delete(&child.name, &without_pods).await?;
                Ok(None)
            }
            "Service" => {
                let changed = change_class(api, child, &found).await?;
                changed.map(Some).ok_or(kube::Error::Api(again))
            }
            _ => Err(kube::Error::Api(again)),
        },
        replaced => replaced.map(Some),
    }
}

/// Whether the API server would take a child if it were not there: the name that is taken is what it finds
/// last.
async fn is_valid(api: &Api<DynamicObject>, child: &Child) -> Result<bool, kube::Error> {
    let params = PostParams { dry_run: true, ..post_params() };
    would_take(api.create(&params, &object(&child.object)?).await)
}

/// Reads the answer to a dry run.
fn would_take(answer: Result<DynamicObject, kube::Error>) -> Result<bool, kube::Error> {
    match answer {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 422 => Ok(false),
        Err(error) => Err(error),
    }
}

/// Replaces a Service that is refused for the class of its load balancer, which cannot change while there is
/// one; nothing where it is refused for something else, too, which must not cost the load balancer: all but
/// the class, and then the class, are tried before.
async fn change_class(
    api: &Api<DynamicObject>,
    child: &Child,
    found: &DynamicObject,
) -> Result<Option<DynamicObject>, kube::Error> {
    // The refused replacement may have come after another one.
    let Some(there) = api.get_opt(&child.name).await?.filter(|there| there.uid() == found.uid()) else {
        return Ok(None);
    };
    let (asked, last) = (&child.object["spec"], &there.data["spec"]);
    let are_balanced = asked["type"] == "LoadBalancer" && last["type"] == "LoadBalancer";
    if !are_balanced || asked["loadBalancerClass"] == last["loadBalancerClass"] {
        return Ok(None);
    }
    let mut of_last_class = replacement(child, &there);
    of_last_class["spec"]["loadBalancerClass"] = last["loadBalancerClass"].clone();
    let mut fresh = child.clone();
    for port in fresh.object["spec"]["ports"].as_array_mut().into_iter().flatten() {
        // The Service that is there holds the node port.
        port.as_object_mut().and_then(|port| port.remove("nodePort"));
    }
    let dry_run = PostParams { dry_run: true, ..post_params() };
    if !would_take(api.replace(&child.name, &dry_run, &object(&of_last_class)?).await)?
        || !is_valid(api, &fresh).await?
    {
        return Ok(None);
    }
    let between = object(&without_class(child, &there))?;
    let between = api.replace(&child.name, &post_params(), &between).await?;
    put(api, child, &between).await.map(Some)
}

/// The Service without its load balancer, which gives the class up. Its address within the Kubernetes cluster
/// and its ports of hosts stay. A crash after it leaves a Service that the next apply can merge.
fn without_class(child: &Child, found: &DynamicObject) -> Value {
    let mut internal = child.clone();
    internal.object["spec"]["type"] = json!("NodePort");
    let mut object = replacement(&internal, found);
    if let Some(spec) = object["spec"].as_object_mut() {
        for field in ["loadBalancerClass", "loadBalancerSourceRanges", "healthCheckNodePort"] {
            spec.remove(field);
        }
    }
    object
}

async fn put(
    api: &Api<DynamicObject>,
    child: &Child,
    found: &DynamicObject,
) -> Result<DynamicObject, kube::Error> {
    let mut replaced = api.replace(&child.name, &post_params(), &object(&replacement(child, found))?).await?;
    // A replacement makes the operator the owner of every field a second time, beside what it applies. A
    // field that it later leaves out would stay for that: the second ownership is given up.
    let is_second = |entry: &ManagedFieldsEntry| {
        entry.manager.as_deref() == Some(FIELD_MANAGER) && entry.operation.as_deref() == Some("Update")
    };
    let owners = replaced.metadata.managed_fields.as_mut();
    if owners.is_some_and(|owners| {
        owners.retain(|entry| !is_second(entry));
        !owners.is_empty()
    }) {
        api.replace(&child.name, &post_params(), &replaced).await?;
    }
    patch(api, child, true).await
}

fn post_params() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

fn object(value: &Value) -> Result<DynamicObject, kube::Error> {
    serde_json::from_value(value.clone()).map_err(kube::Error::SerdeError)
}

/// The child as built, with the metadata of the object that is there, and with what it cannot lose.
fn replacement(child: &Child, found: &DynamicObject) -> Value {
    let mut object = child.object.clone();
    let mut metadata = json!(found.metadata);
    for (field, built) in child.object["metadata"].as_object().into_iter().flatten() {
        match (metadata[field].as_object_mut(), built.as_object()) {
            (Some(there), Some(built)) => there.extend(built.clone()),
            _ => metadata[field] = built.clone(),
        }
    }
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.remove("managedFields");
    }
    object["metadata"] = metadata;
    if child.resource.kind == "Service" {
        keep_addresses(&mut object["spec"], &found.data["spec"]);
    }
    object
}

/// Keeps the addresses and ports that were given to a Service: clients and load balancers use them.
fn keep_addresses(spec: &mut Value, found: &Value) {
    let is_internal = spec["type"].as_str().unwrap_or("ClusterIP") == "ClusterIP";
    let mut kept = vec!["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"];
    if !is_internal {
        kept.extend(["externalTrafficPolicy", "healthCheckNodePort", "loadBalancerClass"]);
    }
    for field in kept {
        if spec[field].is_null() && !found[field].is_null() {
            spec[field] = found[field].clone();
        }
    }
    if is_internal {
        return;
    }
    let found_ports = found["ports"].as_array().cloned().unwrap_or_default();
    for port in spec["ports"].as_array_mut().into_iter().flatten() {
        let same = |other: &&Value| other["name"] == port["name"] || other["port"] == port["port"];
        if let Some(given) = found_ports.iter().find(same).map(|found| &found["nodePort"])
            && !given.is_null()
            && port["nodePort"].is_null()
        {
            port["nodePort"] = given.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Service;
    use kube::api::ApiResource;

    use super::*;

    fn service(spec: &Value) -> Child {
        let object = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "demo-s3", "labels": {"ours": "1"}},
            "spec": spec,
        });
        Child { resource: ApiResource::erase::<Service>(&()), name: "demo-s3".to_owned(), object }
    }

    fn found(spec: &Value) -> DynamicObject {
        let found = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": "demo-s3", "uid": "u", "resourceVersion": "7", "labels": {"ours": "2", "theirs": "3"},
                "managedFields": [{"manager": "kubectl"}],
            },
            "spec": spec,
            "status": {"loadBalancer": {}},
        });
        serde_json::from_value(found).expect("an object")
    }

    #[test]
    fn a_node_port_that_is_asked_for_stays() {
        let ours = json!({"type": "NodePort", "ports": [{"name": "s3", "port": 9000, "nodePort": 30090}]});
        let theirs = json!({"type": "NodePort", "ports": [{"name": "s3", "port": 80, "nodePort": 30080}]});
        let replaced = replacement(&service(&ours), &found(&theirs));
        assert_eq!(replaced["spec"]["ports"], ours["ports"]);
    }

    #[test]
    fn a_service_is_replaced_with_its_addresses() {
        let ours = json!({"type": "NodePort", "ports": [{"name": "s3", "port": 9000}]});
        let theirs = json!({
            "type": "NodePort", "clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"], "sessionAffinity": "ClientIP",
            "externalTrafficPolicy": "Local", "ports": [{"name": "s3", "port": 80, "nodePort": 30080}],
        });
        let replaced = replacement(&service(&ours), &found(&theirs));
        assert_eq!(
            replaced["spec"],
            json!({
                "type": "NodePort", "clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"],
                "externalTrafficPolicy": "Local", "ports": [{"name": "s3", "port": 9000, "nodePort": 30080}],
            })
        );
        assert_eq!(replaced["metadata"]["labels"], json!({"ours": "1", "theirs": "3"}));
        assert_eq!(replaced["metadata"]["resourceVersion"], "7");
        assert!(replaced["metadata"]["managedFields"].is_null());
    }

    /// A port of the hosts, or a policy of a load balancer, is refused at a Service within the cluster.
    #[test]
    fn an_internal_service_is_replaced_without_node_ports() {
        let ours = json!({"type": "ClusterIP", "ports": [{"name": "s3", "port": 9000}]});
        let theirs = json!({
            "type": "NodePort", "clusterIP": "10.0.0.7", "externalTrafficPolicy": "Local",
            "ports": [{"name": "s3", "port": 9000, "nodePort": 30080}],
        });
        let replaced = replacement(&service(&ours), &found(&theirs));
        assert_eq!(
            replaced["spec"],
            json!({"type": "ClusterIP", "clusterIP": "10.0.0.7", "ports": [{"name": "s3", "port": 9000}]})
        );
    }
}
