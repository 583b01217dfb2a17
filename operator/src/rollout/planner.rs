//! The next step of a rollout, and the disruption budget that goes with it.
//!
//! ```text
//!   a pod of an older template that takes part in nothing      evicted at once
//!   one that is not ready, and the others of its sets whole    evicted
//!   one that is ready and not healed, and the others whole     deleted, after a while
//!   any other                                                  evicted, one at a time, while all is whole
//!   not whole for too long                                     blocked; a template that never came up is
//!                                                              recorded as failed, and the last good one
//!                                                              goes back into the StatefulSet
//! ```

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::health::PoolHealth;
use super::placement::PoolSets;
use crate::api::{FailedTemplate, ReplacedPod, RolloutStatus};
use crate::limits;

/// A pod, as Kubernetes reports it.
#[expect(clippy::struct_excessive_bools, reason = "Kubernetes reports each of them by itself")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodState {
    /// The pod's uid.
    pub uid: String,
    /// The revision of the template that it was made of.
    pub revision: String,
    /// Whether the pod passes its readiness probe.
    pub is_ready: bool,
    /// Whether the pod is on its way out.
    pub is_terminating: bool,
    /// Whether a container of the pod runs.
    pub is_running: bool,
    /// Whether no host takes it because the one with its volumes is closed or away: its template is not at
    /// fault.
    pub lacks_its_host: bool,
}

/// The rules of `spec.upgrade`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpgradeRules {
    /// How long the cluster may be less than whole before that is reported.
    pub health_timeout: Duration,
    /// Whether no pod is replaced.
    pub is_paused: bool,
    /// Whether pods are replaced that a set cannot lose.
    pub allows_downtime: bool,
}

/// Everything that a plan is made of.
#[derive(Debug, Clone, Copy)]
pub struct RolloutInput<'a> {
    /// Names of the pool's pods, by ordinal.
    pub names: &'a [String],
    /// The pods that are there, by ordinal.
    pub pods: &'a [Option<PodState>],
    /// The erasure set of each volume.
    pub sets: &'a PoolSets,
    /// The nodes' answers.
    pub health: &'a PoolHealth,
    /// The revision that pods are made of; absent until the StatefulSet's controller has seen its template.
    pub target: Option<&'a str>,
    /// Another revision that is as good as the target: it differs from it by what others changed alone. Pods
    /// of it that are ready stay.
    pub equal: Option<&'a str>,
    /// Whether others add entries to the target each time: no pod is cured by them, and one of the equal
    /// revision stays that is not ready, too.
    pub has_additions: bool,
    /// Digest of the template that the specification asks for.
    pub template: &'a str,
    /// The rules.
    pub rules: UpgradeRules,
    /// The last eviction that the API server refused: the pod's uid, and the words.
    pub refusal: Option<(&'a str, &'a str)>,
    /// The record of the last plan.
    pub last: &'a RolloutStatus,
    /// The time.
    pub now: Timestamp,
}

/// Why a rollout does not go on by itself, or only once nodes are back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockedReason {
    /// `spec.upgrade.paused` is set.
    Paused,
    /// A set cannot lose the node of a pod that is to be replaced.
    NotRedundant,
    /// Nodes do not answer for too long.
    NodesSilent,
    /// A pod is not back, or the cluster not healed, for too long; or a template failed.
    HealthTimeout,
}

/// A pod that may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// The pod's name.
    pub pod: String,
    /// The pod's uid: another pod of the name was not judged.
    pub uid: String,
    /// Whether the pod is deleted instead: it is ready and not healed, so that the budget, which stays closed
    /// for every other pod, would keep it.
    pub is_deletion: bool,
    /// Whether the API server has refused the eviction for longer than the time allowed.
    pub is_overdue: bool,
}

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RolloutStep {
    /// No step: every pod runs what is asked for.
    Done,
    /// A pod is evicted.
    Evict(Eviction),
    /// No step yet; the record says why.
    Wait,
    /// No step: the StatefulSet's controller has not seen its template yet.
    Unknown,
    /// No step; the record says why, and a person should look.
    Blocked(BlockedReason),
}

/// A template that pods keep, though another one is built or in the StatefulSet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptTemplate {
    /// An operator of another version built it.
    OfAnotherOperator,
    /// The template differs from the target by what others changed alone.
    Equal,
}

