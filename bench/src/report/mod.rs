//! `sherd-bench report`: docs/performance.md, from files of results and hand-written sections.
//!
//! `bench/report/*.md` are the sections, in the order of their names; their placeholders ask for tables
//! of `bench/results/*.json`. Nothing is measured here, and the same files give the same bytes, so
//! `--check` tells whether the document still says what the results say.

pub mod markdown;
mod placeholder;
mod settings;
mod select;
mod limits;
mod notes;
mod targets;
mod table;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::result::{self, Results};
use markdown::{Align, Table};
use placeholder::{Piece, Placeholder};
use settings::{Settings, Suite};

/// Exit code of `--check` when the document is not what it should be.
const DIFFERENT: u8 = 1;

/// Name of the document.
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
    /// Folder of the sections and of report.toml.
    #[arg(long, value_name = "DIR", default_value = "bench/report")]
    pub sections: PathBuf,
    /// Folder for the document.
    #[arg(long, value_name = "DIR", default_value = "docs")]
    pub out: PathBuf,
    /// Writes nothing; ends with 1 if what is there differs from what would be written.
    #[arg(long)]
    pub check: bool,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// report.toml is wrong.
    #[error("{path}: {reason}")]
    Settings {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A section asks for something that cannot be.
    #[error("{path}:{line}: {reason}")]
    Section {
        /// The section's file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// A file of results cannot be used.
    #[error(transparent)]
    Results(#[from] result::Error),
}

/// Writes or checks the report as the arguments say.
///
/// # Errors
/// A file cannot be read or written, or a section asks for what cannot be.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    let report = Report::generate(&arguments.sections, &arguments.results)?;
    if !arguments.check {
        report.write(&arguments.out)?;
        println!("written: {}", arguments.out.join(DOCUMENT).display());
        return Ok(ExitCode::SUCCESS);
    }
    let Some(difference) = report.difference(&arguments.out)? else { return Ok(ExitCode::SUCCESS) };
    println!("{difference}");
    println!("the report is not what the results say: run `sherd-bench report`");
    Ok(ExitCode::from(DIFFERENT))
}

/// The report as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Report {
    document: String,
}

impl Report {
    fn generate(sections: &Path, results: &Path) -> Result<Self, Error> {
        let path = sections.join("report.toml");
        let settings = Settings::parse(&read(&path)?).map_err(|reason| Error::Settings { path, reason })?;
        let mut sources = Sources { settings: &settings, results: BTreeMap::new() };
        for path in files(results, "json")? {
            let found = Results::read(&path)?;
            sources.results.insert(found.suite.clone(), found);
        }
        let Settings { title, introduction, .. } = &settings;
        let mut report = Self { document: format!("{MARK}\n\n# {title}\n\n{}\n", introduction.trim()) };
        for path in files(sections, "md")? {
            let text = read(&path)?;
            report.section(&sources, &text).map_err(|(line, reason)| Error::Section {
                path,
                line,
                reason,
            })?;
        }
        Ok(report)
    }

    /// Adds a section; an error is a line and what is wrong with it.
    fn section(&mut self, sources: &Sources<'_>, text: &str) -> Result<(), (usize, String)> {
        if !text.starts_with("## ") {
            return Err((1, "a section begins with a heading: `## ...`".to_owned()));
        }
        let (heading, rest) = text.split_once('\n').unwrap_or((text, ""));
        let mut pieces = placeholder::split(rest).map_err(|(line, reason)| (line + 1, reason))?;
        let limits = |piece: &Piece| matches!(piece, Piece::Placeholder(found) if found.name == "limits");
        if !pieces.iter().any(limits) {
            // Every section that shows results says first where they come from.
            let name = "limits".to_owned();
            let limits = Placeholder { line: 0, name, words: Vec::new(), pairs: Vec::new() };
            pieces.insert(0, Piece::Placeholder(limits));
        }
        let used = used(&pieces);
        let mut blocks = vec![heading.to_owned()];
        for piece in &pieces {
            let text = match piece {
                Piece::Text(text) => text.clone(),
                Piece::Placeholder(asked) => {
                    fill(sources, asked, &used).map_err(|reason| (asked.line + 1, reason))?
                }
            };
            blocks.push(text.trim_matches('\n').to_owned());
        }
        blocks.retain(|block| !block.is_empty());
        // One remark is enough for neighbours that were not measured.
        blocks.dedup();
        self.document.extend(["\n", &blocks.join("\n\n"), "\n"]);
        Ok(())
    }

