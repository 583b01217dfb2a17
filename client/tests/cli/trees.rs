//! Trees: `cp -r`, `mv -r`, `sync`, `diff`, filters, and copies from one service to another.

use std::fs;

use serde_json::Value;

use crate::fixture::{Sherd, noise, same};
use crate::relay::{Relay, Rule, Way};

const MIB: usize = 1 << 20;

fn keys(sherd: &Sherd, key: &str) -> Vec<String> {
    let out = sherd.ok(&["find", &sherd.url(key), "--json"]);
    let beginning = format!("s3://{}/", sherd.bucket);
    let name = |line: &str| {
        let value: Value = serde_json::from_str(line).expect("JSON");
        value["name"].as_str().expect("a name").trim_start_matches(&beginning).to_owned()
    };
    out.lines().map(name).collect()
}

#[test]
fn a_tree_goes_up_and_down_and_is_the_same() {
    let sherd = Sherd::new();
    for index in 0..300_u32 {
        sherd.write(&format!("t/{}/{index}", index % 7), noise(index as usize * 37, u64::from(index)));
    }
    sherd.write("t/large.json", noise(18 * MIB, 1));
    let out = sherd.ok(&["cp", "-r", &sherd.text("t"), &sherd.url("p"), "--json"]);
    let events: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(events.len(), 301);
    assert!(events.iter().all(|event| event["event"] == "done" && event["verb"] == "copy"));
    sherd.ok(&["cp", "-r", &sherd.url("p/"), &sherd.text("back"), "--quiet"]);
    assert_eq!(sherd.files("t"), sherd.files("back"));
    for name in sherd.files("t") {
        assert!(same(&sherd.path("t").join(&name), &sherd.path("back").join(&name)), "{name}");
    }
    assert!(sherd.ok(&["stat", &sherd.url("p/large.json")]).contains("content-type: application/json"));
}

#[test]
fn a_sync_copies_what_differs_and_removes_what_is_gone() {
    let sherd = Sherd::new();
    for name in ["a", "b/c", "b-d", "e"] {
        sherd.write(&format!("t/{name}"), name);
    }
    let (folder, prefix) = (sherd.text("t"), sherd.url("p"));
    assert_eq!(sherd.ok(&["sync", &folder, &prefix]).lines().count(), 4);
    assert_eq!(sherd.ok(&["sync", &folder, &prefix]), "", "nothing differs");
    assert_eq!(sherd.ok(&["diff", &folder, &prefix]), "");
    sherd.write("t/a", "longer than before");
    fs::remove_file(sherd.path("t/e")).unwrap();
    sherd.write("t/f", "new");
    let diff = sherd.run(&["diff", &folder, &prefix]);
    assert_eq!((diff.code, diff.out.as_str()), (Some(1), "! a\n> e\n< f\n"));
    let plan = sherd.ok(&["sync", &folder, &prefix, "--delete", "--dry-run"]);
    assert!(plan.contains("would delete") && plan.lines().count() == 3, "{plan}");
    assert_eq!(keys(&sherd, "p"), ["p/a", "p/b-d", "p/b/c", "p/e"], "nothing was done");
    sherd.ok(&["sync", &folder, &prefix]);
    assert_eq!(keys(&sherd, "p"), ["p/a", "p/b-d", "p/b/c", "p/e", "p/f"]);
    sherd.ok(&["sync", &folder, &prefix, "--delete"]);
    assert_eq!(keys(&sherd, "p"), ["p/a", "p/b-d", "p/b/c", "p/f"]);

    let back = sherd.text("back");
    sherd.ok(&["sync", &prefix, &back]);
    assert_eq!(sherd.files("back"), ["a", "b-d", "b/c", "f"], "the folder is made");
    let missing = sherd.run(&["sync", &sherd.text("missing"), &prefix, "--delete"]);
    assert!(missing.code != Some(0) && missing.err.contains("missing"), "{missing:?}");
    assert_eq!(keys(&sherd, "p"), ["p/a", "p/b-d", "p/b/c", "p/f"], "a source must be there");
    sherd.write("back/gone", "x");
    sherd.ok(&["sync", &prefix, &back, "--delete"]);
    assert_eq!(sherd.files("back"), ["a", "b-d", "b/c", "f"]);
    assert_eq!(sherd.ok(&["sync", &prefix, &back]), "", "files have the times of their objects");
    assert_eq!(sherd.ok(&["sync", &prefix, &sherd.url("copy")]).lines().count(), 4);
    assert_eq!(sherd.ok(&["diff", &prefix, &sherd.url("copy"), "--compare", "etag"]), "");
}

