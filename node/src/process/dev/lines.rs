//! The log of a node of `dev`: a file of bounded size, beside which the one before it is kept, and the few of
//! its lines that a person at the terminal needs.
//!
//! `child` passes the lines of a process on; a node in this process logs through [`LogWriter`].

#![expect(clippy::disallowed_methods, reason = "writes the log of a node that is tried out")]

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::process::dev::limits::LOG_BYTES_MAX;

/// Texts of the log that are events for a person; beside them each line of severity ERROR.
const EVENTS: [&str; 7] = [
    "volume failed",
    "volume degraded",
    "volume has lost state",
    "volume is full: it takes no new data",
    "volume has room again",
    "it is lost",
    "the volume's shards are rebuilt",
];
/// Begins what the program itself says when it cannot start.
const REFUSAL: &str = "sherd-node: ";

/// The log of one node.
#[derive(Debug)]
pub struct NodeLog {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// Stands before each line on the terminal.
    prefix: String,
    /// Whether the terminal shows every line.
    shows_all: bool,
}

impl NodeLog {
    /// Opens the file `log` of a directory, behind what is in it.
    ///
    /// # Errors
    /// As the system says.
    pub fn open(directory: &Path, prefix: &str, shows_all: bool) -> io::Result<Self> {
        // The process leaves the directory that a relative path counts from.
        let path = std::path::absolute(directory)?.join("log");
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path, file, bytes, prefix: prefix.to_owned(), shows_all })
    }

    /// Keeps a line with its end, and shows it where it is for a person, or cannot be kept.
    pub fn take(&mut self, line: &[u8]) {
        let is_kept = self.append(line).is_ok();
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches('\n');
        if self.shows_all || !is_kept {
            self.show(text);
        } else if let Some(words) = event(text) {
            self.show(words);
        }
    }

    /// Shows words on the terminal.
    pub fn show(&self, words: &str) {
        let _nobody_reads = writeln!(io::stderr().lock(), "{}{words}", self.prefix);
    }

    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        if self.bytes > 0 && self.bytes + line.len() as u64 > LOG_BYTES_MAX {
            std::fs::rename(&self.path, self.path.with_extension("old"))?;
            self.file = OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path)?;
            self.bytes = 0;
        }
        self.file.write_all(line)?;
        self.bytes += line.len() as u64;
        Ok(())
    }
}

/// The words of a line that a person needs; `None` for all others.
fn event(line: &str) -> Option<&str> {
    let is_error = line.contains(" ERROR ") || line.contains("\"level\":\"ERROR\"");
    let is_event = is_error || line.starts_with(REFUSAL) || EVENTS.iter().any(|text| line.contains(text));
    is_event.then(|| words_of(line))
}

/// The words of a line of the log, behind time, severity and place.
fn words_of(line: &str) -> &str {
    if line.starts_with(REFUSAL) || line.starts_with('{') {
        return line;
    }
    line.split_once(": ").map_or(line, |(_, words)| words)
}

/// Writes what this process logs.
#[derive(Debug, Clone)]
pub enum LogWriter {
    /// To the log of its node.
    Node(Arc<Mutex<NodeLog>>),
    /// To the terminal alone, as words: what a supervisor logs are events.
    Terminal,
}

impl LogWriter {
    /// Writes to the log of the only node in `directory`.
    ///
    /// # Errors
    /// As the system says.
    pub fn of_node(directory: &Path, shows_all: bool) -> io::Result<Self> {
        Ok(Self::Node(Arc::new(Mutex::new(NodeLog::open(directory, "", shows_all)?))))
    }
}

impl Write for LogWriter {
    /// Takes one line, as each event of the log is written.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match self {
            Self::Node(log) => log.lock().take(line),
            Self::Terminal => {
                let text = String::from_utf8_lossy(line);
                io::stderr().lock().write_all(words_of(&text).as_bytes())?;
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_bounded_and_its_former_file_is_kept() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let line = [b"x".repeat(1023), b"\n".to_vec()].concat();
        let length = |name: &str| std::fs::metadata(dir.path().join(name)).map_or(0, |found| found.len());
        let mut log = NodeLog::open(dir.path(), "", false).expect("a new file");
        for _ in 0..=LOG_BYTES_MAX / 1024 {
            log.take(&line);
        }
        assert_eq!((length("log"), length("log.old")), (1024, LOG_BYTES_MAX));
        // The next start goes on behind what is there.
        let mut log = NodeLog::open(dir.path(), "", false).expect("the file");
        for _ in 0..LOG_BYTES_MAX / 1024 {
            log.take(&line);
        }
        assert_eq!((length("log"), length("log.old")), (1024, LOG_BYTES_MAX));
    }

    #[test]
    fn a_person_is_shown_events_without_their_place() {
        let of = |text| event(text);
        assert_eq!(
            of("2026-11-28T23:35:40Z  INFO sherd_store::volumes::local: volume state state=\"online\""),
            None
        );
        let failed = "2026-11-28T23:35:40Z  WARN sherd_store::volumes::keeper: volume failed error=EIO";
        assert_eq!(of(failed), Some("volume failed error=EIO"));
        let error = "2026-11-28T23:35:40Z ERROR sherd_node::log: thread panicked thread=\"a\"";
        assert_eq!(of(error), Some("thread panicked thread=\"a\""));
        let json = "{\"level\":\"ERROR\",\"message\":\"x: y\"}";
        assert_eq!(of(json), Some(json));
        assert_eq!(of("sherd-node: no credentials: none"), Some("sherd-node: no credentials: none"));
        assert_eq!(of("S3 listening on http://127.0.0.1:9000"), None);
    }
}
