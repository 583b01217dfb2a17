//! The seam to a node that owns volumes: [`Peer`], and a typed wrapper of each call.
//!
//! A call is a value, one row of the table in `core::message::call`; each carrier (this process, a
//! connection, a script of a test) is one `ask`. The wrappers of [`RegisterPeer`], [`ShardPeer`] and
//! [`UpkeepPeer`] are made of the table's rows. Bytes of shards are not calls: they have methods and streams
//! of their own.

use std::fmt::Debug;

use bytes::Bytes;

use sherd_core::checksum::ShardDigest;
use sherd_core::heal::{HealEntry, HealId};
use sherd_core::id::{Ballot, BucketId, Life, RegisterKey, ShardId, VolumeId};
use sherd_core::message::call::{RegisterCall, ShardCall, UpkeepCall, VolumeAnswer, VolumeCall};
use sherd_core::message::{
    AdoptedRow, Answer, Control, LeaseAnswer, ListPage, ListScan, LookPage, LookScan, PartsScan, PulledRow,
    ReaderLeases, RowPage, RowScan, ScannedRow, ShardFileHeader, ShardPage, ShardRange, ShardScan, Target,
    UnsettledKind, UnsettledPage, ValueLimit,
};
use sherd_core::record::Home;
use sherd_core::register::recover::Guarantees;
use sherd_core::register::recover::confirm::{Asker, Memory};
use sherd_core::register::seal::StoredSeals;
use sherd_core::register::{Accept, Answerer, CommitHint, Prepare, Vote};
use sherd_core::release::{ReleaseEntry, ReleaseId};

use super::Pending;

/// A node that owns volumes.
pub trait Peer: Send + Sync + Debug {
    /// Asks a volume. The work begins at once; what dropping the answer does is said of each call.
    fn ask(&self, volume: VolumeId, call: VolumeCall) -> Pending<VolumeAnswer>;

    /// Sends a call without an answer to a volume. It is lazy, and may be lost without harm.
    fn tell(&self, volume: VolumeId, call: VolumeCall);

    /// Writes a packed shard, durably. Gives the life of the volume in which it is: in a later one it is
    /// gone. Runs on: stragglers of a body are not waited for.
    fn put_shard(
        &self,
        volume: VolumeId,
        shard: ShardId,
        target: &Target,
        payload: Vec<Bytes>,
    ) -> Pending<Life>;

    /// Begins a shard file of a register's; `replace` for a heal, which puts it over a bad one when it is
    /// finished.
    fn create_shard(
        &self,
        volume: VolumeId,
        target: &Target,
        header: ShardFileHeader,
        replace: bool,
    ) -> Box<dyn ShardSink>;

    /// Reads verified bytes of a shard. Ends.
    fn read_shard(&self, volume: VolumeId, range: ShardRange) -> Pending<Vec<Bytes>>;

    /// Whether the volume was out of room when it was last looked at. Does not wait; a hint, so that
    /// an accept that too few would take is not sent: what some took has an unknown outcome.
    fn is_full(&self, volume: VolumeId) -> bool;

    /// Whether the volume is late: a call to it waits, or waited, for longer than one should, and none was
    /// answered since. Does not wait; a hint which volumes to ask first, and which not to wait for once
    /// enough others answered. It decides no vote.
    fn is_late(&self, volume: VolumeId) -> bool;

    /// Whether a call to the volume waits for longer than one should at this moment. Does not wait. A volume
    /// that is late without one is asked by one caller at a time, which waits until this is so.
    fn has_overdue(&self, volume: VolumeId) -> bool;

    /// Whether the connection to the volume's node was lost just before: it is being made again, or has been.
    /// Does not wait. A caller that found too few volumes may then find more shortly.
    fn is_returning(&self, volume: VolumeId) -> bool;
}

/// A shard file being written: appends in order, then one finish. Dropped unfinished, or in the middle of an
/// append, the file is removed; so it is when the way to the volume breaks.
pub trait ShardSink: Send + Debug {
    /// Writes the next bytes, behind those of the appends before it. The caller has at most
    /// [`APPENDS_UNDER_WAY_MAX`](super::APPENDS_UNDER_WAY_MAX) under way, and writes no more once it
    /// gave one up or one failed: that ends. The volume is late for the first of them alone.
    fn append(&mut self, bytes: Vec<Bytes>) -> Pending<()>;

    /// Names the digest that the whole shard has where its bytes come from. Bytes with another digest are not
    /// finished. A sink that sends bytes to another node sends their digest, whether it is named or not.
    fn expect(&mut self, digest: ShardDigest);

    /// Makes the file durable under its name. Gives the life of the volume in which it is: in a later one it
    /// is gone. Runs on.
    fn finish(self: Box<Self>) -> Pending<Life>;
}

/// Makes the typed wrappers of the table.
macro_rules! typed_wrappers {
    (@param by_ref $type:ty) => { &$type };
    (@param by_val $type:ty) => { $type };
    (@param by_opt $type:ty) => { Option<&$type> };
    (@own by_ref $type:ty, $field:ident) => { <$type>::clone($field) };
    (@own by_val $type:ty, $field:ident) => { $field };
    (@own by_opt $type:ty, $field:ident) => { $field.cloned() };
    (@send $peer:expr, $volume:expr, $call:expr) => { $peer.tell($volume, $call) };
    (@send $peer:expr, $volume:expr, $call:expr, $answer:ty) => { $peer.ask($volume, $call).typed::<$answer>() };
    (
        $(
            $(#[$seam_doc:meta])*
            $seam:ident, $service:ident, $calls:ident {
                $(
                    $(#[$doc:meta])*
                    $name:ident = $variant:ident { $($field:ident: $given:ident $type:ty),* }
                        $(-> $answer:ty)?: $drop:ident, $life:ident, $class:ident;
                )*
            }
        )*
    ) => {
        $(
            $(#[$seam_doc])*
            pub trait $seam: Peer {
                $(
                    $(#[$doc])*
                    fn $name(
                        &self,
                        volume: VolumeId,
                        $($field: typed_wrappers!(@param $given $type),)*
                    ) $(-> Pending<$answer>)? {
                        let call = $calls::$variant { $($field: typed_wrappers!(@own $given $type, $field)),* };
                        typed_wrappers!(@send self, volume, VolumeCall::from(call) $(, $answer)?)
                    }
                )*
            }

            impl<P: Peer> $seam for P {}
        )*
    };
}

sherd_core::for_each_call!(typed_wrappers);

/// A node that owns volumes, with the typed calls of all three services.
pub trait VolumePeer: RegisterPeer + ShardPeer + UpkeepPeer {}

impl<P: Peer> VolumePeer for P {}