#[test]
fn an_etag_finds_a_change_that_size_and_time_hide() {
    let sherd = Sherd::new();
    let file = sherd.write("t/a", "one");
    let old = fs::metadata(&file).unwrap().modified().unwrap() - std::time::Duration::from_hours(1);
    sherd.ok(&["sync", &sherd.text("t"), &sherd.url("p")]);
    fs::write(&file, "two").unwrap();
    fs::File::options().write(true).open(&file).unwrap().set_modified(old).unwrap();
    let (folder, prefix) = (sherd.text("t"), sherd.url("p"));
    assert_eq!(sherd.ok(&["diff", &folder, &prefix]), "");
    assert_eq!(sherd.run(&["diff", &folder, &prefix, "--compare", "etag"]).out, "! a\n");
    sherd.ok(&["sync", &folder, &prefix, "--compare", "etag"]);
    assert_eq!(sherd.ok(&["cat", &sherd.url("p/a")]), "two");
}

#[test]
fn a_source_that_is_empty_or_unreadable_removes_nothing() {
    let sherd = Sherd::new();
    sherd.write("t/a/x", "x");
    sherd.write("t/b/y", "y");
    sherd.write("t/c/z", "z");
    let (folder, prefix) = (sherd.text("t"), sherd.url("p"));
    sherd.ok(&["sync", &folder, &prefix]);
    for source in [sherd.url("typo"), sherd.text("typo")] {
        let target = if source.starts_with("s3://") { sherd.text("t") } else { prefix.clone() };
        assert_ne!(sherd.run(&["sync", &source, &target, "--delete"]).code, Some(0), "{source}");
    }
    assert_eq!((keys(&sherd, "p").len(), sherd.files("t").len()), (3, 3));
    fs::remove_dir_all(sherd.path("t/b")).unwrap();
    // A link that leads nowhere stands for a folder that cannot be read: tests may run as root.
    std::os::unix::fs::symlink("nowhere", sherd.path("t/b")).unwrap();
    fs::remove_dir_all(sherd.path("t/c")).unwrap();
    assert_ne!(sherd.run(&["sync", &folder, &prefix, "--delete"]).code, Some(0));
    assert_eq!(keys(&sherd, "p").len(), 3, "what is behind the error may be there");
}

#[test]
fn filters_choose_by_name_below_what_was_asked_for() {
    let sherd = Sherd::new();
    for name in ["a.txt", "b.log", "x/c.txt", "x/d.log"] {
        sherd.write(&format!("t/{name}"), name);
    }
    let (folder, prefix) = (sherd.text("t"), sherd.url("p"));
    sherd.ok(&["cp", "-r", &folder, &prefix, "--include", "*.txt"]);
    assert_eq!(keys(&sherd, "p"), ["p/a.txt", "p/x/c.txt"]);
    sherd.ok(&["sync", &folder, &prefix, "--exclude", "x/*"]);
    assert_eq!(keys(&sherd, "p"), ["p/a.txt", "p/b.log", "p/x/c.txt"]);
    sherd.ok(&["sync", &folder, &prefix, "--delete", "--include", "nothing"]);
    assert_eq!(keys(&sherd, "p").len(), 3, "what filters leave out is not removed either");
    sherd.ok(&["rm", "-r", &prefix, "--exclude", "*.log"]);
    assert_eq!(keys(&sherd, "p"), ["p/b.log"]);
}

#[test]
fn what_is_moved_is_gone_from_its_source() {
    let sherd = Sherd::new();
    sherd.write("t/a", "a");
    sherd.write("t/b/c", "c");
    sherd.ok(&["mv", "-r", &sherd.text("t"), &sherd.url("p")]);
    assert_eq!((sherd.files("t"), keys(&sherd, "p").len()), (vec![], 2));
    sherd.ok(&["mv", &sherd.url("p/a"), &sherd.url("q/")]);
    assert_eq!((keys(&sherd, "p"), keys(&sherd, "q")), (vec!["p/b/c".to_owned()], vec!["q/a".to_owned()]));
    sherd.ok(&["mv", &sherd.url("q/a"), &sherd.text("down/")]);
    assert_eq!((sherd.files("down"), keys(&sherd, "q")), (vec!["a".to_owned()], vec![]));
}

#[test]
fn source_and_target_may_not_overlap() {
    let sherd = Sherd::new();
    sherd.fed(b"a", &["pipe", &sherd.url("p/a")]);
    let (a, p) = (sherd.url("p/a"), sherd.url("p"));
    for (code, arguments) in [
        (1, vec!["mv", &a, &a, "--metadata", "x=y"]),
        (1, vec!["cp", "-r", &p, &sherd.url("p/q")]),
        (1, vec!["mv", "-r", &p, &p]),
        (2, vec!["sync", &sherd.url("p/q"), &p, "--delete"]),
        (2, vec!["sync", &p, &sherd.url("p/q")]),
    ] {
        let ended = sherd.run(&arguments);
        assert_eq!(ended.code, Some(code), "{arguments:?}: {ended:?}");
        assert!(ended.err.contains("overlap"), "{arguments:?}: {ended:?}");
    }
    assert_eq!(keys(&sherd, ""), ["p/a"]);
}

