//! A node that stands still (SIGSTOP) holds no request up for long, although its connections stay open and
//! silent.
//!
//! PUTs up to 8 MiB, GETs and DELETEs through the other nodes are answered, and what was acknowledged is
//! there when it goes on. A load of all kinds of requests goes on, and once it goes on the node is used
//! again. On a quiet machine requests under way take at most 2 s more and later ones no more than before.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::harness::Node;
use crate::harness::cluster::cluster_of;
use crate::harness::data::{Body, Dice};
use crate::harness::s3::{Condition, S3, outcome};
use crate::harness::wait::{LATER, bounded, eventually, promised};

/// How long any answer may take on a quiet machine.
const ANSWER: Duration = Duration::from_secs(25);
/// Answers that the load gets between two events, and calls after which the node counts as used again.
const ANSWERS: usize = 66;
const CALLS: f64 = 10.0;
/// The services whose calls show that a node is used.
const SERVICES: [&str; 2] = ["register", "shard"];
/// Sizes of the objects.
const SIZES: [usize; 4] = [1 << 10, 200 << 10, 1 << 20, 8 << 20];
/// How long each phase of the load lasts.
const PHASE: Duration = Duration::from_secs(12);
/// After which a node that stopped costs nothing any more, and one that went on is used again.
const SETTLED: Duration = Duration::from_secs(2);
/// Delay that a node which stops may cause to a request under way.
const COST: Duration = Duration::from_secs(2);
/// Delay that it causes to a deletion of a bucket, which waits until its view there is too old (I-20).
const VIEW_COST: Duration = Duration::from_millis(2_500);
/// Delay that it may cause to a later one.
const LATER_COST: Duration = Duration::from_millis(50);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_answered_while_a_node_stands_still() {
    let mut dice = Dice::of_this_run("paused");
    let cluster = cluster_of(4).start().await;
    let clients = cluster.with_bucket().await;
    let mut old = Vec::new();
    for (number, len) in SIZES.into_iter().enumerate() {
        let body = Body { id: dice.next(), len };
        clients[number % 3].put_settled(&format!("old/{number}"), body).await;
        old.push(body);
    }
    let paused = 3;
    cluster.node(paused).signal(Signal::STOP);
    let mut requests = JoinSet::new();
    for (number, len) in SIZES.into_iter().enumerate() {
        for (gateway, s3) in clients.iter().take(paused).enumerate() {
            let (s3, body, was) = (s3.clone(), Body { id: dice.next(), len }, old[number]);
            requests.spawn(async move {
                let key = format!("new/{gateway}-{number}");
                let begin = Instant::now();
                let read = bounded("a GET", promised(ANSWER), s3.get(&format!("old/{number}"))).await;
                assert_eq!(read, Ok(Some(was)));
                bounded("a PUT", promised(ANSWER), s3.put(&key, body))
                    .await
                    .expect("three of four nodes take it");
                let read = bounded("a GET", promised(ANSWER), s3.get(&key)).await;
                assert_eq!(read, Ok(Some(body)));
                if gateway == 0 {
                    bounded("a DELETE", promised(ANSWER), s3.delete(&key))
                        .await
                        .expect("three of four nodes take it");
                }
                (gateway, key, body, begin.elapsed())
            });
        }
    }
    let done = requests.join_all().await;
    cluster.node(paused).signal(Signal::CONT);
    let slowest = done.iter().map(|(.., elapsed)| *elapsed).max().expect("there are requests");
    eprintln!("paused: the slowest row of requests took {slowest:?}");
    cluster.node(paused).until_ready().await;
    for (gateway, key, body, _) in done {
        let wanted = (gateway != 0).then_some(body);
        assert_eq!(clients[paused].get_settled(&key).await, wanted, "{key} through the node that goes on");
    }
}

/// Requests of the load's clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    PutInline,
    PutPacked,
    PutStripes,
    GetInline,
    GetPacked,
    GetStripes,
    Create,
    Swap,
    List,
    Delete,
    DeleteBucket,
}

