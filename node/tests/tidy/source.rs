//! Input of the rules: the files of the workspace, and its source files as text, as code alone, and as the
//! code that is shipped.

use std::ffi::OsStr;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use super::scan::{blank, code_and_comments, test_code};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the workspace").to_owned()
}

/// The folders of the workspace's crates.
pub(crate) fn members() -> Vec<String> {
    let text = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace has a Cargo.toml");
    let manifest: toml::Table = text.parse().expect("it is TOML");
    let members = manifest["workspace"]["members"].as_array().expect("it lists its members");
    members.iter().map(|member| member.as_str().expect("each is a folder").to_owned()).collect()
}

/// One source file, as the rules see it.
pub(crate) struct Source {
    /// Relative to the workspace.
    pub(crate) path: String,
    pub(crate) text: String,
    /// The text with comments and literals blanked out, position for position.
    pub(crate) code: String,
    /// The code without that for tests, position for position.
    pub(crate) production: String,
    /// Modules in files of their own that only builds for tests have.
    pub(crate) test_modules: Vec<String>,
    tests: Vec<Range<usize>>,
    comments: Vec<Range<usize>>,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let (code, comments) = code_and_comments(text);
        let (tests, test_modules) = test_code(text, &code);
        let source = Self {
            path: path.to_owned(),
            text: text.to_owned(),
            production: String::new(),
            code,
            test_modules,
            tests: Vec::new(),
            comments,
        };
        let is_for_tests =
            path.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "benches" | "fuzz"));
        if is_for_tests { source.of_tests() } else { source.with_tests(tests) }
    }

    /// The file, all of it for tests.
    fn of_tests(self) -> Self {
        let all = std::iter::once(0..self.text.len()).collect();
        self.with_tests(all)
    }

    fn with_tests(mut self, tests: Vec<Range<usize>>) -> Self {
        let mut production = self.code.clone().into_bytes();
        for range in &tests {
            blank(&mut production[range.clone()]);
        }
        self.production = String::from_utf8_lossy(&production).into_owned();
        self.tests = tests;
        self
    }

    pub(crate) fn is_test_at(&self, offset: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&offset))
    }

    /// A line for a person: the place, what is wrong there, and what to do.
    pub(crate) fn complaint(&self, offset: usize, what: &str) -> String {
        complaint(&self.path, &self.text, offset, what)
    }

    /// The line that an offset lies in.
    pub(crate) fn line_at(&self, offset: usize) -> &str {
        let begin = self.text[..offset].rfind('\n').map_or(0, |end| end + 1);
        self.text[begin..].lines().next().unwrap_or("")
    }

    /// The comments' lines: offset and text.
    pub(crate) fn comment_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.comments.iter().map(|range| (range.start, &self.text[range.clone()]))
    }

    /// The comments, lines below each other as one: offset and text of each first line.
    pub(crate) fn comment_heads(&self) -> impl Iterator<Item = (usize, &str)> {
        let is_marker = |byte: &u8| b"/!".contains(byte);
        let marker = move |at: usize| self.text[at..].bytes().take_while(is_marker).collect::<Vec<_>>();
        let goes_on = move |index: usize| {
            let Some(before) = index.checked_sub(1).map(|before| &self.comments[before]) else {
                return false;
            };
            let at = self.comments[index].start;
            let between = &self.text[before.end..at];
            let own_line = self.line_at(before.start).trim_start().starts_with("//");
            let same = marker(before.start) == marker(at);
            own_line && same && between.trim().is_empty() && between.matches('\n').count() == 1
        };
        self.comment_lines().enumerate().filter(move |(index, _)| !goes_on(*index)).map(|(_, head)| head)
    }

    /// The folder of the modules that this file declares.
    fn folder_of_modules(&self) -> &str {
        let (folder, name) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        match name {
            "mod.rs" | "lib.rs" | "main.rs" => folder,
            _ => self.path.trim_end_matches(".rs"),
        }
    }
}

/// The place of an offset in a file, and what is wrong there.
pub(crate) fn complaint(path: &str, text: &str, offset: usize, what: &str) -> String {
    let line = 1 + text.bytes().take(offset).filter(|&byte| byte == b'\n').count();
    format!("{path}:{line}: {what}")
}

