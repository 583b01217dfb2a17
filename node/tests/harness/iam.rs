//! A client of IAM's query API and of STS: signs by hand, and shows each answer as it came.

use std::time::SystemTime;

use hmac::{Hmac, KeyInit as _, Mac as _};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::wait::{SOON, bounded};

/// The escapes of AWS's signers.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A client of one node with one key.
#[derive(Debug, Clone)]
pub(crate) struct IamClient {
    /// Where the node serves IAM: `http://127.0.0.1:PORT`.
    pub(crate) endpoint: String,
    /// The key's id.
    pub(crate) access_key: String,
    /// Secret of the key.
    pub(crate) secret: String,
    /// The service and the region that requests are signed for.
    pub(crate) scope: (&'static str, &'static str),
    /// Seconds that its clock is ahead.
    pub(crate) ahead_s: i64,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IamAnswer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl IamAnswer {
    /// The text of the first element of this name.
    pub(crate) fn text(&self, element: &str) -> Option<&str> {
        let (_, rest) = self.body.split_once(&format!("<{element}>"))?;
        rest.split_once(&format!("</{element}>")).map(|(text, _)| text)
    }

    /// The code of a refusal; empty for another answer.
    pub(crate) fn code(&self) -> &str {
        self.text("Code").unwrap_or_default()
    }
}

impl IamClient {
    /// A client of IAM.
    pub(crate) fn new(endpoint: &str, access_key: &str, secret: &str) -> Self {
        let (endpoint, access_key, secret) = (endpoint.to_owned(), access_key.to_owned(), secret.to_owned());
        Self { endpoint, access_key, secret, scope: ("iam", "us-east-1"), ahead_s: 0 }
    }

    /// The same with another key.
    pub(crate) fn with_key(&self, access_key: &str, secret: &str) -> Self {
        Self { access_key: access_key.to_owned(), secret: secret.to_owned(), ..self.clone() }
    }

    /// The same through another node.
    pub(crate) fn through(&self, endpoint: &str) -> Self {
        Self { endpoint: endpoint.to_owned(), ..self.clone() }
    }

    /// Calls an action of IAM in a POST.
    pub(crate) async fn call(&self, action: &str, parameters: &[(&str, &str)]) -> IamAnswer {
        let mut pairs = vec![("Action", action), ("Version", "2010-05-08")];
        pairs.extend_from_slice(parameters);
        self.send("POST", &form(&pairs)).await
    }

    /// Calls an action that must succeed.
    pub(crate) async fn done(&self, action: &str, parameters: &[(&str, &str)]) -> IamAnswer {
        let answer = self.call(action, parameters).await;
        assert_eq!(answer.status, 200, "{action} {parameters:?}: {}", answer.body);
        answer
    }

    /// The status and the code of a call that is refused.
    pub(crate) async fn refused(&self, action: &str, parameters: &[(&str, &str)]) -> (u16, String) {
        let answer = self.call(action, parameters).await;
        assert!(answer.body.starts_with("<ErrorResponse xmlns="), "{action}: {}", answer.body);
        (answer.status, answer.code().to_owned())
    }

    /// Asks STS who the caller is.
    pub(crate) async fn caller_identity(&self) -> IamAnswer {
        let sts = Self { scope: ("sts", "eu-central-1"), ..self.clone() };
        sts.send("POST", &form(&[("Action", "GetCallerIdentity"), ("Version", "2011-06-15")])).await
    }

    /// Sends a form, as the body of a POST or the query of a GET.
    pub(crate) async fn send(&self, method: &str, form: &str) -> IamAnswer {
        let body = if method == "GET" { "" } else { form };
        self.raw(&(self.head(method, form) + body)).await
    }

    /// The head of a request that sends a form.
    pub(crate) fn head(&self, method: &str, form: &str) -> String {
        let (query, body) = if method == "GET" { (form, "") } else { ("", form) };
        let host = self.endpoint.strip_prefix("http://").expect("plain HTTP");
        let date = date(self.ahead_s);
        let (service, region) = self.scope;
        let scope = format!("{}/{region}/{service}/aws4_request", &date[..8]);
        let mut sorted: Vec<&str> = query.split('&').filter(|pair| !pair.is_empty()).collect();
        sorted.sort_unstable();
        let canonical = format!(
            "{method}\n/\n{}\nhost:{host}\nx-amz-date:{date}\n\nhost;x-amz-date\n{}",
            sorted.join("&"),
            hex::encode(Sha256::digest(body))
        );
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders=host;x-amz-date, Signature={}",
            self.access_key,
            self.signature(&date, &canonical)
        );
        let uri = if query.is_empty() { "/".to_owned() } else { format!("/?{query}") };
        format!(
            "{method} {uri} HTTP/1.1\r\nHost: {host}\r\nX-Amz-Date: {date}\r\nAuthorization: {authorization}\r\n\
             Content-Type: application/x-www-form-urlencoded; charset=utf-8\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n",
            body.len()
        )
    }

