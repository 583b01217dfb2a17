//! Signs recorded requests again: for another moment, and with the ids that another server made.
//!
//! A signature that was right when it was recorded is made right; one that was wrong stays as it is, and so
//! do requests that carry none. Signature Version 4 in the header and in the query with its signed frames,
//! and Version 2 in the query.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use crate::message::{Head, bytes, characters};
use crate::moment;

/// All characters but those that AWS leaves as they are.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Bytes of a body that may be a document with ids in it.
const DOCUMENT_BYTES_MAX: usize = 1 << 20;
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// A request that is to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Signed {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
}

/// How a client wrote down what it signed: clients do not agree on it where more than one way is right.
#[derive(Debug, Clone, Copy)]
enum Spelling {
    /// Path and query as they travel.
    AsSent,
    /// Decoded, and encoded as AWS does.
    Recoded,
}

/// The fields of a signature of Version 4.
struct Claim {
    date: String,
    scope: String,
    signed_headers: String,
    signature: String,
    is_in_query: bool,
}

/// Moves a request by `shift_s` seconds, replaces texts in its head, and signs it again.
pub(crate) fn again(
    head: &Head,
    body: &[u8],
    secret: &str,
    shift_s: i64,
    replace: impl Fn(&str) -> String,
) -> Signed {
    let mut moved = head.clone();
    moved.first = replace(&moved.first);
    for (name, value) in &mut moved.lines {
        let replaced = replace(value);
        let is_condition = name.to_ascii_lowercase().ends_with("modified-since");
        *value = match moment::from_http(value.trim()) {
            Some(moment) if is_condition && replaced == *value => {
                format!(" {}", moment::http(moment + shift_s))
            }
            _ => replaced,
        };
    }
    shift(&mut moved, shift_s);
    let mut body = body.to_vec();
    if body.starts_with(b"<") && body.len() <= DOCUMENT_BYTES_MAX {
        let hash = hex::encode(Sha256::digest(&body));
        body = bytes(&replace(&characters(&body)));
        for (_, value) in moved.lines.iter_mut().filter(|(_, value)| value.trim() == hash) {
            *value = format!(" {}", hex::encode(Sha256::digest(&body)));
        }
    }
    let spelling = [Spelling::AsSent, Spelling::Recoded].into_iter().find(|spelling| {
        claim(head).is_some_and(|claim| signature(head, &claim, secret, *spelling) == claim.signature)
    });
    if let (Some(spelling), Some(old)) = (spelling, claim(head)) {
        let mut new = claim(&moved).expect("moving a request leaves its form");
        let signature = signature(&moved, &new, secret, spelling);
        put_signature(&mut moved, &old.signature, &signature);
        new.signature.clone_from(&signature);
        sign_frames(&mut body, secret, &old, &new);
    } else if version_2(head, secret).is_some_and(|(claimed, right)| claimed == right) {
        let (claimed, right) = version_2(&moved, secret).expect("moving a request leaves its form");
        let encoded = |text: &str| percent_encode(text.as_bytes(), NON_ALPHANUMERIC).to_string();
        let as_sent = parameter(moved.target(), "Signature").unwrap_or_default().to_owned();
        debug_assert_eq!(percent_decode_str(&as_sent).decode_utf8_lossy(), claimed);
        moved.first = moved.first.replace(&as_sent, &encoded(&right));
    }
    Signed { head: moved, body }
}

/// A request of our own that is not signed yet.
#[derive(Debug, Clone)]
pub(crate) struct Plain {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) lines: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Plain {
    pub(crate) fn new(method: &str, target: &str) -> Self {
        Self { method: method.to_owned(), target: target.to_owned(), lines: Vec::new(), body: Vec::new() }
    }

    pub(crate) fn with_body(self, body: &[u8]) -> Self {
        Self { body: body.to_vec(), ..self }
    }

