//! Forms as a browser sends them, signed as boto3's `generate_presigned_post` does, and written byte by byte.

use std::time::{Duration, SystemTime};

use aws_sdk_s3::primitives::{DateTime, DateTimeFormat};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;
use sha2::Sha256;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::Node;
use super::wait::{LATER, bounded};

/// The boundary between the parts of a form.
pub(crate) const BOUNDARY: &str = "----WebKitFormBoundary7MA4YWxkTrZu0gW";

/// A form.
#[derive(Debug, Clone)]
pub(crate) struct Form {
    endpoint: String,
    access_key: String,
    secret_key: String,
    bucket: String,
    region: String,
    /// Seconds from now to the time of the signature, and from there to the expiration.
    times: (i64, i64),
    conditions: Vec<String>,
    fields: Vec<(String, String)>,
    /// Fields that are sent as they are here, after the signature was made.
    forged: Vec<(String, Option<String>)>,
    file: Vec<u8>,
    filename: Option<String>,
    behind: Vec<u8>,
    headers: Vec<String>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct FormAnswer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl FormAnswer {
    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    /// An element's text, as it is written.
    pub(crate) fn element(&self, name: &str) -> Option<&str> {
        let (_, behind) = self.body.split_once(&format!("<{name}>"))?;
        behind.split_once(&format!("</{name}>")).map(|(text, _)| text)
    }

    /// Status, code and message of a refusal, without the marks of XML.
    pub(crate) fn refusal(&self) -> (u16, String, String) {
        let message = self.element("Message").unwrap_or_default();
        let message = message.replace("&quot;", "\"").replace("&apos;", "'").replace("&amp;", "&");
        (self.status, self.element("Code").unwrap_or_default().to_owned(), message)
    }
}

impl Form {
    /// A form that puts `file` under `key`, signed by the root key of a node.
    pub(crate) fn new(node: &Node, bucket: &str, key: &str, file: impl Into<Vec<u8>>) -> Self {
        Self {
            endpoint: node.endpoint.clone(),
            access_key: node.access_key.clone(),
            secret_key: node.secret_key.clone(),
            bucket: bucket.to_owned(),
            region: "us-east-1".to_owned(),
            times: (0, 3600),
            conditions: vec![format!("{{\"bucket\": \"{bucket}\"}}")],
            fields: Vec::new(),
            forged: Vec::new(),
            file: file.into(),
            filename: Some("photo.jpg".to_owned()),
            behind: Vec::new(),
            headers: Vec::new(),
        }
        .field("key", key)
    }

    /// With a field, and a condition that any value fulfils.
    pub(crate) fn field(self, name: &str, value: &str) -> Self {
        self.condition(&format!("[\"starts-with\", \"${name}\", \"\"]")).extra(name, value)
    }

