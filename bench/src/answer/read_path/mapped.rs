//! Read-only mappings of files, with a guard: what a node would need to read by them.
//!
//! A page of a mapping that cannot be read kills the process with SIGBUS. A handler, installed once
//! for the process, turns that into an error: if the address lies in a mapping of ours, it puts a
//! page of zeros in the place of the bad one and marks the mapping, and the access goes on and reads
//! zeros. Who accessed looks at the mark afterwards and discards what it made of them. Faults
//! anywhere else go on to the handler that was there before.
//!
//! Nobody gets a slice of a mapping: bytes in it may change at any moment (a page is evicted, read
//! again, and is another), so they are only hashed or copied, which is sound for any bytes.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};

use memmap2::{Advice, Mmap};
use rustix::mm::{MapFlags, ProtFlags};

use sherd_core::checksum::Digest;

/// Mappings open at one time in the process.
const REGIONS_MAX: usize = 64;

/// Why a mapped file gave nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum MapError {
    /// A page could not be read, now or earlier. Read the file without a mapping to know which.
    #[error("a mapped page could not be read")]
    Fault,
    /// The range is not in the file.
    #[error("range outside the mapped file")]
    Range,
    /// Too many files are mapped.
    #[error("more than {max} mapped files", max = REGIONS_MAX)]
    TooMany,
    /// The system refused.
    #[error("map file: {0}")]
    Io(#[from] io::Error),
}

/// A file in memory, guarded.
#[derive(Debug)]
pub(super) struct MappedFile {
    /// Before the mapping, so that it is dropped first: the handler must never touch an address that
    /// is somebody else's by then.
    region: Option<RegionGuard>,
    map: Option<Mmap>,
}

impl MappedFile {
    /// Maps a file as long as it is at this moment; `advice` says how it will be read.
    ///
    /// # Errors
    /// [`MapError::Io`]; [`MapError::TooMany`].
    pub(super) fn open(path: &Path, advice: Advice) -> Result<Self, MapError> {
        install_handler()?;
        let file = File::open(path)?;
        if file.metadata()?.len() == 0 {
            return Ok(Self { region: None, map: None });
        }
        #[expect(unsafe_code, reason = "maps a file")]
        // SAFETY: The bytes may change under the mapping, so no slice of it leaves this module: they
        // are read by `blake3` and `memcpy` alone, which for any bytes stay in bounds. A page that
        // cannot be read is the handler's.
        let map = unsafe { Mmap::map(&file) }?;
        // Without the advice reads are as right, only slower.
        let _ = map.advise(advice);
        let start = map.as_ptr().addr();
        let region = RegionGuard::claim(start..start + map.len()).ok_or(MapError::TooMany)?;
        Ok(Self { region: Some(region), map: Some(map) })
    }

    /// Hashes a range where it is.
    ///
    /// # Errors
    /// [`MapError::Range`]; [`MapError::Fault`], then for every later call too.
    pub(super) fn hash(&self, range: Range<usize>) -> Result<Digest, MapError> {
        self.access(range, |bytes| *blake3::hash(bytes).as_bytes())
    }

    /// Copies bytes from `offset` on until `target` is full.
    ///
    /// # Errors
    /// As [`MappedFile::hash`]; the target's bytes are worthless then.
    pub(super) fn copy(&self, offset: usize, target: &mut [u8]) -> Result<(), MapError> {
        let end = offset.checked_add(target.len()).ok_or(MapError::Range)?;
        self.access(offset..end, |bytes| target.copy_from_slice(bytes))
    }

    /// Runs one of this module's two readers, and gives its result only if no page was missing.
    fn access<R>(&self, range: Range<usize>, read: impl FnOnce(&[u8]) -> R) -> Result<R, MapError> {
        let bytes = self.map.as_deref().unwrap_or_default().get(range).ok_or(MapError::Range)?;
        let result = read(bytes);
        // The handler runs on this thread, inside the read: only the compiler could reorder.
        compiler_fence(Ordering::SeqCst);
        match &self.region {
            Some(region) if region.has_faulted() => Err(MapError::Fault),
            _ => Ok(result),
        }
    }
}

/// A mapping as the handler knows it. All zeros when the place is free.
struct Region {
    is_taken: AtomicBool,
    start: AtomicUsize,
    end: AtomicUsize,
    has_faulted: AtomicBool,
}

static REGIONS: [Region; REGIONS_MAX] = [const {
    Region {
        is_taken: AtomicBool::new(false),
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        has_faulted: AtomicBool::new(false),
    }
}; REGIONS_MAX];

