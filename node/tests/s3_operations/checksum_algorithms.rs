//! SHA512, MD5, XXHASH64, XXHASH3 and XXHASH128: what S3 takes and shows of them, request by request.
//!
//! Client libraries compute few of these, so requests are written and signed here, and answers read as they
//! come. The values are those of Python's `hashlib` and `xxhash`, which wraps the reference implementation.

use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;

/// The body of most objects, and the last part of uploads.
const SMALL: &[u8] = b"123456789";
const TRAILER: &str = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
const SHA256: &str = "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=";

/// An algorithm, and its values in base64.
struct Algorithm {
    name: &'static str,
    /// Of [`SMALL`].
    small: &'static str,
    /// Of the first part of uploads, `some_bytes(PART)`.
    part: &'static str,
    /// Checksum of both parts together, part by part.
    composite: &'static str,
}

impl Algorithm {
    fn header(&self) -> String {
        format!("x-amz-checksum-{}", self.name.to_ascii_lowercase())
    }

    /// The element of a document with a value.
    fn element(&self, value: &str) -> String {
        format!("<Checksum{0}>{value}</Checksum{0}>", self.name)
    }

    /// A value of the right length for other bytes.
    fn wrong(&self) -> String {
        format!("A{}", &self.small[1..])
    }
}

const ALGORITHMS: [Algorithm; 5] = [
    Algorithm {
        name: "SHA512",
        small: "2eZ2LdHI6vbWGzxhkvxAjU1tXxF20MKRabwk5xw/J0rSf81YEbMT1oH35V7ALXPUmclUVba1u1A6z1dPuo/+hQ==",
        part: "UUcj5aGVOfG4H6SovYePw1sFP9roSxo6w6etwJlWkni7M72Zg5eKqAAgQv+F3SB1Yet8+jJEY8j2ZtKv22VTPw==",
        composite: "JCoj9zNRWciH/m5edVpXp9/KEffsIMiFxr4eUwzenlhw2yHWeMaGZnpUPCo4NJYvpfkqlGEo6XRKH34jUgd7XA==",
    },
    Algorithm {
        name: "MD5",
        small: "JfnnlDI7RTiF9RgfG2JNCw==",
        part: "TChkDcjfGTOq6hkhANUK4A==",
        composite: "j9OKURVdF7ovV1ps20ZWCw==",
    },
    Algorithm { name: "XXHASH64", small: "jLhB20DmroM=", part: "nt7qU/z8nB4=", composite: "CQP24yUH9Uw=" },
    Algorithm { name: "XXHASH3", small: "ctyxi2ehff8=", part: "f7lM6WcDDeA=", composite: "L7ea5NJIPuA=" },
    Algorithm {
        name: "XXHASH128",
        small: "MxGUd+3l3NXpcWQnaB1YYA==",
        part: "N+DwsSPHJSV/uUzpZwMN4A==",
        composite: "5exJBfqQ8f0pROdThPshAw==",
    },
];

/// A request to sign.
struct Asking {
    method: &'static str,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// An answer as it came.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

fn asking(method: &'static str, key: &str) -> Asking {
    let headers = vec![("x-amz-content-sha256".to_owned(), "UNSIGNED-PAYLOAD".to_owned())];
    Asking { method, target: format!("/{BUCKET}/{key}"), headers, body: Vec::new() }
}

impl Asking {
    fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(other, _)| other != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// The body in one frame, with a checksum in its trailer.
    fn with_trailer(mut self, name: &str, value: &str) -> Self {
        let length = self.body.len();
        let framed = [
            format!("{length:x}\r\n").into_bytes(),
            std::mem::take(&mut self.body),
            format!("\r\n0\r\n{name}:{value}\r\n\r\n").into_bytes(),
        ]
        .concat();
        let framing = self.header("content-encoding", "aws-chunked").header("x-amz-trailer", name);
        let length = length.to_string();
        framing
            .header("x-amz-decoded-content-length", &length)
            .header("x-amz-content-sha256", TRAILER)
            .body(framed)
    }

