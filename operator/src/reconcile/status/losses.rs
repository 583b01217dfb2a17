//! Losses in the report: the volumes by name, and the reasons of `Ready` and `Degraded` where data is lost or
//! at risk.

use kube::ResourceExt as _;
use sherd_core::id::ClusterId;
use sherd_proto::v1::StatusReply;

use crate::api::{Reason, StorageCluster, VolumeLoss, VolumeOrderRecord};
use crate::limits;
use crate::names::Names;
use crate::reconcile::formed::{LostCluster, find_lost};
use crate::reconcile::losses::{self, FoundLoss, LossVerdict};
use crate::reconcile::nodes::NodeAnswers;
use crate::reconcile::observe::ObservedCluster;
use crate::reconcile::validate::validate;

/// The losses of a cluster and what they mean.
pub(super) struct LossReport {
    found: Vec<FoundLoss>,
    verdict: Option<LossVerdict>,
    lost_cluster: Option<LostCluster>,
}

impl LossReport {
    /// Finds and judges the losses of a cluster; one that is invalid has none, and without a view of a node
    /// none is judged but that of the whole cluster of this id.
    pub(super) fn new(
        cluster: &StorageCluster,
        observed: &ObservedCluster,
        answers: &NodeAnswers,
        view: Option<&StatusReply>,
        id: Option<ClusterId>,
    ) -> Self {
        let names = Names::new(&cluster.name_any(), &cluster.namespace().unwrap_or_default());
        let lost_cluster = id.and_then(|id| find_lost(cluster, &names, observed, answers, id));
        let valid = validate(cluster).ok();
        let found = valid.map(|valid| losses::find(&valid, observed, answers)).unwrap_or_default();
        let verdict = view.and_then(|view| losses::judge(&found, view));
        Self { found, verdict, lost_cluster }
    }

    /// The volumes, as the status lists them.
    pub(super) fn listed(&self) -> Vec<VolumeLoss> {
        self.found.iter().take(limits::VOLUME_LOSSES_MAX).map(|found| found.loss.clone()).collect()
    }

    /// The text of the annotation by which a lost cluster forms again.
    pub(super) fn form_empty_order(&self) -> Option<String> {
        self.lost_cluster.as_ref()?.order.clone()
    }

    /// The reason and message of `Ready`, where no node found a volume of the cluster.
    pub(super) fn is_lost(&self) -> Option<(Reason, String)> {
        self.lost_cluster.as_ref().map(|lost| (lost.reason, lost.message.clone()))
    }

    /// The reason and message of `Ready`, where a set stands still until a person acts.
    pub(super) fn stands_still(&self) -> Option<(Reason, String)> {
        let verdict = self.verdict.as_ref().filter(|verdict| verdict.needs_person)?;
        Some((verdict.reason, verdict.message.clone()))
    }

    /// The reason and message of `Degraded`, where data is lost or at risk; with the last order about a
    /// volume, where that was refused.
    pub(super) fn degrades(&self, orders: &[VolumeOrderRecord]) -> Option<(Reason, String)> {
        if let Some(lost) = self.is_lost() {
            return Some(lost);
        }
        let LossVerdict { reason, message, needs_person: _ } = self.verdict.as_ref()?;
        let refused = orders.last().filter(|last| !last.accepted);
        let refused = refused.map(|last| format!("; the order {} was refused: {}", last.order, last.message));
        Some((*reason, format!("{message}{}", refused.unwrap_or_default())))
    }
}
