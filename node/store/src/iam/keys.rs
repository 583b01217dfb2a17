//! Access keys of users.
//!
//! ```text
//! create: the key's record -> the user lists it as active: from here on it is good
//! delete: the user lists it no more: from here on it is not -> the key's record goes
//! ```
//! A crash between the two leaves a record that no user lists. It gives nothing, and no id is given twice.
//!
//! A user that may change its keys signs with one of them. Whether that one is active, and the change of the
//! other, are one step of the user's record: from the step on that makes a key inactive, it activates no
//! other key of its user and makes none.

use futures::future::join_all;
use tokio::time::{Instant, sleep, timeout_at};

use sherd_core::iam::{
    AccessKeyId, EntityKind, KeyRecord, KeyStatus, KeyUse, NamedRecord, UserKey, UserRecord,
};
use sherd_core::id::RegisterKey;
use sherd_core::limits::IAM_USER_KEYS_MAX;

use super::error::{IamError, LimitExceeded, MissingEntity, Result};
use super::fingerprint::Fingerprint;
use super::limits::{COMPARED_KEYS_MAX, REVOKE_PAUSE, REVOKE_WAIT};
use super::master_key::{KeySecret, MasterKey};
use super::records::{Records, Step};
use super::{Iam, missing};
use crate::cluster::asker::{AskError, Gateways};

const USER: EntityKind = EntityKind::User;

/// A key that was made, with its secret: no later call gives it.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// The name of its user.
    pub user_name: String,
    /// The key.
    pub key: KeyRecord,
    /// Secret of the key.
    pub secret: KeySecret,
}

/// The access keys of a user.
#[derive(Debug, Clone)]
pub struct UserKeys {
    /// The user's name, as it is capitalised.
    pub user_name: String,
    /// Keys of the user, in the order in which they were made.
    pub keys: Vec<(KeyRecord, KeyStatus)>,
}

/// The key that signed a call, as the call was let in.
#[derive(Debug, Clone)]
pub struct Signer {
    /// The id of the key's user.
    pub user_id: String,
    /// The key's id.
    pub access_key: String,
}

/// The user of a key, and the key's last use.
#[derive(Debug, Clone)]
pub struct KeyOwner {
    /// The user's name.
    pub user_name: String,
    /// Last use, as far as it was written: up to 15 minutes late.
    pub last_use: Option<KeyUse>,
}

impl Iam {
    /// Makes an access key for a user. `signer` is the key that signed the call, where it is a user's.
    ///
    /// # Errors
    /// [`MissingEntity`]; [`LimitExceeded`]; [`IamError::SignerInactive`]; [`IamError::NoMasterKey`];
    /// [`IamError::OtherMasterKey`]; any of [`IamError`].
    pub async fn create_access_key(&self, user: &str, signer: Option<Signer>) -> Result<NewKey> {
        let (records, rng) = (self.inner.records.clone(), &*self.inner.rng);
        let master_key = self.require_master_key()?;
        check_master_key(&records, master_key).await?;
        let name = user.to_owned();
        let owner = records.named::<UserRecord>(user).await?;
        if owner.keys.len() >= IAM_USER_KEYS_MAX {
            return Err(too_many());
        }
        let (id, secret) = (AccessKeyId::draw(rng), KeySecret::draw(rng));
        let key = KeyRecord {
            id,
            user: owner.reference(),
            created_ms: records.objects.now_ms(),
            secret: master_key.wrap(id, &secret, rng),
        };
        let made = NewKey { user_name: owner.name, key, secret };
        self.change("access key", async move {
            let put = |_: Option<KeyRecord>| Ok((Step::Put(made.key.clone()), ()));
            records.change(&id.register(), put).await?;
            let listed = records.change_named(&name, |user: &mut UserRecord| {
                // A user that took the name meanwhile is another one.
                if user.id != made.key.user.id {
                    return Err(missing(USER, &name).into());
                }
                check_signer(signer.as_ref(), user)?;
                if user.keys.len() >= IAM_USER_KEYS_MAX {
                    return Err(too_many());
                }
                user.keys.push(UserKey { id, status: KeyStatus::Active });
                Ok(())
            });
            match listed.await {
                Ok(()) => Ok(made),
                Err(error) => {
                    if !error.may_have_changed() {
                        records.clear(&id.register()).await;
                    }
                    Err(error)
                }
            }
        })
        .await
    }

    /// The access keys of a user.
    ///
    /// # Errors
    /// [`MissingEntity`]; any of [`IamError`].
    pub async fn access_keys(&self, user: &str) -> Result<UserKeys> {
        let user = self.inner.records.named::<UserRecord>(user).await?;
        let mut keys = Vec::new();
        for UserKey { id, status } in user.keys {
            let found = self.inner.records.read::<KeyRecord>(id.register()).await?;
            keys.extend(found.map(|found| (found.record, status)));
        }
        Ok(UserKeys { user_name: user.name, keys })
    }

    /// Makes a key of a user active, or not. `signer` is the key that signed the call, where it is a user's.
    ///
    /// # Errors
    /// [`MissingEntity`]; [`IamError::SignerInactive`]; any of [`IamError`].
    pub async fn set_key_status(
        &self,
        user: &str,
        key: &str,
        status: KeyStatus,
        signer: Option<Signer>,
    ) -> Result<()> {
        let key = key.to_owned();
        self.try_change_user(user, move |user| {
            if status == KeyStatus::Active {
                check_signer(signer.as_ref(), user)?;
            }
            let id = listed(user, &key)?;
            for known in user.keys.iter_mut().filter(|known| known.id == id) {
                known.status = status;
            }
            Ok(())
        })
        .await
    }

