//! Finds in a file's text its comments, its literals, and the code that only builds for tests have.

use std::ops::Range;

/// Keywords that begin a declaration, behind its visibility; a field, a variant or an arm begins otherwise.
const DECLARING: [&str; 16] = [
    "mod",
    "fn",
    "struct",
    "enum",
    "union",
    "trait",
    "impl",
    "use",
    "type",
    "const",
    "static",
    "let",
    "async",
    "unsafe",
    "extern",
    "macro_rules",
];

/// The text with comments and literals blanked out, position for position, and where the comments stand.
pub(crate) fn code_and_comments(text: &str) -> (String, Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut comments = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let may_begin = matches!(bytes[at], b'/' | b'"' | b'\'' | b'r' | b'b');
        match may_begin.then(|| literal_end(text, at)).flatten() {
            Some(end) => {
                if bytes[at] == b'/' {
                    comments.push(at..end);
                }
                blank(&mut code[at..end]);
                at = end;
            }
            // A whole name at once, so that the `r` of `for` does not begin a raw text.
            None if is_name(bytes[at]) => at += name_at(text, at).len(),
            None => at += 1,
        }
    }
    (String::from_utf8_lossy(&code).into_owned(), comments)
}

/// Replaces everything but line ends by spaces.
pub(crate) fn blank(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
}

pub(crate) fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The name that begins at `at`; empty where none does.
pub(crate) fn name_at(text: &str, at: usize) -> &str {
    let length = text.as_bytes()[at..].iter().take_while(|&&byte| is_name(byte)).count();
    &text[at..at + length]
}

/// Offsets of a pattern.
pub(crate) fn all<'a>(text: &'a str, pattern: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(pattern).map(|(offset, _)| offset)
}

/// Offsets of a pattern that stands alone, outside of longer names.
pub(crate) fn all_words<'a>(text: &'a str, pattern: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_part = |byte: Option<&u8>| byte.is_some_and(|byte| is_name(*byte));
    all(text, pattern).filter(move |&at| {
        let (before, behind) = (&text.as_bytes()[..at], &text.as_bytes()[at + pattern.len()..]);
        !is_part(before.last()) && !is_part(behind.first())
    })
}

/// The end of the comment or literal that begins at `at`, if one does.
fn literal_end(text: &str, at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    let after = |pattern: &str, from: usize| {
        rest.get(from..)?.find(pattern).map(|found| from + found + pattern.len())
    };
    let to_end = rest.len();
    let length = if rest.starts_with("//") {
        rest.find('\n').unwrap_or(to_end)
    } else if rest.starts_with("/*") {
        after("*/", 2).unwrap_or(to_end)
    } else if let Some(raw) = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r')) {
        let hashes = raw.bytes().take_while(|&byte| byte == b'#').count();
        if raw.as_bytes().get(hashes) != Some(&b'"') {
            return None;
        }
        let open = rest.len() - raw.len() + hashes + 1;
        after(&format!("\"{}", "#".repeat(hashes)), open).unwrap_or(to_end)
    } else if rest.starts_with('"') || rest.starts_with("b\"") {
        quoted_length(rest, '"').unwrap_or(to_end)
    } else if rest.starts_with('\'') || rest.starts_with("b'") {
        // 'a' and '\n' are characters, 'a without an end is a lifetime.
        let inside = rest.trim_start_matches('b').get(1..)?;
        let mut characters = inside.chars();
        let first = characters.next()?;
        if first != '\\' && characters.next() != Some('\'') {
            return None;
        }
        quoted_length(rest, '\'')?
    } else {
        return None;
    };
    Some(at + length)
}

/// Bytes up to and with the closing quote of a literal that begins here.
fn quoted_length(rest: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    let open = rest.find(quote)? + 1;
    for (offset, character) in rest[open..].char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => return Some(open + offset + 1),
            _ => {}
        }
    }
    None
}

/// The attributes of a code: each from its `#` to its end.
pub(crate) fn attributes(code: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    all(code, "#").filter_map(|at| {
        let open = at + 1 + usize::from(code[at + 1..].starts_with('!'));
        code[open..].starts_with('[').then(|| at..closed(code, open))
    })
}

/// The place behind the bracket that closes the one at `open`.
fn closed(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, byte) in code.as_bytes()[open..].iter().enumerate() {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return open + offset + 1;
        }
    }
    code.len()
}

/// Declarations that only builds for tests (or fuzzing) have, and the names of the modules among them that
/// have files of their own.
pub(crate) fn test_code(text: &str, code: &str) -> (Vec<Range<usize>>, Vec<String>) {
    let (mut found, mut modules): (Vec<Range<usize>>, _) = (Vec::new(), Vec::new());
    for attribute in attributes(code) {
        let is_inside = found.last().is_some_and(|last| attribute.start < last.end);
        if is_inside || !is_for_tests(&text[attribute.clone()]) {
            continue;
        }
        if code[attribute.start..].starts_with("#!") {
            found.push(attribute.start..code.len());
            continue;
        }
        let begin = declaration_begin(code, attribute.end);
        if let Some(rest) = code[begin..].strip_prefix("mod ") {
            let name = name_at(rest, 0);
            modules.extend(rest[name.len()..].starts_with(';').then(|| name.to_owned()));
        }
        found.push(attribute.start..declaration_end(code, begin));
    }
    (found, modules)
}

