//! Texts with `*` and `?`: how they match, and what is left of one once the beginning of a text is known.
//!
//! The runs between stars are found one behind the other, each at its first place: a `*` can match all that
//! an earlier one could instead. A run without `?` is found in steps that are linear in run and text. One
//! with `?` takes a word of 64 bits for each 64 of its letters, at each byte of the text. Steps are at most
//!
//! ```text
//! 5 * pattern + text * (1 + letters of the longest run with `?` between two stars / 64)
//! ```

use memchr::{memchr, memmem, memrchr};

use crate::bytes::allocated;

/// The token of `?`, and of `*`: bytes that no UTF-8 has. All other tokens are bytes of the text itself.
const ANY_ONE: u8 = 0xFE;
const ANY_MANY: u8 = 0xFF;

/// A text with wildcards: the text before the first one, and tokens from it on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Glob {
    prefix: Box<str>,
    /// Begins with a wildcard, or is empty. No two `*` are neighbours.
    tail: Box<[u8]>,
    /// Bytes of the shortest text that matches.
    bytes_min: usize,
}

/// A glob in the making.
#[derive(Debug, Default)]
pub(super) struct Builder {
    prefix: String,
    tail: Vec<u8>,
}

impl Builder {
    pub(super) fn text(&mut self, text: &str) {
        if self.tail.is_empty() {
            self.prefix.push_str(text);
        } else {
            self.tail.extend_from_slice(text.as_bytes());
        }
    }

    pub(super) fn any_one(&mut self) {
        self.tail.push(ANY_ONE);
    }

    pub(super) fn any_many(&mut self) {
        if self.tail.last() != Some(&ANY_MANY) {
            self.tail.push(ANY_MANY);
        }
    }

    pub(super) fn finish(self) -> Glob {
        let bytes_min = self.prefix.len() + self.tail.iter().filter(|&&token| token != ANY_MANY).count();
        Glob { prefix: self.prefix.into(), tail: self.tail.into(), bytes_min }
    }
}

impl Glob {
    pub(crate) fn any() -> Self {
        Self { prefix: "".into(), tail: [ANY_MANY].into(), bytes_min: 0 }
    }

    /// Whether every text matches.
    pub(crate) fn is_any(&self) -> bool {
        self.prefix.is_empty() && *self.tail == [ANY_MANY]
    }

    /// The text that alone matches; none if there are wildcards.
    pub(crate) fn literal(&self) -> Option<&str> {
        self.tail.is_empty().then_some(&*self.prefix)
    }

    /// The text before the first wildcard.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Bytes that it keeps beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        allocated(self.prefix.len()) + allocated(self.tail.len())
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        if text.len() < self.bytes_min {
            return false;
        }
        let Some(rest) = text.strip_prefix(&*self.prefix) else { return false };
        match &*self.tail {
            [] => rest.is_empty(),
            [ANY_MANY] => true,
            tail => tail_matches(tail, rest.as_bytes()),
        }
    }

    /// The globs of which one matches the rest of a text that begins with `beginning`, for this to match it.
    ///
    /// Of the places in the pattern that the beginning can lead to, those up to the last `*` are left out but
    /// for it: a `*` matches all that they do.
    pub(crate) fn after(&self, beginning: &str) -> Vec<Self> {
        let tokens = [self.prefix.as_bytes(), &*self.tail].concat();
        let mut places = vec![0];
        pass_stars(&tokens, &mut places);
        for letter in beginning.chars() {
            let mut encoded = [0; 4];
            let bytes = letter.encode_utf8(&mut encoded).as_bytes();
            let mut next = Vec::new();
            for &place in &places {
                let here = tokens.get(place..).unwrap_or_default();
                match here.first() {
                    Some(&ANY_MANY) => next.push(place),
                    Some(&ANY_ONE) => next.push(place + 1),
                    Some(_) if here.starts_with(bytes) => next.push(place + bytes.len()),
                    _ => {}
                }
            }
            next.sort_unstable();
            next.dedup();
            pass_stars(&tokens, &mut next);
            places = next;
        }
        let star = places.iter().rev().find(|&&place| tokens.get(place) == Some(&ANY_MANY)).copied();
        let is_left = |place: &usize| star.is_none_or(|star| *place == star || *place > star + 1);
        places.into_iter().filter(is_left).map(|place| from_tokens(&tokens[place..])).collect()
    }
}

fn from_tokens(tokens: &[u8]) -> Glob {
    let literal = tokens.iter().take_while(|&&token| token < ANY_ONE).count();
    let (prefix, tail) = tokens.split_at(literal);
    let prefix = String::from_utf8(prefix.to_vec()).expect("a pattern is cut between characters");
    Builder { prefix, tail: tail.to_vec() }.finish()
}

