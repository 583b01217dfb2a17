//! Clients of all gateways, which know as much of what happens as clients do: some wait for an answer, some
//! leave.
//!
//! Keys come in generations of a few that all clients work on at one time; older ones are read and listed. So
//! the history of a key stays short enough to be judged, and what was written before each fault is looked at
//! after it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::harness::data::{Dice, Home};
use crate::harness::s3::{Failure, Outcome, S3};
use crate::harness::wait::{LATER, bounded, promised};
use crate::load::{Load, Step};

/// Clients.
const CLIENTS: usize = 10;
/// Between two requests of one client at least: the cluster shares two cores with what watches it.
const EVERY: Duration = Duration::from_millis(60);
/// Keys of a generation.
const KEYS: usize = 10;
/// How long a patient client waits on a quiet machine: longer than any answer takes.
const PATIENT: Duration = Duration::from_secs(28);
/// How long an impatient one waits.
const IMPATIENT: Duration = Duration::from_millis(1500);
/// One request in this number is of an impatient client.
const IMPATIENT_OF: usize = 10;

/// Whether requests are sent to a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// All clients are served.
    Serves,
    /// Some are, and get no answer as long as it stands still.
    StandsStill,
    /// None are.
    Gone,
}

#[derive(Debug, Clone)]
struct Gateway {
    s3: Option<S3>,
    standing: Standing,
    /// How often its standing changed.
    changes: u64,
}

/// Counts of the clients' requests.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) answered: AtomicUsize,
    pub(super) unavailable: AtomicUsize,
    pub(super) unknown: AtomicUsize,
    pub(super) left: AtomicUsize,
}

/// Shared by the clients and the code that disturbs them.
#[derive(Debug)]
pub(super) struct Crowd {
    pub(super) load: Arc<Load>,
    pub(super) counts: Counts,
    gateways: Mutex<Vec<Gateway>>,
    generation: AtomicUsize,
    /// Whether new requests wait.
    rests: AtomicBool,
    is_over: AtomicBool,
}

impl Crowd {
    /// No client runs yet, and no gateway is known.
    pub(super) fn new(gateways: usize) -> Arc<Self> {
        let gateway = Gateway { s3: None, standing: Standing::Gone, changes: 0 };
        Arc::new(Self {
            load: Load::new("chaos/"),
            counts: Counts::default(),
            gateways: Mutex::new(vec![gateway; gateways]),
            generation: AtomicUsize::new(0),
            rests: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        })
    }

