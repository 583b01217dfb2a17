//! The columns of the table of operations: how a request for an operation looks, the rights that it needs,
//! and how its head and its body are read.

use http::Method;

use crate::wire::address::Level;

/// The parameter that names a version of an object.
pub(crate) const VERSION_ID: &str = "versionId";

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// GET.
    Get,
    /// HEAD.
    Head,
    /// PUT.
    Put,
    /// POST.
    Post,
    /// DELETE.
    Delete,
}

impl Verb {
    /// The verb of a method; `None` for a method that no operation has.
    pub(crate) fn of(method: &Method) -> Option<Self> {
        match method.as_str() {
            "GET" => Some(Self::Get),
            "HEAD" => Some(Self::Head),
            "PUT" => Some(Self::Put),
            "POST" => Some(Self::Post),
            "DELETE" => Some(Self::Delete),
            _ => None,
        }
    }
}

/// How the body of a request is taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyUse {
    /// There should be none; what comes is verified, bounded and dropped.
    None,
    /// An XML document, collected and verified before the operation sees it.
    Xml,
    /// A document of JSON, collected and verified like one of XML.
    Json,
    /// The object's bytes, streamed.
    Object,
    /// A form: its fields first, then the object's bytes as its file, streamed.
    Form,
}

impl BodyUse {
    /// Whether it is a document.
    pub(crate) const fn is_document(self) -> bool {
        matches!(self, Self::Xml | Self::Json)
    }
}

/// The kind of resource that an operation works on, as policies name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceKind {
    /// All buckets.
    Service,
    /// The bucket of the address.
    Bucket,
    /// The object of the address, or the one that a form names.
    Object,
    /// Each key that the document lists.
    EachKey,
}

/// The thing that an operation copies from the source that a header names. Such an operation fails by its
/// source, and not as a plain read does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copies {
    /// Nothing.
    Nothing,
    /// An object, with what is stored beside its bytes.
    Object,
    /// Bytes of a part.
    Part,
}

/// The new thing that the head of a request describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Makes {
    /// Nothing.
    Nothing,
    /// A bucket.
    Bucket,
    /// An object, or the upload of one.
    Object,
}

/// The facts about which a policy may ask and that stand in an operation's document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentSays {
    /// None.
    Nothing,
    /// The tags of an object.
    ObjectTags,
    /// The tags of a bucket.
    BucketTags,
    /// The location and the tags of a new bucket.
    NewBucket,
}

/// The subject of an operation's checksum headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChecksumUse {
    /// The body. An algorithm that the SDK names need not come with a value.
    Body,
    /// The body. An algorithm that the SDK names has to come with a value.
    RequiredOfBody,
    /// The object that parts are joined to, whose checksum may be one of parts; never the document.
    JoinedObject,
    /// An object whose bytes come later or from elsewhere: an algorithm for them, and no value.
    Wish,
}

