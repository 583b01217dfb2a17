//! S3 as the stories need it: each call ends within a deadline, and a failure says whether the
//! request was refused or its outcome is unknown.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::IntoFuture;
use std::pin::Pin;

use aws_sdk_s3::Client;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::Node;
use super::data::Body;
use super::wait::{LATER, PERIOD, SOON, bounded, eventually, is_quiet};

/// The bucket of every story.
pub(crate) const BUCKET: &str = "bucket";
/// Bytes of every part but the last: the least that S3 allows.
pub(crate) const PART: usize = 5 << 20;

/// Why a request was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// 4xx: nothing changed.
    Refused {
        /// The HTTP status.
        status: u16,
        /// S3's code.
        code: String,
    },
    /// 5xx: what was asked for may still happen, wholly.
    Unavailable {
        /// The HTTP status.
        status: u16,
        /// S3's code.
        code: String,
    },
    /// No answer: as 5xx.
    Lost(String),
}

impl Failure {
    /// Whether this is 503 SlowDown.
    pub(crate) fn is_slow_down(&self) -> bool {
        matches!(self, Self::Unavailable { status: 503, code } if code == "SlowDown")
    }

    /// Whether the key is not there. A HEAD's answer has no body, so its code is the SDK's guess.
    pub(crate) const fn is_absent(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }

    /// Whether nothing changed for sure.
    pub(crate) const fn is_refused(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }
}

/// Result of a request.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// Result of an answer of the SDK.
pub(crate) fn outcome<T, E: ProvideErrorMetadata + Debug>(result: Result<T, SdkError<E>>) -> Outcome<T> {
    result.map_err(|error| match &error {
        SdkError::ServiceError(service) => {
            let status = service.raw().status().as_u16();
            let code = service.err().code().unwrap_or_default().to_owned();
            match status {
                500.. => Failure::Unavailable { status, code },
                _ => Failure::Refused { status, code },
            }
        }
        _ => Failure::Lost(format!("{error:?}")),
    })
}

type Sending<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A client of one node.
#[derive(Debug, Clone)]
pub(crate) struct S3 {
    client: Client,
}

impl Node {
    /// A client with connections of its own.
    pub(crate) fn s3(&self) -> S3 {
        S3 { client: self.client() }
    }

    /// A client of a new bucket.
    pub(crate) async fn with_bucket(&self) -> S3 {
        let s3 = self.s3();
        self.until_ready().await;
        s3.make_bucket().await;
        s3
    }
}

/// A condition of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Condition {
    /// None.
    Always,
    /// `If-None-Match: *`.
    IfAbsent,
    /// `If-Match` with an entity tag.
    IfMatch(String),
}

impl S3 {
    /// Over a client of its own.
    pub(crate) const fn over(client: Client) -> Self {
        Self { client }
    }

    /// The SDK's client, for what is not here.
    pub(crate) const fn sdk(&self) -> &Client {
        &self.client
    }

    /// Puts a body.
    ///
    /// # Errors
    /// [`Failure`]
    pub(crate) async fn put(&self, key: &str, body: Body) -> Outcome<()> {
        self.put_if(key, body, Condition::Always).await
    }

    /// Puts a body where a condition holds.
    ///
    /// # Errors
    /// [`Failure`]
    pub(crate) async fn put_if(&self, key: &str, body: Body, condition: Condition) -> Outcome<()> {
        let put = self.client.put_object().bucket(BUCKET).key(key).body(ByteStream::from(body.bytes()));
        let put = match condition {
            Condition::Always => put,
            Condition::IfAbsent => put.if_none_match("*"),
            Condition::IfMatch(etag) => put.if_match(etag),
        };
        let put = outcome(bounded("a PUT", SOON, put.send()).await)?;
        assert_eq!(put.e_tag(), Some(body.etag().as_str()), "the entity tag of {key}");
        Ok(())
    }

