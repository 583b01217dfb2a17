//! The facts of a request to S3 that conditions name, beside those of its origin. Each is computed where a
//! condition asks for it alone.

use http::header::{AsHeaderName, IF_MATCH, IF_NONE_MATCH, REFERER, USER_AGENT};
use sherd_core::record::Tag;
use sherd_policy::{KeyName, Values};

use sherd_front::callers::AuthType;
use sherd_front::decision::{Fact, ServiceFacts};
use sherd_signature::payload::PayloadForm;

use crate::head::columns::{Columns, Copies, DocumentSays, VERSION_ID};
use crate::head::directive;
use crate::head::request_head::RequestHead;

/// The parts of a request that facts are made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    /// `None`: facts of no request.
    head: Option<&'a RequestHead<'a>>,
    /// The row of the request's operation, where the facts are those of the operation: operations that share
    /// an action read different parts of a request.
    columns: Option<&'static Columns>,
    /// Whether they are about an object that is there, whose tags count.
    is_about_object: bool,
    /// Whether a document, or the source of a copy, gives tags.
    awaits_document: bool,
    version: Option<&'a str>,
    /// The entity tag that guards a write, where no header has it.
    guard: Option<&'a str>,
    existing_tags: Option<&'a [Tag]>,
    document: Option<DocumentFacts<'a>>,
}

/// The facts in the document of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DocumentFacts<'a> {
    /// The tags that an object gets.
    Tags(&'a [Tag]),
    /// The location and the tags that a bucket gets; empty where it names none.
    Bucket { location: &'a str, tags: &'a [Tag] },
}

impl<'a> Facts<'a> {
    /// The facts of no request.
    pub(crate) const NONE: Self = Self {
        head: None,
        columns: None,
        is_about_object: false,
        awaits_document: false,
        version: None,
        guard: None,
        existing_tags: None,
        document: None,
    };

    /// The facts in the head of a request.
    pub(crate) const fn of(head: &'a RequestHead<'a>) -> Self {
        Self { head: Some(head), ..Self::NONE }
    }

    /// The same about an object that is there, whose tags count.
    pub(crate) const fn about_object(self) -> Self {
        Self { is_about_object: true, ..self }
    }

    /// The same about a write whose tags are read later: in its document, or at the source of a copy.
    pub(crate) const fn awaiting_document(self) -> Self {
        Self { awaits_document: true, ..self }
    }

    /// The same of an operation.
    pub(crate) const fn of_operation(self, columns: Option<&'static Columns>) -> Self {
        Self { columns, is_about_object: false, awaits_document: false, ..self }
    }

