//! The files of `mc admin cluster iam export`, as MinIO writes them (`cmd/admin-handlers-users.go`,
//! `ExportIAM`). Members that are not here are kept, to be named.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::archive::Files;

/// Members that are not known.
pub(super) type Unknown = BTreeMap<String, Value>;

/// The folder of its files.
const FOLDER: &str = "iam-assets/";

/// An export cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExportError {
    #[error("it has no files in {FOLDER}: `mc admin cluster iam export` makes one that has")]
    NoFiles,
    /// Without the text, which may have a secret where another text is expected.
    #[error("{FOLDER}{name}: line {line}, column {column} is not as MinIO writes it")]
    Malformed { name: &'static str, line: usize, column: usize },
}

/// An export.
#[derive(Debug, Default)]
pub(super) struct IamExport {
    pub(super) policies: BTreeMap<String, Value>,
    pub(super) users: BTreeMap<String, ExportedUser>,
    pub(super) groups: BTreeMap<String, ExportedGroup>,
    pub(super) service_accounts: BTreeMap<String, ServiceAccount>,
    pub(super) user_policies: BTreeMap<String, PolicyMapping>,
    pub(super) group_policies: BTreeMap<String, PolicyMapping>,
    pub(super) sts_policies: BTreeMap<String, PolicyMapping>,
    /// Files of other names.
    pub(super) other_files: Vec<String>,
}

/// A user.
#[derive(Debug, Deserialize)]
pub(super) struct ExportedUser {
    #[serde(rename = "secretKey", default)]
    pub(super) secret: String,
    #[serde(default)]
    pub(super) status: String,
    /// Policies of a MinIO from before mappings.
    #[serde(rename = "policyName", default)]
    pub(super) policy: String,
    #[serde(flatten)]
    pub(super) unknown: Unknown,
}

/// A group.
#[derive(Debug, Deserialize)]
pub(super) struct ExportedGroup {
    #[serde(default)]
    pub(super) status: String,
    #[serde(default)]
    pub(super) members: Option<Vec<String>>,
    #[serde(rename = "version", default)]
    _version: Value,
    #[serde(rename = "updatedAt", default)]
    _updated: Value,
    #[serde(flatten)]
    pub(super) unknown: Unknown,
}

/// An access key of a user, or of root.
#[derive(Debug, Deserialize)]
pub(super) struct ServiceAccount {
    pub(super) parent: String,
    #[serde(rename = "accessKey")]
    pub(super) id: String,
    #[serde(rename = "secretKey")]
    pub(super) secret: String,
    /// Groups whose policies it has beside those of its parent.
    #[serde(default)]
    pub(super) groups: Option<Vec<String>>,
    /// The claims that it signs with. MinIO judges it by some of them.
    #[serde(default)]
    pub(super) claims: Option<BTreeMap<String, Value>>,
    #[serde(rename = "sessionPolicy", default)]
    pub(super) policy: Option<Value>,
    #[serde(default)]
    pub(super) status: String,
    #[serde(rename = "name", default)]
    _name: Value,
    #[serde(rename = "description", default)]
    _description: Value,
    /// RFC 3339; the epoch of Unix or of Go, or none, for a key that does not expire.
    #[serde(default)]
    pub(super) expiration: Option<String>,
    #[serde(flatten)]
    pub(super) unknown: Unknown,
}

/// The policies of a user or a group: their names, with commas between.
#[derive(Debug, Deserialize)]
pub(super) struct PolicyMapping {
    #[serde(default)]
    pub(super) policy: String,
    #[serde(rename = "version", default)]
    _version: Value,
    #[serde(rename = "updatedAt", default)]
    _updated: Value,
    #[serde(flatten)]
    pub(super) unknown: Unknown,
}

impl PolicyMapping {
    /// The names of its policies.
    pub(super) fn names(&self) -> Vec<&str> {
        names(&self.policy)
    }
}

/// The names in a list with commas between.
pub(super) fn names(list: &str) -> Vec<&str> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect()
}

impl IamExport {
    /// Reads the files of an export.
    pub(super) fn read(mut files: Files) -> Result<Self, ExportError> {
        if !is_export(&files) {
            return Err(ExportError::NoFiles);
        }
        Ok(Self {
            policies: take(&mut files, "policies.json")?,
            users: take(&mut files, "users.json")?,
            groups: take(&mut files, "groups.json")?,
            service_accounts: take(&mut files, "svcaccts.json")?,
            user_policies: take(&mut files, "user_mappings.json")?,
            group_policies: take(&mut files, "group_mappings.json")?,
            sts_policies: take(&mut files, "stsuser_mappings.json")?,
            other_files: files.into_keys().collect(),
        })
    }
}

/// The names of its files.
const NAMES: [&str; 7] = [
    "policies.json",
    "users.json",
    "groups.json",
    "svcaccts.json",
    "user_mappings.json",
    "group_mappings.json",
    "stsuser_mappings.json",
];

/// Whether these are files of an export of IAM.
pub(super) fn is_export(files: &Files) -> bool {
    NAMES.iter().any(|name| files.contains_key(&format!("{FOLDER}{name}")))
}

/// Takes a file out of the others; one that is not there has no entries.
fn take<T: DeserializeOwned + Default>(files: &mut Files, name: &'static str) -> Result<T, ExportError> {
    match files.remove(&format!("{FOLDER}{name}")) {
        // MinIO writes null for what it has none of.
        Some(bytes) => serde_json::from_slice::<Option<T>>(&bytes)
            .map(Option::unwrap_or_default)
            .map_err(|error| ExportError::Malformed { name, line: error.line(), column: error.column() }),
        None => Ok(T::default()),
    }
}