    /// Reads an object, every byte of it checked; nothing when it is not there. An answer that ends early
    /// counts as none.
    ///
    /// # Errors
    /// [`Failure`]
    pub(crate) async fn get(&self, key: &str) -> Outcome<Option<Body>> {
        let get = self.client.get_object().bucket(BUCKET).key(key).send();
        let object = match outcome(bounded("a GET", SOON, get).await) {
            Err(failure) if failure.is_absent() => return Ok(None),
            object => object?,
        };
        let bytes = match bounded("a GET's body", SOON, object.body.collect()).await {
            Ok(bytes) => bytes.into_bytes(),
            Err(error) => return Err(Failure::Lost(format!("{error:?}"))),
        };
        let body = Body::recognise(&bytes);
        Ok(Some(body.unwrap_or_else(|what| panic!("the object at {key} is not whole: {what}"))))
    }

    /// The entity tag of an object; nothing when it is not there.
    ///
    /// # Errors
    /// [`Failure`]
    pub(crate) async fn head(&self, key: &str) -> Outcome<Option<String>> {
        let head = self.client.head_object().bucket(BUCKET).key(key).send();
        match outcome(bounded("a HEAD", SOON, head).await) {
            Err(failure) if failure.is_absent() => Ok(None),
            head => Ok(Some(head?.e_tag.expect("an object has an entity tag"))),
        }
    }

    /// Deletes an object, which succeeds when it is not there.
    ///
    /// # Errors
    /// [`Failure`]
    pub(crate) async fn delete(&self, key: &str) -> Outcome<()> {
        let delete = self.client.delete_object().bucket(BUCKET).key(key).send();
        outcome(bounded("a DELETE", SOON, delete).await).map(drop)
    }

    /// Every key below a prefix with its entity tag, over as many pages as it takes.
    ///
    /// # Errors
    /// [`Failure`]
    pub(crate) async fn list(&self, prefix: &str) -> Outcome<BTreeMap<String, String>> {
        let (mut found, mut token) = (BTreeMap::new(), None);
        loop {
            let list = self.client.list_objects_v2().bucket(BUCKET).prefix(prefix);
            let page = list.set_continuation_token(token).send();
            let page = outcome(bounded("a listing", SOON, page).await)?;
            for object in page.contents() {
                let key = object.key().expect("an object has a key").to_owned();
                let etag = object.e_tag().expect("an object has an entity tag").to_owned();
                assert_eq!(found.insert(key, etag), None, "a key is listed once");
            }
            token = page.next_continuation_token().map(str::to_owned);
            if token.is_none() {
                return Ok(found);
            }
        }
    }

    /// Uploads a body in parts of [`PART`] bytes.
    ///
    /// # Errors
    /// The [`Failure`] of the step that failed: before the last one nothing can show.
    pub(crate) async fn upload(&self, key: &str, body: Body) -> Outcome<()> {
        let create = self.client.create_multipart_upload().bucket(BUCKET).key(key).send();
        let created = outcome(bounded("a new upload", SOON, create).await).map_err(never_shows)?;
        let upload = created.upload_id.expect("an upload has an id");
        let mut parts = Vec::new();
        for (number, bytes) in (1..).zip(body.bytes().chunks(PART)) {
            let part = self.client.upload_part().bucket(BUCKET).key(key).upload_id(&upload);
            let part = part.part_number(number).body(ByteStream::from(bytes.to_vec())).send();
            let part = outcome(bounded("a part", SOON, part).await).map_err(never_shows)?;
            parts.push(CompletedPart::builder().part_number(number).set_e_tag(part.e_tag).build());
        }
        let parts = CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
        let complete = self.client.complete_multipart_upload().bucket(BUCKET).key(key);
        let complete = complete.upload_id(upload).multipart_upload(parts).send();
        let complete = outcome(bounded("completing an upload", SOON, complete).await)?;
        assert_eq!(complete.e_tag(), Some(body.etag_in_parts(PART).as_str()), "the entity tag of {key}");
        Ok(())
    }

    /// Puts a body into what is healthy.
    pub(crate) async fn put_settled(&self, key: &str, body: Body) {
        healthy(&format!("PUT {key}"), || {
            let (s3, key) = (self.clone(), key.to_owned());
            async move { s3.put(&key, body).await }
        })
        .await;
    }

