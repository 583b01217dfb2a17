//! S3 over TLS: the same as in clear, by either version; and what becomes of files that are wrong or
//! replaced.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::version::{TLS12, TLS13};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;
use crate::harness::raw::{STEADY_LEN, SteadyBody};
use crate::harness::tls::{S3Pki, Tunnel, address, connect, connect_to, put as put_file};
use crate::harness::wait::{LATER, SOON, bounded, eventually};
use crate::harness::{binary, empty};

async fn serving(pki: &S3Pki) -> Node {
    let node = empty().serve(&pki.lines()).start().await;
    node.until_ready().await;
    node
}

#[tokio::test]
async fn the_sdk_works_over_either_version_of_tls() {
    let pki = S3Pki::new();
    let node = serving(&pki).await;
    for (version, bucket_is_new) in [(&TLS13, true), (&TLS12, false)] {
        let tunnel = Tunnel::start(pki.client(&[version]), &node.endpoint).await;
        let client = node.client_at(&tunnel.endpoint);
        if bucket_is_new {
            client.create_bucket().bucket(BUCKET).send().await.expect("a new bucket");
        }
        let body = some_bytes(3 << 20);
        let etag = put(&client, "k", body.clone()).await;
        assert_eq!(get(&client, "k").await, body);
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), &body).expect("written");
        let streamed = ByteStream::from_path(file.path()).await.expect("a body");
        client.put_object().bucket(BUCKET).key("framed").body(streamed).send().await.expect("aws-chunked");
        assert_eq!(get(&client, "framed").await, body);
        let again = client.put_object().bucket(BUCKET).key("k").if_none_match("*");
        assert_eq!(
            code(again.body(ByteStream::from_static(b"x")).send().await),
            is(412, "PreconditionFailed")
        );
        let swap = client.put_object().bucket(BUCKET).key("k").if_match(etag);
        swap.body(ByteStream::from_static(b"swapped")).send().await.expect("it matches");
        let parts = [some_bytes(PART), b"tail".to_vec()];
        multipart::complete_upload(&client, "parts", &parts).await;
        assert_eq!(get(&client, "parts").await, parts.concat());
        let upload = multipart::begin(&client, "short").await;
        let part = multipart::send_part(&client, "short", &upload, 1, b"part".to_vec()).await;
        let completed =
            multipart::complete(&client, "short", &upload, vec![part]).send().await.expect("one part");
        let location = completed.location().expect("where it is");
        assert!(location.starts_with("https://") && location.ends_with("/bucket/short"), "{location}");
        assert!(tunnel.shown().iter().all(|shown| shown.version == version.version), "{:?}", tunnel.shown());
    }
}

#[tokio::test]
async fn a_policy_may_deny_a_version_of_tls() {
    let pki = S3Pki::new();
    let node = serving(&pki).await;
    let latest = Tunnel::start(pki.client(&[&TLS13]), &node.endpoint).await;
    let client = node.client_at(&latest.endpoint);
    client.create_bucket().bucket(BUCKET).send().await.expect("a new bucket");
    let policy = format!(
        r#"{{"Version":"2012-10-17","Statement":{{"Effect":"Deny","Principal":"*","Action":"s3:*","Resource":
            ["arn:aws:s3:::{BUCKET}","arn:aws:s3:::{BUCKET}/*"],"Condition":{{"NumericLessThan":{{"s3:TlsVersion":"1.3"}}}}}}}}"#
    );
    client.put_bucket_policy().bucket(BUCKET).policy(policy).send().await.expect("a policy");
    put(&client, "k", b"v".to_vec()).await;
    let older = Tunnel::start(pki.client(&[&TLS12]), &node.endpoint).await;
    let read = node.client_at(&older.endpoint).get_object().bucket(BUCKET).key("k").send().await;
    assert_eq!(code(read), is(403, "AccessDenied"));
    assert_eq!(get(&client, "k").await, b"v");
}

