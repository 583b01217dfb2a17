//! The binary from a user's side: its output, its refusals, and how it ends.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

fn node() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sherd-node"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("SHERD_")) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

fn output(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("the binary was built");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code(), text(stdout), text(stderr))
}

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// A running node; killed when the test ends early.
struct Running {
    child: Child,
    s3: String,
    admin: String,
    lines: BufReader<std::process::ChildStdout>,
}

impl Running {
    /// Starts a node and waits until it says where it listens.
    fn start(command: &mut Command) -> Self {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the binary was built");
        let mut lines = BufReader::new(child.stdout.take().expect("piped"));
        let mut address = |prefix: &str| {
            let mut line = String::new();
            lines.read_line(&mut line).expect("text");
            let address = line.trim_end().strip_prefix(prefix);
            address.unwrap_or_else(|| panic!("{line:?} is not {prefix}ADDR")).to_owned()
        };
        let s3 = address("S3 listening on http://");
        let admin = address("Admin listening on http://");
        Self { child, s3, admin, lines }
    }

    fn dev(dir: &Path) -> Self {
        let mut command = node();
        command.args(["dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--dir"]);
        Self::start(command.arg(dir))
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([format!("-{name}"), self.child.id().to_string()]).status();
        assert!(status.expect("kill is everywhere").success());
    }

    /// Asks it to stop and waits.
    fn stop(mut self) -> Option<i32> {
        self.signal("TERM");
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

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it said that it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers in text");
    answer
}

#[test]
fn version_and_help_say_what_it_is() {
    let (code, out, _) = output(node().arg("--version"));
    assert_eq!((code, out), (Some(0), format!("sherd-node {}\n", env!("CARGO_PKG_VERSION"))));
    let (code, out, _) = output(node().arg("--help"));
    assert_eq!(code, Some(0));
    for word in ["dev", "serve", "Exit codes:", "storage node"] {
        assert!(out.contains(word), "{word}: {out}");
    }
    let (code, out, _) = output(node().args(["serve", "--help"]));
    assert_eq!(code, Some(0));
    for word in ["--limits-idle-timeout", "SHERD_VOLUMES", "there is no default", "Exit codes:"] {
        assert!(out.contains(word), "{word}: {out}");
    }
}

#[test]
fn serving_without_credentials_is_refused() {
    let dir = temporary();
    let (code, out, err) = output(node().args(["serve", "--volumes"]).arg(dir.path()));
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.contains("no credentials: set SHERD_ACCESS_KEY_ID and SHERD_SECRET_ACCESS_KEY"), "{err}");
}

#[test]
fn an_unknown_key_is_refused_with_file_line_and_name() {
    let dir = temporary();
    let file = dir.path().join("sherd.toml");
    std::fs::write(&file, "region = \"x\"\n\nflavour = 3\n").expect("a new file");
    let (code, _, err) = output(node().args(["serve", "--config"]).arg(&file));
    assert_eq!(code, Some(2));
    assert!(err.contains(&format!("{}:3: unknown field `flavour`", file.display())), "{err}");
}

#[test]
fn a_flag_wins_over_its_variable_and_a_variable_over_the_file() {
    let dir = temporary();
    let file = dir.path().join("sherd.toml");
    std::fs::write(&file, "volumes = \"/from/file\"\n").expect("a new file");
    let mut serve = node();
    serve.args(["serve", "--config"]).arg(&file);
    let (_, _, err) = output(&mut serve);
    assert!(err.contains(&format!("{}:1: volumes: /from/file does not exist", file.display())), "{err}");
    serve.env("SHERD_VOLUMES", "/from/variable");
    let (_, _, err) = output(&mut serve);
    assert!(err.contains("SHERD_VOLUMES: /from/variable does not exist"), "{err}");
    let (code, _, err) = output(serve.args(["--volumes", "/from/flag"]));
    assert!(err.contains("--volumes: /from/flag does not exist"), "{err}");
    assert_eq!(code, Some(2));
}

