//! The condition on the settings that running nodes take: whether each node runs with those of the
//! specification, by the digest of the live file that it reports.

use sherd_core::id::ClusterId;
use sherd_proto::v1::ConfigStatus;

use crate::api::{Reason, StorageCluster};
use crate::reconcile::build;
use crate::reconcile::condition::{FALSE, TRUE, UNKNOWN};
use crate::reconcile::formed::has_formed;
use crate::reconcile::nodes::NodeAnswers;
use crate::reconcile::observe::ObservedCluster;
use crate::reconcile::words::listed;

/// Judges the answers: status, reason and message of the condition. The nodes are given other settings only
/// where the operator may change the cluster.
pub(super) fn verdict(
    cluster: &StorageCluster,
    may_change: bool,
    observed: &ObservedCluster,
    answers: &NodeAnswers,
) -> (&'static str, Reason, String) {
    if observed.stateful_set.is_none() || answers.is_empty() {
        return (UNKNOWN, Reason::Waiting, "no node was asked yet".to_owned());
    }
    // Whether the file names a formed cluster makes no difference to the settings.
    let id = cluster.status.as_ref().and_then(|status| ClusterId::parse(status.cluster_id.as_ref()?).ok());
    let asked = [None, id].map(|formed| build::live_digest(&cluster.spec.config, formed));
    let (mut waited_for, mut silent, mut refused) = (vec![], vec![], vec![]);
    for (pod, answer) in answers {
        match answer.as_ref().map(|reply| reply.config.as_ref()) {
            Err(_) => silent.push(pod.as_str()),
            Ok(Some(ConfigStatus { generation: _, live_sha256, refused: _ }))
                if asked.iter().any(|asked| live_sha256[..] == *asked) => {}
            Ok(Some(config)) if !config.refused.is_empty() => refused.push((pod, &config.refused)),
            Ok(_) => waited_for.push(pod.as_str()),
        }
    }
    if let Some((pod, words)) = refused.first() {
        let pods: Vec<&str> = refused.iter().map(|(pod, _)| pod.as_str()).collect();
        let words: Vec<&str> = words.split_whitespace().collect();
        let message = format!(
            "nodes that refuse the settings and keep the last ones: {}; {pod}: {}",
            listed(&pods),
            words.join(" ")
        );
        return (FALSE, Reason::SettingsRefused, message);
    }
    if !waited_for.is_empty() {
        let wait = if may_change {
            "the kubelet brings them within two minutes"
        } else {
            "the operator changes nothing now, as SpecValid, Progressing or Paused say"
        };
        let message = format!("nodes that do not run with the settings yet: {}; {wait}", listed(&waited_for));
        return (FALSE, Reason::LoadingSettings, message);
    }
    if !silent.is_empty() {
        let message = format!("nodes that do not answer: {}", listed(&silent));
        let reason = if has_formed(cluster) { Reason::NodesSilent } else { Reason::Forming };
        return (UNKNOWN, reason, message);
    }
    (TRUE, Reason::AsAsked, "every node runs with the settings".to_owned())
}
