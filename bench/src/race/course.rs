//! The rows of a race, and the files and objects that they need.
//!
//! A file's name and bytes follow from its number, so what arrived is judged by the numbers and by nothing
//! that a tool could have touched.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, Read as _, Write as _};
use std::path::Path;

use super::error::{Error, Fault, RunFailure};
use crate::client::payload::Payloads;
use crate::limits::RACE_LINE_BYTES_MAX;

/// Files of a folder: a tree, not one folder of a hundred thousand.
const FILES_A_FOLDER: u64 = 1_000;
/// Bytes that are compared at once.
const STEP_BYTES: usize = 256 << 10;
/// A sync finds this part of its files changed.
const CHANGED: u64 = 100;
/// The bits of a number of contents that are the file's; those above count how often the file changed.
const FILE_BITS: u32 = 40;

/// A kind of course.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// A folder goes up, below a prefix that is empty.
    Up,
    /// Objects come down, into a folder that is empty.
    Down,
    /// All names below a prefix are printed.
    List,
    /// A folder, of which a hundredth changed, goes up below a prefix that has all of it as it was.
    Sync,
}

/// One row of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Course {
    pub(super) name: &'static str,
    pub(super) task: Task,
    /// Files, or objects of a list.
    pub(super) files: u64,
    /// Bytes of each.
    pub(super) bytes: u64,
}

const fn course(name: &'static str, task: Task, files: u64, bytes: u64) -> Course {
    Course { name, task, files, bytes }
}

pub(super) const COURSES: [Course; 6] = [
    course("up-1g", Task::Up, 2, 1 << 30),
    course("down-1g", Task::Down, 2, 1 << 30),
    course("up-16k", Task::Up, 10_000, 16 << 10),
    course("down-16k", Task::Down, 10_000, 16 << 10),
    course("list-100k", Task::List, 100_000, 16),
    course("sync-16k", Task::Sync, 10_000, 16 << 10),
];

impl Course {
    /// The course for a moment: a hundredth of it.
    pub(super) fn short(self) -> Self {
        let files = if self.files > 100 { self.files / 100 } else { self.files };
        let bytes = if self.bytes > 1 << 20 { self.bytes / 100 } else { self.bytes };
        Self { files, bytes, ..self }
    }

    /// Bytes of all files.
    pub(super) const fn all_bytes(self) -> u64 {
        self.files * self.bytes
    }

    /// Bytes that the course needs on the disk, with a store on it that keeps each byte twice and removes
    /// late.
    pub(super) fn room_bytes(self, tools: u64) -> u64 {
        let shares = match self.task {
            Task::Up => 1 + 2 * 2,
            Task::Down => 1 + 2,
            Task::List => 2,
            Task::Sync => 1 + 2 * tools,
        };
        self.all_bytes().saturating_mul(shares)
    }
}

/// The files of a course, or the objects that are made of them.
#[derive(Debug)]
pub(super) struct CourseFiles<'a> {
    payloads: &'a Payloads,
    pub(super) count: u64,
    pub(super) bytes: u64,
    /// How often files were changed, by number; the others never were.
    changes: BTreeMap<u64, u64>,
}

impl<'a> CourseFiles<'a> {
    pub(super) const fn new(course: Course, payloads: &'a Payloads) -> Self {
        Self { payloads, count: course.files, bytes: course.bytes, changes: BTreeMap::new() }
    }

    /// The name of a file below its folder, and of its object below a prefix.
    pub(super) fn name(index: u64) -> String {
        format!("{:03}/{index:06}", index / FILES_A_FOLDER)
    }

    /// The number of the file with that name.
    pub(super) fn index(&self, name: &str) -> Option<u64> {
        let index = name.rsplit('/').next()?.parse().ok()?;
        (index < self.count && Self::name(index) == name).then_some(index)
    }

    /// The number of a file's contents among the payloads.
    pub(super) fn content(&self, index: u64) -> u64 {
        self.changes.get(&index).copied().unwrap_or(0) << FILE_BITS | index
    }

    /// Makes all files below a folder.
    pub(super) fn make(&self, folder: &Path) -> io::Result<()> {
        for index in 0..self.count {
            if index % FILES_A_FOLDER == 0 {
                let path = folder.join(Self::name(index));
                fs::create_dir_all(path.parent().unwrap_or(folder))?;
            }
            self.write(folder, index)?;
        }
        Ok(())
    }

