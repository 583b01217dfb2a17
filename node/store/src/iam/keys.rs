//! Access keys of users.
//!
//! ```text
//! create: the key's record -> the user lists it: from here on it is good
//! delete: the user lists it no more: from here on it is not -> the key's record goes
//! ```
//! A crash between the two leaves a record that no user lists. It gives nothing, and no id is given twice.

use sherd_core::iam::{AccessKeyId, EntityKind, KeyRecord, KeyStatus, KeyUse, UserRecord};
use sherd_core::id::RegisterKey;
use sherd_core::limits::IAM_USER_KEYS_MAX;

use super::error::{IamError, LimitExceeded, MissingEntity, Result};
use super::fingerprint::Fingerprint;
use super::limits::COMPARED_KEYS_MAX;
use super::master_key::{KeySecret, MasterKey};
use super::records::{Records, Step};
use super::{Iam, entity, kind_register, missing};

const USER: EntityKind = EntityKind::User;

/// A key that was made, with its secret: no later call gives it.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// The key.
    pub key: KeyRecord,
    /// Its secret.
    pub secret: KeySecret,
}

/// The user of a key, and the key's last use.
#[derive(Debug, Clone)]
pub struct KeyOwner {
    /// The user's name.
    pub user_name: String,
    /// Its last use, as far as it was written: up to 15 minutes late.
    pub last_use: Option<KeyUse>,
}

impl Iam {
    /// Makes an access key for a user.
    ///
    /// # Errors
    /// [`MissingEntity`]; [`LimitExceeded`]; [`IamError::NoMasterKey`]; [`IamError::OtherMasterKey`]; any of
    /// [`IamError`].
    pub async fn create_access_key(&self, user: &str) -> Result<NewKey> {
        let (records, rng) = (self.inner.records.clone(), &*self.inner.rng);
        let master_key = self.require_master_key()?;
        check_master_key(&records, master_key).await?;
        let (register, name) = (kind_register(USER, user)?, user.to_owned());
        let owner = entity::<UserRecord>(&records, USER, user).await?;
        if owner.keys.len() >= IAM_USER_KEYS_MAX {
            return Err(too_many());
        }
        let (id, secret) = (AccessKeyId::draw(rng), KeySecret::draw(rng));
        let key = KeyRecord {
            id,
            user: owner.reference(),
            status: KeyStatus::Active,
            created_ms: records.objects.now_ms(),
            secret: master_key.wrap(id, &secret, rng),
        };
        let made = NewKey { key, secret };
        self.change("access key", async move {
            let put = |_: Option<KeyRecord>| Ok((Step::Put(made.key.clone()), ()));
            records.change(&id.register(), put).await?;
            let listed = records.change(&register, |user: Option<UserRecord>| {
                // A user that was made again under the name is another one.
                let user = user.filter(|user| user.id == made.key.user.id);
                let mut user = user.ok_or_else(|| missing(USER, &name))?;
                if user.keys.len() >= IAM_USER_KEYS_MAX {
                    return Err(too_many());
                }
                user.keys.push(id);
                Ok((Step::Put(user), ()))
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

    /// The access keys of a user, in the order in which they were made.
    ///
    /// # Errors
    /// [`MissingEntity`]; any of [`IamError`].
    pub async fn access_keys(&self, user: &str) -> Result<Vec<KeyRecord>> {
        let user = entity::<UserRecord>(&self.inner.records, USER, user).await?;
        let mut keys = Vec::new();
        for id in user.keys {
            let found = self.inner.records.read::<KeyRecord>(id.register()).await?;
            keys.extend(found.map(|found| found.record));
        }
        Ok(keys)
    }

    /// Makes a key of a user active, or not.
    ///
    /// # Errors
    /// [`MissingEntity`]; any of [`IamError`].
    pub async fn set_key_status(&self, user: &str, key: &str, status: KeyStatus) -> Result<()> {
        let owner = entity::<UserRecord>(&self.inner.records, USER, user).await?;
        let id = listed(&owner, key)?;
        let (records, gone) = (self.inner.records.clone(), missing_key(key));
        self.change("access key", async move {
            let set = |key: Option<KeyRecord>| {
                let key = key.ok_or_else(|| gone.clone())?;
                Ok((Step::Put(KeyRecord { status, ..key }), ()))
            };
            records.change(&id.register(), set).await
        })
        .await
    }

    /// Deletes a key of a user.
    ///
    /// # Errors
    /// [`MissingEntity`]; any of [`IamError`].
    pub async fn delete_access_key(&self, user: &str, key: &str) -> Result<()> {
        let (records, register) = (self.inner.records.clone(), kind_register(USER, user)?);
        let (user, key) = (user.to_owned(), key.to_owned());
        self.change("access key", async move {
            let remove = |found: Option<UserRecord>| {
                let mut found = found.ok_or_else(|| missing(USER, &user))?;
                let id = listed(&found, &key)?;
                found.keys.retain(|known| *known != id);
                Ok((Step::Put(found), id))
            };
            let id = records.change(&register, remove).await?;
            records.clear(&id.register()).await;
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
        let owner = records.read::<UserRecord>(kind_register(USER, &found.record.user.name)?).await?;
        let owner = owner.filter(|owner| owner.record.keys.contains(&id));
        let user_name = owner.ok_or_else(|| missing_key(key))?.record.name;
        let last_use = records.read::<KeyUse>(id.register_of_use()).await?.map(|found| found.record);
        Ok(KeyOwner { user_name, last_use })
    }
}

/// Refuses a master key under which none of the account's keys is kept, where it has some: a key that is made
/// under it would fail through the nodes that have the other one. Of some keys that one is kept under it is
/// enough.
async fn check_master_key(records: &Records, own: &MasterKey) -> Result<()> {
    let (names, _) = records.objects.document_names(AccessKeyId::REGISTERS, None, COMPARED_KEYS_MAX).await?;
    let mut other = None;
    for name in names {
        let Some(key) = records.read::<KeyRecord>(RegisterKey::bucket(name)).await? else { continue };
        let key = key.record;
        let owner = records.read::<UserRecord>(kind_register(USER, &key.user.name)?).await?;
        if !owner.is_some_and(|owner| owner.record.keys.contains(&key.id)) {
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

fn listed(user: &UserRecord, key: &str) -> Result<AccessKeyId> {
    let id = AccessKeyId::parse(key).filter(|id| user.keys.contains(id));
    Ok(id.ok_or_else(|| missing_key(key))?)
}

fn missing_key(key: &str) -> MissingEntity {
    MissingEntity::Key { id: key.to_owned() }
}

fn too_many() -> IamError {
    LimitExceeded::Quota { quota: "AccessKeysPerUser", max: IAM_USER_KEYS_MAX }.into()
}