/// A plan: the step, the budget, and the record that must be stored before the step is taken.
#[derive(Debug, Clone, PartialEq)]
pub struct RolloutPlan {
    /// The next step.
    pub step: RolloutStep,
    /// Why pods that do not have the target stay, or may not get what the operator would build.
    pub kept: Option<KeptTemplate>,
    /// Ready pods of the pool that others may evict at one time: 0 or 1.
    pub budget: u8,
    /// The record.
    pub record: RolloutStatus,
}

/// Plans the next step.
pub fn plan(input: &RolloutInput<'_>) -> RolloutPlan {
    let pool = PoolView::new(input);
    let (mut decision, failed) = pool.decide();
    let replacing = pool.replacing(&decision);
    pool.judge_refusal(&mut decision, replacing.as_ref());
    let budget = u8::from(pool.has_spare_node() || pool.is_outage(&decision.step));
    let is_there = |pod: &&Option<PodState>| pod.is_some();
    let record = match input.target {
        None => RolloutStatus { message: decision.message, ..input.last.clone() },
        Some(target) => RolloutStatus {
            revision: Some(target.to_owned()),
            updated: count(input.pods.iter().filter(is_there).count() - pool.outdated.len()),
            pods: count(input.names.len()),
            order: pool.outdated.iter().map(|node| pool.name(*node).to_owned()).collect(),
            replacing,
            waiting_since: pool.waiting_since(&decision),
            last_good: pool.last_good(),
            failed,
            recorded: input.last.recorded.clone(),
            message: decision.message,
        },
    };
    let rests = decision.step == RolloutStep::Done && pool.keeps_any();
    RolloutPlan { step: decision.step, kept: rests.then_some(KeptTemplate::Equal), budget, record }
}

struct Decision {
    step: RolloutStep,
    message: String,
}

/// The input, and what follows from it.
struct PoolView<'a> {
    input: &'a RolloutInput<'a>,
    /// Nodes whose pods run another revision than the target, in the order in which they are replaced.
    outdated: Vec<usize>,
    /// Why the pool is not whole.
    doubt: Option<String>,
    /// The template that failed, while the specification still asks for it.
    failed: Option<FailedTemplate>,
}

impl<'a> PoolView<'a> {
    fn new(input: &'a RolloutInput<'a>) -> Self {
        let is_older = |node: &usize| {
            let pod = input.pods.get(*node).and_then(Option::as_ref);
            pod.is_some_and(|pod| {
                let stays = (pod.is_ready || input.has_additions) && is_revision(input.equal, &pod.revision);
                !stays && input.target.is_some_and(|target| pod.revision != target)
            })
        };
        let mut outdated: Vec<usize> = (0..input.names.len()).filter(is_older).collect();
        outdated.sort_by_key(|node| {
            let is_ready = input.pods.get(*node).and_then(Option::as_ref).is_some_and(|pod| pod.is_ready);
            (is_ready && input.health.is_whole(*node), std::cmp::Reverse(*node))
        });
        let failed = input.last.failed.clone().filter(|failed| failed.template == input.template);
        Self { input, outdated, doubt: doubt(input), failed }
    }

    /// Whether a revision is the target, or as good.
    fn is_asked(&self, revision: &str) -> bool {
        is_revision(self.input.target, revision) || is_revision(self.input.equal, revision)
    }

    /// Whether a pod stays that does not have the target.
    fn keeps_any(&self) -> bool {
        let RolloutInput { pods, target, .. } = *self.input;
        let has_another = |pod: &PodState| !is_revision(target, &pod.revision);
        self.outdated.is_empty() && target.is_some() && pods.iter().flatten().any(has_another)
    }

    /// Whether any one node can go now: what a drain may take.
    fn has_spare_node(&self) -> bool {
        let RolloutInput { names, sets, health, .. } = *self.input;
        let has_room = |node| health.set_full_without(sets, node).is_none();
        self.doubt.is_none() && sets.can_lose_any() && (0..names.len()).all(has_room)
    }

    /// Whether a step takes a ready pod away that the pool cannot do without, as the specification allows.
    fn is_outage(&self, step: &RolloutStep) -> bool {
        let RolloutStep::Evict(Eviction { uid, is_deletion, .. }) = step else { return false };
        let mut pods = self.input.pods.iter().flatten();
        self.input.rules.allows_downtime && !is_deletion && pods.any(|pod| pod.uid == *uid && pod.is_ready)
    }

