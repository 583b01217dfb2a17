//! Operations to compare, read from the drop-in files of `bench/operations/`.
//!
//! A file holds any number of `[[operation]]` tables: either work for the load generator (`op`, `size`,
//! `clients`, ...) or a shell `command`, in which `{side}` stands for what was given as A or as B. A key
//! that is not known is an error, so a typing mistake does not measure something else.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::command::{Commands, Figure};
use crate::figure;

/// Placeholder in a command for its side.
const SIDE: &str = "{side}";

/// How long one run of a command may take unless it says otherwise, in seconds.
const LIMIT_SECONDS: f64 = 600.0;

/// The longest time that a file may give, a day, in seconds.
const SECONDS_MAX: f64 = 86_400.0;

/// Figures that decide about a regression where the file does not say.
const JUDGED_OF_USE: [&str; 3] = ["seconds", "cpu_seconds", "peak_rss_mib"];
const JUDGED_OF_STORES: [&str; 2] = ["ops_s", "server_cpu_us_op"];

/// One operation to compare.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// The operation's name, by which it is chosen.
    pub name: String,
    /// The work of one run.
    pub work: Work,
    /// The figures that decide about a regression and about how many runs are needed; empty for all that
    /// the command prints.
    pub judge: Vec<String>,
    /// Figures of which more is better, beside rates.
    pub more: Vec<String>,
}

/// The work of one run.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Requests of the load generator.
    Store(Load),
    /// A shell command.
    Command {
        /// The command's text, with `{side}` for what was given as A or B.
        command: String,
        /// Where its figures come from.
        figure: Figure,
        /// How long one run may take.
        limit: Duration,
    },
}

/// Work for the load generator.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// `put`, `get`, ...
    pub op: String,
    /// Bytes of an object, such as `4KiB`.
    pub size: String,
    /// Clients at the same time.
    pub clients: usize,
    /// Length of one run.
    pub seconds: f64,
    /// Number of keys, where the operation needs them beforehand.
    pub keys: usize,
    /// Checksum of every PUT: `crc64nvme` or `crc32c`.
    pub checksum: Option<String>,
}

/// Why operations cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder or a file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The folder or file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file is malformed.
    #[error("{path}: {reason}")]
    Form {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// An operation was asked for that no file has.
    #[error("there is no operation `{name}`, but: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The names of all operations.
        known: String,
    },
}

impl Operation {
    /// The operation behind `compare --command`: A and B are the commands themselves.
    pub fn of_commands(figure: Figure, judge: Vec<String>, more: Vec<String>) -> Self {
        let limit = Duration::from_secs_f64(LIMIT_SECONDS);
        let judge = if judge.is_empty() { judged_by_default(Some(figure)) } else { judge };
        let work = Work::Command { command: SIDE.to_owned(), figure, limit };
        Self { name: "command".to_owned(), work, judge, more }
    }

    /// Whether more of the figure is better.
    pub fn more_is_better(&self, name: &str) -> bool {
        figure::more_is_better(name) || self.more.iter().any(|more| more == name)
    }

    /// The operation in a line.
    pub fn describe(&self) -> String {
        match &self.work {
            Work::Store(Load { op, size, clients, seconds, keys, checksum }) => {
                let checksum = checksum.as_ref().map(|name| format!(", {name}")).unwrap_or_default();
                let seconds = figure::number(*seconds);
                format!("{op} {size}{checksum}, {clients} clients, {keys} keys, {seconds} s a run")
            }
            Work::Command { command, .. } if command == SIDE => "the commands themselves".to_owned(),
            Work::Command { command, .. } => format!("`{command}`"),
        }
    }
}

/// The two commands that `command` is for the sides `a` and `b`.
pub fn commands(command: &str, sides: [&str; 2], figure: Figure, limit: Duration) -> Commands {
    let [a, b] = sides.map(|side| command.replace(SIDE, side));
    Commands { a, b, figure, limit }
}

