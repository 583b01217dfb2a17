//! Since when it is known what a volume missed: its last comparison with its peers, and how far their logs
//! were when no report of what it missed before could come any more.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::damage::ReportCounts;
use crate::upkeep::recover::limits::{NOTED_AFTER, NOTES_MAX, ROUNDS_BETWEEN};
use sherd_core::id::VolumeId;
use sherd_core::register::position::Position;

/// How far the logs of peers are durable.
pub(crate) type PeerPositions = Vec<(VolumeId, Position)>;

/// Up to when a volume was compared with its peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ComparisonPoint {
    /// In this opening.
    pub(crate) opening: u32,
    /// After this many reports of what volumes missed were lost: a comparison before does not cover them.
    pub(crate) lost_reports: u64,
}

/// The last comparison of a volume with its peers that came to its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastComparison {
    pub(super) since: ComparisonPoint,
    pub(super) ended: Instant,
}

impl LastComparison {
    /// Whether another is due: at once after an opening. Reports that are lost again and again, as they are
    /// while no log takes any, would make the volumes compare without an end.
    pub(super) fn is_over(&self, now: ComparisonPoint, recover_every: Duration) -> bool {
        self.since != now && self.may_be_repeated(now, recover_every)
    }

    /// Whether it is long enough ago, where reports were lost in it, too.
    pub(super) fn may_be_repeated(&self, now: ComparisonPoint, recover_every: Duration) -> bool {
        self.since.opening != now.opening || self.ended.elapsed() >= recover_every * ROUNDS_BETWEEN
    }
}

/// How far the logs of a volume's peers were, for as long as a report may still come of what the volume
/// missed up to there.
#[derive(Debug, Default)]
pub(super) struct Notes {
    since: ComparisonPoint,
    taken: VecDeque<Note>,
}

#[derive(Debug)]
struct Note {
    taken: Instant,
    /// The reports made until everybody had said what was missed; they have to be in the logs.
    reports: Option<u64>,
    peers: PeerPositions,
}

impl Notes {
    pub(super) fn take(&mut self, since: ComparisonPoint, peers: PeerPositions) {
        if self.since != since {
            self.since = since;
            self.taken.clear();
        }
        // The older they are the sooner they are ripe.
        if self.taken.len() < NOTES_MAX {
            self.taken.push_back(Note { taken: Instant::now(), reports: None, peers });
        }
    }

    /// The latest behind which nothing is unsaid or in no log; it and those before it are forgotten.
    pub(super) fn ripe(&mut self, counts: &ReportCounts) -> Option<PeerPositions> {
        for note in self.taken.iter_mut().take_while(|note| note.taken.elapsed() >= NOTED_AFTER) {
            note.reports.get_or_insert_with(|| counts.made_heals_count());
        }
        let lost = self.since.lost_reports;
        let is_ripe = |note: &&Note| note.reports.is_some_and(|reports| counts.are_logged(reports, lost));
        let ripe = self.taken.iter().take_while(is_ripe).count();
        self.taken.drain(..ripe).next_back().map(|note| note.peers)
    }
}

#[cfg(test)]
mod tests {
    use crate::upkeep::recover::limits::NOTE_EVERY;
    use std::sync::Arc;

    use sherd_core::id::{BucketId, Life, ObjectKey, RegisterKey, Sequence, VolumeId};
    use sherd_core::register::position::OpeningId;

    use super::*;
    use crate::cluster::damage::Damage;

    const SINCE: ComparisonPoint = ComparisonPoint { opening: 1, lost_reports: 0 };

    #[tokio::test(start_paused = true)]
    async fn volumes_rest_between_two_comparisons_for_lost_reports() {
        let every = Duration::from_secs(2);
        let last = LastComparison { since: SINCE, ended: Instant::now() };
        let after_a_loss = ComparisonPoint { lost_reports: 1, ..SINCE };
        let opened = ComparisonPoint { opening: 2, ..SINCE };
        assert_eq!([SINCE, after_a_loss, opened].map(|now| last.is_over(now, every)), [false, false, true]);
        tokio::time::advance(every * ROUNDS_BETWEEN).await;
        assert_eq!([SINCE, after_a_loss, opened].map(|now| last.is_over(now, every)), [false, true, true]);
    }

    /// Reports that a comparison itself lost lie behind its beginning.
    #[tokio::test(start_paused = true)]
    async fn volumes_rest_after_a_comparison_that_lost_reports_itself() {
        let every = Duration::from_secs(2);
        let last = LastComparison { since: SINCE, ended: Instant::now() };
        let points =
            [SINCE, ComparisonPoint { lost_reports: 3, ..SINCE }, ComparisonPoint { opening: 2, ..SINCE }];
        assert_eq!(points.map(|now| last.may_be_repeated(now, every)), [false, false, true]);
        tokio::time::advance(every * ROUNDS_BETWEEN).await;
        assert_eq!(points.map(|now| last.may_be_repeated(now, every)), [true, true, true]);
    }

    /// A kill must not come between a note and the report of what the volume missed before that.
    #[tokio::test(start_paused = true)]
    async fn peers_are_noted_where_they_were_when_nobody_says_any_more_what_was_missed() {
        let at = |durable| {
            let (life, opening) = (Life(1), OpeningId(1));
            vec![(VolumeId([1; 16]), Position { life, opening, durable: Sequence(durable) })]
        };
        let (mut notes, (damage, reports)) = (Notes::default(), Damage::channel());
        let counts = Arc::clone(damage.counts());
        for (durable, ripe) in [(10, None), (20, None), (30, Some(10)), (40, Some(20))] {
            notes.take(SINCE, at(durable));
            assert_eq!(notes.ripe(&counts), ripe.map(at));
            tokio::time::advance(NOTE_EVERY).await;
        }
        tokio::time::advance(NOTED_AFTER).await;
        let mut since = ComparisonPoint { opening: 2, ..SINCE };
        notes.take(since, at(50));
        assert_eq!(notes.ripe(&counts), None, "another opening");
        tokio::time::advance(NOTED_AFTER).await;
        assert_eq!((notes.ripe(&counts), notes.ripe(&counts)), (Some(at(50)), None));
        notes.take(since, at(60));
        tokio::time::advance(NOTED_AFTER).await;
        damage.row(&RegisterKey::object(BucketId([1; 16]), ObjectKey::new("a").expect("a key")));
        assert_eq!(notes.ripe(&counts), None, "a report is in no log");
        (0..2 * NOTES_MAX).for_each(|_| notes.take(since, at(70)));
        assert_eq!(notes.taken.len(), NOTES_MAX);
        // A lost report makes all earlier notes void, even those that are logged later.
        drop(reports);
        damage.row(&RegisterKey::object(BucketId([1; 16]), ObjectKey::new("b").expect("a key")));
        assert_eq!(notes.ripe(&counts), None);
        since.lost_reports = counts.lost_heals_count();
        notes.take(since, at(80));
        assert_eq!((since.lost_reports, notes.taken.len()), (1, 1));
    }
}