impl Region {
    /// Whether an address lies in the region. The end is zero while the place changes hands, and is
    /// looked at on both sides of the start: so start and end are of one mapping.
    fn holds(&self, address: usize) -> bool {
        let end = self.end.load(Ordering::SeqCst);
        let start = self.start.load(Ordering::SeqCst);
        (start..end).contains(&address) && self.end.load(Ordering::SeqCst) == end
    }
}

/// A place in [`REGIONS`], for as long as the mapping lives.
#[derive(Debug)]
struct RegionGuard {
    index: usize,
}

impl RegionGuard {
    fn claim(addresses: Range<usize>) -> Option<Self> {
        let index = REGIONS.iter().position(|region| !region.is_taken.swap(true, Ordering::SeqCst))?;
        let region = &REGIONS[index];
        region.has_faulted.store(false, Ordering::SeqCst);
        region.start.store(addresses.start, Ordering::SeqCst);
        region.end.store(addresses.end, Ordering::SeqCst);
        Some(Self { index })
    }

    fn has_faulted(&self) -> bool {
        REGIONS[self.index].has_faulted.load(Ordering::SeqCst)
    }
}

impl Drop for RegionGuard {
    fn drop(&mut self) {
        let region = &REGIONS[self.index];
        region.end.store(0, Ordering::SeqCst);
        region.start.store(0, Ordering::SeqCst);
        region.is_taken.store(false, Ordering::SeqCst);
    }
}

/// What was installed before, for faults that are not ours.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();
static INSTALLED: OnceLock<Option<i32>> = OnceLock::new();
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(4096);

/// Installs the handler, once in the life of the process.
fn install_handler() -> io::Result<()> {
    let failure = INSTALLED.get_or_init(|| {
        PAGE_BYTES.store(rustix::param::page_size(), Ordering::SeqCst);
        let mut previous = MaybeUninit::<libc::sigaction>::uninit();
        #[expect(unsafe_code, reason = "asks for the signal's handler")]
        // SAFETY: A null action only asks; the answer goes to a place of the right type.
        let asked = unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), previous.as_mut_ptr()) };
        if asked != 0 {
            return io::Error::last_os_error().raw_os_error();
        }
        #[expect(unsafe_code, reason = "reads what the system wrote")]
        // SAFETY: The call succeeded, so the value is written.
        let previous = unsafe { previous.assume_init() };
        // Stored before our handler can run and look for it.
        PREVIOUS.get_or_init(|| previous);
        let mut action = previous;
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        #[expect(unsafe_code, reason = "installs the signal's handler")]
        // SAFETY: `handle` has the signature that SA_SIGINFO asks for, and does only what a signal
        // handler may: atomics and one system call.
        let installed = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) };
        if installed == 0 { None } else { io::Error::last_os_error().raw_os_error() }
    });
    failure.map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(errno)))
}

/// The SIGBUS handler.
extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    #[expect(unsafe_code, reason = "reads the faulting address")]
    // SAFETY: With SA_SIGINFO the system passes a valid `info`, and for SIGBUS it has an address.
    let address = unsafe { (*info).si_addr() }.addr();
    for region in &REGIONS {
        if region.holds(address) {
            let page_bytes = PAGE_BYTES.load(Ordering::SeqCst);
            let page = address - address % page_bytes;
            // First the mark: another thread that reads the zeros must find it.
            region.has_faulted.store(true, Ordering::SeqCst);
            #[expect(unsafe_code, reason = "replaces one page of a mapping of ours")]
            // SAFETY: The page belongs to a registered mapping, which stays while it is registered,
            // and the thread that faulted holds it. Replacing it changes bytes that only the two
            // readers above look at. The call is a bare system call without a lock or errno.
            let replaced = unsafe {
                rustix::mm::mmap_anonymous(
                    std::ptr::without_provenance_mut(page),
                    page_bytes,
                    ProtFlags::READ,
                    MapFlags::PRIVATE | MapFlags::FIXED,
                )
            };
            if replaced.is_ok() {
                return;
            }
        }
    }
    pass_on(signal, info, context);
}

