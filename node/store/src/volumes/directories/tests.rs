//! Formation, crashes in it, and what is refused.

use std::sync::atomic::{AtomicU64, Ordering};

use sherd_volume::disk::OpenMode;
use sherd_volume::disk::faulty::{FaultyDisk, Keep};

use super::*;

/// Ids that differ, the same in every run.
#[derive(Debug, Default)]
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

fn disk() -> FaultyDisk {
    let disk = FaultyDisk::new(1);
    disk.create_dir(Path::new("/data")).expect("made");
    disk.sync_dir(Path::new("/")).expect("synced");
    disk
}

fn paths() -> Vec<PathBuf> {
    (0..4).map(|n| PathBuf::from(format!("/data/v{n}"))).collect()
}

fn config(disk: &FaultyDisk, directories: Vec<PathBuf>) -> FormationConfig {
    FormationConfig {
        disk: Arc::new(disk.clone()),
        directories,
        zone: None,
        geometry: GeometryRequest::default(),
    }
}

fn start_with(disk: &FaultyDisk, geometry: GeometryRequest) -> Result<Formation, FormationError> {
    form_or_find(&FormationConfig { geometry, ..config(disk, paths()) }, &Counting::default())
}

const fn parity(parity_shards: usize) -> GeometryRequest {
    GeometryRequest { set_volumes: None, parity_shards: Some(parity_shards) }
}

fn start(disk: &FaultyDisk, directories: Vec<PathBuf>) -> Result<Formation, FormationError> {
    form_or_find(&config(disk, directories), &Counting::default())
}

fn formed() -> (FaultyDisk, Formation) {
    let disk = disk();
    let formation = start(&disk, paths()).expect("formed");
    (disk, formation)
}

fn phases(disk: &FaultyDisk) -> Vec<Phase> {
    paths().iter().map(|path| identity_of(disk, path).expect("a volume").phase).collect()
}

fn put(disk: &FaultyDisk, path: &str) {
    let file = disk.open(Path::new(path), OpenMode::CreateNew).expect("created");
    file.write_at(&[std::io::IoSlice::new(b"mine")], 0).expect("written");
}

/// Takes everything out of a directory.
fn wipe(disk: &FaultyDisk, path: &Path) {
    for entry in disk.list(path).expect("listed") {
        disk.remove(&path.join(entry.name)).expect("removed");
    }
}

#[test]
fn empty_directories_become_a_cluster_that_is_found_again_in_any_order() {
    let (disk, first) = formed();
    assert_eq!(first.volumes.len(), 4);
    assert_eq!(first.topology.sets().len(), 1);
    assert_eq!(phases(&disk), [Phase::Formed; 4]);
    let again = start(&disk, paths()).expect("found");
    assert_eq!((again.cluster, again.node, &again.volumes), (first.cluster, first.node, &first.volumes));
    let reversed: Vec<PathBuf> = paths().into_iter().rev().collect();
    let mut again = start(&disk, reversed).expect("found").volumes;
    again.reverse();
    assert_eq!(again, first.volumes, "a directory is known by its volume.json, not by its place");
}

#[test]
fn a_crash_anywhere_in_a_formation_is_continued_by_the_next_start() {
    let (counted, _) = formed();
    let before = disk().operations();
    for cut in before..=counted.operations() {
        for seed in 0..4 {
            let disk = disk();
            disk.cut_power_at(cut);
            let cut_short = start(&disk, paths()).ok();
            disk.restart(seed, Keep::Some);
            // The next process draws other ids.
            let found = form_or_find(&config(&disk, paths()), &Counting(AtomicU64::new(1000)))
                .unwrap_or_else(|error| panic!("cut {cut}, seed {seed}: {error}"));
            assert_eq!(phases(&disk), [Phase::Formed; 4], "cut {cut}, seed {seed}");
            for (volume, path) in &found.volumes {
                let identity = identity_of(&disk, path).expect("a volume");
                assert_eq!((identity.cluster, identity.volume), (found.cluster, *volume));
                assert!(identity.topology.is_some(), "cut {cut}, seed {seed}");
            }
            if let Some(before) = cut_short {
                assert_eq!((before.cluster, before.volumes), (found.cluster, found.volumes));
            }
        }
    }
}

#[test]
fn a_cluster_that_was_formed_before_is_found_and_not_formed_again() {
    let (disk, first) = formed();
    check_formed(&config(&disk, paths()), first.cluster).expect("its volumes are there");
    let empty = self::disk();
    let before = empty.operations();
    let refused = check_formed(&config(&empty, paths()), first.cluster).expect_err("refused").to_string();
    assert!(refused.contains("was formed before, and no volume of it is here"), "{refused}");
    assert_eq!(empty.operations(), before, "nothing is written");
}

#[test]
fn an_empty_directory_of_a_formed_cluster_is_never_formatted_here() {
    let (disk, first) = formed();
    wipe(&disk, Path::new("/data/v2"));
    let found = start(&disk, paths()).expect("found");
    assert_eq!(found.volumes, first.volumes, "it keeps its volume's place");
    assert_eq!(disk.list(Path::new("/data/v2")).expect("listed"), []);
}

