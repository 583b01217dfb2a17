//! Why a document is refused, in the words of S3 and of IAM.

use std::fmt;

/// A document that is refused. Its text is what AWS answers: S3 with code `MalformedPolicy` for a bucket's
/// policy, IAM with code `MalformedPolicyDocument` for one of a user, a group or an account.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct MalformedPolicy {
    pub(crate) fault: Fault,
    pub(crate) is_of_bucket: bool,
}

/// The fault of a document, before it has words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    Json,
    Syntax,
    UnknownField(String),
    Version,
    VersionTooOld,
    NoStatement,
    EmptyStatement,
    Effect(String),
    MissingEffect,
    MissingPrincipal,
    PrincipalOfIdentity,
    Principal,
    AllowNotPrincipal,
    MissingAction,
    Action,
    ActionVendor(String),
    ActionWithoutVendor,
    MissingResource,
    Resource,
    ResourceForm(String),
    ResourcePartition {
        partition: String,
        resource: String,
    },
    ActionOfNoResource,
    SidForm,
    SidTwice,
    Operator(String),
    ConditionKey,
    /// A key without which a statement is more lenient than it reads, and that no request has.
    UnansweredKey(String),
    ConditionOfNoAction,
    ConditionValue,
}

impl fmt::Display for MalformedPolicy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_of_bucket { of_bucket(&self.fault, out) } else { of_identity(&self.fault, out) }
    }
}

fn of_bucket(fault: &Fault, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    out.write_str(match fault {
        Fault::UnknownField(name) => return write!(out, "Unknown field {name}"),
        Fault::Effect(effect) => return write!(out, "Invalid effect: {effect}"),
        Fault::Operator(name) => return write!(out, "Invalid Condition type : {name}"),
        Fault::Json => "Policies must be valid JSON and the first byte must be '{'",
        Fault::Syntax | Fault::SidForm | Fault::ConditionValue => "Invalid policy syntax.",
        Fault::Version | Fault::VersionTooOld => "The policy must contain a valid version string",
        Fault::NoStatement => "Missing required field Statement",
        Fault::EmptyStatement => "Could not parse the policy: Statement is empty!",
        Fault::MissingEffect => "Missing required field Effect",
        Fault::MissingPrincipal => "Missing required field Principal",
        Fault::Principal | Fault::PrincipalOfIdentity => "Invalid principal in policy",
        Fault::AllowNotPrincipal => "Allow with NotPrincipal is not allowed.",
        Fault::MissingAction => "Missing required field Action",
        Fault::Action | Fault::ActionVendor(_) | Fault::ActionWithoutVendor => "Policy has invalid action",
        Fault::MissingResource => "Missing required field Resource",
        Fault::Resource | Fault::ResourceForm(_) | Fault::ResourcePartition { .. } => {
            "Policy has invalid resource"
        }
        Fault::ActionOfNoResource => "Action does not apply to any resource(s) in statement",
        Fault::SidTwice => "Statement IDs (SID) in a single policy must be unique.",
        Fault::ConditionKey | Fault::UnansweredKey(_) => "Policy has an invalid condition key",
        Fault::ConditionOfNoAction => {
            "Conditions do not apply to combination of actions and resources in statement"
        }
    })
}

fn of_identity(fault: &Fault, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    out.write_str(match fault {
        Fault::ActionVendor(vendor) => return write!(out, "Vendor {vendor} is not valid"),
        Fault::UnansweredKey(key) => {
            return write!(
                out,
                "Condition key {key} is not supported: no request has it, so the statement would not restrict \
                 anything."
            );
        }
        Fault::ResourceForm(resource) => {
            return write!(out, "Resource {resource} must be in ARN format or \"*\".");
        }
        Fault::ResourcePartition { partition, resource } => {
            return write!(out, "Partition \"{partition}\" is not valid for resource \"{resource}\".");
        }
        Fault::Version => "The policy must contain a valid version string",
        Fault::VersionTooOld => "Policy document must be version 2012-10-17 or greater.",
        Fault::PrincipalOfIdentity | Fault::MissingPrincipal | Fault::Principal | Fault::AllowNotPrincipal => {
            "Policy document should not specify a principal."
        }
        Fault::MissingAction => "Policy statement must contain actions.",
        Fault::MissingResource => "Policy statement must contain resources.",
        Fault::ActionWithoutVendor | Fault::ConditionKey => {
            "Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc."
        }
        Fault::SidForm => {
            "Statement IDs (SID) must be alpha-numeric. Check that your input satisfies the regular expression \
             [0-9A-Za-z]*"
        }
        Fault::SidTwice => "Statement IDs (SID) in a single policy must be unique.",
        Fault::Json
        | Fault::Syntax
        | Fault::UnknownField(_)
        | Fault::NoStatement
        | Fault::EmptyStatement
        | Fault::Effect(_)
        | Fault::MissingEffect
        | Fault::Action
        | Fault::Resource
        | Fault::ActionOfNoResource
        | Fault::Operator(_)
        | Fault::ConditionOfNoAction
        | Fault::ConditionValue => "Syntax errors in policy.",
    })
}
