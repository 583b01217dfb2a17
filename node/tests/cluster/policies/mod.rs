//! Sixteen clients with rights of their own ask through four nodes while one administrator changes the rules:
//! each answer is that of rules which were in force at a moment of its request (I-20, I-21).
//!
//! Users have policies of their own, a managed one, a group, or are named by the bucket's policy; one client
//! is root and one signs nothing. The administrator makes each change through the next node. As soon as it
//! returned, clients ask through all nodes for what the old rules answer in another way than the new ones.
//! `model` has the answer that rules give, `checker` the rules that may be in force, `clients` sends the
//! requests, and `admin` makes the changes.

mod admin;
mod checker;
mod clients;
mod model;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::JoinSet;

use crate::harness::cluster::cluster_of;
use crate::harness::data::Dice;
use crate::harness::wait::bounded;
use admin::Admin;
use checker::Recorder;
use clients::{Client, Clients};
use model::{Ask, CLIENTS, Rules};

const NODES: usize = 4;
/// Requests of each client, in the short story and in the long one.
const ASKS: usize = 40;
const ASKS_LONG: usize = 2_000;
/// How long the long story may take, against hanging.
const LONG: std::time::Duration = std::time::Duration::from_mins(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_answer_is_by_rules_in_force() {
    answers_are_by_rules_in_force(ASKS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes"]
async fn each_of_many_answers_is_by_rules_in_force() {
    answers_are_by_rules_in_force(ASKS_LONG).await;
}

async fn answers_are_by_rules_in_force(asks: usize) {
    let mut dice = Dice::of_this_run("policies");
    let cluster = cluster_of(NODES).with_iam().start().await;
    let roots = cluster.with_bucket().await;
    let mut admin = Admin::prepare(&cluster, roots).await;
    let clients = Arc::new(Clients::of(&cluster, admin.keys()));
    let (recorder, working) = (Arc::new(Recorder::default()), Arc::new(AtomicUsize::new(CLIENTS)));
    let mut running = JoinSet::new();
    for number in 0..CLIENTS {
        let (clients, recorder) = (Arc::clone(&clients), Arc::clone(&recorder));
        let (working, dice) = (Arc::clone(&working), dice.split());
        running.spawn(async move {
            ask_at_random(clients.client(number), dice, &recorder, asks).await;
            working.fetch_sub(1, Ordering::Relaxed);
        });
    }
    let mut changes = 0;
    while working.load(Ordering::Relaxed) > 0 {
        let (old, new) = admin.change(&mut dice, &recorder).await;
        ask_what_differs(&clients, &mut dice, &recorder, (&old, &new)).await;
        changes += 1;
    }
    bounded("the clients", LONG, running.join_all()).await;
    let tally = recorder.check(&Rules::first());
    eprintln!("policies: {changes} changes, {tally:?}, {} unavailable", clients.unavailable());
    assert!(tally.done > 0 && tally.refused > 0 && tally.telling > 0 && tally.under_change > 0, "{tally:?}");
    cluster.until_whole().await;
}

/// Sends requests of any kind, one after the other, through any node.
async fn ask_at_random(client: &Client, mut dice: Dice, recorder: &Recorder, asks: usize) {
    for _ in 0..asks {
        let (node, ask) = (dice.below(NODES), Ask::ALL[dice.below(Ask::ALL.len())]);
        client.ask(node, ask, recorder).await;
    }
}

/// Asks through every node at once, after a change returned, what is answered in another way since.
async fn ask_what_differs(
    clients: &Arc<Clients>,
    dice: &mut Dice,
    recorder: &Arc<Recorder>,
    (old, new): (&Rules, &Rules),
) {
    let differs = |(client, ask): &(usize, Ask)| old.answer(*client, *ask) != new.answer(*client, *ask);
    let all = (0..CLIENTS).flat_map(|client| Ask::ALL.map(|ask| (client, ask)));
    let telling: Vec<_> = all.filter(differs).collect();
    if telling.is_empty() {
        return;
    }
    let mut asking = JoinSet::new();
    for node in 0..NODES {
        let (client, ask) = telling[dice.below(telling.len())];
        let (clients, recorder) = (Arc::clone(clients), Arc::clone(recorder));
        asking.spawn(async move { clients.client(client).ask(node, ask, &recorder).await });
    }
    asking.join_all().await;
}
