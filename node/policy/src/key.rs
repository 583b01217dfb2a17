//! The condition keys of a request to S3 and of its caller, by name, and which actions have each.
//!
//! One table says it for both: of a request for another action the key is absent, also where a header has a
//! value for it, and a new policy of a bucket has no condition by it on other actions alone.

use super::action::ActionSet;
use super::bytes::allocated;

/// How a key is named and how many values it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Single,
    Multi,
    /// Followed by `/` and the key of a tag.
    Tag,
}

/// The actions of S3 that have a key, without their `s3:`; none where all have it.
type Actions = Option<&'static [&'static str]>;

macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident $text:literal $form:ident $actions:ident,)*) => {
        /// The name of a condition key, without the key of a tag.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum KeyName {
            $(
                #[doc = concat!("`", $text, "`")]
                $(#[$doc])*
                $name,
            )*
            /// A key that no request has here: of another service, or of a service's own kinds.
            Other,
        }

        const KEYS: &[(KeyName, &str, Form)] = &[$((KeyName::$name, $text, Form::$form),)*];

        impl KeyName {
            /// The actions of S3 that have the key.
            pub(crate) const fn actions(self) -> Actions {
                match self {
                    $(Self::$name => $actions,)*
                    Self::Other => ALL,
                }
            }
        }
    };
}

// Actions by key as in "Actions, resources, and condition keys for Amazon S3" (AWS, Service Authorization
// Reference). A key that all requests have, or that is of the resource, has no list.
const ALL: Actions = None;
const NEW_BUCKETS: Actions = Some(&["CreateBucket"]);
const PLACED: Actions = Some(&["CreateAccessPoint", "CreateBucket"]);
/// Beside AWS's, `PutBucketTagging`: its document gives tags as CreateBucket's does.
const TAGGED_BUCKETS: Actions = Some(&["CreateBucket", "PutBucketTagging", "TagResource"]);
const LISTINGS: Actions = Some(&["ListBucket", "ListBucketVersions"]);
const VERSIONS: Actions = Some(&[
    "DeleteObjectVersion",
    "DeleteObjectVersionTagging",
    "GetObjectVersion",
    "GetObjectVersionAcl",
    "GetObjectVersionAttributes",
    "GetObjectVersionTagging",
    "GetObjectVersionTorrent",
    "PutObjectVersionAcl",
    "PutObjectVersionTagging",
]);
const TAGGED_OBJECTS: Actions = Some(&[
    "DeleteObjectTagging",
    "DeleteObjectVersionTagging",
    "GetObject",
    "GetObjectAcl",
    "GetObjectAttributes",
    "GetObjectTagging",
    "GetObjectVersion",
    "GetObjectVersionAcl",
    "GetObjectVersionAttributes",
    "GetObjectVersionTagging",
    "PutObjectAcl",
    "PutObjectTagging",
    "PutObjectVersionAcl",
    "PutObjectVersionTagging",
]);
const TAGGING: Actions =
    Some(&["BypassGovernanceRetention", "PutObject", "PutObjectTagging", "PutObjectVersionTagging"]);
const CREATIONS: Actions = Some(&["PutObject"]);
const GUARDED: Actions = Some(&["DeleteObject", "PutObject"]);
const WRITES: Actions = Some(&["BypassGovernanceRetention", "PutObject"]);
const STORED: Actions =
    Some(&["BypassGovernanceRetention", "PutObject", "PutObjectAcl", "PutObjectVersionAcl"]);
const GRANTS: Actions = Some(&[
    "BypassGovernanceRetention",
    "CreateBucket",
    "PutBucketAcl",
    "PutObject",
    "PutObjectAcl",
    "PutObjectVersionAcl",
]);
const CANNED: Actions = Some(&[
    "BypassGovernanceRetention",
    "CreateAccessPoint",
    "CreateBucket",
    "PutBucketAcl",
    "PutObject",
    "PutObjectAcl",
    "PutObjectVersionAcl",
]);
const ENCRYPTED: Actions =
    Some(&["BypassGovernanceRetention", "PutObject", "ReplicateObject", "UpdateObjectEncryption"]);
