//! A request is judged by rules of one moment, although its caller changes while its bucket is looked up.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{self, BoxFuture, Either};
use parking_lot::Mutex;
use sherd_core::id::ObjectKey;
use sherd_core::record::Tag;
use sherd_policy::{Identity, Policy, PolicyForm, UserIdentity};
use sherd_s3::answer::Response;
use sherd_s3::auth::{AccessKey, Credential, Credentials, KeyLookup, Secret};
use sherd_s3::error::Outcome;
use sherd_s3::operations::{AccountBlockLookup, BucketLookup, Operation, Operations};
use sherd_s3::protocol::Limits;
use sherd_s3::request::Request;
use sherd_store::object::{self as store, ObjectName};

use crate::memory::Memory;
use crate::wire::{ACCESS_KEY, Asking, SECRET, Server, TestClock, protocol_over};

/// The user whose key signs, as it is known at each moment. `None`: its key is gone.
#[derive(Debug, Clone)]
struct KnownUser(Arc<Mutex<Option<Arc<Identity>>>>);

impl Credentials for KnownUser {
    fn credential<'a>(&'a self, _: &'a str) -> KeyLookup<'a> {
        let identity = self.0.lock().clone();
        let credential = |identity| Credential {
            access_key: AccessKey::Static(ACCESS_KEY.into()),
            secret: Secret::new(SECRET),
            identity,
        };
        Either::Left(future::ready(Ok(identity.map(credential))))
    }
}

/// Operations of which the look-up of a bucket takes time, in which the user becomes another one.
#[derive(Debug)]
struct SlowLookups {
    memory: Memory,
    user: KnownUser,
    becomes: Mutex<Vec<Option<Arc<Identity>>>>,
}

impl Operations for SlowLookups {
    fn bucket(&self, name: ObjectKey) -> BucketLookup<'_> {
        if let Some(next) = self.becomes.lock().pop() {
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

/// The answer to a GET of a user that is this first, and each of these in turn when the bucket is looked up.
async fn answer(first: &str, then: &[Option<&str>]) -> (u16, usize) {
    let (memory, known) = (Memory::new(None), KnownUser(Arc::new(Mutex::new(Some(user(first))))));
    memory.keep("bucket", "key", "bytes");
    let becomes = then.iter().rev().map(|effect| effect.map(user)).collect();
    let operations =
        SlowLookups { memory: memory.clone(), user: known.clone(), becomes: Mutex::new(becomes) };
    let protocol = protocol_over(TestClock::Still, Limits::default(), Arc::new(known), Arc::new(operations));
    let server = Server::of(protocol, memory.clone()).await;
    let status = server.send(&Asking::new("GET", "/bucket/key")).await.status;
    (status, memory.looked_up().len())
}

#[tokio::test]
async fn a_caller_that_changes_while_its_bucket_is_looked_up_is_judged_as_it_is_then() {
    assert_eq!(answer("Allow", &[]).await, (200, 1), "what is remembered is looked up once");
    assert_eq!(answer("Allow", &[Some("Deny")]).await, (403, 2));
    assert_eq!(answer("Deny", &[Some("Allow")]).await, (200, 2));
    assert_eq!(answer("Deny", &[Some("Allow"), Some("Deny")]).await, (403, 3));
    assert_eq!(answer("Allow", &[None]).await, (403, 1), "its key is gone");
    assert_eq!(answer("Allow", &[Some("Allow"); 20]).await, (503, 16), "it does not come to rest");
}
