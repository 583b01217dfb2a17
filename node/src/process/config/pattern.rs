//! Ranges in text: `v{1...4}` stands for four texts.
//!
//! `{01...10}` keeps the width of its numbers; several braces multiply. Volumes and the nodes of a
//! cluster are written so. An expansion is bounded before it is made.

/// The reason why a text cannot be a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPattern {
    /// Braces without a numeric range in them.
    #[error("a range is written {{1...4}}, first number not above the last")]
    Range,
    /// More texts than may be asked for.
    #[error("the ranges stand for too many")]
    TooMany,
}

/// Expands every range of `pattern`, from left to right, the last one fastest.
///
/// # Errors
/// [`InvalidPattern`] for braces without a range, or for more than `max` texts.
pub fn expand(pattern: &str, max: usize) -> Result<Vec<String>, InvalidPattern> {
    let bad = InvalidPattern::Range;
    let Some((before, opened)) = pattern.split_once('{') else {
        return if pattern.contains('}') { Err(bad) } else { Ok(vec![pattern.to_owned()]) };
    };
    let (inside, after) = opened.split_once('}').ok_or(bad)?;
    let (first_text, last_text) = inside.split_once("...").ok_or(bad)?;
    if before.contains('}') || !is_number(first_text) || !is_number(last_text) {
        return Err(bad);
    }
    let first: usize = first_text.parse().map_err(|_| bad)?;
    let last: usize = last_text.parse().map_err(|_| bad)?;
    if first > last {
        return Err(bad);
    }
    let tails = expand(after, max)?;
    if (last - first).saturating_add(1).saturating_mul(tails.len()) > max {
        return Err(InvalidPattern::TooMany);
    }
    // A leading zero asks for numbers of one width: {01...10} is 01, 02, .. 10.
    let padded = first_text.starts_with('0') && first_text.len() > 1;
    let width = if padded { first_text.len() } else { 0 };
    let numbers = (first..=last).map(|number| format!("{number:0width$}"));
    Ok(numbers.flat_map(|number| tails.iter().map(move |tail| format!("{before}{number}{tail}"))).collect())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
