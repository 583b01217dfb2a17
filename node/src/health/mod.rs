//! Live, ready, and the reasons for not.
//!
//! Live means that the process answers. Serving means that every erasure set has its read quorum, the
//! process does not stop, and requests are let in; ready means the same with the write quorum. A node whose
//! volumes are full is ready, for reads and deletes work and only deletes make room; it says that it refuses
//! writes. So is one that turns some requests away and lets others in.
//!
//! [`Health`] holds the phase of the process and the last [`NodeMoment`]. Others write both; this file judges
//! and prints them, and all that shows or sends the node's report reads the moment here. The type of the
//! moment says how late it may be; the phase is never late.

mod limits;
mod refusals;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;

use sherd_core::id::ProcessId;
use sherd_core::report::{NodeMoment, NodeReport, SetReport, VolumeCondition, VolumeReport};
use sherd_volume::options::Durability;

pub use self::refusals::RequestRefusals;
use sherd_store::machine::quantity::{LivePeriod, Period};

/// One volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VolumeHealth {
    /// Name in metrics: the directory.
    pub name: String,
    /// The work that it can do.
    pub state: VolumeCondition,
    /// Why it is not online; empty when it is.
    pub reason: String,
}

impl VolumeHealth {
    /// The health of a volume that is not online; `None` for one that is.
    fn degraded(report: &VolumeReport) -> Option<Self> {
        let VolumeReport { path, condition, reason, .. } = report;
        let state = condition.filter(|condition| *condition != VolumeCondition::Online)?;
        Some(Self { name: path.clone(), state, reason: reason.clone() })
    }
}

/// Where the process is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Waiting for the other nodes of a cluster that is not formed yet; S3 is not served yet.
    Forming,
    /// Opening its volumes; S3 is not served yet.
    Opening,
    /// Serving.
    Serving,
    /// Stopping; requests under way still end.
    Stopping,
}

/// The answer of a readiness probe.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Readiness {
    /// Whether requests should come here.
    pub ready: bool,
    /// Why writes, or those with shards, are refused: for lack of space or of volumes. Empty when they are
    /// not.
    pub writes_refused: String,
    /// Text while requests were turned away in the last seconds, since every place was taken; else empty.
    pub requests_refused: &'static str,
    /// Why sets do not come back by themselves, and what ends that: an operator has to decide.
    pub stuck: Vec<String>,
    /// Problems of the cluster as this node sees it, as `status` lists it: other credentials, one
    /// volume in two places, nodes of one name. It makes no node unready: what serving needs is judged by its
    /// votes.
    pub problems: Vec<String>,
    /// Where the process is in its life.
    pub phase: Phase,
    /// While it is forming: the nodes that it waits for.
    pub waiting_for: Vec<String>,
    /// While it is forming: why, in words.
    pub forming: String,
    /// `fsync`, or `none` when acknowledged objects may be lost with the power.
    pub durability: &'static str,
    /// Sets without their write quorum.
    pub degraded_sets: Vec<SetReport>,
    /// Volumes that are not online, with reasons.
    pub degraded_volumes: Vec<VolumeHealth>,
}

/// The answer of a probe that asks whether reads should come here.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct ServingState {
    /// Whether reads should come here.
    pub serving: bool,
    /// Where the process is in its life.
    pub phase: Phase,
    /// While it is forming: the nodes that it waits for.
    pub waiting_for: Vec<String>,
    /// While it is forming: why, in words.
    pub forming: String,
    /// Text while requests were turned away in the last seconds, since every place was taken; else empty.
    pub requests_refused: &'static str,
    /// Sets without their read quorum.
    pub unreadable_sets: Vec<SetReport>,
}

/// The wait of a node whose cluster is not formed yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FormationWait {
    /// The nodes that did not answer yet.
    pub waiting_for: Vec<String>,
    /// Why the cluster is not formed, in words.
    pub reason: String,
    /// Whether the cluster was formed before, and the node's volumes hold no topology.
    pub formed_before: bool,
}

/// The phase of a process, and its wait.
#[derive(Debug, Clone)]
pub(crate) struct ProcessState {
    /// Never [`Phase::Forming`]: that is opening with a wait.
    phase: Phase,
    wait: Option<FormationWait>,
}

