//! Limits that do not stand in a `limits.rs`, where the next one would be compared with them.

use super::scan::{all_words, is_name, name_at};
use super::source::Source;

/// Parts of the names of limits. Every `Duration` is one, too.
const LIMIT_WORDS: [&str; 14] = [
    "PAGE", "PATIENCE", "PAUSE", "EVERY", "TIMEOUT", "TRIES", "RETRIES", "ATTEMPTS", "DEADLINE", "LIMIT",
    "BOUND", "MAX", "MIN", "ONCE",
];
/// The beginnings of the names of number types.
const NUMBERS: [&str; 4] = ["u", "i", "f", "NonZero"];

/// Limits of production code that do not stand in a `limits.rs`.
pub(crate) fn limits_outside(source: &Source) -> Vec<usize> {
    if source.path.ends_with("/limits.rs") {
        return vec![];
    }
    let code = &source.production;
    let declared = ["const ", "static "]
        .into_iter()
        .flat_map(|keyword| all_words(code, keyword.trim_end()).map(move |at| (at, at + keyword.len())));
    declared.filter(|(_, name)| code.get(*name..).is_some_and(is_limit)).map(|(at, _)| at).collect()
}

/// Whether the constant that is declared here is a limit.
fn is_limit(declared: &str) -> bool {
    let name = name_at(declared, 0);
    let Some(rest) = declared[name.len()..].strip_prefix(':') else { return false };
    let of_type = rest.split(['=', ';']).next().unwrap_or("").trim();
    let is_constant =
        !name.is_empty() && name.bytes().all(|byte| is_name(byte) && !byte.is_ascii_lowercase());
    let last = of_type.rsplit("::").next().unwrap_or("");
    let is_number = NUMBERS.iter().any(|begin| {
        last.strip_prefix(begin)
            .is_some_and(|rest| *begin == "NonZero" || rest == "size" || rest.parse::<u8>().is_ok())
    });
    let is_named_so = name.split('_').any(|word| LIMIT_WORDS.contains(&word));
    is_constant && (of_type.contains("Duration") || is_number && is_named_so)
}

#[test]
fn limits_outside_their_file_are_counted() {
    let text = "const PAGE: usize = 1;\npub(crate) const A_B: Duration = c;\nconst LOOK_EVERY: std::time::Duration = d;\n\
                const ROWS_MAX: u32 = 2;\nconst MAXIMA: u32 = 2;\nconst NAMES_MAX: &str = \"\";\nconst fn max() {}\n\
                // const PAGE: usize\n#[cfg(test)]\nmod tests { const PAGE: usize = 3; }\n\
                const SHARE_MAX: f64 = 1.0; static PAUSES: [Duration; 2] = e; impl A { const B_MAX: NonZeroU32 = f; }";
    let count = |path: &str| limits_outside(&Source::new(path, text)).len();
    for member in super::source::members() {
        assert_eq!(count(&format!("{member}/src/a.rs")), 7, "{member}");
        assert_eq!(count(&format!("{member}/src/a/limits.rs")), 0, "{member}");
        assert_eq!(count(&format!("{member}/src/a/tests.rs")), 0, "{member}");
    }
}
