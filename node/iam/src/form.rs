//! The parameters of a request, as a form sends them: `Action=GetUser&UserName=ada`.
//!
//! Called for the body of a POST, and for the query of a GET.

#![deny(clippy::indexing_slicing)]

use percent_encoding::percent_decode;

use crate::limits::PARAMETERS_MAX;

/// The parameters of a request, each named once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Form {
    pairs: Vec<(String, String)>,
}

/// Text that makes no form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadForm {
    /// The text has too many parameters.
    #[error("more than {PARAMETERS_MAX} parameters")]
    TooMany,
    /// A name or a value does not decode to text.
    #[error("a parameter is not UTF-8")]
    NotText,
    /// A parameter is there twice.
    #[error("a parameter is there twice")]
    Twice,
    /// A member of a list has another number than members have.
    #[error("the members of a list have numbers from 1 to {PARAMETERS_MAX}")]
    Member,
}

impl Form {
    /// Takes a form apart. Empty pairs (`&&`) are nothing, and `+` is a blank.
    ///
    /// # Errors
    /// [`BadForm`].
    pub fn parse(text: &[u8]) -> Result<Self, BadForm> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in text.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
            if pairs.len() == PARAMETERS_MAX {
                return Err(BadForm::TooMany);
            }
            let (name, value) = match pair.iter().position(|byte| *byte == b'=') {
                Some(at) => pair.split_at(at),
                None => (pair, &b"="[..]),
            };
            let (name, value) = (decode(name)?, decode(value.split_first().map_or(&[], |(_, rest)| rest))?);
            if member(&name).is_some_and(|(_, number)| number.is_none()) {
                return Err(BadForm::Member);
            }
            if pairs.iter().any(|(known, _)| *known == name) {
                return Err(BadForm::Twice);
            }
            pairs.push((name, value));
        }
        Ok(Self { pairs })
    }

    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// How many members a list has: `Tags.member.1.Key` and `Tags.member.2.Key` make two of `Tags`.
    pub fn members(&self, list: &str) -> usize {
        let of_list =
            self.pairs.iter().filter_map(|(name, _)| member(name)).filter(|(name, _)| *name == list);
        of_list.filter_map(|(_, number)| number).max().unwrap_or(0)
    }
}

/// The list that a parameter is a member of, and its number; `None` where no member has that number.
fn member(name: &str) -> Option<(&str, Option<usize>)> {
    let (list, rest) = name.split_once(".member.")?;
    let text = rest.split('.').next().unwrap_or_default();
    // A number is written in one way, so that a member is there once.
    let number = text.parse().ok().filter(|number: &usize| number.to_string() == text);
    Some((list, number.filter(|number| (1..=PARAMETERS_MAX).contains(number))))
}

fn decode(text: &[u8]) -> Result<String, BadForm> {
    let blanks: Vec<u8> = text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    let decoded = percent_decode(&blanks).decode_utf8().map_err(|_| BadForm::NotText)?;
    Ok(decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_comes_apart() {
        let form = Form::parse(b"Action=GetUser&&UserName=a%2Bb+c&Empty&Last=a=b").expect("a form");
        assert_eq!(form.get("Action"), Some("GetUser"));
        assert_eq!(form.get("UserName"), Some("a+b c"));
        assert_eq!((form.get("Empty"), form.get("Last"), form.get("None")), (Some(""), Some("a=b"), None));
        assert_eq!(Form::parse(b"").expect("an empty form"), Form::default());
    }

    #[test]
    fn members_are_counted_by_their_highest_number() {
        let form =
            Form::parse(b"Tags.member.1.Key=a&Tags.member.3.Key=b&TagKeys.member.1=c").expect("a form");
        assert_eq!((form.members("Tags"), form.members("TagKeys"), form.members("Tag")), (3, 1, 0));
        let form = Form::parse(b"A.member.256=a&A.B.member.7.C=b").expect("a form");
        assert_eq!((form.members("A"), form.members("A.B")), (PARAMETERS_MAX, 7));
        for number in ["0", "-1", "01", "+1", "", "x", "257", "99999999999999999999"] {
            for name in [format!("Tags.member.{number}.Key"), format!("TagKeys.member.{number}")] {
                assert_eq!(Form::parse(name.as_bytes()), Err(BadForm::Member), "{name}");
            }
        }
    }

    #[test]
    fn other_text_is_refused() {
        assert_eq!(Form::parse(b"a=%ff"), Err(BadForm::NotText));
        assert_eq!(Form::parse(b"a=1&%61=2"), Err(BadForm::Twice));
        let many: Vec<_> = (0..=PARAMETERS_MAX).map(|number| format!("p{number}=v")).collect();
        assert_eq!(Form::parse(many.join("&").as_bytes()), Err(BadForm::TooMany));
    }
}
