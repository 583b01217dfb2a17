//! The page for operators, docs/operations/access.md: the commands of its part on bucket policies, run by a
//! shell with the `aws` command, print what the page says.
//!
//! ```text
//! ```json     -> the file that the text before it names
//! ```console  -> `$ command`, and behind it lines that stand in what it prints
//! ```
//! A command behind which an error stands must fail, and every other one succeed.

use std::path::Path;
use std::process::Command;

use super::*;

const PAGE: &str = include_str!("../../../docs/operations/access.md");
/// The part that is run.
const PART: &str = "## Bucket policies and anonymous readers";

/// Whether the machine has a program.
fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// The blocks of the part, each with its language, its text, and the file that the text before it names.
fn blocks() -> Vec<(&'static str, &'static str, Option<&'static str>)> {
    let (_, part) = PAGE.split_once(PART).expect("the part");
    let part = part.split("\n## ").next().expect("a first");
    let mut pieces = part.split("\n```");
    let mut before = pieces.next().unwrap_or_default();
    let mut blocks = Vec::new();
    while let Some(block) = pieces.next() {
        let (language, text) = block.split_once('\n').expect("a language");
        let file = before.trim_end().strip_suffix("`:").and_then(|text| text.rsplit_once("file `"));
        blocks.push((language, text, file.map(|(_, name)| name)));
        before = pieces.next().unwrap_or_default();
    }
    blocks
}

/// Runs a command of the page; returns whether it succeeded, and what it printed.
fn run(node: &Node, folder: &Path, command: &str) -> (bool, String) {
    let mut shell = Command::new("bash");
    shell.args(["-o", "pipefail", "-c", command]).current_dir(folder);
    shell.env("AWS_ENDPOINT_URL", &node.endpoint).env("AWS_REGION", "us-east-1").env("AWS_PAGER", "");
    shell.env("AWS_ACCESS_KEY_ID", &node.access_key).env("AWS_SECRET_ACCESS_KEY", &node.secret_key);
    shell.env("AWS_CONFIG_FILE", folder.join("none")).env("AWS_SHARED_CREDENTIALS_FILE", folder.join("none"));
    let output = shell.output().expect("a shell");
    let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status.success(), printed.concat())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_of_the_page_print_what_it_says() {
    if let Some(missing) = ["bash", "aws", "curl"].into_iter().find(|program| !has(program)) {
        println!(
            "SKIPPED: `{missing}` is not installed, the commands of docs/operations/access.md did not run"
        );
        return;
    }
    let node = node().await;
    let folder = tempfile::tempdir().expect("a folder");
    let mut count = 0;
    for (language, text, file) in blocks() {
        if language == "json" {
            let file = file.expect("the text before names the file");
            std::fs::write(folder.path().join(file), text).expect("written");
            continue;
        }
        assert_eq!(language, "console");
        for entry in text.split("\n$ ").map(|entry| entry.strip_prefix("$ ").unwrap_or(entry)) {
            let mut lines = entry.lines();
            let command = lines.next().expect("a command");
            let expected: Vec<&str> = lines.collect();
            let fails = expected.iter().any(|line| line.starts_with("An error occurred"));
            let (succeeded, printed) = run(&node, folder.path(), command);
            assert_eq!(succeeded, !fails, "{command}: {printed}");
            assert!(!expected.is_empty() || printed.is_empty(), "{command}: {printed}");
            for line in expected {
                assert!(printed.contains(line), "{command}: {line} is not in {printed}");
            }
            count += 1;
        }
    }
    assert!(count > 10, "the page has commands");
}