/// Adds to sorted places those behind a `*`, which matches nothing, too.
fn pass_stars(tokens: &[u8], places: &mut Vec<usize>) {
    let behind: Vec<usize> =
        places.iter().filter(|&&place| tokens.get(place) == Some(&ANY_MANY)).map(|place| place + 1).collect();
    places.extend(behind);
    places.sort_unstable();
    places.dedup();
}

/// Whether a text matches tokens that begin with a wildcard.
fn tail_matches(tail: &[u8], text: &[u8]) -> bool {
    let Some(star) = memchr(ANY_MANY, tail) else {
        return behind_beginning(tail, text).is_some_and(<[u8]>::is_empty);
    };
    let Some(mut rest) = behind_beginning(&tail[..star], text) else { return false };
    let mut runs = &tail[star + 1..];
    if let Some(last) = memrchr(ANY_MANY, runs) {
        let Some(before) = before_end(&runs[last + 1..], rest) else { return false };
        rest = before;
        runs = &runs[..last];
    } else {
        return before_end(runs, rest).is_some();
    }
    runs.split(|&token| token == ANY_MANY).all(|run| match behind_first(run, rest) {
        Some(behind) => {
            rest = behind;
            true
        }
        None => false,
    })
}

/// The text behind a run without `*` that it begins with.
fn behind_beginning<'t>(run: &[u8], mut text: &'t [u8]) -> Option<&'t [u8]> {
    spend(run.len());
    for &token in run {
        let first = *text.first()?;
        let bytes = match token {
            ANY_ONE => char_bytes(first),
            _ if token == first => 1,
            _ => return None,
        };
        text = text.get(bytes..)?;
    }
    Some(text)
}

/// The text before a run without `*` that it ends with.
fn before_end<'t>(run: &[u8], mut text: &'t [u8]) -> Option<&'t [u8]> {
    spend(run.len());
    for &token in run.iter().rev() {
        let at = match token {
            ANY_ONE => text.iter().rposition(|&byte| !is_continuation(byte))?,
            _ => text.len().checked_sub(1).filter(|&last| text[last] == token)?,
        };
        text = &text[..at];
    }
    Some(text)
}

/// The text behind the first place where it has a run without `*`.
fn behind_first<'t>(run: &[u8], text: &'t [u8]) -> Option<&'t [u8]> {
    if memchr(ANY_ONE, run).is_some() {
        return find_with_any_one(run, text).and_then(|end| text.get(end..));
    }
    let found = memmem::find(text, run);
    spend(run.len() + found.unwrap_or(text.len()));
    text.get(found? + run.len()..)
}

/// The end of the first place where a text has a run with `?`. All places are tried at once: bit `n` is set
/// where the last bytes of the text are as the first `n + 1` tokens.
fn find_with_any_one(run: &[u8], text: &[u8]) -> Option<usize> {
    if text.len() < run.len() {
        return None;
    }
    let words = run.len().div_ceil(64);
    // The row of each byte that the run has, and one row without bits for all others.
    let mut rows = [0; 256];
    let mut bits = vec![0_u64; words];
    let mut any_one = vec![0_u64; words];
    for (at, &token) in run.iter().enumerate() {
        let bit = 1 << (at % 64);
        if token == ANY_ONE {
            any_one[at / 64] |= bit;
            continue;
        }
        let row = &mut rows[usize::from(token)];
        if *row == 0 {
            *row = bits.len();
            bits.resize(bits.len() + words, 0);
        }
        bits[*row + at / 64] |= bit;
    }
    spend(bits.len());
    let (last_word, last_bit) = ((run.len() - 1) / 64, 1 << ((run.len() - 1) % 64));
    let mut state = vec![0_u64; words];
    for (at, &byte) in text.iter().enumerate() {
        let is_first = !is_continuation(byte);
        let row = &bits[rows[usize::from(byte)]..][..words];
        let mut carry = 1;
        for ((state, row), any_one) in state.iter_mut().zip(row).zip(&any_one) {
            let shifted = *state << 1 | carry;
            carry = *state >> 63;
            // A `?` takes the first byte of a character, and stays for the others.
            *state = if is_first { shifted & (row | any_one) } else { shifted & row | *state & any_one };
        }
        spend(words);
        if state[last_word] & last_bit != 0 {
            let is_any_one = run.last() == Some(&ANY_ONE);
            return Some(at + if is_any_one { char_bytes(byte) } else { 1 });
        }
    }
    None
}

const fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// The bytes of the character that begins with `first`.
fn char_bytes(first: u8) -> usize {
    match first {
        0..0xC0 => 1,
        0xC0..0xE0 => 2,
        0xE0..0xF0 => 3,
        0xF0.. => 4,
    }
}

/// Counts the steps of a match, where a test asks how many there are.
#[inline]
fn spend(steps: usize) {
    #[cfg(test)]
    super::tests::STEPS.set(super::tests::STEPS.get() + steps);
    let _ = steps;
}
