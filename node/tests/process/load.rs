//! Clients that do what clients do, and record what they saw.
//!
//! Every write has a body of its own, so a read, a HEAD or a listing says which write it saw. What
//! was acknowledged, refused and left unknown goes into one [`Recorder`], which judges it all.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::harness::data::{Body, Dice, Home};
use crate::harness::s3::{Condition, Failure, Outcome, PART, S3, healthy};
use crate::harness::wait::{LATER, bounded};
use crate::history::{Found, Recorder, State};

/// Next request of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Put(Home),
    Upload,
    Delete,
    Get,
    Head,
    List,
    /// A PUT with `If-None-Match: *`.
    Create,
    /// A PUT with `If-Match` of what a HEAD has just shown.
    Swap,
}

/// Shared by the clients of one story.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) recorder: Recorder,
    /// Keys below this prefix are the load's, and listed by it.
    prefix: String,
    writes: Mutex<HashMap<String, u64>>,
    acknowledged: watch::Sender<usize>,
    stopped: watch::Sender<bool>,
}

/// Plan of a client.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The keys it works on.
    pub(crate) keys: Vec<String>,
    /// Requests of the client, each as often as it stands here.
    pub(crate) steps: Vec<Step>,
    pub(crate) expected: Expected,
}

/// How the requests of a plan may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// All are done: one that fails ends the test.
    Done,
    /// All are done, as [`healthy`] says.
    Settled,
    /// Answers of any kind; a request without one ends the client.
    Answered,
}

impl Load {
    /// Nothing was done yet.
    pub(crate) fn new(prefix: &str) -> Arc<Self> {
        Arc::new(Self {
            recorder: Recorder::default(),
            prefix: prefix.to_owned(),
            writes: Mutex::default(),
            acknowledged: watch::Sender::new(0),
            stopped: watch::Sender::new(false),
        })
    }

    /// A key of the load.
    pub(crate) fn key(&self, name: impl std::fmt::Display) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Starts clients, each with dice of its own, until they are stopped.
    pub(crate) fn start(
        self: &Arc<Self>,
        s3: &S3,
        dice: &mut Dice,
        count: usize,
        plan: &Plan,
    ) -> JoinSet<()> {
        self.stopped.send_replace(false);
        let mut clients = JoinSet::new();
        for _ in 0..count {
            clients.spawn(client(Arc::clone(self), s3.clone(), dice.split(), plan.clone()));
        }
        clients
    }

    /// Waits until `more` further requests were answered with success.
    pub(crate) async fn answers(&self, more: usize) {
        let mut acknowledged = self.acknowledged.subscribe();
        let wanted = *acknowledged.borrow_and_update() + more;
        let enough = acknowledged.wait_for(|count| *count >= wanted);
        bounded("the load", LATER, enough).await.expect("the load outlives its waiters");
    }

    /// Lets the clients end after the request that they are at.
    pub(crate) async fn stop(&self, clients: JoinSet<()>) {
        self.stopped.send_replace(true);
        bounded("the clients", LATER, clients.join_all()).await;
    }

    /// Does one thing and records what came of it.
    ///
    /// # Errors
    /// The [`Failure`] of the request, recorded too; never the one of a condition that did not hold.
    pub(crate) async fn step(&self, s3: &S3, dice: &mut Dice, key: &str, step: Step) -> Outcome<()> {
        let outcome = match step {
            Step::Put(home) => self.write(s3, key, dice.body(home)).await,
            Step::Create => {
                let body = dice.body(Home::Inline);
                self.put(s3, key, body, Condition::IfAbsent, Found::Is(None)).await
            }
            Step::Swap => self.swap(s3, dice, key).await,
            Step::Upload => self.upload(s3, dice, key).await,
            Step::Delete => {
                let pending = self.pending(key, Found::Anything, None);
                pending.ended(s3.delete(key).await)
            }
            Step::Get => self.get(s3, key).await.map(drop),
            Step::Head => self.head(s3, key).await.map(drop),
            Step::List => self.list(s3, key).await,
        };
        if outcome.is_ok() {
            self.acknowledged.send_modify(|count| *count += 1);
        }
        outcome
    }

