//! The counting allocator, alone in its process and without the test harness, which allocates too:
//! every allocation of every thread is counted once, and what is kept out is not.

use std::alloc::{Layout, System, alloc, dealloc, realloc};
use std::hint::black_box;
use std::sync::Barrier;

use sherd_bench::alloc::{CountingAllocator, Counts, Scope, is_installed, uncounted};

#[global_allocator]
static ALLOCATOR: CountingAllocator<System> = CountingAllocator(System);

const THREADS: usize = 8;
const BOXES: u64 = 10_000;

fn main() {
    assert!(is_installed());
    every_allocation_of_every_thread_is_counted_once_and_what_is_kept_out_is_not();
    memory_that_grows_is_an_allocation_of_its_new_size();
}

/// Threads that are released between two looks at the counters.
fn every_allocation_of_every_thread_is_counted_once_and_what_is_kept_out_is_not() {
    let barriers: [Barrier; 3] = std::array::from_fn(|_| Barrier::new(THREADS + 1));
    let [ready, begin, end] = &barriers;
    let counts = std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                ready.wait();
                begin.wait();
                for number in 0..BOXES {
                    drop(black_box(Box::new([number; 4])));
                    uncounted(|| drop(black_box(Box::new(number))));
                }
                end.wait();
                // Stay until the main thread has looked: the end of a thread is not what is counted.
                ready.wait();
            });
        }
        ready.wait();
        let counting = Scope::begin();
        begin.wait();
        end.wait();
        let counts = counting.counts();
        ready.wait();
        counts
    });
    let allocations = BOXES * THREADS as u64;
    assert_eq!(counts, Counts { allocations, bytes: allocations * 32 });
}

#[expect(unsafe_code, reason = "the allocator is called as the standard library calls it")]
fn memory_that_grows_is_an_allocation_of_its_new_size() {
    let layout = Layout::from_size_align(100, 8).expect("a layout");
    let counting = Scope::begin();
    // SAFETY: The layout is not empty, and `realloc` and `dealloc` get what was allocated, with the
    // layout that it has then.
    let counts = unsafe {
        let small = alloc(layout);
        let large = realloc(small, layout, 300);
        let counts = counting.counts();
        dealloc(large, Layout::from_size_align(300, 8).expect("a layout"));
        counts
    };
    assert_eq!(counts, Counts { allocations: 2, bytes: 400 });
}
