//! Tags as a client gives them, the text of `x-amz-tagging` or a `<Tagging>` document -> the tags of an
//! object or a bucket.
//!
//! Limits, characters, codes and messages are AWS's. The header is URL query text: a plus sign is a blank, a
//! key without an equals sign has the empty value.

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use s3s::dto::Tag as GivenTag;
use s3s::xml::{DeError, DeResult, Deserializer};
use sherd_core::limits::{BUCKET_TAGS_MAX, OBJECT_TAGS_MAX, TAG_KEY_CHARS_MAX, TAG_VALUE_CHARS_MAX};
use sherd_core::record::{ObjectTags, Tag, is_of_tags};

use crate::head::document::once;
use crate::wire::query::decoded;
use crate::wire::refusal::{Code, Refusal};
use crate::wire::xml;

pub(super) const HEADER: HeaderName = HeaderName::from_static("x-amz-tagging");
/// The prefix of keys that AWS alone gives.
const RESERVED: &str = "aws:";
const BAD_TEXT: &str = "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query \
                        parameters without tag name duplicates.";

/// The owner of tags: their limits and messages differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TagOwner {
    /// A bucket.
    Bucket,
    /// An object, or the upload of one.
    Object,
}

/// The tags that a request gives to its object.
#[derive(Debug)]
pub(crate) struct GivenTags {
    /// All pairs as conditions of policies see them, also of a text that is refused.
    pub(crate) named: Vec<Tag>,
    /// The tags in their stored form, or the refusal.
    pub(super) stored: Result<ObjectTags, Refusal>,
}

impl Default for GivenTags {
    fn default() -> Self {
        Self { named: Vec::new(), stored: Ok(ObjectTags::default()) }
    }
}

impl GivenTags {
    /// The tags in `x-amz-tagging`. The refusal is InvalidArgument for a text that is not a query, for an
    /// empty key and for one that is there twice; BadRequest and InvalidTag as of [`checked`].
    pub(crate) fn of_header(value: &HeaderValue) -> Self {
        let Ok(text) = value.to_str() else {
            let bad = bad_text(&String::from_utf8_lossy(value.as_bytes()));
            return Self { stored: Err(bad), ..Self::default() };
        };
        let mut named: Vec<Tag> = Vec::new();
        let mut is_query = true;
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let is_whole = !value.contains('=') && has_whole_escapes(pair);
            let ((key, is_text), (value, is_text_too)) = (decoded(key), decoded(value));
            // Pairs behind the first 11 are not judged: those are too many already.
            if named.len() <= OBJECT_TAGS_MAX {
                let is_new = !key.is_empty() && named.iter().all(|before| before.key != key);
                is_query &= is_whole && is_text && is_text_too && is_new;
            }
            named.push(Tag { key, value });
        }
        let judged = || of_object(named.iter().take(OBJECT_TAGS_MAX + 1).cloned().map(shown).collect());
        let stored = if is_query { judged() } else { Err(bad_text(text)) };
        Self { named, stored }
    }

    /// The tags in the `<Tagging>` document of a form. Policies see none of a text that is refused.
    pub(super) fn of_form(field: &str) -> Self {
        let stored = of_field(field);
        let named = stored.as_ref().ok().and_then(|tags| tags.decode().ok()).unwrap_or_default();
        Self { named, stored }
    }

    /// The tags in their stored form.
    ///
    /// # Errors
    /// The refusal of tags that an object cannot have.
    pub(crate) fn stored(&self) -> Result<ObjectTags, Refusal> {
        self.stored.clone()
    }
}

/// The tags as policies ask for them.
///
/// # Errors
/// InternalError where they cannot be decoded.
pub(crate) fn given(tags: &ObjectTags) -> Result<Vec<Tag>, Refusal> {
    tags.decode().map_err(|_| Refusal::new(Code::InternalError))
}

