//! Breadth-first search over all states of a model, with the shortest trace to a violation.
//!
//! Visited states are kept as 64-bit fingerprints in one open-addressed table, their ways back as
//! (parent, which step), so ten million states cost some 300 MiB; only the states of the current and
//! the next depth exist in full. A trace is found again by walking the same steps from the start.

use std::fmt::{Debug, Write};
use std::hash::{Hash, Hasher};

/// Something with states and steps.
pub trait Model {
    /// One state; equal states must hash alike.
    type State: Clone + Eq + Hash;
    /// The change from one state to the next, for traces.
    type Step: Copy + Debug;

    /// Where it begins.
    fn start(&self) -> Self::State;
    /// Every step that can happen next. The order must depend on the state alone.
    fn steps(&self, state: &Self::State, out: &mut Vec<(Self::Step, Self::State)>);
    /// Describes the violation in a state, if there is one.
    fn violation(&self, state: &Self::State) -> Option<String>;
}

/// The outcome of a search.
#[derive(Debug)]
pub struct Outcome {
    /// Distinct states.
    pub states: usize,
    /// Steps to the farthest state.
    pub depth: usize,
    /// Whether every state was visited; otherwise those up to some depth, and some beyond.
    pub complete: bool,
    /// The shortest way to a violation, one line a step.
    pub violation: Option<Trace>,
}

/// A way to a violation.
#[derive(Debug)]
pub struct Trace {
    /// The rule that is violated.
    pub what: String,
    /// The steps.
    pub steps: Vec<String>,
}

impl Trace {
    /// For people.
    pub fn text(&self) -> String {
        let mut text = format!("{} after {} steps:\n", self.what, self.steps.len());
        for (at, step) in self.steps.iter().enumerate() {
            let _ = writeln!(text, "  {:2}. {step}", at + 1);
        }
        text
    }
}

/// Visits every state, or all up to the nearest violation, but no more than `states_max`.
pub fn search<M: Model>(model: &M, states_max: usize) -> Outcome {
    let mut seen = FingerprintSet::new();
    let start = model.start();
    seen.insert(fingerprint(&start));
    let mut ways: Vec<(u32, u32)> = vec![(0, 0)];
    let mut frontier = vec![(0_u32, start)];
    let mut next = Vec::new();
    let mut steps = Vec::new();
    let mut depth = 0;
    while !frontier.is_empty() {
        for (index, state) in frontier.drain(..) {
            if let Some(what) = model.violation(&state) {
                let steps = trace(model, &ways, index);
                let violation = Some(Trace { what, steps });
                return Outcome { states: ways.len(), depth, complete: false, violation };
            }
            steps.clear();
            model.steps(&state, &mut steps);
            for (ordinal, (_, after)) in steps.drain(..).enumerate() {
                if seen.insert(fingerprint(&after)) {
                    if ways.len() >= states_max {
                        return Outcome { states: ways.len(), depth, complete: false, violation: None };
                    }
                    let id = u32::try_from(ways.len()).expect("bounded by memory");
                    ways.push((index, u32::try_from(ordinal).expect("few steps")));
                    next.push((id, after));
                }
            }
        }
        std::mem::swap(&mut frontier, &mut next);
        depth += 1;
    }
    Outcome { states: ways.len(), depth: depth - 1, complete: true, violation: None }
}

fn trace<M: Model>(model: &M, ways: &[(u32, u32)], mut at: u32) -> Vec<String> {
    let mut ordinals = Vec::new();
    while at != 0 {
        let (parent, ordinal) = ways[at as usize];
        ordinals.push(ordinal as usize);
        at = parent;
    }
    let mut state = model.start();
    let mut lines = Vec::new();
    for ordinal in ordinals.into_iter().rev() {
        let mut steps = Vec::new();
        model.steps(&state, &mut steps);
        let (step, after) = steps.swap_remove(ordinal);
        lines.push(format!("{step:?}"));
        state = after;
    }
    lines
}

/// A set of fingerprints: linear probing, at most two thirds full. Zero marks a free place.
struct FingerprintSet {
    places: Vec<u64>,
    count: usize,
}

impl FingerprintSet {
    fn new() -> Self {
        Self { places: vec![0; 1 << 16], count: 0 }
    }

    fn insert(&mut self, print: u64) -> bool {
        if self.count * 3 >= self.places.len() * 2 {
            let bigger = vec![0; self.places.len() * 2];
            for old in std::mem::replace(&mut self.places, bigger).into_iter().filter(|old| *old != 0) {
                Self::place(&mut self.places, old);
            }
        }
        let is_new = Self::place(&mut self.places, print);
        self.count += usize::from(is_new);
        is_new
    }

