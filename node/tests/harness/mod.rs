//! A real node for tests: the binary in a process of its own, on ports and in a folder of its own.
//!
//! The process says on stdout where it listens and writes its credentials into its folder. It dies
//! with the value that holds it; its stderr stays in the folder and is shown when it fails to
//! start or when the test fails. A node can be stopped, killed or suspended, and started again on
//! what it left behind.

#![allow(dead_code, reason = "each test binary uses its own part of the harness")]

pub(crate) mod admin;
pub(crate) mod balancer;
pub(crate) mod chain;
pub(crate) mod cluster;
pub(crate) mod data;
pub(crate) mod form;
pub(crate) mod iam;
pub(crate) mod mounts;
pub(crate) mod raw;
pub(crate) mod record;
pub(crate) mod relay;
pub(crate) mod s3;
pub(crate) mod tls;
pub(crate) mod users;
pub(crate) mod volumes;
pub(crate) mod wait;

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use record::{Recorder, Recording, StartOptions};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How long a node may take until it listens, or until it has ended. Generous: the machine may be
/// busy.
const DEADLINE: Duration = Duration::from_mins(1);
/// Volumes of a node that is not asked for another number.
pub(crate) const VOLUMES: usize = 4;
/// Bytes of its log that a failed test shows.
const LOG_SHOWN: usize = 8 << 10;

/// The binary under test: the one built with the tests, or another by `SHERD_TEST_NODE`.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("SHERD_TEST_NODE").map_or_else(|| env!("CARGO_BIN_EXE_sherd-node").into(), PathBuf::from)
}

/// Whether the binary under test is an optimised one; another one is taken for that.
pub(crate) fn is_optimised() -> bool {
    std::env::var_os("SHERD_TEST_NODE").is_some() || !cfg!(debug_assertions)
}

/// Starts a node on an empty folder.
pub(crate) async fn node() -> Node {
    empty().start().await
}

/// A node that never ran, in `dev` mode.
pub(crate) fn empty() -> Stopped {
    Stopped {
        dir: Arc::new(TempDir::new().expect("a temporary folder")),
        how: How::Dev,
        volume_count: VOLUMES,
        descriptors: None,
        directory: None,
        binary: binary(),
        recording: Recording::of_this_test(),
    }
}

/// How the binary is called.
#[derive(Debug, Clone)]
enum How {
    /// `dev`, which makes what is missing.
    Dev,
    /// `serve`, with these lines of configuration.
    Serve(String),
}

/// A running node; killed when dropped.
#[derive(Debug)]
pub(crate) struct Node {
    /// Where it serves S3: `http://127.0.0.1:PORT`, `https` with a certificate.
    pub(crate) endpoint: String,
    /// Where it serves metrics and health.
    pub(crate) admin: String,
    /// Where it serves IAM: `http://127.0.0.1:PORT`; `None` where it does not.
    pub(crate) iam: Option<String>,
    /// The root access key.
    pub(crate) access_key: String,
    /// Secret of the root access key.
    pub(crate) secret_key: String,
    process: Process,
    stopped: Stopped,
    /// The recorder that clients go through, if the test is recorded.
    recorder: Option<Recorder>,
}

/// A node that does not run; its folder is kept.
#[derive(Debug, Clone)]
pub(crate) struct Stopped {
    dir: Arc<TempDir>,
    how: How,
    volume_count: usize,
    descriptors: Option<u32>,
    directory: Option<PathBuf>,
    binary: PathBuf,
    recording: Option<Arc<Recording>>,
}

/// A node that would not start.
#[derive(Debug)]
pub(crate) struct Refused {
    /// Exit code of the process.
    pub(crate) code: Option<i32>,
    /// Output on stderr.
    pub(crate) said: String,
}

impl Stopped {
    /// With this number of volumes, from its first start on.
    pub(crate) fn of_volumes(self, volume_count: usize) -> Self {
        Self { volume_count, ..self }
    }

    /// With `descriptors` descriptors for its process, as `ulimit -n` gives them.
    pub(crate) fn with_descriptors(self, descriptors: u32) -> Self {
        Self { descriptors: Some(descriptors), ..self }
    }

