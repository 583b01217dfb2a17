//! One MRF entry healed: rows brought up to date, missing and rotten shards made again.
//!
//! Whether data is still named is read from the register in that moment; data that is not named any
//! more needs no heal. What cannot be healed now stays queued, with how endangered it is.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;

use sherd_core::heal::HealEntry;
use sherd_core::id::{Ballot, DataId, RegisterKey, VolumeId};
use sherd_core::message;
use sherd_core::message::{Answer, Target, ValueLimit};
use sherd_core::record::Value;
use sherd_core::register::quorum::Quorums;
use sherd_core::register::{CommitHint, Positions, Refusal, Vote};

use super::look::Look;
use super::mrf::Spare;
use super::rebuild::{RebuildError, Subject};
use super::{Context, ask, read_whole};
use crate::peer::VolumeRoute;
use crate::register::Failure;
use crate::register::refs::{RefsError, reference};

/// How long a volume may take to say what its row is.
const ROW_PATIENCE: Duration = Duration::from_secs(5);
/// How long the volumes beyond a quorum get for an accept that was sent to all of them.
const STRAGGLER_PAUSES: [Duration; 4] = [
    Duration::from_millis(5),
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(500),
];
/// How often the logs are looked through for entries that came with a write.
const RELOAD_EVERY: Duration = Duration::from_mins(1);
/// Entries of one page of a volume's log.
const PAGE: usize = 500;
/// Entries that no log took which are put at one time.
const UNLOGGED_AT_ONCE: usize = 64;
/// Logs that are read through at one time, each with a page in memory.
const LOGS_READ_AT_ONCE: usize = 32;
/// How long a page may take.
const PAGE_PATIENCE: Duration = Duration::from_secs(30);

/// What healing one entry came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HealOutcome {
    /// Everything is where it should be.
    Whole,
    /// No register names the data, or the bucket is gone: there is nothing to heal.
    Unnamed,
    /// Not now.
    Later {
        /// How many more losses the data can take.
        spare: Spare,
        /// Why.
        reason: String,
        /// Something is wrong where somebody answered; else volumes are away, which are compared when they come back.
        is_damaged: bool,
    },
}

impl HealOutcome {
    fn later(spare: u8, reason: impl std::fmt::Display) -> Self {
        Self::Later { spare: Spare(spare), reason: reason.to_string(), is_damaged: true }
    }
}

/// What the rows of a key look like on the volumes of its set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Rows {
    /// Volumes with a row, its ballot, and whether they know it committed.
    pub(crate) held: Vec<(VolumeId, Ballot, bool)>,
    /// Those of them whose row does not count as accepted: see `Vote::is_accepted`.
    pub(crate) not_accepted: Vec<VolumeId>,
    /// The values of these rows, where they were read whole.
    pub(crate) values: Vec<(VolumeId, Value)>,
    /// Volumes without one.
    pub(crate) without: Vec<VolumeId>,
    /// Volumes whose row is rotten.
    pub(crate) rotten: Vec<VolumeId>,
    /// Volumes that do not say, for a deletion sealed the bucket there.
    pub(crate) sealed: Vec<VolumeId>,
    /// Volumes that did not answer, or do not vote.
    pub(crate) silent: Vec<VolumeId>,
    /// Those of the silent ones that are there, and had too much to do to answer in time.
    pub(crate) late: Vec<VolumeId>,
}

/// How much of a row is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowCheck {
    /// Its head alone, whatever became of its bytes.
    Head,
    /// Every byte of it.
    Bytes,
    /// Every byte, and that they are a value.
    Value,
}

impl Rows {
    /// Whether every volume holds the same row, known to be committed, or none holds any.
    pub(crate) fn are_equal(&self) -> bool {
        let all_said = self.silent.is_empty() && self.sealed.is_empty();
        all_said && self.are_same() && self.held.iter().all(|(_, _, committed)| *committed)
    }

