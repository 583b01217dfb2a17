//! Too few volumes: a client gets 503 while nothing was changed, and "outcome unknown" once something may
//! have been; it never waits for long (I-4, I-5).
//!
//! Before any accept was sent a write is answered 503 with Retry-After, and it is nowhere, then and later.
//! After one was sent the answer is 500: the write may show. With two of four nodes gone every kind of change
//! is tried, and what is committed is read meanwhile; with the answers of two of four kept back, writes are
//! caught between their accepts.

use std::fmt::Debug;
use std::time::Duration;

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::operation::complete_multipart_upload::CompleteMultipartUploadError;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart, Delete, ObjectIdentifier};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::harness::cluster::{TestCluster, cluster_of};
use crate::harness::data::{Body, Dice, Home};
use crate::harness::relay::{Link, Way};
use crate::harness::s3::{BUCKET, Condition, Failure, PART, S3, done, outcome};
use crate::harness::wait::{LATER, bounded, promised};

/// How long any answer may take on a quiet machine.
const ANSWER: Duration = Duration::from_secs(25);
/// Writers that are caught between their accepts, each on keys of its own.
const WRITERS: usize = 8;
/// Answers of 500 that are waited for, and rounds at most until they came.
const IN_DOUBT: usize = 3;
const ROUNDS_MAX: usize = 20;

/// How a request was refused.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    status: u16,
    code: String,
    retries_after: Option<String>,
}

/// The error of a request that must fail.
fn told<T: Debug, E: ProvideErrorMetadata + Debug>(what: &str, result: Result<T, SdkError<E>>) -> Told {
    let error = match result {
        Ok(done) => panic!("{what} succeeds: {done:?}"),
        Err(error) => error,
    };
    let SdkError::ServiceError(service) = &error else { panic!("{what} has no answer: {error:?}") };
    let retries_after = service.raw().headers().get("retry-after").map(str::to_owned);
    let code = service.err().code().unwrap_or_default().to_owned();
    Told { status: service.raw().status().as_u16(), code, retries_after }
}

