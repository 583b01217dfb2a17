//! The directories of a node of a named cluster: its ids while the cluster forms, and the topology when it
//! has one.
//!
//! ```text
//! look          what the directories hold: a topology, ids of phase `forming`, or nothing
//! make_ids      an id in every empty directory, durable before any node gets it
//! adopt         the topology in every own volume.json and phase `formed`, in one write each
//! ```
//! Which topology is adopted is decided by the cluster's formation, which calls this. An id of phase
//! `forming` that the topology lacks is discarded: nothing was ever stored under it, and the volume that was
//! in its place is lost.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use sherd_core::env::Rng;
use sherd_core::id::{ClusterId, Life, NodeId, VolumeId};
use sherd_core::topology::{FormedTopology, PoolNode, Topology, node_id};
use sherd_volume::disk::Disk;
use sherd_volume::error::OpenError;
use sherd_volume::identity::{ExpectedIdentity, FILE_NAME, Identity, IdentityFile, Phase};
use sherd_volume::open::{NewVolume, create};

use super::directory::Directory;
use super::{
    Formation, FormationConfig, FormationError, SeenDirectory, check_distinct, check_geometry,
    make_directory, newest_topology, not_empty, places, see_all,
};

/// Configuration of a node of a named cluster.
#[derive(Debug, Clone)]
pub struct ClusterFormationConfig {
    /// Local directories, and the geometry asked for.
    pub local: FormationConfig,
    /// The configured cluster.
    pub cluster: ClusterId,
    /// The names of all nodes, in the order of the configuration.
    pub nodes: Vec<String>,
    /// The ordinal of this node.
    pub node: usize,
}

impl ClusterFormationConfig {
    /// This node's name.
    ///
    /// # Panics
    /// If no node has the ordinal.
    pub fn name(&self) -> &str {
        &self.nodes[self.node]
    }

    /// This node's id.
    pub fn node_id(&self) -> NodeId {
        node_id(self.cluster, self.name())
    }
}

/// Identities in the directories of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalIdentity {
    /// The topology of the highest epoch in them.
    pub topology: Option<Arc<Topology>>,
    /// The ids of phase `forming`, by ordinal, where every directory has one.
    pub ids: Option<Vec<VolumeId>>,
}

/// Looks at the directories of this node. Blocking; changes nothing.
///
/// # Errors
/// [`FormationError`], which names the directory at fault.
pub fn look(config: &ClusterFormationConfig) -> Result<LocalIdentity, FormationError> {
    let seen = see_own(config)?;
    let identities = || seen.iter().filter_map(|seen| seen.identity.as_ref());
    if identities().any(|identity| identity.topology.is_some()) {
        let topology = newest_topology(&seen)?;
        check(config, &topology)?;
        return Ok(LocalIdentity { topology: Some(topology), ids: None });
    }
    let forming = |seen: &SeenDirectory| {
        let identity = seen.identity.as_ref()?;
        (identity.phase == Phase::Forming).then_some(identity.volume)
    };
    let ids = seen.iter().map(forming).collect();
    Ok(LocalIdentity { topology: None, ids })
}

/// Gives every empty directory a new id, durably, and returns the ids of all, by ordinal. Blocking. To be
/// called while the directories hold no topology.
///
/// # Errors
/// [`FormationError::NotEmpty`] if a directory holds something other than a volume: this node cannot be
/// counted on for a new cluster, and may still adopt the topology of an old one.
pub fn make_ids(config: &ClusterFormationConfig, rng: &dyn Rng) -> Result<Vec<VolumeId>, FormationError> {
    let seen = see_own(config)?;
    if let Some(error) = seen.iter().find_map(not_empty) {
        return Err(error);
    }
    let disk = &config.local.disk;
    let mut ids = Vec::with_capacity(seen.len());
    for SeenDirectory { path, identity, directory } in &seen {
        match identity {
            Some(Identity { phase: Phase::Forming, volume, .. }) => {
                ids.push(*volume);
                continue;
            }
            // An adoption that a crash cut short: a node that has the topology gives it.
            Some(Identity { phase: Phase::Formed, .. }) => {
                let what = "it was formed, and a crash left it without".to_owned();
                return Err(FormationError::Topology { path: path.clone(), what });
            }
            None => {}
        }
        if *directory == Directory::Volume {
            let name = "a volume.json that cannot be read".to_owned();
            return Err(FormationError::NotEmpty { path: path.clone(), name });
        }
        if *directory == Directory::Missing {
            make_directory(&**disk, path)?;
        }
        let volume = VolumeId(rng.next_id());
        let new =
            NewVolume { cluster: config.cluster, volume, life: Life(1), phase: Phase::Forming, lost: None };
        create(disk, path, new)?;
        ids.push(volume);
    }
    Ok(ids)
}

/// Makes the first topology of the ids of all nodes, in the order of the configuration.
///
/// # Errors
/// [`FormationError::Form`] when the pool has no such shape.
pub fn form_topology(
    config: &ClusterFormationConfig,
    ids: Vec<Vec<VolumeId>>,
) -> Result<FormedTopology, FormationError> {
    let node = |(name, volumes): (&String, Vec<VolumeId>)| PoolNode {
        id: node_id(config.cluster, name),
        name: name.clone(),
        zone: None,
        volumes,
    };
    let pool: Vec<PoolNode> = config.nodes.iter().zip(ids).map(node).collect();
    Ok(Topology::form(config.cluster, &pool, config.local.geometry)?)
}

