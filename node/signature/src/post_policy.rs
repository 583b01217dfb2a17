//! The policy of a form: what its signer lets others upload, and until when.
//!
//! ```text
//! { "expiration": "2015-12-30T12:00:00.000Z",
//!   "conditions": [ {"bucket": "b"}, ["eq", "$acl", "private"], ["starts-with", "$key", "user/"],
//!                   ["content-length-range", 1, 1048576] ] }
//! ```
//! Every field needs a condition, and every condition a field. Case counts in values and not in names. AWS,
//! "POST Policy"; the texts of refusals, which the page does not have, are those that S3 answers.

use std::ops::RangeInclusive;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::amz_date::AmzDate;

/// Why a policy does not let a form pass, in S3's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The document cannot be read as a policy.
    #[error("Invalid Policy: {0}")]
    Document(DocumentFault),
    /// The policy's time is over.
    #[error("Invalid according to Policy: Policy expired.")]
    Expired,
    /// The form does not fulfil a condition.
    #[error("Invalid according to Policy: Policy Condition failed: {condition}")]
    ConditionFailed {
        /// The condition.
        condition: String,
    },
    /// The form has fields that no condition is about.
    #[error("Invalid according to Policy: Extra input fields: {names}")]
    ExtraFields {
        /// Names of the fields.
        names: String,
    },
}

/// A fault of a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentFault {
    /// The document is empty.
    #[error("Expecting '{{' but found End-of-Input")]
    Empty,
    /// The text is not base64.
    #[error("invalid Base64 encoding.")]
    Base64,
    /// The text is not JSON, names a member twice, or has a value of a type that does not belong there.
    #[error("Invalid JSON.")]
    Json,
    /// The policy has a member that policies do not have.
    #[error("Unexpected: '{name}'")]
    Unexpected {
        /// The member.
        name: String,
    },
    /// The policy does not say when it ends.
    #[error("Policy missing expiration.")]
    NoExpiration,
    /// The expiration cannot be read as a time.
    #[error("Invalid 'expiration' value: '{given}'")]
    Expiration {
        /// The text.
        given: String,
    },
    /// The policy has no conditions.
    #[error("Policy missing conditions.")]
    NoConditions,
    /// The conditions are not a list.
    #[error("Invalid 'conditions' value: must be a List.")]
    ConditionsType,
    /// A condition is neither a list nor an object.
    #[error("Invalid condition test: must be a List or Object.")]
    ConditionType,
    /// A condition is an empty list.
    #[error("Invalid Condition: missing operation identifier.")]
    NoOperation,
    /// A condition has an operation that policies do not have.
    #[error("Invalid Condition: unknown operation '{operation}'.")]
    UnknownOperation {
        /// The operation.
        operation: String,
    },
    /// A condition has too few or too many values.
    #[error("Invalid {operation}: wrong number of arguments.")]
    ArgumentCount {
        /// The condition's operation.
        operation: String,
    },
    /// An object has no member or several.
    #[error("Invalid Simple-Condition: Simple-Conditions must have exactly one property specified.")]
    SimpleCount,
    /// The member of an object is not a text.
    #[error("Invalid Simple-Condition: value must be a string.")]
    SimpleValue,
}

impl From<DocumentFault> for PolicyError {
    fn from(fault: DocumentFault) -> Self {
        Self::Document(fault)
    }
}

/// Fields that need no condition, beside those that begin with `x-ignore-`.
const WITHOUT_CONDITION: [&str; 5] = ["x-amz-signature", "awsaccesskeyid", "signature", "file", "policy"];
/// The field whose commas separate values.
const CONTENT_TYPE: &str = "content-type";

/// A policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostPolicy {
    expiration_ms: u64,
    conditions: Vec<Condition>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Condition {
    test: Test,
    /// The condition as S3 writes it.
    text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    /// The field has this value.
    Equals { field: Box<str>, value: String },
    /// The field begins with this.
    StartsWith { field: Box<str>, value: String },
    /// The length of the file is in this range.
    Length(RangeInclusive<u64>),
    /// A condition without a field, or without numbers: no form fulfils it.
    Never,
}

