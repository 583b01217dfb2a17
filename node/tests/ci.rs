//! Nodes that the files and habits of others start, as a container starts them: `ci` for tests and `server`
//! for files of MinIO, by variables and nothing else; and the health check of an image without a shell.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_s3::types::{CreateBucketConfiguration, Tag};

/// Begins the names of variables that are read.
const READ: [&str; 3] = ["SHERD_", "MINIO_", "AWS_"];
/// For a health check that must not ask another node of this machine.
const CLOSED_ADMIN: (&str, &str) = ("SHERD_ADMIN_LISTEN", "127.0.0.1:1");
const MINIO_KEYS: [(&str, &str); 2] = [("MINIO_ROOT_USER", "minio"), ("MINIO_ROOT_PASSWORD", "minio123")];

fn binary(arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sherd-node"));
    for (name, _) in std::env::vars().filter(|(name, _)| READ.iter().any(|start| name.starts_with(start))) {
        command.env_remove(name);
    }
    command.args(arguments).envs(variables.iter().copied()).stdin(Stdio::null());
    command
}

/// The exit code, and what it says on standard output and standard error.
fn output(arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = binary(arguments, variables).output().expect("it was built");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code(), text(stdout), text(stderr))
}

/// A running node; killed when the test ends early.
struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
    /// The lines before it is ready.
    before: Vec<String>,
    /// The line that says that it is.
    ready: String,
}

