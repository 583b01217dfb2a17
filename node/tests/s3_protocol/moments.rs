//! A request is judged by rules of one moment, although its caller changes while its buckets are looked up or
//! its document arrives.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{self, BoxFuture, Either};
use parking_lot::Mutex;
use sherd_core::id::ObjectKey;
use sherd_core::record::Tag;
use sherd_front::callers::{AccessKey, Credential, Credentials, KeyLookup};
use sherd_policy::{Identity, Policy, PolicyForm, UserIdentity};
use sherd_s3::answer::Outcome;
use sherd_s3::answer::Response;
use sherd_s3::operation::{AccountBlockLookup, BucketLookup, Operation, Operations};
use sherd_s3::request::Request;
use sherd_s3::service::Limits;
use sherd_signature::Secret;
use sherd_store::object::{self as store, ObjectName};

use crate::memory::Memory;
use crate::wire::{ACCESS_KEY, Asking, SECRET, Server, TestClock, protocol_over};

/// The user whose key signs, as it is known at each moment. `None`: its key is gone.
#[derive(Debug, Clone)]
struct KnownUser(Arc<Mutex<Option<Arc<Identity>>>>);

impl Credentials for KnownUser {
    fn credential<'a>(&'a self, _: &'a str, _: std::net::IpAddr) -> KeyLookup<'a> {
        let identity = self.0.lock().clone();
        let credential = |identity| Credential {
            access_key: AccessKey::Static(ACCESS_KEY.into()),
            secret: Secret::new(SECRET),
            identity,
        };
        Either::Left(future::ready(Ok(identity.map(credential))))
    }
}

/// The user that the caller becomes, if any; `To(None)`: its key goes.
#[derive(Debug)]
enum Change {
    Without,
    To(Option<Arc<Identity>>),
}

/// Operations of which the look-up of a bucket takes time, in which the user becomes another one.
#[derive(Debug)]
struct SlowLookups {
    memory: Memory,
    user: KnownUser,
    becomes: Mutex<Vec<Change>>,
}

impl Operations for SlowLookups {
    fn bucket(&self, name: ObjectKey) -> BucketLookup<'_> {
        if let Some(Change::To(next)) = self.becomes.lock().pop() {
            *self.user.0.lock() = next;
        }
        self.memory.bucket(name)
    }

    fn account_block(&self) -> AccountBlockLookup<'_> {
        self.memory.account_block()
    }

    fn run<'a>(&'a self, operation: Operation, request: Request<'a>) -> BoxFuture<'a, Outcome<Response>> {
        self.memory.run(operation, request)
    }

    fn tags<'a>(&'a self, name: &'a ObjectName) -> BoxFuture<'a, store::Result<Vec<Tag>>> {
        self.memory.tags(name)
    }

    fn release_grace(&self) -> Duration {
        self.memory.release_grace()
    }
}

fn user(effect: &str) -> Arc<Identity> {
    let policy = format!(
        r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"{effect}","Action":"*","Resource":"*"}}]}}"#
    );
    let policy = Policy::parse(policy.as_bytes(), PolicyForm::Identity).expect("a policy");
    Arc::new(Identity::User(UserIdentity {
        arn: "arn:aws:iam::000000000001:user/user".to_owned(),
        name: "user".to_owned(),
        id: "AIDA".to_owned(),
        tags: Vec::new(),
        policies: vec![Arc::new(policy)],
    }))
}

/// The status of the answer to a request of a user that is this first, and each of these in turn when a
/// bucket is looked up; and the buckets that were looked up, and the operations that ran.
async fn answer(asking: &Asking, first: &str, then: &[&str]) -> (u16, String, Vec<&'static str>) {
    let (memory, known) = (Memory::new(None), KnownUser(Arc::new(Mutex::new(Some(user(first))))));
    memory.keep("bucket", "key", "bytes");
    let becomes = |effect: &&str| match *effect {
        "same" => Change::Without,
        "gone" => Change::To(None),
        effect => Change::To(Some(user(effect))),
    };
    let becomes = then.iter().rev().map(becomes).collect();
    let operations =
        SlowLookups { memory: memory.clone(), user: known.clone(), becomes: Mutex::new(becomes) };
    let protocol = protocol_over(TestClock::Still, Limits::default(), Arc::new(known), Arc::new(operations));
    let server = Server::of(protocol, memory.clone()).await;
    let status = server.send(asking).await.status;
    (status, memory.looked_up().join(" "), memory.calls())
}

