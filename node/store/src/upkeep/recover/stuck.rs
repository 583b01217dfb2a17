//! Sets that wait for ever: too many of their volumes lost state for the others to vote after a restart. The
//! decision is `core::register::recover::outlook`'s; here it is put into words, with the way out.

use std::fmt;

use sherd_core::id::SetId;
use sherd_core::register::recover::outlook::{Outlook, SetStanding, outlook};
use sherd_core::report::VolumeStanding;

use crate::cluster::SetView;
use crate::upkeep::deps::Deps;

/// A set that does not come back by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StuckSet {
    set: SetId,
    lost: Vec<String>,
    /// Those that were opened and do not vote.
    unconfirmed: Vec<String>,
    /// Whether it is enough to vouch for these.
    may_vouch: bool,
}

impl fmt::Display for StuckSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { set, lost, unconfirmed, may_vouch } = self;
        let (count, lost) = (lost.len(), lost.join(", "));
        write!(
            f,
            "set {} does not come back by itself: {count} of its volumes lost their state ({lost}), and the \
             others are too few to confirm each other. Bring a lost volume back as it was",
            set.0
        )?;
        if *may_vouch {
            let unconfirmed = unconfirmed.join(", ");
            write!(
                f,
                ", or start once with `serve --vouch` if {unconfirmed} lost nothing: they vote then, and the \
                 lost ones are rebuilt from them; acknowledged writes that they lack are lost"
            )?;
        } else {
            f.write_str(": fewer are left than a read needs, so vouching for them is not enough")?;
        }
        Ok(())
    }
}

/// Why a set does not come back by itself; `None` when it may.
pub(crate) fn stuck(deps: &Deps, set: &SetView) -> Option<StuckSet> {
    let mut standing = SetStanding::default();
    let (mut lost, mut unconfirmed) = (Vec::new(), Vec::new());
    for route in &set.routes {
        let (name, held) = match deps.volumes.get(route.volume) {
            Some(volume) => (volume.path().display().to_string(), volume.state().standing()),
            None => match deps.cluster.remote().volume(route.volume) {
                Some(remote) => {
                    let report = remote.report;
                    (format!("{} of {}", report.path, report.node), report.standing)
                }
                None => (String::new(), VolumeStanding::Away),
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
                lost.push(name);
            }
            VolumeStanding::Away => standing.away += 1,
        }
    }
    let may_vouch = match outlook(standing, set.quorums()) {
        Outlook::Open => return None,
        // It was vouched for already: they vote in a moment.
        Outlook::NeedsVouching if deps.settings.vouch_after.is_some() => return None,
        Outlook::NeedsVouching => true,
        Outlook::NeedsVolumes => false,
    };
    Some(StuckSet { set: set.id, lost, unconfirmed, may_vouch })
}
