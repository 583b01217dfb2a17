//! Texts with `*` and `?`: how they match, and what is left of one once the beginning of a text is known.

/// The token of `?`; below are bytes.
const ANY_ONE: u16 = 256;
/// The token of `*`.
const ANY_MANY: u16 = 257;

/// A text with wildcards: the bytes before the first one, and tokens from it on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Glob {
    prefix: Box<str>,
    /// Begins with a wildcard, or is empty. No two `*` are neighbours.
    tail: Box<[u16]>,
    /// Bytes of the shortest text that matches.
    bytes_min: usize,
}

/// A glob in the making.
#[derive(Debug, Default)]
pub(super) struct Builder {
    prefix: String,
    tail: Vec<u16>,
}

impl Builder {
    pub(super) fn text(&mut self, text: &str) {
        if self.tail.is_empty() {
            self.prefix.push_str(text);
        } else {
            self.tail.extend(text.bytes().map(u16::from));
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
        let tokens: Vec<u16> = self.prefix.bytes().map(u16::from).chain(self.tail.iter().copied()).collect();
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
                    Some(_) if begins_with(here, bytes) => next.push(place + bytes.len()),
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

fn from_tokens(tokens: &[u16]) -> Glob {
    let literal = tokens.iter().take_while(|&&token| token < ANY_ONE).count();
    let bytes: Vec<u8> = tokens[..literal].iter().filter_map(|&token| u8::try_from(token).ok()).collect();
    let prefix = String::from_utf8(bytes).expect("a pattern is cut between characters");
    Builder { prefix, tail: tokens[literal..].to_vec() }.finish()
}

/// Adds to sorted places those behind a `*`, which matches nothing, too.
fn pass_stars(tokens: &[u16], places: &mut Vec<usize>) {
    let behind: Vec<usize> =
        places.iter().filter(|&&place| tokens.get(place) == Some(&ANY_MANY)).map(|place| place + 1).collect();
    places.extend(behind);
    places.sort_unstable();
    places.dedup();
}

fn begins_with(tokens: &[u16], bytes: &[u8]) -> bool {
    tokens.len() >= bytes.len() && tokens.iter().zip(bytes).all(|(&token, &byte)| token == u16::from(byte))
}

/// Goes back to the last `*` only: it can match all that an earlier one could instead. Steps are at most the
/// product of both lengths.
fn tail_matches(tokens: &[u16], text: &[u8]) -> bool {
    let (mut token, mut at) = (0, 0);
    let mut star = None;
    while let Some(&byte) = text.get(at) {
        match tokens.get(token) {
            Some(&ANY_MANY) => {
                star = Some((token + 1, at));
                token += 1;
                continue;
            }
            Some(&ANY_ONE) => {
                at += char_bytes(byte);
                token += 1;
                continue;
            }
            Some(&wanted) if wanted == u16::from(byte) => {
                at += 1;
                token += 1;
                continue;
            }
            _ => {}
        }
        let Some((behind, from)) = star else { return false };
        let next = from + text.get(from).map_or(1, |&byte| char_bytes(byte));
        star = Some((behind, next));
        (token, at) = (behind, next);
    }
    tokens.get(token..).unwrap_or_default().iter().all(|&token| token == ANY_MANY)
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
