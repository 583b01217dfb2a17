//! Guarantees of every index, checked on each.

use std::path::Path;
use std::sync::Arc;

use super::lsm::{IndexCache, LsmIndex};
use super::memory::MemoryIndex;
use super::*;

fn put(key: &str, value: &str) -> Change {
    Change::Put {
        key: Bytes::copy_from_slice(key.as_bytes()),
        value: Bytes::copy_from_slice(value.as_bytes()),
    }
}

fn remove(key: &str) -> Change {
    Change::Remove { key: Bytes::copy_from_slice(key.as_bytes()) }
}

/// Reads an entry; a read from memory alone must give the same.
fn get(index: &dyn Index, key: &str) -> Option<String> {
    let found = index.get(key.as_bytes()).unwrap();
    if let Lookup::Immediate(told) = index.get_cached(key.as_bytes()).unwrap() {
        assert_eq!(told, found);
    }
    found.map(|value| String::from_utf8(value.into()).unwrap())
}

fn text((key, value): Pair) -> (String, String) {
    (String::from_utf8(key.into()).unwrap(), String::from_utf8(value.into()).unwrap())
}

fn scan(index: &dyn Index, from: &str, to: Option<&str>) -> Vec<(String, String)> {
    index.scan(from.as_bytes(), to.map(str::as_bytes)).map(|pair| text(pair.unwrap())).collect()
}

fn pairs(wanted: &[(&str, &str)]) -> Vec<(String, String)> {
    wanted.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn open(path: &Path) -> LsmIndex {
    LsmIndex::open(path, &IndexCache::new(1 << 20, 16)).unwrap()
}

/// Runs a test on each implementation; `crash` ends an index and gives what is left of it.
fn on_each_index(test: impl Fn(Box<dyn Index>, &dyn Fn(Box<dyn Index>) -> Box<dyn Index>)) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index");
    test(Box::new(open(&path)), &|index| {
        drop(index);
        Box::new(open(&path))
    });
    let memory = Arc::new(MemoryIndex::new());
    let current = parking_lot::Mutex::new(Arc::clone(&memory));
    test(Box::new(Shared(memory)), &|_| {
        let left = Arc::new(current.lock().crash());
        *current.lock() = Arc::clone(&left);
        Box::new(Shared(left))
    });
}

/// A memory index that the test can still crash while the code under test holds it.
#[derive(Debug)]
struct Shared(Arc<MemoryIndex>);

impl Index for Shared {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, IndexError> {
        self.0.get(key)
    }
    fn get_cached(&self, key: &[u8]) -> Result<Lookup<Option<Bytes>>, IndexError> {
        self.0.get_cached(key)
    }
    fn scan<'a>(
        &'a self,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Box<dyn Iterator<Item = Result<Pair, IndexError>> + 'a> {
        self.0.scan(from, to)
    }
    fn apply(&self, changes: Vec<Change>, sequence: Sequence) -> Result<(), IndexError> {
        self.0.apply(changes, sequence)
    }
    fn persisted(&self) -> Option<Sequence> {
        self.0.persisted()
    }
    fn pending_bytes(&self) -> u64 {
        self.0.pending_bytes()
    }
    fn flush(&self) -> Result<(), IndexError> {
        self.0.flush()
    }
    fn compact(&self) -> Result<bool, IndexError> {
        self.0.compact()
    }
    fn unmerged(&self) -> usize {
        self.0.unmerged()
    }
}

#[test]
fn applied_changes_are_read_at_once() {
    on_each_index(|index, _| {
        assert_eq!(get(&*index, "a"), None);
        index.apply(vec![put("a", "1"), put("b", "2")], Sequence(1)).unwrap();
        assert_eq!(get(&*index, "a").as_deref(), Some("1"));
        index.apply(vec![put("a", "3"), remove("b"), remove("c")], Sequence(2)).unwrap();
        assert_eq!(get(&*index, "a").as_deref(), Some("3"));
        assert_eq!(get(&*index, "b"), None);
    });
}

