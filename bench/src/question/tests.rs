//! Pages for a moment: every case has its row, and what is wrong is found.

use super::*;

fn moment(folder: &Path) -> Common {
    let (out, dir) = (folder.join("results"), folder.to_owned());
    Common { out, dir, binary: None, rounds: 1, seconds: 0.02, moment: true }
}

/// What a page leaves behind, after a moment.
fn results(page: &impl Page) -> Results {
    let folder = tempfile::tempdir().unwrap();
    Results::read(&answer(page, moment(folder.path())).unwrap()).unwrap()
}

fn has_rows(results: &Results, figure: &str, wanted: &[&[(&str, &str)]]) {
    for labels in wanted {
        let row = results.rows.iter().find(|row| row.is(labels));
        let row = row.unwrap_or_else(|| panic!("no row {labels:?}"));
        assert!(row.figure(figure).is_some_and(|value| value > 0.0), "{figure}: {row:?}");
    }
}

#[test]
fn computed_pages_have_their_rows_after_a_moment() {
    let checksums = results(&checksums::Arguments {});
    has_rows(&checksums, "mib_s", &[&[("algorithm", "sha256"), ("way", "list")]]);
    assert!(checksums.device.is_empty() && checksums.settings.contains_key("moment"));
    let erasure = results(&erasure::Arguments {});
    has_rows(
        &erasure,
        "moved_mib_s",
        &[&[("kernel", "copy"), ("geometry", "9+3"), ("lost", "3"), ("cache", "cold")]],
    );
    has_rows(&erasure, "ratio", &[&[("kernel", "reed-solomon-erasure"), ("op", "encode")]]);
}

#[test]
fn pages_about_the_device_have_their_rows_after_a_moment() {
    let write = results(&write_path::Arguments { mib: 1 });
    has_rows(
        &write,
        "p50_us",
        &[
            &[("part", "files"), ("variant", "direct"), ("op", "put")],
            &[("part", "files"), ("variant", "write-back-1MiB"), ("clients", "4")],
            &[("part", "log"), ("variant", "recycled"), ("op", "append")],
        ],
    );
    assert!(write.device.contains_key("fdatasync_p50_us"));
    let read = results(&read_path::Arguments {});
    let ways = ["pread", "hop", "nowait", "direct"];
    for way in ways {
        has_rows(
            &read,
            "ops_s",
            &[&[("variant", way), ("cache", "hot")], &[("variant", way), ("cache", "cold")]],
        );
    }
    let seen = cold::tests::can_be_seen(Path::new("."));
    assert!(read.rows.iter().all(|row| row.flags.is_empty()) || !seen, "cold is cold");
}

#[test]
fn what_went_wrong_is_written_and_ends_with_an_error() {
    struct Wrong;
    impl Page for Wrong {
        fn name(&self) -> &'static str {
            "wrong"
        }
        fn device_bytes(&self) -> u64 {
            0
        }
        fn round(&self, bench: &mut Bench, _: usize) -> Result<(), Error> {
            bench.add(Row::new([("op", "put".to_owned())]).with("ops_s", 1.0));
            bench.fault("it is not there");
            Ok(())
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let Err(Error::Faults { count: 1, path }) = answer(&Wrong, moment(folder.path())) else {
        panic!("no fault")
    };
    assert_eq!(Results::read(&path).unwrap().rows.len(), 1);
}

#[test]
fn a_debug_build_and_a_full_device_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let measured = Common { moment: false, ..moment(folder.path()) };
    if cfg!(debug_assertions) {
        assert!(matches!(answer(&checksums::Arguments {}, measured), Err(Error::Refused(_))));
    }
    assert!(host::require_room(folder.path(), u64::MAX).is_err());
    assert!(host::require_room(folder.path(), 0).is_ok());
}
