//! The facts of a request to S3 that conditions name, beside those of its origin. Each is computed where a
//! condition asks for it alone.

use http::header::{AsHeaderName, IF_MATCH, IF_NONE_MATCH, REFERER, USER_AGENT};
use sherd_core::record::Tag;
use sherd_policy::{KeyName, Values};

use sherd_front::callers::AuthType;
use sherd_front::decision::{Fact, ServiceFacts};
use sherd_signature::payload::PayloadForm;

use crate::head::columns::VERSION_ID;
use crate::head::request_head::RequestHead;

/// The kinds of facts that a request has by what it does, beside what the action that is asked for says:
/// operations that share an action read different parts of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "a request may have any of these kinds of facts")]
pub(crate) struct FactKinds {
    /// Whether it lists keys, by a prefix and a delimiter.
    pub(crate) lists: bool,
    /// Whether it copies from what a header names.
    pub(crate) copies: bool,
    /// Whether it is one of those that write objects, and if so, whether it makes one.
    pub(crate) creates: Option<bool>,
    /// Whether its conditions guard a write.
    pub(crate) guards: bool,
    /// Whether it is about an object that is there, whose tags count.
    pub(crate) has_existing_tags: bool,
    /// Whether its document, or the source of a copy, gives an object's tags, or its document a bucket's
    /// location.
    pub(crate) has_document: bool,
    /// Whether its document gives a bucket's tags.
    pub(crate) tags_bucket: bool,
}

/// The parts of a request that facts are made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    /// `None`: facts of no request.
    head: Option<&'a RequestHead<'a>>,
    kinds: FactKinds,
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

impl FactKinds {
    /// The kinds of a request that has no facts by what it does.
    pub(super) const NONE: Self = Self {
        lists: false,
        copies: false,
        creates: None,
        guards: false,
        has_existing_tags: false,
        has_document: false,
        tags_bucket: false,
    };
}

impl<'a> Facts<'a> {
    /// The facts of no request.
    pub(crate) const NONE: Self = Self {
        head: None,
        kinds: FactKinds::NONE,
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
        Self { kinds: FactKinds { has_existing_tags: true, ..self.kinds }, ..self }
    }

    /// The same about a write whose tags are read later: in its document, or at the source of a copy.
    pub(crate) const fn awaiting_document(self) -> Self {
        Self { kinds: FactKinds { has_document: true, ..self.kinds }, ..self }
    }

    /// The same about a request that has these kinds of facts.
    pub(crate) const fn of_kinds(self, kinds: FactKinds) -> Self {
        Self { kinds, ..self }
    }

    /// The kinds of facts that the request has.
    pub(super) const fn kinds(&self) -> FactKinds {
        self.kinds
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
            None if self.kinds.has_document => Err(Fact::Document),
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
            None if self.kinds.tags_bucket => Err(Fact::Document),
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
            None if self.parts.kinds.has_existing_tags => Err(Fact::Tags),
            None => Ok(Values::Absent),
        }
    }

    fn location(&self) -> Result<Values<'_>, Fact> {
        match self.parts.document {
            Some(DocumentFacts::Bucket { location: "", .. } | DocumentFacts::Tags(_)) => Ok(Values::Absent),
            Some(DocumentFacts::Bucket { location, .. }) => Ok(location.into()),
            None if self.parts.kinds.has_document => Err(Fact::Document),
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
        let kinds = parts.kinds;
        Ok(match name {
            KeyName::Referer => parts.header(REFERER),
            KeyName::Prefix if kinds.lists => parts.parameter("prefix"),
            KeyName::Delimiter if kinds.lists => parts.parameter("delimiter"),
            KeyName::MaxKeys if kinds.lists => parts.parameter("max-keys"),
            KeyName::VersionId => parts.version_id(),
            KeyName::ExistingObjectTag => self.existing_tag(tag)?,
            KeyName::RequestTag => parts.bucket_tag_given(tag)?,
            KeyName::TagKeys => parts.bucket_tag_keys_given()?,
            KeyName::BucketTag | KeyName::ResourceTag => value_of(bucket_tags, tag),
            KeyName::RequestObjectTag => value_of(parts.request_tags()?, tag),
            KeyName::RequestObjectTagKeys => parts.request_tag_keys()?,
            KeyName::IfMatch if kinds.guards => parts.header(IF_MATCH),
            KeyName::IfMatch => parts.guard.into(),
            KeyName::IfNoneMatch if kinds.guards => parts.header(IF_NONE_MATCH),
            KeyName::LocationConstraint => self.location()?,
            KeyName::ObjectCreationOperation => {
                kinds.creates.map(|creates| if creates { "true" } else { "false" }).into()
            }
            KeyName::ContentSha256 => self.content_sha256(),
            KeyName::CopySource if kinds.copies => parts.head.and_then(RequestHead::copied_path).into(),
            KeyName::MetadataDirective if kinds.copies => parts.header("x-amz-metadata-directive"),
            // Keys of the identity are never asked for here; all others no request has.
            name => header_of(name).map_or(Values::Absent, |header| parts.header(header)),
        })
    }
}