    /// With a field without a condition.
    pub(crate) fn extra(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With a condition.
    pub(crate) fn condition(mut self, condition: &str) -> Self {
        self.conditions.push(condition.to_owned());
        self
    }

    /// Without any condition so far.
    pub(crate) fn without_conditions(mut self) -> Self {
        self.conditions.clear();
        self
    }

    /// With a field of the signature changed or left out, behind the signing.
    pub(crate) fn forged(mut self, name: &str, value: Option<&str>) -> Self {
        self.forged.push((name.to_owned(), value.map(str::to_owned)));
        self
    }

    /// By another key.
    pub(crate) fn signed_by(mut self, access_key: &str, secret_key: &str) -> Self {
        access_key.clone_into(&mut self.access_key);
        secret_key.clone_into(&mut self.secret_key);
        self
    }

    /// For another region.
    pub(crate) fn in_region(mut self, region: &str) -> Self {
        region.clone_into(&mut self.region);
        self
    }

    /// Signed at another time, in seconds from now, with an expiration in seconds from then.
    pub(crate) fn at(mut self, signed: i64, valid: i64) -> Self {
        self.times = (signed, valid);
        self
    }

    /// With another name of its file, or without one.
    pub(crate) fn filename(mut self, filename: Option<&str>) -> Self {
        self.filename = filename.map(str::to_owned);
        self
    }

    /// With bytes between its file and its end.
    pub(crate) fn behind(mut self, bytes: &[u8]) -> Self {
        self.behind = bytes.to_vec();
        self
    }

    /// With a line in the head of its request.
    pub(crate) fn header(mut self, line: &str) -> Self {
        self.headers.push(line.to_owned());
        self
    }

    /// Through another node, to which its key belongs, too.
    pub(crate) fn through(mut self, node: &Node) -> Self {
        node.endpoint.clone_into(&mut self.endpoint);
        self
    }

    /// The policy in base64.
    fn policy(&self, more: &[String]) -> String {
        let expiration = moment(self.times.0 + self.times.1);
        let conditions = self.conditions.iter().chain(more).cloned().collect::<Vec<_>>().join(", ");
        STANDARD.encode(format!("{{\"expiration\": \"{expiration}\", \"conditions\": [{conditions}]}}"))
    }

    /// The fields of Signature Version 4 over a policy that this builder made, or another one.
    pub(crate) fn v4(self, policy: Option<&str>) -> Self {
        let date = moment(self.times.0).replace(['-', ':'], "");
        let day = date.get(..8).expect("a date").to_owned();
        let scope = format!("{day}/{}/s3/aws4_request", self.region);
        let signing = [
            ("x-amz-algorithm", "AWS4-HMAC-SHA256".to_owned()),
            ("x-amz-credential", format!("{}/{scope}", self.access_key)),
            ("x-amz-date", date),
        ];
        let more = signing.iter().map(|(name, value)| format!("{{\"{name}\": \"{value}\"}}"));
        let policy = policy.map_or_else(|| self.policy(&more.collect::<Vec<_>>()), str::to_owned);
        let mac = |key: &[u8], text: &str| {
            let mac = Hmac::<Sha256>::new_from_slice(key).expect("any length");
            mac.chain_update(text).finalize().into_bytes()
        };
        let key = mac(format!("AWS4{}", self.secret_key).as_bytes(), &day);
        let key = [&self.region, "s3", "aws4_request"].iter().fold(key, |key, part| mac(&key, part));
        let signature = hex::encode(mac(&key, &policy));
        let signing = signing.into_iter().chain([("policy", policy), ("x-amz-signature", signature)]);
        signing.fold(self, |form, (name, value)| form.extra(name, &value))
    }

    /// The fields of Signature Version 2.
    pub(crate) fn v2(self) -> Self {
        let policy = self.policy(&[]);
        let mac = Hmac::<Sha1>::new_from_slice(self.secret_key.as_bytes()).expect("any length");
        let signature = STANDARD.encode(mac.chain_update(&policy).finalize().into_bytes());
        let access_key = self.access_key.clone();
        self.extra("AWSAccessKeyId", &access_key).extra("policy", &policy).extra("signature", &signature)
    }

    /// The value of a field.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    /// Body of the request.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for (name, value) in &self.fields {
            let forged = self.forged.iter().find(|(forged, _)| forged == name);
            let Some(value) = forged.map_or(Some(value), |(_, value)| value.as_ref()) else { continue };
            let part =
                format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
            body.extend_from_slice(part.as_bytes());
        }
        let filename =
            self.filename.as_ref().map(|name| format!("; filename=\"{name}\"")).unwrap_or_default();
        let head = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"{filename}\r\nContent-Type: image/jpeg\r\n\r\n"
        );
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(&self.file);
        body.extend_from_slice(format!("\r\n--{BOUNDARY}").as_bytes());
        body.extend_from_slice(&self.behind);
        body.extend_from_slice(b"--\r\n");
        body
    }

    /// The head of its request, for a body of `length` bytes.
    pub(crate) fn head(&self, length: usize) -> String {
        let host = self.endpoint.split_once("//").map_or("", |(_, host)| host);
        let mut lines = vec![
            format!("POST /{} HTTP/1.1", self.bucket),
            format!("host: {host}"),
            "connection: close".to_owned(),
        ];
        let has = |name: &str| self.headers.iter().any(|line| line.starts_with(name));
        if !has("content-type") {
            lines.push(format!("content-type: multipart/form-data; boundary={BOUNDARY}"));
        }
        if !has("transfer-encoding") {
            lines.push(format!("content-length: {length}"));
        }
        lines.extend(self.headers.iter().cloned());
        lines.push("\r\n".to_owned());
        lines.join("\r\n")
    }

    /// A connection to the node.
    pub(crate) async fn connect(&self) -> TcpStream {
        let address = self.endpoint.strip_prefix("http://").expect("plain HTTP");
        bounded("connecting", LATER, TcpStream::connect(address)).await.expect("the node listens")
    }

    /// Sends it.
    pub(crate) async fn send(&self) -> FormAnswer {
        self.send_bytes(&self.bytes()).await
    }

    /// Sends it with another body.
    pub(crate) async fn send_bytes(&self, body: &[u8]) -> FormAnswer {
        let mut connection = self.connect().await;
        let request = [self.head(body.len()).as_bytes(), body].concat();
        // A node that refuses may close before it has read all.
        drop(bounded("sending", LATER, connection.write_all(&request)).await);
        read_answer(&mut connection).await
    }
}

/// Reads an answer up to the end of its connection.
pub(crate) async fn read_answer(connection: &mut TcpStream) -> FormAnswer {
    let mut answer = Vec::new();
    drop(bounded("an answer", LATER, connection.read_to_end(&mut answer)).await);
    let text = String::from_utf8(answer).expect("an answer is text");
    let text = text.strip_prefix("HTTP/1.1 100 Continue\r\n\r\n").unwrap_or(&text);
    let (head, body) = text.split_once("\r\n\r\n").expect("an answer has a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    FormAnswer { status, head: head.to_owned(), body: body.to_owned() }
}

/// A moment, in seconds from now, as a policy writes it.
fn moment(from_now: i64) -> String {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or(Duration::ZERO).as_secs();
    let seconds = i64::try_from(now).expect("small") + from_now;
    DateTime::from_secs(seconds).fmt(DateTimeFormat::DateTime).expect("a date")
}