    /// With this working directory for its process.
    pub(crate) fn started_in(self, directory: &Path) -> Self {
        Self { directory: Some(directory.to_owned()), ..self }
    }

    /// Of another binary than the one under test.
    pub(crate) fn of_binary(self, binary: &Path) -> Self {
        Self { binary: binary.to_owned(), ..self }
    }

    /// With this key pair, where it has none.
    pub(crate) fn with_key_pair(self, access_key: &str, secret_key: &str) -> Self {
        let credentials = self.credentials();
        fs::create_dir_all(self.data()).expect("the folder is writable");
        if !credentials.exists() {
            let pair = format!("AWS_ACCESS_KEY_ID={access_key}\nAWS_SECRET_ACCESS_KEY={secret_key}\n");
            let mut file = File::options().mode(0o600).create_new(true).write(true).open(credentials);
            let file = file.as_mut().expect("a new file");
            std::io::Write::write_all(file, pair.as_bytes()).expect("the folder is writable");
        }
        self
    }

    /// Makes the volumes' folders and a key pair where they are missing, and has `serve` run on them
    /// from the next start on, with more lines of TOML.
    pub(crate) fn serve(self, lines: &str) -> Self {
        for volume in self.volumes() {
            fs::create_dir_all(volume).expect("the folder is writable");
        }
        let mut stopped = self.with_key_pair("harness", "secret-of-the-harness");
        stopped.how = How::Serve(lines.to_owned());
        stopped
    }

    /// Starts it on what is in its folder.
    pub(crate) async fn start(self) -> Node {
        let started = tokio::task::spawn_blocking(move || start(self)).await;
        let node = started.expect("starting a node does not panic").unwrap_or_else(|refused| {
            panic!("the node ended with {:?} before it listened; it says:\n{}", refused.code, refused.said)
        });
        node.recorded().await
    }

    /// Starts it where it must not start, and returns what it says.
    pub(crate) async fn refused(&self) -> Refused {
        let stopped = self.clone();
        let started = tokio::task::spawn_blocking(move || start(stopped)).await;
        match started.expect("starting a node does not panic") {
            Ok(_) => panic!("the node serves what it must refuse"),
            Err(refused) => refused,
        }
    }

    /// Folder of the node.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The folder of a volume, counted from 1.
    pub(crate) fn volume(&self, number: usize) -> PathBuf {
        self.data().join(format!("v{number}"))
    }

    /// The folders of all its volumes.
    pub(crate) fn volumes(&self) -> Vec<PathBuf> {
        (1..=self.volume_count).map(|number| self.volume(number)).collect()
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("node")
    }

    fn credentials(&self) -> PathBuf {
        self.data().join("credentials.env")
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("stderr.log")
    }

    /// Whether it serves IAM.
    fn serves_iam(&self) -> bool {
        match &self.how {
            How::Dev => true,
            How::Serve(lines) => lines.contains("iam_listen"),
        }
    }

    /// The call of the binary.
    fn command(&self) -> Command {
        let mut command = match self.descriptors {
            None => Command::new(&self.binary),
            Some(descriptors) => {
                let mut command = Command::new("sh");
                let limited = format!("ulimit -n {descriptors} && exec \"$0\" \"$@\"");
                command.args(["-c", &limited]).arg(&self.binary);
                command
            }
        };
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("SHERD_")) {
            command.env_remove(name);
        }
        match &self.how {
            How::Dev => {
                // No flag, which an older build would refuse.
                command.env("SHERD_DEV_LOG", "true");
                command.args(["dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--dir"]);
                command.arg(self.data()).args(["--volumes", &self.volume_count.to_string()]);
            }
            How::Serve(lines) => {
                let file = self.dir.path().join("sherd.toml");
                let volumes = self.volumes();
                let credentials = self.credentials();
                let text = format!(
                    "volumes = {volumes:?}\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\n\
                     credentials_file = \"{}\"\n{lines}\n",
                    credentials.display()
                );
                fs::write(&file, text).expect("the folder is writable");
                command.args(["serve", "--config"]).arg(file);
                // The file need not exist. No flag, which an older build would refuse.
                command.env("SHERD_LIVE_CONFIG", self.dir.path().join("live.toml"));
            }
        }
        if let Ok(level) = std::env::var("SHERD_TEST_LOG") {
            command.args(["--log-level", &level]);
        }
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command.stdin(Stdio::null());
        command
    }
}

