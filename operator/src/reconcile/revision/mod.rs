//! The template of a pool's pods: which one the StatefulSet gets. It is the one that is built now, or one
//! that the StatefulSet had before, which Kubernetes keeps as a ControllerRevision:
//!
//! ```text
//!   the one that is asked for failed before                the last one that worked
//!   recorded for the same inputs, and built otherwise now  the recorded one
//!   else                                                   the one that is built
//! ```
//!
//! So an operator of another version, which builds pods otherwise, restarts no cluster before its inputs
//! change or `spec.upgrade.followOperator` asks for it. An edit of a person's is put back in every case. The
//! revisions that differ by such edits alone, or by those of an admission policy, are equal: no ready pod is
//! replaced for the difference.

mod inputs;
mod stored;
mod additions;

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt as _};
use serde_json::Value;

use inputs::InputDigests;

use super::apply::{self, ChildChange};
use super::children::{AppliedChildren, Child};
use super::error::ReconcileError;
use super::material::Material;
use super::observe::ObservedCluster;
use super::plan::Plan;
use super::validate::ValidCluster;
use crate::api::{RecordedTemplate, RolloutStatus};
use crate::names::{self, CERTIFICATES_ANNOTATION, Names, REVISION_LABEL};

/// The template that the StatefulSet is to have.
#[derive(Debug, Clone)]
pub(super) struct AskedTemplate {
    /// Digest of the template that is asked for, as it was built; also while another one stands in for it.
    pub(super) digest: String,
    /// Digests of what it was built of.
    inputs: InputDigests,
    pub(super) origin: TemplateOrigin,
    /// The template that is recorded.
    recorded: Option<RecordedTemplate>,
    /// The stored template that should have been taken and is gone, in words.
    pub(super) lost: Option<String>,
    /// Whether the template that is recorded as failed is the one that is there and worked: others had
    /// changed it while it failed.
    pub(super) is_failure_over: bool,
    /// The entries that others added to the template that was observed, as paths: those that were just put
    /// back, or those that an admission policy adds each time.
    pub(super) additions: Vec<String>,
    /// Whether the StatefulSet that was observed has it. Else its revision is that of another template: of
    /// the last specification, or of a person's edit that was just put back.
    pub(super) is_in_place: bool,
}

/// Where a template comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TemplateOrigin {
    /// This operator built it.
    Built,
    /// The StatefulSet had it for the same inputs, and this operator builds another one.
    Recorded,
    /// The template worked, and stands in for one that failed.
    LastGood,
}

impl AskedTemplate {
    /// The recorded revision, where it differs from this one by what others changed alone: both are of one
    /// template, of the same inputs.
    pub(super) fn equal(&self, revision: &str) -> Option<&str> {
        let recorded = self.recorded.as_ref().filter(|recorded| recorded.revision != revision)?;
        let is_equal = match self.origin {
            TemplateOrigin::Built => self.inputs.are_of(recorded) && recorded.template == self.digest,
            TemplateOrigin::Recorded => true,
            TemplateOrigin::LastGood => false,
        };
        is_equal.then_some(recorded.revision.as_str())
    }

    /// The record once the StatefulSet's controller has given the template this revision. One that is as good
    /// stays recorded while a pod runs it.
    pub(super) fn recorded(
        &self,
        revision: Option<&str>,
        observed: &ObservedCluster,
    ) -> Option<RecordedTemplate> {
        let recorded = self.recorded.clone();
        let Some(revision) = revision.filter(|_| self.is_in_place) else { return recorded };
        let is_run = |equal: &&str| observed.pods.iter().any(|pod| runs(pod, equal));
        let revision = self.equal(revision).filter(is_run).unwrap_or(revision).to_owned();
        let InputDigests { all: inputs, fixed: fixed_inputs } = self.inputs.clone();
        match self.origin {
            TemplateOrigin::Built => {
                Some(RecordedTemplate { inputs, fixed_inputs, template: self.digest.clone(), revision })
            }
            TemplateOrigin::Recorded => {
                recorded.map(|recorded| RecordedTemplate { inputs, revision, ..recorded })
            }
            TemplateOrigin::LastGood => recorded,
        }
    }