#[test]
fn the_last_change_of_a_key_in_a_batch_wins() {
    on_each_index(|index, crash| {
        let batch =
            vec![put("a", "1"), remove("a"), put("b", "1"), put("b", "2"), put("c", "1"), remove("c")];
        index.apply(batch, Sequence(1)).unwrap();
        index.apply(vec![remove("a"), put("a", "3")], Sequence(2)).unwrap();
        for _ in 0..2 {
            assert_eq!(scan(&*index, "", None), pairs(&[("a", "3"), ("b", "2")]));
            index.flush().unwrap();
        }
        let index = crash(index);
        assert_eq!(scan(&*index, "", None), pairs(&[("a", "3"), ("b", "2")]));
    });
}

#[test]
fn memory_answers_unflushed_keys_and_those_that_filters_rule_out() {
    let directory = tempfile::tempdir().unwrap();
    let index = open(directory.path());
    let told = |key: &str| index.get_cached(key.as_bytes()).unwrap();
    index.apply((0..1000).map(|n| put(&format!("{n:04}"), "1")).collect(), Sequence(1)).unwrap();
    index.flush().unwrap();
    index.compact().unwrap();
    index.apply(vec![put("0001", "2"), remove("0002")], Sequence(2)).unwrap();
    assert_eq!(told("0001"), Lookup::Immediate(Some(Bytes::from_static(b"2"))));
    assert_eq!(told("0002"), Lookup::Immediate(None));
    // The first of these may find that a filter is still on the disk.
    assert_eq!(get(&index, "0003x"), None);
    let absent: Vec<_> = (0..1000).map(|n| format!("{n:04}x")).collect();
    let ruled_out = absent.iter().filter(|key| told(key) == Lookup::Immediate(None)).count();
    assert!(ruled_out > 900, "{ruled_out} of 1000: a filter is wrong about one in a hundred");
    let present = (3..1000).filter(|n| told(&format!("{n:04}")) == Lookup::Pending).count();
    assert_eq!(present, 997, "what a table may hold is not in memory");
}

#[test]
fn scans_are_ordered_and_bounded() {
    on_each_index(|index, _| {
        index.apply(vec![put("b", "2"), put("a", "1"), put("d", "4")], Sequence(1)).unwrap();
        index.flush().unwrap();
        index.apply(vec![put("c", "3"), remove("d"), put("ba", "5")], Sequence(2)).unwrap();
        assert_eq!(scan(&*index, "", None), pairs(&[("a", "1"), ("b", "2"), ("ba", "5"), ("c", "3")]));
        assert_eq!(scan(&*index, "b", Some("c")), pairs(&[("b", "2"), ("ba", "5")]));
        assert_eq!(scan(&*index, "b", Some("b")), []);
        assert_eq!(scan(&*index, "c", Some("a")), []);
        assert_eq!(scan(&*index, "x", None), []);
    });
}

#[test]
fn a_scan_sees_the_moment_at_which_it_began() {
    on_each_index(|index, _| {
        index.apply(vec![put("a", "1"), put("b", "1"), put("c", "1")], Sequence(1)).unwrap();
        let mut running = index.scan(b"", None);
        assert_eq!(text(running.next().unwrap().unwrap()), ("a".to_owned(), "1".to_owned()));
        index.apply(vec![put("b", "2"), remove("c"), put("d", "2")], Sequence(2)).unwrap();
        index.flush().unwrap();
        index.compact().unwrap();
        let rest: Vec<_> = running.map(|pair| text(pair.unwrap())).collect();
        assert_eq!(rest, pairs(&[("b", "1"), ("c", "1")]));
        assert_eq!(scan(&*index, "", None), pairs(&[("a", "1"), ("b", "2"), ("d", "2")]));
    });
}

