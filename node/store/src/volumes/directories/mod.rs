//! From configured directories to the volumes of a cluster: forms a new one, continues a formation
//! that a crash cut short, or finds the place of every directory in the one that is there.
//!
//! ```text
//! all directories empty:   volume.json (forming) in each, synced; then formed in each
//! crash in between:        any `forming` and none `formed` -> the rest is made, then formed
//! some formed:             the topology of the highest epoch says which volume belongs where
//! ```
//! While every volume is forming nothing was served, so an empty directory has lost nothing. Once
//! one says formed, an empty directory is a lost volume, and is never formatted here.

pub mod clustered;
pub mod directory;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sherd_core::env::Rng;
use sherd_core::erasure::Geometry;
use sherd_core::id::{ClusterId, Life, NodeId, VolumeId};
use sherd_core::topology::{
    FormError, FormationWarning, FormedTopology, GeometryRequest, PoolNode, Set, Topology,
};
use sherd_volume::disk::Disk;
use sherd_volume::error::OpenError;
use sherd_volume::identity::{ExpectedIdentity, Identity, IdentityFile, Phase, lock};
use sherd_volume::open::{NewVolume, create};

use directory::{Directory, identity_of, look_at};

/// Configuration of a node's volumes.
#[derive(Debug, Clone)]
pub struct FormationConfig {
    /// Where the directories are.
    pub disk: Arc<dyn Disk>,
    /// The directories, by ordinal.
    pub directories: Vec<PathBuf>,
    /// The zone of this node.
    pub zone: Option<String>,
    /// Geometry that is asked for instead of the default when a cluster is formed; a formed cluster must have
    /// it.
    pub geometry: GeometryRequest,
}

/// A node's place in its cluster.
#[derive(Debug, Clone)]
pub struct Formation {
    /// The cluster.
    pub cluster: ClusterId,
    /// This node.
    pub node: NodeId,
    /// The cluster's sets and nodes.
    pub topology: Arc<Topology>,
    /// The volumes of this node and where they are (or should be), by ordinal.
    pub volumes: Vec<(VolumeId, PathBuf)>,
    /// Weaknesses of the geometry; only given when the cluster was formed just now.
    pub warnings: Vec<FormationWarning>,
}

