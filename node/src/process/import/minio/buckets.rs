//! Buckets of `mc admin cluster bucket export`: made with their tags, CORS rules and policies. Parts of a
//! bucket that have no place here are named.
//!
//! MinIO asks the policy of a bucket for requests without a signature alone; here it counts for all. So one
//! that denies may deny more than it did.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use sherd_admin::user::UserError;
use sherd_admin::user::calls::Calls;
use sherd_admin::user::xml::Element;
use sherd_policy::{Policy, PolicyForm};
use sherd_s3::head::names::is_bucket_name;

use super::archive::Files;
use super::document::of_bucket;
use super::limits::POLICY_BYTES_MAX;
use super::observed::{MARK, Mark};
use super::report::{Outcome, Report};
use super::statement::Statement;
use super::wanted::LeftOut;

/// The namespace of S3's documents.
const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// A bucket that is to be there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WantedBucket {
    pub(super) name: String,
    pub(super) parts: Vec<Part>,
}

/// A configuration of a bucket.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    Tags(String),
    Cors(String),
    Policy { text: String, is_public: bool },
}

impl Part {
    /// Name of the configuration, which is the query of its requests, too.
    const fn name(&self) -> &'static str {
        match self {
            Self::Tags(_) => "tagging",
            Self::Cors(_) => "cors",
            Self::Policy { .. } => "policy",
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Tags(text) | Self::Cors(text) | Self::Policy { text, .. } => text,
        }
    }

    /// Whether another text says the same.
    fn is(&self, found: &str) -> bool {
        match self {
            Self::Policy { text, .. } => {
                let [wanted, found] =
                    [text, found].map(|text| serde_json::from_str::<Value>(text).unwrap_or_default());
                wanted == found
            }
            Self::Tags(text) | Self::Cors(text) => leaves(text) == leaves(found),
        }
    }
}

/// The names and texts of all elements without others in them, in the order of those.
fn leaves(text: &str) -> Option<BTreeSet<(String, String)>> {
    fn add(element: &Element, place: &str, leaves: &mut BTreeSet<(String, String)>) {
        for (number, child) in element.children().iter().enumerate() {
            // Rules and tags have an order or a key; what is in them has names.
            let place = match child.name() {
                "CORSRule" => format!("{place}/{number}"),
                "Tag" => format!("{place}/{}", child.text("Key")),
                name => format!("{place}/{name}"),
            };
            add(child, &place, leaves);
        }
        if element.children().is_empty() {
            leaves.insert((place.to_owned(), element.own_text().trim().to_owned()));
        }
    }
    let mut leaves_of = BTreeSet::new();
    add(&Element::parse(text)?, "", &mut leaves_of);
    Some(leaves_of)
}

/// Reads the files of an export.
pub(super) fn wanted(files: &Files) -> (Vec<WantedBucket>, Vec<LeftOut>) {
    let mut buckets: BTreeMap<&str, Vec<(&str, &[u8])>> = BTreeMap::new();
    let mut left_out = Vec::new();
    for (name, bytes) in files {
        match name.split_once('/') {
            Some((bucket, file)) => buckets.entry(bucket).or_default().push((file, bytes)),
            None => left_out.push(left("file", name, "it is not known")),
        }
    }
    let mut wanted = Vec::new();
    for (name, files) in buckets {
        if !is_bucket_name(name) {
            left_out.push(left("bucket", name, "no bucket of S3 has such a name"));
            continue;
        }
        let mut parts = Vec::new();
        for (file, bytes) in files {
            match part(name, file, bytes, &mut left_out) {
                Ok(part) => parts.extend(part),
                Err(reason) => left_out.push(left("part of bucket", name, &format!("{file}: {reason}"))),
            }
        }
        wanted.push(WantedBucket { name: name.to_owned(), parts });
    }
    (wanted, left_out)
}

fn left(what: &'static str, name: &str, reason: &str) -> LeftOut {
    LeftOut { what, name: name.to_owned(), reason: reason.to_owned() }
}

