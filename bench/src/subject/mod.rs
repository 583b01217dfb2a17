//! What is measured: a store that is started for it, or an endpoint that is there.
//!
//! A started store gets folders of its own, a free port and a key pair, is waited for until it answers,
//! and is stopped and removed at the end. Its processor time and memory can be read while it runs.

pub mod process;
pub mod tool;
pub mod admin;
mod folder;
mod launch;

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

pub use process::Process;
pub use tool::{Tool, refuse_unequal_durability};

use crate::load::ask::list_buckets;
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
    pub endpoint: Endpoint,
    /// Its other nodes: clients are spread over all.
    pub others: Vec<Endpoint>,
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

/// Where one node of a store listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its address.
    pub address: SocketAddr,
    /// The `host` header.
    pub host: String,
}

impl Endpoint {
    /// What listens at `address`, and is called by it.
    fn at(address: SocketAddr) -> Self {
        Self { address, host: address.to_string() }
    }
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
    /// A store is of one process or of a few.
    #[error("tool {name}: `processes` is from 1 to {}", tool::FOLDERS)]
    Processes {
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
        let ports = launch::free_ports(tool::FOLDERS).map_err(start)?;
        let port = ports[0];
        let places = Places {
            binary: launch::concealed(tool, binary.clone(), &folder.0).map_err(start)?,
            port,
            ports,
            access_key: "sherdbench".to_owned(),
            secret_key: format!("bench-{}-{port}-secret", std::process::id()),
            folder: folder.0.clone(),
        };
        let children = launch::spawn(tool, &places)?;
        let version = launch::version(tool, &places);
        let nodes = places.ports.iter().take(tool.processes);
        let mut nodes = nodes.map(|port| Endpoint::at(SocketAddr::from(([127, 0, 0, 1], *port))));
        let credentials = Credentials {
            access_key: places.access_key.clone(),
            secret_key: places.secret_key.clone(),
            region: REGION.to_owned(),
        };
        let mut subject = Self {
            name: tool.name.clone(),
            endpoint: nodes.next().expect("a tool has a process"),
            others: nodes.collect(),
            credentials,
            durability: tool.durability.clone(),
            version,
            fingerprint: tool::fingerprint(&binary).map_err(start)?,
            started: Some(StartedStore { process: Process::watch(children), places, folder }),
        };
        subject.wait_until_ready(tool)?;
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
        started.process = Process::watch(launch::spawn(tool, &started.places)?);
        self.wait_until_ready(tool)?;
        Ok(begin.elapsed())
    }

    /// The endpoint at `urls`, or several of one store with commas between them, with credentials from
    /// `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_REGION`.
    ///
    /// # Errors
    /// A URL is not one of clear-text HTTP, its name is not known, or credentials are missing.
    pub fn endpoint(urls: &str) -> Result<Self, Error> {
        let nodes: Result<Vec<(SocketAddr, &str)>, Error> = urls.split(',').map(Self::node_at).collect();
        let mut nodes = nodes?.into_iter();
        let (address, host) = nodes.next().expect("a text that is split has a part");
        let variable = |name| env::var(name).map_err(|_| Error::NoCredentials { name });
        let region = env::var("AWS_REGION").or_else(|_| env::var("AWS_DEFAULT_REGION"));
        let credentials = Credentials {
            access_key: variable("AWS_ACCESS_KEY_ID")?,
            secret_key: variable("AWS_SECRET_ACCESS_KEY")?,
            region: region.unwrap_or_else(|_| REGION.to_owned()),
        };
        let others = nodes.map(|(address, host)| Endpoint { address, host: host.to_owned() }).collect();
        Ok(Self { others, ..Self::at(address, host, credentials) })
    }

    /// The address and the `host` header that `url` stands for.
    fn node_at(url: &str) -> Result<(SocketAddr, &str), Error> {
        let bad = |reason| Error::Endpoint { url: url.to_owned(), reason };
        let rest = url.strip_prefix("http://").ok_or_else(|| bad("only http:// is spoken"))?;
        let host = rest.trim_end_matches('/');
        if host.is_empty() || host.contains('/') || host.contains('@') {
            return Err(bad("not of the form http://host:port"));
        }
        let numbered = if has_port(host) { host.to_owned() } else { format!("{host}:80") };
        let mut addresses = numbered.to_socket_addrs().map_err(|_| bad("its name is not known"))?;
        let address = addresses.next().ok_or_else(|| bad("its name is not known"))?;
        Ok((address, host))
    }

    /// What listens at `address` and is called `host`.
    pub fn at(address: SocketAddr, host: &str, credentials: Credentials) -> Self {
        Self {
            name: host.to_owned(),
            endpoint: Endpoint { address, host: host.to_owned() },
            others: Vec::new(),
            credentials,
            durability: "unknown".to_owned(),
            version: String::new(),
            fingerprint: String::new(),
            started: None,
        }
    }

    /// All its nodes; at least one.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        std::iter::once(&self.endpoint).chain(&self.others)
    }

    /// The store's processes, if it was started here.
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
        let path = self.folder().map(launch::output_path).unwrap_or_default();
        String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
    }

    /// Takes over the nodes and the key pair that the store has made known, where the tool says that it does.
    ///
    /// # Errors
    /// It has not done so yet.
    fn introduce(&mut self, tool: &Tool) -> Result<(), String> {
        let Some(started) = self.started.as_ref().filter(|_| tool.announces > 0) else { return Ok(()) };
        let nodes = launch::announced(&self.output(), tool.announces);
        let mut nodes = nodes.ok_or("it has not said where all its nodes listen")?.into_iter();
        if let Some(path) = &tool.credentials {
            let path = tool.fill_word(path, &started.places).map_err(|error| error.to_string())?;
            let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
            self.credentials = launch::credentials(&text).ok_or_else(|| format!("{path}: no key pair"))?;
        }
        self.endpoint = nodes.next().ok_or("it has no node")?;
        self.others = nodes.collect();
        Ok(())
    }

    /// Asks each node for its buckets.
    fn answers(&self) -> Result<(), String> {
        let ask = |node: &Endpoint| list_buckets(node.address, &node.host, &self.credentials);
        self.endpoints().try_for_each(ask).map_err(|error| error.to_string())
    }

    fn wait_until_ready(&mut self, tool: &Tool) -> Result<(), Error> {
        let begin = Instant::now();
        loop {
            let introduced = self.introduce(tool);
            let ready = introduced.and_then(|()| self.answers());
            let reason = match ready {
                Ok(()) => return Ok(()),
                Err(reason) => reason,
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
            ("http://127.0.0.1:9000,https://127.0.0.1:9001", "only http://"),
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
