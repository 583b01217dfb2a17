//! Parts of a presigned URL in its query: its signature, and headers of the request that its signer put
//! there.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use sherd_signature::query::{Pair, Query};

use sherd_signature::{presigned, presigned_v2};

use crate::wire::checksum;
use crate::wire::refusal::{Code, Refusal};

/// Says which algorithm the SDK used.
const SDK_ALGORITHM: HeaderName = HeaderName::from_static("x-amz-sdk-checksum-algorithm");

/// The header that a parameter stands for, if it stands for one.
fn header(name: &str, is_v2: bool) -> Option<HeaderName> {
    let is_amz =
        name.as_bytes().first_chunk().is_some_and(|start: &[u8; 6]| start.eq_ignore_ascii_case(b"x-amz-"));
    if is_amz {
        return HeaderName::from_bytes(name.as_bytes()).ok();
    }
    presigned_v2::HEADERS.into_iter().find(|header| is_v2 && name.eq_ignore_ascii_case(header.as_str()))
}

/// Whether a parameter belongs to a signature.
fn is_signature(name: &str, is_v2: bool) -> bool {
    presigned::PARAMETERS.contains(&name) || (is_v2 && presigned_v2::PARAMETERS.contains(&name))
}

/// Makes headers of those that a presigned URL carries in its query.
///
/// # Errors
/// `InvalidArgument` for a header in the query that contradicts one of the request.
pub(super) fn hoist(headers: &mut HeaderMap, query: &Query<'_>) -> Result<(), Refusal> {
    let is_v2 = presigned_v2::is_in(query);
    for pair in query.pairs().iter().filter(|pair| !is_signature(&pair.name, is_v2)) {
        let Some(name) = header(&pair.name, is_v2) else { continue };
        let invalid = || {
            Refusal::says(Code::InvalidArgument, "Invalid query parameter").with("ArgumentName", &*pair.name)
        };
        let value = pair.value().map_err(|_| invalid())?;
        let value = HeaderValue::try_from(&*value).map_err(|_| invalid())?;
        match headers.get(&name) {
            Some(present) if *present != value => return Err(invalid()),
            Some(_) => {}
            None => {
                headers.insert(name, value);
            }
        }
    }
    Ok(())
}

/// The checksum of an empty body that the query alone carries, and the name of its algorithm with it; an
/// empty list without one. An SDK that has no body when it signs puts it there, and may send a body later.
pub(super) fn empty_checksums(headers: &HeaderMap, query: &Query<'_>) -> Vec<HeaderName> {
    let headers_of_query = query.pairs().iter().filter_map(|pair| Some((header(&pair.name, false)?, pair)));
    let is_empty_bodys = |name: &HeaderName, pair: &Pair<'_>| {
        let empty = checksum::of_header(name.as_str()).map(|algorithm| checksum::of(algorithm, b""));
        empty.is_some_and(|empty| pair.value().is_ok_and(|value| value == empty))
    };
    let mut names: Vec<_> = headers_of_query
        .filter(|(name, pair)| !headers.contains_key(name) && is_empty_bodys(name, pair))
        .map(|(name, _)| name)
        .collect();
    if !names.is_empty() && !headers.contains_key(SDK_ALGORITHM) {
        names.push(SDK_ALGORITHM);
    }
    names
}

#[cfg(test)]
mod tests {
    use http::uri::Uri;

    use super::*;

    fn hoisted(target: &str, headers: &[(&'static str, &str)]) -> Result<HeaderMap, Code> {
        let uri: Uri = target.parse().expect("a uri");
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("a value"));
        }
        let query = Query::parse(uri.query()).expect("a query");
        hoist(&mut map, &query).map_err(|refusal| refusal.code)?;
        Ok(map)
    }

    #[test]
    fn headers_in_the_query_become_headers() {
        let headers = hoisted("/b/k?X-Amz-Meta-A=b%20c&versionId=null&X-Amz-Signature=0", &[]).unwrap();
        assert_eq!(headers.len(), 1, "no signature is a header");
        assert_eq!(headers["x-amz-meta-a"], "b c");
        assert_eq!(
            hoisted("/b/k?x-amz-acl=private", &[("x-amz-acl", "public-read")]),
            Err(Code::InvalidArgument)
        );
    }

    #[test]
    fn a_url_of_signature_version_2_carries_two_headers_more() {
        let v2 = "/b/k?AWSAccessKeyId=A&Expires=1&Signature=s&Content-Type=text%2Fplain&acl";
        assert_eq!(hoisted(v2, &[]).unwrap()["content-type"], "text/plain");
        assert_eq!(hoisted(v2, &[("content-type", "image/png")]), Err(Code::InvalidArgument));
        let headers = hoisted("/b/k?Expires=1&content-type=text%2Fplain&X-Amz-Signature=0", &[]).unwrap();
        assert!(headers.is_empty(), "SigV4 signs no header in the query but Amazon's");
    }

    #[test]
    fn only_the_checksum_of_an_empty_body_says_nothing_of_the_body() {
        let names = |target: &str, headers: &HeaderMap| {
            let uri: Uri = target.parse().expect("a uri");
            empty_checksums(headers, &Query::parse(uri.query()).expect("a query"))
        };
        let none = HeaderMap::new();
        let crc32 = HeaderName::from_static("x-amz-checksum-crc32");
        let empty = "/b/k?x-amz-checksum-crc32=AAAAAA%3D%3D&x-amz-sdk-checksum-algorithm=CRC32";
        assert_eq!(names(empty, &none), [crc32.clone(), SDK_ALGORITHM]);
        assert_eq!(names("/b/k?X-Amz-Checksum-Crc64nvme=AAAAAAAAAAA%3D", &none).len(), 2);
        assert_eq!(names("/b/k?x-amz-checksum-crc32=y%2FQ5Jg%3D%3D", &none), [] as [HeaderName; 0]);
        let signed = HeaderMap::from_iter([(crc32, HeaderValue::from_static("AAAAAA=="))]);
        assert!(names(empty, &signed).is_empty(), "a header is the client's own word");
    }
}
