//! The generated part of `docs/s3.md`: each operation of S3, with its answer, and the known differences.
//!
//! `model.txt` names the operations of AWS's own model with a request for each; the rows come from the
//! table of operations (`operation`), the differences from `differences`.
//! `SHERD_BLESS=1 cargo test -p sherd-s3 --lib surface` renews the page. That each request is answered as the
//! page says is tested against a node, in `node/tests/s3_operations/surface.rs`.

mod differences;
mod headers;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::operation::Operation;

use differences::{DIFFERENCES, Difference};

/// A request for each operation: name, method, target, and headers.
const MODEL: &str = include_str!("model.txt");
/// Operations that AWS keeps for old clients, whose requests are those of others.
const SAME_REQUEST: &[(&str, &str)] = &[
    ("GetBucketLifecycle", "GetBucketLifecycleConfiguration"),
    ("GetBucketNotification", "GetBucketNotificationConfiguration"),
    ("PutBucketLifecycle", "PutBucketLifecycleConfiguration"),
    ("PutBucketNotification", "PutBucketNotificationConfiguration"),
];
/// The operations of the model.
const MODEL_COUNT: usize = 116;
/// The lines of the page between which it is generated.
const MARKS: [&str; 2] = [
    "<!-- Generated, down to the next mark: SHERD_BLESS=1 cargo test -p sherd-s3 --lib surface -->",
    "<!-- Generated until here -->",
];

/// The names of the model.
fn names() -> impl Iterator<Item = &'static str> {
    MODEL.lines().filter_map(|line| line.split(' ').next())
}

/// An operation that has the request of `name`.
fn asked_for(name: &str) -> &str {
    SAME_REQUEST.iter().find(|(old, _)| *old == name).map_or(name, |(_, current)| *current)
}

fn served(name: &str) -> bool {
    Operation::served().any(|operation| operation.name() == name)
}

/// The reason why an operation is not served.
fn unserved(name: &str) -> Option<&'static str> {
    Operation::unserved().find(|(operation, _)| operation.name() == name).map(|(_, why)| why)
}

/// The numbers of the differences of an operation.
fn numbers(name: &str) -> String {
    let rows = (1..).zip(DIFFERENCES).filter(|(_, difference)| difference.of.contains(&name));
    rows.map(|(number, _)| number.to_string()).collect::<Vec<_>>().join(", ")
}

fn row(name: &str) -> String {
    let operation = asked_for(name);
    let note = if operation == name { String::new() } else { format!("the request of {operation}") };
    match unserved(operation) {
        Some(why) if !served(operation) => {
            let why = if note.is_empty() { why.to_owned() } else { format!("{note}; {why}") };
            format!("| {name} | 501 NotImplemented: {why} | |\n")
        }
        _ => {
            let note = if note.is_empty() { note } else { format!(": {note}") };
            format!("| {name} | served{note} | {} |\n", numbers(operation))
        }
    }
}

/// The text between the marks.
fn generated() -> String {
    let mut text =
        "\n## Operations\n\nThe operations of AWS's model of S3 (botocore 1.44), and those beside it.\n\n\
         | operation | here | differences |\n|---|---|---|\n"
            .to_owned();
    let beside = Operation::served().map(Operation::name);
    let beside = beside.filter(|name| !names().any(|known| known == *name));
    for name in names().chain(beside) {
        text.push_str(&row(name));
    }
    text.push_str(
        "\n## Known differences\n\n| | operations | here | on AWS | why | held by |\n|---|---|---|---|---|---|\n",
    );
    for (number, Difference { of, here, aws, why, test }) in (1..).zip(DIFFERENCES) {
        let of = of.join(", ");
        writeln!(text, "| {number} | {of} | {here} | {aws} | {why} | `{test}` |").expect("a string");
    }
    text.push('\n');
    text
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_page_has_what_the_tables_have() {
    let path = root().join("docs/s3.md");
    let page = fs::read_to_string(&path).expect("the page");
    let (head, rest) = page.split_once(MARKS[0]).expect("the first mark");
    let (_, tail) = rest.split_once(MARKS[1]).expect("the second mark");
    let renewed = format!("{head}{}\n{}{}{tail}", MARKS[0], generated(), MARKS[1]);
    if env::var_os("SHERD_BLESS").is_some() {
        fs::write(&path, renewed).expect("the page is written");
    } else {
        assert!(
            page == renewed,
            "docs/s3.md is out of date: SHERD_BLESS=1 cargo test -p sherd-s3 --lib surface"
        );
    }
}

#[test]
fn each_operation_of_the_model_is_in_the_table() {
    let known: BTreeSet<&str> = names().collect();
    assert_eq!((known.len(), names().count()), (MODEL_COUNT, MODEL_COUNT));
    for name in known.iter().copied().map(asked_for) {
        let (served, unserved) = (served(name), unserved(name).is_some());
        assert!(served != unserved, "{name}: served {served}, in the table of what is not {unserved}");
    }
    for (operation, _) in Operation::unserved() {
        assert!(known.contains(operation.name()), "{} is no operation of the model", operation.name());
    }
}

/// Rust files below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|suffix| suffix == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn each_difference_is_of_served_operations_and_held_by_a_test() {
    let mut files = Vec::new();
    for folder in ["node/s3/src", "node/store/src", "node/tests"] {
        sources(&root().join(folder), &mut files);
    }
    let texts: Vec<String> = files.iter().map(|file| fs::read_to_string(file).expect("text")).collect();
    for Difference { of, test, here, .. } in DIFFERENCES {
        assert!(!of.is_empty() && of.iter().all(|name| served(name)), "{here}: {of:?}");
        let function = format!("fn {test}()");
        assert!(texts.iter().any(|text| text.contains(&function)), "{here}: there is no {function}");
    }
}
