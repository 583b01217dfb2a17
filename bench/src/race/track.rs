//! One store and the tools on it: runs a course once for a tool, and verifies what came of it.
//!
//! Preparing, verifying and removing are the bench's own work (`witness`, `course`), outside of a run's time.
//! Before a run the store comes to rest, and what earlier runs wrote goes to the disk.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{io, thread};

use super::course::{Course, CourseFiles, Task};
use super::error::{Error, Fault, RunFailure};
use super::tool::{CommandPlace, ToolCommand, TransferTool};
use super::witness::Witness;
use crate::compare::command::run_to_end;
use crate::compare::runner::Sample;
use crate::limits::{RACE_REST, RACE_RUN_LIMIT};
use crate::load::meter::Meter;

/// A store, and where its tools work.
#[derive(Debug)]
pub(super) struct Track<'a> {
    pub(super) witness: Witness<'a>,
    pub(super) tools: &'a [TransferTool],
    /// Files, downloads, homes.
    pub(super) scratch: &'a Path,
    /// Whether runs begin at once.
    pub(super) moment: bool,
}

/// A course on a store.
#[derive(Debug)]
pub(super) struct PreparedCourse<'a> {
    pub(super) course: Course,
    files: CourseFiles<'a>,
    /// The numbers of the files that changed for a round, and of that round.
    changed: Option<(usize, Vec<u64>)>,
    /// Tools that are out before the first run, by their places.
    faults: Vec<Option<Fault>>,
}

impl<'a> Track<'a> {
    /// Makes a home for each tool, and asks it for its version.
    pub(super) fn versions(&self) -> Result<Vec<(String, String)>, Error> {
        let mut versions = Vec::new();
        for (place, tool) in self.tools.iter().enumerate() {
            let home = self.home(place);
            fs::create_dir_all(&home).map_err(Error::file("make", &home))?;
            let command = tool.version(self.witness.subject, &home, self.new_output()?)?;
            let ToolCommand { mut program, text } = command;
            run_to_end(&mut program, &text, RACE_RUN_LIMIT)
                .map_err(|source| Error::Version { tool: tool.name.clone(), source })?;
            let output = self.output();
            let text = fs::read_to_string(&output).map_err(Error::file("read", &output))?;
            versions
                .push((format!("tool {}", tool.name), text.lines().next().unwrap_or_default().to_owned()));
        }
        Ok(versions)
    }

