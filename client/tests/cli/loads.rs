//! `sherd bench`: what it counts is what was done, what is wrong is counted, and nothing is left behind.

use serde_json::Value;

use crate::fixture::{Ended, Sherd};
use crate::scripted::Scripted;

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_load_is_measured_and_leaves_nothing_behind() {
    let sherd = Sherd::new();
    let load = ["bench", &sherd.url("p"), "--size", "5000", "--objects", "20", "--duration", "300ms"];
    let measured = lines(&sherd.ok(&[&load[..], &["--json", "--workers", "4"]].concat()));
    let operations: Vec<&str> = measured.iter().filter_map(|line| line["operation"].as_str()).collect();
    assert_eq!(operations, ["put", "get", "list"]);
    for line in &measured {
        assert!(line["operations"].as_u64() > Some(0) && line["operations_per_second"].as_f64() > Some(0.0));
        assert!(line["latency_ms"]["p50"].as_f64() <= line["latency_ms"]["max"].as_f64(), "{line}");
        assert_eq!((&line["faults"], &line["workers"]), (&serde_json::json!({}), &4.into()));
    }
    assert!(measured[1]["bytes_per_second"].as_u64() > Some(0) && measured[2]["bytes_per_second"].is_null());
    assert_eq!(lines(&sherd.ok(&["du", &sherd.url(""), "--json"]))[0]["objects"], 0);
}

#[test]
fn objects_may_stay_and_are_of_the_size_that_was_asked_for() {
    let sherd = Sherd::new();
    let load = ["bench", &sherd.url("p"), "--op", "list", "--size", "70", "--objects", "3"];
    let out = sherd.ok(&[&load[..], &["--keep", "--duration", "1ms"]].concat());
    assert!(out.starts_with("list") && out.ends_with("0 faults\n"), "{out}");
    let du = &lines(&sherd.ok(&["du", &sherd.url("p"), "--json"]))[0];
    assert_eq!((&du["objects"], &du["bytes"]), (&3.into(), &210.into()));
}

#[test]
fn an_answer_of_other_bytes_is_a_fault() {
    let sherd = Sherd::new();
    // The object is stored, read by all workers, and removed.
    let stored = ("200 OK\r\netag: \"e\"", "");
    let server = Scripted::new(&[stored, ("200 OK\r\netag: \"e\"", "other")]);
    let load = ["bench", "s3://b", "--op", "get", "--size", "5", "--objects", "1", "--duration", "100ms"];
    let load = [&load[..], &["--workers", "1", "--json", "--keep"]].concat();
    let ended = Ended::of(sherd.command_at(server.address, &load).output().expect("it runs"));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let measured = &lines(&ended.out)[0];
    assert_eq!(measured["operations"], 0, "{ended:?}");
    assert!(measured["faults"]["malformed_answer"].as_u64() > Some(0), "{ended:?}");
    assert!(ended.out.contains("not the bytes that were stored"), "{ended:?}");
}

#[test]
fn a_load_that_cannot_be_is_refused() {
    let sherd = Sherd::new();
    for (arguments, code) in [
        (vec!["bench", "s3://"], 2),
        (vec!["bench", "s3://b", "--size", "2GiB"], 2),
        (vec!["bench", "s3://b", "--objects", "0"], 2),
        (vec!["bench", "s3://b", "--op", "fly"], 2),
        (vec!["bench", "s3://no-such-bucket", "--op", "get", "--duration", "1ms"], 3),
    ] {
        assert_eq!(sherd.run(&arguments).code, Some(code), "{arguments:?}");
    }
}