    /// With a header more, or with another value of one that every request has.
    pub(crate) fn with_line(mut self, name: &str, value: &str) -> Self {
        self.lines.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// Signs a request of our own for a moment: its host and its `x-amz-` headers.
pub(crate) fn new(plain: &Plain, (access_key, secret): (&str, &str), region: &str, now_s: i64) -> Signed {
    let Plain { method, target, lines, body } = plain;
    let date = moment::basic(now_s);
    let day = date[..8].to_owned();
    let mut lines = lines.clone();
    for (name, value) in [
        ("host", "127.0.0.1".to_owned()),
        ("x-amz-date", date),
        ("x-amz-content-sha256", hex::encode(Sha256::digest(body))),
        ("content-length", body.len().to_string()),
    ] {
        if !lines.iter().any(|(found, _)| found == name) {
            lines.push((name.to_owned(), value));
        }
    }
    let names = lines.iter().map(|(name, _)| name.to_ascii_lowercase());
    let mut signed: Vec<String> = names.filter(|name| name == "host" || name.starts_with("x-amz-")).collect();
    signed.sort();
    signed.dedup();
    let scope = format!("{access_key}/{day}/{region}/s3/aws4_request");
    let authorization =
        format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={}, Signature=-", signed.join(";"));
    lines.push(("authorization".to_owned(), authorization));
    let lines = lines.into_iter().map(|(name, value)| (name, format!(" {value}"))).collect();
    let mut head = Head { first: format!("{method} {target} HTTP/1.1"), lines };
    if let Some(claim) = claim(&head).filter(|claim| claim.signature == "-") {
        let signature = signature(&head, &claim, secret, Spelling::Recoded);
        let (_, authorization) = head.lines.last_mut().expect("the line above");
        authorization.pop();
        authorization.push_str(&signature);
    }
    Signed { head, body: body.clone() }
}

/// The MD5 of a body, as `content-md5` has it.
pub(crate) fn md5(body: &[u8]) -> String {
    STANDARD.encode(md5::Md5::digest(body))
}

/// Moves the dates that a request carries.
fn shift(head: &mut Head, shift_s: i64) {
    let date = head.value("x-amz-date").map(str::to_owned);
    let date = date.or_else(|| parameter(head.target(), "X-Amz-Date").map(str::to_owned));
    if let Some(date) = date
        && let Some(moment) = moment::from_basic(&date)
    {
        let shifted = moment::basic(moment + shift_s);
        let day = |date: &str| date[..8].to_owned();
        let scopes = ["/", "%2F", "%2f"].map(|slash| {
            (format!("{slash}{}{slash}", day(&date)), format!("{slash}{}{slash}", day(&shifted)))
        });
        let moved = |text: &str| {
            let text = text.replace(&date, &shifted);
            scopes.iter().fold(text, |text, (old, new)| text.replace(old, new))
        };
        // The scope stands in the query before any other day that a key may hold.
        if let Some((before, query)) = head.first.split_once('?') {
            head.first = format!("{before}?{}", moved(query));
        }
        for (name, value) in &mut head.lines {
            if ["x-amz-date", "authorization"].iter().any(|one| name.eq_ignore_ascii_case(one)) {
                *value = moved(value);
            }
        }
    }
    for (name, value) in &mut head.lines {
        if name.eq_ignore_ascii_case("date")
            && let Some(moment) = moment::from_http(value.trim())
        {
            *value = format!(" {}", moment::http(moment + shift_s));
        }
    }
    if parameter(head.target(), "AWSAccessKeyId").is_some()
        && let Some(expires) = parameter(head.target(), "Expires").map(str::to_owned)
        && let Ok(moment) = expires.parse::<i64>()
    {
        let (old, new) =
            (format!("Expires={expires}"), format!("Expires={}", moment.saturating_add(shift_s)));
        head.first = head.first.replace(&old, &new);
    }
}

/// The raw value of a parameter of the query.
fn parameter<'a>(target: &'a str, name: &str) -> Option<&'a str> {
    let (_, query) = target.split_once('?')?;
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
}

fn decoded(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
}

fn claim(head: &Head) -> Option<Claim> {
    let decoded = |text: &str| characters(&decoded(text));
    if let Some(signature) = parameter(head.target(), "X-Amz-Signature") {
        let credential = decoded(parameter(head.target(), "X-Amz-Credential")?);
        return Some(Claim {
            date: parameter(head.target(), "X-Amz-Date")?.to_owned(),
            scope: credential.split_once('/')?.1.to_owned(),
            signed_headers: decoded(parameter(head.target(), "X-Amz-SignedHeaders")?),
            signature: signature.to_owned(),
            is_in_query: true,
        });
    }
    let authorization = head.value("authorization")?.strip_prefix("AWS4-HMAC-SHA256")?;
    let part = |name: &str| {
        let mut parts = authorization.split(',').filter_map(|part| part.trim().split_once('='));
        parts.find(|(found, _)| *found == name).map(|(_, value)| value.to_owned())
    };
    let date = head.value("x-amz-date").map(str::to_owned);
    let date = date.or_else(|| Some(moment::basic(moment::from_http(head.value("date")?)?)))?;
    Some(Claim {
        date,
        scope: part("Credential")?.split_once('/')?.1.to_owned(),
        signed_headers: part("SignedHeaders")?,
        signature: part("Signature")?,
        is_in_query: false,
    })
}