impl Node {
    /// An S3 client with the root credentials: path style, one try per request, the SDK's default
    /// checksums.
    pub(crate) fn client(&self) -> Client {
        self.client_at(&self.endpoint)
    }

    /// A client as [`Self::client`] that reaches the node at another endpoint.
    pub(crate) fn client_at(&self, endpoint: &str) -> Client {
        self.client_with(endpoint, RetryConfig::disabled())
    }

    /// A client at another endpoint that tries each request up to `attempts` times, as the SDK does it.
    pub(crate) fn client_with_attempts(&self, endpoint: &str, attempts: u32) -> Client {
        self.client_with(endpoint, RetryConfig::standard().with_max_attempts(attempts))
    }

    /// As [`Self::client_with_attempts`], for many requests that are answered by nothing: a pause is short.
    pub(crate) fn client_that_insists(&self, endpoint: &str) -> Client {
        let retries = RetryConfig::standard().with_max_attempts(10);
        self.client_with(endpoint, retries.with_initial_backoff(Duration::from_millis(20)))
    }

    fn client_with(&self, endpoint: &str, retries: RetryConfig) -> Client {
        let credentials = Credentials::new(&self.access_key, &self.secret_key, None, None, "harness");
        Client::from_conf(settings(endpoint, retries).credentials_provider(credentials).build())
    }

    /// A client of IAM with the root key.
    pub(crate) fn iam_client(&self) -> iam::IamClient {
        let endpoint = self.iam.as_ref().expect("it serves IAM");
        iam::IamClient::new(endpoint, &self.access_key, &self.secret_key)
    }

    /// Folder of the node.
    pub(crate) fn dir(&self) -> &Path {
        self.stopped.dir()
    }

    /// The folder of a volume, counted from 1.
    pub(crate) fn volume(&self, number: usize) -> PathBuf {
        self.stopped.volume(number)
    }

    /// The folders of all its volumes.
    pub(crate) fn volumes(&self) -> Vec<PathBuf> {
        self.stopped.volumes()
    }

    /// Log of the node.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.stopped.log()).unwrap_or_default()
    }

    /// Another process on the same folder, not started.
    pub(crate) fn twin(&self) -> Stopped {
        self.stopped.clone()
    }

    /// Process id of the node.
    pub(crate) fn pid(&self) -> u32 {
        self.process.child.id()
    }

    /// Sends it a signal: to suspend it (SIGSTOP) and to let it go on (SIGCONT).
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.process.id(), signal).expect("the process is ours and not waited for yet");
    }

    /// Asks it to stop (SIGINT) and waits until it has.
    pub(crate) async fn stop(self) -> Stopped {
        let (stopped, status) = self.end(Signal::INT).await;
        assert!(status.success(), "a node that was asked to stop ends with {status}");
        stopped
    }

    /// Kills it (SIGKILL), as a crash of the process would.
    pub(crate) async fn kill(self) -> Stopped {
        self.end(Signal::KILL).await.0
    }

    /// Has clients go through a relay that records them, where recordings are asked for; not with TLS.
    async fn recorded(mut self) -> Self {
        let Some(address) = self.endpoint.strip_prefix("http://") else { return self };
        let Some(recording) = &self.stopped.recording else { return self };
        let (how, lines) = match &self.stopped.how {
            How::Dev => ("dev", ""),
            How::Serve(lines) => ("serve", lines.as_str()),
        };
        let now = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
        recording.started(&StartOptions {
            how,
            volume_count: self.stopped.volume_count,
            access_key: &self.access_key,
            secret_key: &self.secret_key,
            clock_s: now.as_secs(),
            lines,
        });
        let target = address.parse().expect("a node says its address");
        let recorder = Recorder::start(target, Arc::clone(recording)).await;
        self.endpoint = format!("http://{}", recorder.address);
        self.recorder = Some(recorder);
        self
    }

    async fn end(self, signal: Signal) -> (Stopped, ExitStatus) {
        self.signal(signal);
        if let Some(recording) = &self.stopped.recording {
            recording.stopped(if signal == Signal::INT { "stop" } else { "kill" });
        }
        let Self { mut process, stopped, .. } = self;
        let status = tokio::task::spawn_blocking(move || process.wait()).await;
        let status = status.expect("waiting does not panic");
        (stopped, status.unwrap_or_else(|| panic!("the node still runs {DEADLINE:?} after {signal:?}")))
    }
}

