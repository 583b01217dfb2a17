//! Every bound in the system, where its number comes from, and how the numbers depend on each
//! other (asserted at compile time).

/// Bytes in an object key (AWS, "Naming Amazon S3 objects").
pub const KEY_BYTES_MAX: usize = 1024;
/// Bytes of user metadata of one object, names and values together (AWS, "Working with object metadata").
pub const METADATA_BYTES_MAX: usize = 2048;
/// Bytes of the address that a website redirects to from an object: 2 KB (AWS, "PutObject").
pub const REDIRECT_BYTES_MAX: usize = 2048;
/// Headers of a request. AWS names no number, and 2 KiB of metadata may be in two hundred headers. A list of
/// this length takes 8 KiB of memory while a head is parsed.
pub const HEADERS_MAX: usize = 256;
/// Bytes of one PUT or one part: 5 GiB (AWS, "Amazon S3 multipart upload limits").
pub const PUT_BYTES_MAX: u64 = 5 << 30;
/// Parts of one upload (AWS, "Amazon S3 multipart upload limits").
pub const PARTS_MAX: u16 = 10_000;
/// Bytes of every part but the last: 5 MiB (AWS, "Amazon S3 multipart upload limits").
pub const PART_BYTES_MIN: u64 = 5 << 20;
/// Bytes of one object: 48.8 TiB, which is 10,000 parts of 5 GiB.
pub const OBJECT_BYTES_MAX: u64 = PUT_BYTES_MAX * PARTS_MAX as u64;
/// Bytes under one data id: one PUT, with room for what encryption adds per 64 KiB.
pub const DATA_BYTES_MAX: u64 = PUT_BYTES_MAX + PUT_BYTES_MAX / 1024;
/// Bytes of an entity tag: 32 hex digits, a dash and a part count, with room.
pub const ETAG_BYTES_MAX: usize = 64;
/// Bytes of one object's attributes, names and values together: the headers of a PUT (AWS, "PUT
/// request headers are limited to 8 KB").
pub const ATTRIBUTES_BYTES_MAX: usize = 8 << 10;
/// Checksums stored with one version. S3 stores one.
pub const CHECKSUMS_MAX: usize = 5;
/// Bytes of a bucket's location: the longest name of a region, with room.
pub const LOCATION_BYTES_MAX: usize = 64;
/// Tags of one bucket (AWS, "Using cost allocation S3 bucket tags").
pub const BUCKET_TAGS_MAX: usize = 50;
/// Tags of one object (AWS, "Categorizing your objects using tags").
pub const OBJECT_TAGS_MAX: usize = 10;
/// Characters of a tag's key (AWS, "Using cost allocation S3 bucket tags").
pub const TAG_KEY_CHARS_MAX: usize = 128;
/// Characters of a tag's value (AWS, "Using cost allocation S3 bucket tags").
pub const TAG_VALUE_CHARS_MAX: usize = 256;
/// Rules of one CORS configuration (AWS, "PutBucketCors").
pub const CORS_RULES_MAX: usize = 100;
/// Characters of a CORS rule's id (AWS, "CORSRule").
pub const CORS_ID_CHARS_MAX: usize = 255;
/// Bytes of the document of a CORS configuration (AWS, "PutBucketCors").
pub const CORS_XML_BYTES_MAX: u64 = 64 << 10;
/// Bytes of a bucket's policy without the white space between its tokens (AWS, "Bucket policies": 20 KB).
pub const BUCKET_POLICY_BYTES_MAX: usize = sherd_policy::limits::BUCKET_POLICY_BYTES_MAX;
/// Bytes of a bucket's policy as it is sent: white space is kept, and indents may be twice what they indent.
pub const BUCKET_POLICY_TEXT_BYTES_MAX: u64 = 64 << 10;
/// Entries of one record, of a bucket or a version: more kinds than S3's features need.
pub const ENTRIES_MAX: usize = 32;
/// Bytes of one entry: the tags of an object at their limits fit, each character in 4 bytes. A longer
/// document of a bucket lies in a register of its own.
pub const ENTRY_BYTES_MAX: usize = 16 << 10;
/// Bytes of all entries of one record: two of the longest.
pub const ENTRIES_BYTES_MAX: usize = 2 * ENTRY_BYTES_MAX;
/// Bytes of one kind of a bucket's configuration that its entry holds itself, with a byte of form 1 KiB; more
/// lie in a document.
pub const CONFIG_INLINE_BYTES_MAX: usize = (1 << 10) - 1;
/// Bytes of one kind of a bucket's configuration: twice the longest document of S3 (AWS, "Elements of a CORS
/// configuration": 64 KB).
pub const CONFIG_BYTES_MAX: usize = 128 << 10;
/// How long after its document was written an entry may be proposed that names it: an hour, many times what a
/// change takes. Documents that no entry names are removed at [`ORPHAN_AGE_MS`].
pub const CONFIG_WRITE_MS_MAX: u64 = 3600 * 1000;
/// Characters of a user's name (AWS, "IAM and AWS STS quotas", as are the next ones).
pub const IAM_USER_NAME_CHARS_MAX: usize = 64;
/// Characters of a group's name.
pub const IAM_GROUP_NAME_CHARS_MAX: usize = 128;
/// Characters of a policy's name, managed or inline.
pub const IAM_POLICY_NAME_CHARS_MAX: usize = 128;
/// Characters of a path.
pub const IAM_PATH_CHARS_MAX: usize = 512;
/// Characters of a managed policy's description.
pub const IAM_DESCRIPTION_CHARS_MAX: usize = 1000;
/// Tags of a user or a managed policy.
pub const IAM_TAGS_MAX: usize = 50;
/// Access keys of a user.
pub const IAM_USER_KEYS_MAX: usize = 2;
/// Groups that a user is in.
pub const IAM_GROUPS_MAX: usize = 10;
/// Managed policies that are attached to a user, or to a group.
pub const IAM_ATTACHED_MAX: usize = 10;
/// Versions of a managed policy.
pub const IAM_POLICY_VERSIONS_MAX: usize = 5;
/// Characters of all inline policies of a user. White space is not counted.
pub const IAM_USER_POLICY_CHARS_MAX: usize = 2_048;
/// Characters of all inline policies of a group. White space is not counted.
pub const IAM_GROUP_POLICY_CHARS_MAX: usize = 5_120;
/// Characters of a managed policy. White space is not counted.
pub const IAM_MANAGED_POLICY_CHARS_MAX: usize = 6_144;
/// Bytes of one document with its white space (AWS, "PutUserPolicy": 131,072 characters).
pub const IAM_DOCUMENT_BYTES_MAX: usize = 128 << 10;
/// Inline policies of a user or a group: the shortest document that allows something has over 50 characters,
/// so a group has room for fewer.
pub const IAM_INLINE_MAX: usize = 128;
/// Bytes of one record: a managed policy of five versions of the longest document, with room.
pub const IAM_RECORD_BYTES_MAX: usize = 1 << 20;
/// Characters of an access key's id that was given and not drawn here: root's least (MinIO's, too), and a
/// user's name, as MinIO's users have their names as ids.
pub const IAM_KEY_ID_CHARS_MIN: usize = 3;
/// See [`IAM_KEY_ID_CHARS_MIN`].
pub const IAM_KEY_ID_CHARS_MAX: usize = IAM_USER_NAME_CHARS_MAX;
/// Characters of a secret that was given: the bounds of root's.
pub const IAM_SECRET_CHARS_MIN: usize = 8;
/// See [`IAM_SECRET_CHARS_MIN`].
pub const IAM_SECRET_CHARS_MAX: usize = 128;
/// Bytes of a key's sealed secret: 40 and a tag of 16, with room for longer ones.
pub const IAM_SECRET_BYTES_MAX: usize = 256;
/// Bytes of a service's or a region's name in a key's last use.
pub const IAM_USE_TEXT_BYTES_MAX: usize = 64;
/// Keys on one page of a listing (AWS, "ListObjectsV2").
pub const LIST_KEYS_MAX: u32 = 1000;
/// Keys in one DeleteObjects (AWS, "DeleteObjects").
pub const DELETE_KEYS_MAX: usize = 1000;
/// Uploads open at one time on one key: bounds the register's value.
pub const OPEN_UPLOADS_MAX: usize = 1000;
/// Bytes of an open upload in its key's row, whose attributes lie in a register of their own: its id, when it
/// was begun, that they lie there, and its checksum.
pub const UPLOAD_BYTES_MAX: usize = 16 + 8 + 1 + 2;
/// Bytes of older versions that a register's value carries itself.
pub const OLDER_VERSIONS_BYTES_MAX: usize = 16 << 10;
/// Parts that a version names itself; a longer manifest is a page of its own with a data id. 64
/// references are about 8 KiB, the size of a large row.
pub const PARTS_IN_RECORD_MAX: usize = 64;
/// Ids of its last changes that a value keeps: as many gateways may come between a writer's accept
/// and its next prepare before its outcome is unknown.
pub const CHANGE_IDS: usize = 16;
/// Seconds for which a value keeps the token of a conditional change: as long as an SDK waits for an answer
/// by default (botocore, `read_timeout`) before it sends the call again.
pub const CONDITIONAL_CHANGE_KEPT_S: u32 = 60;
/// Conditional changes whose tokens a value keeps however old they are, as many as change ids: about 350
/// bytes.
pub const CONDITIONAL_CHANGES_MIN: usize = 16;
/// Conditional changes whose tokens a value keeps at most, however young they are: 5 KiB in each commit of a
/// key that is changed under conditions more than four times a second. A key that is changed `r` times a
/// second recognises a call for `256 / r` seconds.
pub const CONDITIONAL_CHANGES_MAX: usize = 256;
/// Bytes of a conditional change in its value: token, second, and that its answer can be computed.
pub const CONDITIONAL_CHANGE_BYTES: usize = 16 + 4 + 1;
/// Writers of one key that one accept commits: deciding one takes microseconds, and all of them wait for the
/// last.
pub const BATCH_WRITERS_MAX: usize = 256;
/// Writers of one key that wait for the batch under way; beyond it the answer is 503 `SlowDown`.
pub const KEY_WRITERS_MAX: usize = 4 * BATCH_WRITERS_MAX;
/// Bytes that they hold in memory meanwhile, inline bodies above all: 16 MiB.
pub const KEY_WRITERS_BYTES_MAX: usize = 16 << 20;
/// Bytes of one encoded register value: open uploads at their limit fit, each with metadata of its own, as
/// rows have them that were written before attributes lay in registers of their own.
pub const VALUE_BYTES_MAX: usize = 4 << 20;
/// Bytes of a value that an answer carries although nothing was said of its length: more than any value has
/// whose uploads keep their attributes in registers of their own. A longer one is asked for by its length,
/// when there is room for it.
pub const VALUE_UNASKED_BYTES_MAX: usize = 64 << 10;

