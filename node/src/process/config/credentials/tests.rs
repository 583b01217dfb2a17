//! Where credentials come from, what is refused, and that a secret never shows.

use std::os::unix::fs::PermissionsExt as _;

use super::*;
use sherd_store::machine::system::SystemRng;

fn file(dir: &tempfile::TempDir, text: &str, mode: u32) -> PathBuf {
    let path = dir.path().join("credentials.env");
    std::fs::write(&path, text).expect("a new file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("my own file");
    path
}

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

const GOOD: &str = "# root\n\nAWS_ACCESS_KEY_ID=AKIAEXAMPLE\nAWS_SECRET_ACCESS_KEY=a=b/c+d12345\n";

#[test]
fn a_file_of_two_lines_gives_the_pair_and_keeps_equal_signs() {
    let dir = temporary();
    let pairs = RootPairs::from_file(&file(&dir, GOOD, 0o600), 0o600).expect("a good file");
    assert!(pairs.secondary.is_none());
    let pair = pairs.first;
    assert_eq!(pair.access_key_id, "AKIAEXAMPLE");
    assert_eq!(pair.secret_access_key.expose(), "a=b/c+d12345");
}

#[test]
fn a_file_that_others_may_read_is_refused() {
    let dir = temporary();
    let error = RootPairs::from_file(&file(&dir, GOOD, 0o640), 0o600).expect_err("the group may read");
    assert!(matches!(error, InvalidCredentials::File(PrivateFileError::Mode { mode: 0o640, .. })));
    assert!(error.to_string().contains("mode 0640"));
    RootPairs::from_file(&file(&dir, GOOD, 0o440), 0o660).expect("a group is fine where that is allowed");
    assert!(RootPairs::from_file(&file(&dir, GOOD, 0o444), 0o660).is_err());
}

#[test]
fn malformed_files_name_the_line() {
    let dir = temporary();
    for (text, line) in [
        ("AWS_ACCESS_KEY_ID=AKIAEXAMPLE\nAWS_SECRET_KEY=abcdefgh\n", 2),
        ("hello\n", 1),
        ("AWS_ACCESS_KEY_ID=one\nAWS_ACCESS_KEY_ID=two\n", 2),
    ] {
        let error = RootPairs::from_file(&file(&dir, text, 0o600), 0o600).expect_err("malformed");
        assert!(matches!(error, InvalidCredentials::Line { line: at, .. } if at == line), "{error}");
    }
    let error = RootPairs::from_file(&file(&dir, "AWS_ACCESS_KEY_ID=one\n", 0o600), 0o600).expect_err("half");
    assert!(matches!(error, InvalidCredentials::MissingLine { missing: SECRET_KEY_LINE, .. }));
}

#[test]
fn a_secondary_pair_is_whole_and_has_another_id() {
    let dir = temporary();
    let read = |lines: &str| RootPairs::from_file(&file(&dir, &format!("{GOOD}{lines}"), 0o600), 0o600);
    let (id, secret) =
        ("AWS_ACCESS_KEY_ID_SECONDARY=AKIAOTHER\n", "AWS_SECRET_ACCESS_KEY_SECONDARY=other-secret\n");
    let pairs = read(&format!("{id}{secret}")).expect("two pairs");
    let ids: Vec<_> = pairs.each().map(|pair| pair.access_key_id.as_str()).collect();
    assert_eq!(ids, ["AKIAEXAMPLE", "AKIAOTHER"]);
    for (half, without) in [(id, SECONDARY_SECRET_KEY_LINE), (secret, SECONDARY_ACCESS_KEY_LINE)] {
        let error = read(half).expect_err("half a pair");
        assert!(matches!(error, InvalidCredentials::MissingLine { missing, .. } if missing == without));
    }
    let error = read(&format!("{}{secret}", id.replace("OTHER", "EXAMPLE"))).expect_err("one id");
    assert!(matches!(error, InvalidCredentials::SameId { .. }));
    assert!(!format!("{error} {error:?}").contains("secret"));
    assert!(matches!(
        read(&format!("{id}{id}")).expect_err("twice"),
        InvalidCredentials::Line { line: 6, .. }
    ));
}

#[test]
fn an_error_about_a_secret_does_not_show_it() {
    let dir = temporary();
    let text = "AWS_ACCESS_KEY_ID=AKIAEXAMPLE\nAWS_SECRET_ACCESS_KEY=hunter2\n";
    let error = RootPairs::from_file(&file(&dir, text, 0o600), 0o600).expect_err("seven characters");
    assert!(matches!(error, InvalidCredentials::SecretAccessKey));
    assert!(!format!("{error} {error:?}").contains("hunter2"));
}

#[test]
fn a_pair_prints_without_its_secret() {
    let pair = Credentials::random(&SystemRng);
    assert!(!format!("{pair:?}").contains(pair.secret_access_key.expose()));
}

#[test]
fn variables_come_in_pairs() {
    let both =
        |name: &str| Some(if name == ACCESS_KEY_VARIABLE { "root".into() } else { "long-enough".into() });
    let pair = Credentials::from_variables(&both).expect("valid").expect("set");
    assert_eq!((pair.access_key_id.as_str(), pair.secret_access_key.expose()), ("root", "long-enough"));

    assert!(Credentials::from_variables(&|_| None).expect("nothing is wrong").is_none());
    assert!(Credentials::from_variables(&|_| Some(String::new())).expect("empty is not set").is_none());
    let only_id = |name: &str| (name == ACCESS_KEY_VARIABLE).then(|| "root".to_owned());
    let error = Credentials::from_variables(&only_id).expect_err("half a pair");
    assert!(matches!(error, InvalidCredentials::Half { missing: SECRET_KEY_VARIABLE }));
}

#[test]
fn a_written_file_is_private_and_reads_back() {
    let dir = temporary();
    let path = dir.path().join("credentials.env");
    std::fs::write(path.with_extension("new"), b"left by a crash").expect("a new file");
    let pair = Credentials::random(&SystemRng);
    pair.write_new(&path).expect("written");
    let mode = std::fs::metadata(&path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert_eq!(RootPairs::from_file(&path, 0o600).expect("just written"), pair.into());
    assert_eq!(std::fs::read_dir(dir.path()).expect("there").count(), 1, "nothing is left beside it");
}

#[test]
fn random_pairs_differ() {
    let (one, two) = (Credentials::random(&SystemRng), Credentials::random(&SystemRng));
    assert_ne!(one.access_key_id, two.access_key_id);
    assert_ne!(one.secret_access_key, two.secret_access_key);
}
