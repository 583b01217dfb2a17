//! The condition on the growth of claims: which of them do not have the size of the specification, and what
//! each waits for.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt as _;

use crate::api::{Pool, Reason};
use crate::reconcile::condition::{FALSE, TRUE, UNKNOWN};
use crate::reconcile::growth::ClaimGrowth;
use crate::reconcile::growth::stage::{AskedSize, ClaimStage, stage};
use crate::reconcile::words::listed;

/// Judges the claims of a pool: status, reason and message of the condition. Without a growth the operator
/// asked for nothing in this reconcile.
pub(super) fn verdict(
    pool: &Pool,
    claims: &[PersistentVolumeClaim],
    pods: &[Pod],
    growth: Option<&ClaimGrowth>,
) -> (&'static str, Reason, String) {
    let unread = growth.and_then(|growth| growth.unread.as_ref());
    let unread = unread.map(|words| format!("claims without the cluster's label are not read ({words})"));
    let mut sentences: Vec<_> = unread.map(|text| (Reason::Waiting, text)).into_iter().collect();
    sentences.extend(
        AskedSize::of(pool).into_iter().flat_map(|asked| self::sentences(&asked, claims, pods, growth)),
    );
    let Some((reason, _)) = sentences.first() else {
        return (FALSE, Reason::NotNeeded, "no claim is to grow".to_owned());
    };
    let status = match reason {
        // The condition ends when claims have the size, or the specification asks for the former one.
        Reason::Resizing | Reason::ResizeRefused | Reason::ResizeFailed => TRUE,
        Reason::Waiting => UNKNOWN,
        _ => FALSE,
    };
    let texts: Vec<&str> = sentences.iter().map(|(_, text)| text.as_str()).collect();
    (status, *reason, texts.join("; "))
}

/// A sentence for each stage that claims are in, the worst first, with the reason that it is.
fn sentences(
    asked: &AskedSize,
    claims: &[PersistentVolumeClaim],
    pods: &[Pod],
    growth: Option<&ClaimGrowth>,
) -> Vec<(Reason, String)> {
    let judged: Vec<(String, ClaimStage)> = claims.iter().map(|claim| judge(claim, asked, growth)).collect();
    let in_stage = |is_meant: fn(&ClaimStage) -> bool| -> Vec<&str> {
        let found = judged.iter().filter(|(_, stage)| is_meant(stage));
        found.map(|(claim, _)| claim.as_str()).collect()
    };
    let words = |is_meant: fn(&ClaimStage) -> bool| {
        let found = judged.iter().find(|(_, stage)| is_meant(stage));
        found.map(|(claim, stage)| format!("{claim}: {}", stage.words())).unwrap_or_default()
    };
    let size = &asked.quantity.0;
    let refused: fn(&ClaimStage) -> bool = |stage| matches!(stage, ClaimStage::Refused(_));
    let failed: fn(&ClaimStage) -> bool = |stage| matches!(stage, ClaimStage::Failed(_));
    let unanswered: fn(&ClaimStage) -> bool = |stage| matches!(stage, ClaimStage::Unanswered(_));
    let at_kubelet = in_stage(|stage| *stage == ClaimStage::AtKubelet);
    let not_asked = if growth.is_some() { Reason::Resizing } else { Reason::Waiting };
    let table = [
        (Reason::ResizeRefused, in_stage(refused), format!("cannot grow to {size} ({})", words(refused))),
        (
            Reason::ResizeFailed,
            in_stage(failed),
            format!(
                "do not get what they ask for ({}); Kubernetes goes on trying, or takes less that is more than they have",
                words(failed)
            ),
        ),
        (
            Reason::Resizing,
            in_stage(|stage| *stage == ClaimStage::AtResizer),
            format!("wait for the resizer of their storage class, which makes them {size}"),
        ),
        (
            Reason::Resizing,
            at_kubelet.clone(),
            format!(
                "wait for the kubelet to grow the filesystem to {size}{}",
                without_pod(&at_kubelet, pods)
            ),
        ),
        (
            Reason::Resizing,
            in_stage(|stage| *stage == ClaimStage::Unbound),
            format!(
                "are not bound, and grow to {size} once they are (one that is deleted is made again with the size of the StatefulSet)"
            ),
        ),
        (
            not_asked,
            in_stage(|stage| *stage == ClaimStage::Unasked),
            format!("are still to be asked for {size}"),
        ),
        (
            Reason::Resizing,
            in_stage(unanswered),
            format!("are asked for {size} again ({})", words(unanswered)),
        ),
        (
            Reason::ClaimsLarger,
            in_stage(|stage| *stage == ClaimStage::Larger),
            format!(
                "ask for more than {size} and stay as they are, as does the size of the next claim: claims do not shrink"
            ),
        ),
    ];
    let named = table.into_iter().filter(|(_, claims, _)| !claims.is_empty());
    named.map(|(reason, claims, text)| (reason, format!("claims {} {text}", listed(&claims)))).collect()
}

fn judge(
    claim: &PersistentVolumeClaim,
    asked: &AskedSize,
    growth: Option<&ClaimGrowth>,
) -> (String, ClaimStage) {
    let name = claim.name_any();
    let answered = growth.and_then(|growth| growth.answered.get(&name)).cloned();
    let stage = answered.unwrap_or_else(|| stage(claim, asked));
    (name, stage)
}

/// The pods of claims that do not run: a filesystem grows while a pod mounts it.
fn without_pod<'a>(claims: &[&'a str], pods: &[Pod]) -> String {
    let runs = |name: &str| {
        let pod = pods.iter().find(|pod| pod.name_any() == name);
        pod.and_then(|pod| pod.status.as_ref()?.phase.as_deref()) == Some("Running")
    };
    let of_claim = |claim: &&'a str| Some(claim.split_once('-')?.1);
    let away: BTreeSet<&str> = claims.iter().filter_map(of_claim).filter(|pod| !runs(pod)).collect();
    let away: Vec<&str> = away.into_iter().collect();
    if away.is_empty() {
        return String::new();
    }
    format!(", which needs a pod that mounts it: pods {} do not run", listed(&away))
}
