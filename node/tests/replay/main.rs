//! Sends what tests were recorded to ask to two builds of the node, and compares what both answer.
//!
//! `docs/testing.md` has the commands. Each recording gets two fresh nodes, one of each build, with the key
//! pair and the configuration of the recorded one. Its requests go to both one after the other in the order
//! in which they began, over connections as they were, signed again for now and with the ids that each node
//! made. Where a recorded node was stopped or killed and started again, so are these two.

#[path = "../harness/mod.rs"]
mod harness;

mod compare;
mod exchange;
mod generated;
mod message;
mod moment;
mod operation;
mod recording;
mod sign;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use compare::{Learned, Outcome, differences};
use exchange::{Connection, Sending};
use harness::{Node, empty};
use message::Request;
use recording::{Start, Step};
use sign::{Plain, Signed};

/// Recordings under way at one time, unless `SHERD_REPLAY_JOBS` says another number.
const JOBS: usize = 4;

/// The result of one replay.
#[derive(Debug, Default)]
struct Report {
    name: String,
    /// Requests by operation.
    requests: BTreeMap<String, usize>,
    /// Requests that were answered with the status that was recorded.
    as_recorded: usize,
    /// Requests without an answer from either build.
    unanswered: usize,
    differences: Vec<String>,
}

fn setting(name: &str) -> PathBuf {
    std::env::var_os(name)
        .map_or_else(|| panic!("{name} is not set; docs/testing.md has the commands"), PathBuf::from)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs recordings and two binaries, named by the environment"]
async fn two_builds_answer_recorded_requests_alike() {
    let builds = Arc::new([setting("SHERD_REPLAY_BEFORE"), setting("SHERD_REPLAY_AFTER")]);
    let only = std::env::var("SHERD_REPLAY_ONLY").unwrap_or_default();
    let files = fs::read_dir(setting("SHERD_REPLAY")).expect("SHERD_REPLAY is a folder of recordings");
    let mut files: Vec<PathBuf> = files.map(|entry| entry.expect("it is listed").path()).collect();
    files.retain(|path| {
        path.to_string_lossy().contains(&only) && path.extension().is_some_and(|it| it == "rec")
    });
    files.sort();
    assert!(!files.is_empty(), "SHERD_REPLAY has recordings");
    let recordings = files.into_iter().map(|path| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        (name, Steps::Recorded(path))
    });
    let all_alike = compare_all(recordings.collect(), &builds).await;
    assert!(all_alike, "the builds answer differently");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs two binaries, named by the environment"]
async fn two_builds_answer_generated_requests_alike() {
    let builds = Arc::new([setting("SHERD_REPLAY_BEFORE"), setting("SHERD_REPLAY_AFTER")]);
    let only = std::env::var("SHERD_REPLAY_ONLY").unwrap_or_default();
    let sections = generated::sections().into_iter().filter(|(name, _)| name.contains(&only));
    let sections = sections.map(|(name, steps)| (name, Steps::Made(steps)));
    let all_alike = compare_all(sections.collect(), &builds).await;
    assert!(all_alike, "the builds answer differently");
}

/// The steps of a replay, or where they are read from once it is due.
enum Steps {
    Recorded(PathBuf),
    Made(Vec<Step>),
}

/// Replays them all, some at one time, and prints what came of it; says whether the builds answered alike.
async fn compare_all(all: Vec<(String, Steps)>, builds: &Arc<[PathBuf; 2]>) -> bool {
    let jobs = std::env::var("SHERD_REPLAY_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(JOBS);
    let (places, mut tasks) = (Arc::new(Semaphore::new(jobs)), JoinSet::new());
    for (name, steps) in all {
        let (builds, places) = (Arc::clone(builds), Arc::clone(&places));
        tasks.spawn(async move {
            let _place = places.acquire().await.expect("it is not closed");
            let steps = match steps {
                Steps::Recorded(path) => recording::read(&path),
                Steps::Made(steps) => steps,
            };
            replay(name, steps, &builds).await
        });
    }
    let mut reports = Vec::new();
    while let Some(report) = tasks.join_next().await {
        let report = report.expect("a replay ends");
        for difference in &report.differences {
            println!("{}, {difference}", report.name);
        }
        reports.push(report);
    }
    summarise(&reports);
    reports.iter().all(|report| report.differences.is_empty())
}

fn summarise(reports: &[Report]) {
    let mut operations: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, count) in reports.iter().flat_map(|report| &report.requests) {
        *operations.entry(name).or_default() += count;
    }
    for (name, count) in &operations {
        println!("{count:6} {name}");
    }
    let sum = |of: fn(&Report) -> usize| reports.iter().map(of).sum::<usize>();
    let with_requests = reports.iter().filter(|report| !report.requests.is_empty()).count();
    println!(
        "{} requests of {with_requests} recordings; {} have the recorded status, {} no answer from either build; \
         {} differ, in {} recordings",
        operations.values().sum::<usize>(),
        sum(|report| report.as_recorded),
        sum(|report| report.unanswered),
        sum(|report| report.differences.len()),
        reports.iter().filter(|report| !report.differences.is_empty()).count()
    );
}

/// One build under replay.
struct Subject {
    node: Option<Node>,
    stopped: harness::Stopped,
    connections: HashMap<u64, Connection>,
    learned: Learned,
}

impl Subject {
    fn new(binary: &Path, start: &Start) -> Self {
        let stopped = empty().of_binary(binary).of_volumes(start.volume_count);
        let stopped = stopped.with_key_pair(&start.access_key, &start.secret_key);
        let stopped = if start.how == "dev" { stopped } else { stopped.serve(&start.lines) };
        let has_own_etags = start.lines.contains("etag");
        Self { node: None, stopped, connections: HashMap::new(), learned: Learned::new(has_own_etags) }
    }

    async fn start(&mut self) {
        self.connections.clear();
        self.node = Some(self.stopped.clone().start().await);
    }

    async fn stop(&mut self, is_kill: bool) {
        self.connections.clear();
        match self.node.take() {
            Some(node) if is_kill => drop(node.kill().await),
            Some(node) => drop(node.stop().await),
            None => {}
        }
    }

    fn connection(&mut self, number: u64) -> &mut Connection {
        let endpoint = &self.node.as_ref().expect("a recording starts its node").endpoint;
        let address: SocketAddr = endpoint["http://".len()..].parse().expect("a node says its address");
        self.connections.entry(number).or_insert_with(|| Connection::new(address))
    }

    /// Sends a recorded request.
    async fn send(&mut self, request: &Request, start: &Start, shift_s: i64) -> Outcome {
        let signed = request.head.as_ref().map(|head| {
            sign::again(head, &request.body, &start.secret_key, shift_s, |text| self.learned.own(text))
        });
        let head = signed.as_ref().map(|signed| signed.head.bytes()).unwrap_or_default();
        let sending = Sending {
            head: &head,
            body: signed.as_ref().map_or(&request.body, |signed| &signed.body),
            expects: request.head.as_ref().is_some_and(message::Head::expects)
                && (request.is_whole || !request.body.is_empty()),
            // A node may take a half-closed client for gone, so whole requests are sent without it.
            is_last: !request.is_whole && (request.is_half_closed || request.recorded.is_none()),
            is_head: request.head.as_ref().is_some_and(|head| head.method() == "HEAD"),
        };
        self.connection(request.connection).exchange(&sending).await
    }

    /// Sends a request of our own and ignores its answer.
    async fn send_own(&mut self, signed: &Signed) {
        let head = signed.head.bytes();
        let sending =
            Sending { head: &head, body: &signed.body, expects: false, is_last: false, is_head: false };
        drop(self.connection(0).exchange(&sending).await);
    }
}

/// Replays one recording.
async fn replay(name: String, steps: Vec<Step>, builds: &[PathBuf; 2]) -> Report {
    let mut report = Report { name, ..Report::default() };
    let mut state: Option<(Start, [Subject; 2])> = None;
    let mut number = 0;
    for step in steps {
        match step {
            Step::Start(start) => {
                let mut subjects = match state.take() {
                    Some((_, subjects)) => subjects,
                    None => [Subject::new(&builds[0], &start), Subject::new(&builds[1], &start)],
                };
                for subject in &mut subjects {
                    subject.start().await;
                }
                state = Some((start, subjects));
            }
            Step::Stop { is_kill } => {
                for subject in state.iter_mut().flat_map(|(_, subjects)| subjects) {
                    subject.stop(is_kill).await;
                }
            }
            Step::Object { bucket, key, body } => {
                let (start, subjects) = state.as_mut().expect("a recording begins with a start");
                let key = percent_encoding::utf8_percent_encode(&key, percent_encoding::NON_ALPHANUMERIC);
                for subject in subjects {
                    put(subject, start, &format!("/{bucket}"), b"").await;
                    put(subject, start, &format!("/{bucket}/{key}"), &body).await;
                }
            }
            Step::Request(request) => {
                number += 1;
                let (start, subjects) = state.as_mut().expect("a recording begins with a start");
                if start.how == "protocol" {
                    make_buckets(subjects, start, &request).await;
                }
                let is_done = compare(&request, number, start, subjects, &mut report).await;
                if is_done && start.how == "generated" {
                    restore(subjects, start, &request).await;
                }
            }
        }
    }
    report
}

async fn put(subject: &mut Subject, start: &Start, target: &str, body: &[u8]) {
    let keys = (start.access_key.as_str(), start.secret_key.as_str());
    let region = if start.how == "protocol" { "eu-west-1" } else { "us-east-1" };
    subject
        .send_own(&sign::new(&Plain::new("PUT", target).with_body(body), keys, region, moment::now_s()))
        .await;
}

/// Makes the buckets that the layer's tests take for granted, unless the request is about to.
async fn make_buckets(subjects: &mut [Subject; 2], start: &Start, request: &Request) {
    let makes = request.head.as_ref().is_some_and(|head| operation::name(head) == "CreateBucket");
    for subject in subjects {
        for bucket in ["/bucket", "/my.bucket"].into_iter().filter(|_| !makes) {
            put(subject, start, bucket, b"").await;
        }
    }
}

/// Puts back what a generated request may have changed.
async fn restore(subjects: &mut [Subject; 2], start: &Start, request: &Request) {
    if request.head.as_ref().is_some_and(|head| !matches!(head.method(), "GET" | "HEAD")) {
        for subject in subjects {
            put(subject, start, "/bucket", b"").await;
            put(subject, start, "/bucket/k", b"0123456789").await;
        }
    }
}

/// Sends a request to both builds and notes what differs; says whether the build before did what was asked.
async fn compare(
    request: &Request,
    number: usize,
    start: &Start,
    subjects: &mut [Subject; 2],
    report: &mut Report,
) -> bool {
    let shift_s = moment::now_s() - start.clock_s;
    let [before, after] = subjects;
    let (of_before, of_after) =
        tokio::join!(before.send(request, start, shift_s), after.send(request, start, shift_s));
    let operation = request.head.as_ref().map_or_else(|| "no head".to_owned(), operation::name);
    *report.requests.entry(operation).or_default() += 1;
    let comparable = |subject: &mut Subject, outcome: &Outcome| match (outcome, &request.recorded) {
        (Outcome::Answer(answer), Some(recorded)) => {
            subject.learned.learn(recorded, answer);
            Outcome::Answer(Box::new(subject.learned.comparable(answer)))
        }
        (Outcome::Answer(answer), None) => Outcome::Answer(Box::new(subject.learned.comparable(answer))),
        (other, _) => other.clone(),
    };
    let (of_before, of_after) = (comparable(before, &of_before), comparable(after, &of_after));
    match (&of_before, &request.recorded) {
        (Outcome::Answer(answer), Some(recorded)) if answer.head.status() == recorded.head.status() => {
            report.as_recorded += 1;
        }
        (Outcome::Silent, _) => report.unanswered += 1,
        _ => {}
    }
    if std::env::var_os("SHERD_REPLAY_VERBOSE").is_some() {
        let status = |outcome: &Outcome| match outcome {
            Outcome::Answer(answer) => answer.head.status().to_string(),
            other => format!("{other:?}"),
        };
        let recorded = request.recorded.as_ref().map(|recorded| recorded.head.status());
        let first = request.head.as_ref().map(|head| head.first.as_str()).unwrap_or_default();
        println!("{} {number}: {first}: recorded {recorded:?}, {}", report.name, status(&of_before));
    }
    let found = differences(&of_before, &of_after);
    if !found.is_empty() {
        let first = request.head.as_ref().map_or("a request without a head", |head| &head.first);
        report.differences.push(format!("request {number}: {first}\n    {}", found.join("\n    ")));
    }
    matches!(&of_before, Outcome::Answer(answer) if (200..300).contains(&answer.head.status()))
}
