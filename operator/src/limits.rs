//! Every limit of the operator, each with the reason for its number.

use std::time::Duration;

/// Objects of one kind that are worked on at one time, of all namespaces: each costs a few dozen requests of
/// the API server.
pub const RECONCILES_MAX: u16 = 4;
/// How long one reconcile may take, before it counts as failed and is tried again.
pub const RECONCILE_TIME_MAX: Duration = Duration::from_mins(1);
/// How long one request of the API server may take.
pub const REQUEST_TIME_MAX: Duration = Duration::from_secs(15);
/// Nodes that are asked at one time, of one cluster.
pub const NODES_ASKED_MAX: usize = 16;
/// How long a node may take to answer, connection included.
pub const NODE_ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// Bytes of a node's answer: 64 nodes of 32 volumes with paths and reasons are below 1 MiB.
pub const NODE_ANSWER_BYTES_MAX: usize = 8 << 20;
/// Nodes of a cluster that one request of S3 or IAM is sent to, one after the other, until one answers.
pub const CALL_NODES_MAX: usize = 3;
/// How long a node may take to answer a request of S3 or IAM: a change of either waits up to 2.5 s for other
/// nodes.
pub const CALL_TIME_MAX: Duration = Duration::from_secs(8);
/// Bytes of an answer to a request of S3 or IAM, whose bodies are at most 1 MiB.
pub const CALL_BYTES_MAX: usize = 2 << 20;
/// Depth of a document of S3 or IAM; none that is asked for has more than six levels.
pub const XML_DEPTH_MAX: usize = 32;
/// How soon a Bucket or BucketUser is looked at again that is as asked: drift is put back this often.
pub const RESYNC_ACCESS: Duration = Duration::from_mins(5);
/// How soon a Bucket or BucketUser is looked at again that is not.
pub const RESYNC_ACCESS_UNSETTLED: Duration = Duration::from_secs(10);
/// How long a former key works after its Secret has another one, where a BucketUser says nothing.
pub const ROTATION_OVERLAP: Duration = Duration::from_hours(1);
/// The longest time that a BucketUser may say.
pub const ROTATION_OVERLAP_MAX: Duration = Duration::from_hours(30 * 24);
/// Characters of the id of a key that a Secret gives.
pub const KEY_ID_CHARACTERS: std::ops::RangeInclusive<usize> = 3..=64;
/// Characters of the secret of such a key.
pub const KEY_SECRET_CHARACTERS: std::ops::RangeInclusive<usize> = 8..=128;
/// Characters of a managed policy that IAM takes; documents are sent without white space.
pub const POLICY_CHARACTERS_MAX: usize = sherd_core::limits::IAM_MANAGED_POLICY_CHARS_MAX;
/// Policies of rights that a user has at most: what the longest names of 64 buckets need.
pub const RIGHTS_POLICIES_MAX: usize = 6;
/// Marks of buckets that are read at one time, of one BucketUser.
pub const MARKS_READ_MAX: usize = 16;
/// How soon the users of a cluster are swept again: a right that ended otherwise than by its BucketUser's end
/// lasts no longer than this.
pub const SWEPT_AGAIN: Duration = Duration::from_mins(5);
/// How often it is looked whether a cluster is due.
pub const SWEEPS_LOOKED_FOR: Duration = Duration::from_secs(2);
/// How long one sweep may take: 5,000 users cost a request each, of milliseconds.
pub const SWEEP_TIME_MAX: Duration = Duration::from_mins(2);
/// Clusters that are swept at one time.
pub const CLUSTERS_SWEPT_AT_ONCE: usize = 4;
/// Users that a sweep looks at at one time, of one cluster.
pub const USERS_SWEPT_AT_ONCE: usize = 4;
/// Users of one page of a list of IAM: some 200 KiB.
pub const USERS_PAGE: usize = 500;
/// BucketUsers of one page of a list of the API server.
pub const USERS_LISTED_AT_ONCE: u32 = 500;
/// Characters of a user's name and the dot in it: IAM takes 64.
pub const USER_NAME_MAX: usize = 64;
/// How soon a cluster is looked at again: what nodes say reaches the status this way, within five seconds
/// with the jitter. At rest a look costs a question to each node and no request of the API server.
pub const RESYNC: Duration = Duration::from_secs(4);
/// Age of a cluster below which parts that are not there yet are not a fault: volumes open one after another.
pub const FIRST_START: Duration = Duration::from_mins(10);
/// A volume with less of its bytes free, in percent, has little room left: a person has days to act at the
/// usual rates of growth.
pub const NEARLY_FULL_PERCENT: u64 = 10;
/// Events of a StatefulSet that are read for why it makes no pod.
pub const REFUSALS_MAX: u32 = 64;
/// The least time between the begins of two reconciles of one cluster.
pub const RECONCILES_APART: Duration = Duration::from_secs(1);
/// The longest wait after failures, which double it from [`RETRY_MIN`].
pub const RETRY_MAX: Duration = Duration::from_mins(2);
/// The wait after the first failure.
pub const RETRY_MIN: Duration = Duration::from_secs(2);
/// Life of the operator's own certificate.
pub const OPERATOR_CERTIFICATE_LIFE: Duration = Duration::from_hours(24);
/// Age at which the operator issues itself another one.
pub const OPERATOR_CERTIFICATE_RENEWED: Duration = Duration::from_hours(12);
/// A node's certificate that ends within this time is issued again.
pub const NODE_CERTIFICATE_RENEWED: Duration = Duration::from_hours(30 * 24);
/// Life of the certificate of an admin, the longest time that it works after it was withdrawn.
pub const ADMIN_CERTIFICATE_LIFE: Duration = Duration::from_hours(24);
/// A certificate of an admin that ends within this time is issued again.
pub const ADMIN_CERTIFICATE_RENEWED: Duration = Duration::from_hours(12);
/// A CA that ends within this time is replaced: no certificate that it signs is then cut short by its end,
/// where the replacement takes up to thirty days.
pub const AUTHORITY_RENEWED: Duration = Duration::from_hours(395 * 24);
/// Life of a certificate of S3 that the operator issues; it is renewed after two thirds of it.
pub const S3_CERTIFICATE_LIFE: Duration = Duration::from_hours(90 * 24);
/// A CA of S3 that ends within this time is followed by another one: clients have a year to take that up.
pub const S3_AUTHORITY_RENEWED: Duration = Duration::from_hours(365 * 24);
/// How long clients are still given a CA after the last certificate under it was replaced: nodes take that up
/// within minutes, and a host that was away for a night is back.
pub const S3_FORMER_CA_KEPT: Duration = Duration::from_hours(24);
/// CAs that clients are given beside the one that signs: more than one is former only where several were lost
/// within a day.
pub const S3_FORMER_CAS_MAX: usize = 4;
/// Characters of a condition's message; the API server refuses more than 32,768.
pub const MESSAGE_CHARACTERS_MAX: usize = 1024;
/// How long the events of one reconcile may take; they say no more than the status.
pub const EVENTS_TIME_MAX: Duration = Duration::from_secs(5);
/// Bytes of an event's note that the API server takes (events.k8s.io/v1, `note`).
pub const EVENT_NOTE_BYTES_MAX: usize = 1024;
/// Names in a message; further ones are counted.
pub const NAMES_IN_MESSAGE_MAX: usize = 8;
/// Erasure sets that a message describes; further ones are counted.
pub const SETS_IN_MESSAGE_MAX: usize = 2;
/// Volumes that the status lists as lost; messages count all of them. With their reasons they are below 20
/// KiB.
pub const VOLUME_LOSSES_MAX: usize = 32;
/// Characters of a node's words about one volume in the status.
pub const LOSS_REASON_CHARACTERS_MAX: usize = 256;
/// Hexadecimal digits of the digest in an order about a volume: 48 bits against a text that fits by chance.
pub const ORDER_DIGEST_CHARACTERS: usize = 12;
/// Characters of one order in an annotation: a claim's name of 253 and the digest.
pub const ORDER_CHARACTERS_MAX: usize = 288;
/// Orders about volumes that annotations may have, and that the status records.
pub const VOLUME_ORDERS_MAX: usize = 64;
/// Pods, or claims, of one list: 64 nodes of 32 volumes, and some left over.
pub const LIST_MAX: u32 = 4096;
/// Claims whose growth the API server may refuse, or not judge, in one reconcile, before the rest is left to
/// the next, which begins with another one: a quota may refuse all of them, and each look asks again.
pub const GROWTHS_REFUSED_MAX: usize = 4;
/// Connections of the metrics and health listener that wait in the kernel to be accepted.
pub const LISTENER_BACKLOG: u32 = 128;
/// Connections of the metrics and health listener.
pub const LISTENER_CONNECTIONS_MAX: usize = 64;
/// How long a connection of that listener may take to send a request.
pub const LISTENER_HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a pod of an older template may run without taking part in anything, before it is replaced: a node
/// opens its volumes in seconds, unless it replays a long log.
pub const STARTING_TIME_MAX: Duration = Duration::from_mins(1);
/// How long a rollout may wait for nodes before it is reported as blocked, where a cluster says nothing: a
/// restart is seconds, the heal of what it missed minutes.
pub const HEALTH_TIMEOUT: Duration = Duration::from_mins(15);
/// How often the API server is asked which groups it has. Another answer changes no running pod.
pub const PLATFORM_ASKED_AGAIN: Duration = Duration::from_mins(10);
/// Processor that a pod requests whose pool says nothing: a node at rest takes less, and eight pods find room
/// on one host of two cores beside Kubernetes' own.
pub const NODE_PROCESSOR: &str = "100m";
/// `buffer_cap` of a node, where nothing sets it.
pub const NODE_BUFFER_CAP: u64 = 128 << 20;
/// `index_cache` of a node, where nothing sets it.
pub const NODE_INDEX_CACHE: u64 = 32 << 20;
/// Memory of a node at rest, but for its volumes: 25 MB were seen with one of them, 42 MB with four.
pub const NODE_MEMORY: u64 = 32 << 20;
/// Memory of each volume at rest, beside the index cache.
pub const NODE_MEMORY_OF_VOLUME: u64 = 8 << 20;
/// How long running reconciles may take to end after SIGTERM.
pub const SHUTDOWN_TIME_MAX: Duration = Duration::from_secs(20);

