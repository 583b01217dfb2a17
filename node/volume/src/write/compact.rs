//! Copies the living out of old segments, so that their files can be used again.
//!
//! A sealed segment that is under half needed, and that the index has behind it durably, is walked record by
//! record. A record that an entry still points at is written again with its original sequence and its
//! committed flag; a delete while a segment is kept that may hold what it kills; a commit while only its hint
//! records it. Only then the segment's own record is deleted, durably and with a frame behind it, and only
//! then its file goes. Killed at any point this loses nothing (the old copy is there until the new one is
//! durable) and leaks nothing (opening removes a segment whose record is gone; a half-copied one is walked
//! again, and moved records are found dead).

use bytes::Bytes;

use sherd_core::id::Sequence;

use crate::error::Error;
use crate::format::{
    FRAME_HEADER_BYTES, Flags, FrameHeader, Hint, RECORD_HEADER_BYTES, RecordHeader, Subject, decode_hints,
};
use crate::identity::LostRange;
use crate::index::table::{Body, RecordLocation, key_of, row_key, segment_key};
use crate::log::FIRST_FRAME;
use crate::log::append::{HintedCommit, NewRecord};
use crate::log::read::{self, ReadError, SegmentBytes, VerifiedHead};
use crate::lookup::Source;
use crate::write::compaction::{CompactionPass, InFrame, RetiringSegment, SegmentDamage};
use crate::write::piggyback_queue::hint_bytes;
use crate::write::plan::BatchPlan;
use crate::write::volume::Volume;

/// Reclaims after which deletes are judged again, at least: they die with what they kill.
const DELETES_AGAIN: u64 = 8;

/// Result of a step of compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionStep {
    /// Nothing is worth compacting.
    Idle,
    /// A segment is being walked.
    Progress {
        /// Bytes of records looked at.
        walked_bytes: u64,
        /// Bytes of records written again.
        moved_bytes: u64,
    },
    /// A segment's file is free.
    Reclaimed {
        /// Number of the segment.
        segment: u64,
    },
}

impl Volume {
    /// Does a piece of compaction: looks at records of about `budget_bytes` and writes the living
    /// again. The owner calls it between steps, as often as it can afford.
    ///
    /// # Errors
    /// [`Error::Failed`]; [`Error::Full`] when no segment can be begun; [`Error::Busy`].
    pub fn compact_step(&mut self, budget_bytes: u64) -> Result<CompactionStep, Error> {
        self.shared.check()?;
        if let Some(retiring) = self.compaction.retiring.take() {
            return self.retire(retiring);
        }
        if self.compaction.pass.is_none() {
            self.compaction.pass = self.candidate();
        }
        let Some(mut pass) = self.compaction.pass.take() else { return Ok(CompactionStep::Idle) };
        let mut plan = BatchPlan::default();
        let mut hints = Vec::new();
        let mut walked_bytes = 0;
        let limit = self.log.batch_bytes_max();
        let hinted = |hints: &[Hint]| hints.iter().map(hint_bytes).sum::<usize>();
        while walked_bytes < budget_bytes && plan.bytes + hinted(&hints) + pass.next_bytes() <= limit {
            match self.walk_one(&mut pass, &mut plan, &mut hints) {
                Ok(0) => break,
                Ok(bytes) => walked_bytes += bytes,
                Err(WalkEnd::Damaged(record)) => {
                    let number = pass.segment.number;
                    let live = self.derived.get(number).live;
                    self.compaction.damaged.insert(number, SegmentDamage { record, live });
                    return Ok(CompactionStep::Idle);
                }
                // Walked again: moved records are found dead.
                Err(WalkEnd::Failed(error)) => return Err(error),
            }
        }
        plan.push_hints(hints.into_iter().map(HintedCommit::from));
        let moved_bytes = plan.bytes as u64;
        if !plan.is_empty() {
            self.commit_moved(plan)?;
        }
        if pass.frame.is_none() && pass.offset >= pass.end {
            let number = pass.segment.number;
            let live = self.derived.get(number).live;
            if !pass.has_hole || live == 0 {
                return self.reclaim(pass);
            }
            // Entries point into the hole: reads and the scrubber find them damaged while the segment is
            // there, and let them go when they are healed.
            self.compaction.damaged.insert(number, SegmentDamage { record: None, live });
            return Ok(CompactionStep::Progress { walked_bytes, moved_bytes });
        }
        self.compaction.pass = Some(pass);
        Ok(CompactionStep::Progress { walked_bytes, moved_bytes })
    }

