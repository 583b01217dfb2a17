//! Runs a shell command and reports wall time, processor time and peak memory, or what it prints.
//!
//! Standard output and error go to memory, so a command that prints much is not slowed down. The figures of
//! use come from `wait4`: the command with all its children that it waited for. Called by `compare` for
//! operations with a `command`; other tools are measured by letting them print their own figures.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::MemfdFlags;
use rustix::process::{Pid, PidfdFlags, Signal};

use super::runner::{RunError, Runner, Sample, Side};
use crate::limits::DESCENDANTS_MAX;

/// Bytes of the end of a command's output that are read.
const TAIL: u64 = 64 << 10;

/// Bytes of the end of its standard error that stand in a message.
const MESSAGE: usize = 400;

/// Flag of a run whose peak memory lies below that of the bench, and so is the bench's.
const BELOW_OUR_OWN: &str = "peak memory below the bench's own";

/// Where the figures of a run come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Figure {
    /// The system's figures of the command: `seconds`, `cpu_seconds`, `peak_rss_mib`.
    #[default]
    Usage,
    /// The last line that it prints: a number, which is called `value`, or a JSON object of numbers.
    Stdout,
}

/// One shell command per side.
#[derive(Clone, Debug)]
pub struct Commands {
    /// Side A's, for `sh -c`.
    pub a: String,
    /// Side B's.
    pub b: String,
    /// Where the figures come from.
    pub figure: Figure,
    /// How long one run may take.
    pub limit: Duration,
}

impl Runner for Commands {
    fn run(&mut self, side: Side) -> Result<Sample, RunError> {
        let command = match side {
            Side::A | Side::Again => &self.a,
            Side::B => &self.b,
        };
        run_once(command, self.figure, self.limit)
    }
}

struct Usage {
    status: ExitStatus,
    cpu_seconds: f64,
    peak_rss_kib: f64,
}

fn run_once(command: &str, figure: Figure, limit: Duration) -> Result<Sample, RunError> {
    let start = |source: io::Error| RunError::Start { command: command.to_owned(), source };
    let mut stdout = memory("stdout").map_err(start)?;
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdout(stdout.try_clone().map_err(start)?);
    let used = run_to_end(&mut shell, command, limit)?;
    match figure {
        Figure::Usage => Ok(used),
        Figure::Stdout => {
            let figures = printed(&tail(&mut stdout).map_err(start)?)
                .map_err(|reason| RunError::Output { command: command.to_owned(), reason })?;
            Ok(Sample { figures, flags: Vec::new() })
        }
    }
}

/// Runs a program, which errors call `command`, and says what it used.
///
/// # Errors
/// The program cannot be started, fails, or is stopped after `limit`.
pub(crate) fn run_to_end(program: &mut Command, command: &str, limit: Duration) -> Result<Sample, RunError> {
    let start = |source: io::Error| RunError::Start { command: command.to_owned(), source };
    let mut stderr = memory("stderr").map_err(start)?;
    program.stdin(Stdio::null()).stderr(stderr.try_clone().map_err(start)?);
    let begin = Instant::now();
    let child = program.spawn().map_err(start)?;
    let pid = Pid::from_child(&child);
    let in_time = ends_within(pid, limit).map_err(start)?;
    let seconds = begin.elapsed().as_secs_f64();
    if !in_time {
        stop(pid);
    }
    let usage = reap(&child).map_err(start)?;
    if !in_time {
        return Err(RunError::TooLong { command: command.to_owned(), limit });
    }
    if !usage.status.success() {
        return Err(RunError::Failed {
            command: command.to_owned(),
            status: usage.status.to_string(),
            message: last_words(&tail(&mut stderr).map_err(start)?),
        });
    }
    Ok(used(seconds, &usage))
}

fn used(seconds: f64, usage: &Usage) -> Sample {
    let figures = BTreeMap::from([
        ("seconds".to_owned(), seconds),
        ("cpu_seconds".to_owned(), usage.cpu_seconds),
        ("peak_rss_mib".to_owned(), usage.peak_rss_kib / 1024.0),
    ]);
    // Between fork and exec a child is charged with our memory, so its peak is never below ours.
    let flags =
        if usage.peak_rss_kib <= own_peak_rss_kib() { vec![BELOW_OUR_OWN.to_owned()] } else { vec![] };
    Sample { figures, flags }
}

fn memory(name: &str) -> io::Result<File> {
    Ok(File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?))
}

