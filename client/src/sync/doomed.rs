//! Names that a sync is to remove once both sides were read to their ends without an error. A few are in
//! memory, more in a file that has no name any more when it is written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, BufWriter, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::limits::DOOMED_IN_MEMORY_MAX;

/// The mode of the file: it has names of files and keys.
const MODE: u32 = 0o600;

/// A name that is to be removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DoomedName {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) is_behind_link: bool,
}

/// The names in the order in which they came.
#[derive(Debug)]
pub(crate) struct DoomedNames {
    folder: PathBuf,
    first: Vec<DoomedName>,
    more: Option<BufWriter<File>>,
}

impl DoomedNames {
    /// Keeps names; those that memory does not hold in a file of `folder`.
    pub(crate) const fn new(folder: PathBuf) -> Self {
        Self { folder, first: Vec::new(), more: None }
    }

    /// Adds a name. Blocks.
    pub(crate) fn push(&mut self, name: DoomedName) -> Result<(), Error> {
        if self.first.len() < DOOMED_IN_MEMORY_MAX {
            self.first.push(name);
            return Ok(());
        }
        self.write(&name).map_err(Error::file("write", &self.folder))
    }

    fn write(&mut self, name: &DoomedName) -> io::Result<()> {
        let mut line = serde_json::to_vec(name)?;
        line.push(b'\n');
        match &mut self.more {
            Some(file) => file.write_all(&line),
            none => none.insert(BufWriter::new(nameless(&self.folder)?)).write_all(&line),
        }
    }

    /// Gives the names back. Reading them blocks.
    pub(crate) fn read(self) -> Result<impl Iterator<Item = Result<DoomedName, Error>>, Error> {
        let Self { folder, first, more } = self;
        let of = folder.clone();
        let file = more.map(|more| {
            let mut file = more.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.rewind().map(|()| file)
        });
        let file = file.transpose().map_err(Error::file("read", folder))?;
        let lines = file.map(|file| BufReader::new(file).lines());
        let more = lines.into_iter().flatten().map(move |line| {
            let name = line.and_then(|line| Ok(serde_json::from_str(&line)?));
            name.map_err(Error::file("read", &of))
        });
        Ok(first.into_iter().map(Ok).chain(more))
    }
}

/// Makes a file that goes with its last descriptor.
fn nameless(folder: &PathBuf) -> io::Result<File> {
    fs::create_dir_all(folder)?;
    let path = folder.join(format!("sync-{}.names", std::process::id()));
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(true).mode(MODE).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_in_order_from_memory_and_file() {
        let folder = tempfile::tempdir().unwrap();
        for count in [0, 1, DOOMED_IN_MEMORY_MAX, DOOMED_IN_MEMORY_MAX + 3] {
            let name = |number: usize| DoomedName {
                name: format!("{number}\n\"\u{e9}"),
                bytes: number as u64,
                is_behind_link: false,
            };
            let mut names = DoomedNames::new(folder.path().join("state"));
            for number in 0..count {
                names.push(name(number)).unwrap();
            }
            let read: Vec<_> = names.read().unwrap().map(Result::unwrap).collect();
            assert_eq!(read, (0..count).map(name).collect::<Vec<_>>());
        }
        let left = fs::read_dir(folder.path().join("state")).unwrap().count();
        assert_eq!(left, 0, "no file stays");
        fs::write(folder.path().join("file"), "").unwrap();
        let mut names = DoomedNames::new(folder.path().join("file"));
        let name = DoomedName { name: "a".to_owned(), bytes: 0, is_behind_link: false };
        names.first = vec![name.clone(); DOOMED_IN_MEMORY_MAX];
        assert!(names.push(name).is_err());
    }
}