/// Where a request's time lies: in a healthy cluster, across the stop and the 2 s behind it, later while the
/// node stands still, in the 2 s after it goes on, and later than that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Before,
    Under,
    Later,
    Resuming,
    After,
}

impl Work {
    const ALL: [Self; 11] = [
        Self::PutInline,
        Self::PutPacked,
        Self::PutStripes,
        Self::GetInline,
        Self::GetPacked,
        Self::GetStripes,
        Self::Create,
        Self::Swap,
        Self::List,
        Self::Delete,
        Self::DeleteBucket,
    ];

    /// Bytes of the objects that it works on.
    const fn len(self) -> usize {
        match self {
            Self::PutPacked | Self::GetPacked => 200 << 10,
            Self::PutStripes | Self::GetStripes => 3 << 20,
            Self::PutInline
            | Self::GetInline
            | Self::Create
            | Self::Swap
            | Self::List
            | Self::Delete
            | Self::DeleteBucket => 1 << 10,
        }
    }
}

impl Phase {
    const ALL: [Self; 5] = [Self::Before, Self::Under, Self::Later, Self::Resuming, Self::After];
}

/// Delay that the machine may now and then add to the promised times of any request, although nothing else
/// runs on it.
const NOISE: Duration = Duration::from_millis(700);
/// Delay that it may add to every second one.
const NOISE_MEDIAN: Duration = Duration::from_millis(50);

/// When the paused node stopped and went on.
#[derive(Debug, Default)]
struct Pause {
    stopped: OnceLock<Instant>,
    resumed: OnceLock<Instant>,
}

impl Pause {
    /// The phase of a request that just ended.
    fn phase_of(&self, begun: Instant) -> Phase {
        let until = |moment: &OnceLock<Instant>| moment.get().map(|moment| *moment + SETTLED);
        match (self.stopped.get(), until(&self.stopped), self.resumed.get(), until(&self.resumed)) {
            (None, ..) => Phase::Before,
            (_, Some(late), ..) if begun < late => Phase::Under,
            (_, _, None, _) => Phase::Later,
            (_, _, _, Some(used)) if begun < used => Phase::Resuming,
            _ => Phase::After,
        }
    }
}

/// A client that does one kind of work after the other; each request is timed.
async fn work(
    own: String,
    s3: S3,
    mut dice: Dice,
    pause: Arc<Pause>,
    answered: watch::Sender<usize>,
    stop: watch::Receiver<bool>,
) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut bodies = BTreeMap::new();
    for work in Work::ALL {
        let body = Body { id: dice.next(), len: work.len() };
        s3.put_settled(&format!("{own}/{work:?}"), body).await;
        bodies.insert(work, body);
    }
    for (number, work) in (0..).zip(Work::ALL.into_iter().cycle()) {
        if *stop.borrow() {
            break;
        }
        let (key, new) = (format!("{own}/{work:?}"), format!("{own}/new/{number}"));
        let (body, next) = (bodies[&work], Body { id: dice.next(), len: work.len() });
        if work == Work::Delete {
            s3.put_settled(&new, next).await;
        }
        let bucket = format!("{}-{number}", own.replace('/', "-"));
        if work == Work::DeleteBucket {
            let sdk = s3.sdk();
            outcome(sdk.create_bucket().bucket(&bucket).send().await).expect("three of four nodes take it");
            let put = sdk.put_object().bucket(&bucket).key("was").body(next.bytes().into()).send().await;
            outcome(put).expect("three of four nodes take it");
            let deleted = sdk.delete_object().bucket(&bucket).key("was").send().await;
            outcome(deleted).expect("three of four nodes take it");
        }
        let begun = Instant::now();
        let changed = match work {
            Work::PutInline | Work::PutPacked | Work::PutStripes => s3.put(&key, next).await.map(|()| true),
            Work::GetInline | Work::GetPacked | Work::GetStripes => {
                s3.get(&key).await.map(|read| assert_eq!(read, Some(body))).map(|()| false)
            }
            Work::Create => s3.put_if(&new, next, Condition::IfAbsent).await.map(|()| false),
            Work::Swap => s3.put_if(&key, next, Condition::IfMatch(body.etag())).await.map(|()| true),
            Work::List => s3.list(&key).await.map(|listed| assert_eq!(listed.len(), 1)).map(|()| false),
            Work::Delete => s3.delete(&new).await.map(|()| false),
            Work::DeleteBucket => {
                outcome(s3.sdk().delete_bucket().bucket(&bucket).send().await).map(|_done| false)
            }
        };
        let elapsed = begun.elapsed();
        if changed.unwrap_or_else(|failure| panic!("{work:?} after {elapsed:?}: {failure:?}")) {
            bodies.insert(work, next);
        }
        samples.push(Sample { work, phase: pause.phase_of(begun), elapsed });
        answered.send_modify(|count| *count += 1);
    }
    samples
}