    /// Whether the template is the last one that worked: until then the configuration of that one is kept.
    pub(super) fn is_settled(&self, valid: &ValidCluster<'_>, observed: &ObservedCluster) -> bool {
        let status = status_of(valid);
        let last_good = status.and_then(|rollout| rollout.last_good.as_deref());
        let has_failed = status.is_some_and(|rollout| rollout.failed.is_some());
        self.is_in_place && !has_failed && last_good.is_none_or(|good| observed.target() == Some(good))
    }
}

/// Decides which template the StatefulSet gets, and puts it into the children with the configuration that it
/// mounts. Without a StatefulSet there is nothing to decide.
///
/// # Errors
/// [`ReconcileError::Api`] when a stored template cannot be read.
pub(super) async fn choose(
    client: &Client,
    valid: &ValidCluster<'_>,
    observed: &ObservedCluster,
    (plan, material): (&Plan, &Material),
    children: &mut [Child],
) -> Result<Option<AskedTemplate>, ReconcileError> {
    let Some(set) = children.iter_mut().find(|child| child.is::<StatefulSet>()) else { return Ok(None) };
    keep_claims_metadata(set, observed);
    let built = digest_of_template(&set.object["spec"]["template"]);
    let inputs = inputs::digests(valid.cluster(), plan, material);
    let recorded = status_of(valid).and_then(|rollout| rollout.recorded.clone());
    let (mut asked, mut revision) = decide(valid, inputs, built.clone(), recorded);
    if asked.origin == TemplateOrigin::LastGood
        && asked.digest == built
        && observed.target() == revision.as_deref()
        && is_there(client, valid, observed, set).await?
    {
        revision = None;
        asked = AskedTemplate { origin: TemplateOrigin::Built, is_failure_over: true, ..asked };
    }
    if let Some(revision) = revision
        && let Err(lost) = stored::put(client, valid, observed, &revision, children).await?
    {
        tracing::warn!(revision, "{lost}");
        let (origin, lost) = (TemplateOrigin::Built, Some(lost));
        asked = AskedTemplate { digest: built, origin, lost, ..asked };
    }
    Ok(Some(asked))
}

/// The template that is asked for, and the stored revision of the one that is to be applied.
fn decide(
    valid: &ValidCluster<'_>,
    inputs: InputDigests,
    built: String,
    recorded: Option<RecordedTemplate>,
) -> (AskedTemplate, Option<String>) {
    let follows = valid.cluster().spec.upgrade.follow_operator;
    let is_kept =
        |recorded: &&RecordedTemplate| inputs.are_of(recorded) && recorded.template != built && !follows;
    let kept = recorded.as_ref().filter(is_kept).cloned();
    let digest = kept.as_ref().map_or(built, |kept| kept.template.clone());
    let last_good = status_of(valid)
        .filter(|rollout| rollout.failed.as_ref().is_some_and(|failed| failed.template == digest))
        .and_then(|rollout| rollout.last_good.clone());
    let (origin, revision) = match (last_good, kept) {
        (Some(good), _) => (TemplateOrigin::LastGood, Some(good)),
        (None, Some(kept)) => (TemplateOrigin::Recorded, Some(kept.revision)),
        (None, None) => (TemplateOrigin::Built, None),
    };
    let asked = AskedTemplate {
        digest,
        inputs,
        origin,
        recorded,
        lost: None,
        is_failure_over: false,
        additions: vec![],
        is_in_place: false,
    };
    (asked, revision)
}

/// Whether the StatefulSet that was observed has the template of this one, but for what others changed in
/// fields that the operator does not set.
async fn is_there(
    client: &Client,
    valid: &ValidCluster<'_>,
    observed: &ObservedCluster,
    built: &Child,
) -> Result<bool, ReconcileError> {
    let Some(there) = observed.children.get(&built.title()) else { return Ok(false) };
    // Claim templates cannot change: with other ones the API server would refuse to try.
    let mut built = built.clone();
    let claims = &there.data["spec"]["volumeClaimTemplates"];
    if !claims.is_null() {
        built.object["spec"]["volumeClaimTemplates"] = claims.clone();
    }
    let applied = apply::would_be(client, valid, &built).await?;
    Ok(applied.is_some_and(|applied| applied.data["spec"]["template"] == there.data["spec"]["template"]))
}