/// Puts another signature where one stood.
fn put_signature(head: &mut Head, old: &str, new: &str) {
    if parameter(head.target(), "X-Amz-Signature") == Some(old) {
        head.first = head.first.replace(old, new);
    }
    for (name, value) in &mut head.lines {
        if name.eq_ignore_ascii_case("authorization") {
            *value = value.replace(old, new);
        }
    }
}

/// The signature that a request should carry.
fn signature(head: &Head, claim: &Claim, secret: &str, spelling: Spelling) -> String {
    let (path, query) = head.target().split_once('?').unwrap_or((head.target(), ""));
    let recode = |text: &str| percent_encode(&decoded(text), ENCODED).to_string();
    let path = match spelling {
        Spelling::AsSent => path.to_owned(),
        Spelling::Recoded => path.split('/').map(recode).collect::<Vec<_>>().join("/"),
    };
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let pairs = pairs.filter(|(name, _)| *name != "X-Amz-Signature");
    let mut pairs: Vec<(String, String)> = match spelling {
        Spelling::AsSent => pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        Spelling::Recoded => pairs.map(|(name, value)| (recode(name), recode(value))).collect(),
    };
    pairs.sort();
    let query: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut canonical = format!("{}\n{path}\n{}\n", head.method(), query.join("&"));
    for name in claim.signed_headers.split(';') {
        let values: Vec<String> =
            head.values(name).map(|value| value.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        writeln!(canonical, "{name}:{}", values.join(",")).expect("a string");
    }
    let payload = head.value("x-amz-content-sha256").filter(|_| {
        !claim.is_in_query || claim.signed_headers.split(';').any(|name| name == "x-amz-content-sha256")
    });
    let payload = payload.or_else(|| parameter(head.target(), "X-Amz-Content-Sha256"));
    let default = if claim.is_in_query { "UNSIGNED-PAYLOAD" } else { EMPTY };
    write!(canonical, "\n{}\n{}", claim.signed_headers, payload.unwrap_or(default)).expect("a string");
    let hash = hex::encode(Sha256::digest(bytes(&canonical)));
    sign(secret, claim, &format!("AWS4-HMAC-SHA256\n{}\n{}\n{hash}", claim.date, claim.scope))
}

fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("any length");
    mac.chain_update(text).finalize().into_bytes().to_vec()
}

fn sign(secret: &str, claim: &Claim, text: &str) -> String {
    let key = claim
        .scope
        .split('/')
        .fold(format!("AWS4{secret}").into_bytes(), |key, part| hmac(&key, part.as_bytes()));
    hex::encode(hmac(&key, text.as_bytes()))
}

/// Signs the frames of a body again as far as each was right over the one before it.
fn sign_frames(body: &mut [u8], secret: &str, old: &Claim, new: &Claim) {
    const FIELD: &[u8] = b";chunk-signature=";
    const TRAILER: &[u8] = b"x-amz-trailer-signature:";
    let (mut before, mut after) = (old.signature.clone(), new.signature.clone());
    let mut at = 0;
    while let Some(line) = body[at..].windows(2).position(|window| window == b"\r\n").map(|len| at + len) {
        let Some(field) = body[at..line].windows(FIELD.len()).position(|window| window == FIELD) else {
            return;
        };
        let len = std::str::from_utf8(&body[at..at + field]).ok();
        let Some(len) = len.and_then(|len| usize::from_str_radix(len, 16).ok()) else { return };
        let place = at + field + FIELD.len()..line;
        let Some(payload) = body.get(line + 2..line + 2 + len) else { return };
        let hash = hex::encode(Sha256::digest(payload));
        let text = |claim: &Claim, previous: &str| {
            format!("AWS4-HMAC-SHA256-PAYLOAD\n{}\n{}\n{previous}\n{EMPTY}\n{hash}", claim.date, claim.scope)
        };
        let right = sign(secret, old, &text(old, &before));
        if body[place.clone()] != *right.as_bytes() {
            return;
        }
        after = sign(secret, new, &text(new, &after));
        body[place].copy_from_slice(after.as_bytes());
        before = right;
        at = line + 2 + len + if len == 0 { 0 } else { 2 };
        if len == 0 {
            break;
        }
        if at > body.len() {
            return;
        }
    }
    // Trailers, and their signature.
    let Some(field) =
        body[at..].windows(TRAILER.len()).position(|window| window == TRAILER).map(|len| at + len)
    else {
        return;
    };
    let lines = characters(&body[at..field]).replace("\r\n", "\n");
    let hash = hex::encode(Sha256::digest(bytes(&lines)));
    let text = |claim: &Claim, previous: &str| {
        format!("AWS4-HMAC-SHA256-TRAILER\n{}\n{}\n{previous}\n{hash}", claim.date, claim.scope)
    };
    let right = sign(secret, old, &text(old, &before));
    let place = field + TRAILER.len()..field + TRAILER.len() + right.len();
    if body.get(place.clone()) == Some(right.as_bytes()) {
        body[place].copy_from_slice(sign(secret, new, &text(new, &after)).as_bytes());
    }
}

