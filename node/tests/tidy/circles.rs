//! No circle of files in `core` and `volume`: following what files use never leads back to where one began.
//!
//! What a file uses is read off its `use` trees and its paths (`crate::`, `super::`, `self::`, or a module of its
//! own), each followed through `pub use` to the file that defines the item. That a file has a module, or hands out
//! its items, is no use of it. Test code does not count.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Source, is_name, sources};

/// A module's names below its crate; none for the root.
type Module<'a> = Vec<&'a str>;

/// A file: what it defines, uses, and hands out from elsewhere.
#[derive(Default)]
struct File<'a> {
    defines: BTreeSet<&'a str>,
    uses: Vec<Vec<&'a str>>,
    /// Under which name, and whose; `*` is all.
    hands_out: Vec<(&'a str, Vec<&'a str>)>,
}

type Files<'a> = BTreeMap<Module<'a>, File<'a>>;

const ITEMS: [&str; 9] = ["struct", "enum", "trait", "type", "fn", "const", "static", "union", "macro_rules"];

/// Names, `::`, and every other character alone.
fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let length = match rest.bytes().take_while(|&byte| is_name(byte)).count() {
            0 if rest.starts_with("::") => 2,
            0 => first.len_utf8(),
            length => length,
        };
        if !first.is_whitespace() {
            tokens.push(&rest[..length]);
        }
        rest = &rest[length..];
    }
    tokens
}

/// The place behind the bracket that closes the one at `open`.
fn closed(tokens: &[&str], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match *token {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// Whether an attribute begins here that only test builds (or fuzzing) fulfil.
fn is_for_tests(tokens: &[&str], at: usize) -> bool {
    let begins = |attribute: &[&str]| tokens[at..].starts_with(attribute);
    begins(&["#", "[", "cfg", "(", "test"]) || begins(&["#", "[", "cfg", "(", "any", "(", "test"])
}

/// Takes test items out. With them go the modules in files of their own: their names.
fn without_tests<'a>(tokens: &[&'a str]) -> (Vec<&'a str>, Vec<&'a str>) {
    let (mut kept, mut modules) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        if !is_for_tests(tokens, at) {
            kept.push(tokens[at]);
            at += 1;
            continue;
        }
        // Up to the end of the item: a semicolon, or its body.
        at = closed(tokens, at + 1);
        while at < tokens.len() && !matches!(tokens[at], ";" | "{") {
            if tokens[at] == "mod" && tokens.get(at + 2) == Some(&";") {
                modules.push(tokens[at + 1]);
            }
            at = if matches!(tokens[at], "(" | "[") { closed(tokens, at) } else { at + 1 };
        }
        at = if tokens.get(at) == Some(&"{") { closed(tokens, at) } else { at + 1 };
    }
    (kept, modules)
}

/// The paths of a `use` tree, each with the name that it ends as. Returns the place behind the tree.
fn use_tree<'a>(
    tokens: &[&'a str],
    mut at: usize,
    prefix: &[&'a str],
    found: &mut Vec<(&'a str, Vec<&'a str>)>,
) -> usize {
    let mut path = prefix.to_vec();
    loop {
        match tokens.get(at) {
            // Of another crate, whatever modules here are called: no file has this name.
            Some(&"::") if path.is_empty() => (path, at) = (vec!["::"], at + 1),
            Some(&"::") => at += 1,
            Some(&"{") => {
                at += 1;
                while tokens.get(at).is_some_and(|token| *token != "}") {
                    at = use_tree(tokens, at, &path, found);
                    at += usize::from(tokens.get(at) == Some(&","));
                }
                return at + 1;
            }
            Some(&"as") => {
                found.push((tokens[at + 1], path));
                return at + 2;
            }
            Some(name) if !matches!(*name, "," | ";" | "}") => {
                path.push(name);
                at += 1;
            }
            _ => {
                if path.len() > 1 && path.last() == Some(&"self") {
                    path.pop();
                }
                found.extend(path.last().copied().map(|name| (name, path.clone())));
                return at;
            }
        }
    }
}

/// Reads a file. `children` are the modules below it.
fn file<'a>(tokens: &[&'a str], children: &BTreeSet<&str>) -> File<'a> {
    let mut file = File::default();
    let mut at = 0;
    let mut is_public = false;
    while at < tokens.len() {
        let (token, before) = (tokens[at], at.checked_sub(1).map_or("", |before| tokens[before]));
        let next = |ahead: usize| tokens.get(at + ahead).copied().unwrap_or("");
        match token {
            "pub" => {
                is_public = true;
                at = if next(1) == "(" { closed(tokens, at + 1) } else { at + 1 };
                continue;
            }
            // `use<'a>` in a type is no import.
            "use" if next(1) != "<" => {
                let mut found = Vec::new();
                at = use_tree(tokens, at + 1, &[], &mut found);
                if is_public {
                    file.hands_out.append(&mut found);
                } else {
                    file.uses.extend(found.into_iter().map(|(_, path)| path));
                }
            }
            _ if before != "::" && next(1) == "::" && is_own_root(token, children) => {
                let mut path = if children.contains(token) { vec!["self"] } else { vec![] };
                while tokens.get(at).is_some_and(|token| token.bytes().all(is_name)) {
                    path.push(tokens[at]);
                    at += 1;
                    if tokens.get(at) != Some(&"::") {
                        break;
                    }
                    at += 1;
                }
                file.uses.push(path);
            }
            keyword if ITEMS.contains(&keyword) => {
                file.defines.insert(if next(1) == "!" { next(2) } else { next(1) });
                at += 1;
            }
            _ => at += 1,
        }
        is_public = false;
    }
    file
}

