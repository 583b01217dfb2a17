//! A service that all tests of this program share, each with a bucket of its own, and `sherd` with a home of
//! its own.
//!
//! The service is a node of the store, which is this test program, run once more: its test
//! `a_node_serves_until_its_input_ends` is the node. With [`OTHER`] set it is another program, by the
//! command line of `minio server` (`others.rs`). Either ends with the standard input that the first process
//! holds open.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Lines, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use sherd_client::client::Client;
use sherd_client::credentials::source::{Account, Overrides, Variables};
use sherd_client::{KeyPair, Secret, Service, ServiceOptions};
use sherd_node::log;
use sherd_node::process::ci::{self, CiArgs, Environment};
use sherd_node::process::config::settings::LogSettings;
use sherd_node::process::config::variables;
use sherd_node::process::serve::run::run;
use sherd_store::machine::system::SystemRng;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Set in the process that is the node.
const IS_NODE: &str = "SHERD_TEST_IS_NODE";
const NAME: &str = "fixture::a_node_serves_until_its_input_ends";
const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "tester"), ("AWS_SECRET_ACCESS_KEY", "tester-secret")];

/// Names the program that is the service in place of a node.
pub(crate) const OTHER: &str = "SHERD_TEST_SERVICE";

/// The shared service.
#[derive(Debug)]
struct SharedService {
    /// Holds the standard input with whose end the service ends.
    _child: Child,
    /// Takes what a node still prints.
    _lines: Option<Lines<BufReader<ChildStdout>>>,
    /// Where another program keeps its data.
    _folder: Option<TempDir>,
    address: SocketAddr,
}

static SERVICE: LazyLock<SharedService> = LazyLock::new(|| match std::env::var_os(OTHER) {
    Some(program) => start_other(&program),
    None => start_node(),
});

fn start_other(program: &OsStr) -> SharedService {
    let folder = tempfile::tempdir().expect("a folder");
    // The port is free again, and taken by the program; a test that finds another one there fails.
    let address =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a port");
    let script = "\"$0\" server --quiet --address \"$1\" \"$2\" >/dev/null & cat; kill $!";
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]).arg(program).arg(address.to_string()).arg(folder.path());
    command.env("MINIO_ROOT_USER", KEYS[0].1).env("MINIO_ROOT_PASSWORD", KEYS[1].1);
    command.env("MINIO_ROOTDRIVE_THRESHOLD_SIZE", "1").env("MINIO_BROWSER", "off").env("MINIO_UPDATE", "off");
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("there is a shell");
    SharedService { _child: child, _lines: None, _folder: Some(folder), address }
}

fn start_node() -> SharedService {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.args([NAME, "--exact", "--nocapture", "--test-threads=1"]).env(IS_NODE, "1").envs(KEYS);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let address = loop {
        let line = lines.next().expect("the node says when it is ready").expect("text");
        if let Some((_, rest)) = line.split_once("ready http://") {
            let address = rest.split_whitespace().next().expect("an address");
            break address.parse().expect("host and port");
        }
    };
    SharedService { _child: child, _lines: Some(lines), _folder: None, address }
}

/// Address of the shared service.
pub(crate) fn node() -> SocketAddr {
    SERVICE.address
}

#[test]
fn a_node_serves_until_its_input_ends() {
    if std::env::var_os(IS_NODE).is_none() {
        return;
    }
    let _input = std::thread::spawn(|| {
        let _ended = std::io::stdin().read_to_end(&mut Vec::new());
        let own = rustix::process::getpid();
        rustix::process::kill_process(own, rustix::process::Signal::TERM).expect("it is this process");
    });
    let arguments = CiArgs {
        dir: None,
        memory: false,
        listen: Some("127.0.0.1:0".parse().expect("an address")),
        admin_listen: None,
        iam_listen: None,
        region: None,
        buckets: None,
        log: LogSettings { level: Some("error".to_owned()), ..LogSettings::default() },
    };
    let variable = |name: &str| std::env::var(name).ok();
    let environment = Environment { variable: &variable, names: &[] };
    let node = ci::prepare(arguments, environment, variables::Variables::default(), &SystemRng);
    let node = node.expect("it can be prepared");
    let levels = log::start(&node.config.log);
    run(node.config.clone(), levels, None, |addresses| print!("{}", node.ready(addresses))).expect("it runs");
    // With the value goes its temporary directory. The harness would print to a closed pipe.
    drop(node);
    std::process::exit(0);
}

/// `sherd` with a home of its own, and a bucket.
#[derive(Debug)]
pub(crate) struct Sherd {
    home: TempDir,
    pub(crate) bucket: String,
}

impl Sherd {
    /// Makes a home and a bucket.
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let bucket = format!("bucket-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let sherd = Self { home: tempfile::tempdir().expect("a home"), bucket };
        sherd.ok(&["mb", &sherd.url("")]);
        sherd
    }

