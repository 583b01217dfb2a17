//! A global allocator that counts: how many allocations a piece of work takes, and how many bytes.
//!
//! [`CountingAllocator`] passes everything to the allocator that a node uses and adds to counters on the way.
//! A binary that measures installs it with `#[global_allocator]`; a [`Scope`] is the difference
//! between two moments, over all threads of the process. Allocations of the measuring itself are kept out
//! with [`uncounted`].

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Counters that threads are spread over: more than the threads that allocate at one time, so that
/// they do not take a cache line from each other.
const PLACES: u32 = 64;

/// The place of a thread that has none yet.
const NO_PLACE: u32 = u32::MAX;

/// The counters of some threads, on cache lines of their own (two: they are fetched in pairs).
#[repr(align(128))]
struct CounterPlace {
    allocations: AtomicU64,
    bytes: AtomicU64,
}

static COUNTERS: [CounterPlace; PLACES as usize] =
    [const { CounterPlace { allocations: AtomicU64::new(0), bytes: AtomicU64::new(0) } }; PLACES as usize];
static THREADS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    // Neither has a destructor, so both can be used until the very end of a thread.
    static PLACE: Cell<u32> = const { Cell::new(NO_PLACE) };
    static IS_COUNTED: Cell<bool> = const { Cell::new(true) };
}

/// An allocator, counted.
#[derive(Debug, Clone, Copy, Default)]
pub struct CountingAllocator<A>(pub A);

#[expect(unsafe_code, reason = "an allocator is unsafe to implement")]
// SAFETY: Every call goes to the allocator within with the very arguments, and its answer comes back as it
// is. Counting neither allocates nor unwinds: atomics, and thread-locals that need no initialisation.
unsafe impl<A: GlobalAlloc> GlobalAlloc for CountingAllocator<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: As the caller promised us.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: As the caller promised us.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(bytes);
        // SAFETY: As the caller promised us.
        unsafe { self.0.realloc(pointer, layout, bytes) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: As the caller promised us.
        unsafe { self.0.dealloc(pointer, layout) }
    }
}

fn count(bytes: usize) {
    if !IS_COUNTED.get() {
        return;
    }
    let mut place = PLACE.get();
    if place == NO_PLACE {
        place = THREADS.fetch_add(1, Ordering::Relaxed) % PLACES;
        PLACE.set(place);
    }
    if let Some(counters) = COUNTERS.get(place as usize) {
        counters.allocations.fetch_add(1, Ordering::Relaxed);
        counters.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Allocations and their bytes. Memory that grows counts as a new allocation of its new size, because it may
/// have to move; freed memory is not subtracted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Allocations.
    pub allocations: u64,
    /// Bytes asked for.
    pub bytes: u64,
}

impl Counts {
    /// Everything since the process started, on all threads.
    pub fn now() -> Self {
        COUNTERS.iter().fold(Self::default(), |sum, place| Self {
            allocations: sum.allocations + place.allocations.load(Ordering::Relaxed),
            bytes: sum.bytes + place.bytes.load(Ordering::Relaxed),
        })
    }
}

/// Allocations of the whole process since a moment.
#[derive(Debug, Clone, Copy)]
pub struct Scope {
    before: Counts,
}

impl Scope {
    /// Begins at this moment.
    pub fn begin() -> Self {
        Self { before: Counts::now() }
    }

    /// The allocations since.
    pub fn counts(&self) -> Counts {
        let now = Counts::now();
        Counts {
            allocations: now.allocations - self.before.allocations,
            bytes: now.bytes - self.before.bytes,
        }
    }
}

/// Does what belongs to the measuring, not to what is measured: this thread counts nothing meanwhile.
pub fn uncounted<T>(work: impl FnOnce() -> T) -> T {
    /// Counts again, however the work ends.
    struct CountAgain(bool);
    impl Drop for CountAgain {
        fn drop(&mut self) {
            IS_COUNTED.set(self.0);
        }
    }
    let _before = CountAgain(IS_COUNTED.replace(false));
    work()
}

/// Whether this process counts at all: whether its global allocator is [`CountingAllocator`].
pub fn is_installed() -> bool {
    let scope = Scope::begin();
    drop(std::hint::black_box(Box::new(0_u64)));
    scope.counts().allocations > 0
}
