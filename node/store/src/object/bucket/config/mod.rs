//! How a bucket is configured: entries of its record, changed by one compare-and-set of its register.
//!
//! ```text
//! document written, where there is one -> the entry that names it, by compare-and-set -> the former removed
//! ```
//! The compare-and-set is of the bucket's id and of the document that the entry named: so the document that
//! is removed was named by a committed entry, and no later one names it again. A crash before or behind the
//! compare-and-set leaves a document that no entry names; upkeep removes it by its age, when no writer can
//! name it any more: an entry is proposed at most an hour after its document was written, by the writer's
//! monotonic clock.

use bytes::Bytes;
use futures::future::join;
use std::time::Duration;
use tokio::time::Instant;

use sherd_core::config::{ConfigEntry, ConfigKind, ConfigValue, Generation};
use sherd_core::id::{BucketId, ChangeId, ObjectKey};
use sherd_core::limits::{CONFIG_BYTES_MAX, CONFIG_INLINE_BYTES_MAX, CONFIG_WRITE_MS_MAX};
use sherd_core::record::{Bucket, BucketPhase, Entries, State};

use super::{Buckets, active_in, proposal};
use crate::cluster::KeyRoute;
use crate::object::documents::{DocumentRefusal, Documents};
use crate::object::error::{Error, Invalid, Result};
use crate::object::limits::CONFIG_TRIES;
use crate::object::task::to_the_end;
use crate::register::Writer;

/// Why an entry was not changed.
#[derive(Debug)]
enum EntryRefusal {
    /// The bucket is another one, or its entry names another document, than was read.
    Conflict,
    Refused(Error),
}

/// A document that this change has written.
#[derive(Debug, Clone, Copy)]
struct WrittenDocument {
    bucket: BucketId,
    generation: Generation,
    began: Instant,
}

/// The next entry of a kind, and what the bucket must be for it.
#[derive(Debug, Clone)]
struct EntryChange {
    bucket: BucketId,
    kind: ConfigKind,
    before: Option<Generation>,
    entry: Option<Bytes>,
    written: Option<WrittenDocument>,
}

impl Buckets {
    /// Configures one kind, in place of what the bucket had of it.
    pub(in crate::object) async fn set_config(&self, name: ObjectKey, value: &ConfigValue) -> Result<()> {
        let (kind, bytes) = (value.kind(), value.encode());
        if bytes.len() > CONFIG_BYTES_MAX {
            let (size, max) = (bytes.len() as u64, CONFIG_BYTES_MAX as u64);
            return Err(Invalid::TooLarge { size, max }.into());
        }
        self.replace_config(name, kind, Some(bytes)).await
    }

    /// Removes one kind.
    pub(in crate::object) async fn remove_config(&self, name: ObjectKey, kind: ConfigKind) -> Result<()> {
        self.replace_config(name, kind, None).await
    }

    /// Removes the documents that a deleted bucket names.
    pub(super) async fn remove_documents(&self, route: &KeyRoute, id: BucketId) {
        let Ok(Some(found)) = self.under.registers.read_at(route).await else { return };
        // Where another bucket has the name by now, they are removed by their age.
        if let State::Bucket(bucket) = &found.value.state
            && bucket.id == id
            && bucket.phase == BucketPhase::Deleted
        {
            for &kind in ConfigKind::ALL {
                let entry = bucket.entries.get(kind.number());
                remove_named(&self.under.documents, id, kind, entry).await;
            }
        }
    }

    /// Goes on although its request is dropped: it returns when the change is in force through every node.
    async fn replace_config(&self, name: ObjectKey, kind: ConfigKind, bytes: Option<Bytes>) -> Result<()> {
        let buckets = self.clone();
        let change = async move { buckets.replace_to_the_end(&name, kind, bytes).await };
        to_the_end(self.under.registers.tasks(), "bucket configuration", change).await
    }