/// The directories do not make a node.
#[derive(Debug, thiserror::Error)]
pub enum FormationError {
    /// None are configured.
    #[error("no volume directories are configured")]
    NoDirectories,
    /// A directory is configured twice.
    #[error("{path} is configured twice")]
    Twice {
        /// The directory.
        path: PathBuf,
    },
    /// A directory holds something other than a volume, and a new cluster should be formed.
    #[error("{path} holds {name} and no volume.json: a new cluster is formed in empty directories only")]
    NotEmpty {
        /// The directory.
        path: PathBuf,
        /// A name that it holds.
        name: String,
    },
    /// Two directories belong to different clusters.
    #[error("{path} belongs to cluster {found}, and {other} to cluster {expected}")]
    TwoClusters {
        /// One directory.
        path: PathBuf,
        /// Cluster of the directory.
        found: ClusterId,
        /// Another directory.
        other: PathBuf,
        /// Cluster of the other directory.
        expected: ClusterId,
    },
    /// A directory belongs to another cluster than is configured.
    #[error("{path} belongs to cluster {found}, and cluster {configured} is configured")]
    OtherCluster {
        /// The directory.
        path: PathBuf,
        /// Cluster of the directory.
        found: ClusterId,
        /// The configured one.
        configured: ClusterId,
    },
    /// The topology is of another cluster than is configured.
    #[error("the topology is of cluster {found}, and cluster {configured} is configured")]
    OtherTopology {
        /// Cluster of the topology.
        found: ClusterId,
        /// The configured one.
        configured: ClusterId,
    },
    /// Other nodes are configured than the topology has.
    #[error(
        "the nodes configured are not those of the topology of epoch {epoch}: {}",
        difference_of(missing, unknown)
    )]
    OtherNodes {
        /// Names that only the topology has.
        missing: Vec<String>,
        /// Names that only the configuration has.
        unknown: Vec<String>,
        /// The topology's epoch.
        epoch: u64,
    },
    /// The topology has the volume at another node.
    #[error("one volume in two places: {path} on node {node} holds volume {volume}, which is node {other}'s")]
    TwoPlaces {
        /// The directory.
        path: PathBuf,
        /// Volume in the directory.
        volume: VolumeId,
        /// This node.
        node: String,
        /// The node that the topology has it at.
        other: String,
    },
    /// Two directories hold the same volume.
    #[error("{path} and {other} both hold volume {volume}: one is a copy")]
    SameVolume {
        /// One directory.
        path: PathBuf,
        /// The other.
        other: PathBuf,
        /// The id that both have.
        volume: VolumeId,
    },
    /// A volume is not in the topology, or another node's.
    #[error("{path} holds volume {volume}, which is not one of node {node} in the topology of epoch {epoch}")]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// The id that it has.
        volume: VolumeId,
        /// This node, as the other directories show it.
        node: NodeId,
        /// The topology's epoch.
        epoch: u64,
    },
    /// The number of directories is not what the topology says.
    #[error(
        "{directories} directories are configured, and the topology of epoch {epoch} has {volumes} volumes on this node"
    )]
    Count {
        /// Configured.
        directories: usize,
        /// In the topology.
        volumes: usize,
        /// The topology's epoch.
        epoch: u64,
    },
    /// No volume carries a topology that can be read.
    #[error("{path} carries no topology that this version reads: {what}")]
    Topology {
        /// The directory whose topology has the highest epoch, or the first.
        path: PathBuf,
        /// Why not.
        what: String,
    },
    /// The cluster has another geometry than is asked for, and keeps it.
    #[error(
        "{asked} {what} are asked for, and the cluster was formed with {formed} (geometry {geometry}): ask for \
         {formed}, or for nothing; another geometry needs a new cluster on empty volumes"
    )]
    OtherGeometry {
        /// Of what.
        what: &'static str,
        /// How many are asked for.
        asked: usize,
        /// How many there are.
        formed: usize,
        /// The geometry of the first set that differs.
        geometry: Geometry,
    },
    /// A cluster that was formed before would be formed again.
    #[error("cluster {cluster} was formed before, and no volume of it is here")]
    FormedBefore {
        /// The cluster.
        cluster: ClusterId,
    },
    /// A new cluster cannot have this shape.
    #[error(transparent)]
    Form(#[from] FormError),
    /// A directory cannot be read or written, is locked, or of an unknown version.
    #[error(transparent)]
    Open(#[from] OpenError),
}

fn difference_of(missing: &[String], unknown: &[String]) -> String {
    let sides = [("not configured", missing), ("not in the topology", unknown)];
    let sides = sides.iter().filter(|(_, names)| !names.is_empty());
    let sides: Vec<String> = sides.map(|(what, names)| format!("{} {what}", names.join(", "))).collect();
    sides.join("; ")
}

struct SeenDirectory {
    path: PathBuf,
    identity: Option<Identity>,
    directory: Directory,
}

/// Finds or makes this node's place. Blocking.
///
/// # Errors
/// [`FormationError`], which names the directory at fault. A directory that is missing, empty or damaged in a
/// formed cluster is not an error: its volume is offline.
pub fn form_or_find(config: &FormationConfig, rng: &dyn Rng) -> Result<Formation, FormationError> {
    let seen = see_all(config)?;
    check_distinct(&seen)?;
    let is_formed =
        seen.iter().any(|seen| seen.identity.as_ref().is_some_and(|id| id.phase == Phase::Formed));
    let is_begun = seen.iter().any(|seen| seen.identity.is_some());
    if is_formed {
        return find(config, &seen);
    }
    if let Some(strange) = seen.iter().find_map(not_empty) {
        return Err(strange);
    }
    if is_begun { go_on(config, &seen, rng) } else { form(config, &seen, rng) }
}

/// Checks that the cluster of a node alone, which was formed before, would not be formed again. Blocking.
///
/// # Errors
/// [`FormationError::FormedBefore`] where no directory holds a volume of a formed cluster, or another
/// [`FormationError`], which names the directory at fault.
pub fn check_formed(config: &FormationConfig, cluster: ClusterId) -> Result<(), FormationError> {
    let is_formed = |seen: &SeenDirectory| seen.identity.as_ref().is_some_and(|id| id.phase == Phase::Formed);
    if see_all(config)?.iter().any(is_formed) {
        Ok(())
    } else {
        Err(FormationError::FormedBefore { cluster })
    }
}

/// Why a directory cannot become a volume of a new cluster.
fn not_empty(seen: &SeenDirectory) -> Option<FormationError> {
    let name = match &seen.directory {
        Directory::Strange { name } => name.clone(),
        Directory::Remains => "remains of a volume".to_owned(),
        Directory::Volume | Directory::Vacant | Directory::Missing => return None,
    };
    Some(FormationError::NotEmpty { path: seen.path.clone(), name })
}

fn see_all(config: &FormationConfig) -> Result<Vec<SeenDirectory>, FormationError> {
    if config.directories.is_empty() {
        return Err(FormationError::NoDirectories);
    }
    for (index, path) in config.directories.iter().enumerate() {
        if config.directories[..index].contains(path) {
            return Err(FormationError::Twice { path: path.clone() });
        }
    }
    config.directories.iter().map(|path| see(&*config.disk, path)).collect()
}

fn see(disk: &dyn Disk, path: &Path) -> Result<SeenDirectory, FormationError> {
    let io = |source| OpenError::Io { op: "list", path: path.to_owned(), source };
    let directory = match look_at(disk, path) {
        Ok(directory) => directory,
        // A dead disk is an offline volume, not a reason not to start.
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "directory cannot be read");
            Directory::Strange { name: io(error).to_string() }
        }
    };
    // A volume of another cluster is left alone. An empty directory stays as empty as it is: only the code
    // that makes a volume of it takes its lock.
    if directory == Directory::Volume {
        match lock(disk, path) {
            Err(error @ OpenError::InUse { .. }) => return Err(error.into()),
            Err(error) => tracing::warn!(path = %path.display(), %error, "directory cannot be locked"),
            Ok(lock) => drop(lock),
        }
    }
    let identity = match directory {
        Directory::Volume => match identity_of(disk, path) {
            Ok(identity) => Some(identity),
            Err(error @ OpenError::Version { .. }) => return Err(error.into()),
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "volume.json cannot be read");
                None
            }
        },
        Directory::Vacant | Directory::Remains | Directory::Missing | Directory::Strange { .. } => None,
    };
    Ok(SeenDirectory { path: path.to_owned(), identity, directory })
}