/// The health of one process. The process writes it, the admin listener answers probes from it.
#[derive(Debug)]
pub struct Health {
    durability: Durability,
    /// How long the space of deleted objects stays taken.
    release_grace: LivePeriod,
    refusals: RequestRefusals,
    state: watch::Sender<ProcessState>,
    moments: watch::Sender<Arc<NodeMoment>>,
}

impl Health {
    /// A process that is opening its volumes.
    pub fn opening(durability: Durability, release_grace: Duration) -> Self {
        let state = ProcessState { phase: Phase::Opening, wait: None };
        let moment = NodeMoment::of(NodeReport::of(String::new(), ProcessId([0; 16])));
        let (state, moments) = (watch::Sender::new(state), watch::Sender::new(Arc::new(moment)));
        let (release_grace, refusals) = (LivePeriod::new(release_grace), RequestRefusals::default());
        Self { durability, release_grace, refusals, state, moments }
    }

    /// The requests of S3 that were turned away: who lets them in takes note there.
    pub fn refusals(&self) -> &RequestRefusals {
        &self.refusals
    }

    /// Has the space of deleted objects stay taken for another time from here on.
    pub fn set_release_grace(&self, grace: Duration) {
        self.release_grace.set(grace);
    }

    /// The cluster is not formed yet, and waits for this; `None` when it is formed.
    pub fn form(&self, wait: Option<FormationWait>) {
        self.state.send_modify(|state| state.wait = wait);
    }

    /// Requests are served from here on. Too late once stopping.
    pub fn serve(&self) {
        self.state.send_if_modified(|state| {
            let is_opening = state.phase == Phase::Opening;
            if is_opening {
                state.phase = Phase::Serving;
            }
            is_opening
        });
    }

    /// The process stops: it is not ready from here on.
    pub fn stop(&self) {
        self.state.send_modify(|state| state.phase = Phase::Stopping);
    }

    /// Where the process is in its life.
    pub fn phase(&self) -> Phase {
        match *self.state.borrow() {
            ProcessState { phase: Phase::Opening, wait: Some(_) } => Phase::Forming,
            ProcessState { phase, .. } => phase,
        }
    }

    /// The wait for the cluster; empty once it is formed.
    pub fn wait(&self) -> FormationWait {
        self.state.borrow().wait.clone().unwrap_or_default()
    }

    /// The changes of the phase, and of what formation waits for.
    pub(crate) fn states(&self) -> watch::Receiver<ProcessState> {
        self.state.subscribe()
    }

    /// Shows another moment of the node.
    pub fn show(&self, moment: NodeMoment) {
        self.moments.send_replace(Arc::new(moment));
    }

    /// Shows that the state of the node is not known since the moment `last`. Returns false, and shows
    /// nothing, where another moment was shown after `last`.
    pub fn show_unknown(&self, last: &Arc<NodeMoment>, problem: String) -> bool {
        let unknown = Arc::new(last.unknown(problem));
        self.moments.send_if_modified(|shown| {
            let is_last = Arc::ptr_eq(shown, last);
            if is_last {
                *shown = unknown;
            }
            is_last
        })
    }

    /// The last moment of the node.
    pub fn moment(&self) -> Arc<NodeMoment> {
        Arc::clone(&self.moments.borrow())
    }

    /// The moments of the node from the last one on.
    pub fn moments(&self) -> watch::Receiver<Arc<NodeMoment>> {
        self.moments.subscribe()
    }

    /// Judges whether reads should come here.
    pub fn serving(&self) -> ServingState {
        let (moment, phase) = (self.moment(), self.phase());
        let FormationWait { waiting_for, reason, formed_before: _ } = self.wait();
        let unreadable_sets: Vec<_> = moment.sets.iter().filter(|set| !set.is_readable()).copied().collect();
        ServingState {
            serving: phase == Phase::Serving
                && !moment.sets.is_empty()
                && unreadable_sets.is_empty()
                && !self.refusals.is_shut(),
            phase,
            waiting_for,
            forming: reason,
            requests_refused: self.refusals.describe(),
            unreadable_sets,
        }
    }