#[test]
fn objects_go_from_one_service_to_another_with_their_headers() {
    let sherd = Sherd::new();
    let large = sherd.write("large", noise(25 * MIB, 1));
    let small = sherd.write("small.txt", "small");
    let put = ["cp", &large, &small, &sherd.url("p/"), "--metadata", "Who=me", "--cache-control", "no-store"];
    sherd.ok(&put);
    let relay = Relay::new(Way::Down, Rule::Pass);
    let set = ["alias", "set", "other", &format!("http://{}", relay.address), "tester"];
    assert_eq!(sherd.fed(b"tester-secret\n", &set).code, Some(0));
    let (source, target) = (sherd.url("p"), format!("other://{}/q", sherd.bucket));
    sherd.ok(&["cp", "-r", &source, &target]);
    sherd.ok(&["cp", "-r", &sherd.url("q"), &sherd.text("back")]);
    assert!(same(&sherd.path("large"), &sherd.path("back/large")));
    let stat = sherd.ok(&["stat", &sherd.url("q/small.txt"), &sherd.url("q/large")]);
    for (words, count) in [("cache-control: no-store", 2), ("x-amz-meta-who: me", 2), ("text/plain", 1)] {
        assert_eq!(stat.matches(words).count(), count, "{stat}");
    }
    assert_eq!(stat.matches("CRC64NVME").count(), 2, "{stat}");
}

#[test]
fn what_lies_behind_a_link_is_not_removed() {
    let sherd = Sherd::new();
    let outside = sherd.write("outside/file", "x");
    sherd.write("t/a", "a");
    sherd.write("t/gone", "x");
    sherd.fed(b"a", &["pipe", &sherd.url("p/a")]);
    std::os::unix::fs::symlink("../outside", sherd.path("t/link")).unwrap();
    let sync = ["sync", &sherd.url("p"), &sherd.text("t"), "--delete", "--compare", "size"];
    let ended = sherd.run(&sync);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("behind a link"), "{ended:?}");
    assert_eq!(sherd.files("t"), ["a", "link/file"]);
    let ended = sherd.run(&["mv", "-r", &sherd.text("t"), &sherd.url("q")]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!((sherd.files("t"), fs::exists(outside).unwrap()), (vec!["link/file".to_owned()], true));
}

#[test]
fn sources_of_one_name_do_not_replace_each_other() {
    let sherd = Sherd::new();
    let (one, other) = (sherd.write("a/x", "one"), sherd.write("b/x", "other"));
    let ended = sherd.run(&["mv", &one, &other, &sherd.url("p/")]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("has the same name at the target"), "{ended:?}");
    assert_eq!(
        (fs::read_to_string(other).unwrap(), keys(&sherd, "p")),
        ("other".to_owned(), vec!["p/x".to_owned()])
    );
    sherd.write("a/x", "one");
    let ended = sherd.run(&["cp", "-r", &sherd.text("a"), &sherd.text("b"), &sherd.url("q")]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(sherd.ok(&["cat", &sherd.url("q/x")]), "one");
}

#[test]
fn a_tree_that_is_moved_up_does_not_run_over_itself() {
    let sherd = Sherd::new();
    for (key, content) in [("p/q/q/x", "inner"), ("p/q/x", "outer"), ("p/q/y", "y")] {
        sherd.fed(content.as_bytes(), &["pipe", &sherd.url(key)]);
    }
    let ended = sherd.run(&["mv", "-r", &sherd.url("p/q"), &sherd.url("p")]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("p/q/q/x: source and target overlap"), "{ended:?}");
    assert_eq!(keys(&sherd, "p"), ["p/q/q/x", "p/x", "p/y"]);
    assert_eq!(sherd.ok(&["cat", &sherd.url("p/x")]), "outer");
}

#[test]
fn a_sync_that_failed_in_part_removes_nothing() {
    let sherd = Sherd::new();
    sherd.write("t/a", "a");
    sherd.write("t/gone", "x");
    for key in ["p/a/b", "p/c"] {
        sherd.fed(b"x", &["pipe", &sherd.url(key)]);
    }
    // The file `a` stands where a folder would have to be.
    let ended = sherd.run(&["sync", &sherd.url("p"), &sherd.text("t"), "--delete"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(sherd.files("t"), ["a", "c", "gone"]);
}

#[test]
fn a_special_file_is_not_replaced() {
    let sherd = Sherd::new();
    sherd.fed(b"x", &["pipe", &sherd.url("k")]);
    let _socket = std::os::unix::net::UnixListener::bind(sherd.path("socket")).expect("it is made");
    let ended = sherd.run(&["cp", &sherd.url("k"), &sherd.text("socket")]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(!fs::metadata(sherd.path("socket")).unwrap().is_file());
}
