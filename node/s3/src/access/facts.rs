//! The facts of a request that conditions name. Each is computed where a condition asks for it alone.

use std::borrow::Cow;
use std::cell::Cell;

use http::header::{HeaderMap, IF_MATCH, IF_NONE_MATCH, REFERER, USER_AGENT};
use percent_encoding::percent_decode_str;
use sherd_core::record::Tag;
use sherd_policy::{KeyName, Values};

use sherd_front::callers::{AuthType, Caller};
use sherd_front::source::Source;
use sherd_signature::amz_date::AmzDate;
use sherd_signature::payload::PayloadForm;
use sherd_signature::query::Query;

/// The header that names the source of a copy.
const COPY_SOURCE: &str = "x-amz-copy-source";
/// The header that says whether a copy keeps its source's tags.
pub(crate) const TAGGING_DIRECTIVE: &str = "x-amz-tagging-directive";

/// The thing that a decision waits for, as a condition asks for what it alone says. Later ones come after the
/// earlier are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AwaitedFacts {
    /// None: the decision is taken.
    Nothing,
    /// The document of the request.
    Document,
    /// The tags of the object.
    Tags,
}

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
    headers: &'a HeaderMap,
    query: Option<&'a Query<'a>>,
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
    /// Those of a request without any.
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
    /// Those in headers alone.
    pub(crate) const fn of(headers: &'a HeaderMap) -> Self {
        let kinds = FactKinds::NONE;
        Self { headers, query: None, kinds, version: None, guard: None, existing_tags: None, document: None }
    }

    /// Those in the whole head of a request.
    pub(crate) const fn of_head(headers: &'a HeaderMap, query: &'a Query<'a>, kinds: FactKinds) -> Self {
        Self { query: Some(query), kinds, ..Self::of(headers) }
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
    pub(super) const fn of_kinds(self, kinds: FactKinds) -> Self {
        Self { kinds, ..self }
    }

    /// The kinds of facts that the request has.
    pub(super) const fn kinds(&self) -> FactKinds {
        self.kinds
    }

    /// The same about a version.
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

    fn header(&self, name: impl http::header::AsHeaderName) -> Values<'a> {
        let value = self.headers.get(name);
        value.map_or(Values::Absent, |value| Values::One(String::from_utf8_lossy(value.as_bytes())))
    }

    fn parameter(&self, name: &str) -> Values<'_> {
        self.query.and_then(|query| query.text(name)).map_or(Values::Absent, Values::One)
    }

    fn version_id(&self) -> Values<'_> {
        self.version.map_or_else(|| self.parameter("versionId"), Values::from)
    }

    /// The source of a copy, `bucket/key`, without its version and without what is escaped in the header.
    fn copy_source(&self) -> Values<'_> {
        let Some(value) = self.headers.get(COPY_SOURCE) else { return Values::Absent };
        let text = std::str::from_utf8(value.as_bytes()).unwrap_or_default();
        let (path, _) = text.split_once("?versionId=").unwrap_or((text, ""));
        let decoded = form_text(path);
        Values::from(decoded.strip_prefix('/').unwrap_or(&decoded).to_owned())
    }

    /// The tags that the request gives to an object, by its header, its document or what it copies; `None`
    /// where the last two are not read yet.
    fn request_tags(&self) -> Option<Vec<(Cow<'_, str>, Cow<'_, str>)>> {
        match self.document {
            Some(DocumentFacts::Tags(tags)) => {
                Some(tags.iter().map(|tag| ((&*tag.key).into(), (&*tag.value).into())).collect())
            }
            None if self.kinds.has_document => None,
            Some(DocumentFacts::Bucket { .. }) | None => {
                let text = self.headers.get("x-amz-tagging").and_then(|text| text.to_str().ok());
                let pairs = text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
                let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
                Some(pairs.map(|(key, value)| (form_text(key), form_text(value))).collect())
            }
        }
    }
}

