//! Forms of browsers through four nodes: what one node takes is read through the others, with its tags, and
//! the page that sent it reads the answer where the bucket's rules allow that, also while a node is gone.

use aws_sdk_s3::types::{CorsConfiguration, CorsRule};

use crate::harness::cluster::cluster_of;
use crate::harness::data::{Body, Dice, Home};
use crate::harness::form::{Form, FormAnswer};
use crate::harness::s3::{BUCKET, S3, done, on_time};

const PAGE: &str = "https://page.example";
const TAGS: &str = "<Tagging><TagSet><Tag><Key>from</Key><Value>a form</Value></Tag></TagSet></Tagging>";

/// Lets the page send forms, and read the entity tag of what it stored.
async fn allow_page(client: &S3) {
    let rule = CorsRule::builder().allowed_origins(PAGE).allowed_methods("POST").expose_headers("ETag");
    let rules = CorsConfiguration::builder().cors_rules(rule.build().expect("origins and methods")).build();
    let put = client.sdk().put_bucket_cors().bucket(BUCKET).cors_configuration(rules.expect("rules"));
    done("putting rules", || put.clone().send()).await;
}

/// The origin whose pages may read an answer, and the headers that they may read of it.
fn readable(answer: &FormAnswer) -> (Option<&str>, Option<&str>) {
    (answer.header("access-control-allow-origin"), answer.header("access-control-expose-headers"))
}

/// Whether it is answered 503.
const fn is_late(answer: &FormAnswer) -> bool {
    answer.status == 503
}

/// Reads an object and its tags through every client.
async fn is_stored(clients: &[S3], key: &str, body: Body) {
    for s3 in clients {
        assert_eq!(s3.get_settled(key).await, Some(body), "{key}");
        let request = s3.sdk().get_object_tagging().bucket(BUCKET).key(key);
        let tags = done("reading tags", || request.clone().send()).await;
        let tags: Vec<_> = tags.tag_set().iter().map(|tag| (tag.key(), tag.value())).collect();
        assert_eq!(tags, [("from", "a form")], "{key}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_through_one_node_is_read_through_the_others() {
    let mut dice = Dice::of_this_run("forms");
    let mut cluster = cluster_of(4).start().await;
    let clients = cluster.with_bucket().await;
    allow_page(&clients[0]).await;
    let form = |key: &str, body: Body| {
        let form = Form::new(cluster.node(0), BUCKET, key, body.bytes()).field("tagging", TAGS);
        form.header(&format!("Origin: {PAGE}"))
    };
    for (home, place) in Home::ALL.into_iter().zip(1..) {
        let (key, body) = (format!("{home:?}"), dice.body(home));
        let send = || async { form(&key, body).through(cluster.node(place)).v4(None).send().await };
        let answer = on_time(send, is_late).await;
        assert_eq!((answer.status, readable(&answer)), (204, (Some(PAGE), Some("ETag"))), "{answer:?}");
        assert_eq!(answer.header("etag"), Some(&*body.etag()));
        is_stored(&clients, &key, body).await;
    }
    let body = dice.body(Home::Packed);
    let unsigned = form("k", body).through(cluster.node(2)).send().await;
    assert_eq!((unsigned.status, readable(&unsigned).0), (403, Some(PAGE)), "{unsigned:?}");
    let other = || async {
        let form = Form::new(cluster.node(0), BUCKET, "other", "v").through(cluster.node(1));
        form.header("Origin: https://other.example").v4(None).send().await
    };
    let other = on_time(other, is_late).await;
    assert_eq!((other.status, readable(&other)), (204, (None, None)), "stored, and not to be read");
    let form = form("late", body);
    cluster.kill(3).await;
    let late = on_time(|| async { form.clone().through(cluster.node(1)).v4(None).send().await }, is_late);
    let late = late.await;
    assert_eq!((late.status, readable(&late).0), (204, Some(PAGE)), "{late:?}");
    is_stored(&cluster.clients(), "late", body).await;
}
