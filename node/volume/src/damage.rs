//! What opening found rotten becomes MRF entries in the volume's own log, durable before anything is
//! answered: a record that is replayed once is behind the index's checkpoint the next time, and nobody
//! would know of it before a read or the scrubber meets it.

use sherd_core::heal::{DamagedData, HealEntry};

use crate::error::Error;
use crate::format::{Flags, Subject};
use crate::log::append::NewRecord;
use crate::plan::Plan;
use crate::volume::Volume;

impl Volume {
    /// Queues the heal of every row and shard whose payload is not what was written. A disk without room
    /// for that is no reason not to open.
    pub(crate) fn queue_damage(&mut self, rotten: &[Subject]) -> Result<(), Error> {
        let since_ms = self.shared.clock.wall_ms();
        let limit = self.log.batch_bytes_max() / 2;
        let mut plan = Plan::default();
        for entry in rotten.iter().filter_map(|subject| entry_of(subject, since_ms)) {
            if plan.bytes > limit {
                self.commit(std::mem::take(&mut plan), 0);
            }
            let subject = Subject::Heal { id: entry.id() };
            plan.push(NewRecord::new(subject, Flags::default(), [entry.encode()]));
        }
        if !plan.is_empty() {
            self.commit(plan, 0);
        }
        self.shared.check()
    }
}

fn entry_of(rotten: &Subject, since_ms: u64) -> Option<HealEntry> {
    let (key, data) = match rotten {
        Subject::Row { key, .. } => (key, None),
        Subject::Shard { shard, key } => (key, Some(DamagedData::Id(shard.data))),
        // A commit is learnt again, an entry of the queue is in the other volumes' logs too, and the rest
        // has no payload.
        Subject::Hints
        | Subject::Heal { .. }
        | Subject::Delete { .. }
        | Subject::Bound(_)
        | Subject::Floor(_)
        | Subject::DataFloor(_)
        | Subject::Epoch { .. }
        | Subject::Seal { .. }
        | Subject::Peer { .. }
        | Subject::Segment { .. }
        | Subject::Phase { .. } => return None,
    };
    Some(HealEntry { key: key.clone(), data, since_ms })
}