/// One cluster, and every volume once.
fn check_distinct(seen: &[SeenDirectory]) -> Result<(), FormationError> {
    let mut first: Option<(&Path, ClusterId)> = None;
    let mut volumes: BTreeMap<VolumeId, &Path> = BTreeMap::new();
    for SeenDirectory { path, identity, .. } in seen {
        let Some(identity) = identity else { continue };
        match first {
            None => first = Some((path, identity.cluster)),
            Some((other, expected)) if expected != identity.cluster => {
                return Err(FormationError::TwoClusters {
                    path: path.clone(),
                    found: identity.cluster,
                    other: other.to_owned(),
                    expected,
                });
            }
            Some(_) => {}
        }
        if let Some(other) = volumes.insert(identity.volume, path) {
            let volume = identity.volume;
            return Err(FormationError::SameVolume { path: path.clone(), other: other.to_owned(), volume });
        }
    }
    Ok(())
}

/// Forms a new cluster of one node. Where a crash left volumes that carry no topology yet, they keep
/// their ids.
fn form(
    config: &FormationConfig,
    seen: &[SeenDirectory],
    rng: &dyn Rng,
) -> Result<Formation, FormationError> {
    let identities = || seen.iter().filter_map(|seen| seen.identity.as_ref());
    let cluster = identities().next().map_or_else(|| ClusterId(rng.next_id()), |identity| identity.cluster);
    let volume_of = |seen: &SeenDirectory| {
        seen.identity.as_ref().map_or_else(|| VolumeId(rng.next_id()), |identity| identity.volume)
    };
    let volumes: Vec<VolumeId> = seen.iter().map(volume_of).collect();
    let node = NodeId(rng.next_id());
    let pool = [PoolNode { id: node, name: String::new(), zone: config.zone.clone(), volumes }];
    let FormedTopology { topology, warnings } = Topology::form(cluster, &pool, config.geometry)?;
    let mut formation = complete(config, seen, Arc::new(topology), node)?;
    formation.warnings = warnings;
    Ok(formation)
}

fn make_directory(disk: &dyn Disk, path: &Path) -> Result<(), OpenError> {
    let io = |op| move |source| OpenError::Io { op, path: path.to_owned(), source };
    disk.create_dir(path).map_err(io("create"))?;
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => disk.sync_dir(parent).map_err(io("sync parent of")),
        _ => Ok(()),
    }
}

/// Continues a formation: nothing was served, so what is missing is made.
fn go_on(
    config: &FormationConfig,
    seen: &[SeenDirectory],
    rng: &dyn Rng,
) -> Result<Formation, FormationError> {
    let carries =
        |seen: &SeenDirectory| seen.identity.as_ref().is_some_and(|identity| identity.topology.is_some());
    if !seen.iter().any(carries) {
        return form(config, seen, rng);
    }
    let topology = newest_topology(seen)?;
    check_geometry(config.geometry, &topology)?;
    let node = our_node(seen, &topology)?;
    complete(config, seen, topology, node)
}