    fn write(&self, out: &Path) -> Result<(), Error> {
        let path = out.join(DOCUMENT);
        let io = |source| Error::Io { path: path.clone(), source };
        std::fs::create_dir_all(out).map_err(io)?;
        std::fs::write(&path, &self.document).map_err(io)
    }

    /// How the document below `out` differs from this one, if it does.
    fn difference(&self, out: &Path) -> Result<Option<String>, Error> {
        let path = out.join(DOCUMENT);
        let found = match read(&path) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(Some(format!("{}: is missing", path.display())));
            }
            other => other?,
        };
        let same = found.lines().zip(self.document.lines()).take_while(|(found, expected)| found == expected);
        let line = same.count() + 1;
        Ok((found != self.document).then(|| format!("{}:{line}: differs", path.display())))
    }
}

/// What stands in a placeholder's place.
fn fill(sources: &Sources<'_>, asked: &Placeholder, used: &[String]) -> Result<String, String> {
    let words: Vec<&str> = asked.words.iter().map(String::as_str).collect();
    let filled = match (asked.name.as_str(), &words[..]) {
        ("limits", []) => Ok(sources.limits(used)),
        ("suites", []) => Ok(sources.suites()),
        ("table", [suite]) => sources.of(suite, |results| table::table(sources.settings, results, asked)),
        ("targets", [suite]) => sources.of(suite, |results| targets::table(sources.settings, results)),
        ("limits" | "suites" | "table" | "targets", _) => {
            Err("is written {{limits}}, {{suites}}, {{targets SUITE}} or {{table SUITE ...}}".to_owned())
        }
        _ => Err("is not known; there are limits, suites, table and targets".to_owned()),
    };
    filled.map_err(|reason| format!("{{{{{} ...}}}}: {reason}", asked.name))
}

/// The suites that the placeholders of a section show, each once.
fn used(pieces: &[Piece]) -> Vec<String> {
    let mut used: Vec<String> = Vec::new();
    for piece in pieces {
        let Piece::Placeholder(Placeholder { name, words, .. }) = piece else { continue };
        let suite = words.first().filter(|_| matches!(name.as_str(), "table" | "targets"));
        let new = suite.filter(|suite| !used.contains(*suite)).cloned();
        used.extend(new);
    }
    used
}

/// What placeholders are filled from.
struct Sources<'a> {
    settings: &'a Settings,
    /// By their suites.
    results: BTreeMap<String, Results>,
}

impl Sources<'_> {
    /// What `make` makes of the results of `suite`, or that they are missing.
    fn of(
        &self,
        suite: &str,
        make: impl FnOnce(&Results) -> Result<Option<String>, String>,
    ) -> Result<String, String> {
        let Some(Suite { command, .. }) = self.settings.suites.get(suite) else {
            let known: Vec<_> = self.settings.suites.keys().map(String::as_str).collect();
            return Err(format!("there is no suite `{suite}` in report.toml, but: {}", known.join(", ")));
        };
        let Some(results) = self.results.get(suite) else {
            return Ok(format!("*Not measured yet; `{command}` measures it.*\n"));
        };
        Ok(make(results)?.unwrap_or_else(|| format!("*Not part of the run; `{command}` measures it.*\n")))
    }

    /// Where the results of these suites come from; nothing if there are none.
    fn limits(&self, used: &[String]) -> String {
        let found: Vec<_> =
            used.iter().filter_map(|suite| self.results.get(suite)).map(limits::paragraph).collect();
        found.join("\n")
    }

    /// All suites, with what measures them and when it last did.
    fn suites(&self) -> String {
        let mut table = Table::new();
        for heading in ["suite", "measures", "command", "last run", "commit"] {
            table.column(heading, Align::Left);
        }
        for (name, Suite { about, command }) in &self.settings.suites {
            let results = self.results.get(name);
            let commit = results.and_then(|results| results.settings.get("commit")).cloned();
            table.line(vec![
                name.clone(),
                about.clone(),
                format!("`{command}`"),
                results.map_or_else(|| "not yet".to_owned(), |results| limits::date(results.started)),
                commit.unwrap_or_default(),
            ]);
        }
        table.text()
    }
}

/// The files of `folder` with that extension, by name.
fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, Error> {
    let io = |source| Error::Io { path: folder.to_owned(), source };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::Io { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests;
