//! The access keys of the account: root's, which the configuration gives, and those of its users, which the
//! store keeps.
//!
//! Root's key costs no look-up. That of a user is remembered for at most two seconds, in which it takes no
//! wait and no allocation; a key that cannot be read now is refused with 503, never as an unknown one. No
//! signature is verified before: of keys that were never good here, few are looked up at one time, so that a
//! flood of made-up ones leaves the registers to the others.

use std::sync::Arc;

use futures::future::{self, Either};
use sherd_signature::Secret;
use sherd_signature::error::KeysUnavailable;
use sherd_store::iam::{Iam, IamReadError, KeyView};

use super::root_keys::RootKeys;
use super::{AccessKey, Credential, Credentials, KeyLookup};
use crate::unproven::turns::UnprovenTurns;
use crate::unproven::{UnprovenCrowd, UnprovenWork};

/// The access keys of root and of the users.
#[derive(Debug)]
pub struct AccountCredentials {
    root: RootKeys,
    iam: Iam,
    look_ups: KeyLookUps,
}

/// Look-ups of keys, of which those of keys that may be made up take turns.
#[derive(Debug)]
struct KeyLookUps(UnprovenTurns);

impl KeyLookUps {
    const fn new() -> Self {
        Self(UnprovenTurns::new(UnprovenWork::S3Keys))
    }

    /// Looks a key up; one that was not good before waits for its turn.
    async fn look_up<T>(
        &self,
        was_good: bool,
        look_up: impl Future<Output = Result<T, IamReadError>>,
    ) -> Result<T, KeysUnavailable> {
        let _turn = if was_good {
            None
        } else {
            Some(self.0.enter().await.map_err(|UnprovenCrowd| KeysUnavailable::Crowded)?)
        };
        look_up.await.map_err(unavailable)
    }
}

impl AccountCredentials {
    /// Of root's keys and those that the store keeps.
    pub const fn new(root: RootKeys, iam: Iam) -> Self {
        Self { root, iam, look_ups: KeyLookUps::new() }
    }
}

impl Credentials for AccountCredentials {
    fn credential<'a>(&'a self, access_key: &'a str) -> KeyLookup<'a> {
        if let Some(root) = self.root.get(access_key) {
            return Either::Left(future::ready(Ok(Some(root))));
        }
        match self.iam.remembered_key(access_key) {
            Some(found) => Either::Left(future::ready(Ok(found.view().map(Credential::from)))),
            None => Either::Right(Box::pin(async move {
                let was_good = self.iam.was_good(access_key);
                let found = self.look_ups.look_up(was_good, self.iam.look_up_key(access_key)).await?;
                Ok(found.map(Credential::from))
            })),
        }
    }

    fn note_use(&self, credential: &Credential, region: &str) {
        if let AccessKey::Stored(view) = &credential.access_key {
            self.iam.note_use(view, "s3", region);
        }
    }
}

impl From<Arc<KeyView>> for Credential {
    fn from(view: Arc<KeyView>) -> Self {
        Self {
            secret: Secret::new(Arc::clone(view.secret.expose())),
            identity: Arc::clone(&view.identity),
            access_key: AccessKey::Stored(view),
        }
    }
}

fn unavailable(error: IamReadError) -> KeysUnavailable {
    match error {
        IamReadError::Register(_) | IamReadError::Changing => {
            tracing::debug!(%error, "an access key cannot be read");
        }
        error => tracing::error!(%error, "an access key cannot be read"),
    }
    KeysUnavailable::Unreadable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn of_keys_that_were_never_good_few_are_looked_up_at_one_time() {
        let keys = KeyLookUps::new();
        let mut reads: Vec<_> = (0..UnprovenWork::S3Keys.max())
            .map(|_| Box::pin(keys.look_up(false, future::pending::<Result<(), _>>())))
            .collect();
        for read in &mut reads {
            assert!(futures::poll!(read).is_pending());
        }
        let found = async || Ok("found");
        assert_eq!(keys.look_up(false, found()).await, Err(KeysUnavailable::Crowded));
        assert_eq!(keys.look_up(true, found()).await, Ok("found"), "it needs no turn");
        // The client of one of them is gone.
        reads.pop();
        assert_eq!(keys.look_up(false, found()).await, Ok("found"));
    }
}
