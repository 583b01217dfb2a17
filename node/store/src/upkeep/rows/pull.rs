//! The committed row of a key, as one volume holds it, taken by those of its set that lack it: each judges it
//! as a late accept, and no ballot is spent on it. Guards I-22.

use bytes::Bytes;
use futures::future::join_all;

use sherd_core::id::{Ballot, RegisterKey, Timestamp, VolumeId};
use sherd_core::message::{self, PulledRow};
use sherd_core::record::Value;
use sherd_core::register::{EncodedValue, Refusal};

use super::Rows;
use crate::peer::VolumeRoute;
use crate::upkeep::deps::Deps;
use crate::upkeep::limits::{FOLLOW_RESTART_MS_MAX, ROW_PATIENCE};
use crate::upkeep::pages::{ask, read_whole};

/// The answers of the volumes that lack a row. One that does not know the call says nothing here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PullOutcome {
    /// Volumes that hold the row now, or a later one.
    pub(super) taken_count: usize,
    /// Volumes without room for it.
    pub(super) full: Vec<VolumeId>,
    has_busy: bool,
    /// Whether a volume did not take it for another reason.
    has_refused: bool,
    /// The highest bound at or below which a volume refused the row.
    refused_below: Option<Ballot>,
}

impl PullOutcome {
    /// Why the row waits in place of being written again at a fresh ballot: each volume that still lacks it
    /// takes it later, as it is.
    pub(super) fn waits_for(&self) -> Option<WaitsFor> {
        match self {
            Self { has_refused: true, .. } => None,
            Self { has_busy: true, .. } => Some(WaitsFor::Busy),
            Self { full, .. } => (!full.is_empty()).then(|| WaitsFor::Room(full.clone())),
        }
    }

    /// The bound that a write has to pass, so that a volume which refused the row does not miss that, too:
    /// none that is further ahead than a restart leaves it. One wrong clock must not move those of all.
    pub(super) fn bound_to_pass(&self, now: Timestamp) -> Ballot {
        let latest = now.plus_ms(FOLLOW_RESTART_MS_MAX);
        self.refused_below.filter(|bound| bound.time <= latest).unwrap_or(Ballot::ZERO)
    }
}

/// Why a row waits that volumes lack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WaitsFor {
    /// A volume that was busy.
    Busy,
    /// The room of these volumes; all others have it.
    Room(Vec<VolumeId>),
}

/// Lets the volumes that answered and lack the newest row pull it, where that is committed and whole.
pub(super) async fn pull_committed(deps: &Deps, key: &RegisterKey, rows: &Rows) -> PullOutcome {
    let set = deps.cluster.set_of(key);
    let route_of = |volume| set.place_of(volume).map(|place| &set.routes[place]);
    let Some((holder, newest, _)) =
        rows.held.iter().max_by_key(|(_, ballot, committed)| (*ballot, *committed))
    else {
        return PullOutcome::default();
    };
    let older = rows.held.iter().filter(|(_, ballot, _)| ballot < newest).map(|(volume, ..)| *volume);
    let behind: Vec<&VolumeRoute> = older.chain(rows.without.iter().copied()).filter_map(route_of).collect();
    if behind.is_empty() || !rows.is_committed(*newest, set.quorums()) {
        return PullOutcome::default();
    }
    let Some(source) = route_of(*holder) else { return PullOutcome::default() };
    let Some(mut row) = read_row(deps, source, key, *newest).await else { return PullOutcome::default() };
    // A volumes accepted it, which its holder may not know.
    row.head.committed = true;
    let target = deps.cluster.target(key.clone());
    let pulls = behind.iter().map(|route| ask(route.peer.pull(route.volume, &target, &row), ROW_PATIENCE));
    let mut outcome = PullOutcome::default();
    for (route, answer) in behind.iter().zip(join_all(pulls).await) {
        match answer.map(|answer| answer.result) {
            Ok(Ok(())) => outcome.taken_count += 1,
            Ok(Err(refusal)) => {
                tracing::debug!(?key, volume = %route.volume, %refusal, "a volume does not take a row");
                outcome.has_refused = true;
                if let Refusal::Below { bound } = refusal {
                    outcome.refused_below = outcome.refused_below.max(Some(bound));
                }
            }
            Err(message::Error::Busy) => outcome.has_busy = true,
            Err(message::Error::Full) => outcome.full.push(route.volume),
            Err(error) => {
                outcome.has_refused = true;
                tracing::debug!(?key, volume = %route.volume, %error, "a volume does not take a row");
            }
        }
    }
    outcome
}

/// The row of a ballot as a volume holds it, with its inline bytes. These come by themselves and are verified
/// here: the volume that pulls them keeps them under hashes of its own. `None` where the row cannot be read,
/// or is another one by now.
pub(super) async fn read_row(
    deps: &Deps,
    source: &VolumeRoute,
    key: &RegisterKey,
    ballot: Ballot,
) -> Option<PulledRow> {
    let target = deps.cluster.target(key.clone());
    let answer = read_whole(source, &target, ROW_PATIENCE).await.ok()?;
    let row = answer.result.ok()?.row.filter(|row| row.head.ballot == ballot)?;
    let encoded = row.value?;
    let value = Value::decode(encoded.clone()).ok()?;
    let inline = if value.state.has_inline() {
        ask(source.peer.inline(source.volume, &target, ballot), ROW_PATIENCE).await.ok()?
    } else {
        Bytes::new()
    };
    value.state.check_inline(&inline).ok()?;
    Some(PulledRow { head: row.head, value: EncodedValue::decoded(encoded, &value, inline) })
}

#[cfg(test)]
mod tests {
    use super::*;

    use sherd_core::id::ProposerId;

    #[test]
    fn a_write_passes_the_bound_of_a_volume_that_refused_the_row_unless_its_clock_is_wrong() {
        let now = Timestamp::from_ms(1_000_000);
        let bound = |time| Ballot { time, proposer: ProposerId(1) };
        let passes =
            |refused_below| PullOutcome { refused_below, ..PullOutcome::default() }.bound_to_pass(now);
        assert_eq!(passes(None), Ballot::ZERO);
        let latest = now.plus_ms(FOLLOW_RESTART_MS_MAX);
        assert_eq!(passes(Some(bound(latest))), bound(latest));
        assert_eq!(passes(Some(bound(latest.plus_ms(1)))), Ballot::ZERO);
    }

    #[test]
    fn a_row_waits_for_full_and_busy_volumes_where_no_other_refused_it() {
        let full = || vec![VolumeId([1; 16])];
        let waits = |full, has_busy, has_refused| {
            PullOutcome { full, has_busy, has_refused, ..PullOutcome::default() }.waits_for()
        };
        assert_eq!(waits(Vec::new(), false, false), None);
        assert_eq!(waits(full(), false, false), Some(WaitsFor::Room(full())));
        assert_eq!(
            waits(full(), true, false),
            Some(WaitsFor::Busy),
            "it is tried again before there is room"
        );
        assert_eq!(waits(full(), true, true), None);
    }
}
