//! What is measured: a store that is started for it, or an endpoint that is there.
//!
//! A started store gets folders of its own, a free port and a key pair, is waited for until it answers,
//! and is stopped and removed at the end. Its processor time and memory can be read while it runs.

pub mod process;
pub mod tool;
pub mod admin;
mod folder;

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

use rustix::process::{Signal, set_parent_process_death_signal};

pub use process::Process;
pub use tool::{Tool, refuse_unequal_durability};

use crate::load::bucket;
use crate::load::sign::Credentials;
use folder::{Folder, make_folders, remove_left_over};
use tool::Places;

/// How long a store may take until it answers.
const READY_TIMEOUT: Duration = Duration::from_mins(1);
/// Short beside what a start may take, which is measured with it.
const READY_POLL: Duration = Duration::from_millis(2);
/// Last bytes of a store's output that an error shows.
const OUTPUT_SHOWN_BYTES: usize = 2000;
const REGION: &str = "us-east-1";

/// A store that can be measured.
#[derive(Debug)]
pub struct Subject {
    /// What rows call it.
    pub name: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// The `host` header.
    pub host: String,
    /// Key pair and region.
    pub credentials: Credentials,
    /// What is true of a write when it is answered: `fsync`, or `unknown` of an endpoint.
    pub durability: String,
    /// What the program says its version is.
    pub version: String,
    /// Tells one build from another.
    pub fingerprint: String,
    started: Option<StartedStore>,
}

/// Ends in the order of its fields: what is running first, then what it wrote.
#[derive(Debug)]
struct StartedStore {
    process: Process,
    places: Places,
    folder: Folder,
}

/// How a store's process ends before it is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is asked to stop, and may close what it has open.
    Asked,
    /// It is killed, as by a crash.
    Killed,
}

