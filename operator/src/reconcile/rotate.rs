//! The step of a replacement of the CA, at the end of a reconcile that made everything true: it writes the
//! next record, and the next reconcile follows from it. The copy is written before the CA's Secret.

use std::time::Duration;

use kube::{Client, ResourceExt};
use serde_json::json;
use sherd_trust::Authority;

use super::apply;
use super::build;
use super::children::AppliedChildren;
use super::error::{MaterialError, ReconcileError};
use super::material::Material;
use super::nodes::NodeAnswers;
use super::observe::ObservedCluster;
use super::plan::Plan;
use super::recovery::RememberedSecrets;
use super::validate::ValidCluster;
use crate::names::Names;
use crate::rotation::{
    AcceptedAuthority, AuthorityRecord, KeyedAuthority, RotationInput, RotationState, RotationStep,
    named_key, next_step,
};

/// The means to write a record, and what is remembered of it.
#[derive(Clone, Copy)]
pub(super) struct RecordWriter<'a> {
    pub(super) client: &'a Client,
    pub(super) children: &'a AppliedChildren,
    pub(super) remembered: &'a RememberedSecrets,
}

/// The CAs of a cluster, and everything that their record is built of, after an apply.
#[derive(Debug)]
pub(super) struct AppliedAuthority {
    pub(super) plan: Plan,
    pub(super) material: Material,
    pub(super) accepted: AcceptedAuthority,
}

/// The step of a replacement, as it was planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedRotation {
    /// The step.
    pub step: RotationStep,
    /// The digest of the CA's key that the status is to name.
    pub named_key: Option<String>,
}

impl AppliedAuthority {
    pub(super) fn plan_step(
        &self,
        valid: &ValidCluster<'_>,
        observed: &ObservedCluster,
        answers: &NodeAnswers,
        now: Duration,
    ) -> PlannedRotation {
        let input = RotationInput {
            accepted: &self.accepted,
            is_copied: observed.has_copy && observed.recovery.as_ref() == Some(&self.material.recovery()),
            request: self.plan.rotation_request.as_deref(),
            pods: &self.plan.pods,
            answers,
            now_s: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
        };
        let last = valid.cluster().status.as_ref().and_then(|status| status.authority_key.as_deref());
        PlannedRotation { step: next_step(&input), named_key: named_key(&input, last) }
    }

    /// Writes the record of a step, where there is one.
    ///
    /// # Errors
    /// [`ReconcileError`] when the CA cannot be made, or a Secret not be written: the step is taken again.
    pub(super) async fn take_step(
        self,
        writer: &RecordWriter<'_>,
        valid: &ValidCluster<'_>,
        observed: &ObservedCluster,
        step: RotationStep,
        now: Duration,
    ) -> Result<(), ReconcileError> {
        let record = match step {
            RotationStep::Rest(_) | RotationStep::Wait(_) => return Ok(()),
            RotationStep::Record(record) => record,
            RotationStep::MakeNext(current) => {
                let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
                let next = Authority::init(self.accepted.record.cluster, now_ms);
                let next = KeyedAuthority::of(&next.map_err(MaterialError::Authority)?);
                let request = self.plan.rotation_request.as_deref();
                self.accepted.record.introducing(current, next, request)
            }
        };
        let Names { cluster, namespace } = valid.names();
        let step = words(&record);
        tracing::info!(cluster, namespace, step, "the CA is replaced");
        let material = Material { authority: record, ..self.material };
        let kept = build::authorities(valid, &self.plan, &material);
        let RecordWriter { client, children, remembered } = writer;
        for mut child in kept {
            // Over no record but the one that the step follows from. An operator that was suspended while
            // another one led would end the only copy of a later CA's key.
            let there = observed.children.get(&child.title()).and_then(|there| there.resource_version());
            let Some(version) = there else { return Ok(()) };
            child.object["metadata"]["resourceVersion"] = json!(version);
            match apply::apply_child(client, valid, &child, observed, children).await {
                Err(error) if error.category() == "conflict" => return Ok(()),
                applied => drop(applied?),
            }
        }
        remembered.insert(valid.names(), valid.cluster().metadata.uid.clone(), material.recovery());
        Ok(())
    }
}

/// A record in words, for conditions and the log.
pub(super) fn words(record: &AuthorityRecord) -> &'static str {
    match record.state {
        RotationState::Steady { .. } => "the new CA alone is trusted",
        RotationState::Introducing { .. } => "step 1 of 2, every node is to trust both CAs",
        RotationState::Lost { .. } => "step 1 of 2 after the loss of the CA, every node is to trust both",
        RotationState::Switched { .. } => "step 2 of 2, every node is to show a certificate of the new CA",
    }
}
