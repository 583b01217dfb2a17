//! Bounds of the calls to another node: how long each may take, how many may be under way, and how the
//! connections are kept.
//!
//! Every call has a deadline of its own, since its caller may wait without one: a stopped peer must cost
//! each caller a bounded time. The links and the callers of [`super`] use these.

use std::time::Duration;

use sherd_core::limits::STRIPE_UNIT_BYTES;
use sherd_core::message::call::CallClass;
use sherd_proto::limits::{FRAME_CALLS_MAX, MESSAGE_BYTES_MAX, SHARD_FRAME_BYTES_MAX};

use crate::wire::limits::CONNECTION_WINDOW_BYTES;
use sherd_store::peer::watch::CallLength;
use sherd_store::peer::{APPENDS_UNDER_WAY_MAX, VERIFY_TURNS_MAX};

/// How long a call to another node may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallTime {
    /// Until it is given up.
    pub(super) max: Duration,
    /// Whether the volume is late long before.
    pub(super) length: CallLength,
}

impl CallTime {
    /// How long a call of a class may take.
    pub(super) const fn of(class: CallClass) -> Self {
        let (seconds, length) = match class {
            CallClass::Short | CallClass::Aside => (5, CallLength::Short),
            CallClass::List => (10, CallLength::Short),
            CallClass::Page => (10, CallLength::Long),
            CallClass::Long => (30, CallLength::Long),
            // A file of a few GiB is read once, in its turns between clients.
            CallClass::Verify => (60 + VERIFY_TURNS_MAX.as_secs(), CallLength::Long),
        };
        Self { max: Duration::from_secs(seconds), length }
    }
}

/// Since the last bytes of a shard moved.
pub(super) const BYTES_STALL_MAX: Duration = Duration::from_secs(10);
/// Bytes of a read that come in shorter pieces than this are copied together: a read of 16 MiB has 2,049
/// pieces at most. The peer sends 256 KiB at a time.
pub(super) const PIECE_BYTES_COPIED_BELOW: usize = 16 << 10;
/// How often calls past their deadline are looked for, and calls that were dropped. Most of those are losers
/// of a quorum whose answers are on their way: what is answered within this time costs no frame.
pub(super) const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// Calls of one stream that wait for their answers. Each volume of the node queues 4,096 operations. A frame
/// fewer than the 8,192 at which the peer reads no further frame (`rpc::limits`): it must read the one that
/// says which were dropped.
pub(super) const CALLS_WAITING_MAX: usize = 8192 - FRAME_CALLS_MAX;
/// Calls for one volume among them: a volume that hangs must leave the others their places.
pub(super) const VOLUME_CALLS_WAITING_MAX: usize = 2048;
/// Calls of one stream that no frame has taken yet.
pub(super) const CALLS_QUEUED_MAX: usize = 8192;
/// Entries in that queue beyond which the numbers of dropped calls leave the rest to calls; they are queued
/// by a later look then.
pub(super) const DROPS_QUEUED_MAX: usize = CALLS_QUEUED_MAX / 2;
pub(super) const FRAME_BYTES_USUAL: usize = 1 << 20;
/// The longest call: a frame holds it behind others.
pub(super) const CALL_BYTES_MAX: usize = MESSAGE_BYTES_MAX - FRAME_BYTES_USUAL - (64 << 10);
/// Steps of a sink without an answer: the appends, and the finish.
pub(super) const STEPS_UNDER_WAY_MAX: usize = APPENDS_UNDER_WAY_MAX + 1;
/// Stripe units to one peer that are sent before the append before them is answered, of all shards together:
/// a quarter of a connection's window. A volume that takes nothing must leave its node's others their window.
pub(super) const UNITS_AHEAD_MAX: u32 = 16;

/// Places among [`UNITS_AHEAD_MAX`] of an append of a shard with stripe units of this length.
pub(super) fn units_of(stripe_unit: u32) -> u32 {
    stripe_unit.div_ceil(STRIPE_UNIT_BYTES).clamp(1, UNITS_AHEAD_MAX)
}
/// Shards that are written to or read from one peer at a time, each with a stream of its own; the peer takes
/// 1,024 streams a connection.
pub(super) const BYTE_STREAMS_MAX: usize = 960;

/// The first pause before a lost connection is made again.
pub(super) const RECONNECT_MIN: Duration = Duration::from_millis(50);
/// The longest.
pub(super) const RECONNECT_MAX: Duration = Duration::from_secs(2);
/// How long after the loss of a connection its peer is expected back: a peer that is not there then is down.
/// Connections of a node that was suspended are made again within 0.2 s of its waking.
pub(super) const RETURN_MAX: Duration = Duration::from_secs(2);
/// How often bytes that wait for such a connection look for it.
pub(super) const RETURN_LOOK_EVERY: Duration = Duration::from_millis(20);
/// Connections of one kind to one peer that were renewed and still carry something: a body of twelve hours
/// must not keep one for each renewal. Beyond them the oldest is cut: at a quarter of an hour to half an hour
/// for each it has had four to eight hours.
pub(super) const DRAINING_MAX: usize = 16;
/// Connections of one node to another: of each kind the current one, the one that is dialled to replace it,
/// and those that end. The listener has room for as many from each node of its configuration (`rpc::limits`).
pub const LINK_CONNECTIONS_MAX: usize = 2 * (1 + 1 + DRAINING_MAX);
/// For the handshake of HTTP/2 and the heads of the first answers, once TLS is up.
pub(super) const OPEN_MAX: Duration = Duration::from_secs(5);

const _: () = {
    assert!(
        CALL_BYTES_MAX > sherd_core::limits::VALUE_BYTES_MAX + (1 << 20),
        "the largest value fits a call"
    );
    assert!(FRAME_CALLS_MAX <= CALLS_QUEUED_MAX, "a frame can be full");
    assert!(SHARD_FRAME_BYTES_MAX < MESSAGE_BYTES_MAX, "a frame of bytes fits a message");
    assert!(
        4 * UNITS_AHEAD_MAX * STRIPE_UNIT_BYTES <= CONNECTION_WINDOW_BYTES,
        "units ahead take a quarter of the window"
    );
};