/// A row of the table of operations, but for the function that runs it.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "columns of a table hold or do not")]
pub struct Columns {
    /// AWS's name, as it stands in its documentation.
    pub name: &'static str,
    /// The method.
    pub verb: Verb,
    /// The level of its address.
    pub level: Level,
    /// Parameters that must be there, each with its value where only that one names the operation. The first
    /// is the sub-resource.
    pub selectors: &'static [&'static str],
    /// Parameters that may be there.
    pub options: &'static [&'static str],
    /// Headers that may be there once.
    pub once: &'static [&'static str],
    /// `x-amz-*` headers that other writes refuse, without that start.
    pub takes: &'static [&'static str],
    /// How its body is taken in.
    pub body: BodyUse,
    /// The most bytes of its document, below the bound of all documents.
    pub document_bytes_max: u64,
    /// The elements of its document that are counted before it is parsed, and the most of them.
    pub counted: Option<(&'static str, usize)>,
    /// Whether its document must come with a digest of it.
    pub needs_digest: bool,
    /// Whether its document names keys, which may have characters that XML does not have.
    pub names_keys: bool,
    /// The subject of its checksum headers.
    pub checksum: ChecksumUse,
    /// The IAM action; empty where the operation is not served.
    pub action: &'static str,
    /// The kind of its resource.
    pub resource: ResourceKind,
    /// Whether it reads the object, too, with the right to that.
    pub reads_object: bool,
    /// Whether it sees its bucket in a view of at most two seconds ago. Others ask the bucket's register
    /// themselves: what they show or change must be current.
    pub has_view: bool,
    /// Whether no policy takes it from root.
    pub stays_roots: bool,
    /// The source of a copy.
    pub copies: Copies,
    /// The thing that it makes.
    pub makes: Makes,
    /// Whether it is about an object that has to be there: whose tags count, and which is not shown to be
    /// missing to a caller who may not list its bucket.
    pub existing_object: bool,
    /// Whether a decision that waits for the tags of its object is taken where they are changed.
    pub judges_itself: bool,
    /// Whether it is a write that is judged by conditions.
    pub conditions: bool,
    /// The value of `s3:ObjectCreationOperation` of an operation that writes objects: whether it makes one.
    pub creates: Option<bool>,
    /// The facts in its document.
    pub document_says: DocumentSays,
    /// Whether it lists keys, by a prefix and a delimiter.
    pub lists_keys: bool,
    /// The parameter that bounds the rows of its list.
    pub page: Option<&'static str>,
    /// Whether each answer says the bucket's region, that of a refusal, too.
    pub says_region: bool,
}

impl Columns {
    /// The columns of an operation that differs from others in its request alone.
    pub(crate) const fn of(
        name: &'static str,
        verb: Verb,
        level: Level,
        selectors: &'static [&'static str],
    ) -> Self {
        let (resource, once) = match level {
            Level::Service => (ResourceKind::Service, NOTHING),
            Level::Account => (ResourceKind::Service, ACCOUNT),
            Level::Bucket => (ResourceKind::Bucket, OWNER),
            Level::Object => (ResourceKind::Object, PAYER),
        };
        Self {
            name,
            verb,
            level,
            selectors,
            options: NOTHING,
            once,
            takes: NOTHING,
            body: BodyUse::None,
            document_bytes_max: u64::MAX,
            counted: None,
            needs_digest: false,
            names_keys: false,
            checksum: ChecksumUse::Body,
            action: "",
            resource,
            reads_object: false,
            has_view: matches!(level, Level::Object),
            stays_roots: false,
            copies: Copies::Nothing,
            makes: Makes::Nothing,
            existing_object: false,
            judges_itself: false,
            conditions: false,
            creates: None,
            document_says: DocumentSays::Nothing,
            lists_keys: false,
            page: None,
            says_region: false,
        }
    }

    /// Whether it changes nothing that is stored.
    pub const fn is_read(&self) -> bool {
        matches!(self.verb, Verb::Get | Verb::Head)
    }

    /// Whether it is one of S3 Control, on the account.
    pub(crate) const fn is_of_account(&self) -> bool {
        matches!(self.level, Level::Account)
    }

    /// Whether it writes an object with what its head says of it. It names no version that is there.
    pub(crate) const fn makes_object(&self) -> bool {
        matches!(self.makes, Makes::Object)
    }

    /// Whether it has a source to copy from.
    pub(crate) const fn is_copy(&self) -> bool {
        !matches!(self.copies, Copies::Nothing)
    }
}

const NOTHING: &[&str] = &[];
/// Headers that an operation on a bucket has once.
pub(crate) const OWNER: &[&str] = &["x-amz-expected-bucket-owner"];
const ACCOUNT: &[&str] = &["x-amz-account-id", "x-amz-checksum-algorithm", "content-md5"];
/// Headers that an operation on an object has once.
pub(crate) const PAYER: &[&str] = &["x-amz-expected-bucket-owner", "x-amz-request-payer"];