/// How long one request took.
#[derive(Debug, Clone, Copy)]
struct Sample {
    work: Work,
    phase: Phase,
    elapsed: Duration,
}

/// The times of one kind of request in one phase, sorted.
struct Times(Vec<Duration>);

impl Times {
    fn of(samples: &[Sample], work: Work, phase: Phase) -> Self {
        let of = samples.iter().filter(|sample| (sample.work, sample.phase) == (work, phase));
        let mut times: Vec<Duration> = of.map(|sample| sample.elapsed).collect();
        times.sort_unstable();
        Self(times)
    }

    /// Zero where there was no request.
    fn at(&self, share: f64) -> Duration {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a place in a list"
        )]
        let place = (self.0.len().saturating_sub(1) as f64 * share) as usize;
        self.0.get(place).copied().unwrap_or_default()
    }
}

/// A load of all kinds of requests through the nodes that do not stop.
struct WorkLoad {
    pause: Arc<Pause>,
    stop: watch::Sender<bool>,
    answered: watch::Receiver<usize>,
    clients: JoinSet<Vec<Sample>>,
}

impl WorkLoad {
    fn start(clients: &[S3], dice: &mut Dice) -> Self {
        let (pause, stop) = (Arc::new(Pause::default()), watch::Sender::new(false));
        let (counter, answered) = watch::channel(0);
        let mut load = JoinSet::new();
        for (number, s3) in clients.iter().enumerate() {
            let (own, s3) = (format!("load/{number}"), s3.clone());
            let (pause, counter) = (Arc::clone(&pause), counter.clone());
            load.spawn(work(own, s3, dice.split(), pause, counter, stop.subscribe()));
        }
        Self { pause, stop, answered, clients: load }
    }

    /// Waits for this many answers more.
    async fn answers(&mut self, more: usize) {
        let wanted = *self.answered.borrow() + more;
        let reached = self.answered.wait_for(|count| *count >= wanted);
        bounded("the load", LATER, reached).await.expect("clients run");
    }

    async fn end(self) -> Vec<Sample> {
        self.stop.send_replace(true);
        self.clients.join_all().await.concat()
    }
}