impl Running {
    /// Starts a node and waits until it is ready.
    fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = binary(arguments, variables);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.expect("the binary was built");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        let mut node = Self { child, lines, before: Vec::new(), ready: String::new() };
        while !node.ready.starts_with("ready ") {
            if !node.ready.is_empty() {
                node.before.push(std::mem::take(&mut node.ready));
            }
            let mut line = String::new();
            assert_ne!(node.lines.read_line(&mut line).expect("text"), 0, "it ended: {:?}", node.before);
            line.trim_end().clone_into(&mut node.ready);
        }
        node
    }

    fn address(&self) -> &str {
        self.ready.strip_prefix("ready http://").and_then(|rest| rest.split(' ').next()).expect("an address")
    }

    /// A value of the line.
    fn value(&self, name: &str) -> Option<&str> {
        self.ready.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    /// Status and body of an answer to a request without a signature.
    fn ask(&self, method: &str, path: &str, head: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address()).expect("it is ready");
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n{head}\r\n{body}",
            self.address(),
            body.len()
        )
        .expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers in text");
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, answer.split_once("\r\n\r\n").expect("a head").1.to_owned())
    }

    fn status(&self, method: &str, path: &str) -> u16 {
        self.ask(method, path, "", "").0
    }

    /// Puts an object into a bucket, reads it back and removes it, signed.
    fn probe(&self, bucket: &str, id: &str, secret: &str) -> (Option<i32>, String) {
        let endpoint = format!("http://{}", self.address());
        let region = self.value("region").expect("a region");
        let keys = [("AWS_ACCESS_KEY_ID", id), ("AWS_SECRET_ACCESS_KEY", secret)];
        let arguments = ["probe", "--endpoint", &endpoint, "--region", region];
        let of_bucket = [&arguments[..], &["--bucket", bucket]].concat();
        let (code, _, said) = output(if bucket.is_empty() { &arguments } else { &of_bucket }, &keys);
        (code, said)
    }

    /// Asks it to stop and waits.
    fn stop(mut self) -> Option<i32> {
        let status = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(status.expect("kill is everywhere").success());
        self.child.wait().expect("my child").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Ended already in every test that passes.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

const CI: [&str; 3] = ["ci", "--listen", "127.0.0.1:0"];

#[test]
fn a_node_for_tests_is_ready_with_the_buckets_of_minios_variables() {
    let variables = [
        ("MINIO_DEFAULT_BUCKETS", "open:public,closed;pages:download inbox:upload"),
        ("AWS_REGION", "eu-west-1"),
        ("MINIO_BROWSER", "off"),
    ];
    let node = Running::start(&CI, &[&MINIO_KEYS[..], &variables].concat());
    assert!(node.before[0].starts_with("sherd-node ci: durability = none"), "{:?}", node.before);
    assert!(node.before[1].ends_with("does not use MINIO_BROWSER"), "{:?}", node.before);
    assert_eq!((node.value("region"), node.value("access_key_id")), (Some("eu-west-1"), None));
    for bucket in ["closed", "inbox"] {
        assert_eq!(node.probe(bucket, "minio", "minio123"), (Some(0), String::new()));
    }

    // The uses without a key, by the policy alone: a list is ignored.
    let public = "x-amz-acl: public-read\r\n";
    for (bucket, put, get, list) in [
        ("open", 200, 200, 200),
        ("closed", 403, 403, 403),
        ("pages", 403, 404, 200),
        ("inbox", 200, 403, 403),
    ] {
        assert_eq!(node.ask("PUT", &format!("/{bucket}/k"), public, "v").0, put, "{bucket}");
        assert_eq!(node.status("GET", &format!("/{bucket}/k")), get, "{bucket}");
        assert_eq!(node.status("GET", &format!("/{bucket}?list-type=2")), list, "{bucket}");
    }
    assert_eq!(node.stop(), Some(0));
}

#[test]
fn a_node_for_tests_answers_health_where_s3_is_and_makes_no_bucket_there() {
    let node = Running::start(&CI, &[("SHERD_BUCKETS", "minio-data:public")]);
    for path in ["/minio/health/live", "/minio/health/ready", "/minio/health/cluster", "/health/ready"] {
        assert_eq!(node.status("GET", path), 200, "{path}");
        assert_eq!(node.status("HEAD", path), 200, "{path}");
        assert_eq!(node.status("PUT", path), 404, "{path}: no bucket");
    }
    assert_eq!(
        node.ask("GET", "/health/ready", "", ""),
        (200, "{\"ready\":true}\n".to_owned()),
        "no reasons"
    );
    assert_eq!(node.status("GET", "/minio/health/unknown"), 404);
    assert_eq!(
        output(&["health"], &[("SHERD_LISTEN", node.address()), CLOSED_ADMIN]),
        (Some(0), "ready\n".to_owned(), String::new())
    );
    assert_eq!(node.stop(), Some(0));
    for name in ["minio", "health"] {
        let (code, _, said) = output(&CI, &[("SHERD_BUCKETS", name)]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(&format!("make bucket {name}")) && said.contains("reserved"), "{said}");
    }
}

/// The variables and the health check of the only service of deploy/compose.yaml.
fn of_compose() -> (Vec<(&'static str, &'static str)>, Vec<&'static str>) {
    let file = include_str!("../../deploy/compose.yaml");
    let (_, service) = file.split_once("    environment:\n").expect("it sets variables");
    let variables = service.lines().map_while(|line| line.strip_prefix("      ")?.split_once(": "));
    let (_, check) = service.split_once("test: [").expect("it has a health check");
    let (words, _) = check.split_once(']').expect("a list ends");
    let unquoted = |word: &'static str| word.trim_matches('"');
    (
        variables.map(|(name, value)| (name, unquoted(value))).collect(),
        words.split(", ").map(unquoted).collect(),
    )
}

#[test]
fn the_service_of_the_compose_file_has_its_buckets_and_is_healthy() {
    let (variables, check) = of_compose();
    assert_eq!(variables[0], ("MINIO_ROOT_USER", "minio"));
    let node = Running::start(&CI, &variables);
    assert_eq!(node.before.len(), 1, "every variable is read: {:?}", node.before);
    assert_eq!(node.probe("private", "minio", "minio123"), (Some(0), String::new()));
    assert_eq!(node.ask("PUT", "/uploads/k", "", "v").0, 200);
    let ["CMD", "/sherd-node", arguments @ ..] = check.as_slice() else { panic!("{check:?}") };
    assert_eq!(output(arguments, &[("SHERD_LISTEN", node.address()), CLOSED_ADMIN]).0, Some(0));
    assert_eq!(node.stop(), Some(0));
}

#[test]
fn random_keys_are_printed_and_a_temporary_directory_goes() {
    let node = Running::start(&CI, &[]);
    let (id, secret) = (node.value("access_key_id"), node.value("secret_access_key"));
    assert_eq!(node.probe("", id.expect("an id"), secret.expect("a secret")), (Some(0), String::new()));
    assert_eq!(node.probe("", "minioadmin", "minioadmin").0, Some(1));
    let (_, rest) = node.before[0].split_once("volumes in ").expect("it says where");
    let (path, _) = rest.split_once(',').expect("it says that the directory goes");
    let path = Path::new(path).to_owned();
    assert!(path.join("v4").is_dir());
    assert_eq!(node.stop(), Some(0));
    assert!(!path.exists());
}

#[test]
fn what_is_kept_in_a_directory_is_there_again() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("data");
    std::fs::create_dir(&path).expect("a new directory");
    let path = path.to_str().expect("text");
    let variables = [&MINIO_KEYS[..], &[("MINIO_DEFAULT_BUCKETS", "open:public")]].concat();
    let of_minio = ["server", path, "--address", "127.0.0.1:0", "--console-address", ":9001"];
    let of_ci = ["ci", "--listen", "127.0.0.1:0", "--dir", &format!("{path}-of-ci")];
    for arguments in [&of_minio[..], &of_ci] {
        // Metrics and health on another port than those of other tests.
        let variables = [&variables[..], &[("SHERD_ADMIN_LISTEN", "127.0.0.1:0")]].concat();
        let node = Running::start(arguments, &variables);
        assert_eq!(node.ask("PUT", "/open/k", "", "kept").0, 200);
        assert_eq!(node.stop(), Some(0));
        let node = Running::start(arguments, &variables);
        assert_eq!(node.ask("GET", "/open/k", "", ""), (200, "kept".to_owned()));
        let is_named = node.before.iter().any(|line| line.contains("does not use --console-address"));
        assert_eq!(is_named, arguments[0] == "server", "{:?}", node.before);
        assert_eq!(node.stop(), Some(0));
    }
}

