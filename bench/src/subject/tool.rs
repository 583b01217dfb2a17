//! A store described by a file: how to start it, and how durable its answers are.
//!
//! `bench/tools/<name>.toml` is such a file. Placeholders in the command and the environment are
//! `{binary}`, `{port}`, `{port1}` to `{port4}`, `{access_key}`, `{secret_key}`, `{folder}` and `{folder1}`
//! to `{folder4}`. A store of several processes is one command, run once with each of the ports as `{port}`,
//! and `{number}` from 1 on; `{peer_port1}` to `{peer_port4}` are for what its processes say to each other. A
//! store with `tls` finds certificates in `{certificates}`, those of the nodes of `{cluster}` among them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use serde::Deserialize;

use super::error::Error;
use crate::limits::STORE_FOLDERS;
use crate::tls::authority::CLUSTER;

/// Folder of a store's certificates, in its own.
pub(super) const CERTIFICATES: &str = "certificates";
/// The tools that come with the program.
const BUILT_IN: [(&str, &str); 6] = [
    ("sherd", include_str!("../../tools/sherd.toml")),
    ("minio", include_str!("../../tools/minio.toml")),
    ("sherd-cluster", include_str!("../../tools/sherd-cluster.toml")),
    ("minio-cluster", include_str!("../../tools/minio-cluster.toml")),
    ("sherd-cluster-tls", include_str!("../../tools/sherd-cluster-tls.toml")),
    ("minio-cluster-tls", include_str!("../../tools/minio-cluster-tls.toml")),
];

/// How to start a store.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// The tool's name in rows; the file's stem.
    #[serde(skip)]
    pub name: String,
    /// The program, looked up in `PATH` unless a path is given.
    pub binary: PathBuf,
    /// Command that prints a version.
    #[serde(default)]
    pub version: Vec<String>,
    /// Command that runs the store in the foreground.
    pub command: Vec<String>,
    /// Durability of an answered write: `fsync` when it is on stable storage. Subjects that are compared must
    /// have the same one.
    #[serde(default)]
    pub durability: String,
    /// Environment, beside `PATH` and `HOME`.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Processes that are the store together, from 1 to 4: each runs the command, with a port of its own.
    #[serde(default = "one")]
    pub processes: usize,
    /// Nodes whose endpoints the store prints, a line for each that begins with `n1`, `n2`, ...; 0 where it
    /// listens at the ports that it is given.
    #[serde(default)]
    pub announces: usize,
    /// File in which the store leaves its key pair, where it is not given one.
    #[serde(default)]
    pub credentials: Option<String>,
    /// Whether its clients speak TLS with it.
    #[serde(default)]
    pub tls: bool,
    /// A path that the program must not find: where this machine has it, a copy of the program runs in
    /// which the path is written differently.
    #[serde(default)]
    pub conceal: Option<String>,
}

const fn one() -> usize {
    1
}

/// Values of the placeholders.
#[derive(Clone, Debug)]
pub struct PlaceholderValues {
    /// The program.
    pub binary: PathBuf,
    /// Number of the process, from 1.
    pub number: usize,
    /// Where the process listens.
    pub port: u16,
    /// A port for each process of a store.
    pub ports: Vec<u16>,
    /// A port for each process, on which the others reach it.
    pub peer_ports: Vec<u16>,
    /// Name of the key pair.
    pub access_key: String,
    /// The key pair's secret.
    pub secret_key: String,
    /// Parent of the folders.
    pub folder: PathBuf,
}

