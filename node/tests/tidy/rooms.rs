//! A room uses those below it, never one above.
//!
//! A room is a module right below a crate's `src`: a folder or a file. The rooms that a file uses are read
//! off its paths: `crate::room`, and `super` as far as it leaves the room. Tests in a file of their own
//! (`tests.rs`, or a folder `tests`) may build on rooms above: a whole node is the best test of a peer.

use std::fs;

use super::holds;
use super::source::{Source, all, is_name, root};

/// A crate as a house: its rooms from top to bottom.
struct House {
    src: &'static str,
    rooms: &'static [&'static str],
}

const HOUSES: [House; 7] = [
    House { src: "node/src/", rooms: &["process", "server", "health", "audit", "log"] },
    House {
        src: "node/iam/src/",
        rooms: &[
            "service",
            "intake",
            "actions",
            "simulation",
            "authorize",
            "request",
            "auth",
            "answer",
            "fault",
            "form",
            "limits",
        ],
    },
    House { src: "node/net/src/", rooms: &["rpc", "links", "grpc", "wire", "tls", "listen"] },
    House {
        src: "node/store/src/",
        rooms: &[
            "testing", "upkeep", "iam", "object", "views", "register", "stripe", "cluster", "peer",
            "volumes", "observe", "machine",
        ],
    },
    House {
        src: "node/volume/src/",
        rooms: &[
            // Modules for tests and fuzzing only.
            "races",
            "support",
            "fuzzing",
            // The work of a volume, and its state.
            "open",
            "write",
            "read",
            "shard_file",
            "state",
            "request",
            // The bytes, and where they lie.
            "log",
            "index",
            "identity",
            "lookup",
            "format",
            "disk",
            "options",
            "error",
            "buffer",
            "histogram",
            "sync",
            "limits",
        ],
    },
    House {
        src: "node/policy/src/",
        rooms: &[
            "fuzzing",
            "rights",
            "identity",
            "outline",
            "policy",
            "public",
            "statement",
            "condition",
            "resource",
            "principal",
            "principal_text",
            "arn",
            "action_test",
            "pattern",
            "caller",
            "facts",
            "key",
            "action",
            "json",
            "form",
            "malformed",
            "bytes",
            "limits",
        ],
    },
    House {
        src: "node/core/src/",
        rooms: &[
            "report",
            "message",
            "register",
            "heal",
            "release",
            "iam",
            "config",
            "record",
            "stripe",
            "topology",
            "placement",
            "erasure",
            "md5",
            "checksum",
            "codec",
            "env",
            "sender",
            "id",
            "limits",
        ],
    },
];

/// A room uses those below it, never one above.
fn uses_only_rooms_below(source: &Source) -> Vec<String> {
    let house = HOUSES.iter().find_map(|house| Some((house, source.path.strip_prefix(house.src)?)));
    let Some((house, path)) = house else { return vec![] };
    let is_test = path.split('/').any(|part| part == "tests" || part == "tests.rs");
    if is_test || path == "lib.rs" || path == "main.rs" {
        return vec![];
    }
    let level = |room: &str| house.rooms.iter().position(|known| *known == room);
    let modules = modules_of(path);
    let Some(own) = level(modules[0]) else { return vec![source.complaint(0, "lies in no room")] };
    let mut complaints = Vec::new();
    for (at, room) in roots_of_paths(&source.code, modules.len()) {
        match level(room) {
            Some(used) if used >= own => {}
            Some(_) => complaints
                .push(source.complaint(at, &format!("`{room}` is a room above `{}`", house.rooms[own]))),
            None => complaints.push(source.complaint(at, &format!("`{room}` is no room"))),
        }
    }
    complaints
}

/// The modules that a file lies in, its own the last: `read/mod.rs` and `read.rs` are both `read`.
fn modules_of(path: &str) -> Vec<&str> {
    let path = path.trim_end_matches(".rs");
    path.strip_suffix("/mod").unwrap_or(path).split('/').collect()
}

/// The names that paths take right below the crate's root, for a file `depth` modules deep.
fn roots_of_paths(code: &str, depth: usize) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for at in all(code, "crate::").filter(|&at| begins_a_name(code, at)) {
        found.extend(first_names(&code[at + "crate::".len()..]).into_iter().map(|name| (at, name)));
    }
    // A `super` behind another one belongs to the path that began there.
    for at in all(code, "super::").filter(|&at| begins_a_name(code, at) && !code[..at].ends_with("super::")) {
        let path = &code[at..];
        let rest = path.trim_start_matches("super::");
        let ups = (path.len() - rest.len()) / "super::".len();
        if ups >= depth + inline_modules(&code[..at]) {
            found.extend(first_names(rest).into_iter().map(|name| (at, name)));
        }
    }
    found
}