fn runs(pod: &Pod, revision: &str) -> bool {
    pod.labels().get(REVISION_LABEL).is_some_and(|found| found == revision)
}

/// The digest of a template. Renewed certificates alone make no other one: a template that failed would be
/// tried again each time.
fn digest_of_template(template: &Value) -> String {
    let mut template = template.clone();
    if let Some(annotations) = template["metadata"]["annotations"].as_object_mut() {
        annotations.remove(CERTIFICATES_ANNOTATION);
    }
    inputs::digest_of(&template)
}

/// Takes labels and annotations of the claim templates from the StatefulSet that is there: they cannot
/// change, and a StatefulSet is not made again for them. A claim of another cluster's id is.
fn keep_claims_metadata(set: &mut Child, observed: &ObservedCluster) {
    let Some(there) = observed.children.get(&set.title()) else { return };
    let there = there.data["spec"]["volumeClaimTemplates"].as_array().cloned().unwrap_or_default();
    let there: BTreeMap<&str, &Value> = there
        .iter()
        .filter_map(|claim| Some((claim["metadata"]["name"].as_str()?, &claim["metadata"])))
        .collect();
    let claims = set.object["spec"]["volumeClaimTemplates"].as_array_mut();
    for metadata in claims.into_iter().flatten().filter_map(|claim| claim.get_mut("metadata")) {
        let id = |metadata: &Value| metadata["labels"][names::CLUSTER_ID_LABEL].clone();
        let found = metadata["name"].as_str().and_then(|name| there.get(name));
        let Some(found) = found.filter(|found| id(found) == id(metadata)) else { continue };
        let Some(fields) = metadata.as_object_mut() else { continue };
        for field in ["labels", "annotations"] {
            match &found[field] {
                Value::Null => drop(fields.remove(field)),
                kept => drop(fields.insert(field.to_owned(), kept.clone())),
            }
        }
    }
}

/// Notes, after the apply, whether the StatefulSet has the template, and the entries of others in the one
/// that was observed. Returns what the loss of a stored template changed.
pub(super) fn settle(
    template: &mut AskedTemplate,
    names: &Names,
    children: &[Child],
    observed: &ObservedCluster,
    (applied, changes): (&AppliedChildren, &[(String, ChildChange)]),
) -> Option<(String, ChildChange)> {
    let asked = children.iter().find(|child| child.is::<StatefulSet>())?;
    let (title, found) = (asked.title(), observed.children.get(&asked.title()));
    template.is_in_place = found.is_some_and(|found| applied.is_in_place(names, asked, found));
    let is_put_back = changes.contains(&(title.clone(), ChildChange::PutBack));
    if let Some(found) = found.filter(|_| template.is_in_place || is_put_back) {
        let template_of = |set: &Value| set["spec"]["template"].clone();
        template.additions = additions::find(&template_of(&asked.object), &template_of(&found.data));
    }
    template.lost.as_ref().map(|_| (title, ChildChange::TemplateLost))
}

fn status_of<'a>(valid: &ValidCluster<'a>) -> Option<&'a RolloutStatus> {
    valid.cluster().status.as_ref()?.rollout.as_ref()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_template_with_renewed_certificates_is_the_same_template() {
        let template = |certificates: &str, config: &str| {
            let annotations =
                json!({CERTIFICATES_ANNOTATION: certificates, names::CONFIG_ANNOTATION: config});
            digest_of_template(&json!({"metadata": {"annotations": annotations}, "spec": {}}))
        };
        assert_eq!(template("renewed", "config"), template("first", "config"));
        assert_ne!(template("first", "other"), template("first", "config"));
    }
}
