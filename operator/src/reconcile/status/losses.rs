//! Losses in the report: the volumes by name, and the reasons of `Ready` and `Degraded` where data is lost or
//! at risk.

use sherd_proto::v1::StatusReply;

use crate::api::{Reason, StorageCluster, VolumeLoss, VolumeOrderRecord};
use crate::limits;
use crate::reconcile::losses::{self, FoundLoss, LossVerdict};
use crate::reconcile::nodes::NodeAnswers;
use crate::reconcile::observe::ObservedCluster;
use crate::reconcile::validate::validate;

/// The losses of a cluster and what they mean.
pub(super) struct LossReport {
    found: Vec<FoundLoss>,
    verdict: Option<LossVerdict>,
}

impl LossReport {
    /// Finds and judges the losses of a cluster; one that is invalid has none, and without a view of a node
    /// none is judged.
    pub(super) fn new(
        cluster: &StorageCluster,
        observed: &ObservedCluster,
        answers: &NodeAnswers,
        view: Option<&StatusReply>,
    ) -> Self {
        let valid = validate(cluster).ok();
        let found = valid.map(|valid| losses::find(&valid, observed, answers)).unwrap_or_default();
        let verdict = view.and_then(|view| losses::judge(&found, view));
        Self { found, verdict }
    }

    /// The volumes, as the status lists them.
    pub(super) fn listed(&self) -> Vec<VolumeLoss> {
        self.found.iter().take(limits::VOLUME_LOSSES_MAX).map(|found| found.loss.clone()).collect()
    }

    /// The reason and message of `Ready`, where a set stands still until a person acts.
    pub(super) fn stands_still(&self) -> Option<(Reason, String)> {
        let verdict = self.verdict.as_ref().filter(|verdict| verdict.needs_person)?;
        Some((verdict.reason, verdict.message.clone()))
    }

    /// The reason and message of `Degraded`, where data is lost or at risk; with the last order about a
    /// volume, where that was refused.
    pub(super) fn degrades(&self, orders: &[VolumeOrderRecord]) -> Option<(Reason, String)> {
        let LossVerdict { reason, message, needs_person: _ } = self.verdict.as_ref()?;
        let refused = orders.last().filter(|last| !last.accepted);
        let refused = refused.map(|last| format!("; the order {} was refused: {}", last.order, last.message));
        Some((*reason, format!("{message}{}", refused.unwrap_or_default())))
    }
}
