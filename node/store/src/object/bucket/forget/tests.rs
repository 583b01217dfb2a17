//! Views of buckets on several gateways to the same volumes, while one of them changes a bucket.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

use sherd_core::config::ConfigKind;
use sherd_core::config::cors::{Cors, CorsRule};
use sherd_core::iam::AccessKeyId;
use sherd_core::message;

use super::*;
use crate::cluster::asker::AskError;
use crate::object::bucket::Buckets;
use crate::object::error::{Error, UnavailableReason};
use crate::object::view::LookupError;
use crate::object::{NewBucket, Objects};
use crate::peer::scripted::{Fate, says};
use crate::register::RegisterTimeouts;
use crate::upkeep::tests::{DEADLINE, Directories, Node, key_of};
use crate::views::LookupUnderWay;
use crate::views::limits::{FORGET_MARGIN, FORGET_PAUSE, REFRESH_AFTER, VIEW_PERIOD};

/// The reaction of a node to the call.
#[derive(Debug, Clone)]
enum Reaction {
    Forgets(Objects),
    /// Forgets at the second try.
    Returns(Objects),
    /// Older build without such a call.
    Refuses,
    /// Gives no answer.
    Silent,
}

/// The other nodes.
#[derive(Debug, Default)]
struct Others {
    nodes: Mutex<BTreeMap<String, Reaction>>,
    told: AtomicUsize,
}

impl Others {
    fn of(reactions: impl IntoIterator<Item = Reaction>) -> Arc<Self> {
        let nodes = (2..).map(|n| format!("n{n}")).zip(reactions).collect();
        Arc::new(Self { nodes: Mutex::new(nodes), ..Self::default() })
    }
}

#[async_trait::async_trait]
impl Gateways for Others {
    fn names(&self) -> Vec<String> {
        self.nodes.lock().keys().cloned().collect()
    }

