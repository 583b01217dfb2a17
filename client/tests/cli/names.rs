//! Names that the other side cannot have, or must not: an error for each, and the rest goes on.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

use crate::fixture::Sherd;

#[test]
fn keys_that_would_leave_the_target_are_not_written() {
    let sherd = Sherd::new();
    for key in ["p/good", "p/../escaped", "p/a/../../escaped", "p//etc/x", "p/./x", "p/folder/", "p/full/"] {
        let content: &[u8] = if key == "p/folder/" { b"" } else { b"x" };
        // An address that ends in a slash is a folder: such an object is made by the library.
        put(&sherd, key, content);
    }
    fs::create_dir_all(sherd.path("in/target")).unwrap();
    let ended = sherd.run(&["cp", "-r", &sherd.url("p"), &sherd.text("in/target")]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(sherd.files("in"), ["target/good"]);
    assert!(!sherd.path("escaped").exists());
    assert_eq!(ended.err.matches("would not stay below the target").count(), 4, "{ended:?}");
    assert!(ended.err.contains("p/full/: the key ends in `/`"), "{ended:?}");
    assert!(!ended.err.contains("p/folder/"), "{ended:?}");
}

fn put(sherd: &Sherd, key: &str, content: &[u8]) {
    let url = Sherd::client().presign("PUT", &sherd.bucket, key, 60).expect("it is signed");
    let (_, rest) = url.split_once("://").expect("a URL");
    let (host, path) = rest.split_once('/').expect("a path");
    let mut stream = std::net::TcpStream::connect(host).expect("the node listens");
    let head = format!("PUT /{path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {}\r\n", content.len());
    let request = [head.as_bytes(), b"connection: close\r\n\r\n", content].concat();
    std::io::Write::write_all(&mut stream, &request).expect("it is sent");
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{key}: {answer}");
}

#[test]
fn files_that_keys_cannot_name_are_errors_and_the_rest_goes_up() {
    let sherd = Sherd::new();
    sherd.write("t/a", "a");
    sherd.write("t/\u{e9} +%/b c", "b");
    fs::write(sherd.path("t").join(OsStr::from_bytes(b"bad\xff")), "x").unwrap();
    symlink("..", sherd.path("t/loop")).unwrap();
    symlink("nowhere", sherd.path("t/broken")).unwrap();
    let ended = sherd.run(&["cp", "-r", &sherd.text("t"), &sherd.url("p")]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    for words in ["not UTF-8", "leads back to a folder above it", "broken"] {
        assert!(ended.err.contains(words), "{words}: {ended:?}");
    }
    sherd.ok(&["cp", "-r", &sherd.url("p"), &sherd.text("back")]);
    let back = sherd.files("back");
    assert!(back.contains(&"a".to_owned()) && back.contains(&"\u{e9} +%/b c".to_owned()), "{back:?}");
}

#[test]
fn a_file_in_the_place_of_a_folder_is_an_error_and_the_rest_goes_on() {
    let sherd = Sherd::new();
    for key in ["p/a", "p/a/b", "p/c"] {
        put(&sherd, key, b"x");
    }
    sherd.write("down/a", "a file");
    let ended = sherd.run(&["cp", "-r", &sherd.url("p"), &sherd.text("down")]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("down/a"), "{ended:?}");
    assert_eq!(sherd.files("down"), ["a", "c"]);
}

#[test]
fn what_cannot_be_is_refused_before_a_request() {
    let sherd = Sherd::new();
    let file = sherd.write("file", "x");
    let url = sherd.url("k");
    for (arguments, words) in [
        (vec!["cp", &file, &url, "--workers", "0"], "workers must be 1 to"),
        (vec!["cp", &file, &url, "--part-size", "1MiB"], "5 MiB to 5 GiB"),
        (vec!["cp", &file, "other"], "neither side"),
        (vec!["cp", ".", &url], "--recursive"),
        (vec!["cp", &file, "https://a/b"], "neither s3:// nor an alias"),
        (vec!["cp", "-", "s3://b/"], "no name of its own"),
        (vec!["rm", "s3://b"], "--recursive"),
        (vec!["presign", &url, "--expires", "8days"], "7days"),
        (vec!["sync", "-", &url], "no folder"),
        (vec!["mb", &url], "no bucket"),
    ] {
        let ended = sherd.run(&arguments);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {ended:?}");
        assert!(ended.err.contains(words), "{arguments:?}: {ended:?}");
    }
}
