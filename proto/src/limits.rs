//! Bounds of the wire. A message that exceeds one is refused by name.
//!
//! Those that follow from what core stores are derived from core's limits, or asserted against them at
//! compile time. The conversions keep the lists and texts within them; the streams keep the frames.

use sherd_core::id::DataId;
use sherd_core::limits;

/// The version of the messages. A node takes those of the version before and after its own, too: what it
/// writes the version before reads (docs/wire-protocol.md). Tests of an upgrade build a node of the next
/// version.
pub const WIRE_VERSION: u32 = match WIRE_VERSION_OF_A_TEST {
    None => 2,
    Some(text) => match u32::from_str_radix(text, 10) {
        Ok(version) => version,
        Err(_) => panic!("SHERD_TEST_WIRE_VERSION is a number"),
    },
};
/// The oldest version of the messages that nodes take at all. Builds of version 1 read no values of version 4
/// and 5 and queue such rows as damage.
pub const WIRE_VERSION_OLDEST: u32 = 2;
/// Read when this is compiled. A release build with it does not compile: what ships has the version above.
const WIRE_VERSION_OF_A_TEST: Option<&str> = option_env!("SHERD_TEST_WIRE_VERSION");
/// Bytes of the longest message; the largest register value is 4 MiB.
pub const MESSAGE_BYTES_MAX: usize = 8 << 20;
/// Bytes of the longest shard: all units of a body at one data shard a stripe, the last of them whole.
pub const SHARD_BYTES_MAX: u64 = limits::DATA_BYTES_MAX + limits::STRIPE_UNIT_BYTES_MAX as u64;
/// Bytes of shard payload in one message of a stream.
pub const SHARD_FRAME_BYTES_MAX: usize = 1 << 20;
/// Bytes of a message of fields beside those of bytes: a key, a reason and a few numbers.
pub const CODEC_MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Bytes of a message that is read past the codec: bytes of a shard, or fields.
pub const SHARD_MESSAGE_BYTES_MAX: usize = SHARD_FRAME_BYTES_MAX + (64 << 10);
/// Buffers of a message for the codec that is not whole yet, before they are joined: each costs a handle, and
/// a peer could send one byte in each.
pub const MESSAGE_BUFFERS_MAX: usize = 64;
/// Bytes at which a page of rows, shards or entries ends; it has one row at least.
pub const PAGE_BYTES_MAX: usize = 1 << 20;
/// Calls, or replies, in one frame.
pub const FRAME_CALLS_MAX: usize = 1024;
/// Volumes of one node that a message may name.
pub const NODE_VOLUMES_MAX: usize = limits::NODE_VOLUMES_MAX;

/// Rows, shards, entries or seals of one page. More that are asked for come on the pages behind it.
pub const PAGE_ROWS_MAX: usize = 4096;
/// Rows that one call hands to a recovering volume: a page of a scan.
pub const ADOPTED_ROWS_MAX: usize = PAGE_ROWS_MAX;
/// Positions that go with an accept or a commit: one of each volume of the set.
pub const POSITIONS_MAX: usize = limits::SET_VOLUMES_MAX;
/// Peers of which a volume names lives and positions: it keeps them for those that it ever shared a set with.
pub const PEERS_MAX: usize = limits::VOLUMES_MAX;
/// Positions that a volume remembers: of each peer one for each opening.
pub const REMEMBERED_MAX: usize = PEERS_MAX * limits::PEER_OPENINGS_MAX;
/// Bytes of one of them in a message: a volume, a life, a sequence and an opening, with what frames them.
const POSITION_BYTES_MAX: usize = 18 + 6 + 11 + 9 + 2;
/// Openings of one life of a volume.
pub const OPENINGS_MAX: usize = limits::OPENINGS_MAX;
/// Bytes of one of them in a message.
const OPENING_BYTES_MAX: usize = 9 + 11 + 2;
/// Data ids that an accept introduces: the parts of the newest version, and what the older versions name in
/// their bytes, of which each reference takes more than its id.
pub const INTRODUCES_MAX: usize =
    limits::PARTS_IN_RECORD_MAX + limits::OLDER_VERSIONS_BYTES_MAX / DataId::BYTES;
