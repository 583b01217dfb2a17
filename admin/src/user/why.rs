//! `user why`: whether a key may do something, and which statement decides.
//!
//! ```text
//! key -> its user; bucket -> its policy and settings, as root reads them -> SimulatePrincipalPolicy
//! ```
//! The node judges by the engine that judges requests, and names the statements that bear on the decision.

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Map, Value, json};
use sherd_policy::{ActionTarget, s3_actions};

use super::args::WhyArgs;
use super::calls::{Calls, escaped};
use super::error::UserError;
use super::output::{CommandOutput, TEXT};
use super::xml::Element;
use crate::plain::plain;

/// The ARNs of S3's resources, before the bucket.
const S3_ARN: &str = "arn:aws:s3:::";
/// The settings of a public access block.
const BLOCKS: [&str; 4] =
    ["BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"];

/// The caller that is asked about.
struct AskedCaller {
    name: String,
    arn: String,
    /// The caller's access key, where that is inactive.
    inactive_key: Option<String>,
}

/// A bucket, as far as it says who may.
#[derive(Default)]
struct AskedBucket {
    name: String,
    exists: bool,
    policy: Option<String>,
    /// The settings of its public access block that are on.
    blocks: Vec<&'static str>,
    ownership: Option<String>,
    /// The tags that are root's, which conditions may name.
    tags: Vec<(String, String)>,
}

/// Answers the question.
pub(super) async fn why<C: Args>(
    calls: &mut Calls,
    question: &WhyArgs<C>,
) -> Result<CommandOutput, UserError> {
    let resource = arn_of(&question.resource);
    let action = checked_action(&question.action, &resource)?;
    let mut context = Vec::new();
    for given in &question.context {
        let (key, value) =
            given.split_once('=').ok_or_else(|| UserError::NoContext { given: given.clone() })?;
        context.push((key.to_owned(), value.to_owned()));
    }
    let caller = caller(calls, &question.caller).await?;
    let bucket = match resource.strip_prefix(S3_ARN).and_then(|tail| tail.split('/').next()) {
        Some(name) => Some(bucket(calls, name).await?),
        None => None,
    };
    for (key, value) in bucket.iter().flat_map(|bucket| &bucket.tags) {
        context.push((format!("s3:BucketTag/{key}"), value.clone()));
        context.push((format!("aws:ResourceTag/{key}"), value.clone()));
    }
    let mut parameters = vec![
        ("PolicySourceArn".to_owned(), caller.arn.clone()),
        ("ActionNames.member.1".to_owned(), action.clone()),
        ("ResourceArns.member.1".to_owned(), resource.clone()),
        ("Explain".to_owned(), "true".to_owned()),
    ];
    if let Some(policy) = bucket.as_ref().and_then(|bucket| bucket.policy.as_ref()) {
        parameters.push(("ResourcePolicy".to_owned(), policy.clone()));
    }
    add_context(&mut parameters, context);
    let parameters: Vec<(&str, &str)> =
        parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let answer = calls.call("SimulatePrincipalPolicy", &parameters).await?;
    let found = answer.members("EvaluationResults").first().cloned().unwrap_or_default();
    let reasons = found.members("ResourceSpecificResults").first().unwrap_or(&found);
    let mut text = verdict_text(&caller, &action, &resource, found.text("EvalDecision"), reasons);
    if let Some(bucket) = &bucket {
        text += &bucket.text();
    }
    let json = json!({
        "User": caller.name,
        "Arn": caller.arn,
        "Action": action,
        "Resource": resource,
        "Decision": if caller.inactive_key.is_some() { "inactiveKey" } else { found.text("EvalDecision") },
        "Statements": reasons.members("Explanation").iter().map(Element::json).collect::<Vec<_>>(),
        "MissingContextValues": reasons.members("MissingContextValues").iter().map(Element::own_text).collect::<Vec<_>>(),
        "Bucket": bucket.map_or(Value::Null, |bucket| bucket.json()),
    });
    Ok(CommandOutput { text, json })
}

/// The context entries of a call: the values of each key together.
fn add_context(parameters: &mut Vec<(String, String)>, context: Vec<(String, String)>) {
    let mut keys: Vec<(String, Vec<String>)> = Vec::new();
    for (key, value) in context {
        match keys.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(&key)) {
            Some((_, values)) => values.push(value),
            None => keys.push((key, vec![value])),
        }
    }
    for (number, (key, values)) in (1..).zip(keys) {
        let member = format!("ContextEntries.member.{number}");
        parameters.push((format!("{member}.ContextKeyName"), key));
        parameters.push((format!("{member}.ContextKeyType"), "stringList".to_owned()));
        for (place, value) in (1..).zip(values) {
            parameters.push((format!("{member}.ContextKeyValues.member.{place}"), value));
        }
    }
}

/// The ARN of a resource that is given as one, or as a bucket, or as a bucket and a key.
fn arn_of(resource: &str) -> String {
    if resource == "*" || resource.starts_with("arn:") {
        return resource.to_owned();
    }
    format!("{S3_ARN}{}", resource.strip_prefix("s3://").unwrap_or(resource))
}

