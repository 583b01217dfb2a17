//! The health of each node's volumes, as the nodes' answers report it. One doubt is enough: a volume counts
//! as whole only when every node answers and reports it whole, and as away only when none reports that it
//! takes part.

use std::collections::{BTreeMap, HashMap};

use sherd_proto::v1::{SetStatus, StatusReply, VolumeReport};

use super::placement::PoolSets;

/// The nodes' answers by pod; an error is a text for people.
pub type NodeAnswers = BTreeMap<String, Result<StatusReply, String>>;

/// One volume, as all nodes that answer see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VolumeHealth {
    /// Whether some node says that it votes or takes calls.
    pub takes_part: bool,
    /// Whether every node that answers says that it votes and is healed.
    pub is_whole: bool,
    /// Whether every node that answers says that it has room.
    pub has_room: bool,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeHealth {
    /// Why nothing can be concluded from its answer: it gave none, is not part of a formed cluster, or of one
    /// of another shape.
    pub silent: Option<String>,
    /// Whether the node itself said that it is not part of a formed cluster.
    pub is_unformed: bool,
    /// The node's volumes, by ordinal.
    pub volumes: Vec<VolumeHealth>,
}

/// All nodes of a pool, by ordinal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolHealth {
    /// The nodes.
    pub nodes: Vec<NodeHealth>,
}

impl PoolHealth {
    /// Reads the answers of the pool's pods, which are given by ordinal.
    pub fn read(pods: &[String], sets: &PoolSets, answers: &NodeAnswers) -> Self {
        let judged: Vec<Result<&StatusReply, String>> =
            pods.iter().map(|pod| usable(answers.get(pod), sets)).collect();
        let mut tallies: Vec<Vec<VolumeTally>> = (0..pods.len())
            .map(|node| sets.of_node(node).iter().map(|_| VolumeTally::default()).collect())
            .collect();
        let ordinals: HashMap<&str, usize> = pods.iter().map(String::as_str).zip(0..).collect();
        for report in judged.iter().flatten().flat_map(|view| &view.volumes) {
            let node = ordinals.get(report.node.as_str()).and_then(|node| tallies.get_mut(*node));
            let volume = node.and_then(|node| node.get_mut(usize::try_from(report.ordinal).ok()?));
            if let Some(tally) = volume {
                tally.add(report);
            }
        }
        let views = judged.iter().flatten().count();
        let nodes = judged.into_iter().zip(pods).zip(tallies).map(|((judged, pod), tallies)| {
            let answer = answers.get(pod).and_then(|answer| answer.as_ref().ok());
            NodeHealth {
                silent: judged.err(),
                is_unformed: answer.is_some_and(|reply| !is_formed(reply)),
                volumes: tallies.into_iter().map(|tally| tally.judge(views)).collect(),
            }
        });
        Self { nodes: nodes.collect() }
    }

    /// Whether a node answers, and all say that its volumes are whole.
    pub fn is_whole(&self, node: usize) -> bool {
        let whole = |node: &NodeHealth| node.silent.is_none() && node.volumes.iter().all(|one| one.is_whole);
        self.nodes.get(node).is_some_and(whole)
    }

    /// Whether nothing can be concluded from a node's answer.
    pub fn is_silent(&self, node: usize) -> bool {
        self.nodes.get(node).is_none_or(|node| node.silent.is_some())
    }

    /// Whether some node says that a volume of this one takes part.
    pub fn takes_part(&self, node: usize) -> bool {
        self.nodes.get(node).is_some_and(|node| node.volumes.iter().any(|volume| volume.takes_part))
    }

    /// Whether something is known of a node: it says that it is not part of a formed cluster, or a node that
    /// is part of one answers.
    pub fn is_judged(&self, node: usize) -> bool {
        self.nodes.get(node).is_some_and(|node| node.is_unformed)
            || self.nodes.iter().any(|node| node.silent.is_none())
    }

    /// The set that would no longer take writes without a node because volumes of others are full.
    pub fn set_full_without(&self, sets: &PoolSets, node: usize) -> Option<usize> {
        let with_room = |set: usize, without: Option<usize>| {
            let nodes = self.nodes.iter().enumerate().filter(|(other, _)| Some(*other) != without);
            let volumes = nodes.flat_map(|(other, health)| sets.of_node(other).iter().zip(&health.volumes));
            volumes.filter(|(other, volume)| **other == set && volume.has_room).count()
        };
        let needed = sets.needed();
        (0..sets.count()).find(|set| {
            sets.share(node, *set) > 0
                && with_room(*set, None) >= needed
                && with_room(*set, Some(node)) < needed
        })
    }
}

fn usable<'a>(
    answer: Option<&'a Result<StatusReply, String>>,
    sets: &PoolSets,
) -> Result<&'a StatusReply, String> {
    let reply = match answer {
        None => return Err("was not asked".to_owned()),
        Some(Err(error)) => return Err(error.clone()),
        Some(Ok(reply)) => reply,
    };
    if !is_formed(reply) {
        return Err("is not part of a formed cluster".to_owned());
    }
    let geometry = sets.geometry();
    let is_shaped = |set: &SetStatus| {
        let numbers = [set.volumes, set.data_shards, set.parity_shards];
        numbers.map(|number| usize::try_from(number).unwrap_or(usize::MAX))
            == [geometry.volumes(), geometry.data_shards(), geometry.parity_shards()]
    };
    if reply.sets.len() == sets.count() && reply.sets.iter().all(is_shaped) {
        Ok(reply)
    } else {
        Err(format!("does not report {} sets of {geometry}", sets.count()))
    }
}

fn is_formed(reply: &StatusReply) -> bool {
    reply.formation.as_ref().is_some_and(|formation| formation.formed)
}

/// How many of the answers say what of one volume.
#[derive(Debug, Clone, Copy, Default)]
struct VolumeTally {
    reports: usize,
    whole: usize,
    with_room: usize,
    takes_part: bool,
}

impl VolumeTally {
    fn add(&mut self, report: &VolumeReport) {
        self.reports += 1;
        self.whole += usize::from(report.votes && report.healed);
        self.with_room += usize::from(report.has_room);
        self.takes_part |= report.votes || report.is_open;
    }

    /// Each answer has one report of the volume; one that is missing, or twice there, is a doubt.
    fn judge(self, views: usize) -> VolumeHealth {
        let all = |count: usize| views > 0 && self.reports == views && count == views;
        VolumeHealth { takes_part: self.takes_part, is_whole: all(self.whole), has_room: all(self.with_room) }
    }
}
