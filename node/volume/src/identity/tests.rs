//! volume.json through crashes, and everything it must refuse.

use super::*;
use crate::disk::faulty::{Call, Failure, Fault, FaultyDisk, Keep};

const DIRECTORY: &str = "/data/volume";

fn identity() -> Identity {
    Identity {
        cluster: ClusterId([0xc1; 16]),
        volume: VolumeId([0x01; 16]),
        life: Life(3),
        phase: Phase::Formed,
        topology: Some(serde_json::json!({"epoch": 18_446_744_073_709_551_615_u64, "sets": [["a", "b"]]})),
        failed: None,
        lost: Some("rot".to_owned()),
        noted_losses: Vec::new(),
    }
}

fn disk() -> FaultyDisk {
    let disk = FaultyDisk::new(1);
    disk.create_dir(Path::new(DIRECTORY)).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk.sync_dir(Path::new("/data")).unwrap();
    disk
}

fn open(disk: &FaultyDisk) -> Result<Option<IdentityFile>, OpenError> {
    IdentityFile::open(Arc::new(disk.clone()), Path::new(DIRECTORY), ExpectedIdentity::default())
}

fn create(disk: &FaultyDisk, identity: Identity) -> Result<IdentityFile, OpenError> {
    IdentityFile::create(Arc::new(disk.clone()), Path::new(DIRECTORY), identity)
}

fn put(disk: &FaultyDisk, name: &str, bytes: &[u8]) {
    let file = disk.open(&Path::new(DIRECTORY).join(name), OpenMode::CreateNew).unwrap();
    file.write_at(&[IoSlice::new(bytes)], 0).unwrap();
}

#[test]
fn an_identity_comes_back_after_a_power_cut() {
    let disk = disk();
    create(&disk, identity()).unwrap();
    disk.restart(1, Keep::Nothing);
    assert_eq!(open(&disk).unwrap().unwrap().identity(), identity());
    assert!(matches!(create(&disk, identity()), Err(OpenError::Damaged { .. })));
}

#[test]
fn the_bytes_of_format_1_never_change() {
    let wanted = concat!(
        r#"{"format":1,"checksum":"CHECKSUM","#,
        r#""body":{"cluster":"c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1","volume":"01010101010101010101010101010101","#,
        r#""incarnation":3,"phase":"formed","topology":{"epoch":18446744073709551615,"sets":[["a","b"]]},"#,
        r#""failed":null,"lost":"rot"}}"#,
        "\n"
    );
    let summed = |text: &str| {
        let body = &text[text.find("\"body\":").unwrap() + 7..text.len() - 2];
        text.replace("CHECKSUM", &blake3::hash(body.as_bytes()).to_hex())
    };
    assert_eq!(String::from_utf8(identity().encode()).unwrap(), summed(wanted));
    // The list of lost ranges is written only if it has entries.
    let noted_losses = [(7, 4096, Some(8192)), (9, 0, None)];
    let noted_losses =
        noted_losses.map(|(segment, offset, until)| LostRange { segment, offset, until }).to_vec();
    let identity = Identity { noted_losses, ..identity() };
    let wanted = wanted.replace(
        r#""lost":"rot"}"#,
        concat!(
            r#""lost":"rot","told":[{"segment":7,"offset":4096,"until":8192},"#,
            r#"{"segment":9,"offset":0,"until":null}]}"#
        ),
    );
    assert_eq!(String::from_utf8(identity.encode()).unwrap(), summed(&wanted));
    assert_eq!(Identity::decode(&identity.encode()).unwrap(), identity);
}

#[test]
fn a_flipped_byte_anywhere_is_refused() {
    let bytes = identity().encode();
    for at in 0..bytes.len() - 1 {
        for flip in [1, 0x20, 0x80] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            if let Ok(decoded) = Identity::decode(&damaged) {
                panic!("byte {at} flipped by {flip}: {decoded:?}");
            }
        }
        assert!(Identity::decode(&bytes[..at]).is_err());
    }
}

#[test]
fn an_update_is_the_old_or_the_new_after_every_power_cut() {
    let prepare = || {
        let disk = disk();
        let file = create(&disk, identity()).unwrap();
        (disk, file)
    };
    let (counted, file) = prepare();
    let before = counted.operations();
    file.update(|identity| identity.life = Life(4)).unwrap();
    for cut in before..=counted.operations() {
        for seed in 0..6 {
            let (disk, file) = prepare();
            disk.cut_power_at(cut);
            let is_updated = file.update(|identity| identity.life = Life(4)).is_ok();
            disk.restart(seed, Keep::Some);
            let found = open(&disk).unwrap().unwrap().identity().life;
            assert!(found == Life(4) || (found == Life(3) && !is_updated));
            assert_eq!(Identity { life: found, ..identity() }, open(&disk).unwrap().unwrap().identity());
        }
    }
}

#[test]
fn a_first_format_that_was_cut_leaves_an_empty_directory_or_a_volume() {
    let counted = disk();
    let before = counted.operations();
    create(&counted, identity()).unwrap();
    for cut in before..=counted.operations() {
        for seed in 0..6 {
            let disk = disk();
            disk.cut_power_at(cut);
            let is_made = create(&disk, identity()).is_ok();
            disk.restart(seed, Keep::Some);
            if let Some(file) = open(&disk).unwrap() {
                assert_eq!(file.identity(), identity());
            } else {
                assert!(!is_made);
                create(&disk, identity()).unwrap();
            }
        }
    }
}

