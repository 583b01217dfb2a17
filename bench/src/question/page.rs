//! One question as a `Page`, and the frame that runs it: the device's figures first, then rounds, then the
//! file of results. Every write is synced, every byte that is read is compared with the written one, and
//! failed operations are counted and end the command with 1.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use super::bench::{Bench, Options};
use super::error::Error;
use super::rounds::Rounds;
use crate::host::{self, device};
use crate::result::{Results, SCHEMA};

pub(super) trait Page {
    /// The question's name on the command line, and of its file of results.
    fn name(&self) -> &'static str;

    /// The most bytes that the question has on the device at one time; with 0, the device is not measured.
    fn device_bytes(&self) -> u64;

    /// Measures every case once; `round` counts from 0. Rounds go over all cases, so that other load on the
    /// machine affects them alike.
    ///
    /// # Errors
    /// Nothing could be measured.
    fn round(&self, _bench: &mut Bench, _round: usize) -> Result<(), Error> {
        Ok(())
    }

    /// Measures what is too long for rounds, after them.
    ///
    /// # Errors
    /// Nothing could be measured.
    fn once(&self, _bench: &mut Bench) -> Result<(), Error> {
        Ok(())
    }
}

/// Answers `page` and returns the path of its file of results.
///
/// # Errors
/// [`Error`].
pub(super) fn answer(page: &impl Page, options: Options) -> Result<PathBuf, Error> {
    host::refuse_debug_build(options.moment)?;
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    std::fs::create_dir_all(&options.dir).map_err(Error::at("make the folder to measure in"))?;
    let (needed, moment) = (page.device_bytes(), options.moment);
    if needed > 0 && !moment {
        host::require_room(&options.dir, needed)?;
    }
    let device = if needed > 0 {
        device::measure(&options.dir, device::Effort::of(moment))
    } else {
        Ok(BTreeMap::new())
    };
    let mut bench = Bench {
        device: device.map_err(Error::at("measure the device"))?,
        settings: host::settings(&options.dir),
        rounds: Rounds::default(),
        faults: 0,
        options,
    };
    for round in 0..bench.rounds() {
        page.round(&mut bench, round)?;
    }
    page.once(&mut bench)?;
    bench.set("durability", &"fsync");
    bench.set("rounds", &bench.rounds());
    bench.set("seconds", &bench.window().as_secs_f64());
    if moment {
        bench.set("moment", &true);
    }
    let Bench { options, device, settings, rounds, faults: count } = bench;
    let rows = rounds.rows();
    for row in &rows {
        println!("{}", row.line());
    }
    let results = Results { schema: SCHEMA, suite: page.name().to_owned(), started, settings, device, rows };
    let path = results.write(&options.out)?;
    if count > 0 { Err(Error::Faults { count, path }) } else { Ok(path) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::question::{erasure, floors};
    use crate::result::Row;
    use std::path::Path;

    fn moment(folder: &Path) -> Options {
        let (out, dir) = (folder.join("results"), folder.to_owned());
        Options { out, dir, binary: None, rounds: 1, seconds: 0.02, moment: true }
    }

    fn has_row(results: &Results, figure: &str, labels: &[(&str, &str)]) {
        let row = results.rows.iter().find(|row| row.is(labels));
        let row = row.unwrap_or_else(|| panic!("no row {labels:?}"));
        assert!(row.figure(figure).is_some_and(|value| value > 0.0), "{figure}: {row:?}");
    }

    #[test]
    fn a_page_has_its_rows_after_a_moment() {
        let folder = tempfile::tempdir().unwrap();
        let path = answer(&erasure::Arguments {}, moment(folder.path())).unwrap();
        let erasure = Results::read(&path).unwrap();
        let copy = [("kernel", "copy"), ("geometry", "9+3"), ("lost", "3"), ("cache", "cold")];
        has_row(&erasure, "moved_mib_s", &copy);
        has_row(&erasure, "ratio", &[("kernel", "reed-solomon-erasure"), ("op", "encode")]);
        assert!(erasure.device.is_empty() && erasure.settings.contains_key("moment"));
    }

    #[test]
    fn the_floors_have_a_row_for_each_layer() {
        let folder = tempfile::tempdir().unwrap();
        let path = answer(&floors::Arguments {}, moment(folder.path())).unwrap();
        let floors = Results::read(&path).unwrap();
        for (layer, ways) in [
            ("socket", ["256KiB", "1MiB"].as_slice()),
            ("tls", &["256KiB", "1MiB", "buffered-256KiB", "buffered-1MiB", "records-1MiB"]),
            ("http1", &["get-256KiB", "get-1MiB", "put-256KiB", "put-1MiB"]),
            ("http2", &["256KiB", "1MiB", "buffered-256KiB", "buffered-1MiB"]),
            ("md5", &["one-stream", "streams-2", "streams-4"]),
            ("blake3", &["blocks-64KiB"]),
            ("copy", &["memory"]),
            ("erasure", &["encode-2+2", "reconstruct-2+2"]),
            ("write", &["direct-256KiB", "direct-1MiB"]),
            ("read", &["direct-256KiB", "direct-1MiB", "cold-256KiB", "cold-1MiB"]),
            ("shard-write", &["local", "call"]),
            ("shard-read", &["local", "call"]),
        ] {
            for way in ways {
                has_row(&floors, "core_mib_s", &[("layer", layer), ("way", way)]);
            }
        }
        has_row(&floors, "receiver_core_mib_s", &[("layer", "socket"), ("way", "1MiB")]);
        has_row(&floors, "sender_core_mib_s", &[("layer", "http1"), ("way", "put-1MiB")]);
    }

    #[test]
    fn a_fault_is_written_and_ends_with_an_error() {
        struct Wrong;
        impl Page for Wrong {
            fn name(&self) -> &'static str {
                "wrong"
            }
            fn device_bytes(&self) -> u64 {
                1
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
        let results = Results::read(&path).unwrap();
        assert_eq!(results.rows.len(), 1);
        assert!(
            results.device.contains_key("fdatasync_p50_us"),
            "the device's figures stand beside the rows"
        );
    }

    #[test]
    fn a_debug_build_and_a_full_device_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let measured = Options { moment: false, ..moment(folder.path()) };
        if cfg!(debug_assertions) {
            assert!(matches!(answer(&erasure::Arguments {}, measured), Err(Error::Refused(_))));
        }
        assert!(host::require_room(folder.path(), u64::MAX).is_err());
        assert!(host::require_room(folder.path(), 0).is_ok());
    }
}
