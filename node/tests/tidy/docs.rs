//! The documentation and what it names: every page is in an index, every link and every path leads somewhere;
//! and how long it is.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::figures::Finding;
use super::scan::is_name;
use super::source::{complaint, root, sources, texts, texts_of};

/// A template of a page, which lies elsewhere than the page.
const TEMPLATE: &str = "bench/report/performance.md";

/// Every page of the workspace: path and text.
fn pages() -> impl Iterator<Item = (&'static str, &'static str)> {
    texts_of("md").filter(|(path, _)| *path != TEMPLATE)
}

/// Offset and target of each link, without those to the web.
fn links(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let targets = text.match_indices("](").filter_map(|(at, open)| {
        let rest = &text[at + open.len()..];
        Some((at, rest.split_once(')')?.0))
    });
    targets.filter(|(_, target)| !target.contains("://") && !target.starts_with("mailto:"))
}

/// Whether a page has a heading of this anchor.
fn has_anchor(page: &str, anchor: &str) -> bool {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let anchors = headings.map(|line| {
        let plain = line.trim_start_matches('#').trim().to_lowercase();
        let kept = plain.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect::<String>()
    });
    anchors.into_iter().any(|one| one == anchor)
}

/// Offset and text of each path from the top in prose: in backticks on a page, anywhere in a comment.
fn paths<'a>(text: &'a str, tops: &'a [String]) -> impl Iterator<Item = (usize, &'a str)> {
    let of_top = move |top: &'a String| {
        text.match_indices(top.as_str()).filter_map(move |(at, _)| {
            let is_path = |byte: u8| is_name(byte) && byte < 0x80 || b"/.-".contains(&byte);
            let before = text[..at].bytes().next_back().unwrap_or(b' ');
            let length = text[at..].bytes().take_while(|&byte| is_path(byte)).count();
            let path = text[at..at + length].trim_end_matches('.');
            // Behind a path with a pattern or a variable in it stands no end of a word.
            let goes_on = text[at + length..].starts_with(['*', '{', '<', '$', '[']);
            (!is_path(before) && !b":<>}$".contains(&before) && !goes_on).then_some((at, path))
        })
    };
    tops.iter().flat_map(of_top)
}

/// Folders at the top, with a slash.
fn tops() -> Vec<String> {
    let folders = texts().iter().filter_map(|(path, _)| path.split_once('/'));
    let mut tops: Vec<_> = folders.map(|(top, _)| format!("{top}/")).collect();
    tops.dedup();
    tops
}

/// The path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(plain.pop()),
            Component::Normal(name) => plain.push(name),
            _ => {}
        }
    }
    plain
}

/// Names in a page that do not exist. `read` gives the text of a file, an empty one for a folder.
fn named_in_vain(
    path: &str,
    text: &str,
    tops: &[String],
    read: impl Fn(&Path) -> Option<String>,
) -> Vec<String> {
    let mut complaints = Vec::new();
    for (at, link) in links(text) {
        let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
        let folder = Path::new(path).parent().unwrap_or(Path::new(""));
        let target = if file.is_empty() { PathBuf::from(path) } else { plain(&folder.join(file)) };
        match read(&target) {
            Some(page) if anchor.is_empty() || has_anchor(&page, anchor) => {}
            Some(_) => {
                complaints.push(complaint(path, text, at, &format!("{file} has no heading #{anchor}")));
            }
            None => {
                complaints.push(complaint(path, text, at, &format!("{link} is not there: mend the link")));
            }
        }
    }
    let prose = text.split("```").step_by(2).flat_map(|prose| prose.split('`').skip(1).step_by(2));
    for word in prose {
        let at = word.as_ptr() as usize - text.as_ptr() as usize;
        let of_word = paths(word, tops).filter(|(at, _)| *at == 0);
        for (_, named) in of_word.filter(|(_, named)| read(Path::new(named)).is_none()) {
            complaints.push(complaint(
                path,
                text,
                at,
                &format!("{named} is not there: name the file that is"),
            ));
        }
    }
    complaints
}

/// The text of a file, or of a folder's index.
fn read(path: &Path) -> Option<String> {
    let path = root().join(path);
    let text = || std::fs::read_to_string(&path).unwrap_or_default();
    path.exists().then(text)
}

