//! The read round: committed values only.
//!
//! P volumes are asked first. Where they do not settle it (a write is under way, a volume does not
//! answer) the others are asked too, then all again for about two commit times; then the read
//! finishes the write that it found. So it does where the volumes that showed a committed row cannot
//! read it: a write finds what the others hold.

use tokio::time::Instant;

use sherd_core::id::RegisterKey;
use sherd_core::message;
use sherd_core::message::{Answer, Target, ValueLimit};
use sherd_core::record::Value;
use sherd_core::register::proposer::HighestRow;
use sherd_core::register::read::{ReadDecision, ReadProgress, decide_read};
use sherd_core::register::{Refusal, Vote};

use bytes::Bytes;
use std::sync::Arc;

use super::limits::{LINK_PAUSE, READ_PAUSE_MAX, READ_PAUSE_MIN};
use super::room::ValueRoom;
use super::round::Round;
use super::{Failure, QuorumRow, Registers, RowAnswer, RowRefusals, holders_first};
use crate::cluster::{KeyRoute, SetView};
use crate::observe::trace::{self, Phase};
use crate::peer::VolumeRoute;

impl Registers {
    /// Reads the committed value of a register; `None` when it holds nothing.
    ///
    /// # Errors
    /// [`Failure`] where too few volumes answer in time.
    pub async fn read(&self, key: &RegisterKey) -> Result<Option<QuorumRow>, Failure> {
        self.read_at(&self.inner.cluster.route(key.clone())).await
    }

    /// As [`Self::read`], where the key's route is at hand.
    pub(crate) async fn read_at(&self, route: &KeyRoute) -> Result<Option<QuorumRow>, Failure> {
        let _timer = trace::timer(Phase::Register);
        self.read_committed(route).await
    }

    async fn read_committed(&self, route: &KeyRoute) -> Result<Option<QuorumRow>, Failure> {
        let deadline = Instant::now() + self.inner.timeouts.operation;
        loop {
            let read = match self.read_once(route).await {
                Err(Failure::Unavailable) if self.links_return(&route.set, deadline).await => continue,
                read => read?,
            };
            match read {
                ReadOutcome::Value(found) => return Ok(Some(*found)),
                ReadOutcome::Absent => return Ok(None),
                ReadOutcome::MovedOn if Instant::now() < deadline => {}
                ReadOutcome::MovedOn => return Err(Failure::Unavailable),
                // Rare and large: in memory of its own, as every read of a register would be that large.
                ReadOutcome::Unfinished => return Box::pin(self.finish_at(route)).await,
            }
        }
    }

    /// Whether too few volumes of a set answered because connections to them were lost just before, as those
    /// of a suspended node are: then it waits briefly while they are made again. Cancel-safe.
    pub(super) async fn links_return(&self, set: &SetView, deadline: Instant) -> bool {
        let returns = Instant::now() < deadline && set.routes.iter().any(VolumeRoute::is_returning);
        if returns {
            tokio::time::sleep(LINK_PAUSE).await;
        }
        returns
    }

    /// Reads a key that this gateway is about to write while others do: a write under way is waited for, and
    /// not finished. `None` where the read could not tell.
    pub(super) async fn look(&self, route: &KeyRoute) -> Option<Option<QuorumRow>> {
        match self.read_once(route).await {
            Ok(ReadOutcome::Value(found)) => Some(Some(*found)),
            Ok(ReadOutcome::Absent) => Some(None),
            Ok(ReadOutcome::MovedOn | ReadOutcome::Unfinished) | Err(_) => None,
        }
    }

