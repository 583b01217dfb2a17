//! Deleting a bucket, while a writer writes into it.
//!
//! ```text
//! the bucket's register (atomic):  active -> deleting(d) -> deleted -> active under another id
//! gateways:   CAS, seal, list, decide, CAS          (one dies whenever it takes no more steps)
//! upkeep:     sees a seal, reads the register, removes the seal
//! volumes:    seals, one row of one key, a life     (the first may lose its state)
//! writers:    a PUT and then a DELETE, their accepts under way from the start, delivered any time
//! ```
//! Abstracted: a write's prepare (an accept that is under way is what a seal must keep out); a lost
//! volume's recovery is one step (`register/recover.rs` takes it apart); one set, one key. Volumes that
//! are never lost are interchangeable and kept sorted, so a trace names places, not volumes.

use std::sync::Arc;

use sherd_core::id::{
    Ballot, BucketId, ChangeId, Life, ObjectKey, ProposerId, Sequence, Timestamp, VolumeId,
};
use sherd_core::record::BucketPhase;
use sherd_core::register::acceptor::{AcceptVerdict, AcceptorState, Circumstances, KeyState, judge_accept};
use sherd_core::register::position::OpeningId;
use sherd_core::register::proposer::{AcceptOutcome, PrepareProgress, after_accept};
use sherd_core::register::quorum::{Lives, Order, Quorums, Reply};
use sherd_core::register::seal::{
    DeletionDecision, Remains, RowFate, SealFate, Seals, SetAnswers, UnsettledRemains, decide_deletion,
    row_fate, seal_fate,
};
use sherd_core::register::{Answerer, RowHead};

use sherd_models::search::Model;

const VOLUMES_MAX: usize = 5;
const GATEWAYS_MAX: usize = 2;
const PUT: u8 = 1;
const DELETE: u8 = 2;
/// Added to a write's ballot that was refused by a floor: the floor itself is as high.
const ABOVE_FLOOR: u8 = 4;

/// A rule taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Without {
    Nothing,
    /// Every try uses one deletion id.
    FreshId,
    /// P sealed volumes are enough.
    AcceptQuorum,
    /// A volume holds one deletion's seal, the last.
    SideBySide,
    /// A volume may be listed before its seal.
    ListAfterSeal,
    /// Other volumes than the sealed ones may be listed.
    ListTheSealed,
    /// Seals are removed before the register is active again.
    ActiveFirst,
    /// An undone deletion removes every seal.
    OnlyItsOwn,
    /// Upkeep reads the register before it looks for seals.
    ReadAfterSeen,
    /// Upkeep removes seals of buckets that the register does not name.
    NamesBucket,
    /// Unsettled rows count as gone.
    Unsettled,
    /// A key is live when one volume shows it.
    EnoughShowIt,
    /// P empty volumes are enough beside others that are not.
    EmptyAccept,
    /// A tombstone that P volumes accepted is gone.
    AcceptedByA,
    /// Copies count as accepted.
    Copies,
    /// A list that was cut is taken for all.
    Complete,
    /// Seals of lost lives count.
    OldLives,
    /// A recovering volume does not adopt seals.
    AdoptSeals,
}