const ENCRYPTED_BY_CUSTOMERS: Actions = Some(&["BypassGovernanceRetention", "PutObject", "ReplicateObject"]);
const HELD: Actions = Some(&["PutObject", "PutObjectLegalHold"]);
const RETAINED: Actions = Some(&["PutObject", "PutObjectRetention"]);

keys! {
    SourceIp "aws:SourceIp" Single ALL,
    SecureTransport "aws:SecureTransport" Single ALL,
    UserAgent "aws:UserAgent" Single ALL,
    Referer "aws:Referer" Single ALL,
    CurrentTime "aws:CurrentTime" Single ALL,
    EpochTime "aws:EpochTime" Single ALL,
    RequestedRegion "aws:RequestedRegion" Single ALL,
    /// The keys of the tags that a request gives to a bucket, a user or a policy.
    TagKeys "aws:TagKeys" Multi TAGGED_BUCKETS,
    RequestTag "aws:RequestTag" Tag TAGGED_BUCKETS,
    /// A tag of the user or the policy that a call to IAM is about, or a tag of root's of a bucket.
    ResourceTag "aws:ResourceTag" Tag ALL,
    IamResourceTag "iam:ResourceTag" Tag ALL,
    /// The managed policy that is attached or detached.
    PolicyArn "iam:PolicyARN" Single ALL,
    /// Answered by the identity, like all of `Principal`.
    Username "aws:username" Single ALL,
    UserId "aws:userid" Single ALL,
    PrincipalArn "aws:PrincipalArn" Single ALL,
    PrincipalAccount "aws:PrincipalAccount" Single ALL,
    PrincipalType "aws:PrincipalType" Single ALL,
    PrincipalTag "aws:PrincipalTag" Tag ALL,
    PrincipalIsAwsService "aws:PrincipalIsAWSService" Single ALL,
    ViaAwsService "aws:ViaAWSService" Single ALL,
    ResourceAccount "aws:ResourceAccount" Single ALL,
    S3ResourceAccount "s3:ResourceAccount" Single ALL,
    /// `prefix` of a listing.
    Prefix "s3:prefix" Single LISTINGS,
    Delimiter "s3:delimiter" Single LISTINGS,
    MaxKeys "s3:max-keys" Single LISTINGS,
    VersionId "s3:VersionId" Single VERSIONS,
    /// A tag that the object has, before the request.
    ExistingObjectTag "s3:ExistingObjectTag" Tag TAGGED_OBJECTS,
    /// A tag that the request gives to an object.
    RequestObjectTag "s3:RequestObjectTag" Tag TAGGING,
    RequestObjectTagKeys "s3:RequestObjectTagKeys" Multi TAGGING,
    BucketTag "s3:BucketTag" Tag ALL,
    /// `REST-HEADER`, `REST-QUERY-STRING` or `POST`.
    AuthType "s3:authType" Single ALL,
    /// Milliseconds since a presigned request was signed.
    SignatureAge "s3:signatureAge" Single ALL,
    /// `AWS4-HMAC-SHA256`.
    SignatureVersion "s3:signatureversion" Single ALL,
    /// `1.2` or `1.3`.
    TlsVersion "s3:TlsVersion" Single ALL,
    IfMatch "s3:if-match" Single GUARDED,
    IfNoneMatch "s3:if-none-match" Single CREATIONS,
    LocationConstraint "s3:LocationConstraint" Single PLACED,
    /// `true` where the request makes an object.
    ObjectCreationOperation "s3:ObjectCreationOperation" Single CREATIONS,
    Acl "s3:x-amz-acl" Single CANNED,
    ContentSha256 "s3:x-amz-content-sha256" Single ALL,
    CopySource "s3:x-amz-copy-source" Single WRITES,
    GrantFullControl "s3:x-amz-grant-full-control" Single GRANTS,
    GrantRead "s3:x-amz-grant-read" Single GRANTS,
    GrantReadAcp "s3:x-amz-grant-read-acp" Single GRANTS,
    GrantWrite "s3:x-amz-grant-write" Single GRANTS,
    GrantWriteAcp "s3:x-amz-grant-write-acp" Single GRANTS,
    MetadataDirective "s3:x-amz-metadata-directive" Single WRITES,
    ObjectOwnership "s3:x-amz-object-ownership" Single NEW_BUCKETS,
    Encryption "s3:x-amz-server-side-encryption" Single ENCRYPTED,
    EncryptionKmsKey "s3:x-amz-server-side-encryption-aws-kms-key-id" Single ENCRYPTED,
    EncryptionCustomerAlgorithm "s3:x-amz-server-side-encryption-customer-algorithm" Single ENCRYPTED_BY_CUSTOMERS,
    StorageClass "s3:x-amz-storage-class" Single STORED,
    WebsiteRedirectLocation "s3:x-amz-website-redirect-location" Single WRITES,
    ObjectLockLegalHold "s3:object-lock-legal-hold" Single HELD,
    ObjectLockMode "s3:object-lock-mode" Single RETAINED,
    ObjectLockRemainingDays "s3:object-lock-remaining-retention-days" Single RETAINED,
    ObjectLockRetainUntil "s3:object-lock-retain-until-date" Single RETAINED,
}

