//! Answers to conditional writes that are lost on their way: the SDK sends the call again, by itself and
//! through another node, and gets its own success as the answer (I-19).
//!
//! A front deals connections to the nodes in turn, and cuts one when an answer comes back on it: the write is
//! committed, and its client does not know. Writes of each kind succeed so, with any change of the key
//! meanwhile; and writers that increment one number under `If-Match`, with every tenth answer cut, end at the
//! number of their successes: none was refused for its own success, and none counted twice. The same with
//! clients that notice seconds later, when the other writers have changed the number many times. The SDK is
//! at its default settings but for the pauses between its attempts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::{ByteStream, DateTime};
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use sherd_core::limits::CONDITIONAL_CHANGES_MAX;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::harness::cluster::{TestCluster, cluster_of};
use crate::harness::s3::{BUCKET, Failure, done, outcome};
use crate::harness::wait::{LATER, SOON, bounded};

/// Writers of the number.
const WRITERS: usize = 8;
/// Increments of all of them together, in the short story and in the long one.
const INCREMENTS: usize = 120;
const INCREMENTS_LONG: usize = 10_000;
/// Answers among which one is cut.
const CUT_EVERY: usize = 10;
/// Increments where lost answers are noticed late: fewer than the tokens that a key keeps, so that a fast
/// machine forgets none.
const INCREMENTS_NOTICED_LATE: usize = 120;
const _: () = assert!(INCREMENTS_NOTICED_LATE < CONDITIONAL_CHANGES_MAX);
/// After which pauses, in turn.
const NOTICED_AFTER: &[Duration] =
    &[Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(3)];
/// Increments of each of the figures.
const INCREMENTS_FIGURES: usize = 400;
/// How long the long story may take.
const LONG: Duration = Duration::from_mins(30);
/// The key of the number.
const NUMBER: &str = "lost/number";

/// Forwards connections to the nodes, one after the other; it ends with the value.
#[derive(Debug)]
struct Front {
    endpoint: String,
    cuts: Arc<Cuts>,
    _tasks: JoinSet<()>,
}

/// Answers that are cut.
#[derive(Debug, Default)]
struct Cuts {
    /// Answers that are still to be cut, before `every` applies.
    next: AtomicUsize,
    /// Answers among which one is cut; 0 for none.
    every: AtomicUsize,
    /// How long a client waits on its connection for an answer that is cut, in turn. Where there are any,
    /// only answers of successful PUTs count.
    pauses: &'static [Duration],
    answers: AtomicUsize,
    done: AtomicUsize,
}

impl Cuts {
    /// Whether bytes of a node on a connection are an answer that is cut: after which pause.
    fn take(&self, bytes: &[u8], of_put: bool) -> Option<Duration> {
        let is_answer = bytes.starts_with(b"HTTP/1.1 ") && !bytes.starts_with(b"HTTP/1.1 100");
        let is_change = of_put && bytes.starts_with(b"HTTP/1.1 200");
        if !is_answer || !(is_change || self.pauses.is_empty()) {
            return None;
        }
        let number = self.answers.fetch_add(1, Ordering::Relaxed) + 1;
        let take_one = |left: usize| left.checked_sub(1);
        let is_next = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take_one).is_ok();
        let every = self.every.load(Ordering::Relaxed);
        let is_cut = is_next || (every > 0 && number.is_multiple_of(every));
        let turn = self.done.fetch_add(usize::from(is_cut), Ordering::Relaxed);
        is_cut.then(|| self.pauses.iter().cycle().nth(turn).copied().unwrap_or_default())
    }
}

impl Front {
    /// Cuts answers at once.
    async fn start(cluster: &TestCluster) -> Self {
        Self::start_with(cluster, &[]).await
    }

    async fn start_with(cluster: &TestCluster, pauses: &'static [Duration]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let endpoint = format!("http://{}", listener.local_addr().expect("it is bound"));
        let address = |endpoint: &str| endpoint.trim_start_matches("http://").parse().expect("an address");
        let nodes: Vec<SocketAddr> = cluster.running().map(|node| address(&node.endpoint)).collect();
        let cuts = Arc::new(Cuts { pauses, ..Cuts::default() });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, nodes, Arc::clone(&cuts)));
        Self { endpoint, cuts, _tasks: tasks }
    }

    /// A client that sends each call until it is answered.
    fn client(&self, cluster: &TestCluster) -> Client {
        cluster.node(0).client_that_insists(&self.endpoint)
    }

    /// Cuts the next answer.
    fn cut_next(&self) {
        self.cuts.next.store(1, Ordering::Relaxed);
    }

    fn cuts(&self) -> usize {
        self.cuts.done.load(Ordering::Relaxed)
    }
}

