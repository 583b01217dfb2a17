//! Policy documents as a specification has them, and the documents of rights to buckets. The store judges
//! documents; here is decided only whether one goes beyond the buckets that a namespace may use.

use serde_json::{Value, json};

use crate::api::{Access, BucketGrant};

/// The beginning of every resource of S3.
const ARN: &str = "arn:aws:s3:::";

/// A right to a bucket of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketRight {
    /// The bucket's name.
    pub bucket: String,
    /// The right.
    pub access: Access,
}

/// A document as it is sent: its bytes, and its content where it is JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyDocument {
    /// The text.
    pub text: String,
    /// The content; nothing where the text is not JSON, which the store refuses in its words.
    pub content: Option<Value>,
}

impl PolicyDocument {
    /// Reads `spec.policy`: an object, or a text. Nothing where it is neither.
    pub fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Object(_) => Some(Self { text: value.to_string(), content: Some(value.clone()) }),
            Value::String(text) => {
                Some(Self { text: text.clone(), content: serde_json::from_str(text).ok() })
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
        }
    }

    /// Returns the document with one value of each key, as it is bounded: a text may have a key twice, and
    /// its readers need not choose the same one.
    pub fn canonical(&self) -> Option<Self> {
        let content = self.content.clone()?;
        Some(Self { text: content.to_string(), content: Some(content) })
    }

    /// Whether a text that the store has says the same.
    pub fn is(&self, found: &str) -> bool {
        let same =
            || serde_json::from_str::<Value>(found).ok().filter(|found| self.content.as_ref() == Some(found));
        found == self.text || same().is_some()
    }
}

/// Returns the policy of rights to buckets; nothing for an empty list.
pub fn of_rights(rights: &[BucketRight]) -> Option<PolicyDocument> {
    if rights.is_empty() {
        return None;
    }
    let statements: Vec<Value> = rights.iter().flat_map(statements).collect();
    let content = json!({"Version": "2012-10-17", "Statement": statements});
    Some(PolicyDocument { text: content.to_string(), content: Some(content) })
}

fn statements(right: &BucketRight) -> Vec<Value> {
    const LIST: [&str; 3] = ["s3:ListBucket", "s3:ListBucketVersions", "s3:GetBucketLocation"];
    const READ: [&str; 6] = [
        "s3:GetObject",
        "s3:GetObjectVersion",
        "s3:GetObjectTagging",
        "s3:GetObjectVersionTagging",
        "s3:GetObjectAttributes",
        "s3:GetObjectVersionAttributes",
    ];
    const WRITE: [&str; 6] = [
        "s3:PutObject",
        "s3:DeleteObject",
        "s3:PutObjectTagging",
        "s3:DeleteObjectTagging",
        "s3:AbortMultipartUpload",
        "s3:ListMultipartUploadParts",
    ];
    let (bucket, objects) = (format!("{ARN}{}", right.bucket), format!("{ARN}{}/*", right.bucket));
    let statement = |effect: &str, actions: &[&str], resources: &[&String]| json!({"Effect": effect, "Action": actions, "Resource": resources});
    let mut statements = match right.access {
        Access::Read => vec![statement("Allow", &LIST, &[&bucket]), statement("Allow", &READ, &[&objects])],
        Access::Write => vec![
            statement("Allow", &[LIST.as_slice(), &["s3:ListBucketMultipartUploads"]].concat(), &[&bucket]),
            statement("Allow", &[READ, WRITE].concat(), &[&objects]),
        ],
        Access::Admin => vec![statement("Allow", &["s3:*"], &[&bucket, &objects])],
    };
    // The bucket's life is its Bucket's, and a tag says whose it is. Nothing can allow what is denied here.
    statements.push(statement(
        "Deny",
        &["s3:CreateBucket", "s3:DeleteBucket", "s3:PutBucketTagging"],
        &[&bucket],
    ));
    statements
}

/// Judges whether a document grants nothing beyond these buckets; the error says what does. Every element
/// that a statement may have is known here, so that none with a meaning of its own is passed over.
///
/// # Errors
/// A sentence that names the statement.
pub fn within(content: &Value, buckets: &[&str]) -> Result<(), String> {
    let Some(document) = content.as_object() else { return Err("it is no JSON object".to_owned()) };
    if let Some(key) = document.keys().find(|key| !["Version", "Id", "Statement"].contains(&key.as_str())) {
        return Err(format!("its element {key} is none of a policy's"));
    }
    let single = document.get("Statement").map(std::slice::from_ref).unwrap_or_default();
    let statements = match document.get("Statement") {
        Some(Value::Array(statements)) => statements.as_slice(),
        _ => single,
    };
    for (at, statement) in statements.iter().enumerate() {
        let judged = statement_within(statement, buckets);
        judged.map_err(|why| format!("statement {} {why}", at + 1))?;
    }
    Ok(())
}

fn statement_within(statement: &Value, buckets: &[&str]) -> Result<(), String> {
    const KNOWN: [&str; 7] = ["Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Condition"];
    let Some(statement) = statement.as_object() else { return Err("is no object".to_owned()) };
    if let Some(key) = statement.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        return Err(format!("has the element {key}, which a user's policy cannot have"));
    }
    match statement.get("Effect").and_then(Value::as_str) {
        // It takes rights away only.
        Some("Deny") => return Ok(()),
        Some("Allow") => {}
        _ => return Err("has an Effect that is neither Allow nor Deny".to_owned()),
    }
    if statement.contains_key("NotResource") {
        return Err("allows by NotResource, which names more than the user's buckets".to_owned());
    }
    let resources = match statement.get("Resource") {
        Some(Value::Array(resources)) => resources.as_slice(),
        Some(resource @ Value::String(_)) => std::slice::from_ref(resource),
        _ => return Err("has no Resource".to_owned()),
    };
    for resource in resources {
        let named = resource.as_str().and_then(|text| text.strip_prefix(ARN));
        let bucket = named.map(|named| named.split_once('/').map_or(named, |(bucket, _)| bucket));
        if !bucket.is_some_and(|bucket| buckets.contains(&bucket)) {
            return Err(format!(
                "names the resource {resource}: each must be {ARN} and, letter by letter, a bucket of spec.buckets, with or without a key behind it"
            ));
        }
    }
    Ok(())
}

/// A grant in words.
pub(super) fn grant_text(grant: &BucketGrant) -> String {
    match (&grant.name, &grant.bucket_ref) {
        (Some(name), _) => format!("bucket {name}"),
        (None, Some(reference)) => match &reference.namespace {
            Some(namespace) => format!("Bucket {namespace}/{}", reference.name),
            None => format!("Bucket {}", reference.name),
        },
        (None, None) => "a right without a bucket".to_owned(),
    }
}
