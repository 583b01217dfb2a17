//! The nodes of the cluster as this one sees them: which are up, their last reports, and what is wrong
//! between them.
//!
//! ```text
//! ping task, each second ----> answer, or none for 2 s ----> table ----> is_up, volumes, problems, changes
//! a peer's own ping ------------------------------------------^
//! ```
//! A node is up while it answers pings, however late; it is down 2 s after the last answer. The ping of a
//! node is not an answer: only what this node can reach counts for durability. Formation, health, status,
//! settle and sweep read the table; the volumes' part of it is [`RemoteVolumes`], which the peers read.

mod judge;
mod ping;
mod twins;

#[cfg(test)]
mod tests;

pub use judge::{PeerProblem, judge};

use self::judge::{CredentialsDifference, credentials_difference};

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::watch;
use tokio::time::Instant;

use sherd_core::id::{ClusterId, Life, NodeId, VolumeId};
use sherd_core::report::{NodeMoment, NodeReport};
use sherd_core::topology::node_id;

use self::twins::ProcessTrace;
use super::asker::AskError;
use super::limits::{CREDENTIALS_DIFFER_MAX, PEER_TEXT_BYTES_MAX, STRANGERS_MAX};
use crate::peer::remote::{RemoteVolume, RemoteVolumes};

/// Why a node is down that was not asked yet.
const NOT_MET: &str = "not met yet";

/// A node as it is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredNode {
    /// Name of the node.
    pub name: String,
    /// Host and port.
    pub address: String,
}

/// The inputs of membership.
pub struct MembershipConfig {
    /// The cluster.
    pub cluster: ClusterId,
    /// All nodes, in the order of the configuration.
    pub nodes: Vec<ConfiguredNode>,
    /// The ordinal of this one.
    pub own: usize,
    /// The last moment of this node.
    pub own_moments: watch::Receiver<Arc<NodeMoment>>,
    /// Where the volumes of other nodes are noted.
    pub volumes: RemoteVolumes,
}

/// A moment of a node.
#[derive(Debug, Clone)]
pub struct NodeView {
    /// Configured name.
    pub name: String,
    /// Host and port.
    pub address: String,
    /// Id of the node.
    pub id: NodeId,
    /// Whether it answers. This node always does.
    pub is_up: bool,
    /// Why it is down, or refused.
    pub reason: String,
    /// Where it differs from this node.
    pub problems: Vec<PeerProblem>,
    /// Last report of the node.
    pub state: Option<Arc<NodeReport>>,
}

/// The table of nodes.
pub struct Membership {
    own: usize,
    own_moments: watch::Receiver<Arc<NodeMoment>>,
    nodes: Vec<(ConfiguredNode, NodeId)>,
    entries: RwLock<Vec<NodeEntry>>,
    volumes: RemoteVolumes,
    /// Callers that are not configured, with what they called themselves.
    strangers: RwLock<BTreeSet<String>>,
    changes: watch::Sender<u64>,
}

#[derive(Debug, Clone, Default)]
struct NodeEntry {
    is_up: bool,
    reason: String,
    last_answer: Option<Instant>,
    /// The ping whose answer was taken last: an earlier one's says less.
    last_ping: u64,
    state: Option<Arc<NodeReport>>,
    problems: Vec<PeerProblem>,
    /// Since when it accepts other root credentials than this node, beside those that both accept.
    credentials_differ_since: Option<Instant>,
    processes: ProcessTrace,
}

impl Membership {
    /// A table without any answer. [`Membership::run`] fills it.
    pub fn new(config: MembershipConfig) -> Self {
        let MembershipConfig { cluster, nodes, own, own_moments, volumes } = config;
        let entry = NodeEntry { reason: NOT_MET.to_owned(), ..NodeEntry::default() };
        let entries = RwLock::new(vec![entry; nodes.len()]);
        let nodes = nodes.into_iter().map(|node| (node.clone(), node_id(cluster, &node.name))).collect();
        let strangers = RwLock::default();
        Self { own, own_moments, nodes, entries, volumes, strangers, changes: watch::Sender::new(0) }
    }

    /// The last report of this node.
    pub fn own_report(&self) -> Arc<NodeReport> {
        Arc::clone(&self.own_moments.borrow().report)
    }

    /// This node's ordinal.
    pub const fn own(&self) -> usize {
        self.own
    }

    /// All nodes, in the order of the configuration.
    pub fn nodes(&self) -> Vec<NodeView> {
        let own = self.own_report();
        let entries = self.entries.read();
        let views = self.nodes.iter().zip(&*entries).enumerate();
        views.map(|(ordinal, (node, entry))| self.view(ordinal, node, entry, &own)).collect()
    }

