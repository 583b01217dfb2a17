//! Live, ready, and the reasons for not.
//!
//! Live means that the process answers. Serving means that every erasure set has its read quorum and the
//! process was not told to stop; ready means the same with the write quorum. A node whose volumes are full is
//! ready, for reads and deletes work and only deletes make room; it says that it refuses writes. The state
//! itself is the node's: it gives a closure that makes a [`HealthReport`], and this file only judges and
//! prints it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use serde::Serialize;
use sherd_core::report::VolumeCondition;
use sherd_volume::options::Durability;

use sherd_store::machine::quantity::Period;

/// One volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VolumeHealth {
    /// Its name in metrics: the directory.
    pub name: String,
    /// What it can do.
    pub state: VolumeCondition,
    /// Why it is not online; empty when it is.
    pub reason: String,
}

/// One erasure set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SetHealth {
    /// Its number in the topology.
    pub set: u32,
    /// Volumes that belong to it.
    pub volumes: usize,
    /// Volumes of it that vote.
    pub voting: usize,
    /// Volumes of it that have room.
    pub with_room: usize,
    /// Volumes of it that take shards of new data: they are there, and have room.
    pub taking_shards: usize,
    /// Shards that a write of new data has to make durable.
    pub shards_needed: usize,
    /// Votes that a write needs.
    pub write_quorum: usize,
    /// Votes that a read needs.
    pub read_quorum: usize,
}

impl SetHealth {
    const fn writable(&self) -> bool {
        self.voting >= self.write_quorum
    }

    const fn readable(&self) -> bool {
        self.voting >= self.read_quorum
    }

    /// Whether what is kept in its row is refused for lack of room.
    const fn is_full(&self) -> bool {
        self.with_room < self.write_quorum
    }

    /// Whether what has shards is refused for lack of room.
    const fn is_full_for_shards(&self) -> bool {
        self.with_room < self.shards_needed
    }

    const fn takes_shards(&self) -> bool {
        self.taking_shards >= self.shards_needed
    }
}

/// What the node knows of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HealthReport {
    /// Every erasure set.
    pub sets: Vec<SetHealth>,
    /// Every volume of this node.
    pub volumes: Vec<VolumeHealth>,
    /// Why sets do not come back by themselves, and what ends that.
    pub stuck: Vec<String>,
    /// How long the space of deleted objects stays taken.
    pub release_grace: Duration,
}

impl HealthReport {
    /// Why writes are refused although there are votes for them; empty when they are not.
    fn writes_refused(&self) -> String {
        let sets = |is_so: fn(&SetHealth) -> bool| {
            let named = self.sets.iter().filter(|set| set.writable() && is_so(set));
            named.map(|set| set.set.to_string()).collect::<Vec<_>>().join(", ")
        };
        let full = sets(SetHealth::is_full);
        let nearly_full = sets(|set| set.is_full_for_shards() && !set.is_full());
        let away = sets(|set| !set.takes_shards() && !set.is_full_for_shards());
        let grace = Period(self.release_grace);
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
}

/// Makes a report of this moment; called for every probe, so it must not wait.
pub type ReportSource = Arc<dyn Fn() -> HealthReport + Send + Sync>;

/// Lists what is wrong with the cluster at this moment; called for every probe, so it must not wait.
pub type ProblemSource = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

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
    /// Told to stop; requests under way still end.
    Stopping,
}

/// The answer of a readiness probe.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Readiness {
    /// Whether requests should come here.
    pub ready: bool,
    /// Why writes, or those with shards, are refused: for lack of space or of volumes. Empty when they are not.
    pub writes_refused: String,
    /// Why sets do not come back by themselves, and what ends that: somebody has to decide.
    pub stuck: Vec<String>,
    /// What is wrong with the cluster as this node sees it, as `status` lists it: other credentials, one volume in two
    /// places, nodes of one name. It makes no node unready: what serving needs is judged by its votes.
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
    pub degraded_sets: Vec<SetHealth>,
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
    /// Sets without their read quorum.
    pub unreadable_sets: Vec<SetHealth>,
}

/// What a node waits for before its cluster is formed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FormationWait {
    /// The nodes that did not answer yet.
    pub waiting_for: Vec<String>,
    /// Why the cluster is not formed, in words.
    pub reason: String,
}

