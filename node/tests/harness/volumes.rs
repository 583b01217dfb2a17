//! Volumes as a disk sees them: what lies in their folders, and how to break it.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Stopped, binary};

/// Bytes of a needle: no other bytes of a log happen to be the same.
const NEEDLE_BYTES: usize = 8;
/// Bytes that are looked at together: most of a segment is zeros, which are passed over.
const PAGE: usize = 4096;

impl Stopped {
    /// Has the binary verify every row and shard of all volumes, and returns what it says when it
    /// finds damage.
    ///
    /// # Errors
    /// Its output.
    pub(crate) fn inspect(&self) -> Result<String, String> {
        let mut inspect = Command::new(binary());
        inspect.args(["inspect", "--verify"]).args(self.volumes()).stdin(Stdio::null());
        let output = inspect.output().expect("the binary was built with the tests");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let said = text(output.stdout) + &text(output.stderr);
        if output.status.success() { Ok(said) } else { Err(format!("{}: {said}", output.status)) }
    }

    /// Asserts that [`Self::inspect`] finds nothing.
    pub(crate) fn is_clean(&self) {
        if let Err(said) = self.inspect() {
            panic!("the volumes are not clean: {said}");
        }
    }
}

/// Removes a volume's folder with all that is in it, while a node may be writing into it.
pub(crate) fn remove(volume: &Path) {
    // A file made while its folder is being emptied makes that fail: once more, then.
    loop {
        match fs::remove_dir_all(volume) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return,
            removed => return removed.expect("the folder is ours"),
        }
    }
}

/// Removes what a removal comes to that is kept from ending by shards that arrive.
pub(crate) fn remove_all_but_shards(volume: &Path) {
    for entry in fs::read_dir(volume).expect("the folder is there") {
        let path = entry.expect("readable").path();
        if path.is_dir() && !path.ends_with("shards") {
            remove(&path);
        } else if path.is_file() {
            fs::remove_file(&path).expect("the file is ours");
        }
    }
}

/// Removes what is in a volume's folder, and keeps the folder.
pub(crate) fn wipe(volume: &Path) {
    remove(volume);
    fs::create_dir(volume).expect("its parent is there");
}

/// Removes what is in a folder, and keeps the folder itself: something may be mounted there.
pub(crate) fn clear(folder: &Path) {
    for path in entries(folder) {
        if path.is_dir() { remove(&path) } else { fs::remove_file(&path).expect("the file is ours") }
    }
}

/// Copies what is in a volume's folder into another one, which is made or emptied before.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("its parent is there");
    clear(to);
    let mut copy = Command::new("cp");
    copy.args(["-a", "--sparse=always", "--reflink=auto"]).arg(from.join(".")).arg(to);
    let output = copy.stdin(Stdio::null()).output().expect("cp is there");
    assert!(output.status.success(), "copying a volume: {}", String::from_utf8_lossy(&output.stderr));
}

/// Flips a bit in each of some files, at places that `pick` gives for a length; zeros are left alone, for
/// nothing is written there. Returns how many were flipped.
pub(crate) fn flip(files: &[PathBuf], mut pick: impl FnMut(usize) -> usize) -> usize {
    let (mut flipped, zeros) = (0, [0; PAGE]);
    for path in files {
        let bytes = fs::read(path).expect("the file is there");
        let is_written = |at: &usize| {
            let page = &bytes[*at..bytes.len().min(*at + PAGE)];
            page != &zeros[..page.len()]
        };
        let written: Vec<usize> = (0..bytes.len()).step_by(PAGE).filter(is_written).collect();
        if written.is_empty() {
            continue;
        }
        let page = written[pick(written.len())];
        let places: Vec<usize> = (page..bytes.len().min(page + PAGE)).filter(|at| bytes[*at] != 0).collect();
        let at = places[pick(places.len())];
        let file = File::options().write(true).open(path).expect("the file is there");
        file.write_all_at(&[bytes[at] ^ 1], at as u64).expect("a file can be overwritten");
        file.sync_all().expect("a file can be synced");
        flipped += 1;
    }
    flipped
}