/// Slots of the key space; every set owns some.
pub const SLOTS: u16 = 16_384;
/// Volumes in one erasure set; shard indices fit a byte with room, and wider sets only add latency.
pub const SET_VOLUMES_MAX: usize = 32;
/// Nodes in one topology: every node talks to every other, and the topology is sent whole.
pub const NODES_MAX: usize = 1024;
/// Volumes of one node.
pub const NODE_VOLUMES_MAX: usize = 1024;
/// Volumes in one topology; each set has at least one volume and should own a slot.
pub const VOLUMES_MAX: usize = 16_384;
/// Bytes of a zone's name (Kubernetes, the length of a label's value).
pub const ZONE_BYTES_MAX: usize = 63;
/// Bytes of a node's configured name: a DNS label's.
pub const NODE_NAME_BYTES_MAX: usize = 63;
/// Bytes of one stripe unit: the part of a shard that one stripe fills. A 2+2 stripe is 1 MiB on
/// the way in, so 32 uploads with two stripes in flight stay far below the buffer cap; further ones are
/// held only where it has room.
pub const STRIPE_UNIT_BYTES: u32 = 256 << 10;
/// Bytes of the stripe unit of long bodies where the buffers have room for it: a device takes and gives this
/// in nearly the time that it needs for a quarter of it (docs/performance.md).
pub const LARGE_STRIPE_UNIT_BYTES: u32 = 1 << 20;
/// Bytes of the largest stripe unit that is read: bounds what one stripe takes in memory to 32 of them, with
/// any record.
pub const STRIPE_UNIT_BYTES_MAX: u32 = 4 << 20;
/// Bytes hashed by one blake3 hash: what a range read has to verify at least.
pub const HASH_BLOCK_BYTES: usize = 64 << 10;
/// Bytes of the largest shard that is packed in the log.
pub const PACK_BYTES_MAX: u32 = 256 << 10;
/// Bytes of the largest object whose bytes stay in its row, shared by the volumes of the set:
/// an object is inline up to this divided by the number of volumes.
pub const INLINE_BYTES_MAX: u32 = 32 << 10;