impl Tool {
    /// Reads the tool that `name` stands for: a path to a file, or the name of one that comes with the
    /// program.
    ///
    /// # Errors
    /// The tool does not exist, is malformed, or does not state its durability.
    pub fn find(name: &str) -> Result<Self, Error> {
        let path = Path::new(name);
        if path.extension().is_some_and(|extension| extension == "toml") {
            let text = fs::read_to_string(path)
                .map_err(|source| Error::ToolFile { path: path.to_owned(), source })?;
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            return Self::parse(&stem, &text);
        }
        match BUILT_IN.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Self::parse(name, text),
            None => Err(Error::UnknownTool { name: name.to_owned() }),
        }
    }

    /// Reads the text of a tool's file.
    ///
    /// # Errors
    /// It is malformed, or does not state its durability.
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        let mut tool: Self = toml::from_str(text)
            .map_err(|source| Error::MalformedTool { name: name.to_owned(), source: Box::new(source) })?;
        name.clone_into(&mut tool.name);
        if tool.durability.is_empty() {
            return Err(Error::NoDurability { name: tool.name });
        }
        if !(1..=STORE_FOLDERS).contains(&tool.processes) {
            return Err(Error::Processes { name: tool.name });
        }
        Ok(tool)
    }

    /// The program's path: `given`, or the file's looked up in `PATH`.
    ///
    /// # Errors
    /// The file does not exist.
    pub fn locate(&self, given: Option<&Path>) -> Result<PathBuf, Error> {
        let wanted = given.unwrap_or(&self.binary);
        let missing = || Error::NoBinary { name: self.name.clone(), path: wanted.to_owned() };
        if wanted.components().count() > 1 {
            return if wanted.is_file() {
                fs::canonicalize(wanted).map_err(|_| missing())
            } else {
                Err(missing())
            };
        }
        let folders = env::var_os("PATH").unwrap_or_default();
        let found = env::split_paths(&folders).map(|folder| folder.join(wanted)).find(|path| path.is_file());
        found.ok_or_else(missing)
    }

    /// The command with its placeholders filled.
    ///
    /// # Errors
    /// The command is empty or has an unknown placeholder.
    pub fn fill(&self, words: &[String], values: &PlaceholderValues) -> Result<Vec<String>, Error> {
        let filled: Result<Vec<String>, Error> =
            words.iter().map(|word| self.fill_word(word, values)).collect();
        match filled {
            Ok(words) if words.is_empty() => Err(Error::EmptyCommand { name: self.name.clone() }),
            other => other,
        }
    }

    /// `word` with its placeholders filled.
    ///
    /// # Errors
    /// It has an unknown placeholder.
    pub fn fill_word(&self, word: &str, values: &PlaceholderValues) -> Result<String, Error> {
        let PlaceholderValues { binary, number, port, ports, peer_ports, access_key, secret_key, folder } =
            values;
        let mut filled = word
            .replace("{binary}", &binary.to_string_lossy())
            .replace("{number}", &number.to_string())
            .replace("{port}", &port.to_string())
            .replace("{access_key}", access_key)
            .replace("{secret_key}", secret_key)
            .replace("{folder}", &folder.to_string_lossy())
            .replace("{certificates}", &folder.join(CERTIFICATES).to_string_lossy())
            .replace("{cluster}", &CLUSTER.to_string());
        for (name, ports) in [("port", ports), ("peer_port", peer_ports)] {
            for (number, port) in (1..).zip(ports) {
                filled = filled.replace(&format!("{{{name}{number}}}"), &port.to_string());
            }
        }
        for number in 1..=STORE_FOLDERS {
            let path = folder.join(number.to_string());
            filled = filled.replace(&format!("{{folder{number}}}"), &path.to_string_lossy());
        }
        match filled.split_once('{').and_then(|(_, rest)| rest.split_once('}')) {
            Some((unknown, _)) if word.contains(&format!("{{{unknown}}}")) => {
                Err(Error::UnknownPlaceholder { name: self.name.clone(), placeholder: unknown.to_owned() })
            }
            _ => Ok(filled),
        }
    }
}

/// Refuses to compare tools whose answers promise different things.
///
/// # Errors
/// Two of them differ.
pub fn refuse_unequal_durability(tools: &[&Tool]) -> Result<(), Error> {
    for pair in tools.windows(2) {
        if let [one, other] = pair
            && one.durability != other.durability
        {
            return Err(Error::UnequalDurability {
                one: one.name.clone(),
                one_durability: one.durability.clone(),
                other: other.name.clone(),
                other_durability: other.durability.clone(),
            });
        }
    }
    Ok(())
}