    /// Does a step of healthy nodes, as [`healthy`] does what it is asked. A later try of a conditional write
    /// may find that an earlier one was done.
    pub(crate) async fn step_settled(&self, s3: &S3, dice: &mut Dice, key: &str, step: Step) {
        let tries = AtomicU32::new(0);
        let dice = tokio::sync::Mutex::new(dice);
        healthy(&format!("{step:?} {key}"), || async {
            let earlier = tries.fetch_add(1, Ordering::Relaxed);
            let mut dice = dice.lock().await;
            match self.step(s3, &mut dice, key, step).await {
                Err(Failure::Refused { status: 409 | 412, .. }) if earlier > 0 => Ok(()),
                ended => ended,
            }
        })
        .await;
    }

    /// Reads keys whole and records it; asks again where the node is not ready to answer.
    pub(crate) async fn read_all(&self, s3: &S3, keys: &[String]) {
        for key in keys {
            let sent = self.recorder.now();
            let found = s3.get_settled(key).await;
            self.saw("GET", key, sent, found.map(|body| body.id));
        }
    }

    /// Lists everything and records what it says of these keys.
    pub(crate) async fn list_all(&self, s3: &S3, keys: &[String]) {
        let sent = self.recorder.now();
        let found = s3.list_settled(&self.prefix).await;
        self.saw_list(sent, &found, keys);
    }

    /// Lists once what is below a prefix, and records what that says of these keys, which are all there are.
    ///
    /// # Errors
    /// The [`Failure`] of the listing.
    #[allow(dead_code, reason = "one of the binaries that share this lists prefixes of its own")]
    pub(crate) async fn list_below(&self, s3: &S3, prefix: &str, keys: &[String]) -> Outcome<()> {
        let sent = self.recorder.now();
        let found = s3.list(prefix).await?;
        self.saw_list(sent, &found, keys);
        Ok(())
    }

    fn saw_list(&self, sent: u64, found: &BTreeMap<String, String>, keys: &[String]) {
        let strange: Vec<_> = found.keys().filter(|key| !keys.contains(key)).collect();
        assert!(strange.is_empty(), "what is listed was not written: {strange:?}");
        for key in keys {
            self.saw("LIST", key, sent, found.get(key).map(|etag| self.id(etag)));
        }
    }

    fn saw(&self, name: &'static str, key: &str, sent: u64, state: State) {
        self.recorder.answered(name, key, sent, Found::Is(state), None);
    }

    fn id(&self, etag: &str) -> u64 {
        let writes = self.writes.lock().expect("no client panics while it looks");
        *writes.get(etag).unwrap_or_else(|| panic!("{etag} is the entity tag of no write"))
    }

    fn announce(&self, body: Body, etag: String) {
        self.writes.lock().expect("no client panics while it writes down").insert(etag, body.id);
    }

    /// Writes a body without a condition, and records the outcome.
    ///
    /// # Errors
    /// The [`Failure`] of the request, recorded too.
    pub(crate) async fn write(&self, s3: &S3, key: &str, body: Body) -> Outcome<()> {
        self.put(s3, key, body, Condition::Always, Found::Anything).await
    }

    async fn put(&self, s3: &S3, key: &str, body: Body, condition: Condition, found: Found) -> Outcome<()> {
        self.announce(body, body.etag());
        let pending = self.pending(key, found, Some(body.id));
        pending.ended(s3.put_if(key, body, condition).await)
    }

    async fn upload(&self, s3: &S3, dice: &mut Dice, key: &str) -> Outcome<()> {
        let extra = usize::try_from(dice.within(1..=1 << 18)).expect("a small number");
        let body = Body { id: dice.next(), len: PART + extra };
        self.announce(body, body.etag_in_parts(PART));
        let pending = self.pending(key, Found::Anything, Some(body.id));
        pending.ended(s3.upload(key, body).await)
    }

    /// Reads a key and records what it holds.
    ///
    /// # Errors
    /// The [`Failure`] of the request.
    pub(crate) async fn get(&self, s3: &S3, key: &str) -> Outcome<State> {
        let sent = self.recorder.now();
        let found = s3.get(key).await?.map(|body| body.id);
        self.saw("GET", key, sent, found);
        Ok(found)
    }

    async fn head(&self, s3: &S3, key: &str) -> Outcome<Option<String>> {
        let sent = self.recorder.now();
        let etag = s3.head(key).await?;
        self.saw("HEAD", key, sent, etag.as_ref().map(|etag| self.id(etag)));
        Ok(etag)
    }