    async fn forget_bucket(&self, node: &str, bucket: &ObjectKey) -> Result<(), AskError> {
        let reaction = self.nodes.lock()[node].clone();
        match reaction {
            Reaction::Forgets(objects) => objects.forget_bucket(bucket),
            Reaction::Returns(objects) => {
                self.nodes.lock().insert(node.to_owned(), Reaction::Forgets(objects));
                return Err(AskError::Unreachable { reason: "connection lost".to_owned() });
            }
            Reaction::Refuses => return Err(AskError::Refused { reason: "unimplemented".to_owned() }),
            Reaction::Silent => std::future::pending().await,
        }
        self.told.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn revoke_key(&self, _: &str, _: AccessKeyId) -> Result<(), AskError> {
        unreachable!("no key is revoked here")
    }

    async fn forget_iam(&self, _: &str) -> Result<(), AskError> {
        unreachable!("buckets are changed here")
    }
}

fn forgetting(node: &Node, others: &Arc<Others>) -> ViewForgetting {
    ViewForgetting::new(node.objects().inner.under.clone(), Some(Arc::<Others>::clone(others)))
}

/// The verbs of a node that calls these others.
fn telling(node: &Node, others: &Arc<Others>) -> Buckets {
    let own = &node.objects().inner.buckets;
    Buckets::new(forgetting(node, others), Arc::clone(&own.clock), Arc::clone(&own.rng), own.patience)
}

fn cors(origin: &str) -> Cors {
    let allowed_origins = vec![origin.to_owned()];
    Cors { rules: vec![CorsRule { allowed_origins, ..CorsRule::default() }] }
}

/// The first origin that a request sees.
async fn origin(objects: &Objects) -> Option<String> {
    let config = objects.bucket(&key_of("bucket")).await.expect("there").config;
    config.cors().expect("decodes").map(|cors| cors.rules[0].allowed_origins[0].clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_is_seen_by_the_next_request_through_each_node() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let gateways = [node.another_gateway(0), node.another_gateway(0), node.another_gateway(0)];
    let others = Others::of(gateways.iter().map(|gateway| Reaction::Forgets(gateway.objects().clone())));
    let buckets = telling(&node, &others);
    for round in 0..50 {
        let wanted = (round % 5 != 4).then(|| format!("https://{round}.example"));
        match &wanted {
            Some(origin) => buckets.set_config(key_of("bucket"), &cors(origin).into()).await,
            None => buckets.remove_config(key_of("bucket"), ConfigKind::Cors).await,
        }
        .expect("changed");
        for gateway in &gateways {
            assert_eq!(origin(gateway.objects()).await, wanted, "round {round}");
        }
    }
    let id = |gateway: &Node| gateway.objects().remembered_bucket(&key_of("bucket")).map(|view| view.id);
    let before = id(&gateways[0]).expect("just read");
    buckets.delete(key_of("bucket"), true).await.expect("it is empty");
    assert!(gateways.iter().all(|gateway| id(gateway).is_none()));
    buckets.create(key_of("bucket"), NewBucket::default()).await.expect("created");
    for gateway in &gateways {
        assert_eq!(origin(gateway.objects()).await, None);
        assert_ne!(id(gateway), Some(before));
    }
    for gateway in gateways {
        gateway.close().await;
    }
    node.close().await;
}

#[tokio::test]
async fn who_does_not_say_that_it_forgot_is_waited_for_until_its_view_is_too_old() {
    let directories = Directories::new(1);
    let node = directories.start().await;
    let objects = || node.objects().clone();
    tokio::time::pause();
    for (reactions, wanted) in [
        (vec![], Duration::ZERO),
        (vec![Reaction::Forgets(objects()), Reaction::Forgets(objects())], Duration::ZERO),
        (vec![Reaction::Forgets(objects()), Reaction::Returns(objects())], FORGET_PAUSE),
        (vec![Reaction::Refuses, Reaction::Forgets(objects())], VIEW_PERIOD + FORGET_MARGIN),
        (vec![Reaction::Forgets(objects()), Reaction::Silent], VIEW_PERIOD + FORGET_MARGIN),
    ] {
        let (others, begun) = (Others::of(reactions.clone()), Instant::now());
        forgetting(&node, &others).everywhere(&key_of("bucket")).await;
        let waited = begun.elapsed();
        // Timers end at the millisecond that is full next.
        let is_so = waited >= wanted && waited < wanted + Duration::from_millis(2);
        assert!(is_so, "{waited:?} for {wanted:?} of {reactions:?}");
        let told = reactions
            .iter()
            .filter(|reaction| matches!(reaction, Reaction::Forgets(_) | Reaction::Returns(_)));
        assert_eq!(others.told.load(Ordering::Relaxed), told.count(), "the others are told at once");
    }
    tokio::time::resume();
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_whose_request_is_dropped_is_told_to_all() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let gateway = node.another_gateway(0);
    assert_eq!(origin(gateway.objects()).await, None);
    let others = Others::of([Reaction::Forgets(gateway.objects().clone())]);
    let buckets = telling(&node, &others);
    let (name, value) = (key_of("bucket"), cors("https://a.example").into());
    let mut change = Box::pin(buckets.set_config(name, &value));
    // Begun, and on a fast machine even done.
    let _ = futures::poll!(&mut change);
    drop(change);
    let told = async {
        while others.told.load(Ordering::Relaxed) == 0 {
            crate::upkeep::tests::between_looks().await;
        }
    };
    tokio::time::timeout(DEADLINE, told).await.expect("told though its caller left");
    assert_eq!(origin(gateway.objects()).await.as_deref(), Some("https://a.example"));
    gateway.close().await;
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_miss_a_view_share_one_read() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let under = &node.objects().inner.under;
    let (name, reads) = (key_of("bucket"), Arc::new(AtomicUsize::new(0)));
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let counted = Arc::clone(&reads);
    says(&script.reads, move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        Fate::Through
    });
    gateway.objects().bucket(&name).await.expect("there");
    let of_one = reads.swap(0, Ordering::Relaxed);
    gateway.objects().forget_bucket(&name);
    let found = join_all((0..32).map(|_| gateway.objects().bucket(&name))).await;
    assert!(found.into_iter().all(|found| found.is_ok()));
    assert!(reads.load(Ordering::Relaxed) <= of_one + 1, "one read of the register, and a hedge");
    // A read that began before the bucket was there says nothing to a request that came later.
    let (done, outcome) = oneshot::channel::<Result<_, LookupError>>();
    let outcome = outcome.map(|read| read.expect("sent")).boxed().shared();
    under.forget(&name);
    let waited_for = outcome.downgrade().expect("not polled");
    let earlier = LookupUnderWay { start: under.views.start(&name), outcome: waited_for };
    under.views.lookups.lock().insert(name.clone(), earlier);
    let mut later = Box::pin(node.objects().bucket(&name));
    assert!(futures::poll!(&mut later).is_pending(), "it waits for the other one");
    done.send(Err(LookupError::Missing)).expect("waited for");
    assert!(later.await.is_ok());
    gateway.close().await;
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_for_which_no_request_waits_any_more_ends() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let hour = Duration::from_hours(1);
    let patient = RegisterTimeouts { round: hour, operation: hour, ..RegisterTimeouts::default() };
    let (gateway, script) = node.scripted_gateway(patient);
    let (name, views) = (key_of("bucket"), &gateway.objects().inner.under.views);
    says(&script.reads, |_, _| Fate::Silence);
    {
        let mut second = Box::pin(gateway.objects().bucket(&name));
        let mut first = Box::pin(gateway.objects().bucket(&name));
        assert!(futures::poll!(&mut first).is_pending() && futures::poll!(&mut second).is_pending());
        drop(first);
        assert!(views.lookups.lock()[&name].outcome.upgrade().is_some(), "the second one waits for it");
    }
    let ended = async {
        while !views.lookups.lock().is_empty() {
            crate::upkeep::tests::between_looks().await;
        }
    };
    tokio::time::timeout(DEADLINE, ended).await.expect("the read was given up");
    // The next request has a read of its own.
    says(&script.reads, |_, _| Fate::Through);
    assert!(gateway.objects().bucket(&name).await.is_ok());
    gateway.close().await;
    node.close().await;
}

#[tokio::test]
async fn a_view_is_refreshed_behind_a_request_that_finds_it_a_second_old() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let gateway = node.another_gateway(0);
    assert_eq!(origin(gateway.objects()).await, None);
    // The gateway gets no call for this.
    let changed = node.objects().set_config(key_of("bucket"), cors("https://a.example")).await;
    changed.expect("changed");
    tokio::time::pause();
    tokio::time::advance(REFRESH_AFTER).await;
    let first = gateway.objects().remembered_bucket(&key_of("bucket")).expect("young enough");
    assert_eq!(first.config.cors(), Ok(None), "the request does not wait");
    tokio::time::resume();
    let refreshed = async {
        while gateway.objects().remembered_bucket(&key_of("bucket")).as_ref() == Some(&first) {
            crate::upkeep::tests::between_looks().await;
        }
    };
    tokio::time::timeout(DEADLINE, refreshed).await.expect("refreshed, or too old");
    assert_eq!(origin(gateway.objects()).await.as_deref(), Some("https://a.example"));
    gateway.close().await;
    node.close().await;
}

#[tokio::test]
async fn a_node_that_cannot_read_the_register_answers_no_request_by_an_old_view() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let short = RegisterTimeouts { operation: Duration::from_millis(10), ..RegisterTimeouts::default() };
    let (gateway, script) = node.scripted_gateway(short);
    assert_eq!(origin(gateway.objects()).await, None);
    let lost = || Fate::Instead(Err(message::Error::Unreachable { reason: "cut off".to_owned() }));
    says(&script.reads, move |_, _| lost());
    tokio::time::pause();
    tokio::time::advance(Duration::from_millis(1_500)).await;
    assert!(gateway.objects().bucket(&key_of("bucket")).await.is_ok(), "its view is young enough");
    tokio::time::advance(Duration::from_millis(500)).await;
    tokio::time::resume();
    let refused = gateway.objects().bucket(&key_of("bucket")).await;
    assert!(matches!(refused, Err(Error::Unavailable(UnavailableReason::Quorum))), "{refused:?}");
    assert_eq!(gateway.objects().remembered_bucket(&key_of("bucket")), None);
    says(&script.reads, |_, _| Fate::Through);
    assert_eq!(origin(gateway.objects()).await, None);
    gateway.close().await;
    node.close().await;
}