#[test]
fn directories_that_do_not_make_a_node_are_refused_by_name() {
    let (disk, first) = formed();
    let refused = |directories: Vec<PathBuf>| start(&disk, directories).expect_err("refused").to_string();
    assert!(refused(paths()[..3].to_vec()).contains("3 directories are configured"));
    let mut five = paths();
    five.push(PathBuf::from("/data/v4"));
    assert!(refused(five).contains("has 4 volumes"));
    assert!(refused(vec![]).contains("no volume directories"));
    let twice = vec![paths()[0].clone(), paths()[0].clone()];
    assert!(refused(twice).contains("/data/v0 is configured twice"));

    // A directory of another cluster.
    let others: Vec<PathBuf> = (0..4).map(|n| PathBuf::from(format!("/data/w{n}"))).collect();
    let rng = Counting(AtomicU64::new(500));
    let other = form_or_find(&config(&disk, others.clone()), &rng).expect("formed");
    let mixed = vec![paths()[0].clone(), paths()[1].clone(), paths()[2].clone(), others[3].clone()];
    let said = refused(mixed);
    assert!(said.contains("/data/w3") && said.contains(&first.cluster.to_string()), "{said}");
    assert!(said.contains(&other.cluster.to_string()), "{said}");
}

#[test]
fn a_cluster_keeps_its_geometry_and_refuses_to_be_asked_for_another() {
    let disk = disk();
    let first = start_with(&disk, parity(1)).expect("formed");
    for same in
        [GeometryRequest::default(), parity(1), GeometryRequest { set_volumes: Some(4), parity_shards: None }]
    {
        let found = start_with(&disk, same).unwrap_or_else(|error| panic!("{same:?}: {error}"));
        assert_eq!(found.topology, first.topology, "{same:?}");
    }
    let said = start_with(&disk, parity(2)).expect_err("3+1").to_string();
    for word in ["2 parity", "`parity`", "formed with 1", "3+1", "ask for 1", "empty volumes"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let said = start_with(&disk, GeometryRequest { set_volumes: Some(2), parity_shards: None })
        .expect_err("one set");
    assert!(said.to_string().contains("2 volumes of a set"), "{said}");
    assert_eq!(start(&disk, paths()).expect("found").topology, first.topology, "nothing was changed");
}

#[test]
fn a_formation_that_a_crash_cut_short_goes_on_with_the_geometry_that_it_began_with() {
    let counted = disk();
    let before = counted.operations();
    start_with(&counted, parity(1)).expect("formed");
    let mut refused_count = 0;
    for cut in before..=counted.operations() {
        let disk = disk();
        disk.cut_power_at(cut);
        drop(start_with(&disk, parity(1)));
        disk.restart(1, Keep::Everything);
        let carries = |path: &PathBuf| identity_of(&disk, path).is_ok_and(|found| found.topology.is_some());
        let is_decided = paths().iter().any(carries);
        let next = |geometry| {
            let config = FormationConfig { geometry, ..config(&disk, paths()) };
            form_or_find(&config, &Counting(AtomicU64::new(1000)))
        };
        let found = match next(parity(2)) {
            Err(FormationError::OtherGeometry { asked: 2, formed: 1, .. }) => {
                refused_count += 1;
                next(GeometryRequest::default())
            }
            other => other,
        };
        let found = found.unwrap_or_else(|error| panic!("cut {cut}: {error}"));
        let parity_shards = found.topology.sets()[0].geometry().parity_shards();
        assert_eq!(parity_shards, if is_decided { 1 } else { 2 }, "cut {cut}");
    }
    assert!(refused_count > 0, "some volume carried the topology");
}

#[test]
fn a_copied_volume_is_refused_with_both_places() {
    let (disk, _) = formed();
    let identity = identity_of(&disk, Path::new("/data/v0")).expect("a volume");
    wipe(&disk, Path::new("/data/v1"));
    let copy: Arc<dyn Disk> = Arc::new(disk.clone());
    IdentityFile::create(copy, Path::new("/data/v1"), identity).expect("written");
    let said = start(&disk, paths()).expect_err("refused").to_string();
    assert!(said.contains("/data/v0") && said.contains("/data/v1"), "{said}");
}

#[test]
fn an_unknown_version_is_refused_and_other_files_are_left_alone() {
    let (disk, _) = formed();
    wipe(&disk, Path::new("/data/v1"));
    let file = disk.open(Path::new("/data/v1/volume.json"), OpenMode::CreateNew).expect("created");
    file.write_at(&[std::io::IoSlice::new(br#"{"format":2,"checksum":"","body":{}}"#)], 0).expect("written");
    let said = start(&disk, paths()).expect_err("refused").to_string();
    assert!(said.contains("/data/v1") && said.contains("version 2"), "{said}");

    let fresh = self::disk();
    fresh.create_dir(Path::new("/data/v3")).expect("made");
    put(&fresh, "/data/v3/holiday.jpg");
    let said = start(&fresh, paths()).expect_err("refused").to_string();
    assert!(said.contains("/data/v3") && said.contains("holiday.jpg"), "{said}");
    assert_eq!(
        look_at(&fresh, Path::new("/data/v0")).expect("looked"),
        Directory::Missing,
        "nothing was made"
    );
}

#[test]
fn the_remains_of_a_removal_differ_from_a_log_that_lost_its_identity() {
    let disk = disk();
    let volume = Path::new("/data/v0");
    disk.create_dir(&volume.join("shards")).expect("made");
    disk.create_dir(&volume.join("log")).expect("made");
    put(&disk, "/data/v0/log/00000000000000000003.spare");
    // Written into a directory that is being removed.
    put(&disk, "/data/v0/upkeep.json");
    put(&disk, "/data/v0/upkeep.json.new");
    assert_eq!(look_at(&disk, volume).expect("looked"), Directory::Remains);
    put(&disk, "/data/v0/log/00000000000000000001.seg");
    assert_eq!(look_at(&disk, volume).expect("looked"), Directory::Strange { name: "log".to_owned() });
    let said = start(&disk, paths()).expect_err("refused").to_string();
    assert!(said.contains("/data/v0") && said.contains("log"), "{said}");
}