    async fn send(mut self, node: &Node) -> Answer {
        let authority = node.endpoint.strip_prefix("http://").expect("plain HTTP").to_owned();
        let now = OffsetDateTime::now_utc();
        let day = format!("{}{:02}{:02}", now.year(), u8::from(now.month()), now.day());
        let date = format!("{day}T{:02}{:02}{:02}Z", now.hour(), now.minute(), now.second());
        self = self.header("host", &authority).header("x-amz-date", &date);
        self.headers.sort();
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        let names = names.join(";");
        let (path, query) = self.target.split_once('?').unwrap_or((&self.target, ""));
        let query: Vec<String> = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| if pair.contains('=') { pair.to_owned() } else { format!("{pair}=") })
            .collect();
        let lines: Vec<String> = self.headers.iter().map(|(name, value)| format!("{name}:{value}")).collect();
        let lines = lines.join("\n");
        let payload = self.headers.iter().find(|(name, _)| name == "x-amz-content-sha256");
        let payload = &payload.expect("every request has it").1;
        let canonical =
            format!("{}\n{path}\n{}\n{lines}\n\n{names}\n{payload}", self.method, query.join("&"));
        let scope = format!("{day}/us-east-1/s3/aws4_request");
        let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex::encode(Sha256::digest(canonical)));
        let mut key = format!("AWS4{}", node.secret_key).into_bytes();
        for piece in scope.split('/').chain([text.as_str()]) {
            key = hmac(&key, piece);
        }
        let signature = hex::encode(key);
        let access_key = &node.access_key;
        let mut request = format!(
            "{} {} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\nauthorization: AWS4-HMAC-SHA256 \
             Credential={access_key}/{scope}, SignedHeaders={names}, Signature={signature}\r\n",
            self.method,
            self.target,
            self.body.len(),
        );
        request.extend(self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")));
        request.push_str("\r\n");
        let exchange = async {
            let mut connection = TcpStream::connect(&authority).await.expect("the node listens");
            connection.write_all(&[request.as_bytes(), &self.body].concat()).await.expect("a request");
            let mut answer = Vec::new();
            connection.read_to_end(&mut answer).await.expect("an answer");
            answer
        };
        let answer = tokio::time::timeout(Duration::from_mins(2), exchange).await.expect("an answer");
        let answer = String::from_utf8(answer).expect("text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("any length");
    mac.chain_update(text).finalize().into_bytes().to_vec()
}

impl Answer {
    /// The value of a header.
    fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(other, _)| *other == name)
            .map(|(_, value)| value)
    }

    fn text_of(&self, element: &str) -> Option<&str> {
        let (_, behind) = self.body.split_once(&format!("<{element}>"))?;
        Some(behind.split_once(&format!("</{element}>"))?.0)
    }

    /// Status and code.
    fn refusal(&self) -> (u16, String) {
        is(self.status, self.text_of("Code").unwrap_or_default())
    }

    fn message(&self) -> &str {
        self.text_of("Message").unwrap_or_default()
    }
}

/// All that an answer with headers says of checksums.
fn said(answer: &Answer) -> Vec<(&str, &str)> {
    assert_eq!(answer.status, 200, "{answer:?}");
    let lines = answer.head.lines().filter_map(|line| line.split_once(": "));
    lines.filter(|(name, _)| name.starts_with("x-amz-checksum-")).collect()
}

async fn read(node: &Node, method: &'static str, key: &str) -> Answer {
    asking(method, key).header("x-amz-checksum-mode", "ENABLED").send(node).await
}

async fn attributes(node: &Node, key: &str) -> Answer {
    let ask = asking("GET", &format!("{key}?attributes"));
    ask.header("x-amz-object-attributes", "Checksum,ObjectParts").send(node).await
}

