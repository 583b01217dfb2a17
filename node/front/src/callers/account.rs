//! The access keys of the account: root's, which the configuration gives, and those of its users, which the
//! store keeps.
//!
//! Root's key costs no look-up. That of a user is remembered for at most two seconds, in which it takes no
//! wait and no allocation; a key that cannot be read now is refused with 503, never as an unknown one. No
//! signature is verified before: of keys that were never good here, few are looked up at one time, so that a
//! flood of made-up ones leaves the registers to the others. S3 and IAM have a bound each, so that users can
//! be changed while S3 is overloaded.

use std::net::IpAddr;
use std::sync::Arc;

use futures::future::{self, Either};
use sherd_signature::Secret;
use sherd_signature::error::KeysUnavailable;
use sherd_store::iam::{Iam, IamReadError, KeyView};

use super::root_keys::RootKeys;
use super::{AccessKey, Credential, Credentials, KeyLookup};
use crate::unproven::lane::UnprovenLane;
use crate::unproven::turns::UnprovenTurns;
use crate::unproven::{UnprovenCrowd, UnprovenWork};

/// The access keys of root and of the users.
#[derive(Debug)]
pub struct AccountCredentials {
    root: RootKeys,
    iam: Iam,
    look_ups: KeyLookUps,
}

/// The bound on look-ups of keys that may be made up.
#[derive(Debug)]
enum KeyLookUps {
    /// The next one waits: of the many clients of S3, whose keys are all new to a node that starts, none is
    /// refused for another.
    Turns(UnprovenTurns),
    /// The slowest one gives way.
    Lane(UnprovenLane),
}

impl KeyLookUps {
    /// Looks up a key that a request from an address names. One that was good before is not bounded.
    async fn look_up<T>(
        &self,
        was_good: bool,
        from: IpAddr,
        look_up: impl Future<Output = Result<T, IamReadError>>,
    ) -> Result<T, KeysUnavailable> {
        if was_good {
            return look_up.await.map_err(unavailable);
        }
        let crowded = |UnprovenCrowd| KeysUnavailable::Crowded;
        let (_turn, place) = match self {
            Self::Turns(turns) => (Some(turns.enter().await.map_err(crowded)?), None),
            Self::Lane(lane) => (None, Some(lane.enter(from).await.map_err(crowded)?)),
        };
        let lost = async {
            match &place {
                Some(place) => place.lost().await,
                None => future::pending().await,
            }
        };
        // Cancel-safe: others that wait for the same look-up go on.
        tokio::select! {
            biased;
            found = look_up => found.map_err(unavailable),
            () = lost => Err(KeysUnavailable::Crowded),
        }
    }
}

impl AccountCredentials {
    /// The keys as S3 looks them up: root's, and those that the store keeps.
    pub const fn of_s3(root: RootKeys, iam: Iam) -> Self {
        let look_ups = KeyLookUps::Turns(UnprovenTurns::new(UnprovenWork::S3Keys));
        Self { root, iam, look_ups }
    }

    /// The keys as IAM looks them up.
    pub fn of_iam(root: RootKeys, iam: Iam) -> Self {
        Self { root, iam, look_ups: KeyLookUps::Lane(UnprovenLane::new(UnprovenWork::IamKeys)) }
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
                let look_up = Box::pin(self.iam.look_up_key(access_key));
                let found = self.look_ups.look_up(self.iam.was_good(access_key), from, look_up).await?;
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

    fn of_s3() -> KeyLookUps {
        KeyLookUps::Turns(UnprovenTurns::new(UnprovenWork::S3Keys))
    }

    #[tokio::test(start_paused = true)]
    async fn of_new_keys_s3_looks_few_up_at_one_time_and_lets_the_next_wait() {
        let keys = of_s3();
        let read = || Box::pin(keys.look_up(false, FLOOD, future::pending::<Result<(), _>>()));
        let mut reads: Vec<_> = (0..UnprovenWork::S3Keys.max()).map(|_| read()).collect();
        assert!(reads.iter_mut().all(|read| read.now_or_never().is_none()));
        let found = async || Ok("found");
        assert_eq!(
            keys.look_up(false, OTHER, found()).await,
            Err(KeysUnavailable::Crowded),
            "all stand still"
        );
        assert_eq!(keys.look_up(true, OTHER, found()).await, Ok("found"), "it was good: it needs no turn");
        let mut next = Box::pin(keys.look_up(false, OTHER, found()));
        assert!(futures::poll!(&mut next).is_pending());
        // The client of one of them is gone.
        reads.pop();
        assert_eq!(next.await, Ok("found"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_of_new_keys_of_s3_is_looked_up_whole() {
        let keys = of_s3();
        let look_up = || async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok("found")
        };
        let burst = future::join_all((0..300).map(|_| keys.look_up(false, OTHER, look_up()))).await;
        assert!(burst.iter().all(|found| *found == Ok("found")));
    }

    #[tokio::test(start_paused = true)]
    async fn of_new_keys_of_iam_the_oldest_of_a_flood_gives_way() {
        let keys = KeyLookUps::Lane(UnprovenLane::new(UnprovenWork::IamKeys));
        let made_up = || Box::pin(keys.look_up(false, FLOOD, future::pending::<Result<(), _>>()));
        let mut reads: Vec<_> = (0..UnprovenWork::IamKeys.max()).map(|_| made_up()).collect();
        for read in &mut reads {
            assert!(futures::poll!(read).is_pending());
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(keys.look_up(false, OTHER, async { Ok("found") }).await, Ok("found"));
        assert_eq!(keys.look_up(true, FLOOD, async { Ok("found") }).await, Ok("found"));
        assert_eq!(reads.remove(0).await, Err(KeysUnavailable::Crowded));
        assert!(reads.iter_mut().all(|read| read.now_or_never().is_none()));
    }
}
