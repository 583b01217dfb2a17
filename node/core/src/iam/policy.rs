//! A managed policy, with its versions.
//!
//! ```text
//! policy := version u8 = 1, named (as a user's), description text, updated ms u64, tags,
//!           default u32, last u32, versions n u32 x (number u32, created ms u64, document text)
//! ```

use bytes::Bytes;

use super::name::{EntityId, EntityKind};
use super::reference::{EntityRef, read_named, write_named};
use super::{VERSION, begin, read_tags, write_tags};
use crate::codec::{DecodeError, Writer};
use crate::limits::IAM_POLICY_VERSIONS_MAX;
use crate::record::Tag;

/// One version of a managed policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyVersion {
    /// Number of the version, from 1 on and never given twice: IAM writes `v1`.
    pub number: u32,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// Document, as it was given.
    pub document: String,
}

/// The account that a managed policy is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PolicyVendor {
    /// The one account: the policy is a record.
    Account,
    /// AWS: the policy is part of the program, and never a record.
    Aws,
}

/// A managed policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagedPolicy {
    /// The account that it is of.
    pub vendor: PolicyVendor,
    /// Id of the policy.
    pub id: EntityId,
    /// Name of the policy, as it is capitalised.
    pub name: String,
    /// Path of the policy.
    pub path: String,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// A text for people.
    pub description: String,
    /// When its versions were last changed, in milliseconds since the Unix epoch.
    pub updated_ms: u64,
    /// Tags of the policy.
    pub tags: Vec<Tag>,
    /// The number of the version in force.
    pub default: u32,
    /// The highest number that was given.
    pub last: u32,
    /// Versions of the policy, by number.
    pub versions: Vec<PolicyVersion>,
}

impl ManagedPolicy {
    /// ARN of the policy.
    pub fn arn(&self) -> String {
        match self.vendor {
            PolicyVendor::Account => EntityKind::Policy.arn(&self.path, &self.name),
            PolicyVendor::Aws => format!("arn:aws:iam::aws:policy{}{}", self.path, self.name),
        }
    }

    /// Names it for other records.
    pub fn reference(&self) -> EntityRef {
        EntityRef { home: self.name.clone(), id: self.id.clone() }
    }

    /// Version of this number.
    pub fn version(&self, number: u32) -> Option<&PolicyVersion> {
        self.versions.iter().find(|version| version.number == number)
    }

    /// The version in force.
    pub fn default_version(&self) -> Option<&PolicyVersion> {
        self.version(self.default)
    }

    /// Stored bytes of the record.
    ///
    /// # Panics
    /// Where it is AWS's.
    pub fn encode(&self) -> Bytes {
        assert_eq!(self.vendor, PolicyVendor::Account, "a policy of AWS is no record");
        let Self { id, name, path, created_ms, description, .. } = self;
        let Self { updated_ms, tags, default, last, versions, .. } = self;
        let mut writer = Writer::new();
        writer.u8(VERSION);
        write_named(&mut writer, (id, name, path, *created_ms));
        writer.blob(description.as_bytes()).u64(*updated_ms);
        write_tags(&mut writer, tags);
        writer.u32(*default).u32(*last).count(versions.len());
        for PolicyVersion { number, created_ms, document } in versions {
            writer.u32(*number).u64(*created_ms).blob(document.as_bytes());
        }
        writer.finish()
    }

    /// From its stored bytes.
    ///
    /// # Errors
    /// [`DecodeError`] where they have another form.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = begin(bytes, "policy")?;
        let (id, name, path, created_ms) = read_named(&mut reader, EntityKind::Policy)?;
        let (description, updated_ms) = (reader.text("description")?, reader.u64("update")?);
        let tags = read_tags(&mut reader)?;
        let (default, last) = (reader.u32("default version")?, reader.u32("last version")?);
        let count = reader.count(16, "policy versions")?;
        if count > IAM_POLICY_VERSIONS_MAX {
            return Err(DecodeError::Invalid { field: "policy versions" });
        }
        let mut versions = Vec::with_capacity(count);
        for _ in 0..count {
            let (number, created_ms) = (reader.u32("version number")?, reader.u64("creation")?);
            versions.push(PolicyVersion { number, created_ms, document: reader.text("policy document")? });
        }
        reader.finish("policy")?;
        let vendor = PolicyVendor::Account;
        let policy = Self {
            vendor,
            id,
            name,
            path,
            created_ms,
            description,
            updated_ms,
            tags,
            default,
            last,
            versions,
        };
        if policy.default_version().is_none() {
            return Err(DecodeError::Invalid { field: "default version" });
        }
        Ok(policy)
    }
}