/// The first 8 bytes of the program's hash in hex, which differ between builds.
///
/// # Errors
/// The file cannot be read.
pub fn fingerprint(binary: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    io::copy(&mut fs::File::open(binary)?, &mut hasher)?;
    Ok(hex::encode(hasher.finalize().as_bytes().get(..8).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: &str =
        "binary = 'x'\ncommand = ['{binary}', '{folder2}:{port}:{port2}']\ndurability = 'fsync'";

    fn values() -> PlaceholderValues {
        PlaceholderValues {
            binary: "/bin/x".into(),
            number: 2,
            port: 77,
            ports: vec![77, 78, 79, 80],
            peer_ports: vec![87, 88, 89, 90],
            access_key: "id".into(),
            secret_key: "secret".into(),
            folder: "/data".into(),
        }
    }

    #[test]
    fn the_tools_that_come_with_the_program_are_whole_and_equally_durable() {
        let tools: Vec<Tool> = BUILT_IN.iter().map(|(name, _)| Tool::find(name).unwrap()).collect();
        for tool in &tools {
            let words = tool.fill(&tool.command, &values()).unwrap();
            // A store that announces its nodes lays its own folders out.
            let own = tool.command.iter().any(|word| word.contains("{number}"));
            let folders = if own { 2..=2 } else { 1..=STORE_FOLDERS };
            for number in folders.filter(|_| tool.announces == 0) {
                let folder = format!("/data/{number}");
                assert!(words.iter().any(|word| word.contains(&folder)), "{} lacks {folder}", tool.name);
            }
            for value in tool.environment.values() {
                tool.fill_word(value, &values()).unwrap();
            }
        }
        refuse_unequal_durability(&tools.iter().collect::<Vec<_>>()).unwrap();
    }

    #[test]
    fn placeholders_are_filled_and_unknown_ones_refused() {
        let tool = Tool::parse("t", MINIMAL).unwrap();
        assert_eq!(tool.fill(&tool.command, &values()).unwrap(), ["/bin/x", "/data/2:77:78"]);
        let error = tool.fill_word("{folder9}", &values()).unwrap_err();
        assert!(error.to_string().contains("folder9"), "{error}");
        assert!(tool.fill(&[], &values()).is_err());
    }

    #[test]
    fn a_tool_that_does_not_state_its_durability_is_refused() {
        let text = MINIMAL.replace("durability = 'fsync'", "");
        assert!(matches!(Tool::parse("t", &text), Err(Error::NoDurability { .. })));
    }

    #[test]
    fn tools_of_different_durability_are_not_compared() {
        let one = Tool::parse("one", MINIMAL).unwrap();
        let other = Tool::parse("other", &MINIMAL.replace("fsync", "none")).unwrap();
        let error = refuse_unequal_durability(&[&one, &one, &other]).unwrap_err();
        assert!(error.to_string().contains("other: none"), "{error}");
    }

    #[test]
    fn misspelt_keys_and_missing_programs_are_named() {
        let error = Tool::parse("t", &format!("{MINIMAL}\nduribility = 'x'")).unwrap_err();
        assert!(error.to_string().contains("duribility"), "{error}");
        let none = Tool::parse("t", &format!("{MINIMAL}\nprocesses = 0"));
        assert!(matches!(none, Err(Error::Processes { .. })));
        assert!(matches!(Tool::find("nothing"), Err(Error::UnknownTool { .. })));
        let tool = Tool::parse("t", MINIMAL).unwrap();
        assert!(matches!(tool.locate(Some(Path::new("/nowhere/x"))), Err(Error::NoBinary { .. })));
        assert!(tool.locate(Some(Path::new("sh"))).is_ok(), "looked up in PATH");
    }
}
