//! The access keys of the account: root's, which the configuration gives, and those of its users, which the
//! store keeps.
//!
//! Root's key costs no look-up. That of a user is remembered for at most two seconds, in which it takes no
//! wait and no allocation; a key that cannot be read now is refused with 503, never as an unknown one. No
//! signature is verified before: of keys that were never good here, few are looked up at one time, for S3 and
//! IAM together, so that a flood of made-up ones leaves the registers to the others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use futures::future::{self, Either};
use parking_lot::Mutex;
use sherd_signature::Secret;
use sherd_signature::error::KeysUnavailable;
use sherd_store::iam::{Iam, IamReadError, KeyView};

use super::root_keys::RootKeys;
use super::{AccessKey, Credential, Credentials, KeyLookup};
use crate::unproven::lane::{UnprovenLane, UnprovenPlace};
use crate::unproven::{UnprovenCrowd, UnprovenWork};

/// The access keys of root and of the users.
#[derive(Debug)]
pub struct AccountCredentials {
    root: RootKeys,
    iam: Iam,
    look_ups: KeyLookUps,
}

/// Look-ups of keys that may be made up.
#[derive(Debug)]
struct KeyLookUps {
    lane: UnprovenLane,
    /// The places of the keys that are looked up. Requests with one key share its place: of a client whose
    /// many connections bring a key that is new here, none gives way to another.
    places: Mutex<HashMap<Box<str>, Weak<UnprovenPlace>>>,
}

impl KeyLookUps {
    fn new() -> Self {
        Self { lane: UnprovenLane::new(UnprovenWork::Keys), places: Mutex::default() }
    }

    /// Looks up a key that a request from an address names, which was not good before.
    async fn look_up<T>(
        &self,
        access_key: &str,
        from: IpAddr,
        look_up: impl Future<Output = Result<T, IamReadError>>,
    ) -> Result<T, KeysUnavailable> {
        let place = self.place(access_key, from).await.map_err(|UnprovenCrowd| KeysUnavailable::Crowded)?;
        // Cancel-safe: others that wait for the same look-up go on.
        tokio::select! {
            biased;
            found = look_up => found.map_err(unavailable),
            () = place.lost() => Err(KeysUnavailable::Crowded),
        }
    }

    async fn place(&self, access_key: &str, from: IpAddr) -> Result<Arc<UnprovenPlace>, UnprovenCrowd> {
        let shared = self.places.lock().get(access_key).and_then(Weak::upgrade);
        if let Some(place) = shared.filter(|place| !place.is_lost()) {
            return Ok(place);
        }
        let place = Arc::new(self.lane.enter(from).await?);
        let mut places = self.places.lock();
        places.retain(|_, place| place.strong_count() > 0);
        places.insert(access_key.into(), Arc::downgrade(&place));
        Ok(place)
    }
}

impl AccountCredentials {
    /// Of root's keys and those that the store keeps.
    pub fn new(root: RootKeys, iam: Iam) -> Self {
        Self { root, iam, look_ups: KeyLookUps::new() }
    }
}

impl Credentials for AccountCredentials {
    fn credential<'a>(&'a self, access_key: &'a str, from: IpAddr) -> KeyLookup<'a> {
        if let Some(root) = self.root.get(access_key) {
            return Either::Left(future::ready(Ok(Some(root))));
        }
        match self.iam.remembered_key(access_key) {
            Some(found) => Either::Left(future::ready(Ok(found.view().map(Credential::from)))),
            None => Either::Right(Box::pin(async move {
                let look_up = self.iam.look_up_key(access_key);
                let found = if self.iam.was_good(access_key) {
                    look_up.await.map_err(unavailable)?
                } else {
                    self.look_ups.look_up(access_key, from, look_up).await?
                };
                Ok(found.map(Credential::from))
            })),
        }
    }

    fn note_use(&self, credential: &Credential, service: &str, region: &str) {
        if let AccessKey::Stored(view) = &credential.access_key {
            self.iam.note_use(view, service, region);
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
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use futures::FutureExt as _;

    use super::*;

    const FLOOD: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    #[tokio::test(start_paused = true)]
    async fn of_keys_that_were_never_good_few_are_looked_up_at_one_time() {
        let keys = KeyLookUps::new();
        let ids: Vec<_> = (0..UnprovenWork::Keys.max()).map(|number| number.to_string()).collect();
        let made_up = |id| Box::pin(keys.look_up(id, FLOOD, future::pending::<Result<(), _>>()));
        let mut reads: Vec<_> = ids.iter().map(|id| made_up(id.as_str())).collect();
        for read in &mut reads {
            assert!(futures::poll!(read).is_pending());
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(keys.look_up("new", OTHER, async { Ok("found") }).await, Ok("found"));
        // The oldest one of the flood gave way.
        assert_eq!(reads.remove(0).await, Err(KeysUnavailable::Crowded));
        assert!(reads.iter_mut().all(|read| read.now_or_never().is_none()));
        assert!(futures::poll!(made_up("0")).is_pending(), "a place that is lost is shared no more");
        assert_eq!(keys.look_up("new", OTHER, async { Ok("found") }).await, Ok("found"));
    }

    #[tokio::test(start_paused = true)]
    async fn requests_with_one_key_share_its_place() {
        let keys = KeyLookUps::new();
        let read = || Box::pin(keys.look_up("new", OTHER, future::pending::<Result<(), _>>()));
        let mut reads: Vec<_> = (0..10 * UnprovenWork::Keys.max()).map(|_| read()).collect();
        for _ in 0..2 {
            assert!(reads.iter_mut().all(|read| read.now_or_never().is_none()));
        }
        assert_eq!(keys.places.lock().len(), 1);
        drop(reads);
        assert_eq!(keys.look_up("next", OTHER, async { Ok("found") }).await, Ok("found"));
        assert!(!keys.places.lock().contains_key("new"));
    }
}
