//! Views of access keys and of the account, as requests take them.
//!
//! A view of a key is composed of several records. A change forgets all views at once on every node before it
//! returns, and a view is composed again where a forget came between its first read and its last, or where
//! that took two seconds. So a view shows at most one change in part, and that one had not returned when the
//! view's read began.
//!
//! ```text
//! read 1: key user policy | read 2: key user policy      forgets come in both, by changes of other users
//!                         ^ the same records in both: so they all were here, at one moment
//! ```
//! Where forgets come all the time, two reads behind each other that find the same records are an answer for
//! the requests that wait, which began before; no later request takes it. So one user's changes do not keep
//! another's requests waiting. Guards I-21.

use std::sync::Arc;
use std::time::Duration;

use quick_cache::sync::Cache;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;

use sherd_core::iam::{AccessKeyId, Account};

use super::error::IamReadError;
use super::key_view::{Composer, KeyLookup};
use super::limits::{
    COMPOSE_TRIES, COMPOSE_WAIT, GOOD_KEYS_MAX, UNKNOWN_PERIOD, VIEW_BYTES, VIEWS_BYTES_MAX,
};
use crate::views::limits::VIEW_PERIOD;
use crate::views::{LookupStart, ViewCache, ViewSource};

/// Names a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum IamName {
    Key(AccessKeyId),
    Account,
}

/// A view.
#[derive(Debug, Clone)]
pub(super) enum IamView {
    Key(KeyLookup),
    /// The records of a key are there, and give no view: why.
    Unusable(IamReadError),
    Account(Account),
}

/// The views of one node. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct IamViews {
    pub(super) composer: Composer,
    pub(super) cache: Arc<ViewCache<Self>>,
    /// Keys that were good at their last look-up. Nothing is decided by it but whose look-up waits.
    good: Arc<Cache<AccessKeyId, ()>>,
    tasks: TaskTracker,
}

impl IamViews {
    pub(super) fn new(composer: Composer) -> Self {
        let tasks = composer.records.objects.documents().registers().tasks().clone();
        let cache = Arc::new(ViewCache::with_bytes(VIEWS_BYTES_MAX, VIEW_BYTES));
        Self { composer, cache, good: Arc::new(Cache::new(GOOD_KEYS_MAX)), tasks }
    }

    /// Whether a key was good at its last look-up, also where its view was forgotten since.
    pub(super) fn was_good(&self, id: AccessKeyId) -> bool {
        self.good.get(&id).is_some()
    }

    async fn read_once(&self, name: &IamName) -> Result<IamView, IamReadError> {
        match name {
            IamName::Key(id) => {
                let before = self.cache.last(name).and_then(IamView::key);
                let found = match self.composer.compose(*id, before).await {
                    Err(error) if error.is_of_records() => return Ok(IamView::Unusable(error)),
                    found => found?,
                };
                match &found {
                    KeyLookup::Known(_) if self.good.peek(id).is_none() => self.good.insert(*id, ()),
                    KeyLookup::Known(_) => {}
                    KeyLookup::Unknown => drop(self.good.remove(id)),
                }
                Ok(IamView::Key(found))
            }
            IamName::Account => {
                let found = self.composer.records.read::<Account>(Account::register()).await?;
                Ok(IamView::Account(found.map(|found| found.record).unwrap_or_default()))
            }
        }
    }
}

impl IamView {
    /// Whether two reads, one behind the other, found the same records: so they were at one moment between.
    fn is_same_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Key(KeyLookup::Known(one)), Self::Key(KeyLookup::Known(other))) => one.is_same_as(other),
            // Each of these is decided by one record alone.
            (Self::Key(KeyLookup::Unknown), Self::Key(KeyLookup::Unknown)) => true,
            (Self::Account(one), Self::Account(other)) => one == other,
            (Self::Unusable(one), Self::Unusable(other)) => one == other,
            _ => false,
        }
    }

    pub(super) fn key(self) -> Option<KeyLookup> {
        match self {
            Self::Key(key) => Some(key),
            Self::Unusable(_) | Self::Account(_) => None,
        }
    }
}

impl ViewSource for IamViews {
    type Name = IamName;
    type View = IamView;
    type Error = IamReadError;

    fn weight(view: &IamView) -> u64 {
        match view {
            IamView::Key(KeyLookup::Known(view)) => view.weight(),
            IamView::Key(KeyLookup::Unknown) | IamView::Unusable(_) | IamView::Account(_) => VIEW_BYTES,
        }
    }

    fn period(view: &IamView) -> Duration {
        match view {
            IamView::Key(KeyLookup::Unknown) | IamView::Unusable(_) => UNKNOWN_PERIOD,
            IamView::Key(KeyLookup::Known(_)) | IamView::Account(_) => VIEW_PERIOD,
        }
    }

    fn views(&self) -> &Arc<ViewCache<Self>> {
        &self.cache
    }

    fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    async fn read_view(&self, name: &IamName, first: LookupStart) -> Result<IamView, IamReadError> {
        let (mut start, until) = (first, Instant::now() + COMPOSE_WAIT);
        let mut before: Option<IamView> = None;
        for _ in 0..COMPOSE_TRIES {
            let read = timeout_at(start.ends_at(), self.read_once(name)).await;
            before = match read {
                Ok(read) => {
                    let view = read?;
                    if self.cache.is_valid(name, start) {
                        self.cache.fill(start, name, view.clone());
                        return Ok(view);
                    }
                    if before.is_some_and(|before| before.is_same_as(&view)) {
                        return Ok(view);
                    }
                    Some(view)
                }
                Err(_too_late) => None,
            };
            if Instant::now() >= until {
                break;
            }
            start = self.cache.start(name);
        }
        Err(IamReadError::Changing)
    }
}