    async fn read_once(&self, route: &KeyRoute) -> Result<ReadOutcome, Failure> {
        self.inner.metrics.register.read_rounds.inc();
        let KeyRoute { set, target } = route;
        let order = set.prompt_first(usize::from(target.slot.0) % set.routes.len());
        let mut unasked = order.iter().copied();
        let quorum = set.quorums().prepare();
        let mut round = Round::new(Arc::clone(set), Instant::now() + self.inner.timeouts.round);
        for (n, place) in unasked.by_ref().take(quorum).enumerate() {
            ask(&mut round, place, target, if n == 0 { ValueLimit::USUAL } else { ValueLimit::NOTHING });
        }
        let asked = Instant::now();
        let patience = asked + self.inner.contention.patience(self.inner.timeouts.commit);
        let mut pause = READ_PAUSE_MIN;
        loop {
            let lives = self.known_lives();
            let reading = ReadProgress {
                quorums: round.set.quorums(),
                outstanding: round.outstanding() + unasked.len(),
                lives: &lives,
                patience_over: Instant::now() >= patience,
            };
            let decision = decide_read(&round.replies, reading);
            let is_open = matches!(
                decision,
                ReadDecision::Wait | ReadDecision::AskOnceMore { .. } | ReadDecision::AskAgain
            );
            if !is_open {
                self.count_read(&round, asked);
            }
            match decision {
                ReadDecision::Value(found) => return self.with_value(&round, target, found).await,
                ReadDecision::Absent => return Ok(ReadOutcome::Absent),
                ReadDecision::Wait if round.outstanding() > 0 && unasked.len() == 0 => {
                    round.next_needed(self, quorum, 1).await;
                }
                ReadDecision::Wait if round.outstanding() > 0 && round.next_soon(self).await => {}
                ReadDecision::Wait => {
                    round.note_late();
                    for place in unasked.by_ref() {
                        ask(&mut round, place, target, ValueLimit::NOTHING);
                    }
                }
                ReadDecision::AskOnceMore { volumes } => {
                    for volume in volumes {
                        let place = round.set.place_of(volume).expect("replies come from the set");
                        ask(&mut round, place, target, ValueLimit::NOTHING);
                    }
                    while round.outstanding() > 0 {
                        round.next_needed(self, quorum, 1).await;
                    }
                }
                ReadDecision::AskAgain => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                    for place in order.iter().copied() {
                        ask(&mut round, place, target, ValueLimit::NOTHING);
                    }
                    while round.outstanding() > 0 {
                        round.next_needed(self, quorum, 1).await;
                    }
                }
                ReadDecision::Finish => return Ok(ReadOutcome::Unfinished),
                ReadDecision::Sealed => return Err(Failure::Sealed),
                ReadDecision::StaleEpoch { .. } | ReadDecision::Unavailable => return Err(round.failure()),
            }
        }
    }

    /// Counts a read round that is decided.
    fn count_read(&self, round: &Round<Vote>, asked: Instant) {
        let slowest = round.count(Phase::Read, &self.inner.metrics);
        if let Some(request) = trace::current() {
            request.add(Phase::Read, asked.elapsed());
            if let Some(call) = slowest {
                let took = call.took;
                request.called(|| call, took);
            }
        }
    }

    async fn with_value(
        &self,
        round: &Round<Vote>,
        target: &Target,
        head: HighestRow,
    ) -> Result<ReadOutcome, Failure> {
        match self.value_of(&round.replies, &round.set, target, &head).await? {
            RowAnswer::Given(mut found) => {
                found.committed = true;
                Ok(ReadOutcome::Value(Box::new(found)))
            }
            RowAnswer::MovedOn => Ok(ReadOutcome::MovedOn),
            RowAnswer::Corrupt => Ok(ReadOutcome::Unfinished),
            RowAnswer::Late => Err(Failure::Unavailable),
        }
    }

    /// The value behind a found head: from a reply that carries it, else asked for. A long one is asked for
    /// by its length once there is room for it, here and at a volume that has it.
    pub(super) async fn value_of(
        &self,
        replies: &[sherd_core::register::quorum::Reply<Vote>],
        set: &SetView,
        target: &Target,
        head: &HighestRow,
    ) -> Result<RowAnswer<QuorumRow>, Failure> {
        let mut refusals = RowRefusals::default();
        let mut value_bytes = 0;
        for reply in replies {
            match reply.result.as_ref().map(|vote| shown_value(vote, head)) {
                Ok(ShownValue::Bytes(bytes)) => match self.decoded(target, bytes, head, ValueRoom::default())
                {
                    Some(found) => return Ok(RowAnswer::Given(found)),
                    None => refusals.corrupt = true,
                },
                Ok(ShownValue::Length(bytes)) => value_bytes = value_bytes.max(bytes),
                Ok(ShownValue::OtherRow) | Err(_) => {}
            }
        }
        let deadline = Instant::now() + self.inner.timeouts.round;
        let mut pause = READ_PAUSE_MIN;
        loop {
            let room = ValueRoom::take(&self.inner.values, value_bytes as usize).await?;
            let values = ValueLimit::of(value_bytes).max(ValueLimit::USUAL);
            match self.ask_holders(set, target, head, (values, room), refusals).await? {
                HoldersAnswer::Row(answer) => return Ok(*answer),
                HoldersAnswer::NoRoom if Instant::now() >= deadline => return Err(Failure::Overloaded),
                HoldersAnswer::NoRoom => {
                    // Other values have the room of the volumes; this one waits without the gateway's.
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(READ_PAUSE_MAX);
                }
                HoldersAnswer::Longer(bytes) => value_bytes = bytes,
            }
        }
    }

    /// Asks those that hold a row for its value, one after the other.
    async fn ask_holders(
        &self,
        set: &SetView,
        target: &Target,
        head: &HighestRow,
        (values, room): (ValueLimit, ValueRoom),
        mut refusals: RowRefusals,
    ) -> Result<HoldersAnswer, Failure> {
        let mut lacked_room = false;
        let mut holders = self.hedged(holders_first(set, &head.holders));
        let read = |place: usize| {
            let route = &set.routes[place];
            route.peer.read(route.volume, target, values)
        };
        while let Some((place, answer)) = holders.next(1, read).await {
            let route = &set.routes[place];
            match answer {
                Ok(Answer { result: Ok(vote), .. }) => match shown_value(&vote, head) {
                    ShownValue::Bytes(bytes) => match self.decoded(target, bytes, head, room.clone()) {
                        Some(found) => return Ok(HoldersAnswer::Row(Box::new(RowAnswer::Given(found)))),
                        None => refusals.corrupt = true,
                    },
                    ShownValue::Length(bytes) if !values.takes(bytes) => {
                        return Ok(HoldersAnswer::Longer(bytes));
                    }
                    ShownValue::Length(_) => lacked_room = true,
                    ShownValue::OtherRow => refusals.moved_on |= head.holders.contains(&route.volume),
                },
                Ok(Answer { result: Err(Refusal::Sealed), .. }) => return Err(Failure::Sealed),
                Err(message::Error::Corrupt { .. }) => {
                    refusals.corrupt = true;
                    self.inner.damage.row(&target.key);
                }
                // A short value needs no room: that volume answers no caller.
                Err(message::Error::Busy) if values > ValueLimit::USUAL => lacked_room = true,
                Ok(_) | Err(_) => {}
            }
            if refusals.are_enough(set, holders.places()) {
                break;
            }
        }
        Ok(match refusals.together() {
            RowAnswer::Corrupt | RowAnswer::Late if lacked_room => HoldersAnswer::NoRoom,
            answer => HoldersAnswer::Row(Box::new(answer)),
        })
    }

    /// A found row; `None` if its value does not decode.
    fn decoded(
        &self,
        target: &Target,
        bytes: Bytes,
        head: &HighestRow,
        room: ValueRoom,
    ) -> Option<QuorumRow> {
        match Value::decode(bytes.clone()) {
            Ok(value) => Some(QuorumRow {
                ballot: head.ballot,
                digest: head.digest,
                committed: head.committed,
                holders: head.holders.clone(),
                head: bytes,
                value,
                room,
            }),
            Err(error) => {
                tracing::error!(key = ?target.key, ?error, "a verified row does not decode");
                self.inner.damage.row(&target.key);
                None
            }
        }
    }
}

