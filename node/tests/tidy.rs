//! The rules of style that a machine can check, each with a test that shows it bites.
//!
//! A rule is a function from one source file to complaints. Comments and texts are blanked out
//! first where a rule is about code. What needs types (the bans on clocks, files and tasks) is
//! clippy's; here is only the list of files that may break it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Lines of the longest file.
const LINES_MAX: usize = 800;

/// Files that may use what node/clippy.toml bans, because they are the seam.
const SEAMS: [&str; 8] = [
    "node/src/process/config/credentials/mod.rs",
    "node/src/process/config/source.rs",
    "node/src/process/config/volumes.rs",
    "node/src/process/dev.rs",
    "node/src/observe/metrics/process.rs",
    "node/src/machine/system.rs",
    "node/volume/src/disk/real.rs",
    "node/volume/src/index/lsm.rs",
];

/// Words of other systems' vocabulary, see docs/glossary.md.
const BANNED_WORDS: [&str; 8] =
    ["chunk", "chunks", "fragment", "fragments", "item", "items", "drive", "drives"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the workspace").to_owned()
}

/// One source file, as the rules see it.
struct Source {
    /// Relative to the workspace.
    path: String,
    text: String,
    /// The text with comments and literals blanked out, position for position.
    code: String,
}

impl Source {
    fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned(), code: blank_out(text) }
    }

    fn line_of(&self, offset: usize) -> usize {
        1 + self.text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
    }

    fn complaint(&self, offset: usize, what: &str) -> String {
        format!("{}:{}: {what}", self.path, self.line_of(offset))
    }

    /// Where test code begins; its end when there is none.
    fn tests_begin(&self) -> usize {
        let in_tests = self.path.contains("/tests/") || self.path.ends_with("/tests.rs");
        if in_tests { 0 } else { self.code.find("#[cfg(test)]").unwrap_or(self.text.len()) }
    }
}

/// Every source file of the workspace.
fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in
            fs::read_dir(&folder).expect("a readable folder").map(|entry| entry.expect("a readable entry"))
        {
            let (path, name) = (entry.path(), entry.file_name().into_string().expect("names are ASCII"));
            let skipped = name.starts_with('.') || name == "target" || name == "sherd-data";
            if path.is_dir() && !skipped {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let relative = path.strip_prefix(root()).expect("below the root").to_str().expect("ASCII");
                found.push(Source::new(relative, &fs::read_to_string(&path).expect("sources are UTF-8")));
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    assert!(found.len() > 20, "the walk found the sources");
    found
}

/// Replaces comments, texts and character literals by spaces of the same length.
fn blank_out(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(text, at);
        match end {
            Some(end) => {
                code[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
                at = end;
            }
            // A whole name at once, so that the `r` of `for` does not begin a raw text.
            None if is_name(bytes[at]) => at += bytes[at..].iter().take_while(|&&byte| is_name(byte)).count(),
            None => at += 1,
        }
    }
    String::from_utf8_lossy(&code).into_owned()
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The end of the comment or literal that begins at `at`, if one does.
fn literal_end(text: &str, at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    let after = |pattern: &str, from: usize| {
        rest.get(from..)?.find(pattern).map(|found| from + found + pattern.len())
    };
    let to_end = rest.len();
    let length = if rest.starts_with("//") {
        rest.find('\n').unwrap_or(to_end)
    } else if rest.starts_with("/*") {
        after("*/", 2).unwrap_or(to_end)
    } else if let Some(raw) = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r')) {
        let hashes = raw.bytes().take_while(|&byte| byte == b'#').count();
        if raw.as_bytes().get(hashes) != Some(&b'"') {
            return None;
        }
        let open = rest.len() - raw.len() + hashes + 1;
        after(&format!("\"{}", "#".repeat(hashes)), open).unwrap_or(to_end)
    } else if rest.starts_with('"') || rest.starts_with("b\"") {
        quoted_length(rest, '"').unwrap_or(to_end)
    } else if rest.starts_with('\'') || rest.starts_with("b'") {
        // 'a' and '\n' are characters, 'a without an end is a lifetime.
        let inside = rest.trim_start_matches('b').get(1..)?;
        let mut characters = inside.chars();
        let first = characters.next()?;
        if first != '\\' && characters.next() != Some('\'') {
            return None;
        }
        quoted_length(rest, '\'')?
    } else {
        return None;
    };
    Some(at + length)
}

/// Bytes up to and with the closing quote of a literal that begins here.
fn quoted_length(rest: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    let open = rest.find(quote)? + 1;
    for (offset, character) in rest[open..].char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => return Some(open + offset + 1),
            _ => {}
        }
    }
    None
}