/// The settings of every client: path style, no time-out but the test's own.
fn settings(endpoint: &str, retries: RetryConfig) -> aws_sdk_s3::config::Builder {
    aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .endpoint_url(endpoint)
        .region(Region::new("us-east-1"))
        .force_path_style(true)
        .retry_config(retries)
        .timeout_config(TimeoutConfig::disabled())
}

/// A child that is killed when it is dropped.
#[derive(Debug)]
struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    fn id(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits for its end; nothing when it does not come.
    fn wait(&mut self) -> Option<ExitStatus> {
        let deadline = Instant::now() + DEADLINE;
        // The standard library waits for ever or not at all; parking is a pause that may end early.
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().expect("the process is a child of ours") {
                return Some(status);
            }
            thread::park_timeout(Duration::from_millis(5));
        }
        None
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already; then there is nothing to do.
        drop(self.child.kill());
        drop(self.child.wait());
        if thread::panicking() {
            let log = fs::read(&self.log).unwrap_or_default();
            let tail = &log[log.len().saturating_sub(LOG_SHOWN)..];
            eprintln!("the end of the node's log:\n{}", String::from_utf8_lossy(tail));
        }
    }
}

/// Starts a node and waits until it listens.
///
/// # Errors
/// Its output, if it ended before that.
fn start(stopped: Stopped) -> Result<Node, Refused> {
    let log = stopped.log();
    let stderr = File::options().create(true).append(true).open(&log).expect("the folder is writable");
    let before = fs::metadata(&log).map_or(0, |metadata| metadata.len());
    let child = stopped.command().stdout(Stdio::piped()).stderr(stderr).spawn();
    let child = child.expect("the binary was built with the tests");
    let mut process = Process { child, log };
    let lines = lines(&mut process);
    let Some((endpoint, admin, iam)) = addresses(&lines, stopped.serves_iam()) else {
        let code = match process.child.try_wait().expect("the process is a child of ours") {
            None if !lines_ended(&lines) => panic!("the node neither listens nor ends"),
            _ => process.wait().and_then(|status| status.code()),
        };
        let said = fs::read(&process.log).unwrap_or_default();
        let said = said.get(usize::try_from(before).unwrap_or(0)..).unwrap_or_default();
        return Err(Refused { code, said: String::from_utf8_lossy(said).into_owned() });
    };
    let (access_key, secret_key) = credentials(&stopped.credentials());
    Ok(Node { endpoint, admin, iam, access_key, secret_key, process, stopped, recorder: None })
}

/// The lines of its stdout, read to the end so that the node never waits for a reader.
fn lines(process: &mut Process) -> mpsc::Receiver<String> {
    let stdout = process.child.stdout.take().expect("stdout is piped");
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // The receiver is gone once the node has started; reading goes on.
            drop(sender.send(line));
        }
    });
    receiver
}

/// Whether its stdout is closed.
fn lines_ended(lines: &mpsc::Receiver<String>) -> bool {
    matches!(lines.try_recv(), Err(mpsc::TryRecvError::Disconnected))
}

/// Where it serves S3, admin and, where it does, IAM; nothing when it ends, or says nothing for too long.
fn addresses(lines: &mpsc::Receiver<String>, serves_iam: bool) -> Option<(String, String, Option<String>)> {
    let deadline = Instant::now() + DEADLINE;
    let (mut s3, mut admin, mut iam) = (None, None, None);
    while s3.is_none() || admin.is_none() || (serves_iam && iam.is_none()) {
        let line = lines.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()?;
        let address = |name: &str| {
            let (_, address) = line.split_once(name)?;
            address.split_whitespace().next().map(str::to_owned)
        };
        s3 = s3.or_else(|| address("S3 listening on "));
        admin = admin.or_else(|| address("Admin listening on "));
        iam = iam.or_else(|| address("IAM listening on "));
    }
    Some((s3?, admin?, iam))
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
