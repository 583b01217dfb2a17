//! Wants in a volume's log: what it lacks, as it logged that itself (`write/wants.rs`). They stand among the
//! MRF entries, under ids of their own.

use bytes::Bytes;

use sherd_core::heal::{HealEntry, HealId};
use sherd_core::id::Sequence;
use sherd_core::message::behind;

use crate::error::Error;
use crate::index::table::{self, Body};
use crate::read::reader::Reader;

/// A want in the volume's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedWant {
    /// Id of the want.
    pub id: HealId,
    /// Sequence of its record: a newer one under the same id is another want.
    pub sequence: Sequence,
    /// Data that the volume lacks, or the row of which it may lack some.
    pub want: HealEntry,
}

/// Wants that a volume logged, in the order of their ids, behind `after`.
///
/// # Errors
/// [`Error::Failed`].
pub fn wants(reader: &Reader, after: Option<HealId>, limit: usize) -> Result<Vec<LoggedWant>, Error> {
    let from = after.map_or_else(|| Bytes::from_static(&[table::HEAL]), |id| behind(&table::heal_key(id)));
    reader.collect(&from, table::HEAL, limit, |key, entry| match entry.body {
        Body::Heal { entry: stored } => {
            let id = table::parse_heal_key(key)?;
            let want = table::want_in(id, &stored)?;
            Some(LoggedWant { id, sequence: entry.origin.sequence, want })
        }
        Body::Row(_) | Body::Shard { .. } | Body::State(_) | Body::Release { .. } => None,
    })
}
