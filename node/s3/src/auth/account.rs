//! The access keys of the account: root's, which were given at the start, and those of its users, which the
//! store keeps.
//!
//! Root's key costs no look-up. That of a user is remembered for at most two seconds, in which it takes no
//! wait and no allocation; a key that cannot be read now is refused with 503, never as an unknown one.

use std::sync::Arc;

use futures::future::{self, Either};
use sherd_store::iam::{Iam, IamReadError, KeyView};

use super::{AccessKey, Credential, Credentials, KeyLookup, KeysUnavailable, Secret, StaticCredentials};

/// The access keys of root and of the users.
#[derive(Debug)]
pub struct AccountCredentials {
    root: StaticCredentials,
    iam: Iam,
}

impl AccountCredentials {
    /// Of root's keys and those that the store keeps.
    pub const fn new(root: StaticCredentials, iam: Iam) -> Self {
        Self { root, iam }
    }
}

impl Credentials for AccountCredentials {
    fn credential<'a>(&'a self, access_key: &'a str) -> KeyLookup<'a> {
        if let Some(root) = self.root.get(access_key) {
            return Either::Left(future::ready(Ok(Some(root.clone()))));
        }
        match self.iam.remembered_key(access_key) {
            Some(found) => Either::Left(future::ready(Ok(found.view().map(of_view)))),
            None => Either::Right(Box::pin(async move {
                let found = self.iam.look_up_key(access_key).await.map_err(unavailable)?;
                Ok(found.map(of_view))
            })),
        }
    }

    fn note_use(&self, credential: &Credential, region: &str) {
        if let AccessKey::Stored(view) = &credential.access_key {
            self.iam.note_use(view, "s3", region);
        }
    }
}

/// The credential of a key that the store keeps.
fn of_view(view: Arc<KeyView>) -> Credential {
    Credential {
        secret: Secret::new(Arc::clone(view.secret.expose())),
        identity: Arc::clone(&view.identity),
        access_key: AccessKey::Stored(view),
    }
}

fn unavailable(error: IamReadError) -> KeysUnavailable {
    match error {
        IamReadError::Register(_) | IamReadError::Changing => {
            tracing::debug!(%error, "an access key cannot be read");
        }
        error => tracing::error!(%error, "an access key cannot be read"),
    }
    KeysUnavailable
}