    /// Whether nothing is wrong where somebody answered, and the others are away: when they come back they are compared
    /// with their peers.
    pub(crate) fn are_equal_but_for_the_absent(&self) -> bool {
        let are_known = self.sealed.is_empty() && self.late.is_empty();
        are_known && self.are_same() && self.held.iter().all(|(_, _, committed)| *committed)
    }

    /// Whether the volumes that answered hold the row of one ballot, or none does.
    pub(crate) fn are_same(&self) -> bool {
        let Some((_, first, _)) = self.held.first() else { return self.rotten.is_empty() };
        let one_ballot = self.held.iter().all(|(_, ballot, _)| ballot == first);
        one_ballot && self.without.is_empty() && self.rotten.is_empty()
    }

    /// Whether the row of a ballot is committed, as far as the answers show: a holder knows it, or A accepted it.
    pub(crate) fn is_committed(&self, ballot: Ballot, quorums: Quorums) -> bool {
        let same = || self.held.iter().filter(move |(_, held, _)| *held == ballot);
        let accepted_count = same().filter(|(volume, ..)| !self.not_accepted.contains(volume)).count();
        same().any(|(_, _, committed)| *committed) || accepted_count >= quorums.accept()
    }

    /// Whether A volumes at least show one row and none shows another, and it is committed.
    pub(crate) fn are_settled(&self, quorums: Quorums) -> bool {
        let Some((_, ballot, _)) = self.held.first() else { return false };
        self.are_same() && self.held.len() >= quorums.accept() && self.is_committed(*ballot, quorums)
    }

    /// The volumes that answered and lack the newest row, where that is known to be committed and a full volume
    /// would refuse it to all of them: it takes what makes way, what is smaller than what it has, and what
    /// repairs its own.
    fn behind_the_committed_and_need_room(&self) -> Option<Vec<VolumeId>> {
        let newest = self.held.iter().max_by_key(|(_, ballot, committed)| (*ballot, *committed));
        let (holder, newest, _) = newest.filter(|(_, _, committed)| *committed)?;
        let value_of =
            |volume: &VolumeId| self.values.iter().find(|(of, _)| of == volume).map(|(_, value)| value);
        let value = value_of(holder)?;
        let needs_room = |volume: &VolumeId| {
            let before = value_of(volume);
            let is_no_larger =
                before.is_some_and(|before| before == value || row_bytes(value) < row_bytes(before));
            !is_no_larger && !value.makes_way(before)
        };
        let older = self.held.iter().filter(|(_, ballot, _)| ballot < newest).map(|(volume, _, _)| volume);
        let behind: Vec<VolumeId> = older.chain(&self.without).copied().collect();
        (self.rotten.is_empty() && behind.iter().all(needs_room)).then_some(behind)
    }
}

impl Context {
    /// Heals one entry.
    pub(crate) async fn heal(&self, entry: &HealEntry) -> HealOutcome {
        match entry.data {
            Some(data) => self.heal_data(&entry.key, data.id()).await,
            None => self.heal_row_and_shards(&entry.key).await,
        }
    }

    /// Brings the committed row of a key to every volume of its set, and queues what it names and is not there.
    /// Who queued the row may not have known what it names.
    async fn heal_row_and_shards(&self, key: &RegisterKey) -> HealOutcome {
        let healed = self.heal_row(key).await;
        if healed != HealOutcome::Whole {
            return healed;
        }
        match self.look_at_shards(key, Look::WhileAllAnswer).await {
            Ok(()) => HealOutcome::Whole,
            Err(error) => HealOutcome::later(1, error),
        }
    }

