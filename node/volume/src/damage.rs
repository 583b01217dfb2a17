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
                self.write_damage(std::mem::take(&mut plan))?;
            }
            let subject = Subject::Heal { id: entry.id() };
            plan.push(NewRecord::new(subject, Flags::default(), [entry.encode()]));
        }
        if !plan.is_empty() {
            self.write_damage(plan)?;
        }
        self.shared.check()
    }

    fn write_damage(&mut self, plan: Plan) -> Result<(), Error> {
        match self.commit(plan, 0) {
            Ok(()) | Err(Error::Full) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn entry_of(rotten: &Subject, since_ms: u64) -> Option<HealEntry> {
    let (key, data) = match rotten {
        Subject::Row { key, .. } => (key, None),
        Subject::Shard { shard, key } => (key, Some(DamagedData::Id(shard.data))),
        // A commit is learnt again, an entry of the queue is in the other volumes' logs too, what a lost
        // note of replaced data is about the sweeper finds, and the rest has no payload.
        Subject::Hints
        | Subject::Heal { .. }
        | Subject::Release { .. }
        | Subject::Delete { .. }
        | Subject::Bound(_)
        | Subject::Floor(_)
        | Subject::DataFloor(_)
        | Subject::ClockReading(_)
        | Subject::Epoch { .. }
        | Subject::Seal { .. }
        | Subject::Peer { .. }
        | Subject::Position { .. }
        | Subject::Segment { .. }
        | Subject::Phase { .. } => return None,
    };
    Some(HealEntry { key: key.clone(), data, since_ms })
}
