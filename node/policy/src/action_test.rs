//! `Action` and `NotAction` of a statement: the actions that their texts match.
//!
//! Of a text that names S3, the set of actions that it matches is kept and nothing else. All names are walked
//! at once to find it, and what a name shares with the one before it is walked once. A text with wildcards
//! takes at most 2,700 steps, one without them some 200.

use std::sync::LazyLock;

use super::action::{ActionSet, index_of, s3_actions};
use super::bytes::allocated;
use super::limits::NAME_BYTES_MAX;
use super::pattern::{Glob, Pattern, TextForm};

/// A name of an action of S3, in lower case: texts are compared without regard to case.
#[derive(Debug)]
struct LowerName {
    text: String,
    /// Bytes that it begins with as the name before it does.
    shared: usize,
}

/// All of them, in the order of their table.
static LOWER_NAMES: LazyLock<Vec<LowerName>> = LazyLock::new(|| {
    let mut before = String::new();
    let lower = |(name, _): (&str, _)| {
        let text = name.to_ascii_lowercase();
        let shared = text.bytes().zip(before.bytes()).take_while(|(one, other)| one == other).count();
        before.clone_from(&text);
        LowerName { text, shared }
    };
    s3_actions().map(lower).collect()
});

/// `Action` or `NotAction`.
#[derive(Debug, Clone)]
pub(crate) struct ActionTest {
    is_negated: bool,
    /// The actions of S3 that it matches.
    pub(crate) of_s3: ActionSet,
    /// Texts that name no service or another one than S3, in lower case.
    others: Box<[Glob]>,
}

impl ActionTest {
    /// Reads texts such as `*`, `s3:Get*` and `iam:CreateUser`. Beside the test stand the actions of S3 that
    /// each text matches.
    pub(crate) fn parse(texts: &[&str], is_negated: bool) -> (Self, Vec<ActionSet>) {
        let (mut matched, mut others) = (Vec::with_capacity(texts.len()), Vec::new());
        for text in texts {
            let text = text.to_ascii_lowercase();
            matched.push(match text.split_once(':') {
                Some(("s3", name)) => of_s3(name),
                // The name of a service has no wildcards.
                Some(_) => ActionSet::default(),
                None => ActionSet::all(),
            });
            if !text.starts_with("s3:") {
                let pattern = Pattern::parse(&text, TextForm { wildcards: true, variables: false });
                others.push(pattern.fixed().cloned().unwrap_or_else(Glob::any));
            }
        }
        let listed = matched.iter().copied().fold(ActionSet::default(), ActionSet::or);
        let of_s3 = if is_negated { ActionSet::all().without(listed) } else { listed };
        (Self { is_negated, of_s3, others: others.into() }, matched)
    }

    /// Bytes that it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        let globs: usize = self.others.iter().map(Glob::heap_bytes).sum();
        size_of::<Self>() + allocated(size_of_val(&*self.others)) + globs
    }

    pub(crate) const fn is_negated(&self) -> bool {
        self.is_negated
    }

    /// Whether the test matches actions of S3 alone.
    pub(crate) fn is_of_s3_alone(&self) -> bool {
        !self.is_negated && self.others.is_empty()
    }

    /// Whether the test matches an action. An action that S3 does not have is matched only by texts that do
    /// not name S3.
    pub(crate) fn matches(&self, action: &str) -> bool {
        if let Some(index) = index_of(action) {
            return self.of_s3.has(index);
        }
        let action = action.to_ascii_lowercase();
        self.others.iter().any(|glob| glob.matches(&action)) != self.is_negated
    }
}