/// Tags of an object in their stored form.
///
/// # Errors
/// InternalError where they cannot be those of an object.
pub(crate) fn encoded(tags: &[Tag]) -> Result<ObjectTags, Refusal> {
    ObjectTags::encode(tags).map_err(|_| Refusal::new(Code::InternalError))
}

/// The tags of an object in a `<Tagging>` document that its intake has verified.
///
/// # Errors
/// MissingRequestBodyError without a document, MalformedXML for any other than a `<Tagging>`; BadRequest and
/// InvalidTag as [`checked`].
pub(crate) fn of_document(document: Option<Bytes>) -> Result<ObjectTags, Refusal> {
    of_object(given_in(document)?)
}

/// The tags of a bucket in a `<Tagging>` document that its intake has verified.
///
/// # Errors
/// As [`of_document`].
pub(crate) fn of_bucket_document(document: Option<Bytes>) -> Result<Vec<Tag>, Refusal> {
    checked(TagOwner::Bucket, given_in(document)?)
}

fn given_in(document: Option<Bytes>) -> Result<Vec<GivenTag>, Refusal> {
    let document = document.ok_or_else(|| Refusal::new(Code::MissingRequestBodyError))?;
    tag_set(&document).map_err(|_| Refusal::new(Code::MalformedXML))
}

/// The set in a document. Each element has to be one that AWS has there: a set of others would be read as an
/// empty one, and remove tags.
fn tag_set(document: &[u8]) -> DeResult<Vec<GivenTag>> {
    let mut set = None;
    let mut parser = Deserializer::new(document);
    parser.named_element("Tagging", |tagging| {
        tagging.for_each_element(|element, name| match name {
            b"TagSet" => once(&mut set, tags_of(element)?),
            _ => Err(DeError::UnexpectedTagName),
        })
    })?;
    parser.expect_eof()?;
    set.ok_or(DeError::MissingField)
}

/// The tags in an element that is a list of them.
///
/// # Errors
/// For any other element in it.
pub(crate) fn tags_of(list: &mut Deserializer<'_>) -> DeResult<Vec<GivenTag>> {
    let mut tags = Vec::new();
    list.for_each_element(|element, name| match name {
        b"Tag" => element.content().map(|tag| tags.push(tag)),
        _ => Err(DeError::UnexpectedTagName),
    })?;
    Ok(tags)
}

/// The tags of an object in a `<Tagging>` document that came as a text, as the field `tagging` of a form has
/// it. Empty text gives none.
///
/// # Errors
/// As [`of_document`].
pub(crate) fn of_field(text: &str) -> Result<ObjectTags, Refusal> {
    if text.trim().is_empty() {
        return Ok(ObjectTags::default());
    }
    let plain = xml::with_sections_as_text(Bytes::copy_from_slice(text.as_bytes()), usize::MAX);
    let readable = plain.filter(|document| xml::is_text(document));
    of_document(Some(readable.ok_or_else(|| Refusal::new(Code::MalformedXML))?))
}

fn of_object(given: Vec<GivenTag>) -> Result<ObjectTags, Refusal> {
    let tags = checked(TagOwner::Object, given)?;
    // Not reached: what is checked here keeps the limits of a record.
    ObjectTags::encode(&tags).map_err(|_| Refusal::new(Code::InvalidTag))
}

/// A tag as an answer shows it.
pub(crate) fn shown(Tag { key, value }: Tag) -> GivenTag {
    GivenTag { key: Some(key), value: Some(value) }
}

/// The refusal of a change of a bucket's tag that is not the caller's to give, or to remove.
pub(crate) fn reserved(key: &str, is_removed: bool) -> Refusal {
    let message = if is_removed {
        "System tags cannot be removed by requester"
    } else {
        "System tags cannot be added/updated by requester"
    };
    Refusal::says(Code::InvalidTag, message).with("TagKey", key)
}