/// The health of one process; shared by the admin listener and the one who stops it.
pub struct Health {
    durability: Durability,
    phase: AtomicU8,
    forming: RwLock<Option<FormationWait>>,
    source: RwLock<Option<ReportSource>>,
    problems: RwLock<Option<ProblemSource>>,
}

impl std::fmt::Debug for Health {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Health")
            .field("durability", &self.durability)
            .field("phase", &self.phase())
            .finish_non_exhaustive()
    }
}

impl Health {
    /// A process that is opening its volumes.
    pub fn opening(durability: Durability) -> Self {
        let (forming, source, problems) = (RwLock::default(), RwLock::default(), RwLock::default());
        Self { durability, phase: AtomicU8::new(0), forming, source, problems }
    }

    /// What is wrong with the cluster comes from `source` from here on: also while it is forming.
    pub fn know_problems(&self, source: ProblemSource) {
        *self.problems.write() = Some(source);
    }

    /// The cluster is not formed yet, and waits for this; `None` when it is formed.
    pub fn form(&self, forming: Option<FormationWait>) {
        *self.forming.write() = forming;
    }

    /// The volumes are open: reports come from `source` from here on. Too late once stopping.
    pub fn serve(&self, source: ReportSource) {
        *self.source.write() = Some(source);
        // Fails only when the process was told to stop meanwhile, and then it stays so.
        let _was = self.phase.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire);
    }

    /// The process was told to stop: not ready from here on.
    pub fn stop(&self) {
        self.phase.store(2, Ordering::Release);
    }

    /// Where the process is in its life.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 if self.forming.read().is_some() => Phase::Forming,
            0 => Phase::Opening,
            1 => Phase::Serving,
            _ => Phase::Stopping,
        }
    }

    fn report(&self) -> HealthReport {
        let source = self.source.read().as_ref().map(Arc::clone);
        source.map(|report| report()).unwrap_or_default()
    }

    /// Judges whether reads should come here at this moment.
    pub fn serving(&self) -> ServingState {
        let HealthReport { sets, volumes: _, stuck: _, release_grace: _ } = self.report();
        let phase = self.phase();
        let any = !sets.is_empty();
        let unreadable_sets: Vec<_> = sets.into_iter().filter(|set| !set.readable()).collect();
        let FormationWait { waiting_for, reason } = self.forming.read().clone().unwrap_or_default();
        ServingState {
            serving: phase == Phase::Serving && any && unreadable_sets.is_empty(),
            phase,
            waiting_for,
            forming: reason,
            unreadable_sets,
        }
    }

    /// Judges whether requests of every kind should come here at this moment.
    pub fn readiness(&self) -> Readiness {
        let report = self.report();
        let writes_refused = report.writes_refused();
        let HealthReport { sets, volumes, stuck, release_grace: _ } = report;
        let phase = self.phase();
        let any = !sets.is_empty();
        let degraded_sets: Vec<_> = sets.into_iter().filter(|set| !set.writable()).collect();
        let FormationWait { waiting_for, reason } = self.forming.read().clone().unwrap_or_default();
        Readiness {
            ready: phase == Phase::Serving && any && degraded_sets.is_empty(),
            writes_refused,
            stuck,
            problems: self.problems.read().as_ref().map_or_else(Vec::new, |problems| problems()),
            phase,
            waiting_for,
            forming: reason,
            durability: self.durability.as_str(),
            degraded_sets,
            degraded_volumes: volumes
                .into_iter()
                .filter(|volume| volume.state != VolumeCondition::Online)
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(voting: usize) -> SetHealth {
        SetHealth {
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

    fn report(sets: Vec<SetHealth>, volumes: Vec<VolumeHealth>) -> HealthReport {
        HealthReport { sets, volumes, release_grace: Duration::from_mins(10), ..HealthReport::default() }
    }

    fn serving(report: HealthReport) -> Health {
        let health = Health::opening(Durability::Fsync);
        health.serve(Arc::new(move || report.clone()));
        health
    }

    #[test]
    fn a_process_that_opens_is_not_ready() {
        let readiness = Health::opening(Durability::None).readiness();
        assert!(!readiness.ready);
        assert_eq!((readiness.phase, readiness.durability), (Phase::Opening, "none"));
    }

    #[test]
    fn every_set_with_its_write_quorum_is_ready_and_says_what_is_degraded() {
        let failed =
            VolumeHealth { name: "/v4".into(), state: VolumeCondition::Failed, reason: "fsync: EIO".into() };
        let fine = VolumeHealth { name: "/v1".into(), state: VolumeCondition::Online, reason: String::new() };
        let readiness = serving(report(vec![set(3)], vec![fine, failed.clone()])).readiness();
        assert!(readiness.ready);
        assert_eq!(readiness.degraded_volumes, [failed]);
        assert!(readiness.degraded_sets.is_empty());
    }

    #[test]
    fn one_set_below_its_write_quorum_is_not_ready() {
        let readiness = serving(report(vec![set(4), set(2)], vec![])).readiness();
        assert!(!readiness.ready);
        assert_eq!(readiness.degraded_sets, [set(2)]);
    }

    #[test]
    fn a_set_with_its_read_quorum_serves_and_one_below_does_not() {
        let at_read_quorum = serving(report(vec![set(4), set(2)], vec![]));
        assert!(at_read_quorum.serving().serving && !at_read_quorum.readiness().ready);
        let below = serving(report(vec![set(4), set(1)], vec![]));
        assert_eq!((below.serving().serving, below.serving().unreadable_sets), (false, vec![set(1)]));
        at_read_quorum.stop();
        assert!(!at_read_quorum.serving().serving);
        assert!(!serving(HealthReport::default()).serving().serving);
    }

    #[test]
    fn a_node_of_a_cluster_that_is_not_formed_names_what_it_waits_for() {
        let health = Health::opening(Durability::Fsync);
        let waiting_for = vec!["n2".to_owned()];
        health.form(Some(FormationWait {
            waiting_for: waiting_for.clone(),
            reason: "n2 does not answer".to_owned(),
        }));
        let ServingState { serving, phase, waiting_for: named, .. } = health.serving();
        assert_eq!((serving, phase, named), (false, Phase::Forming, waiting_for));
        health.form(None);
        assert_eq!(health.readiness().phase, Phase::Opening);
    }

    #[test]
    fn a_set_that_waits_for_ever_says_so() {
        let stuck = vec!["set 0 does not come back by itself".to_owned()];
        let report = HealthReport { stuck: stuck.clone(), ..report(vec![set(0)], vec![]) };
        let readiness = serving(report).readiness();
        assert!(!readiness.ready);
        assert_eq!(readiness.stuck, stuck);
    }

    #[test]
    fn full_volumes_are_ready_and_say_that_writes_are_refused_and_until_when() {
        let some_room = serving(report(vec![SetHealth { with_room: 3, ..set(4) }], vec![])).readiness();
        assert_eq!((some_room.ready, some_room.writes_refused.as_str()), (true, ""));
        let full = SetHealth { set: 7, with_room: 2, ..set(4) };
        let readiness = serving(report(vec![set(4), full], vec![])).readiness();
        assert!(readiness.ready, "deletes must come here to make room");
        let why = readiness.writes_refused;
        assert!(
            why.contains("set 7 are full") && why.contains("10m") && why.contains("release_grace"),
            "{why}"
        );
    }

    #[test]
    fn too_few_volumes_for_shards_are_ready_and_say_that_writes_are_refused() {
        let of_three = SetHealth { volumes: 3, with_room: 3, shards_needed: 3, write_quorum: 2, ..set(2) };
        let away = serving(report(vec![of_three], vec![])).readiness();
        assert!(away.ready && away.writes_refused.contains("set 0 are there"), "{}", away.writes_refused);
        let full = SetHealth { voting: 3, with_room: 2, ..of_three };
        let readiness = serving(report(vec![full], vec![])).readiness();
        let why = readiness.writes_refused;
        assert!(
            readiness.ready && why.contains("set 0 have room for shards") && why.contains("10m"),
            "{why}"
        );
        let whole = SetHealth { voting: 3, taking_shards: 3, ..of_three };
        assert_eq!(serving(report(vec![whole], vec![])).readiness().writes_refused, "");
    }

    #[test]
    fn no_sets_at_all_is_not_ready() {
        assert!(!serving(HealthReport::default()).readiness().ready);
    }

    #[test]
    fn a_process_told_to_stop_is_not_ready_and_stays_so() {
        let health = serving(report(vec![set(4)], vec![]));
        assert!(health.readiness().ready);
        health.stop();
        health.serve(Arc::new(HealthReport::default));
        assert_eq!(health.readiness().phase, Phase::Stopping);
        assert!(!health.readiness().ready);
    }
}
