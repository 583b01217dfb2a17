//! Ids, adoption of a topology, crashes in both, and what is refused.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use sherd_core::topology::GeometryRequest;
use sherd_volume::disk::faulty::{FaultyDisk, Keep};

use super::super::directory::{identity_of, look_at};
use super::*;

/// Ids that differ, the same in every run.
#[derive(Debug)]
struct Counting(AtomicU64);

impl Rng for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        let n = self.0.fetch_add(1, Ordering::Relaxed);
        for (byte, value) in bytes.iter_mut().zip(n.to_be_bytes().iter().cycle()) {
            *byte = *value;
        }
        bytes[0] = 0xaa;
    }
}

const CLUSTER: ClusterId = ClusterId([0xcc; 16]);

fn rng(first: u64) -> Counting {
    Counting(AtomicU64::new(first))
}

fn disk() -> FaultyDisk {
    let disk = FaultyDisk::new(1);
    disk.create_dir(Path::new("/data")).expect("made");
    disk.sync_dir(Path::new("/")).expect("synced");
    disk
}

fn directories() -> Vec<PathBuf> {
    vec![PathBuf::from("/data/v1"), PathBuf::from("/data/v2")]
}

/// Node `n1` to `n3` on a disk of its own.
fn config(disk: &FaultyDisk, node: usize) -> ClusterFormationConfig {
    ClusterFormationConfig {
        local: FormationConfig {
            disk: Arc::new(disk.clone()),
            directories: directories(),
            zone: None,
            geometry: GeometryRequest::default(),
        },
        cluster: CLUSTER,
        nodes: ["n1", "n2", "n3"].map(str::to_owned).to_vec(),
        node,
    }
}

/// The topology of n1's ids and made-up ones of the others.
fn topology_with(config: &ClusterFormationConfig, ids: Vec<VolumeId>) -> Arc<Topology> {
    let made_up = |byte| vec![VolumeId([byte; 16]), VolumeId([byte + 1; 16])];
    Arc::new(form_topology(config, vec![ids, made_up(1), made_up(3)]).expect("it fits").topology)
}

fn formed() -> (FaultyDisk, ClusterFormationConfig, Formation) {
    let disk = disk();
    let config = config(&disk, 0);
    let ids = make_ids(&config, &rng(1)).expect("made");
    let formation = adopt_topology(&config, &topology_with(&config, ids)).expect("adopted");
    (disk, config, formation)
}

fn wipe(disk: &FaultyDisk, path: &Path) {
    for entry in disk.list(path).expect("listed") {
        disk.remove(&path.join(entry.name)).expect("removed");
    }
}

#[test]
fn ids_are_made_once_and_a_topology_is_found_again() {
    let disk = disk();
    let config = config(&disk, 0);
    assert_eq!(look(&config).expect("looked"), LocalIdentity { topology: None, ids: None });
    let ids = make_ids(&config, &rng(1)).expect("made");
    assert_eq!(make_ids(&config, &rng(100)).expect("kept"), ids);
    assert_eq!(look(&config).expect("looked").ids, Some(ids.clone()));
    let topology = topology_with(&config, ids.clone());
    let formation = adopt_topology(&config, &topology).expect("adopted");
    assert_eq!(formation.node, node_id(CLUSTER, "n1"));
    let volumes: Vec<VolumeId> = formation.volumes.iter().map(|(volume, _)| *volume).collect();
    assert_eq!(volumes, ids);
    assert_eq!(look(&config).expect("looked").topology, Some(topology));
    for path in directories() {
        assert_eq!(identity_of(&disk, &path).expect("a volume").phase, Phase::Formed);
    }
}

#[test]
fn a_topology_that_a_volume_holds_is_not_replaced_by_another_one() {
    let (_disk, config, formation) = formed();
    let ids = formation.volumes.iter().map(|(volume, _)| *volume).collect();
    let made_up = |byte| vec![VolumeId([byte; 16]), VolumeId([byte + 1; 16])];
    let other = form_topology(&config, vec![ids, made_up(5), made_up(7)]).expect("it fits").topology;
    let refused = adopt_topology(&config, &Arc::new(other)).expect_err("two topologies");
    assert!(matches!(refused, FormationError::Topology { .. }), "{refused}");
    assert_eq!(look(&config).expect("looked").topology, Some(formation.topology));
}