/// A configuration.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each switches on one thing that may happen")]
pub(crate) struct Bucket {
    pub(crate) without: Without,
    pub(crate) volumes: usize,
    pub(crate) gateways: usize,
    /// Tries of each gateway.
    pub(crate) tries: u8,
    pub(crate) deletes: bool,
    pub(crate) upkeep: bool,
    pub(crate) loses: bool,
    pub(crate) recreates: bool,
    /// Lists may end before they come to the key.
    pub(crate) cuts: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Register {
    #[default]
    Active,
    Deleting(u8),
    Deleted,
    Another,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Phase {
    #[default]
    Idle,
    Sealing,
    Ending,
    Undoing,
}

/// Answer of a volume to a gateway or a writer: the stage, and the life that it was in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub(crate) struct Slot {
    sealed: u8,
    listed: u8,
    /// The first volume's life by its answers.
    knew_sealed: u8,
    knew_listed: u8,
    live: bool,
    /// The ballot of an unsettled row, and whether the volume accepted it.
    unsettled: u8,
    accepted: bool,
    is_cut: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Gateway {
    phase: Phase,
    deletion: u8,
    tries: u8,
    /// The ghost: the object had been deleted when it began.
    is_emptied: bool,
    slots: [Slot; VOLUMES_MAX],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub(crate) struct Volume {
    /// Deletions that hold a seal, one bit each.
    seals: u8,
    /// Seals that were delivered: each once.
    delivered: u8,
    row: u8,
    committed: bool,
    life: u8,
    /// The first volume's life that it has recorded.
    knows: u8,
    /// The volume was lost, or a voter of the one that was: its floor is above every ballot until then, and
    /// below later ones.
    has_floor: bool,
    /// The row was accepted above that floor.
    is_above: bool,
    /// The ghost: which accepts it ever took.
    accepted: u8,
    /// In which life it answered each write, and the first volume's life that it had recorded then.
    answers: [(u8, u8); 3],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct State {
    register: Register,
    volumes: [Volume; VOLUMES_MAX],
    gateways: [Gateway; GATEWAYS_MAX],
    begun: u8,
    undone: u8,
    acked: u8,
    lost: bool,
    /// Upkeep: the volume and deletion whose seal it saw plus one, and what the register said.
    seen: (u8, u8),
    read: Option<Register>,
    removed: bool,
    /// A client got the answer that a bucket holds keys, which had been deleted.
    denied: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Begin { gateway: u8, deletion: u8 },
    Join { gateway: u8, deletion: u8 },
    Seal { deletion: u8, at: u8 },
    List { gateway: u8, at: u8 },
    Cut { gateway: u8, at: u8 },
    Decide { gateway: u8 },
    Undo { gateway: u8 },
    Cas { gateway: u8 },
    Unseal { deletion: u8, at: u8 },
    Accept { write: u8, at: u8 },
    Ack { write: u8 },
    Hint { at: u8 },
    Lose { voters: u8 },
    See { at: u8, deletion: u8 },
    Read,
    Remove { deletion: u8, at: u8 },
    Recreate,
}

const NAME: BucketId = BucketId([7; 16]);

fn deletion(number: u8) -> ChangeId {
    ChangeId { made: Timestamp::from_ms(u64::from(number)), proposer: ProposerId(0) }
}

fn key() -> ObjectKey {
    ObjectKey::new("a".to_owned()).expect("a key")
}

fn volume(at: usize) -> VolumeId {
    VolumeId([small(at); 16])
}

fn small(at: usize) -> u8 {
    u8::try_from(at).expect("few")
}

/// A volume's seals as production holds them.
fn held(mask: u8) -> Seals {
    (0..8).filter(|bit| mask & 1 << bit != 0).fold(Seals::Open, |seals, bit| seals.sealed(deletion(bit)))
}

fn mask(seals: &Seals) -> u8 {
    let Seals::Held(deletions) = seals else { return 0 };
    deletions.iter().map(|held| 1_u8 << held.made.as_ms()).sum()
}

fn ballot(number: u8) -> Ballot {
    Ballot { time: Timestamp::from_ms(u64::from(number)), proposer: ProposerId(0) }
}

fn row(volume: &Volume) -> Option<RowHead> {
    let ballot = ballot(volume.row);
    (volume.row > 0).then_some(RowHead { ballot, digest: [0; 32], committed: volume.committed })
}

impl Bucket {
    fn columns(&self) -> std::ops::Range<usize> {
        0..self.volumes
    }

    fn quorums(&self) -> Quorums {
        Quorums::of(self.volumes)
    }

    /// An answer of a life; the first volume's later life if the answerer has recorded it.
    fn reply<T>(&self, at: usize, life: u8, knew: u8, asked: u32, value: T) -> Reply<T> {
        let knows_more = knew > 1 && at != 0 && self.without != Without::OldLives;
        let peers: Arc<[_]> =
            if knows_more { [(volume(0), Life(u32::from(knew)))].into() } else { Arc::default() };
        let life = if self.without == Without::OldLives { 1 } else { life };
        let from = Answerer {
            life: Life(u32::from(life)),
            votes: true,
            peers,
            opening: OpeningId::NONE,
            durable: Sequence(0),
        };
        Reply { volume: volume(at), from, order: Order { asked, arrived: asked + 1 }, result: Ok(value) }
    }

    fn gateway_steps(&self, state: &State, gateway: usize, out: &mut Vec<(Step, State)>) {
        let me = &state.gateways[gateway];
        let name = small(gateway);
        match me.phase {
            Phase::Idle if me.tries < self.tries => {
                let begins = state.register == Register::Active;
                let fresh = if self.without == Without::FreshId {
                    0
                } else {
                    small(state.begun.count_ones() as usize)
                };
                if begins && fresh < 8 {
                    let mut after = *state;
                    after.register = Register::Deleting(fresh);
                    after.begun |= 1 << fresh;
                    sealing(&mut after, gateway, fresh);
                    out.push((Step::Begin { gateway: name, deletion: fresh }, after));
                }
                if let Register::Deleting(deletion) = state.register {
                    let mut after = *state;
                    sealing(&mut after, gateway, deletion);
                    out.push((Step::Join { gateway: name, deletion }, after));
                }
            }
            Phase::Idle => {}
            Phase::Sealing => {
                self.list_steps(state, gateway, out);
                self.decide_steps(state, gateway, out);
            }
            Phase::Ending | Phase::Undoing => {
                let mut after = *state;
                let holds = state.register == Register::Deleting(me.deletion);
                if holds && me.phase == Phase::Ending {
                    after.register = Register::Deleted;
                } else if holds {
                    after.register = Register::Active;
                    after.undone |= 1 << me.deletion;
                }
                after.gateways[gateway] = Gateway { tries: me.tries, ..Gateway::default() };
                out.push((Step::Cas { gateway: name }, after));
            }
        }
    }

    fn list_steps(&self, state: &State, gateway: usize, out: &mut Vec<(Step, State)>) {
        let slots = &state.gateways[gateway].slots;
        let enough = slots.iter().filter(|slot| slot.sealed > 0).count() >= self.quorums().accept();
        for at in self.columns() {
            let (slot, volume) = (&slots[at], &state.volumes[at]);
            let may = match self.without {
                Without::ListAfterSeal => true,
                Without::ListTheSealed => slot.sealed > 0 || enough,
                _ => slot.sealed > 0,
            };
            if slot.listed > 0 || !may {
                continue;
            }
            let mut after = *state;
            let slot = &mut after.gateways[gateway].slots[at];
            (slot.listed, slot.knew_listed) = (volume.life, volume.knows);
            if self.cuts {
                let mut cut = after;
                cut.gateways[gateway].slots[at].is_cut = true;
                out.push((Step::Cut { gateway: small(gateway), at: small(at) }, cut));
            }
            let slot = &mut after.gateways[gateway].slots[at];
            if let Some(head) = row(volume) {
                match row_fate(volume.committed, volume.row == DELETE) {
                    RowFate::Gone => {}
                    RowFate::Live => slot.live = true,
                    RowFate::Unsettled if self.without == Without::Unsettled => slot.live = volume.row == PUT,
                    RowFate::Unsettled => {
                        let above = if volume.is_above { ABOVE_FLOOR } else { 0 };
                        let floored = volume.has_floor && self.without != Without::Copies;
                        let floor = ballot(if floored { ABOVE_FLOOR } else { 0 });
                        let head = RowHead { ballot: ballot(volume.row + above), ..head };
                        (slot.unsettled, slot.accepted) = (volume.row + above, head.is_accepted(floor));
                    }
                }
            }
            out.push((Step::List { gateway: small(gateway), at: small(at) }, after));
        }
    }

    fn decide_steps(&self, state: &State, gateway: usize, out: &mut Vec<(Step, State)>) {
        let slots = &state.gateways[gateway].slots;
        let mut seals = Vec::new();
        let mut remains = Vec::new();
        for at in self.columns() {
            let slot = &slots[at];
            // Where any listed volume counts, it is passed off as a sealed one.
            let any = self.without == Without::ListTheSealed && slot.sealed == 0;
            let sealed = if any { slot.listed } else { slot.sealed };
            if sealed > 0 {
                seals.push(self.reply(at, sealed, slot.knew_sealed, 0, ()));
            }
            if slot.listed > 0 {
                let unsettled = (slot.unsettled > 0).then(|| UnsettledRemains {
                    key: key(),
                    ballot: ballot(slot.unsettled),
                    is_tombstone: slot.unsettled % ABOVE_FLOOR == DELETE,
                    is_accepted: slot.accepted,
                });
                let value = Remains {
                    live: if slot.live { vec![key()] } else { Vec::new() },
                    unsettled: unsettled.into_iter().collect(),
                    is_complete: !slot.is_cut || self.without == Without::Complete,
                };
                remains.push(self.reply(at, slot.listed, slot.knew_listed, 1, value));
            }
        }
        let quorums = if self.without == Without::AcceptQuorum {
            Quorums::of(2 * self.quorums().prepare() - 1)
        } else {
            self.quorums()
        };
        let answers = SetAnswers { quorums, seals: &seals, remains: &remains };
        let mut after = *state;
        let mut decision = decide_deletion(&[answers], &Lives::default());
        let is_empty = |slot: &&Slot| {
            slot.sealed > 0 && slot.listed > 0 && !slot.live && slot.unsettled == 0 && !slot.is_cut
        };
        let empty_count = slots.iter().filter(is_empty).count();
        let deleted =
            |slot: &&Slot| slot.sealed > 0 && slot.listed > 0 && slot.unsettled % ABOVE_FLOOR == DELETE;
        let deleted_count = slots.iter().filter(|slot| deleted(slot) && slot.accepted).count();
        let gone_count = empty_count + slots.iter().filter(deleted).count();
        let shown = slots.iter().any(|slot| slot.sealed > 0 && slot.listed > 0 && slot.live);
        let enough = remains.len() >= self.quorums().accept();
        match self.without {
            Without::EnoughShowIt if shown => decision = DeletionDecision::NotEmpty,
            Without::EmptyAccept if enough && empty_count >= self.quorums().prepare() => {
                decision = DeletionDecision::End;
            }
            Without::AcceptedByA
                if gone_count >= self.quorums().accept() && deleted_count >= self.quorums().prepare() =>
            {
                decision = DeletionDecision::End;
            }
            _ => {}
        }
        after.denied |= decision == DeletionDecision::NotEmpty && state.gateways[gateway].is_emptied;
        if decision == DeletionDecision::End {
            after.gateways[gateway].phase = Phase::Ending;
            out.push((Step::Decide { gateway: small(gateway) }, after));
            return;
        }
        // Not empty, unsettled, too few yet or for ever: all of these may undo it.
        after.gateways[gateway].phase = Phase::Undoing;
        if self.without == Without::ActiveFirst {
            after.undone |= 1 << after.gateways[gateway].deletion;
        }
        out.push((Step::Undo { gateway: small(gateway) }, after));
    }

    /// Requests to seal and to unseal travel for as long as they like.
    fn seal_steps(&self, state: &State, out: &mut Vec<(Step, State)>) {
        for (bit, at) in (0..8).flat_map(|bit| self.columns().map(move |at| (bit, at))) {
            let holder = &state.volumes[at];
            let waits = |gateway: &&Gateway| {
                gateway.phase == Phase::Sealing && gateway.deletion == bit && gateway.slots[at].sealed == 0
            };
            let awaited = state.gateways.iter().any(|gateway| waits(&gateway));
            let travels = state.begun & 1 << bit != 0 && (holder.delivered & 1 << bit == 0 || awaited);
            if travels {
                let mut after = *state;
                let changed = &mut after.volumes[at];
                let before =
                    if self.without == Without::SideBySide { Seals::Open } else { held(changed.seals) };
                changed.seals = mask(&before.sealed(deletion(bit)));
                changed.delivered |= 1 << bit;
                for gateway in &mut after.gateways {
                    if waits(&&*gateway) {
                        let slot = &mut gateway.slots[at];
                        (slot.sealed, slot.knew_sealed) = (holder.life, holder.knows);
                    }
                }
                out.push((Step::Seal { deletion: bit, at: small(at) }, after));
            }
            if state.undone & 1 << bit != 0 && holder.seals & 1 << bit != 0 {
                let mut after = *state;
                let all = self.without == Without::OnlyItsOwn;
                after.volumes[at].seals =
                    if all { 0 } else { mask(&held(holder.seals).unsealed(deletion(bit))) };
                out.push((Step::Unseal { deletion: bit, at: small(at) }, after));
            }
        }
    }

    fn write_steps(&self, state: &State, out: &mut Vec<(Step, State)>) {
        for write in [PUT, DELETE] {
            let started = write == PUT || (self.deletes && state.acked & 1 << PUT != 0);
            if !started || state.acked & 1 << write != 0 {
                continue;
            }
            for at in self.columns() {
                let column = &state.volumes[at];
                let head = row(column);
                let key = KeyState {
                    row: head.as_ref(),
                    sealed: held(column.seals).is_sealed(),
                    ..KeyState::default()
                };
                // The ballot of a writer that a floor refused is above it: here only the order of writes
                // matters.
                let verdict = judge_accept(
                    &AcceptorState::default(),
                    &key,
                    Circumstances::default(),
                    ballot(write),
                    &[],
                );
                let heard = column.answers[usize::from(write)].0 > 0;
                if verdict.is_err() || (verdict == Ok(AcceptVerdict::AlreadyStored) && heard) {
                    continue;
                }
                let mut after = *state;
                let changed = &mut after.volumes[at];
                if verdict == Ok(AcceptVerdict::Store) {
                    (changed.row, changed.committed) = (write, false);
                }
                changed.accepted |= 1 << write;
                changed.is_above = changed.has_floor;
                if !heard {
                    changed.answers[usize::from(write)] = (column.life, column.knows);
                }
                out.push((Step::Accept { write, at: small(at) }, after));
            }
            let answered = self.columns().filter(|at| state.volumes[*at].answers[usize::from(write)].0 > 0);
            let replies: Vec<_> = answered
                .map(|at| {
                    let (life, knew) = state.volumes[at].answers[usize::from(write)];
                    self.reply(at, life, knew, 0, ())
                })
                .collect();
            let lives = Lives::default();
            let asking = PrepareProgress {
                quorums: self.quorums(),
                outstanding: 0,
                now: Timestamp::ZERO,
                lives: &lives,
            };
            if after_accept(&replies, asking).outcome == AcceptOutcome::Committed {
                let mut after = *state;
                after.acked |= 1 << write;
                out.push((Step::Ack { write }, after));
            }
        }
        for at in self.columns() {
            let column = &state.volumes[at];
            if column.row > 0 && !column.committed && state.acked & 1 << column.row != 0 {
                let mut after = *state;
                after.volumes[at].committed = true;
                out.push((Step::Hint { at: small(at) }, after));
            }
        }
    }

    /// The first volume loses its state and is rebuilt from P others, in one step.
    fn loss_steps(&self, state: &State, out: &mut Vec<(Step, State)>) {
        if !self.loses || state.lost {
            return;
        }
        let quorum = self.quorums().prepare();
        for voters in (2..1_u8 << self.volumes)
            .filter(|voters| voters & 1 == 0 && voters.count_ones() as usize == quorum)
        {
            let mut after = *state;
            after.lost = true;
            let mut rebuilt = Volume { life: 2, knows: 2, ..state.volumes[0] };
            (rebuilt.seals, rebuilt.row, rebuilt.committed) = (0, 0, false);
            (rebuilt.has_floor, rebuilt.is_above) = (true, false);
            for at in self.columns().filter(|at| voters & 1 << at != 0) {
                let voter = &mut after.volumes[at];
                (voter.knows, voter.has_floor) = (2, true);
                if self.without != Without::AdoptSeals {
                    rebuilt.seals = mask(&held(rebuilt.seals).merged(&held(voter.seals)));
                }
                if (voter.row, voter.committed) > (rebuilt.row, rebuilt.committed) {
                    (rebuilt.row, rebuilt.committed) = (voter.row, voter.committed);
                }
            }
            after.volumes[0] = rebuilt;
            out.push((Step::Lose { voters }, after));
        }
    }

    fn upkeep_steps(&self, state: &State, out: &mut Vec<(Step, State)>) {
        if !self.upkeep || state.removed {
            return;
        }
        let early = self.without == Without::ReadAfterSeen;
        if state.read.is_none() && (early || state.seen != (0, 0)) {
            let mut after = *state;
            after.read = Some(state.register);
            out.push((Step::Read, after));
        }
        for (bit, at) in (0..8).flat_map(|bit| self.columns().map(move |at| (bit, at))) {
            let holds = state.volumes[at].seals & 1 << bit != 0;
            if holds && state.seen == (0, 0) && (!early || state.read.is_some()) {
                let mut after = *state;
                after.seen = (small(at) + 1, bit);
                out.push((Step::See { at: small(at), deletion: bit }, after));
            }
        }
        let (Some(read), (seen_at @ 1.., bit)) = (state.read, state.seen) else { return };
        let register = match read {
            Register::Active => Some((NAME, BucketPhase::Active)),
            Register::Deleting(current) => {
                Some((NAME, BucketPhase::Deleting { deletion: deletion(current) }))
            }
            Register::Deleted => Some((NAME, BucketPhase::Deleted)),
            Register::Another if self.without == Without::NamesBucket => Some((NAME, BucketPhase::Active)),
            Register::Another => Some((BucketId([8; 16]), BucketPhase::Active)),
        };
        if seal_fate(NAME, deletion(bit), register, true) == SealFate::Remove {
            let mut after = *state;
            let changed = &mut after.volumes[usize::from(seen_at) - 1];
            changed.seals = mask(&held(changed.seals).unsealed(deletion(bit)));
            after.removed = true;
            out.push((Step::Remove { deletion: bit, at: seen_at - 1 }, after));
        }
    }
}

impl Bucket {
    /// Sorts the volumes that are never lost, together with all that is known of each.
    fn canonical(&self, state: &mut State) {
        let known = |state: &State, at: usize| {
            let [first, second] = state.gateways.map(|gateway| gateway.slots[at]);
            (state.volumes[at], first, second, usize::from(state.seen.0) == at + 1)
        };
        let first = usize::from(self.loses);
        for end in (first + 1..self.volumes).rev() {
            for at in first..end {
                if known(state, at) <= known(state, at + 1) {
                    continue;
                }
                state.volumes.swap(at, at + 1);
                state.gateways.iter_mut().for_each(|gateway| gateway.slots.swap(at, at + 1));
                match usize::from(state.seen.0) {
                    seen if seen == at + 1 => state.seen.0 += 1,
                    seen if seen == at + 2 => state.seen.0 -= 1,
                    _ => {}
                }
            }
        }
    }
}

/// A gateway begins to work on a deletion.
fn sealing(state: &mut State, gateway: usize, deletion: u8) {
    let tries = state.gateways[gateway].tries + 1;
    let is_emptied = state.acked & 1 << DELETE != 0;
    state.gateways[gateway] =
        Gateway { phase: Phase::Sealing, deletion, tries, is_emptied, ..Gateway::default() };
}

impl Model for Bucket {
    type State = State;
    type Step = Step;

    fn start(&self) -> State {
        let mut state = State::default();
        state.volumes.iter_mut().for_each(|volume| (volume.life, volume.knows) = (1, 1));
        state
    }

    fn steps(&self, state: &State, out: &mut Vec<(Step, State)>) {
        for gateway in 0..self.gateways {
            self.gateway_steps(state, gateway, out);
        }
        self.seal_steps(state, out);
        self.write_steps(state, out);
        self.loss_steps(state, out);
        self.upkeep_steps(state, out);
        if self.recreates && state.register == Register::Deleted {
            out.push((Step::Recreate, State { register: Register::Another, ..*state }));
        }
        for (_, after) in out {
            self.canonical(after);
        }
    }

    fn violation(&self, state: &State) -> Option<String> {
        if state.denied {
            return Some("a bucket is said to hold what was deleted".to_owned());
        }
        let gone = matches!(state.register, Register::Deleted | Register::Another);
        let removed = self.columns().filter(|at| state.volumes[*at].accepted & 1 << DELETE != 0).count();
        let live = state.acked & 1 << PUT != 0 && removed < self.quorums().accept();
        (gone && live).then(|| "a deleted bucket has a live object".to_owned())
    }
}