#[test]
fn a_crash_keeps_what_was_flushed_and_persisted_says_which() {
    on_each_index(|index, crash| {
        assert_eq!(index.persisted(), None);
        index.flush().unwrap();
        assert_eq!(index.persisted(), None);
        index.apply(vec![put("a", "1")], Sequence(3)).unwrap();
        assert_eq!(index.persisted(), None);
        assert!(index.pending_bytes() > 0);
        index.flush().unwrap();
        assert_eq!((index.persisted(), index.pending_bytes()), (Some(Sequence(3)), 0));
        index.apply(vec![put("a", "2"), put("b", "2")], Sequence(5)).unwrap();
        assert_eq!(index.persisted(), Some(Sequence(3)));
        let index = crash(index);
        assert_eq!(index.persisted(), Some(Sequence(3)));
        assert_eq!(scan(&*index, "", None), pairs(&[("a", "1")]));
        index.apply(vec![put("b", "2")], Sequence(5)).unwrap();
        assert_eq!(scan(&*index, "", None), pairs(&[("a", "1"), ("b", "2")]));
    });
}

#[test]
fn an_empty_batch_moves_the_checkpoint() {
    on_each_index(|index, crash| {
        index.apply(Vec::new(), Sequence(7)).unwrap();
        index.flush().unwrap();
        assert_eq!(index.persisted(), Some(Sequence(7)));
        let index = crash(index);
        assert_eq!(index.persisted(), Some(Sequence(7)));
        assert_eq!(scan(&*index, "", None), []);
    });
}

#[test]
fn a_replay_that_begins_early_brings_nothing_old_back() {
    on_each_index(|index, crash| {
        index.apply(vec![put("a", "old")], Sequence(1)).unwrap();
        index.apply(vec![put("a", "new")], Sequence(2)).unwrap();
        index.flush().unwrap();
        let index = crash(index);
        index.apply(vec![put("a", "old")], Sequence(1)).unwrap();
        index.apply(vec![put("a", "new")], Sequence(2)).unwrap();
        index.apply(vec![put("b", "3")], Sequence(3)).unwrap();
        assert_eq!(scan(&*index, "", None), pairs(&[("a", "new"), ("b", "3")]));
    });
}

#[test]
fn a_sequence_that_does_not_rise_is_refused() {
    on_each_index(|index, _| {
        index.apply(vec![put("a", "1")], Sequence(4)).unwrap();
        for sequence in [4, 3] {
            let refused = index.apply(vec![put("a", "2")], Sequence(sequence));
            assert!(matches!(refused, Err(IndexError::Misused { .. })));
        }
        assert_eq!(get(&*index, "a").as_deref(), Some("1"));
    });
}

#[test]
fn keys_that_no_index_holds_are_refused_and_change_nothing() {
    on_each_index(|index, _| {
        for key in [vec![], vec![0xff], vec![0xff, 1], vec![b'k'; 65_536]] {
            let bad = Change::Put { key: key.into(), value: Bytes::new() };
            let refused = index.apply(vec![put("a", "1"), bad], Sequence(1));
            assert!(matches!(refused, Err(IndexError::Misused { .. })));
        }
        assert_eq!(scan(&*index, "", None), []);
        let longest = Change::Put { key: vec![0xfe; 65_535].into(), value: Bytes::new() };
        index.apply(vec![longest], Sequence(1)).unwrap();
        index.flush().unwrap();
        assert_eq!(index.scan(&[0xfe], None).count(), 1);
        assert_eq!(index.scan(&[0xfe], Some(&[0xff, 0xff])).count(), 1);
    });
}

#[test]
fn many_flushes_and_compactions_lose_nothing() {
    on_each_index(|index, crash| {
        let mut model = std::collections::BTreeMap::new();
        for round in 1..=40_u64 {
            let mut batch = Vec::new();
            for n in 0..20 {
                let key = format!("k{:03}", (round * 7 + n * 13) % 97);
                if (round + n) % 5 == 0 {
                    model.remove(&key);
                    batch.push(remove(&key));
                } else {
                    model.insert(key.clone(), format!("{round}"));
                    batch.push(put(&key, &format!("{round}")));
                }
            }
            index.apply(batch, Sequence(round)).unwrap();
            index.flush().unwrap();
            if round % 3 == 0 {
                index.compact().unwrap();
            }
            assert_eq!(scan(&*index, "", None), model.clone().into_iter().collect::<Vec<_>>());
        }
        let index = crash(index);
        assert_eq!(index.persisted(), Some(Sequence(40)));
        assert_eq!(scan(&*index, "", None), model.into_iter().collect::<Vec<_>>());
    });
}

