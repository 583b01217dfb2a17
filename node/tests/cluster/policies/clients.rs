//! The clients of the story: each sends requests through any node with the key that it has, and records the
//! answers.

use std::sync::atomic::{AtomicUsize, Ordering};

use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{Delete, ObjectIdentifier};

use super::checker::{Recorder, Seen};
use super::model::{ANONYMOUS, Answer, Ask, CLIENTS, ROOT, name};
use crate::harness::cluster::TestCluster;
use crate::harness::s3::{BUCKET, Failure, Outcome, S3, outcome};
use crate::harness::users::AccessKey;
use crate::harness::wait::{LATER, bounded};

/// A client, through each node.
#[derive(Debug)]
pub(super) struct Client {
    number: usize,
    through: Vec<S3>,
    /// How often it was answered 503.
    unavailable: AtomicUsize,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Clients(Vec<Client>);

impl Clients {
    /// Clients of a cluster: users with these keys, root, and one without a signature.
    pub(super) fn of(cluster: &TestCluster, keys: &[AccessKey]) -> Self {
        let client = |number: usize| {
            let through = cluster.running().map(|node| match number {
                ROOT => node.s3(),
                ANONYMOUS => node.s3_anonymous(),
                user => node.s3_with(&keys[user]),
            });
            Client { number, through: through.collect(), unavailable: AtomicUsize::new(0) }
        };
        Self((0..CLIENTS).map(client).collect())
    }

    pub(super) fn client(&self, number: usize) -> &Client {
        &self.0[number]
    }

    /// How often any of them was answered 503.
    pub(super) fn unavailable(&self) -> usize {
        self.0.iter().map(|client| client.unavailable.load(Ordering::Relaxed)).sum()
    }
}

impl Client {
    /// Sends a request through a node until it has an answer other than 503, and records it.
    pub(super) async fn ask(&self, node: usize, ask: Ask, recorder: &Recorder) {
        let what = format!("{ask:?} of {} through node {node}", name(self.number));
        let answered = async {
            loop {
                let begun = recorder.now();
                match self.answer(node, ask, &what).await {
                    Some(answer) => return (begun, answer),
                    None => self.unavailable.fetch_add(1, Ordering::Relaxed),
                };
            }
        };
        let (begun, answer) = bounded(&what, LATER, answered).await;
        let ended = recorder.now();
        recorder.answered(Seen { client: self.number, node, ask, begun, ended, answer });
    }

    /// The answer to one request; nothing where it is 503.
    async fn answer(&self, node: usize, ask: Ask, what: &str) -> Option<Answer> {
        match send(&self.through[node], ask, ask.keys(self.number)).await {
            Ok(answer) => Some(answer),
            Err(Failure::Refused { status: 404, code }) if code == "NoSuchKey" => Some(Answer::Absent),
            Err(Failure::Refused { status: 403, code }) => Some(refusal(ask, &code, what)),
            Err(Failure::Unavailable { status: 503, .. }) => None,
            Err(failure) => panic!("{what}: {failure:?}"),
        }
    }
}

/// The answer that a code of 403 is.
fn refusal(ask: Ask, code: &str, what: &str) -> Answer {
    match (code, ask) {
        // A batch of which a caller may have nothing may be refused as a whole.
        ("AccessDenied", Ask::EraseBoth) => Answer::Erased([false, false]),
        ("AccessDenied", _) => Answer::Denied,
        ("InvalidAccessKeyId", _) => Answer::UnknownKey,
        _ => panic!("{what}: {code}"),
    }
}

async fn send(s3: &S3, ask: Ask, keys: Vec<String>) -> Outcome<Answer> {
    let (sdk, key) = (s3.sdk(), keys[0].clone());
    match ask {
        Ask::ReadPublic | Ask::ReadTeam | Ask::ReadOwn | Ask::ReadAbsent => {
            let object = outcome(sdk.get_object().bucket(BUCKET).key(key).send().await)?;
            object.body.collect().await.expect("a whole body");
        }
        Ask::Write => {
            let body = ByteStream::from_static(b"written");
            outcome(sdk.put_object().bucket(BUCKET).key(key).body(body).send().await)?;
        }
        Ask::Copy => {
            let copy = sdk.copy_object().bucket(BUCKET).key(&keys[1]).copy_source(format!("{BUCKET}/{key}"));
            outcome(copy.send().await)?;
        }
        Ask::Erase => {
            outcome(sdk.delete_object().bucket(BUCKET).key(key).send().await)?;
        }
        Ask::ListOwn | Ask::ListTeam => {
            outcome(sdk.list_objects_v2().bucket(BUCKET).prefix(key).send().await)?;
        }
        Ask::EraseBoth => {
            let named = |key: &String| ObjectIdentifier::builder().key(key).build().expect("a key");
            let delete = Delete::builder().set_objects(Some(keys.iter().map(named).collect()));
            let delete = sdk.delete_objects().bucket(BUCKET).delete(delete.build().expect("two keys"));
            let deleted = outcome(delete.send().await)?;
            let mut unavailable =
                deleted.errors().iter().filter(|error| error.code() != Some("AccessDenied"));
            if let Some(error) = unavailable.next() {
                let code = error.code().unwrap_or_default().to_owned();
                return Err(Failure::Unavailable { status: 503, code });
            }
            let is_deleted = |key: &String| deleted.deleted().iter().any(|found| found.key() == Some(key));
            return Ok(Answer::Erased([is_deleted(&keys[0]), is_deleted(&keys[1])]));
        }
    }
    Ok(Answer::Done)
}