/// Offsets of a pattern.
fn all<'a>(text: &'a str, pattern: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(pattern).map(|(offset, _)| offset)
}

/// Every file says at its top what lives there.
fn opens_with_a_head(source: &Source) -> Vec<String> {
    if source.text.starts_with("//!") { vec![] } else { vec![source.complaint(0, "opens without `//!`")] }
}

/// A file is a room one can oversee.
fn is_not_too_long(source: &Source) -> Vec<String> {
    let lines = source.text.lines().count();
    if lines > LINES_MAX { vec![format!("{}: {lines} lines", source.path)] } else { vec![] }
}

/// One word per idea. A name behind `.` or `::` is somebody else's, `Item` is Iterator's, and
/// S3 itself calls the frames of a streaming signature chunks.
fn uses_our_words(source: &Source) -> Vec<String> {
    let signed_frames = source.path.contains("/s3/");
    let mut complaints = Vec::new();
    let mut at = 0;
    let bytes = source.code.as_bytes();
    while at < bytes.len() {
        let length = bytes[at..].iter().take_while(|&&byte| is_name(byte)).count();
        let name = &source.code[at..at + length];
        let foreign =
            source.code[..at].trim_end().ends_with(['.', ':']) && !source.code[..at].ends_with(": ");
        let words = words_of(name);
        let allowed = |word: &str| signed_frames && word.starts_with("chunk");
        let banned = words.iter().find(|word| BANNED_WORDS.contains(&word.as_str()) && !allowed(word));
        if let Some(word) = banned.filter(|_| !foreign && name != "Item") {
            complaints.push(source.complaint(at, &format!("`{name}` says {word}")));
        }
        at += length.max(1);
    }
    complaints
}

/// `read_chunk` and `ReadChunk` are read, chunk.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for character in name.chars() {
        if character == '_' || character.is_uppercase() {
            words.push(String::new());
        }
        if character != '_' {
            words.last_mut().expect("never empty").extend(character.to_lowercase());
        }
    }
    words
}

/// Nothing is left for later without a number that says where it is tracked.
fn leaves_nothing_open(source: &Source) -> Vec<String> {
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    let mut complaints = Vec::new();
    for mark in marks {
        for at in all(&source.text, mark) {
            let rest = &source.text[at + mark.len()..];
            let numbered = rest
                .strip_prefix("(#")
                .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()));
            if !numbered {
                complaints.push(source.complaint(at, &format!("{mark} without a number")));
            }
        }
    }
    complaints
}

/// A random choice between ready arms would give one seed two histories.
fn selects_in_order(source: &Source) -> Vec<String> {
    let ordered = |at: usize| {
        let body = source.code[at..].split_once(['{', '(']).map_or("", |(_, body)| body);
        body.trim_start().starts_with("biased;")
    };
    all(&source.code, "select!")
        .filter(|&at| !ordered(at))
        .map(|at| source.complaint(at, "select! is not biased"))
        .collect()
}

/// Whoever silences a lint says why.
fn excuses_have_reasons(source: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    for opening in ["[allow(", "[expect("] {
        for at in all(&source.code, opening) {
            let attribute = source.code[at..].split_once(']').map_or("", |(attribute, _)| attribute);
            if !attribute.contains("reason") {
                complaints.push(source.complaint(at, "silences a lint without a reason"));
            }
        }
    }
    complaints
}

