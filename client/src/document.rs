//! Documents of S3, in XML: what they hold, and the error that may stand in place of any of them.

use bytes::Bytes;
use http::StatusCode;
use percent_encoding::percent_decode_str;
use quick_xml::Reader;
use quick_xml::escape::escape;
use quick_xml::events::Event;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::Refusal;

/// A document that is known by the name of its root.
pub(crate) trait Document: DeserializeOwned {
    /// The names that the root may have.
    const ROOTS: &[&str];
}

/// Reads a document; nothing if it is not of that shape.
pub(crate) fn read<T: Document>(body: &[u8]) -> Option<T> {
    let text = std::str::from_utf8(body).ok()?;
    let root = root(text)?;
    if T::ROOTS.contains(&root.as_str()) { quick_xml::de::from_str(text).ok() } else { None }
}

fn root(text: &str) -> Option<String> {
    let mut reader = Reader::from_str(text);
    loop {
        match reader.read_event().ok()? {
            Event::Start(start) | Event::Empty(start) => {
                return Some(String::from_utf8_lossy(start.local_name().as_ref()).into_owned());
            }
            Event::Eof => return None,
            Event::Text(_)
            | Event::CData(_)
            | Event::Comment(_)
            | Event::Decl(_)
            | Event::PI(_)
            | Event::DocType(_)
            | Event::GeneralRef(_)
            | Event::End(_) => {}
        }
    }
}

macro_rules! documents {
    ($($name:ident = [$($root:literal),+];)*) => {
        $(impl Document for $name {
            const ROOTS: &[&str] = &[$($root),+];
        })*
    };
}

documents! {
    ErrorDocument = ["Error"];
    ListBuckets = ["ListAllMyBucketsResult"];
    ListPage = ["ListBucketResult"];
    UploadStart = ["InitiateMultipartUploadResult"];
    TaggedResult = ["CompleteMultipartUploadResult", "CopyObjectResult", "CopyPartResult"];
    PartsPage = ["ListPartsResult"];
    UploadsPage = ["ListMultipartUploadsResult"];
    DeleteResult = ["DeleteResult"];
    TagDocument = ["Tagging"];
}

/// The refusal in a body whose root is `Error`.
pub(crate) fn refusal_of(status: StatusCode, body: &[u8]) -> Option<Refusal> {
    let document: ErrorDocument = read(body)?;
    let ErrorDocument { code, message } = document;
    Some(Refusal { status: status.as_u16(), code, message, request_id: String::new() })
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ErrorDocument {
    code: String,
    #[serde(default)]
    message: String,
}

/// The answer of ListBuckets.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ListBuckets {
    #[serde(default)]
    pub(crate) buckets: BucketElements,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct BucketElements {
    #[serde(default)]
    pub(crate) bucket: Vec<BucketElement>,
}

/// A bucket of a list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct BucketElement {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) creation_date: String,
}

/// A page of ListObjectsV2.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ListPage {
    #[serde(default)]
    pub(crate) is_truncated: bool,
    #[serde(default)]
    pub(crate) next_continuation_token: Option<String>,
    #[serde(default)]
    pub(crate) encoding_type: Option<String>,
    #[serde(default)]
    pub(crate) contents: Vec<ObjectElement>,
    #[serde(default)]
    pub(crate) common_prefixes: Vec<PrefixElement>,
}

/// An object of a page.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ObjectElement {
    pub(crate) key: String,
    #[serde(default)]
    pub(crate) last_modified: String,
    #[serde(default, rename = "ETag")]
    pub(crate) etag: String,
    pub(crate) size: u64,
    #[serde(default)]
    pub(crate) storage_class: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct PrefixElement {
    pub(crate) prefix: String,
}

/// The answer of CreateMultipartUpload.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct UploadStart {
    pub(crate) upload_id: String,
}

/// The answer of CompleteMultipartUpload, CopyObject and UploadPartCopy.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct TaggedResult {
    #[serde(rename = "ETag")]
    pub(crate) etag: String,
}

/// A page of ListParts.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct PartsPage {
    #[serde(default)]
    pub(crate) is_truncated: bool,
    #[serde(default)]
    pub(crate) next_part_number_marker: Option<String>,
    #[serde(default)]
    pub(crate) part: Vec<PartElement>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct PartElement {
    pub(crate) part_number: u64,
    #[serde(rename = "ETag")]
    pub(crate) etag: String,
    pub(crate) size: u64,
}

/// A page of ListMultipartUploads.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct UploadsPage {
    #[serde(default)]
    pub(crate) upload: Vec<UploadElement>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct UploadElement {
    pub(crate) key: String,
    pub(crate) upload_id: String,
}

/// The answer of DeleteObjects in quiet mode: what was not deleted.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct DeleteResult {
    #[serde(default)]
    pub(crate) error: Vec<DeleteFault>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct DeleteFault {
    pub(crate) key: String,
    #[serde(default)]
    pub(crate) code: String,
    #[serde(default)]
    pub(crate) message: String,
}

