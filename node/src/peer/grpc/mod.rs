//! Another node's volumes, over two connections: the three seams as calls.
//!
//! A [`Link`] keeps the connections; a [`GrpcPeer`] turns each call of a seam into a message and each reply
//! into an answer. `Busy` and `Full` come from replies alone, and say that nothing was stored. Whatever else
//! goes wrong between here and the peer's volume has an unknown outcome, and is `Unreachable`.

mod calls;
mod connection;
mod limits;
mod link;
mod registers;
mod shards;
mod sink;
mod transfers;
mod upkeep;

use std::sync::Arc;

use tonic::Status;

use sherd_core::id::VolumeId;
use sherd_core::message::Error;
use sherd_proto::convert::{ConvertError, Wire};
use sherd_proto::v1::{Addressed, Failure, failure};

use self::calls::unreachable;
pub use self::connection::Connection;
pub use self::link::{Link, LinkConfig};

/// What is known of volumes on other nodes, as their nodes said last.
pub trait RemoteVolumes: Send + Sync + std::fmt::Debug {
    /// The life that a volume is in; 0 while it is not known.
    fn life_of(&self, volume: VolumeId) -> u32;

    /// Whether a volume had room for new data; `true` while it is not known.
    fn has_room(&self, volume: VolumeId) -> bool;
}

/// The volumes of one other node.
#[derive(Debug, Clone)]
pub struct GrpcPeer {
    link: Link,
    remote: Arc<dyn RemoteVolumes>,
}

impl GrpcPeer {
    /// Reaches the volumes of the node at the other end of `link`.
    pub fn new(link: Link, remote: Arc<dyn RemoteVolumes>) -> Self {
        Self { link, remote }
    }

    /// The link to its node.
    pub const fn link(&self) -> &Link {
        &self.link
    }

    fn address(&self, volume: VolumeId) -> Addressed {
        Addressed { volume: volume.to_wire(), life: self.remote.life_of(volume) }
    }
}

/// A failure that a peer's volume told.
fn failed(failure: Failure) -> Error {
    if let Some(failure::Why::OtherLife(life)) = failure.why {
        return unreachable(format!("the volume is in life {life}"));
    }
    Error::from_wire(failure).unwrap_or_else(|error| garbled(&error))
}

/// A reply that cannot be read: whether the call was done is not known.
fn garbled(error: &ConvertError) -> Error {
    unreachable(format!("the peer's reply: {error}"))
}

/// A bound of rows or entries; no page is nearly as long as a `u32` may say.
fn wire_limit(limit: usize) -> u32 {
    u32::try_from(limit).unwrap_or(u32::MAX)
}

/// What a status says.
fn told(status: &Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}