    /// Judges whether requests of every kind should come here.
    pub fn readiness(&self) -> Readiness {
        let (moment, phase) = (self.moment(), self.phase());
        let NodeMoment { report, sets, stuck, problems } = &*moment;
        let FormationWait { waiting_for, reason, formed_before: _ } = self.wait();
        let degraded_sets: Vec<_> = sets.iter().filter(|set| !set.is_writable()).copied().collect();
        Readiness {
            ready: phase == Phase::Serving
                && !sets.is_empty()
                && degraded_sets.is_empty()
                && !self.refusals.is_shut(),
            writes_refused: writes_refused(sets, self.release_grace.get()),
            requests_refused: self.refusals.describe(),
            stuck: stuck.clone(),
            problems: problems.clone(),
            phase,
            waiting_for,
            forming: reason,
            durability: self.durability.as_str(),
            degraded_sets,
            degraded_volumes: report.volumes.iter().filter_map(VolumeHealth::degraded).collect(),
        }
    }
}

/// Why writes are refused although there are votes for them; empty when they are not.
fn writes_refused(sets: &[SetReport], release_grace: Duration) -> String {
    let named = |is_so: fn(&SetReport) -> bool| {
        let found = sets.iter().filter(|set| set.is_writable() && is_so(set));
        found.map(|set| set.set.to_string()).collect::<Vec<_>>().join(", ")
    };
    let full = named(SetReport::is_full);
    let nearly_full = named(|set| set.is_full_for_shards() && !set.is_full());
    let away = named(|set| !set.takes_shards() && !set.is_full_for_shards());
    let grace = Period(release_grace);
    let space = format!(
        "the space of deleted objects comes back {grace} after their deletion (upkeep.release_grace)"
    );
    let mut why = Vec::new();
    if !full.is_empty() {
        why.push(format!(
            "the volumes of set {full} are full: writes get 507, reads and deletes work; {space}"
        ));
    }
    if !nearly_full.is_empty() {
        why.push(format!(
            "too few volumes of set {nearly_full} have room for shards: writes get 507 but for objects small \
             enough to be kept in their rows, reads and deletes work; {space}"
        ));
    }
    if !away.is_empty() {
        why.push(format!(
            "too few volumes of set {away} are there to make new shards durable: writes get 503 but for objects \
             small enough to be kept in their rows, reads and deletes work; see degraded_volumes"
        ));
    }
    why.join("; ")
}

#[cfg(test)]
mod tests {
    use sherd_core::id::VolumeId;

    use super::*;

    const GRACE: Duration = Duration::from_mins(10);

    fn set(voting: usize) -> SetReport {
        SetReport {
            set: 0,
            volumes: 4,
            voting,
            with_room: 4,
            taking_shards: voting,
            shards_needed: 3,
            write_quorum: 3,
            read_quorum: 2,
        }
    }

    fn moment(sets: Vec<SetReport>) -> NodeMoment {
        NodeMoment { sets, ..NodeMoment::of(NodeReport::of("n1".to_owned(), ProcessId([1; 16]))) }
    }

    fn serving(moment: NodeMoment) -> Health {
        let health = Health::opening(Durability::Fsync, GRACE);
        health.show(moment);
        health.serve();
        health
    }

    #[test]
    fn a_process_that_opens_is_not_ready() {
        let readiness = Health::opening(Durability::None, GRACE).readiness();
        assert!(!readiness.ready);
        assert_eq!((readiness.phase, readiness.durability), (Phase::Opening, "none"));
    }

    #[test]
    fn every_set_with_its_write_quorum_is_ready_and_says_what_is_degraded() {
        let volume = |path: &str, condition, reason: &str| VolumeReport {
            path: path.to_owned(),
            condition: Some(condition),
            reason: reason.to_owned(),
            ..VolumeReport::of(VolumeId([1; 16]))
        };
        let mut report = NodeReport::of("n1".to_owned(), ProcessId([1; 16]));
        report.volumes.push(volume("/v1", VolumeCondition::Online, ""));
        report.volumes.push(volume("/v4", VolumeCondition::Failed, "fsync: EIO"));
        let readiness = serving(NodeMoment { sets: vec![set(3)], ..NodeMoment::of(report) }).readiness();
        let failed =
            VolumeHealth { name: "/v4".into(), state: VolumeCondition::Failed, reason: "fsync: EIO".into() };
        assert!(readiness.ready);
        assert_eq!(readiness.degraded_volumes, [failed]);
        assert!(readiness.degraded_sets.is_empty());
    }