/// Global keys that exist and that no request has here: of sessions, organizations, networks, other services.
const GLOBAL_OTHERS: &[&str] = &[
    "aws:AssumedRoot",
    "aws:CalledVia",
    "aws:CalledViaFirst",
    "aws:CalledViaLast",
    "aws:ChatbotSourceArn",
    "aws:Ec2InstanceSourcePrivateIPv4",
    "aws:Ec2InstanceSourceVpc",
    "aws:FederatedProvider",
    "aws:MultiFactorAuthAge",
    "aws:MultiFactorAuthPresent",
    "aws:PrincipalOrgID",
    "aws:PrincipalOrgPaths",
    "aws:PrincipalServiceName",
    "aws:PrincipalServiceNamesList",
    "aws:ResourceOrgID",
    "aws:ResourceOrgPaths",
    "aws:SourceAccount",
    "aws:SourceArn",
    "aws:SourceIdentity",
    "aws:SourceOrgID",
    "aws:SourceOrgPaths",
    "aws:SourceOwner",
    "aws:SourceVpc",
    "aws:SourceVpcArn",
    "aws:SourceVpce",
    "aws:TokenIssueTime",
    "aws:VpceAccount",
    "aws:VpceOrgID",
    "aws:VpceOrgPaths",
    "aws:VpcSourceIp",
];
/// Keys of S3 that exist and that no request has here: access points, jobs, replication, grants.
const S3_OTHERS: &[&str] = &[
    "s3:AccessGrantScope",
    "s3:AccessGrantsInstanceArn",
    "s3:AccessGrantsLocationScope",
    "s3:AccessPointNetworkOrigin",
    "s3:AccessPointTag",
    "s3:DataAccessPointAccount",
    "s3:DataAccessPointArn",
    "s3:DestinationRegion",
    "s3:ExistingJobOperation",
    "s3:ExistingJobPriority",
    "s3:InventoryAccessibleOptionalFields",
    "s3:isReplicationPauseRequest",
    "s3:JobSuspendedCause",
    "s3:RequestJobOperation",
    "s3:RequestJobPriority",
    "s3:ObjectLockEnabled",
    "s3:x-amz-bucket-namespace",
];

impl KeyName {
    /// Whether a key of a tag follows the name.
    pub fn takes_tag(self) -> bool {
        self.has_form(Form::Tag)
    }

    /// Whether a request may have several values under the name.
    pub fn is_multivalued(self) -> bool {
        self.has_form(Form::Multi)
    }

    /// Whether requests for an action of S3 (`s3:GetObject`) may have the key.
    pub fn is_of_s3_action(self, action: &str) -> bool {
        let is_of_iam = matches!(self, Self::IamResourceTag | Self::PolicyArn | Self::Other);
        action.starts_with("s3:") && !is_of_iam && self.is_of(action)
    }

