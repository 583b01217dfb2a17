//! The pool of aligned, size-classed buffers that all bytes of requests pass through.
//!
//! One per process. Its hard cap turns into back-pressure: [`BufferPool::try_take`] says no, and
//! the release hook says when to ask again. A buffer becomes [`Bytes`] without a copy and comes back
//! when the last slice of it is dropped. Memory comes from anonymous mappings cut into slots, is
//! committed only when it is touched, and goes back to the system in [`BufferPool::trim`].
//!
//! ```text
//! class    4 KiB     64 KiB    256 KiB   stripe, at least 1 MiB
//! slab   256 KiB      1 MiB    4 MiB     stripe, at least 4 MiB      one mapping, many slots
//! slot     in use -> warm (idle, memory committed) -> cold (idle, address only)
//! ```

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use bytes::Bytes;
use memmap2::{Advice, MmapOptions, MmapRaw, UncheckedAdvice};
use parking_lot::{Mutex, RwLock};

use crate::limits::STRIPE_CLASS_BYTES_MIN;
use sherd_core::limits::STRIPE_UNIT_BYTES;

/// Alignment of every buffer in memory: the page, and what O_DIRECT asks for at most.
pub const BUFFER_ALIGN: usize = 4096;
/// Bytes of the classes below the stripe class: a page, a hash block, a stripe unit. Most bytes come
/// and go as stripe units; a class that were larger would use up the cap with air.
const CLASS_BYTES: [usize; 3] = [4 << 10, 64 << 10, STRIPE_UNIT_BYTES as usize];
/// Bytes of a slab by class; the stripe class takes the last, or one stripe.
const SLAB_BYTES: [usize; 4] = [256 << 10, 1 << 20, 4 << 20, 4 << 20];
/// Slots from here on are worth huge pages.
const HUGE_FROM_BYTES: usize = 1 << 20;

/// Limits of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolLimits {
    /// Bytes committed at most, in use and idle together. At least one stripe.
    pub cap_bytes: usize,
    /// Bytes of the largest class; rounded up to the alignment, at least 1 MiB.
    pub stripe_bytes: usize,
    /// Idle bytes that [`BufferPool::trim`] leaves committed.
    pub idle_bytes: usize,
}

/// Use of a pool at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolUse {
    /// Bytes committed at most.
    pub cap_bytes: usize,
    /// Bytes of buffers that are held.
    pub in_use_bytes: usize,
    /// Bytes of buffers that are not held and whose memory was not given back.
    pub idle_bytes: usize,
    /// How often a buffer was refused.
    pub waits: u64,
}

/// The pool. Clones are the same pool.
#[derive(Clone)]
pub struct BufferPool {
    shared: Arc<PoolState>,
}

struct PoolState {
    limits: PoolLimits,
    classes: [usize; 4],
    state: Mutex<SlabState>,
    hook: RwLock<Option<Hook>>,
}

type Hook = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct SlabState {
    idle: [IdleBuffers; 4],
    in_use_bytes: usize,
    warm_bytes: usize,
    waits: u64,
    /// A caller was refused since the hook was last called.
    is_awaited: bool,
}

#[derive(Default)]
struct IdleBuffers {
    /// The most recently used last.
    warm: Vec<BufferSlot>,
    cold: Vec<BufferSlot>,
    /// The fewest warm slots since the last trim: this number was not needed since.
    fewest_warm: usize,
}

/// A range of a slab that belongs to the holder of the value.
struct BufferSlot {
    start: NonNull<u8>,
    offset: usize,
    slab: Arc<MmapRaw>,
}

#[expect(unsafe_code, reason = "the pointer leads into a mapping that the slot itself keeps alive")]
// SAFETY: A slot is the only owner of its range: `new_slab` cuts each range once, and the pool moves
// slots, never copies them. The mapping may be used from any thread.
unsafe impl Send for BufferSlot {}
#[expect(unsafe_code, reason = "as above")]
// SAFETY: A shared slot only gives out shared slices (`Buffer::deref`), which any thread may read.
unsafe impl Sync for BufferSlot {}

impl std::fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("BufferPool").field(&self.usage()).finish()
    }
}

impl BufferPool {
    /// Makes an empty pool; no memory is taken before the first buffer is.
    ///
    /// # Panics
    /// If the cap is below one stripe: none could ever be taken.
    pub fn new(limits: PoolLimits) -> Self {
        let [small, medium, large] = CLASS_BYTES;
        let stripe_bytes = limits.stripe_bytes.next_multiple_of(BUFFER_ALIGN).max(STRIPE_CLASS_BYTES_MIN);
        assert!(limits.cap_bytes >= stripe_bytes, "the cap of the pool is below one stripe");
        Self {
            shared: Arc::new(PoolState {
                limits,
                classes: [small, medium, large, stripe_bytes],
                state: Mutex::new(SlabState::default()),
                hook: RwLock::new(None),
            }),
        }
    }