    /// The row of the operation that the facts are of.
    pub(super) const fn columns(&self) -> Option<&'static Columns> {
        self.columns
    }

    /// The same about a version other than that of the request's own object.
    pub(crate) const fn with_version(self, version: Option<&'a str>) -> Self {
        Self { version, ..self }
    }

    /// The same about a write that an entity tag guards, or that no condition does.
    pub(crate) const fn with_guard(self, guard: Option<&'a str>) -> Self {
        Self { guard, ..self }
    }

    /// The same about an object with these tags.
    pub(crate) const fn with_existing_tags(self, tags: &'a [Tag]) -> Self {
        Self { existing_tags: Some(tags), ..self }
    }

    /// The same with what the request's document says.
    pub(crate) const fn with_document(self, document: DocumentFacts<'a>) -> Self {
        Self { document: Some(document), ..self }
    }

    /// Whether a column of the operation's row holds.
    fn has(&self, column: impl Fn(&Columns) -> bool) -> bool {
        self.columns.is_some_and(column)
    }

    /// Whether tags of an object, or the location of a bucket, stand in a document or are those of the source
    /// of a copy.
    fn has_document(&self) -> bool {
        let replaces_tags = || self.head.is_some_and(|head| directive::replaces_tags(head) == Ok(true));
        self.awaits_document
            || self.has(|columns| match columns.document_says {
                DocumentSays::ObjectTags | DocumentSays::NewBucket => true,
                DocumentSays::Nothing | DocumentSays::BucketTags => {
                    columns.copies == Copies::Object && !replaces_tags()
                }
            })
    }

    fn header(&self, name: impl AsHeaderName) -> Values<'a> {
        self.head.and_then(|head| head.value(name)).map_or(Values::Absent, Values::One)
    }

    fn parameter(&self, name: &str) -> Values<'a> {
        self.head.and_then(|head| head.parameter_value(name)).map_or(Values::Absent, Values::One)
    }

    fn version_id(&self) -> Values<'a> {
        self.version.map_or_else(|| self.parameter(VERSION_ID), Values::from)
    }

    /// The tags that the request gives to an object, by its header, its form, its document or what it copies.
    fn request_tags(&self) -> Result<&'a [Tag], Fact> {
        match self.document {
            Some(DocumentFacts::Tags(tags)) => Ok(tags),
            None if self.has_document() => Err(Fact::Document),
            Some(DocumentFacts::Bucket { .. }) | None => {
                let given = self.head.and_then(RequestHead::tags);
                Ok(given.map_or(&[], |given| &given.named))
            }
        }
    }

    fn request_tag_keys(&self) -> Result<Values<'a>, Fact> {
        let tags = self.request_tags()?;
        Ok(if tags.is_empty() { Values::Absent } else { keys_of(tags) })
    }

    /// The tags that the request gives to a bucket.
    fn bucket_tags_given(&self) -> Result<&[Tag], Fact> {
        match self.document {
            Some(DocumentFacts::Bucket { tags, .. }) => Ok(tags),
            None if self.has(tags_bucket) => Err(Fact::Document),
            Some(DocumentFacts::Tags(_)) | None => Ok(&[]),
        }
    }

    fn bucket_tag_given(&self, key: &str) -> Result<Values<'_>, Fact> {
        let tags = self.bucket_tags_given()?;
        let found = tags.iter().find(|tag| tag.key == key);
        let found = found.or_else(|| tags.iter().find(|tag| tag.key.eq_ignore_ascii_case(key)));
        Ok(found.map(|tag| tag.value.as_str()).into())
    }

    fn bucket_tag_keys_given(&self) -> Result<Values<'_>, Fact> {
        // Conditions on sets take one without values for an absent one.
        Ok(keys_of(self.bucket_tags_given()?))
    }
}

/// Whether the document of an operation gives tags to a bucket.
const fn tags_bucket(columns: &Columns) -> bool {
    matches!(columns.document_says, DocumentSays::BucketTags | DocumentSays::NewBucket)
}

/// The keys of tags.
fn keys_of(tags: &[Tag]) -> Values<'_> {
    Values::Many(tags.iter().map(|tag| tag.key.as_str().into()).collect())
}

/// The value of a tag.
fn value_of<'a>(tags: &'a [Tag], key: &str) -> Values<'a> {
    let found = tags.iter().find(|tag| tag.key == key);
    found.map_or(Values::Absent, |tag| Values::from(tag.value.as_str()))
}

/// The facts of a request in a bucket.
pub(super) struct RequestFacts<'a> {
    pub(super) parts: Facts<'a>,
    /// The tags of the bucket that are root's. Of others S3 says nothing to conditions, either, before
    /// attribute-based access control is turned on for the bucket.
    pub(super) bucket_tags: &'a [Tag],
    /// How the request is signed.
    pub(super) auth_type: Option<AuthType>,
}

impl RequestFacts<'_> {
    fn existing_tag(&self, key: &str) -> Result<Values<'_>, Fact> {
        match self.parts.existing_tags {
            Some(tags) => Ok(value_of(tags, key)),
            None if self.parts.is_about_object || self.parts.has(|columns| columns.existing_object) => {
                Err(Fact::Tags)
            }
            None => Ok(Values::Absent),
        }
    }

    fn location(&self) -> Result<Values<'_>, Fact> {
        match self.parts.document {
            Some(DocumentFacts::Bucket { location: "", .. } | DocumentFacts::Tags(_)) => Ok(Values::Absent),
            Some(DocumentFacts::Bucket { location, .. }) => Ok(location.into()),
            None if self.parts.has_document() => Err(Fact::Document),
            None => Ok(Values::Absent),
        }
    }

    /// The hash of the payload; a presigned URL that names none leaves it open.
    fn content_sha256(&self) -> Values<'_> {
        match self.parts.header("x-amz-content-sha256") {
            Values::Absent if self.auth_type == Some(AuthType::Query) => PayloadForm::UNSIGNED.into(),
            given => given,
        }
    }
}