    fn write(&self, folder: &Path, index: u64) -> io::Result<()> {
        let mut file = File::create(folder.join(Self::name(index)))?;
        let mut written = Ok(());
        self.payloads.pieces(self.content(index), self.bytes, |piece| {
            if written.is_ok() {
                written = file.write_all(piece);
            }
        });
        written
    }

    /// Changes a hundredth of the files, others in each round, and returns their numbers.
    pub(super) fn change(&mut self, folder: &Path, round: usize) -> io::Result<Vec<u64>> {
        let changed: Vec<u64> =
            (0..self.count).filter(|index| index % CHANGED == round as u64 % CHANGED).collect();
        for index in &changed {
            *self.changes.entry(*index).or_default() += 1;
            self.write(folder, *index)?;
        }
        Ok(changed)
    }

    /// Compares names with those of the files: each must be there once, and no other.
    pub(super) fn verify_names<S: AsRef<str>>(&self, names: impl Iterator<Item = S>) -> Result<(), Fault> {
        let mut there = vec![false; usize::try_from(self.count).expect("a course has few files")];
        for name in names {
            let name = name.as_ref();
            let place = self.index(name).and_then(|index| there.get_mut(usize::try_from(index).ok()?));
            match place {
                Some(place) if !*place => *place = true,
                _ => return Err(Fault::Unexpected { name: name.to_owned() }),
            }
        }
        let Some(missing) = there.iter().position(|is_there| !is_there) else { return Ok(()) };
        let found = there.iter().filter(|is_there| **is_there).count();
        let name = Self::name(missing as u64);
        Err(Fault::Missing { name, there: found as u64, wanted: self.count })
    }

    /// Compares lines, each of which ends with an object's name, with those of the files.
    ///
    /// Before the last two parts of a name a tool may print anything: a time, a size, bucket and prefix.
    pub(super) fn verify_lines(&self, mut lines: impl BufRead) -> Result<(), RunFailure> {
        let mut error = None;
        let names = std::iter::from_fn(|| {
            let mut line = Vec::new();
            match lines.by_ref().take(RACE_LINE_BYTES_MAX).read_until(b'\n', &mut line) {
                Ok(0) => None,
                Ok(_) => Some(last_parts(&String::from_utf8_lossy(&line))),
                Err(source) => {
                    error = Some(source);
                    None
                }
            }
        });
        let verified = self.verify_names(names);
        if let Some(source) = error {
            return Err(Error::file("read", "the tool's output")(source).into());
        }
        verified.map_err(RunFailure::from)
    }

    /// Compares all that lies below a folder with the files: every name, and every byte.
    pub(super) fn verify(&self, folder: &Path) -> Result<(), RunFailure> {
        let names = names_below(folder).map_err(Error::file("read", folder))?;
        self.verify_names(names.iter())?;
        let mut buffer = vec![0; STEP_BYTES];
        for index in 0..self.count {
            let name = Self::name(index);
            let path = folder.join(&name);
            let is_same = self.is_same(&path, index, &mut buffer).map_err(Error::file("read", &path))?;
            if !is_same {
                return Err(Fault::Bytes { name }.into());
            }
        }
        Ok(())
    }

    fn is_same(&self, path: &Path, index: u64, buffer: &mut [u8]) -> io::Result<bool> {
        let mut file = File::open(path)?;
        if file.metadata()?.len() != self.bytes {
            return Ok(false);
        }
        let mut at = 0;
        loop {
            let read = file.read(buffer)?;
            if read == 0 {
                return Ok(at == self.bytes);
            }
            if self.payloads.verify(self.content(index), at, &buffer[..read]).is_err() {
                return Ok(false);
            }
            at += read as u64;
        }
    }
}

/// The last two parts of the last word of a line.
fn last_parts(line: &str) -> String {
    let word = line.split_whitespace().last().unwrap_or_default();
    let begin = word.rmatch_indices('/').nth(1).map_or(0, |(at, _)| at + 1);
    word[begin..].to_owned()
}