    /// Ends the requests of a user's key, active or not, that are under way through any node: uploads whose
    /// bodies are not here yet write nothing, and reads are cut off. Gives the names of the nodes that did
    /// not confirm it within 5 s: through those, requests that began before go on to their ends.
    ///
    /// # Errors
    /// [`MissingEntity`]; any of [`IamError`].
    pub async fn end_requests(&self, user: &str, key: &str) -> Result<Vec<String>> {
        let key = listed(&self.inner.records.named::<UserRecord>(user).await?, key)?;
        self.revoke_key(key);
        let Some(others) = &self.inner.others else { return Ok(Vec::new()) };
        let until = Instant::now() + REVOKE_WAIT;
        let asked = others.names().into_iter().map(|node| async move {
            let revoked = timeout_at(until, revoke_through(&**others, &node, key)).await;
            (revoked != Ok(true)).then_some(node)
        });
        Ok(join_all(asked).await.into_iter().flatten().collect())
    }

    /// Deletes a key of a user.
    ///
    /// # Errors
    /// [`MissingEntity`]; any of [`IamError`].
    pub async fn delete_access_key(&self, user: &str, key: &str) -> Result<()> {
        let records = self.inner.records.clone();
        let (user, key) = (user.to_owned(), key.to_owned());
        self.change("access key", async move {
            let remove = |found: &mut UserRecord| {
                let id = listed(found, &key)?;
                found.keys.retain(|known| known.id != id);
                Ok(id)
            };
            let id = records.change_named(&user, remove).await?;
            records.clear_key(id).await;
            records.clear(&id.register_of_use()).await;
            Ok(())
        })
        .await
    }

    /// The user of a key, and the key's last use.
    ///
    /// # Errors
    /// [`MissingEntity`]; any of [`IamError`].
    pub async fn key_owner(&self, key: &str) -> Result<KeyOwner> {
        let id = AccessKeyId::parse(key).ok_or_else(|| missing_key(key))?;
        let records = &self.inner.records;
        let found = records.read::<KeyRecord>(id.register()).await?.ok_or_else(|| missing_key(key))?;
        let owner = records.referred::<UserRecord>(&found.record.user).await?;
        let owner = owner.filter(|owner| owner.record.key(id).is_some());
        let user_name = owner.ok_or_else(|| missing_key(key))?.record.name;
        let last_use = records.read::<KeyUse>(id.register_of_use()).await?.map(|found| found.record);
        Ok(KeyOwner { user_name, last_use })
    }
}

/// Has a node end the requests of a key, again where it was not reached; `false` where it refuses.
async fn revoke_through(others: &dyn Gateways, node: &str, key: AccessKeyId) -> bool {
    loop {
        match others.revoke_key(node, key).await {
            Ok(()) => return true,
            Err(AskError::Refused { reason }) => {
                tracing::warn!(node, reason, "a node does not end requests of a key when it is asked");
                return false;
            }
            Err(AskError::Unreachable { .. }) => sleep(REVOKE_PAUSE).await,
        }
    }
}

/// Refuses a master key under which none of the account's active keys is kept, where it has some: a key that
/// is made under it would fail through the nodes that have the other one. Of some keys that one is kept under
/// it is enough.
pub(super) async fn check_master_key(records: &Records, own: &MasterKey) -> Result<()> {
    let (names, _) = records.objects.document_names(AccessKeyId::REGISTERS, None, COMPARED_KEYS_MAX).await?;
    let mut other = None;
    for name in names {
        let Some(key) = records.read::<KeyRecord>(RegisterKey::bucket(name)).await? else { continue };
        let key = key.record;
        let owner = records.referred::<UserRecord>(&key.user).await?;
        if owner.is_none_or(|owner| !owner.record.has_active(key.id)) {
            continue;
        }
        let kept = Fingerprint(key.secret.fingerprint);
        if kept == own.fingerprint() {
            return Ok(());
        }
        other = Some(kept);
    }
    match other {
        Some(kept) => Err(IamError::OtherMasterKey { kept, own: own.fingerprint() }),
        None => Ok(()),
    }
}

/// Refuses a call that a key of this user signed, where the key is active no more: who makes all keys of the
/// user inactive would have left one. Keys of other users are judged when the call is let in.
fn check_signer(signer: Option<&Signer>, user: &UserRecord) -> Result<()> {
    let Some(signer) = signer.filter(|signer| signer.user_id == user.id.as_str()) else { return Ok(()) };
    let is_active = AccessKeyId::parse(&signer.access_key).is_some_and(|id| user.has_active(id));
    if is_active { Ok(()) } else { Err(IamError::SignerInactive) }
}

fn listed(user: &UserRecord, key: &str) -> Result<AccessKeyId> {
    let id = AccessKeyId::parse(key).filter(|id| user.key(*id).is_some());
    Ok(id.ok_or_else(|| missing_key(key))?)
}

fn missing_key(key: &str) -> MissingEntity {
    MissingEntity::Key { id: key.to_owned() }
}

pub(super) fn too_many() -> IamError {
    LimitExceeded::Quota { quota: "AccessKeysPerUser", max: IAM_USER_KEYS_MAX }.into()
}