#[tokio::test]
async fn a_body_brings_its_checksum_in_a_header_or_in_the_trailer() {
    let (node, _client) = a_bucket().await;
    for algorithm in &ALGORITHMS {
        let (header, name) = (algorithm.header(), algorithm.name);
        let put = || asking("PUT", name).header("x-amz-sdk-checksum-algorithm", name).body(SMALL);
        let whole = [(header.as_str(), algorithm.small), ("x-amz-checksum-type", "FULL_OBJECT")];
        for sent in [put().header(&header, algorithm.small), put().with_trailer(&header, algorithm.small)] {
            assert_eq!(said(&sent.send(&node).await), whole, "{name}");
            assert_eq!(said(&asking("HEAD", name).send(&node).await), [], "{name}: not asked for");
            assert_eq!(said(&read(&node, "HEAD", name).await), whole, "{name}");
            let object = read(&node, "GET", name).await;
            assert_eq!((said(&object), object.body.as_bytes()), (whole.to_vec(), SMALL), "{name}");
            let attributes = attributes(&node, name).await;
            let element = algorithm.element(algorithm.small);
            let checksum = format!("{element}<ChecksumType>FULL_OBJECT</ChecksumType>");
            assert_eq!(attributes.text_of("Checksum"), Some(checksum.as_str()), "{name}");
            assert_eq!(asking("DELETE", name).send(&node).await.status, 204);
        }
        let listed = put().header(&header, algorithm.small).send(&node).await;
        assert_eq!(listed.status, 200, "{name}");
        let listed = asking("GET", &format!("?list-type=2&prefix={name}")).send(&node).await;
        assert_eq!(listed.text_of("ChecksumAlgorithm"), Some(name));
    }
}

#[tokio::test]
async fn a_checksum_that_differs_stores_nothing() {
    let (node, _client) = a_bucket().await;
    for algorithm in &ALGORITHMS {
        let (header, name) = (algorithm.header(), algorithm.name);
        let put = || asking("PUT", "k").body(SMALL);
        for sent in
            [put().header(&header, &algorithm.wrong()), put().with_trailer(&header, &algorithm.wrong())]
        {
            let differs = sent.send(&node).await;
            assert_eq!(differs.refusal(), is(400, "BadDigest"), "{name}");
            assert_eq!(
                differs.message(),
                format!("The {name} you specified did not match the calculated checksum.")
            );
        }
        let value = algorithm.small;
        for (sent, said) in [
            (put().header(&header, &value[1..]), format!("Value for {header} header is invalid.")),
            (put().header(&header, "nonsense?"), format!("Value for {header} header is invalid.")),
            (
                put().header(&header, value).header("x-amz-checksum-sha256", SHA256),
                "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed."
                    .to_owned(),
            ),
            (
                put().header(&header, value).header("x-amz-sdk-checksum-algorithm", "SHA256"),
                "Value for x-amz-sdk-checksum-algorithm header is invalid.".to_owned(),
            ),
        ] {
            let refused = sent.send(&node).await;
            assert_eq!((refused.refusal(), refused.message()), (is(400, "InvalidRequest"), &*said), "{name}");
        }
        assert_eq!(asking("HEAD", "k").send(&node).await.status, 404, "{name}");
    }
    let unknown = asking("PUT", "k").body(SMALL).header("x-amz-checksum-sha3", "AAAA").send(&node).await;
    assert_eq!(unknown.refusal(), is(501, "NotImplemented"));
}

#[tokio::test]
async fn a_copy_has_the_algorithm_that_is_asked_for_or_its_sources() {
    let (node, client) = a_bucket().await;
    put(&client, "k", SMALL).await;
    for algorithm in &ALGORITHMS {
        let name = algorithm.name;
        let copy =
            |from: &str, to: &str| asking("PUT", to).header("x-amz-copy-source", &format!("{BUCKET}/{from}"));
        let asked = copy("k", "asked").header("x-amz-checksum-algorithm", name).send(&node).await;
        let kept = copy("asked", "kept").send(&node).await;
        let element = algorithm.element(algorithm.small);
        for copied in [asked, kept] {
            let result = copied.text_of("CopyObjectResult").expect("a result");
            let start = format!("{element}<ChecksumType>FULL_OBJECT</ChecksumType><ETag>");
            assert!(result.starts_with(&start), "{name}: {result}");
        }
        let whole = [(&*algorithm.header(), algorithm.small), ("x-amz-checksum-type", "FULL_OBJECT")];
        assert_eq!(said(&read(&node, "HEAD", "kept").await), whole);
        let back =
            copy("kept", "kept-as-sha256").header("x-amz-checksum-algorithm", "SHA256").send(&node).await;
        assert_eq!(back.text_of("ChecksumSHA256"), Some(SHA256), "{name}");
    }
    let unknown =
        asking("PUT", "c").header("x-amz-copy-source", "bucket/k").header("x-amz-checksum-algorithm", "MD4");
    let unknown = unknown.send(&node).await;
    assert_eq!(unknown.refusal(), is(400, "InvalidRequest"));
    assert!(
        unknown
            .message()
            .ends_with("[CRC32, CRC32C, CRC64NVME, MD5, SHA1, SHA256, SHA512, XXHASH128, XXHASH3, XXHASH64]")
    );
}

