//! The key that a Secret gives a BucketUser, by `secretRef`. The Secret is a person's or another program's:
//! it is read, and never written, deleted or logged.
//!
//! ```text
//! not there, or no key in it   -> condition; the keys that are in force stay, a former one until its end
//! another user's id            -> the same
//! the user's, another secret   -> removed and given again: one id has one secret
//! free, or the user's          -> as `keys` plans: a key that is not there is given, the one before it is
//!                                 the former one
//! ```

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt as _};

use super::key_changes::{EnsuredKey, key_verdict, take_and_resume};
use super::keys::{self, KeyFacts, KeyPlan, SecretKey};
use super::owner;
use crate::api::{AccessCondition, AccessReason, BucketUserStatus};
use crate::buckets::cluster::UsableCluster;
use crate::buckets::report::Verdict;
use crate::buckets::validate::ValidUser;
use crate::calls::CallError;
use crate::calls::iam::{self, AccessKey, GivenKey};
use crate::limits;
use crate::names::{ACCESS_KEY, SECRET_KEY};
use crate::reconcile::{Context, ReconcileError};
use crate::secret_text::SecretText;

/// The keys of a Secret with the id and the secret, in the order in which they are looked for.
const PAIRS: [[&str; 2]; 3] = [
    [ACCESS_KEY, SECRET_KEY],
    ["accesskey", "secretkey"],
    // As the console of MinIO's operator names them in the Secrets of a Tenant's users.
    ["CONSOLE_ACCESS_KEY", "CONSOLE_SECRET_KEY"],
];

/// Why a Secret gives no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MalformedSecret {
    /// One half of a pair.
    #[error("has the key {found} and no key {missing}")]
    Half {
        /// The key that is there.
        found: &'static str,
        /// The key that is not.
        missing: &'static str,
    },
    /// No pair.
    #[error(
        "has none of the pairs of keys {} and {}, {} and {}, {} and {}",
        PAIRS[0][0], PAIRS[0][1], PAIRS[1][0], PAIRS[1][1], PAIRS[2][0], PAIRS[2][1]
    )]
    NoPair,
    /// An id that no key can have.
    #[error(
        "has under the key {key} no id: {} to {} of the characters a-z, A-Z, 0-9 and _+.@-, without a line break",
        limits::KEY_ID_CHARACTERS.start(), limits::KEY_ID_CHARACTERS.end()
    )]
    Id {
        /// The key.
        key: &'static str,
    },
    /// A secret that no key can have.
    #[error(
        "has under the key {key} no secret: {} to {} visible ASCII characters, without a line break",
        limits::KEY_SECRET_CHARACTERS.start(), limits::KEY_SECRET_CHARACTERS.end()
    )]
    Secret {
        /// The key.
        key: &'static str,
    },
}

/// Returns the key that a Secret gives: the first whole pair.
///
/// # Errors
/// [`MalformedSecret`].
pub fn read(secret: &Secret) -> Result<AccessKey, MalformedSecret> {
    let find = |key: &str| secret.data.as_ref()?.get(key).map(|ByteString(bytes)| bytes.as_slice());
    let mut half = MalformedSecret::NoPair;
    for [id_key, secret_key] in PAIRS {
        let (id, secret) = match (find(id_key), find(secret_key)) {
            (Some(id), Some(secret)) => (id, secret),
            (Some(_), None) => {
                half = MalformedSecret::Half { found: id_key, missing: secret_key };
                continue;
            }
            (None, Some(_)) => {
                half = MalformedSecret::Half { found: secret_key, missing: id_key };
                continue;
            }
            (None, None) => continue,
        };
        let is_of_ids = |byte: &u8| byte.is_ascii_alphanumeric() || b"_+.@-".contains(byte);
        let id = text(id, &limits::KEY_ID_CHARACTERS, is_of_ids);
        let secret = text(secret, &limits::KEY_SECRET_CHARACTERS, u8::is_ascii_graphic);
        return Ok(AccessKey {
            id: id.ok_or(MalformedSecret::Id { key: id_key })?,
            secret: SecretText(secret.ok_or(MalformedSecret::Secret { key: secret_key })?),
        });
    }
    Err(half)
}