    /// Brings the shards of data that a register names back to where they should be.
    pub(crate) async fn heal_data(&self, key: &RegisterKey, data: DataId) -> HealOutcome {
        // What a part's register says it names goes with the object that took it over: a part that a crash kept from
        // being closed would want data healed for ever that was released since.
        self.close_part(key).await;
        let mut found = reference(&self.registers, &self.stripes, key, data).await;
        if matches!(found, Ok(None)) && !self.rows_of(key).await.are_equal() {
            // A write that was cut short may name it, on too few volumes to be read: who settles the
            // row later would commit it, without its missing shards and with nobody who knows.
            match self.registers.finish(key).await {
                Ok(_) => found = reference(&self.registers, &self.stripes, key, data).await,
                Err(Failure::Sealed) => return self.sealed(key),
                Err(failure) => return HealOutcome::later(0, failure),
            }
        }
        let named = match found {
            Ok(Some(named)) => named,
            Ok(None) => return HealOutcome::Unnamed,
            Err(RefsError::Register(Failure::Sealed)) => return self.sealed(key),
            Err(error) => return HealOutcome::later(0, error),
        };
        let subject = match Subject::new(self, key, named) {
            Ok(subject) => subject,
            Err(error) => return HealOutcome::later(named.parity_shards, error),
        };
        self.throttle.take(subject.shard_bytes().saturating_mul(u64::from(named.data_shards))).await;
        let mut shards = subject.look(true).await;
        let mut failure = None;
        for index in std::mem::take(&mut shards.broken) {
            match subject.rebuild(self, index, &shards.intact).await {
                Ok(()) => shards.intact.push(index),
                Err(error) => {
                    let hopeless = matches!(error, RebuildError::TooFew { .. });
                    failure = Some(error);
                    if hopeless {
                        break;
                    }
                }
            }
        }
        match failure {
            None if shards.unknown.is_empty() => HealOutcome::Whole,
            None => HealOutcome::later(shards.spare(&named), "volumes of the set are offline"),
            Some(error) => HealOutcome::later(shards.spare(&named), error),
        }
    }

    /// Brings the committed row of a key to every volume of its set.
    pub(crate) async fn heal_row(&self, key: &RegisterKey) -> HealOutcome {
        // Rot may be in bytes that no vote needs: here every row is read whole.
        let mut rows = self.whole_rows_of(key).await;
        if !rows.are_same() && self.are_behind_for_room(key, &rows) {
            return HealOutcome::later(1, "volumes of the set are full");
        }
        let quorums = self.cluster.set_of(key).quorums();
        let is_undecided = rows.held.len() >= quorums.accept() && !rows.are_settled(quorums);
        if !rows.are_same() || is_undecided {
            match self.registers.finish(key).await {
                Ok(_) => {}
                Err(Failure::Sealed) => return self.sealed(key),
                Err(failure) => return HealOutcome::later(1, failure),
            }
            rows = self.rows_after_settling(key).await;
        }
        if !rows.are_same() {
            return HealOutcome::later(1, "volumes of the set are behind");
        }
        self.tell_committed(key, &rows);
        if !rows.sealed.is_empty() {
            self.sealed(key)
        } else if rows.silent.is_empty() {
            HealOutcome::Whole
        } else {
            let reason = "volumes of the set are offline, or do not vote".to_owned();
            HealOutcome::Later { spare: Spare(1), reason, is_damaged: !rows.late.is_empty() }
        }
    }

    /// Whether the volumes that lack the committed row of a key are full: [`Self::heal_row`] writes nothing then.
    pub(super) async fn is_missed_for_room(&self, key: &RegisterKey) -> bool {
        let rows = self.whole_rows_of(key).await;
        !rows.are_same() && self.are_behind_for_room(key, &rows)
    }

    /// Whether whoever lacks the committed row has no room for it. To write it anew would make it one that is not
    /// known committed, which takes their reserve, for those that have it already.
    fn are_behind_for_room(&self, key: &RegisterKey, rows: &Rows) -> bool {
        let set = self.cluster.set_of(key);
        let is_full = |volume| {
            let place = set.place_of(volume);
            place.is_some_and(|place| set.routes[place].registers.is_full(volume))
        };
        let needs_room = rows.behind_the_committed_and_need_room();
        needs_room.is_some_and(|behind| behind.into_iter().all(is_full))
    }

