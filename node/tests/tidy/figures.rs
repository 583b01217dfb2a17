//! Figures that are counted by room, for `ratchet`: each figure may only fall.
//!
//! A room is a module right below a crate's `src`, named by its path (`node/core/src/record`); test files of
//! a crate are one room (`node/tests`).

use std::collections::{BTreeMap, BTreeSet};

use super::arrows::{Arrows, circles, imports};
use super::circles::{code_of, files_in_circles, spread_types};
use super::reading::{Files, Module, files as read_files};
use super::source::{Source, all, is_name, members};

/// A figure by room. A room without one has zero.
pub(crate) type Figures = BTreeMap<String, usize>;

/// The columns that `rustfmt` gives code; it does not wrap comments.
const WIDTH: usize = 110;

/// Words that make a comment need a translation. A sentence names its actor and its number, and programs do
/// not hear, know, tell or meet.
const DIALECT: [&str; 31] = [
    "whoever",
    "whatever",
    "somebody",
    "nobody",
    "anybody",
    "anew",
    "is none",
    "are none",
    "is no",
    "are no",
    "so many",
    "so long",
    "for who",
    "those who",
    "who is",
    "who has",
    "be had",
    "is had",
    "tells",
    "told",
    "hears",
    "heard",
    "knows",
    "knew",
    "learns",
    "learnt",
    "meets",
    "met",
    "all the same",
    "a moment ago",
    "says so",
];
/// The same at the beginning of a sentence: a clause for a subject.
const DIALECT_SUBJECTS: [&str; 3] = ["What ", "Who ", "Whose "];

/// Parts of the names of limits. Every `Duration` is one, too.
const LIMIT_WORDS: [&str; 9] =
    ["PAGE", "PATIENCE", "PAUSE", "EVERY", "TIMEOUT", "TRIES", "MAX", "MIN", "ONCE"];

/// The room of a file.
pub(crate) fn room_of(path: &str) -> String {
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

/// All figures, by what they count.
pub(crate) fn all_figures(sources: &[Source]) -> BTreeMap<&'static str, Figures> {
    let mut figures = BTreeMap::from([
        ("dialect", by_room(sources, dialect)),
        ("wide_comments", by_room(sources, wide_comments)),
        ("limits", by_room(sources, limits_outside)),
    ]);
    for member in members() {
        let src = format!("{member}/src/");
        let code = code_of(sources, &src);
        let files = read_files(&code);
        let room = |module: &[&str]| format!("{src}{}", module.first().unwrap_or(&"lib"));
        let mut add = |what, room, count| {
            *figures.entry(what).or_default().entry(room).or_default() += count;
        };
        let (by_imports, by_self) = files_in_circles(&files);
        for module in &by_imports {
            add("circles", room(module), 1);
        }
        for module in &by_self {
            add("self_circles", room(module), 1);
        }
        for (module, count) in upward_arrows(&files) {
            add("upward_arrows", room(&module), count);
        }
        for (module, name, count) in spread_types(&files) {
            add("files_of_a_type", format!("{}::{name}", room(&module)), count);
        }
    }
    figures
}

fn by_room(sources: &[Source], count: fn(&Source) -> usize) -> Figures {
    let mut figures = Figures::new();
    for source in sources {
        *figures.entry(room_of(&source.path)).or_default() += count(source);
    }
    figures.retain(|_, count| *count > 0);
    figures
}

/// The comments that have a line of their own.
fn comment_lines(source: &Source) -> impl Iterator<Item = &str> {
    source.text.lines().filter(|line| line.trim_start().starts_with("//"))
}

/// Comment lines wider than code may be.
fn wide_comments(source: &Source) -> usize {
    comment_lines(source).filter(|line| line.chars().count() > WIDTH).count()
}

/// Words of dialect in comments.
fn dialect(source: &Source) -> usize {
    comment_lines(source).map(dialect_of_line).sum()
}

fn dialect_of_line(line: &str) -> usize {
    let text = line.trim_start().trim_start_matches(['/', '!']).trim_start();
    let lower = text.to_lowercase();
    let is_word = |at: usize, word: &str| {
        let before = lower[..at].bytes().next_back();
        let after = lower[at + word.len()..].bytes().next();
        !before.is_some_and(is_name) && !after.is_some_and(is_name)
    };
    let words = DIALECT.iter().map(|word| all(&lower, word).filter(|at| is_word(*at, word)).count());
    let begins = |at: usize| at == 0 || text[..at].ends_with(". ") || text[..at].ends_with(": ");
    let subjects = DIALECT_SUBJECTS.iter().map(|word| all(text, word).filter(|at| begins(*at)).count());
    words.chain(subjects).sum()
}

/// Limits of production code that do not stand in a `limits.rs`.
fn limits_outside(source: &Source) -> usize {
    if source.path.ends_with("/limits.rs") || !source.path.contains("src/") {
        return 0;
    }
    let code = &source.code[..source.tests_begin()];
    all(code, "const ").filter(|at| is_limit(&code[at + "const ".len()..])).count()
}

