//! The journal of one large transfer: a file of lines in JSON, the first what is transferred, each other a
//! part that is done. A process that was killed leaves it, and the same command goes on from it.
//!
//! A line that was cut by the end of the process counts as not written. A lock keeps two processes apart.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::local::lock::lock;

/// The only form of a journal there is. Another one begins the transfer again.
const VERSION: u32 = 1;
/// The mode of a journal: it has names of files and keys.
const MODE: u32 = 0o600;

/// A part that is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JournalPart {
    pub(crate) number: u64,
    /// Of the part that the service has; empty for a part of a file.
    pub(crate) etag: String,
    /// The checksum of the part's bytes.
    pub(crate) checksum: u64,
    pub(crate) bytes: u64,
}

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Head<S> {
    version: u32,
    subject: S,
}

/// The name of a journal.
#[derive(Debug)]
pub(crate) struct JournalName(String);

impl JournalName {
    /// Makes the name of the transfer that these texts identify.
    pub(crate) fn of(texts: [&[u8]; 5]) -> Self {
        let mut hasher = Sha256::new();
        for text in texts {
            hasher.update((text.len() as u64).to_be_bytes());
            hasher.update(text);
        }
        Self(format!("{}.journal", hex::encode(&hasher.finalize()[..16])))
    }
}

/// An open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
    /// Whether there is something in it to go on from.
    is_begun: bool,
}

impl Drop for Journal {
    fn drop(&mut self) {
        if !self.is_begun {
            let _stays_and_is_begun_again = fs::remove_file(&self.path);
        }
    }
}

/// The content that an earlier run left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct JournalContent<S> {
    pub(crate) subject: S,
    pub(crate) parts: Vec<JournalPart>,
}

impl Journal {
    /// Opens the journal of a transfer, with what is in it. Nothing if another
    /// process has it, or the folder cannot be written: the transfer then goes without. Blocks.
    pub(crate) fn open<S: DeserializeOwned>(
        folder: &Path,
        name: &JournalName,
    ) -> Option<(Self, Option<JournalContent<S>>)> {
        let path = folder.join(&name.0);
        fs::create_dir_all(folder).ok()?;
        let mut journal = Self::open_locked(path).ok()??;
        let content = journal.read().ok()?;
        journal.is_begun = content.is_some();
        Some((journal, content))
    }

    fn open_locked(path: PathBuf) -> io::Result<Option<Self>> {
        loop {
            let mut options = OpenOptions::new();
            let file = options.read(true).append(true).create(true).mode(MODE).open(&path)?;
            if !lock(&file)? {
                return Ok(None);
            }
            // The process that had the lock before may have removed the file.
            let own = file.metadata()?;
            if fs::metadata(&path).is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino())) {
                return Ok(Some(Self { file, path, is_begun: false }));
            }
        }
    }

    fn read<S: DeserializeOwned>(&mut self) -> io::Result<Option<JournalContent<S>>> {
        self.file.seek(SeekFrom::Start(0))?;
        let mut reader = BufReader::new(&self.file);
        let (mut line, mut whole) = (String::new(), 0);
        if reader.read_line(&mut line).unwrap_or(0) == 0 || !line.ends_with('\n') {
            return Ok(None);
        }
        let head: Option<Head<S>> = serde_json::from_str(&line).ok();
        let Some(head) = head.filter(|head| head.version == VERSION) else { return Ok(None) };
        let mut parts = Vec::new();
        loop {
            whole += line.len() as u64;
            line.clear();
            let part = match reader.read_line(&mut line) {
                Ok(1..) if line.ends_with('\n') => serde_json::from_str(&line).ok(),
                _ => None,
            };
            let Some(part) = part else { break };
            parts.push(part);
        }
        self.file.set_len(whole)?;
        Ok(Some(JournalContent { subject: head.subject, parts }))
    }

    /// Begins the journal again, with what is transferred.
    pub(crate) fn begin<S: Serialize>(&mut self, subject: &S) -> io::Result<()> {
        self.file.set_len(0)?;
        self.is_begun = true;
        self.write(&Head { version: VERSION, subject })
    }

    /// Adds a part.
    pub(crate) fn record(&mut self, part: &JournalPart) -> io::Result<()> {
        self.write(part)
    }

    fn write(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(line)?;
        line.push(b'\n');
        self.file.write_all(&line)
    }

    /// Ends the journal: the transfer is done, or not worth to go on with.
    pub(crate) fn remove(mut self) {
        self.is_begun = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(number: u64) -> JournalPart {
        JournalPart { number, etag: format!("\"{number}\""), checksum: u64::MAX - number, bytes: 5 }
    }

    fn name(kind: &[u8], of: &[u8]) -> JournalName {
        JournalName::of([kind, of, b"", b"", b""])
    }

    fn open(folder: &Path) -> Option<(Journal, Option<JournalContent<String>>)> {
        Journal::open(folder, &name(b"upload", b"a"))
    }

    #[test]
    fn a_journal_comes_back_up_to_the_line_that_was_cut() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, content) = open(folder.path()).expect("it is made");
        assert_eq!(content, None);
        journal.begin(&"subject".to_owned()).unwrap();
        journal.record(&part(1)).unwrap();
        journal.record(&part(2)).unwrap();
        assert!(open(folder.path()).is_none(), "another process has it");
        let path = journal.path.clone();
        drop(journal);
        let whole = fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let (mut journal, content) = open(folder.path()).expect("it is there");
            let lines = whole[..cut].split(|byte| *byte == b'\n').count() - 1;
            let Some(content) = content else {
                assert_eq!(lines, 0, "{cut}");
                continue;
            };
            assert_eq!((content.subject.as_str(), content.parts.len() + 1), ("subject", lines));
            journal.record(&part(9)).unwrap();
            drop(journal);
            let (_, content) = open(folder.path()).expect("it is there");
            assert_eq!(content.expect("it is whole").parts.last(), Some(&part(9)), "{cut}");
        }
    }

    #[test]
    fn another_version_and_a_removed_journal_begin_again() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(folder.path()).expect("it is made");
        journal.begin(&"subject".to_owned()).unwrap();
        let path = journal.path.clone();
        let text = fs::read_to_string(&path).unwrap().replace("\"version\":1", "\"version\":2");
        drop(journal);
        fs::write(&path, text).unwrap();
        let (journal, content) = open(folder.path()).expect("it is there");
        assert_eq!(content, None);
        journal.remove();
        assert!(!path.exists());
        let other: Option<(Journal, Option<JournalContent<String>>)> =
            Journal::open(folder.path(), &name(b"uploada", b""));
        assert_ne!(other.expect("it is made").0.path, path);
    }
}