    /// The rows of a key that was settled just now: A volumes hold the new one, and the others get it
    /// in the next moments.
    async fn rows_after_settling(&self, key: &RegisterKey) -> Rows {
        for pause in STRAGGLER_PAUSES {
            let rows = self.whole_rows_of(key).await;
            if rows.are_same() {
                return rows;
            }
            tokio::time::sleep(pause).await;
        }
        self.whole_rows_of(key).await
    }

    /// Where A volumes accepted the same row it is committed: sends the hint to those that do not know it. Where all hold
    /// it all get the hint, and none needs to list it any more.
    pub(crate) fn tell_committed(&self, key: &RegisterKey, rows: &Rows) {
        let set = self.cluster.set_of(key);
        if !rows.are_settled(set.quorums()) {
            return;
        }
        let target = self.cluster.target(key.clone());
        let is_everywhere = rows.held.len() == set.routes.len();
        for (volume, ballot, _) in rows.held.iter().filter(|(_, _, committed)| is_everywhere || !committed) {
            if let Some(place) = set.place_of(*volume) {
                let commit = CommitHint { ballot: *ballot, is_everywhere, positions: Positions::default() };
                set.routes[place].registers.commit(*volume, &target, &commit);
            }
        }
    }

    /// What every volume of a key's set says it holds for it. A row counts by its head, whatever
    /// became of its bytes.
    pub(crate) async fn rows_of(&self, key: &RegisterKey) -> Rows {
        self.ask_rows(key, RowCheck::Head).await
    }

    /// As [`Self::rows_of`], with every byte of every row verified.
    async fn whole_rows_of(&self, key: &RegisterKey) -> Rows {
        self.ask_rows(key, RowCheck::Bytes).await
    }

    /// As [`Self::rows_of`], where what cannot be read as a value counts as rotten: a register counts no such vote.
    pub(super) async fn readable_rows_of(&self, key: &RegisterKey) -> Rows {
        self.ask_rows(key, RowCheck::Value).await
    }

    async fn ask_rows(&self, key: &RegisterKey, check: RowCheck) -> Rows {
        let set = self.cluster.set_of(key);
        let target: Target = self.cluster.target(key.clone());
        let asked = set.routes.iter().map(|route| {
            let target = &target;
            async move {
                let whole = check != RowCheck::Head;
                let head = || route.registers.read(route.volume, target, ValueLimit::NOTHING);
                let asking = async {
                    if whole { read_whole(route, target, ROW_PATIENCE).await } else { head().await }
                };
                let answer = match tokio::time::timeout(ROW_PATIENCE, asking).await {
                    Ok(Ok(answer)) if whole => Some(verify_value(route, target, answer, check).await),
                    Ok(answer) => Some(answer),
                    Err(_elapsed) => None,
                };
                (route.volume, answer)
            }
        });
        let answers = futures::future::join_all(asked).await;
        for (volume, answer) in &answers {
            if let Some(Ok(answer)) = answer {
                self.registers.learn(*volume, &answer.from);
            }
        }
        let lives = self.registers.known_lives();
        let mut rows = Rows::default();
        for (volume, answer) in answers {
            match answer {
                Some(Ok(answer)) => match answer.result.map(|vote| (vote.is_accepted(), vote)) {
                    Ok((is_accepted, vote)) if lives.counts(volume, &answer.from) => match vote.row {
                        Some(row) => {
                            if !is_accepted {
                                rows.not_accepted.push(volume);
                            }
                            let value = row.value.and_then(|head| Value::decode(head).ok());
                            rows.values.extend(value.map(|value| (volume, value)));
                            rows.held.push((volume, row.head.ballot, row.head.committed));
                        }
                        None => rows.without.push(volume),
                    },
                    Err(Refusal::Sealed) => rows.sealed.push(volume),
                    Ok(_) | Err(_) => rows.silent.push(volume),
                },
                Some(Err(message::Error::Corrupt { .. })) => rows.rotten.push(volume),
                Some(Err(message::Error::Busy)) | None => {
                    rows.silent.push(volume);
                    rows.late.push(volume);
                }
                Some(Err(_)) => rows.silent.push(volume),
            }
        }
        rows
    }

