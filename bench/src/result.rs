//! The form of a measurement: rows of figures under labels, beside the machine and its settings.
//!
//! One file of `bench/results/` is one [`Results`], as JSON. A row names its case in its labels (`subject`,
//! `op`, `size`, `clients`) and holds the figures of it; a figure's name ends in its unit. Readers find rows
//! by their labels and take the figures that they know, so that a new figure
//! breaks no reader.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::figure;

/// Version of the file's form; a reader refuses another.
pub const SCHEMA: u32 = 1;

/// One run of one suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Form of the file, [`SCHEMA`].
    pub schema: u32,
    /// The suite: `load`, `cluster`, `erasure`, ... Also the stem of the file's name.
    pub suite: String,
    /// When the run began, in seconds since the Unix epoch.
    pub started: u64,
    /// Machine, commit and settings that hold for every row: `commit`, `cpu`, `cores`, `kernel`,
    /// `filesystem`, `durability`, ...
    pub settings: BTreeMap<String, String>,
    /// The physical limits measured in the same run: `fdatasync_p50_us`, `read_mib_s`, `blake3_mib_s`, ...
    pub device: BTreeMap<String, f64>,
    /// The measurements.
    pub rows: Vec<Row>,
}

/// One measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The case: `subject` (the store), `op`, `size` (such as `4KiB`), `clients`, ...
    pub labels: BTreeMap<String, String>,
    /// The figures: `ops_s`, `mib_s`, `p50_us`, `p99_us`, `p999_us`, `errors`, `client_cpu_us_op`,
    /// `server_cpu_us_op`, `server_anon_mib`, `allocs_op`, `alloc_bytes_op`, ...
    pub figures: BTreeMap<String, f64>,
    /// Reasons to distrust the row: `client bound`, `errors`, ...
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
}

/// Why a file of results cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is not a file of results, or one of another version.
    #[error("{path}: {reason}")]
    Form {
        /// The file.
        path: PathBuf,
        /// The fault in it.
        reason: String,
    },
}

impl Results {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// The file cannot be read, is not one of results, or has another [`SCHEMA`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        let io = |source| Error::Io { path: path.to_owned(), source };
        let form = |reason| Error::Form { path: path.to_owned(), reason };
        let text = std::fs::read_to_string(path).map_err(io)?;
        let results: Self = serde_json::from_str(&text).map_err(|error| form(error.to_string()))?;
        if results.schema != SCHEMA {
            return Err(form(format!("is of schema {}, this program reads {SCHEMA}", results.schema)));
        }
        Ok(results)
    }

    /// Writes `<suite>.json` into `folder`, which is made, and returns its path.
    ///
    /// # Errors
    /// The folder or the file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, Error> {
        let path = folder.join(format!("{}.json", self.suite));
        let io = |source| Error::Io { path: path.clone(), source };
        let mut text = serde_json::to_string_pretty(self).map_err(|error| io(error.into()))?;
        text.push('\n');
        std::fs::create_dir_all(folder).map_err(io)?;
        std::fs::write(&path, text).map_err(io)?;
        Ok(path)
    }
}

impl Row {
    /// A row with these labels and no figures yet.
    pub fn new<const N: usize>(labels: [(&str, String); N]) -> Self {
        let labels = labels.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { labels, ..Self::default() }
    }

    /// The row with one more figure.
    #[must_use]
    pub fn with(mut self, figure: &str, value: f64) -> Self {
        self.figures.insert(figure.to_owned(), value);
        self
    }

    /// Whether each of `labels` stands in the row with that value.
    pub fn is(&self, labels: &[(&str, &str)]) -> bool {
        labels.iter().all(|(name, value)| self.labels.get(*name).is_some_and(|found| found == value))
    }

    /// The figure of that name.
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.figures.get(name).copied()
    }
    /// The row for people: its labels, and the figures that they look at first.
    pub fn line(&self) -> String {
        const HIDDEN: [&str; 8] = [
            "p90_us",
            "p999_us",
            "max_us",
            "seconds",
            "client_cpu_us_op",
            "client_cpu_share",
            "others_cpu_share",
            "server_cpu_share",
        ];
        let labels: Vec<&str> = self.labels.values().map(String::as_str).collect();
        let is_load = self.figures.contains_key("ops");
        let shown = self.figures.iter().filter(|(name, _)| !is_load || !HIDDEN.contains(&name.as_str()));
        let figures: Vec<String> = shown.map(|(name, value)| figure::sentence(name, *value)).collect();
        let flags =
            if self.flags.is_empty() { String::new() } else { format!(" [{}]", self.flags.join(", ")) };
        format!("{}: {}{flags}", labels.join(" "), figures.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        Results {
            schema: SCHEMA,
            suite: "load".to_owned(),
            started: 7,
            settings: BTreeMap::from([("commit".to_owned(), "abc".to_owned())]),
            device: BTreeMap::from([("fdatasync_p50_us".to_owned(), 900.0)]),
            rows: vec![Row::new([("op", "put".to_owned())]).with("ops_s", 10.5)],
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let folder = std::env::temp_dir().join(format!("sherd-bench-{}", std::process::id()));
        let path = results().write(&folder).unwrap();
        assert_eq!(Results::read(&path).unwrap(), results());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_line_names_what_was_done_and_what_speaks_against_it() {
        let row = Row { flags: vec!["client bound".to_owned()], ..results().rows[0].clone() };
        assert_eq!(row.line(), "put: 10.5 ops/s [client bound]");
    }

    #[test]
    fn another_schema_is_refused_by_its_number() {
        let folder = std::env::temp_dir().join(format!("sherd-bench-schema-{}", std::process::id()));
        let path = Results { schema: 9, ..results() }.write(&folder).unwrap();
        assert!(Results::read(&path).unwrap_err().to_string().contains("schema 9"));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn rows_are_found_by_their_labels() {
        let row = &results().rows[0];
        assert!(row.is(&[("op", "put")]));
        assert!(!row.is(&[("op", "get")]));
        assert!(!row.is(&[("size", "4KiB")]));
        assert_eq!((row.figure("ops_s"), row.figure("mib_s")), (Some(10.5), None));
    }
}
