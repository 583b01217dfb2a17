//! Requests during which the rules change are judged by what was in force when they began: a GET that is read
//! and a PUT that is sent meanwhile are done, and every later request is refused. Where the requests of a key
//! are ended, no further byte of either passes, through any node.

use aws_sdk_s3::primitives::ByteStream;

use crate::harness::cluster::{TestCluster, cluster_of};
use crate::harness::data::Body;
use crate::harness::raw::Raw;
use crate::harness::s3::{BUCKET, Failure, S3, done, outcome};
use crate::harness::users::{AccessKey, Users};
use crate::harness::wait::{LATER, bounded, is_quiet};

/// Of more bytes than the buffers between a node and its client hold.
const LONG: Body = Body { id: 7, len: 12 << 20 };
const READ: &str = "read";
const USER: &str = "user";
const POLICY: &str = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Resource":"*",
    "Action":["s3:GetObject","s3:PutObject","s3:ListBucket"]}]}"#;
const DENIAL: &str = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":"*",
    "Action":["s3:GetObject","s3:PutObject"],"Resource":"arn:aws:s3:::bucket/*"}]}"#;

/// Ways in which a user loses its rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    KeyInactive,
    PolicyDeleted,
    DeniedByBucket,
    KeyDeleted,
}

impl Loss {
    const ALL: [Self; 4] = [Self::KeyInactive, Self::PolicyDeleted, Self::DeniedByBucket, Self::KeyDeleted];

    async fn happen(self, iam: &Users, root: &S3, key: &AccessKey) {
        match self {
            Self::KeyInactive => iam.set_status(USER, key, "Inactive").await,
            Self::PolicyDeleted => iam.delete_user_policy(USER).await,
            Self::DeniedByBucket => {
                let put = root.sdk().put_bucket_policy().bucket(BUCKET).policy(DENIAL);
                done("a bucket's policy", || put.clone().send()).await;
            }
            Self::KeyDeleted => iam.delete_key(USER, key).await,
        }
    }

    async fn end(self, iam: &Users, root: &S3, key: &AccessKey) {
        match self {
            Self::KeyInactive => iam.set_status(USER, key, "Active").await,
            Self::PolicyDeleted => iam.put_user_policy(USER, POLICY).await,
            Self::DeniedByBucket => {
                let delete = root.sdk().delete_bucket_policy().bucket(BUCKET);
                done("a bucket's policy", || delete.clone().send()).await;
            }
            Self::KeyDeleted => {}
        }
    }

    const fn code(self) -> &'static str {
        match self {
            Self::KeyInactive | Self::KeyDeleted => "InvalidAccessKeyId",
            Self::PolicyDeleted | Self::DeniedByBucket => "AccessDenied",
        }
    }
}

async fn is_refused(cluster: &TestCluster, key: &AccessKey, loss: Loss) {
    for node in cluster.running() {
        let s3 = node.s3_with(key);
        let get = s3.sdk().get_object().bucket(BUCKET).key(READ).send();
        let read = outcome(bounded("a GET", LATER, get).await).map(drop);
        let put = s3.sdk().put_object().bucket(BUCKET).key("later").body(ByteStream::from_static(b"later"));
        let written = outcome(bounded("a PUT", LATER, put.send()).await).map(drop);
        let refused = Err(Failure::Refused { status: 403, code: loss.code().to_owned() });
        assert_eq!([&read, &written], [&refused; 2], "{loss:?} through {}", node.endpoint);
    }
}