/// The calls that a node has answered.
async fn calls_answered(node: &Node) -> [f64; 2] {
    let metrics = node.metrics().await;
    SERVICES.map(|service| {
        metrics.get(&format!("sherd_rpc_calls_total{{result=\"answered\",service=\"{service}\"}}"))
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_goes_on_while_a_node_stands_still_and_the_node_is_used_again() {
    let mut dice = Dice::of_this_run("stopped");
    let cluster = cluster_of(4).start().await;
    let clients = cluster.with_bucket().await;
    let mut load = WorkLoad::start(&clients[..3], &mut dice);
    let paused = cluster.node(3);
    load.answers(ANSWERS).await;
    paused.signal(Signal::STOP);
    load.pause.stopped.set(Instant::now()).expect("it stops once");
    load.answers(ANSWERS).await;
    paused.signal(Signal::CONT);
    load.pause.resumed.set(Instant::now()).expect("it goes on once");
    paused.until_ready().await;
    let before = calls_answered(paused).await;
    for (at, service) in SERVICES.into_iter().enumerate() {
        eventually(&format!("the node is used again for {service}"), LATER, async || {
            load.answers(1).await;
            let calls = calls_answered(paused).await[at] - before[at];
            if calls >= CALLS { Ok(()) } else { Err(format!("{calls} of {CALLS} calls")) }
        })
        .await;
    }
    report(&load.end().await);
    cluster.until_whole().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "judges times: for a machine that does nothing else"]
async fn a_stopped_node_costs_2_s_once() {
    let mut dice = Dice::of_this_run("stopped");
    let cluster = cluster_of(4).start().await;
    let clients = cluster.with_bucket().await;
    let load = WorkLoad::start(&clients[..3], &mut dice);
    let (paused, other) = (cluster.node(3), cluster.node(2));
    lasts(PHASE).await;
    paused.signal(Signal::STOP);
    load.pause.stopped.set(Instant::now()).expect("it stops once");
    lasts(SETTLED + PHASE).await;
    paused.signal(Signal::CONT);
    load.pause.resumed.set(Instant::now()).expect("it goes on once");
    lasts(SETTLED).await;
    let before = [calls_answered(paused).await, calls_answered(other).await];
    lasts(PHASE).await;
    let after = [calls_answered(paused).await, calls_answered(other).await];
    let samples = load.end().await;
    report(&samples);
    judge(&samples);
    // How many calls there are is up to the machine: the node that went on is compared with one that never
    // stopped.
    for (at, service) in SERVICES.into_iter().enumerate() {
        let [back, never_away] = [0, 1].map(|node| after[node][at] - before[node][at]);
        eprintln!("stopped: {back} calls of {service} reach the node that went on, {never_away} another one");
        assert!(back > 0.0 && back >= never_away / 4.0, "it is used again for {service}");
    }
    cluster.until_whole().await;
}

fn report(samples: &[Sample]) {
    eprintln!("stopped: requests and ms (median/p99/worst) in {:?}", Phase::ALL);
    for work in Work::ALL {
        let row = Phase::ALL.map(|phase| {
            let times = Times::of(samples, work, phase);
            let [median, most, worst] = [0.5, 0.99, 1.0].map(|share| times.at(share).as_millis());
            format!("{:4} {median:5}/{most:5}/{worst:5}", times.0.len())
        });
        eprintln!("stopped: {:12} {}", format!("{work:?}"), row.join(" | "));
    }
}

fn judge(samples: &[Sample]) {
    // One kind has few requests in a phase: what the machine costs is judged over all of them.
    let before = samples.iter().filter(|sample| sample.phase == Phase::Before);
    let slack = before.map(|sample| sample.elapsed).max().expect("there are requests before") + NOISE;
    for work in Work::ALL {
        let [before, under, later, ..] = Phase::ALL.map(|phase| Times::of(samples, work, phase));
        let view_cost = if work == Work::DeleteBucket { VIEW_COST } else { Duration::ZERO };
        let slack = slack + view_cost;
        assert!(under.at(1.0) <= COST + slack, "{work:?} under way: {:?}", under.at(1.0));
        assert!(later.at(1.0) <= LATER_COST + slack, "{work:?} later: {:?}", later.at(1.0));
        let (median, healthy) = (later.at(0.5), before.at(0.5));
        assert!(
            median <= healthy * 2 + LATER_COST + NOISE_MEDIAN + view_cost,
            "{work:?}: {median:?}, and {healthy:?} before"
        );
    }
}

/// A phase of the load: requests are timed meanwhile.
async fn lasts(phase: Duration) {
    let begun = Instant::now();
    let over = async || if begun.elapsed() >= phase { Ok(()) } else { Err("it is under way".to_owned()) };
    eventually("a phase", phase * 2, over).await;
}
