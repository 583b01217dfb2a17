//! A transfer tool described by a file of `bench/race/`: its shell commands for each kind of course.
//!
//! Placeholders of commands are `{binary}`, `{folder}`, `{bucket}` and `{prefix}`, those of variables
//! `{endpoint}`, `{host}`, `{access_key}` and `{secret_key}`: commands stand in messages, keys never do. A
//! run has the variables of the file, `PATH`, and a home of its own as `HOME` and current folder.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde::Deserialize;

use super::course::Task;
use super::error::Error;
use crate::subject::Subject;

/// The tools that come with the program.
const BUILT_IN: [(&str, &str); 5] = [
    ("sherd", include_str!("../../race/sherd.toml")),
    ("aws", include_str!("../../race/aws.toml")),
    ("s5cmd", include_str!("../../race/s5cmd.toml")),
    ("mc", include_str!("../../race/mc.toml")),
    ("rclone", include_str!("../../race/rclone.toml")),
];

/// A tool.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TransferTool {
    #[serde(skip)]
    pub(super) name: String,
    /// The program, looked up in `PATH` unless a path is given.
    binary: PathBuf,
    version: String,
    up: String,
    down: String,
    list: String,
    sync: String,
    #[serde(default)]
    environment: BTreeMap<String, String>,
}

/// The place of the objects and files of a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommandPlace<'a> {
    pub(super) bucket: &'a str,
    pub(super) prefix: &'a str,
    pub(super) folder: &'a Path,
}

/// A command that is ready to run.
#[derive(Debug)]
pub(super) struct ToolCommand {
    pub(super) program: Command,
    /// The shell's text.
    pub(super) text: String,
}

impl TransferTool {
    /// Reads a tool by its name, or by the path of its file.
    pub(super) fn find(name: &str) -> Result<Self, Error> {
        let path = Path::new(name);
        let (stem, text) = match BUILT_IN.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => (name.to_owned(), (*text).to_owned()),
            None if path.extension().is_some_and(|extension| extension == "toml") => {
                let text = fs::read_to_string(path).map_err(Error::file("read", path))?;
                (path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), text)
            }
            None => return Err(Error::UnknownTool(name.to_owned())),
        };
        Self::parse(stem, &text)
    }

    fn parse(name: String, text: &str) -> Result<Self, Error> {
        let malformed = |source| Error::MalformedTool { name: name.clone(), source: Box::new(source) };
        let tool: Self = toml::from_str(text).map_err(malformed)?;
        let tool = Self { name, ..tool };
        for text in [&tool.version, &tool.up, &tool.down, &tool.list, &tool.sync] {
            tool.filled(text, |name| COMMAND_NAMES.contains(&name).then(String::new))?;
        }
        for value in tool.environment.values() {
            tool.filled(value, |name| VARIABLE_NAMES.contains(&name).then(String::new))?;
        }
        Ok(tool)
    }

    /// The tool with the path of its program; nothing where that is not there.
    pub(super) fn located(mut self, given: Option<&Path>) -> Option<Self> {
        let wanted = given.unwrap_or(&self.binary);
        self.binary = if wanted.components().count() > 1 {
            fs::canonicalize(wanted).ok().filter(|path| path.is_file())?
        } else {
            let folders = env::var_os("PATH").unwrap_or_default();
            env::split_paths(&folders).map(|folder| folder.join(wanted)).find(|path| path.is_file())?
        };
        Some(self)
    }

    /// The command that prints the version into `output`.
    pub(super) fn version(&self, subject: &Subject, home: &Path, output: File) -> Result<ToolCommand, Error> {
        let place = CommandPlace { bucket: "", prefix: "", folder: home };
        self.shell(&self.version, place, subject, home, output)
    }

    /// The command for a task, whose output goes to `output`.
    pub(super) fn command(
        &self,
        task: Task,
        place: CommandPlace<'_>,
        subject: &Subject,
        home: &Path,
        output: File,
    ) -> Result<ToolCommand, Error> {
        let text = match task {
            Task::Up => &self.up,
            Task::Down => &self.down,
            Task::List => &self.list,
            Task::Sync => &self.sync,
        };
        self.shell(text, place, subject, home, output)
    }

    fn shell(
        &self,
        text: &str,
        place: CommandPlace<'_>,
        subject: &Subject,
        home: &Path,
        output: File,
    ) -> Result<ToolCommand, Error> {
        let text = self.filled(text, |name| {
            Some(match name {
                "binary" => quoted(&self.binary.to_string_lossy()),
                "folder" => quoted(&place.folder.to_string_lossy()),
                "bucket" => place.bucket.to_owned(),
                "prefix" => place.prefix.to_owned(),
                _ => return None,
            })
        })?;
        let mut program = Command::new("sh");
        // The variables of the caller's shell must not change the race.
        program.args(["-c", &text]).env_clear().current_dir(home).stdout(output);
        program.env("PATH", env::var_os("PATH").unwrap_or_default()).env("HOME", home);
        for (name, value) in &self.environment {
            program.env(name, self.variable(value, subject)?);
        }
        Ok(ToolCommand { program, text })
    }

    fn variable(&self, value: &str, subject: &Subject) -> Result<String, Error> {
        self.filled(value, |name| {
            Some(match name {
                "endpoint" => format!("http://{}", subject.endpoint.host),
                "host" => subject.endpoint.host.clone(),
                "access_key" => subject.credentials.access_key.clone(),
                "secret_key" => subject.credentials.secret_key.clone(),
                _ => return None,
            })
        })
    }

    /// A text with its placeholders filled.
    fn filled(&self, text: &str, value: impl Fn(&str) -> Option<String>) -> Result<String, Error> {
        let (mut filled, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            let unknown = |placeholder: &str| Error::UnknownPlaceholder {
                name: self.name.clone(),
                placeholder: placeholder.to_owned(),
            };
            let (name, behind) = after.split_once('}').ok_or_else(|| unknown(after))?;
            filled.push_str(before);
            filled.push_str(&value(name).ok_or_else(|| unknown(name))?);
            rest = behind;
        }
        filled.push_str(rest);
        Ok(filled)
    }
}