/// A lease that was not renewed for this long may be taken by another operator.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// The leader stops when it could not renew its lease for this long.
pub const LEASE_RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Time between two tries to take or renew the lease.
pub const LEASE_RETRY: Duration = Duration::from_secs(2);

/// How long a namespace's clusters stay one installation's after its last renewal.
pub const NAMESPACE_LEASE_DURATION: Duration = Duration::from_mins(2);
/// How often the leases of namespaces are renewed, with or without changes of their clusters.
pub const NAMESPACE_LEASE_RENEWED: Duration = Duration::from_secs(25);
/// Leases of namespaces that are renewed at one time.
pub const NAMESPACES_RENEWED_MAX: usize = 8;
/// Failures in a row after which a cluster that cannot be looked at is reported so; a refusal is at once.
pub const FAILURES_UNREPORTED: u32 = 2;
/// A certificate that ends within this time and was not renewed is reported: half of
/// [`NODE_CERTIFICATE_RENEWED`].
pub const CERTIFICATE_EXPIRING: Duration = Duration::from_hours(15 * 24);

// A leader stops before another one may begin.
const _: () = assert!(LEASE_RENEW_DEADLINE.as_secs() < LEASE_DURATION.as_secs());
// A reconcile that began under a lease ends while it lasts, though one renewal failed.
const _: () = assert!(
    NAMESPACE_LEASE_RENEWED.as_secs() + REQUEST_TIME_MAX.as_secs() + RECONCILE_TIME_MAX.as_secs()
        < NAMESPACE_LEASE_DURATION.as_secs()
);
const _: () = assert!(LEASE_RETRY.as_secs() < LEASE_RENEW_DEADLINE.as_secs());
const _: () = assert!(ADMIN_CERTIFICATE_RENEWED.as_secs() < ADMIN_CERTIFICATE_LIFE.as_secs());
const _: () = assert!(OPERATOR_CERTIFICATE_RENEWED.as_secs() < OPERATOR_CERTIFICATE_LIFE.as_secs());
