//! Missed rows: what is committed, and what another volume of the set may lack, brought to it and then listed
//! no more.
//!
//! ```text
//! a volume's list, behind the key that was tried last
//!   --all volumes answer----------------------> brought, key by key --> all get the hint: everywhere
//!   --one is silent, or does not take the row-> the look ends; the next one, after a pause, begins behind it
//! ```
//! It is a task beside the one that settles rows (`settle`): what is not committed never waits for what is.
//! Of the nodes that list a row one brings it; the next one does when that one has left it where it is.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use sherd_core::id::{RegisterKey, VolumeId};
use sherd_core::limits::{MISSED_IN_LOOK_MAX, MISSED_LEFT_MS_MAX, MISSED_PAUSE_MS_MAX};
use sherd_core::message::UnsettledKind;

use super::bring::{HealOutcome, Obstacle, heal_row};
use super::{rows_of, tell_committed};
use crate::upkeep::deps::Deps;
use crate::upkeep::limits::{PAGE_PATIENCE, ROOM_WAIT_MS_MAX, UNSETTLED_PAGE};
use crate::upkeep::pages::ask;

/// A node's notes of the missed rows of one of its volumes, from look to look.
#[derive(Debug, Default)]
pub(crate) struct MissedRows {
    /// The key that was tried last; `None` at the front of the list.
    behind: Option<RegisterKey>,
    /// Looks in a row that ended with a row that could not be brought, or found all of the list to wait for
    /// room, and brought none.
    failures: u32,
    /// When the next look may be, by the clock that never steps.
    due_ms: u64,
    turns: BringTurns,
    walk: ListWalk,
    /// Set where every row of the list waits for room.
    for_room: Option<RoomWait>,
}

/// The outcome for the rows of a list since its front.
#[derive(Debug, Clone, Default)]
struct ListWalk {
    /// The length of the list when the walk began: rows may have come in front of it since.
    listed: Option<u64>,
    /// The full volumes that rows wait for.
    full: BTreeSet<VolumeId>,
    has_brought: bool,
    /// Whether rows stay in the list for another reason than room.
    has_left_others: bool,
}

/// A list whose rows all wait for room.
#[derive(Debug)]
struct RoomWait {
    full: BTreeSet<VolumeId>,
    /// The rows of the list, the fewest since.
    listed: u64,
    since_ms: u64,
}

impl RoomWait {
    /// Whether there is still nothing to do for a list of this length: no volume has room, and no row came.
    fn goes_on(&mut self, listed: u64, now_ms: u64, is_full: impl Fn(VolumeId) -> bool) -> bool {
        let has_grown = listed > self.listed;
        self.listed = self.listed.min(listed);
        let is_over = now_ms.saturating_sub(self.since_ms) >= ROOM_WAIT_MS_MAX;
        !has_grown && !is_over && self.full.iter().all(|volume| is_full(*volume))
    }
}

impl MissedRows {
    /// A row could not be brought: the volume that lacks it will most likely not take the next one either.
    fn failed(&mut self, now_ms: u64, pause: Duration) {
        let pause_ms = millis(pause).saturating_mul(1 << self.failures.min(16));
        self.due_ms = now_ms.saturating_add(pause_ms.min(MISSED_PAUSE_MS_MAX));
        self.failures = self.failures.saturating_add(1);
    }

    /// A list of this length is at its end. Where rows of it wait for room on full volumes, and none was
    /// brought, there is nothing to do for a while; where all of them do, until there is room.
    fn walked(&mut self, listed: u64, now_ms: u64, pause: Duration) {
        let ListWalk { listed: at_front, full, has_brought, has_left_others } =
            std::mem::take(&mut self.walk);
        self.behind = None;
        if full.is_empty() || has_brought {
            return;
        }
        self.failed(now_ms, pause);
        if !has_left_others {
            let listed = at_front.map_or(listed, |at_front| at_front.min(listed));
            self.for_room = Some(RoomWait { full, listed, since_ms: now_ms });
        }
    }

    fn brought(&mut self) {
        self.walk.has_brought = true;
        self.failures = 0;
        self.turns.own_count = self.turns.own_count.saturating_add(1);
    }
}

