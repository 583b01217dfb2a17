//! Live, ready, and the reasons for not.
//!
//! Live means that the process answers. Ready means that every erasure set has its write quorum
//! and nobody asked the process to stop. The state itself is the node's: it gives a closure that
//! makes a [`HealthReport`], and this file only judges and prints it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::RwLock;
use serde::Serialize;

use crate::config::settings::Durability;

/// What a volume can do at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum VolumeState {
    /// Replaying its log or rebuilding its index; or it votes, and what it lacks is not known yet.
    Opening,
    /// Votes, reads and writes.
    Online,
    /// As online, but slow or with errors: reads prefer others.
    Suspect,
    /// Lost its state: does not vote yet, or votes while its shards are rebuilt.
    Recovering,
    /// Refuses new data for lack of space.
    Full,
    /// Failed, and stays so until it is replaced.
    Failed,
    /// Cannot be reached.
    Offline,
}

impl VolumeState {
    /// Every state, for metrics.
    pub const ALL: [Self; 7] = [
        Self::Opening,
        Self::Online,
        Self::Suspect,
        Self::Recovering,
        Self::Full,
        Self::Failed,
        Self::Offline,
    ];

    /// The word for it in health and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Online => "online",
            Self::Suspect => "suspect",
            Self::Recovering => "recovering",
            Self::Full => "full",
            Self::Failed => "failed",
            Self::Offline => "offline",
        }
    }
}

/// One volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VolumeHealth {
    /// Its name in metrics: the directory.
    pub name: String,
    /// What it can do.
    pub state: VolumeState,
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
    /// Votes that a write needs.
    pub write_quorum: usize,
    /// Votes that a read needs.
    pub read_quorum: usize,
}

impl SetHealth {
    const fn writable(&self) -> bool {
        self.voting >= self.write_quorum
    }
}

/// What the node knows of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HealthReport {
    /// Every erasure set.
    pub sets: Vec<SetHealth>,
    /// Every volume of this node.
    pub volumes: Vec<VolumeHealth>,
}

/// Makes a report of this moment; called for every probe, so it must not wait.
pub type ReportSource = Arc<dyn Fn() -> HealthReport + Send + Sync>;

/// Where the process is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
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
    /// Where the process is in its life.
    pub phase: Phase,
    /// `fsync`, or `none` when acknowledged objects may be lost with the power.
    pub durability: &'static str,
    /// Sets without their write quorum.
    pub degraded_sets: Vec<SetHealth>,
    /// Volumes that are not online, with reasons.
    pub degraded_volumes: Vec<VolumeHealth>,
}

/// The health of one process; shared by the admin listener and the one who stops it.
pub struct Health {
    durability: Durability,
    phase: AtomicU8,
    source: RwLock<Option<ReportSource>>,
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
        Self { durability, phase: AtomicU8::new(0), source: RwLock::new(None) }
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
            0 => Phase::Opening,
            1 => Phase::Serving,
            _ => Phase::Stopping,
        }
    }

    /// Judges this moment.
    pub fn readiness(&self) -> Readiness {
        let source = self.source.read().as_ref().map(Arc::clone);
        let HealthReport { sets, volumes } = source.map(|report| report()).unwrap_or_default();
        let phase = self.phase();
        let any = !sets.is_empty();
        let degraded_sets: Vec<_> = sets.into_iter().filter(|set| !set.writable()).collect();
        Readiness {
            ready: phase == Phase::Serving && any && degraded_sets.is_empty(),
            phase,
            durability: self.durability.as_str(),
            degraded_sets,
            degraded_volumes: volumes
                .into_iter()
                .filter(|volume| volume.state != VolumeState::Online)
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(voting: usize) -> SetHealth {
        SetHealth { set: 0, volumes: 4, voting, write_quorum: 3, read_quorum: 2 }
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
            VolumeHealth { name: "/v4".into(), state: VolumeState::Failed, reason: "fsync: EIO".into() };
        let fine = VolumeHealth { name: "/v1".into(), state: VolumeState::Online, reason: String::new() };
        let readiness =
            serving(HealthReport { sets: vec![set(3)], volumes: vec![fine, failed.clone()] }).readiness();
        assert!(readiness.ready);
        assert_eq!(readiness.degraded_volumes, [failed]);
        assert!(readiness.degraded_sets.is_empty());
    }

    #[test]
    fn one_set_below_its_write_quorum_is_not_ready() {
        let readiness = serving(HealthReport { sets: vec![set(4), set(2)], volumes: vec![] }).readiness();
        assert!(!readiness.ready);
        assert_eq!(readiness.degraded_sets, [set(2)]);
    }

    #[test]
    fn no_sets_at_all_is_not_ready() {
        assert!(!serving(HealthReport::default()).readiness().ready);
    }

    #[test]
    fn a_process_told_to_stop_is_not_ready_and_stays_so() {
        let health = serving(HealthReport { sets: vec![set(4)], volumes: vec![] });
        assert!(health.readiness().ready);
        health.stop();
        health.serve(Arc::new(HealthReport::default));
        assert_eq!(health.readiness().phase, Phase::Stopping);
        assert!(!health.readiness().ready);
    }
}