/// A text whose length is in a range, of characters of a kind.
fn text(
    bytes: &[u8],
    length: &std::ops::RangeInclusive<usize>,
    is_fitting: impl Fn(&u8) -> bool,
) -> Option<String> {
    let fits = length.contains(&bytes.len()) && bytes.iter().all(is_fitting);
    String::from_utf8(bytes.to_vec()).ok().filter(|_| fits)
}

/// Gives the user the key of a Secret, or reports why it has none or keeps the one before.
pub(super) async fn ensure(
    context: &Context,
    valid: &ValidUser<'_>,
    usable: &UsableCluster,
    is_ended: bool,
) -> Result<Result<EnsuredKey, CallError>, ReconcileError> {
    let user = valid.user;
    let name = user.secret_name();
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &user.namespace().unwrap_or_default());
    let found = api.get_opt(&name).await;
    let found = found.map_err(|source| ReconcileError::api("read", "Secret".into(), &name, source))?;
    let bad = |reason, message| Verdict::bad(AccessCondition::KeyReady, reason, message);
    let given = match found.as_ref().map(read) {
        None => Err(bad(AccessReason::SecretMissing, format!("Secret {name} is not there"))),
        Some(Err(malformed)) => Err(bad(AccessReason::SecretMalformed, format!("Secret {name} {malformed}"))),
        Some(Ok(key)) => Ok(key),
    };
    let mut last = user.status.clone().unwrap_or_default();
    last.suspended |= is_ended;
    let changed = async {
        let ensured = put_in_force(valid, usable, given, &last, (context.now)().as_second()).await?;
        if is_ended {
            owner::resume(user, usable).await?;
        }
        Ok(ensured)
    };
    Ok(changed.await)
}

async fn put_in_force(
    valid: &ValidUser<'_>,
    usable: &UsableCluster,
    given: Result<AccessKey, Verdict>,
    last: &BucketUserStatus,
    now_s: i64,
) -> Result<EnsuredKey, CallError> {
    let (calls, user, name) = (&usable.calls, valid.user.user_name(), valid.user.secret_name());
    let keys = iam::keys(calls, &user).await?;
    // Before anything is taken away: a key that cannot be given leaves all as it is.
    let given = match given {
        Ok(key) => match iam::find_given_key(calls, &user, &key).await? {
            GivenKey::Free => Ok(key),
            GivenKey::OtherSecret => iam::import_key(calls, &user, &key).await.map(|()| Ok(key))?,
            GivenKey::Taken => {
                let message = format!("the id of the key in Secret {name} is one of another user");
                Err(Verdict::bad(AccessCondition::KeyReady, AccessReason::KeyTaken, message))
            }
        },
        Err(verdict) => Err(verdict),
    };
    let key = match given {
        Ok(key) => key,
        Err(verdict) => {
            let plan = keys::plan_kept(&keys, last, now_s);
            change_keys(usable, &user, &plan, None).await?;
            return Ok((verdict, last.access_key_id.clone(), plan.former));
        }
    };
    let held = SecretKey { id: key.id.clone(), asked: None };
    let plan = keys::plan(&KeyFacts {
        keys: &keys,
        secret: Some(&held),
        status: last,
        rotate: None,
        overlap: valid.overlap,
        now_s,
    });
    change_keys(usable, &user, &plan, Some(&key)).await?;
    Ok((key_verdict(&name, plan.former.as_ref()), Some(key.id), plan.former))
}

async fn change_keys(
    usable: &UsableCluster,
    user: &str,
    plan: &KeyPlan,
    given: Option<&AccessKey>,
) -> Result<(), CallError> {
    take_and_resume(usable, user, plan).await?;
    match given.filter(|_| plan.make) {
        Some(key) => iam::import_key(&usable.calls, user, key).await,
        None => Ok(()),
    }
}