/// The place behind the further attributes of a declaration, and its visibility.
fn declaration_begin(code: &str, mut at: usize) -> usize {
    loop {
        at += code[at..].len() - code[at..].trim_start().len();
        at = match &code[at..] {
            rest if rest.starts_with("#[") => closed(code, at + 1),
            rest if rest.starts_with("pub(") => closed(code, at + 3),
            rest if rest.starts_with("pub ") => at + 4,
            _ => return at,
        };
    }
}

/// The end of a declaration: its body's, its semicolon, or the comma behind a field, a variant or an arm.
fn declaration_end(code: &str, mut at: usize) -> usize {
    let is_declaration = DECLARING.contains(&name_at(code, at));
    while let Some(byte) = code.as_bytes().get(at) {
        match byte {
            b'{' => return closed(code, at),
            b';' => return at + 1,
            b',' if !is_declaration => return at + 1,
            b'}' | b')' | b']' => return at,
            b'(' | b'[' => at = closed(code, at),
            _ => at += 1,
        }
    }
    at
}

/// Whether only builds for tests have what this attribute stands at.
fn is_for_tests(attribute: &str) -> bool {
    let inside = attribute.trim_start_matches(['#', '!', '[']).trim_end_matches(']');
    let (name, predicate) = inside.split_once('(').unwrap_or((inside, ""));
    match name {
        "cfg" => holds_without_tests(predicate.trim_end().strip_suffix(')').unwrap_or("")) == Some(false),
        _ => name == "test" || name.ends_with("::test"),
    }
}

/// Whether a build that is not for tests fulfils a predicate of `cfg`; none where it depends on the machine.
fn holds_without_tests(predicate: &str) -> Option<bool> {
    let predicate = predicate.trim().trim_end_matches(',');
    let (name, inside) = predicate.split_once('(').unwrap_or((predicate, ""));
    let mut depth = 0_usize;
    let parts = inside.strip_suffix(')').unwrap_or(inside).split(|letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && letter == ','
    });
    let mut parts = parts.map(holds_without_tests);
    match name.trim() {
        "test" | "fuzzing" | "feature = \"testing\"" => Some(false),
        "not" => parts.next().flatten().map(|holds| !holds),
        "all" if parts.any(|holds| holds == Some(false)) => Some(false),
        "any" if parts.all(|holds| holds == Some(false)) => Some(false),
        _ => None,
    }
}

#[test]
fn comments_and_texts_are_blanked_out_and_nothing_else() {
    let text = "a /* b */ \"c\\\"d\" 'e' '\\'' 'f: &'g h r#\"i\"j\"# for\" k\" // l\nm b\"n\" br\"o\" b'p'";
    let (code, comments) = code_and_comments(text);
    assert_eq!(code.len(), text.len());
    let left: Vec<_> = code.split_whitespace().collect();
    assert_eq!(left, ["a", "'f:", "&'g", "h", "for", "m"]);
    let comments: Vec<_> = comments.into_iter().map(|range| &text[range]).collect();
    assert_eq!(comments, ["/* b */", "// l"]);
}

#[test]
fn what_only_tests_have_is_found_and_nothing_else() {
    for (text, code, modules) in [
        ("#[cfg(test)] mod tests { a[1] } b", vec!["#[cfg(test)] mod tests { a[1] }"], vec![]),
        ("#[cfg(test)]\npub(crate) mod a; mod b;", vec!["#[cfg(test)]\npub(crate) mod a;"], vec!["a"]),
        ("#[cfg(any(test, fuzzing))] mod a; b", vec!["#[cfg(any(test, fuzzing))] mod a;"], vec!["a"]),
        ("#[cfg(all(unix, test))] use a::{b};", vec!["#[cfg(all(unix, test))] use a::{b}"], vec![]),
        (
            "#[cfg(any(feature = \"testing\", test))] #[allow(a)] fn b<C, D>() {} e",
            vec!["#[cfg(any(feature = \"testing\", test))] #[allow(a)] fn b<C, D>() {}"],
            vec![],
        ),
        ("struct A { #[cfg(test)] b: C, d: E }", vec!["#[cfg(test)] b: C,"], vec![]),
        ("struct A { b: C, #[cfg(test)] pub d: E }", vec!["#[cfg(test)] pub d: E "], vec![]),
        (
            "#[tokio::test(start_paused = true)] async fn a() {} b",
            vec!["#[tokio::test(start_paused = true)] async fn a() {}"],
            vec![],
        ),
        ("//!\n#![cfg(test)]\nfn a() {}", vec!["#![cfg(test)]\nfn a() {}"], vec![]),
        ("#[cfg(not(test))] mod a;", vec![], vec![]),
        ("#[cfg(any(test, unix))] mod a;", vec![], vec![]),
        ("#[cfg(any(test, feature = \"tls\"))] mod a;", vec![], vec![]),
        ("#[cfg_attr(test, allow(a))] mod a;", vec![], vec![]),
    ] {
        let (found, names) = test_code(text, &code_and_comments(text).0);
        let found: Vec<_> = found.into_iter().map(|range| &text[range]).collect();
        assert_eq!((found, names), (code, modules.into_iter().map(str::to_owned).collect()), "{text}");
    }
}