/// Only the seams may use what node/clippy.toml bans, and only by `expect`.
fn only_seams_are_excused(source: &Source) -> Vec<String> {
    let production = &source.code[..source.tests_begin()];
    let listed = SEAMS.contains(&source.path.as_str());
    let mut complaints = Vec::new();
    for at in all(production, "clippy::disallowed_methods") {
        let before = production[..at].trim_end();
        let turned_on = before.ends_with("warn(");
        if !(turned_on || listed && before.ends_with("expect(")) {
            complaints.push(source.complaint(at, "is not a seam listed in tidy.rs"));
        }
    }
    complaints
}

/// A test waits for what it tests.
fn tests_do_not_sleep(source: &Source) -> Vec<String> {
    let begin = source.tests_begin();
    let tests = &source.code[begin..];
    all(tests, "thread::sleep").map(|at| source.complaint(begin + at, "a test sleeps")).collect()
}

/// Checks one rule on every file.
fn holds(rule: fn(&Source) -> Vec<String>) {
    let complaints: Vec<String> = sources().iter().flat_map(rule).collect();
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// What a rule says of one text.
fn bites(rule: fn(&Source) -> Vec<String>, text: &str) -> bool {
    !rule(&Source::new("node/src/example.rs", text)).is_empty()
}

#[test]
fn comments_and_texts_are_blanked_out_and_nothing_else() {
    let text = "a /* b */ \"c\\\"d\" 'e' '\\'' 'f: &'g h r#\"i\"j\"# for\" k\" // l\nm b\"n\" br\"o\" b'p'";
    let code = blank_out(text);
    assert_eq!(code.len(), text.len());
    let left: Vec<_> = code.split_whitespace().collect();
    assert_eq!(left, ["a", "'f:", "&'g", "h", "for", "m"]);
}

#[test]
fn every_file_opens_with_a_head() {
    assert!(bites(opens_with_a_head, "use std::fmt;\n"));
    assert!(!bites(opens_with_a_head, "//! Says what lives here.\n"));
    holds(opens_with_a_head);
}

#[test]
fn no_file_is_too_long() {
    assert!(bites(is_not_too_long, &"\n".repeat(LINES_MAX + 1)));
    assert!(!bites(is_not_too_long, &"\n".repeat(LINES_MAX)));
    holds(is_not_too_long);
}

#[test]
fn names_are_of_our_vocabulary() {
    for text in
        ["let chunk = 1;", "fn read_chunks() {}", "struct ItemList;", "drive: u8,", "enum FragmentKind {}"]
    {
        assert!(bites(uses_our_words, text), "{text}");
    }
    for text in [
        "// a chunk",
        "\"chunk\"",
        "type Item = u8;",
        "bytes.chunks(4)",
        "Buf::chunk(x)",
        "let driver = 1;",
        "aws_chunked",
    ] {
        assert!(!bites(uses_our_words, text), "{text}");
    }
    let signed = Source::new("node/src/s3/example.rs", "let chunk = 1; let item = 2;");
    assert_eq!(uses_our_words(&signed).len(), 1, "only S3's own word is allowed there");
    holds(uses_our_words);
}

#[test]
fn what_is_open_has_a_number() {
    assert!(bites(leaves_nothing_open, concat!("// TO", "DO: later")));
    assert!(bites(leaves_nothing_open, concat!("// FIX", "ME")));
    assert!(!bites(leaves_nothing_open, concat!("// TO", "DO(#12): later")));
    holds(leaves_nothing_open);
}

#[test]
fn every_select_is_biased() {
    assert!(bites(selects_in_order, "tokio::select! { a = b => {} }"));
    assert!(bites(selects_in_order, "select! { /* biased; */ a = b => {} }"));
    assert!(!bites(
        selects_in_order,
        "tokio::select! {\n    // First things first.\n    biased;\n a = b => {} }"
    ));
    holds(selects_in_order);
}

#[test]
fn every_silenced_lint_has_a_reason() {
    assert!(bites(excuses_have_reasons, "#[allow(unused)]\nfn a() {}"));
    assert!(bites(excuses_have_reasons, "#![expect(unsafe_code)]"));
    assert!(!bites(
        excuses_have_reasons,
        "#[expect(\n    unsafe_code,\n    reason = \"the kernel owns it\"\n)]"
    ));
    holds(excuses_have_reasons);
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

#[test]
fn no_test_sleeps() {
    assert!(bites(tests_do_not_sleep, "#[cfg(test)]\nmod tests { fn a() { std::thread::sleep(b); } }"));
    assert!(!bites(tests_do_not_sleep, "fn wait() { std::thread::sleep(b); }"));
    holds(tests_do_not_sleep);
}

/// The numbers of the invariants that a text names, as in I-4.
fn invariants_in(text: &str) -> BTreeSet<u32> {
    let at_word = |at: usize| !text[..at].ends_with(|before: char| before.is_alphanumeric() || before == '-');
    let number = |at: usize| {
        let digits: String = text[at + 2..].chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    all(text, "I-").filter(|&at| at_word(at)).filter_map(number).collect()
}

/// The invariants that a text lists: number, and the section that speaks of it.
fn listed_invariants(text: &str) -> BTreeMap<u32, &str> {
    let starts: Vec<usize> = text.match_indices("**I-").map(|(at, _)| at).collect();
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let sections = starts.iter().zip(ends).map(|(&start, end)| &text[start..end]);
    sections.filter_map(|section| Some((first_invariant(section)?, section))).collect()
}

/// The number in a section's own heading.
fn first_invariant(section: &str) -> Option<u32> {
    let digits = section.trim_start_matches("**I-");
    digits.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// The words in backticks behind "Test".
fn tests_named_in(section: &str) -> Vec<&str> {
    let tests = section.split_once("Test").map(|(_, tests)| tests).unwrap_or_default();
    tests.split('`').skip(1).step_by(2).collect()
}

/// What is wrong between the list of invariants and the code.
fn unmatched_invariants(text: &str, sources: &[Source]) -> Vec<String> {
    let listed = listed_invariants(text);
    let mut complaints = Vec::new();
    for source in sources.iter().filter(|source| !source.path.ends_with("tidy.rs")) {
        for number in invariants_in(&source.text).into_iter().filter(|number| !listed.contains_key(number)) {
            complaints.push(format!("{} cites I-{number}, which docs/invariants.md has not", source.path));
        }
    }
    for (number, section) in listed {
        let production = |source: &Source| source.text[..source.tests_begin()].to_owned();
        if !sources.iter().any(|source| invariants_in(&production(source)).contains(&number)) {
            complaints.push(format!("I-{number} has no code site"));
        }
        let named = tests_named_in(section);
        if named.is_empty() {
            complaints.push(format!("I-{number} has no test"));
        }
        for name in named {
            let is_file = |source: &Source| source.path.ends_with(name);
            let declares = |source: &Source| {
                ["fn ", "mod ", "const "].iter().any(|kind| source.text.contains(&format!("{kind}{name}")))
            };
            if !sources.iter().any(|source| is_file(source) || declares(source)) {
                complaints.push(format!("I-{number} names the test {name}, which is not there"));
            }
        }
    }
    complaints
}

#[test]
fn every_invariant_has_its_code_and_its_test_and_every_citation_exists() {
    assert_eq!(invariants_in("I-4 and I-12, not AI-3 or PI-2"), BTreeSet::from([4, 12]));
    let one = |text: &str| [Source::new("node/src/example.rs", text)];
    let listed = "**I-4 It holds.** Code: `a`. Test: `it_holds`.";
    assert!(
        unmatched_invariants(listed, &one("// I-4\n#[cfg(test)]\nmod tests { fn it_holds() {} }")).is_empty()
    );
    assert_eq!(unmatched_invariants(listed, &one("// I-4")).len(), 1);
    assert_eq!(unmatched_invariants(listed, &one("")).len(), 2);
    assert_eq!(unmatched_invariants("**I-4 It holds.** Code: `a`.", &one("// I-4")), ["I-4 has no test"]);
    assert_eq!(unmatched_invariants("", &one("// I-9")).len(), 1);

    let text = fs::read_to_string(root().join("docs/invariants.md")).expect("docs/invariants.md is there");
    let complaints = unmatched_invariants(&text, &sources());
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}