#[test]
fn only_an_empty_directory_is_empty() {
    let disk = disk();
    assert!(open(&disk).unwrap().is_none());
    disk.create_dir(&Path::new(DIRECTORY).join("lost+found")).unwrap();
    let _lock = lock(&disk, Path::new(DIRECTORY)).unwrap();
    put(&disk, NEW_NAME, b"half");
    assert!(open(&disk).unwrap().is_none());
    disk.create_dir(&Path::new(DIRECTORY).join("log")).unwrap();
    assert!(matches!(open(&disk), Err(OpenError::Damaged { .. })));
    let missing = IdentityFile::open(Arc::new(disk.clone()), Path::new("/none"), ExpectedIdentity::default());
    assert!(matches!(missing, Err(OpenError::Io { .. })));
}

#[test]
fn a_foreign_volume_is_refused_with_both_ids() {
    let disk = disk();
    create(&disk, identity()).unwrap();
    let cluster = ExpectedIdentity { cluster: Some(ClusterId([0xee; 16])), volume: None };
    let volume = ExpectedIdentity { cluster: None, volume: Some(VolumeId([0xdd; 16])) };
    let right = ExpectedIdentity { cluster: Some(identity().cluster), volume: Some(identity().volume) };
    let open = |expected| IdentityFile::open(Arc::new(disk.clone()), Path::new(DIRECTORY), expected);
    for (expected, found, wanted) in [(cluster, "c1c1", "eeee"), (volume, "0101", "dddd")] {
        let error = open(expected).unwrap_err();
        assert!(matches!(error, OpenError::Foreign { .. }));
        let message = error.to_string();
        assert!(message.contains(found) && message.contains(wanted), "{message}");
    }
    assert!(open(right).unwrap().is_some());
}

#[test]
fn an_unknown_format_and_a_damaged_file_are_different_errors() {
    let next = disk();
    put(&next, FILE_NAME, br#"{"format":2,"anything":"else"}"#);
    assert!(matches!(open(&next), Err(OpenError::Version { version: 2, supported: 1, .. })));
    for bytes in [&b""[..], b"{}", b"null", &[0xff; 100], &identity().encode()[..100]] {
        let damaged = disk();
        put(&damaged, FILE_NAME, bytes);
        assert!(matches!(open(&damaged), Err(OpenError::Damaged { .. })));
    }
    let unreadable = disk();
    create(&unreadable, identity()).unwrap();
    unreadable.make_unreadable(&Path::new(DIRECTORY).join(FILE_NAME), 0..1).unwrap();
    assert!(matches!(open(&unreadable), Err(OpenError::Io { .. })));
}

#[test]
fn a_failed_volume_stays_failed_with_its_first_reason() {
    let disk = disk();
    let file = create(&disk, identity()).unwrap();
    file.update(|identity| identity.fail("sync failed")).unwrap();
    file.update(|identity| identity.fail("something later")).unwrap();
    disk.restart(1, Keep::Nothing);
    match open(&disk) {
        Err(OpenError::Failed { reason, .. }) => assert_eq!(reason, "sync failed"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_update_that_fails_changes_nothing_here_and_can_be_tried_again() {
    let disk = disk();
    let file = create(&disk, identity()).unwrap();
    let under = PathBuf::from(DIRECTORY);
    let _fault = disk.inject(Fault { under, call: Call::Sync, skip: 0, times: 1, failure: Failure::Io });
    assert!(matches!(file.update(|identity| identity.fail("x")), Err(OpenError::Io { .. })));
    assert_eq!(file.identity(), identity());
    assert!(file.still_here().is_ok());
    file.update(|identity| identity.fail("x")).unwrap();
    assert_eq!(file.identity().failed.as_deref(), Some("x"));
}

#[test]
fn a_removed_or_replaced_directory_is_noticed_and_an_update_is_not() {
    let disk = disk();
    let file = create(&disk, identity()).unwrap();
    assert_eq!(file.still_here(), Ok(()));
    file.update(|identity| identity.phase = Phase::Forming).unwrap();
    assert_eq!(file.still_here(), Ok(()));
    disk.vanish(Path::new(DIRECTORY)).unwrap();
    assert!(file.still_here().is_err());
    disk.create_dir(Path::new(DIRECTORY)).unwrap();
    create(&disk, identity()).unwrap();
    assert!(file.still_here().unwrap_err().reason.contains("replaced"));
}

#[test]
fn a_failure_is_not_written_into_the_directory_that_came_after() {
    for is_taken in [false, true] {
        let disk = disk();
        let file = create(&disk, identity()).unwrap();
        disk.vanish(Path::new(DIRECTORY)).unwrap();
        disk.create_dir(Path::new(DIRECTORY)).unwrap();
        if is_taken {
            create(&disk, identity()).unwrap();
        }
        let refused = file.update(|identity| identity.fail("a sync failed")).unwrap_err();
        assert!(
            matches!(&refused, OpenError::Io { source, .. } if source.kind() == ErrorKind::NotFound),
            "{refused}"
        );
        let found = open(&disk).unwrap();
        assert_eq!(found.map(|file| file.identity()), is_taken.then(identity), "taken: {is_taken}");
    }
}

#[test]
fn a_directory_has_one_owner() {
    let disk = disk();
    let held = lock(&disk, Path::new(DIRECTORY)).unwrap();
    assert!(matches!(lock(&disk, Path::new(DIRECTORY)), Err(OpenError::InUse { .. })));
    drop(held);
    lock(&disk, Path::new(DIRECTORY)).unwrap();
}
