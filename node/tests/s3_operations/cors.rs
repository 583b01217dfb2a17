//! A bucket's cross-origin rules: put, shown and deleted, and the answers that browsers get by them.
//!
//! Preflights and requests of pages are written byte by byte: no SDK sends them.

use aws_sdk_s3::primitives::SdkBody;
use aws_sdk_s3::types::{CorsConfiguration, CorsRule};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::wire::{an_hour, exchange};
use super::*;

const PAGE: &str = "https://page.example";

fn rule(origin: &str, methods: &[&str]) -> CorsRule {
    let methods = methods.iter().map(|&method| method.to_owned()).collect();
    let rule = CorsRule::builder().allowed_origins(origin).set_allowed_methods(Some(methods));
    rule.build().expect("origins and methods")
}

fn rules(rules: Vec<CorsRule>) -> CorsConfiguration {
    CorsConfiguration::builder().set_cors_rules(Some(rules)).build().expect("rules")
}

/// Puts rules that must be taken.
async fn let_in(client: &Client, given: Vec<CorsRule>) {
    let put = client.put_bucket_cors().bucket(BUCKET).cors_configuration(rules(given));
    put.send().await.expect("rules");
}

async fn shown(client: &Client) -> Vec<CorsRule> {
    client.get_bucket_cors().bucket(BUCKET).send().await.expect("rules").cors_rules().to_vec()
}

