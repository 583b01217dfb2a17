//! HTTP requests of S3 that an operator and an admin send as calls: they are answered as the root user's,
//! through every node, without a signature. A node may not send any, and the answers have a length.

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use sherd_admin::ask::{RequestClient, RequestError, ask_status};
use sherd_net::tls::Role;
use sherd_proto::convert::http_call::HttpService;

use crate::harness::cluster::{TestCluster, cluster_of};
use crate::harness::s3::done;

/// A connection to a node, to send requests over.
async fn client(cluster: &TestCluster, node: usize, name: &str, role: Role) -> RequestClient {
    let trust = cluster.pki.trust(name, role);
    let (stream, _) = trust.connect_any_node(&cluster.addresses[node].to_string()).await.expect("a node");
    RequestClient::over(stream, trust.own().cluster).await.expect("a connection")
}

async fn send(
    client: &mut RequestClient,
    method: Method,
    uri: &str,
    body: impl Into<Bytes>,
) -> Result<Response<Bytes>, RequestError> {
    let request = Request::builder().method(method).uri(uri).body(body.into()).expect("a request");
    client.send(HttpService::S3, request).await
}

async fn answered(client: &mut RequestClient, method: Method, uri: &str, body: &str) -> Response<Bytes> {
    send(client, method, uri, body.to_owned()).await.unwrap_or_else(|error| panic!("{uri}: {error}"))
}