/// The action, as S3 writes it where it is S3's, and is about such a resource.
fn checked_action(action: &str, resource: &str) -> Result<String, UserError> {
    let Some(name) = action.strip_prefix("s3:") else { return Ok(action.to_owned()) };
    let found = s3_actions().find(|(known, _)| known.eq_ignore_ascii_case(name));
    let (name, target) = found.ok_or_else(|| UserError::NoAction { name: action.to_owned() })?;
    let given = match resource.strip_prefix(S3_ARN) {
        Some(tail) if tail.contains('/') => "an object",
        Some(_) => "a bucket",
        None => "neither a bucket nor an object",
    };
    let target = match target {
        ActionTarget::Bucket => "a bucket",
        ActionTarget::Object => "an object",
        ActionTarget::Account | ActionTarget::Other => return Ok(format!("s3:{name}")),
    };
    let action = format!("s3:{name}");
    if target == given {
        return Ok(action);
    }
    Err(UserError::OtherTarget { action, target, resource: resource.to_owned(), given })
}

/// Finds the user of a key, or of a name.
async fn caller(calls: &mut Calls, given: &str) -> Result<AskedCaller, UserError> {
    let of_key = calls.call("GetAccessKeyLastUsed", &[("AccessKeyId", given)]).await;
    let (name, is_key) = match present(of_key)? {
        Some(found) => (found.text("UserName").to_owned(), true),
        None => (given.to_owned(), false),
    };
    let user = present(calls.call("GetUser", &[("UserName", &name)]).await)?;
    let user = user.and_then(|found| found.child("User").cloned());
    let user = user.ok_or_else(|| UserError::NoCaller { given: given.to_owned() })?;
    let mut inactive_key = None;
    if is_key {
        let keys = calls.list("ListAccessKeys", "AccessKeyMetadata", &[("UserName", &name)]).await?;
        let is_active = |key: &Element| key.text("AccessKeyId") == given && key.text("Status") == "Active";
        inactive_key = (!keys.iter().any(is_active)).then(|| given.to_owned());
    }
    Ok(AskedCaller { name: user.text("UserName").to_owned(), arn: user.text("Arn").to_owned(), inactive_key })
}