/// Sends a request without a signature; returns the answer's head and body.
async fn ask(node: &Node, first: &str, host: Option<&str>, lines: &[&str]) -> (String, String) {
    let address = node.endpoint.strip_prefix("http://").expect("plain HTTP");
    let mut head = vec![format!("{first} HTTP/1.1"), format!("host: {}", host.unwrap_or(address))];
    head.push("connection: close".to_owned());
    head.extend(lines.iter().map(|&line| line.to_owned()));
    let mut connection = TcpStream::connect(address).await.expect("the node listens");
    connection.write_all((head.join("\r\n") + "\r\n\r\n").as_bytes()).await.expect("the head");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.expect("an answer of text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(found, _)| *found == name).map(|(_, value)| value)
}

#[tokio::test]
async fn rules_are_shown_as_they_were_put_until_they_are_deleted() {
    let (_node, client) = a_bucket().await;
    let code_of_get = async || code(client.get_bucket_cors().bucket(BUCKET).send().await);
    let none = is(404, "NoSuchCORSConfiguration");
    assert_eq!(code_of_get().await, none);
    let whole = CorsRule::builder()
        .id("first <rule>")
        .allowed_origins("https://*.example")
        .allowed_origins("")
        .allowed_methods("PUT")
        .allowed_methods("GET")
        .allowed_headers("x-AMZ-*")
        .allowed_headers("Content-Type")
        .expose_headers("ETag")
        .max_age_seconds(0);
    let given = vec![whole.build().expect("origins and methods"), rule("*", &["HEAD", "POST", "DELETE"])];
    let_in(&client, given.clone()).await;
    assert_eq!(shown(&client).await, given);
    let_in(&client, given[1..].to_vec()).await;
    assert_eq!(shown(&client).await, given[1..], "one configuration replaces the other");
    client.delete_bucket_cors().bucket(BUCKET).send().await.expect("deleted");
    assert_eq!(code_of_get().await, none);
    client.delete_bucket_cors().bucket(BUCKET).send().await.expect("nothing is there to delete");
    let nowhere = is(404, "NoSuchBucket");
    assert_eq!(code(client.get_bucket_cors().bucket("nowhere").send().await), nowhere);
    assert_eq!(code(client.delete_bucket_cors().bucket("nowhere").send().await), nowhere);
    let put = client.put_bucket_cors().bucket("nowhere").cors_configuration(rules(given));
    assert_eq!(code(put.send().await), nowhere);
}

#[tokio::test]
async fn a_hundred_long_rules_are_kept_and_matched() {
    let (node, client) = a_bucket().await;
    let origin = |number: usize| format!("https://{number}.{}.example", "a".repeat(450));
    let given: Vec<CorsRule> = (0..100).map(|number| rule(&origin(number), &["GET"])).collect();
    let_in(&client, given.clone()).await;
    assert_eq!(shown(&client).await, given);
    let lines = [format!("origin: {}", origin(99)), "access-control-request-method: GET".to_owned()];
    let (head, _) = ask(&node, "OPTIONS /bucket/k", None, &[&*lines[0], &*lines[1]]).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    client.delete_bucket_cors().bucket(BUCKET).send().await.expect("deleted");
    let (head, _) = ask(&node, "OPTIONS /bucket/k", None, &[&*lines[0], &*lines[1]]).await;
    assert!(head.starts_with("HTTP/1.1 403"), "{head}");
}

#[tokio::test]
async fn rules_that_no_bucket_may_have_are_refused_and_change_nothing() {
    let (_node, client) = a_bucket().await;
    let before = vec![rule("*", &["GET"])];
    let_in(&client, before.clone()).await;
    let refusal = async |rule: CorsRule| {
        let put = client.put_bucket_cors().bucket(BUCKET).cors_configuration(rules(vec![rule]));
        let refusal = refused(put.send().await);
        (refusal.status, refusal.code, refusal.message)
    };
    let built = |rule: aws_sdk_s3::types::builders::CorsRuleBuilder| {
        rule.allowed_origins("*").allowed_methods("GET").build().expect("origins and methods")
    };
    for (rule, message) in [
        (
            rule("*", &["GET", "OPTIONS"]),
            "Found unsupported HTTP method in CORS config. Unsupported method is OPTIONS",
        ),
        (
            rule("https://*.*.example", &["GET"]),
            "AllowedOrigin \"https://*.*.example\" can not have more than one wildcard.",
        ),
        (
            built(CorsRule::builder().allowed_headers("x-*-*")),
            "AllowedHeader \"x-*-*\" can not have more than one wildcard.",
        ),
        (
            built(CorsRule::builder().expose_headers("x-*")),
            "ExposeHeader \"x-*\" contains wildcard. We currently do not support wildcard for ExposeHeader.",
        ),
        (
            built(CorsRule::builder().allowed_headers("x y")),
            "AllowedHeader \"x y\" contains invalid character.",
        ),
    ] {
        assert_eq!(refusal(rule).await, (400, "InvalidRequest".to_owned(), message.to_owned()));
    }
    let (status, code_, _) = refusal(built(CorsRule::builder().id("i".repeat(256)))).await;
    assert_eq!((status, code_), is(400, "InvalidArgument"));
    let (status, code_, _) = refusal(built(CorsRule::builder().max_age_seconds(-1))).await;
    assert_eq!((status, code_), is(400, "MalformedXML"));
    let put = client.put_bucket_cors().bucket(BUCKET);
    let many = put.clone().cors_configuration(rules(vec![rule("*", &["GET"]); 101]));
    let many = refused(many.send().await);
    assert_eq!((many.status, &*many.code), (400, "InvalidRequest"));
    assert_eq!(many.message, "The number of CORS rules should not exceed allowed limit of 100 rules.");
    let none = put.clone().cors_configuration(rules(Vec::new())).send().await;
    assert_eq!(code(none), is(400, "MalformedXML"));
    let long = rules(vec![built(CorsRule::builder().allowed_headers("x".repeat(64 << 10)))]);
    let long = refused(put.clone().cors_configuration(long).send().await);
    assert_eq!((long.status, &*long.code), (400, "MaxMessageLengthExceeded"));
    assert!(long.document().contains("<MaxMessageLengthBytes>65536</MaxMessageLengthBytes>"));
    assert_eq!(shown(&client).await, before);
}

#[tokio::test]
async fn a_document_of_rules_comes_with_a_digest_of_it() {
    let (_node, client) = a_bucket().await;
    let put = |header: Option<(&'static str, &'static str)>, document: &'static str| {
        let put =
            client.put_bucket_cors().bucket(BUCKET).cors_configuration(rules(vec![rule("*", &["GET"])]));
        put.customize().mutate_request(move |request| {
            *request.body_mut() = SdkBody::from(document);
            let headers = request.headers_mut();
            headers.insert("content-length", document.len().to_string());
            headers.remove("x-amz-checksum-crc32");
            headers.remove("x-amz-sdk-checksum-algorithm");
            if let Some((name, value)) = header {
                headers.insert(name, value);
            }
        })
    };
    let document = "<CORSConfiguration><CORSRule><AllowedOrigin>o</AllowedOrigin><AllowedMethod>PUT</AllowedMethod>\
                    </CORSRule></CORSConfiguration>";
    let none = refused(put(None, document).send().await);
    assert_eq!((none.status, &*none.code), (400, "InvalidRequest"));
    assert_eq!(none.message, "Missing required header for this request: Content-MD5 OR x-amz-checksum-*");
    let other = Some(("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg=="));
    assert_eq!(code(put(other, document).send().await), is(400, "BadDigest"));
    assert_eq!(code(put(other, "").send().await), is(400, "MissingRequestBodyError"));
    let md5 = Some(("content-md5", "7n2+c6qKVpv26ve1PsQAyg=="));
    assert_eq!(code(put(md5, "<nonsense").send().await), is(400, "MalformedXML"));
    assert_eq!(
        code(client.get_bucket_cors().bucket(BUCKET).send().await),
        is(404, "NoSuchCORSConfiguration")
    );
}