    fn view(
        &self,
        ordinal: usize,
        (node, id): &(ConfiguredNode, NodeId),
        entry: &NodeEntry,
        own: &Arc<NodeReport>,
    ) -> NodeView {
        let is_own = ordinal == self.own;
        NodeView {
            name: node.name.clone(),
            address: node.address.clone(),
            id: *id,
            is_up: is_own || entry.is_up,
            reason: if is_own { String::new() } else { entry.reason.clone() },
            problems: entry.problems.clone(),
            state: if is_own { Some(Arc::clone(own)) } else { entry.state.clone() },
        }
    }

    /// Whether each of the other nodes answers, and what it said last. Does not ask this one.
    pub fn other_states(&self) -> Vec<(bool, Option<Arc<NodeReport>>)> {
        let entries = self.entries.read();
        let others = entries.iter().enumerate().filter(|(place, _)| *place != self.own);
        others.map(|(_, entry)| (entry.is_up, entry.state.clone())).collect()
    }

    /// Whether a node answers. This one does; one that is not configured does not.
    pub fn is_up(&self, node: NodeId) -> bool {
        let place = self.nodes.iter().position(|(_, id)| *id == node);
        place.is_some_and(|place| place == self.own || self.entries.read()[place].is_up)
    }

    /// Whether every node answers.
    pub fn all_up(&self) -> bool {
        self.entries.read().iter().enumerate().all(|(place, entry)| place == self.own || entry.is_up)
    }

    /// The report of another node's volume.
    pub fn volume(&self, volume: VolumeId) -> Option<RemoteVolume> {
        self.volumes.volume(volume)
    }

    /// The life that a volume of another node was last in; `None` while that is not known.
    pub fn life_of(&self, volume: VolumeId) -> Option<Life> {
        self.volumes.life_of(volume)
    }

    /// Whether a volume of another node has room; true while that is not known.
    pub fn has_room(&self, volume: VolumeId) -> bool {
        self.volumes.has_room(volume)
    }

    /// The volumes of other nodes.
    pub const fn volumes(&self) -> &RemoteVolumes {
        &self.volumes
    }

    /// Names of the nodes of which it is not known yet whether they answer.
    pub fn unmet(&self) -> Vec<String> {
        let entries = self.entries.read();
        let unmet =
            self.nodes.iter().zip(&*entries).filter(|(_, entry)| !entry.is_up && entry.reason == NOT_MET);
        unmet.map(|((node, _), _)| node.name.clone()).collect()
    }

    /// Counts changes that others wait for: nodes up and down, their topologies, volumes and problems.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Whether this node answered at its own address.
    ///
    /// # Errors
    /// Why not: another process answers there, or none does. The node stays unready meanwhile.
    pub fn own_address(&self) -> Result<(), String> {
        let entry = &self.entries.read()[self.own];
        let (ConfiguredNode { name, address }, _) = &self.nodes[self.own];
        if entry.is_up {
            return Ok(());
        }
        Err(format!("address of {name} ({address}): {}", entry.reason))
    }

    /// All that is wrong between the nodes, for status and health; empty where nothing is. `own` is the
    /// report of this node.
    pub fn problems(&self, own: &NodeReport) -> Vec<String> {
        let now = Instant::now();
        let mut problems = Vec::new();
        if let Err(reason) = self.own_address() {
            problems.push(reason);
        }
        for ((ConfiguredNode { name, .. }, _), entry) in self.nodes.iter().zip(&*self.entries.read()) {
            problems.extend(entry.problems.iter().map(|problem| format!("{name} has {problem}")));
            if let Some((one, other)) = entry.processes.twins(now) {
                problems.push(format!("two nodes are named {name}: processes {one} and {other}"));
            }
        }
        let name_of = |id: NodeId| {
            self.nodes.iter().find(|(_, known)| *known == id).map_or("?", |(node, _)| &node.name)
        };
        for conflict in self.volumes.conflicts() {
            let (volume, one, other) = (conflict.volume, name_of(conflict.node), name_of(conflict.other));
            problems.push(format!("one volume in two places: {volume} on {one} and on {other}"));
        }
        for report in &own.volumes {
            if let Some(remote) = self.volumes.volume(report.volume) {
                let (volume, one, other) = (remote.id, &own.name, name_of(remote.node));
                problems.push(format!("one volume in two places: {volume} on {one} and on {other}"));
            }
        }
        let stranger = |name: &String| format!("{name:?} calls, and is no node of the configuration");
        problems.extend(self.strangers.read().iter().map(stranger));
        problems
    }

    /// Notes what a node said of itself when it called. It finds where it differs from this node's own ping.
    pub fn note_caller(&self, caller: &NodeReport) {
        let Some(place) = self.nodes.iter().position(|(node, _)| node.name == caller.name) else {
            let mut strangers = self.strangers.write();
            if strangers.len() < STRANGERS_MAX {
                strangers.insert(bounded(&caller.name));
            }
            return;
        };
        let own = self.own_report();
        let id = self.nodes[place].1;
        let mut entries = self.entries.write();
        let entry = &mut entries[place];
        entry.processes.note(caller.process, Instant::now());
        let is_another = entry.state.as_ref().is_some_and(|known| known.process != caller.process);
        let mut has_changed = false;
        if place == self.own {
            // A node's own ping arrives here too.
            if own.process != caller.process {
                entry.processes.note(own.process, Instant::now());
                entry.processes.note(caller.process, Instant::now());
                has_changed = true;
            }
        } else {
            has_changed |= entry.take(&own, caller);
        }
        drop(entries);
        if is_another && place != self.own {
            // The node was restarted between two pings: the last states of its volumes are void.
            self.volumes.node_is_silent(id);
        }
        self.tell_if(has_changed);
    }

