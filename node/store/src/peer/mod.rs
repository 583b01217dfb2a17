//! The seam to a node that owns volumes: [`Peer`], with the typed calls of [`RegisterPeer`], [`ShardPeer`]
//! and [`UpkeepPeer`].
//!
//! A call starts the work at once and gives back a [`Pending`]; waiting for it, and giving up on it, is the
//! caller's business. Each call states the effect of dropping its `Pending`: one that **ends** may stop,
//! because it only reads; one that **runs on** is done to its end, because others rely on it or cannot know
//! that it was not done. Every call may be repeated: registers by their ballots, shards by their ids.
//!
//! Over the network a call that ends is given up at both ends within 100 ms of its drop; of each volume one
//! runs on, to show whether the volume is late.
//!
//! A call to another node has a deadline, after which its outcome is unknown. Which volumes let their callers
//! wait is remembered here, for all calls together: [`VolumeRoute::is_late`].

use std::sync::Arc;

use sherd_core::id::VolumeId;

mod limits;
mod busy;
mod fanout;
mod local;
mod pending;
pub mod remote;
#[cfg(any(test, feature = "testing"))]
#[cfg_attr(not(test), allow(dead_code, clippy::disallowed_methods, reason = "tests"))]
pub(crate) mod scripted;
mod seam;
pub mod watch;

pub(crate) use busy::ask_unless_busy;
pub use fanout::{Gather, HedgedGather};
pub(crate) use limits::LATE_LOOK_EVERY;
pub use limits::{APPENDS_UNDER_WAY_MAX, VERIFY_TURNS_MAX};
pub use local::LocalPeer;
pub use local::{CountedPage, PageShare, ScanRoom, WorkForPeer, entry_bytes, row_bytes};
pub use pending::{AnswerSender, Pending};
pub use seam::{Peer, RegisterPeer, ShardPeer, ShardSink, UpkeepPeer, VolumePeer};

/// A volume, and how the node that owns it is reached.
#[derive(Debug, Clone)]
pub struct VolumeRoute {
    /// The volume.
    pub volume: VolumeId,
    /// The node that owns it.
    pub peer: Arc<dyn VolumePeer>,
}

impl VolumeRoute {
    /// Whether the volume keeps its callers waiting: see [`Peer::is_late`].
    pub fn is_late(&self) -> bool {
        self.peer.is_late(self.volume)
    }

    /// Whether the connection to its node was lost just before: see [`Peer::is_returning`].
    pub fn is_returning(&self) -> bool {
        self.peer.is_returning(self.volume)
    }

    /// Whether a call to it waits for longer than one should: see [`Peer::has_overdue`].
    pub fn has_overdue(&self) -> bool {
        self.peer.has_overdue(self.volume)
    }

    /// The way to a volume through a peer.
    pub fn through<P: Peer + 'static>(volume: VolumeId, peer: &Arc<P>) -> Self {
        Self { volume, peer: Arc::<P>::clone(peer) }
    }
}