#[tokio::test]
async fn files_that_cannot_be_used_refuse_the_start_by_name() {
    type Breakage = fn(&S3Pki);
    let breakages: [(&str, Breakage); 6] = [
        ("s3.crt: No such file", |pki| std::fs::remove_file(pki.cert()).expect("there")),
        ("s3.key holds no private key in PEM", |pki| put_file(&pki.key(), "half a ke")),
        ("s3.crt holds no certificate in PEM", |pki| put_file(&pki.cert(), "garbage")),
        ("s3.crt: the certificate has expired", |pki| pki.issue_until(2001)),
        ("does not fit the certificate", |pki| {
            std::fs::copy(S3Pki::new().key(), pki.key()).expect("the folder is writable");
        }),
        ("s3.key has mode 0644", |pki| {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(pki.key(), std::fs::Permissions::from_mode(0o644)).expect("ours");
        }),
    ];
    for (words, break_it) in breakages {
        let pki = S3Pki::new();
        break_it(&pki);
        let refused = empty().serve(&pki.lines()).refused().await;
        assert_eq!(refused.code, Some(2), "{}", refused.said);
        assert!(refused.said.contains(words), "{words}: {}", refused.said);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_is_replaced_while_requests_run_and_none_fails() {
    let pki = S3Pki::new();
    let node = serving(&pki).await;
    let tls = pki.client(&[&TLS13, &TLS12]);
    let tunnel = Tunnel::start(tls.clone(), &node.endpoint).await;
    let client = node.client_at(&tunnel.endpoint);
    client.create_bucket().bucket(BUCKET).send().await.expect("a new bucket");
    let shown = async || connect(&tls, address(&node.endpoint)).await.expect("a handshake").1.certificate;
    let first = shown().await;

    let (done, body) = (AtomicBool::new(false), some_bytes(100_000));
    // A client goes on with the connection that it has.
    let requests = async {
        while !done.load(Ordering::Acquire) {
            put(&client, "k", body.clone()).await;
            assert_eq!(get(&client, "k").await, body);
        }
    };
    let story = async {
        put_file(&pki.key(), "half a ke");
        eventually("a broken file is logged", LATER, async || {
            match node.log_lines("s3.key holds no private") {
                1 => Ok(()),
                count => Err(format!("{count} lines")),
            }
        })
        .await;
        assert_eq!(shown().await, first, "the certificate that was whole stays");
        pki.issue();
        eventually("the new certificate is shown", LATER, async || {
            if shown().await == first { Err("it is the first one".to_owned()) } else { Ok(()) }
        })
        .await;
        // Requests go on behind the reload, too.
        put(&node.client_at(&tunnel.endpoint), "after", body.clone()).await;
        done.store(true, Ordering::Release);
    };
    tokio::join!(requests, story);
    let shown = tunnel.shown();
    let (old, new) =
        (&shown.first().expect("a connection").certificate, &shown.last().expect("one").certificate);
    assert!(*old == first && *new != first, "of {} connections", shown.len());
}

/// Clients of each name get a certificate for it, and all others the first; a directory that is empty at the
/// start is taken up later, and each certificate is replaced by itself.
#[tokio::test]
async fn a_client_gets_the_certificate_for_the_name_that_it_asks_for() {
    const NAME: &str = "photos.s3.example.org";
    let pki = S3Pki::new();
    let lines = format!("{}further = [\"{}\"]\n", pki.lines(), pki.further().display());
    let node = empty().serve(&lines).start().await;
    node.until_ready().await;
    assert!(node.log_lines("further/tls.crt: No such file") > 0, "{}", node.log());
    let (tls, at) = (pki.client(&[&TLS13, &TLS12]), address(&node.endpoint));
    let first = connect(&tls, at).await.expect("a handshake").1.certificate;
    connect_to(&tls, at, NAME).await.expect_err("the first one is not valid for it");

    pki.issue_further("*.s3.example.org");
    let mut further = None;
    eventually("the further certificate is shown", LATER, async || {
        let (_, shown) = connect_to(&tls, at, NAME).await.map_err(|error| error.to_string())?;
        further = Some(shown.certificate);
        Ok(())
    })
    .await;
    assert_eq!(connect(&tls, at).await.expect("a handshake").1.certificate, first);
    let other = connect_to(&tls, at, "a.b.s3.example.org").await;
    other.expect_err("a wildcard stands for one label");

    // The first one is broken, which holds up no other.
    put_file(&pki.key(), "half a ke");
    pki.issue_further("*.s3.example.org");
    eventually("another further certificate is shown", LATER, async || {
        let (_, shown) = connect_to(&tls, at, NAME).await.map_err(|error| error.to_string())?;
        if further.as_ref() == Some(&shown.certificate) { Err("the former one".to_owned()) } else { Ok(()) }
    })
    .await;
    assert_eq!(connect(&tls, at).await.expect("a handshake").1.certificate, first);
}

#[tokio::test]
async fn a_request_in_clear_is_refused_and_silent_clients_keep_no_other_waiting() {
    let pki = S3Pki::new();
    let lines = format!("[limits]\nconnections_max = 8\n{}", pki.lines());
    let node = empty().serve(&lines).start().await;
    let at = address(&node.endpoint);
    for _ in 0..3 {
        let mut stream = TcpStream::connect(at).await.expect("it listens");
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("it reads");
        let mut answer = String::new();
        bounded("an end", SOON, stream.read_to_string(&mut answer)).await.expect("closed in order");
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.ends_with("ask by https://\n"), "{answer}");
    }
    assert!((1..=3).contains(&node.log_lines("plain HTTP to a port of TLS")), "{}", node.log());

    let mut silent = Vec::new();
    for _ in 0..32 {
        silent.push(TcpStream::connect(at).await.expect("it listens"));
    }
    let tls = pki.client(&[&TLS13]);
    let asked = bounded("a handshake beside silent ones", SOON, connect(&tls, at));
    let (mut stream, _) = asked.await.expect("a handshake");
    // Not by the end of their handshakes' time: that turns away no connection.
    let gave_way = node.metrics().await.get("sherd_s3_connections_turned_away_total");
    assert!(gave_way > 0.0, "no silent connection gave way");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.expect("it reads");
    let mut answer = String::new();
    bounded("an answer", SOON, stream.read_to_string(&mut answer)).await.expect("closed in order");
    assert!(answer.contains("AccessDenied"), "{answer}");
    drop(silent);
}

/// Reads that wait for a place when their clients go.
const READS: usize = 32;

/// The clients' farewell is a record of TLS before it is the end of a socket's bytes.
#[tokio::test]
async fn reads_whose_clients_ended_their_tls_are_given_up() {
    let pki = S3Pki::new();
    let lines = format!("[limits]\nrequests_max = 1\nqueue_max = 1024\n{}", pki.lines());
    let node = empty().serve(&lines).start().await;
    node.until_ready().await;
    let (tls, at) = (pki.client(&[&TLS13]), address(&node.endpoint));
    let tunnel = Tunnel::start(pki.client(&[&TLS13]), &node.endpoint).await;
    let client = node.client_at(&tunnel.endpoint);
    client.create_bucket().bucket(BUCKET).send().await.expect("a new bucket");
    let hour = aws_sdk_s3::presigning::PresigningConfig::expires_in(std::time::Duration::from_hours(1));
    let upload = client.put_object().bucket(BUCKET).key("held").presigned(hour.expect("a valid time")).await;
    let url = upload.expect("signing needs no server").uri().to_owned();
    let (host, path) = url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).expect("a URL");
    // The writer holds the only place.
    let (mut writer, _) = connect(&tls, at).await.expect("a handshake");
    let head = format!("PUT /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {STEADY_LEN}\r\n\r\n");
    writer.write_all(head.as_bytes()).await.expect("it reads");
    let writer = SteadyBody::send(writer);
    let gauge = async |name: &str| node.metrics().await.get(name);
    let is = async |name: &'static str, is: f64| {
        eventually(name, SOON, async || {
            let now = gauge(name).await;
            if (now - is).abs() < 0.5 { Ok(()) } else { Err(format!("{now}, not {is}")) }
        })
        .await;
    };
    is("sherd_s3_requests_in_flight", 1.0).await;
    let mut readers = Vec::new();
    for _ in 0..READS {
        let (mut reader, _) = connect(&tls, at).await.expect("a handshake");
        reader.write_all(b"GET /a/b HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("it reads");
        readers.push(reader);
    }
    for reader in &mut readers {
        reader.shutdown().await.expect("it is open");
    }
    is("sherd_s3_requests_queued", 0.0).await;
    let shed = gauge("sherd_s3_requests_shed_total").await;
    #[expect(clippy::cast_precision_loss, reason = "a few")]
    let all = READS as f64;
    assert!(shed < all, "all of them waited to the end");
    drop(writer);
    is("sherd_s3_requests_in_flight", 0.0).await;
    put(&client, "k", some_bytes(1)).await;
}

#[tokio::test]
async fn a_probe_trusts_the_authority_that_it_is_given() {
    let pki = S3Pki::new();
    let node = serving(&pki).await;
    let probe = |ca: &std::path::Path| {
        let mut probe = Command::new(binary());
        probe.env("AWS_ACCESS_KEY_ID", &node.access_key).env("AWS_SECRET_ACCESS_KEY", &node.secret_key);
        let output = probe.args(["probe", "--endpoint", &node.endpoint, "--ca"]).arg(ca).output();
        let output = output.expect("the binary was built with the tests");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(probe(&pki.ca()), (Some(0), String::new()));
    let (code, said) = probe(&S3Pki::new().ca());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("CreateBucket: TLS with ") && said.contains("invalid peer certificate"), "{said}");
}