/// Waits for the end of the process, for at most `limit`; does not reap it.
fn ends_within(pid: Pid, limit: Duration) -> io::Result<bool> {
    let handle: OwnedFd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    let begin = Instant::now();
    loop {
        let left = limit.saturating_sub(begin.elapsed());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        match rustix::event::poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Kills the process and those that it started, which may have ended already.
fn stop(pid: Pid) {
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        let path = format!("/proc/{0}/task/{0}/children", parent.as_raw_nonzero());
        let children = std::fs::read_to_string(path).unwrap_or_default();
        let children = children.split_whitespace().filter_map(|child| Pid::from_raw(child.parse().ok()?));
        let room = DESCENDANTS_MAX.saturating_sub(found.len());
        found.extend(children.take(room));
        at += 1;
    }
    for pid in found {
        // The process is gone already, or becomes a zombie that `reap` or its own parent takes.
        rustix::process::kill_process(pid, Signal::KILL).ok();
    }
}

fn reap(child: &Child) -> io::Result<Usage> {
    let pid = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    loop {
        #[expect(unsafe_code, reason = "std's wait and rustix do not tell what the child used")]
        // SAFETY: both pointers are to memory of ours that outlives the call. The process is our child and
        // was not waited for: `child` is only ever waited for here.
        let reaped = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
        if reaped == pid {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    #[expect(unsafe_code, reason = "the kernel filled it")]
    // SAFETY: zeroed is a valid value of this plain struct, and `wait4` succeeded.
    let usage = unsafe { usage.assume_init() };
    Ok(Usage {
        status: ExitStatus::from_raw(status),
        cpu_seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        peak_rss_kib: kib(usage.ru_maxrss),
    })
}

fn own_peak_rss_kib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0.0)
}

#[expect(clippy::cast_precision_loss, reason = "seconds and kibibytes are far below 2^52")]
fn seconds(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 / 1e6
}

#[expect(clippy::cast_precision_loss, reason = "seconds and kibibytes are far below 2^52")]
fn kib(value: libc::c_long) -> f64 {
    value as f64
}

/// The end of what was written to the file, at most [`TAIL`] bytes.
fn tail(file: &mut File) -> io::Result<String> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The end of the standard error of a command that failed.
fn last_words(stderr: &str) -> String {
    let text = stderr.trim();
    let from = text.char_indices().rev().nth(MESSAGE).map_or(0, |(at, _)| at);
    let text = text.get(from..).unwrap_or(text);
    if text.is_empty() { "it said nothing".to_owned() } else { text.to_owned() }
}

/// The figures in the last line of `stdout` that is not empty.
fn printed(stdout: &str) -> Result<BTreeMap<String, f64>, String> {
    let line = stdout.lines().rev().find(|line| !line.trim().is_empty()).ok_or("nothing was printed")?;
    let value: serde_json::Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let figures = match value {
        serde_json::Value::Number(number) => vec![("value".to_owned(), number.as_f64())],
        serde_json::Value::Object(map) => {
            map.into_iter().map(|(name, value)| (name, value.as_f64())).collect()
        }
        _ => return Err("neither a number nor an object of numbers".to_owned()),
    };
    if figures.is_empty() {
        return Err("the object is empty".to_owned());
    }
    let number = |(name, value): (String, Option<f64>)| match value {
        Some(value) if value.is_finite() => Ok((name, value)),
        _ => Err(format!("`{name}` is not a number")),
    };
    figures.into_iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_mins(1);

    fn run(command: &str, figure: Figure) -> Result<Sample, RunError> {
        run_once(command, figure, LIMIT)
    }

    #[test]
    fn a_command_that_works_uses_more_processor_than_one_that_does_not() {
        let idle = run("true", Figure::Usage).unwrap();
        let busy = run("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done", Figure::Usage).unwrap();
        let cpu = |sample: &Sample| sample.figures["cpu_seconds"];
        assert!(cpu(&busy) > cpu(&idle), "{busy:?} {idle:?}");
        assert!(busy.figures["seconds"] > 0.0 && busy.figures["peak_rss_mib"] > 0.0);
    }

    #[test]
    fn the_work_of_children_counts() {
        let text = "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; true";
        let (idle, busy) = (run("true", Figure::Usage).unwrap(), run(text, Figure::Usage).unwrap());
        assert!(busy.figures["cpu_seconds"] > idle.figures["cpu_seconds"]);
    }

    #[test]
    fn a_peak_below_our_own_is_flagged_and_one_above_is_not() {
        assert_eq!(run("true", Figure::Usage).unwrap().flags, [BELOW_OUR_OWN]);
        // dash keeps the whole value in memory.
        let large = format!("x=$(head -c {} /dev/zero | tr '\\0' a); : \"$x\"", 192 << 20);
        let sample = run(&large, Figure::Usage).unwrap();
        assert!(sample.flags.is_empty() && sample.figures["peak_rss_mib"] >= 192.0, "{sample:?}");
    }

    #[test]
    fn a_command_may_print_its_own_figures() {
        let sample = run("echo warming up; echo '{\"ops_s\": 12.5, \"allocs_op\": 3}'; echo", Figure::Stdout);
        let figures = sample.unwrap().figures;
        assert_eq!(figures, BTreeMap::from([("ops_s".to_owned(), 12.5), ("allocs_op".to_owned(), 3.0)]));
        let single = run("echo 42", Figure::Stdout).unwrap().figures;
        assert_eq!(single, BTreeMap::from([("value".to_owned(), 42.0)]));
    }

    #[test]
    fn what_is_printed_instead_of_figures_is_named() {
        for (command, part) in [
            ("true", "nothing was printed"),
            ("echo done", "expected"),
            ("echo '[1]'", "neither"),
            ("echo '{}'", "empty"),
            ("echo '{\"a\": \"b\"}'", "`a`"),
        ] {
            let error = run(command, Figure::Stdout).unwrap_err();
            assert!(matches!(error, RunError::Output { .. }), "{error}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn a_command_that_prints_much_ends() {
        let sample = run("head -c 10000000 /dev/zero | tr '\\0' a; echo; echo 7", Figure::Stdout).unwrap();
        assert_eq!(sample.figures["value"].to_bits(), 7.0_f64.to_bits());
    }

    #[test]
    fn a_command_that_fails_is_quoted() {
        let error = run("echo no such bucket >&2; exit 3", Figure::Usage).unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("no such bucket"), "{error}");
        assert!(run("kill -9 $$", Figure::Usage).unwrap_err().to_string().contains("signal: 9"));
    }

    #[test]
    fn a_command_that_does_not_end_is_stopped_with_its_children() {
        let error = run_once("sleep 1000 | sleep 1000; true", Figure::Usage, Duration::ZERO).unwrap_err();
        assert!(matches!(error, RunError::TooLong { .. }), "{error}");
    }

    #[test]
    fn long_last_words_are_cut_at_a_letter() {
        assert_eq!(last_words(&"ä".repeat(1000)).chars().count(), MESSAGE + 1);
        assert_eq!(last_words(" \n"), "it said nothing");
    }
}
