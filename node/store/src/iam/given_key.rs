//! Access keys of another store, which are given with their ids and secrets.
//!
//! The id of a key of another store may come again, also while a call about it is under way.
//!
//! ```text
//! import: the key's record -> the user lists it -> the record once more, under another nonce
//! ```
//! The record of a user that is there is never taken by another user. A record that its own user does not
//! list, as a crash leaves it, is free for that user with any secret. The third step makes the first two
//! one: an import, or a deletion, that found the record unlisted before it was listed finds another record
//! when it writes, and judges again. An import that finds not its own record in the third step begins
//! again.

use std::sync::Arc;

use sherd_core::iam::{
    AccessKeyId, EntityId, EntityKind, KeyRecord, KeyStatus, NamedRecord, UserKey, UserRecord,
};
use sherd_core::limits::IAM_USER_KEYS_MAX;

use super::error::{IamError, KeyTaken, Result};
use super::keys::{check_master_key, too_many};
use super::limits::CHANGE_TRIES;
use super::master_key::{KeySecret, MasterKey};
use super::records::{Records, Step};
use super::{Iam, missing};

/// A key of another store.
#[derive(Debug, Clone)]
pub struct GivenKey {
    /// Id of the key.
    pub id: AccessKeyId,
    /// Secret of the key.
    pub secret: KeySecret,
    /// Whether it may be used. A key that the user has keeps its own.
    pub status: KeyStatus,
    /// Whether the secret takes the place of another one that the user's key of this id has.
    pub replaces: bool,
}

impl GivenKey {
    /// From its texts: an id of 3 to 64 of the characters a-z, A-Z, 0-9 and `_+.@-`, and a secret of 8 to
    /// 128 visible ASCII characters.
    ///
    /// # Errors
    /// [`IamError::GivenKeyId`], [`IamError::GivenSecret`].
    pub fn parse(id: &str, secret: &str, status: KeyStatus) -> Result<Self> {
        let id = AccessKeyId::parse(id).ok_or(IamError::GivenKeyId)?;
        let secret = KeySecret::given(secret).ok_or(IamError::GivenSecret)?;
        Ok(Self { id, secret, status, replaces: false })
    }

    /// Whether a user has the key, or may take it. The user may not be there.
    ///
    /// # Errors
    /// [`KeyTaken`]; [`IamError::NoMasterKey`]; [`IamError::OtherMasterKey`]; any of [`IamError`] of
    /// reading.
    pub async fn find(&self, iam: &Iam, user: &str) -> Result<GivenKeyState> {
        let (records, master_key) = (&iam.inner.records, iam.require_master_key()?);
        check_master_key(records, master_key).await?;
        let owner = match records.named::<UserRecord>(user).await {
            Ok(owner) => Some(owner.id),
            Err(IamError::NoSuchEntity(_)) => None,
            Err(error) => return Err(error),
        };
        let found = records.read::<KeyRecord>(self.id.register()).await?.map(|found| found.record);
        judge(records, master_key, found, owner.as_ref(), self).await
    }

    /// Gives the key to a user, and answers the state before: a key that the user has stays as it is.
    ///
    /// # Errors
    /// [`KeyTaken`]; [`IamError::NoSuchEntity`]; [`IamError::LimitExceeded`]; [`IamError::NoMasterKey`];
    /// [`IamError::OtherMasterKey`]; any of [`IamError`].
    pub async fn give(self, iam: &Iam, user: &str) -> Result<GivenKeyState> {
        let (records, master_key) = (iam.inner.records.clone(), iam.require_master_key()?.clone());
        check_master_key(&records, &master_key).await?;
        let owner = records.named::<UserRecord>(user).await?;
        if owner.key(self.id).is_none() && owner.keys.len() >= IAM_USER_KEYS_MAX {
            return Err(too_many());
        }
        let (user, name) = (owner.reference(), user.to_owned());
        let rng = Arc::clone(&iam.inner.rng);
        iam.change("access key", async move {
            let key = |created_ms| KeyRecord {
                id: self.id,
                user: user.clone(),
                created_ms,
                secret: master_key.wrap(self.id, &self.secret, &*rng),
            };
            for _ in 0..CHANGE_TRIES {
                let record = key(records.objects.now_ms());
                let put = |found: Option<KeyRecord>| async {
                    let state = judge(&records, &master_key, found, Some(&user.id), &self).await?;
                    let step = match state {
                        GivenKeyState::Free | GivenKeyState::OtherSecret => Step::Put(record.clone()),
                        GivenKeyState::Held(_) => Step::Keep,
                    };
                    Ok((step, state))
                };
                let before = records.change_by(&self.id.register(), put).await?;
                if matches!(before, GivenKeyState::Held(_)) {
                    return Ok(before);
                }
                if let Err(error) = list(&records, &name, &record, &self).await {
                    if !error.may_have_changed() {
                        records.clear_key(self.id).await;
                    }
                    return Err(error);
                }
                let confirmed = key(record.created_ms);
                let confirm = |found: Option<KeyRecord>| {
                    let is_own = found.as_ref() == Some(&record);
                    Ok((if is_own { Step::Put(confirmed.clone()) } else { Step::Keep }, is_own))
                };
                if records.change(&self.id.register(), confirm).await? {
                    return Ok(before);
                }
            }
            Err(IamError::ConcurrentModification)
        })
        .await
    }
}

/// Whether a given key is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivenKeyState {
    /// No user has the key.
    Free,
    /// The user has a key of this id with another secret, in whose place this one may come.
    OtherSecret,
    /// The user has it, with this secret.
    Held(KeyStatus),
}

/// Decides whether a user has a key, by its record.
async fn judge(
    records: &Records,
    master_key: &MasterKey,
    found: Option<KeyRecord>,
    user: Option<&EntityId>,
    given: &GivenKey,
) -> Result<GivenKeyState> {
    let Some(found) = found else { return Ok(GivenKeyState::Free) };
    let Some(holder) = records.referred::<UserRecord>(&found.user).await? else {
        return Ok(GivenKeyState::Free);
    };
    let (holder, id) = (holder.record, given.id);
    if Some(&holder.id) != user {
        return Err(KeyTaken::ByUser { id, user: holder.name }.into());
    }
    let Some(listed) = holder.key(id) else { return Ok(GivenKeyState::Free) };
    // A key that was listed since the record was read has another one: a write over the first is refused.
    let is_of_list = records.read::<KeyRecord>(id.register()).await?.is_some_and(|now| now.record == found);
    if !is_of_list {
        return Ok(GivenKeyState::Free);
    }
    if master_key.unwrap(id, &found.secret)? == given.secret {
        return Ok(GivenKeyState::Held(listed.status));
    }
    if given.replaces { Ok(GivenKeyState::OtherSecret) } else { Err(KeyTaken::OtherSecret { id }.into()) }
}

/// Adds a key to the list of its user. A key that stands there has been listed since its record was judged,
/// or is replaced.
async fn list(records: &Records, name: &str, key: &KeyRecord, given: &GivenKey) -> Result<()> {
    let list = |user: &mut UserRecord| {
        // A user that took the name meanwhile is another one.
        if user.id != key.user.id {
            return Err(missing(EntityKind::User, name).into());
        }
        if let Some(listed) = user.keys.iter_mut().find(|listed| listed.id == key.id) {
            if !given.replaces {
                listed.status = given.status;
            }
            return Ok(());
        }
        if user.keys.len() >= IAM_USER_KEYS_MAX {
            return Err(too_many());
        }
        user.keys.push(UserKey { id: key.id, status: given.status });
        Ok(())
    };
    records.change_named(name, list).await
}