/// The names of everything below a folder but folders.
fn names_below(folder: &Path) -> io::Result<Vec<String>> {
    let (mut found, mut open) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(inner) = open.pop() {
        for entry in fs::read_dir(inner)? {
            let entry = entry?;
            let path = entry.path();
            let kind = entry.file_type()?;
            if kind.is_dir() {
                open.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().into_owned();
            // A link's name is not one of the files'.
            found.push(if kind.is_file() { name } else { format!("{name} (no file)") });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Course = course("up-x", Task::Up, 3, (1 << 20) + 5);

    fn fault(failure: RunFailure) -> String {
        match failure {
            RunFailure::Tool(fault) => fault.to_string(),
            RunFailure::Race(error) => panic!("{error}"),
        }
    }

    #[test]
    fn every_byte_of_every_file_is_judged() {
        let payloads = Payloads::with_pool(1, 1 << 20);
        let scratch = tempfile::tempdir().unwrap();
        let files = CourseFiles::new(SMALL, &payloads);
        files.make(scratch.path()).unwrap();
        files.verify(scratch.path()).unwrap();
        let found = || fault(files.verify(scratch.path()).unwrap_err());
        let path = |index| scratch.path().join(CourseFiles::name(index));
        let good = fs::read(path(1)).unwrap();
        for at in [0, 700_000, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(path(1), bad).unwrap();
            assert_eq!(found(), "000/000001 has other bytes");
        }
        fs::write(path(1), &good[..good.len() - 1]).unwrap();
        assert_eq!(found(), "000/000001 has other bytes", "it is shorter");
        fs::copy(path(0), path(1)).unwrap();
        assert_eq!(found(), "000/000001 has other bytes", "they are those of another file");
        fs::write(path(1), &good).unwrap();
        fs::write(path(7), &good).unwrap();
        assert_eq!(found(), "000/000007 was not asked for");
        fs::remove_file(path(7)).unwrap();
        fs::rename(path(1), scratch.path().join("000001")).unwrap();
        assert_eq!(found(), "000001 was not asked for", "it is in another folder");
        fs::remove_file(scratch.path().join("000001")).unwrap();
        assert_eq!(found(), "000/000001 is missing, 2 of 3 are there");
        std::os::unix::fs::symlink(path(0), path(1)).unwrap();
        assert_eq!(found(), "000/000001 (no file) was not asked for");
    }

    #[test]
    fn names_are_found_at_the_end_of_any_tools_line() {
        let payloads = Payloads::with_pool(1, 1 << 20);
        let files = CourseFiles::new(SMALL, &payloads);
        let good = "2026-01-01 00:00:00   16 p/000/000000\n000/000001\n16 s3://b/p/000/000002";
        files.verify_lines(good.as_bytes()).unwrap();
        for (text, words) in [
            ("", "000/000000 is missing, 0 of 3 are there"),
            ("000/000000\n000/000002\n", "000/000001 is missing, 2 of 3 are there"),
            ("000/000000\n000/000000\n", "000/000000 was not asked for"),
            ("000/000000\n\n", " was not asked for"),
            ("p/000/000003", "000/000003 was not asked for"),
            ("p/001/000001", "001/000001 was not asked for"),
        ] {
            assert_eq!(fault(files.verify_lines(text.as_bytes()).unwrap_err()), words, "{text}");
        }
    }

    #[test]
    fn a_round_changes_a_hundredth_of_the_files_and_each_round_others() {
        let payloads = Payloads::with_pool(1, 1 << 20);
        let scratch = tempfile::tempdir().unwrap();
        let mut files = CourseFiles::new(Course { files: 200, bytes: 20, ..SMALL }, &payloads);
        files.make(scratch.path()).unwrap();
        assert_eq!(files.change(scratch.path(), 0).unwrap(), [0, 100]);
        assert_eq!(files.change(scratch.path(), 1).unwrap(), [1, 101]);
        assert_eq!(files.change(scratch.path(), 100).unwrap(), [0, 100]);
        files.verify(scratch.path()).unwrap();
        let before = CourseFiles::new(Course { files: 200, bytes: 20, ..SMALL }, &payloads);
        assert_eq!(fault(before.verify(scratch.path()).unwrap_err()), "000/000000 has other bytes");
    }

    #[test]
    fn a_moment_is_a_hundredth() {
        let short = COURSES.map(Course::short).map(|course| (course.files, course.bytes));
        assert_eq!((short[0], short[2]), ((2, (1 << 30) / 100), (100, 16 << 10)));
        assert_eq!((short[4].0, short[5].0), (1_000, 100));
    }
}