    /// What a sealed bucket means for a heal: nothing to do when it is gone for ever.
    fn sealed(&self, key: &RegisterKey) -> HealOutcome {
        if self.is_gone_for_ever(key) { HealOutcome::Unnamed } else { HealOutcome::later(1, Failure::Sealed) }
    }

    /// Whether the bucket of a key is deleted for ever: no register under it can name anything.
    pub(super) fn is_gone_for_ever(&self, key: &RegisterKey) -> bool {
        self.volumes.all().iter().any(|volume| self.is_sealed_for_ever_on(volume.id(), key.bucket))
    }

    /// Heals what is queued until it is told to stop.
    pub(crate) async fn heal_queue(&self) {
        loop {
            match self.mrf.take(self.now_ms()) {
                Some(entry) => self.heal_queued(&entry).await,
                None => self.wait_for_damage().await,
            }
            if self.mrf.may_reload() {
                self.load_heals().await;
            }
        }
    }

    /// Looks through the volumes' logs until told to stop: an entry that a write made durable together
    /// with its value is only there.
    pub(crate) async fn reload_heals(&self) {
        loop {
            tokio::time::sleep(RELOAD_EVERY).await;
            self.load_heals().await;
            self.log_unlogged().await;
        }
    }

    async fn wait_for_damage(&self) {
        let wait = match self.mrf.next_due_ms() {
            Some(due_ms) => Duration::from_millis(due_ms.saturating_sub(self.now_ms()).max(1)),
            None => RELOAD_EVERY,
        };
        // Cancel-safe: a notification that is not taken stays for the next wait, and time passing
        // is what the other arm is about.
        drop(tokio::time::timeout(wait, self.mrf.added()).await);
    }

    pub(super) async fn heal_queued(&self, entry: &HealEntry) {
        let id = entry.id();
        // An entry that makes its heal panic must not stay in hand for ever, nor stop the others.
        let healed = self.panics.contain("heal", self.heal(entry)).await;
        match healed.unwrap_or_else(|| HealOutcome::later(0, "healing it panicked")) {
            HealOutcome::Whole | HealOutcome::Unnamed => {
                let set = self.cluster.set_of(&entry.key);
                self.mrf.healed(id, self.now_ms(), || {
                    for route in &set.routes {
                        route.upkeep.heal_done(route.volume, id);
                    }
                });
            }
            HealOutcome::Later { spare, reason, .. } => {
                tracing::debug!(key = ?entry.key, data = ?entry.data, reason, "not healed yet");
                // A kill would forget it, and where a scrubber found it a comparison of what changed does not look.
                if !self.mrf.is_logged(id) {
                    let _ = self.panics.contain("heal", self.log_heal(entry.clone(), spare)).await;
                }
                let [jitter, ..] = self.rng.next_u64().to_le_bytes();
                self.mrf.failed(id, spare, self.now_ms(), jitter);
            }
        }
    }

    /// Makes damage durable on the volumes of its set, and queues it. `false` where no volume took it: a kill
    /// forgets it, and it counts as a lost report, so that volumes are compared again.
    pub(crate) async fn queue_heal(&self, entry: HealEntry, spare: Spare) -> bool {
        let is_logged = self.log_heal(entry, spare).await;
        if !is_logged {
            self.report_counts.lost_one();
        }
        is_logged
    }

