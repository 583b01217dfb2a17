//! The facts of a simulated request: the context entries that the parameters give.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use sherd_policy::{Facts, KeyName, Values};
use sherd_signature::amz_date::AmzDate;

use crate::authorize::ATTACHMENTS;
use crate::fault::Fault;
use crate::limits::{CONTEXT_BYTES_MAX, CONTEXT_VALUE_BYTES_MAX};
use crate::request::ActionRequest;

/// The types of values, each with whether an entry of it is a list (AWS, "ContextEntry").
const TYPES: [(&str, bool); 12] = [
    ("string", false),
    ("stringList", true),
    ("numeric", false),
    ("numericList", true),
    ("boolean", false),
    ("booleanList", true),
    ("ip", false),
    ("ipList", true),
    ("binary", false),
    ("binaryList", true),
    ("date", false),
    ("dateList", true),
];
/// The keys that requests to IAM have, beside those of their caller.
const OF_IAM: [KeyName; 9] = [
    KeyName::SourceIp,
    KeyName::SecureTransport,
    KeyName::UserAgent,
    KeyName::CurrentTime,
    KeyName::EpochTime,
    KeyName::RequestTag,
    KeyName::TagKeys,
    KeyName::ResourceTag,
    KeyName::IamResourceTag,
];

/// The parameter `ContextEntries`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ContextEntries {
    /// The values by key: its name in lower case, and the key of a tag as it is given.
    values: BTreeMap<(String, String), Vec<String>>,
}

/// The facts of a request for an action. Keys that no request for it has are absent, although they are given.
pub(crate) struct SimulatedFacts<'a> {
    pub(crate) entries: &'a ContextEntries,
    pub(crate) action: &'a str,
}

impl ContextEntries {
    /// Reads `ContextEntries`.
    pub(crate) fn of(request: &ActionRequest) -> Result<Self, Fault> {
        let mut entries = Self::default();
        for number in 1..=request.form.members("ContextEntries") {
            let member = format!("ContextEntries.member.{number}");
            let key = request.required(&format!("{member}.ContextKeyName"))?;
            let kind = request.required(&format!("{member}.ContextKeyType"))?;
            let values = (1..)
                .map_while(|value| request.form.get(&format!("{member}.ContextKeyValues.member.{value}")))
                .map(str::to_owned);
            entries.add(key, kind, values.collect())?;
        }
        // Every request has a time, and that of a simulated one is now where the entries give no other.
        let now = [
            (KeyName::CurrentTime, AmzDate::from_ms(request.origin.asked_ms).extended()),
            (KeyName::EpochTime, (request.origin.asked_ms / 1000).to_string()),
        ];
        for (name, value) in now {
            entries.values.entry(key_parts(name.text())).or_insert_with(|| vec![value]);
        }
        Ok(entries)
    }

    fn add(&mut self, key: &str, kind: &str, values: Vec<String>) -> Result<(), Fault> {
        let bytes = |values: &[String]| values.iter().map(String::len).sum::<usize>();
        if values.iter().any(|value| value.len() > CONTEXT_VALUE_BYTES_MAX) {
            return Err(Fault::invalid_input(format!(
                "A value of a context key has at most {CONTEXT_VALUE_BYTES_MAX} bytes."
            )));
        }
        let before: usize = self.values.values().map(|values| bytes(values)).sum();
        if before + bytes(&values) > CONTEXT_BYTES_MAX {
            return Err(Fault::invalid_input(format!(
                "The values of ContextEntries have at most {CONTEXT_BYTES_MAX} bytes together."
            )));
        }
        let is_list = TYPES.iter().find(|(name, _)| *name == kind).map(|(_, is_list)| *is_list);
        let Some(is_list) = is_list else {
            let names: Vec<_> = TYPES.iter().map(|(name, _)| *name).collect();
            let constraint = format!("Member must satisfy enum value set: [{}]", names.join(", "));
            return Err(Fault::constraint("ContextKeyType", kind, &constraint));
        };
        if values.len() > 1 && !is_list {
            return Err(Fault::invalid_input(format!(
                "The context key {key} has several values and type {kind}."
            )));
        }
        if let Some(value) = values.iter().find(|value| !is_of_kind(kind, value)) {
            return Err(Fault::invalid_input(format!(
                "The value {value} of the context key {key} is no {kind}."
            )));
        }
        if self.values.insert(key_parts(key), values).is_some() {
            return Err(Fault::invalid_input(format!("The context key {key} is given twice.")));
        }
        Ok(())
    }

    /// The values of a key that are given.
    pub(crate) fn get(&self, key: &str) -> Option<&[String]> {
        let (name, tag) = key_parts(key);
        // S3 compares the keys of objects' tags with case, and IAM all others without.
        let has_case = name.starts_with("s3:");
        let is_tag = |given: &str| if has_case { given == tag } else { given.eq_ignore_ascii_case(&tag) };
        let mut of_name = self.values.iter().filter(|((known, _), _)| *known == name);
        let found = of_name.find(|((_, given), _)| is_tag(given));
        found.map(|(_, values)| values.as_slice()).filter(|values| !values.is_empty())
    }

    /// Bytes of all values.
    pub(crate) fn bytes(&self) -> usize {
        self.values.values().flatten().map(String::len).sum()
    }

    /// The tags of the caller that are given, by key and value.
    pub(crate) fn principal_tags(&self) -> impl Iterator<Item = (&str, &str)> {
        let of_principal = self.values.iter().filter(|((name, _), _)| name == "aws:principaltag");
        of_principal.filter_map(|((_, tag), values)| Some((tag.as_str(), values.first()?.as_str())))
    }
}