fn is_own_root(token: &str, children: &BTreeSet<&str>) -> bool {
    matches!(token, "crate" | "super" | "self") || children.contains(token)
}

/// The module of a file below `src`.
fn module_of(path: &str) -> Module<'_> {
    let path = path.trim_end_matches(".rs");
    let mut names: Vec<_> = path.split('/').collect();
    if matches!(names.last(), Some(&("mod" | "lib" | "main"))) {
        names.pop();
    }
    names
}

/// Reads the files of a crate, by their paths below `src`.
fn files<'a>(crate_files: &[(&'a str, &'a str)]) -> Files<'a> {
    let mut read: BTreeMap<Module<'_>, Vec<&str>> = BTreeMap::new();
    let mut tests = vec![vec!["main"]];
    for (path, code) in crate_files.iter().filter(|(path, _)| *path != "main.rs") {
        let module = module_of(path);
        let (kept, for_tests) = without_tests(&tokens(code));
        tests.extend(for_tests.into_iter().map(|name| [&module[..], &[name]].concat()));
        read.insert(module, kept);
    }
    read.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
    let children_of = |module: &Module<'_>| -> BTreeSet<&str> {
        let below = read.keys().filter(|one| one.len() == module.len() + 1 && one.starts_with(module));
        below.filter_map(|one| one.last().copied()).collect()
    };
    read.iter().map(|(module, tokens)| (module.clone(), file(tokens, &children_of(module)))).collect()
}

/// The file that defines what a path in `module` names; none where that is another crate's.
fn resolve<'a>(files: &Files<'a>, module: &Module<'a>, path: &[&'a str], depth: usize) -> Option<Module<'a>> {
    let mut at = module.clone();
    let mut path = path;
    match path.first()? {
        &"crate" => (at, path) = (vec![], &path[1..]),
        &"self" => path = &path[1..],
        &"super" => {
            while path.first() == Some(&"super") {
                at.pop();
                path = &path[1..];
            }
        }
        name => {
            let is_child = files.contains_key(&[&at[..], &[name]].concat());
            if !is_child {
                return None;
            }
        }
    }
    while let Some(name) = path.first() {
        let below = [&at[..], &[name]].concat();
        if !files.contains_key(&below) {
            break;
        }
        (at, path) = (below, &path[1..]);
    }
    let file = files.get(&at)?;
    let Some(name) = path.first() else { return Some(at) };
    if depth < 8 && !file.defines.contains(name) {
        let handed_out = file.hands_out.iter().filter(|(as_name, _)| as_name == name || *as_name == "*");
        for (as_name, from) in handed_out {
            let from = if *as_name == "*" { &from[..from.len() - 1] } else { &from[..] };
            let found = resolve(files, &at, from, depth + 1);
            if let Some(found) = found.filter(|found| *as_name != "*" || files[found].defines.contains(name))
            {
                return Some(found);
            }
        }
    }
    Some(at)
}

