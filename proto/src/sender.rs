//! The sender of a message: checked before the rest of the message is read.
//!
//! A node of another cluster, or of a version of the messages that is more than one away, is refused by
//! name, by either end: by the callee before it works, by the caller before it believes a reply. Epochs are
//! not compared here: each call names its own, and volumes judge it.

use sherd_core::id::{ClusterId, Epoch};

use crate::convert::{ConvertError, Wire};
use crate::limits::{WIRE_VERSION, WIRE_VERSION_OLDEST};
use crate::v1;

/// Why a sender's messages are not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SenderRefusal {
    /// The message does not say who sent it.
    #[error("the message names no sender")]
    Missing,
    /// Messages of a version that this program does not take.
    #[error("wire version {theirs}, and {takes}", takes = .rule.words())]
    Version {
        /// The sender's.
        theirs: u32,
        /// The rule that it breaks.
        rule: VersionRule,
    },
    /// A field of it is wrong.
    #[error(transparent)]
    Invalid(#[from] ConvertError),
    /// Member of another cluster.
    #[error("cluster {theirs}, and this node is of cluster {ours}")]
    Cluster {
        /// The sender's.
        theirs: ClusterId,
        /// This node's.
        ours: ClusterId,
    },
}

/// Versions of the messages that are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionRule {
    /// Between nodes: this version, the one before it, and the one after it, but none before
    /// [`WIRE_VERSION_OLDEST`].
    Nodes,
    /// Between a node and an operator or admin, both ways: every version there ever was and will be. They use
    /// `AdminService` alone, whose messages only ever get more fields.
    Admins,
}

impl VersionRule {
    /// Whether a program of version `ours` takes messages of version `theirs`.
    pub const fn takes(self, ours: u32, theirs: u32) -> bool {
        match self {
            Self::Nodes => theirs >= WIRE_VERSION_OLDEST && ours.abs_diff(theirs) <= 1,
            Self::Admins => theirs > 0,
        }
    }

    fn words(self) -> String {
        match self {
            Self::Nodes => {
                let oldest = (WIRE_VERSION - 1).max(WIRE_VERSION_OLDEST);
                format!("this node has {WIRE_VERSION} and takes {oldest} to {}", WIRE_VERSION + 1)
            }
            Self::Admins => "1 is the first".to_owned(),
        }
    }
}

/// This node as a sender; without an epoch until it has a topology.
pub fn sender(cluster: ClusterId, epoch: Option<Epoch>) -> v1::Sender {
    let epoch = epoch.map_or(0, |epoch| epoch.0);
    v1::Sender { wire: WIRE_VERSION, cluster: cluster.to_wire(), epoch }
}

/// Checks who sends a message, or a reply; gives the epoch of its topology, if it has one.
///
/// # Errors
/// [`SenderRefusal`] says what both sides are.
pub fn check(
    sender: Option<v1::Sender>,
    cluster: ClusterId,
    rule: VersionRule,
) -> Result<Option<Epoch>, SenderRefusal> {
    let v1::Sender { wire, cluster: theirs, epoch } = sender.ok_or(SenderRefusal::Missing)?;
    if !rule.takes(WIRE_VERSION, wire) {
        return Err(SenderRefusal::Version { theirs: wire, rule });
    }
    let theirs = ClusterId::from_wire(theirs)?;
    if theirs != cluster {
        return Err(SenderRefusal::Cluster { theirs, ours: cluster });
    }
    Ok((epoch > 0).then_some(Epoch(epoch)))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    const OURS: ClusterId = ClusterId([0xab; 16]);

    fn of_version(wire: u32) -> v1::Sender {
        v1::Sender { wire, ..sender(OURS, Some(Epoch(3))) }
    }

    #[test]
    fn a_node_of_this_cluster_is_taken() {
        for rule in [VersionRule::Nodes, VersionRule::Admins] {
            assert_eq!(check(Some(sender(OURS, Some(Epoch(3)))), OURS, rule), Ok(Some(Epoch(3))));
            assert_eq!(check(Some(sender(OURS, None)), OURS, rule), Ok(None), "it has no topology yet");
        }
    }

    #[test]
    fn others_are_refused_and_both_sides_named() {
        let said =
            |sender: Option<v1::Sender>, rule| check(sender, OURS, rule).expect_err("refused").to_string();
        let nodes = VersionRule::Nodes;
        assert_eq!(said(None, nodes), "the message names no sender");
        let (oldest, newest) = ((WIRE_VERSION - 1).max(WIRE_VERSION_OLDEST), WIRE_VERSION + 1);
        let takes = format!("and this node has {WIRE_VERSION} and takes {oldest} to {newest}");
        let newer = Some(of_version(newest + 1));
        assert_eq!(said(newer, nodes), format!("wire version {}, {takes}", newest + 1));
        for older in 0..oldest {
            assert_eq!(said(Some(of_version(older)), nodes), format!("wire version {older}, {takes}"));
        }
        assert_eq!(said(Some(of_version(0)), VersionRule::Admins), "wire version 0, and 1 is the first");
        let elsewhere = sender(ClusterId([0xcd; 16]), None);
        let named = format!("cluster {}, and this node is of cluster {OURS}", ClusterId([0xcd; 16]));
        assert_eq!(said(Some(elsewhere.clone()), nodes), named);
        assert_eq!(said(Some(elsewhere), VersionRule::Admins), named);
        let nameless = v1::Sender { cluster: Bytes::from_static(b"x"), ..sender(OURS, None) };
        assert_eq!(said(Some(nameless), nodes), "cluster id: 1 bytes instead of 16");
    }

    proptest! {
        /// A rolling upgrade has nodes of two versions that follow each other, and each asks the other.
        #[test]
        fn nodes_take_the_version_before_and_after_their_own_and_no_other(ours in WIRE_VERSION_OLDEST..1_000, theirs in 0..1_000_u32) {
            let takes = VersionRule::Nodes.takes(ours, theirs);
            let is_read = theirs >= WIRE_VERSION_OLDEST;
            prop_assert_eq!(takes, is_read && (theirs + 1 == ours || theirs == ours || theirs == ours + 1));
            prop_assert!(!is_read || takes == VersionRule::Nodes.takes(theirs, ours), "one side alone takes the other");
            prop_assert!(VersionRule::Nodes.takes(ours, ours + 1) && !VersionRule::Nodes.takes(ours, ours + 2));
        }

        /// An operator may be older or newer than nodes by any number of releases.
        #[test]
        fn admins_and_nodes_take_each_other_at_any_version(wire in 1..u32::MAX) {
            prop_assert_eq!(check(Some(of_version(wire)), OURS, VersionRule::Admins), Ok(Some(Epoch(3))));
            prop_assert!(VersionRule::Admins.takes(wire, 1) && VersionRule::Admins.takes(1, wire));
        }
    }
}