impl PostPolicy {
    /// Reads a policy as it stands in a form.
    ///
    /// # Errors
    /// [`PolicyError::Document`]
    pub fn parse(base64: &str) -> Result<Self, PolicyError> {
        let text = STANDARD.decode(base64.trim()).map_err(|_| DocumentFault::Base64)?;
        let text = String::from_utf8(text).map_err(|_| DocumentFault::Json)?;
        if text.trim().is_empty() {
            return Err(DocumentFault::Empty.into());
        }
        let text = strict(&text);
        if !sherd_policy::is_unambiguous(&text) {
            return Err(DocumentFault::Json.into());
        }
        let document = serde_json::from_str(&text).map_err(|_| DocumentFault::Json)?;
        let Value::Object(mut members) = document else { return Err(DocumentFault::Json.into()) };
        let (expiration, conditions) = (members.remove("expiration"), members.remove("conditions"));
        if let Some(name) = members.keys().next() {
            return Err(DocumentFault::Unexpected { name: name.to_lowercase() }.into());
        }
        let Value::String(expiration) = expiration.ok_or(DocumentFault::NoExpiration)? else {
            return Err(DocumentFault::Json.into());
        };
        let instant = instant(&expiration);
        let expiration_ms = instant.ok_or(DocumentFault::Expiration { given: expiration })?;
        let Value::Array(conditions) = conditions.ok_or(DocumentFault::NoConditions)? else {
            return Err(DocumentFault::ConditionsType.into());
        };
        let conditions = conditions.into_iter().map(Condition::of).collect::<Result<_, _>>()?;
        Ok(Self { expiration_ms, conditions })
    }

    /// Judges a form by its fields, each a name and a value, the bucket among them. Gives the bounds of its
    /// file.
    ///
    /// # Errors
    /// [`PolicyError`]: the first condition that fails, or else the fields that no condition is about.
    pub fn judge(&self, now_ms: u64, fields: &[(&str, &str)]) -> Result<RangeInclusive<u64>, PolicyError> {
        if now_ms > self.expiration_ms {
            return Err(PolicyError::Expired);
        }
        let value_of = |wanted: &str| {
            fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| *value)
        };
        let (mut min, mut max) = (0, u64::MAX);
        for Condition { test, text } in &self.conditions {
            let holds = match test {
                Test::Equals { field, value } => value_of(field) == Some(value),
                Test::StartsWith { field, value } => value_of(field).is_some_and(|sent| {
                    if &**field == CONTENT_TYPE {
                        sent.split(',').all(|listed| listed.trim().starts_with(value.as_str()))
                    } else {
                        sent.starts_with(value.as_str())
                    }
                }),
                Test::Length(range) => {
                    (min, max) = (min.max(*range.start()), max.min(*range.end()));
                    true
                }
                Test::Never => false,
            };
            if !holds {
                return Err(PolicyError::ConditionFailed { condition: text.clone() });
            }
        }
        let extra: Vec<&str> =
            fields.iter().map(|(name, _)| *name).filter(|name| !self.covers(name)).collect();
        if extra.is_empty() {
            Ok(min..=max)
        } else {
            Err(PolicyError::ExtraFields { names: extra.join(", ") })
        }
    }

    /// Whether a field may be there.
    fn covers(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        WITHOUT_CONDITION.contains(&name.as_str())
            || name.starts_with("x-ignore-")
            || self.conditions.iter().any(|condition| match &condition.test {
                Test::Equals { field, .. } | Test::StartsWith { field, .. } => **field == name,
                Test::Length(_) | Test::Never => false,
            })
    }
}

impl Condition {
    fn of(condition: Value) -> Result<Self, DocumentFault> {
        match condition {
            Value::Object(members) => {
                let mut members = members.into_iter();
                let (Some((name, value)), None) = (members.next(), members.next()) else {
                    return Err(DocumentFault::SimpleCount);
                };
                match value {
                    Value::String(value) => Ok(Self::equals("eq", &format!("${name}"), value)),
                    Value::Null => Err(DocumentFault::Json),
                    _ => Err(DocumentFault::SimpleValue),
                }
            }
            Value::Array(values) => Self::of_list(values),
            _ => Err(DocumentFault::ConditionType),
        }
    }

    fn of_list(values: Vec<Value>) -> Result<Self, DocumentFault> {
        let mut values = values.into_iter();
        let operation = match values.next() {
            None => return Err(DocumentFault::NoOperation),
            Some(Value::String(operation)) => operation,
            Some(_) => return Err(DocumentFault::Json),
        };
        let operand = |value: Option<Value>| match value {
            None => Err(DocumentFault::ArgumentCount { operation: operation.clone() }),
            Some(value) => Ok(value),
        };
        let (first, second) = (operand(values.next())?, operand(values.next())?);
        let is_whole = values.next().is_none();
        let lower = operation.to_ascii_lowercase();
        if !matches!(lower.as_str(), "eq" | "starts-with" | "content-length-range") {
            return Err(DocumentFault::UnknownOperation { operation });
        }
        if !is_whole {
            return Err(DocumentFault::ArgumentCount { operation });
        }
        if lower == "content-length-range" {
            return Self::length(&operation, &first, &second);
        }
        let (Value::String(name), Value::String(value)) = (first, second) else {
            return Err(DocumentFault::Json);
        };
        Ok(match lower.as_str() {
            "eq" => Self::equals(&operation, &name, value),
            _ => Self::starts_with(&operation, &name, value),
        })
    }

