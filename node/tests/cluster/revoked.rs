//! A key that was deleted or made inactive is refused by every other node in the very next request, and one
//! just made is accepted (I-21); also while a node is gone or stands still.
//!
//! A node that stood still, or is cut off from the others, answers by nothing that it remembers from before:
//! 503 until it has looked again. Requests that wait at a paused node when it goes on were sent after the
//! change had returned, and are judged so. A refusal by rules that may be old is 503 as well.

use aws_sdk_s3::primitives::ByteStream;
use rustix::process::Signal;
use tokio::task::JoinSet;

use crate::harness::Node;
use crate::harness::cluster::{TestCluster, cluster_of};
use crate::harness::relay::Relay;
use crate::harness::s3::{BUCKET, Failure, Outcome, S3, done, outcome};
use crate::harness::users::{AccessKey, Users};
use crate::harness::wait::{LATER, bounded, eventually};

/// Reads and writes everything, and deletes nothing.
const POLICY: &str = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Resource":"*",
    "Action":["s3:GetObject","s3:PutObject","s3:ListBucket"]}]}"#;
const KEY: &str = "object";
const USER: &str = "user";
const ROUNDS: usize = 5;
/// Requests of each kind that wait at a paused node.
const WAITING: usize = 4;

/// Requests of a user: three that its policy allows, and one that it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    Read,
    Write,
    List,
    Erase,
}

impl Ask {
    const ALL: [Self; 4] = [Self::Read, Self::Write, Self::List, Self::Erase];

    async fn send(self, s3: &S3) -> Outcome<()> {
        let sdk = s3.sdk();
        match self {
            Self::Read => outcome(sdk.get_object().bucket(BUCKET).key(KEY).send().await).map(drop),
            Self::Write => {
                let put = sdk.put_object().bucket(BUCKET).key("written");
                outcome(put.body(ByteStream::from_static(b"written")).send().await).map(drop)
            }
            Self::List => outcome(sdk.list_objects_v2().bucket(BUCKET).send().await).map(drop),
            Self::Erase => outcome(sdk.delete_object().bucket(BUCKET).key(KEY).send().await).map(drop),
        }
    }
}

/// The code that a user's request is refused by, while its key is good or afterwards; nothing if it is done.
fn code(answered: Outcome<()>) -> Option<String> {
    match answered {
        Ok(()) => None,
        Err(Failure::Refused { status: 403, code }) => Some(code),
        Err(other) => panic!("{other:?}"),
    }
}

/// Nothing for what the policy allows.
fn denied(ask: Ask) -> Option<&'static str> {
    (ask == Ask::Erase).then_some("AccessDenied")
}

/// Asks all through a node with a key that is good.
async fn is_accepted(node: &Node, key: &AccessKey) {
    let s3 = node.s3_with(key);
    for ask in Ask::ALL {
        let answered = bounded("a user's request", LATER, ask.send(&s3)).await;
        assert_eq!(code(answered).as_deref(), denied(ask), "{ask:?} at {}", node.endpoint);
    }
}

/// Asks all through a node with a key that is not.
async fn is_refused(node: &Node, key: &AccessKey) {
    let s3 = node.s3_with(key);
    for ask in Ask::ALL {
        let answered = bounded("a request of a revoked key", LATER, ask.send(&s3)).await;
        assert_eq!(code(answered).as_deref(), Some("InvalidAccessKeyId"), "{ask:?} at {}", node.endpoint);
    }
}

