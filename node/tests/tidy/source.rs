//! Input of the rules: every source file of the workspace, as text and as code alone.

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the workspace").to_owned()
}

/// The folders of the workspace's crates.
pub(crate) fn members() -> Vec<String> {
    let text = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace has a Cargo.toml");
    let manifest: toml::Table = text.parse().expect("it is TOML");
    let members = manifest["workspace"]["members"].as_array().expect("it lists its members");
    members.iter().map(|member| member.as_str().expect("each is a folder").to_owned()).collect()
}

/// One source file, as the rules see it.
pub(crate) struct Source {
    /// Relative to the workspace.
    pub(crate) path: String,
    pub(crate) text: String,
    /// The text with comments and literals blanked out, position for position.
    pub(crate) code: String,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned(), code: blank_out(text) }
    }

    fn line_of(&self, offset: usize) -> usize {
        1 + self.text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
    }

    pub(crate) fn complaint(&self, offset: usize, what: &str) -> String {
        format!("{}:{}: {what}", self.path, self.line_of(offset))
    }

    /// Where test code begins; the text's end without any.
    pub(crate) fn tests_begin(&self) -> usize {
        let in_tests = self.path.contains("/tests/") || self.path.ends_with("/tests.rs");
        if in_tests { 0 } else { self.code.find("#[cfg(test)]").unwrap_or(self.text.len()) }
    }
}

/// Every source file of the workspace.
pub(crate) fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in
            fs::read_dir(&folder).expect("a readable folder").map(|entry| entry.expect("a readable entry"))
        {
            let (path, name) = (entry.path(), entry.file_name().into_string().expect("names are ASCII"));
            let skipped = name.starts_with('.') || name == "target" || name == "sherd-data";
            if path.is_dir() && !skipped {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let relative = path.strip_prefix(root()).expect("below the root").to_str().expect("ASCII");
                found.push(Source::new(relative, &fs::read_to_string(&path).expect("sources are UTF-8")));
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    assert!(found.len() > 20, "the walk found the sources");
    found
}

/// Replaces comments, texts and character literals by spaces of the same length.
fn blank_out(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(text, at);
        match end {
            Some(end) => {
                code[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
                at = end;
            }
            // A whole name at once, so that the `r` of `for` does not begin a raw text.
            None if is_name(bytes[at]) => at += bytes[at..].iter().take_while(|&&byte| is_name(byte)).count(),
            None => at += 1,
        }
    }
    String::from_utf8_lossy(&code).into_owned()
}

pub(crate) fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
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

/// Offsets of a pattern.
pub(crate) fn all<'a>(text: &'a str, pattern: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(pattern).map(|(offset, _)| offset)
}

#[test]
fn comments_and_texts_are_blanked_out_and_nothing_else() {
    let text = "a /* b */ \"c\\\"d\" 'e' '\\'' 'f: &'g h r#\"i\"j\"# for\" k\" // l\nm b\"n\" br\"o\" b'p'";
    let code = blank_out(text);
    assert_eq!(code.len(), text.len());
    let left: Vec<_> = code.split_whitespace().collect();
    assert_eq!(left, ["a", "'f:", "&'g", "h", "for", "m"]);
}