    #[test]
    fn one_set_below_its_write_quorum_is_not_ready() {
        let readiness = serving(moment(vec![set(4), set(2)])).readiness();
        assert!(!readiness.ready);
        assert_eq!(readiness.degraded_sets, [set(2)]);
    }

    #[test]
    fn a_set_with_its_read_quorum_serves_and_one_below_does_not() {
        let at_read_quorum = serving(moment(vec![set(4), set(2)]));
        assert!(at_read_quorum.serving().serving && !at_read_quorum.readiness().ready);
        let below = serving(moment(vec![set(4), set(1)]));
        assert_eq!((below.serving().serving, below.serving().unreadable_sets), (false, vec![set(1)]));
        at_read_quorum.stop();
        assert!(!at_read_quorum.serving().serving);
        assert!(!serving(moment(Vec::new())).serving().serving);
    }

    #[test]
    fn a_node_of_a_cluster_that_is_not_formed_names_what_it_waits_for() {
        let health = Health::opening(Durability::Fsync, GRACE);
        let waiting_for = vec!["n2".to_owned()];
        health.form(Some(FormationWait {
            waiting_for: waiting_for.clone(),
            reason: "n2 does not answer".to_owned(),
            formed_before: false,
        }));
        let ServingState { serving, phase, waiting_for: named, .. } = health.serving();
        assert_eq!((serving, phase, named), (false, Phase::Forming, waiting_for));
        health.form(None);
        assert_eq!(health.readiness().phase, Phase::Opening);
    }

    #[test]
    fn a_set_that_waits_for_ever_says_so() {
        let stuck = vec!["set 0 does not come back by itself".to_owned()];
        let readiness = serving(NodeMoment { stuck: stuck.clone(), ..moment(vec![set(0)]) }).readiness();
        assert!(!readiness.ready);
        assert_eq!(readiness.stuck, stuck);
    }

    #[test]
    fn full_volumes_are_ready_and_say_that_writes_are_refused_and_until_when() {
        let some_room = serving(moment(vec![SetReport { with_room: 3, ..set(4) }])).readiness();
        assert_eq!((some_room.ready, some_room.writes_refused.as_str()), (true, ""));
        let full = SetReport { set: 7, with_room: 2, ..set(4) };
        let readiness = serving(moment(vec![set(4), full])).readiness();
        assert!(readiness.ready, "deletes must come here to make room");
        let why = readiness.writes_refused;
        assert!(
            why.contains("set 7 are full") && why.contains("10m") && why.contains("release_grace"),
            "{why}"
        );
    }

    #[test]
    fn too_few_volumes_for_shards_are_ready_and_say_that_writes_are_refused() {
        let of_three = SetReport { volumes: 3, with_room: 3, shards_needed: 3, write_quorum: 2, ..set(2) };
        let away = serving(moment(vec![of_three])).readiness();
        assert!(away.ready && away.writes_refused.contains("set 0 are there"), "{}", away.writes_refused);
        let full = SetReport { voting: 3, with_room: 2, ..of_three };
        let readiness = serving(moment(vec![full])).readiness();
        let why = readiness.writes_refused;
        assert!(
            readiness.ready && why.contains("set 0 have room for shards") && why.contains("10m"),
            "{why}"
        );
        let whole = SetReport { voting: 3, taking_shards: 3, ..of_three };
        assert_eq!(serving(moment(vec![whole])).readiness().writes_refused, "");
    }

    #[test]
    fn no_sets_at_all_is_not_ready() {
        assert!(!serving(moment(Vec::new())).readiness().ready);
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_lets_no_request_in_is_not_ready_and_says_why() {
        let health = serving(moment(vec![set(4)]));
        health.refusals().refuse();
        assert!(health.readiness().ready && health.serving().serving);
        assert!(health.readiness().requests_refused.contains("503"));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert!(!health.readiness().ready && !health.serving().serving);
        assert!(health.serving().requests_refused.contains("limits.requests_max"));
        health.refusals().let_in();
        assert!(health.readiness().ready && health.serving().serving);
    }

    #[test]
    fn a_process_told_to_stop_is_not_ready_and_stays_so() {
        let health = serving(moment(vec![set(4)]));
        assert!(health.readiness().ready);
        health.stop();
        health.serve();
        assert_eq!(health.readiness().phase, Phase::Stopping);
        assert!(!health.readiness().ready);
    }
}