    /// As [`Self::queue_heal`], for a report that is counted already.
    ///
    /// As many logs as a write needs are enough: one that is slow gets it as well, and nobody waits for it. Where
    /// others refuse, one is: it outlives a kill.
    pub(super) async fn log_heal(&self, mut entry: HealEntry, spare: Spare) -> bool {
        if self.mrf.met_again(&entry, spare) {
            return true;
        }
        if entry.since_ms == 0 {
            entry.since_ms = self.wall_ms();
        }
        let set = self.cluster.set_of(&entry.key);
        let puts =
            set.routes.iter().map(|route| ask(route.upkeep.heal_put(route.volume, &entry), ROW_PATIENCE));
        let mut puts: FuturesUnordered<_> = puts.collect();
        let mut taken = 0;
        while taken < set.quorums().accept()
            && let Some(answer) = puts.next().await
        {
            taken += usize::from(answer.is_ok());
        }
        if taken == 0 {
            // The scrubber is the second net.
            self.mrf.add_unlogged(entry, spare);
        } else {
            self.mrf.add(entry, spare);
        }
        taken > 0
    }

    /// Tries once more to make durable what no log took; not to its end while they still refuse.
    pub(super) async fn log_unlogged(&self) {
        loop {
            let unlogged = self.mrf.unlogged(UNLOGGED_AT_ONCE);
            let puts = unlogged.into_iter().map(|(entry, spare)| self.log_heal(entry, spare));
            let taken = futures::future::join_all(puts).await;
            if !taken.contains(&true) {
                return;
            }
        }
    }

    /// Loads what the logs of all volumes hold. One that does not answer is asked when it comes back, and holds up
    /// nobody else's.
    pub(crate) async fn load_heals(&self) {
        let routes = self.cluster.sets().iter().flat_map(|set| &set.routes);
        let loads: Vec<_> = routes.map(|route| self.load_heals_of(route)).collect();
        futures::stream::iter(loads).buffer_unordered(LOGS_READ_AT_ONCE).for_each(|_| async {}).await;
    }

    /// Loads what a volume's log holds; `false` when it could not be read to its end.
    pub(super) async fn load_heals_of(&self, route: &VolumeRoute) -> bool {
        let mut after = None;
        loop {
            let page = route.upkeep.heals(route.volume, after, PAGE);
            let Ok(page) = ask(page, PAGE_PATIENCE).await else { return false };
            let full = page.len() >= PAGE;
            after = page.last().map(|(id, _)| *id);
            for (id, stored) in page {
                match HealEntry::decode(stored) {
                    Ok(entry) => {
                        let spare = entry.data.map_or(1, |data| data.spare());
                        self.mrf.load(entry, Spare(spare), self.now_ms());
                    }
                    Err(error) => {
                        tracing::warn!(?error, "a heal entry does not decode and is dropped");
                        route.upkeep.heal_done(route.volume, id);
                    }
                }
            }
            if !full {
                return true;
            }
        }
    }
}

/// Reads the inline bytes behind a row, where it has any: an error when they are rotten, or where the row is to be
/// a value and is none.
async fn verify_value(
    route: &VolumeRoute,
    target: &Target,
    answer: Answer<Vote>,
    check: RowCheck,
) -> Result<Answer<Vote>, message::Error> {
    let Some(row) = answer.result.as_ref().ok().and_then(|vote| vote.row.as_ref()) else { return Ok(answer) };
    let Some(value) = row.value.clone().and_then(|head| Value::decode(head).ok()) else {
        let no_value = message::Error::Corrupt { what: "a row is no value".to_owned() };
        return if check == RowCheck::Value { Err(no_value) } else { Ok(answer) };
    };
    if value.state.has_inline()
        && let Err(error @ message::Error::Corrupt { .. }) =
            ask(route.registers.inline(route.volume, target, row.head.ballot), ROW_PATIENCE).await
    {
        return Err(error);
    }
    Ok(answer)
}