    /// Ranges missing in the log that the volume's life does not need: their records that still count have
    /// entries, and a rebuild does without them whether their segment is kept or not.
    fn known_holes(&self) -> &[LostRange] {
        if self.working.standing().has_lost_state() { &[] } else { &self.shared.noted_losses }
    }

    fn commit_moved(&mut self, plan: BatchPlan) -> Result<(), Error> {
        let now_us = self.shared.clock.monotonic_us();
        self.commit(plan, now_us)?;
        // Moved records are protected by a frame behind them like all others.
        self.unprotected_since_us.get_or_insert(now_us);
        Ok(())
    }

    /// Forgets damage that nothing needs any more: what was healed, replaced or deleted was let go by its
    /// entry.
    fn forget_damage(&mut self) {
        let Self { compaction, derived, shared, working, .. } = self;
        compaction.damaged.retain(|number, damage| {
            let live = derived.get(*number).live;
            if !working.segments.contains_key(number) {
                return false;
            }
            if live == damage.live {
                return true;
            }
            let Some((key, placed)) = &damage.record else {
                // Tried again, and seldom: each try reads the segment up to there.
                return live > damage.live / 2;
            };
            damage.live = live;
            shared.entry(key).map_or(true, |entry| entry.is_some_and(|entry| entry.origin.placed == *placed))
        });
    }

    fn candidate(&mut self) -> Option<CompactionPass> {
        self.forget_damage();
        let persisted = self.shared.index.persisted()?;
        let again = DELETES_AGAIN.max(self.shared.segments.len() as u64 / 4);
        let reclaimed = self.compaction.reclaimed;
        let mut best: Option<(u64, u64)> = None;
        for (number, sealed) in &self.working.segments {
            let since = *self.compaction.seen_at.entry(*number).or_insert(reclaimed);
            let uses = self.derived.get(*number);
            let deletes = if reclaimed - since >= again { 0 } else { uses.deletes };
            let needed = uses.live + deletes;
            let eligible = sealed.last <= persisted
                && needed * 2 < self.shared.options.segment_bytes
                && !self.compaction.damaged.contains_key(number);
            if eligible && best.is_none_or(|(least, _)| needed < least) {
                best = Some((needed, *number));
            }
        }
        let (_, number) = best?;
        let sealed = self.working.segments.get(&number)?;
        let segment = self.shared.segments.get(number)?;
        Some(CompactionPass { segment, end: sealed.end, offset: FIRST_FRAME, frame: None, has_hole: false })
    }

    /// Looks at the next record; the bytes looked at, or zero at the end.
    fn walk_one(
        &mut self,
        pass: &mut CompactionPass,
        plan: &mut BatchPlan,
        hints: &mut Vec<Hint>,
    ) -> Result<u64, WalkEnd> {
        let Some(mut frame) = pass.enter(self.known_holes())? else { return Ok(0) };
        let (header, place) = pass.peek(&frame)?;
        let opened = read::open(&pass.segment, place, header.payload_bytes, Source::Disk)?;
        self.keep(pass, plan, hints, &opened, (frame.sequence, place))?;
        frame.next += u64::from(place.bytes);
        if frame.sequence == frame.last {
            pass.offset = frame.end;
            pass.frame = None;
        } else {
            frame.sequence = Sequence(frame.sequence.0 + 1);
            pass.frame = Some(frame);
        }
        Ok(u64::from(place.bytes))
    }