/// The actions of S3 whose names a text in lower case matches.
///
/// Bit `n` of a state is set where the bytes that were walked match the first `n` letters and `?` of the
/// text, with all `*` before and between them.
fn of_s3(text: &str) -> ActionSet {
    let (mut stars, mut any_one, mut letters, mut place) = (0_u64, 0_u64, [0_u64; 128], 0);
    for byte in text.bytes() {
        if byte == b'*' {
            stars |= 1 << place;
            continue;
        }
        if place == NAME_BYTES_MAX {
            return ActionSet::default();
        }
        match byte {
            b'?' => any_one |= 1 << place,
            _ => letters[usize::from(byte & 0x7F)] |= 1 << place,
        }
        place += 1;
    }
    let whole = 1_u64 << place;
    let mut found = ActionSet::default();
    let mut states = [1_u64; NAME_BYTES_MAX + 1];
    // The first bytes with which no name matches, as many as the last of them.
    let mut dead = usize::MAX;
    for (index, name) in LOWER_NAMES.iter().enumerate() {
        if name.shared >= dead {
            continue;
        }
        dead = usize::MAX;
        for (at, byte) in name.text.bytes().enumerate().skip(name.shared) {
            let state = states[at];
            states[at + 1] = (state & (letters[usize::from(byte)] | any_one)) << 1 | state & stars;
            if states[at + 1] == 0 {
                dead = at + 1;
                break;
            }
        }
        if dead == usize::MAX && states[name.text.len()] & whole != 0 {
            found.add(index);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_have_letters_alone_and_fit_a_state() {
        for name in &*LOWER_NAMES {
            assert!(name.text.len() <= NAME_BYTES_MAX, "{}", name.text);
            assert!(name.text.bytes().all(|byte| byte.is_ascii_lowercase()), "{}", name.text);
        }
        let steps: usize = LOWER_NAMES.iter().map(|name| name.text.len() - name.shared).sum();
        assert!(steps <= 2700, "{steps} steps for a text of any wildcards");
    }

    /// The names that a glob of the whole text matches, each by itself.
    fn plainly(text: &str) -> Vec<&'static str> {
        let pattern =
            Pattern::parse(&text.to_ascii_lowercase(), TextForm { wildcards: true, variables: false });
        let glob = pattern.fixed().expect("no variables").clone();
        let names = s3_actions().map(|(name, _)| name);
        names.filter(|name| glob.matches(&format!("s3:{}", name.to_ascii_lowercase()))).collect()
    }

    fn names_of(text: &str) -> Vec<&'static str> {
        let (read, each) = ActionTest::parse(&[text], false);
        assert_eq!(each, [read.of_s3]);
        let names = s3_actions().enumerate().filter(|(index, _)| read.of_s3.has(*index));
        names.map(|(_, (name, _))| name).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_text_matches_the_names_that_its_glob_matches(
            place in 0..s3_actions().count(), edits in proptest::collection::vec((any::<prop::sample::Index>(), "[*?aeGt]"), 0..6),
            cut in any::<prop::sample::Index>(), tail in "[*?]{0,3}",
        ) {
            let (name, _) = s3_actions().nth(place).expect("a place of the table");
            let mut text = name.to_owned();
            for (at, letter) in edits {
                let at = at.index(text.len());
                text.replace_range(at..=at, &letter);
            }
            text.truncate(cut.index(text.len() + 1));
            let text = format!("s3:{text}{tail}");
            prop_assert_eq!(names_of(&text), plainly(&text), "{}", text);
        }
    }

    #[test]
    fn texts_match_names_in_any_case() {
        for text in
            ["s3:*", "S3:get?bject", "s3:*object*", "s3:?*", "s3:GetObject", "s3:*Acl", "s3:x", "s3:**"]
        {
            assert_eq!(names_of(text), plainly(text), "{text}");
        }
        assert_eq!(names_of("*").len(), s3_actions().count());
        assert_eq!(names_of("s3:getobject"), ["GetObject"]);
        assert_eq!(names_of(&format!("s3:{}*", "?".repeat(200))), [""; 0]);
        assert_eq!(names_of(&format!("s3:{}", "*".repeat(200))).len(), s3_actions().count());
    }

    #[test]
    fn a_test_is_about_the_services_that_its_texts_name() {
        let test = |texts: &[&str], is_negated| ActionTest::parse(texts, is_negated).0;
        for (texts, is_negated, action, expected) in [
            (&["*"][..], false, "iam:GetUser", true),
            (&["*"], true, "s3:GetObject", false),
            (&["s3:*"], false, "iam:GetUser", false),
            (&["s3:*"], true, "iam:GetUser", true),
            (&["s3:Get*", "IAM:get*"], false, "iam:GetUser", true),
            (&["iam:*"], false, "s3:GetObject", false),
            (&["iam:*"], true, "s3:GetObject", true),
            (&["s3:Put*"], true, "s3:GetObject", true),
        ] {
            assert_eq!(test(texts, is_negated).matches(action), expected, "{texts:?} {is_negated} {action}");
        }
        assert!(test(&["s3:Get*", "S3:Put*"], false).is_of_s3_alone());
        assert!(!test(&["s3:Get*"], true).is_of_s3_alone());
        assert!(!test(&["s3:*", "iam:*"], false).is_of_s3_alone());
        assert_eq!(test(&["s3:Get*"; 9], false).bytes(), size_of::<ActionTest>());
    }
}