    /// Whether pods are still to be replaced, or the target was not yet run by all of them.
    fn is_unfinished(&self) -> bool {
        let last_good = self.input.last.last_good.as_deref();
        !self.outdated.is_empty() || last_good.is_some_and(|good| !self.is_asked(good))
    }

    fn decide(&self) -> (Decision, Option<FailedTemplate>) {
        let RolloutInput { target, sets, rules, .. } = *self.input;
        let held = self.failed.clone();
        let blocked = |reason, message| Decision { step: RolloutStep::Blocked(reason), message };
        let wait = |message| Decision { step: RolloutStep::Wait, message };
        if target.is_none() {
            let message = "waiting for the StatefulSet's controller".to_owned();
            return (Decision { step: RolloutStep::Unknown, message }, held);
        }
        if let Some(failed) = &held
            && Some(failed.revision.as_str()) == target
        {
            let message = format!("the last template that worked is put back: {}", failed.message);
            return (blocked(BlockedReason::HealthTimeout, message), held);
        }
        if rules.is_paused && !self.outdated.is_empty() {
            let message = format!("spec.upgrade.paused is set; {}", self.to_come());
            return (blocked(BlockedReason::Paused, message), held);
        }
        if let Some(decision) = self.outdated.iter().find_map(|node| self.unwell(*node)) {
            return (decision, held);
        }
        if let Some(failed) = &held {
            return (blocked(BlockedReason::HealthTimeout, failed.message.clone()), held);
        }
        let Some(next) = self.outdated.first().copied() else {
            return match &self.doubt {
                Some(doubt) if self.is_unfinished() => self.doubtful(doubt),
                _ => (Decision { step: RolloutStep::Done, message: String::new() }, None),
            };
        };
        if !sets.can_lose_any() && !rules.allows_downtime {
            let message = format!(
                "reads or writes of a set of {} would stop without {}: set spec.upgrade.allowDowntime, or delete pods by hand; {}",
                sets.geometry(),
                self.name(next),
                self.to_come()
            );
            return (blocked(BlockedReason::NotRedundant, message), None);
        }
        if let Some(doubt) = &self.doubt {
            return self.doubtful(doubt);
        }
        if let Some(set) = self.input.health.set_full_without(sets, next)
            && !rules.allows_downtime
        {
            let message =
                format!("set {set} has no room for writes without {}; {}", self.name(next), self.to_come());
            return (wait(message), None);
        }
        (self.evict(next, "all volumes are healed"), None)
    }

    /// The end of a pod that is not ready, or does not heal, where that costs nothing.
    fn unwell(&self, node: usize) -> Option<Decision> {
        let RolloutInput { health, sets, rules, .. } = *self.input;
        let pod = self.pod(node).filter(|pod| !pod.is_terminating)?;
        if pod.is_ready && (health.is_whole(node) || health.is_silent(node)) {
            return None;
        }
        if !pod.is_ready && !health.takes_part(node) {
            // A pod that starts may be about to take part; one that runs for long without does not.
            let is_away =
                !pod.is_running || (health.is_judged(node) && self.waited(limits::STARTING_TIME_MAX));
            return is_away.then(|| self.evict(node, "it is not ready and takes part in nothing"));
        }
        let shares = |other: usize| {
            other != node && sets.of_node(other).iter().any(|set| sets.of_node(node).contains(set))
        };
        let others_whole = (0..self.input.names.len()).filter(|other| shares(*other)).all(|other| {
            let stays = self.pod(other).is_some_and(|pod| pod.is_ready && !pod.is_terminating);
            stays && health.is_whole(other)
        });
        let may_go = sets.can_lose(node) || rules.allows_downtime;
        if !others_whole || !may_go {
            return None;
        }
        if !pod.is_ready {
            return Some(self.evict(node, "it is not ready, and the others of its sets are healed"));
        }
        // The node may be about to heal.
        if !self.waited(limits::STARTING_TIME_MAX) {
            return None;
        }
        let mut decision = self.evict(node, "it is not healed, and the others of its sets are");
        if let RolloutStep::Evict(eviction) = &mut decision.step {
            eviction.is_deletion = true;
        }
        Some(decision)
    }

