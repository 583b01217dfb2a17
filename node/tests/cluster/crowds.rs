//! Crowds that would take a node's memory or its places: clients that each do what is allowed, and together
//! too much.
//!
//! Four nodes and one crowd at a time. Beside it, healthy clients write and read through all nodes without
//! trying again, and each of their requests must succeed. No process may hold more than [`ADDED_MAX_KIB`]
//! above what it held when it was idle; that is a promise of an optimised binary, so it is asserted for one
//! alone. The figures are printed always. No time is judged, but a request that hangs for [`SOON`] fails.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_s3::types::{Delete, ObjectIdentifier};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::harness::admin::ask;
use crate::harness::cluster::{TestCluster, cluster_of, name};
use crate::harness::data::Body;
use crate::harness::is_optimised;
use crate::harness::raw::Raw;
use crate::harness::s3::{BUCKET, Failure, Outcome, S3, done, outcome};
use crate::harness::wait::{LATER, SOON, bounded, eventually};

const NODES: usize = 4;
/// Most anonymous memory that a crowd may add to a process, in KiB.
const ADDED_MAX_KIB: u64 = 256 << 10;
/// Between two looks at the memory of all processes.
const LOOK: Duration = Duration::from_millis(20);
/// Requests that each healthy client makes at least.
const HEALTHY_MIN: usize = 20;
/// Sizes of healthy bodies: packed in the log, and in files.
const HEALTHY: [usize; 2] = [64 << 10, 1 << 20];

/// Uploads of one key, the bytes of metadata that each has, and clients that list their parts at one time.
const UPLOADS: usize = 1000;
const METADATA_BYTES: usize = 2000;
const PART_LISTS: usize = 500;
/// Keys of a bucket that is emptied, and clients that list it at one time.
const DELETED: usize = 30_000;
const LISTS: usize = 100;
/// Requests of each client of these crowds.
const ROUNDS: usize = 4;
/// Requests at one time while a story is prepared.
const WIDTH: usize = 16;
/// Keys of one request that deletes many: S3's limit.
const DELETED_AT_ONCE: usize = 1000;