/// Bytes of a row.
fn row_bytes(value: &Value) -> u64 {
    value.encode().len() as u64 + value.state.inline_contents().map(|content| content.size).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sherd_core::id::{ProposerId, Timestamp, VersionId};
    use sherd_core::record::{Changes, Object, State, Version, VersionKind};

    fn ballot(time: u64) -> Ballot {
        Ballot { time: Timestamp::from_ms(time), proposer: ProposerId(1) }
    }

    fn volume(n: u8) -> VolumeId {
        VolumeId([n; 16])
    }

    #[test]
    fn rows_are_equal_only_when_all_hold_one_committed_ballot() {
        let held = |rows: &[(u8, u64, bool)]| {
            rows.iter()
                .map(|(n, time, committed)| (volume(*n), ballot(*time), *committed))
                .collect::<Vec<_>>()
        };
        let equal = |rows: Rows| rows.are_equal();
        assert!(equal(Rows { held: held(&[(1, 5, true), (2, 5, true)]), ..Rows::default() }));
        assert!(equal(Rows { without: vec![volume(1), volume(2)], ..Rows::default() }));
        assert!(!equal(Rows { held: held(&[(1, 5, true), (2, 6, true)]), ..Rows::default() }));
        assert!(!equal(Rows { held: held(&[(1, 5, true), (2, 5, false)]), ..Rows::default() }));
        let missing = Rows { held: held(&[(1, 5, true)]), without: vec![volume(2)], ..Rows::default() };
        assert!(!equal(missing.clone()));
        assert!(!missing.are_same());
        let silent = Rows { held: held(&[(1, 5, true)]), silent: vec![volume(2)], ..Rows::default() };
        assert!(silent.are_same() && !silent.are_equal());
        let sealed = Rows { held: held(&[(1, 5, true)]), sealed: vec![volume(2)], ..Rows::default() };
        assert!(sealed.are_same() && !sealed.are_equal());
        let rotten = Rows { held: held(&[(1, 5, true)]), rotten: vec![volume(2)], ..Rows::default() };
        assert!(!rotten.are_same());
    }

    /// An object of so many delete markers.
    fn value(markers: u64) -> Value {
        let marker = |n| Version { id: VersionId::NULL, modified_ms: n, kind: VersionKind::DeleteMarker };
        let versions = (0..markers).map(marker).collect();
        Value { changes: Changes::default(), state: State::Object(Object { versions, uploads: Vec::new() }) }
    }

    #[test]
    fn only_who_lacks_what_a_full_volume_refuses_waits_for_room() {
        let waits = |held: &[(u8, u64, bool, u64)], rotten: &[u8]| {
            let values = held.iter().map(|(n, _, _, markers)| (volume(*n), value(*markers))).collect();
            let held =
                held.iter().map(|(n, time, committed, _)| (volume(*n), ballot(*time), *committed)).collect();
            let (without, rotten) = (vec![volume(8)], rotten.iter().map(|n| volume(*n)).collect());
            Rows { held, values, without, rotten, ..Rows::default() }.behind_the_committed_and_need_room()
        };
        let newest = [(2, 5, false, 3), (3, 5, true, 3)];
        let with = |before| [&[before], &newest[..]].concat();
        assert_eq!(waits(&with((1, 4, true, 2)), &[]), Some([1, 8].map(volume).to_vec()));
        assert_eq!(waits(&with((1, 4, true, 3)), &[]), None, "it repairs its own");
        assert_eq!(waits(&with((1, 4, true, 4)), &[]), None, "it is smaller there");
        assert_eq!(waits(&with((1, 4, true, 2)), &[9]), None, "it may repair what is rotten");
        assert_eq!(waits(&[(1, 4, true, 2), (2, 5, false, 3)], &[]), None, "the newest may not be committed");
        assert_eq!(waits(&[], &[]), None);
        let tombstone = Value { changes: Changes::default(), state: State::Tombstone };
        let deleted = Rows {
            held: vec![(volume(1), ballot(5), true)],
            values: vec![(volume(1), tombstone)],
            without: vec![volume(8)],
            ..Rows::default()
        };
        assert_eq!(deleted.behind_the_committed_and_need_room(), None, "it makes way");
    }
}