    fn note_answer(&self, place: usize, ping: u64, state: &NodeReport) {
        let own = self.own_report();
        let (ConfiguredNode { name, .. }, id) = &self.nodes[place];
        let mut entries = self.entries.write();
        let entry = &mut entries[place];
        if ping < entry.last_ping {
            return;
        }
        (entry.last_ping, entry.last_answer) = (ping, Some(Instant::now()));
        entry.processes.note(state.process, Instant::now());
        let refusal = if state.name != *name {
            Some(format!("it is answered by node {:?}", bounded(&state.name)))
        } else if place == self.own && state.process != own.process {
            let process = state.process;
            Some(format!("it is answered by process {process}: two nodes with one identity"))
        } else {
            None
        };
        let mut has_changed = if let Some(reason) = refusal {
            entry.set_up(name, false, &reason)
        } else {
            let is_changed = entry.set_up(name, true, "");
            entry.take(&own, state) || is_changed
        };
        let (is_up, reason) = (entry.is_up, entry.reason.clone());
        drop(entries);
        if place != self.own {
            if is_up {
                has_changed |= self.volumes.replace(*id, &state.volumes);
            } else if has_changed {
                self.volumes.node_is_down(*id, &format!("node {name} is down: {reason}"));
            }
        }
        self.tell_if(has_changed);
    }

    /// Notes that a ping was not answered. The node is down if none was for as long as it takes.
    fn note_failure(&self, place: usize, error: &AskError, is_overdue: bool) {
        let (ConfiguredNode { name, .. }, id) = &self.nodes[place];
        let mut entries = self.entries.write();
        let entry = &mut entries[place];
        let is_refused = matches!(error, AskError::Refused { .. });
        let mut has_changed = false;
        if is_overdue || is_refused || !entry.is_up {
            has_changed = entry.set_up(name, false, &bounded(&error.to_string()));
        }
        drop(entries);
        // Not before it had its time to answer: writes need fewer shards while a node counts as down. A
        // missing answer is enough to say that it may not be healed.
        if (is_overdue || is_refused) && place != self.own {
            self.volumes.node_is_down(*id, &format!("node {name} is down: {error}"));
        } else if place != self.own {
            self.volumes.node_is_silent(*id);
        }
        self.tell_if(has_changed);
    }

    fn tell_if(&self, has_changed: bool) {
        if has_changed {
            self.changes.send_modify(|count| *count = count.wrapping_add(1));
        }
    }
}

impl NodeEntry {
    /// Takes what a node says of itself. Returns whether it says another topology, differs otherwise than
    /// before, or has damage to heal where it had none.
    fn take(&mut self, own: &NodeReport, state: &NodeReport) -> bool {
        let mut problems = judge(own, state);
        let is_rotating = credentials_difference(own, state) == CredentialsDifference::Some;
        self.credentials_differ_since =
            is_rotating.then(|| self.credentials_differ_since.unwrap_or_else(Instant::now));
        // Files reach the nodes one after the other; a file that does not come is a problem.
        if self.credentials_differ_since.is_some_and(|since| since.elapsed() >= CREDENTIALS_DIFFER_MAX) {
            problems.push(PeerProblem::Credentials);
        }
        let compared =
            |state: &NodeReport| (state.topology_digest, state.is_stopping, state.reports_waiting > 0);
        let known = self.state.as_deref().map(compared);
        let has_changed = self.problems != problems || known != Some(compared(state));
        if self.problems != problems {
            for problem in &problems {
                tracing::error!(node = state.name, "{problem}");
            }
        }
        self.problems = problems;
        self.state = Some(Arc::new(state.clone()));
        has_changed
    }

    /// Whether that is another standing, or another reason, than before.
    fn set_up(&mut self, name: &str, is_up: bool, reason: &str) -> bool {
        let has_changed = self.is_up != is_up || self.reason != reason;
        match (self.is_up, is_up) {
            (false, true) => tracing::info!(node = name, "node is up"),
            (true, false) => tracing::warn!(node = name, reason, "node is down"),
            _ => {}
        }
        self.is_up = is_up;
        reason.clone_into(&mut self.reason);
        has_changed
    }
}

/// A text of a peer, as much of it as is kept.
fn bounded(text: &str) -> String {
    text.chars().take(PEER_TEXT_BYTES_MAX / 4).collect()
}

impl fmt::Debug for MembershipConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MembershipConfig").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Membership").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}