/// A shard that is a file of its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShardFile {
    /// Where it lies.
    pub(crate) path: PathBuf,
    /// Index of the shard; the first k carry the data itself.
    pub(crate) index: u8,
}

impl ShardFile {
    /// Overwrites some bytes in its middle.
    pub(crate) fn rot(&self) {
        let file = File::options().write(true).open(&self.path).expect("the shard file is there");
        let len = file.metadata().expect("it is open").len();
        file.write_all_at(b"rot rot rot", len / 2).expect("a file can be overwritten");
        file.sync_all().expect("a file can be synced");
    }

    /// Cuts its second half off.
    pub(crate) fn cut(&self) {
        let file = File::options().write(true).open(&self.path).expect("the shard file is there");
        let len = file.metadata().expect("it is open").len();
        file.set_len(len / 2).expect("a file can be cut");
    }

    /// Removes it.
    pub(crate) fn delete(&self) {
        fs::remove_file(&self.path).expect("the shard file is there");
    }
}

/// The shards of a volume that are files, in the order of their names. A file that goes away
/// meanwhile is left out.
pub(crate) fn shard_files(volume: &Path) -> Vec<ShardFile> {
    let mut found = Vec::new();
    for folder in entries(&volume.join("shards")) {
        for path in entries(&folder) {
            let index = path.extension().and_then(|index| index.to_str()?.parse().ok());
            found.extend(index.map(|index| ShardFile { path, index }));
        }
    }
    found.sort();
    found
}

/// The files of a volume's log, in order.
pub(crate) fn segments(volume: &Path) -> Vec<PathBuf> {
    let mut found = entries(&volume.join("log"));
    found.retain(|path| path.extension().is_some_and(|extension| extension == "seg"));
    found.sort();
    found
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

/// Overwrites needles wherever they lie in a volume's log, and returns how many it found. A needle is
/// a piece of an object's body, so that what rots is known to be payload.
pub(crate) fn rot_in_log(volume: &Path, needles: &[&[u8]]) -> usize {
    let needles: Vec<[u8; NEEDLE_BYTES]> =
        needles.iter().map(|needle| needle[..NEEDLE_BYTES].try_into().expect("as long as that")).collect();
    let mut rotten = 0;
    for path in segments(volume) {
        let bytes = fs::read(&path).expect("a segment that is there");
        let places = places(&bytes, &needles);
        let file = File::options().write(true).open(&path).expect("a segment that is there");
        for at in &places {
            file.write_all_at(b"rot!", *at).expect("a file can be overwritten");
        }
        file.sync_all().expect("a file can be synced");
        rotten += places.len();
    }
    rotten
}

/// Where needles begin. Most of a segment is zeros, which no needle is.
fn places(bytes: &[u8], needles: &[[u8; NEEDLE_BYTES]]) -> Vec<u64> {
    let mut wanted = vec![false; 1 << 16];
    for needle in needles {
        wanted[usize::from(u16::from_le_bytes([needle[0], needle[1]]))] = true;
    }
    let zeros = [0; PAGE];
    let mut found = Vec::new();
    for (page, begin) in bytes.chunks(PAGE).zip((0..).step_by(PAGE)) {
        if page == &zeros[..page.len()] {
            continue;
        }
        // A needle may begin in this page and end in the next one.
        let end = (begin + page.len() + NEEDLE_BYTES - 1).min(bytes.len());
        for (window, at) in bytes[begin..end].windows(NEEDLE_BYTES).zip(begin..) {
            let first = usize::from(u16::from_le_bytes([window[0], window[1]]));
            if wanted[first] && needles.iter().any(|needle| needle == window) {
                found.push(at as u64);
            }
        }
    }
    found
}

#[test]
fn needles_are_found_across_pages() {
    let mut bytes = vec![0; 5 * 4096];
    let needle = *b"a needle";
    for at in [0, 4096 * 2 - 3, 5 * 4096 - 8] {
        bytes[at..at + 8].copy_from_slice(&needle);
    }
    assert_eq!(places(&bytes, &[needle]), [0, 4096 * 2 - 3, 5 * 4096 - 8]);
}