    /// Bytes of the largest buffer.
    pub fn largest(&self) -> usize {
        let [.., stripe_bytes] = self.shared.classes;
        stripe_bytes
    }

    /// Bytes that a buffer of `len` bytes takes of the cap: those of its class.
    ///
    /// # Panics
    /// When `len` is over [`BufferPool::largest`].
    pub fn class_bytes(&self, len: usize) -> usize {
        let class = self.shared.classes.iter().find(|bytes| len <= **bytes);
        *class.expect("no buffer is larger than a stripe")
    }

    /// Takes a buffer of `len` bytes, at the smallest class that holds them; `None` while the cap forbids it.
    /// It still holds its last owner's bytes.
    ///
    /// # Panics
    /// When `len` is over [`BufferPool::largest`].
    pub fn try_take(&self, len: usize) -> Option<Buffer> {
        let class = self.shared.classes.iter().position(|bytes| len <= *bytes);
        let class = class.expect("no buffer is larger than a stripe");
        let slot = self.shared.take(class)?;
        Some(Buffer { slot: Some(slot), class, len, shared: Arc::clone(&self.shared) })
    }

    /// Sets what is called after a buffer came back and a caller had been refused one. Called on the thread
    /// that released it, so it only wakes others. A caller that waits without polling registers for the
    /// wake-up first, tries, and sleeps when refused.
    pub fn set_release_hook(&self, hook: impl Fn() + Send + Sync + 'static) {
        *self.shared.hook.write() = Some(Arc::new(hook));
    }

    /// Gives idle memory back to the system: what was idle ever since the last call, over the
    /// watermark. Its owner calls it about each second.
    pub fn trim(&self) {
        for class in (0..self.shared.classes.len()).rev() {
            self.shared.cool(class);
        }
    }

    /// The use of the pool.
    pub fn usage(&self) -> PoolUse {
        let state = self.shared.state.lock();
        PoolUse {
            cap_bytes: self.shared.limits.cap_bytes,
            in_use_bytes: state.in_use_bytes,
            idle_bytes: state.warm_bytes,
            waits: state.waits,
        }
    }
}

impl PoolState {
    fn take(&self, class: usize) -> Option<BufferSlot> {
        let bytes = self.classes[class];
        let state = &mut *self.state.lock();
        if let Some(slot) = state.idle[class].warm.pop() {
            let idle = &mut state.idle[class];
            idle.fewest_warm = idle.fewest_warm.min(idle.warm.len());
            state.warm_bytes -= bytes;
            state.in_use_bytes += bytes;
            return Some(slot);
        }
        if state.in_use_bytes + bytes <= self.limits.cap_bytes {
            // Idle buffers of other classes make room, the large ones first.
            for (other, other_bytes) in self.classes.iter().enumerate().rev() {
                while state.in_use_bytes + state.warm_bytes + bytes > self.limits.cap_bytes {
                    let idle = &mut state.idle[other];
                    let Some(slot) = idle.warm.pop() else { break };
                    idle.fewest_warm = idle.fewest_warm.min(idle.warm.len());
                    slot.give_memory_back(*other_bytes);
                    idle.cold.push(slot);
                    state.warm_bytes -= other_bytes;
                }
            }
            let cold = &mut state.idle[class].cold;
            if cold.is_empty() {
                *cold = new_slab(bytes, SLAB_BYTES[class]);
            }
            if let Some(slot) = cold.pop() {
                state.in_use_bytes += bytes;
                return Some(slot);
            }
        }
        state.waits += 1;
        state.is_awaited = true;
        None
    }

    fn release(&self, class: usize, slot: BufferSlot) {
        let is_awaited = {
            let mut state = self.state.lock();
            state.idle[class].warm.push(slot);
            state.in_use_bytes -= self.classes[class];
            state.warm_bytes += self.classes[class];
            std::mem::take(&mut state.is_awaited)
        };
        if is_awaited {
            let hook = self.hook.read().clone();
            if let Some(hook) = hook {
                hook();
            }
        }
    }

    /// Makes warm slots of a class cold, those that no one needed since the last time.
    fn cool(&self, class: usize) {
        let bytes = self.classes[class];
        let mut unneeded = std::mem::take(&mut self.state.lock().idle[class].fewest_warm);
        loop {
            // A lock for each slot: a trim of gigabytes must not stop threads that take buffers.
            let state = &mut *self.state.lock();
            let idle = &mut state.idle[class];
            if unneeded == 0 || idle.warm.is_empty() || state.warm_bytes <= self.limits.idle_bytes {
                idle.fewest_warm = idle.warm.len();
                return;
            }
            unneeded -= 1;
            let slot = idle.warm.swap_remove(0);
            slot.give_memory_back(bytes);
            idle.cold.push(slot);
            state.warm_bytes -= bytes;
        }
    }
}

