//! From a node's answer to tables, to JSON, and to a verdict: values in, text out.
//!
//! Words are those of health and metrics. Texts of the answer are printed without control characters: a
//! terminal must show them, not obey them.

use std::fmt::Write as _;

use serde::Serialize;
use sherd_core::report::VolumeCondition;
use sherd_proto::convert::admin::condition;
use sherd_proto::v1::{Formation, NodeStatus, SetStatus, StatusReply, VolumeReport};

use crate::plain::{plain, section};

/// Whether the cluster does its work. The number is the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClusterVerdict {
    /// Every volume of every set is healed.
    Healed = 0,
    /// The cluster serves, and something is missing.
    Degraded = 1,
    /// A set has too few volumes to read, or the cluster has none yet.
    NotServing = 2,
}

/// Whether the cluster of an answer does its work.
pub fn verdict(reply: &StatusReply) -> ClusterVerdict {
    let is_formed = reply.formation.as_ref().is_some_and(|formation| formation.formed);
    if !is_formed || reply.sets.is_empty() || reply.sets.iter().any(|set| set.voting < set.prepare) {
        return ClusterVerdict::NotServing;
    }
    let is_whole =
        |set: &SetStatus| set.voting >= set.volumes && set.healed >= set.volumes && set.takes_shards;
    let healed = reply.problems.is_empty()
        && reply.nodes.iter().all(|node| node.up)
        && reply.volumes.iter().all(|volume| volume.healed)
        && reply.sets.iter().all(is_whole);
    if healed { ClusterVerdict::Healed } else { ClusterVerdict::Degraded }
}

/// An answer as tables of nodes, volumes and sets, and its problems.
pub fn table(reply: &StatusReply) -> String {
    let StatusReply {
        sender: _,
        cluster_name,
        node,
        formation,
        nodes,
        volumes,
        sets,
        problems,
        trust: _,
        credentials_proofs: _,
        config: _,
    } = reply;
    let mut out = String::new();
    let summary = match verdict(reply) {
        ClusterVerdict::Healed => "all healed".to_owned(),
        ClusterVerdict::Degraded => "serves, degraded".to_owned(),
        ClusterVerdict::NotServing => not_serving(formation.as_ref()),
    };
    writeln!(out, "cluster {}, as {} sees it: {summary}", plain(cluster_name), plain(node)).expect(TEXT);

    let mut rows = vec![row(["node", "address", "state", "version", "reports", "reason"])];
    rows.extend(nodes.iter().map(|node| {
        let NodeStatus { name, address, up, reason, version, reports_waiting } = node;
        let state = if *up { "up" } else { "down" };
        row([name, address, state, version, &reports_waiting.to_string(), reason])
    }));
    section(&mut out, &rows);

    let mut rows = vec![row(["node", "volume", "state", "healed", "free", "reason"])];
    rows.extend(volumes.iter().map(|volume| {
        let (healed, free) = (if volume.healed { "yes" } else { "no" }, free(volume));
        row([&volume.node, &volume.path, state_name(volume.state), healed, &free, &volume.reason])
    }));
    section(&mut out, &rows);

    let mut rows = vec![row(["set", "N", "A", "P", "voting", "healed", "code", "state"])];
    rows.extend(sets.iter().map(|set| {
        let code = format!("{}+{}", set.data_shards, set.parity_shards);
        let [number, volumes, accept, prepare, voting, healed] =
            [set.set, set.volumes, set.accept, set.prepare, set.voting, set.healed]
                .map(|count| count.to_string());
        row([&number, &volumes, &accept, &prepare, &voting, &healed, &code, set_state(set)])
    }));
    section(&mut out, &rows);

    if !problems.is_empty() {
        out.push_str("\nproblems\n");
        for problem in problems {
            writeln!(out, "  {}", plain(problem)).expect(TEXT);
        }
    }
    out
}

/// Why writing to a `String` cannot fail.
const TEXT: &str = "a String takes every text";

fn not_serving(formation: Option<&Formation>) -> String {
    let Some(Formation { formed: false, waiting_for, reason, formed_before: _ }) = formation else {
        return "does not serve".to_owned();
    };
    let mut text = "forming".to_owned();
    if !waiting_for.is_empty() {
        write!(text, ", waiting for {}", plain(&waiting_for.join(", "))).expect(TEXT);
    }
    if !reason.is_empty() {
        write!(text, ": {}", plain(reason)).expect(TEXT);
    }
    text
}

/// Names the most that a set does.
fn set_state(set: &SetStatus) -> &'static str {
    match set {
        set if set.voting < set.prepare => "does not serve",
        set if set.voting < set.accept => "committed reads only",
        set if !set.takes_shards => "no new data",
        set if set.healed < set.volumes || set.voting < set.volumes => "serves, degraded",
        _ => "healed",
    }
}

