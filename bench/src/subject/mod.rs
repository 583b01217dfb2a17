//! The measured store: one that is started for the measurement, or an endpoint.
//!
//! A started store gets folders of its own, a free port and a key pair, is waited for until it answers,
//! and is stopped and removed at the end. Its processor time and memory can be read while it runs.

mod error;
mod endpoint;
pub mod tool;
pub(crate) mod folder;
mod launch;
pub mod process;
pub mod admin;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

pub use endpoint::Endpoint;
pub use error::Error;
pub use process::Process;
pub use tool::{Tool, refuse_unequal_durability};

use crate::client::ask::list_buckets;
use crate::client::sign::Credentials;
use crate::limits::{READY_POLL, READY_TIMEOUT, STORE_FOLDERS};
use endpoint::REGION;
use folder::Folder;
use tool::PlaceholderValues;

/// Last bytes of a store's output that an error shows.
const OUTPUT_SHOWN_BYTES: usize = 2000;

/// A store that can be measured.
#[derive(Debug)]
pub struct Subject {
    /// The store's name in rows.
    pub name: String,
    /// Where its first node listens.
    pub endpoint: Endpoint,
    /// The store's other nodes: clients are spread over all.
    pub others: Vec<Endpoint>,
    /// Key pair and region.
    pub credentials: Credentials,
    /// Durability of an answered write: `fsync`, or `unknown` of an endpoint.
    pub durability: String,
    /// The version that the program prints.
    pub version: String,
    /// Differs between builds.
    pub fingerprint: String,
    started: Option<StartedStore>,
}

/// Ends in the order of its fields: what is running first, then what it wrote.
#[derive(Debug)]
struct StartedStore {
    process: Process,
    values: PlaceholderValues,
    folder: Folder,
}

/// How a store's process ends before it is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The process is asked to stop, and may close what it has open.
    Asked,
    /// The process is killed, as by a crash.
    Killed,
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
        let folder = Folder::of_store(tool, folder).map_err(start)?;
        let mut ports = launch::free_ports(2 * STORE_FOLDERS).map_err(start)?;
        let peer_ports = ports.split_off(STORE_FOLDERS);
        let port = ports[0];
        let tls = tool.tls.then(|| launch::certificates(&folder.0, tool.processes)).transpose();
        let tls = tls.map_err(|source| Error::Certificates { name: tool.name.clone(), source })?;
        let values = PlaceholderValues {
            binary: launch::concealed(tool, binary.clone(), &folder.0).map_err(start)?,
            number: 1,
            port,
            ports,
            peer_ports,
            access_key: "sherdbench".to_owned(),
            secret_key: format!("bench-{}-{port}-secret", std::process::id()),
            folder: folder.0.clone(),
        };
        let children = launch::spawn(tool, &values)?;
        let version = launch::version(tool, &values);
        let nodes = values.ports.iter().take(tool.processes);
        let at = |port: &u16| Endpoint::at(SocketAddr::from(([127, 0, 0, 1], *port)));
        let mut nodes = nodes.map(|port| Endpoint { tls: tls.clone(), ..at(port) });
        let credentials = Credentials {
            access_key: values.access_key.clone(),
            secret_key: values.secret_key.clone(),
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
            started: Some(StartedStore { process: Process::watch(children), values, folder }),
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
        started.process = Process::watch(launch::spawn(tool, &started.values)?);
        self.wait_until_ready(tool)?;
        Ok(begin.elapsed())
    }

    /// The endpoint at `urls`, or several of one store with commas between them, with credentials from
    /// `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_REGION`.
    ///
    /// # Errors
    /// A URL is not one of clear-text HTTP, its name is not known, or credentials are missing.
    pub fn endpoint(urls: &str) -> Result<Self, Error> {
        let nodes: Result<Vec<Endpoint>, Error> = urls.split(',').map(Endpoint::of_url).collect();
        let mut nodes = nodes?.into_iter();
        let Endpoint { address, host, tls: _ } = nodes.next().expect("a text that is split has a part");
        let variable = |name| env::var(name).map_err(|_| Error::NoCredentials { name });
        let region = env::var("AWS_REGION").or_else(|_| env::var("AWS_DEFAULT_REGION"));
        let credentials = Credentials {
            access_key: variable("AWS_ACCESS_KEY_ID")?,
            secret_key: variable("AWS_SECRET_ACCESS_KEY")?,
            region: region.unwrap_or_else(|_| REGION.to_owned()),
        };
        Ok(Self { others: nodes.collect(), ..Self::at(address, &host, credentials) })
    }

    /// The endpoint at `address` with the header `host`.
    pub fn at(address: SocketAddr, host: &str, credentials: Credentials) -> Self {
        Self {
            name: host.to_owned(),
            endpoint: Endpoint { address, host: host.to_owned(), tls: None },
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

    /// Settings for the results: `durability`, and `<name>_version` and `<name>_binary` of a store that was
    /// started.
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

    fn output(&self) -> String {
        let path = self.folder().map(launch::output_path).unwrap_or_default();
        String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
    }

    /// Takes the nodes and the key pair that the store has announced, where the tool says that it announces
    /// them.
    ///
    /// # Errors
    /// They are not announced yet.
    fn take_announced(&mut self, tool: &Tool) -> Result<(), String> {
        let Some(started) = self.started.as_ref().filter(|_| tool.announces > 0) else { return Ok(()) };
        let nodes = launch::announced(&self.output(), tool.announces);
        let mut nodes = nodes.ok_or("it has not said where all its nodes listen")?.into_iter();
        if let Some(path) = &tool.credentials {
            let path = tool.fill_word(path, &started.values).map_err(|error| error.to_string())?;
            let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
            self.credentials = launch::credentials(&text).ok_or_else(|| format!("{path}: no key pair"))?;
        }
        self.endpoint = nodes.next().ok_or("it has no node")?;
        self.others = nodes.collect();
        Ok(())
    }

    /// Asks each node for its buckets.
    fn ask_all_nodes(&self) -> Result<(), String> {
        let ask =
            |node: &Endpoint| list_buckets((node.address, &node.host), node.tls.as_ref(), &self.credentials);
        self.endpoints().try_for_each(ask).map_err(|error| error.to_string())
    }

    fn wait_until_ready(&mut self, tool: &Tool) -> Result<(), Error> {
        let begin = Instant::now();
        loop {
            let announced = self.take_announced(tool);
            let ready = announced.and_then(|()| self.ask_all_nodes());
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