/// Volumes in which the shards of one data id are durable: those of its set.
pub const DURABLE_MAX: usize = limits::SET_VOLUMES_MAX;
/// Buckets whose seals a recovering volume takes over in one call.
pub const REPORTED_SEALS_MAX: usize = 1 << 16;
/// Deletions that hold the seal of one bucket: a deletion that was given up takes its own away again.
pub const SEAL_DELETIONS_MAX: usize = 1 << 16;
/// Bytes of a register key as core stores it: bucket, length, key, flag, upload, part.
pub const REGISTER_KEY_BYTES_MAX: usize = 16 + 4 + limits::KEY_BYTES_MAX + 1 + 16 + 2;
/// Bytes of an MRF entry or of a note of replaced data in its stored form: each reference takes 64 bytes at
/// most.
pub const ENTRY_BYTES_MAX: usize = 32 + REGISTER_KEY_BYTES_MAX + limits::RELEASE_DATA_MAX * 64;
/// Bytes of a prefix, a start or a delimiter of a listing. Clients may ask with longer ones than any key is;
/// what they send fits the head of a request.
pub const LIST_BOUND_BYTES_MAX: usize = 64 << 10;
/// Bytes of a text that says why a call failed; a longer one is cut.
pub const REASON_BYTES_MAX: usize = 1024;
/// Milliseconds that a caller waits at most: a shard of 5 GiB is verified in less.
pub const TIMEOUT_MS_MAX: u32 = 10 * 60 * 1000;
/// Bytes of the body of an HTTP request that travels in a call, and of that of its answer: the longest
/// document that S3 takes or gives is shorter, but for objects, and those are not read over this way.
pub const CALL_BODY_BYTES_MAX: usize = 1 << 20;
/// Bytes of its path and query: what S3 takes.
pub const CALL_URI_BYTES_MAX: usize = 16 << 10;
/// Headers of it, and of its answer.
pub const CALL_HEADERS_MAX: usize = 128;
/// Bytes of all their names and values.
pub const CALL_HEADER_BYTES_MAX: usize = 64 << 10;

const _: () = {
    assert!(
        CALL_BODY_BYTES_MAX + CALL_HEADER_BYTES_MAX + CALL_URI_BYTES_MAX + (64 << 10) < MESSAGE_BYTES_MAX,
        "a message holds the longest request"
    );
    assert!(WIRE_VERSION_OLDEST > 0, "0 is what a message without a sender has");
    assert!(WIRE_VERSION >= WIRE_VERSION_OLDEST, "a node takes its own version");
    assert!(
        WIRE_VERSION_OF_A_TEST.is_none() || cfg!(debug_assertions),
        "SHERD_TEST_WIRE_VERSION is for builds that only tests run"
    );
    assert!(
        limits::VALUE_BYTES_MAX + limits::INLINE_BYTES_MAX as usize + (64 << 10) < MESSAGE_BYTES_MAX,
        "a message holds the largest value with its inline bytes"
    );
    assert!(
        PAGE_BYTES_MAX + limits::VALUE_BYTES_MAX < MESSAGE_BYTES_MAX,
        "a page that ends behind the largest row fits a message"
    );
    assert!(SHARD_FRAME_BYTES_MAX < MESSAGE_BYTES_MAX, "a message holds a frame of bytes");
    assert!(limits::PACK_BYTES_MAX as usize <= SHARD_FRAME_BYTES_MAX, "a packed shard is one message");
    assert!(PAGE_ROWS_MAX > limits::LIST_KEYS_MAX as usize, "a page of a listing is one page");
    assert!(LIST_BOUND_BYTES_MAX > limits::KEY_BYTES_MAX, "the first bound behind a key can be sent");
    assert!(PAGE_ROWS_MAX * ENTRY_BYTES_MAX > PAGE_BYTES_MAX, "the bytes of a page end it, too");
    assert!(
        POSITIONS_MAX <= limits::POSITIONS_WAITING_MAX,
        "what came with an accept can wait for its frame"
    );
    assert!(PEERS_MAX >= limits::POSITIONS_WAITING_MAX, "what a volume logs of its peers can be told");
    assert!(
        REMEMBERED_MAX * POSITION_BYTES_MAX + OPENINGS_MAX * OPENING_BYTES_MAX + (64 << 10)
            < MESSAGE_BYTES_MAX,
        "a message holds all that a volume remembers, and its openings"
    );
};