/// Connections of a crowd on the admin port, more than it has places for.
const ADMIN_FLOOD: usize = 200;
/// Connections of a crowd on S3, more than it has places for.
const S3_FLOOD: usize = 4200;
/// Between two looks of a flood's connection at whether it is still open.
const REFRESH: Duration = Duration::from_secs(2);
/// Descriptors that a flood needs on either side.
const DESCRIPTORS: u64 = 10_000;
/// Clients beside a flood, and what each of them asks for.
const CLIENTS: usize = 8;
const REQUESTS: usize = 25;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes"]
async fn five_hundred_clients_list_the_parts_of_a_key_with_a_thousand_uploads() {
    let (cluster, idle, clients) = start().await;
    // Through one node, which puts those of a moment into one change of the key.
    let creates = (0..UPLOADS).map(|_| {
        let s3 = clients[0].clone();
        async move {
            let create = s3.sdk().create_multipart_upload().bucket(BUCKET).key("uploads");
            let create = create.metadata("of-the-crowd", "m".repeat(METADATA_BYTES));
            let created = done("a new upload", || create.clone().send());
            created.await.upload_id.expect("an upload has an id")
        }
    });
    let uploads = Arc::new(all_of(creates).await);
    let crowd = async {
        let mut running = JoinSet::new();
        for client in 0..PART_LISTS {
            let (s3, uploads) = (clients[0].clone(), Arc::clone(&uploads));
            running.spawn(async move {
                let mut answers = Answers::default();
                for round in 0..ROUNDS {
                    let upload = &uploads[(client + round * PART_LISTS) % uploads.len()];
                    let list = s3.sdk().list_parts().bucket(BUCKET).key("uploads").max_parts(1);
                    answers.count(outcome(
                        bounded("a list of parts", LATER, list.upload_id(upload).send()).await,
                    ));
                }
                answers
            });
        }
        Answers::sum(running.join_all().await)
    };
    let answers = beside_healthy_clients("lists of parts", &cluster, &idle, crowd).await;
    assert!(answers.served > 0, "some of the crowd is served: {answers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes"]
async fn a_hundred_clients_list_a_bucket_that_was_emptied() {
    let (cluster, idle, clients) = start().await;
    let keys: Vec<String> = (0..DELETED).map(|number| format!("deleted/{number:05}")).collect();
    let puts = keys.iter().enumerate().map(|(number, key)| {
        let (s3, key) = (clients[number % NODES].clone(), key.clone());
        async move { s3.put_settled(&key, Body { id: 1, len: 100 }).await }
    });
    all_of(puts).await;
    for (number, keys) in keys.chunks(DELETED_AT_ONCE).enumerate() {
        let objects = keys.iter().map(|key| ObjectIdentifier::builder().key(key).build().expect("a key"));
        let delete = Delete::builder().set_objects(Some(objects.collect())).build().expect("some keys");
        let delete = clients[number % NODES].sdk().delete_objects().bucket(BUCKET).delete(delete);
        let deleted = done("a deletion", || delete.clone().send()).await;
        assert_eq!(deleted.errors(), [], "every key goes");
    }
    let crowd = async {
        let mut running = JoinSet::new();
        for _ in 0..LISTS {
            let s3 = clients[0].clone();
            running.spawn(async move {
                let mut answers = Answers::default();
                for _ in 0..ROUNDS {
                    let list = s3.sdk().list_objects_v2().bucket(BUCKET).max_keys(1).send();
                    answers.count(outcome(bounded("a list", LATER, list).await));
                }
                answers
            });
        }
        Answers::sum(running.join_all().await)
    };
    let answers = beside_healthy_clients("lists of an emptied bucket", &cluster, &idle, crowd).await;
    assert_eq!(answers, Answers { served: LISTS * ROUNDS, refused: 0 }, "no list is refused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes"]
async fn idle_connections_on_the_admin_port_fail_no_probe() {
    let (cluster, idle, _) = start().await;
    let admin = &cluster.node(0).admin;
    let probes = async {
        let mut flood = Flood::default();
        flood.rise(admin, ADMIN_FLOOD, Flow::Silent).await;
        for number in 0..REQUESTS * CLIENTS {
            for path in ["/health/live", "/health/ready", "/metrics"] {
                let answer = ask(admin, path).await;
                let status = answer.map(|(status, _)| status);
                assert_eq!(status, Ok(200), "{path}, probe {number}");
            }
        }
        flood.opened()
    };
    let (opened, peaks) = peaks_while(&cluster, probes).await;
    eprintln!("crowds: admin: {} probes answered beside {opened} connections", 3 * REQUESTS * CLIENTS);
    judge("admin", &idle, &peaks);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes"]
async fn idle_and_dribbling_connections_on_s3_fail_no_request() {
    let most = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: most.maximum, maximum: most.maximum })
        .expect("a process may take what it is allowed");
    if most.maximum.is_some_and(|descriptors| descriptors < DESCRIPTORS) {
        eprintln!("SKIPPED: a flood needs {DESCRIPTORS} descriptors, {:?} are allowed", most.maximum);
        return;
    }
    let (cluster, idle, clients) = start().await;
    let endpoint = &cluster.node(0).endpoint;
    let served = async {
        let mut flood = Flood::default();
        flood.rise(endpoint, S3_FLOOD / 2, Flow::Silent).await;
        flood.rise(endpoint, S3_FLOOD / 2, Flow::Dribbling).await;
        let mut running = JoinSet::new();
        for client in 0..CLIENTS {
            // A client that comes over a new connection each time, and a client that keeps its connections
            // and so tries again: any server may close a connection that waits for a request.
            let lasting = S3::over(cluster.node(0).client_with_attempts(endpoint, 3));
            let new = clients[0].clone();
            running.spawn(async move {
                for number in 0..REQUESTS {
                    let key = format!("flood/{client}/{number}");
                    bounded("a request beside a flood", SOON, write_and_read(&new, &key)).await;
                    let body = body_of(client, number, HEALTHY[0]);
                    assert_eq!(lasting.put(&key, body).await, Ok(()), "PUT {key}");
                    assert_eq!(lasting.get(&key).await, Ok(Some(body)), "GET {key}");
                }
            });
        }
        running.join_all().await;
        flood.opened()
    };
    let (opened, peaks) = peaks_while(&cluster, served).await;
    eprintln!("crowds: S3: {} requests answered beside {opened} connections", 4 * CLIENTS * REQUESTS);
    judge("S3", &idle, &peaks);
}

/// Starts the nodes. Gives the anonymous memory of each before it has done anything, and a client of each.
async fn start() -> (TestCluster, Vec<u64>, Vec<S3>) {
    let cluster = cluster_of(NODES).start().await;
    cluster.until_whole().await;
    let idle = memory(&cluster);
    let clients = cluster.with_bucket().await;
    (cluster, idle, clients)
}

/// Runs preparations, [`WIDTH`] at one time, and gives what each came to.
async fn all_of<T: Send + 'static>(
    work: impl Iterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let (mut running, mut done) = (JoinSet::new(), Vec::new());
    for one in work {
        if running.len() == WIDTH {
            done.extend(running.join_next().await.map(|ended| ended.expect("a preparation succeeds")));
        }
        running.spawn(one);
    }
    done.extend(running.join_all().await);
    done
}

