//! A room uses those below it, never one above.
//!
//! A room is a module right below a crate's `src`: a folder or a file. The rooms that a file uses are read
//! off its paths: `crate::room`, and `super` as far as it leaves the room. Tests in a file of their own
//! (`tests.rs`, or a folder `tests`) may build on rooms above: a whole node is the best test of a peer.

use std::collections::BTreeSet;

use super::crates::crates;
use super::floors::knots;
use super::scan::{all, all_words, is_name, name_at};
use super::source::{Source, sources};

/// The crates as houses: path, and its rooms from top to bottom. A crate whose rooms make a knot has no such
/// order; `ratchet.toml` counts its arrows that run up.
const HOUSES: [(&str, &str); 19] = [
    ("node", "process server health audit log"),
    (
        "node/s3",
        "surface fuzzing service operation multipart object bucket gateway request access error head answer wire",
    ),
    ("node/iam", "service intake actions simulation authorize request auth answer fault form limits"),
    ("node/front", "verifier decision callers unproven denial audit source limits"),
    (
        "node/signature",
        "signer frames post_policy form_fields presigned_v2 presigned authorization credential_scope canonical \
         signing_key payload amz_date query error secret limits",
    ),
    ("node/net", "rpc links grpc wire tls listen"),
    ("node/store", "testing upkeep iam object views register stripe cluster peer volumes observe machine"),
    (
        "node/volume",
        "races support fuzzing open write read shard_file state request log index identity lookup format disk \
         options error buffer histogram sync limits",
    ),
    (
        "node/policy",
        "fuzzing presets rights identity outline policy public statement condition resource principal principal_text arn \
         action_test pattern caller facts key action json form malformed bytes limits",
    ),
    (
        "node/core",
        "report message register heal release iam config record stripe topology placement erasure md5 checksum \
         codec env sender id limits",
    ),
    ("node/models", "search"),
    ("proto", "fuzzing frame sender convert limits v1"),
    ("trust", "service authority certificate proof name limits"),
    ("admin", "user status ask plain limits"),
    (
        "client",
        "cli sync service transfer local s3 client document transport payload credentials endpoint checksum glob error limits",
    ),
    ("kubectl", "cli support status users logs node cluster session error limits"),
    ("e2e", "kubernetes prometheus history command"),
    (
        "bench",
        "cli race compare question quick load report stats alloc result subject client figure host blocking tls limits",
    ),
    (
        "operator",
        "controller listener buckets reconcile calls lease metrics mutual_tls turns api_words rotation rollout \
         secret_text api limits names",
    ),
];

fn rooms_of(house: &(&str, &'static str)) -> Vec<&'static str> {
    house.1.split_whitespace().collect()
}

/// A room uses those below it, never one above.
pub(crate) fn uses_only_rooms_below(source: &Source) -> Vec<String> {
    let house = HOUSES
        .iter()
        .find_map(|house| Some((rooms_of(house), source.path.strip_prefix(house.0)?.strip_prefix("/src/")?)));
    let Some((rooms, path)) = house else { return vec![] };
    let is_test = path.split('/').any(|part| part == "tests" || part == "tests.rs");
    if is_test || path == "lib.rs" || path == "main.rs" {
        return vec![];
    }
    let level = |room: &str| rooms.iter().position(|known| *known == room);
    let modules = modules_of(path);
    let Some(own) = level(modules[0]) else {
        return vec![source.complaint(0, "lies in no room: add it to rooms.rs")];
    };
    let mut complaints = Vec::new();
    for (at, room) in roots_of_paths(&source.code, modules.len()) {
        match level(room) {
            Some(used) if used >= own => {}
            Some(_) => {
                let what = format!("`{room}` is a room above `{}`: move what is used below it", rooms[own]);
                complaints.push(source.complaint(at, &what));
            }
            None => {
                complaints.push(source.complaint(at, &format!("`{room}` is no room: name the item's own")));
            }
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
    let Some(group) = path.strip_prefix('{') else { return vec![name_at(path, 0)] };
    let mut names = Vec::new();
    let (mut depth, mut begins) = (0, true);
    for (at, letter) in group.char_indices() {
        match letter {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' => begins |= depth == 0,
            _ if begins && !letter.is_whitespace() => {
                names.push(name_at(group, at));
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
}

#[test]
fn every_crate_has_an_order_or_a_knot() {
    for one in crates() {
        let path = one.src.trim_end_matches("/src/");
        let knots = knots(one).into_iter().filter(|knot| knot.room == format!("{path}/src")).count();
        let rooms: BTreeSet<_> = one.files.keys().filter_map(|module| module.first()).collect();
        let houses = HOUSES.iter().filter(|house| house.0 == path).count();
        assert_eq!(
            houses,
            usize::from(knots == 0),
            "{path} has {knots} knots: order {rooms:?} in rooms.rs if it has none"
        );
    }
}

/// The root of a house.
fn root_of(house: &(&str, &str)) -> &'static Source {
    let path = format!("{}/src/lib.rs", house.0);
    sources().iter().find(|source| source.path == path).expect("each crate has a lib.rs")
}

#[test]
fn a_room_above_is_seen_in_every_crate() {
    for house in &HOUSES {
        let rooms = rooms_of(house);
        let [top, .., bottom] = rooms[..] else { continue };
        for text in
            [format!("use crate::{top}::A;"), format!("#[cfg(test)]\nmod a;\npub use crate::{top}::A;")]
        {
            for kind in [format!("{bottom}.rs"), format!("{bottom}/mod.rs"), format!("{bottom}/deep/part.rs")]
            {
                assert_eq!(
                    complaints(&format!("{}/src/{kind}", house.0), &text).len(),
                    1,
                    "{} {kind}",
                    house.0
                );
            }
        }
    }
}

#[test]
fn the_rooms_are_the_modules_that_each_crate_declares() {
    for house in &HOUSES {
        let code = &root_of(house).code;
        let declared: BTreeSet<_> =
            all_words(code, "mod").map(|at| name_at(code, at + "mod ".len())).collect();
        assert_eq!(declared, rooms_of(house).into_iter().collect(), "{}", house.0);
    }
}

#[test]
fn a_crate_whose_head_draws_its_rooms_draws_them_in_order() {
    let mut drawn = 0;
    for house in &HOUSES {
        let root = root_of(house);
        let Some(table) = root.text.split("//! ```").nth(1) else { continue };
        let listed: Vec<_> =
            table.lines().filter_map(|line| line.strip_prefix("//! ")?.split_whitespace().next()).collect();
        let is_shipped = |room: &&str| !root.test_modules.iter().any(|name| name == room);
        let rooms: Vec<_> = rooms_of(house).into_iter().filter(is_shipped).collect();
        let draws_rooms = listed.iter().any(|name| rooms.contains(name));
        assert!(
            !draws_rooms || listed == rooms,
            "{}:1: draws {listed:?}, and its rooms are {rooms:?}",
            root.path
        );
        drawn += usize::from(listed == rooms);
    }
    assert!(drawn >= 6, "{drawn} heads were read");
}