/// Gives every directory its volume.json, and then says in each that the cluster is formed.
fn complete(
    config: &FormationConfig,
    seen: &[SeenDirectory],
    topology: Arc<Topology>,
    node: NodeId,
) -> Result<Formation, FormationError> {
    let volumes = places(config, seen, &topology, node)?;
    for ((volume, path), seen) in volumes.iter().zip(seen) {
        if seen.directory == Directory::Missing {
            make_directory(&*config.disk, path)?;
        }
        let carries = seen.identity.as_ref().map(|identity| identity.topology.is_some());
        if carries == Some(false) {
            carry(&config.disk, path, &topology)?;
        }
        if carries.is_none() {
            let new = NewVolume {
                cluster: topology.cluster(),
                volume: *volume,
                life: Life(1),
                phase: Phase::Forming,
                lost: None,
            };
            make_volume(&config.disk, path, new, &topology)?;
        }
    }
    say_formed(config, seen, &volumes)?;
    Ok(Formation { cluster: topology.cluster(), node, topology, volumes, warnings: Vec::new() })
}

/// Makes an empty directory a volume that carries the topology.
///
/// # Errors
/// [`OpenError`]. After a crash in between the volume carries none: the next start gives it one.
pub(crate) fn make_volume(
    disk: &Arc<dyn Disk>,
    path: &Path,
    new: NewVolume,
    topology: &Topology,
) -> Result<(), OpenError> {
    create(disk, path, new)?;
    carry(disk, path, topology)
}