/// Answer of the volumes that hold a row, about its value.
enum HoldersAnswer {
    Row(Box<RowAnswer<QuorumRow>>),
    /// At least one holder had no room for the answer, and no other gave it.
    NoRoom,
    /// The value is longer than was asked for: its length in bytes.
    Longer(u32),
}

/// Part of a found row's value that a vote shows.
enum ShownValue {
    Bytes(Bytes),
    /// Length of the value in bytes; the vote does not carry it.
    Length(u32),
    /// The volume holds another row, or none.
    OtherRow,
}

enum ReadOutcome {
    Value(Box<QuorumRow>),
    Absent,
    /// The row changed between the vote and the value.
    MovedOn,
    /// A write is unfinished and its writer seems gone, or none of the volumes that showed the row can read
    /// it.
    Unfinished,
}

fn ask(round: &mut Round<Vote>, place: usize, target: &Target, values: ValueLimit) {
    let route = round.set.routes[place].clone();
    round.ask(place, route.peer.read(route.volume, target, values));
}

fn shown_value(vote: &Vote, head: &HighestRow) -> ShownValue {
    let Some(row) = vote.row.as_ref().filter(|row| row.head.ballot == head.ballot) else {
        return ShownValue::OtherRow;
    };
    row.value.clone().map_or(ShownValue::Length(row.value_bytes), ShownValue::Bytes)
}