/// Begins an upload of an algorithm.
async fn begin(node: &Node, algorithm: &Algorithm) -> String {
    let begun =
        asking("POST", "k?uploads").header("x-amz-checksum-algorithm", algorithm.name).send(node).await;
    let declared = [("x-amz-checksum-algorithm", algorithm.name), ("x-amz-checksum-type", "COMPOSITE")];
    assert_eq!(said(&begun), declared);
    begun.text_of("UploadId").expect("an id").to_owned()
}

fn part(upload: &str, number: u16) -> Asking {
    asking("PUT", &format!("k?partNumber={number}&uploadId={upload}"))
}

/// A Complete of two parts by their entity tags, each with an element more.
fn complete(upload: &str, etags: &[String], more: [&str; 2]) -> Asking {
    let parts = (1..).zip(etags).zip(more).map(|((number, etag), more)| {
        format!("<Part>{more}<PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>")
    });
    let parts: String = parts.collect();
    asking("POST", &format!("k?uploadId={upload}"))
        .body(format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>"))
}

#[tokio::test]
async fn an_upload_has_a_composite_checksum() {
    let (node, client) = a_bucket().await;
    put(&client, "from", SMALL).await;
    let large = some_bytes(PART);
    for algorithm in &ALGORITHMS {
        let (header, name) = (algorithm.header(), algorithm.name);
        let full = asking("POST", "k?uploads").header("x-amz-checksum-algorithm", name);
        let full = full.header("x-amz-checksum-type", "FULL_OBJECT").send(&node).await;
        assert_eq!(full.refusal(), is(400, "InvalidRequest"), "{name}");
        let lower = name.to_ascii_lowercase();
        assert_eq!(
            full.message(),
            format!("The FULL_OBJECT checksum type cannot be used with the {lower} checksum algorithm.")
        );

        let upload = begin(&node, algorithm).await;
        let small = || part(&upload, 2).body(SMALL);
        for (sent, code) in [
            (small(), "InvalidRequest"),
            (small().header("x-amz-checksum-sha256", SHA256), "InvalidRequest"),
            (small().header(&header, &algorithm.wrong()), "BadDigest"),
        ] {
            assert_eq!(sent.send(&node).await.refusal(), is(400, code), "{name}");
        }
        let sent = [
            part(&upload, 1).body(large.clone()).header(&header, algorithm.part).send(&node).await,
            small().with_trailer(&header, algorithm.small).send(&node).await,
        ];
        assert_eq!(said(&sent[0]), [(&*header, algorithm.part)]);
        assert_eq!(said(&sent[1]), [(&*header, algorithm.small)]);
        let copied = part(&upload, 3).header("x-amz-copy-source", "bucket/from").send(&node).await;
        let result = copied.text_of("CopyPartResult").expect("a result");
        assert!(result.starts_with(&(algorithm.element(algorithm.small) + "<ETag>")), "{name}: {result}");

        let listed = asking("GET", &format!("k?uploadId={upload}")).send(&node).await;
        assert_eq!(listed.text_of("ChecksumAlgorithm"), Some(name));
        assert_eq!(listed.text_of("ChecksumType"), Some("COMPOSITE"), "{name}");
        for value in [algorithm.part, algorithm.small] {
            assert!(listed.body.contains(&format!("<Part>{}<ETag>", algorithm.element(value))), "{listed:?}");
        }
        let open = asking("GET", "?uploads").send(&node).await;
        assert_eq!(open.text_of("ChecksumAlgorithm"), Some(name));

        let etags: Vec<String> =
            sent.iter().map(|sent| sent.header("etag").expect("an entity tag").to_owned()).collect();
        let elements = [algorithm.element(algorithm.part), algorithm.element(algorithm.small)];
        let [first, second] = elements.each_ref().map(String::as_str);
        let wrong = algorithm.element(&algorithm.wrong());
        let all = || complete(&upload, &etags, [first, second]);
        for (sent, code) in [
            (complete(&upload, &etags, [first, ""]), "InvalidRequest"),
            (complete(&upload, &etags, [first, &wrong]), "InvalidPart"),
            (complete(&upload, &etags, [first, &algorithm.element("AAAA")]), "InvalidArgument"),
            (all().header(&header, &algorithm.wrong()), "BadDigest"),
            (all().header("x-amz-checksum-type", "FULL_OBJECT"), "InvalidRequest"),
        ] {
            assert_eq!(sent.send(&node).await.refusal(), is(400, code), "{name}");
        }
        let whole = format!("{}-2", algorithm.composite);
        let completed = all().header(&header, &whole).send(&node).await;
        let start = format!(
            "<Bucket>{BUCKET}</Bucket>{}<ChecksumType>COMPOSITE</ChecksumType><ETag>",
            algorithm.element(&whole)
        );
        assert!(completed.body.contains(&start), "{name}: {completed:?}");

        reads_show_the_composite(&node, algorithm).await;
    }
}

/// Reads of the completed upload show the checksum of the whole, those of its parts, and the attributes.
async fn reads_show_the_composite(node: &Node, algorithm: &Algorithm) {
    let (header, name) = (algorithm.header(), algorithm.name);
    let whole = format!("{}-2", algorithm.composite);
    let read_of = |more: &str| asking("HEAD", &format!("k{more}")).header("x-amz-checksum-mode", "ENABLED");
    let kind = ("x-amz-checksum-type", "COMPOSITE");
    assert_eq!(said(&read_of("").send(node).await), [(&*header, &*whole), kind]);
    let of_part = read_of("?partNumber=2").send(node).await;
    assert_eq!(of_part.status, 206);
    assert_eq!(of_part.header(&header), Some(algorithm.small), "{name}: the part's own");
    let attributes = attributes(node, "k").await;
    let bare = algorithm.element(algorithm.composite) + "<ChecksumType>COMPOSITE</ChecksumType>";
    assert_eq!(attributes.text_of("Checksum"), Some(&*bare), "without the number of parts");
    for value in [algorithm.part, algorithm.small] {
        let element = algorithm.element(value);
        assert!(attributes.body.contains(&format!("<Part>{element}<PartNumber>")), "{attributes:?}");
    }
}

/// AWS takes a checksum of the older algorithms there, and looks at none.
#[tokio::test]
async fn an_upload_that_is_completed_with_a_checksum_has_named_its_algorithm() {
    let (node, _client) = a_bucket().await;
    let begun = asking("POST", "k?uploads").send(&node).await;
    let upload = begun.text_of("UploadId").expect("an id").to_owned();
    let sent = part(&upload, 1).body(SMALL).send(&node).await;
    let etags = [sent.header("etag").expect("an entity tag").to_owned()];
    for algorithm in &ALGORITHMS {
        let all = complete(&upload, &etags, ["", ""]).header(&algorithm.header(), algorithm.small);
        let refused = all.send(&node).await;
        assert_eq!(refused.refusal(), is(400, "InvalidRequest"), "{}", algorithm.name);
    }
    let all = complete(&upload, &etags, ["", ""]).header("x-amz-checksum-sha256", SHA256).send(&node).await;
    assert_eq!(all.text_of("ChecksumCRC64NVME"), Some("rosUhgp5mIg="));
}