/// Checks tags as AWS does.
///
/// # Errors
/// BadRequest for too many, MalformedXML for one without a key or a value, InvalidTag for a key that is there
/// twice or reserved, and for a key or a value that is too long or has a character that tags do not have.
pub(crate) fn checked(owner: TagOwner, given: Vec<GivenTag>) -> Result<Vec<Tag>, Refusal> {
    let (count_max, too_many) = match owner {
        TagOwner::Bucket => (BUCKET_TAGS_MAX, "Bucket tag count cannot be greater than 50"),
        TagOwner::Object => (OBJECT_TAGS_MAX, "Object tags cannot be greater than 10"),
    };
    if given.len() > count_max {
        return Err(Refusal::says(Code::BadRequest, too_many));
    }
    let mut tags: Vec<Tag> = Vec::with_capacity(given.len());
    for GivenTag { key, value } in given {
        let (Some(key), Some(value)) = (key, value) else { return Err(Refusal::new(Code::MalformedXML)) };
        let invalid =
            |message: &'static str| Err(Refusal::says(Code::InvalidTag, message).with("TagKey", &*key));
        if tags.iter().any(|tag| tag.key == key) {
            return invalid("Cannot provide multiple Tags with the same key");
        }
        if key.starts_with(RESERVED) {
            return match owner {
                TagOwner::Bucket => Err(reserved(&key, false)),
                TagOwner::Object => invalid("Your TagKey cannot be prefixed with aws:"),
            };
        }
        if key.is_empty() || !owner.allows(&key, TAG_KEY_CHARS_MAX) {
            return invalid("The TagKey you have provided is invalid");
        }
        if !owner.allows(&value, TAG_VALUE_CHARS_MAX) {
            return invalid("The TagValue you have provided is invalid")
                .map_err(|refusal: Refusal| refusal.with("TagValue", value));
        }
        tags.push(Tag { key, value });
    }
    Ok(tags)
}

impl TagOwner {
    /// Whether a key or a value has no character that tags do not have, and at most `most` of them. S3 counts
    /// those of an object's in UTF-16 (AWS, "Categorizing your objects using tags").
    fn allows(self, text: &str, most: usize) -> bool {
        let length = match self {
            Self::Bucket => text.chars().count(),
            Self::Object => text.encode_utf16().count(),
        };
        length <= most && text.chars().all(is_of_tags)
    }
}