    /// Waits for a pool that is not whole, until the time for that is over.
    fn doubtful(&self, doubt: &str) -> (Decision, Option<FailedTemplate>) {
        let message = format!("waiting: {doubt}; {}", self.to_come());
        if !self.waited(self.input.rules.health_timeout) {
            return (Decision { step: RolloutStep::Wait, message }, None);
        }
        let blocked = |reason, message| Decision { step: RolloutStep::Blocked(reason), message };
        if let Some(node) = self.failing() {
            let is_ready = self.pod(node).is_some_and(|pod| pod.is_ready);
            let message = format!(
                "{} did not {} with the new template in time: mend or revert the specification",
                self.name(node),
                if is_ready { "heal" } else { "become ready" }
            );
            let failed = FailedTemplate {
                template: self.input.template.to_owned(),
                revision: self.input.target.unwrap_or_default().to_owned(),
                message: message.clone(),
            };
            return (blocked(BlockedReason::HealthTimeout, message), Some(failed));
        }
        let is_silent = self.input.health.nodes.iter().any(|node| node.silent.is_some());
        let reason = if is_silent { BlockedReason::NodesSilent } else { BlockedReason::HealthTimeout };
        (blocked(reason, message), None)
    }

    /// A node for whose pod the target is at fault, where another template can be put back: the one that was
    /// replaced last, or any while no pod ever came up with the target.
    fn failing(&self) -> Option<usize> {
        let RolloutInput { target, last, names, health, .. } = *self.input;
        last.last_good.as_deref().filter(|good| !self.is_asked(good))?;
        let is_well = |node: usize| self.is_ready(node) && health.is_whole(node);
        let of_target = |node: &usize| self.pod(*node).filter(|pod| Some(pod.revision.as_str()) == target);
        let mut nodes = 0..names.len();
        let any =
            |test: &dyn Fn(usize) -> bool| nodes.clone().any(|node| of_target(&node).is_some() && test(node));
        let (works, heals) = (any(&|node| self.is_ready(node)), any(&is_well));
        let replaced = |node: usize| last.replacing.as_ref().is_some_and(|last| last.name == self.name(node));
        let others_are_well = |node: usize| (0..names.len()).all(|other| other == node || is_well(other));
        nodes.find(|node| match of_target(node) {
            None => false,
            Some(pod) if pod.is_terminating || pod.lacks_its_host => false,
            Some(pod) if !pod.is_ready => !works || replaced(*node),
            // Where others heal with the template, or lack something, too, it is not at fault.
            Some(_) => !heals && replaced(*node) && !health.is_silent(*node) && others_are_well(*node),
        })
    }

    fn is_ready(&self, node: usize) -> bool {
        self.pod(node).is_some_and(|pod| pod.is_ready && !pod.is_terminating)
    }

    /// Says that an eviction is refused, once that lasts for longer than the time allowed. It is asked for
    /// again and again.
    fn judge_refusal(&self, decision: &mut Decision, replacing: Option<&ReplacedPod>) {
        let (RolloutStep::Evict(eviction), Some(ReplacedPod { since, refusal: Some(words), .. })) =
            (&mut decision.step, replacing)
        else {
            return;
        };
        if self.has_passed(since, self.input.rules.health_timeout) {
            eviction.is_overdue = true;
            decision.message =
                format!("the API server refuses to evict {}: {words}; {}", eviction.pod, self.to_come());
        }
    }

    fn evict(&self, node: usize, why: &str) -> Decision {
        let uid = self.pod(node).map(|pod| pod.uid.clone()).unwrap_or_default();
        let name = self.name(node);
        Decision {
            step: RolloutStep::Evict(Eviction {
                pod: name.to_owned(),
                uid,
                is_deletion: false,
                is_overdue: false,
            }),
            message: format!("evicting {name}: {why}"),
        }
    }

    /// The record of the pod that is replaced: it stays until the pool is whole again.
    fn replacing(&self, decision: &Decision) -> Option<ReplacedPod> {
        let last = self.input.last.replacing.clone();
        if let RolloutStep::Evict(Eviction { pod, uid, .. }) = &decision.step {
            let same = last.filter(|last| last.name == *pod && last.uid == *uid);
            let since = Time(self.input.now);
            let begun = || ReplacedPod { name: pod.clone(), uid: uid.clone(), since, refusal: None };
            let mut replaced = same.unwrap_or_else(begun);
            let refusal = self.input.refusal.filter(|(refused, _)| refused == uid);
            replaced.refusal = refusal.map(|(_, words)| words.to_owned()).or(replaced.refusal);
            return Some(replaced);
        }
        let last = last.map(|last| ReplacedPod { refusal: None, ..last });
        last.filter(|_| self.doubt.is_some() && self.is_unfinished())
    }