/// The value of a tag.
fn value_of<'a>(tags: &'a [Tag], key: &str) -> Values<'a> {
    let found = tags.iter().find(|tag| tag.key == key);
    found.map_or(Values::Absent, |tag| Values::from(tag.value.as_str()))
}

/// URL query text, in which a plus sign is a blank.
fn form_text(text: &str) -> Cow<'_, str> {
    let blanks = text.replace('+', " ");
    percent_decode_str(&blanks).decode_utf8_lossy().into_owned().into()
}

/// The caller of a request, and where and when it came from there.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    pub(super) caller: Caller,
    pub(super) source: Source,
    /// When the request was admitted, in milliseconds since the Unix epoch.
    pub(super) asked_ms: u64,
}

/// The facts of a request and of its caller, as a policy asks for them.
pub(super) struct RequestFacts<'a> {
    origin: &'a Origin,
    region: &'a str,
    /// The tags of the bucket that are root's. Of others S3 says nothing to conditions, either, before
    /// attribute-based access control is turned on for the bucket.
    bucket_tags: &'a [Tag],
    parts: Facts<'a>,
    awaited: Cell<AwaitedFacts>,
}

impl<'a> RequestFacts<'a> {
    pub(super) const fn new(
        origin: &'a Origin,
        region: &'a str,
        bucket_tags: &'a [Tag],
        parts: Facts<'a>,
    ) -> Self {
        Self { origin, region, bucket_tags, parts, awaited: Cell::new(AwaitedFacts::Nothing) }
    }

    /// The facts that were asked for and are not there yet: the decision may depend on them.
    pub(super) const fn awaited(&self) -> AwaitedFacts {
        self.awaited.get()
    }

    fn wait_for(&self, awaited: AwaitedFacts) -> Values<'_> {
        self.awaited.set(self.awaited.get().max(awaited));
        Values::Absent
    }

    fn existing_tag(&self, key: &str) -> Values<'_> {
        match self.parts.existing_tags {
            Some(tags) => value_of(tags, key),
            None if self.parts.kinds.has_existing_tags => self.wait_for(AwaitedFacts::Tags),
            None => Values::Absent,
        }
    }

    fn request_tag(&self, key: &str) -> Values<'_> {
        let Some(tags) = self.parts.request_tags() else { return self.wait_for(AwaitedFacts::Document) };
        let found = tags.into_iter().find(|(name, _)| name == key);
        found.map_or(Values::Absent, |(_, value)| Values::One(value))
    }

    fn request_tag_keys(&self) -> Values<'_> {
        let Some(tags) = self.parts.request_tags() else { return self.wait_for(AwaitedFacts::Document) };
        if tags.is_empty() {
            Values::Absent
        } else {
            Values::Many(tags.into_iter().map(|(key, _)| key).collect())
        }
    }

    /// The tags that the request gives to a bucket; `None` where the document is not read yet.
    fn bucket_tags_given(&self) -> Option<&[Tag]> {
        match self.parts.document {
            Some(DocumentFacts::Bucket { tags, .. }) => Some(tags),
            None if self.parts.kinds.tags_bucket => None,
            Some(DocumentFacts::Tags(_)) | None => Some(&[]),
        }
    }

    fn bucket_tag_given(&self, key: &str) -> Values<'_> {
        let Some(tags) = self.bucket_tags_given() else { return self.wait_for(AwaitedFacts::Document) };
        match value_of(tags, key) {
            Values::Absent => {
                let found = tags.iter().find(|tag| tag.key.eq_ignore_ascii_case(key));
                found.map(|tag| tag.value.as_str()).into()
            }
            given => given,
        }
    }

    fn bucket_tag_keys_given(&self) -> Values<'_> {
        let Some(tags) = self.bucket_tags_given() else { return self.wait_for(AwaitedFacts::Document) };
        // Conditions on sets take one without values for an absent one.
        Values::Many(tags.iter().map(|tag| tag.key.as_str().into()).collect())
    }

    fn location(&self) -> Values<'_> {
        match self.parts.document {
            Some(DocumentFacts::Bucket { location: "", .. } | DocumentFacts::Tags(_)) => Values::Absent,
            Some(DocumentFacts::Bucket { location, .. }) => location.into(),
            None if self.parts.kinds.has_document => self.wait_for(AwaitedFacts::Document),
            None => Values::Absent,
        }
    }

    fn auth_type(&self) -> Option<&'static str> {
        Some(match self.origin.caller.signature()?.auth_type {
            AuthType::Header => "REST-HEADER",
            AuthType::Query => "REST-QUERY-STRING",
            AuthType::Form => "POST",
        })
    }

    /// The hash of the payload; a presigned URL that names none leaves it open.
    fn content_sha256(&self) -> Values<'_> {
        match self.parts.header("x-amz-content-sha256") {
            Values::Absent if self.auth_type() == Some("REST-QUERY-STRING") => PayloadForm::UNSIGNED.into(),
            given => given,
        }
    }

    fn signature_age(&self) -> Option<String> {
        let signed_ms = self.origin.caller.signature()?.signed_ms?;
        Some(self.origin.asked_ms.saturating_sub(signed_ms).to_string())
    }

    fn signature_version(&self) -> Option<&'static str> {
        let is_v4 = self.origin.caller.signature()?.is_v4;
        Some(if is_v4 { "AWS4-HMAC-SHA256" } else { "AWS" })
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