/// Words of the documentation by folder, in thousands that are begun; pages at the top by their names.
pub(crate) fn thousands_of_words() -> Vec<Finding> {
    let mut words: BTreeMap<&str, usize> = BTreeMap::new();
    for (path, text) in pages() {
        let folder = path.rsplit_once('/').map_or(path, |(folder, _)| folder);
        *words.entry(folder).or_default() += text.split_whitespace().count();
    }
    let finding = |(folder, words): (&str, usize)| {
        let place = format!("{folder}: {words} words: shorten what is there before more is added");
        Finding { room: folder.to_owned(), count: words.div_ceil(1000), place }
    };
    words.into_iter().map(finding).collect()
}

#[test]
fn every_name_in_the_documentation_exists() {
    let tops = tops();
    let complaints: Vec<_> =
        pages().flat_map(|(path, text)| named_in_vain(path, text, &tops, read)).collect();
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn every_path_in_a_comment_exists() {
    let tops = tops();
    let mut complaints = Vec::new();
    for source in sources() {
        for (at, line) in source.comment_lines() {
            for (offset, path) in paths(line, &tops).filter(|(_, path)| read(Path::new(path)).is_none()) {
                complaints.push(
                    source.complaint(at + offset, &format!("{path} is not there: name the file that is")),
                );
            }
        }
    }
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn every_page_of_the_documentation_is_in_the_index_above_it() {
    let mut complaints = Vec::new();
    let is_index = |path: &str| path.ends_with("/README.md");
    for (path, text) in pages().filter(|(path, _)| path.starts_with("docs/") && !is_index(path)) {
        let mut folders = Path::new(path).ancestors().skip(1).map(|folder| folder.join("README.md"));
        let index = folders.find_map(|index| Some((read(&index)?, index))).expect("docs has an index");
        let folder = index.1.parent().unwrap_or(Path::new(""));
        let linked =
            |target: &str| plain(&folder.join(target.split('#').next().unwrap_or(""))) == Path::new(path);
        if !links(&index.0).any(|(_, target)| linked(target)) {
            complaints.push(complaint(path, text, 0, &format!("{} does not name it", index.1.display())));
        }
    }
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn a_path_that_leads_nowhere_is_found() {
    let text = "[a](b.md#c-d) [web](https://a.b/c.md) [here](#d) `node/src/gone.rs` `node/src/*.rs` `cargo test`\n\
                `trust/gone` `.ci/gone` [e](../b/c.md) [f](b.md#e) `charts/<name>/a` `a/node/b`\n\
                ```sh\nnode/src/shell.rs\n```\n# D\n";
    let tops = ["node/", "trust/", "charts/", ".ci/"].map(str::to_owned);
    let read = |path: &Path| match path.to_str() {
        Some("docs/page.md") => Some(text.to_owned()),
        Some("docs/b.md") => Some("## `C` d!\n".to_owned()),
        _ => None,
    };
    let found = named_in_vain("docs/page.md", text, &tops, read);
    assert_eq!(
        found,
        [
            "docs/page.md:2: ../b/c.md is not there: mend the link",
            "docs/page.md:2: b.md has no heading #e",
            "docs/page.md:1: node/src/gone.rs is not there: name the file that is",
            "docs/page.md:2: trust/gone is not there: name the file that is",
            "docs/page.md:2: .ci/gone is not there: name the file that is",
        ]
    );
    let comment = "// As in trust/b.rs. Not xtrust/c, https://trust/d, a/trust/e or trust/*.rs";
    assert_eq!(paths(comment, &tops).map(|(_, path)| path).collect::<Vec<_>>(), ["trust/b.rs"]);
}

#[test]
fn the_documentation_of_every_folder_is_counted() {
    let folders: Vec<_> = thousands_of_words().into_iter().map(|finding| finding.room).collect();
    for folder in ["README.md", "CHANGELOG.md", "docs", "docs/adr", "docs/operations", "charts/sherd"] {
        assert!(folders.iter().any(|one| one == folder), "{folder} is not counted: {folders:?}");
    }
}