fn come_again() -> Told {
    Told { status: 503, code: "SlowDown".to_owned(), retries_after: Some("1".to_owned()) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_write_quorum_every_change_gets_503_and_changes_nothing() {
    let mut dice = Dice::of_this_run("too few");
    let mut cluster = cluster_of(4).start().await;
    let clients = cluster.with_bucket().await;
    let mut kept = Vec::new();
    for home in Home::ALL {
        let (key, body) = (format!("kept/{home:?}"), dice.body(home));
        clients[0].put_settled(&key, body).await;
        // Through another one: a row that one node has as committed reaches the others.
        assert_eq!(clients[1].get_settled(&key).await, Some(body));
        kept.push((key, body));
    }
    let upload = Upload::begin(&clients[0], &mut dice).await;
    outcome(clients[0].sdk().create_bucket().bucket("other").send().await).expect("a new bucket");
    cluster.until_whole().await;

    for node in [2, 3] {
        cluster.kill(node).await;
    }
    // At once, while no node has noticed yet, and again when all have.
    for _ in 0..2 {
        let mut changes = JoinSet::new();
        for s3 in &clients[..2] {
            let (s3, kept, upload, dice) = (s3.clone(), kept.clone(), upload.clone(), dice.split());
            changes.spawn(async move { refused(&s3, &kept, &upload, dice).await });
        }
        changes.join_all().await;
    }
    for (key, body) in &kept {
        for s3 in &clients[..2] {
            assert_eq!(
                bounded("a GET", promised(ANSWER), s3.get(key)).await,
                Ok(Some(*body)),
                "{key} is committed"
            );
        }
    }

    cluster.start_all().await;
    cluster.until_ready().await;
    cluster.until_whole().await;
    for s3 in cluster.clients() {
        for (key, body) in &kept {
            assert_eq!(s3.get_settled(key).await, Some(*body), "{key} was neither replaced nor deleted");
        }
        let listed = s3.list_settled("").await;
        assert_eq!(listed.len(), kept.len(), "nothing came of what was refused: {listed:?}");
    }
    let s3 = cluster.node(3).s3();
    let buckets = done("a listing", || s3.sdk().list_buckets().send()).await;
    let mut names: Vec<_> = buckets.buckets().iter().filter_map(|bucket| bucket.name()).collect();
    names.sort_unstable();
    assert_eq!(names, [BUCKET, "other"]);
    upload.complete(&s3).await.expect("the upload is as it was");
    assert_eq!(s3.get_settled(UPLOAD).await, Some(upload.body));
}

/// The key of the upload that is open meanwhile.
const UPLOAD: &str = "upload";

/// An upload with one part.
#[derive(Debug, Clone)]
struct Upload {
    id: String,
    body: Body,
    part_etag: String,
}

impl Upload {
    async fn begin(s3: &S3, dice: &mut Dice) -> Self {
        let body = Body { id: dice.next(), len: PART };
        let create = s3.sdk().create_multipart_upload().bucket(BUCKET).key(UPLOAD);
        let begun = done("a new upload", || create.clone().send()).await;
        let id = begun.upload_id.expect("an upload has an id");
        let part = done("a part", || {
            let part = s3.sdk().upload_part().bucket(BUCKET).key(UPLOAD).upload_id(&id).part_number(1);
            part.body(ByteStream::from(body.bytes())).send()
        });
        let part_etag = part.await.e_tag.expect("a part has an entity tag");
        Self { id, body, part_etag }
    }

    async fn complete(&self, s3: &S3) -> Result<(), SdkError<CompleteMultipartUploadError>> {
        let part = CompletedPart::builder().part_number(1).e_tag(&self.part_etag).build();
        let parts = CompletedMultipartUpload::builder().parts(part).build();
        let complete = s3.sdk().complete_multipart_upload().bucket(BUCKET).key(UPLOAD).upload_id(&self.id);
        complete.multipart_upload(parts).send().await.map(drop)
    }
}

/// Changes that are tried at one time, each with how long its answer took and what it said.
#[derive(Debug, Default)]
struct Tries(JoinSet<(String, Duration, Told)>);

impl Tries {
    fn add<T: Debug + 'static, E: ProvideErrorMetadata + Debug + 'static>(
        &mut self,
        what: impl Into<String>,
        request: impl Future<Output = Result<T, SdkError<E>>> + Send + 'static,
    ) {
        let what = what.into();
        self.0.spawn(async move {
            let begin = Instant::now();
            let told = told(&what, bounded(&what, promised(ANSWER), request).await);
            (what, begin.elapsed(), told)
        });
    }
}

/// Tries every kind of change, all at once.
async fn refused(s3: &S3, kept: &[(String, Body)], upload: &Upload, mut dice: Dice) {
    let sdk = s3.sdk();
    let mut tries = Tries::default();
    let new = |dice: &mut Dice, len| ByteStream::from(Body { id: dice.next(), len }.bytes());
    for (key, body) in kept {
        let put = sdk.put_object().bucket(BUCKET).key(key).body(new(&mut dice, body.len));
        tries.add(format!("PUT {key}"), put.send());
        let put = sdk.put_object().bucket(BUCKET).key(key).body(new(&mut dice, body.len));
        tries.add(format!("PUT {key} if it matches"), put.if_match(body.etag()).send());
        let created = sdk.put_object().bucket(BUCKET).key(format!("new/{key}")).if_none_match("*");
        tries.add(format!("creation beside {key}"), created.body(new(&mut dice, body.len)).send());
        tries.add(format!("DELETE {key}"), sdk.delete_object().bucket(BUCKET).key(key).send());
        let copy = sdk.copy_object().bucket(BUCKET).key(format!("copy/{key}"));
        tries.add(format!("copy of {key}"), copy.copy_source(format!("{BUCKET}/{key}")).send());
    }
    let begun = sdk.create_multipart_upload().bucket(BUCKET).key("new-upload");
    tries.add("a new upload", begun.send());
    let part = sdk.upload_part().bucket(BUCKET).key(UPLOAD).upload_id(&upload.id).part_number(2);
    tries.add("a part", part.body(new(&mut dice, 1 << 20)).send());
    let (through, open) = (s3.clone(), upload.clone());
    tries.add("completing an upload", async move { open.complete(&through).await });
    let abort = sdk.abort_multipart_upload().bucket(BUCKET).key(UPLOAD).upload_id(&upload.id);
    tries.add("giving an upload up", abort.send());
    tries.add("a new bucket", sdk.create_bucket().bucket("new-bucket").send());
    tries.add("deleting a bucket", sdk.delete_bucket().bucket("other").send());
    for (what, took, told) in tries.0.join_all().await {
        assert_eq!(told, come_again(), "{what} after {took:?}");
    }
    refused_one_by_one(sdk, kept).await;
}

/// Deleting several objects says for each of them what came of it.
async fn refused_one_by_one(sdk: &aws_sdk_s3::Client, kept: &[(String, Body)]) {
    let objects =
        kept.iter().map(|(key, _)| ObjectIdentifier::builder().key(key).build().expect("it has a key"));
    let delete = Delete::builder().set_objects(Some(objects.collect())).build().expect("it has objects");
    let deleted = sdk.delete_objects().bucket(BUCKET).delete(delete).send();
    match bounded("deleting several objects", promised(ANSWER), deleted).await {
        Ok(done) => {
            assert_eq!(done.deleted(), [], "nothing is deleted");
            let codes: Vec<_> = done.errors().iter().map(|error| error.code().unwrap_or_default()).collect();
            assert_eq!(codes, vec!["SlowDown"; kept.len()]);
        }
        Err(error) => assert_eq!(told::<(), _>("deleting several objects", Err(error)), come_again()),
    }
}

/// A writer's write, and its answer.
type Written = (String, Body, Result<(), Failure>);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_accepts_have_no_answer_is_in_doubt_and_never_refused() {
    let mut dice = Dice::of_this_run("in doubt");
    let cluster = cluster_of(4).with_links().start().await;
    let clients = cluster.with_bucket().await;
    let (mut written, mut in_doubt) = (Vec::new(), 0);
    for round in 0.. {
        assert!(round < ROUNDS_MAX, "no write is caught between its accepts");
        written.extend(caught(&cluster, &mut dice, round).await);
        let is_in_doubt =
            |(.., answer): &&Written| matches!(answer, Err(Failure::Unavailable { status: 500, .. }));
        in_doubt = written.iter().filter(is_in_doubt).count();
        if in_doubt >= IN_DOUBT {
            break;
        }
    }
    cluster.until_whole().await;
    let mut refused = 0;
    for (key, body, answer) in &written {
        let found = clients[1].get_settled(key).await;
        match answer {
            Ok(()) => assert_eq!(found, Some(*body), "{key} was acknowledged"),
            Err(Failure::Unavailable { status: 503, code }) => {
                assert_eq!(code, "SlowDown");
                refused += 1;
                assert_eq!(found, None, "{key} was refused");
            }
            Err(Failure::Unavailable { status: 500, code }) => {
                assert_eq!(code, "InternalError");
                assert!(found.is_none_or(|found| found == *body), "{key} is in doubt: {found:?}");
            }
            Err(other) => panic!("{key}: {other:?}"),
        }
    }
    eprintln!("too few: of {} writes {refused} were refused and {in_doubt} in doubt", written.len());
}

/// Has writers of one gateway write until the answers of two of its peers no longer come.
async fn caught(cluster: &TestCluster, dice: &mut Dice, round: usize) -> Vec<Written> {
    let set = |link| [2, 3].iter().for_each(|node| cluster.relay(0, *node).set(link));
    let mut writers = JoinSet::new();
    let (stopped, mut some) = tokio::sync::mpsc::channel(1);
    for writer in 0..WRITERS {
        let (s3, mut dice, stopped) = (cluster.node(0).s3(), dice.split(), stopped.clone());
        writers.spawn(async move {
            let mut written = Vec::new();
            for number in 0.. {
                let (key, body) = (format!("{round}/{writer}-{number}"), dice.body(Home::Inline));
                let answer =
                    bounded("a PUT", promised(ANSWER), s3.put_if(&key, body, Condition::Always)).await;
                let has_failed = answer.is_err();
                written.push((key, body, answer));
                if has_failed {
                    return written;
                }
                // The first ones tell that writes are under way; the channel may be full or closed.
                let _told = stopped.try_send(());
            }
            written
        });
    }
    for _ in 0..WRITERS {
        bounded("the writers", LATER, some.recv()).await.expect("writers run");
    }
    set(Link::Held(Way::Replies));
    let written = writers.join_all().await.concat();
    set(Link::Open);
    cluster.until_ready().await;
    written
}