    /// Sends the head of a request with a body of `len` bytes, and seven bytes of that.
    pub(crate) async fn stall(&self, len: usize) -> TcpStream {
        let address = self.endpoint.strip_prefix("http://").expect("plain HTTP");
        let connected = bounded("a connection to IAM", SOON, TcpStream::connect(address)).await;
        let mut stream = connected.expect("the node listens");
        let head = self.head("POST", &"x".repeat(len)) + "Action=";
        // The node may have closed it for another one.
        let _closed = stream.write_all(head.as_bytes()).await;
        stream
    }

    /// Sends the query of a URL that was presigned for this node.
    pub(crate) async fn present(&self, method: &str, query: &str) -> IamAnswer {
        let host = self.endpoint.strip_prefix("http://").expect("plain HTTP");
        let lines = format!("Host: {host}\r\nContent-Length: 0\r\nConnection: close");
        self.raw(&format!("{method} /?{query} HTTP/1.1\r\n{lines}\r\n\r\n")).await
    }

    /// Presigns parameters: the query of a URL.
    pub(crate) fn presign(&self, method: &str, parameters: &[(&str, &str)], seconds: u32) -> String {
        let host = self.endpoint.strip_prefix("http://").expect("plain HTTP");
        let date = date(self.ahead_s);
        let (service, region) = self.scope;
        let scope = format!("{}/{region}/{service}/aws4_request", &date[..8]);
        let (credential, seconds) = (format!("{}/{scope}", self.access_key), seconds.to_string());
        let signing = [
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Credential", &credential),
            ("X-Amz-Date", &date),
            ("X-Amz-Expires", &seconds),
            ("X-Amz-SignedHeaders", "host"),
        ];
        let mut pairs = [parameters, &signing].concat();
        pairs.sort_unstable();
        let query = form(&pairs);
        let empty = hex::encode(Sha256::digest(""));
        let canonical = format!("{method}\n/\n{query}\nhost:{host}\n\nhost\n{empty}");
        format!("{query}&X-Amz-Signature={}", self.signature(&date, &canonical))
    }

    /// The signature of a canonical request.
    fn signature(&self, date: &str, canonical: &str) -> String {
        let (service, region) = self.scope;
        let scope = format!("{}/{region}/{service}/aws4_request", &date[..8]);
        let to_sign =
            format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex::encode(Sha256::digest(canonical)));
        let key = [&date[..8], region, service, "aws4_request"]
            .iter()
            .fold(format!("AWS4{}", self.secret).into_bytes(), |key, part| mac(&key, part));
        hex::encode(mac(&key, &to_sign))
    }

    /// Sends a request as it is written, and reads the answer to the end of the connection.
    pub(crate) async fn raw(&self, request: &str) -> IamAnswer {
        let address = self.endpoint.strip_prefix("http://").expect("plain HTTP");
        let answered = bounded("a request to IAM", SOON, async {
            let mut stream = TcpStream::connect(address).await?;
            stream.write_all(request.as_bytes()).await?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await?;
            Ok::<_, std::io::Error>(answer)
        });
        let answer = String::from_utf8(answered.await.expect("the node listens")).expect("text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        IamAnswer { status, body: body.to_owned() }
    }
}

/// A form.
pub(crate) fn form(pairs: &[(&str, &str)]) -> String {
    let pair = |(name, value): &(&str, &str)| {
        format!("{}={}", utf8_percent_encode(name, ESCAPED), utf8_percent_encode(value, ESCAPED))
    };
    pairs.iter().map(pair).collect::<Vec<_>>().join("&")
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of HMAC has any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Now, shifted by these seconds, as signatures have it.
fn date(ahead_s: i64) -> String {
    let now = time::OffsetDateTime::from(SystemTime::now()) + time::Duration::seconds(ahead_s);
    let (hour, minute, second) = now.to_hms();
    let (year, month, day) = now.to_calendar_date();
    format!("{year:04}{:02}{day:02}T{hour:02}{minute:02}{second:02}Z", u8::from(month))
}