#[test]
fn a_crash_anywhere_is_continued_with_the_same_ids() {
    let begin = |disk: &FaultyDisk, first| {
        let config = config(disk, 0);
        let ids = make_ids(&config, &rng(first)).ok()?;
        adopt_topology(&config, &topology_with(&config, ids.clone())).ok()?;
        Some(ids)
    };
    let counted = disk();
    let before = counted.operations();
    begin(&counted, 1).expect("formed");
    for cut in before..=counted.operations() {
        for seed in 0..4 {
            let disk = disk();
            disk.cut_power_at(cut);
            let config = config(&disk, 0);
            let said = make_ids(&config, &rng(1)).ok();
            let topology = said.clone().map(|ids| topology_with(&config, ids));
            let adopted = topology.as_ref().and_then(|topology| adopt_topology(&config, topology).ok());
            disk.restart(seed, Keep::Some);
            let found = look(&config).unwrap_or_else(|error| panic!("cut {cut}, seed {seed}: {error}"));
            if adopted.is_some() {
                assert_eq!(found.topology, topology, "cut {cut}, seed {seed}");
            }
            let Some(topology) = topology else { continue };
            if found.topology.is_none() {
                assert_eq!(make_ids(&config, &rng(100)).ok(), said, "cut {cut}, seed {seed}: ids said stay");
            }
            let formation = adopt_topology(&config, &topology).expect("adopted");
            let volumes: Vec<VolumeId> = formation.volumes.iter().map(|(volume, _)| *volume).collect();
            assert_eq!(Some(volumes), said, "cut {cut}, seed {seed}");
        }
    }
}

#[test]
fn a_topology_without_the_fresh_ids_empties_their_directories() {
    let (disk, config, first) = formed();
    for path in directories() {
        wipe(&disk, &path);
    }
    let fresh = make_ids(&config, &rng(100)).expect("made");
    assert!(first.volumes.iter().all(|(volume, _)| !fresh.contains(volume)));
    let again = adopt_topology(&config, &first.topology).expect("adopted");
    assert_eq!(again.volumes, first.volumes, "every directory has its volume's place");
    for path in directories() {
        assert_eq!(look_at(&disk, &path).expect("looked"), Directory::Vacant);
    }
}

#[test]
fn a_volume_that_is_lost_alone_keeps_its_place_and_its_directory_stays_empty() {
    let (disk, config, first) = formed();
    wipe(&disk, &directories()[1]);
    let found = look(&config).expect("looked").topology.expect("in the other one");
    assert_eq!(adopt_topology(&config, &found).expect("found").volumes, first.volumes);
    assert_eq!(look_at(&disk, &directories()[1]).expect("looked"), Directory::Vacant);
}

#[test]
fn a_volume_that_contradicts_the_topology_is_refused_by_name() {
    let (disk, config, first) = formed();
    let refused = |config: &ClusterFormationConfig| look(config).expect_err("refused").to_string();

    let other = ClusterFormationConfig { cluster: ClusterId([0xdd; 16]), ..config.clone() };
    let said = refused(&other);
    assert!(said.contains("/data/v1") && said.contains("cccc") && said.contains("dddd"), "{said}");

    let mut other = config.clone();
    other.nodes[2] = "n4".to_owned();
    let said = refused(&other);
    assert!(said.contains("n3 not configured; n4 not in the topology"), "{said}");

    let mut other = config.clone();
    other.local.directories.pop();
    let said = refused(&other);
    assert!(said.contains("1 directories are configured") && said.contains("has 2 volumes"), "{said}");

    let mut other = config.clone();
    other.local.geometry.parity_shards = Some(2);
    let said = refused(&other);
    assert!(said.contains("2 parity") && said.contains("formed with 3"), "{said}");

    // The disks of n1 in n2.
    let second = ClusterFormationConfig { node: 1, ..config };
    let said = adopt_topology(&second, &first.topology).expect_err("refused").to_string();
    for word in ["one volume in two places", "/data/v1", "node n2", "node n1's"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert!(identity_of(&disk, &directories()[0]).is_ok(), "nothing was discarded");
}

#[test]
fn a_directory_of_other_files_gets_no_id_and_does_not_hinder_a_topology() {
    let (disk, config, first) = formed();
    for path in directories() {
        wipe(&disk, &path);
    }
    disk.create_dir(&directories()[0].join("shards")).expect("made");
    let said = make_ids(&config, &rng(100)).expect_err("refused").to_string();
    assert!(said.contains("/data/v1") && said.contains("remains"), "{said}");
    assert_eq!(adopt_topology(&config, &first.topology).expect("adopted").volumes, first.volumes);
}

/// Left by an adoption that a crash cut short between its two writes.
#[test]
fn a_formed_volume_without_a_topology_gives_no_ids_and_takes_the_topology() {
    let (disk, config, first) = formed();
    for path in directories() {
        let file = IdentityFile::open(Arc::new(disk.clone()), &path, ExpectedIdentity::default());
        file.expect("read").expect("a volume").update(|identity| identity.topology = None).expect("written");
    }
    assert_eq!(look(&config).expect("looked"), LocalIdentity { topology: None, ids: None });
    assert!(make_ids(&config, &rng(100)).is_err());
    assert_eq!(adopt_topology(&config, &first.topology).expect("adopted").volumes, first.volumes);
    assert_eq!(look(&config).expect("looked").topology, Some(first.topology));
}