/// The circles among the files of a crate, each with what leads around it.
fn circles(crate_files: &[(&str, &str)]) -> Vec<String> {
    let files = files(crate_files);
    let mut edges: BTreeMap<&Module<'_>, BTreeMap<Module<'_>, BTreeSet<&str>>> = BTreeMap::new();
    for (module, file) in &files {
        for path in &file.uses {
            if let Some(used) = resolve(&files, module, path, 0).filter(|used| used != module) {
                let names = edges.entry(module).or_default().entry(used).or_default();
                names.extend(path.last());
            }
        }
    }
    let reached = |from: &Module<'_>| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(next) = open.pop() {
            for used in edges.get(&next).into_iter().flat_map(|used| used.keys()) {
                if seen.insert(used.clone()) {
                    open.push(used.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<_, _> = files.keys().map(|module| (module, reached(module))).collect();
    let mut told = BTreeSet::new();
    let mut complaints = Vec::new();
    for (module, from) in &reached {
        if !from.contains(*module) || told.contains(*module) {
            continue;
        }
        let circle: BTreeSet<_> = from.iter().filter(|other| reached[other].contains(*module)).collect();
        for one in &circle {
            told.insert((*one).clone());
            for (used, names) in edges[*one].iter().filter(|(used, _)| circle.contains(used)) {
                complaints.push(format!("{} uses {names:?} of {}", one.join("::"), used.join("::")));
            }
        }
    }
    complaints
}

#[test]
fn a_circle_of_files_is_found() {
    for (why, files) in [
        ("two", vec![("a.rs", "use crate::b::B; struct A;"), ("b.rs", "use crate::a::A; struct B;")]),
        ("a path", vec![("a.rs", "fn a() { crate::b::b() }"), ("b.rs", "fn b() -> super::a::A {}")]),
        ("groups", vec![("a.rs", "use crate::{c, b::{self, B}};"), ("b.rs", "use super::a; struct B;")]),
        (
            "three",
            vec![("a.rs", "use crate::b::B;"), ("b.rs", "use crate::c::C;"), ("c.rs", "use crate::a::A;")],
        ),
        (
            "parent and child",
            vec![("a/mod.rs", "mod b; use b::B; struct A;"), ("a/b.rs", "use super::A; struct B;")],
        ),
        (
            "a path into a child",
            vec![("a/mod.rs", "mod b; struct A(b::B);"), ("a/b.rs", "use super::A; struct B;")],
        ),
        (
            "handed out",
            vec![
                ("a/mod.rs", "mod low; pub use low::Low; use crate::b::B;"),
                ("a/low.rs", "use crate::b::B; struct Low;"),
                ("b.rs", "use crate::a::Low; struct B;"),
            ],
        ),
        (
            "handed out under another name, and all of it",
            vec![
                ("lib.rs", "pub use a::*;"),
                ("a.rs", "use crate::b::B; pub struct A;"),
                ("b.rs", "use crate::c::Renamed; struct B;"),
                ("c.rs", "pub use crate::A as Renamed;"),
            ],
        ),
        (
            "between test items",
            vec![
                ("a.rs", "#[cfg(test)] fn t() { a[1] } use crate::b::B; #[cfg(test)] mod t { }"),
                ("b.rs", "fn b() { crate::a::a() }"),
            ],
        ),
    ] {
        assert!(!circles(&files).is_empty(), "{why}");
    }
}

#[test]
fn what_leads_back_to_nothing_is_no_circle() {
    for (why, files) in [
        ("one way", vec![("a.rs", "use crate::b::B;"), ("b.rs", "use std::a::A; struct B;")]),
        (
            "a parent that only has its child, and hands it out",
            vec![("a/mod.rs", "mod b; pub use b::B; struct A;"), ("a/b.rs", "use super::A; struct B;")],
        ),
        (
            "what is handed out is its own file's",
            vec![
                ("a/mod.rs", "mod low; mod high; pub use low::Low; use high::High;"),
                ("a/low.rs", "struct Low;"),
                ("a/high.rs", "use crate::a::Low; struct High;"),
            ],
        ),
        ("who may see it", vec![("a/mod.rs", "mod b; use b::B;"), ("a/b.rs", "pub(in crate::a) struct B;")]),
        (
            "tests",
            vec![
                ("a.rs", "use crate::b::B; struct A;"),
                ("b.rs", "#[cfg(test)] mod tests { use crate::a::A; } struct B;"),
                ("c/mod.rs", "#[cfg(any(test, fuzzing))] mod t; use crate::a::A; pub struct C;"),
                ("c/t.rs", "use super::C;"),
            ],
        ),
    ] {
        assert_eq!(circles(&files), Vec::<String>::new(), "{why}");
    }
}

#[test]
fn no_circle_of_files() {
    let all = sources();
    for src in ["node/core/src/", "node/volume/src/"] {
        let of_crate = |source: &'_ Source| source.path.starts_with(src);
        let files: Vec<_> = all
            .iter()
            .filter(|source| of_crate(source))
            .map(|source| (&source.path[src.len()..], source.code.as_str()))
            .collect();
        assert!(files.len() > 20, "{src} has files");
        let complaints = circles(&files);
        assert!(complaints.is_empty(), "{src}\n{}\n", complaints.join("\n"));
    }
}