/// Does what would have happened without us.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let previous = PREVIOUS.get();
    let handler = previous.map_or(libc::SIG_DFL, |action| action.sa_sigaction);
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        // The access faults again when we return, and the default ends the process.
        #[expect(unsafe_code, reason = "restores the default action")]
        // SAFETY: `signal` may be called in a handler; the default needs no function.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
        }
    } else if previous.is_some_and(|action| action.sa_flags & libc::SA_SIGINFO != 0) {
        #[expect(unsafe_code, reason = "calls the handler of before")]
        // SAFETY: The system held this address as a handler with SA_SIGINFO, so it is a function of
        // this signature; it gets the arguments that it would have got.
        unsafe {
            let call: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                std::mem::transmute(handler);
            call(signal, info, context);
        }
    } else {
        #[expect(unsafe_code, reason = "calls the handler of before")]
        // SAFETY: As above, for a handler without SA_SIGINFO.
        unsafe {
            let call: extern "C" fn(libc::c_int) = std::mem::transmute(handler);
            call(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    const BYTES: usize = 64 << 10;

    fn file(length: usize) -> (tempfile::NamedTempFile, Vec<u8>) {
        let bytes: Vec<u8> = (0..length).map(|at| u8::try_from(at % 251).unwrap() | 1).collect();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        (file, bytes)
    }

    fn map(path: &Path) -> MappedFile {
        MappedFile::open(path, Advice::Normal).unwrap()
    }

    #[test]
    fn a_mapped_file_gives_the_bytes_of_the_file() {
        let (file, bytes) = file(BYTES + 77);
        let mapped = map(file.path());
        assert_eq!(mapped.hash(100..BYTES + 77).unwrap(), *blake3::hash(&bytes[100..]).as_bytes());
        let mut copied = vec![0; 5000];
        mapped.copy(4000, &mut copied).unwrap();
        assert_eq!(copied, bytes[4000..9000]);
    }

    #[test]
    fn ranges_outside_the_file_are_refused() {
        let (file, bytes) = file(100);
        let mapped = map(file.path());
        assert!(matches!(mapped.hash(0..bytes.len() + 1), Err(MapError::Range)));
        assert!(matches!(mapped.copy(usize::MAX, &mut [0]), Err(MapError::Range)));
        assert!(matches!(MappedFile::open(Path::new("/none"), Advice::Normal), Err(MapError::Io(_))));
    }

    #[test]
    fn an_empty_file_is_empty() {
        let (file, _) = file(0);
        let mapped = map(file.path());
        assert_eq!(mapped.hash(0..0).unwrap(), *blake3::hash(b"").as_bytes());
        assert!(matches!(mapped.hash(0..1), Err(MapError::Range)));
    }

    #[test]
    fn a_file_truncated_under_the_mapping_is_an_error_and_not_a_signal() {
        let (file, bytes) = file(BYTES);
        let (other, other_bytes) = self::file(BYTES);
        let mapped = map(file.path());
        let healthy = map(other.path());
        file.as_file().set_len(8192).unwrap();
        assert_eq!(mapped.hash(0..8192).unwrap(), *blake3::hash(&bytes[..8192]).as_bytes());
        assert!(matches!(mapped.hash(8000..BYTES), Err(MapError::Fault)));
        assert!(matches!(mapped.copy(0, &mut [0; 10]), Err(MapError::Fault)), "a fault stays");
        assert_eq!(healthy.hash(0..BYTES).unwrap(), *blake3::hash(&other_bytes).as_bytes());
        drop(mapped);
        let again = map(file.path());
        assert_eq!(again.hash(0..8192).unwrap(), *blake3::hash(&bytes[..8192]).as_bytes());
    }

    #[test]
    fn threads_fault_at_once_and_each_is_told() {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let (file, _) = file(BYTES);
                        let mapped = map(file.path());
                        file.as_file().set_len(0).unwrap();
                        std::thread::scope(|inner| {
                            for _ in 0..2 {
                                inner.spawn(|| {
                                    assert!(matches!(mapped.hash(0..BYTES), Err(MapError::Fault)));
                                });
                            }
                        });
                    }
                });
            }
        });
    }

    const CHILD: &str = "SHERD_TEST_UNGUARDED_FAULT";

    #[test]
    fn a_fault_that_is_not_ours_still_ends_the_process() {
        if std::env::var_os(CHILD).is_some() {
            install_handler().unwrap();
            let (file, _) = file(BYTES);
            #[expect(unsafe_code, reason = "a mapping without the guard")]
            // SAFETY: This process ends at the read.
            let map = unsafe { Mmap::map(file.as_file()) }.unwrap();
            file.as_file().set_len(0).unwrap();
            std::process::exit(i32::from(map.contains(&0)));
        }
        let name = "answer::read_path::mapped::tests::a_fault_that_is_not_ours_still_ends_the_process";
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env(CHILD, "1")
            .output()
            .unwrap();
        assert_eq!(child.status.signal(), Some(libc::SIGBUS), "{child:?}");
    }
}