/// The turns of nodes to bring a row, as far as the length of the list shows that other nodes bring rows.
#[derive(Debug, Default)]
struct BringTurns {
    /// Since when all volumes may be there and no other node has brought a row.
    quiet_since_ms: Option<u64>,
    /// Since when this node leaves rows to the nodes whose turn is before its own.
    left_since_ms: Option<u64>,
    listed: u64,
    /// Rows that this node brought, and that it has not seen to be gone from the list.
    own_count: u64,
}

impl BringTurns {
    /// Begins a look at a list of this length.
    fn look(&mut self, listed: u64, now_ms: u64) {
        let gone = self.listed.saturating_sub(listed);
        let own = gone.min(self.own_count);
        self.own_count -= own;
        self.listed = listed;
        if gone > own {
            self.quiet_since_ms = Some(now_ms);
        }
        self.quiet_since_ms.get_or_insert(now_ms);
        self.left_since_ms.get_or_insert(now_ms);
    }

    /// A volume is away, perhaps for hours: turns begin when it is back.
    fn is_away(&mut self) {
        (self.quiet_since_ms, self.left_since_ms) = (None, None);
    }

    /// Whether a row is this node's to bring, before which `turn` others come. Where they bring rows all the
    /// time, and never this one, it is, too, after a while: they may not list it.
    fn is_due(&self, turn: u32, pause: Duration, now_ms: u64) -> bool {
        let is_over = |since_ms: Option<u64>, wait_ms: u64| {
            since_ms.is_some_and(|since_ms| now_ms.saturating_sub(since_ms) >= wait_ms * u64::from(turn))
        };
        is_over(self.quiet_since_ms, millis(pause)) || is_over(self.left_since_ms, MISSED_LEFT_MS_MAX)
    }

