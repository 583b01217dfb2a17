//! Each verb once, on single objects and buckets: output for people and as JSON, and exit codes.

use serde_json::Value;

use crate::fixture::{Sherd, noise};

fn json(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn an_object_is_stored_shown_and_removed() {
    let sherd = Sherd::new();
    let url = sherd.url("a/b.txt");
    assert_eq!(sherd.fed(b"one\ntwo\nthree\n", &["pipe", &url]).code, Some(0));
    assert_eq!(sherd.ok(&["cat", &url, &url]), "one\ntwo\nthree\none\ntwo\nthree\n");
    assert_eq!(sherd.ok(&["cp", &url, "-"]), "one\ntwo\nthree\n");
    assert_eq!(sherd.ok(&["head", "-n", "2", &url]), "one\ntwo\n");
    assert_eq!(sherd.ok(&["head", "-c", "5", &url]), "one\nt");
    let stat = &json(&sherd.ok(&["stat", &url, "--json"]))[0];
    assert_eq!((&stat["bytes"], &stat["checksum"]["algorithm"]), (&14.into(), &"CRC64NVME".into()));
    sherd.ok(&["tag", &url, "a=1", "b c=d/e"]);
    assert_eq!(sherd.ok(&["tag", &url]), "a=1\nb c=d/e\n");
    sherd.ok(&["tag", &url, "--remove"]);
    assert_eq!(sherd.ok(&["tag", &url]), "");
    assert!(sherd.ok(&["rm", &url, "--dry-run"]).starts_with("would delete"));
    sherd.ok(&["rm", &url]);
    for verb in ["rm", "cat", "stat", "head", "tag"] {
        let ended = sherd.run(&[verb, &url]);
        assert_eq!(ended.code, Some(3), "{verb}: {ended:?}");
    }
    let failed = &json(&sherd.run(&["cp", &url, "x", "--json"]).out)[0];
    assert_eq!((&failed["event"], &failed["error"]["kind"]), (&"failed".into(), &"refused".into()));
    assert_eq!(sherd.run(&["cp", "none", &url]).code, Some(3));
}

#[test]
fn buckets_are_made_listed_and_removed() {
    let sherd = Sherd::new();
    let bucket = sherd.url("");
    assert!(sherd.ok(&["ls"]).lines().any(|line| line.ends_with(&bucket)));
    assert!(sherd.ok(&["stat", &bucket]).contains("kind: bucket"));
    sherd.ok(&["mb", &bucket, "--ignore-existing"]);
    sherd.fed(b"x", &["pipe", &sherd.url("a")]);
    let ended = sherd.run(&["rb", &bucket]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("--force"), "{ended:?}");
    sherd.ok(&["rb", "--force", &bucket]);
    assert_eq!(sherd.run(&["ls", &bucket]).code, Some(3));
    assert_eq!(sherd.run(&["stat", &bucket]).code, Some(3));
}

#[test]
fn objects_are_listed_by_folder_and_below() {
    let sherd = Sherd::new();
    for (key, bytes) in [("a.log", 10), ("x/b.txt", 2_000), ("x/y/c.txt", 30), ("x2/d", 1)] {
        assert_eq!(sherd.fed(&noise(bytes, 1), &["pipe", &sherd.url(key), "-q"]).code, Some(0));
    }
    let names = |arguments: &[&str]| -> Vec<String> {
        let lines = json(&sherd.ok(&[arguments, &["--json"]].concat()));
        let name = |line: &Value| line["name"].as_str().expect("a name").to_owned();
        lines.iter().map(|line| name(line).replace(&sherd.url(""), "")).collect()
    };
    let (all, x) = (sherd.url(""), sherd.url("x"));
    assert_eq!(names(&["ls", &all]), ["/a.log", "/x/", "/x2/"]);
    assert_eq!(names(&["ls", &x]), ["/x/", "/x2/"], "the beginning of keys is enough");
    assert_eq!(names(&["ls", "-r", &all]), ["/a.log", "/x/b.txt", "/x/y/c.txt", "/x2/d"]);
    assert_eq!(names(&["find", &x]), ["/x/b.txt", "/x/y/c.txt"], "x2 is not below x");
    assert_eq!(names(&["find", &all, "--name", "*.txt", "--larger", "1KiB"]), ["/x/b.txt"]);
    assert_eq!(names(&["find", &all, "--older", "1day"]), [""; 0]);
    assert_eq!(names(&["find", &all, "--newer", "1day", "--smaller", "20"]), ["/a.log", "/x2/d"]);
    let du = &json(&sherd.ok(&["du", &x, "--json"]))[0];
    assert_eq!((&du["bytes"], &du["objects"]), (&2_030.into(), &2.into()));
    let tree = sherd.ok(&["tree", &x]);
    assert_eq!(tree.lines().skip(1).collect::<Vec<_>>(), ["├── b.txt", "└── y/", "    └── c.txt"]);
    assert_eq!(sherd.ok(&["tree", &all, "-d", "1"]).lines().count(), 4);
    assert_eq!(sherd.run(&["ls", &sherd.url("none")]).code, Some(3));
    assert_eq!(sherd.run(&["cp", "-r", &sherd.url("none"), "down"]).code, Some(3));
}

#[test]
fn a_list_of_more_than_a_page_is_whole_and_in_order() {
    let sherd = Sherd::new();
    for index in 0..1_050 {
        sherd.write(&format!("t/{index:04}"), "");
    }
    sherd.ok(&["cp", "-r", &sherd.text("t"), &sherd.url("p"), "-q"]);
    let listed = sherd.ok(&["ls", "-r", &sherd.url("p")]);
    let names: Vec<_> = listed.lines().filter_map(|line| line.rsplit('/').next()).collect();
    let expected: Vec<_> = (0..1_050).map(|index| format!("{index:04}")).collect();
    assert_eq!(names, expected);
    sherd.ok(&["rm", "-r", &sherd.url("p"), "-q"]);
    assert_eq!(sherd.ok(&["du", &sherd.url(""), "--json"]).matches("\"objects\":0").count(), 1);
}

#[test]
fn a_pipe_of_many_parts_is_whole() {
    let sherd = Sherd::new();
    let content = noise(30 << 20, 1);
    assert_eq!(sherd.fed(&content, &["cp", "-", &sherd.url("p"), "--part-size", "6MiB"]).code, Some(0));
    sherd.ok(&["cp", &sherd.url("p"), &sherd.text("back")]);
    assert!(std::fs::read(sherd.path("back")).unwrap() == content);
}

#[test]
fn a_presigned_url_needs_no_keys() {
    let sherd = Sherd::new();
    sherd.fed(b"content", &["pipe", &sherd.url("a b+c")]);
    let url = sherd.ok(&["presign", &sherd.url("a b+c"), "--expires", "5m"]);
    let rest = url.trim().strip_prefix("http://").expect("a URL");
    let (host, path) = rest.split_once('/').expect("a path");
    let mut stream = std::net::TcpStream::connect(host).expect("the node listens");
    let request = format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    std::io::Write::write_all(&mut stream, request.as_bytes()).expect("it is sent");
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("content"), "{answer}");
}

