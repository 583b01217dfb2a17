//! IAM's records as documents: read, listed, and changed by compare-and-set of the record that was read.

use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use sherd_core::codec::DecodeError;
use sherd_core::iam::{
    AccessKeyId, Account, EntityId, EntityKind, EntityRef, GroupRecord, KeyRecord, KeyUse, ManagedPolicy,
    NameRegister, NamedRecord, UserRecord,
};
use sherd_core::id::{ObjectKey, RegisterKey};

use super::error::{IamError, IamReadError, Result};
use super::limits::{
    CHANGE_TRIES, COUNT_PERIOD, LISTED_BYTES, LISTED_NAMES_MAX, PAGES_AT_ONCE, PLACE_WAIT, READS_AT_ONCE,
    SEARCHES_AT_ONCE, SIMULATIONS_AT_ONCE,
};
use super::places::Places;
use crate::object::Objects;
use crate::object::documents::{Document, DocumentRefusal};

/// The content of a register, with its stored form.
pub(super) trait Record: Clone + Send + Sync + 'static {
    fn to_bytes(&self) -> Bytes;
    fn from_bytes(register: &RegisterKey, bytes: Bytes) -> std::result::Result<Self, DecodeError>;
}

macro_rules! records {
    ($($record:ty),+) => {
        $(impl Record for $record {
            fn to_bytes(&self) -> Bytes {
                self.encode()
            }

            fn from_bytes(_: &RegisterKey, bytes: Bytes) -> std::result::Result<Self, DecodeError> {
                Self::decode(bytes)
            }
        })+
    };
}

records!(ManagedPolicy, KeyRecord, KeyUse, Account);

impl<E: NamedRecord + Clone + Send + Sync + 'static> Record for NameRegister<E> {
    fn to_bytes(&self) -> Bytes {
        self.encode()
    }

    fn from_bytes(register: &RegisterKey, bytes: Bytes) -> std::result::Result<Self, DecodeError> {
        Self::decode(bytes, register.key.as_str().rsplit('/').next().unwrap_or_default())
    }
}

/// A user, a group or a managed policy.
pub(super) trait EntityRecord: Clone + Send + Sync + 'static {
    /// The content of the register that it lives in.
    type Register: Record;
    const ENTITY: EntityKind;
    fn entity_id(&self) -> &EntityId;
    fn of(register: Self::Register) -> Option<Self>;
}

macro_rules! named_entities {
    ($($record:ident),+) => {
        $(impl EntityRecord for $record {
            type Register = NameRegister<Self>;
            const ENTITY: EntityKind = Self::KIND;

            fn entity_id(&self) -> &EntityId {
                &self.id
            }

            fn of(register: NameRegister<Self>) -> Option<Self> {
                register.resident
            }
        })+
    };
}

named_entities!(UserRecord, GroupRecord);

impl EntityRecord for ManagedPolicy {
    type Register = Self;
    const ENTITY: EntityKind = EntityKind::Policy;

    fn entity_id(&self) -> &EntityId {
        &self.id
    }

    fn of(register: Self) -> Option<Self> {
        Some(register)
    }
}

/// A record as it was read.
#[derive(Debug, Clone)]
pub(super) struct FoundRecord<R> {
    pub(super) record: R,
    pub(super) document: Document,
}

/// The next state of a register.
pub(super) enum Step<R> {
    Put(R),
    Remove,
    Keep,
}

/// One page of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<R> {
    /// Records by the last parts of their registers' names: a renamed record keeps the position of its first
    /// name.
    pub records: Vec<R>,
    /// The marker of the next page, where there may be more. A page may be short and still have a next one.
    pub next: Option<String>,
}

/// All records. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Records {
    pub(super) objects: Objects,
    /// Pages of listings that are read at one time.
    pages: Places,
    /// Searches through all records of a kind.
    pub(super) searches: Places,
    /// Simulations, which keep no search out.
    pub(super) simulations: Places,
    counts: Arc<RememberedCounts>,
    #[cfg(test)]
    pub(super) gate: Arc<super::tests::gate::Gate>,
}

/// How many records of each kind there were when they were counted the last time. Locked while they are.
#[derive(Debug, Default)]
struct RememberedCounts {
    users: Mutex<Option<RememberedCount>>,
    groups: Mutex<Option<RememberedCount>>,
    policies: Mutex<Option<RememberedCount>>,
}

#[derive(Debug, Clone, Copy)]
struct RememberedCount {
    at: Instant,
    records: usize,
}

