//! DELETE: a tombstone by quorum; the bytes go later.

use futures::{StreamExt, stream};
use std::collections::HashSet;

use sherd_core::id::ObjectKey;
use sherd_core::record::{KeptAnswer, State, history};

use super::condition::judge_write;
use super::{BucketRef, DeleteOutcome, Error, Objects, Result, WriteConditions};
use crate::register::{Proposal, Writer};

/// Keys of one DeleteObjects that are deleted at one time.
const CONCURRENT_DELETES: usize = 64;

/// Why a delete changes nothing.
#[derive(Debug)]
enum DeleteRefusal {
    /// Nothing is there to delete, or an earlier sending of the call has deleted it.
    Nothing,
    /// A condition does not hold.
    Refused(Error),
}

impl Objects {
    /// Deletes an object; succeeds when it does not exist.
    ///
    /// # Errors
    /// Any of [`Error`]; nothing changed unless it is `OutcomeUnknown`.
    pub async fn delete(&self, name: super::ObjectName, conditions: WriteConditions) -> Result<()> {
        let under = &self.inner.under;
        let route = under.route(&name).await?;
        let ticket = under.registers.begin_at(&route);
        let change = conditions.change(KeptAnswer::default(), &[]);
        let decide = move |state: Option<&State>| {
            let object = state.and_then(State::object);
            judge_write(&conditions, object).map_err(DeleteRefusal::Refused)?;
            let deletion = history::delete(object);
            if deletion.replaced.is_empty() {
                Err(DeleteRefusal::Nothing)
            } else {
                Ok(Proposal::of(deletion.object.into()))
            }
        };
        let writer = Writer::new(decide).sent_by(change, |_, _| DeleteRefusal::Nothing);
        match under.change_or(name.bucket.name(), &route, ticket, writer).await? {
            Ok(()) | Err(DeleteRefusal::Nothing) => Ok(()),
            Err(DeleteRefusal::Refused(error)) => Err(error),
        }
    }

    /// Deletes many objects of one bucket. A key that is named twice is deleted once.
    ///
    /// # Errors
    /// Errors of the bucket as a whole; those of one key are in its outcome.
    pub async fn delete_many(
        &self,
        bucket: BucketRef,
        keys: Vec<(ObjectKey, WriteConditions)>,
    ) -> Result<Vec<DeleteOutcome>> {
        let bucket = BucketRef::from(self.inner.under.view(&bucket).await?);
        let mut seen = HashSet::new();
        let unique = keys.into_iter().filter(|(key, _)| seen.insert(key.clone())).collect::<Vec<_>>();
        let outcomes = stream::iter(unique)
            .map(|(key, conditions)| {
                let name = super::ObjectName { bucket: bucket.clone(), key: key.clone() };
                async move { DeleteOutcome { key, result: self.delete(name, conditions).await } }
            })
            .buffered(CONCURRENT_DELETES)
            .collect()
            .await;
        Ok(outcomes)
    }
}
