//! Why a call of IAM failed, in AWS's words where it has some.

use sherd_core::codec::DecodeError;
use sherd_core::iam::{AccessKeyId, EntityKind, InvalidEntity};
use sherd_core::limits::{
    IAM_KEY_ID_CHARS_MAX, IAM_KEY_ID_CHARS_MIN, IAM_SECRET_CHARS_MAX, IAM_SECRET_CHARS_MIN,
};
use sherd_policy::MalformedPolicy;

use super::fingerprint::Fingerprint;
use crate::object;
use crate::register::Failure;

/// The result of IAM's calls.
pub type Result<T> = std::result::Result<T, IamError>;

/// A call failed. Nothing changed, unless [`IamError::may_have_changed`].
#[derive(Debug, thiserror::Error)]
pub enum IamError {
    /// The named entity is not there (`NoSuchEntity`).
    #[error(transparent)]
    NoSuchEntity(#[from] MissingEntity),
    /// The name is taken (`EntityAlreadyExists`).
    #[error("{} with name {name} already exists.", .kind.title())]
    EntityAlreadyExists {
        /// Kind of the entity.
        kind: EntityKind,
        /// The name.
        name: String,
    },
    /// The id of a given key is another one's (`EntityAlreadyExists`).
    #[error(transparent)]
    KeyTaken(#[from] KeyTaken),
    /// The id of a given key breaks its rules (`ValidationError`).
    #[error(
        "an id of an access key has {IAM_KEY_ID_CHARS_MIN} to {IAM_KEY_ID_CHARS_MAX} of the characters a-z, A-Z, 0-9 and _+.@-"
    )]
    GivenKeyId,
    /// The secret of a given key breaks its rules (`ValidationError`).
    #[error("a secret has {IAM_SECRET_CHARS_MIN} to {IAM_SECRET_CHARS_MAX} visible ASCII characters")]
    GivenSecret,
    /// Something is left that must go first (`DeleteConflict`).
    #[error(transparent)]
    DeleteConflict(#[from] DeleteConflict),
    /// A quota of AWS (`LimitExceeded`).
    #[error(transparent)]
    LimitExceeded(#[from] LimitExceeded),
    /// Other calls changed the same record again and again (`ConcurrentModification`): try again.
    #[error(
        "The request was rejected because multiple requests to change this object were submitted simultaneously."
    )]
    ConcurrentModification,
    /// Other calls read many records for longer than this call waits (`Throttling`): try again.
    #[error("too many lists of the account's entities are read")]
    Busy,
    /// The key that signed the call became inactive, or was deleted, before the change
    /// (`InvalidClientTokenId`).
    #[error("The security token included in the request is invalid.")]
    SignerInactive,
    /// A name or a path breaks its rules (`ValidationError`).
    #[error("{field}: {source}")]
    Invalid {
        /// The parameter.
        field: &'static str,
        /// The broken rule.
        source: InvalidEntity,
    },
    /// A tag breaks AWS's rules.
    #[error(transparent)]
    InvalidTag(#[from] InvalidTag),
    /// A description is too long (`ValidationError`).
    #[error("a description has at most {} characters", sherd_core::limits::IAM_DESCRIPTION_CHARS_MAX)]
    Description,
    /// A policy document has another form (`MalformedPolicyDocument`).
    #[error(transparent)]
    MalformedPolicy(#[from] MalformedPolicy),
    /// This node was started without a master key: no secret can be kept.
    #[error("this node has no master key, under which secrets are kept: set master_key_file")]
    NoMasterKey,
    /// The keys of the account are kept under another master key than this node's: a new one would be good
    /// through this node alone.
    #[error("the access keys of this account are kept under the master key {kept}; this node has {own}")]
    OtherMasterKey {
        /// Names the one that keys are kept under.
        kept: Fingerprint,
        /// Names this node's.
        own: Fingerprint,
    },
    /// Records could not be read.
    #[error(transparent)]
    Read(#[from] IamReadError),
    /// A record could not be written.
    #[error(transparent)]
    Write(#[from] object::Error),
}

impl IamError {
    /// Whether this call may have changed something although it failed.
    pub const fn may_have_changed(&self) -> bool {
        match self {
            Self::NoSuchEntity(_)
            | Self::EntityAlreadyExists { .. }
            | Self::KeyTaken(_)
            | Self::GivenKeyId
            | Self::GivenSecret
            | Self::DeleteConflict(_)
            | Self::LimitExceeded(_)
            | Self::ConcurrentModification
            | Self::SignerInactive
            | Self::Invalid { .. }
            | Self::InvalidTag(_)
            | Self::Description
            | Self::MalformedPolicy(_)
            | Self::NoMasterKey
            | Self::OtherMasterKey { .. } => false,
            Self::Busy | Self::Read(_) | Self::Write(_) => true,
        }
    }
}

impl From<Failure> for IamError {
    fn from(failure: Failure) -> Self {
        Self::Read(failure.into())
    }
}

/// Why an access key, or another record, could not be read. It is not "unknown": the caller is to try again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IamReadError {
    /// A register could not be read.
    #[error(transparent)]
    Register(#[from] Failure),
    /// Each read took two seconds, or a change came between.
    #[error("records changed during each read, or took two seconds")]
    Changing,
    /// A record does not decode.
    #[error("the record {register}: {source}")]
    Undecodable {
        /// Name of the register.
        register: String,
        /// Why.
        source: DecodeError,
    },
    /// A policy that was stored does not parse.
    #[error("the stored policy {name}: {reason}")]
    MalformedPolicy {
        /// Name of the policy.
        name: String,
        /// Why.
        reason: String,
    },
    /// A policy of AWS is attached that this program has not: it may deny.
    #[error("the policy {name} of AWS is not part of this program")]
    UnknownAwsPolicy {
        /// Name of the policy.
        name: String,
    },
    /// The secret was wrapped under another master key than this node's.
    #[error("the secret of this access key is kept under the master key {wrapped}; this node has {own}")]
    OtherMasterKey {
        /// Names the one that it was wrapped under.
        wrapped: Fingerprint,
        /// Names this node's.
        own: Fingerprint,
    },
    /// This node was started without a master key.
    #[error("this node has no master key: the secret of this access key is kept under {wrapped}")]
    NoMasterKey {
        /// Names the one that it was wrapped under.
        wrapped: Fingerprint,
    },
    /// The secret is not what was wrapped.
    #[error("the secret of this access key does not open under its master key")]
    DamagedSecret,
}

impl IamReadError {
    /// Whether records that could be read are the reason: the same for every request until one is changed.
    pub(super) const fn is_of_records(&self) -> bool {
        match self {
            Self::Register(_) | Self::Changing => false,
            Self::Undecodable { .. }
            | Self::MalformedPolicy { .. }
            | Self::UnknownAwsPolicy { .. }
            | Self::OtherMasterKey { .. }
            | Self::NoMasterKey { .. }
            | Self::DamagedSecret => true,
        }
    }
}

/// The id of a given key cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyTaken {
    /// Another user has it, or a call that gives it one was cut.
    #[error("The Access Key with id {id} is one of user {user}.")]
    ByUser {
        /// The id.
        id: AccessKeyId,
        /// The user's name.
        user: String,
    },
    /// The user has it, with another secret.
    #[error("The Access Key with id {id} has another secret.")]
    OtherSecret {
        /// The id.
        id: AccessKeyId,
    },
}

/// The entity that is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MissingEntity {
    /// A user or a group.
    #[error("The {} with name {name} cannot be found.", .kind.word())]
    Named {
        /// Kind of the entity.
        kind: EntityKind,
        /// The name that was asked for.
        name: String,
    },
    /// A managed policy.
    #[error("Policy {name} does not exist or is not attachable.")]
    Policy {
        /// The name that was asked for.
        name: String,
    },
    /// A version of a managed policy.
    #[error("Policy version v{number} does not exist.")]
    PolicyVersion {
        /// Number of the version.
        number: u32,
    },
    /// An inline policy.
    #[error("The {} policy with name {name} cannot be found.", .owner.word())]
    InlinePolicy {
        /// The kind of its owner.
        owner: EntityKind,
        /// The name that was asked for.
        name: String,
    },
    /// A managed policy that is not attached.
    #[error("Policy {name} was not found.")]
    Attachment {
        /// The name that was asked for.
        name: String,
    },
    /// A user that is not in the group.
    #[error("The user with name {user} cannot be found in group {group}.")]
    Member {
        /// The user.
        user: String,
        /// The group.
        group: String,
    },
    /// An access key.
    #[error("The Access Key with id {id} cannot be found.")]
    Key {
        /// The id that was asked for.
        id: String,
    },
}

/// A part of an entity that must go before the entity can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DeleteConflict {
    /// A user's access keys.
    #[error("Cannot delete entity, must delete access keys first.")]
    AccessKeys,
    /// Inline policies.
    #[error("Cannot delete entity, must delete policies first.")]
    InlinePolicies,
    /// Attached policies.
    #[error("Cannot delete entity, must detach all policies first.")]
    AttachedPolicies,
    /// A user's groups.
    #[error("Cannot delete entity, must remove users from group first.")]
    Memberships,
    /// A group's users.
    #[error("Cannot delete entity, must remove users from group first.")]
    Members,
    /// A managed policy that is attached.
    #[error("Cannot delete a policy attached to entities.")]
    Attached,
    /// A managed policy of several versions.
    #[error(
        "This policy has more than one version. Before you delete a policy, you must delete the policy's versions. The default version is deleted with the policy."
    )]
    Versions,
    /// The version in force.
    #[error("Cannot delete the default version of a policy.")]
    DefaultVersion,
}