#[tokio::test]
async fn a_page_learns_what_it_may_send_and_reads_every_answer() {
    let node = harness::empty().serve("domains = [\"s3.test\"]\n").start().await;
    let client = node.client();
    client.create_bucket().bucket(BUCKET).send().await.expect("a new bucket");
    put(&client, "k", "abc").await;
    let page = format!("origin: {PAGE}");
    let preflight = ["access-control-request-method: PUT", "access-control-request-headers: content-type"];
    let lines = [&*page, preflight[0], preflight[1]];
    let (head, body) = ask(&node, "OPTIONS /bucket/k", None, &lines).await;
    assert!(head.starts_with("HTTP/1.1 403"), "{head}");
    assert!(body.contains("<Message>CORSResponse: CORS is not enabled for this bucket.</Message>"), "{body}");
    let given = CorsRule::builder().allowed_origins("https://*.example").allowed_methods("PUT");
    let given = given.allowed_methods("GET").allowed_headers("*").expose_headers("ETag").max_age_seconds(60);
    let_in(&client, vec![given.build().expect("origins and methods")]).await;
    for (first, host) in
        [("OPTIONS /bucket/k", None), ("OPTIONS /bucket", None), ("OPTIONS /k", Some("bucket.s3.test"))]
    {
        let (head, body) = ask(&node, first, host, &lines).await;
        assert!(head.starts_with("HTTP/1.1 200") && body.is_empty(), "{head}\n{body}");
        assert_eq!(header(&head, "access-control-allow-headers"), Some("content-type"));
    }
    let wrong = ["origin: https://page.other", preflight[0]];
    let (head, body) = ask(&node, "OPTIONS /bucket/k", None, &wrong).await;
    assert!(head.starts_with("HTTP/1.1 403") && !head.contains("access-control"), "{head}");
    assert!(body.contains("<Method>PUT</Method><ResourceType>OBJECT</ResourceType>"), "{body}");
    let (_, body) = ask(&node, "OPTIONS /nowhere", None, &lines).await;
    assert!(body.contains("<Message>CORSResponse: Bucket not found</Message>"), "{body}");

    let get = client.get_object().bucket(BUCKET);
    let found = get.clone().key("k").presigned(an_hour()).await.unwrap();
    let missing = get.key("none").presigned(an_hour()).await.unwrap();
    let etag = "if-match: \"0\"";
    for (presigned, more, status) in [
        (&found, "x-page: 1", 200),
        (&found, etag, 412),
        (&found, "range: bytes=9-", 416),
        (&found, "if-none-match: *", 304),
        (&missing, "x-page: 1", 404),
    ] {
        let (head, _) = exchange(presigned, &[&*page, more], b"").await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
        assert_eq!(header(&head, "access-control-allow-origin"), Some(PAGE), "{head}");
        assert_eq!(header(&head, "access-control-expose-headers"), Some("ETag"));
        let varies = "Origin, Access-Control-Request-Headers, Access-Control-Request-Method";
        assert_eq!(header(&head, "vary"), Some(varies));
    }
    let (head, _) = exchange(&found, &["x-page: 1"], b"").await;
    assert!(!head.contains("access-control") && !head.contains("vary"), "{head}");
    let (head, _) = ask(&node, "GET /bucket/k", None, &[&*page]).await;
    assert!(head.starts_with("HTTP/1.1 403") && head.contains("access-control-allow-origin"), "{head}");
    client.delete_bucket_cors().bucket(BUCKET).send().await.expect("deleted");
    let (head, _) = exchange(&found, &[&*page], b"").await;
    assert!(!head.contains("access-control"), "{head}");
}
