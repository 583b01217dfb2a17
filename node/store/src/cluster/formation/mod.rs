//! How this node gets the cluster's topology: from its own volumes, from a peer that holds one, or, on the
//! first configured node, by making it of the ids of all.
//!
//! ```text
//! finds itself at its address? -> a peer's ping shows a topology: asks for it
//!                              -> first node, all up and alike: an attempt
//!                              -> holds one, and fewer peers hold another: serves
//! ```
//! [`run`] goes round until the node's volumes hold the topology; nothing serves a shard or a register
//! before. [`FormationAnswers`] answers the other nodes meanwhile and afterwards. A node whose volumes are
//! all empty while a peer holds a topology takes that one, so its volumes are lost ones; it never forms a
//! second cluster. Where the configuration says that the cluster was formed before, no node forms one: all
//! volumes are lost, which is not to look like a new cluster.

mod answers;

#[cfg(test)]
mod tests;

pub use answers::{FormationAnswers, StepError};

use std::sync::Arc;

use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use sherd_core::checksum::Digest;
use sherd_core::env::Clock;
use sherd_core::topology::Topology;
use sherd_core::topology::formation::{AttemptOutcome, FormAttempt, may_serve, next_attempt};

use super::asker::{AskError, Asker, NodeFormAnswer};
use super::limits::{FORM_ANSWER_MAX, FORM_EVERY};
use super::membership::{Membership, NodeView, PeerProblem};
use crate::volumes::directories::Formation;

/// How far the formation is, for health and status.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FormationStatus {
    /// Whether this node's volumes hold the topology.
    pub formed: bool,
    /// Names of the nodes that it waits for.
    pub waiting_for: Vec<String>,
    /// Why it is not formed.
    pub reason: String,
    /// Whether the cluster was formed before, and this node's volumes hold no topology.
    pub formed_before: bool,
}

impl FormationStatus {
    fn waits(waiting_for: Vec<String>, reason: String) -> Self {
        Self { formed: false, waiting_for, reason, formed_before: false }
    }
}

/// The inputs of a formation.
#[derive(Debug)]
pub struct FormationRun {
    /// The ids or the topology of this node.
    pub answers: FormationAnswers,
    /// Whom it sees.
    pub membership: Arc<Membership>,
    /// How it asks them.
    pub asker: Arc<dyn Asker>,
    /// For the numbers of attempts.
    pub clock: Arc<dyn Clock>,
    /// Where it says how far it is.
    pub status: watch::Sender<FormationStatus>,
}

/// Hashes a topology for pings: equal on nodes that hold the same one.
///
/// # Panics
/// Never: a topology is JSON.
pub fn topology_digest(topology: &Topology) -> Digest {
    *blake3::hash(&serde_json::to_vec(topology).expect("a topology is JSON")).as_bytes()
}

/// Goes on until this node's volumes hold the topology, and returns its place in the cluster. Cancel-safe: a
/// step that was begun comes to its end, and the next run finds it.
pub async fn run(run: FormationRun) -> Formation {
    let mut changes = run.membership.changes();
    let mut highest_attempt = None;
    loop {
        // A copy of this node elsewhere holds the topology, too: the one that does not meet itself stays out.
        let own_address = run.membership.own_address();
        let status = match (own_address, run.answers.formation()) {
            (Err(reason), _) => FormationStatus::waits(Vec::new(), reason),
            (Ok(()), Some(formation)) => match run.why_not_served(&formation.topology) {
                None => {
                    run.say(FormationStatus { formed: true, ..FormationStatus::default() });
                    return formation;
                }
                Some(status) => status,
            },
            (Ok(()), None) => {
                let status = run.turn(&mut highest_attempt).await;
                if run.answers.formation().is_some() {
                    continue;
                }
                FormationStatus { formed_before: run.answers.refusal().is_some(), ..status }
            }
        };
        run.say(status);
        // Cancel-safe: both only wait. A change is worth a turn at once.
        tokio::select! {
            biased;
            Ok(()) = changes.changed() => {}
            () = sleep(FORM_EVERY) => {}
        }
    }
}

impl FormationRun {
    fn say(&self, status: FormationStatus) {
        self.status.send_if_modified(|last| {
            let is_changed = *last != status;
            if is_changed {
                let FormationStatus { formed, waiting_for, reason, formed_before: _ } = &status;
                tracing::info!(formed, waiting_for = waiting_for.join(", "), reason, "formation");
                *last = status;
            }
            is_changed
        });
    }

    /// The reason why this node may not serve the topology that it holds yet: nodes that were not asked yet
    /// what they hold, or as many of them that hold another one.
    fn why_not_served(&self, topology: &Topology) -> Option<FormationStatus> {
        let unmet = self.membership.unmet();
        if !unmet.is_empty() {
            return Some(FormationStatus::waits(
                unmet,
                "not known yet whether they hold a topology".to_owned(),
            ));
        }
        let own = topology_digest(topology);
        let others = self.held_by_others();
        let held: Vec<Digest> = others.iter().map(|(_, digest)| *digest).collect();
        if may_serve(&own, &held) {
            return None;
        }
        let differing = others.into_iter().filter(|(_, digest)| *digest != own);
        let names: Vec<String> = differing.map(|(name, _)| name).collect();
        let reason = format!(
            "this node holds another topology than {}: of one configuration two clusters were formed. It serves nothing. \
             Where its volumes hold no data that is missed, stop it, empty them, and start it again: it takes the topology \
             of the others",
            names.join(", ")
        );
        Some(FormationStatus::waits(names, reason))
    }

