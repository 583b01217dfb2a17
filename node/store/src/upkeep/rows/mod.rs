//! The rows of one key on the volumes of its set, asked for all at one time: the rows' heads, their bytes, or
//! their values.

pub(crate) mod bring;
pub(crate) mod look;
mod look_pace;
pub(crate) mod missed;
mod pull;
pub(crate) mod settle;

use sherd_core::id::{Ballot, RegisterKey, VolumeId};
use sherd_core::message;
use sherd_core::message::{Answer, Target, ValueLimit};
use sherd_core::record::Value;
use sherd_core::register::quorum::Quorums;
use sherd_core::register::{CommitHint, Positions, Refusal, Vote};

use super::deps::Deps;
use super::pages::{ask, read_whole};
use crate::peer::VolumeRoute;
use crate::upkeep::limits::ROW_PATIENCE;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Rows {
    /// Volumes with a row, its ballot, and whether they know it committed.
    pub(crate) held: Vec<(VolumeId, Ballot, bool)>,
    /// Volumes of `held` whose row does not count as accepted: see `Vote::is_accepted`.
    pub(crate) not_accepted: Vec<VolumeId>,
    /// The values of these rows, where they were read whole.
    pub(crate) values: Vec<(VolumeId, Value)>,
    pub(crate) without: Vec<VolumeId>,
    pub(crate) rotten: Vec<VolumeId>,
    /// Volumes that do not say, for a deletion sealed the bucket there.
    pub(crate) sealed: Vec<VolumeId>,
    /// Volumes that did not answer, or do not vote.
    pub(crate) silent: Vec<VolumeId>,
    /// Volumes of `silent` that are up, and too busy to answer in time.
    pub(crate) late: Vec<VolumeId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowCheck {
    /// The row's head alone; its bytes may be rotten.
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

    /// Whether nothing is wrong on the volumes that answered, and the others are away: when they come back
    /// they are compared with their peers.
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

    /// Whether the row of a ballot is committed, as far as the answers show: a holder marks it so, or A
    /// accepted it.
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

    /// The volumes that answered and lack the newest row, where that is known to be committed and a full
    /// volume would refuse it to all of them: it takes what makes way, what is smaller than what it has, and
    /// what repairs its own.
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

/// Where A volumes accepted the same row it is committed: sends the hint to those that do not know it. Where
/// all hold it all get the hint, and none needs to list it any more.
pub(crate) fn tell_committed(deps: &Deps, key: &RegisterKey, rows: &Rows) {
    let set = deps.cluster.set_of(key);
    if !rows.are_settled(set.quorums()) {
        return;
    }
    let target = deps.cluster.target(key.clone());
    let is_everywhere = rows.held.len() == set.routes.len();
    for (volume, ballot, _) in rows.held.iter().filter(|(_, _, committed)| is_everywhere || !committed) {
        if let Some(place) = set.place_of(*volume) {
            let commit = CommitHint { ballot: *ballot, is_everywhere, positions: Positions::default() };
            set.routes[place].peer.commit(*volume, &target, &commit);
        }
    }
}

/// Asks every volume of a key's set for its row. A row counts by its head, even if its bytes are rotten.
pub(crate) async fn rows_of(deps: &Deps, key: &RegisterKey) -> Rows {
    ask_rows(deps, key, RowCheck::Head).await
}

/// As [`rows_of`], with every byte of every row verified.
async fn whole_rows_of(deps: &Deps, key: &RegisterKey) -> Rows {
    ask_rows(deps, key, RowCheck::Bytes).await
}

/// As [`rows_of`], where what cannot be read as a value counts as rotten: a register counts no such vote.
pub(crate) async fn readable_rows_of(deps: &Deps, key: &RegisterKey) -> Rows {
    ask_rows(deps, key, RowCheck::Value).await
}

async fn ask_rows(deps: &Deps, key: &RegisterKey, check: RowCheck) -> Rows {
    let set = deps.cluster.set_of(key);
    let target: Target = deps.cluster.target(key.clone());
    let asked = set.routes.iter().map(|route| {
        let target = &target;
        async move {
            let whole = check != RowCheck::Head;
            let head = || route.peer.read(route.volume, target, ValueLimit::NOTHING);
            let asking =
                async { if whole { read_whole(route, target, ROW_PATIENCE).await } else { head().await } };
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
            deps.registers.learn(*volume, &answer.from);
        }
    }
    let lives = deps.registers.known_lives();
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

/// Reads the inline bytes behind a row, where it has any: an error when they are rotten, or where the row is
/// to be a value and does not decode.
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
            ask(route.peer.inline(route.volume, target, row.head.ballot), ROW_PATIENCE).await
    {
        return Err(error);
    }
    Ok(answer)
}

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

    /// An object of `markers` delete markers.
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
