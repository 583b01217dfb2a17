//! Another node's volumes, over two connections: the three seams as calls.
//!
//! A [`Link`] keeps the connections; a [`GrpcPeer`] turns each call of a seam into a message and each reply
//! into an answer. `Busy` and `Full` come from replies alone, and say that nothing was stored. Whatever else
//! goes wrong between here and the peer's volume has an unknown outcome, and is `Unreachable`.

mod calls;
mod connection;
mod keeper;
mod limits;
mod link;
mod registers;
mod shards;
mod sink;
mod transfers;
mod upkeep;
mod waiting;

use std::error::Error;

use tonic::Status;

use sherd_core::id::{Incarnation, VolumeId};
use sherd_core::message::Result;
use sherd_proto::convert::Wire;
use sherd_proto::convert::answer::{AnswerIn, ReplyMessage, answer};
use sherd_proto::convert::value::VolumeAddress;
use sherd_proto::v1::Addressed;

use self::calls::unreachable;
pub use self::connection::Connection;
pub use self::limits::LINK_CONNECTIONS_MAX;
pub use self::link::{Link, LinkConfig};
use super::{AnswerSender, Pending};
use crate::observe::peer_calls::LoggedCall;
use crate::observe::trace;
use crate::peer::remote::RemoteVolumes;
use crate::peer::watch::{CallLength, CallWatches};

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
        let (answering, pending) = self.watches.of(volume).begin(length);
        (answering.logging(self.logged(volume, call)), pending)
    }

    /// The line of a call to a volume, where there is to be one.
    fn logged(&self, volume: VolumeId, call: &'static str) -> Option<Box<LoggedCall>> {
        LoggedCall::begin(call, &self.link.peer().name, volume)
    }

    fn address(&self, volume: VolumeId) -> Addressed {
        let life = self.remote.life_of(volume);
        let life = (life > 0).then_some(Incarnation(life));
        VolumeAddress { volume, life, request: trace::current_id() }.to_wire()
    }
}

/// Answers with what a reply says.
fn deliver<R: ReplyMessage, A: AnswerIn<R>>(to: AnswerSender<A>, reply: Result<Option<R>>) {
    to.answer(reply.and_then(answered));
}

/// Reads a reply. From one that cannot be read it is not known whether the call was done.
fn answered<R: ReplyMessage, A: AnswerIn<R>>(reply: Option<R>) -> Result<A> {
    answer(reply).unwrap_or_else(|error| Err(unreachable(format!("the peer's reply: {error}"))))
}

/// Writes a status and its causes as a reason.
fn told(status: &Status) -> String {
    let said = format!("{:?}: {}", status.code(), status.message());
    status.source().map_or(said.clone(), |source| format!("{said}: {}", told_by(source)))
}

/// Writes an error and its causes as a reason.
fn told_by(error: &dyn Error) -> String {
    std::iter::successors(Some(error), |error| (*error).source())
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}