impl RememberedCounts {
    const fn of(&self, kind: EntityKind) -> &Mutex<Option<RememberedCount>> {
        match kind {
            EntityKind::User => &self.users,
            EntityKind::Group => &self.groups,
            EntityKind::Policy => &self.policies,
        }
    }
}

impl Records {
    pub(super) fn new(objects: Objects) -> Self {
        let (pages, searches) = (Places::new(PAGES_AT_ONCE), Places::new(SEARCHES_AT_ONCE));
        let simulations = Places::new(SIMULATIONS_AT_ONCE);
        Self {
            objects,
            pages,
            searches,
            simulations,
            counts: Arc::default(),
            #[cfg(test)]
            gate: Arc::default(),
        }
    }

    pub(super) async fn read<R: Record>(
        &self,
        register: RegisterKey,
    ) -> std::result::Result<Option<FoundRecord<R>>, IamReadError> {
        #[cfg(test)]
        self.gate.pass().await?;
        let Some(document) = self.objects.documents().read(register.clone()).await? else { return Ok(None) };
        match R::from_bytes(&register, document.bytes.clone()) {
            Ok(record) => Ok(Some(FoundRecord { record, document })),
            Err(source) => Err(IamReadError::Undecodable { register: register.key.to_string(), source }),
        }
    }

    /// The entity that lives in a register, if one does.
    pub(super) async fn resident<R: EntityRecord>(
        &self,
        register: RegisterKey,
    ) -> std::result::Result<Option<FoundRecord<R>>, IamReadError> {
        let Some(FoundRecord { record, document }) = self.read::<R::Register>(register).await? else {
            return Ok(None);
        };
        Ok(R::of(record).map(|record| FoundRecord { record, document }))
    }

    /// The entity that is named, whichever name it has; `None` where it is gone.
    pub(super) async fn referred<R: EntityRecord>(
        &self,
        named: &EntityRef,
    ) -> std::result::Result<Option<FoundRecord<R>>, IamReadError> {
        Ok(self
            .resident::<R>(home_of::<R>(named)?)
            .await?
            .filter(|found| *found.record.entity_id() == named.id))
    }

    /// Changes a record as `decide` says of what is there, again where another change came between.
    pub(super) async fn change<R: Record, T: Send>(
        &self,
        register: &RegisterKey,
        mut decide: impl FnMut(Option<R>) -> Result<(Step<R>, T)> + Send,
    ) -> Result<T> {
        self.change_by(register, |found| std::future::ready(decide(found))).await
    }

    /// As [`Self::change`], where the decision reads other records.
    pub(super) async fn change_by<R: Record, T: Send, D>(
        &self,
        register: &RegisterKey,
        mut decide: impl FnMut(Option<R>) -> D + Send,
    ) -> Result<T>
    where
        D: Future<Output = Result<(Step<R>, T)>> + Send,
    {
        for _ in 0..CHANGE_TRIES {
            let found = self.read::<R>(register.clone()).await?;
            let (record, known) = found.map(|found| (found.record, found.document)).unzip();
            let (known, before) = known.map(|known| (known.bytes, known.body)).unzip();
            let (step, outcome) = decide(record).await?;
            #[cfg(test)]
            self.gate.pass().await?;
            let documents = self.objects.documents();
            let changed = match step {
                Step::Put(record) => {
                    let bytes = record.to_bytes();
                    // The same bytes are not written again: views of them keep their identity, and the rights
                    // that were compiled for it.
                    if known.as_ref() == Some(&bytes) {
                        return Ok(outcome);
                    }
                    documents.replace(register.clone(), before, bytes, self.objects.now_ms()).await
                }
                Step::Remove if before.is_some() => documents.remove(register, before).await,
                Step::Remove | Step::Keep => Ok(()),
            };
            match changed {
                Ok(()) => return Ok(outcome),
                Err(DocumentRefusal::Conflict) => {}
                Err(DocumentRefusal::Failed(error)) => return Err(error.into()),
            }
        }
        Err(IamError::ConcurrentModification)
    }

    /// Removes a record that nothing can use any more. Where this fails, it is left, and gives nothing.
    pub(super) async fn clear(&self, register: &RegisterKey) {
        if let Err(DocumentRefusal::Failed(error)) = self.objects.documents().remove(register, None).await {
            tracing::debug!(?register, %error, "a record of IAM that gives nothing is left");
        }
    }