/// Keeps a bucket as a start leaves it that is cut between its making and its policy, and one beside it.
async fn leave_unfinished(node: &Running) {
    let credentials = Credentials::new(MINIO_KEYS[0].1, MINIO_KEYS[1].1, None, None, "a test");
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .endpoint_url(format!("http://{}", node.address()))
        .credentials_provider(credentials)
        .force_path_style(true)
        .build();
    let client = aws_sdk_s3::Client::from_conf(config);
    for (bucket, key, value) in
        [("cut", "sherd.dev/unfinished", ""), ("closed", "note", "sherd.dev/unfinished")]
    {
        let tag = Tag::builder().key(key).value(value).build().expect("a key and a value");
        let tagged = CreateBucketConfiguration::builder().tags(tag).build();
        let made = client.create_bucket().bucket(bucket).create_bucket_configuration(tagged);
        made.send().await.expect("it is made");
    }
}

#[tokio::test]
async fn a_bucket_whose_making_was_cut_is_opened_at_the_next_start() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let of_ci = [&CI[..], &["--dir", dir.path().to_str().expect("text")]].concat();
    let node = Running::start(&of_ci, &MINIO_KEYS);
    leave_unfinished(&node).await;
    assert_eq!(node.stop(), Some(0));
    let open = ("MINIO_DEFAULT_BUCKETS", "cut:public,closed:public");
    let node = Running::start(&of_ci, &[&MINIO_KEYS[..], &[open]].concat());
    assert_eq!(node.ask("PUT", "/cut/k", "", "v").0, 200, "the start goes on");
    assert_eq!(node.ask("PUT", "/closed/k", "", "v").0, 403, "it stays as it is");
    assert_eq!(node.stop(), Some(0));
}