/// A user that its policy allows to read and write, an object, and IAM through each node.
async fn with_user(cluster: &TestCluster) -> (Vec<Users>, AccessKey) {
    let roots = cluster.with_bucket().await;
    done("a PUT", || {
        let put = roots[0].sdk().put_object().bucket(BUCKET).key(KEY);
        put.body(ByteStream::from_static(b"object")).send()
    })
    .await;
    let iam: Vec<_> = cluster.running().map(Node::users).collect();
    let key = iam[0].user(USER).await;
    iam[0].put_user_policy(USER, POLICY).await;
    (iam, key)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_good_and_revoked_through_every_node_at_once() {
    let mut cluster = cluster_of(4).with_iam().start().await;
    let (iam, first) = with_user(&cluster).await;
    for round in 0..ROUNDS {
        let iam = &iam[round % 4];
        // Each node remembers it when it is revoked.
        let key = iam.key(USER).await;
        for node in cluster.running() {
            is_accepted(node, &key).await;
        }
        iam.set_status(USER, &key, "Inactive").await;
        for node in cluster.running() {
            is_refused(node, &key).await;
        }
        iam.set_status(USER, &key, "Active").await;
        for node in cluster.running() {
            is_accepted(node, &key).await;
        }
        iam.delete_key(USER, &key).await;
        for node in cluster.running() {
            is_refused(node, &key).await;
        }
    }
    cluster.kill(3).await;
    let key = iam[1].key(USER).await;
    for node in cluster.running() {
        is_accepted(node, &key).await;
        is_accepted(node, &first).await;
    }
    iam[2].delete_key(USER, &first).await;
    for node in cluster.running() {
        is_refused(node, &first).await;
    }
    iam[0].set_status(USER, &key, "Inactive").await;
    for node in cluster.running() {
        is_refused(node, &key).await;
    }
    cluster.start(3).await;
    cluster.until_whole().await;
    is_refused(cluster.node(3), &key).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stood_still_answers_by_nothing_from_before() {
    let cluster = cluster_of(4).with_iam().start().await;
    let (iam, key) = with_user(&cluster).await;
    let paused = 3;
    for node in cluster.running() {
        is_accepted(node, &key).await;
    }
    // A key that is revoked, and one whose user loses its policy.
    let other = iam[0].user("other").await;
    iam[0].put_user_policy("other", POLICY).await;
    for node in cluster.running() {
        is_accepted(node, &other).await;
    }
    let [warm, warm_other] = [&key, &other].map(|key| cluster.node(paused).s3_with(key));
    for s3 in [&warm, &warm_other] {
        bounded("a GET", LATER, Ask::Read.send(s3)).await.expect("a connection");
    }
    cluster.node(paused).signal(Signal::STOP);
    iam[0].delete_key(USER, &key).await;
    iam[1].delete_user_policy("other").await;
    for node in cluster.running().take(paused) {
        is_refused(node, &key).await;
        let answered = bounded("a GET", LATER, Ask::Read.send(&node.s3_with(&other))).await;
        assert_eq!(code(answered).as_deref(), Some("AccessDenied"));
    }
    let mut waiting = JoinSet::new();
    for (s3, wanted) in [(&warm, "InvalidAccessKeyId"), (&warm_other, "AccessDenied")] {
        for _ in 0..WAITING {
            for ask in Ask::ALL {
                let s3 = s3.clone();
                waiting.spawn(async move { (ask, wanted, ask.send(&s3).await) });
            }
        }
    }
    // The system takes their connections and bytes though the node stands still.
    cluster.node(paused).signal(Signal::CONT);
    for (ask, wanted, answered) in bounded("what waits", LATER, waiting.join_all()).await {
        match answered {
            // Connections of the node to the others were lost meanwhile.
            Err(Failure::Unavailable { status: 503, .. }) => {}
            // A write that lay in the socket of a node that stood still for five seconds is not begun.
            Err(Failure::Lost(_)) if matches!(ask, Ask::Write | Ask::Erase) => {}
            answered => assert_eq!(code(answered).as_deref(), Some(wanted), "{ask:?}"),
        }
    }
    for (s3, wanted) in [(&warm, "InvalidAccessKeyId"), (&warm_other, "AccessDenied")] {
        until_refused(s3, wanted).await;
    }
}

/// Asks until a request is refused by this code; until then each is answered 503.
async fn until_refused(s3: &S3, wanted: &str) {
    eventually("the node looks again", LATER, async || {
        match bounded("a GET", LATER, Ask::Read.send(s3)).await {
            Err(failure @ Failure::Unavailable { status: 503, .. }) => Err(format!("{failure:?}")),
            answered => {
                assert_eq!(code(answered).as_deref(), Some(wanted));
                Ok(())
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_cut_off_answers_by_no_old_view() {
    let cluster = cluster_of(4).with_iam().with_links().start().await;
    let (iam, key) = with_user(&cluster).await;
    let kept = iam[0].key(USER).await;
    for node in cluster.running() {
        is_accepted(node, &key).await;
        is_accepted(node, &kept).await;
    }
    let cut = 3;
    cluster.relays_of(cut).for_each(Relay::cut);
    // The call returns when no node takes a view from before any more.
    iam[0].delete_key(USER, &key).await;
    let unknown = AccessKey { id: "un~known".to_owned(), ..key.clone() };
    let node = cluster.node(cut);
    for key in [&key, &kept] {
        for ask in Ask::ALL {
            let answered = bounded("a request", LATER, ask.send(&node.s3_with(key))).await;
            let is_unavailable = matches!(answered, Err(Failure::Unavailable { status: 503, .. }));
            assert!(is_unavailable, "{ask:?}: {answered:?}");
        }
    }
    // No key has an id with a tilde, so no register is asked.
    is_refused(node, &unknown).await;
    for node in cluster.running().take(cut) {
        is_refused(node, &key).await;
        is_accepted(node, &kept).await;
    }
    cluster.relays_of(cut).for_each(Relay::mend);
    until_refused(&node.s3_with(&key), "InvalidAccessKeyId").await;
    cluster.until_whole().await;
    is_accepted(node, &kept).await;
}
