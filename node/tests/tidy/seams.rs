//! Clocks, files, threads and entropy stay in the seams: clippy refuses them elsewhere, and here is the list
//! of files that may silence it.

use std::collections::BTreeSet;
use std::fs;

use super::scan::{all_words, attributes};
use super::source::{Source, members, root, sources};
use super::{bites_production, holds, spares};

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

/// Names of the bans, and of the groups of lints that they belong to.
const BANS: [&str; 6] = [
    "clippy::disallowed_methods",
    "clippy::disallowed_types",
    "clippy::disallowed_macros",
    "clippy::style",
    "clippy::all",
    "warnings",
];
/// Generated code, which is excused whole and has no clock.
const GENERATED: &str = "pub mod v1 {";

/// Only the seams may use what node/clippy.toml bans, and only by `expect`.
fn only_seams_are_excused(source: &Source) -> Vec<String> {
    let listed = SEAMS.contains(&source.path.as_str());
    let mut complaints = Vec::new();
    for attribute in attributes(&source.production) {
        let text = &source.production[attribute.clone()];
        let Some(at) = BANS.into_iter().find_map(|ban| all_words(text, ban).next()) else { continue };
        let last = |level: &str| text[..at].rfind(level);
        let is_raised = last("warn(").or(last("deny(")).is_some();
        let is_generated = source.production[attribute.end..].trim_start().starts_with(GENERATED);
        if !(is_raised || is_generated || listed && last("expect(").is_some()) {
            let what = "take the clock, disk or entropy that is passed in, or list the seam in seams.rs";
            complaints.push(source.complaint(attribute.start + at, what));
        }
    }
    complaints
}

#[test]
fn only_listed_seams_use_clocks_files_and_threads() {
    let excuse = "#![expect(clippy::disallowed_methods, reason = \"because\")]";
    for text in [
        excuse,
        "#[allow(unused, clippy::disallowed_types, reason = \"because\")]",
        "#[cfg_attr(unix, allow(clippy::disallowed_methods, reason = \"because\"))]",
        "#[allow(clippy::all, reason = \"because\")]",
        "#![allow(warnings, reason = \"because\")]",
    ] {
        bites_production(only_seams_are_excused, text);
    }
    assert!(only_seams_are_excused(&Source::new(SEAMS[0], excuse)).is_empty());
    let silenced = excuse.replace("expect", "allow");
    assert!(!only_seams_are_excused(&Source::new(SEAMS[0], &silenced)).is_empty());
    spares(only_seams_are_excused, "#![cfg_attr(not(test), warn(clippy::disallowed_methods))]");
    holds(only_seams_are_excused);
}

#[test]
fn every_listed_seam_is_one() {
    for path in SEAMS {
        let source = sources().iter().find(|source| source.path == path);
        let is_seam = source.is_some_and(|source| source.production.contains("clippy::disallowed_methods"));
        assert!(is_seam, "{path} uses nothing that is banned: take it from SEAMS");
    }
}

#[test]
fn every_crate_of_the_node_turns_the_bans_on() {
    let of_node = members().into_iter().filter(|member| member.split('/').next() == Some("node"));
    for member in of_node {
        let roots = ["lib", "main"].map(|root| format!("{member}/src/{root}.rs"));
        let roots: Vec<_> = sources().iter().filter(|source| roots.contains(&source.path)).collect();
        assert!(!roots.is_empty(), "{member} has no root");
        for source in roots {
            let ban = "#![cfg_attr(not(test), warn(clippy::disallowed_methods))]";
            assert!(source.code.contains(ban), "{}:1: turn the bans on with {ban}", source.path);
        }
    }
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