    /// A path in the home.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// A path in the home as text.
    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("UTF-8").to_owned()
    }

    /// Writes a file in the home, below folders that are made.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("it is in the home")).expect("folders");
        std::fs::write(&path, content).expect("a file");
        self.text(name)
    }

    /// `s3://bucket/key`, or the bucket for no key.
    pub(crate) fn url(&self, key: &str) -> String {
        let separator = if key.is_empty() { "" } else { "/" };
        format!("s3://{}{separator}{key}", self.bucket)
    }

    /// The command with these arguments, asking an endpoint.
    pub(crate) fn command_at(&self, endpoint: SocketAddr, arguments: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sherd"));
        command.args(arguments).env_clear().envs(KEYS).env("HOME", self.home.path());
        command.env("AWS_ENDPOINT_URL", format!("http://{endpoint}")).current_dir(self.home.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The command with these arguments, asking the node.
    pub(crate) fn command(&self, arguments: &[impl AsRef<OsStr>]) -> Command {
        self.command_at(node(), arguments)
    }

    /// Runs a command: exit code, standard output, standard error.
    pub(crate) fn run(&self, arguments: &[impl AsRef<OsStr>]) -> Ended {
        Ended::of(self.command(arguments).output().expect("it was built"))
    }

    /// Runs a command that succeeds, and returns its output.
    pub(crate) fn ok(&self, arguments: &[impl AsRef<OsStr>]) -> String {
        let ended = self.run(arguments);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.out
    }

    /// Runs a command whose standard input is given.
    pub(crate) fn fed(&self, input: &[u8], arguments: &[impl AsRef<OsStr>]) -> Ended {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().expect("it was built");
        let mut stdin = child.stdin.take().expect("piped");
        std::io::Write::write_all(&mut stdin, input).expect("it reads");
        drop(stdin);
        Ended::of(child.wait_with_output().expect("it ends"))
    }

    /// A client of the node in this process.
    pub(crate) fn client() -> Client {
        let variables = Given(format!("http://{}", node()));
        let account = Account::of_environment(&variables, &Overrides::default()).expect("keys are given");
        Client::new(account, 3, CancellationToken::new()).expect("no certificates are needed")
    }

    /// The service of the node, as a program holds it.
    pub(crate) fn service() -> Service {
        Self::service_at(node())
    }

    /// The service at another address, that of a relay.
    pub(crate) fn service_at(endpoint: SocketAddr) -> Service {
        let [(_, access_key), (_, secret)] = KEYS;
        let mut options = ServiceOptions {
            keys: Some(KeyPair {
                access_key: access_key.to_owned(),
                secret: Secret::new(secret),
                session_token: None,
            }),
            ..ServiceOptions::default()
        };
        options.overrides.endpoint = Some(format!("http://{endpoint}"));
        Service::open(&options).expect("no certificates are needed")
    }

    /// Keys and ids of the uploads that are under way in the bucket.
    pub(crate) fn uploads(&self) -> Vec<(String, String)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(Self::client().uploads(&self.bucket)).expect("they are listed")
    }

    /// Names of all files below a folder of the home, temporary ones among them.
    pub(crate) fn files(&self, folder: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut open = vec![self.path(folder)];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten() {
                let path = entry.expect("an entry").path();
                if path.is_dir() { open.push(path) } else { found.push(path) }
            }
        }
        let relative = |path: PathBuf| {
            let name = path.strip_prefix(self.path(folder)).expect("below").to_owned();
            name.to_string_lossy().into_owned()
        };
        let mut names: Vec<_> = found.into_iter().map(relative).collect();
        names.sort();
        names
    }

    /// Names of the journals that are left.
    pub(crate) fn journals(&self) -> Vec<String> {
        self.files(".local/state/sherd")
    }
}

#[derive(Debug)]
struct Given(String);

impl Variables for Given {
    fn get(&self, name: &str) -> Option<String> {
        match name {
            "AWS_ENDPOINT_URL" => Some(self.0.clone()),
            name => KEYS.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()),
        }
    }
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// Bytes that no compression or pattern makes equal elsewhere.
pub(crate) fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut content = Vec::with_capacity(bytes + 8);
    while content.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        content.extend_from_slice(&state.to_le_bytes());
    }
    content.truncate(bytes);
    content
}

/// Whether two files have the same bytes.
pub(crate) fn same(one: &Path, other: &Path) -> bool {
    let open = |path: &Path| std::fs::File::open(path).expect("a file");
    let (mut one, mut other) = (open(one), open(other));
    let bytes = |file: &std::fs::File| file.metadata().expect("a file").len();
    if bytes(&one) != bytes(&other) {
        return false;
    }
    let (mut left, mut right) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let read = one.read(&mut left).expect("a file");
        other.read_exact(&mut right[..read]).expect("a file as long");
        if left[..read] != right[..read] {
            return false;
        }
        if read == 0 {
            return true;
        }
    }
}