/// The configuration in a file of a bucket; `None` where it configures nothing.
fn part(bucket: &str, file: &str, bytes: &[u8], left_out: &mut Vec<LeftOut>) -> Result<Option<Part>, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?.trim();
    let is_none = |text: &str| text.is_empty() || text == "null" || text == "{}";
    if is_none(text) {
        return Ok(None);
    }
    let root = || Element::parse(text).ok_or("it cannot be read".to_owned());
    match file {
        "tagging.xml" => {
            let root = root()?;
            let tags = root.members("TagSet");
            if Mark::of(tags).is_some() {
                return Err(format!("a tag {MARK} is the mark of an import here"));
            }
            Ok((!tags.is_empty()).then(|| Part::Tags(text.to_owned())))
        }
        "cors.xml" => Ok((!root()?.children().is_empty()).then(|| Part::Cors(text.to_owned()))),
        "policy.json" => {
            let mut parts = Vec::new();
            let policy = policy(bucket, text, &mut parts);
            left_out.extend(parts.iter().map(|part| left("part of the policy of bucket", bucket, part)));
            policy
        }
        "quota.json" => {
            let quota: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
            let sizes = ["quota", "size", "rate", "requests"].map(|name| quota[name].as_u64().unwrap_or(0));
            let largest = sizes.into_iter().max().unwrap_or(0);
            if largest == 0 { Ok(None) } else { Err(format!("buckets have no quota here: {largest}")) }
        }
        "versioning.xml" => match root()?.text("Status") {
            "" => Ok(None),
            status => Err(format!("objects have no versions here: {status}")),
        },
        "object-lock.xml" => Err("objects cannot be locked here".to_owned()),
        "lifecycle.xml" if root()?.child("Rule").is_some() => Err("objects do not expire here".to_owned()),
        "encryption.xml" => Err("buckets have no encryption of their own here".to_owned()),
        "replication.xml" => Err("buckets are not replicated here".to_owned()),
        "bucket-targets.json" | "bucket-targets.xml" if text != "<BucketTargets></BucketTargets>" => {
            Err("buckets are not replicated here".to_owned())
        }
        "notification.xml" if !root()?.children().is_empty() => Err("buckets send no events here".to_owned()),
        "lifecycle.xml" | "notification.xml" | "bucket-targets.json" | "bucket-targets.xml" => Ok(None),
        _ => Err("it is not known".to_owned()),
    }
}

/// The policy of a bucket as it is put here.
fn policy(bucket: &str, text: &str, left_out: &mut Vec<String>) -> Result<Option<Part>, String> {
    if text.len() > POLICY_BYTES_MAX {
        return Err(format!("it has more than {POLICY_BYTES_MAX} bytes"));
    }
    let mut read: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let Some(Value::Array(statements)) = read.get_mut("Statement").map(Value::take) else {
        return Err("it has no statements".to_owned());
    };
    let mut taken = Vec::new();
    for mut statement in statements {
        let denies = statement["Effect"] != "Allow";
        let principal = statement.as_object_mut().and_then(|members| members.remove("Principal"));
        if !principal.as_ref().is_some_and(is_everyone) {
            // MinIO asks a bucket's policy for anonymous requests alone, by any names in it.
            let reason = "a statement is about others than everyone, whom MinIO does not ask it for";
            if denies {
                return Err(reason.to_owned());
            }
            left_out.push(reason.to_owned());
            continue;
        }
        match of_bucket(statement, left_out) {
            Ok(statements) => taken.extend(statements.iter().map(with_everyone)),
            Err(reason) if !denies => left_out.push(reason),
            Err(reason) => return Err(reason),
        }
    }
    if taken.is_empty() {
        return if left_out.is_empty() { Ok(None) } else { Err("nothing is left of it".to_owned()) };
    }
    let text = json!({"Version": "2012-10-17", "Statement": taken}).to_string();
    let parsed = Policy::parse_new(text.as_bytes(), PolicyForm::Bucket { name: bucket });
    let is_public = parsed.map_err(|malformed| malformed.to_string())?.is_public();
    Ok(Some(Part::Policy { text, is_public }))
}

/// Whether a principal, which may be several, is everyone.
fn is_everyone(principal: &Value) -> bool {
    match if principal.is_object() { &principal["AWS"] } else { principal } {
        Value::Array(names) => names.iter().any(|name| name == "*"),
        name => name == "*",
    }
}

fn with_everyone(statement: &Statement) -> Value {
    let mut statement = json!(statement);
    statement["Principal"] = json!({"AWS": "*"});
    statement
}