    /// Removes the record of a key where its user does not list it. Where this fails, it is left, and gives
    /// nothing.
    pub(super) async fn clear_key(&self, id: AccessKeyId) {
        let remove = |found: Option<KeyRecord>| async {
            let Some(key) = found else { return Ok((Step::Keep, ())) };
            let user = self.referred::<UserRecord>(&key.user).await?;
            let is_listed = user.is_some_and(|user| user.record.key(id).is_some());
            Ok((if is_listed { Step::Keep } else { Step::Remove }, ()))
        };
        if let Err(error) = self.change_by(&id.register(), remove).await {
            tracing::debug!(key = %id, %error, "a record of a key that gives nothing is left");
        }
    }

    /// Lists the records that `keep` takes, of the registers behind `marker`. An entity stays in its register
    /// when it is renamed, so that it is listed once. The page ends early where its records are long.
    pub(super) async fn list<R: EntityRecord>(
        &self,
        marker: Option<&str>,
        max: usize,
        keep: impl Fn(&R) -> bool + Send + Sync,
    ) -> Result<Page<R>> {
        let _place = self.pages.take().await?;
        let prefix = R::ENTITY.registers();
        let after = marker.map(|marker| format!("{prefix}{}", marker.to_ascii_lowercase()));
        let (names, stopped) = self.objects.document_names(prefix, after, LISTED_NAMES_MAX).await?;
        let read = |name: ObjectKey| async move {
            Ok::<_, IamReadError>((self.resident::<R>(RegisterKey::bucket(name.clone())).await?, name))
        };
        let mut reads = stream::iter(names).map(read).buffered(READS_AT_ONCE);
        let mut page = Page { records: Vec::new(), next: None };
        let (mut last, mut bytes) = (None, 0);
        while let Some((found, name)) = reads.try_next().await? {
            if let Some(found) = found.filter(|found| keep(&found.record)) {
                if page.records.len() >= max || bytes >= LISTED_BYTES {
                    page.next = last;
                    return Ok(page);
                }
                bytes += found.document.bytes.len();
                page.records.push(found.record);
            }
            last = marker_of(prefix, name.as_str());
        }
        page.next = stopped.and_then(|stopped| marker_of(prefix, &stopped));
        Ok(page)
    }

    /// All records of a kind that `keep` takes. Reads each of that kind, for few callers at one time.
    pub(super) async fn all<R: EntityRecord>(
        &self,
        keep: impl Fn(&R) -> bool + Send + Sync,
    ) -> Result<Vec<R>> {
        let _place = self.searches.take().await?;
        let (mut all, mut marker) = (Vec::new(), None);
        loop {
            let page = self.list::<R>(marker.as_deref(), LISTED_NAMES_MAX, &keep).await?;
            all.extend(page.records);
            match page.next {
                Some(next) => marker = Some(next),
                None => return Ok(all),
            }
        }
    }

    /// The number of records of a kind, as it was at most [`COUNT_PERIOD`] ago. Counts as a search does, and
    /// once for all callers of that time.
    pub(super) async fn count<R: EntityRecord>(&self) -> Result<usize> {
        let Ok(mut remembered) = timeout(PLACE_WAIT, self.counts.of(R::ENTITY).lock()).await else {
            return Err(IamError::Busy);
        };
        if let Some(count) = remembered.filter(|count| count.at.elapsed() < COUNT_PERIOD) {
            return Ok(count.records);
        }
        let _place = self.searches.take().await?;
        let (at, mut records, mut marker) = (Instant::now(), 0, None);
        loop {
            let page = self.list::<R>(marker.as_deref(), LISTED_NAMES_MAX, |_| true).await?;
            records += page.records.len();
            match page.next {
                Some(next) => marker = Some(next),
                None => break,
            }
        }
        *remembered = Some(RememberedCount { at, records });
        Ok(records)
    }

    /// Whether `is` holds of any record of a kind. Searches as [`Self::all`] does.
    pub(super) async fn any<R: EntityRecord>(&self, is: impl Fn(&R) -> bool + Send + Sync) -> Result<bool> {
        let _place = self.searches.take().await?;
        let mut marker = None;
        loop {
            let page = self.list::<R>(marker.as_deref(), 1, &is).await?;
            match page.next {
                _ if !page.records.is_empty() => return Ok(true),
                Some(next) => marker = Some(next),
                None => return Ok(false),
            }
        }
    }
}

/// The register that an entity lives in.
pub(super) fn home_of<R: EntityRecord>(named: &EntityRef) -> std::result::Result<RegisterKey, IamReadError> {
    named.register(R::ENTITY).map_err(|_| IamReadError::Undecodable {
        register: format!("{}{}", R::ENTITY.registers(), named.home),
        source: DecodeError::Invalid { field: "home" },
    })
}

fn marker_of(prefix: &str, name: &str) -> Option<String> {
    name.strip_prefix(prefix).map(str::to_owned)
}