#[test]
fn aliases_are_kept_shown_without_secrets_and_forgotten() {
    let sherd = Sherd::new();
    let endpoint = format!("http://{}", crate::fixture::node());
    let ended = sherd.fed(b"tester-secret\n", &["alias", "set", "here", &endpoint, "tester"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let listed = sherd.ok(&["alias", "ls"]);
    assert!(listed.contains("here://") && !listed.contains("tester-secret"), "{listed}");
    let mode = std::fs::metadata(sherd.path(".config/sherd/aliases.toml")).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
    sherd.ok(&["ls", &format!("here://{}", sherd.bucket)]);
    sherd.ok(&["alias", "rm", "here"]);
    let ended = sherd.run(&["ls", "here://"]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(ended.err.contains("sherd alias set here"), "{ended:?}");
    assert_eq!(sherd.run(&["alias", "set", "s3", &endpoint]).code, Some(2));
    assert_eq!(sherd.fed(b"\n", &["alias", "set", "a", &endpoint, "tester"]).code, Some(4));
}

#[test]
fn wrong_keys_are_refused_with_a_hint() {
    let sherd = Sherd::new();
    let output = sherd.command(&["ls"]).env("AWS_SECRET_ACCESS_KEY", "wrong").output().expect("it runs");
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&output.stderr).contains("check the secret key"));
    let mut command = sherd.command(&["ls"]);
    let output = command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY").output();
    assert_eq!(output.expect("it runs").status.code(), Some(4));
    assert_eq!(sherd.run(&["ls", &sherd.url(""), "--no-sign-request"]).code, Some(4));
}

#[test]
fn shells_complete_commands() {
    let sherd = Sherd::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(sherd.ok(&["completions", shell]).contains("presign"), "{shell}");
    }
}