    fn keep(
        &mut self,
        pass: &CompactionPass,
        plan: &mut BatchPlan,
        hints: &mut Vec<Hint>,
        opened: &VerifiedHead<'_>,
        (placed, _): (Sequence, RecordLocation),
    ) -> Result<(), WalkEnd> {
        match &opened.subject {
            Subject::Delete { oldest, newest, .. } => {
                if self.may_hold(pass.segment.number, *oldest, *newest) {
                    let subject = opened.subject.clone();
                    plan.push(NewRecord::bare(subject).moved_from(opened.sequence));
                }
                return Ok(());
            }
            Subject::Hints => {
                let payload = match opened.whole() {
                    // Commits of lost hints are found again, as after a replay.
                    Err(ReadError::Corrupt) => return Ok(()),
                    payload => payload?,
                };
                let learnt = decode_hints(opened.flags, payload).map_err(|_| WalkEnd::Damaged(None))?;
                for hint in learnt {
                    hints.extend(self.only_hinted(hint)?);
                }
                return Ok(());
            }
            _ => {}
        }
        let Some(key) = key_of(&opened.subject) else { return Ok(()) };
        let Some(entry) = self.shared.entry(&key)? else { return Ok(()) };
        if entry.origin.placed != placed {
            return Ok(());
        }
        let mut flags = Flags(opened.flags.0);
        if let Body::Row(row) = &entry.body {
            let recovering = self.working.standing().has_lost_state();
            if !recovering && entry.origin.sequence <= self.working.rows_after() {
                // A row of an earlier life: no reader sees it, and with its segment its entry goes.
                let (oldest, newest) = (entry.origin.oldest, entry.origin.placed);
                plan.push(NewRecord::bare(Subject::Delete { key, oldest, newest }));
                return Ok(());
            }
            flags = Flags(flags.0 & !Flags::MISSED.0);
            flags = flags.with(Flags::COMMITTED, row.head.committed).with(Flags::MISSED, row.is_missed);
        }
        let payload = opened.whole().map_err(|error| WalkEnd::from(error).of_record(key, placed))?;
        let payload = (!payload.is_empty()).then_some(payload);
        plan.push(NewRecord::new(opened.subject.clone(), flags, payload).moved_from(opened.sequence));
        Ok(())
    }

    /// Whether a copy written between two sequences may stand in a segment other than this one.
    fn may_hold(&self, number: u64, oldest: Sequence, newest: Sequence) -> bool {
        let sealed = self.working.segments.iter().filter(|(other, _)| **other != number);
        let in_sealed = sealed.into_iter().any(|(_, one)| one.first <= newest && oldest <= one.last);
        let unsealed = self.log.unsealed().filter(|other| *other != number);
        let mut unsealed = unsealed.filter_map(|other| self.shared.segments.get(other));
        in_sealed || unsealed.any(|one| newest >= one.first)
    }

    /// A hint as it is to be written again: where no record but a hint says that this row is committed, with
    /// what all hints said of it.
    fn only_hinted(&self, hint: Hint) -> Result<Option<Hint>, Error> {
        let Some(entry) = self.shared.entry(&row_key(&hint.key))? else { return Ok(None) };
        Ok(match entry.body {
            Body::Row(row) if row.head.ballot == hint.ballot && row.head.committed && !row.flag_logged => {
                Some(Hint { is_everywhere: !row.is_missed, ..hint })
            }
            Body::Row(_) | Body::Shard { .. } | Body::Heal { .. } | Body::State(_) | Body::Release { .. } => {
                None
            }
        })
    }

    /// Lets a segment go in which nothing is needed any more.
    fn reclaim(&mut self, pass: CompactionPass) -> Result<CompactionStep, Error> {
        let segment = pass.segment;
        let number = segment.number;
        let key = segment_key(number);
        let entry = self.shared.entry(&key)?;
        if let Some(entry) = entry {
            let (oldest, newest) = (entry.origin.oldest, entry.origin.placed);
            let mut plan = BatchPlan::default();
            plan.push(NewRecord::bare(Subject::Delete { key, oldest, newest }));
            self.commit_moved(plan)?;
        }
        self.retire(RetiringSegment { segment, is_protected: false, put_away: None })
    }

