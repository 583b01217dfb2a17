//! The report of a node on itself and its volumes: for other nodes in each ping, for health, metrics and
//! `status`.
//!
//! The store makes these; `sherd-proto` writes them into messages and reads them back. The process puts them
//! together into a [`NodeMoment`] once a second, and all that is shown of this node is read from the last
//! one.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::checksum::Digest;
use crate::id::{Life, ProcessId, VolumeId};

/// The work that a volume can do at this moment: one word in health, metrics and `status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum VolumeCondition {
    /// Replaying its log or rebuilding its index; or it waits for its peers to say that it may vote; or it
    /// votes, and what it lacks is not known yet.
    Opening,
    /// Votes, reads and writes.
    Online,
    /// As online, but slow or with errors: reads prefer others.
    Suspect,
    /// Lost its state: does not vote yet, or votes while its shards are rebuilt.
    Recovering,
    /// Refuses new data for lack of space.
    Full,
    /// Failed, and stays so until it is replaced.
    Failed,
    /// Cannot be reached.
    Offline,
}

impl VolumeCondition {
    /// Every condition, for metrics.
    pub const ALL: [Self; 7] = [
        Self::Opening,
        Self::Online,
        Self::Suspect,
        Self::Recovering,
        Self::Full,
        Self::Failed,
        Self::Offline,
    ];

    /// The word for it in health, metrics and `status`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Online => "online",
            Self::Suspect => "suspect",
            Self::Recovering => "recovering",
            Self::Full => "full",
            Self::Failed => "failed",
            Self::Offline => "offline",
        }
    }
}

/// The part of a volume in the votes of its sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VolumeStanding {
    /// Votes.
    Voting,
    /// Opened, without a vote: its peers have not confirmed that it has its state.
    Unconfirmed,
    /// State lost, or its directory is empty.
    Lost,
    /// Not there; may come back as it was.
    #[default]
    Away,
}

/// A moment of one volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeReport {
    /// Id of the volume.
    pub volume: VolumeId,
    /// Name of its node.
    pub node: String,
    /// Number on the node.
    pub ordinal: u32,
    /// Directory of the volume.
    pub path: String,
    /// The work that it can do; `None` where its node names a condition that is unknown here.
    pub condition: Option<VolumeCondition>,
    /// Why it is not online; empty when it is.
    pub reason: String,
    /// Life of the volume; `None` while it is not open.
    pub life: Option<Life>,
    /// Part of the volume in the votes of its sets.
    pub standing: VolumeStanding,
    /// Whether calls reach it.
    pub is_open: bool,
    /// Whether it takes new data.
    pub has_room: bool,
    /// Since when it is healed, in milliseconds since the Unix epoch; `None` while it is not. Under steady
    /// writes young damage does not count: a slow disk is late with some shard at any moment.
    pub healed_since_ms: Option<u64>,
    /// Bytes of its filesystem.
    pub total_bytes: u64,
    /// Bytes free on it.
    pub free_bytes: u64,
}

impl VolumeReport {
    /// The report of a volume of which only the id is known: away, and taken to have no room.
    pub const fn of(volume: VolumeId) -> Self {
        Self {
            volume,
            node: String::new(),
            ordinal: 0,
            path: String::new(),
            condition: None,
            reason: String::new(),
            life: None,
            standing: VolumeStanding::Away,
            is_open: false,
            has_room: false,
            healed_since_ms: None,
            total_bytes: 0,
            free_bytes: 0,
        }
    }

    /// Whether it votes.
    pub fn votes(&self) -> bool {
        self.standing == VolumeStanding::Voting
    }

    /// Whether nothing is known that it lacks.
    pub const fn is_healed(&self) -> bool {
        self.healed_since_ms.is_some()
    }

    /// Takes the volume for one that may not be there: no call reaches it, it does not vote, and it may lack
    /// something. Its life and its room stay as they were reported last.
    pub fn take_away(&mut self, reason: &str) {
        self.condition = Some(VolumeCondition::Offline);
        reason.clone_into(&mut self.reason);
        self.is_open = false;
        if self.votes() {
            self.standing = VolumeStanding::Away;
        }
        self.healed_since_ms = None;
    }

    /// Whether two reports differ at most in the bytes of the filesystem, which change all the time.
    pub fn is_alike(&self, other: &Self) -> bool {
        Self { total_bytes: 0, free_bytes: 0, ..self.clone() }
            == Self { total_bytes: 0, free_bytes: 0, ..other.clone() }
    }
}

