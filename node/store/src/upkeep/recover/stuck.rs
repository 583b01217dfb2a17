//! Sets that wait for ever: too many of their volumes lost state for the others to vote after a restart. The
//! decision is `core::register::recover::outlook`'s; here it is put into words, with the way out. And sets
//! whose empty directories stay empty, because fewer volumes than data shards are left to fill them from.

use std::fmt;

use sherd_core::id::SetId;
use sherd_core::register::recover::outlook::{Outlook, SetStanding, outlook};
use sherd_core::report::VolumeStanding;

use super::sources::DataSources;
use super::status::Recoveries;
use crate::cluster::SetView;
use crate::upkeep::deps::Deps;

/// A set that does not come back by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StuckSet {
    set: SetId,
    lost: Vec<String>,
    /// Volumes that were opened and do not vote.
    unconfirmed: Vec<String>,
    way_out: WayOut,
}

/// The end of the wait, beside lost volumes that come back as they were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WayOut {
    /// An operator's vouching for the unconfirmed volumes is enough.
    Vouching,
    /// Too few are left to vouch for.
    NoVouching,
    /// The others with data are fewer than objects are read from. An order fills the empty directories
    /// nevertheless.
    Replacing { left: usize, data_shards: usize },
}

impl fmt::Display for StuckSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { set, lost, unconfirmed, way_out } = self;
        let (count, lost) = (lost.len(), lost.join(", "));
        let why = match way_out {
            WayOut::Vouching | WayOut::NoVouching => {
                "the others are too few to confirm each other".to_owned()
            }
            WayOut::Replacing { left, data_shards } => {
                format!("{left} are there with their data, where {data_shards} are needed to read an object")
            }
        };
        write!(
            f,
            "set {} does not come back by itself: {count} of its volumes lost their state ({lost}), and {why}. Bring \
             a lost volume back as it was",
            set.0
        )?;
        match way_out {
            WayOut::Vouching => {
                let unconfirmed = unconfirmed.join(", ");
                write!(
                    f,
                    ", or start once with `serve --vouch` if {unconfirmed} lost nothing: they vote then, and the \
                     lost ones are rebuilt from them; acknowledged writes that they lack are lost"
                )?;
            }
            WayOut::NoVouching => {
                f.write_str(": fewer are left than a read needs, so vouching for them is not enough")?;
            }
            WayOut::Replacing { .. } => {
                f.write_str(
                    ": empty directories are left as they are, unless a person orders to replace their volumes; \
                     objects that cannot be read are lost then",
                )?;
            }
        }
        Ok(())
    }
}

/// Why a set does not come back by itself; `None` when it may.
pub(crate) fn stuck(deps: &Deps, recoveries: &Recoveries, set: &SetView) -> Option<StuckSet> {
    let mut standing = SetStanding::default();
    let (mut lost, mut unconfirmed) = (Vec::new(), Vec::new());
    let mut empty_count = 0;
    for route in &set.routes {
        let (name, held, is_open) = match deps.volumes.get(route.volume) {
            Some(volume) => {
                let state = volume.state();
                (volume.path().display().to_string(), state.standing(), state.is_reachable())
            }
            None => match deps.cluster.remote().volume(route.volume) {
                Some(remote) => {
                    let report = remote.report;
                    (format!("{} of {}", report.path, report.node), report.standing, report.is_open)
                }
                None => (String::new(), VolumeStanding::Away, false),
            },
        };
        match held {
            VolumeStanding::Voting => standing.voting += 1,
            VolumeStanding::Unconfirmed => {
                standing.unconfirmed += 1;
                unconfirmed.push(name);
            }
            VolumeStanding::Lost => {
                standing.lost += 1;
                empty_count += usize::from(!is_open);
                lost.push(name);
            }
            VolumeStanding::Away => standing.away += 1,
        }
    }
    // The count by which empty directories are filled. Those that are recovering are filled already.
    let left = DataSources::of_set(deps, recoveries, set).reachable();
    let data_shards = set.geometry.data_shards();
    let way_out = match outlook(standing, set.quorums()) {
        Outlook::Open if empty_count > 0 && left < data_shards => WayOut::Replacing { left, data_shards },
        Outlook::Open => return None,
        // Vouched for by the settings: the volumes vote in a moment.
        Outlook::NeedsVouching if deps.settings.vouch_after.is_some() => return None,
        Outlook::NeedsVouching => WayOut::Vouching,
        Outlook::NeedsVolumes => WayOut::NoVouching,
    };
    Some(StuckSet { set: set.id, lost, unconfirmed, way_out })
}