/// Answers to the clients of a crowd.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Answers {
    served: usize,
    /// 503 SlowDown.
    refused: usize,
}

impl Answers {
    fn count<T>(&mut self, answer: Outcome<T>) {
        match answer {
            Ok(_) => self.served += 1,
            Err(failure) if failure.is_slow_down() => self.refused += 1,
            Err(failure) => panic!("one of a crowd got neither 200 nor SlowDown: {failure:?}"),
        }
    }

    fn sum(answers: Vec<Self>) -> Self {
        answers.into_iter().fold(Self::default(), |sum, one| Self {
            served: sum.served + one.served,
            refused: sum.refused + one.refused,
        })
    }
}

/// Lets a crowd do what it does while healthy clients write and read through all nodes.
async fn beside_healthy_clients(
    what: &str,
    cluster: &TestCluster,
    idle: &[u64],
    crowd: impl Future<Output = Answers>,
) -> Answers {
    let ended = Arc::new(AtomicBool::new(false));
    let mut healthy = JoinSet::new();
    for (node, s3) in cluster.clients().into_iter().enumerate() {
        for len in HEALTHY {
            let (s3, ended) = (s3.clone(), Arc::clone(&ended));
            healthy.spawn(async move { healthy_client(&s3, node, len, &ended).await });
        }
    }
    let both = async {
        let answers = crowd.await;
        ended.store(true, Ordering::Relaxed);
        (answers, healthy.join_all().await)
    };
    let ((answers, healthy), peaks) = peaks_while(cluster, both).await;
    let requests: usize = healthy.iter().map(|(requests, _)| requests).sum();
    let failures: Vec<&Failure> = healthy.iter().flat_map(|(_, failures)| failures).collect();
    eprintln!("crowds: {what}: {answers:?}; {} of {requests} healthy requests failed", failures.len());
    judge(what, idle, &peaks);
    assert!(
        failures.is_empty(),
        "{} healthy requests failed, the first with {:?}",
        failures.len(),
        failures[0]
    );
    answers
}

/// Writes and reads until the crowd has ended. Gives how often, and what failed.
async fn healthy_client(s3: &S3, node: usize, len: usize, ended: &AtomicBool) -> (usize, Vec<Failure>) {
    let (mut requests, mut failures) = (0, Vec::new());
    // Behind every key of the crowd.
    let key = format!("healthy/{node}/{len}");
    while requests < HEALTHY_MIN || !ended.load(Ordering::Relaxed) {
        let body = body_of(node, requests, len);
        let put = s3.put(&key, body).await;
        let is_put = put.is_ok();
        failures.extend(put.err());
        requests += 1;
        if is_put {
            match s3.get(&key).await {
                Ok(found) => assert_eq!(found, Some(body), "{key} is what was just written"),
                Err(failure) => failures.push(failure),
            }
            requests += 1;
        }
    }
    (requests, failures)
}

