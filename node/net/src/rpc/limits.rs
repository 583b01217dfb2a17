//! Bounds of what other nodes may ask of this one at a time.
//!
//! Beyond them a connection is closed, a stream is not read or ends, or a call is answered `Busy`: nothing
//! that a peer sends makes this node hold more memory than these and the windows of [`crate::wire::limits`]
//! say.

use std::time::Duration;

use sherd_core::limits::{NODES_MAX, PACK_BYTES_MAX};
use sherd_proto::limits::{CODEC_MESSAGE_BYTES_MAX, FRAME_CALLS_MAX, MESSAGE_BYTES_MAX};

use crate::grpc::LINK_CONNECTIONS_MAX;
use crate::wire::limits::STREAMS_MAX;

/// Connections of operators and admins, and of nodes that only the others' configuration names so far.
const OTHER_CONNECTIONS_MAX: usize = 1024;
/// Connections that are at their handshake. Beyond them the oldest gives way.
pub(super) const HANDSHAKES_MAX: usize = 64;
/// Calls of one stream under way: its next frame is read when there are fewer.
pub(super) const CALLS_UNDER_WAY_MAX: usize = 8192;
/// Bytes that peers sent or asked for, and that no volume took or no peer read yet.
pub(super) const BYTES_HELD_MAX: usize = 64 << 20;
/// Bytes for one volume among them: a volume that hangs must leave the others their room.
pub(super) const VOLUME_BYTES_HELD_MAX: usize = 24 << 20;
/// Calls with fewer bytes are not counted there: as many as may be under way hold no more than that.
pub(super) const BYTES_UNCOUNTED_MAX: usize = 8 << 10;
/// Values up to this length are copied out of their frame: 64 KiB, which takes a few microseconds.
pub(super) const UNSHARED_BYTES_MAX: usize = 64 << 10;
/// Bytes of one message of a read: two or three stay with HTTP/2 where a peer takes no more.
pub(super) const READ_MESSAGE_BYTES_MAX: usize = 256 << 10;
/// Bytes of messages that gRPC's codec collects and that are not whole. Of honest peers these are few, since
/// a message is sent at once: this has room for several peers that send none to its end.
pub(super) const CODEC_BYTES_MAX: usize = 256 << 20;
/// Bytes of the codec's buffers for one peer: the most that each of its streams ever held. A link and its
/// renewal have six streams of calls, which may each have had the longest message; the rest is for puts.
pub(super) const PEER_CODEC_BYTES_MAX: usize = 8 * MESSAGE_BYTES_MAX;
/// Bytes of the codec's buffer at the start of a stream: as tonic makes it.
pub(super) const CODEC_STREAM_BYTES: usize = 8 << 10;
/// Bytes of the message of a put: the longest packed shard, and its fields.
pub(super) const PUT_BYTES_MAX: usize = PACK_BYTES_MAX as usize + CODEC_MESSAGE_BYTES_MAX;
/// For the bytes of one message, once it was announced or begun, and since a peer took the last that it asked
/// for. The longest message comes in time at 0.8 MB/s, and no caller waits much longer for a call.
pub(super) const BYTES_STALL_MAX: Duration = Duration::from_secs(10);
/// Memory for received bytes that stays committed while no bytes come.
pub(super) const RECEIVED_IDLE_BYTES: usize = 4 << 20;
/// How often memory that no bytes came into is given back.
pub(super) const TRIM_EVERY: Duration = Duration::from_secs(1);
/// Bytes of pages of scans that peers have not read yet. Two pages a volume that are being made come on top.
pub(super) const PAGES_HELD_MAX: usize = 32 << 20;
/// Bytes for one peer among them: a peer that stopped must leave the others their room. About a hundred
/// pages.
pub(super) const PEER_PAGES_HELD_MAX: usize = 8 << 20;
/// Bytes of a shard that one call may read.
pub(super) const READ_BYTES_MAX: usize = 16 << 20;
/// Bytes at which a frame of replies takes no further one.
pub(super) const FRAME_BYTES_USUAL: usize = 1 << 20;
/// The longest reply: a frame holds it behind others.
pub(super) const REPLY_BYTES_MAX: usize = MESSAGE_BYTES_MAX - FRAME_BYTES_USUAL - (64 << 10);
/// How often calls whose callers stopped waiting are looked for.
pub(super) const SWEEP_EVERY: Duration = Duration::from_millis(500);
/// After a connection could not be accepted: descriptors come back when others end.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// HTTP requests that come as calls, under way at one time: an operator sends one after the other for each of
/// its objects. Each has two bodies of a mebibyte at most.
pub(super) const REQUESTS_MAX: usize = 16;
/// How long one of them waits for its turn and its answer.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);
/// How long connections may go on after they were asked to end, since this node stops.
pub(super) const SHUTDOWN_MAX: Duration = Duration::from_secs(5);

const _: () = {
    assert!(CALLS_UNDER_WAY_MAX * BYTES_UNCOUNTED_MAX <= BYTES_HELD_MAX, "uncounted bytes have a bound, too");
    assert!(FRAME_CALLS_MAX < CALLS_UNDER_WAY_MAX, "a whole frame can be under way");
    assert!(
        connections_max(NODES_MAX) <= 1 << 16,
        "a good limit of open files has room for the largest pool"
    );
    assert!(READ_BYTES_MAX <= VOLUME_BYTES_HELD_MAX, "the longest read has room");
    assert!(2 * PEER_CODEC_BYTES_MAX <= CODEC_BYTES_MAX, "one peer leaves the others their room");
    assert!(PUT_BYTES_MAX < MESSAGE_BYTES_MAX, "a put is shorter than other messages may be");
    assert!(
        STREAMS_MAX as usize * CODEC_STREAM_BYTES <= MESSAGE_BYTES_MAX,
        "all puts of a connection can be begun beside the calls"
    );
};
/// Bytes of replies that wait to be read by a peer, above which no further call of its stream is begun.
pub(super) const OUTBOX_BYTES_MAX: usize = 4 << 20;

/// Connections that the listener of a node has at most, by the number of nodes of its configuration: each may
/// have all that a link may have, the renewed ones that carry something among them.
pub(super) const fn connections_max(nodes: usize) -> usize {
    OTHER_CONNECTIONS_MAX + nodes * LINK_CONNECTIONS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_of_the_largest_pool_has_its_connections_and_their_renewals() {
        for nodes in [1, 4, 50, 512, NODES_MAX] {
            let peers = nodes - 1;
            let (lasting, renewed) = (2 * peers, 2 * peers);
            assert!(connections_max(nodes) > lasting + renewed, "{nodes} nodes, all renewed at one time");
            let left = connections_max(nodes) - peers * LINK_CONNECTIONS_MAX;
            assert!(left >= OTHER_CONNECTIONS_MAX, "{nodes} nodes leave operators and admins their room");
        }
    }
}
