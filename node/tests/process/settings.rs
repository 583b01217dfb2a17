//! Settings that a running node takes from its files.
//!
//! A change of a hot key takes effect without a start, in the main file and in the live file, which wins.
//! A file that cannot be used changes nothing and is named once, as is a key that only a start takes.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;

use crate::harness::wait::{SOON, eventually};
use crate::harness::{Node, empty};

/// A line that a node logs at its end, at level debug alone.
const DEBUG_LINE: &str = "accepts no more";

fn main_file(node: &Node) -> PathBuf {
    node.dir().join("sherd.toml")
}

/// Changes a line of the main file.
fn change(node: &Node, from: &str, to: &str) {
    let text = fs::read_to_string(main_file(node)).expect("the harness wrote it");
    assert!(text.contains(from), "{text}");
    // Renamed into place, as editors and the kubelet do: a node never reads half of it.
    let changed = node.dir().join("changed.toml");
    fs::write(&changed, text.replace(from, to)).expect("the folder is writable");
    fs::rename(changed, main_file(node)).expect("the folder is writable");
}

fn write_live(node: &Node, text: &str) {
    let changed = node.dir().join("changed.toml");
    fs::write(&changed, text).expect("the folder is writable");
    fs::rename(changed, node.dir().join("live.toml")).expect("the folder is writable");
}

/// Asks the node to look at its files, and waits for a metric.
async fn looked(node: &Node, metric: &str, value: f64) {
    eventually("the node looks at its files", SOON, async || {
        node.signal(Signal::HUP);
        let found = node.metrics().await.get(metric);
        if (found - value).abs() < 0.5 { Ok(()) } else { Err(format!("{metric} is {found}")) }
    })
    .await;
}

async fn loaded(node: &Node, generation: u32) {
    looked(node, "sherd_config_generation", f64::from(generation)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_level_in_a_changed_file_holds_at_once_and_what_needs_a_start_is_named() {
    let node = empty().serve("region = \"one\"\nlog.level = \"info\"").start().await;
    loaded(&node, 1).await;
    change(&node, "log.level = \"info\"", "log.level = \"debug\"");
    loaded(&node, 2).await;
    change(&node, "region = \"one\"", "region = \"two\"");
    loaded(&node, 3).await;
    change(&node, "log.level = \"debug\"", "log.level = \"info,sherd_node::server=debug\"");
    loaded(&node, 4).await;
    let waits = node.log_lines("takes effect when the node starts again");
    assert_eq!((waits, node.log_lines("key=\"region\"")), (1, 1), "{}", node.log());
    let folder = node.dir().join("stderr.log");
    let stopped = node.stop().await;
    let log = fs::read_to_string(folder).expect("the node's log");
    assert!(log.contains(DEBUG_LINE), "{log}");
    drop(stopped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_file_wins_while_it_is_there() {
    let node = empty().serve("log.level = \"debug\"").start().await;
    write_live(&node, "log.level = \"error\"\n");
    eventually("the level is error", SOON, async || {
        node.signal(Signal::HUP);
        let generation = node.metrics().await.get("sherd_config_generation");
        if generation > 1.5 { Ok(()) } else { Err(format!("generation {generation}")) }
    })
    .await;
    fs::remove_file(node.dir().join("live.toml")).expect("it was written above");
    loaded(&node, 3).await;
    write_live(&node, "log.level = \"warn\"\n");
    loaded(&node, 4).await;
    let log = node.dir().join("stderr.log");
    let stopped = node.stop().await;
    let log = fs::read_to_string(log).expect("the node's log");
    assert!(!log.contains(DEBUG_LINE), "{log}");
    drop(stopped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_file_changes_nothing_and_is_said_once() {
    let node = empty().serve("log.level = \"info\"").start().await;
    change(&node, "log.level = \"info\"", "log.levle = \"debug\"");
    looked(&node, "sherd_config_refused", 1.0).await;
    // Further looks at the same file.
    for _ in 0..3 {
        looked(&node, "sherd_config_refused", 1.0).await;
    }
    change(&node, "log.levle = \"debug\"", "log.level = \"info\"");
    looked(&node, "sherd_config_refused", 0.0).await;
    loaded(&node, 1).await;
    let log = node.log();
    assert_eq!(node.log_lines("reload the configuration"), 1, "{log}");
    assert!(log.contains("sherd.toml:5") && log.contains("levle"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_starts_without_a_live_file_that_it_cannot_use() {
    let stopped = empty().serve("");
    fs::write(stopped.dir().join("live.toml"), "region = \"other\"\n").expect("the folder is writable");
    let node = stopped.start().await;
    looked(&node, "sherd_config_refused", 1.0).await;
    assert_eq!(node.log_lines("region takes effect only when a node starts"), 1, "{}", node.log());
    write_live(&node, "limits.requests_max = 7\n");
    loaded(&node, 2).await;
}
