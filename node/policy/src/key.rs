//! The condition keys of a request to S3 and of its caller, by name.

/// How a key is named and how many values it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Single,
    Multi,
    /// Followed by `/` and the key of a tag.
    Tag,
}

macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident $text:literal $form:ident,)*) => {
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
    };
}

keys! {
    SourceIp "aws:SourceIp" Single,
    SecureTransport "aws:SecureTransport" Single,
    UserAgent "aws:UserAgent" Single,
    Referer "aws:Referer" Single,
    CurrentTime "aws:CurrentTime" Single,
    EpochTime "aws:EpochTime" Single,
    RequestedRegion "aws:RequestedRegion" Single,
    /// The keys of the tags that a request gives to a bucket, a user or a policy.
    TagKeys "aws:TagKeys" Multi,
    RequestTag "aws:RequestTag" Tag,
    /// A tag of the user or the policy that a call to IAM is about, or a tag of root's of a bucket.
    ResourceTag "aws:ResourceTag" Tag,
    IamResourceTag "iam:ResourceTag" Tag,
    /// The managed policy that is attached or detached.
    PolicyArn "iam:PolicyARN" Single,
    /// Answered by the identity, like all of `Principal`.
    Username "aws:username" Single,
    UserId "aws:userid" Single,
    PrincipalArn "aws:PrincipalArn" Single,
    PrincipalAccount "aws:PrincipalAccount" Single,
    PrincipalType "aws:PrincipalType" Single,
    PrincipalTag "aws:PrincipalTag" Tag,
    PrincipalIsAwsService "aws:PrincipalIsAWSService" Single,
    ViaAwsService "aws:ViaAWSService" Single,
    ResourceAccount "aws:ResourceAccount" Single,
    S3ResourceAccount "s3:ResourceAccount" Single,
    /// `prefix` of a listing.
    Prefix "s3:prefix" Single,
    Delimiter "s3:delimiter" Single,
    MaxKeys "s3:max-keys" Single,
    VersionId "s3:VersionId" Single,
    /// A tag that the object has, before the request.
    ExistingObjectTag "s3:ExistingObjectTag" Tag,
    /// A tag that the request gives to an object.
    RequestObjectTag "s3:RequestObjectTag" Tag,
    RequestObjectTagKeys "s3:RequestObjectTagKeys" Multi,
    BucketTag "s3:BucketTag" Tag,
    /// `REST-HEADER`, `REST-QUERY-STRING` or `POST`.
    AuthType "s3:authType" Single,
    /// Milliseconds since a presigned request was signed.
    SignatureAge "s3:signatureAge" Single,
    /// `AWS4-HMAC-SHA256`.
    SignatureVersion "s3:signatureversion" Single,
    /// `1.2` or `1.3`.
    TlsVersion "s3:TlsVersion" Single,
    IfMatch "s3:if-match" Single,
    IfNoneMatch "s3:if-none-match" Single,
    LocationConstraint "s3:LocationConstraint" Single,
    /// `true` where the request makes an object.
    ObjectCreationOperation "s3:ObjectCreationOperation" Single,
    Acl "s3:x-amz-acl" Single,
    ContentSha256 "s3:x-amz-content-sha256" Single,
    CopySource "s3:x-amz-copy-source" Single,
    GrantFullControl "s3:x-amz-grant-full-control" Single,
    GrantRead "s3:x-amz-grant-read" Single,
    GrantReadAcp "s3:x-amz-grant-read-acp" Single,
    GrantWrite "s3:x-amz-grant-write" Single,
    GrantWriteAcp "s3:x-amz-grant-write-acp" Single,
    MetadataDirective "s3:x-amz-metadata-directive" Single,
    ObjectOwnership "s3:x-amz-object-ownership" Single,
    Encryption "s3:x-amz-server-side-encryption" Single,
    EncryptionKmsKey "s3:x-amz-server-side-encryption-aws-kms-key-id" Single,
    EncryptionCustomerAlgorithm "s3:x-amz-server-side-encryption-customer-algorithm" Single,
    StorageClass "s3:x-amz-storage-class" Single,
    WebsiteRedirectLocation "s3:x-amz-website-redirect-location" Single,
    ObjectLockLegalHold "s3:object-lock-legal-hold" Single,
    ObjectLockMode "s3:object-lock-mode" Single,
    ObjectLockRemainingDays "s3:object-lock-remaining-retention-days" Single,
    ObjectLockRetainUntil "s3:object-lock-retain-until-date" Single,
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
    "s3:AccessGrantsInstanceArn",
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
    "s3:locationconstraint",
    "s3:ObjectLockEnabled",
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
        let key = ConditionKey { name: self, tag: "".into(), text: "".into() };
        let names = match self {
            Self::RequestTag | Self::TagKeys => Some(THAT_TAG_BUCKETS),
            Self::IamResourceTag | Self::PolicyArn | Self::Other => Some(&[][..]),
            _ => key.actions(),
        };
        let name = action.strip_prefix("s3:");
        name.is_some_and(|name| names.is_none_or(|names| names.contains(&name)))
    }

    /// The name as AWS writes it; empty for [`KeyName::Other`].
    pub fn text(self) -> &'static str {
        KEYS.iter().find(|(name, _, _)| *name == self).map_or("", |(_, text, _)| text)
    }

    fn has_form(self, wanted: Form) -> bool {
        KEYS.iter().any(|(name, _, form)| *name == self && *form == wanted)
    }
}

