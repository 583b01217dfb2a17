//! The machine that measures and is measured: what it is, and what its device and processor can do.
//!
//! Both go into every file of results, so that a figure always stands beside its physical limit.

pub mod device;
pub mod proc;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// This build must not be measured with: the program ends with code 2.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A build without optimisation measures the compiler's settings.
    #[error(
        "this is a debug build, which measures nothing of use: build with --release, or run for a --moment"
    )]
    DebugBuild,
}

/// Refuses to measure with a build without optimisation, except for a `moment`, whose figures are not kept.
///
/// # Errors
/// This is a debug build, and not for a `moment`.
pub fn refuse_debug_build(moment: bool) -> Result<(), Refusal> {
    if cfg!(debug_assertions) && !moment { Err(Refusal::DebugBuild) } else { Ok(()) }
}

/// A device would run full.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} has {} MiB free, {} MiB are needed", folder.display(), free >> 20, needed >> 20)]
pub struct Full {
    /// The folder on it.
    pub folder: PathBuf,
    /// Bytes that are free there.
    pub free: u64,
    /// Bytes that may be needed.
    pub needed: u64,
}

/// Refuses a device with less than `needed` bytes free. A device that cannot be asked counts as full.
///
/// # Errors
/// The device has less room.
pub fn require_room(folder: &Path, needed: u64) -> Result<(), Full> {
    let stat = rustix::fs::statvfs(folder);
    let free = stat.map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize));
    if free < needed { Err(Full { folder: folder.to_owned(), free, needed }) } else { Ok(()) }
}

/// The machine, for the results: `commit`, `cpu`, `cores`, `memory_mib`, `kernel`, and `filesystem` of
/// `folder`. Values that cannot be read are left out.
pub fn settings(folder: &Path) -> BTreeMap<String, String> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let found = [
        ("commit", commit()),
        ("cpu", value_of(&read("/proc/cpuinfo"), "model name")),
        ("cores", std::thread::available_parallelism().ok().map(|cores| cores.to_string())),
        ("memory_mib", memory_mib(&read("/proc/meminfo"))),
        ("kernel", Some(read("/proc/sys/kernel/osrelease").trim().to_owned())),
        (
            "filesystem",
            fs::canonicalize(folder).ok().and_then(|path| mount(&read("/proc/self/mountinfo"), &path)),
        ),
    ];
    let known = found.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    known.filter(|(_, value)| !value.is_empty()).collect()
}

/// The commit that is checked out here, with `-dirty` behind it when what is built differs from it.
/// Results and documents may differ: they are what measuring makes.
fn commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).stdin(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let mut commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed =
        ["status", "--porcelain", "--untracked-files=no", "--", ":/", ":!/bench/results", ":!/docs"];
    if git(&changed).is_none_or(|changed| !changed.is_empty()) {
        commit.push_str("-dirty");
    }
    Some(commit)
}

/// The value of the first line of `text` that begins with `name` and a colon.
fn value_of(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim_start().strip_prefix(':')?.trim().to_owned())
}

fn memory_mib(meminfo: &str) -> Option<String> {
    let kib: u64 = value_of(meminfo, "MemTotal")?.strip_suffix("kB")?.trim().parse().ok()?;
    Some((kib >> 10).to_string())
}

/// File system and device of the mount that holds `path`, as in `ext4 on /dev/vda`.
fn mount(mountinfo: &str, path: &Path) -> Option<String> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (before, behind) = line.split_once(" - ")?;
        let point = before.split(' ').nth(4)?;
        let mut rest = behind.split(' ');
        Some((point, rest.next()?, rest.next()?))
    });
    let holding = mounts.filter(|(point, ..)| path.starts_with(point));
    // The later of two mounts on one point hides the earlier one, and the last of equals is taken.
    let (_, kind, device) = holding.max_by_key(|(point, ..)| point.len())?;
    Some(format!("{kind} on {device}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debug_build_is_refused_unless_its_figures_are_thrown_away() {
        // Tests are debug builds, unless someone runs them with optimisation.
        let expected = if cfg!(debug_assertions) { Err(Refusal::DebugBuild) } else { Ok(()) };
        assert_eq!(refuse_debug_build(false), expected);
        assert_eq!(refuse_debug_build(true), Ok(()));
    }

    #[test]
    fn the_deepest_mount_holds_a_path() {
        let mountinfo = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                         31 22 0:26 / /data rw - tmpfs tmpfs rw\n\
                         32 22 0:27 / /data/1 rw shared:3 master:1 - xfs /dev/vdb rw\n";
        let of = |path: &str| mount(mountinfo, Path::new(path)).unwrap();
        assert_eq!(of("/home/x"), "ext4 on /dev/vda");
        assert_eq!(of("/data/2"), "tmpfs on tmpfs");
        assert_eq!(of("/data/1/x"), "xfs on /dev/vdb");
        assert_eq!(of("/database"), "ext4 on /dev/vda");
    }

    #[test]
    fn values_are_found_by_their_whole_name() {
        let text = "processor\t: 0\nmodel\t\t: 2\nmodel name\t: AMD EPYC\n";
        assert_eq!(value_of(text, "model name").as_deref(), Some("AMD EPYC"));
        assert_eq!(value_of(text, "model name ").as_deref(), None);
        assert_eq!(memory_mib("MemTotal:       24576000 kB\n").as_deref(), Some("24000"));
    }

    #[test]
    fn this_machine_is_known() {
        let settings = settings(&std::env::temp_dir());
        for name in ["cpu", "cores", "memory_mib", "kernel", "filesystem"] {
            assert!(settings.contains_key(name), "{name} is missing from {settings:?}");
        }
    }
}