/// The name of a key in lower case, and the key of a tag behind it.
fn key_parts(key: &str) -> (String, String) {
    let (name, tag) = key.split_once('/').unwrap_or((key, ""));
    (name.to_ascii_lowercase(), tag.to_owned())
}

fn is_of_kind(kind: &str, value: &str) -> bool {
    match kind.trim_end_matches("List") {
        "numeric" => value.parse().is_ok_and(|number: f64| number.is_finite()),
        "boolean" => value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false"),
        "ip" => value.parse::<IpAddr>().is_ok(),
        _ => true,
    }
}

/// Whether requests for an action may have a key.
fn may_have(action: &str, name: KeyName) -> bool {
    if action.starts_with("s3:") {
        return name.is_of_s3_action(action);
    }
    OF_IAM.contains(&name) || name == KeyName::PolicyArn && ATTACHMENTS.contains(&action)
}

impl Facts for SimulatedFacts<'_> {
    fn values(&self, name: KeyName, tag: &str) -> Values<'_> {
        if !may_have(self.action, name) {
            return Values::Absent;
        }
        let key =
            if tag.is_empty() { name.text().into() } else { Cow::Owned(format!("{}/{tag}", name.text())) };
        match self.entries.get(&key) {
            None => Values::Absent,
            Some([one]) if !name.is_multivalued() => Values::from(one.as_str()),
            Some(several) => Values::Many(several.iter().map(|value| value.as_str().into()).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(given: &[(&str, &str, &[&str])]) -> Result<ContextEntries, Fault> {
        let mut entries = ContextEntries::default();
        for (key, kind, values) in given {
            entries.add(key, kind, values.iter().map(|value| (*value).to_owned()).collect())?;
        }
        Ok(entries)
    }

    #[test]
    fn keys_are_facts_of_the_actions_that_have_them() {
        let given: [(&str, &str, &[&str]); 7] = [
            ("AWS:sourceip", "ip", &["10.0.0.1"]),
            ("s3:prefix", "string", &["a/"]),
            ("s3:ExistingObjectTag/Team", "string", &["a"]),
            ("aws:RequestTag/Team", "string", &["b"]),
            ("aws:TagKeys", "stringList", &["Team", "cost"]),
            ("iam:PolicyARN", "string", &["arn"]),
            ("aws:MultiFactorAuthPresent", "boolean", &["true"]),
        ];
        let entries = entries(&given).expect("entries");
        let value = |action: &str, name, tag: &str| -> Vec<String> {
            match (SimulatedFacts { entries: &entries, action }).values(name, tag) {
                Values::Absent => vec![],
                Values::One(value) => vec![value.into_owned()],
                Values::Many(values) => values.into_iter().map(Cow::into_owned).collect(),
            }
        };
        assert_eq!(value("s3:GetObject", KeyName::SourceIp, ""), ["10.0.0.1"]);
        assert_eq!(value("s3:ListBucket", KeyName::Prefix, ""), ["a/"]);
        assert_eq!(value("s3:GetObject", KeyName::Prefix, ""), [""; 0], "no GET has a prefix");
        assert_eq!(value("s3:GetObject", KeyName::ExistingObjectTag, "Team"), ["a"]);
        assert_eq!(value("s3:GetObject", KeyName::ExistingObjectTag, "team"), [""; 0], "with case");
        assert_eq!(value("s3:PutObject", KeyName::ExistingObjectTag, "Team"), [""; 0]);
        assert_eq!(value("iam:CreateUser", KeyName::RequestTag, "team"), ["b"], "without case");
        assert_eq!(value("s3:PutObject", KeyName::RequestTag, "Team"), [""; 0]);
        assert_eq!(value("s3:CreateBucket", KeyName::TagKeys, ""), ["Team", "cost"]);
        assert_eq!(value("iam:AttachUserPolicy", KeyName::PolicyArn, ""), ["arn"]);
        assert_eq!(value("iam:CreateUser", KeyName::PolicyArn, ""), [""; 0]);
        assert_eq!(value("iam:CreateUser", KeyName::Prefix, ""), [""; 0]);
    }

    #[test]
    fn entries_have_the_form_of_their_type() {
        let refused: [&[(&str, &str, &[&str])]; 6] = [
            &[("aws:SourceIp", "address", &["10.0.0.1"])],
            &[("aws:SourceIp", "ip", &["10.0.0.0/8"])],
            &[("s3:max-keys", "numericList", &["1", "x"])],
            &[("aws:SecureTransport", "boolean", &["yes"])],
            &[("aws:TagKeys", "string", &["a", "b"])],
            &[("aws:Referer", "string", &["a"]), ("AWS:referer", "string", &["b"])],
        ];
        for given in refused {
            assert!(entries(given).is_err(), "{given:?}");
        }
        let none = entries(&[("aws:Referer", "string", &[])]).expect("an entry without values");
        assert_eq!(none.get("aws:Referer"), None);
    }

    #[test]
    fn long_values_are_refused_one_and_together() {
        let (long, longer) = ("v".repeat(CONTEXT_VALUE_BYTES_MAX), "v".repeat(CONTEXT_VALUE_BYTES_MAX + 1));
        let all = vec![long.as_str(); CONTEXT_BYTES_MAX / CONTEXT_VALUE_BYTES_MAX];
        let full = ("aws:TagKeys", "stringList", all.as_slice());
        entries(&[full]).expect("as long as may be");
        let one: [&str; 1] = [&longer];
        for refused in
            [&[("aws:Referer", "string", &one[..])][..], &[full, ("aws:Referer", "string", &["v"])]]
        {
            let fault = entries(refused).expect_err("too long");
            assert_eq!(fault.code, "InvalidInput");
            assert!(fault.message.len() < 100, "{}", fault.message);
        }
    }
}