/// The result of a call that names what may not be there.
fn present(called: Result<Element, UserError>) -> Result<Option<Element>, UserError> {
    match called {
        Ok(found) => Ok(Some(found)),
        Err(UserError::Refused { code, .. }) if code == "NoSuchEntity" || code == "ValidationError" => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Reads what a bucket says of who may.
async fn bucket(calls: &mut Calls, name: &str) -> Result<AskedBucket, UserError> {
    let path = format!("/{}", escaped(name));
    let mut bucket = AskedBucket { name: name.to_owned(), ..AskedBucket::default() };
    bucket.exists = calls.read(&format!("{path}?location")).await?.is_some();
    if !bucket.exists {
        return Ok(bucket);
    }
    bucket.policy = calls.read(&format!("{path}?policy")).await?;
    let block = calls.read(&format!("{path}?publicAccessBlock")).await?;
    let block = block.as_deref().and_then(Element::parse).unwrap_or_default();
    bucket.blocks = BLOCKS.into_iter().filter(|setting| block.text(setting) == "true").collect();
    let ownership = calls.read(&format!("{path}?ownershipControls")).await?;
    let ownership = ownership.as_deref().and_then(Element::parse).unwrap_or_default();
    bucket.ownership = ownership.child("Rule").map(|rule| rule.text("ObjectOwnership").to_owned());
    let tags = calls.read(&format!("{path}?tagging")).await?;
    let tags = tags.as_deref().and_then(Element::parse).unwrap_or_default();
    let tags = tags.members("TagSet").iter().map(|tag| (tag.text("Key"), tag.text("Value")));
    let of_root = tags.filter(|(key, _)| key.starts_with("sherd.dev/"));
    bucket.tags = of_root.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    Ok(bucket)
}

fn verdict_text(
    caller: &AskedCaller,
    action: &str,
    resource: &str,
    decision: &str,
    reasons: &Element,
) -> String {
    let AskedCaller { name, arn, inactive_key } = caller;
    let mut text = String::new();
    if let Some(key) = inactive_key {
        add_line(
            &mut text,
            &format!("denied: the access key {key} is inactive. With an active key of its user:"),
        );
    }
    let word = if decision == "allowed" { "allowed" } else { "denied" };
    add_line(&mut text, &format!("{word}: {action} on {resource} by user {name} ({arn})"));
    let statements = reasons.members("Explanation");
    let decides = |statement: &&Element| {
        let effect = if decision == "explicitDeny" { "Deny" } else { "Allow" };
        statement.members("FailedConditions").is_empty() && statement.text("Effect") == effect
    };
    for statement in statements.iter().filter(decides) {
        add_line(&mut text, &format!("  by {}", statement_text(statement)));
    }
    if decision == "implicitDeny" {
        add_line(&mut text, "  no statement allows it");
    }
    for statement in statements.iter().filter(|statement| !statement.members("FailedConditions").is_empty()) {
        let failed = statement.members("FailedConditions").iter().map(condition_text);
        let failed: Vec<String> = failed.collect();
        add_line(&mut text, &format!("  not by {}: {}", statement_text(statement), failed.join("; ")));
    }
    let missing: Vec<&str> = reasons.members("MissingContextValues").iter().map(Element::own_text).collect();
    if !missing.is_empty() {
        add_line(
            &mut text,
            &format!("  conditions ask for {}, which --context may give", missing.join(", ")),
        );
    }
    text
}

/// Adds a line; texts of others end no line.
fn add_line(text: &mut String, line: &str) {
    writeln!(text, "{}", plain(line)).expect(TEXT);
}

/// A statement by its effect, its name or number, its line and its policy.
fn statement_text(statement: &Element) -> String {
    let line = statement.child("StartPosition").map_or("", |position| position.text("Line"));
    let name = match statement.text("Sid") {
        "" => String::new(),
        sid => format!(" {sid}"),
    };
    let (effect, number, policy) =
        (statement.text("Effect"), statement.text("Number"), statement.text("Policy"));
    format!("{effect} in statement {number}{name} (line {line}) of {policy}")
}

fn condition_text(failed: &Element) -> String {
    match failed.child("Value") {
        Some(value) => {
            format!("its condition on {} does not hold for {}", failed.text("Key"), value.own_text())
        }
        None => format!("its condition on {} does not hold without it", failed.text("Key")),
    }
}

impl AskedBucket {
    fn text(&self) -> String {
        let Self { name, exists, policy, blocks, ownership, tags: _ } = self;
        if !exists {
            return plain(&format!("bucket {name} is not there: a request is answered NoSuchBucket")) + "\n";
        }
        let policy = if policy.is_some() { "has a policy" } else { "has no policy" };
        let blocks = if blocks.is_empty() { "none".to_owned() } else { blocks.join(", ") };
        let ownership = ownership.as_deref().unwrap_or("none");
        let line = format!(
            "bucket {name} {policy}; public access block: {blocks} (it binds callers without a signature); \
             ownership: {ownership}"
        );
        plain(&line) + "\n"
    }

    fn json(&self) -> Value {
        let Self { name, exists, policy, blocks, ownership, tags } = self;
        let policy = policy.as_ref().map(|text| serde_json::from_str(text).unwrap_or_else(|_| json!(text)));
        json!({
            "Name": name,
            "Exists": exists,
            "Policy": policy.unwrap_or(Value::Null),
            "PublicAccessBlock": blocks,
            "ObjectOwnership": ownership,
            "Tags": tags.iter().map(|(key, value)| (key.clone(), json!(value))).collect::<Map<_, _>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_about_the_kind_of_resource_that_is_given() {
        let object = arn_of("s3://logs/a/b");
        assert_eq!(object, "arn:aws:s3:::logs/a/b");
        assert_eq!(checked_action("s3:getobject", &object).expect("an action"), "s3:GetObject");
        assert_eq!(checked_action("iam:GetUser", "arn:aws:iam::1:user/a").expect("not S3's"), "iam:GetUser");
        assert_eq!(
            checked_action("s3:ListAllMyBuckets", "*").expect("of the account"),
            "s3:ListAllMyBuckets"
        );
        let error = checked_action("s3:ListBucket", &object).expect_err("a bucket's");
        assert!(
            error.to_string().contains("is about a bucket, and arn:aws:s3:::logs/a/b is an object"),
            "{error}"
        );
        let error = checked_action("s3:GetObject", &arn_of("logs")).expect_err("an object's");
        assert!(error.to_string().contains("is about an object"), "{error}");
        assert!(matches!(checked_action("s3:ReadObject", &object), Err(UserError::NoAction { .. })));
    }

    #[test]
    fn values_of_one_key_are_one_entry() {
        let mut parameters = vec![];
        let given = [("aws:TagKeys", "a"), ("aws:SourceIp", "10.0.0.1"), ("AWS:tagkeys", "b")];
        add_context(&mut parameters, given.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec());
        let names: Vec<_> = parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(names[0], "ContextEntries.member.1.ContextKeyName=aws:TagKeys");
        assert_eq!(names[3], "ContextEntries.member.1.ContextKeyValues.member.2=b");
        assert_eq!(names[6], "ContextEntries.member.2.ContextKeyValues.member.1=10.0.0.1");
    }

    #[test]
    fn names_of_statements_forge_no_line() {
        let reasons = Element::parse(
            "<R><Explanation><member><Sid>x\nallowed: s3:GetObject\u{9b}2J</Sid><Effect>Deny</Effect>\
             <Policy>p</Policy></member></Explanation></R>",
        );
        let caller = AskedCaller { name: "a\u{9d}".to_owned(), arn: String::new(), inactive_key: None };
        let reasons = reasons.expect("a document");
        let text = verdict_text(&caller, "s3:GetObject", "*", "explicitDeny", &reasons);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains("x?allowed: s3:GetObject?2J") && text.contains("user a?"), "{text}");
        let bucket =
            AskedBucket { exists: true, ownership: Some("\u{9b}".to_owned()), ..AskedBucket::default() };
        assert!(bucket.text().ends_with("ownership: ?\n"));
    }
}
