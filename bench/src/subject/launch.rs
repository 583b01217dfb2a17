//! The start of a store's processes: a command each, with an environment and a port of its own, and the
//! addresses that a store of several nodes has.
//!
//! Called by `Subject::start` and `Subject::restart`. A store ends with the thread that starts it, however
//! that thread ends.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{env, fs, io};

use rustix::process::{Signal, set_parent_process_death_signal};

use super::endpoint::{Endpoint, REGION};
use super::error::Error;
use super::tool::{CERTIFICATES, PlaceholderValues, Tool};
use crate::client::sign::Credentials;
use crate::tls::authority::{BenchAuthority, TlsTrust};

/// Replaces the last letter of a path that a program must not find.
const CONCEALED: u8 = b'_';

pub(super) fn output_path(folder: &Path) -> PathBuf {
    folder.join("output")
}

/// Ports that are free at this moment; another process may still take them.
pub(super) fn free_ports(count: usize) -> io::Result<Vec<u16>> {
    let sockets: io::Result<Vec<TcpListener>> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect();
    sockets?.iter().map(|socket| Ok(socket.local_addr()?.port())).collect()
}

/// Makes the certificates of a store in its folder, and says how its clients connect.
///
/// # Errors
/// A certificate cannot be made, or a file not be written.
pub(super) fn certificates(
    folder: &Path,
    nodes: usize,
) -> Result<TlsTrust, Box<dyn std::error::Error + Send + Sync>> {
    let authority = BenchAuthority::new()?;
    authority.write(&folder.join(CERTIFICATES), nodes)?;
    authority.trust()
}

pub(super) fn spawn(tool: &Tool, values: &PlaceholderValues) -> Result<Vec<Child>, Error> {
    let start = |source| Error::Start { name: tool.name.clone(), source };
    let output = fs::File::create(output_path(&values.folder)).map_err(start)?;
    let mut children = Vec::new();
    for (number, port) in (1..).zip(values.ports.iter().take(tool.processes)) {
        let values = PlaceholderValues { number, port: *port, ..values.clone() };
        let words = tool.fill(&tool.command, &values)?;
        let (program, arguments) = words.split_first().expect("a filled command has a word");
        let mut command = Command::new(program);
        // The variables of the caller's shell must not change the measurement.
        command.args(arguments).env_clear().stdin(Stdio::null());
        command.stdout(output.try_clone().map_err(start)?).stderr(output.try_clone().map_err(start)?);
        for name in ["PATH", "HOME"] {
            command.env(name, env::var_os(name).unwrap_or_default());
        }
        for (name, value) in &tool.environment {
            command.env(name, tool.fill_word(value, &values)?);
        }
        end_with_this_process(&mut command);
        match command.spawn() {
            Ok(child) => children.push(child),
            Err(source) => {
                // The store has no process that would be left: those that run are ended.
                for child in &mut children {
                    let _ = Child::kill(child);
                    let _ = Child::wait(child);
                }
                return Err(start(source));
            }
        }
    }
    Ok(children)
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

pub(super) fn version(tool: &Tool, values: &PlaceholderValues) -> String {
    let words = tool.fill(&tool.version, values).unwrap_or_default();
    let Some((program, arguments)) = words.split_first() else {
        return String::new();
    };
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

/// The program to run: `binary`, or a copy of it in `folder` that does not find the path that the tool
/// conceals, where this machine has that path.
pub(super) fn concealed(tool: &Tool, binary: PathBuf, folder: &Path) -> io::Result<PathBuf> {
    let Some(path) = tool.conceal.as_deref().filter(|path| fs::exists(path).unwrap_or(false)) else {
        return Ok(binary);
    };
    let mut bytes = fs::read(&binary)?;
    if !conceal(&mut bytes, path.as_bytes()) {
        return Ok(binary);
    }
    let copy = folder.join("program");
    fs::write(&copy, bytes)?;
    fs::set_permissions(&copy, fs::metadata(&binary)?.permissions())?;
    Ok(copy)
}

/// Changes the last letter of `path` wherever it stands in `bytes`, and says whether it stands there.
fn conceal(bytes: &mut [u8], path: &[u8]) -> bool {
    let Some(first) = path.first() else { return false };
    let (mut at, mut found) = (0, false);
    while let Some(next) = bytes.get(at..).and_then(|rest| rest.iter().position(|byte| byte == first)) {
        at += next + 1;
        if bytes[at - 1..].starts_with(path) {
            bytes[at + path.len() - 2] = CONCEALED;
            found = true;
        }
    }
    found
}

/// The endpoints that a store of several nodes has said in its output: the first address of each line that
/// begins with a node's name, `n1` and up. Nothing until all `count` are there.
pub(super) fn announced(output: &str, count: usize) -> Option<Vec<Endpoint>> {
    let named = |line: &str, number: usize| line.split_whitespace().next() == Some(&format!("n{number}"));
    let address = |number: usize| -> Option<SocketAddr> {
        let mut lines = output.lines().filter(|line| named(line, number));
        lines.find_map(|line| line.split_once("http://")?.1.split_whitespace().next()?.parse().ok())
    };
    (1..=count).map(|number| address(number).map(Endpoint::at)).collect()
}

/// The key pair of a file that sets `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` in a shell.
pub(super) fn credentials(text: &str) -> Option<Credentials> {
    let value = |suffix: &str| {
        let mut pairs = text.lines().filter_map(|line| line.split_once('='));
        let (_, value) = pairs.find(|(name, _)| name.trim().ends_with(suffix))?;
        Some(value.trim().trim_matches(['"', '\'']).to_owned())
    };
    Some(Credentials {
        access_key: value("ACCESS_KEY_ID")?,
        secret_key: value("SECRET_ACCESS_KEY")?,
        region: REGION.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_concealed_wherever_it_stands() {
        let mut bytes = b"..//.dockerenv/.dockerenv/.dockeren".to_vec();
        assert!(conceal(&mut bytes, b"/.dockerenv"));
        assert_eq!(bytes, b"..//.dockeren_/.dockeren_/.dockeren");
        assert!(!conceal(&mut bytes, b"/.dockerenv") && !conceal(&mut bytes, b""));
    }

    #[test]
    fn the_endpoints_of_a_store_are_there_when_all_nodes_have_said_them() {
        let line = |number: usize| {
            format!("n{number}  http://127.0.0.1:900{number}  http://127.0.0.1:920{number}\n")
        };
        let begun = format!("node S3 admin\n{}", line(1));
        assert_eq!(announced(&begun, 2), None);
        let nodes = announced(&format!("{begun}{}", line(2)), 2).unwrap();
        let hosts: Vec<_> = nodes.iter().map(|node| node.host.as_str()).collect();
        assert_eq!(hosts, ["127.0.0.1:9001", "127.0.0.1:9002"]);
    }

    #[test]
    fn a_key_pair_is_read_as_a_shell_reads_it() {
        let pair = credentials("export AWS_ACCESS_KEY_ID=one\nAWS_SECRET_ACCESS_KEY='two'\n").unwrap();
        assert_eq!((pair.access_key.as_str(), pair.secret_key.as_str()), ("one", "two"));
        assert!(credentials("AWS_ACCESS_KEY_ID=one").is_none());
    }

    #[test]
    fn free_ports_differ() {
        let ports = free_ports(4).unwrap();
        assert_eq!(ports.iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
    }
}