    /// Makes the files of a course, and stores the objects that it begins with.
    pub(super) fn prepare(&self, course: Course) -> Result<PreparedCourse<'a>, Error> {
        let files = CourseFiles::new(course, self.witness.payloads);
        let folder = self.files();
        let mut faults: Vec<Option<Fault>> = self.tools.iter().map(|_| None).collect();
        match course.task {
            Task::Up => files.make(&folder).map_err(Error::file("make files in", &folder))?,
            Task::Down | Task::List => self.witness.store(course.name, &files)?,
            Task::Sync => {
                files.make(&folder).map_err(Error::file("make files in", &folder))?;
                wait_for_the_next_second();
                // Each tool stores them itself, with the marks by which it compares.
                for (place, fault) in faults.iter_mut().enumerate() {
                    let prefix = sync_prefix(place);
                    let filled = self.command(place, Task::Sync, &prefix, &folder);
                    match filled.and_then(|_| self.witness.verify(&prefix, &files)) {
                        Ok(_) => {}
                        Err(RunFailure::Tool(found)) => *fault = Some(found),
                        Err(RunFailure::Race(error)) => return Err(error),
                    }
                }
            }
        }
        Ok(PreparedCourse { course, files, changed: None, faults })
    }

    /// Removes what a course left behind.
    pub(super) fn clear(&self) -> Result<(), Error> {
        for folder in [self.files(), self.down()] {
            remove(&folder).map_err(Error::file("remove", &folder))?;
        }
        self.witness.remove("")
    }

    /// Runs a tool once, and verifies the outcome.
    pub(super) fn run(
        &self,
        prepared: &mut PreparedCourse<'a>,
        place: usize,
        round: usize,
    ) -> Result<Sample, RunFailure> {
        if let Some(fault) = prepared.faults[place].take() {
            return Err(fault.into());
        }
        let course = prepared.course;
        match course.task {
            Task::Up => {
                let prefix = format!("{}-{place}-{round}", course.name);
                let sample = self.timed(place, Task::Up, &prefix, &self.files());
                let verified = sample.and_then(|sample| {
                    self.witness.verify(&prefix, &prepared.files)?;
                    Ok(sample)
                });
                self.witness.remove(&prefix)?;
                verified
            }
            Task::Down => {
                let down = self.down();
                remove(&down).map_err(Error::file("remove", &down))?;
                fs::create_dir_all(&down).map_err(Error::file("make", &down))?;
                let sample = self.timed(place, Task::Down, course.name, &down)?;
                prepared.files.verify(&down)?;
                Ok(sample)
            }
            Task::List => {
                let sample = self.timed(place, Task::List, course.name, self.scratch)?;
                let output = self.output();
                let lines = File::open(&output).map_err(Error::file("read", &output))?;
                prepared.files.verify_lines(BufReader::new(lines))?;
                Ok(sample)
            }
            Task::Sync => self.sync(prepared, place, round),
        }
    }

    /// A sync of files of which a hundredth changed: these are stored as they are, and no other.
    fn sync(
        &self,
        prepared: &mut PreparedCourse<'a>,
        place: usize,
        round: usize,
    ) -> Result<Sample, RunFailure> {
        let (folder, prefix) = (self.files(), sync_prefix(place));
        if prepared.changed.as_ref().is_none_or(|(of_round, _)| *of_round != round) {
            let changed = prepared.files.change(&folder, round).map_err(Error::file("change", &folder))?;
            prepared.changed = Some((round, changed));
            wait_for_the_next_second();
        }
        let PreparedCourse { files, changed, .. } = prepared;
        let before = self.witness.list(&prefix, files.count)?;
        let sample = self.timed(place, Task::Sync, &prefix, &folder)?;
        let after = self.witness.verify(&prefix, files)?;
        let is_changed = |name: &str| {
            let index = files.index(name);
            changed.as_ref().is_some_and(|(_, changed)| changed.iter().any(|one| Some(*one) == index))
        };
        let needless =
            after.iter().find(|(name, object)| !is_changed(name) && before.get(*name) != Some(*object));
        match needless {
            None => Ok(sample),
            Some((name, _)) => Err(Fault::Needless { name: name.clone() }.into()),
        }
    }

    /// Runs a tool at a store at rest.
    fn timed(&self, place: usize, task: Task, prefix: &str, folder: &Path) -> Result<Sample, RunFailure> {
        let process = self.witness.subject.process().filter(|_| !self.moment);
        // A store that does not come to rest is measured so, for every tool.
        let _is_idle = process.is_none_or(|process| process.until_idle(RACE_REST).is_some());
        self.flush()?;
        let meter = Meter::new(self.witness.subject.process());
        meter.open();
        let sample = self.command(place, task, prefix, folder);
        meter.close();
        let mut sample = sample?;
        let begin = Instant::now();
        self.flush()?;
        let mut add = |name: &str, value: f64| sample.figures.insert(name.to_owned(), value);
        add("flush_seconds", begin.elapsed().as_secs_f64());
        if let Some(spent) = meter.spent() {
            if let Some(server) = spent.server {
                add("server_cpu_seconds", server.as_secs_f64());
            }
            let used = Duration::try_from_secs_f64(sample.figures["cpu_seconds"]).unwrap_or_default();
            if let Some(others) = spent.others_share(used) {
                sample.figures.insert("others_cpu_share".to_owned(), others);
            }
        }
        Ok(sample)
    }

    /// Runs a tool. A failure is the tool's only if the store still answers.
    fn command(&self, place: usize, task: Task, prefix: &str, folder: &Path) -> Result<Sample, RunFailure> {
        let at = CommandPlace { bucket: self.witness.bucket, prefix, folder };
        let (home, output) = (self.home(place), self.new_output()?);
        let command = self.tools[place].command(task, at, self.witness.subject, &home, output)?;
        let ToolCommand { mut program, text } = command;
        match run_to_end(&mut program, &text, RACE_RUN_LIMIT) {
            Ok(sample) => Ok(sample),
            Err(error) => {
                self.witness.ping()?;
                Err(Fault::Command(error).into())
            }
        }
    }

    /// Has the file system write what it holds, but for a moment: others' writes would be waited for, too.
    fn flush(&self) -> Result<(), Error> {
        if self.moment {
            return Ok(());
        }
        let folder = File::open(self.scratch).map_err(Error::file("open", self.scratch))?;
        rustix::fs::syncfs(&folder).map_err(io::Error::from).map_err(Error::file("sync", self.scratch))
    }

    fn files(&self) -> PathBuf {
        self.scratch.join("files")
    }

    fn down(&self) -> PathBuf {
        self.scratch.join("down")
    }

    fn home(&self, place: usize) -> PathBuf {
        self.scratch.join(format!("home-{place}"))
    }

    /// Where the output of a command goes.
    fn output(&self) -> PathBuf {
        self.scratch.join("output")
    }

    fn new_output(&self) -> Result<File, Error> {
        let output = self.output();
        File::create(&output).map_err(Error::file("make", &output))
    }
}

fn sync_prefix(place: usize) -> String {
    format!("sync-{place}")
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Waits for the clock's next second: tools compare times of files with times of objects, which some stores
/// round down to a second.
fn wait_for_the_next_second() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let next = Duration::from_secs(now.as_secs() + 1);
    thread::sleep(next.saturating_sub(now));
}