    /// Deletes an object from what is healthy.
    pub(crate) async fn delete_settled(&self, key: &str) {
        healthy(&format!("DELETE {key}"), || {
            let (s3, key) = (self.clone(), key.to_owned());
            async move { s3.delete(&key).await }
        })
        .await;
    }

    /// Makes the bucket of every story.
    pub(crate) async fn make_bucket(&self) {
        let request = self.client.create_bucket().bucket(BUCKET);
        healthy("a new bucket", || {
            let sent = asked("a new bucket", request.clone().send());
            async {
                match sent.await {
                    // An earlier try made it.
                    Err(Failure::Refused { status: 409, code }) if code == "BucketAlreadyOwnedByYou" => {
                        Ok(())
                    }
                    done => done.map(drop),
                }
            }
        })
        .await;
    }

    /// Reads an object as [`Self::get`], again where the node is not ready to answer yet.
    pub(crate) async fn get_settled(&self, key: &str) -> Option<Body> {
        settled(&format!("GET {key}"), || {
            let (s3, key) = (self.clone(), key.to_owned());
            Box::pin(async move { s3.get(&key).await })
        })
        .await
    }

    /// Lists as [`Self::list`], again where the node is not ready to answer yet.
    pub(crate) async fn list_settled(&self, prefix: &str) -> BTreeMap<String, String> {
        settled(&format!("LIST {prefix}"), || {
            let (s3, prefix) = (self.clone(), prefix.to_owned());
            Box::pin(async move { s3.list(&prefix).await })
        })
        .await
    }
}

/// A step of an upload before its last one changes no object, with any outcome.
fn never_shows(failure: Failure) -> Failure {
    match failure {
        Failure::Unavailable { status, code } => Failure::Refused { status, code },
        Failure::Lost(why) => Failure::Refused { status: 0, code: why },
        refused @ Failure::Refused { .. } => refused,
    }
}

/// Result of a call of the SDK, which ends.
pub(crate) fn asked<T, E: ProvideErrorMetadata + Debug>(
    what: &str,
    sent: impl Future<Output = Result<T, SdkError<E>>>,
) -> impl Future<Output = Outcome<T>> {
    let sent = bounded(what, LATER, sent);
    async { outcome(sent.await) }
}

/// The answer of healthy nodes to a request of the SDK, as [`healthy`].
pub(crate) async fn done<T, E, Sent>(what: &str, send: impl Fn() -> Sent) -> T
where
    E: ProvideErrorMetadata + Debug,
    Sent: Future<Output = Result<T, SdkError<E>>>,
{
    healthy(what, || asked(what, send())).await
}

/// Does what healthy nodes do: at the first try where the machine is quiet. Elsewhere a node may be given so
/// little of a processor that its peers count it as away, so that what is answered by 5xx, or not at all, is
/// asked again.
pub(crate) async fn healthy<T, Asked: Future<Output = Outcome<T>>>(what: &str, ask: impl Fn() -> Asked) -> T {
    let ended = on_time(ask, |ended| ended.as_ref().is_err_and(|failure| !failure.is_refused()));
    ended.await.unwrap_or_else(|failure| panic!("{what}, of healthy nodes: {failure:?}"))
}

/// Asks as [`healthy`] does, where an answer says itself whether nodes were late.
pub(crate) async fn on_time<T, Asked: Future<Output = T>>(
    ask: impl Fn() -> Asked,
    is_late: impl Fn(&T) -> bool,
) -> T {
    let deadline = Instant::now() + SOON;
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let answer = ask().await;
        if is_quiet() || !is_late(&answer) || Instant::now() >= deadline {
            return answer;
        }
    }
}

/// Asks again until there is an answer other than 5xx.
async fn settled<T>(what: &str, ask: impl Fn() -> Sending<Outcome<T>>) -> T {
    eventually(what, SOON, async || match ask().into_future().await {
        Ok(answer) => Ok(answer),
        Err(refused @ Failure::Refused { .. }) => panic!("{what}: {refused:?}"),
        Err(failure) => Err(format!("{failure:?}")),
    })
    .await
}
