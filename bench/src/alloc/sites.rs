//! Where allocations come from: the stack of one allocation in many, gathered by the line of ours
//! that is nearest to it.
//!
//! Off unless asked for: a stack costs more than a thousand allocations. Shares are what they are for;
//! beside the exact counts of a [`Scope`](super::Scope) they become figures per operation.

use std::backtrace::Backtrace;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::uncounted;

/// Stacks kept: to name each takes about a millisecond.
const SAMPLES_MAX: usize = 4_000;
/// Where our own lines are. Only the file is sure: an inlined function has lost its path.
const OURS: [&str; 3] = ["node/core/src/", "node/volume/src/", "node/src/"];

/// Ours, and as little to learn from as a `Vec`: everything is written with it.
const PLAIN: &str = "node/core/src/codec.rs";

/// Every how many allocations a stack is kept; 0 for never.
static EVERY: AtomicU64 = AtomicU64::new(0);
static SEEN: AtomicU64 = AtomicU64::new(0);
static SAMPLES: Mutex<Vec<(usize, Backtrace)>> = Mutex::new(Vec::new());

/// A line of code and its share of what was allocated.
#[derive(Debug, Clone, PartialEq)]
pub struct Site {
    /// The line, and the function that it is in.
    pub place: String,
    /// Its share of all allocations, 0 to 1.
    pub allocations_share: f64,
    /// Its share of all bytes, 0 to 1.
    pub bytes_share: f64,
}

/// Keeps the stack of every so many allocations from here on.
pub fn start(every: u64) {
    let kept = std::mem::take(&mut *samples());
    uncounted(|| drop(kept));
    EVERY.store(every, Ordering::Relaxed);
}

/// Keeps no more stacks, and says what those were that were kept: the largest share first.
pub fn stop() -> Vec<Site> {
    EVERY.store(0, Ordering::Relaxed);
    let samples = std::mem::take(&mut *samples());
    uncounted(|| {
        let traces = samples.iter().map(|(bytes, trace)| (*bytes, trace.to_string()));
        gather(traces.map(|(bytes, trace)| (bytes, place(&trace))).collect())
    })
}

fn samples() -> std::sync::MutexGuard<'static, Vec<(usize, Backtrace)>> {
    // A list of samples is whole whoever panicked beside it.
    SAMPLES.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Called by the allocator, which counts nothing on this thread meanwhile.
pub(super) fn sample(bytes: usize) {
    let every = EVERY.load(Ordering::Relaxed);
    if every == 0 || !SEEN.fetch_add(1, Ordering::Relaxed).is_multiple_of(every) {
        return;
    }
    uncounted(|| {
        let trace = Backtrace::force_capture();
        let mut samples = samples();
        if samples.len() < SAMPLES_MAX {
            samples.push((bytes, trace));
        }
    });
}

/// The frame nearest to the allocation that is ours.
fn place(trace: &str) -> String {
    let mut frames: Vec<(&str, &str)> = Vec::new();
    for line in trace.lines().map(str::trim) {
        if let Some(at) = line.strip_prefix("at ") {
            if let Some((_, place)) = frames.last_mut() {
                *place = at;
            }
        } else if let Some((_, name)) = line.split_once(": ") {
            frames.push((name, ""));
        }
    }
    let ours = frames.iter().filter(|(_, at)| !at.contains(PLAIN)).find_map(|(name, at)| {
        let start = OURS.iter().filter(|_| !at.contains("/registry/")).find_map(|ours| at.find(ours))?;
        // Without the column.
        let line = at.get(start..)?.rsplit_once(':')?.0;
        Some(format!("{line} {name}"))
    });
    ours.unwrap_or_else(|| "none of ours".to_owned())
}

#[expect(clippy::cast_precision_loss, reason = "shares for people")]
fn gather(samples: Vec<(usize, String)>) -> Vec<Site> {
    let (count, bytes) = (samples.len().max(1) as f64, samples.iter().map(|(bytes, _)| bytes).sum::<usize>());
    let mut places: HashMap<String, (usize, usize)> = HashMap::new();
    for (bytes, place) in samples {
        let sum = places.entry(place).or_default();
        *sum = (sum.0 + 1, sum.1 + bytes);
    }
    let mut sites: Vec<Site> = places
        .into_iter()
        .map(|(place, (allocations, of_bytes))| Site {
            place,
            allocations_share: allocations as f64 / count,
            bytes_share: of_bytes as f64 / bytes.max(1) as f64,
        })
        .collect();
    sites.sort_by(|one, other| {
        other.allocations_share.total_cmp(&one.allocations_share).then_with(|| one.place.cmp(&other.place))
    });
    sites
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_named_by_its_nearest_frame_of_ours() {
        let trace = "
   3: alloc::vec::Vec<T>::with_capacity
             at /rustc/x/library/alloc/src/vec/mod.rs:10:5
   4: with_capacity
             at ./node/core/src/codec.rs:168:9
   5: append
             at ./node/volume/src/log/append.rs:77:9
   6: sherd_node::volumes::log_thread::LogThread::step
             at /home/a/node/src/volumes/log_thread.rs:5:1
";
        assert_eq!(place(trace), "node/volume/src/log/append.rs:77 append");
        assert_eq!(place("   0: tokio::runtime::task\n"), "none of ours");
    }

    #[test]
    fn shares_add_up_and_the_largest_comes_first() {
        let samples = [(10, "a"), (30, "b"), (10, "a"), (50, "c")];
        let sites = gather(samples.map(|(bytes, place)| (bytes, place.to_owned())).to_vec());
        let shares: Vec<_> = sites
            .iter()
            .map(|site| (site.place.as_str(), site.allocations_share, site.bytes_share))
            .collect();
        assert_eq!(shares, [("a", 0.5, 0.2), ("b", 0.25, 0.3), ("c", 0.25, 0.5)]);
    }
}
