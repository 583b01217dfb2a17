//! Comments that make their reader work: words that need a translation, beginnings without a noun, lines
//! wider than code may be.

use super::scan::all_words;
use super::source::Source;

/// The columns that `rustfmt` gives code; it does not wrap comments.
const WIDTH: usize = 110;

/// Words that make a comment need a translation. A sentence names its actor and its number, and programs do
/// not hear, know, tell or meet.
const DIALECT: [&str; 31] = [
    "whoever",
    "whatever",
    "somebody",
    "nobody",
    "anybody",
    "anew",
    "is none",
    "are none",
    "is no",
    "are no",
    "so many",
    "so long",
    "for who",
    "those who",
    "who is",
    "who has",
    "be had",
    "is had",
    "tells",
    "told",
    "hears",
    "heard",
    "knows",
    "knew",
    "learns",
    "learnt",
    "meets",
    "met",
    "all the same",
    "a moment ago",
    "says so",
];
/// The same at the beginning of a sentence: a clause for a subject.
const DIALECT_SUBJECTS: [&str; 3] = ["What ", "Who ", "Whose "];

/// Pronouns whose noun a reader would have to look for, since a comment begins with it.
const PRONOUNS: [&str; 11] =
    ["It", "Its", "They", "Them", "Their", "Theirs", "That", "Those", "Others", "Which", "Whose"];

/// Pronouns unless a noun follows ("One byte", "Another node").
const NUMERALS: [&str; 3] = ["One", "Another", "These"];

/// Words behind a numeral that do not begin a noun.
const NO_NOUNS: [&str; 45] = [
    "of", "that", "which", "who", "whose", "with", "without", "is", "are", "was", "were", "has", "have",
    "had", "may", "can", "cannot", "could", "must", "would", "will", "does", "do", "goes", "in", "at", "on",
    "by", "for", "from", "to", "behind", "before", "after", "as", "than", "and", "or", "if", "while", "not",
    "there", "more", "less", "asked",
];

/// Words of dialect in comments.
pub(crate) fn dialect(source: &Source) -> Vec<usize> {
    let of_line = |(at, line)| std::iter::repeat_n(at, dialect_of_line(line));
    source.comment_lines().flat_map(of_line).collect()
}

fn dialect_of_line(line: &str) -> usize {
    let text = without_marker(line);
    let lower = text.to_lowercase();
    let words = DIALECT.iter().map(|word| all_words(&lower, word).count());
    let begins = |at: usize| at == 0 || text[..at].ends_with(". ") || text[..at].ends_with(": ");
    let subjects =
        DIALECT_SUBJECTS.iter().map(|word| text.match_indices(word).filter(|(at, _)| begins(*at)).count());
    words.chain(subjects).sum()
}

fn without_marker(line: &str) -> &str {
    line.trim_start_matches(['/', '!', '*']).trim_start()
}

/// Comments that begin with a pronoun and no noun: "Those that", "One of", "Its", "Of these".
pub(crate) fn pronouns(source: &Source) -> Vec<usize> {
    let begins_so = |line: &str| {
        let mut words = without_marker(line).split_whitespace();
        let first = words.next().unwrap_or("");
        let plain = first.trim_end_matches(['.', ',', ':', ';', '?']);
        let next = words.next().unwrap_or("").trim_end_matches(['.', ',', ':', ';']);
        let has_end = plain.len() < first.len();
        let is_no_noun = has_end || next.is_empty() || NO_NOUNS.contains(&next);
        let of_one = ["these", "those", "them", "it", "one", "which", "whom", "both"].contains(&next);
        PRONOUNS.contains(&plain) || NUMERALS.contains(&plain) && is_no_noun || plain == "Of" && of_one
    };
    source.comment_heads().filter(|(_, line)| begins_so(line)).map(|(at, _)| at).collect()
}

/// Comments that reach further right than code may.
pub(crate) fn wide_comments(source: &Source) -> Vec<usize> {
    let is_wide = |at: usize| source.line_at(at).chars().count() > WIDTH;
    source.comment_lines().map(|(at, _)| at).filter(|at| is_wide(*at)).collect()
}

#[test]
fn dialect_is_counted_in_comments_by_word() {
    let count = |text: &str| dialect(&Source::new("node/src/a.rs", text)).len();
    assert_eq!(count("/// Nobody is told. What it holds is none of ours.\nfn told() {}"), 4);
    assert_eq!(count("//! Who asks.\n// It has met whatever: What else"), 4);
    assert_eq!(count("// Somewhat; untold, metres, a question of What.\nlet a = \"nobody\";"), 0);
    assert_eq!(count("a(); // Nobody waits.\nlet b = \"\n// nobody\";"), 1);
}

#[test]
fn comments_that_begin_without_a_noun_are_counted() {
    let count = |text: &str| pronouns(&Source::new("node/src/a.rs", text)).len();
    for head in [
        "Those that a volume has.",
        "One of the holders is away.",
        "One.",
        "It lost it, and has no guarantees.",
        "Another than the one that was judged.",
        "Its rows.",
        "Of these the last.",
        "Which shard it is.",
        "That of the CA.",
        "They are gone.",
        "Others, too.",
    ] {
        for marker in ["//", "///", "//!", "let a = 1; //"] {
            assert_eq!(count(&format!("{marker} {head}\n")), 1, "{marker} {head}");
        }
    }
    for text in [
        "// One byte a shard.",
        "// Another node's answer.",
        "// These rows are read.",
        "// The rows.\n// Its rows.",
        "/// Of two keys the first.",
        "// Item by item.",
        "let a = \"// Its\";",
        "",
    ] {
        assert_eq!(count(text), 0, "{text}");
    }
}

#[test]
fn comments_over_the_width_are_counted() {
    let line = |length: usize| format!("    // {}\n", "x".repeat(length - 7));
    let code = format!("let a = \"{}\";", "y".repeat(WIDTH));
    let text = format!("{}{}{code}\nlet b = 1;{}", line(WIDTH), line(WIDTH + 1), line(WIDTH));
    assert_eq!(wide_comments(&Source::new("node/src/a.rs", &text)).len(), 2);
}