#[test]
fn a_first_start_that_was_cut_between_two_directories_is_made_again() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let paths: Vec<_> = (1..=4).map(|number| dir.path().join(number.to_string())).collect();
    for path in &paths {
        std::fs::create_dir(path).expect("a new directory");
    }
    std::fs::create_dir(paths[1].join("sherd")).expect("a new directory");
    let names = paths.iter().map(|path| path.to_str().expect("text"));
    let arguments: Vec<_> = ["server", "--address", "127.0.0.1:0"].into_iter().chain(names).collect();
    let variables =
        [&MINIO_KEYS[..], &[("SHERD_ADMIN_LISTEN", "127.0.0.1:0"), ("SHERD_BUCKETS", "open:public")]]
            .concat();
    let node = Running::start(&arguments, &variables);
    assert_eq!(node.ask("PUT", "/open/k", "", "v").0, 200);
    assert_eq!(node.stop(), Some(0));

    std::fs::remove_dir_all(paths[2].join("sherd")).expect("as an unmounted filesystem");
    let (code, _, said) = output(&arguments, &variables);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("3/sherd does not exist"), "{said}");
}

#[test]
fn a_command_line_of_minio_that_means_something_else_is_refused_in_words() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().to_str().expect("text");
    std::fs::create_dir(dir.path().join(".minio.sys")).expect("a new directory");
    let other = tempfile::tempdir().expect("a temporary directory");
    let other = other.path().to_str().expect("text");
    for (arguments, words) in [
        (&["server", "http://minio{1...4}/data"][..], "several nodes are a cluster"),
        (&["server", path], "holds data of MinIO"),
        (&["server", path, "--certs-dir", "/certs"], "SHERD_TLS_CERT"),
        (&["server", other, "--address", "minio.example.com:9000"], "expected :PORT or IP:PORT"),
    ] {
        let (code, _, said) = output(arguments, &MINIO_KEYS);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    }
    let (code, _, said) = output(&CI, &[("MINIO_ROOT_USER", "minio")]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("MINIO_ROOT_PASSWORD is not set"), "{said}");
}

/// Answers the next requests with these bodies, one each.
fn answers(bodies: &'static [&'static str]) -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let answering = std::thread::spawn(move || {
        for body in bodies {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut head = BufReader::new(stream.try_clone().expect("a socket"));
            let mut line = String::new();
            while head.read_line(&mut line).expect("text") > 2 {
                line.clear();
            }
            let length = body.len();
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
                .expect("it reads");
        }
    });
    (address, answering)
}

#[test]
fn a_health_check_waits_for_a_node_that_is_not_ready() {
    const NOT_YET: &str = "{\"ready\":false,\"phase\":\"opening\"}\n";
    let (address, answering) = answers(&[NOT_YET]);
    let (code, _, said) = output(&["health", "--admin-listen", &address], &[]);
    assert_eq!((code, said), (Some(1), format!("sherd-node: not ready: {NOT_YET}")));
    answering.join().expect("it answered");

    let (address, answering) = answers(&[NOT_YET, NOT_YET, "{\"ready\":true}"]);
    let waited = output(&["health", "--wait", "60s", "--admin-listen", &address], &[]);
    assert_eq!((waited.0, waited.1.as_str()), (Some(0), "ready\n"));
    answering.join().expect("it answered");

    // Neither listener is that of a node.
    let (address, answering) = answers(&["<html>", "<html>"]);
    let (code, _, said) = output(&["health", "--admin-listen", &address, "--listen", &address], &[]);
    assert_eq!(code, Some(1));
    assert!(said.contains("the answer is not that of a node"), "{said}");
    answering.join().expect("it answered");
}