/// The report of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeReport {
    /// Name of the node.
    pub name: String,
    /// This run of it.
    pub process: ProcessId,
    /// The version of its program.
    pub version: String,
    /// Over the part of the configuration that must be equal on all nodes.
    pub config_digest: Option<Digest>,
    /// Fingerprints of the certificate authorities that it trusts: SHA-256 of the certificate.
    pub trusted_cas: Vec<Digest>,
    /// Show which root credentials it accepts to those that have the same: HMAC-SHA-256 under the secret of
    /// each pair, the first pair's first. Empty where they are not known.
    pub credentials_proofs: Vec<Digest>,
    /// Of the topology that its volumes hold; `None` while they hold none.
    pub topology_digest: Option<Digest>,
    /// Whether it is stopping.
    pub is_stopping: bool,
    /// Volumes of the node.
    pub volumes: Vec<VolumeReport>,
    /// Reports of damage and MRF entries of its logs that wait to be healed.
    pub reports_waiting: u64,
    /// For how long the oldest of them waits; `None` without damage, and where the node does not report it.
    pub damage_age: Option<Duration>,
    /// Names its master key; zeros where it has none.
    pub master_key_digest: Option<Digest>,
}

impl NodeReport {
    /// The report of a node of which only its name and run are known.
    pub const fn of(name: String, process: ProcessId) -> Self {
        Self {
            name,
            process,
            version: String::new(),
            config_digest: None,
            trusted_cas: Vec::new(),
            credentials_proofs: Vec::new(),
            topology_digest: None,
            is_stopping: false,
            volumes: Vec::new(),
            reports_waiting: 0,
            damage_age: None,
            master_key_digest: None,
        }
    }
}

impl NodeReport {
    /// Whether damage waits for at least `age`, or for a time that is not known.
    pub fn has_damage_since(&self, age: Duration) -> bool {
        self.reports_waiting > 0 && self.damage_age.is_none_or(|waits| waits >= age)
    }
}

/// A moment of one erasure set, as this node sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SetReport {
    /// Number in the topology.
    pub set: u32,
    /// Volumes that belong to it.
    pub volumes: usize,
    /// Volumes of it that vote.
    pub voting: usize,
    /// Volumes of it that have room.
    pub with_room: usize,
    /// Volumes of it that take shards of new data: calls reach them, and they have room.
    pub taking_shards: usize,
    /// Shards that a write of new data has to make durable.
    pub shards_needed: usize,
    /// Votes that a write needs.
    pub write_quorum: usize,
    /// Votes that a read needs.
    pub read_quorum: usize,
}

impl SetReport {
    /// Whether there are votes for a write.
    pub const fn is_writable(&self) -> bool {
        self.voting >= self.write_quorum
    }

    /// Whether there are votes for a read.
    pub const fn is_readable(&self) -> bool {
        self.voting >= self.read_quorum
    }

    /// Whether data that is kept in its row is refused for lack of room.
    pub const fn is_full(&self) -> bool {
        self.with_room < self.write_quorum
    }

    /// Whether data with shards is refused for lack of room.
    pub const fn is_full_for_shards(&self) -> bool {
        self.with_room < self.shards_needed
    }

    /// Whether shards of new data can be made durable.
    pub const fn takes_shards(&self) -> bool {
        self.taking_shards >= self.shards_needed
    }
}

/// A moment of this node: computed in one place, read by health, metrics, `status`, pings and their answers.
///
/// It is computed once a second, and at once after a change for the worse, so that it never shows a node
/// better than it is for longer than 10 ms after such a change:
/// - the process starts to stop (health reads this directly, and not from here);
/// - a volume of this node changes its state, or its vote;
/// - another node goes down, or reports volumes that changed, or has damage to heal where it had none;
/// - the first report of damage comes from the data path, or damage is found that cannot be reported.
///
/// A change for the better may show up to a second late. So may changes that nothing is drained or restarted
/// by: free bytes, a volume that fills up, the progress of a recovery, damage that a background walk finds.
/// [`VolumeReport::healed_since_ms`] needs a volume that was well for seconds, and not a good moment.
///
/// Where none could be computed for half a minute, an [unknown](Self::unknown) one takes its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeMoment {
    /// The report that other nodes get.
    pub report: Arc<NodeReport>,
    /// Every erasure set; empty before the volumes are open.
    pub sets: Vec<SetReport>,
    /// Why sets do not come back by themselves, and what ends that.
    pub stuck: Vec<String>,
    /// Problems between the nodes of the cluster; empty for a node alone.
    pub problems: Vec<String>,
}

impl NodeMoment {
    /// The moment of a node whose volumes are not open.
    pub fn of(report: NodeReport) -> Self {
        Self { report: Arc::new(report), sets: Vec::new(), stuck: Vec::new(), problems: Vec::new() }
    }

    /// The moment of a node whose state is not known since this one: neither ready nor healed. Its volumes
    /// are away, with the lives that they had, by which others see whether one was rebuilt meanwhile; it
    /// reports damage; `problem` is its only one.
    #[must_use]
    pub fn unknown(&self, problem: String) -> Self {
        let mut report = NodeReport::clone(&self.report);
        for volume in &mut report.volumes {
            volume.take_away(&problem);
        }
        report.reports_waiting = report.reports_waiting.max(1);
        report.damage_age = None;
        Self { problems: vec![problem], ..Self::of(report) }
    }
}