impl sherd_policy::Facts for RequestFacts<'_> {
    fn values(&self, name: KeyName, tag: &str) -> Values<'_> {
        let Self { origin, region, parts, .. } = self;
        let kinds = parts.kinds;
        match name {
            KeyName::SourceIp => origin.source.address.to_string().into(),
            KeyName::SecureTransport => Values::from(if origin.source.is_secure { "true" } else { "false" }),
            KeyName::TlsVersion => origin.source.tls_version.into(),
            KeyName::UserAgent => parts.header(USER_AGENT),
            KeyName::Referer => parts.header(REFERER),
            KeyName::CurrentTime => AmzDate::from_ms(origin.asked_ms).extended().into(),
            KeyName::EpochTime => (origin.asked_ms / 1000).to_string().into(),
            KeyName::RequestedRegion => Values::from(*region),
            KeyName::Prefix if kinds.lists => parts.parameter("prefix"),
            KeyName::Delimiter if kinds.lists => parts.parameter("delimiter"),
            KeyName::MaxKeys if kinds.lists => parts.parameter("max-keys"),
            KeyName::VersionId => parts.version_id(),
            KeyName::ExistingObjectTag => self.existing_tag(tag),
            KeyName::RequestTag => self.bucket_tag_given(tag),
            KeyName::TagKeys => self.bucket_tag_keys_given(),
            KeyName::BucketTag | KeyName::ResourceTag => value_of(self.bucket_tags, tag),
            KeyName::RequestObjectTag => self.request_tag(tag),
            KeyName::RequestObjectTagKeys => self.request_tag_keys(),
            KeyName::AuthType => self.auth_type().into(),
            KeyName::SignatureAge => self.signature_age().into(),
            KeyName::SignatureVersion => self.signature_version().into(),
            KeyName::IfMatch if kinds.guards => parts.header(IF_MATCH),
            KeyName::IfMatch => parts.guard.into(),
            KeyName::IfNoneMatch if kinds.guards => parts.header(IF_NONE_MATCH),
            KeyName::LocationConstraint => self.location(),
            KeyName::ObjectCreationOperation => {
                kinds.creates.map(|creates| if creates { "true" } else { "false" }).into()
            }
            KeyName::ContentSha256 => self.content_sha256(),
            KeyName::CopySource if kinds.copies => parts.copy_source(),
            KeyName::MetadataDirective if kinds.copies => parts.header("x-amz-metadata-directive"),
            // Keys of the identity are never asked for here; all others no request has.
            name => header_of(name).map_or(Values::Absent, |header| parts.header(header)),
        }
    }
}