/// The placeholders of commands, and those of variables.
const COMMAND_NAMES: [&str; 4] = ["binary", "folder", "bucket", "prefix"];
const VARIABLE_NAMES: [&str; 4] = ["endpoint", "host", "access_key", "secret_key"];

/// A word of the shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use crate::client::sign::Credentials;

    const MINIMAL: &str = "binary = 'sh'\nversion = ''\nup = '{binary} {folder} {bucket}/{prefix}'\ndown = ''\n\
                           list = ''\nsync = ''\n";

    fn subject() -> Subject {
        let credentials =
            Credentials { access_key: "id".into(), secret_key: "hidden".into(), region: "r".into() };
        Subject::at(([127, 0, 0, 1], 9).into(), "127.0.0.1:9", credentials)
    }

    fn command(tool: &TransferTool, task: Task) -> ToolCommand {
        let place = CommandPlace { bucket: "b", prefix: "p", folder: Path::new("/it's {here}") };
        tool.command(task, place, &subject(), Path::new("/home"), tempfile::tempfile().unwrap()).unwrap()
    }

    #[test]
    fn every_tool_has_a_command_for_every_task() {
        for (name, _) in BUILT_IN {
            let tool = TransferTool::find(name).unwrap();
            for task in [Task::Up, Task::Down, Task::List, Task::Sync] {
                let text = command(&tool, task).text;
                assert!(text.contains("b/p"), "{text}");
                assert!(task == Task::List || text.contains(r"'/it'\''s {here}'"), "{text}");
            }
        }
        assert!(matches!(TransferTool::find("nothing"), Err(Error::UnknownTool(_))));
        assert!(matches!(TransferTool::find("/nowhere/own.toml"), Err(Error::File { .. })));
    }

    #[test]
    fn keys_are_in_variables_and_in_no_command() {
        for (name, _) in BUILT_IN {
            let tool = TransferTool::find(name).unwrap();
            let ToolCommand { program, text } = command(&tool, Task::Up);
            let variables: Vec<_> = program.get_envs().filter_map(|(_, value)| value).collect();
            let is_there = |value: &&OsStr| value.to_string_lossy().contains("hidden");
            assert!(variables.iter().any(is_there) && !text.contains("hidden"), "{name}: {text}");
            assert!(variables.contains(&OsStr::new("/home")));
        }
        let secret = MINIMAL.replace("{folder}", "{secret_key}");
        let refused = TransferTool::parse("t".to_owned(), &secret);
        assert!(
            matches!(refused, Err(Error::UnknownPlaceholder { placeholder, .. }) if placeholder == "secret_key")
        );
    }

    #[test]
    fn what_a_file_says_wrongly_is_named() {
        for (more, words) in [
            ("ups = ''", "ups"),
            ("[environment]\nA = '{folder}'", "placeholder {folder}"),
            ("[environment]\nA = '{host'", "placeholder {host"),
        ] {
            let error = TransferTool::parse("t".to_owned(), &format!("{MINIMAL}{more}")).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
        assert!(TransferTool::parse("t".to_owned(), MINIMAL).is_ok());
    }

    #[test]
    fn a_program_is_looked_up() {
        let found = |given: &str| TransferTool::find("mc").unwrap().located(Some(Path::new(given)));
        assert!(found("sh").is_some_and(|tool| tool.binary.is_file()));
        assert!(found("/bin/sh").is_some());
        assert!(found("/nowhere/mc").is_none() && found("/bin").is_none() && found("no-such-tool").is_none());
    }
}