/// Names a state as health and metrics do.
fn state_name(state: i32) -> &'static str {
    condition(state).map_or("unknown", VolumeCondition::as_str)
}

fn free(volume: &VolumeReport) -> String {
    if volume.total_bytes == 0 {
        return String::new();
    }
    let size = |bytes| bytesize::ByteSize(bytes).display().iec();
    format!("{} of {}", size(volume.free_bytes), size(volume.total_bytes))
}

fn row<const N: usize>(cells: [&str; N]) -> [String; N] {
    cells.map(plain)
}

/// An answer as one line of JSON.
pub fn json(reply: &StatusReply) -> String {
    let formation = reply.formation.clone().unwrap_or_default();
    let report = Report {
        verdict: verdict(reply),
        cluster: &reply.cluster_name,
        cluster_id: reply.sender.as_ref().map(|sender| hex::encode(&sender.cluster)).unwrap_or_default(),
        node: &reply.node,
        formed: formation.formed,
        waiting_for: &formation.waiting_for,
        reason: &formation.reason,
        nodes: reply.nodes.iter().map(NodeLine::from).collect(),
        volumes: reply.volumes.iter().map(VolumeLine::from).collect(),
        sets: reply.sets.iter().map(SetLine::from).collect(),
        problems: &reply.problems,
    };
    line(&report)
}

/// A line of JSON in place of an answer that did not come.
pub fn json_of_error(error: &str) -> String {
    #[derive(Serialize)]
    struct MissingReply<'a> {
        verdict: ClusterVerdict,
        error: &'a str,
    }
    line(&MissingReply { verdict: ClusterVerdict::NotServing, error })
}

fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts, numbers and lists of them are JSON") + "\n"
}

#[derive(Serialize)]
struct Report<'a> {
    verdict: ClusterVerdict,
    cluster: &'a str,
    cluster_id: String,
    node: &'a str,
    formed: bool,
    waiting_for: &'a [String],
    reason: &'a str,
    nodes: Vec<NodeLine<'a>>,
    volumes: Vec<VolumeLine<'a>>,
    sets: Vec<SetLine>,
    problems: &'a [String],
}

#[derive(Serialize)]
struct NodeLine<'a> {
    name: &'a str,
    address: &'a str,
    up: bool,
    reason: &'a str,
    version: &'a str,
    reports_waiting: u64,
}

impl<'a> From<&'a NodeStatus> for NodeLine<'a> {
    fn from(node: &'a NodeStatus) -> Self {
        let NodeStatus { name, address, up, reason, version, reports_waiting } = node;
        Self { name, address, up: *up, reason, version, reports_waiting: *reports_waiting }
    }
}

#[derive(Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "as the message that it is of")]
struct VolumeLine<'a> {
    id: String,
    node: &'a str,
    ordinal: u32,
    path: &'a str,
    state: &'static str,
    reason: &'a str,
    life: u32,
    votes: bool,
    healed: bool,
    healed_since_ms: u64,
    has_room: bool,
    unconfirmed: bool,
    lost: bool,
    total_bytes: u64,
    free_bytes: u64,
}

impl<'a> From<&'a VolumeReport> for VolumeLine<'a> {
    fn from(volume: &'a VolumeReport) -> Self {
        Self {
            id: hex::encode(&volume.volume),
            node: &volume.node,
            ordinal: volume.ordinal,
            path: &volume.path,
            state: state_name(volume.state),
            reason: &volume.reason,
            life: volume.life,
            votes: volume.votes,
            healed: volume.healed,
            healed_since_ms: volume.healed_since_ms,
            has_room: volume.has_room,
            unconfirmed: volume.unconfirmed,
            lost: volume.lost,
            total_bytes: volume.total_bytes,
            free_bytes: volume.free_bytes,
        }
    }
}

#[derive(Serialize)]
struct SetLine {
    set: u32,
    volumes: u32,
    accept: u32,
    prepare: u32,
    voting: u32,
    healed: u32,
    data_shards: u32,
    parity_shards: u32,
    takes_shards: bool,
    state: &'static str,
}

impl From<&SetStatus> for SetLine {
    fn from(status: &SetStatus) -> Self {
        let &SetStatus {
            set,
            volumes,
            accept,
            prepare,
            voting,
            healed,
            data_shards,
            parity_shards,
            takes_shards,
        } = status;
        let state = set_state(status);
        Self {
            set,
            volumes,
            accept,
            prepare,
            voting,
            healed,
            data_shards,
            parity_shards,
            takes_shards,
            state,
        }
    }
}

#[cfg(test)]
mod tests;