/// Writes the topology to every volume of this node, and finds the place of every directory in it. Blocking.
/// May be repeated: after a crash in between it goes on. A directory whose volume is lost stays empty, for
/// adoption.
///
/// # Errors
/// [`FormationError`]: the configuration contradicts the topology, or a directory holds a volume that is not
/// this node's. Nothing is written then.
pub fn adopt_topology(
    config: &ClusterFormationConfig,
    topology: &Arc<Topology>,
) -> Result<Formation, FormationError> {
    check(config, topology)?;
    let mut seen = see_own(config)?;
    let stored = serde_json::to_value(&**topology).expect("a topology is JSON");
    let mut foreign = Vec::new();
    for (place, seen) in seen.iter().enumerate() {
        let Some(identity) = &seen.identity else { continue };
        // A topology that a half-failed adoption left is the cluster's as well as this one would be.
        if identity.topology.as_ref().is_some_and(|carried| *carried != stored) {
            let what = "it is another one than the cluster's".to_owned();
            return Err(FormationError::Topology { path: seen.path.clone(), what });
        }
        if !is_ours(config, topology, &seen.path, identity)? {
            foreign.push(place);
        }
    }
    for place in foreign {
        let SeenDirectory { path, identity, directory } = &mut seen[place];
        discard(&*config.local.disk, path)?;
        tracing::warn!(path = %path.display(), "the cluster has another volume in this place: it is lost");
        (*identity, *directory) = (None, Directory::Vacant);
    }
    let node = config.node_id();
    let volumes = places(&config.local, &seen, topology, node)?;
    for ((_, path), seen) in volumes.iter().zip(&seen) {
        let Some(identity) = &seen.identity else { continue };
        if identity.phase == Phase::Formed && identity.topology.is_some() {
            continue;
        }
        match IdentityFile::open(Arc::clone(&config.local.disk), path, ExpectedIdentity::default()) {
            // Both at once: a crash leaves a volume of no topology, or one that is formed.
            Ok(Some(file)) => file.update(|identity| {
                identity.topology.get_or_insert(stored.clone());
                identity.phase = Phase::Formed;
            })?,
            // A failed volume is replaced, and is reported as failed when it is opened.
            Ok(None) | Err(OpenError::Failed { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Formation {
        cluster: config.cluster,
        node,
        topology: Arc::clone(topology),
        volumes,
        warnings: Vec::new(),
    })
}

/// Sees all directories, which must be of the configured cluster.
fn see_own(config: &ClusterFormationConfig) -> Result<Vec<SeenDirectory>, FormationError> {
    let seen = see_all(&config.local)?;
    for SeenDirectory { path, identity, .. } in &seen {
        if let Some(identity) = identity
            && identity.cluster != config.cluster
        {
            let (found, configured) = (identity.cluster, config.cluster);
            return Err(FormationError::OtherCluster { path: path.clone(), found, configured });
        }
    }
    check_distinct(&seen)?;
    Ok(seen)
}

/// Whether the configuration describes the cluster of the topology.
fn check(config: &ClusterFormationConfig, topology: &Topology) -> Result<(), FormationError> {
    let epoch = topology.epoch().0;
    if topology.cluster() != config.cluster {
        let (found, configured) = (topology.cluster(), config.cluster);
        return Err(FormationError::OtherTopology { found, configured });
    }
    let formed: BTreeSet<&str> = topology.nodes().iter().map(|node| node.name.as_str()).collect();
    let configured: BTreeSet<&str> = config.nodes.iter().map(String::as_str).collect();
    let only_in =
        |one: &BTreeSet<&str>, other| one.difference(other).map(|name| (*name).to_owned()).collect();
    if formed != configured {
        return Err(FormationError::OtherNodes {
            missing: only_in(&formed, &configured),
            unknown: only_in(&configured, &formed),
            epoch,
        });
    }
    check_geometry(config.local.geometry, topology)?;
    let (directories, volumes) =
        (config.local.directories.len(), topology.volumes_of(config.node_id()).count());
    if directories != volumes {
        return Err(FormationError::Count { directories, volumes, epoch });
    }
    Ok(())
}

/// Whether the topology has a volume on this node; it may lack it only while nothing was stored under its id.
fn is_ours(
    config: &ClusterFormationConfig,
    topology: &Topology,
    path: &Path,
    identity: &Identity,
) -> Result<bool, FormationError> {
    let (path, volume, node) = (path.to_owned(), identity.volume, config.node_id());
    match topology.volume(volume).map(|volume| volume.node) {
        Some(found) if found == node => Ok(true),
        Some(found) => {
            let other = topology.node(found).map_or_else(String::new, |node| node.name.clone());
            Err(FormationError::TwoPlaces { path, volume, node: config.name().to_owned(), other })
        }
        None if identity.phase == Phase::Forming && identity.topology.is_none() => Ok(false),
        None => Err(FormationError::NotOurs { path, volume, node, epoch: topology.epoch().0 }),
    }
}

/// Makes a directory empty again that holds an id and nothing else.
fn discard(disk: &dyn Disk, directory: &Path) -> Result<(), FormationError> {
    let path = directory.join(FILE_NAME);
    let io = |op| move |source| OpenError::Io { op, path: directory.to_owned(), source };
    disk.remove(&path).map_err(io("remove volume.json from"))?;
    disk.sync_dir(directory).map_err(io("sync directory of"))?;
    Ok(())
}

#[cfg(test)]
mod tests;