/// The signature of Version 2 that a target carries, and the one that it should carry.
fn version_2(head: &Head, secret: &str) -> Option<(String, String)> {
    let target = head.target();
    parameter(target, "AWSAccessKeyId")?;
    let claimed = characters(&decoded(parameter(target, "Signature")?));
    let expires = parameter(target, "Expires")?;
    let (path, query) = target.split_once('?')?;
    let pairs: Vec<(String, Option<String>)> = query
        .split('&')
        .map(|pair| match pair.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(characters(&decoded(value)))),
            None => (pair.to_owned(), None),
        })
        .collect();
    let find = |name: &str| {
        let of_header = head.value(name).map(str::to_owned);
        let of_query = pairs.iter().find(|(found, _)| found.eq_ignore_ascii_case(name));
        of_header.or_else(|| of_query.and_then(|(_, value)| value.clone())).unwrap_or_default()
    };
    let amz = |name: &str| name.to_ascii_lowercase().starts_with("x-amz-");
    let mut lines: Vec<String> = head
        .lines
        .iter()
        .filter(|(name, _)| amz(name))
        .map(|(name, value)| (name.clone(), value.trim().to_owned()))
        .chain(
            pairs
                .iter()
                .filter(|(name, _)| amz(name))
                .map(|(name, value)| (name.clone(), value.clone().unwrap_or_default())),
        )
        .map(|(name, value)| format!("{}:{value}\n", name.to_ascii_lowercase()))
        .collect();
    lines.sort();
    let bucket = head.value("host").and_then(|host| host.split(':').next()?.strip_suffix(".s3.test"));
    let bucket = bucket.map(|bucket| format!("/{bucket}")).unwrap_or_default();
    let mut parts: Vec<String> = pairs
        .iter()
        .filter(|(name, _)| SUB_RESOURCES.contains(&name.as_str()) || name.starts_with("response-"))
        .map(|(name, value)| value.as_ref().map_or(name.clone(), |value| format!("{name}={value}")))
        .collect();
    parts.sort();
    let parts = if parts.is_empty() { String::new() } else { format!("?{}", parts.join("&")) };
    let text = format!(
        "{}\n{}\n{}\n{expires}\n{}{bucket}{path}{parts}",
        head.method(),
        find("content-md5"),
        find("content-type"),
        lines.concat()
    );
    let mac = Hmac::<Sha1>::new_from_slice(secret.as_bytes()).expect("any length");
    let right = STANDARD.encode(mac.chain_update(bytes(&text)).finalize().into_bytes());
    Some((claimed, right))
}

/// Parameters of a query that Version 2 signs.
const SUB_RESOURCES: &[&str] = &[
    "acl",
    "cors",
    "delete",
    "lifecycle",
    "location",
    "logging",
    "notification",
    "partNumber",
    "policy",
    "requestPayment",
    "tagging",
    "torrent",
    "uploadId",
    "uploads",
    "versionId",
    "versioning",
    "versions",
    "website",
];

/// The example of AWS's documentation of Signature Version 4 for S3, whose signature is known.
#[test]
fn a_right_signature_is_made_right_again_and_a_wrong_one_stays() {
    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
    const RIGHT: &str = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
    let request = |signature: &str| {
        format!(
            "GET /test.txt HTTP/1.1\r\nHost: examplebucket.s3.amazonaws.com\r\nRange: bytes=0-9\r\n\
             x-amz-content-sha256: {EMPTY}\r\nx-amz-date: 20130524T000000Z\r\nAuthorization: AWS4-HMAC-SHA256 \
             Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
             SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,Signature={signature}\r\n\r\n"
        )
    };
    let moved = |signature: &str| {
        let (head, _) = Head::split(request(signature).as_bytes()).expect("it has an end");
        again(&head, b"", SECRET, 86_400, str::to_owned).head
    };
    let right = moved(RIGHT);
    let new = claim(&right).expect("it is signed");
    assert_eq!(
        (new.date.as_str(), new.scope.as_str()),
        ("20130525T000000Z", "20130525/us-east-1/s3/aws4_request")
    );
    assert_ne!(new.signature, RIGHT);
    assert_eq!(signature(&right, &new, SECRET, Spelling::AsSent), new.signature);
    assert_eq!(again(&right, b"", SECRET, -86_400, str::to_owned).head.bytes(), request(RIGHT).into_bytes());
    let wrong = RIGHT.replace("f0", "00");
    assert_eq!(claim(&moved(&wrong)).expect("it is signed").signature, wrong);
}
