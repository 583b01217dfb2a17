//! `sherd-node dev --nodes`, as a person uses it: nodes are processes that one terminal starts and ends.
//!
//! One story: two nodes start, one is killed and comes back as another process, is killed and held down, and
//! let go; Ctrl-C ends them in order. And nodes end with a supervisor that is killed.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a step may take on a busy machine.
const SOON: Duration = Duration::from_mins(1);

/// A supervisor with its nodes; killed when the test ends early, and they with it.
struct Cluster {
    child: Child,
    lines: BufReader<ChildStdout>,
    dir: PathBuf,
}

impl Cluster {
    /// Starts nodes and waits until each is said to serve.
    fn start(dir: &Path, nodes: usize) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sherd-node"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("SHERD_")) {
            command.env_remove(name);
        }
        let any = "127.0.0.1:0";
        command.args(["dev", "--nodes", &nodes.to_string(), "--listen", any, "--admin-listen", any, "--dir"]);
        // The supervisor decides where its nodes listen; other settings of the environment reach them.
        command.arg(dir).env("SHERD_LISTEN", "1.2.3.4:1").env("SHERD_AUDIT_LOG", dir.join("audit"));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let terminal = std::fs::File::create(dir.join("terminal")).expect("a new file");
        let mut child = command.stderr(terminal).spawn().expect("the binary was built");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        let mut cluster = Self { child, lines, dir: dir.to_owned() };
        assert_eq!(cluster.line(), ["node", "S3", "admin", "IAM", "nodes"]);
        for number in 1..=nodes {
            let line = cluster.line();
            assert_eq!(line[0], format!("n{number}"), "{line:?}");
            assert!(line[1..=3].iter().all(|url| url.starts_with("http://127.0.0.1:")), "{line:?}");
        }
        assert!(dir.join("audit").exists(), "the nodes took the setting");
        cluster
    }

    fn line(&mut self) -> Vec<String> {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("text");
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn pid(&self, node: &str) -> u32 {
        let text =
            std::fs::read_to_string(self.dir.join(node).join("pid")).expect("it is replaced as a whole");
        text.trim().parse().expect("a number")
    }

    /// Everything that stood on the terminal beside the announcement.
    fn terminal(&self) -> String {
        std::fs::read_to_string(self.dir.join("terminal")).expect("text")
    }

    fn log(&self, node: &str) -> String {
        std::fs::read_to_string(self.dir.join(node).join("log")).expect("text")
    }

    fn hold(&self) -> PathBuf {
        self.dir.join("n1/hold")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Ended already in every test that passes.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status();
    assert!(status.expect("kill is everywhere").success());
}

/// Whether a process is there and does something: a zombie does not count.
fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < SOON, "{what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

#[test]
fn nodes_come_back_unless_they_are_held_down_and_end_in_order() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut cluster = Cluster::start(dir.path(), 2);
    let (first, other) = (cluster.pid("n1"), cluster.pid("n2"));
    assert!(is_running(first) && is_running(other));

    signal(first, "KILL");
    until("another process", || cluster.pid("n1") != first);
    let second = cluster.pid("n1");
    until("it runs", || is_running(second));
    // The terminal has what a person needs, and the file the rest.
    until("it serves", || cluster.terminal().contains("n1 | serves again\n"));
    let terminal = cluster.terminal();
    assert!(
        terminal.contains("node ended; it starts again") && terminal.contains("node=\"n1\""),
        "{terminal}"
    );
    assert!(!terminal.contains("INFO") && !terminal.contains("volume state"), "{terminal}");
    assert!(cluster.log("n1").contains("serving") && cluster.log("n2").contains("volume state"));

    std::fs::write(cluster.hold(), "").expect("the folder is mine");
    let begin = Instant::now();
    signal(second, "KILL");
    until("three seconds", || begin.elapsed() > Duration::from_secs(3));
    assert_eq!(cluster.pid("n1"), second, "it would be started after two seconds");
    // A volume that is missing is made before the start.
    std::fs::remove_dir_all(dir.path().join("n1/v1")).expect("it is unused");
    std::fs::remove_file(cluster.hold()).expect("the file is mine");
    until("a third process", || cluster.pid("n1") != second && is_running(cluster.pid("n1")));
    assert!(dir.path().join("n1/v1").is_dir());
    assert_eq!(cluster.pid("n2"), other, "nothing happened to it");

    // A process that was stopped goes on to end.
    signal(other, "STOP");
    signal(cluster.child.id(), "INT");
    assert_eq!(cluster.child.wait().expect("my child").code(), Some(0));
    assert!(!is_running(cluster.pid("n1")) && !is_running(other));
}

#[test]
fn nodes_end_with_a_supervisor_that_is_killed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut cluster = Cluster::start(dir.path(), 2);
    cluster.child.kill().expect("my child");
    cluster.child.wait().expect("my child");
    until("its nodes end", || !is_running(cluster.pid("n1")) && !is_running(cluster.pid("n2")));
}

#[test]
fn a_node_that_refuses_its_start_ends_all() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let admin = taken.local_addr().expect("it is bound").to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sherd-node"));
    command.args(["dev", "--nodes", "1", "--listen", "127.0.0.1:0", "--admin-listen", &admin, "--dir"]);
    let output = command.arg(dir.path()).stdin(Stdio::null()).output().expect("the binary was built");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{text}");
    assert!(text.contains("n1 | sherd-node: ") && text.contains("node n1 ended with code 4"), "{text}");
    assert!(output.stdout.is_empty());
}