/// The actions of S3 that have a key, for keys that only some of them have (AWS, "Actions, resources, and
/// condition keys for Amazon S3").
const LISTINGS: &[&str] = &["ListBucket", "ListBucketVersions"];
const OF_VERSIONS: &[&str] = &[
    "DeleteObjectVersion",
    "DeleteObjectVersionTagging",
    "GetObjectVersion",
    "GetObjectVersionAcl",
    "GetObjectVersionAttributes",
    "GetObjectVersionTagging",
    "GetObjectVersionTorrent",
    "PutObjectVersionAcl",
    "PutObjectVersionTagging",
    "RestoreObject",
];
const OF_TAGGED_OBJECTS: &[&str] = &[
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
    "ObjectOwnerOverrideToBucketOwner",
    "PutObjectAcl",
    "PutObjectTagging",
    "PutObjectVersionAcl",
    "PutObjectVersionTagging",
    "RestoreObject",
];
const THAT_TAG_BUCKETS: &[&str] = &["CreateBucket", "PutBucketTagging", "TagResource"];
const THAT_TAG: &[&str] = &["PutObject", "PutObjectTagging", "PutObjectVersionTagging", "ReplicateTags"];

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

    /// It as AWS writes it; one that is not known here in lower case.
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
        self.tag.len() + self.text.len()
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

    /// Whether no request for some actions of S3 has the key, although others to S3 or to IAM may. `has_any`
    /// says whether one of these is among the actions.
    pub(crate) fn is_unanswered_at_s3(&self, has_any: impl Fn(&[&str]) -> bool) -> bool {
        match self.name {
            KeyName::IamResourceTag | KeyName::PolicyArn => true,
            KeyName::ResourceTag => !self.is_of_roots_tag(),
            KeyName::TagKeys | KeyName::RequestTag => !has_any(THAT_TAG_BUCKETS),
            _ => false,
        }
    }

    /// Whether it is about a tag that is root's: of a bucket's tags, requests to S3 have those alone.
    fn is_of_roots_tag(&self) -> bool {
        self.tag.starts_with("sherd.dev/")
    }

    /// Whether S3 takes the key in a bucket's policy.
    pub(crate) fn is_of_s3(&self) -> bool {
        let head = self.text.split('/').next().unwrap_or_default();
        self.name != KeyName::Other && !self.text.starts_with("iam:")
            || GLOBAL_OTHERS.iter().chain(S3_OTHERS).any(|known| known.eq_ignore_ascii_case(head))
    }

    /// The actions of S3 that have the key; none if all may.
    pub(crate) fn actions(&self) -> Option<&'static [&'static str]> {
        match self.name {
            KeyName::Prefix | KeyName::Delimiter | KeyName::MaxKeys => Some(LISTINGS),
            KeyName::VersionId => Some(OF_VERSIONS),
            KeyName::ExistingObjectTag => Some(OF_TAGGED_OBJECTS),
            KeyName::RequestObjectTag | KeyName::RequestObjectTagKeys => Some(THAT_TAG),
            _ => None,
        }
    }
}