/// Maps memory and cuts it into slots; none when the system has no more.
fn new_slab(slot_bytes: usize, slab_bytes: usize) -> Vec<BufferSlot> {
    let count = (slab_bytes / slot_bytes).max(1);
    let Ok(map) = MmapOptions::new().len(slot_bytes * count).no_reserve_swap().map_anon() else {
        return Vec::new();
    };
    if slot_bytes >= HUGE_FROM_BYTES {
        // Without huge pages in the kernel the memory is as good, only slower.
        let _ = map.advise(Advice::HugePage);
    }
    let slab = Arc::new(MmapRaw::from(map));
    let slot = |index: usize| {
        let offset = index * slot_bytes;
        #[expect(unsafe_code, reason = "slots are ranges of one mapping")]
        // SAFETY: `offset` is below the length of the mapping: `index` is below `count`.
        let start = unsafe { slab.as_mut_ptr().add(offset) };
        let start = NonNull::new(start).expect("a mapping never starts at zero");
        BufferSlot { start, offset, slab: Arc::clone(&slab) }
    };
    (0..count).map(slot).collect()
}

impl BufferSlot {
    /// Lets the system take the memory; the slot reads as zeros when it is used again.
    fn give_memory_back(&self, bytes: usize) {
        #[expect(unsafe_code, reason = "discards the contents of memory")]
        // SAFETY: The range is the slot's own, inside its private anonymous mapping, and no slice of it
        // exists: the slot was idle, and buffers own theirs. Afterwards it is zeros.
        let result =
            unsafe { self.slab.unchecked_advise_range(UncheckedAdvice::DontNeed, self.offset, bytes) };
        debug_assert!(result.is_ok(), "advice on an aligned range of our own mapping");
    }
}

/// Memory of the pool, for one owner; goes back when it is dropped.
pub struct Buffer {
    slot: Option<BufferSlot>,
    class: usize,
    len: usize,
    shared: Arc<PoolState>,
}

impl Buffer {
    /// How many bytes fit.
    pub fn capacity(&self) -> usize {
        self.shared.classes[self.class]
    }

    /// Makes it longer or shorter. Bytes that become visible keep their former content.
    ///
    /// # Panics
    /// When `len` is over [`Buffer::capacity`].
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "a buffer does not grow over its class");
        self.len = len;
    }

    /// Turns the first `len` bytes into shared bytes, without a copy. The memory goes back to the
    /// pool when the last slice of them is dropped.
    ///
    /// # Panics
    /// When `len` is over the buffer's length.
    pub fn freeze(mut self, len: usize) -> Bytes {
        assert!(len <= self.len, "only bytes that are there can be frozen");
        self.len = len;
        Bytes::from_owner(FrozenBytes(self))
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let slot = self.slot.as_ref().expect("only drop takes the slot");
        #[expect(unsafe_code, reason = "the slot's memory as a slice")]
        // SAFETY: The slot owns `capacity` bytes from `start`, mapped and initialised (anonymous
        // memory is zeros), and `len` is at most that. The slice borrows the buffer, and only
        // `deref_mut`, which borrows it alone, gives out writable ones.
        unsafe {
            std::slice::from_raw_parts(slot.start.as_ptr(), self.len)
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let slot = self.slot.as_ref().expect("only drop takes the slot");
        #[expect(unsafe_code, reason = "the slot's memory as a slice")]
        // SAFETY: As in `deref`; the buffer is borrowed alone, so this is the only slice.
        unsafe {
            std::slice::from_raw_parts_mut(slot.start.as_ptr(), self.len)
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.shared.release(self.class, slot);
        }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer").field("len", &self.len).finish_non_exhaustive()
    }
}

struct FrozenBytes(Buffer);