/// Whether each escape of a text has its two digits.
fn has_whole_escapes(text: &str) -> bool {
    text.split('%').skip(1).all(|escape| {
        let digits = escape.as_bytes().first_chunk::<2>();
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

fn bad_text(text: &str) -> Refusal {
    Refusal::bad_argument(BAD_TEXT, HEADER.as_str(), text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::request_head::RequestHead;

    fn tag(key: &str, value: &str) -> Tag {
        Tag { key: key.to_owned(), value: value.to_owned() }
    }

    fn given(key: &str, value: &str) -> GivenTag {
        GivenTag { key: Some(key.to_owned()), value: Some(value.to_owned()) }
    }

    fn of_text(text: &str) -> Result<ObjectTags, Refusal> {
        GivenTags::of_header(&HeaderValue::from_bytes(text.as_bytes()).expect("a value")).stored
    }

    fn tags(text: &str) -> Vec<Tag> {
        of_text(text).unwrap_or_else(|refusal| panic!("{text}: {refusal:?}")).decode().expect("encoded here")
    }

    #[test]
    fn the_text_of_the_header_is_a_query() {
        for (text, expected) in [
            ("", vec![]),
            ("&", vec![]),
            ("a=b", vec![tag("a", "b")]),
            ("foo=bar&bar", vec![tag("foo", "bar"), tag("bar", "")]),
            ("a+b=c%20d&&e=%2B", vec![tag("a b", "c d"), tag("e", "+")]),
            ("%C3%A9=%c3%a90", vec![tag("\u{e9}", "\u{e9}0")]),
            ("a=_.:/-@%3D", vec![tag("a", "_.:/-@=")]),
        ] {
            assert_eq!(tags(text), expected, "{text}");
        }
        // Decoded, they have a character that tags do not have.
        for text in ["a=%e2%82%ac", "k=v%26", "TagSet%3D%5B%7BKey%3Dk%2CValue%3Dv%7D%5D"] {
            assert_eq!(of_text(text).unwrap_err().code, Code::InvalidTag, "{text}");
        }
    }

    #[test]
    fn text_that_is_no_query_is_an_invalid_argument() {
        for text in [
            "a=1&a=2",
            "a=%FF",
            "%ff=1",
            "a=%",
            "a=%4",
            "a=%zz",
            "a=b=c",
            "=",
            "=v",
            "a=1&=",
            "TagSet=[{Key=k,Value=v}]",
        ] {
            let refusal = of_text(text).unwrap_err();
            assert_eq!((refusal.code, &*refusal.message), (Code::InvalidArgument, BAD_TEXT), "{text}");
            let named = [("ArgumentName", HEADER.to_string()), ("ArgumentValue", text.to_owned())];
            assert_eq!(refusal.details, named);
        }
        let header = |values: &[&str]| {
            let head =
                RequestHead::with(&values.iter().map(|value| ("x-amz-tagging", *value)).collect::<Vec<_>>());
            let stored = head.tags().map(GivenTags::stored);
            stored.transpose().map(Option::unwrap_or_default).map_err(|refusal| refusal.code)
        };
        assert_eq!(header(&[]), Ok(ObjectTags::default()));
        assert_eq!(header(&["a=1"]), Ok(of_text("a=1").expect("a tag")));
        assert_eq!(header(&["a=\u{e9}"]), Err(Code::InvalidArgument));
        assert_eq!(header(&["a=1", "b=1"]), Err(Code::InvalidRequest));
    }

    #[test]
    fn policies_see_the_pairs_of_a_text_that_is_refused() {
        for (text, named) in [
            ("a=1&a=2", vec![tag("a", "1"), tag("a", "2")]),
            ("a=b=c&=%ff", vec![tag("a", "b=c"), tag("", "\u{fffd}")]),
            ("%4=%zz", vec![tag("%4", "%zz")]),
        ] {
            let given = GivenTags::of_header(&HeaderValue::from_static(text));
            assert!(given.stored.is_err() && given.named == named, "{text}: {given:?}");
        }
        let twice = RequestHead::with(&[("x-amz-tagging", "a=1"), ("x-amz-tagging", "b=1")]);
        assert_eq!(twice.tags().expect("some").named, [tag("a", "1")]);
        let many: Vec<String> = (0..11).map(|number| format!("k{number}=v")).collect();
        let given = GivenTags::of_header(&HeaderValue::try_from(many.join("&") + "&k0=%").expect("a value"));
        assert_eq!(
            given.stored.map_err(|refusal| refusal.code),
            Err(Code::BadRequest),
            "judged as far as it goes"
        );
        assert_eq!(given.named.len(), 12);
    }

    #[test]
    fn a_document_has_one_set_of_tags() {
        let document = |inside: &str| of_field(&format!("<Tagging>{inside}</Tagging>"));
        let one = "<Tag><Key>a</Key><Value>bc</Value></Tag>";
        let set = |tags: &str| format!("<TagSet>{tags}</TagSet>");
        assert_eq!(document(&set(one)).unwrap(), of_text("a=bc").unwrap());
        assert_eq!(
            document(&set("<Tag><Key><![CDATA[a]]></Key><Value/></Tag>")).unwrap(),
            of_text("a").unwrap()
        );
        for none in [
            "",
            " \r\n",
            "<Tagging><TagSet/></Tagging>",
            "<Tagging xmlns='urn:x'><TagSet></TagSet></Tagging>",
        ] {
            assert_eq!(of_field(none), Ok(ObjectTags::default()), "{none}");
        }
        for bad in [
            "",
            "<TagSet>",
            &set(one).repeat(2),
            &set("<Tug/>"),
            &format!("{}<More/>", set(one)),
            &set("<Tag><Key>a</Key></Tag>"),
            &set("<Tag><Value>a</Value></Tag>"),
            &set("<Tag><Key>a</Key><Key>b</Key><Value>c</Value></Tag>"),
            &set("<Tag><Key>a&#1;</Key><Value>c</Value></Tag>"),
        ] {
            assert_eq!(document(bad).map_err(|refusal| refusal.code), Err(Code::MalformedXML), "{bad}");
        }
        let nothing = of_document(None).unwrap_err();
        assert_eq!(nothing.code, Code::MissingRequestBodyError);
    }

    #[test]
    fn tags_have_the_limits_of_aws() {
        let many =
            |count: usize| (0..count).map(|number| given(&number.to_string(), "v")).collect::<Vec<_>>();
        let said = |owner, tags| {
            checked(owner, tags).map_err(|refusal| (refusal.code, refusal.message.into_owned()))
        };
        for (owner, most, message) in [
            (TagOwner::Bucket, 50, "Bucket tag count cannot be greater than 50"),
            (TagOwner::Object, 10, "Object tags cannot be greater than 10"),
        ] {
            assert_eq!(said(owner, many(most)).unwrap().len(), most);
            assert_eq!(said(owner, many(most + 1)), Err((Code::BadRequest, message.to_owned())));
            let long = given(&"\u{e9}".repeat(128), &"\u{e9}".repeat(256));
            assert!(said(owner, vec![long]).is_ok());
        }
        // A letter that takes two places in UTF-16.
        let wide = given(&"\u{1d4b3}".repeat(65), "");
        assert!(said(TagOwner::Bucket, vec![wide.clone()]).is_ok());
        assert!(said(TagOwner::Object, vec![wide]).is_err());
    }

    #[test]
    fn tags_that_cannot_be_are_refused_by_name() {
        let (bad_key, bad_value) =
            ("The TagKey you have provided is invalid", "The TagValue you have provided is invalid");
        let again = "Cannot provide multiple Tags with the same key";
        let long = "k".repeat(257);
        let mut cases = vec![
            (vec![given("", "v")], bad_key),
            (vec![given(&long[..129], "v")], bad_key),
            (vec![given("k", &long)], bad_value),
            (vec![given("k", "1"), given("k", "2")], again),
            (vec![given("aws:k", "v")], "Your TagKey cannot be prefixed with aws:"),
        ];
        for bad in ["a,b", "a;b", "a?b", "a*b", "a#b", "a%b", "a(b)", "a\tb", "a\nb", "<a>", "\u{1f600}"] {
            cases.push((vec![given(bad, "v")], bad_key));
            cases.push((vec![given("k", bad)], bad_value));
        }
        for (tags, message) in cases {
            let refusal = checked(TagOwner::Object, tags.clone()).unwrap_err();
            assert_eq!((refusal.code, &*refusal.message), (Code::InvalidTag, message), "{tags:?}");
            let last = tags.last().expect("one");
            let key = ("TagKey", last.key.clone().unwrap_or_default());
            let value = ("TagValue", last.value.clone().unwrap_or_default());
            let named = if message == bad_value { vec![key, value] } else { vec![key] };
            assert_eq!(refusal.details, named);
        }
        let reserved = checked(TagOwner::Bucket, vec![given("aws:k", "v")]).unwrap_err();
        assert_eq!(reserved.message, "System tags cannot be added/updated by requester");
        for good in ["Aws:k", "awsk", "a b\u{a0}\u{3000}c", "日本語", "ÀÉ٣", "a_.:/=+-@1"] {
            assert!(checked(TagOwner::Object, vec![given(good, good)]).is_ok(), "{good}");
        }
    }
}