/// The rule of AWS that a tag breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTag {
    /// The key has no character or too many, or one that tags do not have (`ValidationError`).
    #[error(
        "1 validation error detected: Value at 'tags.{place}.member.key' failed to satisfy constraint: Member must have 1 to {} of the characters [\\p{{L}}\\p{{Z}}\\p{{N}}_.:/=+\\-@]",
        sherd_core::limits::TAG_KEY_CHARS_MAX
    )]
    Key {
        /// Number of the tag, from 1.
        place: usize,
    },
    /// The value has too many characters, or one that tags do not have (`ValidationError`).
    #[error(
        "1 validation error detected: Value at 'tags.{place}.member.value' failed to satisfy constraint: Member must have at most {} of the characters [\\p{{L}}\\p{{Z}}\\p{{N}}_.:/=+\\-@]",
        sherd_core::limits::TAG_VALUE_CHARS_MAX
    )]
    Value {
        /// Number of the tag, from 1.
        place: usize,
    },
    /// A key is there twice (`InvalidInput`).
    #[error("Duplicate tag keys found.")]
    Twice,
    /// A key of a user is there twice, in one case or in two (`InvalidInput`).
    #[error("Duplicate tag keys found. Please note that Tag keys are case insensitive.")]
    TwiceInAnyCase,
    /// A key begins with `aws:` (`InvalidInput`).
    #[error("System tags cannot be added/updated by requester")]
    Reserved,
}

/// A quota.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitExceeded {
    /// A number of entities.
    #[error("Cannot exceed quota for {quota}: {max}")]
    Quota {
        /// The quota's name, as AWS has it.
        quota: &'static str,
        /// How many there may be.
        max: usize,
    },
    /// The inline policies of a user or a group are too long together.
    #[error("Maximum policy size of {max} bytes exceeded for {} {name}", .owner.word())]
    PolicySize {
        /// The kind of the owner.
        owner: EntityKind,
        /// Name of the owner.
        name: String,
        /// Characters that they may have.
        max: usize,
    },
    /// A managed policy has as many versions as it may.
    #[error(
        "A managed policy can have up to 5 versions. Before you create a new version, you must delete an existing version."
    )]
    PolicyVersions,
}