/// Reads every `*.toml` of `folder` in the order of their names and returns the operations `names`, or all
/// of them if none is named.
///
/// # Errors
/// A file cannot be read or is wrong, two operations have one name, or a name is not known.
pub fn load(folder: &Path, names: &[String]) -> Result<Vec<Operation>, Error> {
    let read = |path: &Path, source| Error::Read { path: path.to_owned(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|source| read(folder, source))? {
        let path = entry.map_err(|source| read(folder, source))?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    files.sort();
    let (mut found, mut known) = (Vec::new(), BTreeSet::new());
    for path in files {
        let text = std::fs::read_to_string(&path).map_err(|source| read(&path, source))?;
        let form = |reason| Error::Form { path: path.clone(), reason };
        for operation in parse(&text).map_err(form)? {
            if !known.insert(operation.name.clone()) {
                return Err(form(format!("there is a second operation `{}`", operation.name)));
            }
            found.push(operation);
        }
    }
    choose(found, names)
}

fn choose(mut found: Vec<Operation>, names: &[String]) -> Result<Vec<Operation>, Error> {
    if let Some(name) = names.iter().find(|name| found.iter().all(|operation| operation.name != **name)) {
        let known: Vec<_> = found.iter().map(|operation| operation.name.as_str()).collect();
        return Err(Error::Unknown { name: name.clone(), known: known.join(", ") });
    }
    if !names.is_empty() {
        found.retain(|operation| names.contains(&operation.name));
    }
    Ok(found)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    operation: Vec<OperationEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OperationEntry {
    name: String,
    op: Option<String>,
    size: Option<String>,
    clients: Option<usize>,
    seconds: Option<f64>,
    keys: Option<usize>,
    checksum: Option<String>,
    command: Option<String>,
    figure: Option<Figure>,
    limit_seconds: Option<f64>,
    #[serde(default)]
    judge: Vec<String>,
    #[serde(default)]
    more: Vec<String>,
}

fn parse(text: &str) -> Result<Vec<Operation>, String> {
    let document: Document = toml::from_str(text).map_err(|error| error.to_string())?;
    let named = |entry: OperationEntry| {
        let name = entry.name.clone();
        operation(entry).map_err(|reason| format!("operation `{name}`: {reason}"))
    };
    document.operation.into_iter().map(named).collect()
}

fn operation(entry: OperationEntry) -> Result<Operation, String> {
    let OperationEntry {
        name,
        op,
        size,
        clients,
        seconds,
        keys,
        checksum,
        command,
        figure,
        limit_seconds,
        judge,
        more,
    } = entry;
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    if name.is_empty() || !name.chars().all(allowed) {
        return Err("a name is of letters, digits and `-`".to_owned());
    }
    let (work, default) = match (op, command) {
        (Some(op), None) => {
            if figure.is_some() || limit_seconds.is_some() {
                return Err("`figure` and `limit_seconds` are for commands".to_owned());
            }
            let load = Load {
                op,
                size: size.unwrap_or_else(|| "4KiB".to_owned()),
                clients: at_least_one(clients, 1, "clients")?,
                seconds: duration(seconds, 5.0, "seconds")?,
                keys: at_least_one(keys, 1_000, "keys")?,
                checksum,
            };
            (Work::Store(load), judged_by_default(None))
        }
        (None, Some(command)) => {
            let numbers = [clients.is_some(), seconds.is_some(), keys.is_some()];
            if size.is_some() || checksum.is_some() || numbers.contains(&true) {
                return Err("a command has no `size`, `clients`, `seconds`, `keys` or `checksum`".to_owned());
            }
            let limit = Duration::from_secs_f64(duration(limit_seconds, LIMIT_SECONDS, "limit_seconds")?);
            let figure = figure.unwrap_or_default();
            (Work::Command { command, figure, limit }, judged_by_default(Some(figure)))
        }
        _ => return Err("says either `op` or `command`".to_owned()),
    };
    Ok(Operation { name, work, judge: if judge.is_empty() { default } else { judge }, more })
}

/// The figures that decide, by where they come from; a printed figure is there to be judged.
fn judged_by_default(command: Option<Figure>) -> Vec<String> {
    let names: &[&str] = match command {
        None => &JUDGED_OF_STORES,
        Some(Figure::Usage) => &JUDGED_OF_USE,
        Some(Figure::Stdout) => &[],
    };
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn at_least_one(given: Option<usize>, default: usize, key: &str) -> Result<usize, String> {
    match given.unwrap_or(default) {
        0 => Err(format!("`{key}` is at least 1")),
        value => Ok(value),
    }
}

fn duration(given: Option<f64>, default: f64, key: &str) -> Result<f64, String> {
    let value = given.unwrap_or(default);
    if value > 0.0 && value <= SECONDS_MAX {
        Ok(value)
    } else {
        Err(format!("`{key}` is above 0 and at most {SECONDS_MAX}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_work_for_stores_and_commands() {
        let text = r#"
            [[operation]]
            name = "put-4k"
            op = "put"
            clients = 32
            judge = ["p99_us"]
            [[operation]]
            name = "start"
            command = "{side} --version"
            figure = "stdout"
            more = ["starts"]
        "#;
        let found = parse(text).unwrap();
        let put = Load {
            op: "put".into(),
            size: "4KiB".into(),
            clients: 32,
            seconds: 5.0,
            keys: 1_000,
            checksum: None,
        };
        assert_eq!((&found[0].work, &found[0].judge), (&Work::Store(put), &vec!["p99_us".to_owned()]));
        assert!(found[1].more_is_better("starts") && found[1].more_is_better("ops_s"));
        assert!(!found[1].more_is_better("seconds"));
        let Work::Command { command, figure, limit } = &found[1].work else { panic!("{:?}", found[1]) };
        let commands = commands(command, ["old/node", "new/node"], *figure, *limit);
        assert_eq!((commands.a.as_str(), commands.b.as_str()), ("old/node --version", "new/node --version"));
        assert_eq!(commands.figure, Figure::Stdout);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        for (text, part) in [
            ("name = 1", "operation"),
            ("[[operation]]\nname = \"a\"", "either `op` or `command`"),
            ("[[operation]]\nname = \"a\"\nop = \"put\"\ncommand = \"x\"", "either `op` or `command`"),
            ("[[operation]]\nname = \"a b\"\nop = \"put\"", "letters"),
            ("[[operation]]\nname = \"a\"\nop = \"put\"\nclient = 3", "client"),
            ("[[operation]]\nname = \"a\"\nop = \"put\"\nclients = 0", "`clients`"),
            ("[[operation]]\nname = \"a\"\nop = \"put\"\nseconds = -1.0", "`seconds`"),
            ("[[operation]]\nname = \"a\"\nop = \"put\"\nseconds = nan", "`seconds`"),
            ("[[operation]]\nname = \"a\"\nop = \"put\"\nfigure = \"stdout\"", "for commands"),
            ("[[operation]]\nname = \"a\"\ncommand = \"x\"\nkeys = 3", "a command has no"),
            ("[[operation]]\nname = \"a\"\ncommand = \"x\"\nfigure = \"stderr\"", "stderr"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn operations_are_chosen_by_name_and_may_not_share_one() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let operation = |name: &str| format!("[[operation]]\nname = \"{name}\"\nop = \"put\"\n");
        write("b.toml", &operation("second"));
        write("a.toml", &operation("first"));
        write("notes.md", "not an operation");
        let names = |chosen: &[&str]| -> Result<Vec<String>, Error> {
            let chosen: Vec<_> = chosen.iter().map(|&name| name.to_owned()).collect();
            Ok(load(folder.path(), &chosen)?.into_iter().map(|operation| operation.name).collect())
        };
        assert_eq!(names(&[]).unwrap(), ["first", "second"]);
        assert_eq!(names(&["second"]).unwrap(), ["second"]);
        let error = names(&["third"]).unwrap_err().to_string();
        assert!(error.contains("`third`") && error.contains("first, second"), "{error}");
        write("c.toml", &operation("first"));
        assert!(names(&[]).unwrap_err().to_string().contains("second operation `first`"));
    }
}