#[test]
fn the_checkpoint_never_falls_when_everything_is_removed() {
    on_each_index(|index, crash| {
        index.apply(vec![put("a", "1")], Sequence(1)).unwrap();
        index.flush().unwrap();
        index.apply(vec![remove("a")], Sequence(2)).unwrap();
        index.flush().unwrap();
        for _ in 0..5 {
            index.compact().unwrap();
        }
        let index = crash(index);
        assert_eq!(index.persisted(), Some(Sequence(2)));
        assert_eq!(scan(&*index, "", None), []);
    });
}

/// Copies the files of an index as a crash at this moment would leave them.
fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_directory(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn flushes_beside_writes_persist_whole_batches_and_tell_the_truth() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index");
    let index = open(&path);
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=3000_u64 {
                let value = round.to_string();
                index
                    .apply((0..8).map(|n| put(&format!("k{n}"), &value)).collect(), Sequence(round))
                    .unwrap();
            }
            is_done.store(true, std::sync::atomic::Ordering::Release);
        });
        scope.spawn(|| {
            while !is_done.load(std::sync::atomic::Ordering::Acquire) {
                let seen = scan(&index, "", None);
                assert!(seen.iter().all(|(_, value)| *value == seen[0].1), "half a batch: {seen:?}");
            }
        });
        let mut copies = 0;
        while !is_done.load(std::sync::atomic::Ordering::Acquire) {
            index.flush().unwrap();
            index.compact().unwrap();
            let copy = directory.path().join(format!("copy{copies}"));
            let persisted = index.persisted();
            copy_directory(&path, &copy);
            copies += 1;
            let left = open(&copy);
            assert_eq!(left.persisted(), persisted);
            let wanted = persisted.map(|sequence| sequence.0.to_string());
            let values: Vec<_> = (0..8).map(|n| get(&left, &format!("k{n}"))).collect();
            assert!(values.iter().all(|value| *value == wanted), "{values:?}, persisted {wanted:?}");
        }
        assert!(copies > 0);
    });
}