    async fn replace_to_the_end(
        &self,
        name: &ObjectKey,
        kind: ConfigKind,
        bytes: Option<Bytes>,
    ) -> Result<()> {
        let mut written = None;
        for _ in 0..CONFIG_TRIES {
            let bucket = self.under.stored(name).await?;
            let entry = match &bytes {
                None => None,
                Some(bytes) if bytes.len() <= CONFIG_INLINE_BYTES_MAX => {
                    Some(ConfigEntry::Inline(bytes.clone()))
                }
                Some(bytes) => Some(self.document(bucket.id, kind, bytes, &mut written).await?),
            };
            let named = bucket.entries.get(kind.number());
            let change = EntryChange {
                bucket: bucket.id,
                kind,
                before: generation_of(named),
                entry: entry.map(|entry| entry.encode()),
                written,
            };
            match self.change_entry(name, change).await {
                Ok(()) => {
                    let removed = remove_named(&self.under.documents, bucket.id, kind, named);
                    join(self.forgetting.everywhere(name), removed).await;
                    return Ok(());
                }
                Err(EntryRefusal::Conflict) => {}
                Err(EntryRefusal::Refused(error)) => {
                    self.under.forget(name);
                    return Err(error);
                }
            }
        }
        Err(Error::BucketBusy)
    }

    /// The entry that names these bytes in a document of a bucket, which is written unless this change has
    /// done so.
    async fn document(
        &self,
        bucket: BucketId,
        kind: ConfigKind,
        bytes: &Bytes,
        written: &mut Option<WrittenDocument>,
    ) -> Result<ConfigEntry> {
        let length = u32::try_from(bytes.len()).expect("at most CONFIG_BYTES_MAX");
        if let Some(known) = written.filter(|known| known.bucket == bucket) {
            return Ok(ConfigEntry::Document { generation: known.generation, length });
        }
        let made = self.clock.tick();
        let generation = Generation(ChangeId { made, proposer: self.under.registers.proposer() });
        *written = Some(WrittenDocument { bucket, generation, began: Instant::now() });
        let register = generation.register(bucket, kind);
        self.under.documents.write(register, bytes.clone(), self.clock.wall().wall_ms()).await?;
        Ok(ConfigEntry::Document { generation, length })
    }

    async fn change_entry(
        &self,
        name: &ObjectKey,
        change: EntryChange,
    ) -> std::result::Result<(), EntryRefusal> {
        let decide = move |state: Option<&State>| {
            let bucket = active_in(state).map_err(EntryRefusal::Refused)?;
            change.judge(bucket)?;
            Ok(proposal(Bucket { entries: change.entries(&bucket.entries), ..bucket.clone() }))
        };
        let route = self.route(name.clone());
        let ticket = self.under.registers.begin_at(&route);
        let changed = self.under.change_or(name, &route, ticket, Writer::new(decide)).await;
        changed.map_err(EntryRefusal::Refused)?
    }
}

impl EntryChange {
    /// Judges whether the entry may be proposed for the bucket as it is.
    fn judge(&self, bucket: &Bucket) -> std::result::Result<(), EntryRefusal> {
        let is_late =
            |written: &WrittenDocument| written.began.elapsed() >= Duration::from_millis(CONFIG_WRITE_MS_MAX);
        if self.written.as_ref().is_some_and(is_late) {
            return Err(EntryRefusal::Refused(Error::OutcomeUnknown));
        }
        let named = generation_of(bucket.entries.get(self.kind.number()));
        if bucket.id == self.bucket && named == self.before { Ok(()) } else { Err(EntryRefusal::Conflict) }
    }

    fn entries(&self, before: &Entries) -> Entries {
        let mut entries = before.clone();
        match &self.entry {
            Some(bytes) => entries.set(self.kind.number(), bytes.clone()),
            None => entries.remove(self.kind.number()),
        }
        entries
    }
}

/// The document that an entry names.
fn generation_of(entry: Option<&Bytes>) -> Option<Generation> {
    match ConfigEntry::decode(entry?.clone()) {
        Ok(ConfigEntry::Document { generation, .. }) => Some(generation),
        Ok(ConfigEntry::Inline(_)) | Err(_) => None,
    }
}

/// Removes the document that an entry names, where it names one. Where this fails, its age removes it.
async fn remove_named(documents: &Documents, bucket: BucketId, kind: ConfigKind, entry: Option<&Bytes>) {
    let Some(generation) = generation_of(entry) else { return };
    let register = generation.register(bucket, kind);
    if let Err(DocumentRefusal::Failed(error)) = documents.remove(&register, None).await {
        tracing::debug!(?register, %error, "a replaced document is left for now");
    }
}

#[cfg(test)]
mod tests;