/// Puts and gets over a connection of its own each.
async fn write_and_read(s3: &S3, key: &str) {
    let body = Body { id: 7, len: HEALTHY[0] };
    let mut put = Raw::put(s3, key, body.len).await;
    put.body(&body.bytes()).await.expect("the node takes a body");
    assert_eq!(put.head().await.map(|head| head.status), Some(200), "PUT {key}");
    let mut get = Raw::get(s3, key).await;
    assert_eq!(get.head().await.map(|head| head.status), Some(200), "GET {key}");
    assert_eq!(Body::recognise(&get.bytes(body.len).await), Ok(body), "GET {key}");
}

fn body_of(client: usize, number: usize, len: usize) -> Body {
    Body { id: (client * 1_000_000 + number) as u64, len }
}

/// The traffic of a connection of a flood.
#[derive(Debug, Clone, Copy)]
enum Flow {
    Silent,
    /// A head that never ends, a few bytes at a time.
    Dribbling,
}

/// Connections that are opened again when they are closed, until the value is dropped.
#[derive(Debug, Default)]
struct Flood {
    tasks: JoinSet<()>,
    opened: Arc<AtomicUsize>,
}

impl Flood {
    /// Adds connections, and waits until each was open once.
    async fn rise(&mut self, endpoint: &str, count: usize, flow: Flow) {
        let address = endpoint.strip_prefix("http://").expect("plain HTTP");
        let wanted = self.opened() + count;
        for _ in 0..count {
            let (address, opened) = (address.to_owned(), Arc::clone(&self.opened));
            self.tasks.spawn(async move { connection(&address, flow, &opened).await });
        }
        eventually("a flood rises", LATER, async || match self.opened() {
            opened if opened >= wanted => Ok(()),
            opened => Err(format!("{opened} of {wanted} connections")),
        })
        .await;
    }

    /// Connections that were opened so far.
    fn opened(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }
}

async fn connection(address: &str, flow: Flow, opened: &AtomicUsize) {
    let mut ticks = interval(REFRESH);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Ok(mut stream) = TcpStream::connect(address).await else { continue };
        opened.fetch_add(1, Ordering::Relaxed);
        let mut piece: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ";
        loop {
            if matches!(flow, Flow::Dribbling) && stream.write_all(piece).await.is_err() {
                break;
            }
            piece = b"slowly";
            ticks.tick().await;
            match stream.try_read(&mut [0; 1024]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
    }
}

/// The anonymous memory of each process, in KiB.
fn memory(cluster: &TestCluster) -> Vec<u64> {
    cluster.running().map(|node| node.memory_kib("RssAnon")).collect()
}

/// The most that each process held while something happened.
async fn peaks_while<T>(cluster: &TestCluster, work: impl Future<Output = T>) -> (T, Vec<u64>) {
    let mut peaks = memory(cluster);
    let mut work = Box::pin(work);
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // Both are kept over the turns of the loop: an arm that is not taken loses nothing.
        tokio::select! {
            biased;
            _ = ticks.tick() => {
                for (peak, now) in peaks.iter_mut().zip(memory(cluster)) {
                    *peak = now.max(*peak);
                }
            }
            done = &mut work => return (done, peaks),
        }
    }
}

/// Prints what the processes held, and compares it where the binary is an optimised one.
fn judge(what: &str, idle: &[u64], peaks: &[u64]) {
    for (node, (idle, peak)) in idle.iter().zip(peaks).enumerate() {
        let added = peak.saturating_sub(*idle);
        let name = name(node);
        eprintln!("crowds: {what}: {name} idle {} MiB, {} MiB more at most", idle >> 10, added >> 10);
        assert!(
            added < ADDED_MAX_KIB || !is_optimised(),
            "{what}: {name} holds {added} KiB more than when idle"
        );
    }
}
