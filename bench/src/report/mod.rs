//! `sherd-bench report`: docs/performance.md, from files of results and a hand-written text.
//!
//! `bench/report/performance.md` is the text; lines that are a placeholder are replaced by tables of
//! `bench/results/*.json`. Nothing is measured here, and the same files give the same bytes, so `--check`
//! finds a document that is out of date.

pub mod markdown;
mod settings;
mod limits;
pub mod targets;
mod comparison;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::result::{self, Results};
use markdown::{Align, Table};
use settings::{Settings, Suite};

/// Exit code of `--check` when the document is not what it should be.
const DIFFERENT: u8 = 1;

/// Name of the document, and of the text that it is made of.
const DOCUMENT: &str = "performance.md";

/// First line of the document.
const MARK: &str =
    "<!-- Written by `sherd-bench report` from bench/report/ and bench/results/: change those. -->";

/// Writes docs/performance.md from the files of results.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Folder of the files of results.
    #[arg(long, value_name = "DIR", default_value = "bench/results")]
    pub results: PathBuf,
    /// Folder of the text and of report.toml.
    #[arg(long, value_name = "DIR", default_value = "bench/report")]
    pub sections: PathBuf,
    /// Folder for the document.
    #[arg(long, value_name = "DIR", default_value = "docs")]
    pub out: PathBuf,
    /// Writes nothing; ends with 1 if what is there differs from what would be written.
    #[arg(long)]
    pub check: bool,
}

/// Why the report cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// report.toml is wrong.
    #[error("{path}: {reason}")]
    Settings {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The text has a placeholder that cannot be filled.
    #[error("{path}:{line}: {reason}")]
    Text {
        /// The text's file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The reason.
        reason: String,
    },
    /// A file of results cannot be used.
    #[error(transparent)]
    Results(#[from] result::Error),
}

/// Writes or checks the report as the arguments say.
///
/// # Errors
/// A file cannot be read or written, or a placeholder cannot be filled.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    let document = generate(&arguments.sections, &arguments.results)?;
    let path = arguments.out.join(DOCUMENT);
    let io = |source| Error::Io { path: path.clone(), source };
    if !arguments.check {
        std::fs::create_dir_all(&arguments.out).map_err(io)?;
        std::fs::write(&path, document).map_err(io)?;
        println!("written: {}", path.display());
        return Ok(ExitCode::SUCCESS);
    }
    let found = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        other => other.map_err(io)?,
    };
    if found == document {
        return Ok(ExitCode::SUCCESS);
    }
    let same = found.lines().zip(document.lines()).take_while(|(found, expected)| found == expected).count();
    println!("{}:{}: is not what the results say: run `sherd-bench report`", path.display(), same + 1);
    Ok(ExitCode::from(DIFFERENT))
}

fn generate(sections: &Path, results: &Path) -> Result<String, Error> {
    let path = sections.join("report.toml");
    let settings = Settings::parse(&read(&path)?).map_err(|reason| Error::Settings { path, reason })?;
    let sources = Sources { settings: &settings, results: read_all(results)? };
    let path = sections.join(DOCUMENT);
    let mut document = format!("{MARK}\n\n");
    for (index, line) in read(&path)?.lines().enumerate() {
        let wrong = |reason: String| Error::Text { path: path.clone(), line: index + 1, reason };
        match line.trim().strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")) {
            Some(asked) => {
                let words: Vec<&str> = asked.split_whitespace().collect();
                document.push_str(&sources.fill(&words).map_err(wrong)?);
            }
            None if line.contains("{{") || line.contains("}}") => {
                return Err(wrong("a placeholder stands alone on its line: {{name ...}}".to_owned()));
            }
            None => document.extend([line, "\n"]),
        }
    }
    Ok(document)
}

/// The files of results in a folder, by their suites.
fn read_all(folder: &Path) -> Result<BTreeMap<String, Results>, Error> {
    let io = |source| Error::Io { path: folder.to_owned(), source };
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.extension().is_some_and(|found| found == "json") {
            let found = Results::read(&path)?;
            all.insert(found.suite.clone(), found);
        }
    }
    Ok(all)
}

struct Sources<'a> {
    settings: &'a Settings,
    /// By their suites.
    results: BTreeMap<String, Results>,
}

impl Sources<'_> {
    fn fill(&self, words: &[&str]) -> Result<String, String> {
        match words {
            ["suites"] => Ok(self.suites()),
            ["targets"] => targets::table(self.settings, &self.results),
            ["limits", suite] => self.of(suite, limits::paragraph),
            ["comparison", suite] => self.of(suite, |results| comparison::table(results, &["put", "get"])),
            ["comparison", suite, ops @ ..] => self.of(suite, |results| comparison::table(results, ops)),
            _ => {
                let known = "{{suites}}, {{targets}}, {{limits SUITE}}, {{comparison SUITE [OP...]}}";
                Err(format!("{{{{{}}}}} is not known; there are {known}", words.join(" ")))
            }
        }
    }

    /// The text that `make` makes of the results of `suite`, or a note that they are missing.
    fn of(&self, suite: &str, make: impl FnOnce(&Results) -> String) -> Result<String, String> {
        let Some(Suite { command, .. }) = self.settings.suites.get(suite) else {
            let known: Vec<_> = self.settings.suites.keys().map(String::as_str).collect();
            return Err(format!("there is no suite `{suite}` in report.toml, but: {}", known.join(", ")));
        };
        let missing = || format!("*Not measured yet; `{command}` measures it.*\n");
        Ok(self.results.get(suite).map_or_else(missing, make))
    }

    /// All suites, with their files, what measures them and when it last did.
    fn suites(&self) -> String {
        let mut table = Table::new();
        for heading in ["results", "of", "command", "last run", "commit"] {
            table.column(heading, Align::Left);
        }
        for (name, Suite { about, command }) in &self.settings.suites {
            let results = self.results.get(name);
            let commit = results.and_then(|results| results.settings.get("commit")).cloned();
            let link = format!("[{name}](../bench/results/{name}.json)");
            table.line(vec![
                if results.is_some() { link } else { name.clone() },
                about.clone(),
                format!("`{command}`"),
                results.map_or_else(|| "not yet".to_owned(), |results| limits::date(results.started)),
                commit.unwrap_or_default(),
            ]);
        }
        table.text()
    }
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::Io { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests;
