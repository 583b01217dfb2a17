//! IAM through one node and through several: the calls, their refusals, and the views that requests take.

pub(super) mod gate;
mod entities;
mod given_keys;
mod keys;
mod policies;
mod renames;
mod views;

use std::sync::Arc;

use sherd_core::iam::EntityKind;
use sherd_policy::Identity;

use super::*;
use crate::machine::system::SystemRng;
use crate::upkeep::tests::Node;

/// A document that allows every action of S3 on every resource.
const ALLOW: &str =
    r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}"#;
/// Another document.
const DENY: &str =
    r#"{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":"s3:*","Resource":"*"}]}"#;

fn master_key() -> MasterKey {
    MasterKey::new(&[7; MasterKey::BYTES])
}

fn iam_of(node: &Node, others: Option<Arc<dyn Gateways>>) -> Iam {
    iam_with(node, others, Some(master_key()))
}

fn iam_with(node: &Node, others: Option<Arc<dyn Gateways>>, master_key: Option<MasterKey>) -> Iam {
    Iam::new(IamConfig { objects: node.objects().clone(), rng: Arc::new(SystemRng), master_key, others })
}

fn user_of(name: &str) -> NewUser {
    NewUser { name: name.to_owned(), path: "/".to_owned(), tags: Vec::new() }
}

fn policy_of(name: &str) -> NewPolicy {
    NewPolicy {
        name: name.to_owned(),
        path: "/".to_owned(),
        description: String::new(),
        document: ALLOW.to_owned(),
        tags: Vec::new(),
    }
}

/// A user of this name with an access key.
async fn user_with_key(iam: &Iam, name: &str) -> NewKey {
    iam.create_user(user_of(name)).await.expect("created");
    iam.create_access_key(name, None).await.expect("created")
}

/// The documents that judge a key now; `None` where it is not good.
async fn judged_by(iam: &Iam, key: &NewKey) -> Option<Vec<String>> {
    let view = iam.look_up_key(key.key.id.as_str()).await.expect("readable")?;
    assert_eq!(view.secret, key.secret);
    match &*view.identity {
        Identity::User(user) => {
            Some(user.policies.iter().map(|policy| policy.document().to_owned()).collect())
        }
        other => panic!("not a user: {other:?}"),
    }
}

fn is_missing<T: std::fmt::Debug>(result: &Result<T>) -> bool {
    matches!(result, Err(IamError::NoSuchEntity(_)))
}

fn is_over_limit<T: std::fmt::Debug>(result: &Result<T>) -> bool {
    matches!(result, Err(IamError::LimitExceeded(_)))
}

fn conflict<T: std::fmt::Debug>(result: Result<T>) -> DeleteConflict {
    match result {
        Err(IamError::DeleteConflict(conflict)) => conflict,
        other => panic!("no conflict: {other:?}"),
    }
}