fn begins_a_name(code: &str, at: usize) -> bool {
    !code[..at].bytes().next_back().is_some_and(is_name)
}

/// The name that a path goes on with, or those of its group.
fn first_names(path: &str) -> Vec<&str> {
    let name = |text: &str| text.bytes().take_while(|&byte| is_name(byte)).count();
    let Some(group) = path.strip_prefix('{') else { return vec![&path[..name(path)]] };
    let mut names = Vec::new();
    let (mut depth, mut begins) = (0, true);
    for (at, letter) in group.char_indices() {
        match letter {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' => begins |= depth == 0,
            _ if begins && !letter.is_whitespace() => {
                names.push(&group[at..at + name(&group[at..])]);
                begins = false;
            }
            _ => {}
        }
    }
    names
}

/// Modules with a body that are open at the end of this text.
fn inline_modules(code: &str) -> usize {
    let mut open = Vec::new();
    for (at, letter) in code.char_indices() {
        if letter == '{' {
            let before = code[..at].trim_end();
            let keyword = before.trim_end_matches(|letter: char| letter.is_alphanumeric() || letter == '_');
            open.push(keyword.trim_end().ends_with("mod") && keyword.len() < before.len());
        } else if letter == '}' {
            open.pop();
        }
    }
    open.into_iter().filter(|is_module| *is_module).count()
}

/// The rule's verdict on a text in this file.
fn complaints(path: &str, text: &str) -> Vec<String> {
    uses_only_rooms_below(&Source::new(path, text))
}

#[test]
fn every_room_uses_only_those_below_it() {
    let stripe = "node/store/src/stripe/read.rs";
    for text in [
        "use crate::upkeep::Damage;",
        "use crate::{peer::Peer, upkeep::{Damage, Pins}};",
        "fn a() { crate::object::run() }",
        "use super::super::register;",
        "mod inner { mod tests { use super::super::super::super::{cluster, object}; } }",
        "#[cfg(test)]\nmod tests { use crate::upkeep::tests::Directories; }",
        "use crate::Damage;",
    ] {
        assert_eq!(complaints(stripe, text).len(), 1, "{text}");
    }
    for text in [
        "use crate::cluster::{Cluster, upkeep};",
        "use crate::{peer::{object, Peer}, stripe};",
        "use super::upkeep;",
        "mod tests { use super::super::register; }",
        "fn a() { if mod_b { super::super::peer::ask() } }",
        "// crate::upkeep::Damage",
        "use another_crate::upkeep;",
    ] {
        assert!(complaints(stripe, text).is_empty(), "{text}");
    }

    let upwards = "use crate::process::serve::run;";
    assert!(
        complaints("node/store/src/upkeep/tests/sweeps.rs", upwards).is_empty(),
        "tests may build whole nodes"
    );
    assert!(complaints("node/store/src/upkeep/release/tests.rs", upwards).is_empty());
    assert!(!complaints("node/store/src/upkeep/release/mod.rs", upwards).is_empty());
    assert!(complaints("node/src/lib.rs", "use crate::object::Objects;").is_empty());
    assert_eq!(complaints("node/store/src/attic/mod.rs", "").len(), 1, "it lies in no room");
    assert!(!complaints("node/volume/src/log/read.rs", "use crate::open::open;").is_empty());
    assert!(!complaints("node/volume/src/sync.rs", "use super::log;").is_empty());
    assert!(!complaints("node/core/src/record/mod.rs", "use crate::register::Refusal;").is_empty());
    holds(uses_only_rooms_below);
}

#[test]
fn the_rooms_are_the_modules_that_each_crate_declares() {
    for house in &HOUSES {
        let path = format!("{}lib.rs", house.src);
        let text = fs::read_to_string(root().join(&path)).expect("each crate has a lib.rs");
        let mut declared: Vec<_> = text
            .lines()
            .filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';'))
            .collect();
        let mut rooms = house.rooms.to_vec();
        declared.sort_unstable();
        rooms.sort_unstable();
        assert_eq!(declared, rooms, "{path}");
    }
}

#[test]
fn the_heads_of_the_crates_list_their_rooms_in_order() {
    for house in &HOUSES[..3] {
        let text = fs::read_to_string(root().join(house.src).join("lib.rs")).expect("a crate has a lib.rs");
        let table = text.split("//! ```").nth(1).expect("it draws the rooms");
        let listed: Vec<_> =
            table.lines().filter_map(|line| line.strip_prefix("//! ")?.split_whitespace().next()).collect();
        let rooms: Vec<_> = house.rooms.iter().copied().filter(|room| *room != "testing").collect();
        assert_eq!(listed, rooms, "{}", house.src);
    }
}