/// Why there is nothing to measure.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A tool's file cannot be read.
    #[error("{}: {source}", path.display())]
    ToolFile {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A tool's file is not one.
    #[error("tool {name}: {source}")]
    MalformedTool {
        /// The tool.
        name: String,
        /// Where and what.
        source: Box<toml::de::Error>,
    },
    /// No file comes with the program under that name.
    #[error("no tool `{name}`: sherd, minio, or a path to a file that ends in .toml")]
    UnknownTool {
        /// What was asked for.
        name: String,
    },
    /// A tool must say what its answers promise.
    #[error("tool {name} does not state its durability, and is not measured without")]
    NoDurability {
        /// The tool.
        name: String,
    },
    /// Figures of different promises are not comparable.
    #[error("refusing to compare different promises: {one}: {one_durability}, {other}: {other_durability}")]
    UnequalDurability {
        /// One tool,
        one: String,
        /// and its durability.
        one_durability: String,
        /// The other,
        other: String,
        /// and its durability.
        other_durability: String,
    },
    /// The program is not there.
    #[error("tool {name}: no program {}: give its path", path.display())]
    NoBinary {
        /// The tool.
        name: String,
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The command has no words.
    #[error("tool {name} has an empty command")]
    EmptyCommand {
        /// The tool.
        name: String,
    },
    /// The command has a placeholder that means nothing.
    #[error("tool {name}: unknown placeholder {{{placeholder}}}")]
    UnknownPlaceholder {
        /// The tool.
        name: String,
        /// The placeholder.
        placeholder: String,
    },
    /// Folders, port or process cannot be made.
    #[error("start {name}: {source}")]
    Start {
        /// The tool.
        name: String,
        /// What the system says.
        source: io::Error,
    },
    /// The process ended before it answered.
    #[error("{name} ended before it answered ({status}): {output}")]
    Ended {
        /// The tool.
        name: String,
        /// How it ended.
        status: ExitStatus,
        /// Its last words.
        output: String,
    },
    /// What was not started here cannot be started again.
    #[error("{name} was not started by this program")]
    Foreign {
        /// The endpoint.
        name: String,
    },
    /// The process does not answer.
    #[error("{name} does not answer after {} s ({reason}): {output}", READY_TIMEOUT.as_secs())]
    Silent {
        /// The tool.
        name: String,
        /// What the last attempt said.
        reason: String,
        /// Its last words.
        output: String,
    },
    /// An endpoint that cannot be used.
    #[error("endpoint {url}: {reason}")]
    Endpoint {
        /// The endpoint.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// An endpoint needs credentials.
    #[error("{name} is not set: an endpoint's credentials come from the environment")]
    NoCredentials {
        /// The variable.
        name: &'static str,
    },
}

impl Subject {
    /// Starts `tool` with the program `binary`, or the one that its file names, in a new folder under
    /// `folder`, and waits until it answers. It ends with the thread that calls this.
    ///
    /// # Errors
    /// It cannot be started, or does not answer.
    pub fn start(tool: &Tool, binary: Option<&Path>, folder: &Path) -> Result<Self, Error> {
        let start = |source| Error::Start { name: tool.name.clone(), source };
        let binary = tool.locate(binary)?;
        remove_left_over(folder);
        let folder = Folder(make_folders(tool, folder).map_err(start)?);
        // The port is free at this moment; nothing else on the machine is told of it.
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).map_err(start)?.port();
        let places = Places {
            binary: binary.clone(),
            port,
            access_key: "sherdbench".to_owned(),
            secret_key: format!("bench-{}-{port}-secret", std::process::id()),
            folder: folder.0.clone(),
        };
        let child = spawn(tool, &places)?;
        let version = version(tool, &places);
        let credentials = Credentials {
            access_key: places.access_key.clone(),
            secret_key: places.secret_key.clone(),
            region: REGION.to_owned(),
        };
        let mut subject = Self {
            name: tool.name.clone(),
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            host: format!("127.0.0.1:{port}"),
            credentials,
            durability: tool.durability.clone(),
            version,
            fingerprint: tool::fingerprint(&binary).map_err(start)?,
            started: Some(StartedStore { process: Process::watch(child), places, folder }),
        };
        subject.wait_until_ready()?;
        Ok(subject)
    }

    /// Ends the store's process and starts it again as `tool` says, on the same folders and the same
    /// port; says how long it took from the start until it answered.
    ///
    /// # Errors
    /// It was not started here, cannot be started, or does not answer.
    pub fn restart(&mut self, tool: &Tool, end: End) -> Result<Duration, Error> {
        let Some(started) = &mut self.started else {
            return Err(Error::Foreign { name: self.name.clone() });
        };
        match end {
            End::Asked => started.process.stop(),
            End::Killed => started.process.kill(),
        }
        let begin = Instant::now();
        started.process = Process::watch(spawn(tool, &started.places)?);
        self.wait_until_ready()?;
        Ok(begin.elapsed())
    }

    /// The endpoint at `url`, with credentials from `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and
    /// `AWS_REGION`.
    ///
    /// # Errors
    /// The URL is not one of clear-text HTTP, its name is not known, or credentials are missing.
    pub fn endpoint(url: &str) -> Result<Self, Error> {
        let bad = |reason| Error::Endpoint { url: url.to_owned(), reason };
        let rest = url.strip_prefix("http://").ok_or_else(|| bad("only http:// is spoken"))?;
        let host = rest.trim_end_matches('/');
        if host.is_empty() || host.contains('/') || host.contains('@') {
            return Err(bad("not of the form http://host:port"));
        }
        let numbered = if has_port(host) { host.to_owned() } else { format!("{host}:80") };
        let mut addresses = numbered.to_socket_addrs().map_err(|_| bad("its name is not known"))?;
        let address = addresses.next().ok_or_else(|| bad("its name is not known"))?;
        let variable = |name| env::var(name).map_err(|_| Error::NoCredentials { name });
        let region = env::var("AWS_REGION").or_else(|_| env::var("AWS_DEFAULT_REGION"));
        let credentials = Credentials {
            access_key: variable("AWS_ACCESS_KEY_ID")?,
            secret_key: variable("AWS_SECRET_ACCESS_KEY")?,
            region: region.unwrap_or_else(|_| REGION.to_owned()),
        };
        Ok(Self::at(address, host, credentials))
    }

    /// What listens at `address` and is called `host`.
    pub fn at(address: SocketAddr, host: &str, credentials: Credentials) -> Self {
        Self {
            name: host.to_owned(),
            address,
            host: host.to_owned(),
            credentials,
            durability: "unknown".to_owned(),
            version: String::new(),
            fingerprint: String::new(),
            started: None,
        }
    }

    /// The store's process, if it was started here.
    pub fn process(&self) -> Option<&Process> {
        self.started.as_ref().map(|started| &started.process)
    }

    /// What a reader of results must know of it: `durability`, and `<name>_version` and `<name>_binary`
    /// of a store that was started.
    pub fn settings(&self) -> BTreeMap<String, String> {
        let named = |name: &str, value: &String| (format!("{}_{name}", self.name), value.clone());
        let mut settings = BTreeMap::from([("durability".to_owned(), self.durability.clone())]);
        if self.started.is_some() {
            settings.extend([named("version", &self.version), named("binary", &self.fingerprint)]);
        }
        settings
    }

    /// Where a started store keeps its data.
    pub fn folder(&self) -> Option<&Path> {
        self.started.as_ref().map(|started| started.folder.0.as_path())
    }

    /// What a started store has written to its output.
    fn output(&self) -> String {
        let path = self.folder().map(output_path).unwrap_or_default();
        String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
    }

    fn wait_until_ready(&mut self) -> Result<(), Error> {
        let begin = Instant::now();
        loop {
            let reason = match bucket::is_ready(self) {
                Ok(()) => return Ok(()),
                Err(error) => error.to_string(),
            };
            let name = self.name.clone();
            if let Some(status) = self.started.as_mut().and_then(|started| started.process.ended()) {
                return Err(Error::Ended { name, status, output: last_words(&self.output()) });
            }
            if begin.elapsed() > READY_TIMEOUT {
                return Err(Error::Silent { name, reason, output: last_words(&self.output()) });
            }
            thread::park_timeout(READY_POLL);
        }
    }
}

fn has_port(host: &str) -> bool {
    host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok())
}

