//! Another node's volumes, over two connections.
//!
//! A [`Link`] keeps the connections; a [`GrpcPeer`] turns each call of the seam into a message and each reply
//! into an answer. `Busy` and `Full` come from replies alone, and say that nothing was stored. Every other
//! failure between here and the peer's volume has an unknown outcome, and is `Unreachable`.

mod calls;
mod connection;
mod keeper;
mod limits;
mod link;
mod reply;
mod seam;
mod sink;
mod status;
mod transfers;
mod waiting;

use sherd_core::id::VolumeId;
use sherd_proto::convert::Wire;
use sherd_proto::convert::value::VolumeAddress;
use sherd_proto::v1::Addressed;

pub use self::connection::Connection;
pub use self::limits::LINK_CONNECTIONS_MAX;
pub use self::link::{Link, LinkConfig};
use sherd_store::observe::peer_calls::LoggedCall;
use sherd_store::observe::trace;
use sherd_store::peer::remote::RemoteVolumes;
use sherd_store::peer::watch::{CallLength, CallWatches};
use sherd_store::peer::{AnswerSender, Pending};

/// The volumes of one other node.
#[derive(Debug, Clone)]
pub struct GrpcPeer {
    link: Link,
    remote: RemoteVolumes,
    watches: CallWatches,
}

impl GrpcPeer {
    /// Reaches the volumes of the node at the other end of `link`; `remote` says what they reported last.
    pub fn new(link: Link, remote: RemoteVolumes) -> Self {
        Self { link, remote, watches: CallWatches::default() }
    }

    /// The link to its node.
    pub const fn link(&self) -> &Link {
        &self.link
    }

    /// An answer to come; the volume is late while that of a short call does not.
    fn waiting<R>(
        &self,
        volume: VolumeId,
        length: CallLength,
        call: &'static str,
    ) -> (AnswerSender<R>, Pending<R>) {
        let (answering, pending) = Pending::begin(length, &self.watches.of(volume));
        (answering.logging(self.logged(volume, call)), pending)
    }

    /// The line of a call to a volume, where there is to be one.
    fn logged(&self, volume: VolumeId, call: &'static str) -> Option<Box<LoggedCall>> {
        LoggedCall::begin(call, &self.link.peer().name, volume)
    }

    fn address(&self, volume: VolumeId) -> Addressed {
        let (life, request) = (self.remote.life_of(volume), trace::current_id());
        VolumeAddress { volume, life, request }.to_wire()
    }
}
