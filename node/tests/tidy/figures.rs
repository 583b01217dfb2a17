//! Figures that are counted by room, for `ratchet`: each figure may only fall.
//!
//! A room is a module right below a crate's `src`, named by its path (`node/core/src/record`); the `src`
//! itself stands for the order of the rooms; test files of a crate are one room (`node/tests`). Pages are
//! counted by folder.

use std::collections::{BTreeMap, BTreeSet};

use super::bounds::limits_outside;
use super::circles::{circles_by_imports, circles_by_self};
use super::comments::{dialect, pronouns, wide_comments};
use super::crates::{Crate, crates};
use super::docs::thousands_of_words;
use super::floors::{knots, upward_arrows};
use super::nouns::bare_participles;
use super::requests::{header_maps, operations_outside};
use super::rooms::uses_only_rooms_below;
use super::sleeps::sleeps;
use super::source::{Source, members};
use super::types::{files_of_a_type, methods_of_a_type};

/// A part of a figure.
pub(crate) struct Finding {
    pub(crate) room: String,
    pub(crate) count: usize,
    /// File, line, and what to do.
    pub(crate) place: String,
}

/// A figure of a file: the offsets of what it counts.
type InFile = fn(&Source) -> Vec<usize>;
/// A figure of a crate.
type InCrate = fn(&Crate<'_>) -> Vec<Finding>;

/// Figures that are counted file by file, each with what to do.
const BY_FILE: [(&str, InFile, &str); 8] = [
    ("bare_participles", bare_participles, "say of what: add the noun to the name of the type"),
    ("dialect", dialect, "say who does what, and how often"),
    ("pronouns", pronouns, "begin the comment with the noun that it is about"),
    ("wide_comments", wide_comments, "wrap the comment at 110 columns"),
    ("limits", limits_outside, "move the limit to a limits.rs, with where its number comes from"),
    ("header_maps", header_maps, "take the parsed values, and no map of headers"),
    ("operations", operations_outside, "make what is asked of the operation a column of its table"),
    ("sleeps", sleeps, "wait for the event, or pause the clock in this file"),
];

/// Figures that are counted crate by crate.
const BY_CRATE: [(&str, InCrate); 6] = [
    ("circles", circles_by_imports),
    ("self_circles", circles_by_self),
    ("upward_arrows", upward_arrows),
    ("knots", knots),
    ("files_of_a_type", files_of_a_type),
    ("methods_of_a_type", methods_of_a_type),
];

/// All figures, by what they count.
pub(crate) fn all_figures(sources: &[Source]) -> BTreeMap<&'static str, Vec<Finding>> {
    let mut figures = BTreeMap::from([("thousands_of_words", thousands_of_words())]);
    for (what, count, to_do) in BY_FILE {
        let of_file = |source: &Source| {
            let finding =
                |at| Finding { room: room_of(&source.path), count: 1, place: source.complaint(at, to_do) };
            count(source).into_iter().map(finding).collect::<Vec<_>>()
        };
        figures.insert(what, sources.iter().flat_map(of_file).collect());
    }
    let above = |source: &Source| {
        let finding = |place| Finding { room: room_of(&source.path), count: 1, place };
        uses_only_rooms_below(source).into_iter().map(finding).collect::<Vec<_>>()
    };
    figures.insert("rooms_above", sources.iter().flat_map(above).collect());
    let crates = crates();
    for (what, count) in BY_CRATE {
        figures.insert(what, crates.iter().flat_map(count).collect());
    }
    figures
}

/// All rooms, with or without a figure.
pub(crate) fn all_rooms(sources: &[Source]) -> BTreeSet<String> {
    let roots = members().into_iter().map(|member| format!("{member}/src"));
    let folders = thousands_of_words().into_iter().map(|finding| finding.room);
    sources.iter().map(|source| room_of(&source.path)).chain(roots).chain(folders).collect()
}

/// The room of a file.
fn room_of(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    let top = parts.iter().position(|part| matches!(*part, "src" | "tests" | "benches" | "examples"));
    match top {
        Some(at) if parts[at] == "src" => {
            let room = parts.get(at + 1).map_or("", |name| name.trim_end_matches(".rs"));
            format!("{}/{room}", parts[..=at].join("/"))
        }
        Some(at) => parts[..=at].join("/"),
        None => parts[..parts.len() - 1].join("/"),
    }
}

#[test]
fn rooms_are_named_by_path() {
    for (path, room) in [
        ("node/core/src/record/mod.rs", "node/core/src/record"),
        ("node/core/src/id.rs", "node/core/src/id"),
        ("node/src/s3/tests/a.rs", "node/src/s3"),
        ("node/tests/tidy/main.rs", "node/tests"),
        ("fuzz/fuzz_targets/row.rs", "fuzz/fuzz_targets"),
    ] {
        assert_eq!(room_of(path), room);
    }
}