    /// Puts away a segment that has no record any more. Where the disk refuses, the next step goes on with
    /// it.
    fn retire(&mut self, mut retiring: RetiringSegment) -> Result<CompactionStep, Error> {
        let number = retiring.segment.number;
        if let Err(error) = self.try_retire(&mut retiring) {
            self.compaction.retiring = Some(retiring);
            return Err(error);
        }
        self.shared.segments.files().forget(number);
        self.compaction.reclaimed += 1;
        self.compaction.seen_at.remove(&number);
        Ok(CompactionStep::Reclaimed { segment: number })
    }

    fn try_retire(&mut self, retiring: &mut RetiringSegment) -> Result<(), Error> {
        // Crash here: the next open finds a segment without a record, and removes it. With a frame
        // behind the delete, rot of that frame is rot, and never a torn tail that brings the
        // record back without its segment.
        if !retiring.is_protected {
            self.write_empty_frame()?;
            retiring.is_protected = true;
        }
        self.shared.segments.remove(retiring.segment.number);
        let shared = &self.shared;
        let refused = |error| shared.failure.judge("put a segment away", &error);
        let put_away = match &retiring.put_away {
            Some(put_away) => put_away,
            None => retiring.put_away.insert(shared.spares.put_away(&mut retiring.segment).map_err(refused)?),
        };
        shared.spares.settle(put_away).map_err(refused)
    }
}

enum WalkEnd {
    /// At a record that cannot be read, or at something else.
    Damaged(Option<(Bytes, Sequence)>),
    Failed(Error),
}

impl WalkEnd {
    /// The same, at a record that is known.
    fn of_record(self, key: Bytes, placed: Sequence) -> Self {
        match self {
            Self::Damaged(_) => Self::Damaged(Some((key, placed))),
            Self::Failed(error) => Self::Failed(error),
        }
    }
}

impl From<Error> for WalkEnd {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<ReadError> for WalkEnd {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Busy => Self::Failed(Error::Busy),
            ReadError::WouldBlock | ReadError::Gone | ReadError::Corrupt | ReadError::Io(_) => {
                Self::Damaged(None)
            }
        }
    }
}

impl CompactionPass {
    fn next_bytes(&self) -> usize {
        let Some(frame) = &self.frame else { return FRAME_HEADER_BYTES };
        self.peek(frame).map_or(0, |(_, place)| place.bytes as usize)
    }

    /// The frame that the walk is in; `None` at the segment's end.
    fn enter(&mut self, holes: &[LostRange]) -> Result<Option<InFrame>, WalkEnd> {
        if let Some(frame) = self.frame {
            return Ok(Some(frame));
        }
        while let Some(hole) = holes.iter().find(|hole| hole.begins(self.segment.number, self.offset)) {
            self.has_hole = true;
            self.offset = hole.until.unwrap_or(self.end).max(self.offset + 1);
        }
        if self.offset >= self.end {
            return Ok(None);
        }
        let mut bytes = [0; FRAME_HEADER_BYTES];
        self.read(&mut bytes, self.offset)?;
        let header = FrameHeader::decode(&bytes, self.segment.seed, self.offset)
            .map_err(|_| WalkEnd::Damaged(None))?;
        let frame = InFrame {
            next: self.offset + FRAME_HEADER_BYTES as u64,
            sequence: header.first,
            last: header.last,
            end: self.offset + header.padded(),
        };
        self.frame = Some(frame);
        Ok(Some(frame))
    }

    fn read(&self, bytes: &mut [u8], offset: u64) -> Result<(), WalkEnd> {
        Ok(SegmentBytes::of(&self.segment, Source::Disk).read_exact(bytes, offset)?)
    }

    fn peek(&self, frame: &InFrame) -> Result<(RecordHeader, RecordLocation), WalkEnd> {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        self.read(&mut bytes, frame.next)?;
        let header = RecordHeader::decode(&bytes).map_err(|_| WalkEnd::Damaged(None))?;
        let place = (u32::try_from(frame.next), u32::try_from(header.record_bytes()));
        let (Ok(offset), Ok(bytes)) = place else { return Err(WalkEnd::Damaged(None)) };
        if u64::from(offset) + u64::from(bytes) > frame.end {
            return Err(WalkEnd::Damaged(None));
        }
        Ok((header, RecordLocation { segment: self.segment.number, offset, bytes }))
    }
}