impl AsRef<[u8]> for FrozenBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn pool(cap_bytes: usize) -> BufferPool {
        BufferPool::new(PoolLimits { cap_bytes, stripe_bytes: 3 << 20, idle_bytes: 0 })
    }

    #[test]
    fn buffers_are_aligned_as_long_as_asked_and_of_the_smallest_class() {
        let pool = pool(16 << 20);
        let classes = [4 << 10, 64 << 10, 256 << 10, 3 << 20];
        for (len, class) in [(0, 0), (1, 0), (4096, 0), (4097, 1), (65_537, 2), ((256 << 10) + 1, 3)] {
            let buffer = pool.try_take(len).unwrap();
            assert_eq!((buffer.len(), buffer.capacity()), (len, classes[class]));
            assert!((buffer.as_ptr() as usize).is_multiple_of(BUFFER_ALIGN));
        }
        assert_eq!(pool.largest(), 3 << 20);
        assert_eq!(pool.usage().in_use_bytes, 0);
    }

    #[test]
    #[should_panic = "no buffer is larger than a stripe"]
    fn a_buffer_over_the_largest_class_is_a_mistake() {
        pool(16 << 20).try_take((3 << 20) + 1);
    }

    #[test]
    fn the_cap_refuses_until_a_buffer_comes_back() {
        let pool = pool(4 << 20);
        let held: Vec<Buffer> = (0..16).map(|_| pool.try_take(256 << 10).unwrap()).collect();
        assert!(pool.try_take(1).is_none());
        assert_eq!(pool.usage().waits, 1);
        drop(held);
        assert!(pool.try_take(1).is_some());
    }

    #[test]
    fn idle_buffers_of_one_class_make_room_for_another() {
        let pool = pool(4 << 20);
        drop((0..16).map(|_| pool.try_take(256 << 10).unwrap()).collect::<Vec<_>>());
        assert_eq!(pool.usage().idle_bytes, 4 << 20);
        let held: Vec<Buffer> = (0..64).map(|_| pool.try_take(64 << 10).unwrap()).collect();
        let usage = pool.usage();
        assert_eq!((usage.in_use_bytes, usage.idle_bytes), (4 << 20, 0));
        assert!(pool.try_take(1).is_none());
        drop(held);
        assert!(pool.try_take(3 << 20).is_some());
    }

    #[test]
    fn frozen_bytes_keep_the_buffer_until_the_last_slice_is_gone() {
        let pool = pool(4 << 20);
        let mut buffer = pool.try_take(10_000).unwrap();
        buffer.copy_from_slice(&[7; 10_000]);
        buffer[9_999] = 1;
        let bytes = buffer.freeze(9_000);
        let slice = bytes.slice(100..200);
        assert_eq!(bytes.len(), 9_000);
        drop(bytes);
        assert_eq!(pool.usage().in_use_bytes, 64 << 10);
        assert_eq!(slice, [7; 100].as_slice());
        drop(slice);
        assert_eq!(pool.usage().in_use_bytes, 0);
    }

    #[test]
    fn the_hook_is_called_when_someone_was_refused_and_only_then() {
        let pool = pool(3 << 20);
        let calls = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&calls);
        pool.set_release_hook(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let held = pool.try_take(3 << 20).unwrap();
        drop(held);
        assert_eq!(calls.load(Ordering::Relaxed), 0);
        let held = pool.try_take(3 << 20).unwrap();
        assert!(pool.try_take(1).is_none());
        assert!(pool.try_take(1).is_none());
        drop(held);
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn trim_gives_back_what_was_idle_since_the_last_trim_down_to_the_watermark() {
        let limits = PoolLimits { cap_bytes: 8 << 20, stripe_bytes: 1 << 20, idle_bytes: 1 << 20 };
        let pool = BufferPool::new(limits);
        let mut buffers: Vec<Buffer> = (0..4).map(|_| pool.try_take(1 << 20).unwrap()).collect();
        for buffer in &mut buffers {
            buffer.fill(9);
        }
        drop(buffers);
        pool.trim();
        assert_eq!(pool.usage().idle_bytes, 4 << 20, "in use since the last trim");
        pool.trim();
        assert_eq!(pool.usage().idle_bytes, 1 << 20);
        let again: Vec<Buffer> = (0..4).map(|_| pool.try_take(1 << 20).unwrap()).collect();
        let zeroed = again.iter().filter(|buffer| buffer.iter().all(|byte| *byte == 0)).count();
        assert_eq!(zeroed, 3, "memory that was given back reads as zeros");
    }

    #[test]
    fn threads_never_share_a_buffer_nor_exceed_the_cap() {
        let pool = pool(4 << 20);
        std::thread::scope(|scope| {
            for thread in 1..=4_u8 {
                let pool = pool.clone();
                scope.spawn(move || {
                    let mut frozen = std::collections::VecDeque::new();
                    for round in 0..400_usize {
                        let len = [100, 5_000, 70_000, 2 << 20][(round + usize::from(thread)) % 4];
                        if let Some(mut buffer) = pool.try_take(len) {
                            buffer.fill(thread);
                            frozen.push_back(buffer.freeze(len));
                        }
                        let usage = pool.usage();
                        assert!(usage.in_use_bytes + usage.idle_bytes <= usage.cap_bytes);
                        if round % 3 == 0 || frozen.len() > 5 {
                            let bytes: Option<Bytes> = frozen.pop_front();
                            assert!(bytes.iter().flatten().all(|byte| *byte == thread));
                        }
                        if round % 50 == 0 {
                            pool.trim();
                        }
                    }
                });
            }
        });
        assert_eq!(pool.usage().in_use_bytes, 0);
    }
}