    fn place(places: &mut [u64], print: u64) -> bool {
        let mask = places.len() - 1;
        #[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
        let mut at = print as usize & mask;
        while places[at] != 0 {
            if places[at] == print {
                return false;
            }
            at = (at + 1) & mask;
        }
        places[at] = print;
        true
    }
}

fn fingerprint<S: Hash>(state: &S) -> u64 {
    let mut hasher = FoldingHasher { sum: 0x9e37_79b9_7f4a_7c15, word: 0, filled_bits: 0 };
    state.hash(&mut hasher);
    hasher.finish().max(1)
}

/// Folds eight bytes at a time by a widening multiplication. Two of 30 million states collide with a
/// probability of about 1 in 40,000, and then one of them is not expanded. Inlined into the models, whose states
/// are hundreds of single bytes: half of a search's time went into these calls.
struct FoldingHasher {
    sum: u64,
    word: u64,
    filled_bits: u32,
}

impl FoldingHasher {
    #[inline]
    fn fold(&mut self) {
        let wide = u128::from(self.sum ^ self.word) * u128::from(0xa076_1d64_78bd_642f_u64);
        #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
        let low = wide as u64;
        let high = (wide >> 64) as u64;
        self.sum = (low ^ high).wrapping_add(self.sum.rotate_left(23)).wrapping_mul(0x2545_f491_4f6c_dd1d);
        self.word = 0;
    }

    /// Adds the lowest bits of a number that has no others.
    #[inline]
    fn add(&mut self, number: u64, bits: u32) {
        self.word |= number << self.filled_bits;
        self.filled_bits += bits;
        if self.filled_bits >= u64::BITS {
            self.fold();
            self.filled_bits -= u64::BITS;
            self.word = number.checked_shr(bits - self.filled_bits).unwrap_or(0);
        }
    }
}

impl Hasher for FoldingHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.add(u64::from_le_bytes(word.try_into().expect("eight bytes")), u64::BITS);
        }
        words.remainder().iter().for_each(|byte| self.write_u8(*byte));
    }

    #[inline]
    fn write_u8(&mut self, byte: u8) {
        self.add(u64::from(byte), u8::BITS);
    }

    #[inline]
    fn write_u16(&mut self, number: u16) {
        self.add(u64::from(number), u16::BITS);
    }

    /// Lengths and variants of enums are small.
    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u8(u8::try_from(number).expect("small"));
    }

    #[inline]
    fn write_isize(&mut self, number: isize) {
        self.write_u8(u8::try_from(number).expect("small"));
    }

    #[inline]
    fn finish(&self) -> u64 {
        let mut last = Self { sum: self.sum ^ u64::from(self.filled_bits), word: self.word, filled_bits: 0 };
        last.fold();
        last.fold();
        last.sum
    }
}

#[cfg(test)]
mod tests {
    use super::{Model, search};

    /// Two counters below five; wrong where they are three and two, if that is forbidden.
    struct Counters {
        forbidden: bool,
    }

    impl Model for Counters {
        type State = (u8, u8);
        type Step = char;

        fn start(&self) -> (u8, u8) {
            (0, 0)
        }

        fn steps(&self, state: &(u8, u8), out: &mut Vec<(char, (u8, u8))>) {
            out.push(('l', ((state.0 + 1) % 5, state.1)));
            out.push(('r', (state.0, (state.1 + 1) % 5)));
        }

        fn violation(&self, state: &(u8, u8)) -> Option<String> {
            (self.forbidden && *state == (3, 2)).then(|| "three and two".to_owned())
        }
    }

    #[test]
    fn a_search_visits_every_state_once() {
        let found = search(&Counters { forbidden: false }, 100);
        assert!(found.violation.is_none());
        assert_eq!((found.states, found.depth, found.complete), (25, 8, true));
    }

    #[test]
    fn a_search_finds_the_shortest_way() {
        let trace = search(&Counters { forbidden: true }, 100).violation.expect("it is reachable");
        assert_eq!(trace.steps.len(), 5);
        assert!(trace.text().contains("three and two after 5 steps"));
    }

    #[test]
    fn a_search_that_is_cut_short_says_so() {
        let found = search(&Counters { forbidden: false }, 10);
        assert_eq!((found.states, found.complete), (10, false));
    }
}