    /// The name as AWS writes it; empty for [`KeyName::Other`].
    pub fn text(self) -> &'static str {
        KEYS.iter().find(|(name, _, _)| *name == self).map_or("", |(_, text, _)| text)
    }

    /// Whether requests for an action may have the key. One of another service has the keys that this service
    /// gives it.
    pub fn is_of(self, action: &str) -> bool {
        let Some(names) = self.actions() else { return true };
        action.strip_prefix("s3:").is_none_or(|name| names.contains(&name))
    }

    /// The actions of S3 that have the key, as a set.
    fn action_set(self) -> ActionSet {
        self.actions().map_or_else(ActionSet::all, ActionSet::of)
    }

    fn has_form(self, wanted: Form) -> bool {
        KEYS.iter().any(|(name, _, form)| *name == self && *form == wanted)
    }
}

/// A condition key as a policy names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConditionKey {
    pub(crate) name: KeyName,
    /// The key of a tag; empty where the name takes none.
    pub(crate) tag: Box<str>,
    /// The whole text in the lower case of ASCII: names are compared without regard to case.
    pub(crate) text: Box<str>,
}

impl ConditionKey {
    pub(crate) fn parse(text: &str) -> Self {
        let (head, tag) = text.split_once('/').unwrap_or((text, ""));
        let found = KEYS.iter().find(|(_, known, form)| {
            known.eq_ignore_ascii_case(head) && (*form == Form::Tag) == text.contains('/')
        });
        let name = found.map_or(KeyName::Other, |(name, _, _)| *name);
        let tag = if name == KeyName::Other { "" } else { tag };
        Self { name, tag: tag.into(), text: text.to_ascii_lowercase().into() }
    }

    /// The key as AWS writes it; a key that is not known here in lower case.
    pub(crate) fn shown(&self) -> String {
        match (self.name, &*self.tag) {
            (KeyName::Other, _) => {
                let mut known = GLOBAL_OTHERS.iter().chain(S3_OTHERS);
                let found = known.find(|known| known.eq_ignore_ascii_case(&self.text));
                found.map_or(&*self.text, |known| *known).to_owned()
            }
            (name, "") => name.text().to_owned(),
            (name, tag) => format!("{}/{tag}", name.text()),
        }
    }

    /// Bytes that it keeps beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        allocated(self.tag.len()) + allocated(self.text.len())
    }

    /// Whether no request has the key, although it is one of S3's or IAM's own. Those of AWS's other
    /// services, of organizations, networks and sessions are truly absent: no request comes by way of one.
    pub(crate) fn is_never_answered(&self) -> bool {
        match self.name {
            KeyName::ObjectLockRemainingDays => true,
            KeyName::BucketTag => !self.is_of_roots_tag(),
            KeyName::Other => self.text.starts_with("s3:") || self.text.starts_with("iam:"),
            _ => false,
        }
    }

    /// Whether no request for these actions of S3 has the key, although others to S3 or to IAM may.
    pub(crate) fn is_unanswered_at_s3(&self, actions: ActionSet) -> bool {
        match self.name {
            KeyName::IamResourceTag | KeyName::PolicyArn => true,
            KeyName::ResourceTag => !self.is_of_roots_tag(),
            KeyName::TagKeys | KeyName::RequestTag => !self.name.action_set().has_any(actions),
            _ => false,
        }
    }

    /// Whether the key is about a tag that is root's: of a bucket's tags, requests to S3 have those alone.
    fn is_of_roots_tag(&self) -> bool {
        self.tag.starts_with("sherd.dev/")
    }

    /// Whether S3 takes the key in a bucket's policy.
    pub(crate) fn is_of_s3(&self) -> bool {
        let head = self.text.split('/').next().unwrap_or_default();
        self.name != KeyName::Other && !self.text.starts_with("iam:")
            || GLOBAL_OTHERS.iter().chain(S3_OTHERS).any(|known| known.eq_ignore_ascii_case(head))
    }

    /// The actions that a condition by the key has to be about in a bucket's policy: those that have it, of
    /// S3's own keys. S3 takes global keys with any.
    pub(crate) fn actions_in_bucket_policy(&self) -> ActionSet {
        if self.text.starts_with("s3:") { self.name.action_set() } else { ActionSet::all() }
    }
}