#[test]
fn dev_prints_its_address_and_how_to_use_it_and_stops_on_a_signal() {
    let dir = temporary();
    let mut running = Running::dev(dir.path());
    assert!(!running.s3.ends_with(":0") && running.s3 != running.admin);
    assert!(get(&running.admin, "/health/live").starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(get(&running.admin, "/metrics").contains("\nsherd_durability_info{mode=\"fsync\"} 1\n"));
    running.signal("TERM");
    let mut rest = String::new();
    running.lines.read_to_string(&mut rest).expect("text");
    assert_eq!(running.child.wait().expect("my child").code(), Some(0));
    let make_bucket =
        format!("aws --endpoint-url http://{} --region us-east-1 s3 mb s3://demo\n", running.s3);
    assert!(rest.contains(&make_bucket), "{rest}");
    let credentials = std::fs::read_to_string(dir.path().join("credentials.env")).expect("made by dev");
    let secret = credentials.lines().find_map(|line| line.strip_prefix("AWS_SECRET_ACCESS_KEY="));
    let secret = secret.expect("a line of its own");
    assert!(secret.len() == 40 && !rest.contains(secret));
}

#[test]
fn a_second_start_keeps_the_key_and_one_open_to_others_is_refused() {
    let dir = temporary();
    let file = dir.path().join("credentials.env");
    assert_eq!(Running::dev(dir.path()).stop(), Some(0));
    let first = std::fs::read(&file).expect("made by dev");
    assert_eq!(std::fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o600);
    assert_eq!(Running::dev(dir.path()).stop(), Some(0));
    assert_eq!(std::fs::read(&file).expect("still there"), first);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o604)).expect("my own file");
    let (code, _, err) = output(node().args(["dev", "--listen", "127.0.0.1:0", "--dir"]).arg(dir.path()));
    assert_eq!(code, Some(2));
    assert!(err.contains("has mode 0604"), "{err}");
}

#[test]
fn a_taken_address_is_named_and_has_its_own_exit_code() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let dir = temporary();
    let (code, _, err) = output(node().args(["dev", "--listen", &address, "--dir"]).arg(dir.path()));
    assert_eq!(code, Some(4));
    assert!(err.contains(&format!("S3 listener cannot bind {address}: ")), "{err}");
}

#[test]
fn serve_takes_its_credentials_from_variables_and_listens() {
    let dir = temporary();
    let mut serve = node();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--durability", "none"]);
    serve.arg("--volumes").arg(dir.path());
    serve.env("SHERD_ACCESS_KEY_ID", "root").env("SHERD_SECRET_ACCESS_KEY", "long-enough");
    let running = Running::start(&mut serve);
    assert!(get(&running.admin, "/health/ready").contains("\"durability\":\"none\""));
    assert_eq!(running.stop(), Some(0));
}

/// As pods listen, whichever addresses their cluster gives them.
#[test]
fn serve_on_every_address_is_reached_by_both_families() {
    let dir = temporary();
    let mut serve = node();
    serve.args(["serve", "--listen", "[::]:0", "--admin-listen", "[::]:0", "--durability", "none"]);
    serve.arg("--volumes").arg(dir.path());
    serve.env("SHERD_ACCESS_KEY_ID", "root").env("SHERD_SECRET_ACCESS_KEY", "long-enough");
    let running = Running::start(&mut serve);
    let has_ipv6 = std::net::TcpListener::bind("[::1]:0").is_ok();
    for ip in ["127.0.0.1", "[::1]"].into_iter().filter(|ip| has_ipv6 || *ip == "127.0.0.1") {
        let at = |address: &str| format!("{ip}:{}", address.rsplit_once(':').expect("a port").1);
        assert!(get(&at(&running.admin), "/health/live").starts_with("HTTP/1.1 200 OK\r\n"), "{ip}");
        let mut probe = node();
        probe.env("AWS_ACCESS_KEY_ID", "root").env("AWS_SECRET_ACCESS_KEY", "long-enough");
        let probed = output(probe.args(["probe", "--endpoint"]).arg(format!("http://{}", at(&running.s3))));
        assert_eq!(probed, (Some(0), String::new(), String::new()), "{ip}");
    }
    assert_eq!(running.stop(), Some(0));
}

#[test]
fn volumes_are_inspected_by_paths_from_the_working_directory_while_it_is_there() {
    let dir = temporary();
    assert_eq!(Running::dev(&dir.path().join("data")).stop(), Some(0));
    let (code, out, err) = output(node().current_dir(dir.path()).args(["inspect", "data/v1", "./data/v2"]));
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains(&format!("{}\n", dir.path().join("data/v1").display())), "{out}");

    let mut gone = Command::new("sh");
    gone.args(["-c", "mkdir gone && cd gone && rmdir ../gone && exec \"$0\" inspect ../data/v1"]);
    let (code, _, err) = output(gone.arg(env!("CARGO_BIN_EXE_sherd-node")).current_dir(dir.path()));
    assert_eq!(code, Some(5), "{err}");
    assert!(err.contains("working directory") && !err.contains("damaged"), "{err}");
    assert!(dir.path().join("data/v1/index").exists(), "it was left alone");
}

