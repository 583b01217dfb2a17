//! The documentation and what it names: every page is in its folder's index, every link and every path leads
//! somewhere.

use std::fs;
use std::path::{Path, PathBuf};

use crate::source::root;

/// Folders at the top whose files the documentation names by path.
const TOP: [&str; 6] = ["node/", "bench/", "fuzz/", "docs/", "scripts/", ".ci/"];
/// Folders of pages, each with an index.
const INDEXES: [&str; 2] = ["docs", "docs/adr"];

struct Page {
    /// From the top.
    path: String,
    text: String,
}

fn pages() -> Vec<Page> {
    let mut pages = vec!["README.md".to_owned()];
    for folder in ["docs", "docs/adr", "docs/operations"] {
        pages.extend(pages_in(folder).into_iter().map(|name| format!("{folder}/{name}")));
    }
    let read = |path: String| {
        let text = fs::read_to_string(root().join(&path)).expect("a page is text");
        Page { path, text }
    };
    pages.into_iter().map(read).collect()
}

fn pages_in(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).expect("a folder of pages");
    let names = entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned());
    names.filter(|name| Path::new(name).extension().is_some_and(|suffix| suffix == "md")).collect()
}

/// Targets of links, relative to the page, without those to the web and within the page.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let files = targets.map(|(target, _)| target.split_once('#').map_or(target, |(file, _)| file));
    files.filter(|file| !file.is_empty() && !file.contains("://"))
}

/// Paths in backticks that begin in a folder at the top.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let prose = text.split("```").step_by(2).flat_map(|prose| prose.split('`').skip(1).step_by(2));
    let is_path = |word: &&str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
        TOP.iter().any(|top| word.starts_with(top)) && word.bytes().all(plain)
    };
    prose.filter(is_path)
}

/// Names in a page that do not exist.
fn named_in_vain(page: &Page, is_there: impl Fn(&Path) -> bool) -> Vec<String> {
    let folder = Path::new(&page.path).parent().unwrap_or(Path::new(""));
    let linked = links(&page.text).map(|target| folder.join(target));
    let named = paths(&page.text).map(PathBuf::from);
    let missing = linked.chain(named).filter(|path| !is_there(path));
    missing.map(|path| format!("{} names {}, which is not there", page.path, path.display())).collect()
}

#[test]
fn every_name_in_the_documentation_exists() {
    let is_there = |path: &Path| root().join(path).exists();
    let complaints: Vec<String> = pages().iter().flat_map(|page| named_in_vain(page, is_there)).collect();
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn every_page_is_in_its_folders_index() {
    for folder in INDEXES {
        let index = fs::read_to_string(root().join(folder).join("README.md")).expect("an index");
        let linked: Vec<&str> = links(&index).collect();
        for name in pages_in(folder).iter().filter(|name| *name != "README.md") {
            assert!(linked.contains(&name.as_str()), "{folder}/README.md does not name {name}");
        }
    }
}

#[test]
fn a_path_that_leads_nowhere_is_found() {
    let text = "[a](b.md#c) [web](https://a.b/c.md) [here](#d) `node/src/gone.rs` `node/src/*.rs` `cargo test`\n\
                ```sh\nnode/src/shell.rs\n```\n";
    let page = Page { path: "docs/page.md".to_owned(), text: text.to_owned() };
    assert_eq!(links(text).collect::<Vec<_>>(), ["b.md"]);
    assert_eq!(paths(text).collect::<Vec<_>>(), ["node/src/gone.rs"]);
    assert_eq!(named_in_vain(&page, |path| path == Path::new("docs/b.md")).len(), 1);
    assert_eq!(named_in_vain(&page, |_| false).len(), 2);
}
