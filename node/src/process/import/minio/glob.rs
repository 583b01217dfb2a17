//! Texts with `*` and `?`: which others they match, and what two of them match together.

/// Two patterns whose common texts no one pattern matches, or that are not compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Overlap;

/// Whether a pattern matches a text.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    matches_where(pattern.as_bytes(), text.as_bytes(), |_| true)
}

/// The pattern of the texts that both match; `None` without any.
pub(super) fn common(one: &str, other: &str) -> Result<Option<String>, Overlap> {
    if covers(one, other) {
        return Ok(Some(other.to_owned()));
    }
    if covers(other, one) {
        return Ok(Some(one.to_owned()));
    }
    if is_plain(one) || is_plain(other) {
        let has_variable = one.contains('$') || other.contains('$');
        return if has_variable && !are_apart(one, other) { Err(Overlap) } else { Ok(None) };
    }
    if are_apart(one, other) { Ok(None) } else { Err(Overlap) }
}

/// Whether every text that `narrow` matches is matched by `wide`, as far as their letters show: a `?` stands
/// for a letter or a `?`, a `*` for anything.
pub(super) fn covers(wide: &str, narrow: &str) -> bool {
    matches_where(wide.as_bytes(), narrow.as_bytes(), |letter| letter != b'*' && letter != b'$')
}

/// Whether the letters before the first sign of one, or behind its last, are others than the other's.
fn are_apart(one: &str, other: &str) -> bool {
    let head = |text: &str| text.split(['*', '?', '$']).next().unwrap_or_default().to_owned();
    let tail = |text: &str| text.rsplit(['*', '?', '}']).next().unwrap_or_default().to_owned();
    let (heads, tails) = ((head(one), head(other)), (tail(one), tail(other)));
    !(heads.0.starts_with(&heads.1) || heads.1.starts_with(&heads.0))
        || !(tails.0.ends_with(&tails.1) || tails.1.ends_with(&tails.0))
}

fn is_plain(text: &str) -> bool {
    !text.contains(['*', '?', '$'])
}

/// Matches a text, where a `?` takes a letter that `is_single`.
fn matches_where(pattern: &[u8], text: &[u8], is_single: impl Fn(u8) -> bool) -> bool {
    let (mut at, mut read, mut star) = (0, 0, None);
    while let Some(letter) = text.get(read) {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(b'?') if is_single(*letter) => (at, read) = (at + 1, read + 1),
            Some(known) if known == letter => (at, read) = (at + 1, read + 1),
            _ => match star {
                // The star takes one letter more.
                Some((place, taken)) => {
                    star = Some((place, taken + 1));
                    (at, read) = (place + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(at).all(|sign| *sign == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_that_covers_another_leaves_the_other() {
        let some = |text: &str| Ok(Some(text.to_owned()));
        for (one, other, both) in [
            ("*", "a/*", some("a/*")),
            ("a/*", "a/b/*", some("a/b/*")),
            ("a/*", "a/b", some("a/b")),
            ("a?", "ab", some("ab")),
            ("a?", "a*", some("a?")),
            ("a/*", "a/*", some("a/*")),
            ("a/*", "a/${aws:username}/*", some("a/${aws:username}/*")),
            ("a", "b", Ok(None)),
            ("a/*", "b/*", Ok(None)),
            ("*.txt", "*.bin", Ok(None)),
            ("a/*", "b", Ok(None)),
            ("a?", "abc", Ok(None)),
            ("a*", "*b", Err(Overlap)),
            ("a/*/c", "a/b/*", Err(Overlap)),
            ("a/${aws:username}", "a/b", Err(Overlap)),
            ("s3:Get*", "s3:Put*", Ok(None)),
            ("s3:Get*", "s3:*Object", Err(Overlap)),
        ] {
            assert_eq!(common(one, other), both, "{one} {other}");
            assert_eq!(common(other, one), both, "{other} {one}");
        }
    }
}