/// Whether a PUT was done, which is allowed. A machine that is not quiet may give the nodes so little of a
/// processor that too few take it in time: then it is answered 503, and is nowhere.
async fn is_done(put: &mut Raw) -> bool {
    match put.head().await.map(|head| head.status) {
        Some(200) => true,
        Some(503) if !is_quiet() => {
            eprintln!("under way: a PUT was answered 503 by nodes that are late");
            false
        }
        ended => panic!("a PUT that is allowed: {ended:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_under_way_are_judged_by_what_was_in_force_when_they_began() {
    let cluster = cluster_of(4).with_iam().start().await;
    let roots = cluster.with_bucket().await;
    let iam = cluster.node(0).users();
    let key = iam.user(USER).await;
    iam.put_user_policy(USER, POLICY).await;
    roots[0].put_settled(READ, LONG).await;
    let bytes = LONG.bytes();
    let [reader, writer] = [1, 2].map(|node| cluster.node(node).s3_with(&key));
    for loss in Loss::ALL {
        let written = format!("written/{loss:?}");
        let mut get = Raw::get(&reader, READ).await;
        let head = get.head().await.expect("an answer");
        assert_eq!((head.status, head.len()), (200, LONG.len));
        let mut put = Raw::put_expecting(&writer, &written, LONG.len).await;
        assert_eq!(put.head().await.expect("it asks for the body").status, 100);
        let (first, second) = bytes.split_at(LONG.len / 2);
        put.body(first).await.expect("the node reads");

        loss.happen(&iam, &roots[3], &key).await;
        is_refused(&cluster, &key, loss).await;
        assert!(get.bytes(LONG.len).await == bytes, "{loss:?}: what is read is whole");
        put.body(second).await.expect("the node reads");
        let put = is_done(&mut put).await;
        is_refused(&cluster, &key, loss).await;
        loss.end(&iam, &roots[3], &key).await;
        assert_eq!(roots[0].get_settled(&written).await, put.then_some(LONG), "{loss:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_under_way_end_with_their_key_where_that_is_asked_for() {
    let mut cluster = cluster_of(4).with_iam().start().await;
    let roots = cluster.with_bucket().await;
    let iam = cluster.node(0).users();
    let (key, other) = (iam.user(USER).await, iam.user("other").await);
    iam.put_user_policy(USER, POLICY).await;
    iam.put_user_policy("other", POLICY).await;
    roots[0].put_settled(READ, LONG).await;
    let bytes = LONG.bytes();
    let (first, second) = bytes.split_at(LONG.len / 2);
    let mut begun = Vec::new();
    for (index, node) in cluster.running().enumerate() {
        for key in [&key, &other] {
            let s3 = node.s3_with(key);
            let mut get = Raw::get(&s3, READ).await;
            assert_eq!(get.head().await.map(|head| head.status), Some(200));
            let name = format!("written/{index}/{}", key.id);
            let mut put = Raw::put_expecting(&s3, &name, LONG.len).await;
            assert_eq!(put.head().await.map(|head| head.status), Some(100));
            put.body(first).await.expect("the node reads");
            begun.push((key.clone(), name, get, put));
        }
    }
    let end =
        [("UserName", USER), ("AccessKeyId", &*key.id), ("Status", "Inactive"), ("EndRequests", "true")];
    let ended = iam.done("UpdateAccessKey", &end).await;
    assert_eq!(ended.text("UnconfirmedNodes"), Some(""), "{}", ended.body);

    for (by, name, mut get, mut put) in begun {
        // The node closes what it refuses, maybe before all of it is sent.
        let _closed = put.body(second).await;
        if by == other {
            assert!(get.bytes(LONG.len).await == bytes, "{name}: what is read is whole");
            let put = is_done(&mut put).await;
            assert_eq!(roots[0].get_settled(&name).await, put.then_some(LONG), "{name}");
            continue;
        }
        assert_eq!(put.head().await.map(|head| head.status), Some(403), "{name}");
        assert_eq!(roots[0].get_settled(&name).await, None, "{name}: nothing is written");
        let mut read = 0;
        loop {
            match get.some().await.len() {
                0 => break,
                some => read += some,
            }
        }
        assert!(read < LONG.len, "{name}: the read is cut off");
    }

    // Requests that begin once it is active again go on to their ends.
    iam.set_status(USER, &key, "Active").await;
    for node in cluster.running() {
        assert_eq!(node.s3_with(&key).get_settled(READ).await, Some(LONG));
    }
    cluster.kill(3).await;
    let ended = iam.done("UpdateAccessKey", &end).await;
    assert_eq!(ended.text("member"), Some("n4"), "it is named: {}", ended.body);
}
