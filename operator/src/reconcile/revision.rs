//! The template of a pool's pods: its digest as it is built, and the last one that worked, which Kubernetes
//! keeps as a ControllerRevision of the StatefulSet and which takes the place of one that failed.

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use kube::{Api, Client, Resource as _};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::children::{AppliedChildren, Child};
use super::error::ReconcileError;
use super::observe::ObservedCluster;
use super::validate::ValidCluster;
use crate::api::RolloutStatus;
use crate::names::Names;

/// Returns the digest of the template that the built StatefulSet has.
pub(super) fn built_template(children: &[Child]) -> Option<String> {
    let template =
        children.iter().find(|child| is_stateful_set(child))?.object["spec"]["template"].to_string();
    Some(hex::encode(Sha256::digest(template)).chars().take(16).collect())
}

/// Whether the last template that worked is the one that is asked for: until then the configuration that it
/// names is kept.
pub(super) fn is_settled(valid: &ValidCluster<'_>) -> bool {
    let status = valid.cluster().status.as_ref().and_then(|status| status.rollout.as_ref());
    let is_good =
        |rollout: &RolloutStatus| rollout.last_good.is_none() || rollout.last_good == rollout.revision;
    status.is_none_or(|rollout| rollout.failed.is_none() && is_good(rollout))
}

/// Puts the last template that worked into the built StatefulSet, where the one that was built is known to
/// have failed. Without a record of it, or when Kubernetes has it no more, the built one stays.
///
/// # Errors
/// [`ReconcileError::Api`] when the revision cannot be read.
pub(super) async fn put_back(
    client: &Client,
    valid: &ValidCluster<'_>,
    built: &str,
    children: &mut [Child],
) -> Result<(), ReconcileError> {
    let status = valid.cluster().status.as_ref().and_then(|status| status.rollout.as_ref());
    let Some(RolloutStatus { failed: Some(failed), last_good: Some(good), .. }) = status else {
        return Ok(());
    };
    if failed.template != built {
        return Ok(());
    }
    let api: Api<ControllerRevision> = Api::namespaced(client.clone(), &valid.names().namespace);
    let found = api.get_opt(good).await;
    let found =
        found.map_err(|source| ReconcileError::api("read", ControllerRevision::kind(&()), good, source))?;
    let template = found.and_then(|revision| revision.data).and_then(|data| stored_template(data.0));
    let set = children.iter_mut().find(|child| is_stateful_set(child));
    if let (Some(set), Some(template)) = (set, template) {
        set.object["spec"]["template"] = template;
    } else {
        tracing::warn!(revision = good, "the last template that worked is not there");
    }
    Ok(())
}

/// Whether the StatefulSet that was observed is the one that was built, after the apply: only then is its
/// revision that of the built template.
pub(super) fn is_in_place(
    names: &Names,
    children: &[Child],
    observed: &ObservedCluster,
    applied: &AppliedChildren,
) -> bool {
    let Some(built) = children.iter().find(|child| is_stateful_set(child)) else { return false };
    let found = observed.children.get(&built.title());
    found.is_some_and(|found| applied.is_in_place(names, built, found))
}

/// The template in a revision's data, which is a patch of the StatefulSet.
fn stored_template(mut data: Value) -> Option<Value> {
    let mut template = data.get_mut("spec")?.get_mut("template")?.take();
    let fields = template.as_object_mut()?;
    fields.remove("$patch");
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|_, value| !value.is_null());
    }
    fields.contains_key("spec").then_some(template)
}

fn is_stateful_set(child: &Child) -> bool {
    child.resource.kind == StatefulSet::kind(&())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_revisions_patch_is_read_as_a_template() {
        let data = json!({"spec": {"template": {
            "$patch": "replace",
            "metadata": {"creationTimestamp": null, "labels": {"a": "b"}},
            "spec": {"containers": []},
        }}});
        let template = stored_template(data).expect("a template");
        assert_eq!(template, json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}}));
        assert_eq!(stored_template(json!({"spec": {"template": {"$patch": "replace"}}})), None);
        assert_eq!(stored_template(json!({})), None);
    }
}