async fn accept(listener: TcpListener, nodes: Vec<SocketAddr>, cuts: Arc<Cuts>) {
    let mut connections = JoinSet::new();
    for node in nodes.iter().cycle() {
        let Ok((client, _)) = listener.accept().await else { continue };
        let Ok(server) = TcpStream::connect(node).await else { continue };
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let cuts = Arc::clone(&cuts);
        connections.spawn(async move {
            let is_put = AtomicBool::new(false);
            let request = |bytes: &[u8]| {
                let begins_with = |method: &[u8]| bytes.starts_with(method);
                if begins_with(b"PUT ") || begins_with(b"GET ") {
                    is_put.store(begins_with(b"PUT "), Ordering::Relaxed);
                }
                None
            };
            let answer = |bytes: &[u8]| cuts.take(bytes, is_put.load(Ordering::Relaxed));
            // Cancel-safe: what is under way when one direction ends is lost, as it should be.
            tokio::select! {
                biased;
                () = forward(from_client, to_server, request) => {}
                () = forward(from_server, to_client, answer) => {}
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Forwards bytes until some of them are cut, and ends after the pause that they are cut after.
async fn forward(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    cut: impl Fn(&[u8]) -> Option<Duration>,
) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = from.read(&mut buffer).await.unwrap_or(0);
        let bytes = &buffer[..count];
        if let Some(pause) = cut(bytes) {
            return tokio::time::sleep(pause).await;
        }
        if count == 0 || to.write_all(bytes).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conditional_write_whose_answer_is_lost_succeeds() {
    let cluster = cluster_of(4).start().await;
    cluster.with_bucket().await;
    let front = Front::start(&cluster).await;
    let client = front.client(&cluster);
    let put = |key: &str, body: &'static [u8]| {
        client.put_object().bucket(BUCKET).key(key).body(ByteStream::from_static(body))
    };

    front.cut_next();
    let created = bounded("a PUT", SOON, put("lost/put", b"one").if_none_match("*").send()).await;
    let created = outcome(created).expect("it is its own");
    let etag = created.e_tag().expect("an entity tag").to_owned();
    front.cut_next();
    let replaced = bounded("a PUT", SOON, put("lost/put", b"two").if_match(&etag).send()).await;
    let replaced = outcome(replaced).expect("it is its own");
    let etag = replaced.e_tag().expect("an entity tag").to_owned();
    // Another call with the same condition and the same body is judged as ever.
    let other = bounded("a PUT", SOON, put("lost/put", b"one").if_none_match("*").send()).await;
    assert!(matches!(outcome(other), Err(Failure::Refused { status: 412, .. })));

    front.cut_next();
    let copy = client.copy_object().bucket(BUCKET).key("lost/copy").copy_source(format!("{BUCKET}/lost/put"));
    let copied =
        outcome(bounded("a copy", SOON, copy.if_none_match("*").send()).await).expect("it is its own");
    let result = copied.copy_object_result().expect("what it made");
    assert_eq!(result.e_tag(), Some(etag.as_str()));
    let shown = client.head_object().bucket(BUCKET).key("lost/copy").send();
    let shown = outcome(bounded("a HEAD", SOON, shown).await).expect("it is there");
    assert_eq!(result.last_modified().map(DateTime::secs), shown.last_modified().map(DateTime::secs));

    front.cut_next();
    let delete = client.delete_object().bucket(BUCKET).key("lost/put").if_match(&etag).send();
    outcome(bounded("a DELETE", SOON, delete).await).expect("it is its own");
    let delete = client.delete_object().bucket(BUCKET).key("lost/put").if_match(&etag).send();
    let gone = outcome(bounded("a DELETE", SOON, delete).await);
    assert!(matches!(gone, Err(Failure::Refused { status: 404, .. })), "{gone:?}");

    let create = client.create_multipart_upload().bucket(BUCKET).key("lost/upload").send();
    let created = outcome(bounded("a new upload", SOON, create).await).expect("an upload");
    let id = created.upload_id().expect("an upload has an id").to_owned();
    let part = client.upload_part().bucket(BUCKET).key("lost/upload").upload_id(&id).part_number(1);
    let part = part.body(ByteStream::from_static(b"part")).send();
    let part = outcome(bounded("a part", SOON, part).await).expect("a part");
    let parts = CompletedPart::builder().part_number(1).set_e_tag(part.e_tag).build();
    let parts = CompletedMultipartUpload::builder().parts(parts).build();
    front.cut_next();
    let complete = client.complete_multipart_upload().bucket(BUCKET).key("lost/upload").upload_id(id);
    let complete = complete.multipart_upload(parts).if_none_match("*").send();
    outcome(bounded("a completion", SOON, complete).await).expect("it is its own");
    assert_eq!(front.cuts(), 5, "each answer was lost once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn increments_with_every_tenth_answer_lost_count_once() {
    count_once(INCREMENTS, LATER * 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes"]
async fn ten_thousand_increments_with_every_tenth_answer_lost_count_once() {
    count_once(INCREMENTS_LONG, LONG).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn increments_whose_lost_answers_are_noticed_seconds_later_count_once() {
    let cluster = cluster_of(4).start().await;
    let counted = count(&cluster, WRITERS, INCREMENTS_NOTICED_LATE, NOTICED_AFTER, LATER * 2).await;
    assert_eq!(counted.refused_own, 0, "each success counted once, and nothing else did");
    assert!(counted.cuts > 0, "answers were lost");
}

/// How many second sendings are recognised, by writers and pause: figures without a verdict, but that nothing
/// counts twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "figures, minutes"]
async fn figures_of_increments_whose_lost_answers_are_noticed_later() {
    const AFTER: [&[Duration]; 4] = [
        &[Duration::from_millis(100)],
        &[Duration::from_secs(1)],
        &[Duration::from_secs(3)],
        &[Duration::from_secs(10)],
    ];
    for writers in [8, 4, 2] {
        for pauses in AFTER {
            let cluster = cluster_of(4).start().await;
            let began = Instant::now();
            let counted = count(&cluster, writers, INCREMENTS_FIGURES, pauses, LONG).await;
            let took = began.elapsed();
            let Counted { cuts, refused_own, refused: _ } = counted;
            eprintln!(
                "{writers} writers, {:?}: {INCREMENTS_FIGURES} commits in {took:.1?}, told 200 {}, told 412 {refused_own}",
                pauses[0],
                cuts.saturating_sub(refused_own)
            );
        }
    }
}

/// Result of a run of writers.
struct Counted {
    cuts: usize,
    /// Increments that count although their writers were refused.
    refused_own: usize,
    /// How often writers were refused.
    refused: usize,
}

async fn count_once(increments: usize, patience: Duration) {
    let cluster = cluster_of(4).start().await;
    let Counted { cuts, refused_own, refused } = count(&cluster, WRITERS, increments, &[], patience).await;
    eprintln!("{increments} increments, {cuts} answers lost, {refused} refused for another's");
    assert_eq!(refused_own, 0, "each success counted once, and nothing else did");
    assert!(cuts > 0, "answers were lost");
}

/// Lets writers increment the number, with every tenth answer cut.
async fn count(
    cluster: &TestCluster,
    writers: usize,
    increments: usize,
    pauses: &'static [Duration],
    patience: Duration,
) -> Counted {
    cluster.with_bucket().await;
    let front = Front::start_with(cluster, pauses).await;
    let client = front.client(cluster);
    done("a PUT", || {
        let first = client.put_object().bucket(BUCKET).key(NUMBER).body(ByteStream::from_static(b"0 none"));
        first.send()
    })
    .await;
    front.cuts.every.store(CUT_EVERY, Ordering::Relaxed);
    let mut running = JoinSet::new();
    for writer in 0..writers {
        // Each its own connections.
        let client = front.client(cluster);
        running.spawn(async move { increment(&client, writer, increments / writers).await });
    }
    let refused: usize = bounded("the writers", patience, running.join_all()).await.into_iter().sum();
    front.cuts.every.store(0, Ordering::Relaxed);
    let (number, _) = read(&client).await;
    let made = increments / writers * writers;
    assert!(number >= made, "{made} successes, and the number is {number}");
    Counted { cuts: front.cuts(), refused_own: number - made, refused }
}

/// Increments the number this often; says how often it was refused, for others were faster.
async fn increment(client: &Client, writer: usize, times: usize) -> usize {
    let (mut done, mut refused) = (0, 0);
    while done < times {
        let (number, etag) = read(client).await;
        // Each body is written once: an entity tag names one write.
        let body = format!("{} {writer} {done} {refused}", number + 1).into_bytes();
        let put =
            client.put_object().bucket(BUCKET).key(NUMBER).if_match(etag).body(ByteStream::from(body)).send();
        match outcome(bounded("an increment", LATER, put).await) {
            Ok(_) => done += 1,
            Err(Failure::Refused { status: 412, .. }) => refused += 1,
            Err(other) => panic!("writer {writer}: {other:?}"),
        }
    }
    refused
}

/// The number, and the entity tag that it has.
async fn read(client: &Client) -> (usize, String) {
    let get = client.get_object().bucket(BUCKET).key(NUMBER).send();
    let object = outcome(bounded("a GET", LATER, get).await).expect("it is there");
    let etag = object.e_tag.clone().expect("an entity tag");
    let bytes = bounded("a body", LATER, object.body.collect()).await.expect("a whole body").into_bytes();
    let text = String::from_utf8(bytes.to_vec()).expect("text");
    let number = text.split(' ').next().and_then(|number| number.parse().ok()).expect("a number");
    (number, etag)
}