#[tokio::test]
async fn a_caller_that_changes_while_its_bucket_is_looked_up_is_judged_as_it_is_then() {
    let get = async |first, then: &[&str]| {
        let (status, looked_up, _) = answer(&Asking::new("GET", "/bucket/key"), first, then).await;
        (status, looked_up.split(' ').count())
    };
    assert_eq!(get("Allow", &[]).await, (200, 1), "what is remembered is looked up once");
    assert_eq!(get("Allow", &["Deny"]).await, (403, 2));
    assert_eq!(get("Deny", &["Allow"]).await, (200, 2));
    assert_eq!(get("Deny", &["Allow", "Deny"]).await, (403, 3));
    assert_eq!(get("Allow", &["gone"]).await, (403, 1), "its key is gone");
    assert_eq!(get("Allow", &["Allow"; 20]).await, (503, 16), "it does not come to rest");
}

#[tokio::test]
async fn a_caller_that_changes_while_the_source_of_its_copy_is_looked_up_is_judged_as_it_is_then() {
    for target in ["/bucket/copy", "/bucket/copy?partNumber=1&uploadId=u1"] {
        let copy = Asking::new("PUT", target).header("x-amz-copy-source", "other/key");
        let (_, looked_up, calls) = answer(&copy, "Allow", &[]).await;
        assert_eq!((&*looked_up, calls.len()), ("bucket other", 1));
        let (status, looked_up, calls) = answer(&copy, "Allow", &["same", "Deny"]).await;
        assert_eq!((status, &*looked_up, calls.len()), (403, "bucket other bucket other", 0));
        let within = Asking::new("PUT", target).header("x-amz-copy-source", "bucket/key");
        assert_eq!(answer(&within, "Allow", &[]).await.1, "bucket", "one view for both");
    }
}

#[tokio::test]
async fn a_request_is_judged_again_when_its_document_is_there() {
    let parts = b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>e</ETag></Part></CompleteMultipartUpload>";
    let complete = Asking::new("POST", "/bucket/key?uploadId=u1").body(parts);
    let (_, looked_up, calls) = answer(&complete, "Allow", &[]).await;
    assert_eq!((&*looked_up, &*calls), ("bucket bucket", &["CompleteMultipartUpload"][..]));
    for then in [["same", "Deny"], ["same", "gone"]] {
        let (status, _, calls) = answer(&complete, "Allow", &then).await;
        assert_eq!((status, calls.len()), (403, 0), "{then:?}");
    }
}

/// No bucket has a say in these requests, so none is looked up for them.
#[tokio::test]
async fn the_caller_of_a_request_in_no_bucket_is_looked_up_again_when_its_document_is_there() {
    let block = Asking::new("PUT", "/v20180820/configuration/publicAccessBlock")
        .header("x-amz-account-id", "000000000001");
    let cases = [
        (Asking::new("PUT", "/bucket").body(b"<CreateBucketConfiguration/>"), "CreateBucket"),
        (block.body(b"<PublicAccessBlockConfiguration/>"), "PutAccountPublicAccessBlock"),
    ];
    for (asking, operation) in cases {
        let asking = asking.unsigned("expect", "100-continue");
        let signed = asking.signed();
        let (head, document) = signed.split_at(signed.len() - asking.body.len());
        for (becomes, expected, ran) in
            [(Some(user("Allow")), 200, &[operation][..]), (Some(user("Deny")), 403, &[]), (None, 403, &[])]
        {
            let (memory, known) = (Memory::new(None), KnownUser(Arc::new(Mutex::new(Some(user("Allow"))))));
            let (keys, operations) = (Arc::new(known.clone()), Arc::new(memory.clone()));
            let protocol = protocol_over(TestClock::Still, Limits::default(), keys, operations);
            let server = Server::of(protocol, memory.clone()).await;
            let mut connection = server.connect().await;
            connection.send(head).await;
            assert_eq!(connection.head().await, "HTTP/1.1 100 Continue\r\n\r\n", "{operation} is allowed");
            *known.0.lock() = becomes;
            connection.send(document).await;
            assert_eq!((connection.answer().await.status, &*memory.calls()), (expected, ran), "{operation}");
        }
    }
}