    /// The topologies that other nodes hold which answer: name and digest.
    fn held_by_others(&self) -> Vec<(String, Digest)> {
        let own = self.membership.own();
        let others = self.membership.nodes().into_iter().enumerate().filter(|(place, _)| *place != own);
        let held = others.filter(|(_, node)| node.is_up).filter_map(|(_, node)| {
            node.state.and_then(|state| state.topology_digest).map(|digest| (node.name, digest))
        });
        held.collect()
    }

    /// Pulls, or attempts; what it waits for.
    async fn turn(&self, highest_attempt: &mut Option<u64>) -> FormationStatus {
        let nodes = self.membership.nodes();
        let own = self.membership.own();
        let peers = || nodes.iter().enumerate().filter(|(place, _)| *place != own).map(|(_, node)| node);
        let mut reason = None;
        let holders = self.held_by_others();
        let held: Vec<Digest> = holders.iter().map(|(_, digest)| *digest).collect();
        for (name, digest) in holders {
            let mut others = held.clone();
            others.remove(others.iter().position(|other| *other == digest).expect("it is among them"));
            if !may_serve(&digest, &others) {
                reason = Some(format!("{name} holds another topology than as many other nodes"));
                continue;
            }
            match self.pull(&name).await {
                Ok(()) if self.answers.formation().is_some() => return FormationStatus::default(),
                Ok(()) => {}
                Err(error) => reason = Some(format!("the topology of {name}: {error}")),
            }
        }
        if let Some(reason) = reason {
            return FormationStatus::waits(Vec::new(), reason);
        }
        let refusal = self.answers.refusal().map(|error| error.to_string());
        let down: Vec<&NodeView> = peers().filter(|node| !node.is_up).collect();
        if !down.is_empty() {
            let reasons = down.iter().take(8).map(|node| format!("{}: {}", node.name, node.reason));
            let reasons: Vec<String> = refusal.into_iter().chain(reasons).collect();
            let names = down.iter().map(|node| node.name.clone()).collect();
            return FormationStatus::waits(names, reasons.join("; "));
        }
        if let Some(refusal) = refusal {
            return FormationStatus::waits(Vec::new(), refusal);
        }
        if own != 0 {
            let maker = nodes[0].name.clone();
            return FormationStatus::waits(
                vec![maker],
                "the first node has not formed the cluster yet".to_owned(),
            );
        }
        let is_other = |problem: &&PeerProblem| matches!(problem, PeerProblem::Configuration { .. });
        let differs = |node: &NodeView| {
            node.problems.iter().find(is_other).map(|problem| (node.name.clone(), problem.to_string()))
        };
        if let Some((name, problem)) = peers().find_map(differs) {
            let reason = format!("{name} has {problem}");
            return FormationStatus::waits(vec![name], reason);
        }
        self.attempt(&nodes, highest_attempt).await
    }

    async fn pull(&self, holder: &str) -> Result<(), String> {
        let ticket = self.answers.ticket().await.map_err(|error| error.to_string())?;
        let asked = timeout(FORM_ANSWER_MAX, self.asker.topology(holder)).await;
        let topology =
            asked.map_err(|_| "no answer in time".to_owned())?.map_err(|error| error.to_string())?;
        let Some(topology) = topology else { return Ok(()) };
        match self.answers.take(ticket, topology).await {
            Ok(true) => tracing::info!(holder, "took the cluster's topology"),
            // An attempt was answered since: the next turn asks again.
            Ok(false) => {}
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }

    async fn attempt(&self, nodes: &[NodeView], highest: &mut Option<u64>) -> FormationStatus {
        let number = next_attempt(self.clock.wall_ms(), *highest);
        *highest = Some(number);
        let mut attempt = FormAttempt::new(number, nodes.len());
        let mut reasons: Vec<String> = Vec::new();
        let asked = nodes.iter().enumerate().map(|(place, node)| self.ask_to_form(place, node, number));
        let mut asked: FuturesUnordered<_> = asked.collect();
        while let Some((place, answer)) = asked.next().await {
            match answer {
                Ok(answer) => attempt.note(place, answer),
                Err(reason) => reasons.push(format!("{}: {reason}", nodes[place].name)),
            }
        }
        drop(asked);
        *highest = attempt.refused_by().max(*highest);
        let decided = match attempt.outcome() {
            AttemptOutcome::Waiting(places) => {
                let names = places.iter().map(|place| nodes[*place].name.clone()).collect();
                reasons.sort();
                return FormationStatus::waits(names, reasons.join("; "));
            }
            AttemptOutcome::Take(topology) => self.answers.take(attempt.ticket(), topology).await,
            AttemptOutcome::Make(ids) => self.answers.make(attempt.ticket(), ids).await,
        };
        match decided {
            Ok(true) => tracing::info!(attempt = number, "the cluster is formed"),
            Ok(false) => {}
            Err(error) => return FormationStatus::waits(Vec::new(), error.to_string()),
        }
        FormationStatus::waits(Vec::new(), String::new())
    }

    async fn ask_to_form(
        &self,
        place: usize,
        node: &NodeView,
        number: u64,
    ) -> (usize, Result<NodeFormAnswer, String>) {
        let answer = if place == self.membership.own() {
            self.answers.form(number).await.map_err(|error| error.to_string())
        } else {
            match timeout(FORM_ANSWER_MAX, self.asker.form(&node.name, number)).await {
                Ok(answer) => answer.map_err(|error: AskError| error.to_string()),
                Err(_) => Err("no answer in time".to_owned()),
            }
        };
        (place, answer)
    }
}