/// Whether the constant that is declared here is a limit.
fn is_limit(declared: &str) -> bool {
    let Some((name, rest)) = declared.split_once(':') else { return false };
    let of_type = rest.split(['=', ';']).next().unwrap_or("").trim();
    let is_constant =
        !name.is_empty() && name.bytes().all(|byte| is_name(byte) && !byte.is_ascii_lowercase());
    let is_number = matches!(of_type, "usize" | "u16" | "u32" | "u64");
    let is_named_so = name.split('_').any(|word| LIMIT_WORDS.contains(&word));
    is_constant && (of_type.ends_with("Duration") || is_number && is_named_so)
}

/// Arrows that point up inside rooms. The parts of a folder (its files, and its folders as one each) are put
/// into an order in which few arrows point up; where none of the parts use each other in a circle, none does.
fn upward_arrows<'a>(files: &Files<'a>) -> Vec<(Module<'a>, usize)> {
    let imports = imports(files);
    let folders: BTreeSet<Module<'a>> = files
        .keys()
        .filter(|module| module.len() > 1)
        .map(|module| module[..module.len() - 1].to_vec())
        .collect();
    let mut found = Vec::new();
    for folder in folders {
        let part = |module: &Module<'a>| {
            (module.len() > folder.len() && module.starts_with(&folder))
                .then(|| module[..=folder.len()].to_vec())
        };
        let mut between = Arrows::new();
        for (from, used) in &imports {
            for to in used.keys() {
                if let (Some(from), Some(to)) = (part(from), part(to))
                    && from != to
                {
                    between.entry(from).or_default().entry(to).or_default();
                }
            }
        }
        found.push((folder, upward(between)));
    }
    found
}

/// Takes the part that uses most and is used least to the top of each circle, until no circle is left.
fn upward(mut arrows: Arrows<'_>) -> usize {
    let mut count = 0;
    while let Some(circle) = circles(&arrows).into_iter().next() {
        let uses =
            |from: &Module<'_>, to: &Module<'_>| arrows.get(from).is_some_and(|used| used.contains_key(to));
        let used_by = |part: &Module<'_>| circle.iter().filter(|other| uses(other, part)).count();
        let using = |part: &Module<'_>| circle.iter().filter(|other| uses(part, other)).count();
        let top =
            circle.iter().min_by_key(|part| (used_by(part) + circle.len() - using(part), (*part).clone()));
        let top = top.expect("a circle has parts").clone();
        count += used_by(&top);
        circle.iter().filter_map(|part| Some(arrows.get_mut(part)?.remove(&top))).for_each(drop);
    }
    count
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

#[test]
fn dialect_is_counted_in_comments_by_word() {
    let count = |text: &str| dialect(&Source::new("node/src/a.rs", text));
    assert_eq!(count("/// Nobody is told. What it holds is none of ours.\nfn told() {}"), 4);
    assert_eq!(count("//! Who asks.\n// It has met whatever: What else"), 4);
    assert_eq!(count("// Somewhat; untold, metres, a question of What.\nlet a = \"nobody\";"), 0);
}

#[test]
fn comments_over_the_width_are_counted() {
    let line = |length: usize| format!("    // {}\n", "x".repeat(length - 7));
    let text = format!("{}{}let a = \"{}\";", line(WIDTH), line(WIDTH + 1), "y".repeat(WIDTH));
    assert_eq!(wide_comments(&Source::new("node/src/a.rs", &text)), 1);
}

#[test]
fn limits_outside_their_file_are_counted() {
    let text = "const PAGE: usize = 1;\npub(crate) const A_B: Duration = c;\nconst LOOK_EVERY: std::time::Duration = d;\n\
                const ROWS_MAX: u32 = 2;\nconst MAXIMA: u32 = 2;\nconst NAMES_MAX: &str = \"\";\nconst fn max() {}\n\
                // const PAGE: usize\n#[cfg(test)]\nmod tests { const PAGE: usize = 3; }";
    assert_eq!(limits_outside(&Source::new("node/src/a.rs", text)), 4);
    assert_eq!(limits_outside(&Source::new("node/src/a/limits.rs", text)), 0);
    assert_eq!(limits_outside(&Source::new("node/src/a/tests.rs", text)), 0);
}

#[test]
fn arrows_between_the_parts_of_a_folder_that_point_up_are_counted() {
    let up = |files: &[(&str, &str)]| -> usize {
        upward_arrows(&read_files(files)).into_iter().map(|(_, count)| count).sum()
    };
    let top = ("a/mod.rs", "mod b; mod c; struct A;");
    let low =
        [("a/b/x.rs", "struct X;"), ("a/b/mod.rs", "mod x; mod y;"), ("a/b/y.rs", "use crate::a::c::C;")];
    assert_eq!(up(&[top, low[0], low[1], low[2], ("a/c.rs", "pub struct C;")]), 0);
    let both = ("a/c.rs", "use super::b::x::X; use super::A; pub struct C;");
    assert_eq!(up(&[top, low[0], low[1], low[2], both]), 1, "folders use each other, though no files do");
}
