//! Patterns of `--include`, `--exclude` and `find --name`: `*` is any run of characters, `/` among them, `?`
//! is one character.

/// A pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    /// Takes a pattern as it was written.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self(pattern.into())
    }

    /// Whether the whole text matches. Steps are at most pattern times text.
    pub fn matches(&self, text: &str) -> bool {
        let (pattern, text): (Vec<char>, Vec<char>) = (self.0.chars().collect(), text.chars().collect());
        let (mut at, mut of) = (0, 0);
        // The last `*`, and the place in the text behind what it has taken.
        let mut star: Option<(usize, usize)> = None;
        while of < text.len() {
            match (pattern.get(at), star) {
                (Some('*'), _) => {
                    star = Some((at, of));
                    at += 1;
                }
                (Some('?'), _) => (at, of) = (at + 1, of + 1),
                (Some(letter), _) if Some(letter) == text.get(of) => (at, of) = (at + 1, of + 1),
                (_, Some((begin, taken))) => {
                    star = Some((begin, taken + 1));
                    (at, of) = (begin + 1, taken + 1);
                }
                (_, None) => return false,
            }
        }
        pattern.iter().skip(at).all(|letter| *letter == '*')
    }
}

/// Filters of names: a name takes part if no exclusion matches it and, where inclusions are given, one of
/// them does.
#[derive(Debug, Clone, Default)]
pub struct Filters {
    /// Patterns of which one must match, where there are any.
    pub include: Vec<Glob>,
    /// Patterns of which none may match.
    pub exclude: Vec<Glob>,
}

impl Filters {
    /// Whether a name, relative to what was asked for, takes part.
    pub fn take(&self, name: &str) -> bool {
        let included = self.include.is_empty() || self.include.iter().any(|glob| glob.matches(name));
        included && !self.exclude.iter().any(|glob| glob.matches(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, text, expected) in [
            ("*.jpg", "a/b.jpg", true),
            ("*.jpg", "a.jpg.txt", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("?", "\u{e9}", true),
            ("*", "", true),
            ("", "a", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("logs/*/x", "logs/2026/11/x", true),
        ] {
            assert_eq!(Glob::new(pattern).matches(text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_end_soon() {
        assert!(!Glob::new("*a".repeat(50)).matches(&"b".repeat(1_000)));
    }

    #[test]
    fn an_exclusion_wins() {
        let filters = Filters { include: vec![Glob::new("*.rs")], exclude: vec![Glob::new("t/*")] };
        let taken: Vec<_> =
            ["a.rs", "t/a.rs", "a.md"].into_iter().filter(|name| filters.take(name)).collect();
        assert_eq!(taken, ["a.rs"]);
        assert!(Filters::default().take("anything"));
    }
}
