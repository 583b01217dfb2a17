//! Sets that wait for ever: too many of their volumes lost state for the others to vote after a restart. The
//! decision is `core::register::recover::outlook`'s; here it is put into words, with the way out.

use std::fmt;

use sherd_core::id::SetId;
use sherd_core::register::recover::outlook::{Outlook, SetStanding, outlook};
use sherd_proto::v1::VolumeReport;

use super::super::Context;
use crate::cluster::SetView;
use crate::volumes::VolumeState;

/// A set that does not come back by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StuckSet {
    set: SetId,
    /// Its volumes that lost their state.
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

impl Context {
    /// Why a set does not come back by itself; `None` when it may.
    pub(in crate::upkeep) fn stuck(&self, set: &SetView) -> Option<StuckSet> {
        let mut standing = SetStanding::default();
        let (mut lost, mut unconfirmed) = (Vec::new(), Vec::new());
        for route in &set.routes {
            let Some(volume) = self.volumes.get(route.volume) else {
                let report = self.cluster.remote().volume(route.volume).map(|remote| remote.report);
                let name = |report: &VolumeReport| format!("{} of {}", report.path, report.node);
                match report {
                    Some(report) if report.votes => standing.voting += 1,
                    Some(report) if report.unconfirmed => {
                        standing.unconfirmed += 1;
                        unconfirmed.push(name(&report));
                    }
                    Some(report) if report.lost => {
                        standing.lost += 1;
                        lost.push(name(&report));
                    }
                    Some(_) | None => standing.away += 1,
                }
                continue;
            };
            match volume.state() {
                VolumeState::Online | VolumeState::Suspect { .. } => standing.voting += 1,
                VolumeState::Unconfirmed { .. } => {
                    standing.unconfirmed += 1;
                    unconfirmed.push(volume.path().display().to_string());
                }
                VolumeState::Recovering | VolumeState::Vacant { .. } | VolumeState::Failed { .. } => {
                    standing.lost += 1;
                    lost.push(volume.path().display().to_string());
                }
                VolumeState::Opening | VolumeState::Offline { .. } | VolumeState::Closed => {
                    standing.away += 1;
                }
            }
        }
        let may_vouch = match outlook(standing, set.quorums()) {
            Outlook::Open => return None,
            // It was vouched for already: they vote in a moment.
            Outlook::NeedsVouching if self.settings.vouch_after.is_some() => return None,
            Outlook::NeedsVouching => true,
            Outlook::NeedsVolumes => false,
        };
        Some(StuckSet { set: set.id, lost, unconfirmed, may_vouch })
    }
}