/// Every source file of the workspace, read once.
pub(crate) fn sources() -> &'static [Source] {
    static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| {
        without_test_modules(texts_of("rs").map(|(path, text)| Source::new(path, text)).collect())
    });
    &SOURCES
}

/// Takes the files of test modules for tests.
fn without_test_modules(sources: Vec<Source>) -> Vec<Source> {
    let folders: Vec<String> = sources
        .iter()
        .flat_map(|source| {
            source.test_modules.iter().map(|name| format!("{}/{name}", source.folder_of_modules()))
        })
        .collect();
    let is_one = |path: &str| {
        let behind = |folder: &String| path.strip_prefix(folder.as_str());
        folders.iter().filter_map(behind).any(|rest| rest == ".rs" || rest.starts_with('/'))
    };
    let mark = |source: Source| if is_one(&source.path) { source.of_tests() } else { source };
    sources.into_iter().map(mark).collect()
}

/// Made-up files below a crate's `src`.
pub(crate) fn examples(src: &str, files: &[(&str, &str)]) -> Vec<Source> {
    without_test_modules(
        files.iter().map(|(path, text)| Source::new(&format!("{src}{path}"), text)).collect(),
    )
}

/// The texts whose names end so.
pub(crate) fn texts_of(extension: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let texts =
        texts().iter().filter(move |(path, _)| Path::new(path).extension() == Some(OsStr::new(extension)));
    texts.map(|(path, text)| (path.as_str(), text.as_str()))
}

/// Every text of the workspace, with its path, in order. Folders that a program made are left out.
pub(crate) fn texts() -> &'static [(String, String)] {
    static TEXTS: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
        let mut found = Vec::new();
        let mut folders = vec![root()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).expect("a readable folder") {
                let path = entry.expect("a readable entry").path();
                let is_made = || {
                    path.ends_with(".git")
                        || path.ends_with("sherd-data")
                        || path.join("CACHEDIR.TAG").exists()
                };
                if path.is_dir() && !is_made() {
                    folders.push(path);
                } else if let Ok(text) = fs::read_to_string(&path) {
                    let relative =
                        path.strip_prefix(root()).expect("below the root").to_str().expect("ASCII");
                    found.push((relative.to_owned(), text));
                }
            }
        }
        found.sort();
        found
    });
    &TEXTS
}

#[test]
fn every_crate_is_read() {
    for member in members() {
        let src = format!("{member}/src/");
        let production = sources().iter().filter(|source| source.path.starts_with(&src));
        assert!(
            production.filter(|source| !source.production.trim().is_empty()).count() > 0,
            "{src} is not read"
        );
    }
}

#[test]
fn production_is_what_no_test_module_holds() {
    let files = [
        ("src/lib.rs", "#[cfg(test)]\nmod double;\nmod room; fn lib() {}"),
        ("src/double.rs", "fn double() {}"),
        ("src/double/deep.rs", "fn deep() {}"),
        ("src/doubled.rs", "fn doubled() {}"),
        ("src/room.rs", "#[cfg(test)]\nmod double { fn test() {} }\nfn room() {}"),
        ("src/room/tests.rs", "fn room_test() {}"),
        ("tests/story.rs", "fn story() {}"),
    ];
    let sources = examples("a/", &files);
    let left: String = sources.iter().map(|source| source.production.as_str()).collect();
    let left: Vec<_> = left.split_whitespace().filter(|word| word.ends_with("()")).collect();
    assert_eq!(left, ["lib()", "doubled()", "room()"]);
    let tests = |source: &Source| source.code.find("fn").is_some_and(|at| source.is_test_at(at));
    assert_eq!(sources.iter().map(tests).collect::<Vec<_>>(), [false, true, true, false, true, true, true]);
}

#[test]
fn a_comment_begins_at_its_first_line() {
    let text =
        "//! Head.\n//! More.\n\n/// One.\n/// Two.\n// Other.\na(); // Behind.\n// Below.\nb(); // Last.";
    let source = Source::new("a.rs", text);
    let heads: Vec<_> = source.comment_heads().map(|(_, head)| head).collect();
    assert_eq!(heads, ["//! Head.", "/// One.", "// Other.", "// Behind.", "// Below.", "// Last."]);
}