    fn equals(operation: &str, name: &str, value: String) -> Self {
        Self {
            text: written(operation, &name.into(), &value.as_str().into()),
            test: field(name).map_or(Test::Never, |field| Test::Equals { field, value }),
        }
    }

    fn starts_with(operation: &str, name: &str, value: String) -> Self {
        Self {
            text: written(operation, &name.into(), &value.as_str().into()),
            test: field(name).map_or(Test::Never, |field| Test::StartsWith { field, value }),
        }
    }

    /// A range: numbers, or texts that are numbers.
    fn length(operation: &str, min: &Value, max: &Value) -> Result<Self, DocumentFault> {
        let bound = |value: &Value| match value {
            Value::Number(number) => number.as_u64().map(Some).ok_or(DocumentFault::Json),
            Value::String(text) => Ok(text.parse().ok()),
            _ => Err(DocumentFault::Json),
        };
        let test = match (bound(min)?, bound(max)?) {
            (Some(min), Some(max)) => Test::Length(min..=max),
            _ => Test::Never,
        };
        Ok(Self { test, text: written(operation, min, max) })
    }
}

/// The field that `$field` names.
fn field(name: &str) -> Option<Box<str>> {
    name.strip_prefix('$').map(|name| name.to_ascii_lowercase().into())
}

/// A condition as S3 writes it.
fn written(operation: &str, first: &Value, second: &Value) -> String {
    format!("[{}, {first}, {second}]", Value::from(operation))
}

/// The instant that `2015-12-30T12:00:00Z` names, with or without a fraction of its second, in milliseconds.
fn instant(text: &str) -> Option<u64> {
    let (second, fraction) = text.strip_suffix('Z')?.split_at_checked(19)?;
    let is_fraction = match fraction.strip_prefix('.') {
        Some(digits) => !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()),
        None => fraction.is_empty(),
    };
    let is_written_so = second.bytes().enumerate().all(|(place, byte)| match place {
        4 | 7 => byte == b'-',
        10 => byte == b'T',
        13 | 16 => byte == b':',
        _ => byte.is_ascii_digit(),
    });
    if !is_fraction || !is_written_so {
        return None;
    }
    let basic: String = second.chars().filter(|character| !matches!(character, '-' | ':')).collect();
    let seconds = AmzDate::parse(format!("{basic}Z").as_bytes())?.as_ms();
    let digits = fraction.bytes().skip(1).chain([b'0'; 3]).take(3);
    Some(seconds + digits.fold(0, |ms, digit| ms * 10 + u64::from(digit - b'0')))
}