/// Makes buckets, or says what would be made.
pub(super) async fn take(
    calls: &mut Calls,
    wanted: &[WantedBucket],
    report: &mut Report<'_>,
    is_applied: bool,
) -> Result<(), UserError> {
    for bucket in wanted {
        match take_one(calls, bucket, is_applied).await {
            Ok((outcome, why)) => report.add(outcome, "bucket", &bucket.name, &why),
            Err(error @ UserError::Refused { .. }) => {
                report.add(Outcome::Failed, "bucket", &bucket.name, &error.to_string());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Makes a bucket with its parts, or adds those that a cut import left out.
async fn take_one(
    calls: &mut Calls,
    bucket: &WantedBucket,
    is_applied: bool,
) -> Result<(Outcome, String), UserError> {
    let WantedBucket { name, parts } = bucket;
    let is_there = calls.read(&format!("/{name}?location")).await?.is_some();
    let mark = if is_there { mark_of(calls, name).await? } else { None };
    let (mut lacking, mut other) = (Vec::new(), Vec::new());
    for part in parts {
        // The mark stands in the place of the tags.
        let is_read = is_there && !(mark.is_some() && matches!(part, Part::Tags(_)));
        let found = if is_read { calls.read(&format!("/{name}?{}", part.name())).await? } else { None };
        match found {
            None => lacking.push(part),
            Some(found) if part.is(&found) => {}
            Some(_) => other.push(part.name()),
        }
    }
    let names = |parts: &[&Part]| parts.iter().map(|part| part.name()).collect::<Vec<_>>().join(", ");
    let lacks =
        |parts: &[&Part]| (Outcome::Differs, format!("the bucket of this name has no {}", names(parts)));
    if !other.is_empty() {
        return Ok((Outcome::Differs, format!("the bucket of this name has another {}", other.join(", "))));
    }
    if is_there && mark.is_none() {
        return Ok(if lacking.is_empty() { (Outcome::Equal, String::new()) } else { lacks(&lacking) });
    }
    if is_applied && !is_there {
        send(calls, request(Method::PUT, &format!("/{name}"), marking())).await?;
        if mark_of(calls, name).await?.is_none() {
            return Ok((Outcome::Differs, "a bucket of this name was made meanwhile".to_owned()));
        }
    }
    let (due, deleted) = due(lacking, mark);
    if is_applied {
        for request in finishing(name, &due) {
            send(calls, request).await?;
        }
    }
    if !deleted.is_empty() {
        return Ok(lacks(&deleted));
    }
    let opens = due.iter().any(|part| matches!(part, Part::Policy { is_public: true, .. }));
    let public = if opens { ", public" } else { "" };
    let with = if due.is_empty() { String::new() } else { format!("with {}{public}", names(&due)) };
    Ok((if is_there { Outcome::Finished } else { Outcome::Made }, with))
}

/// The parts that are to be added to a bucket, and those that a person may have deleted: behind the second
/// value of the mark all but the tags, whose place it has.
pub(super) fn due(lacking: Vec<&Part>, mark: Option<Mark>) -> (Vec<&Part>, Vec<&Part>) {
    lacking.into_iter().partition(|part| mark != Some(Mark::Opening) || matches!(part, Part::Tags(_)))
}

/// The requests that add parts to a bucket with the mark, and end the mark. Its second value comes before the
/// policy: one that a person deletes does not come back.
pub(super) fn finishing(name: &str, due: &[&Part]) -> Vec<Request<Bytes>> {
    let put = |part: &Part| request(Method::PUT, &format!("/{name}?{}", part.name()), part.text().to_owned());
    let delete = |what: &str| request(Method::DELETE, &format!("/{name}?{what}"), String::new());
    let (mut requests, mut opening, mut last) = (Vec::new(), Vec::new(), delete("tagging"));
    for part in due {
        match part {
            Part::Cors(_) => requests.push(put(part)),
            Part::Policy { is_public, .. } => {
                opening.push(request(Method::PUT, &format!("/{name}?tagging"), opening_mark()));
                opening.extend(is_public.then(|| delete("publicAccessBlock")));
                opening.push(put(part));
            }
            Part::Tags(_) => last = put(part),
        }
    }
    requests.extend(opening);
    requests.push(last);
    requests
}

/// The mark of a bucket, which stands in place of its tags.
async fn mark_of(calls: &mut Calls, name: &str) -> Result<Option<Mark>, UserError> {
    let tags = calls.read(&format!("/{name}?tagging")).await?;
    Ok(tags.and_then(|tags| Mark::of(Element::parse(&tags)?.members("TagSet"))))
}

/// The document that makes a bucket with the mark.
fn marking() -> String {
    let tag = tag(Mark::UnderWay);
    format!("<CreateBucketConfiguration xmlns=\"{NAMESPACE}\"><Tags>{tag}</Tags></CreateBucketConfiguration>")
}

/// The tags of a bucket whose policy is put next.
fn opening_mark() -> String {
    format!("<Tagging xmlns=\"{NAMESPACE}\"><TagSet>{}</TagSet></Tagging>", tag(Mark::Opening))
}

fn tag(mark: Mark) -> String {
    format!("<Tag><Key>{MARK}</Key><Value>{}</Value></Tag>", mark.value())
}

/// Sends a request on a bucket that is there.
async fn send(calls: &mut Calls, request: Request<Bytes>) -> Result<(), UserError> {
    let is_put = request.method() == Method::PUT;
    if calls.s3(request).await?.is_none() && is_put {
        let message = "it was deleted meanwhile".to_owned();
        return Err(UserError::Refused { code: "NoSuchBucket".to_owned(), message });
    }
    Ok(())
}

/// A request of S3 on a bucket of a name that may be one.
fn request(method: Method, uri: &str, body: String) -> Request<Bytes> {
    let mut request = Request::builder().method(method).uri(uri);
    if !body.is_empty() {
        request = request.header("x-amz-checksum-sha256", STANDARD.encode(Sha256::digest(&body)));
    }
    request.body(Bytes::from(body)).expect("the name of a bucket is part of a URI")
}