    fn waiting_since(&self, decision: &Decision) -> Option<Time> {
        let RolloutInput { last, target, now, .. } = *self.input;
        self.doubt.as_ref().filter(|_| self.is_unfinished())?;
        let goes_on = last.revision.as_deref() == target && !matches!(decision.step, RolloutStep::Evict(_));
        // A repeated eviction does not count as progress.
        let again = matches!(&decision.step, RolloutStep::Evict(Eviction { uid, .. })
            if last.replacing.as_ref().is_some_and(|last| last.uid == *uid));
        last.waiting_since.clone().filter(|_| goes_on || again).or(Some(Time(now)))
    }

    fn waited(&self, time: Duration) -> bool {
        let RolloutInput { last, target, .. } = *self.input;
        let since = last.waiting_since.as_ref().filter(|_| last.revision.as_deref() == target);
        since.is_some_and(|since| self.has_passed(since, time))
    }

    fn has_passed(&self, Time(since): &Time, time: Duration) -> bool {
        let passed = self.input.now.duration_since(*since);
        SignedDuration::try_from(time).is_ok_and(|time| passed >= time)
    }

    /// The revision that all pods run while everything is healed; the target, where some run one that is as
    /// good.
    fn last_good(&self) -> Option<String> {
        let mut revisions = self.input.pods.iter().flatten().map(|pod| pod.revision.as_str());
        let first = revisions.next().filter(|_| self.doubt.is_none());
        let common = first.filter(|first| revisions.clone().all(|revision| revision == *first));
        let is_asked = first.is_some_and(|first| self.is_asked(first))
            && revisions.all(|revision| self.is_asked(revision));
        let good = common.or(self.input.target.filter(|_| is_asked));
        good.map(str::to_owned).or_else(|| self.input.last.last_good.clone())
    }

    fn to_come(&self) -> String {
        let names: Vec<&str> = self.outdated.iter().map(|node| self.name(*node)).collect();
        match names.as_slice() {
            [] => "all pods have the new template".to_owned(),
            names => format!("still to be replaced: {}", listed(names)),
        }
    }

    fn name(&self, node: usize) -> &'a str {
        self.input.names.get(node).map(String::as_str).unwrap_or_default()
    }

    fn pod(&self, node: usize) -> Option<&'a PodState> {
        self.input.pods.get(node).and_then(Option::as_ref)
    }
}

fn is_revision(known: Option<&str>, revision: &str) -> bool {
    known.is_some_and(|known| known == revision)
}

/// Why a pool is not whole: the first pods, nodes or volumes that keep another pod from going.
fn doubt(input: &RolloutInput<'_>) -> Option<String> {
    let RolloutInput { names, pods, health, .. } = *input;
    let named = |judge: &dyn Fn(usize) -> bool| -> Vec<&str> {
        let nodes = names.iter().enumerate().filter(|(node, _)| judge(*node));
        nodes.map(|(_, name)| name.as_str()).collect()
    };
    let pod = |node: usize| pods.get(node).and_then(Option::as_ref);
    let is_away = |node| pod(node).is_none_or(|pod| pod.is_terminating);
    let silent = |node: usize| health.nodes.get(node).and_then(|node| node.silent.as_ref());
    let causes = [
        ("pods that are away", named(&is_away)),
        ("pods that are not ready", named(&|node| !pod(node).is_some_and(|pod| pod.is_ready))),
        ("nodes that say nothing of the cluster", named(&|node| silent(node).is_some())),
        ("nodes with volumes that are not healed", named(&|node| !health.is_whole(node))),
    ];
    let (cause, nodes) = causes.into_iter().find(|(_, nodes)| !nodes.is_empty())?;
    Some(format!("{cause}: {}", listed(&nodes)))
}

/// Some names, and how many there are beside them.
pub(crate) fn listed(names: &[&str]) -> String {
    let shown = names.iter().take(limits::NAMES_IN_MESSAGE_MAX).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(limits::NAMES_IN_MESSAGE_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
