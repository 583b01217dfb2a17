//! The archive: a folder of texts, as tar behind gzip, with a bound, and a list of what is not in it.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::jiff::Timestamp;
use tar::{Builder, Header};

use crate::limits::SUPPORT_BYTES_MAX;

/// The list of what could not be read.
const ERRORS: &str = "errors.txt";

/// An archive that is written.
pub(super) struct Archive {
    tar: Builder<GzEncoder<File>>,
    folder: String,
    made: u64,
    bytes: usize,
    files: usize,
    faults: Vec<String>,
}

impl Archive {
    /// Makes the file, which must not be there; its owner alone may read it.
    ///
    /// # Errors
    /// The file's.
    pub(super) fn new(path: &Path, folder: &str, now: Timestamp) -> io::Result<Self> {
        let file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
        let tar = Builder::new(GzEncoder::new(file, Compression::default()));
        let made = u64::try_from(now.as_second()).unwrap_or_default();
        Ok(Self { tar, folder: folder.to_owned(), made, bytes: 0, files: 0, faults: Vec::new() })
    }

    /// Adds a file; one that does not fit is left out, and listed.
    ///
    /// # Errors
    /// The archive's.
    pub(super) fn add(&mut self, name: &str, text: &str) -> io::Result<()> {
        if self.bytes + text.len() > SUPPORT_BYTES_MAX {
            self.fault(format!("{name}: left out, the archive has {SUPPORT_BYTES_MAX} bytes at most"));
            return Ok(());
        }
        self.bytes += text.len();
        self.append(name, text)
    }

    /// Lists something that could not be read.
    pub(super) fn fault(&mut self, why: String) {
        self.faults.push(why);
    }

    /// Writes the list and the end, and gives the number of files and that of what could not be read.
    ///
    /// # Errors
    /// The archive's.
    pub(super) fn finish(mut self) -> io::Result<(usize, usize)> {
        let faults = std::mem::take(&mut self.faults);
        let list =
            faults.iter().flat_map(|fault| [fault.replace('\n', " "), "\n".to_owned()]).collect::<String>();
        let list = super::redact::redact_text(&list);
        self.append(ERRORS, if list.is_empty() { "all was read\n" } else { &list })?;
        let Self { tar, files, .. } = self;
        tar.into_inner()?.finish()?.sync_all()?;
        Ok((files, faults.len()))
    }

    fn append(&mut self, name: &str, text: &str) -> io::Result<()> {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '/');
        let name: String = name.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect();
        let mut header = Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(self.made);
        self.files += 1;
        self.tar.append_data(&mut header, format!("{}/{name}", self.folder), text.as_bytes())
    }
}