/// Gives the volume in a directory the topology to carry.
fn carry(disk: &Arc<dyn Disk>, path: &Path, topology: &Topology) -> Result<(), OpenError> {
    let stored = serde_json::to_value(topology).expect("a topology is JSON");
    match IdentityFile::open(Arc::clone(disk), path, ExpectedIdentity::default()) {
        Ok(Some(file)) => file.update(|identity| identity.topology = Some(stored)),
        // A failed volume is replaced, and is reported as failed when it is opened.
        Ok(None) | Err(OpenError::Failed { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Says in every volume.json that the cluster is formed. A crash here leaves some that do not: the
/// next start finds one that does, and says it in the others.
fn say_formed(
    config: &FormationConfig,
    seen: &[SeenDirectory],
    volumes: &[(VolumeId, PathBuf)],
) -> Result<(), FormationError> {
    for ((_, path), seen) in volumes.iter().zip(seen) {
        let is_formed = seen.identity.as_ref().is_some_and(|identity| identity.phase == Phase::Formed);
        if is_formed {
            continue;
        }
        match IdentityFile::open(Arc::clone(&config.disk), path, ExpectedIdentity::default()) {
            Ok(Some(file)) => file.update(|identity| identity.phase = Phase::Formed)?,
            Ok(None) | Err(OpenError::Failed { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Finds the place of every directory in a formed cluster.
fn find(config: &FormationConfig, seen: &[SeenDirectory]) -> Result<Formation, FormationError> {
    let topology = newest_topology(seen)?;
    check_geometry(config.geometry, &topology)?;
    let node = our_node(seen, &topology)?;
    let volumes = places(config, seen, &topology, node)?;
    for (place, seen) in volumes.iter().zip(seen) {
        match catch_up(config, place, seen, &topology) {
            // A volume.json that cannot be written does not open either: the volume is offline, and the next
            // start reports it.
            Err(FormationError::Open(error @ OpenError::Io { .. })) => {
                tracing::warn!(path = %place.1.display(), %error, "volume.json cannot be completed");
            }
            caught_up => caught_up?,
        }
    }
    Ok(Formation { cluster: topology.cluster(), node, topology, volumes, warnings: Vec::new() })
}

/// Says in a volume.json what a crash kept from it.
fn catch_up(
    config: &FormationConfig,
    place: &(VolumeId, PathBuf),
    seen: &SeenDirectory,
    topology: &Topology,
) -> Result<(), FormationError> {
    let Some(identity) = &seen.identity else { return Ok(()) };
    if identity.phase == Phase::Forming {
        say_formed(config, std::slice::from_ref(seen), std::slice::from_ref(place))?;
    }
    // A volume that was adopted when the power went carries no topology yet.
    if identity.topology.is_none() {
        carry(&config.disk, &place.1, topology)?;
    }
    Ok(())
}

/// Compares the sets with the geometry that is asked for. Sets stay as they were formed, and an operator who
/// asks for more parity must not believe that it is there.
fn check_geometry(geometry: GeometryRequest, topology: &Topology) -> Result<(), FormationError> {
    let GeometryRequest { set_volumes, parity_shards } = geometry;
    for geometry in topology.sets().iter().map(Set::geometry) {
        for (what, asked, formed) in [
            ("volumes of a set", set_volumes, geometry.volumes()),
            ("parity shards (`parity`)", parity_shards, geometry.parity_shards()),
        ] {
            if let Some(asked) = asked.filter(|asked| *asked != formed) {
                return Err(FormationError::OtherGeometry { what, asked, formed, geometry });
            }
        }
    }
    Ok(())
}

/// The topology of the highest epoch that any directory carries.
fn newest_topology(seen: &[SeenDirectory]) -> Result<Arc<Topology>, FormationError> {
    let mut newest: Option<Topology> = None;
    let mut unreadable: Option<FormationError> = None;
    for SeenDirectory { path, identity, .. } in seen {
        let Some(identity) = identity else { continue };
        let Some(stored) = &identity.topology else { continue };
        match serde_json::from_value::<Topology>(stored.clone()) {
            Ok(topology) if topology.cluster() != identity.cluster => {
                unreadable = Some(FormationError::Topology {
                    path: path.clone(),
                    what: format!("it is of cluster {}", topology.cluster()),
                });
            }
            Ok(topology) => {
                if newest.as_ref().is_none_or(|newest| newest.epoch() < topology.epoch()) {
                    newest = Some(topology);
                }
            }
            Err(error) => {
                unreadable = Some(FormationError::Topology { path: path.clone(), what: error.to_string() });
            }
        }
    }
    // A topology that cannot be read may be the newest: going by an older one would be a guess.
    match (newest, unreadable) {
        (_, Some(error)) => Err(error),
        (Some(newest), None) => Ok(Arc::new(newest)),
        (None, None) => Err(FormationError::Topology {
            path: seen.first().map(|seen| seen.path.clone()).unwrap_or_default(),
            what: "there is none".to_owned(),
        }),
    }
}

/// The node whose volumes these are: that of the first directory with an identity.
fn our_node(seen: &[SeenDirectory], topology: &Topology) -> Result<NodeId, FormationError> {
    let epoch = topology.epoch().0;
    let mut node = None;
    for SeenDirectory { path, identity, .. } in seen {
        let Some(identity) = identity else { continue };
        let volume = identity.volume;
        let found = topology.volume(volume).map(|volume| volume.node);
        match (node, found) {
            (None, Some(found)) => node = Some(found),
            (Some(node), Some(found)) if node == found => {}
            (node, _) => {
                let node = node.unwrap_or(NodeId([0; 16]));
                return Err(FormationError::NotOurs { path: path.clone(), volume, node, epoch });
            }
        }
    }
    node.ok_or_else(|| FormationError::Topology {
        path: seen.first().map(|seen| seen.path.clone()).unwrap_or_default(),
        what: "no volume says which node this is".to_owned(),
    })
}

/// The volume of each directory: by its volume.json, and the rest in the order of the ordinals.
fn places(
    config: &FormationConfig,
    seen: &[SeenDirectory],
    topology: &Topology,
    node: NodeId,
) -> Result<Vec<(VolumeId, PathBuf)>, FormationError> {
    let mut ours: Vec<_> = topology.volumes_of(node).collect();
    ours.sort_by_key(|volume| volume.ordinal);
    if ours.len() != config.directories.len() {
        return Err(FormationError::Count {
            directories: config.directories.len(),
            volumes: ours.len(),
            epoch: topology.epoch().0,
        });
    }
    let is_found =
        |id| seen.iter().any(|seen| seen.identity.as_ref().is_some_and(|identity| identity.volume == id));
    // A directory that moved to another place in the configuration is known by its volume.json; an
    // empty one gets the volume of its own place, where that is free.
    let mut free: Vec<VolumeId> = ours.iter().map(|volume| volume.id).filter(|id| !is_found(*id)).collect();
    let mut taken: Vec<Option<VolumeId>> = Vec::with_capacity(seen.len());
    for (seen, own) in seen.iter().zip(&ours) {
        taken.push(match &seen.identity {
            Some(identity) => Some(identity.volume),
            None if free.contains(&own.id) => {
                free.retain(|id| *id != own.id);
                Some(own.id)
            }
            None => None,
        });
    }
    let mut free = free.into_iter();
    Ok(taken
        .into_iter()
        .zip(seen)
        .map(|(volume, seen)| {
            let volume = volume.or_else(|| free.next()).expect("as many volumes as directories");
            (volume, seen.path.clone())
        })
        .collect())
}

#[cfg(test)]
mod tests;