/// Names of features that are lacking and were asked for within a minute: more than all of AWS's headers
/// and sub-resources together.
pub const LACKING_NAMES_MAX: usize = 256;
/// Bytes of such a name that are kept: AWS's longest header has 59.
pub const LACKING_NAME_BYTES_MAX: usize = 128;

/// Bytes of one log segment.
pub const SEGMENT_BYTES: u64 = 64 << 20;
/// Files of log segments that a volume keeps open: at 10 volumes a third of the 4096 descriptors that
/// containers are commonly given; opening one costs microseconds.
pub const SEGMENT_FILES_MAX: usize = 128;
/// Shard files that a volume keeps open, while the process has descriptors left.
pub const SHARD_FILES_MAX: usize = 256;
/// Bytes a batch is padded to: the page, and the largest logical sector in use.
pub const FRAME_ALIGN: usize = 4096;
/// Bytes of one batch: bounds the memory of a replay and the latency of the last in a batch.
pub const FRAME_BYTES_MAX: usize = 8 << 20;
/// Bytes of index entries that the volumes of a process hold together while they replay their logs: with
/// what the tree adds to each, half of the 256 MiB that a process takes at most.
pub const REPLAY_BYTES_MAX: u64 = 64 << 20;
/// Bytes of them that one volume holds at least: fewer make tables so small that merging them takes longer
/// than the replay.
pub const REPLAY_BYTES_MIN: u64 = 1 << 20;
/// Bytes of changes of their indexes that the volumes of a process gather in memory together before each
/// flushes its own: a table of 4 MiB each for the four of a small node.
pub const FLUSH_BYTES_MAX: u64 = 16 << 20;
/// Bytes of them that one volume gathers at least.
pub const FLUSH_BYTES_MIN: u64 = 1 << 20;
/// Bytes of index entries that the volumes of a process keep in memory together because they were read
/// lately.
pub const RECENT_BYTES_MAX: u64 = 32 << 20;
/// Bytes of them that one volume keeps at least.
pub const RECENT_BYTES_MIN: u64 = 1 << 20;
/// Bytes of promises that the volumes of a process remember together: some 60,000 for keys of usual length.
pub const PROMISES_BYTES_MAX: u64 = 16 << 20;
/// Bytes of them that one volume remembers at least: some 4,000, as many as operations may wait for its log.
pub const PROMISES_BYTES_MIN: u64 = 1 << 20;
/// Operations waiting for one volume's log; beyond it the answer is 503 SlowDown.
pub const VOLUME_QUEUE_MAX: usize = 4096;
/// Buckets on one page of a volume's seals: 64 KiB where each has one seal.
pub const SEALS_PAGE_MAX: usize = 2048;
/// Deletions on one page of a volume's seals, behind the first bucket: 128 KiB. A bucket is held by one
/// deletion, and by one more for each gateway that died over it and was not cleaned up after.
pub const SEALS_PAGE_DELETIONS_MAX: usize = 8192;
/// Peers whose positions wait for one frame at most: a volume has those of its own set, of two while slots
/// move, and of as many again that it had before.
pub const POSITIONS_WAITING_MAX: usize = 4 * SET_VOLUMES_MAX;
/// Openings of one peer that a volume remembers. There are more than two only while the peer's questions do
/// not come through: what they cover is dropped, and each opening asks before it votes.
pub const PEER_OPENINGS_MAX: usize = 8;
/// Openings of one life that a volume's log names: a process that is started again every five minutes comes
/// to it in two weeks. All of them go with each question, some 90 KiB.
pub const OPENINGS_MAX: usize = 4096;
/// Openings that a log need not name any more, and that go with one that begins: more than come.
pub const OPENINGS_FORGOTTEN_MAX: usize = 8;