/// Where a store's output goes.
fn output_path(folder: &Path) -> PathBuf {
    folder.join("output")
}

fn spawn(tool: &Tool, places: &Places) -> Result<std::process::Child, Error> {
    let start = |source| Error::Start { name: tool.name.clone(), source };
    let words = tool.fill(&tool.command, places)?;
    let (program, arguments) = words.split_first().expect("a filled command has a word");
    let output = fs::File::create(output_path(&places.folder)).map_err(start)?;
    let mut command = Command::new(program);
    // What the caller's shell has set must not change what is measured.
    command.args(arguments).env_clear().stdin(Stdio::null());
    command.stdout(output.try_clone().map_err(start)?).stderr(output);
    for name in ["PATH", "HOME"] {
        command.env(name, env::var_os(name).unwrap_or_default());
    }
    for (name, value) in &tool.environment {
        command.env(name, tool.fill_word(value, places)?);
    }
    end_with_this_process(&mut command);
    command.spawn().map_err(start)
}

/// Has the kernel ask the store to stop when the thread that starts it ends, however it ends: a store
/// that outlives a killed benchmark would be measured beside the next one.
#[expect(unsafe_code, reason = "code between fork and exec is unsafe to run")]
fn end_with_this_process(command: &mut Command) {
    // SAFETY: the closure makes one system call and touches no memory that another thread of the parent
    // may have held locked at the fork: it neither allocates nor takes a lock.
    unsafe {
        command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::TERM))?));
    }
}

fn version(tool: &Tool, places: &Places) -> String {
    let words = tool.fill(&tool.version, places).unwrap_or_default();
    let Some((program, arguments)) = words.split_first() else {
        return String::new();
    };
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

fn last_words(output: &str) -> String {
    let begin = output.len().saturating_sub(OUTPUT_SHOWN_BYTES);
    let begin = (begin..output.len()).find(|at| output.is_char_boundary(*at)).unwrap_or(begin);
    output.get(begin..).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Tool {
        let text = format!("binary = 'sh'\ndurability = 'fsync'\ncommand = ['{{binary}}', '-c', '{script}']");
        Tool::parse("shell", &text).unwrap()
    }

    #[test]
    fn a_store_that_ends_at_once_is_named_with_its_last_words_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let error = Subject::start(&shell("echo no such disk; exit 3"), None, folder.path()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("exit status: 3") && text.contains("no such disk"), "{text}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn endpoints_that_cannot_be_used_are_refused_with_the_reason() {
        for (url, reason) in [
            ("https://example.com", "only http://"),
            ("http://", "not of the form"),
            ("http://127.0.0.1:9000/bucket", "not of the form"),
            ("http://id:secret@127.0.0.1:9000", "not of the form"),
        ] {
            let error = Subject::endpoint(url).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn a_secret_is_in_no_text() {
        let credentials =
            Credentials { access_key: "id".into(), secret_key: "hidden".into(), region: "r".into() };
        let subject = Subject::at(SocketAddr::from(([127, 0, 0, 1], 9)), "h", credentials);
        assert!(!format!("{subject:?} {:?}", subject.settings()).contains("hidden"));
    }
}
