//! A real node for tests: the binary in a process of its own, on ports and in a folder of its own.
//!
//! The process says on stdout where it listens and writes its credentials into its folder. It dies
//! with the value that holds it; its stderr stays in the folder and is shown when it fails to
//! start. A node can be stopped or killed, and started again on what it left behind.

#![allow(dead_code, reason = "each test binary uses its own part of the harness")]

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How long a node may take until it listens. Generous: the machine may be busy.
const START_DEADLINE: Duration = Duration::from_mins(1);

/// Starts a node on an empty folder.
pub(crate) async fn node() -> Node {
    Stopped { dir: Arc::new(TempDir::new().expect("a temporary folder")) }.start().await
}

/// A running node; killed when dropped.
#[derive(Debug)]
pub(crate) struct Node {
    /// Where it serves S3: `http://127.0.0.1:PORT`.
    pub(crate) endpoint: String,
    /// Where it serves its admin API.
    pub(crate) admin: String,
    /// The root access key.
    pub(crate) access_key: String,
    /// Its secret.
    pub(crate) secret_key: String,
    process: Process,
    dir: Arc<TempDir>,
}

/// A node that does not run; its folder is kept.
#[derive(Debug)]
pub(crate) struct Stopped {
    dir: Arc<TempDir>,
}

impl Stopped {
    /// Starts it on what is in its folder.
    pub(crate) async fn start(self) -> Node {
        let started = tokio::task::spawn_blocking(move || start(self.dir)).await;
        started.expect("starting a node does not panic but to fail its test")
    }

    /// Its folder.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }
}

impl Node {
    /// An S3 client with the root credentials: path style, one try per request, the SDK's default
    /// checksums.
    pub(crate) fn client(&self) -> Client {
        let credentials = Credentials::new(&self.access_key, &self.secret_key, None, None, "harness");
        let config = aws_sdk_s3::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .endpoint_url(&self.endpoint)
            .region(Region::new("us-east-1"))
            .credentials_provider(credentials)
            .force_path_style(true)
            .retry_config(RetryConfig::disabled())
            .timeout_config(TimeoutConfig::disabled())
            .build();
        Client::from_conf(config)
    }

    /// Its folder.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// Asks it to stop (SIGINT) and waits until it has.
    pub(crate) async fn stop(self) -> Stopped {
        let (stopped, status) = self.end(Signal::INT).await;
        assert!(status.success(), "a node that was asked to stop ends with {status}");
        stopped
    }

    /// Kills it (SIGKILL), as a power cut would.
    pub(crate) async fn kill(self) -> Stopped {
        self.end(Signal::KILL).await.0
    }

    async fn end(self, signal: Signal) -> (Stopped, ExitStatus) {
        let Self { mut process, dir, .. } = self;
        kill_process(process.id(), signal).expect("the process is ours and not waited for yet");
        let status = tokio::task::spawn_blocking(move || process.0.wait()).await;
        let status = status.expect("waiting does not panic").expect("the process is a child of ours");
        (Stopped { dir }, status)
    }
}

/// A child that is killed when it is dropped.
#[derive(Debug)]
struct Process(Child);

impl Process {
    fn id(&self) -> Pid {
        Pid::from_child(&self.0)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to do.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn start(dir: Arc<TempDir>) -> Node {
    let errors = dir.path().join("stderr.log");
    let stderr = File::options().create(true).append(true).open(&errors).expect("the folder is writable");
    let child = Command::new(env!("CARGO_BIN_EXE_sherd-node"))
        .args(["dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--dir"])
        .arg(dir.path().join("node"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .expect("the binary was built with the tests");
    let mut process = Process(child);
    let lines = lines(&mut process);
    let (endpoint, admin) = addresses(&lines).unwrap_or_else(|| {
        let said = fs::read_to_string(&errors).unwrap_or_default();
        panic!("the node does not listen; it says:\n{said}");
    });
    let (access_key, secret_key) = credentials(&dir.path().join("node/credentials.env"));
    Node { endpoint, admin, access_key, secret_key, process, dir }
}

/// The lines of its stdout, read to the end so that the node never waits for a reader.
fn lines(process: &mut Process) -> mpsc::Receiver<String> {
    let stdout = process.0.stdout.take().expect("stdout is piped");
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // Nobody listens once the node has started; reading goes on.
            drop(sender.send(line));
        }
    });
    receiver
}

/// Where it serves S3 and admin; nothing when it ends, or says nothing for too long.
fn addresses(lines: &mpsc::Receiver<String>) -> Option<(String, String)> {
    let deadline = Instant::now() + START_DEADLINE;
    let (mut s3, mut admin) = (None, None);
    while s3.is_none() || admin.is_none() {
        let line = lines.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()?;
        let address = |name: &str| {
            let (_, address) = line.split_once(name)?;
            address.split_whitespace().next().map(str::to_owned)
        };
        s3 = s3.or_else(|| address("S3 listening on "));
        admin = admin.or_else(|| address("Admin listening on "));
    }
    s3.zip(admin)
}

/// The root credentials, as a shell reads them: `AWS_ACCESS_KEY_ID=...`, `AWS_SECRET_ACCESS_KEY=...`.
fn credentials(path: &Path) -> (String, String) {
    let text = fs::read_to_string(path).expect("a node that listens has written its credentials");
    let value = |suffix: &str| {
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        let mut values = pairs.filter(|(name, _)| name.trim().ends_with(suffix)).map(|(_, value)| value);
        let value = values.next().unwrap_or_else(|| panic!("credentials.env names {suffix}"));
        value.trim().trim_matches(['"', '\'']).to_owned()
    };
    (value("ACCESS_KEY_ID"), value("SECRET_ACCESS_KEY"))
}