/// How far ahead of the highest known time a ballot may be: 5 minutes.
pub const BALLOT_AHEAD_MS_MAX: u64 = 5 * 60 * 1000;
/// How far past its own clock a proposer follows a bound: 4 minutes, so that what it then proposes
/// is still accepted by volumes whose clocks are right.
pub const FOLLOW_BOUND_MS_MAX: u64 = 4 * 60 * 1000;
/// By how much the clocks of all nodes may be set back while writes go on: a day.
pub const CLOCK_STEP_MS_MAX: u64 = 24 * 3600 * 1000;
/// How far past its own clock a proposer follows bounds when fewer than A volumes can promise nearer
/// ones: the clocks of all were that far ahead, a ballot by five minutes more, and two nodes' clocks differ.
pub const FOLLOW_STEP_MS_MAX: u64 = CLOCK_STEP_MS_MAX + 2 * BALLOT_AHEAD_MS_MAX;
/// How far ahead of the clock a promise bound is made durable: 2 s.
pub const BOUND_AHEAD_MS: u64 = 2_000;
/// How far past a ballot that is ahead of the clock a promise bound is made durable: 100 ms, which is
/// more than six million ballots of a proposer whose clock was set back. A restart loses no more than that.
pub const BOUND_PAST_BALLOT_MS: u64 = 100;
/// Data ids in one note of replaced data: what a value names itself. With the longest key, 3.2 KiB.
pub const RELEASE_DATA_MAX: usize = PARTS_IN_RECORD_MAX;
/// Notes of replaced data held in memory, about 400 bytes each; the others wait in the logs.
pub const RELEASES_MAX: usize = 100_000;
/// How long superseded data stays after it was replaced: 10 minutes.
pub const RELEASE_GRACE_MS: u64 = 10 * 60 * 1000;
/// Rows that a volume lists since another volume of the set may lack them: a look for rows that are not
/// committed, every 2 s, walks past all of them. Those that find no place are found by the looks of the
/// volumes that lack them.
pub const MISSED_ROWS_MAX: u64 = 100_000;
/// Heads of rows on one page of a look: half a mebibyte with the longest keys.
pub const LOOK_ROWS_MAX: usize = 500;
/// Missed rows of a volume that one look brings: a few seconds of writes, for which the node's other volumes
/// wait.
pub const MISSED_IN_LOOK_MAX: usize = 1_024;
/// The longest pause behind a missed row that could not be brought: a minute. Each try costs up to 10 s and a
/// write to the volumes that have the row, and a volume that came back waits no longer than that for the
/// first one.
pub const MISSED_PAUSE_MS_MAX: u64 = 60 * 1000;
/// How long a node leaves a missed row to each node whose turn is before its own, while these bring others: 2
/// minutes, in which a node brings some 50,000 rows.
pub const MISSED_LEFT_MS_MAX: u64 = 2 * 60 * 1000;
/// Between two renewals of the leases on what a gateway's readers read: a minute. A read that ends before the
/// first renewal costs no lease, for the grace of what is replaced under it is longer.
pub const LEASE_RENEW_MS: u64 = 60 * 1000;
/// How long a volume holds a lease that is not renewed: 5 minutes, so that several renewals may be lost.
pub const LEASE_MS: u64 = 5 * 60 * 1000;
/// How long after a node's start its volumes take data for read of which they hold no lease: leases are not
/// on disk, and each gateway has renewed its own once by then.
pub const LEASES_UNKNOWN_MS: u64 = 2 * LEASE_RENEW_MS;
/// Leases that a volume holds, about 80 bytes each: ten readers of objects of 10,000 parts.
pub const LEASES_MAX: usize = 100_000;
/// Data ids of one call that renews or ends leases: 64 KiB.
pub const LEASES_IN_CALL_MAX: usize = 4096;
/// Volumes that a gateway sends leases to at one time: with the largest calls, 8 MiB on their way. A volume
/// that does not answer keeps its place for 5 s, so that hundreds of them hold up the others for less than a
/// renewal.
pub const LEASED_VOLUMES_AT_ONCE: usize = 128;
/// The shortest grace that may be configured: 2 minutes.
pub const RELEASE_GRACE_MS_MIN: u64 = 2 * 60 * 1000;
/// How long an empty directory stays empty where a volume was: 10 minutes, the time in which an operator
/// mounts a disk again.
pub const ADOPT_AFTER_MS: u64 = 10 * 60 * 1000;
/// How long a volume that an operator vouches for waits for peers that could confirm it: 10 s, more than the
/// volumes of a machine differ in opening.
pub const VOUCH_AFTER_MS: u64 = 10 * 1000;
/// A row that a look does not pass is finished after it waited for 10 s: a write under way ends in less, and
/// its hints come with it.
pub const FINISH_AFTER_MS: u64 = 10 * 1000;
/// Age at which an unnamed data id may be swept: 48 hours.
pub const ORPHAN_AGE_MS: u64 = 48 * 3600 * 1000;
/// How long one upload of one body may take: 12 hours.
pub const BODY_MS_MAX: u64 = 12 * 3600 * 1000;
/// How far behind a volume's clock a data floor must lie: 24 hours, twice what one upload may take.
pub const DATA_FLOOR_BEHIND_MS_MIN: u64 = 2 * BODY_MS_MAX;
/// Age at which a tombstone may be dropped: a day.
pub const TOMBSTONE_AGE_MS: u64 = 24 * 3600 * 1000;

