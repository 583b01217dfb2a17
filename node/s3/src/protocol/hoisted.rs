//! What a presigned URL carries in its query: its signature, which operations never see, and headers of the
//! request that its signer put there.

use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use http::uri::Uri;

use crate::auth::{presigned, presigned_v2};

use super::code::Code;
use super::query::{Pair, Query};
use super::refusal::Refusal;
use super::{address, checksum};

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

/// Takes the signature off a request: headers that a presigned URL carries in its query become
/// headers, the host's bucket becomes part of the path. Returns the new URI, when it changes.
///
/// # Errors
/// `InvalidArgument` for a header in the query that contradicts one of the request.
pub(super) fn simplify(
    headers: &mut HeaderMap,
    uri: &Uri,
    host_bucket: Option<&str>,
    query: &Query<'_>,
) -> Result<Option<Uri>, Refusal> {
    headers.remove(AUTHORIZATION);
    let is_v2 = presigned_v2::is_in(query);
    let mut changed = host_bucket.is_some();
    for pair in query.pairs() {
        if is_signature(&pair.name, is_v2) {
            changed = true;
            continue;
        }
        let Some(name) = header(&pair.name, is_v2) else { continue };
        changed = true;
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
    if !changed {
        return Ok(None);
    }
    let is_kept = |pair: &&Pair<'_>| !is_signature(&pair.name, is_v2) && header(&pair.name, is_v2).is_none();
    let mut kept = String::new();
    for pair in query.pairs().iter().filter(is_kept) {
        if !kept.is_empty() {
            kept.push('&');
        }
        kept.push_str(pair.raw_name);
        kept.push('=');
        kept.push_str(pair.raw_value);
    }
    Ok(Some(address::rewritten(uri, host_bucket, &kept)?))
}

/// The checksum of an empty body that the query alone carries, and the name of its algorithm with it; no names where
/// there is none. An SDK that has no body when it signs puts it there, whatever the body will be.
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
    use super::*;

    fn simplified(target: &str, headers: &[(&'static str, &str)]) -> Result<(String, HeaderMap), Code> {
        let uri: Uri = target.parse().expect("a uri");
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("a value"));
        }
        let query = Query::parse(uri.query()).expect("a query");
        let rewritten = simplify(&mut map, &uri, None, &query).map_err(|refusal| refusal.code)?;
        Ok((rewritten.unwrap_or(uri.clone()).to_string(), map))
    }

    #[test]
    fn headers_in_the_query_become_headers() {
        let (uri, headers) =
            simplified("/b/k?X-Amz-Meta-A=b%20c&versionId=null&X-Amz-Signature=0", &[]).unwrap();
        assert_eq!(uri, "/b/k?versionId=null");
        assert_eq!(headers["x-amz-meta-a"], "b c");
        assert_eq!(
            simplified("/b/k?x-amz-acl=private", &[("x-amz-acl", "public-read")]),
            Err(Code::InvalidArgument)
        );
    }

    #[test]
    fn a_url_of_signature_version_2_carries_two_headers_more() {
        let v2 = "/b/k?AWSAccessKeyId=A&Expires=1&Signature=s&Content-Type=text%2Fplain&acl";
        let (uri, headers) = simplified(v2, &[]).unwrap();
        assert_eq!(
            (uri.as_str(), &headers["content-type"]),
            ("/b/k?acl=", &HeaderValue::from_static("text/plain"))
        );
        assert_eq!(simplified(v2, &[("content-type", "image/png")]), Err(Code::InvalidArgument));
        let (uri, headers) =
            simplified("/b/k?Expires=1&content-type=text%2Fplain&X-Amz-Signature=0", &[]).unwrap();
        assert_eq!(uri, "/b/k?Expires=1&content-type=text%2Fplain");
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
