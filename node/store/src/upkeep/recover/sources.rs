//! The volumes that a lost volume's data can be read from. An empty directory is filled by time alone while
//! they are at least as many as its set has data shards: with fewer, what the set held comes back only with
//! lost volumes as they were, and a directory that waits for its disk must not become another volume.
//!
//! A volume that votes while its shards are rebuilt does not count; nor does one that is away, since it may
//! come back as it was or not at all.

use sherd_core::id::VolumeId;
use sherd_core::report::{VolumeCondition, VolumeStanding};

use super::status::Recoveries;
use crate::upkeep::deps::Deps;

/// The other volumes of a lost volume's set that hold their data, and how many a rebuild reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DataSources {
    there: usize,
    needed: usize,
}

impl DataSources {
    pub(crate) fn of(deps: &Deps, recoveries: &Recoveries, lost: VolumeId) -> Option<Self> {
        let set = deps.set_with(lost)?;
        let others = set.routes.iter().map(|route| route.volume).filter(|volume| *volume != lost);
        let there = others.filter(|volume| holds_data(deps, recoveries, *volume)).count();
        Some(Self { there, needed: set.geometry.data_shards() })
    }

    /// Whether all that the lost volume held can be made again.
    pub(crate) const fn are_enough(self) -> bool {
        self.there >= self.needed
    }

    /// The reason why an empty directory stays empty.
    pub(crate) fn too_few(self) -> String {
        let Self { there, needed } = self;
        format!(
            "its directory is empty, and {there} other volumes of its set hold their data, where {needed} are needed to \
             rebuild it: nothing is written there until more come back as they were, or a person orders to replace it"
        )
    }
}

fn holds_data(deps: &Deps, recoveries: &Recoveries, volume: VolumeId) -> bool {
    let (standing, is_rebuilt) = match deps.volumes.get(volume) {
        Some(local) => (local.state().standing(), recoveries.is_running(volume)),
        None => match deps.cluster.remote().volume(volume) {
            Some(remote) => {
                (remote.report.standing, remote.report.condition == Some(VolumeCondition::Recovering))
            }
            None => (VolumeStanding::Away, false),
        },
    };
    match standing {
        VolumeStanding::Voting | VolumeStanding::Unconfirmed => !is_rebuilt,
        VolumeStanding::Lost | VolumeStanding::Away => false,
    }
}
