//! The sender of a message: checked before the rest of the message is read.
//!
//! A node of another cluster, or of another version of the messages, is refused by name, by
//! either end. Epochs are not compared here: each call names its own, and volumes judge it.

use sherd_core::id::{ClusterId, Epoch};

use crate::convert::{ConvertError, Wire};
use crate::limits::WIRE_VERSION;
use crate::v1;

/// Why a sender's messages are not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SenderRefusal {
    /// The message does not say who sent it.
    #[error("the message names no sender")]
    Missing,
    /// Its messages have another version.
    #[error("wire version {theirs}, and this node has {ours}")]
    Version {
        /// The sender's.
        theirs: u32,
        /// This node's.
        ours: u32,
    },
    /// A field of it is wrong.
    #[error(transparent)]
    Invalid(#[from] ConvertError),
    /// It belongs to another cluster.
    #[error("cluster {theirs}, and this node is of cluster {ours}")]
    Cluster {
        /// The sender's.
        theirs: ClusterId,
        /// This node's.
        ours: ClusterId,
    },
}

/// This node as a sender; without an epoch until it has a topology.
pub fn sender(cluster: ClusterId, epoch: Option<Epoch>) -> v1::Sender {
    let epoch = epoch.map_or(0, |epoch| epoch.0);
    v1::Sender { wire: WIRE_VERSION, cluster: cluster.to_wire(), epoch }
}

/// Checks who sends a message; gives the epoch of its topology, if it has one.
///
/// # Errors
/// [`SenderRefusal`] says what both sides are.
pub fn check(sender: Option<v1::Sender>, cluster: ClusterId) -> Result<Option<Epoch>, SenderRefusal> {
    let v1::Sender { wire, cluster: theirs, epoch } = sender.ok_or(SenderRefusal::Missing)?;
    if wire != WIRE_VERSION {
        return Err(SenderRefusal::Version { theirs: wire, ours: WIRE_VERSION });
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

    use super::*;

    const OURS: ClusterId = ClusterId([0xab; 16]);

    #[test]
    fn a_node_of_this_cluster_is_taken() {
        assert_eq!(check(Some(sender(OURS, Some(Epoch(3)))), OURS), Ok(Some(Epoch(3))));
        assert_eq!(check(Some(sender(OURS, None)), OURS), Ok(None), "it has no topology yet");
    }

    #[test]
    fn others_are_refused_and_both_sides_named() {
        let said = |sender: Option<v1::Sender>| check(sender, OURS).expect_err("refused").to_string();
        assert_eq!(said(None), "the message names no sender");
        let newer = v1::Sender { wire: 2, ..sender(OURS, None) };
        assert_eq!(said(Some(newer)), "wire version 2, and this node has 1");
        let elsewhere = sender(ClusterId([0xcd; 16]), None);
        let named = format!("cluster {}, and this node is of cluster {OURS}", ClusterId([0xcd; 16]));
        assert_eq!(said(Some(elsewhere)), named);
        let nameless = v1::Sender { cluster: Bytes::from_static(b"x"), ..sender(OURS, None) };
        assert_eq!(said(Some(nameless)), "cluster id: 1 bytes instead of 16");
    }
}