    /// Starts all clients.
    pub(super) fn start(self: &Arc<Self>, dice: &mut Dice) -> JoinSet<()> {
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            clients.spawn(client(Arc::clone(self), dice.split()));
        }
        clients
    }

    /// Has the clients begin nothing new, or go on. A busy machine answers late, and what is late is reported
    /// and healed: under a load that it cannot carry a cluster is never healed for as long as that takes to
    /// show.
    pub(super) fn rest(&self, rests: bool) {
        self.rests.store(rests, Ordering::Relaxed);
    }

    /// Lets the clients end after the request that they are at.
    pub(super) async fn stop(&self, clients: JoinSet<()>) {
        self.is_over.store(true, Ordering::Relaxed);
        bounded("the clients", LATER, clients.join_all()).await;
    }

    /// A gateway listens there from now on.
    pub(super) fn know(&self, node: usize, s3: S3) {
        let mut gateways = self.gateways.lock().expect("no client panics here");
        let gateway = &mut gateways[node];
        (gateway.s3, gateway.standing, gateway.changes) = (Some(s3), Standing::Serves, gateway.changes + 1);
    }

    /// A gateway is treated otherwise from now on.
    pub(super) fn set(&self, node: usize, standing: Standing) {
        let mut gateways = self.gateways.lock().expect("no client panics here");
        let gateway = &mut gateways[node];
        (gateway.standing, gateway.changes) = (standing, gateway.changes + 1);
    }

    /// From now on clients work on other keys.
    pub(super) fn next_generation(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
    }

    /// All keys that any client worked on.
    pub(super) fn keys(&self) -> Vec<String> {
        (0..=self.generation.load(Ordering::Relaxed))
            .flat_map(|generation| self.keys_of(generation))
            .collect()
    }

    fn keys_of(&self, generation: usize) -> Vec<String> {
        (0..KEYS).map(|key| self.load.key(format_args!("{generation:04}/{key}"))).collect()
    }

    /// Any gateway that serves, now and then one that stands still.
    fn pick(&self, dice: &mut Dice) -> Option<(usize, u64, S3)> {
        let patience = dice.below(IMPATIENT_OF) == 0;
        let gateways = self.gateways.lock().expect("no client panics here");
        let takes = |gateway: &Gateway| match gateway.standing {
            Standing::Serves => true,
            Standing::StandsStill => patience,
            Standing::Gone => false,
        };
        let open: Vec<_> = gateways.iter().enumerate().filter(|(_, gateway)| takes(gateway)).collect();
        let (node, gateway) = *open.get(dice.below(open.len().max(1)))?;
        Some((node, gateway.changes, gateway.s3.clone()?))
    }

    /// Whether nothing was done to a gateway since.
    fn is_as_before(&self, node: usize, changes: u64) -> bool {
        let gateways = self.gateways.lock().expect("no client panics here");
        gateways[node].changes == changes && gateways[node].standing == Standing::Serves
    }

    async fn request(&self, s3: &S3, dice: &mut Dice) -> Outcome<()> {
        let newest = self.generation.load(Ordering::Relaxed);
        let is_old = dice.below(4) == 0;
        let generation = if is_old { dice.below(newest + 1) } else { newest };
        let keys = self.keys_of(generation);
        let key = &keys[dice.below(keys.len())];
        if dice.below(14) == 0 {
            let prefix = self.load.key(format_args!("{generation:04}/"));
            return self.load.list_below(s3, &prefix, &keys).await;
        }
        let steps = if is_old { looks() } else { steps() };
        let step = steps[dice.below(steps.len())];
        self.load.step(s3, dice, key, step).await
    }
}

async fn client(crowd: Arc<Crowd>, mut dice: Dice) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !crowd.is_over.load(Ordering::Relaxed) {
        ticks.tick().await;
        if crowd.rests.load(Ordering::Relaxed) {
            continue;
        }
        let Some((node, changes, s3)) = crowd.pick(&mut dice) else { continue };
        let is_patient = dice.below(IMPATIENT_OF) != 0;
        let patience = if is_patient { promised(PATIENT) } else { IMPATIENT };
        let count = match timeout(patience, Box::pin(crowd.request(&s3, &mut dice))).await {
            Ok(Ok(())) => &crowd.counts.answered,
            // A step of an upload that has no answer, or one of 5xx, counts as refused: it can show nothing.
            Ok(Err(
                Failure::Unavailable { status: 503 | 507, .. } | Failure::Refused { status: 0 | 500.., .. },
            )) => &crowd.counts.unavailable,
            Ok(Err(Failure::Unavailable { .. } | Failure::Lost(_))) => &crowd.counts.unknown,
            Ok(Err(refused @ Failure::Refused { .. })) => panic!("through node {node}: {refused:?}"),
            Err(_left) => {
                let hangs = is_patient && crowd.is_as_before(node, changes);
                assert!(!hangs, "no answer within {patience:?} through node {node}, which serves");
                &crowd.counts.left
            }
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

fn steps() -> Vec<Step> {
    let puts = [[Home::Inline; 4], [Home::Packed; 4]].concat();
    let puts: Vec<Step> = puts.into_iter().map(Step::Put).collect();
    let changes = [Step::Create, Step::Create, Step::Swap, Step::Swap, Step::Delete, Step::Delete];
    let large = [Step::Put(Home::File), Step::Upload];
    [&puts[..], &changes, &large, &[Step::Get; 8], &[Step::Head; 2]].concat()
}

fn looks() -> Vec<Step> {
    vec![Step::Get, Step::Get, Step::Get, Step::Head]
}
