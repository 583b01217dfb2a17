//! The volumes that a lost volume's data can be read from. An empty directory is filled by time alone while
//! they are at least as many as its set has data shards: with fewer, what the set held comes back only with
//! lost volumes as they were, and a directory that waits for its disk must not become another volume.
//!
//! A volume counts that votes and of which it is known what it lacks. One whose shards are rebuilt does not,
//! nor one that is away: it may come back as it was, or not at all.

use sherd_core::id::VolumeId;
use sherd_core::report::{VolumeCondition, VolumeReport, VolumeStanding};

use super::notes::ComparisonPoint;
use super::status::{OpeningStatus, Recoveries};
use crate::cluster::SetView;
use crate::upkeep::deps::Deps;
use crate::volumes::{LocalVolume, VolumeState};

/// The part of a volume in the rebuild of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SourceState {
    /// Holds its data.
    HasData,
    /// Opened, and not compared with its peers yet.
    Opening,
    /// Unreachable; may come back as it was.
    Away,
    /// Data lost, or not rebuilt yet.
    Lost,
}

/// Volumes of a set that hold their data, and how many a rebuild reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DataSources {
    there: usize,
    opening: usize,
    needed: usize,
}

impl DataSources {
    /// Volumes that a lost volume is rebuilt from; `None` where it is in no set.
    pub(crate) fn of(deps: &Deps, recoveries: &Recoveries, lost: VolumeId) -> Option<Self> {
        let set = deps.set_with(lost)?;
        Some(Self::among(deps, recoveries, &set, Some(lost)))
    }

    /// Volumes of a whole set.
    pub(crate) fn of_set(deps: &Deps, recoveries: &Recoveries, set: &SetView) -> Self {
        Self::among(deps, recoveries, set, None)
    }

    fn among(deps: &Deps, recoveries: &Recoveries, set: &SetView, lost: Option<VolumeId>) -> Self {
        let mut sources = Self { there: 0, opening: 0, needed: set.geometry.data_shards() };
        let others = set.routes.iter().map(|route| route.volume).filter(|volume| Some(*volume) != lost);
        for volume in others {
            match source_state(deps, recoveries, volume) {
                SourceState::HasData => sources.there += 1,
                SourceState::Opening => sources.opening += 1,
                SourceState::Away | SourceState::Lost => {}
            }
        }
        sources
    }

    /// Whether all that the lost volume held can be made again.
    pub(crate) const fn are_enough(self) -> bool {
        self.there >= self.needed
    }

    /// Volumes that hold their data or may show in a moment that they do.
    pub(crate) const fn reachable(self) -> usize {
        self.there + self.opening
    }

    /// The reason why an empty directory stays empty.
    pub(crate) fn too_few(self) -> String {
        let (reachable, needed) = (self.reachable(), self.needed);
        if reachable >= needed {
            return format!(
                "its directory is empty, and it is not known yet whether {needed} other volumes of its set hold their data"
            );
        }
        format!(
            "its directory is empty, and at most {reachable} other volumes of its set hold their data, where {needed} \
             are needed to rebuild it: nothing is written there until more come back as they were, or a person orders \
             to replace it"
        )
    }
}

fn source_state(deps: &Deps, recoveries: &Recoveries, volume: VolumeId) -> SourceState {
    match deps.volumes.get(volume) {
        Some(local) => state_of_local(deps, recoveries, local),
        None => deps
            .cluster
            .remote()
            .volume(volume)
            .map_or(SourceState::Away, |remote| state_of_report(&remote.report)),
    }
}

fn state_of_local(deps: &Deps, recoveries: &Recoveries, local: &LocalVolume) -> SourceState {
    let lost_reports = deps.report_counts.lost_heals_count();
    let since = ComparisonPoint { opening: local.opened_count(), lost_reports };
    let state = local.state();
    match state.standing() {
        VolumeStanding::Voting => match recoveries.standing(local.id(), since, deps.wall_ms()) {
            OpeningStatus::Known => SourceState::HasData,
            OpeningStatus::Recovering(_) => SourceState::Lost,
            OpeningStatus::Unknown => SourceState::Opening,
        },
        VolumeStanding::Unconfirmed => SourceState::Opening,
        VolumeStanding::Lost => SourceState::Lost,
        VolumeStanding::Away if state == VolumeState::Opening => SourceState::Opening,
        VolumeStanding::Away => SourceState::Away,
    }
}

/// The last report of a node that is down stays: only an open volume counts.
fn state_of_report(report: &VolumeReport) -> SourceState {
    match (report.standing, report.condition) {
        (VolumeStanding::Lost, _) | (_, Some(VolumeCondition::Recovering)) => SourceState::Lost,
        (VolumeStanding::Away, Some(VolumeCondition::Opening)) => SourceState::Opening,
        (VolumeStanding::Away, _) => SourceState::Away,
        _ if !report.is_open => SourceState::Away,
        (
            VolumeStanding::Voting,
            Some(VolumeCondition::Online | VolumeCondition::Full | VolumeCondition::Suspect),
        ) => SourceState::HasData,
        (VolumeStanding::Voting | VolumeStanding::Unconfirmed, _) => SourceState::Opening,
    }
}

#[cfg(test)]
mod tests {
    use sherd_core::id::NodeId;

    use super::*;
    use crate::peer::remote::RemoteVolumes;

    const NODE: NodeId = NodeId([1; 16]);
    const VOLUME: VolumeId = VolumeId([7; 16]);

    fn open(standing: VolumeStanding, condition: VolumeCondition) -> VolumeReport {
        VolumeReport { condition: Some(condition), standing, is_open: true, ..VolumeReport::of(VOLUME) }
    }

    fn shown(table: &RemoteVolumes) -> SourceState {
        state_of_report(&table.volume(VOLUME).expect("reported").report)
    }

    #[test]
    fn a_volume_of_another_node_counts_while_it_is_open_and_known() {
        use VolumeCondition::{Full, Offline, Online, Opening, Recovering, Suspect};
        use VolumeStanding::{Away, Lost, Unconfirmed, Voting};
        let state = |standing, condition| state_of_report(&open(standing, condition));
        for condition in [Online, Full, Suspect] {
            assert_eq!(state(Voting, condition), SourceState::HasData, "{condition:?}");
        }
        assert_eq!(state(Voting, Opening), SourceState::Opening, "what it lacks is not known");
        assert_eq!(state(Unconfirmed, Opening), SourceState::Opening);
        assert_eq!(state(Voting, Recovering), SourceState::Lost, "its shards are rebuilt");
        assert_eq!(state(Lost, Offline), SourceState::Lost);
        assert_eq!(state(Away, Offline), SourceState::Away);
        assert_eq!(state_of_report(&VolumeReport::of(VOLUME)), SourceState::Away);
    }

    #[test]
    fn the_last_report_of_a_node_that_is_down_counts_for_nothing() {
        for standing in [VolumeStanding::Voting, VolumeStanding::Unconfirmed] {
            let table = RemoteVolumes::default();
            table.replace(NODE, &[open(standing, VolumeCondition::Opening)]);
            assert_eq!(shown(&table), SourceState::Opening);
            table.node_is_down(NODE, "n1 is down");
            assert_eq!(shown(&table), SourceState::Away, "{standing:?}");
        }
        let table = RemoteVolumes::default();
        table.replace(NODE, &[open(VolumeStanding::Voting, VolumeCondition::Online)]);
        assert_eq!(shown(&table), SourceState::HasData);
        table.node_is_down(NODE, "n1 is down");
        assert_eq!(shown(&table), SourceState::Away);
    }
}