/// The header that a key is about, for keys that each request with one of their actions may have.
const fn header_of(name: KeyName) -> Option<&'static str> {
    Some(match name {
        KeyName::Acl => "x-amz-acl",
        KeyName::GrantFullControl => "x-amz-grant-full-control",
        KeyName::GrantRead => "x-amz-grant-read",
        KeyName::GrantReadAcp => "x-amz-grant-read-acp",
        KeyName::GrantWrite => "x-amz-grant-write",
        KeyName::GrantWriteAcp => "x-amz-grant-write-acp",
        KeyName::ObjectOwnership => "x-amz-object-ownership",
        KeyName::Encryption => "x-amz-server-side-encryption",
        KeyName::EncryptionKmsKey => "x-amz-server-side-encryption-aws-kms-key-id",
        KeyName::EncryptionCustomerAlgorithm => "x-amz-server-side-encryption-customer-algorithm",
        KeyName::StorageClass => "x-amz-storage-class",
        KeyName::WebsiteRedirectLocation => "x-amz-website-redirect-location",
        KeyName::ObjectLockLegalHold => "x-amz-object-lock-legal-hold",
        KeyName::ObjectLockMode => "x-amz-object-lock-mode",
        KeyName::ObjectLockRetainUntil => "x-amz-object-lock-retain-until-date",
        _ => return None,
    })
}

impl ServiceFacts for RequestFacts<'_> {
    fn user_agent(&self) -> Values<'_> {
        self.parts.header(USER_AGENT)
    }

    fn values(&self, name: KeyName, tag: &str) -> Result<Values<'_>, Fact> {
        let Self { parts, bucket_tags, auth_type: _ } = self;
        let (lists, copies, guards) =
            (parts.has(|row| row.lists_keys), parts.has(Columns::is_copy), parts.has(|row| row.conditions));
        Ok(match name {
            KeyName::Referer => parts.header(REFERER),
            KeyName::Prefix if lists => parts.parameter("prefix"),
            KeyName::Delimiter if lists => parts.parameter("delimiter"),
            KeyName::MaxKeys if lists => parts.parameter("max-keys"),
            KeyName::VersionId => parts.version_id(),
            KeyName::ExistingObjectTag => self.existing_tag(tag)?,
            KeyName::RequestTag => parts.bucket_tag_given(tag)?,
            KeyName::TagKeys => parts.bucket_tag_keys_given()?,
            KeyName::BucketTag | KeyName::ResourceTag => value_of(bucket_tags, tag),
            KeyName::RequestObjectTag => value_of(parts.request_tags()?, tag),
            KeyName::RequestObjectTagKeys => parts.request_tag_keys()?,
            KeyName::IfMatch if guards => parts.header(IF_MATCH),
            KeyName::IfMatch => parts.guard.into(),
            KeyName::IfNoneMatch if guards => parts.header(IF_NONE_MATCH),
            KeyName::LocationConstraint => self.location()?,
            KeyName::ObjectCreationOperation => {
                let creates = parts.columns.and_then(|columns| columns.creates);
                creates.map(|creates| if creates { "true" } else { "false" }).into()
            }
            KeyName::ContentSha256 => self.content_sha256(),
            KeyName::CopySource if copies => parts.head.and_then(RequestHead::copied_path).into(),
            KeyName::MetadataDirective if copies => parts.header("x-amz-metadata-directive"),
            // Keys of the identity are never asked for here; all others no request has.
            name => header_of(name).map_or(Values::Absent, |header| parts.header(header)),
        })
    }
}