    /// Rows that are others' to bring were brought: the others have their time again.
    fn took_others_turn(&mut self, now_ms: u64) {
        self.left_since_ms = Some(now_ms);
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum BringOutcome {
    /// All volumes have it, and got the hint.
    Brought,
    /// The bucket is being deleted: the row goes with it, or is looked at when the seals have gone.
    Sealed,
    /// The volumes that lack it are full, which says nothing about other rows.
    Full(Vec<VolumeId>),
    /// A volume is away, or does not answer.
    Away,
    /// A volume that answers did not take it.
    Refused,
}

#[derive(Debug)]
pub(crate) struct MissedRowBringer {
    deps: Deps,
}

impl MissedRowBringer {
    pub(crate) fn new(deps: &Deps) -> Self {
        Self { deps: deps.clone() }
    }

    pub(crate) async fn bring_missed_rows(&self) {
        let mut missed: HashMap<VolumeId, MissedRows> = HashMap::new();
        loop {
            for volume in self.deps.volumes.all() {
                if volume.state().votes() {
                    self.bring_missed_of(volume.id(), missed.entry(volume.id()).or_default()).await;
                }
            }
            tokio::time::sleep(self.deps.settings.settle_every).await;
        }
    }

    /// One look: brings rows that one volume of this node lists, until one of them cannot be brought.
    pub(crate) async fn bring_missed_of(&self, volume: VolumeId, missed: &mut MissedRows) {
        if self.deps.now_ms() < missed.due_ms {
            return;
        }
        let Some(route) = self.deps.route_to(volume) else { return };
        let Some(local) = self.deps.volumes.get(volume).and_then(|local| local.serving().ok()) else {
            return;
        };
        let listed = local.reader.status().missed_rows;
        if listed == 0 {
            *missed = MissedRows::default();
            return;
        }
        let is_full = |volume| self.deps.route_to(volume).is_some_and(|route| route.peer.is_full(volume));
        if let Some(wait) = &mut missed.for_room
            && wait.goes_on(listed, self.deps.now_ms(), is_full)
        {
            return;
        }
        missed.for_room = None;
        missed.turns.look(listed, self.deps.now_ms());
        if missed.behind.is_none() {
            missed.walk.listed = Some(listed);
        }
        let (mut after, mut tried_count, mut is_others_turn) = (missed.behind.clone(), 0, false);
        while tried_count < MISSED_IN_LOOK_MAX {
            let page = route.peer.unsettled(volume, UnsettledKind::Missed, after.as_ref(), UNSETTLED_PAGE);
            let Ok(page) = ask(page, PAGE_PATIENCE).await else { break };
            for row in page.rows {
                let turn = self.deps.turns_before(&row.key);
                // A row of this moment may be on its way to the volume that seems to lack it.
                let is_young = self.deps.wall_ms().abs_diff(row.ballot.time.as_ms())
                    < millis(self.deps.settings.settle_after);
                if is_young || !missed.turns.is_due(turn, self.deps.settings.settle_every, self.deps.now_ms())
                {
                    missed.walk.has_left_others = true;
                    continue;
                }
                tried_count += 1;
                is_others_turn |= turn > 0;
                self.deps.throttle.take(0).await;
                let outcome = self.deps.panics.contain("missed", self.bring_missed(&row.key)).await;
                missed.behind = Some(row.key);
                match outcome {
                    Some(BringOutcome::Brought) => missed.brought(),
                    Some(BringOutcome::Full(full)) => missed.walk.full.extend(full),
                    Some(BringOutcome::Sealed) => missed.walk.has_left_others = true,
                    Some(BringOutcome::Away) => {
                        missed.turns.is_away();
                        missed.walk.has_left_others = true;
                        return missed.failed(self.deps.now_ms(), self.deps.settings.settle_every);
                    }
                    Some(BringOutcome::Refused) | None => {
                        missed.walk.has_left_others = true;
                        return missed.failed(self.deps.now_ms(), self.deps.settings.settle_every);
                    }
                }
                if tried_count >= MISSED_IN_LOOK_MAX {
                    break;
                }
            }
            after = page.next;
            if after.is_none() && tried_count < MISSED_IN_LOOK_MAX {
                missed.walked(listed, self.deps.now_ms(), self.deps.settings.settle_every);
                break;
            }
        }
        if is_others_turn {
            missed.turns.took_others_turn(self.deps.now_ms());
        }
    }

    async fn bring_missed(&self, key: &RegisterKey) -> BringOutcome {
        let rows = rows_of(&self.deps, key).await;
        if !rows.sealed.is_empty() {
            return BringOutcome::Sealed;
        }
        if !rows.silent.is_empty() {
            return BringOutcome::Away;
        }
        if rows.are_same() {
            tell_committed(&self.deps, key, &rows);
            return BringOutcome::Brought;
        }
        match heal_row(&self.deps, key).await {
            HealOutcome::Whole => BringOutcome::Brought,
            HealOutcome::Unnamed => BringOutcome::Sealed,
            HealOutcome::Later { reason, obstacle, .. } => {
                tracing::debug!(?key, reason, "a row that a volume missed is not brought to it yet");
                match obstacle {
                    Obstacle::Room(full) => BringOutcome::Full(full),
                    Obstacle::Damage | Obstacle::Absence => BringOutcome::Refused,
                }
            }
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    use sherd_core::id::{BucketId, ObjectKey};

    const EVERY: Duration = Duration::from_secs(2);

    #[test]
    fn pauses_double_up_to_their_limit_and_begin_again_after_a_row_that_was_brought() {
        let mut missed = MissedRows::default();
        let mut pauses = Vec::new();
        for _ in 0..7 {
            missed.failed(1_000, EVERY);
            pauses.push((missed.due_ms - 1_000) / 1_000);
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 60, 60]);
        missed.brought();
        missed.failed(1_000, EVERY);
        assert_eq!(missed.due_ms, 3_000);
    }

    #[test]
    fn a_list_that_waits_for_room_is_walked_again_after_a_pause() {
        let mut missed = MissedRows {
            behind: Some(RegisterKey::object(BucketId([1; 16]), ObjectKey::new("k").expect("a key"))),
            ..MissedRows::default()
        };
        let full = VolumeId([7; 16]);
        missed.walked(9, 1_000, EVERY);
        assert_eq!((missed.due_ms, &missed.behind), (0, &None), "nothing waits for room");
        for pause_ms in [2_000, 4_000, 8_000] {
            missed.walk.full.insert(full);
            missed.walk.has_left_others = true;
            missed.walked(9, 1_000, EVERY);
            assert_eq!(missed.due_ms, 1_000 + pause_ms);
            assert!(missed.for_room.is_none(), "others may be brought by then");
        }
        missed.walk.full.insert(full);
        missed.brought();
        missed.due_ms = 0;
        missed.walked(9, 1_000, EVERY);
        assert_eq!(missed.due_ms, 0, "there is room somewhere");
    }

    #[test]
    fn a_row_that_came_in_front_of_a_walk_ends_the_wait_for_room() {
        let full = VolumeId([7; 16]);
        for (at_front, goes_on) in [(8, false), (9, true)] {
            let mut missed = MissedRows::default();
            missed.walk.listed = Some(at_front);
            missed.walk.full.insert(full);
            missed.walked(9, 1_000, EVERY);
            let mut wait = missed.for_room.expect("all of the walk waits for room");
            assert_eq!(wait.goes_on(9, 2_000, |_| true), goes_on, "{at_front} rows at the front");
        }
    }

    #[test]
    fn a_list_that_waits_for_room_alone_is_walked_when_there_is_room_or_a_further_row() {
        let mut missed = MissedRows::default();
        let full = VolumeId([7; 16]);
        missed.walk.full.insert(full);
        missed.walked(9, 1_000, EVERY);
        let mut wait = missed.for_room.expect("all of it does");
        let is_full = |volume| volume == full;
        assert!(wait.goes_on(9, 2_000, is_full) && wait.goes_on(8, 3_000, is_full));
        assert!(!wait.goes_on(9, 4_000, is_full), "one went, and another one came");
        assert!(!wait.goes_on(8, 4_000, |_| false));
        assert!(wait.goes_on(8, 999 + ROOM_WAIT_MS_MAX, is_full));
        assert!(!wait.goes_on(8, 1_000 + ROOM_WAIT_MS_MAX, is_full));
    }

    #[test]
    fn a_row_of_another_nodes_turn_is_left_to_it_while_the_list_shrinks() {
        let mut turns = BringTurns::default();
        // Another node brings 100 rows a look.
        for look in 0..20 {
            let now_ms = look * 2_000;
            turns.look(10_000 - look * 100, now_ms);
            assert!(turns.is_due(0, EVERY, now_ms), "its own");
            assert!(!turns.is_due(1, EVERY, now_ms), "look {look}");
        }
        // The look of the second key stopped.
        turns.look(8_100, 40_000);
        assert!(turns.is_due(1, EVERY, 40_000) && !turns.is_due(2, EVERY, 40_000));
        turns.look(8_100, 42_000);
        assert!(turns.is_due(2, EVERY, 42_000));
        // The one whose turn is second brings them now.
        turns.look(8_000, 44_000);
        assert!(!turns.is_due(1, EVERY, 44_000));
    }

    #[test]
    fn rows_that_a_node_brought_itself_do_not_make_it_wait_for_others() {
        let mut turns = BringTurns::default();
        turns.look(1_000, 0);
        turns.own_count = 300;
        turns.look(900, 2_000);
        turns.look(700, 4_000);
        assert!(turns.is_due(2, EVERY, 4_000));
        turns.look(699, 6_000);
        assert!(!turns.is_due(1, EVERY, 6_000), "this one was brought by another");
    }

    #[test]
    fn turns_begin_when_the_volume_that_was_away_is_back() {
        let mut turns = BringTurns::default();
        turns.look(10, 0);
        turns.is_away();
        turns.look(10, 3_600_000);
        assert!(turns.is_due(0, EVERY, 3_600_000) && !turns.is_due(1, EVERY, 3_600_000));
    }

    #[test]
    fn a_row_that_the_others_never_bring_is_brought_although_the_list_shrinks() {
        let mut turns = BringTurns::default();
        for look in 0..60 {
            turns.look(10_000 - look, look * 2_000);
            assert!(!turns.is_due(1, EVERY, look * 2_000), "look {look}");
        }
        turns.look(9_000, MISSED_LEFT_MS_MAX);
        assert!(turns.is_due(1, EVERY, MISSED_LEFT_MS_MAX));
        turns.took_others_turn(MISSED_LEFT_MS_MAX);
        assert!(!turns.is_due(1, EVERY, MISSED_LEFT_MS_MAX));
    }
}