    async fn list(&self, s3: &S3, key: &str) -> Outcome<()> {
        let sent = self.recorder.now();
        let found = s3.list(key).await?;
        self.saw("LIST", key, sent, found.get(key).map(|etag| self.id(etag)));
        Ok(())
    }

    async fn swap(&self, s3: &S3, dice: &mut Dice, key: &str) -> Outcome<()> {
        let Some(etag) = self.head(s3, key).await? else { return Ok(()) };
        let found = Found::Is(Some(self.id(&etag)));
        self.put(s3, key, dice.body(Home::Inline), Condition::IfMatch(etag), found).await
    }

    /// A change that is sent in this moment, and asks to find `found`.
    fn pending<'a>(&'a self, key: &'a str, found: Found, leaves: State) -> PendingWrite<'a> {
        let name = match (found, leaves) {
            (_, None) => "DELETE",
            (Found::Anything, Some(_)) => "PUT",
            (Found::Is(None), Some(_)) => "PUT if absent",
            (_, Some(_)) => "PUT if match",
        };
        let recorder = &self.recorder;
        PendingWrite { recorder, key, name, sent: recorder.now(), found, leaves, has_ended: false }
    }
}

/// A change whose client waits for the answer. Where the client leaves before, the outcome is unknown.
#[derive(Debug)]
struct PendingWrite<'a> {
    recorder: &'a Recorder,
    key: &'a str,
    name: &'static str,
    sent: u64,
    found: Found,
    leaves: State,
    has_ended: bool,
}

impl PendingWrite<'_> {
    /// Records what became of it.
    fn ended(mut self, outcome: Outcome<()>) -> Outcome<()> {
        self.has_ended = true;
        let &mut Self { recorder, key, name, sent, found, leaves, has_ended: _ } = &mut self;
        match &outcome {
            Ok(()) => recorder.answered(name, key, sent, found, Some(leaves)),
            Err(Failure::Refused { status: 412, .. }) => {
                let Found::Is(state) = found else { panic!("412 without a condition on {key}") };
                recorder.answered(name, key, sent, Found::IsNot(state), None);
                return Ok(());
            }
            Err(Failure::Refused { status: 404, code }) if code == "NoSuchKey" => {
                assert!(matches!(found, Found::Is(Some(_))), "404 without If-Match on {key}");
                recorder.answered(name, key, sent, Found::Is(None), None);
                return Ok(());
            }
            // 503 and 507 promise that nothing changed; 500 does not.
            Err(Failure::Refused { .. } | Failure::Unavailable { status: 503 | 507, .. }) => {}
            Err(Failure::Unavailable { .. } | Failure::Lost(_)) => {
                recorder.unknown(name, key, sent, found, leaves);
            }
        }
        outcome
    }
}

impl Drop for PendingWrite<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.recorder.unknown(self.name, self.key, self.sent, self.found, self.leaves);
        }
    }
}

async fn client(load: Arc<Load>, s3: S3, mut dice: Dice, plan: Plan) {
    while !*load.stopped.borrow() {
        let key = &plan.keys[dice.below(plan.keys.len())];
        let step = plan.steps[dice.below(plan.steps.len())];
        if plan.expected == Expected::Settled {
            load.step_settled(&s3, &mut dice, key, step).await;
            continue;
        }
        match load.step(&s3, &mut dice, key, step).await {
            Err(failure) if plan.expected == Expected::Done => panic!("{step:?} on {key} fails: {failure:?}"),
            Err(Failure::Refused { status: 0, .. } | Failure::Lost(_)) => return,
            Ok(()) | Err(Failure::Unavailable { .. }) => {}
            Err(refused @ Failure::Refused { .. }) => panic!("{step:?} on {key}: {refused:?}"),
        }
    }
}

#[test]
fn a_client_that_leaves_leaves_a_write_of_unknown_outcome() {
    let load = Load::new("left/");
    let key = load.key(1);
    drop(load.pending(&key, Found::Anything, Some(7)));
    load.saw("GET", &key, load.recorder.now(), Some(7));
    load.recorder.check();
    assert_eq!(load.recorder.len(), 2, "without the write, what was seen was not written");
}