fn files_below(path: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files_below(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

/// Makes an index of three flushes, and says what it holds.
fn filled(path: &Path) -> Vec<(String, String)> {
    let index = open(path);
    for round in 1..=3_u64 {
        let batch =
            (0..200).map(|n| put(&format!("k{n:03}"), &format!("{round}-{}", "v".repeat(60)))).collect();
        index.apply(batch, Sequence(round)).unwrap();
        index.flush().unwrap();
    }
    scan(&index, "", None)
}

/// The checkpoint and all entries.
type Found = (Option<Sequence>, Vec<(String, String)>);

/// Opens and reads everything; what an owner does before it decides to rebuild.
fn try_read(path: &Path) -> Result<Found, IndexError> {
    let index = LsmIndex::open(path, &IndexCache::new(1 << 20, 16))?;
    let all = index.scan(b"", None).collect::<Result<Vec<_>, _>>()?;
    Ok((index.persisted(), all.into_iter().map(text).collect()))
}

#[test]
fn a_deleted_file_is_an_error_and_a_removed_index_can_be_made_again() {
    let directory = tempfile::tempdir().unwrap();
    let original = directory.path().join("original");
    filled(&original);
    for (number, file) in files_below(&original).iter().enumerate() {
        let copy = directory.path().join(number.to_string());
        copy_directory(&original, &copy);
        std::fs::remove_file(copy.join(file.strip_prefix(&original).unwrap())).unwrap();
        assert!(try_read(&copy).is_err(), "without {}", file.display());
        LsmIndex::remove(&copy).unwrap();
        assert_eq!(try_read(&copy).unwrap(), (None, Vec::new()));
    }
}

#[test]
fn a_damaged_byte_is_an_error_or_harmless() {
    let directory = tempfile::tempdir().unwrap();
    let original = directory.path().join("original");
    let wanted = filled(&original);
    let copy = directory.path().join("copy");
    let mut errors = 0;
    let mut tried = 0;
    for file in files_below(&original) {
        let bytes = std::fs::read(&file).unwrap();
        for at in (0..bytes.len()).step_by((bytes.len() / 60).max(1)) {
            LsmIndex::remove(&copy).unwrap();
            copy_directory(&original, &copy);
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            std::fs::write(copy.join(file.strip_prefix(&original).unwrap()), damaged).unwrap();
            tried += 1;
            match try_read(&copy) {
                Err(_) => errors += 1,
                Ok(found) => {
                    let is_same = found == (Some(Sequence(3)), wanted.clone());
                    assert!(is_same, "byte {at} of {} changed what is read", file.display());
                }
            }
        }
    }
    assert!(errors * 2 > tried, "only {errors} of {tried} were seen");
}

const CHILD: &str = "SHERD_TEST_INDEX_CHILD";

#[test]
fn a_killed_process_leaves_whole_batches_up_to_its_checkpoint() {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};
    if let Some(path) = std::env::var_os(CHILD) {
        let index = open(Path::new(&path));
        let first = index.persisted().map_or(1, |sequence| sequence.0 + 1);
        for round in first.. {
            let value = format!("{round} {}", "v".repeat(500));
            index
                .apply((0..50).map(|n| put(&format!("k{n:02}"), &value)).collect(), Sequence(round))
                .unwrap();
            if round % 3 == 0 {
                index.flush().unwrap();
                println!("persisted {}", index.persisted().unwrap().0);
                std::io::stdout().flush().unwrap();
            }
            if round % 7 == 0 {
                index.compact().unwrap();
            }
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index");
    let mut last = 0;
    for kill_after in 1..12 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "index::tests::a_killed_process_leaves_whole_batches_up_to_its_checkpoint"])
            .arg("--nocapture")
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        // The first line after the harness's own begins behind the name of the test.
        let told = lines.filter_map(|line| line.split_once("persisted ")?.1.parse::<u64>().ok());
        let told = told.take(kill_after).last().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(told > last);
        let index = open(&path);
        let persisted = index.persisted().unwrap().0;
        assert!(persisted >= told, "persisted {persisted}, reported {told}");
        let all = scan(&index, "", None);
        assert_eq!(all.len(), 50);
        assert!(all.iter().all(|(_, value)| value.starts_with(&format!("{persisted} "))));
        last = persisted;
    }
}

#[test]
fn a_file_that_cannot_be_opened_is_not_damage_and_a_missing_one_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index");
    let index = open(&path);
    index.apply(vec![put("a", "1")], Sequence(1)).unwrap();
    index.flush().unwrap();
    drop(index);
    let table = std::fs::read_dir(path.join("tables")).unwrap().next().unwrap().unwrap().path();
    let again = || LsmIndex::open(&path, &IndexCache::new(1 << 20, 16));
    for file in [table, path.join("current")] {
        let aside = directory.path().join("aside");
        std::fs::rename(&file, &aside).unwrap();
        // Opening it is refused, as with too many open files.
        std::os::unix::fs::symlink(&file, &file).unwrap();
        assert!(matches!(again(), Err(IndexError::Unavailable { .. })), "{file:?}: {:?}", again());
        std::fs::remove_file(&file).unwrap();
        assert!(matches!(again(), Err(IndexError::Damaged { .. })), "{file:?}: {:?}", again());
        std::fs::rename(&aside, &file).unwrap();
        assert_eq!(get(&again().unwrap(), "a").as_deref(), Some("1"));
    }
}