/// A replacement of the CA goes on by this answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_says_which_certificates_it_has_loaded() {
    let cluster = cluster_of(2).start().await;
    let trust = cluster.pki.trust("operator", Role::Operator);
    let (stream, _) = trust.connect_any_node(&cluster.addresses[0].to_string()).await.expect("a node");
    let status = ask_status(stream, trust.own().cluster).await.expect("an answer");
    let loaded = status.trust.expect("a node with TLS");
    let [print] = trust.fingerprints()[..] else { panic!("one CA") };
    assert_eq!(loaded.trusted_cas, vec![print.to_vec()]);
    assert_eq!(loaded.certificate_ca, print.to_vec());
    assert!(loaded.certificate_expires_s > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_and_admins_send_requests_of_s3_as_the_root_user() {
    let cluster = cluster_of(2).of_volumes(2).start().await;
    cluster.until_whole().await;
    let mut operator = client(&cluster, 0, "operator", Role::Operator).await;
    let mut admin = client(&cluster, 1, "anna", Role::Admin).await;

    let made = answered(&mut operator, Method::PUT, "/called", "").await;
    assert_eq!(
        (made.status(), &made.headers()["location"]),
        (StatusCode::OK, &"/called".parse().expect("text"))
    );
    let tags = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
    let missing = answered(&mut operator, Method::PUT, "/called/key?tagging", tags).await;
    assert_eq!(missing.status(), StatusCode::NOT_FOUND);
    let put = answered(&mut admin, Method::PUT, "/called/key", "four").await;
    assert_eq!(put.status(), StatusCode::OK);
    let set = answered(&mut operator, Method::PUT, "/called/key?tagging", tags).await;
    assert_eq!(set.status(), StatusCode::OK, "{:?}", set.body());
    let got = answered(&mut admin, Method::GET, "/called/key?tagging", "").await;
    let got = String::from_utf8_lossy(got.body()).into_owned();
    assert!(got.contains("<Tag><Key>a</Key><Value>b</Value></Tag>"), "{got}");
    let head = answered(&mut admin, Method::HEAD, "/called/key", "").await;
    assert_eq!((head.status(), &head.headers()["content-length"]), (StatusCode::OK, &4.into()));
    assert_eq!(head.headers()["etag"], put.headers()["etag"]);
    let refused = answered(&mut operator, Method::GET, "/nowhere?policy", "").await;
    assert_eq!(refused.status(), StatusCode::NOT_FOUND);
    let code = String::from_utf8_lossy(refused.body()).into_owned();
    assert!(code.contains("<Code>NoSuchBucket</Code>"), "{code}");

    let long = send(&mut admin, Method::PUT, "/called/long", vec![7; 1 << 20]).await.expect("the longest");
    assert_eq!(long.status(), StatusCode::OK);
    let error = send(&mut admin, Method::PUT, "/called/long", vec![7; (1 << 20) + 1]).await;
    assert!(matches!(error, Err(RequestError::Message(_))), "{error:?}");
    let s3 = &cluster.clients()[0];
    done("a PUT", || {
        let more = s3.sdk().put_object().bucket("called").key("more").body(vec![7; (1 << 20) + 1].into());
        more.send()
    })
    .await;
    let error = send(&mut admin, Method::GET, "/called/more", "").await.expect_err("it is too long");
    assert!(error.to_string().contains("longer than the 1048576 bytes"), "{error}");
    let signed = Request::get("/called").header("authorization", "AWS4-HMAC-SHA256 x").body(Bytes::new());
    let error = admin.send(HttpService::S3, signed.expect("a request")).await.expect_err("it is refused");
    assert!(error.to_string().contains("headers of a call"), "{error}");

    let mut node = client(&cluster, 0, "n2", Role::Node).await;
    let error = send(&mut node, Method::GET, "/", "").await.expect_err("a node may not");
    assert!(error.to_string().contains("has the role node, which may not call"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_policy_of_a_bucket_binds_an_operator() {
    let cluster = cluster_of(2).of_volumes(2).start().await;
    cluster.until_whole().await;
    let mut operator = client(&cluster, 0, "operator", Role::Operator).await;
    for bucket in ["closed", "source"] {
        assert_eq!(
            answered(&mut operator, Method::PUT, &format!("/{bucket}"), "").await.status(),
            StatusCode::OK
        );
        let put = answered(&mut operator, Method::PUT, &format!("/{bucket}/key"), "four").await;
        assert_eq!(put.status(), StatusCode::OK);
        let deny = |key: &str, name: &str, value: &str| {
            format!(
                r#"{{"Effect":"Deny","Principal":"*","Action":"s3:*","Resource":["arn:aws:s3:::{bucket}",
                "arn:aws:s3:::{bucket}/*"],"Condition":{{"{key}":{{"{name}":"{value}"}}}}}}"#
            )
        };
        let statements = [
            deny("Bool", "aws:SecureTransport", "false"),
            deny("NotIpAddress", "aws:SourceIp", "192.0.2.7/32"),
        ];
        let policy = format!(r#"{{"Version":"2012-10-17","Statement":[{}]}}"#, statements.join(","));
        let put = answered(&mut operator, Method::PUT, &format!("/{bucket}?policy"), &policy).await;
        assert_eq!(put.status(), StatusCode::NO_CONTENT, "{:?}", put.body());
    }
    // The key pair of root is bound.
    let refused = cluster.clients()[1].sdk().get_object().bucket("closed").key("key").send().await;
    assert!(refused.is_err(), "{refused:?}");
    for uri in ["/closed?list-type=2", "/closed/key", "/closed?publicAccessBlock"] {
        let answer = answered(&mut operator, Method::GET, uri, "").await;
        assert_eq!(answer.status(), StatusCode::OK, "{uri}: {:?}", answer.body());
    }
    let copy = Request::put("/closed/copy").header("x-amz-copy-source", "source/key").body(Bytes::new());
    let copied = operator.send(HttpService::S3, copy.expect("a request")).await.expect("an answer");
    assert_eq!(copied.status(), StatusCode::OK, "{:?}", copied.body());
    for key in ["key", "copy"] {
        let deleted = answered(&mut operator, Method::DELETE, &format!("/closed/{key}"), "").await;
        assert_eq!(deleted.status(), StatusCode::NO_CONTENT, "{key}: {:?}", deleted.body());
    }
    assert_eq!(answered(&mut operator, Method::DELETE, "/closed", "").await.status(), StatusCode::NO_CONTENT);
}