/// The answer of GetObjectTagging.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct TagDocument {
    #[serde(default)]
    pub(crate) tag_set: TagElements,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct TagElements {
    #[serde(default)]
    pub(crate) tag: Vec<TagElement>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct TagElement {
    pub(crate) key: String,
    #[serde(default)]
    pub(crate) value: String,
}

/// A key or prefix of a list as it is: lists are asked for in `encoding-type=url`, as XML has no characters
/// for some keys.
pub(crate) fn decoded(text: &str, encoding: Option<&str>) -> Option<String> {
    if encoding != Some("url") {
        return Some(text.to_owned());
    }
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

/// Writes the body of DeleteObjects.
pub(crate) fn delete_body<'a>(keys: impl Iterator<Item = &'a str>) -> Bytes {
    let objects = keys.map(|key| branch("Object", &leaf("Key", key))).collect::<String>();
    branch("Delete", &(objects + "<Quiet>true</Quiet>")).into()
}

/// A part in the body of CompleteMultipartUpload.
#[derive(Debug)]
pub(crate) struct CompletePart<'a> {
    pub(crate) number: u64,
    pub(crate) etag: &'a str,
    /// Algorithm and value.
    pub(crate) checksum: Option<(&'static str, String)>,
}

/// Writes the body of CompleteMultipartUpload.
pub(crate) fn complete_body<'a>(parts: impl Iterator<Item = CompletePart<'a>>) -> Bytes {
    let part = |part: CompletePart<'_>| {
        let CompletePart { number, etag, checksum } = part;
        let checksum = checksum.map(|(name, value)| leaf(&format!("Checksum{name}"), &value));
        let inside = leaf("PartNumber", &number.to_string()) + &leaf("ETag", etag);
        branch("Part", &(inside + &checksum.unwrap_or_default()))
    };
    branch("CompleteMultipartUpload", &parts.map(part).collect::<String>()).into()
}

/// Writes the body of PutObjectTagging.
pub(crate) fn tagging_body(tags: &[(String, String)]) -> Bytes {
    let tag = |(key, value): &(String, String)| branch("Tag", &(leaf("Key", key) + &leaf("Value", value)));
    branch("Tagging", &branch("TagSet", &tags.iter().map(tag).collect::<String>())).into()
}

/// Writes the body of CreateBucket outside of us-east-1.
pub(crate) fn location_body(region: &str) -> Bytes {
    branch("CreateBucketConfiguration", &leaf("LocationConstraint", region)).into()
}

fn leaf(name: &str, text: &str) -> String {
    // A carriage return would come back as a line feed if it were not written as a reference.
    branch(name, &escape(text).replace('\r', "&#13;"))
}

fn branch(name: &str, inside: &str) -> String {
    format!("<{name}>{inside}</{name}>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_a_list_is_read() {
        let text = "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
            <Name>b</Name><IsTruncated>true</IsTruncated><EncodingType>url</EncodingType>\
            <NextContinuationToken>t</NextContinuationToken><CommonPrefixes><Prefix>a%2F</Prefix></CommonPrefixes>\
            <Contents><Key>b+c%0A</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>\
            <ETag>&quot;e&quot;</ETag><Size>3</Size><Owner><ID>x</ID></Owner></Contents>\
            <CommonPrefixes><Prefix>d%2F</Prefix></CommonPrefixes></ListBucketResult>";
        let page: ListPage = read(text.as_bytes()).expect("a page");
        assert!(page.is_truncated);
        assert_eq!(page.next_continuation_token.as_deref(), Some("t"));
        assert_eq!(page.contents[0].etag, "\"e\"");
        assert_eq!(decoded(&page.contents[0].key, page.encoding_type.as_deref()).as_deref(), Some("b c\n"));
        let prefixes: Vec<_> = page.common_prefixes.iter().map(|one| one.prefix.as_str()).collect();
        assert_eq!(prefixes, ["a%2F", "d%2F"]);
        let empty: ListPage = read(b"<ListBucketResult/>").expect("a page");
        assert!(empty.contents.is_empty() && !empty.is_truncated);
    }

    #[test]
    fn errors_are_found_in_any_answer() {
        let body = b"<?xml version=\"1.0\"?><Error><Code>SlowDown</Code><Message>a &lt; b</Message></Error>";
        let refusal = refusal_of(StatusCode::OK, body).expect("an error");
        assert_eq!((refusal.code.as_str(), refusal.message.as_str()), ("SlowDown", "a < b"));
        assert_eq!(refusal_of(StatusCode::OK, b"<ListBucketResult/>"), None);
        assert_eq!(refusal_of(StatusCode::OK, b"<html><Error>"), None);
        assert!(read::<ListPage>(b"<html/>").is_none() && read::<ListPage>(b"\xff").is_none());
    }

    #[test]
    fn what_is_written_is_escaped() {
        let part =
            CompletePart { number: 7, etag: "\"e\"", checksum: Some(("CRC64NVME", "AA==".to_owned())) };
        let expected = "<CompleteMultipartUpload><Part><PartNumber>7</PartNumber><ETag>&quot;e&quot;</ETag>\
                        <ChecksumCRC64NVME>AA==</ChecksumCRC64NVME></Part></CompleteMultipartUpload>";
        assert_eq!(complete_body([part].into_iter()), expected, "MinIO refuses parts without theirs");
        let body = delete_body(["a&b", "\r"].into_iter());
        let expected = "<Delete><Object><Key>a&amp;b</Key></Object><Object><Key>&#13;</Key></Object>\
                        <Quiet>true</Quiet></Delete>";
        assert_eq!(body, expected);
        let tags: TagDocument = read(&tagging_body(&[("k".to_owned(), "<v>".to_owned())])).expect("tags");
        assert_eq!(tags.tag_set.tag[0].value, "<v>");
    }
}