/// A probe of a node, with this secret.
fn probe(running: &Running, id: &str, secret: &str) -> (Option<i32>, String, String) {
    let mut probe = node();
    probe.env("AWS_ACCESS_KEY_ID", id).env("AWS_SECRET_ACCESS_KEY", secret);
    output(probe.args(["probe", "--endpoint"]).arg(format!("http://{}", running.s3)))
}

#[test]
fn a_probe_puts_an_object_through_a_node_and_says_what_refuses_it() {
    let dir = temporary();
    let running = Running::dev(dir.path());
    let credentials = std::fs::read_to_string(dir.path().join("credentials.env")).expect("made by dev");
    let line =
        |name: &str| credentials.lines().find_map(|line| line.strip_prefix(name)).expect("both halves");
    let (id, secret) = (line("AWS_ACCESS_KEY_ID="), line("AWS_SECRET_ACCESS_KEY="));
    assert_eq!(probe(&running, id, secret), (Some(0), String::new(), String::new()));
    let metrics = get(&running.admin, "/metrics");
    for api in ["CreateBucket", "PutObject", "GetObject", "DeleteObject", "DeleteBucket"] {
        let counted = metrics.lines().any(|line| {
            line.starts_with(&format!("sherd_s3_requests_total{{api=\"{api}\",code=\"20"))
                && line.ends_with("\"} 1")
        });
        assert!(counted, "{api}: {metrics}");
    }
    let (code, _, err) = probe(&running, id, "another-secret");
    assert_eq!(code, Some(1));
    assert!(err.contains("CreateBucket was answered 403 Forbidden: SignatureDoesNotMatch"), "{err}");
    let (code, _, err) = probe(&running, id, "");
    assert_eq!((code, err.as_str()), (Some(1), "sherd-node: AWS_SECRET_ACCESS_KEY is not set\n"));
    let (code, _, err) = output(node().args(["probe", "--endpoint", "ftp://x"]));
    assert_eq!(code, Some(2));
    assert!(err.contains("an endpoint is http://HOST[:PORT]"), "{err}");
}

/// Asks the admin listener until its answer shows `expected`; the deadline is the test runner's.
fn wait_for(admin: &str, path: &str, expected: &str) {
    while !get(admin, path).contains(expected) {
        std::thread::yield_now();
    }
}

/// A node that gets the order to stop in the middle of a request.
fn stopped_in_a_request(shutdown_timeout: &str) -> (Running, TcpStream, tempfile::TempDir) {
    let dir = temporary();
    let mut serve = node();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--volumes"]);
    serve.arg(dir.path()).args(["--shutdown-timeout", shutdown_timeout]);
    serve.env("SHERD_ACCESS_KEY_ID", "root").env("SHERD_SECRET_ACCESS_KEY", "long-enough");
    let running = Running::start(&mut serve);
    let mut stream = TcpStream::connect(&running.s3).expect("it said that it listens");
    stream.write_all(b"GET / HTTP/1.1\r\nHo").expect("it reads");
    wait_for(&running.admin, "/metrics", "sherd_s3_bytes_total{direction=\"received\"} 18\n");
    running.signal("TERM");
    (running, stream, dir)
}

#[test]
fn a_request_that_does_not_end_in_time_is_cut_and_shows_in_the_exit_code() {
    let (mut running, _open, _dir) = stopped_in_a_request("0s");
    assert_eq!(running.child.wait().expect("my child").code(), Some(6));
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let (mut running, _open, _dir) = stopped_in_a_request("10m");
    wait_for(&running.admin, "/health/ready", "\"phase\":\"stopping\"");
    running.signal("TERM");
    assert_eq!(running.child.wait().expect("my child").code(), Some(143));
}

#[test]
fn clients_are_served_in_the_delay_after_the_signal_while_health_says_that_it_stops() {
    let dir = temporary();
    let mut serve = node();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--volumes"]);
    serve.arg(dir.path()).args(["--shutdown-delay", "5m"]);
    serve.env("SHERD_ACCESS_KEY_ID", "root").env("SHERD_SECRET_ACCESS_KEY", "long-enough");
    let mut running = Running::start(&mut serve);
    running.signal("TERM");
    wait_for(&running.admin, "/health/serving", "503 Service Unavailable");
    wait_for(&running.admin, "/health/ready", "\"phase\":\"stopping\"");
    assert!(get(&running.s3, "/").contains("AccessDenied"), "a new connection is served");
    running.signal("TERM");
    assert_eq!(running.child.wait().expect("my child").code(), Some(143));
}