/// Rows that one page looks at: some tens of milliseconds, since other scans of the volume wait meanwhile.
pub const LIST_PASSED_MAX: u32 = 20_000;
/// Volumes of the largest pool that is one set by default.
pub const ONE_SET_VOLUMES_MAX: usize = 7;

const _: () = {
    assert!(FOLLOW_BOUND_MS_MAX < BALLOT_AHEAD_MS_MAX, "a followed bound must still be accepted");
    assert!(BOUND_AHEAD_MS < FOLLOW_BOUND_MS_MAX, "a proposer must be able to follow a fresh restart");
    assert!(BOUND_PAST_BALLOT_MS <= BOUND_AHEAD_MS, "a ballot ahead of the clock moves the bound less");
    assert!(BODY_MS_MAX * 2 < ORPHAN_AGE_MS, "a body still arriving must never look like an orphan");
    assert!(
        CONFIG_WRITE_MS_MAX + CLOCK_STEP_MS_MAX < ORPHAN_AGE_MS,
        "a document whose writer may still name it is no leftover, by a clock that was set back meanwhile, too"
    );
    assert!(
        DATA_FLOOR_BEHIND_MS_MIN + CLOCK_STEP_MS_MAX <= ORPHAN_AGE_MS,
        "a sweep's horizon is no refused floor"
    );
    assert!(FRAME_BYTES_MAX as u64 * 4 <= SEGMENT_BYTES, "a segment holds several frames");
    assert!(FRAME_BYTES_MAX.is_multiple_of(FRAME_ALIGN), "a frame is padded");
    assert!(VALUE_BYTES_MAX <= FRAME_BYTES_MAX, "the largest value fits one frame's payload");
    assert!(CHANGE_IDS <= u8::MAX as usize, "a value counts its change ids in a byte");
    assert!(
        CONDITIONAL_CHANGES_MAX <= u16::MAX as usize,
        "a value counts its conditional changes in two bytes"
    );
    assert!(BATCH_WRITERS_MAX <= CONDITIONAL_CHANGES_MAX, "a batch brings the token of each of its members");
    assert!(BUCKET_TAGS_MAX <= u8::MAX as usize, "a bucket counts its tags in a byte");
    assert!(ENTRIES_MAX <= u8::MAX as usize, "a record counts its entries in a byte");
    assert!(
        OBJECT_TAGS_MAX * ((TAG_KEY_CHARS_MAX + TAG_VALUE_CHARS_MAX) * 4 + 8) < ENTRY_BYTES_MAX,
        "an object's tags fit one entry"
    );
    assert!(
        ENTRIES_MAX * (CONFIG_INLINE_BYTES_MAX + 1) <= ENTRIES_BYTES_MAX,
        "a bucket has room for every kind of configuration"
    );
    assert!(
        IAM_POLICY_VERSIONS_MAX * IAM_DOCUMENT_BYTES_MAX + (64 << 10) <= IAM_RECORD_BYTES_MAX,
        "a managed policy of the longest documents fits a record"
    );
    assert!(RELEASE_DATA_MAX <= u8::MAX as usize, "a note counts its data in a byte");
    assert!(
        KEY_WRITERS_BYTES_MAX >= KEY_WRITERS_MAX << 10,
        "writers without bytes of their own are bounded by their number"
    );
    assert!(
        LEASE_RENEW_MS * 2 <= RELEASE_GRACE_MS_MIN,
        "a lease is there before the grace of what it is on ends"
    );
    assert!(LEASE_RENEW_MS * 4 <= LEASE_MS, "a lease outlives renewals that are lost");
    assert!(RELEASE_GRACE_MS_MIN <= RELEASE_GRACE_MS, "the usual grace may be configured");
    assert!(VOLUMES_MAX <= SLOTS as usize, "every set can own a slot");
    assert!(NODE_VOLUMES_MAX <= VOLUMES_MAX, "a node's volumes are volumes of the topology");
    assert!(LARGE_STRIPE_UNIT_BYTES <= STRIPE_UNIT_BYTES_MAX, "what is written can be read");
    assert!(METADATA_BYTES_MAX <= ATTRIBUTES_BYTES_MAX, "user metadata is among the attributes");
    assert!(
        OPEN_UPLOADS_MAX * UPLOAD_BYTES_MAX
            + OLDER_VERSIONS_BYTES_MAX
            + ATTRIBUTES_BYTES_MAX
            + CONDITIONAL_CHANGES_MAX * CONDITIONAL_CHANGE_BYTES
            < VALUE_UNASKED_BYTES_MAX,
        "uploads at their limit, beside older versions, one with its attributes and tokens, fit an answer unasked"
    );
    assert!(
        OPEN_UPLOADS_MAX * (METADATA_BYTES_MAX + 256) + OLDER_VERSIONS_BYTES_MAX + ENTRIES_BYTES_MAX
            < VALUE_BYTES_MAX,
        "uploads at their limit, each with its metadata as rows had them before, fit a value"
    );
    assert!(
        (PACK_BYTES_MAX as usize).is_multiple_of(HASH_BLOCK_BYTES),
        "packed shards are whole blocks at most"
    );
    assert!(
        (STRIPE_UNIT_BYTES as usize).is_multiple_of(HASH_BLOCK_BYTES),
        "hash blocks never straddle stripe units"
    );
    assert!(
        LARGE_STRIPE_UNIT_BYTES.is_multiple_of(STRIPE_UNIT_BYTES),
        "large units are whole blocks and whole units"
    );
};
