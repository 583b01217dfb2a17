//! Clocks, files, threads and entropy stay in the seams: clippy refuses them elsewhere, and here is the list
//! of files that may silence it.

use std::collections::BTreeSet;
use std::fs;

use super::source::{Source, all, root, sources};
use super::{bites, holds};

/// Files that may use what node/clippy.toml bans, because they are the seam.
const SEAMS: [&str; 15] = [
    "node/src/audit/file.rs",
    "node/src/process/ca/mod.rs",
    "node/src/process/ci/directory.rs",
    "node/src/process/config/directory.rs",
    "node/src/process/config/private_file.rs",
    "node/src/process/config/source.rs",
    "node/src/process/config/volumes.rs",
    "node/src/process/dev/lines.rs",
    "node/src/process/dev/nodes.rs",
    "node/net/src/tls/files.rs",
    "node/store/src/observe/metrics/process.rs",
    "node/store/src/machine/heap.rs",
    "node/store/src/machine/system.rs",
    "node/volume/src/disk/real.rs",
    "node/volume/src/index/lsm.rs",
];

/// Only the seams may use what node/clippy.toml bans, and only by `expect`.
fn only_seams_are_excused(source: &Source) -> Vec<String> {
    let production = &source.code[..source.tests_begin()];
    let listed = SEAMS.contains(&source.path.as_str());
    let mut complaints = Vec::new();
    for at in all(production, "clippy::disallowed_methods") {
        let before = production[..at].trim_end();
        let turned_on = before.ends_with("warn(");
        let is_for_tests = before.ends_with("#[cfg_attr(not(test), allow(dead_code,")
            && production[..at]
                .rfind("#[cfg(any(test, feature =")
                .is_some_and(|gate| production[gate..at].lines().count() <= 2);
        if !(turned_on || is_for_tests || listed && before.ends_with("expect(")) {
            complaints.push(source.complaint(at, "is not a listed seam"));
        }
    }
    complaints
}

#[test]
fn only_listed_seams_use_clocks_files_and_threads() {
    let excuse = "#![expect(clippy::disallowed_methods, reason = \"because\")]";
    assert!(bites(only_seams_are_excused, excuse));
    assert!(only_seams_are_excused(&Source::new(SEAMS[0], excuse)).is_empty());
    let silenced = excuse.replace("expect", "allow");
    assert!(!only_seams_are_excused(&Source::new(SEAMS[0], &silenced)).is_empty());
    assert!(!bites(only_seams_are_excused, "#![cfg_attr(not(test), warn(clippy::disallowed_methods))]"));
    holds(only_seams_are_excused);
}

#[test]
fn every_crate_of_the_node_turns_the_bans_on() {
    let crates = sources().into_iter().filter(|source| {
        source.path.starts_with("node/")
            && (source.path.ends_with("src/lib.rs") || source.path.ends_with("src/main.rs"))
    });
    let without: Vec<_> = crates
        .filter(|source| !source.code.contains("#![cfg_attr(not(test), warn(clippy::disallowed_methods))]"))
        .map(|source| source.path)
        .collect();
    assert!(without.is_empty(), "{without:?} do not turn on clippy::disallowed_methods");
}

#[test]
fn the_nodes_clippy_settings_repeat_those_of_the_workspace() {
    let read = |path: &str| {
        let text = fs::read_to_string(root().join(path)).expect("both files are there");
        text.parse::<toml::Table>().expect("both are TOML")
    };
    let (workspace, node) = (read(".clippy.toml"), read("node/clippy.toml"));
    for (key, value) in &workspace {
        assert_eq!(node.get(key), Some(value), "{key} holds in the workspace and not in node/");
    }
    let bans = node.get("disallowed-methods").and_then(toml::Value::as_array).expect("a list of bans");
    let banned: BTreeSet<_> = bans.iter().filter_map(|ban| ban.get("path")?.as_str()).collect();
    for path in [
        "std::time::SystemTime::now",
        "std::time::Instant::now",
        "tokio::spawn",
        "getrandom::fill",
        "std::fs::read",
    ] {
        assert!(banned.contains(path), "{path} is not banned");
    }
}