/// The document as strict JSON: AWS's page has the escapes `\$` and `\v`, and a comma behind its last
/// condition.
fn strict(text: &str) -> String {
    let mut strict = String::with_capacity(text.len());
    let mut characters = text.chars();
    let mut in_text = false;
    while let Some(character) = characters.next() {
        match character {
            '\\' if in_text => match characters.next() {
                Some('$') => strict.push('$'),
                Some('v') => strict.push_str("\\u000b"),
                Some(escaped) => strict.extend(['\\', escaped]),
                None => strict.push('\\'),
            },
            '"' => {
                in_text = !in_text;
                strict.push('"');
            }
            ',' if !in_text && characters.as_str().trim_start().starts_with([']', '}']) => {}
            _ => strict.push(character),
        }
    }
    strict
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON_MS: u64 = 1_451_476_800_000;
    const FIELDS: [(&str, &str); 3] = [("bucket", "b"), ("key", "user/a.png"), ("Content-Type", "image/png")];

    fn parse(document: &str) -> Result<PostPolicy, PolicyError> {
        PostPolicy::parse(&STANDARD.encode(document))
    }

    /// A policy that covers [`FIELDS`], with these conditions besides.
    fn policy(conditions: &str) -> Result<PostPolicy, PolicyError> {
        let covered = r#"{"bucket": "b"}, ["starts-with", "$key", ""], ["starts-with", "$Content-Type", ""]"#;
        parse(&format!(r#"{{"expiration": "2015-12-30T12:00:00Z", "conditions": [{covered}{conditions}]}}"#))
    }

    fn fault(document: &str) -> String {
        parse(document).expect_err(document).to_string()
    }

    #[test]
    fn documents_that_are_no_policies_are_refused_in_the_words_of_s3() {
        let with = |conditions: &str| {
            format!(r#"{{"expiration": "2015-12-30T12:00:00Z", "conditions": {conditions}}}"#)
        };
        for (document, message) in [
            ("", "Expecting '{' but found End-of-Input".to_owned()),
            ("{", "Invalid JSON.".to_owned()),
            ("[]", "Invalid JSON.".to_owned()),
            (r#"{"conditions": []}"#, "Policy missing expiration.".to_owned()),
            (r#"{"expiration": "2015-12-30T12:00:00Z"}"#, "Policy missing conditions.".to_owned()),
            (r#"{"Expiration": "x"}"#, "Unexpected: 'expiration'".to_owned()),
            (
                r#"{"expiration": "x", "conditions": [], "Statement": 1}"#,
                "Unexpected: 'statement'".to_owned(),
            ),
            (r#"{"expiration": 1, "conditions": []}"#, "Invalid JSON.".to_owned()),
            (&(with("[]").replace('}', "") + r#", "conditions": []}"#), "Invalid JSON.".to_owned()),
            (&with(r#"[{"acl": "private", "acl": "public-read"}]"#), "Invalid JSON.".to_owned()),
            (&with("1"), "Invalid 'conditions' value: must be a List.".to_owned()),
            (&with("[1]"), "Invalid condition test: must be a List or Object.".to_owned()),
            (&with("[[]]"), "Invalid Condition: missing operation identifier.".to_owned()),
            (&with("[[1]]"), "Invalid JSON.".to_owned()),
            (
                &with(r#"[["ends-with", "$key", "a"]]"#),
                "Invalid Condition: unknown operation 'ends-with'.".to_owned(),
            ),
            (&with(r#"[["eq", "$key"]]"#), "Invalid eq: wrong number of arguments.".to_owned()),
            (&with(r#"[["eq", "$key", "a", "b"]]"#), "Invalid eq: wrong number of arguments.".to_owned()),
            (&with(r#"[["eq", "$key", 1]]"#), "Invalid JSON.".to_owned()),
            (
                &with(r#"[["content-length-range", 0]]"#),
                "Invalid content-length-range: wrong number of arguments.".to_owned(),
            ),
            (&with(r#"[["content-length-range", -1, 0]]"#), "Invalid JSON.".to_owned()),
            (&with(r#"[["content-length-range", 0, 1.5]]"#), "Invalid JSON.".to_owned()),
            (&with(r#"[["content-length-range", 0, false]]"#), "Invalid JSON.".to_owned()),
            (
                &with("[{}]"),
                "Invalid Simple-Condition: Simple-Conditions must have exactly one property specified."
                    .to_owned(),
            ),
            (
                &with(r#"[{"a": "b", "c": "d"}]"#),
                "Invalid Simple-Condition: Simple-Conditions must have exactly one property specified."
                    .to_owned(),
            ),
            (&with(r#"[{"a": 1}]"#), "Invalid Simple-Condition: value must be a string.".to_owned()),
            (&with(r#"[{"a": null}]"#), "Invalid JSON.".to_owned()),
        ] {
            assert_eq!(fault(document), format!("Invalid Policy: {message}"), "{document}");
        }
        assert_eq!(PostPolicy::parse("no base64!").expect_err("none"), DocumentFault::Base64.into());
    }

    #[test]
    fn an_expiration_is_an_instant_of_utc() {
        let at = |text: &str| instant(text);
        assert_eq!(at("2015-12-30T12:00:00Z"), Some(NOON_MS));
        assert_eq!(at("2015-12-30T12:00:00.000Z"), Some(NOON_MS));
        assert_eq!(at("2015-12-30T12:00:00.5Z"), Some(NOON_MS + 500));
        assert_eq!(at("2015-12-30T12:00:00.123456Z"), Some(NOON_MS + 123));
        for none in [
            "2015-12-30 12:00:00 UTC",
            "2015-12-30T12:00:00",
            "2015-12-30T12:00:00+02:00",
            "2015-12-30T12:00:00.Z",
            "2015-12-30T12:00Z",
            "2015-13-30T12:00:00Z",
            "20151230T120000Z",
            "",
            "\u{e9}015-12-30T12:00:00Z",
        ] {
            assert_eq!(at(none), None, "{none}");
            let document = format!(r#"{{"expiration": "{none}", "conditions": []}}"#);
            assert_eq!(fault(&document), format!("Invalid Policy: Invalid 'expiration' value: '{none}'"));
        }
        let policy = policy("").expect("a policy");
        assert!(policy.judge(NOON_MS, &FIELDS).is_ok());
        assert_eq!(policy.judge(NOON_MS + 1, &FIELDS), Err(PolicyError::Expired));
    }

    #[test]
    fn conditions_are_judged_by_the_fields_of_the_form() {
        for (condition, fulfilled) in [
            (r#"{"key": "user/a.png"}"#, true),
            (r#"{"KEY": "user/a.png"}"#, true),
            (r#"{"key": "User/a.png"}"#, false),
            (r#"["eq", "$Key", "user/a.png"]"#, true),
            (r#"["eq", "key", "user/a.png"]"#, false),
            (r#"["eq", "$bucket", "other"]"#, false),
            (r#"["StArTs-WiTh", "$kEy", "user/"]"#, true),
            (r#"["starts-with", "$key", "User/"]"#, false),
            (r#"["starts-with", "$acl", ""]"#, false),
            (r#"["starts-with", "$Content-Type", "image/"]"#, true),
            (r#"["content-length-range", "a", "10"]"#, false),
        ] {
            let judged = policy(&format!(", {condition}")).expect("a policy").judge(NOON_MS, &FIELDS);
            assert_eq!(judged.is_ok(), fulfilled, "{condition}: {judged:?}");
        }
        for (sent, fulfilled) in [
            ("image/jpg,image/png, image/gif", true),
            ("image/jpg,text/plain", false),
            ("text/image/", false),
        ] {
            let fields = [FIELDS[0], FIELDS[1], ("content-type", sent)];
            let judged = policy(r#", ["starts-with", "$content-type", "image/"]"#).expect("a policy");
            assert_eq!(judged.judge(NOON_MS, &fields).is_ok(), fulfilled, "{sent}");
        }
    }

    #[test]
    fn a_condition_that_fails_is_written_as_s3_writes_it() {
        for (condition, written) in [
            (r#"{"key": "say \"a\""}"#, r#"["eq", "$key", "say \"a\""]"#),
            (r#"["eq","$Key","a"]"#, r#"["eq", "$Key", "a"]"#),
            (r#"["eq", "key", "a"]"#, r#"["eq", "key", "a"]"#),
            (r#"["content-length-range", "test", 10]"#, r#"["content-length-range", "test", 10]"#),
        ] {
            let refused = policy(&format!(", {condition}")).expect("a policy").judge(NOON_MS, &FIELDS);
            let message = format!("Invalid according to Policy: Policy Condition failed: {written}");
            assert_eq!(refused.expect_err(condition).to_string(), message);
        }
    }

    #[test]
    fn every_field_needs_a_condition() {
        let free = [
            ("x-amz-signature", ""),
            ("AWSAccessKeyId", ""),
            ("Signature", ""),
            ("Policy", ""),
            ("file", ""),
            ("X-Ignore-a", ""),
        ];
        let policy = policy("").expect("a policy");
        let all: Vec<_> = FIELDS.into_iter().chain(free).collect();
        assert!(policy.judge(NOON_MS, &all).is_ok());
        let extra: Vec<_> = all.into_iter().chain([("StorageClass", "a"), ("acl", "private")]).collect();
        let refused = policy.judge(NOON_MS, &extra).expect_err("two of them");
        assert_eq!(refused.to_string(), "Invalid according to Policy: Extra input fields: StorageClass, acl");
    }

    #[test]
    fn ranges_bound_the_file_together() {
        let range = |conditions: &str| policy(conditions).expect("a policy").judge(NOON_MS, &FIELDS);
        assert_eq!(range(""), Ok(0..=u64::MAX));
        assert_eq!(range(r#", ["content-length-range", 5, 10]"#), Ok(5..=10));
        assert_eq!(
            range(r#", ["content-length-range", "5", "10"], ["content-length-range", 7, 20]"#),
            Ok(7..=10)
        );
        let none = range(r#", ["content-length-range", 10, 5]"#).expect("a range");
        assert!(none.is_empty(), "no file has such a length");
    }

    #[test]
    fn texts_are_escaped_as_the_page_of_aws_says() {
        let policy = policy(r#", {"key": "\$a\\$b\v\u00e9,]"},"#).expect("a comma behind the last");
        let fields = [FIELDS[0], ("key", "$a\\$b\u{b}\u{e9},]"), FIELDS[2]];
        assert!(policy.judge(NOON_MS, &fields).is_ok());
        assert_eq!(fault(r#"{"expiration": "\x"}"#), "Invalid Policy: Invalid JSON.");
    }
}
